"""What a program cannot represent as a whole, and PyTorch runs: eager's results and writes, after a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._pytree import tree_leaves

import fxc

GRU = nn.GRU(3, 4, batch_first=True)


def gaps(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.as_strided((2,), (1,), x.storage_offset()) * 1


def beyond(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.as_strided((12,), (1,), 0) * 1


def later_start(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.as_strided((2,), (1,), x.storage_offset())


def write_and_read(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return y + 1


def seeded(x: Tensor) -> Tensor:
    torch.manual_seed(3)
    return x + torch.rand(12)


def text(x: Tensor) -> tuple[Tensor, str]:
    return x * 2, f"{x.sum()}"


def packed(x: Any) -> Tensor:
    return GRU(x)[0].data * 2


CASES: dict[str, tuple[Callable[..., Any], Callable[[Tensor], tuple[Any, ...]], str]] = {
    "gaps": (gaps, lambda base: (base[::2],), "not adjacent in memory"),
    "beyond": (beyond, lambda base: (base[4:8],), "counts from where that starts"),
    "later start": (later_start, lambda base: (base[4:8],), "counts from where that starts"),
    "same": (write_and_read, lambda base: (base, base), "shares memory"),
    "overlap": (write_and_read, lambda base: (base[:6], base[3:9]), "shares memory"),
    "views": (write_and_read, lambda base: (base.view(3, 4), base), "shares memory"),
    "seed": (seeded, lambda base: (base,), "seeds a random generator"),
    "text": (text, lambda base: (base,), "no operator for text"),
    "packed": (packed, lambda base: (pack_padded_sequence(base.view(2, 2, 3), [2, 1], batch_first=True),), "PackedSequence"),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_runs_in_parts(name: str, training: bool) -> None:
    function, inputs, reason = CASES[name]
    with pytest.raises(fxc.errors.CaptureError, match=reason):
        fxc.compile(function, inputs(torch.arange(12.0)), training=training)
    torch._dynamo.reset()
    before, memory = torch.get_rng_state(), torch.arange(12.0)
    with pytest.warns(fxc.errors.FallbackWarning, match=reason):
        compiled = fxc.compile(function, inputs(memory), training=training, options={"fallback": True})
    assert torch.equal(memory, torch.arange(12.0)) and torch.equal(torch.get_rng_state(), before)
    expected, found = torch.arange(12.0), torch.arange(12.0)
    pairs = zip(tree_leaves(compiled(*inputs(found))), tree_leaves(function(*inputs(expected))), strict=True)
    for result, wanted in pairs:
        assert torch.allclose(result, wanted) if isinstance(wanted, Tensor) else result == wanted
    assert torch.equal(found, expected)


@pytest.mark.parametrize("by", ["closure", "attribute", "elements"])
def test_tensors_that_are_not_of_the_model_learn(by: str) -> None:
    """A trace makes constants of them."""
    weight, shift = nn.Parameter(torch.arange(12.0).view(4, 3) / 8), torch.ones(3, requires_grad=True)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = [weight, shift]

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.kept[0]).tanh() + self.kept[1]

    def function(x: Tensor) -> Tensor:
        return (x @ weight).tanh() + shift

    def joined(x: Tensor) -> Tensor:
        return torch.cat([x, weight.mT]).tanh()[:, :3] + torch.stack([shift])

    model = {"closure": function, "attribute": Model(), "elements": joined}[by]
    x = torch.linspace(-1, 1, 8).view(2, 4)
    with pytest.raises(fxc.errors.CaptureError, match="neither an input nor a parameter"):
        fxc.compile(model, (x,), training=True)
    with pytest.warns(fxc.errors.FallbackWarning, match="neither an input nor a parameter"):
        compiled = fxc.compile(model, (x,), training=True, options={"fallback": True})
    found = torch.autograd.grad(compiled(x).square().sum(), [weight, shift])
    expected = torch.autograd.grad(model(x).square().sum(), [weight, shift])
    torch.testing.assert_close(found, expected)
    assert torch.allclose(fxc.compile(model, (x,))(x), model(x))  # without gradients


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_sparse_inputs_of_compressed_layouts(layout: torch.layout) -> None:
    def function(s: Tensor, x: Tensor) -> Tensor:
        return s.to_dense() + x

    sparse, x = torch.eye(3).to_sparse(layout=layout), torch.arange(9.0).view(3, 3)
    compiled = fxc.compile(function, (sparse, x), options={"fallback": True})
    assert torch.equal(compiled(sparse, x), torch.eye(3) + x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [False, True])
def test_submodules_that_torchscript_traced(training: bool) -> None:
    model, x = nn.Sequential(torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)), nn.ReLU()), torch.ones(1, 2)
    compiled = fxc.compile(model, (x,), training=training, options={"fallback": True})
    assert torch.allclose(compiled(x), model(x)) and compiled(x).requires_grad is training
