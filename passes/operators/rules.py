"""What a rule for an operator says: which elements of its operands an element of its result is made of, and how."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, sizes_of, steps_of_size
from fxc.dialects.attributes.types import IntType, device, dtype_name
from fxc.dialects.attributes.values import NoneValueAttr, Tree, scalar_of
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.passes.analysis.index.forms import Form
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.promotion import promoted
from fxc.passes.operators.scalars import Scalar, Uncovered, computation_dtype

Index: TypeAlias = tuple[Form, ...]
"""A place in a tensor: one expression over the loops a dimension."""

ZERO = Form(0)

Read: TypeAlias = tuple[SSAValue, Index]
Formula: TypeAlias = Callable[..., Scalar]


@dataclass(frozen=True)
class Pointwise:
    """An element is a ``formula`` of the elements at the same place; smaller operands are broadcast.

    ``formula`` takes the operator's arguments by name, in schema order: tensors as scalars in the dtype of ``computation``, all
    else as Python values. ``computation`` gives the dtype for an op; None leaves each tensor in its own. ``elsewhere``: the
    formula on other devices than CPUs, where PyTorch's loops there choose another sign of zero.
    """

    formula: Formula
    computation: Callable[[TorchOp, Mapping[str, Any]], str] | None
    elsewhere: Formula | None = None

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return [(value, broadcast_index(value, index)) for value in tensors(op)]

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        """``elements``: one for each of ``reads``. Uncovered where the formula cannot take these arguments."""
        arguments = python_arguments(op)
        dtype = None if self.computation is None else self.computation(op, arguments)
        scalars = dict(zip(tensors(op), elements, strict=True))
        values = dict[str, Any]()
        for name, argument in arguments.items():
            scalar = scalars.get(argument) if isinstance(argument, SSAValue) else None
            if scalar is not None and dtype is not None and name not in ("condition", "mask"):
                scalar = scalar.to(computation_dtype(dtype))
            elif _is_number(argument) and op.SCHEMA.by_name[name].type.startswith(_NUMBERS) and name in _OPERANDS:
                scalar = places.constant(argument, computation_dtype(dtype or "float32")).rounded(_precision(op, dtype))
            elif isinstance(argument, Polynomial):
                raise Uncovered("a number that is a size")
            values[name] = argument if scalar is None else scalar
        formula = self.formula if self.elsewhere is None or _is_on_cpu(op) else self.elsewhere
        result = formula(**{_PARAMETERS.get(name, name): value for name, value in values.items()})
        return result.to(computation_dtype(result_dtype(op)))


@dataclass(frozen=True)
class Conversion:
    """An element is the element at the same place in the dtype of the result, half precision rounded."""

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return [(value, broadcast_index(value, index)) for value in tensors(op)[:1]]

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        old, new = dtype_of(tensors(op)[0]), result_dtype(op)
        return elements[0] if old == new else elements[0].to(new)


@dataclass(frozen=True)
class Constant:
    """Every element is the argument ``fill_value``, or ``number`` where the operator has none."""

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
    return isinstance(type, TensorType) and device(type) == "cpu"


def _is_number(argument: object) -> TypeGuard[bool | int | float | Polynomial]:
    return isinstance(argument, (bool, int, float, Polynomial))


_OPERANDS = frozenset(["self", "other", "exponent", "x", "value"])
"""Arguments that are operands though they are numbers."""

_NUMBERS = ("Scalar", "Tensor")
"""How the types of parameters begin that take a number for an operand."""

_PARAMETERS = {"self": "x", "other": "y", "input": "x", "min": "low", "max": "high", "from": "start"}
"""Schema names that formulas spell another way."""


def _precision(op: TorchOp, dtype: str | None) -> str:
    """What a number is rounded to before a comparison: other operators take it as it is."""
    return dtype if dtype is not None and result_dtype(op) == "bool" else ""


@dataclass(frozen=True)
class View:
    """An element is the element of the one tensor at ``place``: of the op, the index and which result it is."""

    place: Callable[[TorchOp, Index, int], Index]

    def reads(self, op: TorchOp, index: Index, result: int) -> list[Read]:
        return [(tensors(op)[0], self.place(op, index, result))]

    def emit(self, op: TorchOp, elements: Sequence[Scalar], places: Places) -> Scalar:
        return elements[0]


@dataclass(frozen=True)
class Reduction:
    """Elements along some dimensions become one.

    ``combine``: two of them. ``start``: what is combined with the first, of a dtype. ``finish``: the result, of what was
    combined and how many there were. ``accumulation``: the dtype in which elements are combined, of that of the result.
    ``centred``: what is combined are the squares of distances from the mean. ``extreme``: a reduction that finds an element;
    what is combined are the places where it is, or where NaN is. ``of_some``: the operator refuses a tensor without
    elements, and its fakes may not.
    """

    combine: Callable[[Scalar, Scalar], Scalar]
    start: Callable[[str], int | float | bool]
    finish: Callable[[TorchOp, Scalar, int | Scalar], Scalar] | None = None
    accumulation: Callable[[str], str] = computation_dtype
    centred: bool = False
    extreme: Reduction | None = None
    of_some: bool = False


class Outside(list[Read]):
    """Reads that may lie outside of their tensors: the element is 0 there, and the rule chooses another value."""


Elements: TypeAlias = Generator[Sequence[Read], Sequence[Scalar], Scalar]
"""Yields the elements that it needs, is sent them, and returns the element that it makes of them."""


Making: TypeAlias = Callable[[TorchOp, Index, int, Places], Elements]
"""How an element is made, for the op, the index, which result it is, and what computes places."""


@dataclass(frozen=True)
class Placed:
    """An element depends on its place, or is at a place that others say."""

    steps: Making


@dataclass(frozen=True)
class Accumulation:
    """Updates meet the elements that indices say, where they are combined in any order, and with what ``self`` has there.

    ``shape``: of the updates. ``update``: what an update is read from, and where. ``place``: the number of the element that it
    meets, row by row; below 0 where that is none. ``few``: the rule where an element has few updates, or they replace it.
    ``sorted``: PyTorch, on a GPU, sorts the updates; else it adds in memory.
    """

    shape: Callable[[TorchOp], tuple[Steps, ...]]
    update: Callable[[TorchOp, Index], Read]
    place: Callable[[TorchOp, Index, Places], Elements]
    few: Placed | None = None
    sorted: bool = False


Elementwise: TypeAlias = Pointwise | Conversion | Constant | View
Rule: TypeAlias = Elementwise | Placed | Reduction | Accumulation


def tensors(op: TorchOp) -> list[SSAValue]:
    """The operands that are tensors, once each, as they come in the schema."""
    return list(dict.fromkeys(value for value in op.operands if isinstance(value.type, TensorType)))


def python_arguments(op: TorchOp) -> dict[str, Any]:
    """What the call passed: tensors as SSA values, sizes as ``Steps``, constants as Python's, enumerations as attributes."""
    return {name: _python(tree) for name, tree in op.bound().items()}


def _python(tree: Tree) -> Any:
    if isinstance(tree, (list, tuple)):
        return [_python(element) for element in tree]
    if isinstance(tree, SSAValue):
        if isinstance(tree.type, TensorType):
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


def broadcast_index(value: SSAValue, index: Index) -> Index:
    """Where ``value`` is read for the place ``index`` of what it is broadcast to."""
    shape = shape_of(value)
    own = index[len(index) - len(shape) :]
    return tuple(ZERO if size == 1 else place for size, place in zip(shape, own, strict=True))


def shape_of(value: SSAValue) -> tuple[Steps, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(sizes_of(value.type))


def dtype_of(value: SSAValue) -> str:
    assert isinstance(value.type, TensorType)
    return dtype_name(value.type.element_type)


def result_dtype(op: TorchOp, arguments: Mapping[str, Any] | None = None) -> str:
    """Computed in the dtype of the result, as arithmetic is."""
    return dtype_of(op.results[0])


def operand_dtype(op: TorchOp, arguments: Mapping[str, Any]) -> str:
    """Computed in what the operands are promoted to, as comparisons are."""
    return promoted(_operands(arguments))


def _operands(arguments: Mapping[str, Any]) -> list[TensorType | bool | int | float]:
    found = list[TensorType | bool | int | float]()
    for name, argument in arguments.items():
        if isinstance(argument, SSAValue):
            assert isinstance(argument.type, TensorType)
            found.append(argument.type)
        elif name in _OPERANDS and _is_number(argument):
            found.append(1 if isinstance(argument, Polynomial) else argument)
    return found
