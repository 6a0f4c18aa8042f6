"""``fxc report``: summarize an IR file. Reads the text only, without weights or PyTorch."""

from __future__ import annotations

import click

from fxc.tools.command_line import write_output
from fxc.tools.ir_files import read_text


@click.command("report")
@click.argument("file", type=click.Path(allow_dash=True))
def report_command(file: str) -> None:
    """Summarize an IR file: functions, inputs and results, parameters, symbols, ops by kind.

    \b
    Examples:
      fxc report mlp.mlir
      fxc-opt mlp.mlir -p simplify | fxc report -
    """
    from fxc.tools.report import report

    write_output(None, report(read_text(file), "<stdin>" if file == "-" else file))
