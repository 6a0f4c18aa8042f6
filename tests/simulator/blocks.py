"""Values of the simulator: a block for all programs at once, with Triton's types and few of its liberties.

Where Triton would change a type without being asked, this raises: printed kernels say all their conversions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fxc.errors import KernelError
from tests.simulator.memory import Memory

Number = bool | int | float


@dataclass(frozen=True)
class DType:
    """``storage`` is torch's type of the same width; integers without a sign lie in those with one."""

    name: str
    storage: torch.dtype
    unsigned: bool = False

    @property
    def is_float(self) -> bool:
        return self.storage.is_floating_point


_UNSIGNED = {"uint8": "int8", "uint16": "int16", "uint32": "int32", "uint64": "int64"}
DTYPES = {
    name: DType(name, getattr(torch, name))
    for name in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64")
}
DTYPES |= {name: DType(name, getattr(torch, signed), unsigned=True) for name, signed in _UNSIGNED.items()}
DTYPES["int1"] = DType("int1", torch.bool)
OF_STORAGE = {dtype.storage: dtype for dtype in DTYPES.values() if not dtype.unsigned}


class Diverged(Exception):
    """Programs of a batch take different ways. ``labels`` says which belong together."""

    def __init__(self, labels: torch.Tensor) -> None:
        super().__init__("programs take different ways")
        self.labels = labels


class Block:
    """``data`` has the programs as its first dimension, or 1 where all agree. That of a pointer to ``memory`` are offsets."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: torch.Tensor, dtype: DType, memory: Memory | None = None) -> None:
        self.data, self.dtype, self.memory = data, dtype, memory

    @property
    def rank(self) -> int:
        return self.data.ndim - 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape[1:])

    def with_data(self, data: torch.Tensor) -> Block:
        return Block(data, self.dtype, self.memory)

    def to(self, dtype: DType, bitcast: bool = False) -> Block:
        if bitcast:
            if dtype.storage.itemsize != self.dtype.storage.itemsize:
                raise KernelError(f"no bitcast from {self.dtype.name} to {dtype.name}")
            return Block(self.data.contiguous().view(dtype.storage), dtype)
        if self.dtype.unsigned:
            return Block(torch.from_numpy(self.numpy().astype(np.int64)), DTYPES["int64"]).to(dtype)
        if dtype.unsigned and self.dtype.is_float:
            return Block(self.data.to(torch.int64).to(dtype.storage), dtype)
        return Block(self.data.to(dtype.storage), dtype)

    def numpy(self) -> np.ndarray:
        """The numbers of a block of integers without a sign."""
        return self.data.contiguous().numpy().view(self.dtype.name)

    def __getitem__(self, places: Any) -> Block:
        places = places if isinstance(places, tuple) else (places,)
        return self.with_data(self.data[(slice(None), *places)])

    def uniform(self) -> Any:
        """The one number of all programs. Raises Diverged where they differ."""
        if self.rank:
            raise KernelError("a block is no number to decide on")
        if not bool((self.data == self.data[0]).all()):
            raise Diverged(self.data)
        return self.data[0].item()

    def __bool__(self) -> bool:
        return bool(self.uniform())

    def __index__(self) -> int:
        return int(self.uniform())

    def __invert__(self) -> Block:
        return self.with_data(~self.data)

    def __neg__(self) -> Block:
        return self.with_data(-self.data)


def scalar(number: Number, dtype: DType) -> Block:
    return Block(torch.tensor([number], dtype=dtype.storage), dtype)


def aligned(*blocks: Block) -> list[Block]:
    """Blocks with the rank of the highest; only numbers are stretched."""
    rank = max(block.rank for block in blocks)
    if any(block.rank not in (0, rank) for block in blocks):
        raise KernelError(f"blocks of different ranks: {', '.join(str(block.shape) for block in blocks)}")
    return [block.with_data(block.data.reshape(-1, *[1] * rank)) if not block.rank else block for block in blocks]


def same_type(*values: Block | Number) -> list[Block]:
    """All as blocks of one type: numbers take that of the blocks, and integers with a sign that of the widest."""
    dtypes = list(dict.fromkeys(value.dtype for value in values if isinstance(value, Block)))
    if not dtypes:
        dtypes = [DTYPES["float32" if any(isinstance(value, float) for value in values) else "int32"]]
    dtype = max(dtypes, key=lambda each: each.storage.itemsize)
    if len(dtypes) > 1 and any(each.is_float or each.unsigned or each.name == "int1" for each in dtypes):
        raise KernelError(f"operands of different types: {', '.join(each.name for each in dtypes)}")
    return [value.to(dtype) if isinstance(value, Block) else _typed(value, dtype) for value in values]


def _typed(number: Number, dtype: DType) -> Block:
    if isinstance(number, float) and not dtype.is_float:
        raise KernelError(f"{number} beside a block of {dtype.name}")
    if not dtype.is_float and dtype.name != "int1":
        limits = torch.iinfo(dtype.storage)
        if not limits.min <= number <= limits.max:
            raise KernelError(f"{number} is out of range for {dtype.name}")
    return scalar(number, dtype)


def apply(function: Callable[..., torch.Tensor], *values: Block | Number, result: DType | None = None) -> Block:
    """``function`` of the data of ``values``, as blocks of one type."""
    blocks = aligned(*same_type(*values))
    dtype = result or blocks[0].dtype
    if blocks[0].dtype.unsigned:
        numbers = [block.numpy() for block in blocks]
        found = np.asarray(_NUMPY.get(function, function)(*numbers))
        return Block(torch.from_numpy(found if result is not None else found.view(dtype.name.removeprefix("u"))), dtype)
    return Block(function(*(block.data for block in blocks)), dtype)


def divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Triton's ``//`` of integers: towards zero; by 0 it gives any number."""
    return torch.div(a, b.masked_fill(b == 0, 1), rounding_mode="trunc")


def remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Triton's ``%`` of integers: with the sign of ``a``; by 0 it gives any number."""
    return torch.fmod(a, b.masked_fill(b == 0, 1))


_NUMPY: dict[Callable[..., Any], Callable[..., Any]] = {
    divide: np.floor_divide,
    remainder: np.mod,
    torch.maximum: np.maximum,
    torch.minimum: np.minimum,
}


def _binary(function: Callable[..., torch.Tensor], result: DType | None = None, swap: bool = False) -> Callable[..., Block]:
    def method(self: Block, other: Block | Number) -> Block:
        if self.memory is not None or (isinstance(other, Block) and other.memory is not None):
            return _offset(self, other)
        return apply(function, *((other, self) if swap else (self, other)), result=result)

    return method


def _offset(pointer: Block, steps: Block | Number) -> Block:
    if isinstance(steps, Block):
        base, moved = aligned(pointer, steps)
        return Block(base.data + moved.data.long(), pointer.dtype, pointer.memory)
    return pointer.with_data(pointer.data + steps)


_ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": divide,
    "mod": remainder,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
for _name, _function in _ARITHMETIC.items():
    setattr(Block, f"__{_name}__", _binary(_function))
    setattr(Block, f"__r{_name}__", _binary(_function, swap=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Block, f"__{_name}__", _binary(getattr(operator, _name), DTYPES["int1"]))
