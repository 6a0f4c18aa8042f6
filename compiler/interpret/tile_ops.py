"""Semantics of ``arith`` and ``math`` operations on torch tensors: in kernels, and of scalars of other levels elementwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation

from fxc.bridge.random_numbers import random_bits
from fxc.bridge.values import torch_dtype
from fxc.dialects.tile.blocks import MathOp, RandomOp
from fxc.errors import NoRuleError

Tensor = torch.Tensor
Function = Callable[..., Tensor]
Binary = Callable[[Tensor, Tensor], Tensor]


def logical(integers: Binary, booleans: Binary) -> Binary:
    """Return ``integers``, or ``booleans`` for one-bit operands."""
    return lambda a, b: booleans(a, b) if a.dtype == torch.bool else integers(a, b)


def unsigned(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Binary:
    """Return a function on unsigned integers."""

    def run(a: Tensor, b: Tensor) -> Tensor:
        a, b = (x.to(torch.uint8) if x.dtype == torch.bool else x for x in (a, b))
        kind = np.dtype(f"uint{8 * a.element_size()}")
        result = function(a.contiguous().numpy().view(kind), b.contiguous().numpy().view(kind))
        return torch.as_tensor(result if result.dtype == bool else result.view(kind.str.replace("u", "i")))

    return run


def of_bits(function: Binary) -> Binary:
    """Return a function of integers that treats one bit as 0 or 1."""
    return lambda a, b: function(a.to(torch.int8), b.to(torch.int8)).bool() if a.dtype == torch.bool else function(a, b)


def signed(x: Tensor) -> Tensor:
    """Interpret one bit as a signed one-bit integer: true is -1."""
    return -x.to(torch.int8) if x.dtype == torch.bool else x


def magnitude(x: Tensor) -> Tensor:
    """Interpret an integer as unsigned, as int64; 64-bit integers are unchanged."""
    bits = 8 * x.element_size()
    return x.to(torch.int64) if x.dtype == torch.bool or bits == 64 else x.to(torch.int64) & ((1 << bits) - 1)


def divided(function: Binary) -> Binary:
    """Return a division that returns 0 for a divisor of 0: kernels leave that undefined, but must not trap."""
    return lambda a, b: torch.where(b == 0, torch.zeros_like(b), function(a, torch.where(b == 0, torch.ones_like(b), b)))


def _shifted(function: Binary, fill: Callable[[Tensor], Tensor]) -> Binary:
    def run(a: Tensor, b: Tensor) -> Tensor:
        bits = 8 * a.element_size()
        wide = (b < 0) | (b >= bits)
        return torch.where(wide, fill(a), function(a, torch.where(wide, torch.zeros_like(b), b)))

    return run


def _logical_shift(a: Tensor, b: Tensor) -> Tensor:
    bits = 8 * a.element_size()
    kept = torch.bitwise_right_shift(a, b)
    ones = torch.where(b == 0, -1, torch.bitwise_left_shift(torch.ones_like(a), torch.where(b == 0, 0, bits - b)) - 1)
    return kept & ones.to(a.dtype)


def _away_from_zero(x: Tensor) -> Tensor:
    whole = x.trunc()
    return torch.where((x - whole).abs() >= 0.5, whole + torch.copysign(torch.ones_like(x), x), whole)


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a.double() * b.double() + c.double()).to(a.dtype)


def _cbrt(x: Tensor) -> Tensor:
    return torch.as_tensor(np.cbrt(x.double().numpy())).to(x.dtype)


def _power_to_integer(x: Tensor, n: Tensor) -> Tensor:
    return torch.pow(x, n.to(x.dtype))


def narrowed(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Round a float to fewer digits, once. PyTorch converts float64 to 16 bits by way of float32, and rounds twice."""
    if x.dtype != torch.float64 or dtype not in (torch.float16, torch.bfloat16):
        return x.to(dtype)
    single = x.float()
    odd = single.view(torch.int32)
    odd = torch.where(single.double().abs() > x.abs(), odd - 1, odd) | (single.double() != x).int()
    return torch.where(x.isfinite() & single.isfinite(), odd.view(torch.float32), single).to(dtype)


def _wide_unsigned_float(x: Tensor, dtype: torch.dtype) -> Tensor:
    if x.dtype != torch.int64:
        return narrowed(magnitude(x).double(), dtype)
    return narrowed(torch.as_tensor(x.contiguous().numpy().view(np.uint64).astype(np.float64)), dtype)


def truncated(x: Tensor, dtype: torch.dtype) -> Tensor:
    return (x & 1).bool() if dtype == torch.bool else x.to(dtype)


def _to_unsigned(x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype != torch.int64:
        return truncated(x.to(torch.int64), dtype)
    return torch.where(x >= 2.0**63, (x.double() - 2.0**64).to(torch.int64), x.to(torch.int64))


def _ordered(function: Binary, of_zeros: Binary) -> Binary:
    """Return an extremum of floats with -0.0 below 0.0; PyTorch's functions return either."""
    return lambda a, b: torch.where((a == 0) & (b == 0), of_zeros(a, b), function(a, b))


maximum, maximum_number = (_ordered(function, torch.add) for function in (torch.maximum, torch.fmax))
minimum, minimum_number = (_ordered(function, lambda a, b: -(-a - b)) for function in (torch.minimum, torch.fmin))


CASTS: Mapping[str, Callable[[Tensor, torch.dtype], Tensor]] = MappingProxyType(
    {
        "extf": lambda x, dtype: x.to(dtype),
        "truncf": narrowed,
        "sitofp": lambda x, dtype: narrowed(signed(x).double(), dtype) if dtype.itemsize < 4 else signed(x).to(dtype),
        "uitofp": _wide_unsigned_float,
        "fptosi": lambda x, dtype: truncated(x.to(torch.int64), dtype),
        "fptoui": _to_unsigned,
        "extsi": lambda x, dtype: signed(x).to(dtype),
        "extui": lambda x, dtype: magnitude(x).to(dtype),
        "trunci": truncated,
        "index_cast": lambda x, dtype: truncated(signed(x).to(torch.int64), dtype),
    }
)
"""Casts by the name of the operation in ``arith``."""

BINARY: Mapping[str, Function] = MappingProxyType(
    {
        "arith.addf": torch.add,
        "arith.subf": torch.sub,
        "arith.mulf": torch.mul,
        "arith.divf": torch.true_divide,
        "arith.negf": torch.neg,
        "arith.maximumf": maximum,
        "arith.minimumf": minimum,
        "arith.maxnumf": maximum_number,
        "arith.minnumf": minimum_number,
        "arith.addi": logical(torch.add, torch.bitwise_xor),
        "arith.subi": logical(torch.sub, torch.bitwise_xor),
        "arith.muli": logical(torch.mul, torch.bitwise_and),
        "arith.divsi": of_bits(divided(lambda a, b: torch.div(a, b, rounding_mode="trunc"))),
        "arith.floordivsi": of_bits(divided(lambda a, b: torch.div(a, b, rounding_mode="floor"))),
        "arith.ceildivsi": of_bits(divided(lambda a, b: -torch.div(-a, b, rounding_mode="floor"))),
        "arith.remsi": of_bits(divided(torch.fmod)),
        "arith.divui": divided(unsigned(np.floor_divide)),
        "arith.remui": divided(unsigned(np.remainder)),
        "arith.andi": torch.bitwise_and,
        "arith.ori": torch.bitwise_or,
        "arith.xori": torch.bitwise_xor,
        "arith.shli": _shifted(torch.bitwise_left_shift, torch.zeros_like),
        "arith.shrsi": _shifted(torch.bitwise_right_shift, lambda a: torch.where(a < 0, -1, 0).to(a.dtype)),
        "arith.shrui": _shifted(_logical_shift, torch.zeros_like),
        "arith.maxsi": logical(torch.maximum, torch.bitwise_and),
        "arith.minsi": logical(torch.minimum, torch.bitwise_or),
        "arith.maxui": logical(unsigned(np.maximum), torch.bitwise_or),
        "arith.minui": logical(unsigned(np.minimum), torch.bitwise_and),
        "math.absf": torch.abs,
        "math.absi": torch.abs,
        "math.acos": torch.acos,
        "math.acosh": torch.acosh,
        "math.asin": torch.asin,
        "math.asinh": torch.asinh,
        "math.atan": torch.atan,
        "math.atanh": torch.atanh,
        "math.atan2": torch.atan2,
        "math.cbrt": _cbrt,
        "math.ceil": torch.ceil,
        "math.copysign": torch.copysign,
        "math.cos": torch.cos,
        "math.cosh": torch.cosh,
        "math.erf": torch.erf,
        "math.exp": torch.exp,
        "math.exp2": torch.exp2,
        "math.expm1": torch.expm1,
        "math.floor": torch.floor,
        "math.fma": _fma,
        "math.fpowi": _power_to_integer,
        "math.log": torch.log,
        "math.log10": torch.log10,
        "math.log1p": torch.log1p,
        "math.log2": torch.log2,
        "math.powf": torch.pow,
        "math.round": _away_from_zero,
        "math.roundeven": torch.round,
        "math.rsqrt": torch.rsqrt,
        "math.sin": torch.sin,
        "math.sinh": torch.sinh,
        "math.sqrt": torch.sqrt,
        "math.tan": torch.tan,
        "math.tanh": torch.tanh,
        "math.trunc": torch.trunc,
    }
)
"""Operations with operands only."""

FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "erfc": torch.erfc,
        "erfinv": torch.erfinv,
        "lgamma": torch.lgamma,
        "digamma": torch.digamma,
        "fmod": torch.fmod,
        "hypot": torch.hypot,
        "nextafter": torch.nextafter,
    }
)
"""The functions of ``tile.math``."""

INTEGER_COMPARISONS: tuple[Binary, ...] = (
    torch.eq,
    torch.ne,
    lambda a, b: torch.lt(signed(a), signed(b)),
    lambda a, b: torch.le(signed(a), signed(b)),
    lambda a, b: torch.gt(signed(a), signed(b)),
    lambda a, b: torch.ge(signed(a), signed(b)),
    unsigned(np.less),
    unsigned(np.less_equal),
    unsigned(np.greater),
    unsigned(np.greater_equal),
)
"""Comparisons by the predicate of ``arith.cmpi``."""


def _unordered(a: Tensor, b: Tensor) -> Tensor:
    return a.isnan() | b.isnan()


def _or_unordered(function: Binary) -> Binary:
    return lambda a, b: function(a, b) | _unordered(a, b)


FLOAT_COMPARISONS: tuple[Binary, ...] = (
    lambda a, b: torch.zeros_like(torch.eq(a, b)),
    torch.eq,
    torch.gt,
    torch.ge,
    torch.lt,
    torch.le,
    lambda a, b: torch.ne(a, b) & ~_unordered(a, b),
    lambda a, b: ~_unordered(a, b),
    _or_unordered(torch.eq),
    _or_unordered(torch.gt),
    _or_unordered(torch.ge),
    _or_unordered(torch.lt),
    _or_unordered(torch.le),
    torch.ne,
    _unordered,
    lambda a, b: torch.ones_like(torch.eq(a, b)),
)
"""Comparisons by the predicate of ``arith.cmpf``."""


def _folded(function: Binary) -> Callable[[Tensor], Tensor]:
    """Return a reduction along the last axis, lane by lane."""

    def run(x: Tensor) -> Tensor:
        result = x[..., 0]
        for lane in x.unbind(-1)[1:]:
            result = function(result, lane)
        return result

    return run


def _largest(x: Tensor) -> Tensor:
    """Return the largest number along the last axis; -0.0 is below 0.0."""
    found = x.amax(-1)
    if not x.is_floating_point():
        return found
    has_positive = ((x == 0) & ~x.signbit()).any(-1)
    return torch.where(found == 0, torch.where(has_positive, 0.0, -0.0).to(x.dtype), found)


def _smallest(x: Tensor) -> Tensor:
    return -_largest(-x) if x.is_floating_point() else x.amin(-1)


def _scanned(function: Binary) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        lanes = [x[..., 0]]
        for lane in x.unbind(-1)[1:]:
            lanes.append(function(lanes[-1], lane))
        return torch.stack(lanes, -1)

    return run


_COMBINE: Mapping[str, Binary] = MappingProxyType(
    {
        "add": logical(torch.add, torch.bitwise_xor),
        "mul": logical(torch.mul, torch.bitwise_and),
        "max": logical(torch.maximum, torch.bitwise_and),
        "min": logical(torch.minimum, torch.bitwise_or),
        "and": torch.bitwise_and,
        "or": torch.bitwise_or,
        "xor": torch.bitwise_xor,
    }
)

_REDUCE: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "add": lambda x: x.sum(-1, dtype=x.dtype),
        "mul": lambda x: x.prod(-1, dtype=x.dtype),
        "max": _largest,
        "min": _smallest,
    }
)

_SCAN: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "add": lambda x: x.cumsum(-1, dtype=x.dtype),
        "mul": lambda x: x.cumprod(-1, dtype=x.dtype),
        "max": lambda x: x.cummax(-1).values,
        "min": lambda x: x.cummin(-1).values,
    }
)


def identity(kind: str, dtype: torch.dtype) -> float:
    """Return the identity element of a reduction."""
    if kind in ("max", "min"):
        limits = None if dtype.is_floating_point or dtype is torch.bool else torch.iinfo(dtype)
        lowest, highest = (-torch.inf, torch.inf) if limits is None else (limits.min, limits.max)
        if dtype is torch.bool:  # as a signed one-bit integer, true is lower
            return kind == "max"
        return lowest if kind == "max" else highest
    if dtype is torch.bool and kind == "mul":
        return True
    return {"add": 0, "mul": 1, "and": -1, "or": 0, "xor": 0}[kind]


def reduction(kind: str, x: Tensor) -> Tensor:
    """Reduce along the last axis."""
    fast = _REDUCE.get(kind) if x.dtype != torch.bool else None
    return (fast or _folded(_COMBINE[kind]))(x)


def scan(kind: str, x: Tensor) -> Tensor:
    """Scan along the last axis, inclusively."""
    fast = _SCAN.get(kind) if x.dtype != torch.bool else None
    return (fast or _scanned(_COMBINE[kind]))(x)


def element_dtype(type: Attribute, wide: bool = False) -> torch.dtype:
    """Return the dtype for values of a scalar type; ``index`` is int64. ``wide``: floats are float64."""
    found = torch.int64 if isinstance(type, IndexType) else torch_dtype(type)
    return torch.float64 if wide and found.is_floating_point else found


def scalar_op(op: Operation, values: Sequence[torch.Tensor], wide: bool = False) -> torch.Tensor:
    """Return the result of ``op`` for operands that are tensors of elements; ``wide``: floats are float64.

    NoRuleError for operations outside of these dialects.
    """
    kind = op.name.removeprefix("arith.")
    if op.name in BINARY:
        return BINARY[op.name](*values).reshape(_shape(values))
    if kind in CASTS:
        return CASTS[kind](values[0], element_dtype(op.results[0].type, wide))
    match op:
        case arith.ConstantOp(value=IntegerAttr() | FloatAttr() as number):
            return torch.tensor(number.value.data, dtype=element_dtype(op.result.type, wide), device="cpu")
        case arith.CmpfOp():
            return FLOAT_COMPARISONS[op.predicate.value.data](*values)
        case arith.CmpiOp():
            return INTEGER_COMPARISONS[op.predicate.value.data](*values).reshape(_shape(values))
        case arith.SelectOp():
            condition, yes, no = values
            return torch.where(condition, yes, no)
        case arith.BitcastOp():
            held = values[0].to(element_dtype(op.input.type))  # use the bits of the float in its original type
            return held.view(element_dtype(op.result.type)).to(element_dtype(op.result.type, wide))
        case MathOp():
            return FUNCTIONS[op.kind.data](*values)
        case RandomOp():
            return random_bits(*values)
        case _:
            raise NoRuleError(f"{op.name} is an op on scalars without a rule in the interpreter")


def _shape(values: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Return the broadcast shape of ``values``: numpy functions add a dimension to scalars."""
    return np.broadcast_shapes(*(value.shape for value in values))
