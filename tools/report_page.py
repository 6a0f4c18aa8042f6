"""The implementation of ``fxc report --html``: capture or read a program, compile it, and write a page about that."""

from __future__ import annotations

from pathlib import Path

from fxc.api import pipeline_for, with_machine
from fxc.compilation.passes import Passes
from fxc.driver.timing import Timer
from fxc.errors import InputError
from fxc.report.page import page, write_page
from fxc.report.recording import record
from fxc.tools.capture_commands import capture_source
from fxc.tools.command_line import check_writable, progress, write_output
from fxc.tools.compile_program import Request, checked_options
from fxc.tools.sources import load_program


def report_page(request: Request, path: Path) -> None:
    """Write the page to ``path``, or to stdout for ``-``. An IR file is read as data, without weights."""
    _check(request.source, path)
    timer, (flow, options) = Timer(), checked_options(request)
    with timer.scope("capture"):
        if request.source == "-" or request.source.endswith(".mlir"):
            program = load_program(request.source, need_weights=False)
        else:
            program, _ = capture_source(request.source, request.route, request.dynamic_shapes, request.train)
    options = with_machine(options, flow, program)
    program.group_limit = options.group_limit
    with progress("compiling"):
        recording = record(program, Passes(pipeline_for(flow, options), options))
    with progress(f"writing {path}"):
        if str(path) == "-":
            write_output(None, page(request.source, recording, timer.stages()))
        else:
            write_page(path, request.source, recording, timer.stages())


def _check(source: str, path: Path) -> None:
    """InputError where a page cannot be made of ``source``, or not be written to ``path``, before the compilation."""
    if source.endswith(".zip"):
        raise InputError(f"{source} is a saved plan, which does not have the captured program", hint="name the model instead")
    if path.resolve() == Path(source.partition(":")[0]).resolve():
        raise InputError(f"{path} is the source itself", hint="give another file, as in --html report.html")
    check_writable(path)
