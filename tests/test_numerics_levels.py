"""``check_numerics`` at every level: groups, kernels, host programs, derivatives, and the first call of what was compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

import fxc
from fxc.codegen.cpu import launch, machine_code
from fxc.dialects.plan import AllocOp, FreeOp, WaitOp
from fxc.dialects.plan import LaunchOp as PlanLaunchOp
from fxc.dialects.tile import KernelOp, LoadOp
from fxc.errors import NumericsError, PipelineError
from fxc.options import Options
from fxc.passes import load
from fxc.program.program import Program
from fxc.tools.fxc_opt import run as fxc_opt
from tests.kernel_mutations import _address

CHECK = {"check_numerics": True, "target": "host"}
CALL = {"check_numerics": "call", "target": "host"}


def made(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def planted(name: str, change: Callable[[ModuleOp], None]) -> Any:
    """Let the pass ``name`` do ``change`` to what it leaves."""
    cls: type[ModulePass] = load(name)
    apply = cls.apply

    def wrong(self: ModulePass, ctx: Context, op: ModuleOp) -> None:
        apply(self, ctx, op)
        change(op)

    return patch.object(cls, "apply", wrong)


def in_kernels(module: ModuleOp, cls: type[Operation]) -> list[Any]:
    return [op for kernel in module.ops if isinstance(kernel, KernelOp) for op in kernel.walk() if isinstance(op, cls)]


def divide_without_sign(module: ModuleOp) -> None:
    """Divisions of places that may be negative become unsigned; where there are none, the address is made of one."""
    signed = [op for cls in (arith.DivSIOp, arith.FloorDivSIOp) for op in in_kernels(module, cls)]
    for op in signed:
        Rewriter.replace_op(op, arith.DivUIOp(op.operands[0], op.operands[1]))
    for op in [] if signed else in_kernels(module, LoadOp):
        below = arith.ConstantOp.from_int_and_width(-1, op.base.type)
        number = arith.ConstantOp.from_int_and_width(1 << 61, op.base.type)
        quotient = arith.DivUIOp(below.result, number.result)
        moved = arith.AddiOp(op.base, quotient.result)
        Rewriter.insert_op([below, number, quotient, moved], InsertPoint.before(op))
        op.operands[_address(op)] = moved.result


def rolled(x: Tensor) -> Tensor:
    return x.roll(1, 0).permute([0, 2, 1]).flip([0, 1, 2])


def test_names_the_kernel_that_divides_without_a_sign() -> None:
    with planted("tile", divide_without_sign), pytest.raises(NumericsError, match="pass tile ") as caught:
        fxc.compile(rolled, (made(5, 3, 4),), options=CHECK)
    assert "kernel_0" in str(caught.value) and "test_numerics_levels.py" in str(caught.value.place)


@pytest.mark.slow
def test_machine_code_is_compared_with_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the passes are right, and the printer of machine code is not."""
    x = made(5, 3, 4)

    def compiled() -> Tensor:
        return fxc.compile(lambda x: x.exp() - x.sum(0), (x,), options=CALL)(x)

    torch.testing.assert_close(compiled(), x.exp() - x.sum(0))
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))  # else the right code is found
    launch._loaded.cache_clear()
    with subtraction_adds(), pytest.raises(NumericsError, match="machine code of @kernel_") as caught:
        compiled()
    launch._loaded.cache_clear()
    assert "launch" in str(caught.value.op) and "test_numerics_levels.py" in str(caught.value.place)


def subtraction_adds() -> Any:
    """Machine code in which subf adds."""
    compiled = machine_code.object_code
    return patch.object(machine_code, "object_code", lambda text, features: compiled(text.replace("fsub ", "fadd "), features))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.second = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.dropout(self.second(torch.tanh(self.norm(self.first(x)))), 0.25, self.training)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["compile", "torch.compile"])
def test_training(backend: str) -> None:
    """Forward and backward, with running statistics and dropout: numbers, generators and weights are as without the check."""
    x = made(5, 6)

    def trained(options: dict[str, Any]) -> list[Any]:
        model = Net()
        if backend == "compile":
            run: Any = fxc.compile(model, (x,), training=True, options=options)
        else:
            torch._dynamo.reset()
            run = torch.compile(model, backend="fxc", options=options)
        torch.manual_seed(1)
        y = run(x)
        y.square().sum().backward()
        return [y.detach(), *(p.grad for p in model.parameters()), *model.buffers(), torch.get_rng_state()]

    torch.testing.assert_close(trained(CALL), trained({"target": "host"}), rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["compile", "torch.compile"])
def test_frozen(backend: str) -> None:
    """Packed weights have neither addresses nor float64 kernels."""
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 64)).eval(), made(32, 64)
    options = {**CALL, "freeze": True}
    torch._dynamo.reset()
    run: Any = fxc.compile(model, (x,), options=options) if backend == "compile" else None
    with torch.no_grad():
        run = run or torch.compile(model, backend="fxc", options=options)
        for _ in range(2):
            torch.testing.assert_close(run(x), model(x))


def test_a_wrong_pass_over_a_derivative() -> None:
    """Derivatives are lowered when the plan is made, or at the first backward."""

    def broken(module: ModuleOp) -> None:
        if not any(op.name == "autodiff.subgraph" for op in module.walk()):
            for op in module.walk():
                if op.name == "torch.aten.tanh_backward.default" or op.name == "torch.aten.rsub.Scalar":
                    Rewriter.replace_op(op, [], [op.operands[0]])

    inputs = made(3, 4).requires_grad_(), made(4, 4).requires_grad_()
    with (
        planted("decompose-ops", broken),
        pytest.raises(NumericsError, match="pass decompose-ops changes the numbers of @main"),
    ):
        fxc.compile(lambda x, w: torch.tanh(x @ w), inputs, training=True, options=CHECK)


def test_a_wrong_derivative_in_the_module() -> None:
    def broken(module: ModuleOp) -> None:
        for op in module.walk():
            if op.name == "torch.aten.tanh.default" and "requires_grad" in op.attributes:
                return
        for op in list(module.walk()):
            if op.name == "torch.aten.neg.default":
                Rewriter.replace_op(op, [], [op.operands[0]])

    inputs = made(3, 4).requires_grad_(), made(4, 4).requires_grad_()
    with planted("inline-autodiff-subgraphs", broken), pytest.raises(NumericsError, match="and its derivative"):
        fxc.compile(lambda x, w: torch.cos(x @ w).exp(), inputs, training=True, options=CHECK)


CHAIN = """
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256, threads = 1, cpu = "haswell", features = "+avx2,+fma">} {
  func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
    %a = torch.aten.mm.default(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %b = torch.aten.exp.default(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = torch.aten.mm.default(%b, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %d = torch.aten.add.Tensor(%c, %a) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    func.return %d : tensor<4x8xf32>
  }
}
"""
LOWERED = "optimize{reductions=true},lower-kernels,lower-to-plan"


def test_fxc_opt() -> None:
    code, _, err = fxc_opt(["-", f"--pass-pipeline={LOWERED}", "--check-numerics"], CHAIN)
    assert code == 0 and "not checked" not in err, err
    with planted("tile", divide_without_sign):
        code, _, err = fxc_opt(["-", f"--pass-pipeline={LOWERED}", "--check-numerics"], CHAIN)
    assert code == 1 and "pass tile" in err, err


def meet(module: ModuleOp) -> None:
    """Every buffer begins where the arena does."""
    for op in module.walk():
        if isinstance(op, AllocOp) and op.arena is not None:
            op.properties["offset"] = IntegerAttr(0, i64)


def release_at_once(module: ModuleOp) -> None:
    """What is released is released before its last use."""
    for op in list(module.walk()):
        if isinstance(op, FreeOp):
            readers = [use.operation for use in op.operands[0].uses if use.operation is not op]
            last = max(readers, key=list(op.parent.ops).index)  # type: ignore[union-attr]
            op.detach()
            last.parent.insert_op_before(op, last)  # type: ignore[union-attr]
            return


def write_over(module: ModuleOp) -> None:
    """A kernel writes over what is still to be read."""
    for op in module.walk():
        if isinstance(op, PlanLaunchOp) and op.outs[0] not in op.inputs:
            old = op.outs[0]
            for use in list(old.uses):
                if not isinstance(use.operation, FreeOp):
                    use.operation.operands[use.index] = op.inputs[0]
            return


@pytest.mark.parametrize(
    ("name", "change"), [("plan-memory", meet), ("plan-memory", release_at_once), ("write-in-place", write_over)]
)
def test_memory_that_is_used_wrongly(name: str, change: Callable[[ModuleOp], None]) -> None:
    options = Options(check_numerics=True, verify_each=False)
    fxc.run_passes(Program.parse(CHAIN), LOWERED, options=options)
    with planted(name, change), pytest.raises(NumericsError, match=f"pass {name} "):
        fxc.run_passes(Program.parse(CHAIN), LOWERED, options=options)


STREAMS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %b = plan.alloc : tensor<4xf32>
  %start = plan.record {stream = 0 : i64} : !plan.event
  plan.wait %start {stream = 1 : i64}
  %e = torch.aten.exp.out(%x, out = %b) {plan.stream = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %done = plan.record {stream = 1 : i64} : !plan.event
  plan.wait %done {stream = 0 : i64}
  %y = torch.aten.neg.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


def test_streams_that_nothing_orders() -> None:
    def do_not_wait(module: ModuleOp) -> None:
        Rewriter.erase_op([op for op in module.walk() if isinstance(op, WaitOp)][-1])

    options = Options(check_numerics=True, verify_each=False)
    with planted("dce", do_not_wait), pytest.raises(NumericsError, match="pass dce breaks @main"):
        fxc.run_passes(Program.parse(STREAMS), "dce", options=options)


def test_the_second_look_changes_nothing() -> None:
    """Inputs that are written are written once; the first call that is compared is the only one that costs more."""

    def counted(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y.exp())
        return x * torch.rand_like(y)

    compiled = fxc.compile(counted, (made(3, 4), made(3, 4)), options=CALL)
    plain = fxc.compile(counted, (made(3, 4), made(3, 4)), options={"target": "host"})
    for _ in range(2):
        ours, theirs = (made(3, 4), made(3, 4)), (made(3, 4), made(3, 4))
        torch.manual_seed(3)
        actual = compiled(*ours)
        torch.manual_seed(3)
        torch.testing.assert_close((actual, ours), (plain(*theirs), theirs))
        assert "run" not in vars(compiled.plan)


def test_the_option() -> None:
    assert Options.from_env({"FXC_CHECK_NUMERICS": "call"}).check_numerics == "call"
    assert Options.from_env({"FXC_CHECK_NUMERICS": "1"}).check_numerics is True
    with pytest.raises(PipelineError, match="FXC_CHECK_NUMERICS is 'calls'"):
        Options.from_env({"FXC_CHECK_NUMERICS": "calls"})
    with pytest.raises(PipelineError, match="option check_numerics is 'always'"):
        Options(check_numerics="always")  # type: ignore[arg-type]
