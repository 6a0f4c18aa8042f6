"""``fxc translate``: convert an IR file to Python, a table, or a drawing."""

from __future__ import annotations

from pathlib import Path

import click

from fxc.tools.command_line import complete_pipeline, progress, read_text, say, write_output, writing
from fxc.tools.emitters import EmitOptions, emit
from fxc.tools.sources import allow_options, load_program
from fxc.tools.write_python import write_folder

FORMATS = ("fx", "dot", "svg", "table")


@click.command("translate")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--to", "format", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option("-o", "output", metavar="PATH", type=click.Path(), help="Write here, not to stdout; for fx, a folder.")
@click.option("-p", "--pipeline", default="", metavar="TEXT", shell_complete=complete_pipeline, help="Passes to run first.")
@allow_options
def translate_command(
    file: str, format: str, output: str | None, pipeline: str, packages: tuple[str, ...], allow: tuple[str, ...]
) -> None:
    """Translate an IR file to another format.

    \b
    fx      the FX graph as Python; with -o a folder to import: module.py, weights.safetensors
    table   the nodes of the FX graph, as printed by Graph.print_tabular
    dot     Graphviz text
    svg     a drawing, made without Graphviz

    \b
    Examples:
      fxc translate mlp.mlir --to=fx
      fxc translate mlp.mlir --to=fx -o mlp_python          python -c "from mlp_python import Model"
      fxc translate mlp.mlir --to=svg -o mlp.svg
      fxc translate model.mlir --to=dot -p lower-to-torch | dot -Tpdf > model.pdf
    """
    if format in ("dot", "svg"):
        text = read_text(file)
        with progress(f"drawing {file}"):
            drawing = _svg(text, file, format, pipeline)
        write_output(output, drawing)
        return
    folder = Path(output) if format == "fx" and output not in (None, "-") else None
    program = load_program(file, allow=allow, packages=packages, pipeline=pipeline, need_weights=folder is not None)
    with progress(f"translating {file}"):
        from fxc.api import to_fx
        from fxc.tools.emit_fx import python_text, table_text

        if folder is None:
            text = python_text(program) if format == "fx" else table_text(program)
        else:
            text = ""
            with writing(folder):
                write_folder(to_fx(program), folder)
    if folder is None:
        write_output(output, text)
        return
    say(f"wrote {folder / 'module.py'} and {folder / 'weights.safetensors'}")


def _svg(text: str, file: str, format: str, pipeline: str) -> str:
    """A drawing of the IR, without weights or PyTorch."""
    from fxc.driver.runner import read_module, run_pipeline
    from fxc.measure.clock import times
    from fxc.pipelines import parse_pipeline
    from fxc.program.program import new_context

    context = new_context()
    context.times = times
    module = read_module(context, text, "<stdin>" if file == "-" else file)
    run_pipeline(context, module, parse_pipeline(pipeline))
    return emit(format, module, EmitOptions())
