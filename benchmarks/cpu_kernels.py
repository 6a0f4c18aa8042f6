"""The functions that ``benchmarks/cpu.py`` measures as kernels, and what makes their arguments at a number of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SHAPES: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        1_000: (10, 100),
        10_000: (100, 100),
        100_000: (100, 1000),
        1_000_000: (1000, 1000),
        10_000_000: (10_000, 1000),
    }
)
"""Rows and columns; not a multiple of a vector's lanes."""
DRAWS = 8
"""Of values, in whose mean an error is: the largest of one draw is as often that of one compiler as of another."""
MIDDLE = 5
"""The dimension between rows and columns, of kernels on three."""

Inputs = tuple[Tensor, ...]
Function = (
    Callable[[Tensor], Tensor]
    | Callable[[Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor], Tensor]
    | Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
)
"""Of one tensor up to four."""


def _random(*shapes: tuple[int, ...]) -> Inputs:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def _flat(rows: int, columns: int) -> Inputs:
    return _random((rows, columns))


def _pair(rows: int, columns: int) -> Inputs:
    return _random((rows, columns), (rows, columns))


def _cube(rows: int, columns: int) -> Inputs:
    return _random((rows // MIDDLE, MIDDLE, columns))


def _turned_pair(rows: int, columns: int) -> Inputs:
    return _random((rows // MIDDLE, MIDDLE, columns), (rows // MIDDLE, columns, MIDDLE))


def _norm(rows: int, columns: int) -> Inputs:
    return _random((rows, columns), (columns,), (columns,))


def _rotary(rows: int, columns: int) -> Inputs:
    return _random((rows, columns), (columns,), (rows, columns), (rows, columns))


def _indices(limit: int, *shape: int) -> Tensor:
    return torch.randint(limit, shape, generator=torch.Generator().manual_seed(1))


def chain_of_10(x: Tensor, y: Tensor) -> Tensor:
    a = torch.sigmoid(x) * y + 0.5
    b = torch.tanh(a) - x
    return torch.where(b > 0, b * b, torch.abs(y) + a)


def rms_norm_rotary(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
    first, second = y.chunk(2, -1)
    return y * cos + torch.cat((-second, first), -1) * sin


@dataclass(frozen=True)
class KernelCase:
    """A function, and its float32 arguments at so many rows and columns."""

    function: Function
    make: Callable[[int, int], Inputs]

    def inputs(self, elements: int, dtype: torch.dtype, *, sliced: bool) -> Inputs:
        """Arguments of about ``elements`` elements; ``sliced``: floats are all but the first column of something wider."""
        found = self.make(*SHAPES[elements])
        return tuple(_converted(tensor, dtype, sliced) if tensor.is_floating_point() else tensor for tensor in found)


def draw(inputs: Inputs, seed: int) -> None:
    """Other values for the floats of ``inputs``, where they are."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in inputs:
        if tensor.is_floating_point():
            tensor.normal_(generator=generator)


def _converted(tensor: Tensor, dtype: torch.dtype, sliced: bool) -> Tensor:
    if not sliced:
        return tensor.to(dtype)
    wider = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] + 1, dtype=dtype)
    wider[..., 1:] = tensor
    return wider[..., 1:]


KERNELS: Mapping[str, KernelCase] = MappingProxyType({
    "chain of 3": KernelCase(lambda x, y: torch.relu(x * y + 0.5), _pair),
    "chain of 10": KernelCase(chain_of_10, _pair),
    "gelu": KernelCase(lambda x: F.gelu(x), _flat),
    "softmax": KernelCase(lambda x: x.softmax(-1), _flat),
    "layer norm": KernelCase(lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias), _norm),
    "RMSNorm, rotary": KernelCase(rms_norm_rotary, _rotary),
    "cross entropy": KernelCase(
        lambda x, classes: F.cross_entropy(x, classes), lambda rows, columns: (*_flat(rows, columns), _indices(columns, rows))
    ),
    "sum over 0 of 3": KernelCase(lambda x: x.sum(0), _cube),
    "sum over 1 of 3": KernelCase(lambda x: x.sum(1), _cube),
    "sum over 2 of 3": KernelCase(lambda x: x.sum(2), _cube),
    "sum of all": KernelCase(lambda x: x.sum(), _cube),
    "transpose": KernelCase(lambda x: x.t().contiguous(), _flat),
    "transpose and add": KernelCase(lambda x, y: x.transpose(1, 2) + y, _turned_pair),
    "gather of rows": KernelCase(
        lambda x, rows: x[rows], lambda rows, columns: (*_flat(rows, columns), _indices(rows, rows))
    ),
    "gather in rows": KernelCase(
        lambda x, places: x.gather(1, places), lambda rows, columns: (*_flat(rows, columns), _indices(columns, rows, columns))
    ),
})  # fmt: skip


def error(result: Tensor, exact: Tensor) -> float:
    """The largest difference from the float64 result, in epsilons of the dtype at the size of the largest element."""
    largest = exact.abs().max().item() or 1.0
    return (result.double() - exact).abs().max().item() / largest / torch.finfo(result.dtype).eps
