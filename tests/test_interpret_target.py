"""The target ``interpret``: kernels run on the interpreter that checks each access of memory."""

from __future__ import annotations

import pytest
import torch

import fxc
from fxc.codegen.contract import target_named
from fxc.dialects.tile import KernelOp
from fxc.errors import KernelError


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.where(x > y, torch.exp(-x * x) + y, torch.tanh(y) * x), -1)


def test_compile() -> None:
    inputs = torch.randn(5, 33), torch.randn(5, 33)
    compiled = fxc.compile(function, inputs, options={"target": "interpret"})
    assert any(isinstance(op, KernelOp) for op in compiled.ir.module.ops)
    assert any(getattr(module, "is_kernel", False) for module in compiled.plan.module.modules())
    torch.testing.assert_close(compiled(*inputs), function(*inputs))


def test_training() -> None:
    inputs = tuple(torch.randn(5, 33, requires_grad=True) for _ in range(2))
    compiled = fxc.compile(function, inputs, training=True, options={"target": "interpret"})
    ours, theirs = (torch.autograd.grad(f(*inputs).square().sum(), inputs) for f in (compiled, function))
    torch.testing.assert_close(ours, theirs)


TOO_FAR = """
builtin.module attributes {fxc.target = #target.cpu<cpu = "interpreter">} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = tile.launch @copy(%x) : (tensor<8xf32>) -> tensor<8xf32>
    func.return %y : tensor<8xf32>
  }
  tile.kernel @copy(
    %x: !tile.ptr<f32> {tile.access = "read", tile.elements = 8 : i64},
    %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 8 : i64}
  ) attributes {grid = array<i64: 1>} {
    %first = arith.constant 1 : index
    %v = tile.load %x[%first] strides [1] : !tile.ptr<f32> -> vector<8xf32>
    tile.store %v, %y[%first] strides [1] : vector<8xf32>, !tile.ptr<f32>
    tile.return
  }
}
"""


def test_a_wrong_access_is_an_error() -> None:
    module = fxc.to_fx(fxc.Program.parse(TOO_FAR))
    with pytest.raises(KernelError, match="%x: element 8 is read, but there are 8"):
        module(torch.ones(8))


def test_the_target_has_a_name() -> None:
    assert target_named("interpret").fields()["cpu"] == "interpreter"
    with pytest.raises(fxc.errors.PipelineError, match="there is no target interpreted") as caught:
        target_named("interpreted")
    assert caught.value.hint == "did you mean interpret?"
