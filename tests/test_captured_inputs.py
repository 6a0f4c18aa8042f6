"""What the capture makes of inputs and callables that PyTorch's own would not take, or take for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import fxc
from fxc.bridge.static_world import IS_PLAIN
from fxc.errors import CaptureError, InputError


@pytest.mark.parametrize("training", [False, True])
def test_an_example_that_passes_a_tensor_twice(training: bool) -> None:
    """It says nothing of later calls, which may pass two."""
    attention = torch.nn.MultiheadAttention(8, 2).eval()
    x, y = torch.randn(3, 2, 8), torch.randn(3, 2, 8)
    compiled = fxc.compile(attention, (x, x, x), training=training)
    torch.testing.assert_close(compiled(x, y, y), attention(x, y, y))
    torch.testing.assert_close(compiled(x, x, x), attention(x, x, x))
    weight = torch.randn(3, requires_grad=True)
    difference = fxc.compile(lambda a, b: a * 2 - b["c"], (weight, {"c": weight}), training=True)
    [gradient] = torch.autograd.grad(difference(weight, {"c": weight}).sum(), weight)
    assert torch.equal(gradient, torch.ones(3))


@pytest.mark.parametrize("function", [torch.relu, torch.nn.functional.silu, torch.exp])
def test_functions_of_which_python_knows_no_signature(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(fxc.compile(function, (x,))(x), function(x))


TRANSFORMED: dict[str, Callable[..., Any]] = {
    "vmap": lambda x, y: torch.vmap(torch.dot)(x, y),
    "vmap of a vmap": lambda x, y: torch.vmap(torch.vmap(torch.mul))(x, y),
    "jvp": lambda x, y: torch.func.jvp(lambda z: z.sin() * z, (x,), (y,)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_function_transforms(name: str) -> None:
    if name == "jvp" and not IS_PLAIN:
        pytest.skip("torch.export captures it from PyTorch 2.13 on")
    function, inputs = TRANSFORMED[name], (torch.randn(3, 4), torch.randn(3, 4))
    torch.testing.assert_close(fxc.compile(function, inputs)(*inputs), function(*inputs))
    assert torch._C._functorch.peek_interpreter_stack() is None


def test_a_transform_that_export_cannot_capture() -> None:
    with pytest.raises(CaptureError, match="export cannot capture" + " the torch.func.grad in <lambda>" * IS_PLAIN):
        fxc.compile(lambda x: torch.func.grad(lambda z: z.sin().sum())(x), (torch.randn(3),))
    assert torch._C._functorch.peek_interpreter_stack() is None


PASSED_ON: dict[str, Any] = {
    "none": None, "text": "abc", "dtype": torch.float16, "device": torch.device("cpu"), "complex": 2 + 1j, "number": 3,
    "nested": {"x": None},
}  # fmt: skip


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", PASSED_ON)
def test_values_of_python_pass_beside_writes(name: str, target: str | None, training: bool) -> None:
    """Nothing computes with them, so that they need no type."""
    value = PASSED_ON[name]
    functions: list[Callable[..., Any]] = [
        lambda x, n: (x.add_(1), n)[1:],
        lambda x, n: (n, x.mul_(2), [n, x.sin()]),
        lambda x, n: (x.add_(1), 7)[1],
    ]
    for function in functions:
        compiled = fxc.compile(function, (torch.ones(3), value), training=training, options=fxc.Options(target=target))
        x, y = torch.ones(3), torch.ones(3)
        assert str(compiled(x, value)) == str(function(y, value))
        assert torch.equal(x, y)
        if name != "number":
            with pytest.raises(InputError):
                compiled(x, 5)
