"""Random straight-line programs of what groups are made of: views, pads, concatenations, gathers, scatters, arithmetic, sums.

A program is a list of steps; two numbers say what each does, and mean something for a tensor of any rank and any sizes.
What decides by a value compares it with 0.3, which sums in another order do not reach by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

Step: TypeAlias = tuple[str, int, int]
"""What is done, and two numbers that say how."""

Rule: TypeAlias = Callable[[torch.Tensor, int, int], torch.Tensor]

RANK = 4
"""No tensor has more dimensions."""


def _dim(x: torch.Tensor, number: int) -> int:
    return number % x.ndim


def _places(x: torch.Tensor, dim: int, first: int) -> torch.Tensor:
    """Each index of ``dim`` once, from ``first`` on or from the last back."""
    places = torch.arange(x.shape[dim])
    return places.roll(-first, 0) if first else places.flip(0)


def _along(x: torch.Tensor, dim: int, places: torch.Tensor) -> torch.Tensor:
    """``places`` of ``dim`` for each element of ``x``."""
    return places.reshape([-1 if other == dim else 1 for other in range(x.ndim)]).expand(x.shape)


def _chosen(x: torch.Tensor, dim: int, first: int) -> torch.Tensor:
    """Places of ``dim`` that the values of ``x`` say."""
    here, there = (_along(x, dim, places) for places in (torch.arange(x.shape[dim]), _places(x, dim, first)))
    return torch.where(x > 0.3, here, there)


def gather(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    return x.gather(_dim(x, a), _chosen(x, _dim(x, a), b))


def index_select(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    return x.index_select(_dim(x, a), _places(x, _dim(x, a), b))


def scatter(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    dim = _dim(x, a)
    return torch.zeros_like(x).scatter(dim, _along(x, dim, _places(x, dim, b)), x)


def scatter_add(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    dim = _dim(x, a)
    return torch.ones_like(x).scatter_add(dim, _chosen(x, dim, b), x)


def scatter_reduce(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    dim = _dim(x, a)
    return x.scatter_reduce(dim, _along(x, dim, _places(x, dim, b)), x * 0.5, "sum")


SAME: Mapping[str, Rule] = {
    "relu": lambda x, a, b: x.relu(),
    "affine": lambda x, a, b: x * (0.25 * a - 1) + b,
    "tanh": lambda x, a, b: torch.tanh(x),
    "where": lambda x, a, b: torch.where(x > 0.3, x, -0.5 * x),
    "flip": lambda x, a, b: x.flip(_dim(x, a)),
    "roll": lambda x, a, b: x.roll(b - 3, _dim(x, a)),
    "softmax": lambda x, a, b: torch.softmax(x, _dim(x, a)),
    "centre": lambda x, a, b: x - x.mean(_dim(x, a), keepdim=True),
    "scale": lambda x, a, b: x / (1 + x.abs().sum(_dim(x, a), keepdim=True)),
    "places": lambda x, a, b: x + _along(x, _dim(x, a), torch.arange(x.shape[_dim(x, a)])) * 0.125,
    "tril": lambda x, a, b: x.tril(b - 2) if x.ndim > 1 else x.relu(),
    "gather": gather,
    "index_select": index_select,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
}
"""What leaves sizes alone."""

OTHER: Mapping[str, Rule] = {
    "transpose": lambda x, a, b: x.transpose(_dim(x, a), _dim(x, b)),
    "flatten": lambda x, a, b: x.flatten(a % (x.ndim - 1), a % (x.ndim - 1) + 1) if x.ndim > 1 else x,
    "expand": lambda x, a, b: x.unsqueeze(a % (x.ndim + 1)).expand(
        [b + 1 if dim == a % (x.ndim + 1) else -1 for dim in range(x.ndim + 1)]
    ),
    "cat": lambda x, a, b: torch.cat([x, x.relu() + b, x][: 2 + a % 2], _dim(x, b)),
    "pad": lambda x, a, b: F.pad(x, (a % 3, b % 3)),
    "pad two": lambda x, a, b: F.pad(x, (a % 2, b % 3, b % 2, a % 3), value=0.5) if x.ndim > 1 else F.pad(x, (1, 0)),
    "sum": lambda x, a, b: x.sum(_dim(x, a)) if x.ndim > 1 else x,
    "mean": lambda x, a, b: x.mean(_dim(x, a), keepdim=True) if x.ndim > 1 else x,
    "repeat": lambda x, a, b: x.repeat([2 if dim == _dim(x, a) else 1 for dim in range(x.ndim)]),
    "stack": lambda x, a, b: torch.stack([x, x * 2], a % (x.ndim + 1)),
}
"""What changes sizes."""

OF_KNOWN_SIZES: Mapping[str, Rule] = {
    "every second": lambda x, a, b: x[(slice(None),) * _dim(x, a) + (slice(b % 2, None, 2),)],
    "from": lambda x, a, b: x[(slice(None),) * _dim(x, a) + (slice(min(b % 3, x.shape[_dim(x, a)] - 1), None),)],
    "windows": lambda x, a, b: x.unfold(_dim(x, a), min(2 + b % 2, x.shape[_dim(x, a)]), 1 + b % 2),
    "amax": lambda x, a, b: x.amax(_dim(x, a), keepdim=True),
    "negative pad": lambda x, a, b: F.pad(x, (-min(a % 3, x.shape[-1] - 1), b % 2)),
    "halves": lambda x, a, b: x.reshape(2, -1) if x.numel() % 2 == 0 else x,
}
"""What is only there for some sizes, or asks which there are."""

MOST = 6000
"""No value has more elements."""


def program(steps: Sequence[Step]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that does ``steps`` one after another."""

    def run(x: torch.Tensor) -> torch.Tensor:
        same = [x]
        for name, a, b in steps:
            if name == "with an earlier":
                same.append(same[-1] + same[b % len(same)] * 0.5)
            elif name in SAME:
                same.append(SAME[name](same[-1], a, b))
            else:
                made = {**OTHER, **OF_KNOWN_SIZES}[name](same[-1], a, b)
                same = [made] if made.ndim <= RANK else same
        return same[-1] * 1.5 + 0.25

    return run


def steps(names: Sequence[str], most: int) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=most)


ANY_SIZES = ("with an earlier", *SAME, *OTHER)
KNOWN_SIZES = (*ANY_SIZES, *OF_KNOWN_SIZES)
