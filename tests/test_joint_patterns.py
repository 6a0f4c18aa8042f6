"""Patterns of joint graphs: forward and backward are replaced together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

import fxc
from fxc.errors import CaptureError, InputError
from tests.replaced_programs import X, joint_program, registry_emptied, silu  # noqa: F401 (a fixture of every test here)

PASSES = "lower-to-torch,canonicalize,apply-patterns"


def test_forward_and_backward_together() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    fxc.register_pattern(silu, F.silu, (x,), training=True)
    joint = joint_program(lambda x: silu(x + 1), x)
    found = fxc.run_passes(joint, PASSES)
    assert "aten.silu.default" in str(found) and "silu_backward" in str(found)
    tangent = torch.randn(3, 4)
    for a, b in zip(fxc.to_fx(found)(x, tangent), fxc.to_fx(joint)(x, tangent), strict=True):
        torch.testing.assert_close(a, b)
    # a missing tangent, other functions, and forward graphs
    assert "silu" not in str(fxc.run_passes(fxc.capture(silu, (X,)), PASSES))
    assert "silu" not in str(fxc.run_passes(joint_program(lambda x: torch.sigmoid(x), x), PASSES))

    def detached(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x).detach()

    assert "silu" not in str(fxc.run_passes(joint_program(detached, x), PASSES))


def test_training_needs_a_gradient() -> None:
    with pytest.raises(InputError, match="no example input requires a gradient"):
        fxc.register_pattern(silu, F.silu, (X,), training=True)
    with pytest.raises(InputError, match="no example input requires a gradient"):
        fxc.register_pattern(lambda i, w: w[i], lambda i, w: w[i], (torch.tensor([1]), X), training=True)


def test_a_joint_pattern_is_tried_with_its_gradients() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    with pytest.raises(CaptureError, match="gradient 0 differs"):
        fxc.register_pattern(silu, lambda x: x.detach() * torch.sigmoid(x), (x,), training=True)


@pytest.mark.parametrize("check_numerics", [True, "call"])
def test_a_wrong_joint_pattern_is_named(check_numerics: Any) -> None:
    """``check_numerics`` compares the joint graph before and after each pass that torch.compile runs on it."""
    x = torch.randn(3, 4, requires_grad=True)
    fxc.register_pattern(silu, lambda x: F.silu(x) * 1.5, (x,), training=True, try_out=False)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: silu(x + 1), backend="fxc", options={"check_numerics": check_numerics})
    with pytest.raises(BackendCompilerFailed, match="NumericsError: pass apply-patterns changes the numbers of @main"):
        compiled(x)
