"""The join of two types, types restricted to the symbols that are defined at a point of the program, and unknown shapes.

The shape of a tensor is unknown where an operator may resize memory that it shares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, TupleType, i1
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import NUMBERS, VALUE, BoolType, Dim, FloatType, IntType, is_tensor, tensor_type, tuple_type
from fxc.dialects.attributes.values import NoneValueAttr, scalar_of, str_attr
from fxc.dialects.base.effects import reshapes
from fxc.passes.analysis.constants import is_host_constant
from fxc.passes.analysis.memory import Memory, is_isolated

_DATA_DEPENDENT = re.compile(r"\b(?:u|zuf)\d+\b")
"""A symbol for a data-dependent number; it is defined by an op or a region, and valid only in that scope."""


def join(a: Attribute, b: Attribute) -> Attribute:
    """The type of a value of type ``a`` or ``b``: sizes that differ become unnamed, other differences make the type unknown."""
    if a == b:
        return a
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.types) == len(b.types):
        return tuple_type([join(x, y) for x, y in zip(a.types, b.types, strict=True)])
    if isinstance(a, NUMBERS) and type(a) is type(b):
        return type(a)(str_attr(""))
    if is_tensor(a) and is_tensor(b) and _facts(a) == _facts(b):
        sizes = _common(types.sizes(a), types.sizes(b))
        steps = None if types.strides(a) == types.strides(b) is None else _common(_strides(a), _strides(b))
        return _tensor(a, sizes, steps)
    return VALUE


def _facts(type: TensorType) -> tuple[object, ...]:
    return type.element_type, len(type.get_shape()), types.device(type), types.layout(type)


def _common(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(x if x == y else "" for x, y in zip(a, b, strict=True))


def _strides(type: TensorType) -> tuple[Dim, ...]:
    if (known := types.strides(type)) is not None:
        return known
    sizes = types.sizes(type)
    static = [size for size in sizes if isinstance(size, int)]
    return types.contiguous_strides(static) if len(static) == len(sizes) else (*[""] * (len(sizes) - 1), 1)[: len(sizes)]


def _tensor(like: TensorType, sizes: tuple[Dim, ...], steps: tuple[Dim, ...] | None) -> TensorType:
    name = types.dtype_name(like.element_type)
    return tensor_type(name, sizes, steps, types.device(like), types.layout(like))


def unshaped(type: Attribute, ranks: Collection[int]) -> Attribute:
    """``type`` with unknown sizes, for a tensor that may have another shape of one of these ranks."""
    if not is_tensor(type):
        return type
    rank = len(type.get_shape())
    return _tensor(type, ("",) * rank, ("",) * rank if rank else None) if set(ranks) == {rank} else VALUE


def data_dependent(types_: Sequence[Attribute]) -> set[str]:
    """The data-dependent symbols in these types."""
    return {symbol for type in types_ for text in _texts(type) for symbol in _DATA_DEPENDENT.findall(text)}


def without_symbols(type: Attribute, is_gone: Callable[[str], bool]) -> Attribute:
    """``type`` without the sizes and numbers that use a data-dependent symbol for which ``is_gone`` holds."""

    def known(dim: Dim) -> Dim:
        return "" if isinstance(dim, str) and any(map(is_gone, _DATA_DEPENDENT.findall(dim))) else dim

    if isinstance(type, TupleType):
        return tuple_type([without_symbols(element, is_gone) for element in type.types])
    if not any(map(is_gone, data_dependent([type]))):
        return type
    if isinstance(type, NUMBERS):
        return type.__class__(str_attr(""))
    assert is_tensor(type)
    steps = types.strides(type)
    return _tensor(type, tuple(map(known, types.sizes(type))), None if steps is None else tuple(map(known, steps)))


def named_as(type: Attribute, declared: Attribute) -> Attribute:
    """``type`` with its unnamed sizes and numbers renamed after ``declared``, where that has a data-dependent symbol."""

    def name(dim: Dim, old: Dim) -> Dim:
        return old if dim == "" and isinstance(old, str) and _DATA_DEPENDENT.fullmatch(old) else dim

    if isinstance(type, TupleType) and isinstance(declared, TupleType) and len(type.types) == len(declared.types):
        return tuple_type([named_as(a, b) for a, b in zip(type.types, declared.types, strict=True)])
    if isinstance(type, NUMBERS) and isinstance(declared, type.__class__):
        return type.__class__(str_attr(str(name(type.expression.data, declared.expression.data))))
    if is_tensor(type) and is_tensor(declared) and _facts(type) == _facts(declared):
        sizes = tuple(name(a, b) for a, b in zip(types.sizes(type), types.sizes(declared), strict=True))
        steps, old_steps = types.strides(type), types.strides(declared)
        if steps is not None and old_steps is not None:
            steps = tuple(map(name, steps, old_steps))
        return _tensor(type, sizes, steps)
    return type


def leaf_type(leaf: SSAValue | Attribute) -> Attribute:
    """The type of a call argument, which is a value or a constant."""
    match leaf:
        case SSAValue():
            return leaf.type
        case IntegerAttr() if leaf.type == i1:
            return BoolType(str_attr(str(bool(leaf.value.data))))
        case IntegerAttr():
            return IntType(str_attr(str(leaf.value.data)))
        case NoneValueAttr():
            return types.NONE_TYPE
        case _ if is_host_constant(leaf) and not isinstance(leaf, StringAttr):
            return FloatType(str_attr(str(scalar_of(leaf))))
        case _:
            return VALUE


def _texts(type: Attribute) -> list[str]:
    if isinstance(type, TupleType):
        return [text for element in type.types for text in _texts(element)]
    if isinstance(type, NUMBERS):
        return [type.expression.data]
    if is_tensor(type):
        return [dim for dim in (*types.sizes(type), *(types.strides(type) or ())) if isinstance(dim, str)]
    return []


def lost_shapes(scope: Operation, functions: Mapping[str, FuncOp]) -> dict[SSAValue, Attribute]:
    """The values in ``scope``, and in nested scopes, that may share memory with a reshaped tensor, with their remaining types.

    The order of ops does not matter. Block arguments keep their type, which is that of the passed values.
    """
    ops = _scope_ops(scope)
    reshaping = [(op, values) for op in ops if (values := _reshaped(op, functions))]
    lost = dict[SSAValue, Attribute]()
    if reshaping:
        memory, ranks = Memory(scope), dict[object, set[int]]()
        for op, values in reshaping:
            for value in values:
                found = ranks.setdefault(memory.set_of(value), set())
                for tensor in (value, *op.results):
                    found.add(len(tensor.type.get_shape()) if is_tensor(tensor.type) else -1)
        arguments = [argument for region in scope.regions for block in region.blocks for argument in block.args]
        for value in (*arguments, *(result for op in ops for result in op.results)):
            if (kept := ranks.get(memory.set_of(value))) is not None:
                lost[value] = value.type if isinstance(value, BlockArgument) else unshaped(value.type, kept)
    for op in ops:
        if is_isolated(op):
            lost |= lost_shapes(op, functions)
    return lost


def _reshaped(op: Operation, functions: Mapping[str, FuncOp]) -> Sequence[SSAValue]:
    """The values that ``op``, an op in its regions, or the function that it calls may reshape."""
    if isinstance(op, CallOp):
        callee = functions.get(op.callee.string_value())
        return () if callee is None or not any(map(reshapes, callee.walk())) else op.operands
    if is_isolated(op):
        return op.operands if any(_reshaped(inner, functions) for inner in _scope_ops(op)) else ()
    return reshapes(op)


def _scope_ops(scope: Operation) -> list[Operation]:
    """The ops of ``scope`` at any depth, without those of nested scopes."""
    found = list[Operation]()
    for region in scope.regions:
        for block in region.blocks:
            for op in block.ops:
                found.append(op)
                if op.regions and not is_isolated(op):
                    found += _scope_ops(op)
    return found
