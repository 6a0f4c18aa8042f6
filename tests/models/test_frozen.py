"""The zoo with frozen weights: folded, packed wherever that is possible, images in channels_last; equal to eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F

import fxc
from fxc.program.program import Program
from tests.models.zoo import ZOO, load

PACKED = "pack-weights{gain=1.0e30},propagate-layouts,freeze-parameters,dce"
FROZEN = f"lower-to-torch,canonicalize,fold-batch-norm,fold-affine,join-products{{gain=1.0e30}},{PACKED}"


def frozen(name: str, rest: str = "") -> tuple[Program, torch.nn.Module, tuple[object, ...]]:
    model, inputs = load(name)
    model.eval()
    generator = torch.Generator().manual_seed(1)
    for buffer_name, buffer in model.named_buffers():
        if "running" in buffer_name:
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return fxc.run_passes(fxc.capture(model, inputs), FROZEN + rest), model, inputs


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted(ZOO))
def test_values(name: str) -> None:
    program, model, inputs = frozen(name, ",optimize")
    with torch.no_grad():
        torch.testing.assert_close(fxc.to_fx(program)(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


def test_a_residual_network_is_in_channels_last() -> None:
    program, _, _ = frozen("resnet")
    names = [op.name.removeprefix("torch.") for op in program.main.walk()]
    assert not any("batch_norm" in name or "conv2d" in name for name in names)
    copies = [op for op in program.main.walk() if op.name == "torch.aten.clone.default"]
    assert len(copies) <= 2, "the image is copied into channels_last, and what the classifier reads is copied back"


def test_weights_are_those_of_before() -> None:
    model, x = torch.nn.Linear(4, 3, bias=False), torch.randn(2, 4)
    compiled = fxc.compile(model, (x,), options={"pipeline": FROZEN + ",optimize"})
    expected = model(x).detach()
    with torch.no_grad():
        model.weight.add_(1)
    torch.testing.assert_close(compiled(x), expected)


ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu,
    "gelu by tanh": lambda y: F.gelu(y, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


class Behind(torch.nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no bfloat16 on this CPU")
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(
    ("layer", "shape"), [(torch.nn.Linear, (512, 6)), (partial(torch.nn.Conv2d, kernel_size=3), (4, 6, 19, 19))]
)
def test_activations_behind_products_in_bfloat16_are_nearer_than_eager(
    name: str, layer: Callable[[int, int], torch.nn.Module], shape: tuple[int, ...]
) -> None:
    """Mean distances from float64, and what is not a number or infinite."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(layer(6, 5), Behind(ACTIVATIONS[name])).to(torch.bfloat16)
    x = torch.randn(shape).mul(3).to(torch.bfloat16)
    program = fxc.run_passes(fxc.capture(model, (x,)), FROZEN)
    run = fxc.to_fx(program)
    assert {op.name for op in program.main.walk() if op.name.startswith("torch.aten.")} <= {"torch.aten.clone.default"}
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        ours, theirs = ((result.double() - exact).abs().mean() for result in (run(x), model(x)))
        assert ours <= theirs
        x.view(-1)[::7], x.view(-1)[1::9] = float("nan"), float("inf")
        actual, expected = run(x), model(x)
        assert torch.equal(actual.isnan(), expected.isnan()) and torch.equal(actual.isinf(), expected.isinf())
