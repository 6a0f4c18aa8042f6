"""Bodies of sizes that are not known: converted at choices of numbers that stand in for them, which may differ in numbers only.

A number that differs is read as a polynomial of the sizes, and computed from them. What a rule decides by a size (which ops
it writes) differs between the choices and is refused. What is left says the same for any size that the program allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations_with_replacement
from math import prod
from types import MappingProxyType

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineConstantExpr, AffineExpr, AffineMap, AffineSymExpr
from xdsl.rewriter import Rewriter

from fxc.dialects.steps import Polynomial, Steps, names_of, sizes_of, steps_of_size, strides_of, value_at
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.types import Dim, IntType, device, dtype_name, layout, sizes, strides, tensor_type
from fxc.dialects.values import int_attr
from fxc.passes.autodiff._functions import copy_op
from fxc.passes.lowering._linalg.scalars import Uncovered
from fxc.passes.lowering._linalg.sized_bodies import PLACE, Names, Symbols, finish

CHOICES = 4
"""How many numbers stand in for a size: three say which polynomial a number is, and the last that it is."""

PRIMES = (
    11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137,
    139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199,
)  # fmt: skip
"""What stands in, so that no product or quotient of sizes is another size; float32 has the products of three."""

DEGREE, LARGEST = 3, 1 << 20
"""How many sizes a number may be a product of, and what else it may be multiplied with."""

UNKNOWN = "sizes that are not known"


ANYWHERE = Symbols(MappingProxyType({}), lambda name: Block(arg_types=[IntType(StringAttr(name))]).args[0])
"""Where it is not asked which value says a size."""


def at_any_size(source: Block, convert: Callable[[Block], Block], symbols: Symbols = ANYWHERE) -> Block:
    """What ``convert`` makes of a copy of ``source``, which it may change, for all values of the symbolic sizes in it.

    Uncovered where that depends on a size in another way than by numbers.
    """
    names = _names(source)
    primes = _primes(source)
    if "" in names or CHOICES * len(names) > len(primes):
        raise Uncovered(UNKNOWN)
    choices = [dict(zip(names, primes[choice * len(names) :], strict=False)) for choice in range(CHOICES)]
    made = list[Block]()
    try:
        for numbers in choices:
            made.append(Sized(source, numbers).converted(convert))
        decoder = Decoder(source, names, choices)
        edits = Joined(decoder).block(made)
        first = made[0]
        for op in first.ops:
            for result in list(op.results):
                if result in decoder.types:
                    _retyped(result, decoder.types[result])
        finish(first, edits, symbols, Names(names, decoder.texts))
    except Uncovered:
        for block in made:
            _drop(block)
        raise
    for block in made[1:]:
        _drop(block)
    return first


def is_symbolic(block: Block) -> bool:
    """Whether tensors in ``block`` have sizes or strides that are not static."""
    types = {id(value.type): value.type for op in block.ops for value in (*op._operands, *op.results)}  # most are interned
    return not all(map(_is_static, types.values()))


def _is_static(type: Attribute) -> bool:
    return not isinstance(type, TensorType) or all(isinstance(dim, int) for dim in (*sizes(type), *(strides(type) or ())))


def _types(block: Block) -> list[TensorType]:
    values = [value for op in block.ops for value in (*op.operands, *op.results)]
    return list(dict.fromkeys(value.type for value in values if isinstance(value.type, TensorType)))


def _names(block: Block) -> list[str]:
    """The names that say sizes and strides of the tensors in ``block``, in order."""
    found = [name for type in _types(block) for number in (*sizes_of(type), *strides_of(type)) for name in names_of(number)]
    return list(dict.fromkeys(found))


def _primes(block: Block) -> list[int]:
    """Those that are no sizes of tensors in ``block``."""
    known = {size for type in _types(block) for size in sizes(type)}
    return [number for number in PRIMES if number not in known]


def _drop(block: Block) -> None:
    for op in block.ops:
        op.drop_all_references()


def _retyped(value: SSAValue, type: Attribute) -> SSAValue:
    return value if value.type == type else Rewriter.replace_value_with_new_type(value, type)


class Sized:
    """``source`` with ``numbers`` in place of its symbolic sizes."""

    def __init__(self, source: Block, numbers: Mapping[str, int]) -> None:
        self.numbers, self.block = numbers, Block()
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
                values[old] = _retyped(new, self._static(old.type))

    def _outer(self, value: SSAValue) -> SSAValue:
        """What stands for a value from outside: a constant for a size, an argument for anything else."""
        if isinstance(value.type, IntType) and (text := value.type.expression.data):
            number = steps_of_size(text)
            if set(names_of(number)) <= self.numbers.keys():
                constant = ConstantOp.of(int_attr(value_at(number, self.numbers)), value.type)
                self.block.add_op(constant)
                return constant.result
        argument = self.block.insert_arg(self._static(value.type), len(self.block.args))
        argument.name_hint = value.name_hint
        self.outside[argument] = value
        return argument

    def _static(self, type: Attribute) -> Attribute:
        if not isinstance(type, TensorType):
            return type
        steps = strides(type)
        dims = self._at(sizes(type))
        return tensor_type(
            dtype_name(type.element_type), dims, None if steps is None else self._at(steps), device(type), layout(type)
        )

    def _at(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(value_at(steps_of_size(dim), self.numbers) for dim in dims)

    def converted(self, convert: Callable[[Block], Block]) -> Block:
        """What ``convert`` makes of the block, which reads the tensors of the source."""
        try:
            made = convert(self.block)
            for argument, value in self.outside.items():
                argument.replace_all_uses_with(value)
        finally:
            _drop(self.block)
        return made


class Decoder:
    """What numbers are in terms of the sizes ``names``, from what they are for each of ``choices``."""

    def __init__(self, source: Block, names: Sequence[str], choices: Sequence[Mapping[str, int]]) -> None:
        self.choices = choices
        self.types = dict[SSAValue, Attribute]()
        """Of results of the first choice, with symbolic sizes."""
        texts = dict[Steps, str]()
        for type in _types(source):
            texts |= {steps_of_size(dim): dim for dim in sizes(type) if isinstance(dim, str)}
        self.texts = texts
        """How the source writes a size."""
        names_alone = [Polynomial.name(name) for name in names]
        products = [prod(each) for count in range(2, DEGREE + 1) for each in combinations_with_replacement(names_alone, count)]
        self._parts = list(dict.fromkeys([*names_alone, *texts, *products]))
        self._known = dict[tuple[int, ...], Steps]()

    def number(self, values: Sequence[int]) -> Steps:
        """The number that is these ``values``. Uncovered where none is found."""
        key = tuple(values)
        if key not in self._known:
            self._known[key] = self._found(key)
        return self._known[key]

    def _found(self, values: tuple[int, ...]) -> Steps:
        if len(set(values)) == 1:
            return values[0]
        for part in self._parts:
            at = [value_at(part, numbers) for numbers in self.choices]  # type: ignore[arg-type]
            if at[0] == at[1]:
                continue
            factor, rest = divmod(values[0] - values[1], at[0] - at[1])
            more = values[0] - factor * at[0]
            if not rest and abs(factor) < LARGEST and all(factor * a + more == v for a, v in zip(at, values, strict=True)):
                return factor * part + more
        raise Uncovered(UNKNOWN)

    def dim(self, values: Sequence[int]) -> Dim:
        """The same as a size of a type, as the source writes it."""
        number = self.number(values)
        return number if isinstance(number, int) else self.texts.get(number, str(number))

    def type(self, types: Sequence[Attribute]) -> Attribute:
        """The type of a value that has ``types``."""
        first = types[0]
        if len(set(types)) == 1:
            return first
        tensors = [type for type in types if isinstance(type, TensorType)]
        if len(tensors) < len(types) or not isinstance(first, TensorType):
            raise Uncovered(UNKNOWN)
        alike = {(type.element_type, device(type), layout(type), len(type.get_shape())) for type in tensors}
        steps = [strides(type) for type in tensors]
        if len(alike) > 1 or (None in steps and any(step is not None for step in steps)):
            raise Uncovered(UNKNOWN)
        dims = tuple(self.dim(each) for each in zip(*(type.get_shape() for type in tensors), strict=True))
        moves = None if None in steps else tuple(self.dim(each) for each in zip(*steps, strict=True))  # type: ignore[arg-type]
        return tensor_type(dtype_name(first.element_type), dims, moves, device(first), layout(first))


Edits = dict[Operation, dict[str, object]]
"""Op -> its attributes that depend on sizes: a number (``Steps``), maps or a map in which sizes are symbols, or a text."""


class Joined:
    """Goes through what was made for each choice at once. Uncovered where there is another difference than in numbers."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, self.edits = decoder, Edits()
        self.places = dict[SSAValue, int]()
        """Values of all choices: the same for those that stand in the same place."""

    def block(self, blocks: Sequence[Block]) -> Edits:
        """What is to be changed in the first of ``blocks``."""
        arguments = [list(block.args) for block in blocks]
        if len({tuple(argument.type for argument in each) for each in arguments}) > 1:
            raise Uncovered(UNKNOWN)
        for each in zip(*arguments, strict=True):
            self._same(each)
        listed = [list(block.ops) for block in blocks]
        if len({len(ops) for ops in listed}) > 1:
            raise Uncovered(UNKNOWN)
        for ops in zip(*listed, strict=True):
            self._op(ops)
        return self.edits

    def _same(self, values: Sequence[SSAValue]) -> None:
        self.places |= dict.fromkeys(values, len(self.places))

    def _op(self, ops: Sequence[Operation]) -> None:
        first = ops[0]
        operands = {tuple(self.places.get(value, value) for value in op.operands) for op in ops}
        shapes = {(op.name, tuple(op.properties), tuple(op.attributes), len(op.regions), len(op.results)) for op in ops}
        if len(operands) > 1 or len(shapes) > 1:
            raise Uncovered(UNKNOWN)
        for name in (*first.properties, *first.attributes):
            given = [op.get_attr_or_prop(name) for op in ops]
            if any(other != given[0] for other in given[1:]):
                self.edits.setdefault(first, {})[name] = self._attribute(given)  # type: ignore[arg-type]
        for results in zip(*(op.results for op in ops), strict=True):
            self._same(results)
            if not isinstance(results[0].type, TensorType):
                if len({result.type for result in results}) > 1:
                    raise Uncovered(UNKNOWN)
            else:
                self.decoder.types[results[0]] = self.decoder.type([result.type for result in results])
        for regions in zip(*(op.regions for op in ops), strict=True):
            if {len(region.blocks) for region in regions} - {0, 1}:
                raise Uncovered(UNKNOWN)
            if regions[0].blocks:
                self.block([region.block for region in regions])

    def _attribute(self, given: Sequence[Attribute]) -> object:
        match given[0]:
            case ArrayAttr():
                lists = [attribute.data for attribute in given]  # type: ignore[attr-defined]
                if len({len(each) for each in lists}) == 1:
                    return [self._attribute(each) for each in zip(*lists, strict=True)]
            case AffineMapAttr():
                maps: list[AffineMap] = [attribute.data for attribute in given]  # type: ignore[attr-defined]
                if len({(map.num_dims, map.num_symbols, len(map.results)) for map in maps}) == 1:
                    results = tuple(self._expression(each) for each in zip(*(map.results for map in maps), strict=True))
                    return AffineMap(maps[0].num_dims, maps[0].num_symbols, results)
            case IntegerAttr() if all(isinstance(each, IntegerAttr) for each in given):
                return self.decoder.number([each.value.data for each in given])  # type: ignore[attr-defined]
            case FloatAttr() if all(isinstance(each, FloatAttr) and each.value.data.is_integer() for each in given):
                return self.decoder.number([int(each.value.data) for each in given])  # type: ignore[attr-defined]
            case StringAttr():
                return self._text([attribute.data for attribute in given])  # type: ignore[attr-defined]
        raise Uncovered(UNKNOWN)

    def _expression(self, each: Sequence[AffineExpr]) -> AffineExpr:
        first = each[0]
        if isinstance(first, AffineConstantExpr) and all(isinstance(other, AffineConstantExpr) for other in each):
            number = self.decoder.number([other.value for other in each])  # type: ignore[attr-defined]
            return _written(number, self._symbol)
        if isinstance(first, AffineBinaryOpExpr) and len({getattr(other, "kind", None) for other in each}) == 1:
            left, right = (self._expression([getattr(other, side) for other in each]) for side in ("lhs", "rhs"))
            return AffineBinaryOpExpr(first.kind, left, right)
        if any(other != first for other in each):
            raise Uncovered(UNKNOWN)
        return first

    def _symbol(self, name: str) -> AffineExpr:
        return AffineSymExpr(PLACE + list(self.decoder.choices[0]).index(name))

    def _text(self, texts: Sequence[str]) -> str:
        pieces = [re.split(r"(\d+)", text) for text in texts]
        if len({len(each) for each in pieces}) > 1:
            raise Uncovered(UNKNOWN)
        made = list[str]()
        for each in zip(*pieces, strict=True):
            if len(set(each)) == 1:
                made.append(each[0])
            elif all(piece.isdigit() for piece in each):
                made.append(str(self.decoder.dim([int(piece) for piece in each])))
            else:
                raise Uncovered(UNKNOWN)
        return "".join(made)


def _written(number: Steps, symbol: Callable[[str], AffineExpr]) -> AffineExpr:
    return AffineExpr.constant(number) if isinstance(number, int) else number.expression(symbol)
