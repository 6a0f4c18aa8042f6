"""Print ops that combine the lanes of a block: reductions, scans, dot products; and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.codegen.triton.spelling import bits, constant_value, is_bool, is_float
from fxc.codegen.triton.writer import KernelWriter, refusal
from fxc.dialects.tile import DotOp, IotaOp, RandomOp, ReduceOp, ScanOp, SplatOp
from fxc.dialects.tile.types import element_of, shape_of

_COMBINE: Mapping[str, str] = MappingProxyType(
    {
        "mul": "multiply",
        "max": "maximum",
        "min": "minimum",
        "and": "bit_and",
        "or": "bit_or",
        "xor": "bit_xor",
    }
)
"""Kind of reduction -> the helper that combines two lanes."""

_SCAN: Mapping[str, str] = MappingProxyType({**_COMBINE, "max": "later_maximum", "min": "later_minimum"})
"""Kind of scan -> the helper that combines a lane with those before it."""

WORDS = 4
"""The number of words that one call of Philox computes."""

SMALLEST_FACTOR = 16
"""The minimum size of each dimension of the factors of a dot product."""


def _reduce(writer: KernelWriter, op: ReduceOp) -> str:
    element, kind = element_of(op.value.type), op.kind.data
    value, back = _wide(writer, op, op.value, element)
    dims = [int(dim) for dim in op.dims.get_values()]
    if not dims:
        return f"{value}{back}"
    for dim in reversed(dims):
        if kind == "add":
            value = f"tl.sum({value}, axis={dim})"
        else:
            value = f"tl.reduce({value}, {dim}, {writer.helper(_COMBINE[kind])})"
    return f"{value}{back}"


def _scan(writer: KernelWriter, op: ScanOp) -> str:
    element, kind, dim = element_of(op.value.type), op.kind.data, op.dim.value.data
    value, back = _wide(writer, op, op.value, element)
    if kind == "add":
        return f"tl.cumsum({value}, axis={dim}){back}"
    return f"tl.associative_scan({value}, {dim}, {writer.helper(_SCAN[kind])}){back}"


def _dot(writer: KernelWriter, op: DotOp) -> str:
    """A dot product in IEEE precision, unless float32 operands may be rounded to 10 bits."""
    [rows, inner], [_, columns] = shape_of(op.left.type), shape_of(op.right.type)
    if min(rows, inner, columns) < SMALLEST_FACTOR:
        raise refusal(op, f"Triton multiplies blocks of {SMALLEST_FACTOR}x{SMALLEST_FACTOR} and more", "give it larger blocks")
    if bits(element_of(op.result.type)) > 32:
        raise refusal(op, "not every GPU multiplies blocks of float64", "leave it to the library")
    factors = f"{writer.typed(op.left)}, {writer.typed(op.right)}, {writer.typed(op.start)}"
    return f'tl.dot({factors}, input_precision="{"tf32" if "tf32" in op.attributes else "ieee"}")'


def _wide(writer: KernelWriter, op: ReduceOp | ScanOp, value: SSAValue, element: Attribute) -> tuple[str, str]:
    """The operand in a type that Triton reduces without promotion, and the cast back."""
    text, type = writer.typed(value), writer.dtype(element)
    if is_bool(element):
        if op.kind.data not in ("and", "or", "xor"):
            raise refusal(
                op, f'booleans are combined by "and", "or" and "xor", not by "{op.kind.data}"', "cast them to an integer first"
            )
        return f"{text}.to(tl.int32)", " != 0"
    if isinstance(element, BFloat16Type):
        return f"{text}.to(tl.float32)", f".to({type})"
    if not is_float(element) and bits(element) < 32:
        return f"{text}.to(tl.int32)", f".to({type})"
    return text, ""


def _random(writer: KernelWriter, op: RandomOp) -> str:
    """Random words; of consecutive offsets that start at a multiple of 4, one call of Philox gives the words of four lanes."""
    seed, first = writer.typed(op.seed), first_offset(op)
    if first is None:
        return f"{writer.helper('random_words')}({seed}, {writer.typed(op.offsets)})"
    terms = [writer.typed(value) if factor == 1 else f"{writer.typed(value)} * {factor}" for value, factor in first.terms]
    constant = str(first.constant) if terms else f"tl.full((), {first.constant}, tl.int64)"
    start = " + ".join([*terms, *([constant] if first.constant or not terms else [])])
    return f"{writer.helper('consecutive_words')}({seed}, {start}, {shape_of(op.offsets.type)[0]})"


@dataclass(frozen=True)
class Offsets:
    """The offset ``lane * step + constant + sum(value * factor)`` in each lane; ``terms`` are pairs of value and factor."""

    step: int
    constant: int
    terms: tuple[tuple[SSAValue, int], ...] = ()

    def __add__(self, other: Offsets) -> Offsets:
        return Offsets(self.step + other.step, self.constant + other.constant, (*self.terms, *other.terms))

    def __mul__(self, factor: int) -> Offsets:
        terms = tuple((value, factor * each) for value, each in self.terms)
        return Offsets(self.step * factor, self.constant * factor, terms)


def first_offset(op: RandomOp) -> Offsets | None:
    """The offset of lane 0, if it is a multiple of 4 and that of each next lane is one more; else None."""
    shape, found = shape_of(op.offsets.type), _offsets(op.offsets)
    if len(shape) != 1 or shape[0] < WORDS or found is None or found.step != 1 or found.constant % WORDS:
        return None
    return found if all(factor % WORDS == 0 or is_multiple(value, WORDS) for value, factor in found.terms) else None


def unread(kernel: Operation) -> set[Operation]:
    """The ops on blocks of offsets that no line reads, since ``first_offset`` replaces them."""
    found = set[Operation]()
    for op in kernel.walk(reverse=True):
        if isinstance(op, (IotaOp, SplatOp, arith.AddiOp, arith.MuliOp)) and shape_of(op.results[0].type):
            users = [use.operation for use in op.results[0].uses]
            if users and all(
                user in found or (isinstance(user, RandomOp) and first_offset(user) is not None) for user in users
            ):
                found.add(op)
    return found


def _offsets(value: SSAValue) -> Offsets | None:
    op = value.owner
    match op:
        case IotaOp():
            return Offsets(1, 0)
        case arith.ConstantOp():
            return Offsets(0, int(constant_value(op.value)))
        case SplatOp():
            number = op.value.owner
            return _offsets(op.value) if isinstance(number, arith.ConstantOp) else Offsets(0, 0, ((op.value, 1),))
        case arith.AddiOp() | arith.MuliOp():
            left, right = map(_offsets, op.operands)
            if left is None or right is None:
                return None
            if isinstance(op, arith.AddiOp):
                return left + right
            number, other = (left, right) if not left.step and not left.terms else (right, left)
            return None if number.step or number.terms else other * number.constant
        case _:
            return None


def is_multiple(value: SSAValue, of: int) -> bool:
    """Whether the integer ``value`` is known to be a multiple of ``of``."""
    match op := value.owner:
        case arith.ConstantOp():
            return int(constant_value(op.value)) % of == 0
        case arith.IndexCastOp():
            return is_multiple(op.input, of)
        case arith.MuliOp():
            return any(is_multiple(operand, of) for operand in op.operands)
        case arith.AddiOp() | arith.SubiOp():
            return all(is_multiple(operand, of) for operand in op.operands)
        case Block() if isinstance(loop := op.parent_op(), scf.ForOp) and value is op.args[0]:
            return is_multiple(loop.lb, of) and is_multiple(loop.step, of)
        case _:
            return False


RULES: Mapping[type[Operation], Callable[[KernelWriter, Any], str]] = MappingProxyType(
    {ReduceOp: _reduce, ScanOp: _scan, DotOp: _dot, RandomOp: _random}
)
"""Op -> the expression of its result."""
