"""Inputs that share memory, of functions that write to them, through ``torch.compile``: all is as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fxc.runtime.shared_memory import shared_pair

SHARED: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "separate": lambda m: (m[:8].clone(), m[8:16].clone()),
    "alias": lambda m: (m[:8], m[:8]),
    "part": lambda m: (m[:8], m[4:12]),
    "other part": lambda m: (m[2:10], m[:8]),
    "disjoint": lambda m: (m[:8], m[8:16]),
    "interleaved": lambda m: (m[:16:2], m[1:16:2]),
    "strides": lambda m: (m[:16:2], m[:8]),
    "expanded": lambda m: (m[:8], m[3:4].expand(8)),
    "set_": lambda m: (m[:8], torch.empty(0).set_(m.untyped_storage(), 4, (8,), (1,))),
    "detach": lambda m: (m[:8], m.detach()[4:12]),
    "data": lambda m: (m[:8], m.data[4:12]),
    "dtype": lambda m: (m[:8], m.view(torch.int32)[4:12]),
    "numpy": lambda m: (m[:8], torch.from_numpy(m.numpy())[4:12]),
}


def second(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    before = a * 2
    b.add_(1)
    return before + a, b, b[1:]


def both(a: Tensor, b: Tensor) -> Tensor:
    a.add_(1)
    b.mul_(3)
    return a - b


def _run(function: Callable[..., Any], make: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Any, ...]:
    """Results and inputs after the call. They are empty where PyTorch refuses a write to elements that share memory."""
    inputs = make(torch.arange(24.0) + 1)
    try:
        return function(*inputs), inputs
    except RuntimeError as error:
        assert "more than one element of the written-to tensor refers to a single memory location" in str(error)
        return ()


@pytest.mark.share(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("write", [second, both])
@pytest.mark.parametrize("sharing", SHARED)
def test_written_inputs(sharing: str, write: Callable[..., Any], dynamic: bool) -> None:
    for calls in (("separate", sharing), (sharing, "separate", "other part")):
        torch.compiler.reset()
        compiled = torch.compile(write, backend="fxc", dynamic=dynamic)
        for call in calls:
            assert_close(_run(compiled, SHARED[call]), _run(write, SHARED[call]), rtol=0, atol=0)


@pytest.mark.parametrize("first_is_shared", [False, True])
def test_gradients_of_written_inputs(first_is_shared: bool) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2)
        return a * b

    def gradient(run: Callable[..., Tensor], shared: bool) -> tuple[Tensor, Tensor]:
        leaf = torch.arange(1.0, 9.0, requires_grad=True)
        memory = leaf * 2
        result = run(memory[:4], memory[2:6] if shared else leaf[4:] * 3)
        return result, *torch.autograd.grad(result.sum(), leaf)

    compiled = torch.compile(function, backend="fxc")
    for shared in (first_is_shared, not first_is_shared):
        assert_close(gradient(compiled, shared), gradient(function, shared))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_inputs_whose_elements_share_memory(shared: bool, dynamic: bool) -> None:
    def run(function: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        memory = torch.arange(12.0)
        other = memory if shared else memory.clone()
        return function(memory.as_strided((5, 3), (2, 1)), other.as_strided((5, 3), (2, 1), 1)), memory

    assert_close(run(torch.compile(both, backend="fxc", dynamic=dynamic)), run(both))


def test_shared_pair() -> None:
    memory, other = torch.zeros(4, 4), torch.zeros(4, 4)
    assert shared_pair((other, memory[1:], 3, memory[:2]), {3}) == (1, 3)
    assert shared_pair((other, memory[1:], 3, memory[:2]), {0}) is None
    assert shared_pair((memory[:, ::2], memory[:, 1::2], memory[:0]), {0, 1, 2}) is None
    assert shared_pair((memory, memory[3], memory[1]), {2}) == (0, 2)
