"""``fxc report``: summarize an IR file, or write a page about a compilation."""

from __future__ import annotations

from pathlib import Path

import click

from fxc.tools.capture_commands import SOURCE_HELP, capture_options
from fxc.tools.command_line import progress, read_text, say, write_output
from fxc.tools.compile_command import pipeline_options

HELP = f"""Summarize an IR file, or write a page about a compilation.

\b
Without --html, SOURCE is an IR file: prints its functions, inputs and results, parameters, symbols, and ops by kind. Reads
the text only.
With --html, SOURCE is an IR file or as below: compiles it, and writes one page that works offline: the passes with what each
changed, the kernels beside the lines of the model, calls of ATen and why, memory, and the graph.
{SOURCE_HELP}
\b
Examples:
  fxc report mlp.mlir
  fxc-opt mlp.mlir -p simplify | fxc report -
  fxc report examples/models/gpt2.py:small --html report.html
  fxc report mlp.mlir --html report.html --target=cuda:sm_90
"""


@click.command("report", help=HELP)
@capture_options
@click.option("--html", "page", metavar="FILE", type=click.Path(dir_okay=False), help="Compile, and write a page to this file.")
@pipeline_options
def report_command(
    source: str,
    route: str,
    dynamic_shapes: tuple[str, ...],
    train: bool,
    page: str | None,
    pipeline: str | None,
    target: str | None,
) -> None:
    if page is None:
        if dynamic_shapes or train or pipeline or target:
            raise click.UsageError("options of a compilation need --html FILE")
        if Path(source.partition(":")[0]).suffix in (".py", ".pt2"):
            raise click.UsageError(f"{source} is no IR file: compile it with --html FILE, or write IR with fxc import")
        text = read_text(source)
        with progress(f"reading {source}"):
            from fxc.tools.report import report

            summary = report(text, "<stdin>" if source == "-" else source)
        write_output(None, summary)
        return
    with progress("loading PyTorch"):
        from fxc.tools.compile_program import Request
        from fxc.tools.report_page import report_page

    report_page(Request(source, route, dynamic_shapes, train, pipeline, target), Path(page))
    if page != "-":
        say(f"wrote {page}")
