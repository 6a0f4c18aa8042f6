"""Gradients and second derivatives of small float64 programs against finite differences: ``torch.autograd.gradcheck``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

import fxc
from fxc.errors import DerivativeError
from tests.differentiation import ONCE, SUBGRAPH, TWICE, autograd_nodes


def t(*shape: int, seed: int = 0, positive: bool = False) -> torch.Tensor:
    """A float64 input that requires grad, away from zero, where ``abs`` and ``relu`` have a corner."""
    made = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape)))
    made = made + 0.1 * made.sign()
    return (made.abs() + 0.3 if positive else made).requires_grad_()


def norms(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return F.layer_norm(x, (2,), w, b), F.group_norm(x, 1, w, b), F.batch_norm(x, None, None, w, b, training=True)


def reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(0), x.mean((0, 1)), x.amax(1), x.var(1), x.prod(1), x.logsumexp(0), torch.linalg.vector_norm(x, 2, 1)


def indexing(x: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    index = torch.tensor([2, 0, 2])
    return x[index], x.gather(1, index[None]), x.index_add(0, index, v), x[1:, ::2].sin(), torch.cat([x, v]).flip(0)


def branches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.cond(x.sum() > -1e9, lambda x, y: (x * y).sin(), lambda x, y: x.cos() + y, (x, y))
    return torch.cond(y.sum() > 1e9, lambda z: z.exp(), lambda z: z.tanh() * z, (z,)) * x


def embedding(w: torch.Tensor) -> torch.Tensor:
    return F.embedding(torch.tensor([[0, 2], [1, 1]]), w).tanh()


def solved(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x @ x.T + torch.eye(3, dtype=x.dtype)
    return torch.linalg.solve(a, b), torch.linalg.slogdet(a)[1]


FAMILIES: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
    "pointwise": (lambda x: F.gelu(x) * F.silu(x) + x.exp() / (1 + x.abs()) + x.relu() + x.tanh() ** 3, [t(2, 3)]),
    "broadcasting": (lambda x, y, z: (x * y + z).sigmoid() / (2 + y * y), [t(2, 1, 3), t(4, 1), t()]),
    "matmul": (lambda x, y, b: torch.matmul(x, F.linear(y, x[0], b)), [t(2, 3, 4), t(4, 4), t(3)]),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1).tanh(), [t(1, 1, 3, 3), t(2, 1, 2, 2), t(2)]),
    "norms": (norms, [t(3, 2), t(2), t(2, seed=1)]),
    "softmax": (lambda x: F.softmax(x, -1) * F.log_softmax(x, 0), [t(3, 4)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [t(1, 2, 3, 4), t(1, 2, 3, 4, seed=1), t(1, 2, 3, 4, seed=2)],
    ),
    "embedding": (embedding, [t(3, 4)]),
    "indexing": (indexing, [t(3, 3), t(3, 3, seed=1)]),
    "reductions": (reductions, [t(3, 4, positive=True)]),
    "losses": (lambda x: F.cross_entropy(x, torch.tensor([0, 2, 1]), label_smoothing=0.1), [t(3, 4)]),
    "branches": (branches, [t(3), t(3, seed=1)]),
    "linear algebra": (solved, [t(3, 3), t(3, 2)]),
    "singular values": (torch.linalg.svdvals, [t(3, 3)]),
    "complex": (lambda x: torch.view_as_real(torch.fft.rfft(x) * torch.complex(x, x)[:3]), [t(4)]),
}

NO_SECOND = {
    "attention": "PyTorch has no second derivative of its fused attention",
    "branches": "PyTorch's cond has no second derivative",
}

OTHER_SECOND = {"singular values"}
"""Families whose first derivatives have another form, where they are made to be differentiated again."""


@cache
def compiled(family: str, pipeline: str) -> tuple[GraphModule, Sequence[torch.Tensor]]:
    function, inputs = FAMILIES[family]
    graph = fxc.to_fx(fxc.run_passes(fxc.capture(function, tuple(inputs)), pipeline))
    outputs = [value for value in tree_leaves(graph(*inputs)) if value.requires_grad]
    assert SUBGRAPH in autograd_nodes(outputs, inputs)
    return graph, inputs


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(family: str) -> None:
    graph, inputs = compiled(family, ONCE)
    assert gradcheck(graph, inputs)


@pytest.mark.share(2)
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in NO_SECOND])
def test_second_derivatives(family: str) -> None:
    graph, inputs = compiled(family, TWICE)
    assert gradgradcheck(graph, inputs)


@pytest.mark.share(2)
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in NO_SECOND])
def test_second_derivatives_of_what_was_made_for_first_ones(family: str) -> None:
    """Gradients that were not made to be differentiated again may be, where that is the same; else they say that."""
    graph, inputs = compiled(family, ONCE)
    if family in OTHER_SECOND:
        with pytest.raises(DerivativeError, match="cannot be differentiated again"):
            gradgradcheck(graph, inputs)
        return
    assert gradgradcheck(graph, inputs)
