"""``fxc run``: run an IR file on the reference interpreter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fxc.errors import InputError, nearest, nearest_file
from fxc.program.weights import load_state, save_state
from fxc.tools.command_line import check_writable, complete_pipeline, progress, say, writing
from fxc.tools.compare import compare_with_source, inputs_of_source
from fxc.tools.sources import allow_options, load_program, load_source

if TYPE_CHECKING:
    from fxc.program.execute import RunResult
    from fxc.program.program import Program


@click.command("run")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--inputs", metavar="FILE.safetensors", type=click.Path(dir_okay=False), help="Read the inputs, by name.")
@click.option(
    "--seed",
    type=click.IntRange(-(2**63), 2**64 - 1),
    help="Generate inputs of the arguments' types from this seed.  [default: 0]",
)
@click.option("--compare", metavar="SOURCE", help="Also run this model, a SOURCE as for `fxc import`, in PyTorch, and compare.")
@click.option("-p", "--pipeline", default="", metavar="TEXT", shell_complete=complete_pipeline, help="Passes to run first.")
@click.option("--check-numerics", is_flag=True, help="Run the program before and after every pass and compare the numbers.")
@click.option("--lifted", is_flag=True, help="Generate the weights, too, instead of reading them. Results are a flat list.")
@click.option("--train/--eval", default=False, help="Mode of the model that --compare runs.  [default: eval]")
@click.option("-o", "output", metavar="OUT.safetensors", type=click.Path(dir_okay=False), help="Write the results here.")
@allow_options
@click.pass_context
def run_command(
    context: click.Context,
    file: str,
    inputs: str | None,
    seed: int | None,
    compare: str | None,
    pipeline: str,
    check_numerics: bool,
    lifted: bool,
    train: bool,
    output: str | None,
    packages: tuple[str, ...],
    allow: tuple[str, ...],
) -> None:
    """Run an IR file on the reference interpreter. Prints what it returns.

    The weights are read from the file beside FILE. Inputs are read, or generated: floats are normally distributed, integers
    are 0 or 1; with --compare they are the example inputs of the model, unless --inputs or --seed is given. Only OUT is
    written. A file may call PyTorch's operators and a fixed list of functions; --allow and --import allow more.

    \b
    Examples:
      fxc run mlp.mlir
      fxc run mlp.mlir --seed 1 -o results.safetensors
      fxc run mlp.mlir --compare examples/models/mlp.py:small -p lower-to-torch,simplify
      fxc run graph.mlir --allow mypackage.ops:gelu_fast --import mypackage.register_ops
    """
    if inputs is not None and seed is not None:
        raise click.UsageError("--inputs and --seed exclude each other")
    if compare and lifted:
        raise click.UsageError("--compare needs the weights; leave out --lifted")
    check_writable(output)
    with progress("loading PyTorch"):
        from fxc.program.execute import execute, seeded_inputs, seeded_state

    program = load_program(
        file,
        allow=allow,
        packages=packages,
        pipeline=pipeline,
        check_numerics=check_numerics,
        need_weights=not lifted,
    )
    if lifted:
        program.state = seeded_state(program, seed or 0)
    source = None
    if compare is not None:
        with progress(f"loading {compare}"):
            source = load_source(compare, train=train)
    if inputs is not None:
        values = read_inputs(program, Path(inputs))
    elif source is not None and seed is None:
        values = inputs_of_source(program, source)
    else:
        values = list(seeded_inputs(program, seed or 0).values())
    with progress(f"running {file}"):
        outcome = execute(program, values, lifted=lifted, seed=seed or 0)
    if output is not None:
        write_results(outcome, Path(output))
    for line in summary(outcome):
        print(line)
    if source is not None:
        with progress(f"running {compare}"):
            verdict = compare_with_source(program, source, values, outcome, seed or 0)
        print(verdict)
        context.exit(0 if verdict.is_close else 1)


def read_inputs(program: Program, path: Path) -> list[Any]:
    """The runtime inputs by name, from a safetensors file; a number is a tensor without dimensions."""
    from safetensors import SafetensorError, safe_open
    from xdsl.dialects.builtin import TensorType

    from fxc.program.execute import arguments

    wanted = [argument for argument in arguments(program) if not argument.is_state]
    try:
        with cast(Any, safe_open(path, "pt")) as file:
            names: list[str] = list(file.keys())
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read {path}: {error}", hint=nearest_file(path)) from error
    for argument in wanted:
        if argument.name not in names:
            hint = nearest(argument.name, names) or f"it has {', '.join(names) or 'nothing'}"
            raise InputError(f"{path} has no tensor for the input {argument.name!r}", hint=hint)
    state = load_state(path, [argument.name for argument in wanted])
    return [state[a.name] if isinstance(a.type, TensorType) or state[a.name].dim() else state[a.name].item() for a in wanted]


def results_by_name(outcome: RunResult) -> dict[str, Any]:
    """``result``, ``result[0]``, ``result['logits']`` -> each leaf of the result."""
    from torch.utils._pytree import keystr, tree_flatten_with_path

    leaves, _ = tree_flatten_with_path(outcome.value)
    return {f"result{keystr(path)}": value for path, value in leaves}


def summary(outcome: RunResult) -> list[str]:
    """For each result, a line with its type and a line with its numbers."""
    lines = list[str]()
    for name, value in results_by_name(outcome).items():
        lines += _shown(name, value)
    for name, value in outcome.written.items():
        lines += _shown(f"new value of {name}", value)
    return lines or ["nothing is returned"]


def _shown(name: str, value: Any) -> list[str]:
    import torch

    from fxc.bridge.tensors import type_of
    from fxc.dialects.text.syntax import type_text

    if not isinstance(value, torch.Tensor):
        return [f"{name}: {value!r}"]
    shape = ", ".join(map(str, value.shape)) + ("," if value.dim() == 1 else "")
    facts = [f"shape ({shape})", f"dtype {str(value.dtype).removeprefix('torch.')}"]
    if value.numel() and value.layout is torch.strided and not value.is_quantized:
        plain = value.detach().cpu()
        if not plain.is_complex():
            wide = plain.to(torch.float64)
            mean, low, high = (_number(x, float) for x in (wide.mean(), wide.min(), wide.max()))
            facts += [f"mean {mean}", f"min {low}", f"max {high}"]
        kind = complex if plain.is_complex() else float if plain.is_floating_point() else int
        first = [_number(x, kind) for x in plain.flatten()[:6]]
        facts.append(f"first {' '.join(first)}{' ...' if plain.numel() > len(first) else ''}")
    return [f"{name}: {type_text(type_of(value))}", f"  {', '.join(facts)}"]


def _number(value: Any, kind: type) -> str:
    return format(kind(value.item()), "d" if kind is int else ".6g")


def write_results(outcome: RunResult, path: Path) -> None:
    """Write results and new values of arguments to ``path``, by name."""
    import torch

    named = {re.sub(r"\W+", "_", name).strip("_"): value for name, value in results_by_name(outcome).items()}
    tensors = {name: value for name, value in {**named, **outcome.written}.items() if isinstance(value, torch.Tensor)}
    with writing(path):
        save_state(tensors, path)
    say(f"wrote {path}: {_listed(list(tensors))}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 9 else f"{', '.join(names[:8])} and {len(names) - 8} more"
