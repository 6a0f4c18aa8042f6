"""Python values as attributes, and trees of them as call arguments.

FX lets a call take any nesting of lists, tuples, dicts and slices over graph values and constants. In the IR such an
argument is a *template*: an attribute in which ``#fx.ssa`` stands for the next operand. ``encode`` and ``decode`` convert
between a template with its operands and a *tree*: Python ``list``, ``tuple``, ``dict`` and ``slice`` whose leaves are
SSA values and attributes. Constants are interned, so attributes compare by identity on the fast path.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, IntegerType, StringAttr, f64, i1, i64
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

Tree: TypeAlias = Any
KnownTree: TypeAlias = "SSAValue | Attribute | list[Any] | tuple[Any, ...] | dict[Any, Any] | slice[Any, Any, Any]"
"""A ``Tree``, in functions that distinguish its cases."""

_T = TypeVar("_T")


def isa(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """``isinstance`` would leave the type arguments of a generic class unknown to type checkers; here they are the defaults."""
    return isinstance(value, kind)


@irdl_attr_definition
class SSAAttr(ParametrizedAttribute):
    """The next operand of the op."""

    name = "fx.ssa"


@irdl_attr_definition
class NoneValueAttr(ParametrizedAttribute):
    """Python's None."""

    name = "fx.none"


@irdl_attr_definition
class EllipsisAttr(ParametrizedAttribute):
    """Python's Ellipsis, as in ``x[..., 0]``."""

    name = "fx.ellipsis"


@irdl_attr_definition
class TupleAttr(ParametrizedAttribute):
    """A Python tuple; a Python list is a builtin array attribute."""

    name = "fx.tuple"
    elements: ArrayAttr[Attribute]


@irdl_attr_definition
class DictAttr(ParametrizedAttribute):
    """A Python dict: any constant keys, in insertion order."""

    name = "fx.dict"
    keys: ArrayAttr[Attribute]
    values: ArrayAttr[Attribute]

    def verify(self) -> None:
        if len(self.keys.data) != len(self.values.data):
            raise VerifyException(f"#fx.dict has {len(self.keys.data)} keys, but {len(self.values.data)} values")


@irdl_attr_definition
class SliceAttr(ParametrizedAttribute):
    """Python's ``slice(start, stop, step)``."""

    name = "fx.slice"
    start: Attribute
    stop: Attribute
    step: Attribute


@irdl_attr_definition
class RangeAttr(ParametrizedAttribute):
    """Python's ``range(start, stop, step)`` of constants."""

    name = "fx.range"
    start: IntegerAttr
    stop: IntegerAttr
    step: IntegerAttr


@irdl_attr_definition
class ComplexAttr(ParametrizedAttribute):
    """A Python complex number."""

    name = "fx.complex"
    real: FloatAttr
    imag: FloatAttr


@irdl_attr_definition
class FunctionAttr(ParametrizedAttribute):
    """A Python function or class passed as an argument, by qualified name; resolved through the allow-list only."""

    name = "fx.function"
    target: StringAttr


@irdl_attr_definition
class StateAttr(ParametrizedAttribute):
    """A parameter or buffer of the model, by the name under which ``fx.tensor`` declares it."""

    name = "fx.state"
    target: StringAttr


@irdl_attr_definition
class OpaqueAttr(ParametrizedAttribute):
    """A field of a module that text cannot represent, by its class; the module is usable only in the process that has it."""

    name = "fx.opaque"
    description: StringAttr


@irdl_attr_definition
class RegionAttr(ParametrizedAttribute):
    """A region of the op, passed as an argument under the name of its submodule."""

    name = "fx.region"
    target: StringAttr


@irdl_attr_definition
class DTypeAttr(ParametrizedAttribute):
    """``torch.float32`` and the like, by PyTorch's name."""

    name = "torch.dtype"
    value: StringAttr


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """``torch.strided`` and the like."""

    name = "torch.layout"
    value: StringAttr


@irdl_attr_definition
class MemoryFormatAttr(ParametrizedAttribute):
    """``torch.channels_last`` and the like."""

    name = "torch.memory_format"
    value: StringAttr


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """``torch.device("cuda:0")``."""

    name = "torch.device"
    value: StringAttr


SSA = SSAAttr()
NONE = NoneValueAttr()
ELLIPSIS = EllipsisAttr()
LAYOUTS = frozenset(["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn", "jagged"])
MEMORY_FORMATS = frozenset(["contiguous_format", "channels_last", "channels_last_3d", "preserve_format"])


@lru_cache(None)
def bool_attr(value: bool) -> IntegerAttr:
    return IntegerAttr(int(value), i1)


@lru_cache(4096)
def int_attr(value: int) -> IntegerAttr:
    """An i64, or the smallest wider integer that holds ``value`` (Python's integers have no bound)."""
    if -(2**63) <= value < 2**63:
        return IntegerAttr(value, i64)
    return IntegerAttr(value, IntegerType(max(65, value.bit_length() + 1)))


@lru_cache(4096)
def _float_attr(bits: bytes) -> FloatAttr:
    return FloatAttr(struct.unpack("<d", bits)[0], f64)


def float_attr(value: float) -> FloatAttr:
    """An f64; every NaN becomes the canonical NaN, and -0.0 differs from 0.0."""
    return _float_attr(struct.pack("<d", math.nan if math.isnan(value) else value))


@lru_cache(8192)
def str_attr(value: str) -> StringAttr:
    return StringAttr(value)


@lru_cache(1024)
def dtype_attr(name: str) -> DTypeAttr:
    return DTypeAttr(StringAttr(name))


@lru_cache(1024)
def enum_attr(name: str) -> DTypeAttr | LayoutAttr | MemoryFormatAttr:
    """The attribute of ``torch.<name>``: a memory format, a layout, or else a dtype."""
    if name in MEMORY_FORMATS:
        return MemoryFormatAttr(StringAttr(name))
    if name in LAYOUTS:
        return LayoutAttr(StringAttr(name))
    return dtype_attr(name)


@lru_cache(256)
def device_attr(name: str) -> DeviceAttr:
    return DeviceAttr(StringAttr(name))


def string_text(value: str) -> str:
    """``value`` as an MLIR string literal in UTF-8, as xDSL prints it: bytes other than printable ASCII as two hex digits."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return '"' + "".join([_escaped(byte) for byte in value.encode("utf-8")]) + '"'


def _escaped(byte: int) -> str:
    if byte == 0x5C:
        return "\\\\"
    return chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x22 else f"\\{byte:02X}"


def scalar_attr(value: object) -> Attribute | None:
    """The attribute of a Python constant that is not a torch object, or None for any other value."""
    if value is None:
        return NONE
    if type(value) is bool:
        return bool_attr(value)
    if type(value) is int:
        return int_attr(value)
    if type(value) is float:
        return float_attr(value)
    if type(value) is str:
        return str_attr(value)
    if type(value) is complex:
        return ComplexAttr(float_attr(value.real), float_attr(value.imag))
    if value is Ellipsis:
        return ELLIPSIS
    if type(value) is range:
        return RangeAttr(int_attr(value.start), int_attr(value.stop), int_attr(value.step))
    return None


def scalar_of(attr: Attribute) -> Any:
    """The Python constant of ``attr``; KeyError where it is not a plain constant."""
    match attr:
        case IntegerAttr():
            return bool(attr.value.data) if attr.type == i1 else attr.value.data
        case FloatAttr():
            return attr.value.data
        case StringAttr():
            return attr.data
        case NoneValueAttr():
            return None
        case ComplexAttr():
            return complex(attr.real.value.data, attr.imag.value.data)
        case EllipsisAttr():
            return Ellipsis
        case RangeAttr():
            return range(attr.start.value.data, attr.stop.value.data, attr.step.value.data)
        case _:
            raise KeyError(f"{attr} is not a plain constant")


def encode(tree: KnownTree | complex | str | None, operands: list[SSAValue]) -> Attribute:
    """The template of ``tree``; its SSA values are appended to ``operands`` in order. A leaf may also be a Python constant."""
    if isinstance(tree, Attribute):
        return tree
    if isinstance(tree, SSAValue):
        operands.append(tree)
        return SSA
    if type(tree) is list:
        return ArrayAttr([encode(element, operands) for element in tree])
    if type(tree) is tuple:
        return TupleAttr(ArrayAttr([encode(element, operands) for element in tree]))
    if type(tree) is dict:
        return DictAttr(ArrayAttr(list(tree)), ArrayAttr([encode(value, operands) for value in tree.values()]))
    if type(tree) is slice:
        return SliceAttr(*(encode(part, operands) for part in (tree.start, tree.stop, tree.step)))
    if (constant := scalar_attr(tree)) is not None:
        return constant
    raise TypeError(f"not a tree of call arguments: {tree!r}")


def decode(template: Attribute, operands: Iterator[SSAValue]) -> Tree:
    """The tree of ``template``, with SSA values from ``operands`` in order."""
    kind = type(template)
    if kind is SSAAttr:
        return next(operands)
    if kind is ArrayAttr:
        return [decode(element, operands) for element in cast(ArrayAttr, template).data]
    if kind is TupleAttr:
        return tuple([decode(element, operands) for element in cast(TupleAttr, template).elements.data])
    if kind is DictAttr:
        template = cast(DictAttr, template)
        return {key: decode(v, operands) for key, v in zip(template.keys.data, template.values.data, strict=True)}
    if kind is SliceAttr:
        template = cast(SliceAttr, template)
        return slice(*(decode(part, operands) for part in (template.start, template.stop, template.step)))
    return template


def decode_constants(template: Attribute) -> Tree:
    """The tree of ``template``, with ``#fx.ssa`` attributes unchanged."""
    return decode(template, repeat(SSA))  # type: ignore[arg-type]


def _parts(template: Attribute) -> Sequence[Attribute]:
    """The child templates of a container; empty for a leaf."""
    kind = type(template)
    if kind is ArrayAttr:
        return cast(ArrayAttr, template).data
    if kind is TupleAttr:
        return cast(TupleAttr, template).elements.data
    if kind is DictAttr:
        return cast(DictAttr, template).values.data
    if kind is SliceAttr:
        template = cast(SliceAttr, template)
        return template.start, template.stop, template.step
    return ()


def count_ssa(template: Attribute) -> int:
    """The number of operands of ``template``."""
    return 1 if type(template) is SSAAttr else sum(map(count_ssa, _parts(template)))


def holds_region(template: Attribute) -> bool:
    """Whether ``template`` passes a region."""
    return type(template) is RegionAttr or any(map(holds_region, _parts(template)))


def map_tree(tree: KnownTree, leaf: Callable[[Any], Any], key: Callable[[Any], Any] = lambda key: key) -> Any:
    """``tree`` with ``leaf`` applied to each leaf, and ``key`` to keys of dicts."""
    if isinstance(tree, list):
        return [map_tree(element, leaf, key) for element in tree]
    if isinstance(tree, tuple):
        return tuple([map_tree(element, leaf, key) for element in tree])
    if isinstance(tree, dict):
        return {key(name): map_tree(element, leaf, key) for name, element in tree.items()}
    if isinstance(tree, slice):
        return slice(*[map_tree(part, leaf, key) for part in (tree.start, tree.stop, tree.step)])
    return leaf(tree)


def leaves(tree: KnownTree) -> Iterator[SSAValue | Attribute]:
    """The SSA values and constants of ``tree``, in the order of ``encode``."""
    if isinstance(tree, (list, tuple)):
        for element in tree:
            yield from leaves(element)
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step))
    else:
        yield tree


def region_names(trees: Sequence[Tree]) -> list[str]:
    """The distinct names of the regions that a call passes, in order of first appearance: names[i] is region i."""
    found = dict[str, None]()
    for leaf in leaves(list(trees)):
        if isinstance(leaf, RegionAttr):
            found[leaf.target.data] = None
    return list(found)


VALUE_ATTRIBUTES = [
    SSAAttr, NoneValueAttr, EllipsisAttr, TupleAttr, DictAttr, SliceAttr, RangeAttr, ComplexAttr, FunctionAttr, StateAttr,
    OpaqueAttr,
    RegionAttr,
]  # fmt: skip
TORCH_ATTRIBUTES = [DTypeAttr, LayoutAttr, MemoryFormatAttr, DeviceAttr]
