"""The zoo in native kernels, forward and backward: values, statistics and gradients equal eager's."""

from __future__ import annotations

import copy

import pytest
import torch

import fxc
from fxc.errors import KernelError
from tests.models.test_torchscript import assert_same_gradients, total
from tests.models.zoo import ZOO, load

POINTWISE = {
    False: "lower-to-torch,canonicalize,optimize,lower-kernels",
    True: "lower-to-torch,canonicalize,torchscript,lower-kernels",
}
"""Inference and training with norms and softmax left to PyTorch."""

TRAINED = "torchscript{reductions=true subgraph-threshold=1 inline-threshold=1}"


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", sorted(ZOO))
def test_kernels(name: str, training: bool) -> None:
    check(name, training, None)


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", sorted(ZOO))
def test_pointwise_kernels(name: str, training: bool) -> None:
    check(name, training, POINTWISE[training])


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("name", sorted(ZOO))
def test_products_by_onednn(name: str) -> None:
    """All that ``choose-products`` could choose, forward and backward."""
    kernels = "choose-products{gain=1.0e30 least=1},lower-kernels"
    derivatives = f"specialize-derivatives,builtin.module(derivative{{reductions=true}},{kernels},lower-subgraph)"
    check(name, True, f"lower-to-torch,canonicalize,{TRAINED},{derivatives},{kernels}")


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["convnext", "mobilenet", "resnet", "vit"])
def test_convolutions_by_onednn(name: str) -> None:
    """All that ``choose-convolutions`` could choose."""
    layouts = "choose-convolutions{gain=1.0e30},propagate-layouts"
    check(name, False, f"lower-to-torch,canonicalize,{layouts},optimize{{reductions=true}},lower-kernels")


@pytest.mark.slow
def test_torch_compile() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Softmax(-1))
    x = torch.randn(5, 16)
    compiled = torch.compile(model, backend="fxc", options={"target": "host"})
    actual, expected = compiled(x), model(x)
    torch.testing.assert_close(actual, expected)
    ours = torch.autograd.grad(actual.square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(expected.square().sum(), list(model.parameters()))
    torch.testing.assert_close(ours, theirs)


def test_strict_refuses_what_has_no_kernel() -> None:
    x = torch.randn(5)
    options = {"target": "host", "pipeline": "lower-to-torch,optimize"}
    fxc.compile(lambda x: x.relu() * 2, (x,), options=options)
    with pytest.raises(
        KernelError, match=r"(?s)fused have no kernel: aten.relu.default, aten.mul.Tensor.*test_kernels.py.*--remarks"
    ):
        fxc.compile(lambda x: x.relu() * 2, (x,), options={**options, "strict": True})


def check(name: str, training: bool, pipeline: str | None) -> None:
    model, inputs = load(name)
    model.train(training)
    eager = copy.deepcopy(model)
    compiled = fxc.compile(model, inputs, training=training, options={"target": "host", "pipeline": pipeline, "strict": True})
    torch.manual_seed(0)
    actual = compiled(*inputs)
    torch.manual_seed(0)
    with torch.set_grad_enabled(training):
        expected = eager(*inputs)
    torch.testing.assert_close(actual, expected)
    if training:
        assert compiled.plan.stats.launches > 0
        total(actual).backward()
        total(expected).backward()
        assert_same_gradients(model, eager, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_second_derivatives_are_of_operators() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.sigmoid(x) * torch.tanh(y) + torch.exp(-x * x) * y).sin() * x

    x, y = (torch.randn(5, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    compiled = fxc.compile(f, (x, y), training=True, options={"target": "host"})
    assert compiled.plan.stats.launches > 0
    torch.testing.assert_close(compiled(x, y), f(x, y))
    assert torch.autograd.gradcheck(compiled, (x, y))
    assert torch.autograd.gradgradcheck(compiled, (x, y))


def test_an_unknown_target() -> None:
    with pytest.raises(fxc.errors.PipelineError, match="there is no target cpu:avx1024") as caught:
        fxc.compile(lambda x: x.sin(), (torch.ones(3),), options={"target": "cpu:avx1024"})
    assert caught.value.hint == "did you mean cpu:avx512?" or "cpu:avx512" in str(caught.value.hint)
