"""Load programs from the IR files of command lines, and run passes on them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fxc.errors import WeightsError
from fxc.program.weights import load_state
from fxc.tools.command_line import progress, read_text
from fxc.tools.sources import allowed, import_source, running

if TYPE_CHECKING:
    from fxc.program.program import Program


def allow_options(function: Any) -> Any:
    """The options that extend the allow-list of a file."""
    allow = click.option(
        "--allow",
        multiple=True,
        metavar="MODULE:NAME",
        help="Allow the file to call this function or class.",
    )
    packages = click.option(
        "--import",
        "packages",
        multiple=True,
        metavar="PACKAGE",
        help="Import this package first, to register its operators.",
    )
    return packages(allow(function))


def load_program(
    file: str,
    *,
    allow: Sequence[str] = (),
    packages: Sequence[str] = (),
    pipeline: str = "",
    check_numerics: bool = False,
    need_weights: bool = True,
) -> Program:
    """The program of an IR file after ``pipeline``, with the weights file beside it if needed."""
    from fxc.driver.runner import read_module
    from fxc.program.program import new_context

    text, shown = read_text(file), "<stdin>" if file == "-" else file
    with progress(f"reading {file}"):
        for package in packages:
            with running(package):
                import_source(package)
        live = allowed(tuple(allow))
        importlib.import_module("torch")
        from fxc.program.program import Program, state_names, weights_beside

        context = new_context(live)
        module = read_module(context, text, shown)
        program = Program(module, {}, live, context)
        names = state_names(module) if need_weights else []
        weights = weights_beside(Path(file))
        if names and (file == "-" or not weights.exists()):
            missing = "stdin has no weights" if file == "-" else f"{weights.name} is missing"
            raise WeightsError(
                f"{shown} names {len(names)} tensors, but {missing}",
                hint="`fxc import` writes both files; keep them side by side, or generate values with --lifted",
            )
        program.state.update(load_state(weights, names) if names else {})
    if pipeline or check_numerics:
        with progress("running passes"):
            run_on(program, pipeline, check_numerics)
    return program


def run_on(program: Program, pipeline: str, check_numerics: bool = False) -> None:
    """Run passes on ``program`` in place."""
    from fxc.api import run_options
    from fxc.compilation.passes import Passes

    Passes(pipeline, run_options({"check_numerics": True} if check_numerics else None)).run(program)
