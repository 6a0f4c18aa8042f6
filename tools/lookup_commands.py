"""``fxc passes`` and ``fxc ops``: explain passes and ops. Neither loads PyTorch."""

from __future__ import annotations

import inspect
import sys

import click

from fxc.errors import InputError, nearest
from fxc.tools.command_line import complete_op, complete_pass, pass_names


@click.command("passes")
@click.argument("name", required=False, shell_complete=complete_pass)
def passes_command(name: str | None) -> None:
    """List the passes and named pipelines, or explain one.

    \b
    Examples:
      fxc passes
      fxc passes constant-propagation       what it assumes and ensures, its options, an example
      fxc passes simplify                   the passes of a pipeline
    """
    from fxc.driver.registry import PassRegistry
    from fxc.tools.list_passes import listing

    print(listing(PassRegistry()) if name is None else pass_help(name))


def pass_help(name: str) -> str:
    """The contract of a pass, its options, and its example. InputError with the nearest names where there is none."""
    from fxc.driver.pass_options import option_help
    from fxc.driver.registry import PassRegistry
    from fxc.pipelines import NAMED

    if name in NAMED:
        pipeline = NAMED[name]
        options = "\n".join(f"    {option}" for option in pipeline.option_names() or ["none"])
        return f"{name}: a pipeline of {len(pipeline)} steps\n\n  {pipeline}\n\nOptions:\n{options}"
    registry = PassRegistry()
    if name not in registry:
        raise InputError(f"there is no pass {name}", hint=nearest(name, pass_names()) or "fxc passes lists them")
    cls = registry.get(name)
    doc = f"{name}: " + (inspect.getdoc(sys.modules[cls.__module__]) or "no documentation").strip()
    contract, before, example = doc.partition("\nBefore:")
    options = option_help(cls)
    lines = [contract.rstrip(), "", "Options:", *(f"    {option}" for option in options or ["none"])]
    lines += ["", (before + example).strip("\n")] if before else []
    lines += ["", f"Run it: fxc-opt model.mlir -p {name}"]
    return "\n".join(lines)


@click.command("ops")
@click.argument("name", required=False, shell_complete=complete_op)
def ops_command(name: str | None) -> None:
    """List the dialects, or explain an op.

    A name may be an op, an operator of PyTorch with or without its overload, or a prefix.

    \b
    Examples:
      fxc ops
      fxc ops aten.add.Tensor           schema, flags, views and writes
      fxc ops aten::add                 the overloads of an operator
      fxc ops fx.call_module            an operation of an fxc dialect
      fxc ops torch.aten | grep view
    """
    from fxc.tools.op_help import help_of, known_ops, matches, one_line, overview

    if name is None:
        print(overview(), end="")
        return
    found = matches(name)
    if not found:
        short = [known.removeprefix("torch.").removesuffix(".default") for known in known_ops()]
        hint = nearest(name.replace("::", ".").removeprefix("torch."), short) or "fxc ops lists the dialects"
        raise InputError(f"there is no op {name}", hint=hint)
    print(help_of(found[0]) if len(found) == 1 else "\n".join(map(one_line, found)) + "\n", end="")
