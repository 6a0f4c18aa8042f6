"""``flex_attention`` as the operators that compute its scores, so that kernels run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import fxc

SHAPE = (2, 4, 48, 8)
Q, K, V = (torch.randn(SHAPE, generator=torch.Generator().manual_seed(i)) for i in range(3))
SLOPES, DOCUMENTS = torch.tensor([0.5, 0.25, 0.1, 0.0]), torch.arange(48) // 20


def _documents(q: Any, k: Any, v: Any, documents: Any, slopes: Any) -> Any:
    mask = create_block_mask(lambda b, h, i, j: (documents[i] == documents[j]) & (i >= j), None, None, 48, 48, device="cpu")
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - slopes[h] * (i - j) * 0.1, block_mask=mask)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "captured": (_documents, (Q, K, V, DOCUMENTS, SLOPES)),
    "grouped": (lambda q, k, v: flex_attention(q, k, v, enable_gqa=True), (Q, K[:, :2], V[:, :2])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_values_are_eagers(name: str) -> None:
    function, args = CASES[name]
    torch._dynamo.reset()
    expected = function(*args)
    compiled = fxc.compile(function, args)
    torch.testing.assert_close(compiled(*args), expected)
    assert compiled.plan.stats.launches > 0
    assert "higher_order" not in str(compiled.ir)


@pytest.mark.slow
def test_values_of_torch_compile_are_eagers() -> None:
    function, args = CASES["captured"]
    torch._dynamo.reset()
    expected = function(*args)
    torch.testing.assert_close(torch.compile(function, backend="fxc", fullgraph=True)(*args), expected)


@pytest.mark.slow
def test_another_attention_beside_it_at_any_length() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(torch.softmax(q @ k.mT, -1) @ v, k, v)

    torch._dynamo.reset()
    run = torch.compile(function, backend="fxc", dynamic=True)
    for args in ((Q, K, V), (Q[:, :, :7], K[:, :, 1:], V[:, :, 1:])):
        torch.testing.assert_close(run(*args), function(*args))


@pytest.mark.slow
def test_an_indexed_parameter_is_trained() -> None:
    """On the CPU eager mode has gradients of captured tensors only."""
    slopes = torch.nn.Parameter(SLOPES.clone())
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 48, 48, device="cpu")

    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slopes = slopes

        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + self.slopes[h] * (i - j), block_mask=mask)

    model = Biased()
    compiled = fxc.compile(model, (Q, K, V), training=True)
    results = [call(Q, K, V) for call in (compiled, model)]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*(torch.autograd.grad(result.square().sum(), slopes) for result in results))
    assert "higher_order" not in str(compiled.ir)
