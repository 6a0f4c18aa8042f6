"""Process one input of ``fxc-opt``: split, parse, run the pipeline, emit. Independent of command line and process state."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from xdsl.utils.exceptions import ParseError as XdslParseError

from fxc.dialects.context import FxcContext
from fxc.dialects.target import PRESETS, TargetAttr, set_target
from fxc.driver import reproducer
from fxc.driver.instrumentation import Instrumentation
from fxc.driver.registry import PassRegistry
from fxc.driver.runner import RunOptions, parse_error, run_pipeline
from fxc.driver.source_places import parse_with_places
from fxc.driver.timing import Timer
from fxc.errors import FxcError
from fxc.measure.clock import times
from fxc.pipelines import lays_out_memory, parse_pipeline
from fxc.program.program import new_context
from fxc.tools import expected_diagnostics as expected
from fxc.tools.emitters import EmitOptions, emit

_SEPARATOR = re.compile(r"^// -----[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class DriverOptions:
    """The validated command line of ``fxc-opt``."""

    filename: str = "<stdin>"
    pipeline: str = ""
    target: str | None = None
    registry: PassRegistry = field(default_factory=PassRegistry)
    emit: str = "mlir"
    emit_options: EmitOptions = field(default_factory=EmitOptions)
    split_input_file: bool = False
    verify_diagnostics: bool = False
    verify_each: bool = True
    allow_unregistered_dialect: bool = False
    run_reproducer: bool = False
    crash_reproducer: Path | None = None
    inputs: tuple[Path, ...] = ()
    check_numerics: bool = False


@dataclass(frozen=True)
class DriverResult:
    """``output``: the text of all chunks, empty for a failing one. ``problems`` are complete messages."""

    output: str
    problems: tuple[str, ...]
    errors: tuple[FxcError, ...] = ()

    @property
    def failed(self) -> bool:
        return bool(self.errors or self.problems)


def drive(options: DriverOptions, text: str, timer: Timer, watchers: tuple[Instrumentation, ...] = ()) -> DriverResult:
    """Process the whole of ``text``, or each chunk separately if it is split. Each failing chunk has one error."""
    if options.check_numerics:
        require_numerics()
    if not options.run_reproducer:
        with timer.scope("load passes"):
            parse_pipeline(options.pipeline, options.registry)  # report a wrong pipeline once, not for each chunk
    chunks = _chunks(text) if options.split_input_file else [text]
    outputs: list[str] = []
    errors: list[FxcError] = []
    problems: list[str] = []
    for number, chunk in enumerate(chunks, 1):
        output, said = "", list[expected.Diagnostic]()
        try:
            numbered = replace(options, crash_reproducer=_numbered(options, number))
            output = _one_chunk(numbered, chunk, timer, watchers)
        except RecursionError:
            errors.append(
                FxcError(
                    "the text is nested too deeply", place=options.filename, hint="move inner regions to separate functions"
                )
            )
        except FxcError as error:
            said = expected.diagnostics_of(error, options.filename)
            errors.append(error)
        outputs.append(output)
        if options.verify_diagnostics:
            problems += expected.mismatches(chunk, said, options.filename)
    if options.verify_diagnostics:
        errors = []
    return DriverResult("// -----\n".join(outputs), tuple(problems), tuple(errors))


def _one_chunk(options: DriverOptions, text: str, timer: Timer, watchers: tuple[Instrumentation, ...]) -> str:
    replay, text = reproducer.split(text)
    if options.run_reproducer:
        if replay is None:
            raise FxcError(f"{options.filename} is not a reproducer", hint="leave out --run-reproducer")
        options = replace(
            options,
            pipeline=replay.pipeline,
            verify_each=replay.verify_each,
            allow_unregistered_dialect=replay.allow_unregistered_dialect,
        )
    context = new_context()
    context.allow_unregistered, context.times = options.allow_unregistered_dialect, times
    with timer.scope("parse"):
        try:
            module, places = parse_with_places(context, text, options.filename)
        except XdslParseError as error:
            raise parse_error(error) from error
    if options.target is not None:
        set_target(module, machine(options.target))
    if options.check_numerics:
        watchers = (*watchers, require_numerics()(context))
    pipeline = parse_pipeline(options.pipeline, options.registry)
    run_options = RunOptions(
        verify_each=options.verify_each,
        instrumentations=watchers,
        crash_reproducer=options.crash_reproducer,
        inputs=options.inputs,
        timer=timer,
        place_of=places.place_of,
        check_types=lays_out_memory(pipeline),
    )
    with timer.scope("pipeline"):
        run_pipeline(context, module, pipeline, run_options)
    with timer.scope("emit"):
        return emit(options.emit, module, options.emit_options)


def machine(name: str) -> TargetAttr:
    """The target called ``name``. Imports torch for the present machine, ``host`` or ``cuda``, and for an unknown name."""
    if name in PRESETS:
        return PRESETS[name]
    from fxc.codegen.contract import target_named

    return target_named(name)


def require_numerics() -> Callable[[FxcContext], Instrumentation]:
    """The factory of the ``--check-numerics`` instrumentation. Imports torch, so it is called on demand only."""
    try:
        return importlib.import_module("fxc.numerics.check_numerics").instrumentation
    except ImportError as error:
        raise FxcError(f"--check-numerics is not available: {error}", hint="it needs PyTorch") from error


def _chunks(text: str) -> list[str]:
    """The chunks of ``text``, padded with empty lines so that line numbers are those of the file."""
    chunks, line = list[str](), 0
    for part in _SEPARATOR.split(text):
        chunks.append("\n" * line + part)
        line += part.count("\n")
    return chunks


def _numbered(options: DriverOptions, number: int) -> Path | None:
    """The reproducer path of chunk ``number``: the given file for the first, numbered files beside it for the others."""
    path = options.crash_reproducer
    return path if path is None or number == 1 else path.with_name(f"{path.stem}.{number}{path.suffix}")
