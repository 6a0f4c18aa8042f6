"""The comparison of a pattern with its replacement before ``fxc.register_pattern`` accepts them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fxc
from fxc.errors import CaptureError
from fxc.patterns import registry
from tests.replaced_programs import X, Y, registry_emptied, silu  # noqa: F401 (a fixture of every test here)


@pytest.mark.parametrize(
    ("search", "replace", "message"),
    [
        (lambda x: x * 2, lambda x: x * 3, r"result 0 differs by .*, for float32\[3, 4\]"),
        (lambda x: torch.relu(x), lambda x: torch.relu(x).double(), r"result 0 is float64\[3, 4\] instead of float32\[3, 4\]"),
        (lambda x: torch.relu(x), lambda x: torch.relu(x)[:2], r"result 0 is float32\[2, 4\]"),
        (lambda x: torch.relu(x), lambda x: torch.relu(x).t().contiguous().t(), r"has strides \(1, 3\) instead of \(4, 1\)"),
        (
            lambda x: torch.relu(x),
            lambda x: torch.relu(x).float(),
            r"result 0 is float32.* instead of float64|bfloat16|float16",
        ),
        (lambda x: x.sum(0), lambda x: x.sum(0) if x.shape[0] > 1 else x[0] * 2, r"differs by .*float\w+\[1, "),
        (lambda x: x.reshape(-1), lambda x: x.as_strided((x.numel(),), (1,)), "with strides"),
        (lambda x: torch.relu(x), lambda x: x @ x, "the replacement cannot be called with the example"),
        (lambda x: x @ x, lambda x: x @ x, "the pattern cannot be called with the example"),
        (lambda x: x * 0.0, torch.zeros_like, r"differs by inf, for float32\[3, 4\] with a NaN"),
        (lambda x: torch.relu(x), lambda x: torch.where(x > 0, x, 0.0), "with a NaN"),
        (lambda x: x.abs() / x.abs().clamp(min=1e-9), lambda x: x / x, "with a zero"),
    ],
)
def test_a_difference_is_an_error(search: Any, replace: Any, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        fxc.register_pattern(search, replace, (X,))
    assert not registry.registered()


def test_differences_that_are_accepted() -> None:
    """The error names the option."""
    with pytest.raises(CaptureError, match="special_values=False"):
        fxc.register_pattern(lambda x: x * 0.0, torch.zeros_like, (X,), name="zero")
    fxc.register_pattern(lambda x: x * 0.0, torch.zeros_like, (X,), name="zero", special_values=False)
    with pytest.raises(CaptureError, match="same_strides=False"):
        fxc.register_pattern(torch.sin, lambda x: torch.sin(x.t().contiguous()).t(), (X,))
    fxc.register_pattern(torch.sin, lambda x: torch.sin(x.t().contiguous()).t(), (X,), same_strides=False)


def test_a_write_to_a_parameter_that_is_nan() -> None:
    def search(x: Tensor) -> Tensor:
        x.mul_(2)
        return x + 1

    fxc.register_pattern(search, lambda x: x * 2 + 1, (X,), name="write")


def test_broadcasts_are_tried() -> None:
    with pytest.raises(CaptureError, match=r"\[1, \d\]|\[\d, 1\]"):
        fxc.register_pattern(lambda a, b: a + b, lambda a, b: (a + b.expand(a.shape)) * (1 + (a.shape != b.shape)), (X, Y))


def test_rounding_is_no_difference() -> None:
    fxc.register_pattern(lambda x: torch.softmax(x, -1), lambda x: torch.exp(torch.log_softmax(x, -1)), (X,), name="softmax")


def test_the_state_of_the_generator_stays() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fxc.register_pattern(silu, F.silu, (X,))
    assert torch.equal(torch.rand(3), expected)
