"""Types: builtin tensors with PyTorch's additional facts in the encoding, host scalars, and untyped Python values.

``tensor<2x3xf32>`` is a contiguous CPU tensor. Differences from that are in the encoding:
``tensor<?x3xf32, #torch.meta<sizes = ["s0", 3], strides = [1, "s0"], device = "cuda:0">>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TypeGuard, get_args

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    FixedBitwidthType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    TupleType,
    VectorType,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E4M3FNUZ,
    f8E5M2,
    f8E5M2FNUZ,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import int_attr, isa, str_attr, string_text


@irdl_attr_definition
class ValueType(ParametrizedAttribute, TypeAttribute):
    """Any Python value, of unknown type: the type of all values before the conversion to the torch level."""

    name = "fx.value"


@irdl_attr_definition
class NoneValueType(ParametrizedAttribute, TypeAttribute):
    """The result of a call that returns None."""

    name = "torch.none"


class _ScalarType(ParametrizedAttribute, TypeAttribute):
    """A host number; ``expression`` is its value in the symbols of the module, empty where it is data-dependent."""

    expression: StringAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        if parser.parse_optional_punctuation("<") is None:
            return [str_attr("")]
        expression = parser.parse_str_literal()
        parser.parse_punctuation(">")
        return [str_attr(expression)]

    def print_parameters(self, printer: Printer) -> None:
        if self.expression.data:
            printer.print_string("<")
            printer.print_string_literal(self.expression.data)
            printer.print_string(">")


@irdl_attr_definition
class IntType(_ScalarType):
    """A Python int or torch.SymInt."""

    name = "torch.int"
    expression: StringAttr


@irdl_attr_definition
class FloatType(_ScalarType):
    """A Python float or torch.SymFloat."""

    name = "torch.float"
    expression: StringAttr


@irdl_attr_definition
class BoolType(_ScalarType):
    """A Python bool or torch.SymBool."""

    name = "torch.bool"
    expression: StringAttr


@irdl_attr_definition
class OtherDType(ParametrizedAttribute, TypeAttribute):
    """An element type without an MLIR name, by PyTorch's name: ``!torch.element<"quint8">``."""

    name = "torch.element"
    dtype: StringAttr


@irdl_attr_definition
class TensorMeta(ParametrizedAttribute):
    """The differences of a tensor from a contiguous, strided, static tensor on the CPU.

    ``sizes`` and ``strides`` hold integers and expressions in the symbols of the module. An empty array means the sizes of the
    shape, or contiguous strides. ``device`` and ``layout`` are empty for ``cpu`` and ``strided``.
    """

    name = "torch.meta"
    sizes: ArrayAttr[Attribute]
    strides: ArrayAttr[Attribute]
    device: StringAttr
    layout: StringAttr

    def verify(self) -> None:
        for dim in (*self.sizes.data, *self.strides.data):
            if not isinstance(dim, (IntegerAttr, StringAttr)):
                raise VerifyException(f"a size or stride is an integer or a symbolic expression, not {dim}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        fields = dict[str, Attribute]()

        def dim() -> Attribute:
            text = parser.parse_optional_str_literal()
            return int_attr(parser.parse_integer()) if text is None else str_attr(text)

        def field() -> None:
            name = parser.parse_identifier()
            if name not in ("sizes", "strides", "device", "layout") or name in fields:
                parser.raise_error(f"expected one of sizes, strides, device, layout, each once; got {name}")
            parser.parse_punctuation("=")
            if name in ("sizes", "strides"):
                fields[name] = ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, dim))
            else:
                fields[name] = str_attr(parser.parse_str_literal())

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
        empty = ArrayAttr[Attribute]([])
        return [
            fields.get("sizes", empty),
            fields.get("strides", empty),
            fields.get("device", str_attr("")),
            fields.get("layout", str_attr("")),
        ]

    def print_parameters(self, printer: Printer) -> None:
        parts = list[str]()
        for name, dims in (("sizes", self.sizes), ("strides", self.strides)):
            if dims.data:
                texts = [str(d.value.data) if isinstance(d, IntegerAttr) else string_text(d.data) for d in dims.data]  # type: ignore[attr-defined]
                parts.append(f"{name} = [{', '.join(texts)}]")
        for name, text in (("device", self.device.data), ("layout", self.layout.data)):
            if text:
                parts.append(f"{name} = {string_text(text)}")
        printer.print_string(f"<{', '.join(parts)}>")


ELEMENT_TYPES: dict[str, Attribute] = {
    "float32": f32,
    "float64": f64,
    "float16": f16,
    "bfloat16": bf16,
    "int64": i64,
    "int32": i32,
    "int16": i16,
    "int8": i8,
    "bool": i1,
    "uint8": IntegerType(8, Signedness.UNSIGNED),
    "uint16": IntegerType(16, Signedness.UNSIGNED),
    "uint32": IntegerType(32, Signedness.UNSIGNED),
    "uint64": IntegerType(64, Signedness.UNSIGNED),
    "complex32": ComplexType(f16),
    "complex64": ComplexType(f32),
    "complex128": ComplexType(f64),
    "float8_e4m3fn": f8E4M3FN,
    "float8_e5m2": f8E5M2,
    "float8_e4m3fnuz": f8E4M3FNUZ,
    "float8_e5m2fnuz": f8E5M2FNUZ,
    "float8_e8m0fnu": f8E8M0FNU,
    "float4_e2m1fn_x2": f4E2M1FN,
}
"""PyTorch's dtype name -> element type."""

_DTYPE_NAMES = {element: name for name, element in ELEMENT_TYPES.items()}


def element_type(dtype: str) -> Attribute:
    """The element type of PyTorch's dtype ``dtype`` (``"float32"``)."""
    return ELEMENT_TYPES.get(dtype) or OtherDType(str_attr(dtype))


def dtype_name(element: Attribute) -> str:
    """PyTorch's name of an element type; VerifyException where PyTorch has no such dtype."""
    if isinstance(element, OtherDType):
        return element.dtype.data
    name = _DTYPE_NAMES.get(element)
    if name is None:
        raise VerifyException(f"PyTorch has no dtype {element}")
    return name


Dim = int | str
"""A static size, or an expression in the symbols of the module."""


def element_bytes(element: Attribute) -> int | None:
    """The size of an element of a tensor; None if it is not known."""
    if isa(element, ComplexType):
        part = element_bytes(element.element_type)
        return None if part is None else 2 * part
    return (element.bitwidth + 7) // 8 if isinstance(element, FixedBitwidthType) else None


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of static ``sizes``, as PyTorch computes them (a size of 0 counts as 1)."""
    strides, step = [1] * len(sizes), 1
    for i in reversed(range(len(sizes))):
        strides[i] = step
        step *= max(sizes[i], 1)
    return tuple(strides)


@lru_cache(8192)
def tensor_type(
    dtype: str,
    sizes: tuple[Dim, ...],
    strides: tuple[Dim, ...] | None = None,
    device: str = "cpu",
    layout: str = "strided",
) -> TensorType:
    """The interned tensor type with these facts. ``strides`` is None for a contiguous tensor."""
    static = all(isinstance(s, int) for s in sizes)
    if static and strides is not None and strides == contiguous_strides([s for s in sizes if isinstance(s, int)]):
        strides = None
    shape = [s if isinstance(s, int) else DYNAMIC_INDEX for s in sizes]
    named = any(isinstance(s, str) and s for s in sizes)
    meta = TensorMeta(
        ArrayAttr([_dim_attr(s) for s in sizes] if named else []),
        ArrayAttr([] if strides is None else [_dim_attr(s) for s in strides]),
        str_attr("" if device == "cpu" else device),
        str_attr("" if layout == "strided" else layout),
    )
    plain = not meta.sizes.data and not meta.strides.data and not meta.device.data and not meta.layout.data
    element = element_type(dtype)
    return TensorType(element, shape) if plain else TensorType(element, shape, meta)


def _dim_attr(dim: Dim) -> Attribute:
    return int_attr(dim) if isinstance(dim, int) else str_attr(dim)


def _dim(attr: Attribute) -> Dim:
    return attr.value.data if isinstance(attr, IntegerAttr) else attr.data  # type: ignore[attr-defined]


def is_tensor(type: object) -> TypeGuard[TensorType[Attribute]]:
    """``isinstance`` would leave the type of the elements unknown to type checkers."""
    return isinstance(type, TensorType)


def tensor_of(value: SSAValue) -> TensorType[Attribute]:
    """The type of a tensor."""
    assert is_tensor(value.type)
    return value.type


def dims_of(value: SSAValue) -> tuple[Dim, ...]:
    """The sizes of a tensor; none for another value."""
    return sizes(value.type) if is_tensor(value.type) else ()


def _meta(type: TensorType) -> TensorMeta | None:
    return type.encoding if isinstance(type.encoding, TensorMeta) else None


def sizes(type: TensorType) -> tuple[Dim, ...]:
    """The sizes of a tensor type; an unnamed dynamic size is the empty expression."""
    meta = _meta(type)
    if meta is not None and meta.sizes.data:
        return tuple(_dim(d) for d in meta.sizes.data)
    return tuple("" if s == DYNAMIC_INDEX else s for s in type.get_shape())


def strides(type: TensorType) -> tuple[Dim, ...] | None:
    """The strides of a tensor type, or None where it is contiguous."""
    meta = _meta(type)
    return tuple(_dim(d) for d in meta.strides.data) if meta is not None and meta.strides.data else None


def overlaps(type: TensorType) -> bool:
    """Whether elements of a tensor of ``type`` certainly share memory, as those of ``expand`` and ``unfold``."""
    given = strides(type)
    if given is None:
        return False
    pairs = [(step, size) for step, size in zip(given, sizes(type), strict=True) if size != 1]
    steps = [step for step, _ in pairs]
    known = [(step, size) for step, size in pairs if isinstance(step, int) and isinstance(size, int)]
    if any(size == 0 for _, size in pairs):
        return False
    if 0 in steps or len(set(steps)) < len(steps):
        return True
    reach = 0
    for step, size in sorted(known):
        if step <= reach:
            return True
        reach += (size - 1) * step
    return False


def device(type: TensorType) -> str:
    meta = _meta(type)
    return meta.device.data if meta is not None and meta.device.data else "cpu"


def layout(type: TensorType) -> str:
    meta = _meta(type)
    return meta.layout.data if meta is not None and meta.layout.data else "strided"


def tuple_type(types: Sequence[Attribute]) -> TupleType:
    """The packed result type of a call that returns several values, as a Python list or tuple."""
    return TupleType(ArrayAttr(list(types)))  # type: ignore[arg-type]


_IMMUTABLE = (IntType, FloatType, BoolType, NoneValueType, IntegerType, IndexType, VectorType, *get_args(AnyFloat))


def is_mutable(type: Attribute) -> bool:
    """Whether a value of ``type`` may have memory that an op can write."""
    return not _is_immutable(type.__class__)


@cache
def _is_immutable(cls: type[Attribute]) -> bool:
    return issubclass(cls, _IMMUTABLE)


SYMBOLS = "torch.symbols"
"""The module attribute with hint and range of each symbol: ``{s0 = {hint = 4, min = 2, max = 100}}``."""

CONDITIONS = "torch.conditions"
"""The module attribute with further assumptions on symbols: ``["s0 % 4 == 0", "s0 < s1"]``."""


def conditions_of(module: ModuleOp) -> tuple[str, ...]:
    found = module.attributes.get(CONDITIONS)
    return tuple(part.data for part in found if isinstance(part, StringAttr)) if isa(found, ArrayAttr) else ()


NUMBERS = (IntType, FloatType, BoolType)
"""The types of numbers, which share no memory."""
VALUE = ValueType()
NONE_TYPE = NoneValueType()
FX_TYPES = [ValueType]
TORCH_TYPES = [NoneValueType, IntType, FloatType, BoolType, OtherDType, TensorMeta]
