"""Text generated word by word through caches of keys and values: eager's words, and no compilation for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxc
from tests.recorded_plans import recorded

WORDS, WIDTH, HEADS, LONGEST = 31, 16, 2, 24
Cache = tuple[Tensor, Tensor]


class Decoder(nn.Module):
    """A block of attention with a cache that grows, or one of ``LONGEST`` words that is written at ``positions``."""

    def __init__(self, static: bool) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.projections, self.static = nn.Linear(WIDTH, 3 * WIDTH), static

    def forward(self, ids: Tensor, positions: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        x = self.words(ids) + torch.sin(positions[:, None] * torch.arange(1, WIDTH + 1) * 0.1)
        q, k, v = self.projections(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.static:
            keys, values = (old.index_copy(2, positions, new) for old, new in zip(cache, (k, v), strict=True))
        else:
            keys, values = (torch.cat(pair, 2) for pair in zip(cache, (k, v), strict=True))
        seen = torch.arange(keys.shape[2]) <= positions[:, None]
        y = nn.functional.scaled_dot_product_attention(q, keys, values, seen)
        return self.head(x + y.transpose(1, 2).flatten(2)), (keys, values)


def decode(call: Callable[..., Any], static: bool, prompt: Tensor, count: int) -> Tensor:
    empty = torch.zeros(len(prompt), HEADS, LONGEST if static else 0, WIDTH // HEADS)
    ids, cache, found = prompt, (empty, empty.clone()), [prompt]
    for _ in range(count):
        start = sum(each.shape[1] for each in found) - ids.shape[1]
        logits, cache = call(ids, torch.arange(start, start + ids.shape[1]), cache)
        ids = logits[:, -1:].argmax(-1)
        found.append(ids)
    return torch.cat(found, 1)


@pytest.fixture
def prompt() -> Tensor:
    torch.manual_seed(0)
    return torch.randint(WORDS, (2, 5))


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("static", [True, False], ids=["static", "growing"])
@torch.no_grad()
def test_a_cache_of_tensors_through_torch_compile(static: bool, prompt: Tensor) -> None:
    model = Decoder(static)
    with recorded() as plans:
        found = decode(torch.compile(model, backend="fxc"), static, prompt, 12)
    assert found.equal(decode(model, static, prompt, 12))
    assert len(plans) <= (3 if not static else 2), "the prompt; a word; and, where the cache grows, a word at any length"


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("static", [True, False], ids=["static", "growing"])
@torch.no_grad()
def test_a_cache_of_tensors_through_fxc_compile(static: bool, prompt: Tensor) -> None:
    """One plan for the prompt and for each word."""
    model, length = Decoder(static), torch.export.Dim("length")
    kept = LONGEST if static else 3
    cache = tuple(torch.randn(2, HEADS, kept, WIDTH // HEADS) for _ in range(2))
    grows = {} if static else {2: torch.export.Dim("kept")}
    example = prompt, torch.arange(5) + (0 if static else 3), cache
    with recorded() as plans:
        compiled = fxc.compile(model, example, dynamic_shapes=({1: length}, {0: length}, (grows, grows)))
        found = decode(compiled, static, prompt, 12)
    assert found.equal(decode(model, static, prompt, 12)) and len(plans) == 1


@pytest.mark.share(6)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
@pytest.mark.filterwarnings("ignore")
def test_generate_of_transformers(name: str, kind: str, prompt: Tensor) -> None:
    pytest.importorskip("transformers", reason="the extra models has it")
    from tests.models.library import ROWS

    torch.manual_seed(0)
    model = ROWS[name].make().eval()
    given: dict[str, Any] = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False, "cache_implementation": kind}
    expected = model.generate(prompt, **given, disable_compile=True)
    with recorded() as plans:
        model.forward = torch.compile(model.forward, backend="fxc", dynamic=None)
        found = model.generate(prompt, **given, disable_compile=True)
    assert found.equal(expected)
    assert len(plans) <= 6, "compilations do not grow with the words"
