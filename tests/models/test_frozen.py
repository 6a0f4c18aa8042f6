"""The zoo with frozen weights: folded, packed wherever that is possible, images in channels_last; equal to eager."""

from __future__ import annotations

import pytest
import torch

import fxc
from fxc.program import Program
from tests.models.zoo import ZOO, load

FROZEN = "lower-to-torch,canonicalize,fold-batch-norm,pack-weights{gain=1.0e30},propagate-layouts,freeze-parameters,dce"


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
    program, model, inputs = frozen(name, ",torchscript{gradients=false}")
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
    compiled = fxc.compile(model, (x,), options={"pipeline": FROZEN + ",torchscript{gradients=false}"})
    expected = model(x).detach()
    with torch.no_grad():
        model.weight.add_(1)
    torch.testing.assert_close(compiled(x), expected)
