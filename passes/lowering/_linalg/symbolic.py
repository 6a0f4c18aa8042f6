"""Bodies of sizes that are not known: converted at two choices of numbers that stand in for them, which must give the same.

What a rule makes of a size (a constant, an index that is divided, a choice of how) differs between the two or is no loop that
stands alone, and is refused. What is left says the same for any size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.types import Dim, IntType, device, dtype_name, layout, sizes, strides, tensor_type
from fxc.dialects.values import int_attr
from fxc.passes.autodiff._functions import copy_op
from fxc.passes.lowering._linalg.scalars import Uncovered

STAND_INS = (
    (10007, 10009, 10037, 10039, 10061, 10067, 10069, 10079),
    (20011, 20021, 20023, 20029, 20047, 20051, 20063, 20071),
)
"""Primes, so that no product or quotient of sizes is another size."""

UNKNOWN = "sizes that are not known"


PLACED = ("tensor.", "affine.", "scf.", "cf.")
"""What the names of ops begin with that read at places that a body computes, or choose whether to."""


def at_any_size(source: Block, convert: Callable[[Block], Block]) -> Block:
    """What ``convert`` makes of a copy of ``source``, which it may change, for all values of the symbolic sizes in it.

    Uncovered where that depends on a size.
    """
    names = _names(source)
    if len(names) > len(STAND_INS[0]) or "" in names:
        raise Uncovered(UNKNOWN)
    first, *others = [Sized(source, dict(zip(names, numbers, strict=False))).converted(convert) for numbers in STAND_INS]
    same = all(first.is_structurally_equivalent(other) for other in others)
    for other in others:
        _drop(other)
    try:
        if not same:
            raise Uncovered(UNKNOWN)
        for op in first.ops:
            _check(op)
    except Uncovered:
        _drop(first)
        raise
    return first


def is_symbolic(block: Block) -> bool:
    """Whether tensors in ``block`` have sizes or strides that are not static."""
    return any(not _is_static(value.type) for op in block.ops for value in (*op.operands, *op.results))


def _is_static(type: Attribute) -> bool:
    return not isinstance(type, TensorType) or all(isinstance(dim, int) for dim in (*sizes(type), *(strides(type) or ())))


def _names(block: Block) -> list[str]:
    """The symbolic sizes of the tensors in ``block``, in order."""
    values = [value for op in block.ops for value in (*op.operands, *op.results)]
    types = [value.type for value in values if isinstance(value.type, TensorType)]
    return list(dict.fromkeys(size for type in types for size in sizes(type) if isinstance(size, str)))


def _drop(block: Block) -> None:
    for op in block.ops:
        op.drop_all_references()


class Sized:
    """``source`` with ``numbers`` in place of its symbolic sizes."""

    def __init__(self, source: Block, numbers: Mapping[str, int]) -> None:
        self.source, self.numbers = source, numbers
        self.names: Mapping[Dim, str] = {number: name for name, number in numbers.items()}
        self.block = Block()
        self.outside = dict[SSAValue, SSAValue]()
        """The arguments of the block -> the values that they stand for."""
        values = dict[SSAValue, SSAValue]()
        for op in source.ops:
            for operand in op.operands:
                if operand not in values:
                    values[operand] = self._outer(operand)
            copy = copy_op(op, values)
            self.block.add_op(copy)
            for old, new in zip(op.results, list(copy.results), strict=True):
                values[old] = self._retyped(new, self._static(old.type))

    def _outer(self, value: SSAValue) -> SSAValue:
        """What stands for a value from outside: a constant for a size, an argument for anything else."""
        if isinstance(value.type, IntType) and value.type.expression.data in self.numbers:
            constant = ConstantOp.of(int_attr(self.numbers[value.type.expression.data]), value.type)
            self.block.add_op(constant)
            return constant.result
        argument = self.block.insert_arg(self._static(value.type), len(self.block.args))
        argument.name_hint = value.name_hint
        self.outside[argument] = value
        return argument

    def _retyped(self, value: SSAValue, type: Attribute) -> SSAValue:
        return value if value.type == type else Rewriter.replace_value_with_new_type(value, type)

    def _static(self, type: Attribute) -> Attribute:
        if not isinstance(type, TensorType):
            return type
        dims = tuple(size if isinstance(size, int) else self.numbers[size] for size in sizes(type))
        return tensor_type(dtype_name(type.element_type), dims, strides(type), device(type), layout(type))

    def _symbolic(self, type: Attribute) -> Attribute:
        if not isinstance(type, TensorType):
            return type
        dims = tuple(self.names.get(size, size) for size in sizes(type))
        return tensor_type(dtype_name(type.element_type), dims, strides(type), device(type), layout(type))

    def converted(self, convert: Callable[[Block], Block]) -> Block:
        """What ``convert`` makes of the block, with symbolic sizes again."""
        try:
            made = convert(self.block)
            for argument, value in self.outside.items():
                argument.replace_all_uses_with(value)
        finally:
            _drop(self.block)
        known = {name: self._size(made, name) for name in dict.fromkeys(_stand_ins(made, self.names))}
        for op in list(made.ops):
            for result in list(op.results):
                self._retyped(result, self._symbolic(result.type))
            if isinstance(op, tensor.EmptyOp):
                assert isinstance(op.tensor.type, TensorType)
                op.operands = [known[size] for size in sizes(op.tensor.type) if isinstance(size, str)]
        return made

    def _size(self, made: Block, name: str) -> SSAValue:
        """The size ``name`` as a value, made at the begin of ``made``."""
        for value in self.outside.values():
            dims = sizes(value.type) if isinstance(value.type, TensorType) else ()
            if name in dims:
                number = arith.ConstantOp(IntegerAttr(dims.index(name), IndexType()))
                dim = tensor.DimOp(value, number.result)
                assert made.first_op is not None
                made.insert_ops_before([number, dim], made.first_op)
                return dim.result
        raise Uncovered(UNKNOWN)


def _stand_ins(block: Block, names: Mapping[Dim, str]) -> list[str]:
    """The sizes of new tensors in ``block`` that stand for symbolic ones."""
    types = [op.tensor.type for op in block.ops if isinstance(op, tensor.EmptyOp)]
    return [names[size] for type in types if isinstance(type, TensorType) for size in sizes(type) if size in names]


def _check(op: Operation) -> None:
    """Refuse what has no code for any size: the steps in memory are to be known, and one loop at most is not."""
    tensors = [value for value in (*op.operands, *op.results) if isinstance(value.type, TensorType)]
    if not any(isinstance(size, str) for value in tensors for size in sizes(value.type)):  # type: ignore[arg-type]
        return
    if isinstance(op, linalg.GenericOp):
        _check_loops(op)
    elif isinstance(op, tensor.ConcatOp):
        raise Uncovered(UNKNOWN)


def _check_loops(op: linalg.GenericOp) -> None:
    found, shown = dict[int, set[Dim]](), set[int]()
    for place, (value, attribute) in enumerate(zip(op.operands, op.indexing_maps, strict=True)):
        assert isinstance(value.type, TensorType)
        for loop, size in _loops(value.type, attribute.data):
            found.setdefault(loop, set()).add(size)
            if place < len(op.inputs) and op.body.block.args[place].first_use is not None:
                shown.add(loop)
    dynamic = [loop for loop, dims in found.items() if any(isinstance(size, str) for size in dims)]
    [*kinds] = op.iterator_types
    one = len(dynamic) == 1 and len(found[dynamic[0]]) == 1
    if not one or dynamic[0] not in shown or kinds[dynamic[0]].data != IteratorType.PARALLEL:
        raise Uncovered(UNKNOWN)
    if any(_uses(attribute.data, dynamic[0]) for attribute in op.indexing_maps) or _asks_for_places(op.body.block):
        raise Uncovered(UNKNOWN)


def _loops(type: TensorType, map: AffineMap) -> Sequence[tuple[int, Dim]]:
    """The loops that stand alone in the index of a tensor of ``type``, and the sizes that they go through."""
    dims, steps = sizes(type), strides(type)
    moves = dims[1:] if steps is None else steps
    if any(isinstance(dim, str) for dim in moves):
        raise Uncovered(UNKNOWN)
    pairs = list(zip(map.results, dims, strict=True))
    if any(isinstance(size, str) and not isinstance(place, AffineDimExpr) for place, size in pairs):
        raise Uncovered(UNKNOWN)
    return [(place.position, size) for place, size in pairs if isinstance(place, AffineDimExpr)]


def _uses(map: AffineMap, loop: int) -> bool:
    """Whether ``loop`` is a part of an expression in ``map``."""
    places = [place for place in map.results if not isinstance(place, AffineDimExpr)]
    return any(part == AffineDimExpr(loop) for place in places for part in place.post_order())


def _asks_for_places(body: Block) -> bool:
    """Whether ``body`` has ops that read at places that it computes, or that ask which place an element has."""
    return any(isinstance(op, linalg.IndexOp) or op.name.startswith(PLACED) for op in body.walk())
