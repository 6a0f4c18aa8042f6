"""Run a pipeline over a module: verify after each pass, call instrumentations, convert failures to fxc's errors.

Passes raise exceptions of xDSL or of Python. ``run_pipeline`` converts each to one ``FxcError`` that names the pass, the op,
its location, and the file that replays the failure. No exception is swallowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, VerifyException
from xdsl.utils.exceptions import ParseError as XdslParseError

from fxc.dialects import known_dialects
from fxc.dialects.base.op_rules import OpRules
from fxc.dialects.context import FxcContext
from fxc.dialects.text.diagnostics import OpRefusedException, one_line, place_of
from fxc.dialects.text.syntax import print_module
from fxc.dialects.torch_ops import table
from fxc.dialects.verify.verifier import verify
from fxc.driver import reproducer
from fxc.driver.declared_types import check_types
from fxc.driver.gc_pause import collections_paused
from fxc.driver.instrumentation import Instrumentation, PassRun
from fxc.driver.isolation import Isolated, isolated
from fxc.driver.pipeline import Anchored, NamedSteps, Step, anchors, passes_in, pipeline_text
from fxc.driver.registry import load_arguments
from fxc.driver.source_places import parse_with_places
from fxc.driver.timing import Timer
from fxc.errors import (
    TORCH_COMPILE,
    CaptureError,
    FxcError,
    ParseError,
    PassError,
    PipelineError,
    VerifyError,
    nearest,
    nearest_file,
)

_UNKNOWN = re.compile(r"(?:Operation |dialect |')(\S+?)'? is not registered")
_UNDEFINED = re.compile(r"(%\S+) is not defined")
_VALUE = re.compile(r"%[\w$.-]+")
_SHAPE = "write a shape as in tensor<4x?xf32>"
_HINTS = {
    "an element type expected": _SHAPE,
    "Expected 'x' in shape delimiter": _SHAPE,
    "Operation builtin.unregistered": 'write it in generic form, as in "dialect.op"(%x) : (i32) -> i32',
}
"""What to write, by how the message starts."""
PlaceOf = Callable[[Operation], "str | None"]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    ``crash_reproducer``: written when a pass fails; never one of the ``inputs``. ``check_types``: check the types of results
    first, because they come from a text.
    """

    verify_each: bool = True
    instrumentations: tuple[Instrumentation, ...] = ()
    crash_reproducer: Path | None = None
    inputs: tuple[Path, ...] = ()
    timer: Timer = field(default_factory=Timer)
    place_of: PlaceOf = place_of
    check_types: bool = False


def run_pipeline(context: Context, module: ModuleOp, pipeline: Sequence[Step], options: RunOptions | None = None) -> None:
    """Run ``pipeline`` on ``module``, in place. Raises ``FxcError``; the failing pass may have changed the module."""
    with collections_paused():
        _Run(context, module, tuple(pipeline), options or RunOptions()).run()


def verify_module(module: ModuleOp, place_of: PlaceOf = place_of, rules: OpRules | None = None) -> None:
    """Verify ``module``. Raises ``VerifyError`` with the invalid op and its location."""
    try:
        verify(module, rules)
    except (VerifyException, ValueError) as error:
        raise VerifyError(str(error), **_op_and_place(error, place_of)) from error


def read_module(context: FxcContext, text: str, filename: str) -> ModuleOp:
    """The verified module of IR text. Raises ``ParseError`` or ``VerifyError``, with the location in ``filename``."""
    try:
        module, places = parse_with_places(context, text, filename)
    except XdslParseError as error:
        raise parse_error(error) from error
    verify_module(module, places.place_of)
    return module


def parse_error(error: XdslParseError) -> ParseError:
    """fxc's error for a parse error of xDSL: the message, the location, and the line of text."""
    location = error.span.get_location()
    content = error.span.input.content
    lines = (content if isinstance(content, str) else content.decode("utf-8", "replace")).split("\n")
    line = lines[location.line - 1].strip() if location.line <= len(lines) else ""
    message = error.msg.strip()
    if message == "Expected shape type.":
        message = "an element type expected"
    return ParseError(message, place=str(location), op=line[:160] or None, hint=_parse_hint(message, lines))


def _parse_hint(message: str, lines: Sequence[str]) -> str | None:
    """The fix of a parse error: the nearest names to a misspelt one, or what to write."""
    if (match := _UNKNOWN.fullmatch(message)) is not None:
        dialect = known_dialects().get(match[1].partition(".")[0])
        known = [] if dialect is None else [op.name for op in dialect().operations]
        known += [f"torch.{name}" for name in table()] if match[1].startswith("torch.") else []
        return nearest(match[1], known) or "fxc-opt --allow-unregistered-dialect accepts unknown names in generic form"
    if (match := _UNDEFINED.fullmatch(message)) is not None:
        return nearest(match[1], {name for line in lines for name in _VALUE.findall(line)} - {match[1]})
    return next((hint for start, hint in _HINTS.items() if message.startswith(start)), None)


class _Run:
    def __init__(self, context: Context, module: ModuleOp, pipeline: tuple[Step, ...], options: RunOptions) -> None:
        self.context, self.module, self.pipeline, self.options = context, module, pipeline, options
        self.text_before: str | None = None
        self.rules = OpRules()

    def run(self) -> None:
        options = self.options
        for name in anchors(self.pipeline):
            if self.context.get_optional_op(name) is None:
                raise PipelineError(f"passes cannot be nested in {name}: there is no such op", hint="as in func.func(cse)")
        if options.crash_reproducer is not None:
            reproducer.check_path(options.crash_reproducer, options.inputs)
            self.text_before = print_module(self.module, debuginfo=True)
        with options.timer.scope("verify input"):
            verify_module(self.module, options.place_of, self.rules)
        if options.check_types:
            assert isinstance(self.context, FxcContext)
            with options.timer.scope("check types"):
                check_types(self.context, self.module, options.place_of)
        self.steps(self.pipeline, self.module, None)
        if self.pipeline and not options.verify_each:
            with options.timer.scope("verify output"):
                verify_module(self.module, options.place_of, self.rules)

    def steps(self, steps: Sequence[Step], module: ModuleOp, inside: Isolated | None) -> None:
        for step in steps:
            if isinstance(step, NamedSteps):
                if step.needs is not None and all(op.name != step.needs for op in module.ops):
                    continue
                with self.options.timer.scope(step.name):
                    self.steps(step.steps, module, inside)
            elif isinstance(step, Anchored):
                with self.options.timer.scope(f"'{step.op_name}' Pipeline"), self.failures(None):
                    self.anchored(step, module if inside is None else inside.anchor)
                    if step.op_name != ModuleOp.name:  # passes over the module itself have verified it
                        self.verify_each(module)
            else:
                self.one_pass(step, module, inside)

    def anchored(self, step: Anchored, around: Operation) -> None:
        """Run the steps on each matching op directly in ``around``."""
        found = [op for region in around.regions for block in region.blocks for op in block.ops if op.name == step.op_name]
        for op in found:
            if isinstance(op, ModuleOp):
                self.steps(step.steps, op, None)
                continue
            with isolated(op) as inside:
                self.steps(step.steps, inside.module, inside)

    def verify_each(self, module: ModuleOp) -> None:
        if self.options.verify_each:
            with self.options.timer.scope("verify"):
                verify(module, self.rules)

    def one_pass(self, instance: ModulePass, module: ModuleOp, inside: Isolated | None) -> None:
        run = PassRun(self.context, instance, module, None if inside is None else inside.anchor)
        with self.options.timer.scope(instance.name), self.failures(instance):
            started: list[Instrumentation] = []
            try:
                for watcher in self.options.instrumentations:
                    watcher.before_pass(run)
                    started.append(watcher)
                instance.apply(self.context, module)
                if inside is not None:
                    inside.check()
                    run = PassRun(self.context, instance, module, inside.anchor)
                self.verify_each(module)
                while started:
                    started.pop().after_pass(run)
            except BaseException as error:
                for watcher in reversed(started):
                    watcher.after_failure(run, error)
                raise

    @contextmanager
    def failures(self, instance: ModulePass | None) -> Generator[None, None, None]:
        """Convert exceptions in the context to an ``FxcError``, and write the reproducer."""
        try:
            yield
        except FxcError as error:
            if instance is not None:
                error.add_note(f"in pass {instance.name}")
                if (hint := self.write_reproducer(error.message)) is not None:
                    error.add_note(hint)
            raise
        except OpRefusedException as error:
            hint = f"{error.hint}, or use {TORCH_COMPILE}"
            raise CaptureError(str(error), **_op_and_place(error, self.options.place_of), hint=hint) from error
        except (Exception, ArgSpecParseError) as error:  # ArgSpecParseError of xDSL is a BaseException
            message = _message(instance, error)
            unread = error.__cause__.filename if isinstance(error.__cause__, OSError) else None
            hint = self.write_reproducer(message) if unread is None else nearest_file(unread)
            raise PassError(message, **_op_and_place(error, self.options.place_of), hint=hint) from error

    def write_reproducer(self, message: str) -> str | None:
        path = self.options.crash_reproducer
        if path is None or self.text_before is None:
            return None
        replay = reproducer.Reproducer(pipeline_text(self.pipeline), self.options.verify_each, self.context.allow_unregistered)
        loads = load_arguments(passes_in(self.pipeline))
        try:
            reproducer.write(path, replay, self.text_before, message, self.options.inputs, loads)
        except OSError as error:  # must not hide the original failure
            return f"no reproducer could be written: {error}"
        return f"replay with: fxc-opt --run-reproducer {path}{loads}"


def _message(instance: ModulePass | None, error: BaseException) -> str:
    who = "the pipeline" if instance is None else f"pass {instance.name}"
    if isinstance(error, VerifyException):
        return f"{who} left IR that does not verify: {error}"
    if isinstance(error, XdslParseError):
        return f"{who} failed: {error.msg}"
    if isinstance(error, DiagnosticException):
        return f"{who} failed: {error}"
    return f"{who} crashed: {type(error).__name__}: {error}"


def _op_and_place(error: BaseException, place_of: PlaceOf) -> dict[str, str | None]:
    """``op`` and ``place`` of an error: of the exception in its chain that names an op, or of the innermost local variable."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    named = [getattr(each, "op", None) for each in chain]
    for frame, _ in reversed([*walk_tb(error.__traceback__)]):
        named += [frame.f_locals.get("op"), *frame.f_locals.values()]
    op = next((op for op in named if isinstance(op, Operation) and not isinstance(op, ModuleOp)), None)
    return {"op": None, "place": None} if op is None else {"op": one_line(op), "place": place_of(op)}
