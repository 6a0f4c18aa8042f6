"""Shell completion of names of passes, pipelines and operators."""

from __future__ import annotations

import re

import click


def complete_pipeline(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names that can follow an incomplete pipeline."""
    typed = re.split(r"(?<=[,(])", incomplete)
    before, last = "".join(typed[:-1]), typed[-1]
    return [before + name for name in pass_names() if name.startswith(last)]


def complete_pass(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in pass_names() if name.startswith(incomplete)]


def complete_op(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from fxc.tools.op_help import known_ops

    names = known_ops() if incomplete.startswith("torch.") else [name.removeprefix("torch.") for name in known_ops()]
    return [name for name in names if name.startswith(incomplete)]


def pass_names() -> list[str]:
    from fxc.driver.registry import PassRegistry
    from fxc.pipelines import NAMED

    return [*PassRegistry().names(), *NAMED]
