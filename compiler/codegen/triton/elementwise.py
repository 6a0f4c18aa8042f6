"""Print elementwise ops of ``arith``, ``math`` and ``tile``: each op is one Triton expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, IndexType, VectorType, i1, i32
from xdsl.ir import Operation, SSAValue

from fxc.codegen.triton.spelling import bits, full, is_bool, is_float, is_half
from fxc.codegen.triton.writer import HELPERS, KernelWriter, refusal
from fxc.dialects.tile import CastOp, CompareOp, MathOp, SelectOp
from fxc.dialects.tile.types import element_of, shape_of


@dataclass(frozen=True)
class Operator:
    """An operator, for all types. One operand may be a bare number: Triton converts it to the type of the other."""

    text: str


@dataclass(frozen=True)
class Function:
    """A call with the operands for ``{0}``, ``{1}``; ``double`` is the call for f64 if it differs.

    Half precision is computed in f32 and rounded once. It calls a function of Triton or one of ``HELPERS``.
    """

    text: str
    double: str = ""


_NAN = "propagate_nan=tl.PropagateNan.ALL"

SPELLINGS: Mapping[type[Operation], Operator | Function] = MappingProxyType(
    {
        arith.AddfOp: Operator("{0} + {1}"),
        arith.SubfOp: Operator("{0} - {1}"),
        arith.MulfOp: Operator("{0} * {1}"),
        arith.DivfOp: Function("tl.div_rn({0}, {1})", double="{0} / {1}"),
        arith.NegfOp: Operator("{0} * -1.0"),  # Triton's -x is 0.0 - x, which has the wrong sign for 0.0
        arith.AddiOp: Operator("{0} + {1}"),
        arith.SubiOp: Operator("{0} - {1}"),
        arith.MuliOp: Operator("{0} * {1}"),
        arith.DivSIOp: Operator("{0} // {1}"),  # // and % truncate in Triton
        arith.RemSIOp: Operator("{0} % {1}"),
        arith.AndIOp: Operator("{0} & {1}"),
        arith.OrIOp: Operator("{0} | {1}"),
        arith.XOrIOp: Operator("{0} ^ {1}"),
        arith.ShLIOp: Operator("{0} << {1}"),
        arith.ShRSIOp: Operator("{0} >> {1}"),
        arith.MaxSIOp: Function("tl.maximum({0}, {1})"),
        arith.MinSIOp: Function("tl.minimum({0}, {1})"),
        arith.MaximumfOp: Function(f"tl.maximum({{0}}, {{1}}, {_NAN})"),
        arith.MinimumfOp: Function(f"tl.minimum({{0}}, {{1}}, {_NAN})"),
        arith.MaxnumfOp: Function("tl.maximum({0}, {1})"),
        arith.MinnumfOp: Function("tl.minimum({0}, {1})"),
        math.AbsFOp: Function("tl.abs({0})"),
        math.AbsIOp: Function("tl.abs({0})"),
        math.AcosOp: Function("libdevice.acos({0})"),
        math.AcoshOp: Function("libdevice.acosh({0})"),
        math.AsinOp: Function("libdevice.asin({0})"),
        math.AsinhOp: Function("libdevice.asinh({0})"),
        math.AtanOp: Function("libdevice.atan({0})"),
        math.Atan2Op: Function("libdevice.atan2({0}, {1})"),
        math.AtanhOp: Function("libdevice.atanh({0})"),
        math.CbrtOp: Function("libdevice.cbrt({0})"),
        math.CeilOp: Function("tl.ceil({0})"),
        math.CopySignOp: Function("libdevice.copysign({0}, {1})"),
        math.CosOp: Function("tl.cos({0})"),
        math.CoshOp: Function("libdevice.cosh({0})"),
        math.ErfOp: Function("tl.erf({0})"),
        math.ExpOp: Function("accurate_exp({0})", double="tl.exp({0})"),
        math.Exp2Op: Function("tl.exp2({0})"),
        math.ExpM1Op: Function("libdevice.expm1({0})"),
        math.FloorOp: Function("tl.floor({0})"),
        math.FmaOp: Function("tl.fma({0}, {1}, {2})"),
        math.LogOp: Function("tl.log({0})"),
        math.Log10Op: Function("libdevice.log10({0})"),
        math.Log1pOp: Function("libdevice.log1p({0})"),
        math.Log2Op: Function("tl.log2({0})"),
        math.PowFOp: Function("libdevice.pow({0}, {1})"),
        math.RoundOp: Function("libdevice.round({0})"),
        math.RoundEvenOp: Function("libdevice.nearbyint({0})"),
        math.RsqrtOp: Function("tl.rsqrt({0})"),
        math.SinOp: Function("tl.sin({0})"),
        math.SinhOp: Function("libdevice.sinh({0})"),
        math.SqrtOp: Function("tl.sqrt_rn({0})", double="tl.sqrt({0})"),
        math.TanOp: Function("libdevice.tan({0})"),
        math.TanhOp: Function("libdevice.tanh({0})"),
        math.TruncOp: Function("libdevice.trunc({0})"),
    }
)

UNSIGNED: Mapping[type[Operation], str] = MappingProxyType(
    {
        arith.DivUIOp: "{0} // {1}",
        arith.RemUIOp: "{0} % {1}",
        arith.ShRUIOp: "{0} >> {1}",
        arith.MaxUIOp: "tl.maximum({0}, {1})",
        arith.MinUIOp: "tl.minimum({0}, {1})",
    }
)
"""Ops on unsigned integers. Triton's integers are signed, so the operands are cast unless they cannot be negative."""

BOOLEAN: Mapping[type[Operation], Operator] = MappingProxyType(
    {
        arith.AddiOp: Operator("{0} ^ {1}"),
        arith.SubiOp: Operator("{0} ^ {1}"),
        arith.MuliOp: Operator("{0} & {1}"),
    }
)
"""Arithmetic on ``i1``, which is modulo 2."""

MATH: Mapping[str, str] = MappingProxyType(
    {
        "erfc": "libdevice.erfc({0})",
        "erfinv": "libdevice.erfinv({0})",
        "lgamma": "libdevice.lgamma({0})",
        "fmod": "libdevice.fmod({0}, {1})",
        "hypot": "libdevice.hypot({0}, {1})",
        "nextafter": "libdevice.nextafter({0}, {1})",
    }
)
"""Kind of ``tile.math`` -> its call."""

_INTEGER_COMPARISONS = {
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
}
_FLOAT_COMPARISONS = {
    "oeq": "{0} == {1}",
    "ogt": "{0} > {1}",
    "oge": "{0} >= {1}",
    "olt": "{0} < {1}",
    "ole": "{0} <= {1}",
    "one": "({0} < {1}) | ({0} > {1})",
    "ord": "({0} == {0}) & ({1} == {1})",
    "ueq": "~(({0} < {1}) | ({0} > {1}))",
    "ugt": "~({0} <= {1})",
    "uge": "~({0} < {1})",
    "ult": "~({0} >= {1})",
    "ule": "~({0} > {1})",
    "une": "{0} != {1}",
    "uno": "({0} != {0}) | ({1} != {1})",
}


def expression(writer: KernelWriter, op: Operation) -> str | None:
    """The expression of ``op``; None if ``op`` is not elementwise or Triton has no equivalent."""
    spelling = SPELLINGS.get(type(op))
    if type(op) in BOOLEAN and is_bool(element_of(op.results[0].type)):
        spelling = BOOLEAN[type(op)]
    if isinstance(spelling, Operator):
        return _apply(spelling.text, operands(writer, op))
    if isinstance(spelling, Function):
        return _call(writer, spelling, op)
    if isinstance(op, MathOp):
        kind = op.kind.data
        if kind == "nextafter" and is_half(element_of(op.result.type)):
            raise refusal(op, "the next number after a half-precision one is no float's next", "leave it to the library")
        return _call(writer, Function(MATH[kind]), op) if kind in MATH else None
    if type(op) in UNSIGNED:
        text = UNSIGNED[type(op)]
        if writer.ranges.is_natural(*op.operands):
            return _apply(text, operands(writer, op))
        values = [unsigned(writer, operand) for operand in op.operands]
        return f"({_apply(text, values)}).to({writer.dtype(op.results[0].type)}, bitcast=True)"
    handler = _OTHERS.get(type(op))
    return handler(writer, op) if handler is not None else None


def operands(writer: KernelWriter, op: Operation) -> list[str]:
    """The operands of ``op`` as text; at least one has a type."""
    texts = [writer.text(operand) for operand in op.operands]
    if all(writer.constant(operand) is not None for operand in op.operands):
        texts[0] = writer.typed(op.operands[0])
    return texts


def _apply(text: str, values: list[str]) -> str:
    return text.format(*values)


def _call(writer: KernelWriter, function: Function, op: Operation) -> str:
    """The text of a call. A function treats a bare number as f32, i32 or index, so constants of other types are typed."""
    element = element_of(op.results[0].type)
    if is_half(element):
        values = [f"{writer.typed(operand)}.to(tl.float32)" for operand in op.operands]
        return f"{_apply(_text(writer, function), values)}.to({writer.dtype(element)})"
    if element == i32 or isinstance(element, (Float32Type, IndexType)):
        values = operands(writer, op)
    else:
        values = [writer.typed(operand) for operand in op.operands]
    is_double = is_float(element) and not isinstance(element, Float32Type)
    return _apply(function.double if is_double and function.double else _text(writer, function), values)


def _text(writer: KernelWriter, function: Function) -> str:
    name = function.text.partition("(")[0]
    return function.text if name not in HELPERS else function.text.replace(name, writer.helper(name))


def _divide(helper: str) -> Callable[[KernelWriter, Operation], str]:
    def divide(writer: KernelWriter, op: Operation) -> str:
        if helper == "floor_divide" and writer.ranges.is_natural(*op.operands):
            return _apply("{0} // {1}", operands(writer, op))
        values = [writer.typed(operand) for operand in op.operands]
        return f"{writer.helper(helper)}({', '.join(values)})"

    return divide


def _ceil_divide_unsigned(writer: KernelWriter, op: Operation) -> str:
    if writer.ranges.is_natural(*op.operands):
        return f"{writer.helper('ceil_divide')}({', '.join(map(writer.typed, op.operands))})"
    raise refusal(op, "Triton has no unsigned division that rounds up", "use arith.ceildivsi")


def _compare(writer: KernelWriter, op: Operation) -> str:
    """The expression of ``arith.cmpi``, ``arith.cmpf`` or ``tile.compare``."""
    if isinstance(op, CompareOp):
        predicate = op.kind.data
    elif isinstance(op, arith.CmpiOp):
        predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    else:
        assert isinstance(op, arith.CmpfOp)
        predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate in ("true", "false"):
        return full(shape_of(op.results[0].type), predicate == "true", i1, writer.ranges.bits)
    if is_float(element_of(op.operands[0].type)):
        again = predicate in ("ord", "uno")  # these predicates compare each operand with itself
        values = [writer.typed(each) for each in op.operands] if again else operands(writer, op)
        return _apply(_FLOAT_COMPARISONS[predicate], values)
    if predicate[0] == "u" and not writer.ranges.is_natural(*op.operands):
        values = [unsigned(writer, each) for each in op.operands]
    else:
        values = operands(writer, op)
    return _apply(_INTEGER_COMPARISONS[predicate.lstrip("su")], values)


def _select(writer: KernelWriter, op: Operation) -> str:
    condition, first, second = op.operands
    values = [writer.text(first), writer.text(second)]
    if all(writer.constant(each) is not None for each in (first, second)):
        values[0] = writer.typed(first)
    return f"tl.where({writer.text(condition)}, {', '.join(values)})"


def _power_of_integers(writer: KernelWriter, op: Operation) -> str:
    element = element_of(op.results[0].type)
    wide = "tl.float32" if is_half(element) else writer.dtype(element)
    base, exponent = (f"{writer.typed(each)}.to({wide})" for each in op.operands)
    return f"libdevice.pow({base}, {exponent}).to({writer.dtype(element)})"


_OTHERS: Mapping[type[Operation], Callable[[KernelWriter, Operation], str]] = MappingProxyType(
    {
        arith.FloorDivSIOp: _divide("floor_divide"),
        arith.CeilDivSIOp: _divide("ceil_divide"),
        arith.CeilDivUIOp: _ceil_divide_unsigned,
        arith.CmpiOp: _compare,
        arith.CmpfOp: _compare,
        CompareOp: _compare,
        arith.SelectOp: _select,
        SelectOp: _select,
        math.FPowIOp: _power_of_integers,
    }
)


# conversions between types: ``tile.cast`` and the casts of ``arith``


_KINDS: Mapping[type[Operation], str] = MappingProxyType(
    {
        arith.ExtFOp: "extf",
        arith.TruncFOp: "truncf",
        arith.SIToFPOp: "sitofp",
        arith.UIToFPOp: "uitofp",
        arith.FPToSIOp: "fptosi",
        arith.FPToUIOp: "fptoui",
        arith.ExtSIOp: "extsi",
        arith.ExtUIOp: "extui",
        arith.TruncIOp: "trunci",
        arith.IndexCastOp: "index_cast",
        arith.BitcastOp: "bitcast",
    }
)


def cast(writer: KernelWriter, op: Operation) -> str | None:
    """The expression of a conversion; None if ``op`` is not a conversion."""
    kind = op.kind.data if isinstance(op, CastOp) else _KINDS.get(type(op))
    if kind is None:
        return None
    source, result = op.operands[0], op.results[0].type
    value, target = writer.typed(source), writer.dtype(result)
    from_bool, to_bool = is_bool(element_of(source.type)), is_bool(element_of(result))
    if kind == "bitcast":
        return f"{value}.to({target}, bitcast=True)"
    if kind in ("sitofp", "extsi") and from_bool:
        return f"{value}.to({target}) * -1"  # the only bit of i1 is its sign bit
    if kind in ("uitofp", "extui") and not from_bool:
        return f"{unsigned(writer, source)}.to({target})"
    if kind == "trunci" and to_bool:
        return f"({value} & 1) != 0"
    if kind in ("fptosi", "fptoui") and to_bool:
        return f"{value} != 0.0"
    if kind == "fptoui":
        width = bits(element_of(result))
        return f"{value}.to(tl.uint{width}).to({target}, bitcast=True)"
    if kind == "index_cast" and not isinstance(source.type, VectorType):
        return f"tl.cast({value}, {target})"  # a loop index is a Python number in Triton's interpreter
    return f"{value}.to({target})"


def unsigned(writer: KernelWriter, value: SSAValue) -> str:
    """``value`` with its bits reinterpreted as an unsigned number."""
    element = element_of(value.type)
    if is_bool(element):
        return writer.typed(value)
    width = writer.ranges.bits if isinstance(element, IndexType) else bits(element)
    return f"{writer.typed(value)}.to(tl.uint{width}, bitcast=True)"
