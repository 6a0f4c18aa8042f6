"""The runner: verification, errors, isolation, instrumentations, statistics, timing, reproducers."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.dialects.test import TestOp
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import PassFailedException, VerifyException

from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.driver import reproducer
from fxc.driver.gc_pause import collections_paused
from fxc.driver.instrumentation import PassRun, Statistics
from fxc.driver.pipeline import Anchored, NamedSteps
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.driver.timing import Timer
from fxc.errors import FxcError, NumericsError, PassError, PipelineError, VerifyError
from fxc.passes.analysis.statistics import count, recording
from fxc.program.program import new_context

TEXT = """
func.func private @helper(%a: i32) -> i32 {
  func.return %a : i32
}
func.func @main(%a: i32) -> i32 {
  %x = "test.op"(%a) : (i32) -> i32 loc("relu_1")
  %y = func.call @helper(%x) : (i32) -> i32
  func.return %y : i32
}
"""


@dataclass(frozen=True)
class Do(ModulePass):
    """A pass that does what it is given."""

    name = "do"

    action: Callable[[ModuleOp], object]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.action(op)


@dataclass
class Watch:
    """Records which hooks ran; may raise in ``after_pass``."""

    name: str = ""
    seen: list[str] = field(default_factory=list)
    error: Exception | None = None

    def before_pass(self, run: PassRun) -> None:
        self.seen.append(f"{self.name}before {run.name}")

    def after_pass(self, run: PassRun) -> None:
        self.seen.append(f"{self.name}after {run.name}")
        if self.error is not None:
            raise self.error

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        self.seen.append(f"{self.name}failed {type(error).__name__}")


def module() -> ModuleOp:
    return parse_module(new_context(), TEXT)


def function(module: ModuleOp, name: str) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == name)


def test_op(module: ModuleOp) -> TestOp:
    return next(op for op in module.walk() if isinstance(op, TestOp))


test_op.__test__ = False  # type: ignore[attr-defined]


def refuse(module: ModuleOp) -> None:
    raise OpPassFailedException("no", test_op(module))


def move_down(module: ModuleOp) -> None:
    op = test_op(module)
    after, block = op.next_op, op.parent
    assert after is not None and block is not None
    op.detach()
    block.insert_op_after(op, after)


def raising(error: BaseException) -> Callable[[ModuleOp], object]:
    def action(module: ModuleOp) -> None:
        raise error

    return action


def test_input_is_verified_first() -> None:
    broken = module()
    move_down(broken)
    with pytest.raises(VerifyError, match=r"func\.call: operand 0 does not dominate") as caught:
        run_pipeline(new_context(), broken, ())
    assert isinstance(caught.value.__cause__, VerifyException)
    assert caught.value.op == "%y = func.call @helper(%x) : (i32) -> i32"
    assert caught.value.place == "in @main"


def test_output_of_a_pass_is_verified() -> None:
    with pytest.raises(PassError, match=r"do left IR that does not verify: func\.call: operand 0 does not") as caught:
        run_pipeline(new_context(), module(), (Do(move_down),))
    assert isinstance(caught.value.__cause__, VerifyException)
    with pytest.raises(VerifyError, match="does not dominate"):
        run_pipeline(new_context(), module(), (Do(move_down),), RunOptions(verify_each=False))


def test_error_names_pass_op_and_place() -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(new_context(), module(), (Do(refuse),))
    assert str(caught.value) == (
        'pass do failed: no\n  at: "relu_1"\n  op: %x = "test.op"(%a) : (i32) -> i32\n'
        "  hint: fxc-opt --crash-reproducer=FILE writes a file that replays the failure"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (raising(PassFailedException("cannot")), "pass do failed: cannot"),
        (raising(KeyError("k")), "pass do crashed: KeyError: 'k'"),
        (raising(AssertionError()), "pass do crashed: AssertionError"),
        (lambda module: parse_spec("a{b"), "pass do crashed: ArgSpecParseError"),
        (lambda module: Parser(new_context(), "nope").parse_module(), "pass do failed: "),
    ],
)
def test_every_exception_becomes_ours(action: Callable[[ModuleOp], object], message: str) -> None:
    with pytest.raises(PassError) as caught:
        run_pipeline(new_context(), module(), (Do(action),))
    assert str(caught.value).startswith(message)
    assert caught.value.__cause__ is not None


def test_a_crash_names_the_op_that_the_pass_was_at() -> None:
    def crash(module: ModuleOp) -> None:
        function = module.body.block.first_op
        assert function is not None
        raise KeyError(len(function.regions))

    with pytest.raises(PassError) as caught:
        run_pipeline(new_context(), module(), (Do(crash),))
    assert str(caught.value).startswith("pass do crashed: KeyError: 1\n  at: ") and caught.value.op == "func.func @helper"


def test_interrupts_pass_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(new_context(), module(), (Do(raising(KeyboardInterrupt())),))


@pytest.mark.parametrize("enabled", [True, False])
def test_collector_waits_while_any_pipeline_runs(enabled: bool) -> None:
    seen, was_enabled = list[bool](), gc.isenabled()
    look = Do(lambda module: seen.append(gc.isenabled()))
    failing = Do(raising(KeyError("k")))
    try:
        (gc.enable if enabled else gc.disable)()
        run_pipeline(new_context(), module(), (look, Do(lambda _: run_pipeline(new_context(), module(), ())), look))
        with pytest.raises(PassError):
            run_pipeline(new_context(), module(), (failing,))
        assert seen == [False, False] and gc.isenabled() == enabled
        first, second = collections_paused(), collections_paused()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)  # as where two threads overlap
        assert not gc.isenabled()
        second.__exit__(None, None, None)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_errors_are_short_on_large_modules() -> None:
    lines = "".join(f"%v{i + 1} = arith.addi %v{i}, %v{i} : i32\n" for i in range(500))
    large = parse_module(new_context(), f"func.func @f(%v0: i32) -> i64 {{ {lines} func.return %v500 : i32 }}")
    with pytest.raises(VerifyError) as caught:
        run_pipeline(new_context(), large, ())
    assert len(str(caught.value)) < 500
    assert not getattr(caught.value.__cause__, "__notes__", [])


def test_hooks_run_around_each_pass_and_in_reverse_after_it() -> None:
    outer, inner = Watch("outer "), Watch("inner ")
    outer.seen = inner.seen
    run_pipeline(new_context(), module(), (Do(str),), RunOptions(instrumentations=(outer, inner)))
    assert inner.seen == ["outer before do", "inner before do", "inner after do", "outer after do"]


def test_hooks_see_failures_and_may_fail() -> None:
    watch = Watch()
    with pytest.raises(PassError):
        run_pipeline(new_context(), module(), (Do(refuse), Do(str)), RunOptions(instrumentations=(watch,)))
    assert watch.seen == ["before do", "failed OpPassFailedException"]
    checker = Watch(error=NumericsError("the numbers changed"))
    with pytest.raises(NumericsError) as caught:
        run_pipeline(new_context(), module(), (Do(str),), RunOptions(instrumentations=(checker,)))
    assert caught.value.__notes__ == ["in pass do"]


def test_anchored_passes_see_one_function_and_declarations() -> None:
    seen: list[list[str]] = []

    def look(module: ModuleOp) -> None:
        names = [(op.sym_name.data, op.is_declaration) for op in module.walk() if isinstance(op, FuncOp)]
        seen.append([f"{name}{' declared' if declared else ''}" for name, declared in names])

    ir = module()
    ir.attributes["target"] = StringAttr("cpu")
    before = print_module(ir)
    run_pipeline(new_context(), ir, (Anchored("func.func", (Do(look), NamedSteps("twice", (Do(look),)))),))
    assert seen == [["helper"], ["helper"], ["helper declared", "main"], ["helper declared", "main"]]
    assert print_module(ir) == before


def test_anchored_pass_may_replace_its_function() -> None:
    def replace(module: ModuleOp) -> None:
        old = next(op for op in module.walk() if isinstance(op, FuncOp) and not op.is_declaration)
        new = old.clone()
        new.attributes["new"] = StringAttr("yes")
        block = old.parent
        assert block is not None
        block.insert_op_before(new, old)
        old.detach()
        old.erase()

    ir = module()
    run_pipeline(new_context(), ir, (Anchored("func.func", (Do(replace), Do(replace))),))
    assert [op.sym_name.data for op in ir.walk() if isinstance(op, FuncOp)] == ["helper", "main"]
    assert all("new" in op.attributes for op in ir.walk() if isinstance(op, FuncOp))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda module: module.body.block.add_op(FuncOp.external("new", [], [])), "removed, renamed or added ops"),
        (lambda module: function(module, "helper").detach(), "removed, renamed or added ops"),
        (lambda module: module.attributes.update(a=StringAttr("b")), "changed the attributes of the module"),
    ],
)
def test_anchored_pass_must_not_reach_beyond_its_function(action: Callable[[ModuleOp], object], message: str) -> None:
    with pytest.raises(PassError, match=rf"{message}.*run it on builtin\.module"):
        run_pipeline(new_context(), module(), (Anchored("func.func", (Do(action),)),))


def test_a_failing_anchored_pass_leaves_the_module_whole() -> None:
    ir = module()
    before = print_module(ir)
    with pytest.raises(PassError):
        run_pipeline(new_context(), ir, (Anchored("func.func", (Do(refuse),)),))
    assert print_module(ir) == before


def test_the_whole_module_is_verified_after_an_anchored_group() -> None:
    def change_type(module: ModuleOp) -> None:
        seen = function(module, "helper")
        if not seen.is_declaration:
            seen.function_type = FunctionType.from_lists([i32, i32], [i32])
            seen.body.block.insert_arg(i32, 1)

    ir = module()
    helper = function(ir, "helper")
    helper.detach()
    ir.body.block.add_op(helper)  # after its caller, which has been through by then
    with pytest.raises(PassError, match=r"the pipeline left IR that does not verify: func\.call: inc") as caught:
        run_pipeline(new_context(), ir, (Anchored("func.func", (Do(change_type),)),))
    assert caught.value.op is not None and "func.call @helper" in caught.value.op


def test_a_reproducer_that_cannot_be_written_hides_nothing(tmp_path: Path) -> None:
    options = RunOptions(crash_reproducer=tmp_path / "nowhere" / "crash.mlir")
    with pytest.raises(PassError, match=r"pass do failed: no[\s\S]*no reproducer could be written"):
        run_pipeline(new_context(), module(), (Do(refuse),), options)


def test_unknown_anchor() -> None:
    with pytest.raises(PipelineError, match=r"nested in func\.fun: there is no such op"):
        run_pipeline(new_context(), module(), (Anchored("func.fun", ()),))


def test_statistics_and_counters() -> None:
    def work(module: ModuleOp) -> None:
        test_op(module).attributes["seen"] = StringAttr("yes")
        count("seen")
        count("bytes", 40)

    statistics = Statistics()
    run_pipeline(new_context(), module(), (Do(work), Do(str)), RunOptions(instrumentations=(statistics,)))
    assert statistics.rows() == [("do", "7", "7 (+0)", "bytes 40, seen 1"), ("do", "7", "7 (+0)", "")]
    count("nobody is listening")
    outer, inner = Counter[str](), Counter[str]()
    with recording(outer):
        with recording(inner):
            count("a")
        count("b")
    assert (inner, outer) == (Counter(a=1), Counter(b=1))


def test_timing_is_a_tree() -> None:
    timer = Timer()
    pipeline = (NamedSteps("tidy", (Do(str), Do(str))), Anchored("func.func", (Do(str),)))
    run_pipeline(new_context(), module(), pipeline, RunOptions(timer=timer))
    names = [(row[0], row[4]) for row in timer.rows() if row[0].strip() not in ("rest", "verify")]
    assert names == [
        ("total", 0),
        ("  verify input", 1),
        ("  tidy", 1),
        ("    do", 2),
        ("  'func.func' Pipeline", 1),
        ("    do", 2),
    ]
    assert timer.root.wall >= sum(child.wall for child in timer.root.children.values())


def test_reproducer_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "crash.mlir"
    original = reproducer.Reproducer('builtin.module(a{b="c \\" } \\\\ d"})', False, True)
    reproducer.write(path, original, "func.func @f() { func.return }\n", "message\nmore", ())
    text = path.read_text()
    found, rest = reproducer.split(text)
    assert found == original
    assert "external_resources" not in rest and rest.count("\n") == text.count("\n")
    assert "more" not in text
    assert reproducer.split("func.func private @f()") == (None, "func.func private @f()")


def test_mlir_opts_reproducers_are_read() -> None:
    text = '{-#\n external_resources: {\n mlir_reproducer: {\n pipeline: "builtin.module(cse)",\n'
    found, _ = reproducer.split(text + " disable_threading: true,\n verify_each: true\n }\n }\n#-}\n")
    assert found == reproducer.Reproducer("builtin.module(cse)")


@pytest.mark.parametrize("entries", ["verify_each: true", 'pipeline: "a" verify_each: true', "pipeline: 3"])
def test_malformed_reproducer(entries: str) -> None:
    with pytest.raises(FxcError, match="mlir_reproducer"):
        reproducer.split(f"{{-# external_resources: {{ mlir_reproducer: {{ {entries} }} }} #-}}")
