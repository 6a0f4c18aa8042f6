"""``--check-numerics``: lying passes are caught with the op that is wrong, honest ones pass, rounding is told from bugs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

import fxc
from fxc.dialects.attributes.types import tensor_type
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.torch_ops import TorchOp, op_class, torch_op
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.errors import NumericsError
from fxc.numerics.check_numerics import CheckNumerics
from fxc.numerics.differences import difference
from fxc.pipelines import parse_pipeline
from fxc.tools.fxc_opt import run as fxc_opt


def ops(module: ModuleOp, name: str) -> list[Any]:
    return [op for op in module.walk() if op.name == f"torch.{name}"]


def rename(op: TorchOp, name: str) -> None:
    """Let ``op`` be a call of another operator with the same arguments."""
    cls: Any = op_class(f"torch.{name}")
    new = cls.create(operands=op.operands, properties=op.properties, result_types=op.result_types, location=op.location)
    for old_result, new_result in zip(op.results, new.results, strict=True):
        new_result._name = old_result._name
    Rewriter.replace_op(op, new)


def made(change: Callable[[ModuleOp], None]) -> ModulePass:
    """A pass that applies ``change``."""

    @dataclass(frozen=True)
    class MadePass(ModulePass):
        name = change.__name__.replace("_", "-")

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            change(op)

    return MadePass()


def check(source: fxc.Program | str, *changes: Callable[[ModuleOp], None]) -> CheckNumerics:
    program = fxc.Program.parse(source) if isinstance(source, str) else source.copy()
    watcher = CheckNumerics(program, write=None)
    run_pipeline(program.context, program.module, [made(c) for c in changes], RunOptions(instrumentations=(watcher,)))
    return watcher


def add_becomes_sub(module: ModuleOp) -> None:
    for op in ops(module, "aten.add.Tensor"):
        rename(op, "aten.sub.Tensor")


def drop_writes(module: ModuleOp) -> None:
    for op in [op for op in module.walk() if isinstance(op, TorchOp) and op.SCHEMA.mutates]:
        Rewriter.replace_op(op, [], [op.operands[0]])


def forget_dtype(module: ModuleOp) -> None:
    """The types go on saying float64."""
    for op in ops(module, "aten.to.dtype"):
        clone: Any = op_class("torch.aten.clone.default")
        Rewriter.replace_op(op, clone.build_call([op.operands[0]], {}, op.result_types))


def nothing(module: ModuleOp) -> None:
    pass


def rename_values(module: ModuleOp) -> None:
    """A change that the module shows, and that no number does."""
    module.attributes["renamed"] = UnitAttr()
    for op in module.walk():
        for result in op.results:
            result._name = None


def sum_in_two_steps(module: ModuleOp) -> None:
    """sum(x, [0, 1]) -> sum(sum(x, [1]), [0]): another order of additions."""
    for op in ops(module, "aten.sum.dim_IntList"):
        rows = op.build_call([op.operands[0], [int_attr(1)]], {}, [tensor_type("float32", (64, 50))])
        Rewriter.replace_op(op, [rows, op.build_call([rows.results[0], [int_attr(0)]], {}, op.result_types)])


class Deep(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        shifted = hidden + x
        return self.second(shifted).exp()


def test_names_the_pass_and_the_first_wrong_value() -> None:
    program = fxc.capture(Deep(), (torch.randn(3, 4),))
    with pytest.raises(NumericsError) as caught:
        check(program, nothing, add_becomes_sub)
    error = caught.value
    assert error.message.startswith("pass add-becomes-sub changes the numbers of @main: a wrong result, not rounding")
    assert "first in %add, made by torch.aten.sub.Tensor: max abs difference" in error.message
    assert error.op is not None and "torch.aten.sub.Tensor" in error.op
    assert error.place is not None and "test_check_numerics.py" in error.place
    assert any("in pass add-becomes-sub" in note for note in getattr(error, "__notes__", ()))


def test_falls_back_to_the_result_where_values_have_no_names() -> None:
    def rename_and_lie(module: ModuleOp) -> None:
        add_becomes_sub(module)
        rename_values(module)

    text = """func.func @main(%0: tensor<4xf32>) -> tensor<4xf32> {
        %1 = torch.aten.add.Tensor(%0, 1) : (tensor<4xf32>) -> tensor<4xf32>
        %2 = torch.aten.exp.default(%1) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %2 : tensor<4xf32>
    }"""
    with pytest.raises(NumericsError, match="result 0: max abs difference") as caught:
        check(text, rename_and_lie)
    assert caught.value.op is not None and "aten.exp" in caught.value.op


def test_finds_a_dropped_write() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %y = torch.aten.mul.Tensor(%x, 2) : (tensor<4xf32>) -> tensor<4xf32>
        %w = torch.aten.add_.Tensor(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
    }"""
    with pytest.raises(NumericsError, match="what is left in input 0: max abs difference 1"):
        check(text, drop_writes)


def test_finds_a_dropped_update_of_state() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2, dtype=torch.int64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x * 2

    model = Counter()
    program = fxc.capture(model, (torch.randn(3),))

    def drop_copy_back(module: ModuleOp) -> None:
        for op in ops(module, "aten.add.Tensor"):
            Rewriter.replace_op(op, [], [op.operands[0]])

    program = fxc.run_passes(program, "lower-to-torch")
    with pytest.raises(NumericsError, match="what is left in count: 2 of 2 elements differ"):
        check(program, drop_copy_back)
    assert model.count.tolist() == [0, 0]


def test_finds_a_changed_dtype_before_any_number() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf64> {
        %y = torch.aten.to.dtype(%x, torch.float64) : (tensor<4xf32>) -> tensor<4xf64>
        func.return %y : tensor<4xf64>
    }"""
    with pytest.raises(NumericsError, match="dtype float64 became float32"):
        check(text, forget_dtype)


def test_reassociation_is_rounding() -> None:
    text = """func.func @main(%x: tensor<64x1000x50xf32>) -> tensor<50xf32> {
        %y = torch.aten.sum.dim_IntList(%x, [0, 1]) : (tensor<64x1000x50xf32>) -> tensor<50xf32>
        func.return %y : tensor<50xf32>
    }"""
    watcher = check(text, sum_in_two_steps)
    assert watcher.checked == 1
    assert [note.split(": max")[0] for note in watcher.notes] == ["sum-in-two-steps: @main: rounding in result 0"]


def test_a_small_wrong_result_is_no_rounding() -> None:
    """A difference far below float32's tolerance is a bug where float64 sees it."""

    def drop_a_little(module: ModuleOp) -> None:
        for op in ops(module, "aten.add.Tensor"):
            Rewriter.replace_op(op, [], [op.operands[0]])

    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %y = torch.aten.add.Tensor(%x, 2.0e-06) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
    }"""
    with pytest.raises(NumericsError, match="it differs in float64, too"):
        check(text, drop_a_little)


def test_rounding_far_beyond_the_tolerance_is_an_error() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %a = torch.aten.add.Tensor(%x, 100000000.0) : (tensor<4xf32>) -> tensor<4xf32>
        %b = torch.aten.add.Tensor(%a, -100000000.0) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %b : tensor<4xf32>
    }"""

    def fold(module: ModuleOp) -> None:
        """(x + 1e8) - 1e8 -> x: equal in float64, and far off in float32."""
        first, second = ops(module, "aten.add.Tensor")
        Rewriter.replace_op(second, [], [first.operands[0]])

    with pytest.raises(NumericsError, match=r"rounding, as float64 runs agree, but .* times the tolerance"):
        check(text, fold)


def test_random_ops_draw_the_same() -> None:
    text = """func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
        %a = torch.aten.dropout.default(%x, 0.5, true) : (tensor<100xf32>) -> tensor<100xf32>
        %b = torch.aten.rand_like.default(%x) : (tensor<100xf32>) -> tensor<100xf32>
        %c = torch.aten.add.Tensor(%a, %b) : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xf32>
        func.return %c : tensor<100xf32>
    }"""

    def drop_dead_draw(module: ModuleOp) -> None:
        for op in ops(module, "aten.dropout.default"):
            Rewriter.replace_op(op, [], [op.operands[0]])

    before = torch.random.get_rng_state()
    assert check(text, rename_values).notes == []
    with pytest.raises(NumericsError):
        check(text, drop_dead_draw)
    assert torch.equal(before, torch.random.get_rng_state())


def test_functionalization_leaves_the_same_in_the_arguments() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

        def forward(self, x: torch.Tensor, table: torch.Tensor) -> dict[str, Any]:
            table.mul_(7.0)
            return {"y": torch.dropout(self.norm(self.conv(x)).relu_(), 0.3, True), "more": [table.sum(), 3]}

    model = Net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for route in ("symbolic_trace", "export"):
        program = fxc.capture(model, (torch.randn(2, 3, 8, 8), torch.randn(3)), route=route)
        program = program.copy()
        watcher = CheckNumerics(program, write=None)
        names = ["convert-fx-to-torch", "inline", "symbol-dce", "functionalize", "canonicalize", "cse", "dce"]
        run_pipeline(
            program.context,
            program.module,
            parse_pipeline(",".join(names)),
            RunOptions(instrumentations=(watcher,)),
        )
        assert watcher.checked >= 1 and not watcher.skipped and not watcher.notes, (route, watcher.skipped, watcher.notes)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_what_cannot_run_is_skipped_with_a_reason() -> None:
    untyped = """func.func @main(%x: !fx.value) -> !fx.value {
        %y = fx.call_function @torch.relu(%x) : (!fx.value) -> !fx.value
        fx.output(%y) : (!fx.value) -> ()
    }"""
    assert check(untyped, rename_values).skipped == ["@main is not checked: the type of argument %x is not known"]
    declared = """func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
    }"""
    assert check(declared, rename_values).skipped == ["@main is not checked: @f is called, and has no body"]
    raising = """func.func @main(%x: tensor<4x4xf32>) {
        %n = torch.aten.full_like.default(%x, -1.0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
        %y = torch.aten.cholesky.default(%n) : (tensor<4x4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [1, 4]>>
        func.return
    }"""
    [reason] = check(raising, rename_values).skipped
    assert reason.startswith("@main is not checked: it does not run on made-up inputs: _LinAlgError: cholesky: ")


def test_a_pass_that_breaks_the_function() -> None:
    def view_wrongly(module: ModuleOp) -> None:
        for op in ops(module, "aten.view.default"):
            op.properties["size"] = type(op.properties["size"])([int_attr(5)])

    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %y = torch.aten.view.default(%x, [4]) : (tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
    }"""
    with pytest.raises(NumericsError, match="it ran before the pass, and raises after it: RuntimeError: shape"):
        check(text, view_wrongly)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (torch.tensor([NAN, INF, -INF]), torch.tensor([NAN, INF, -INF]), None),
        (torch.tensor([0.0]), torch.tensor([-0.0]), None),
        (torch.empty(0, 3), torch.empty(0, 3), None),
        (torch.tensor(NAN), torch.tensor(1.0), "NaN or infinity differs in 1 elements (nan became 1)"),
        (torch.tensor([1.0, INF]), torch.tensor([1.0, -INF]), "NaN or infinity differs in 1 elements ([1]: inf became -inf)"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 elements differ ([1]: 2 became 3)"),
        (torch.tensor([True]), torch.tensor([False]), "1 of 1 elements differ ([0]: True became False)"),
        (torch.empty(0), torch.empty(1), "shape [0] became [1]"),
        (torch.ones(2), torch.ones(2).double(), "dtype float32 became float64"),
        (torch.ones(1), 1.0, "a tensor became a float"),
        (2, 3, "2 became 3"),
        (NAN, NAN, None),
    ],
)
def test_differences(before: Any, after: Any, text: str | None) -> None:
    found = difference(before, after)
    assert (None if found is None else found.text) == text


def test_memory_without_a_value_is_no_difference() -> None:
    text = """func.func @main(%x: tensor<2x2xf32>) -> tensor<64x64xf32> {
        %a = torch.aten.empty.memory_format([64, 64], dtype = torch.float32) : () -> tensor<64x64xf32>
        %y = torch.aten.add.Tensor(%a, 1) : (tensor<64x64xf32>) -> tensor<64x64xf32>
        func.return %y : tensor<64x64xf32>
    }"""
    assert check(text, rename_values).checked == 1
    assert not torch.are_deterministic_algorithms_enabled()


def test_tensors_on_the_meta_device_have_no_numbers() -> None:
    text = """func.func @main(%x: META) -> META {
        %y = torch.aten.neg.default(%x) : (META) -> META
        func.return %y : META
    }""".replace("META", 'tensor<2xf32, #torch.meta<device = "meta">>')
    assert check(text, rename_values).checked == 1


def test_complex_and_small_floats() -> None:
    a = torch.tensor([1 + 2j], dtype=torch.complex64)
    found = difference(a, a + 1e-6)
    assert found is not None and 0 < found.excess < 1
    half = torch.ones(4, dtype=torch.bfloat16)
    found = difference(half, half * 1.01)
    assert found is not None and 0 < found.excess < 1


LIE = """
from dataclasses import dataclass
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

@dataclass(frozen=True)
class LiePass(ModulePass):
    name = "lie"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if inner.name == "torch.aten.relu.default":
                Rewriter.replace_op(inner, [], [inner.operands[0]])
"""

TEXT = """func.func @main(%x: tensor<8xf32>, %w: tensor<8xf32> {fx.kind = "parameter", fx.name = "w"}) -> tensor<8xf32> {
  %0 = torch.aten.add.Tensor(%x, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = torch.aten.sub.Tensor(%0, 5.0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = torch.aten.relu.default(%1) : (tensor<8xf32>) -> tensor<8xf32>
  func.return %2 : tensor<8xf32>
}
"""


def test_command_line(tmp_path: Any) -> None:
    (tmp_path / "lie.py").write_text(LIE)
    code, out, err = fxc_opt(["-", "-p", "canonicalize,cse", "--check-numerics"], TEXT)
    assert code == 0 and "aten.relu" in out and not err
    code, out, err = fxc_opt(["-", "-p", "cse,lie", f"--load-pass={tmp_path}/lie.py", "--check-numerics"], TEXT)
    assert code == 1 and not out
    assert "pass lie changes the numbers of @main" in err and "in pass lie" in err


def test_option_of_the_library() -> None:
    program = fxc.capture(Deep(), (torch.randn(3, 4),))
    options = fxc.Options(check_numerics=True)
    assert "aten" in str(fxc.run_passes(program, "lower-to-torch,simplify", options=options))

    class LiePass(ModulePass):
        """lie: add becomes sub."""

        name = "lie"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            add_becomes_sub(op)

    with pytest.raises(NumericsError, match="pass lie"):
        fxc.run_passes(program, "lie", passes=[LiePass], options=options)


def test_a_replaced_operation_is_named() -> None:
    """xDSL's replace_op gives the second product the name of the first."""

    def products_become_sums(module: ModuleOp) -> None:
        for op in ops(module, "aten.mul.Tensor"):
            new = torch_op("aten.add.Tensor").build_call(list(op.operands), {}, op.result_types, location=op.location)
            Rewriter.replace_op(op, new)

    program = fxc.capture(lambda x: torch.relu(x * x) * x, (torch.randn(3, 4),))
    with pytest.raises(NumericsError, match=r"first in %mul, made by torch\.aten\.add\.Tensor"):
        check(program, products_become_sums)


def test_operations_are_the_users_own() -> None:
    """The module that the pipeline works on is the user's: the check must not put anything into it."""
    program = fxc.capture(Deep(), (torch.randn(3, 4),))
    text = program.text(debuginfo=True)
    check(program, nothing, rename_values)
    assert program.text(debuginfo=True) == text
    assert isinstance(program.main, Operation)


def test_half_types_are_compared_with_float64_whatever_they_are_converted_to() -> None:
    """Kernels round half types less often: a result of float64, or the logarithm of a number near 1, then moves by far more
    than the tolerance of its type."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.nn.functional.lp_pool1d(x.abs() + 0.5, 2, 3).double(), torch.log(x.abs() + 0.5)

    x = (((torch.arange(320) * 23 + 11) % 101 - 50) / 16).to(torch.bfloat16).reshape(8, 40)
    kernels = "lower-to-torch,decompose-ops,fuse,set-target{to=cpu:avx512},convert-fusion-to-linalg"
    fxc.run_passes(fxc.capture(f, [x]), kernels, options=fxc.Options(check_numerics=True))
