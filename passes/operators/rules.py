"""Rules of operators: which elements of the operands an element of the result depends on, and how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, sizes_of, steps_of_size
from fxc.dialects.attributes.types import IntType, device, dtype_name, is_tensor, tensor_of
from fxc.dialects.attributes.values import KnownTree, NoneValueAttr, isa, scalar_of
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.passes.analysis.index.forms import Form
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.scalars import HALVES, Scalar, Uncovered, computation_dtype

_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_PAIRS = {frozenset(["uint8", "int8"]): "int16", frozenset(["float16", "bfloat16"]): "float32"}


def promoted(operands: Iterable[TensorType | bool | int | float]) -> str:
    """The promoted dtype of tensors and Python numbers. Priority: tensors with dimensions, then 0-d tensors, then numbers.

    A float number with integer tensors counts as float32, PyTorch's default dtype.
    """
    groups: list[str | None] = [None, None, None]
    for operand in operands:
        if is_tensor(operand):
            place, dtype = (0 if operand.get_shape() else 1), dtype_name(operand.element_type)
        else:
            place, dtype = 2, "bool" if isinstance(operand, bool) else "int64" if isinstance(operand, int) else "float32"
        groups[place] = _join(groups[place], dtype)
    found = _prefer(groups[0], _prefer(groups[1], groups[2]))
    assert found is not None
    return found


def _join(a: str | None, b: str | None) -> str | None:
    if a is None or b is None or a == b:
        return b if a is None else a
    return _PAIRS.get(frozenset([a, b])) or max(a, b, key=_ORDER.index)


def _prefer(higher: str | None, lower: str | None) -> str | None:
    """The promotion of a dtype of ``higher`` priority with one of ``lower``, which counts only if its kind is higher."""
    if higher is None or (higher != "bool" and not _is_float(lower)) or _is_float(higher):
        return lower if higher is None else higher
    return _join(higher, lower)


def _is_float(dtype: str | None) -> bool:
    return dtype is not None and "float" in dtype


Index: TypeAlias = tuple[Form, ...]
"""A position in a tensor: one expression over the loops per dimension."""

ZERO = Form(0)

Read: TypeAlias = tuple[SSAValue, Index]
Formula: TypeAlias = (
    Callable[[Scalar], Scalar]
    | Callable[[Any, Any], Scalar]
    | Callable[[Any, Any, Any], Scalar]
    | Callable[[Any, Any, Any, Any], Scalar]
)
"""The kinds are listed by number of arguments, because a type checker takes the parameter types of a lambda from them."""


@dataclass(frozen=True)
class Pointwise:
    """An element is a ``formula`` of the elements at the same position; smaller operands are broadcast.

    ``formula`` takes the operator's arguments by name, in schema order: tensors as scalars in the dtype of ``computation``,
    other arguments as Python values. ``computation`` returns the dtype for an op; None means that each tensor retains its
    dtype. ``elsewhere``: the formula for devices other than CPUs, if PyTorch's loops there select another sign of zero.
    ``unrounded``: the operand whose number or 0-d tensor PyTorch's CPU loops do not round to half precision, unlike others.
    """

    formula: Formula
    computation: Callable[[TorchOp, Mapping[str, Any]], str] | None
    elsewhere: Formula | None = None
    unrounded: str = ""

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return [(value, broadcast_index(value, index)) for value in tensors(op)]

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        """The element of the result. ``elements``: one for each of ``reads``. Uncovered if the arguments are not supported."""
        arguments = python_arguments(op)
        dtype = None if self.computation is None else self.computation(op, arguments)
        scalars, half = dict(zip(tensors(op), elements, strict=True)), _rounding(op, dtype)
        values = dict[str, Any]()
        for name, argument in arguments.items():
            scalar = scalars.get(argument) if isa(argument, SSAValue) else None
            if scalar is not None and dtype is not None and name not in ("condition", "mask"):
                is_exact = dtype_of(argument) == dtype or (name == self.unrounded and not shape_of(argument))
                scalar = scalar.to(computation_dtype(dtype)).rounded("" if is_exact else half)
            elif _is_number(argument) and op.SCHEMA.by_name[name].type.startswith(_NUMBERS) and name in _OPERANDS:
                scalar = places.constant(argument, computation_dtype(dtype or "float32"))
                scalar = scalar.rounded("" if name == self.unrounded else half)
            elif isinstance(argument, Polynomial):
                raise Uncovered("a number that is a size")
            values[name] = argument if scalar is None else scalar
        formula: Callable[..., Scalar] = self.formula if self.elsewhere is None or _is_on_cpu(op) else self.elsewhere
        try:
            result = formula(**{PARAMETERS.get(name, name): value for name, value in values.items()})
            return result.to(computation_dtype(result_dtype(op)))
        except Uncovered:
            raise
        except Exception as error:
            raise OpPassFailedException(f"the formula of {op.operator} fails: {type(error).__name__}: {error}", op) from error


@dataclass(frozen=True)
class Conversion:
    """An element is the element at the same position converted to the dtype of the result, with half precision rounded."""

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return [(value, broadcast_index(value, index)) for value in tensors(op)[:1]]

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        old, new = dtype_of(tensors(op)[0]), result_dtype(op)
        return elements[0] if old == new else elements[0].to(new)


@dataclass(frozen=True)
class Constant:
    """Every element is the argument ``fill_value``, or ``number`` if the operator has none."""

    number: float = 0

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return []

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        arguments = python_arguments(op)
        number = arguments.get("fill_value", arguments.get("s", self.number))
        if not _is_number(number):
            raise Uncovered("a fill value that the program does not state")
        dtype = result_dtype(op)
        return places.constant(number, computation_dtype(dtype)).rounded(dtype)


def _is_on_cpu(op: TorchOp) -> bool:
    type = op.results[0].type
    return is_tensor(type) and device(type) == "cpu"


def _rounding(op: TorchOp, dtype: str | None) -> str:
    """The half precision to which PyTorch rounds operands that are not in ``dtype``; empty if it does not.

    Kernels for other devices than CPUs round those of comparisons only.
    """
    if dtype is None or dtype not in HALVES or not (_is_on_cpu(op) or result_dtype(op) == "bool"):
        return ""
    return dtype


def _is_number(argument: object) -> TypeGuard[bool | int | float | Polynomial]:
    return isinstance(argument, (bool, int, float, Polynomial))


_OPERANDS = frozenset(["self", "other", "exponent", "x", "value", "lambd"])
"""Arguments that are operands even if they are numbers."""

_NUMBERS = ("Scalar", "Tensor")
"""Prefixes of the types of parameters that accept a number as an operand."""

PARAMETERS = {"self": "x", "other": "y", "input": "x", "min": "low", "max": "high", "from": "start"}
"""Schema name -> parameter name in formulas, if they differ."""


@dataclass(frozen=True)
class View:
    """An element is the element of the only tensor at ``place(op, index, result)``."""

    place: Callable[[TorchOp, Index, int], Index]

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return [(tensors(op)[0], self.place(op, index, result))]

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        return elements[0]


@dataclass(frozen=True)
class Reduction:
    """Combines the elements along some dimensions into one.

    ``combine`` combines two elements. ``start`` is the initial value for a dtype. ``finish`` computes the result from the
    total and the number of elements. ``accumulation`` maps the dtype of the result to that of the total. ``centred``: squares
    of the distances from the mean are combined. ``extreme``: a reduction to an extreme element; the positions of this element
    or of NaN are combined. ``of_some``: the operator rejects a tensor without elements, but its fake implementation may not.
    """

    combine: Callable[[Scalar, Scalar], Scalar]
    start: Callable[[str], int | float | bool]
    finish: Callable[[TorchOp, Scalar, int | Scalar], Scalar] | None = None
    accumulation: Callable[[str], str] = computation_dtype
    centred: bool = False
    extreme: Reduction | None = None
    of_some: bool = False


class Outside(list[Read]):
    """Reads that may be out of bounds: such an element is 0, and the rule selects another value."""


Elements: TypeAlias = Generator[Sequence[Read], Sequence[Scalar], Scalar]
"""A generator that yields reads, receives their elements, and returns the element that it computes from them."""


Making: TypeAlias = Callable[[TorchOp, Index, int, Places], Elements]
"""Computes an element for the op, the index, the number of the result, and the object that computes positions."""


@dataclass(frozen=True)
class Placed:
    """An element depends on its position, or is read at a position that other elements specify."""

    steps: Making


@dataclass(frozen=True)
class Accumulation:
    """Combines updates into the elements that indices select, in any order, together with the elements of ``self``.

    ``shape``: the shape of the updates. ``update``: the value and position from which an update is read. ``place``: the
    row-major number of the updated element, negative if there is none. ``few``: the rule if an element has few updates, or if
    they replace it. ``sorted``: on a GPU, PyTorch sorts the updates; otherwise it uses atomic additions.
    """

    shape: Callable[[TorchOp], tuple[Steps, ...]]
    update: Callable[[TorchOp, Index], Read]
    place: Callable[[TorchOp, Index, Places], Elements]
    few: Placed | None = None
    sorted: bool = False


Elementwise: TypeAlias = Pointwise | Conversion | Constant | View
Rule: TypeAlias = Elementwise | Placed | Reduction | Accumulation


def tensors(op: TorchOp) -> list[SSAValue]:
    """The distinct operands that are tensors, in schema order."""
    return list(dict.fromkeys(value for value in op.operands if is_tensor(value.type)))


def python_arguments(op: TorchOp) -> dict[str, Any]:
    """The arguments of the call: tensors as SSA values, sizes as ``Steps``, constants as Python values, enums as attributes."""
    return {name: _python(tree) for name, tree in op.bound().items()}


def _python(tree: KnownTree) -> Any:
    if isinstance(tree, (list, tuple)):
        return [_python(element) for element in tree]
    if isinstance(tree, SSAValue):
        if is_tensor(tree.type):
            return tree
        if isinstance(tree.type, IntType) and (text := tree.type.expression.data):
            return steps_of_size(text)
        if not isinstance(tree.owner, ConstantOp):
            raise Uncovered("a number that the program does not state")
        return _python(tree.owner.value)
    if isinstance(tree, NoneValueAttr):
        return None
    return _scalar(tree) if isinstance(tree, Attribute) else tree


def _scalar(attribute: Attribute) -> Any:
    if isinstance(attribute, TensorLiteralAttr):
        return attribute
    try:
        return scalar_of(attribute)
    except (KeyError, TypeError, ValueError):
        return attribute


def replaced(index: Index, dim: int, place: Form) -> Index:
    """``index`` with ``place`` at ``dim``."""
    return (*index[:dim], place, *index[dim + 1 :])


def broadcast_index(value: SSAValue, index: Index) -> Index:
    """The position in ``value`` for the position ``index`` in the shape to which it is broadcast."""
    shape = shape_of(value)
    own = index[len(index) - len(shape) :]
    return tuple(ZERO if size == 1 else place for size, place in zip(shape, own, strict=True))


def shape_of(value: SSAValue) -> tuple[Steps, ...]:
    return tuple(sizes_of(tensor_of(value)))


def dtype_of(value: SSAValue) -> str:
    return dtype_name(tensor_of(value).element_type)


def result_dtype(op: TorchOp, arguments: Mapping[str, Any] | None = None) -> str:
    """The dtype of the result, in which arithmetic is computed."""
    return dtype_of(op.results[0])


def operand_dtype(op: TorchOp, arguments: Mapping[str, Any]) -> str:
    """The promoted dtype of the operands, in which comparisons are computed."""
    return promoted(_operands(arguments))


def _operands(arguments: Mapping[str, Any]) -> list[TensorType | bool | int | float]:
    found = list[TensorType | bool | int | float]()
    for name, argument in arguments.items():
        if isa(argument, SSAValue):
            found.append(tensor_of(argument))
        elif name in _OPERANDS and _is_number(argument):
            found.append(1 if isinstance(argument, Polynomial) else argument)
    return found
