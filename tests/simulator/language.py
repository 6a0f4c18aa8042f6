"""``tl`` and ``libdevice`` for the simulator: what printed kernels call, on blocks of all programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from fxc.bridge.random_numbers import philox
from fxc.errors import BoundsError, KernelError
from fxc.interpret.tile_ops import maximum, maximum_number, minimum, minimum_number
from tests.simulator.blocks import (
    DTYPES,
    OF_STORAGE,
    Block,
    DType,
    Number,
    aligned,
    apply,
    same_type,
    scalar,
)

_WORD = 0xFFFFFFFF
_ALL, _NONE = "propagate all", "propagate none"


def namespace(programs: torch.Tensor, grid: Sequence[int]) -> dict[str, Any]:
    """The globals of a kernel's source, for the ``programs`` of a grid by number."""
    memory = _MemoryFunctions(programs, grid)
    tl = SimpleNamespace(
        **DTYPES,
        **_FUNCTIONS,
        **{name: getattr(memory, name) for name in _MEMORY},
        PropagateNan=SimpleNamespace(ALL=_ALL, NONE=_NONE),
    )
    triton = SimpleNamespace(jit=lambda function: function)
    return {"tl": tl, "triton": triton, "libdevice": SimpleNamespace(**_LIBDEVICE), "range": _range}


_MEMORY = ("program_id", "load", "store", "atomic_add", "atomic_max", "atomic_min")


class _MemoryFunctions:
    def __init__(self, programs: torch.Tensor, grid: Sequence[int]) -> None:
        self.programs, self.grid = programs, (*grid, 1, 1)[:3]
        self.last = torch.zeros(len(programs), dtype=torch.bool)
        """Which programs have found that all others have counted themselves, and see what they wrote."""

    def program_id(self, axis: int) -> Block:
        x, y, _ = self.grid
        number = (self.programs % x, self.programs // x % y, self.programs // (x * y))[axis]
        return Block(number.int(), DTYPES["int32"])

    def load(self, pointer: Block, mask: Block | None = None, other: Block | Number | None = None) -> Block:
        pointer, active, owners = self._lanes(pointer, mask)
        assert pointer.memory is not None
        last = self.last.reshape(-1, *[1] * pointer.rank)
        found = pointer.memory.read(pointer.data, active, owners, last)
        dtype = OF_STORAGE[found.dtype]
        if mask is None or other is None:
            return Block(found, dtype)
        rest = other.to(dtype) if isinstance(other, Block) else scalar(other, dtype)
        return Block(torch.where(active, found, aligned(pointer, rest)[1].data), dtype)

    def store(self, pointer: Block, value: Block | int, mask: Block | None = None) -> None:
        self._write(pointer, value, mask)

    def atomic_add(self, pointer: Block, value: Block | int, mask: Block | None = None, sem: str = "") -> Block | None:
        """Nothing reads what was there before, but of a counter, to which each program adds 1."""
        if isinstance(value, Block):
            return self._write(pointer, value, mask, "sum")
        if value != 1 or pointer.rank or mask is not None or sem != "acq_rel":
            raise KernelError(f"a counter of programs takes 1 of each with acq_rel, not {value} with {sem}")
        pointer, active, owners = self._lanes(pointer, None)
        assert pointer.memory is not None
        before = pointer.memory.count(pointer.data, active, owners)
        self.last = before == torch.Size(self.grid).numel() - 1
        return Block(before, DTYPES["int32"])

    def atomic_max(self, pointer: Block, value: Block, mask: Block | None = None, sem: str = "") -> None:
        self._write(pointer, value, mask, "amax")

    def atomic_min(self, pointer: Block, value: Block, mask: Block | None = None, sem: str = "") -> None:
        self._write(pointer, value, mask, "amin")

    def _write(self, pointer: Block, value: Block | int, mask: Block | None, combined: str | None = None) -> None:
        """Store, or keep what ``Memory.combine`` makes of both."""
        pointer, active, owners = self._lanes(pointer, mask)
        assert pointer.memory is not None
        value = value if isinstance(value, Block) else scalar(value, OF_STORAGE[pointer.memory.flat.dtype])
        if value.shape != pointer.shape or value.data.dtype != pointer.memory.flat.dtype:
            raise KernelError(f"{value.dtype.name}{value.shape} is stored through a pointer of {pointer.shape}")
        written = pointer.data, active, owners, value.data.expand(pointer.data.shape)
        if combined is None:
            pointer.memory.write(*written)
        else:
            pointer.memory.combine(*written, combined)

    def _lanes(self, pointer: Block, mask: Block | None) -> tuple[Block, torch.Tensor, torch.Tensor]:
        """For each program of its own: the pointer, which lanes are active, and whose they are."""
        if pointer.memory is None:
            raise KernelError("an address is needed, not a number")
        if mask is not None and mask.shape != pointer.shape:
            raise KernelError(f"a mask of {mask.shape} for a pointer of {pointer.shape}")
        shape = (len(self.programs), *pointer.shape)
        active = torch.ones((), dtype=torch.bool) if mask is None else mask.data
        owners = self.programs.reshape(-1, *[1] * pointer.rank)
        return pointer.with_data(pointer.data.expand(shape)), active.expand(shape), owners


def _device_assert(condition: Block, message: str) -> None:
    if condition.dtype.name != "int1":
        raise KernelError(f"tl.device_assert of {condition.dtype.name}")
    if not condition.data.all():
        raise BoundsError(message)


def _range(*bounds: Block | int) -> Iterator[Block]:
    """``range``, giving numbers of the kernel's type."""
    wide = any(isinstance(bound, Block) and bound.dtype is DTYPES["int64"] for bound in bounds)
    dtype = DTYPES["int64" if wide else "int32"]
    return (scalar(number, dtype) for number in range(*(int(bound) for bound in bounds)))


def _arange(start: int, end: int) -> Block:
    size = end - start
    if size <= 0 or size & (size - 1):
        raise KernelError(f"tl.arange of {size} lanes: not a power of two")
    return Block(torch.arange(start, end, dtype=torch.int32)[None], DTYPES["int32"])


def _full(shape: tuple[int, ...], value: Block | Number, dtype: DType) -> Block:
    number = value if isinstance(value, Block) else scalar(value, dtype)
    if number.rank or number.dtype != dtype:
        raise KernelError(f"tl.full of {dtype.name} needs one number of that type")
    return Block(number.data.reshape(-1, *[1] * len(shape)).expand(-1, *shape), dtype)


def _broadcast_to(value: Block, shape: tuple[int, ...]) -> Block:
    data = value.data if value.rank else value.data.reshape(-1, *[1] * len(shape))
    return value.with_data(data.expand(-1, *shape))


def _where(condition: Block, a: Block | Number, b: Block | Number) -> Block:
    first, second = aligned(*same_type(a, b))
    if condition.dtype.name != "int1" or condition.rank not in (0, first.rank):
        raise KernelError("tl.where needs a condition of int1, with the shape of the values")
    lanes = condition.data if condition.rank else condition.data.reshape(-1, *[1] * first.rank)
    return first.with_data(torch.where(lanes, first.data, second.data))


def _extreme(
    of_integers: Callable[..., torch.Tensor], quiet: Callable[..., torch.Tensor], propagating: Callable[..., torch.Tensor]
) -> Callable[..., Block]:
    def extreme(a: Block | Number, b: Block | Number, propagate_nan: str = _NONE) -> Block:
        if any(isinstance(each, Block) and each.dtype.name == "bfloat16" for each in (a, b)):
            raise KernelError("Triton makes float32 of the bfloat16 here")
        is_float = any(isinstance(each, Block) and each.dtype.is_float for each in (a, b))
        return apply(of_integers if not is_float else propagating if propagate_nan == _ALL else quiet, a, b)

    return extreme


def _sum(value: Block, axis: int) -> Block:
    _refuse_narrow(value)
    return value.with_data(value.data.movedim(axis + 1, -1).contiguous().sum(-1, dtype=value.data.dtype))


def _cumsum(value: Block, axis: int) -> Block:
    _refuse_narrow(value)
    return value.with_data(value.data.cumsum(axis + 1, dtype=value.data.dtype))


def _refuse_narrow(value: Block) -> None:
    if value.dtype.name in ("bfloat16", "int1", "int8", "int16"):
        raise KernelError(f"Triton adds {value.dtype.name} in another type")


def _reduce(value: Block, axis: int, combine: Callable[..., Block]) -> Block:
    """Combine the two halves of the lanes until one is left."""
    dim = axis + 1
    while value.data.shape[dim] > 1:
        value = combine(*(value.with_data(half) for half in value.data.chunk(2, dim)))
    return value.with_data(value.data.squeeze(dim))


def _associative_scan(value: Block, axis: int, combine: Callable[..., Any]) -> Block:
    """Combine each lane with the one 1, 2, 4, ... before it."""
    dim, distance, size = axis + 1, 1, value.data.shape[axis + 1]
    while distance < size:
        first, rest = value.data.narrow(dim, 0, distance), value.data.narrow(dim, distance, size - distance)
        combined = combine(value.with_data(value.data.narrow(dim, 0, size - distance)), value.with_data(rest))
        value = value.with_data(torch.cat([first, combined.data], dim))
        distance *= 2
    return value


def _dot(a: Block, b: Block, acc: Block, input_precision: str) -> Block:
    """A product of blocks; factors of float32 are rounded to 10 bits where that is asked for."""
    known = input_precision in ("ieee", "tf32")
    if a.dtype != b.dtype or not a.dtype.is_float or acc.dtype.name != "float32" or not known:
        raise KernelError(f"tl.dot of {a.dtype.name} and {b.dtype.name} into {acc.dtype.name} with {input_precision}")
    if min(*a.shape, *b.shape) < 16 or acc.shape != (a.shape[0], b.shape[1]) or a.shape[1] != b.shape[0]:
        raise KernelError(f"tl.dot of {a.shape} and {b.shape} into {acc.shape}")
    factors = [_to_tf32(each.data.float()) if input_precision == "tf32" else each.data.float() for each in (a, b)]
    return acc.with_data(acc.data + factors[0] @ factors[1])


def _to_tf32(values: torch.Tensor) -> torch.Tensor:
    return (values.contiguous().view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


def _philox(seed: Block, *counters: Block) -> tuple[Block, ...]:
    """Philox 4x32, ten rounds: four words for each counter of four, the low words of the seed being the key."""
    *words, key = (each.data.long() for each in aligned(*counters, seed))
    found = philox([word & _WORD for word in words], [key & _WORD, (key >> 32) & _WORD])
    return tuple(Block(word.int(), DTYPES["uint32"]) for word in found)


def _floats(function: Callable[..., torch.Tensor], *types: str) -> Callable[..., Block]:
    """``function`` for floats that Triton's has a version for."""

    def call(*values: Block | Number) -> Block:
        found = {value.dtype.name for value in values if isinstance(value, Block)}
        if not found <= set(types or ("float32", "float64")):
            raise KernelError(f"no version of this function for {', '.join(sorted(found))}")
        return apply(function, *values)

    return call


def _in_double(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *values: function(*(value.double() for value in values)).to(values[0].dtype)


def _round(value: torch.Tensor) -> torch.Tensor:
    """To the nearest integer, halves away from zero."""
    whole = torch.trunc(value)
    return torch.copysign(whole.abs() + ((value - whole).abs() >= 0.5).to(value.dtype), value)


_FUNCTIONS: dict[str, Any] = {
    "arange": _arange,
    "full": _full,
    "broadcast_to": _broadcast_to,
    "expand_dims": lambda value, axis: value.with_data(value.data.unsqueeze(axis + 1)),
    "permute": lambda value, dims: value.with_data(value.data.permute(0, *(dim + 1 for dim in dims))),
    "where": _where,
    "cast": lambda value, dtype: value.to(dtype) if isinstance(value, Block) else scalar(value, dtype),
    "maximum": _extreme(torch.maximum, maximum_number, maximum),
    "minimum": _extreme(torch.minimum, minimum_number, minimum),
    "max": lambda value, axis: value.with_data(value.data.amax(axis + 1)),
    "sum": _sum,
    "cumsum": _cumsum,
    "reduce": _reduce,
    "associative_scan": _associative_scan,
    "dot": _dot,
    "philox": _philox,
    "interleave": lambda a, b: a.with_data(torch.stack([a.data, b.data], -1).flatten(-2)),
    "constexpr": int,
    "device_assert": _device_assert,
    "debug_barrier": lambda: None,
    "abs": lambda value: value.with_data(value.data.abs()),
    "floor": _floats(torch.floor),
    "ceil": _floats(torch.ceil),
    "exp": _floats(torch.exp, "float64"),
    "sqrt": _floats(torch.sqrt, "float64"),
    "sqrt_rn": _floats(torch.sqrt, "float32"),
    "div_rn": _floats(torch.div, "float32"),
    "fma": _floats(_in_double(lambda a, b, c: a * b + c)),
    **{name: _floats(getattr(torch, name)) for name in ("cos", "erf", "exp2", "log", "log2", "rsqrt", "sin")},
}

_LIBDEVICE: dict[str, Any] = {
    name: _floats(getattr(torch, name))
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "erfc", "erfinv", "expm1", "fmod"),
        *("hypot", "lgamma", "log10", "log1p", "nextafter", "pow", "sinh", "tan", "tanh", "trunc"),
    )
}
_LIBDEVICE |= {
    "cbrt": _floats(_in_double(lambda value: torch.copysign(value.abs() ** (1 / 3), value))),
    "nearbyint": _floats(torch.round),
    "round": _floats(_round),
}
