"""Lower ops of ``arith``, ``tile.cast`` and ``tile.select`` to LLVM instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from fxc.codegen.cpu.builder import Builder, constant, float_text, vector_constant
from fxc.codegen.cpu.conversions import extend, in_float, truncate
from fxc.codegen.cpu.lanes import join, pieces
from fxc.codegen.cpu.types import I8, I16, I32, Type, Value, element_text, llvm_type
from fxc.dialects.tile import CastOp, CompareOp
from fxc.dialects.tile.types import element_of
from fxc.errors import KernelError

Rule = Callable[..., Value | Sequence[Value] | None]
"""``rule(builder, op, *operands)`` appends the code of ``op`` and returns its results."""

_KEPT_FLAGS = ("reassoc", "nsz", "arcp", "contract", "afn")  # nnan and ninf would make NaN and infinity undefined


def flags(op: Operation) -> str:
    """The fast-math flags of ``op`` that are valid for every input; ``contract`` in a sum that a loop accumulates.

    Elsewhere each operation is rounded, as in eager mode: a value that several kernels compute is the same in each, and
    ``a * b - c`` is 0 where ``c`` is that product.
    """
    found = op.properties.get("fastmath")
    names = {flag.value for flag in found.data} if isinstance(found, arith.FastMathFlagsAttr) else set[str]()
    if "fast" in names:
        names |= set(_KEPT_FLAGS)
    if _accumulates(op) or (isinstance(op, arith.MulfOp) and any(_accumulates(use.operation) for use in op.result.uses)):
        names.add("contract")
    return " ".join(name for name in _KEPT_FLAGS if name in names)


def _accumulates(op: Operation) -> bool:
    """Whether ``op`` adds to what the loop around it carries."""
    return isinstance(op, arith.AddfOp) and any(operand.owner is op.parent for operand in op.operands)


def _float_binary(instruction: str, b: Builder, op: Operation, left: Value, right: Value) -> Value:
    return in_float(b, partial(b.binary, f"{instruction} {flags(op)}".rstrip()), left, right)


def _float_intrinsic(name: str, b: Builder, op: Operation, *values: Value) -> Value:
    return in_float(b, partial(b.intrinsic, name), *values)


def _extreme(kind: str, b: Builder, op: Operation, left: Value, right: Value) -> Value:
    return in_float(b, partial(extreme, b, kind), left, right)


def _binary(instruction: str, b: Builder, op: Operation, left: Value, right: Value) -> Value:
    return b.binary(instruction, left, right)


def _intrinsic(name: str, b: Builder, op: Operation, *values: Value) -> Value:
    return b.intrinsic(name, *values)


def _negated(b: Builder, op: Operation, value: Value) -> Value:
    return in_float(b, b.neg, value)


def _select(b: Builder, op: Operation, condition: Value, yes: Value, no: Value) -> Value:
    return b.select(condition, yes, no)


# Integer division by zero, and of the minimum by -1, is undefined in LLVM and traps on x86. Masked-off lanes may hold any
# number, so each division uses a safe divisor. The result of a division by zero is 0.


def _safe(b: Builder, left: Value, right: Value, signed: bool) -> tuple[Value, Value | None]:
    """A divisor that does not trap, and the lanes in which it replaces the original divisor (None: no lane)."""
    one, zero = constant(right.type, 1), constant(right.type, 0)
    if _is_safe_constant(right):
        return right, None
    bad = b.compare("eq", right, zero)
    if signed:
        bad = b.binary("or", bad, b.compare("eq", right, constant(right.type, -1)))
    return b.select(bad, one, right), bad


def _is_safe_constant(value: Value, limit: int = 1 << 63) -> bool:
    """Whether ``value`` is a constant, equal in all lanes, that is positive and below ``limit``."""
    digits = value.text.removeprefix("splat (").removesuffix(")").split()[-1]
    return digits.isdecimal() and 0 < int(digits) < limit


def _divide(signed: bool, b: Builder, op: Operation, left: Value, right: Value) -> Value:
    divisor, bad = _safe(b, left, right, signed)
    quotient = b.binary("sdiv" if signed else "udiv", left, divisor)
    if bad is None:
        return quotient
    zero = constant(left.type, 0)
    instead = b.select(b.compare("eq", right, zero), zero, b.sub(zero, left)) if signed else zero
    return b.select(bad, instead, quotient)


def _remainder(signed: bool, b: Builder, op: Operation, left: Value, right: Value) -> Value:
    divisor, bad = _safe(b, left, right, signed)
    rest = b.binary("srem" if signed else "urem", left, divisor)
    return rest if bad is None else b.select(bad, constant(left.type, 0), rest)


def _rounded_division(up: bool, b: Builder, op: Operation, left: Value, right: Value) -> Value:
    """Signed division rounded towards minus infinity, or with ``up`` towards infinity."""
    quotient = _divide(True, b, op, left, right)
    rest = b.sub(left, b.mul(quotient, right))
    zero = constant(left.type, 0)
    exact = b.compare("eq", rest, zero)
    opposite = b.compare("slt", b.binary("xor", rest, right), zero)
    unfit = b.binary("and", b.compare("ne", right, zero), b.compare("eq", exact, constant(exact.type, 0)))
    wrong = b.compare("eq", opposite, constant(opposite.type, 0 if up else -1))
    step = b.cast("zext", b.binary("and", unfit, wrong), left.type.element) if left.type.element != "i1" else zero
    return b.add(quotient, step) if up else b.sub(quotient, step)


def _ceil_of_unsigned(b: Builder, op: Operation, left: Value, right: Value) -> Value:
    quotient = _divide(False, b, op, left, right)
    more = b.compare("ugt", left, b.mul(quotient, right))
    more = b.binary("and", more, b.compare("ne", right, constant(right.type, 0)))
    return b.add(quotient, b.cast("zext", more, left.type.element))


def _shift(instruction: str) -> Rule:
    """A shift that is defined for any distance: by the bit width or more, the result is 0, or the sign for ``ashr``."""

    def rule(b: Builder, op: Operation, left: Value, right: Value) -> Value:
        if _is_safe_constant(right, left.type.bits) or right.text in ("0", "zeroinitializer"):
            return b.binary(instruction, left, right)
        last = constant(right.type, left.type.bits - 1)
        wide = b.compare("ugt", right, last)
        shifted = b.binary(instruction, left, b.select(wide, last if instruction == "ashr" else constant(right.type, 0), right))
        return shifted if instruction == "ashr" else b.select(wide, constant(left.type, 0), shifted)

    return rule


# comparisons, constants, casts

_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_PREDICATES = ("false", *"oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split(), "true")


def _predicate(op: Operation) -> int:
    attribute = op.properties["predicate"]
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


def _compare_integers(b: Builder, op: Operation, left: Value, right: Value) -> Value:
    return b.compare(_INTEGER_PREDICATES[_predicate(op)], left, right)


def _compare_floats(b: Builder, op: Operation, left: Value, right: Value) -> Value:
    return _compared(b, _FLOAT_PREDICATES[_predicate(op)], left, right)


def _compare_blocks(b: Builder, op: CompareOp, left: Value, right: Value) -> Value:
    return _compared(b, op.kind.data, left, right)


def _compared(b: Builder, predicate: str, left: Value, right: Value) -> Value:
    return in_float(b, partial(b.compare, predicate), left, right)


def number_text(value: Any, element: str) -> str:
    """The LLVM text of one number of a constant."""
    if element == "i1":
        return "true" if value else "false"
    return str(int(value)) if element.startswith("i") else float_text(float(value), element)


def number(attribute: Attribute, type: Attribute) -> Value:
    """A constant attribute as an LLVM constant."""
    target = llvm_type(type)
    match attribute:
        case IntegerAttr() | FloatAttr():
            return Value(number_text(attribute.value.data, target.element), target)
        case DenseIntOrFPElementsAttr():
            texts = [number_text(value, target.element) for value in attribute.get_values()]
            if len(texts) != target.lanes:  # a splat stores its number once
                texts = texts * (target.lanes or 1)
            scalar = target.with_lanes(None)
            if len(set(texts)) == 1 and target.lanes is not None:
                return Builder.splat_constant(Value(texts[0], scalar), target.lanes)
            return vector_constant(scalar, texts)
        case _:
            raise KernelError(f"a kernel cannot hold the constant {attribute}")


def _constant(b: Builder, op: Operation) -> Value:
    return number(op.properties["value"], op.results[0].type)


def _result_element(op: Operation) -> str:
    return element_text(element_of(op.results[0].type))


def cast(b: Builder, kind: str, value: Value, element: str) -> Value:
    """Apply the cast ``arith.<kind>`` to ``value``."""
    match kind:
        case "extf":
            return extend(b, value, element)
        case "truncf":
            return truncate(b, value, element)
        case "sitofp" | "uitofp":
            through = "double" if element in ("half", "bfloat") else element
            return truncate(b, b.cast(kind, value, through), element)
        case "fptosi" | "fptoui":
            wide = extend(b, value, "float") if value.type.element in ("half", "bfloat") else value
            if Type(element).bits < 32:  # through i32, as in C: values out of range wrap
                return b.cast("trunc", b.to_integer(wide, "i32"), element)
            return b.to_integer(wide, element, kind)
        case _:
            return b.cast({"extsi": "sext", "extui": "zext", "trunci": "trunc"}[kind], value, element)


def _cast(kind: str, b: Builder, op: Operation, value: Value) -> Value:
    return cast(b, kind, value, _result_element(op))


def _tile_cast(b: Builder, op: CastOp, value: Value) -> Value:
    return cast(b, op.kind.data, value, _result_element(op))


def _index_cast(b: Builder, op: Operation, value: Value) -> Value:
    target: Type = value.type.of(_result_element(op))
    return b.cast("sext" if target.bits > value.type.bits else "trunc", value, target.element)


def _bitcast(b: Builder, op: Operation, value: Value) -> Value:
    element = _result_element(op)
    if str(value.type.of(element)) == str(value.type):  # bf16 and i16 are the same LLVM type
        return Value(value.text, value.type.of(element))
    return b.cast("bitcast", value, element)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "arith.constant": _constant,
        "arith.select": _select,
        "tile.select": _select,
        "tile.cast": _tile_cast,
        "arith.bitcast": _bitcast,
        "arith.index_cast": _index_cast,
        "arith.cmpi": _compare_integers,
        "arith.cmpf": _compare_floats,
        "tile.compare": _compare_blocks,
        "arith.negf": _negated,
        "arith.divsi": partial(_divide, True),
        "arith.divui": partial(_divide, False),
        "arith.remsi": partial(_remainder, True),
        "arith.remui": partial(_remainder, False),
        "arith.floordivsi": partial(_rounded_division, False),
        "arith.ceildivsi": partial(_rounded_division, True),
        "arith.ceildivui": _ceil_of_unsigned,
        **{f"arith.{name}": partial(_float_binary, f"f{name[:3]}") for name in ("addf", "subf", "mulf", "divf")},
        **{f"arith.{name}i": partial(_binary, name) for name in ("add", "sub", "mul", "and", "or", "xor")},
        "arith.shli": _shift("shl"),
        "arith.shrui": _shift("lshr"),
        "arith.shrsi": _shift("ashr"),
        **{f"arith.{name[1:]}{name[0]}i": partial(_intrinsic, f"llvm.{name}") for name in ("smin", "smax", "umin", "umax")},
        "arith.maximumf": partial(_extreme, "max"),
        "arith.minimumf": partial(_extreme, "min"),
        "arith.maxnumf": partial(_float_intrinsic, "llvm.maxnum"),
        "arith.minnumf": partial(_float_intrinsic, "llvm.minnum"),
        **{
            f"arith.{kind}": partial(_cast, kind)
            for kind in ("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui")
        },
    }
)
"""Op name -> rule."""


# maximum and minimum of two floats; NaN if one operand is NaN


_RANGE: Mapping[str, int] = MappingProxyType({"max": 5, "min": 4})
"""The immediate operand of AVX-512's ``vrange``: signed comparison, maximum or minimum."""


def extreme(b: Builder, kind: str, left: Value, right: Value) -> Value:
    """The maximum or minimum, with -0.0 below 0.0. ``kind`` is max or min.

    LLVM's code for the intrinsic has twice as many instructions, in one dependency chain, as ``vrange``.
    """
    lanes = {"float": 16, "double": 8}.get(left.type.element, 0)
    if "avx512dq" not in b.module.features or not lanes or (left.type.lanes or 1) % lanes:
        return b.intrinsic(f"llvm.{kind}imum", left, right)
    count = (left.type.lanes or 1) // lanes
    pairs = zip(pieces(b, left, count), pieces(b, right, count), strict=True)
    return join(b, [_in_register(b, kind, *pair) for pair in pairs])


def later_extreme(b: Builder, kind: str, left: Value, right: Value) -> Value:
    """The maximum or minimum; ``right`` if both are equal. ``kind`` is max or min."""
    right = b.select(b.compare("uno", left, left), left, right)
    return b.select(b.compare("ogt" if kind == "max" else "olt", left, right), left, right)


def _in_register(b: Builder, kind: str, left: Value, right: Value) -> Value:
    type: Type = left.type
    letter, mask = ("s", Value("-1", I16)) if type.element == "float" else ("d", Value("-1", I8))
    name, none = f"llvm.x86.avx512.mask.range.p{letter}.512", Value("zeroinitializer", type)
    of_numbers = b.call(name, type, left, right, Value(str(_RANGE[kind]), I32), none, mask, Value("4", I32))
    return b.select(b.compare("uno", left, right), b.add(left, right), of_numbers)
