"""Comparison of programs at given sizes: whether two results of PyTorch queries are equivalent in different forms.

At a size of 1 PyTorch writes numbers instead of symbols, other strides for dimensions of one element, and a view instead of a
copy. A copy is correct at each size, so the first program may copy where the second has a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType, TupleType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.bridge.tensors import number_at, type_of
from fxc.bridge.values import is_dict, is_sequence
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import NUMBERS, IntType, is_tensor
from fxc.dialects.attributes.values import MemoryFormatAttr, int_attr, isa, str_attr
from fxc.dialects.fx import PositionalCall
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import InputError
from fxc.interpret.example_values import Seeded
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.refusals import is_of_torch

_CONTIGUOUS = MemoryFormatAttr(str_attr("contiguous_format"))
_COPY, _VIEW_OF_COPY, _VIEW = "aten.clone.default", "aten._unsafe_view.default", "aten.view.default"


def same_programs(first: object, second: object, numbers: Mapping[str, int]) -> bool:
    """Whether ``first``, with these values of symbols, is equivalent to ``second``."""
    return _Comparison(numbers).same(first, second)


class _Comparison:
    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        self.values = dict[SSAValue, SSAValue]()
        """Value of the first program -> value of the second."""

    def same(self, a: Any, b: Any) -> bool:
        if isinstance(a, func.FuncOp) and isinstance(b, func.FuncOp):
            return self.blocks(list(a.body.blocks), list(b.body.blocks)) or same_results(a, b, self.numbers)
        if isinstance(a, Operation) and isinstance(b, Operation):
            return self.op(a, b)
        if isinstance(a, Block) and isinstance(b, Block):
            return self.blocks([a], [b])
        if isinstance(a, SSAValue) or isinstance(b, SSAValue) or isinstance(a, IntegerAttr):
            return self.operand(a, b)
        if is_dict(a) and is_dict(b):
            return list(a) == list(b) and all(self.same(a[key], b[key]) for key in a)
        if is_sequence(a) and is_sequence(b):
            return len(a) == len(b) and all(self.same(x, y) for x, y in zip(a, b, strict=True))
        if isa(a, slice) and isa(b, slice):
            return self.same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
        if is_dataclass(a) and is_dataclass(b) and not isinstance(a, Attribute):
            return all(self.same(getattr(a, each.name), getattr(b, each.name)) for each in fields(a) if each.compare)
        return a == b

    def operand(self, a: Any, b: Any) -> bool:
        """Whether two arguments are the same value, or the same number."""
        if all(isinstance(each, SSAValue) for each in (a, b)) and self.values.get(_uncopied(a)) is _uncopied(b):
            return True
        number = self.number(a)
        return number is not None and number == self.number(b)

    def number(self, value: Any) -> int | None:
        match value:
            case SSAValue(type=IntType() as type):
                return number_at(type.expression.data, self.numbers)
            case IntegerAttr():
                return value.value.data
            case _:
                return None

    def blocks(self, some: list[Block], others: list[Block]) -> bool:
        return len(some) == len(others) and all(map(self.block, some, others))

    def block(self, a: Block, b: Block) -> bool:
        if not same_types(a.arg_types, b.arg_types, self.numbers):
            return False
        self.values.update(zip(a.args, b.args, strict=True))
        some, others = self.steps(a), self.steps(b)
        return len(some) == len(others) and all(map(self.op, some, others))

    def steps(self, block: Block) -> list[Operation]:
        """Return the operations of ``block``, except computations of known numbers, and copies that are only used by views."""
        return [op for op in block.ops if not self.makes_numbers(op) and not _is_viewed_copy(op)]

    def makes_numbers(self, op: Operation) -> bool:
        return bool(op.results) and all(self.number(result) is not None for result in op.results)

    def op(self, a: Operation, b: Operation) -> bool:
        if not same_types(a.result_types, b.result_types, self.numbers) or not self.same_arguments(a, b):
            return False
        self.values.update(zip(a.results, b.results, strict=True))
        return all(self.blocks(list(x.blocks), list(y.blocks)) for x, y in zip(a.regions, b.regions, strict=True))

    def same_arguments(self, a: Operation, b: Operation) -> bool:
        """Whether the operations, their arguments and attributes are equal."""
        if len(a.regions) != len(b.regions) or a.attributes != b.attributes:
            return False
        if isinstance(a, TorchOp) and isinstance(b, TorchOp):
            names = [op.operator + "(copy)" * _views_copy(op) for op in (a, b)]
            is_same_name = names[0] == names[1] or names == [f"{_VIEW_OF_COPY}(copy)", _VIEW]
            return is_same_name and self.same(a.trees(), b.trees())
        if isinstance(a, PositionalCall) and isinstance(b, PositionalCall):
            return (a.name, a.call_target()) == (b.name, b.call_target()) and self.same(a.trees(), b.trees())
        return a.name == b.name and a.properties == b.properties and self.same(list(a.operands), list(b.operands))


def _uncopied(value: SSAValue) -> SSAValue:
    """Return ``value``, or the source of a copy that is only used by views."""
    owner = value.owner
    return owner.operands[0] if isinstance(owner, Operation) and _is_viewed_copy(owner) else value


def _is_viewed_copy(op: Operation) -> bool:
    """Whether ``op`` is the contiguous copy that ``reshape`` makes if no view is possible."""
    if not isinstance(op, TorchOp) or op.operator != _COPY or op.bound().get("memory_format") != _CONTIGUOUS:
        return False
    uses = [use.operation for use in op.results[0].uses]
    return bool(uses) and all(isinstance(use, TorchOp) and use.operator == _VIEW_OF_COPY for use in uses)


def _views_copy(op: TorchOp) -> bool:
    viewed = op.operands[0].owner if op.operands else None
    return op.operator == _VIEW_OF_COPY and isinstance(viewed, Operation) and _is_viewed_copy(viewed)


# comparison of results: both functions run on the same random numbers


_MOST = 1 << 22
"""The maximum number of elements; with more, a run takes longer than a trace."""


class _OtherType(Exception):
    """A result of an operation has another type than its declaration."""


def same_results(first: func.FuncOp, second: func.FuncOp, numbers: Mapping[str, int]) -> bool:
    """Whether ``first``, with these values of symbols, has the declared types and computes the same results as ``second``.

    False if that takes too long, or cannot run.
    """
    inputs = list(first.body.block.arg_types)
    if not same_types(inputs, list(second.body.block.arg_types), numbers) or not _is_small(inputs, numbers):
        return False

    def watch(op: Operation, results: Any, _: Any) -> None:
        if not same_types(op.result_types, [type_of(result) for result in results], numbers):
            raise _OtherType

    try:
        return _agree(
            _run(first, numbers, ReferenceInterpreter({}, watch=watch)), _run(second, numbers, ReferenceInterpreter({}))
        )
    except (_OtherType, InputError):
        return False
    except Exception as error:
        if not is_of_torch(error):
            raise
        return False


def _is_small(inputs: list[Attribute], numbers: Mapping[str, int]) -> bool:
    total = 0
    for type in inputs:
        if is_tensor(type):
            shape = sizes_at(type, numbers)
            if shape is None or types.device(type) != "cpu":
                return False
            total += torch.Size(shape).numel()
    return total <= _MOST


def _run(function: func.FuncOp, numbers: Mapping[str, int], interpreter: ReferenceInterpreter) -> list[Any]:
    symbols = DictionaryAttr({name: DictionaryAttr({"hint": int_attr(number)}) for name, number in numbers.items()})
    seeded = Seeded(symbols)
    inputs = [seeded.value(type) for type in function.body.block.arg_types]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        return interpreter.call(function, inputs)


def _agree(some: list[Any], others: list[Any]) -> bool:
    try:
        torch.testing.assert_close(some, others, equal_nan=True)
    except AssertionError:
        return False
    return True


def same_types(some: Sequence[Attribute], others: Sequence[Attribute], numbers: Mapping[str, int]) -> bool:
    """Whether these types are equivalent for these values of symbols; strides matter only if there are elements."""
    return len(some) == len(others) and all(_same_type(a, b, numbers) for a, b in zip(some, others, strict=True))


def _same_type(a: Attribute, b: Attribute, numbers: Mapping[str, int]) -> bool:
    if a == b:
        return True
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return same_types(a.types.data, b.types.data, numbers)
    if isinstance(a, NUMBERS) and type(a) is type(b) and not a.expression.data:
        return True
    if isinstance(a, IntType) and isinstance(b, IntType):
        return (number := number_at(a.expression.data, numbers)) is not None and number == number_at(b.expression.data, numbers)
    if not is_tensor(a) or not is_tensor(b):
        return False
    if _kind(a) != _kind(b):
        return False
    shape, other = sizes_at(a, numbers), sizes_at(b, numbers)
    if shape is None or shape != other:
        return False
    steps = zip(shape, _strides(a, shape, numbers), _strides(b, shape, numbers), strict=True)
    return 0 in shape or all(size == 1 or (x is not None and x == y) for size, x, y in steps)


def _kind(type: TensorType) -> tuple[object, ...]:
    return type.element_type, types.device(type), types.layout(type)


def sizes_at(type: TensorType, numbers: Mapping[str, int]) -> list[int] | None:
    found = [number_at(size, numbers) for size in types.sizes(type)]
    known = [size for size in found if size is not None]
    return known if len(known) == len(found) else None


def _strides(type: TensorType, shape: list[int], numbers: Mapping[str, int]) -> Sequence[int | None]:
    steps = types.strides(type)
    return types.contiguous_strides(shape) if steps is None else [number_at(step, numbers) for step in steps]
