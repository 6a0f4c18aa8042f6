"""Loops of groups that differ in the numbers that they compute with: converted once, with numbers that stand in for those.

Rules say which numbers their ops do not depend on (``Pointwise.factors``). The loops are made with two choices of stand-ins: a
constant that differs is a number of the group, and which one, both say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f64, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.values import float_attr, int_attr
from fxc.passes.lowering._linalg.rules import Pointwise
from fxc.passes.lowering._linalg.table import RULES
from fxc.passes.lowering._outlines import Copier, Outline

FIRST = (1_000_003, 1_000_211)
"""Where the two choices of stand-ins begin: of all dtypes of kernels, no two of a few dozen numbers from there are equal."""

MOST = 32
"""How many numbers of a group stand-ins are taken for: bytes tell no more apart."""


def factors(op: Operation) -> dict[str, IntegerAttr | FloatAttr]:
    """The numbers of ``op`` that its ops do not depend on."""
    rule = RULES.get(op.operator) if isinstance(op, TorchOp) else None
    if not isinstance(rule, Pointwise) or not rule.factors:
        return {}
    given = [(name, value) for name, value in op.properties.items() if name in rule.factors]
    return {name: value for name, value in given if isinstance(value, (IntegerAttr, FloatAttr)) and _is_plain(value)}


def _is_plain(value: IntegerAttr | FloatAttr) -> bool:
    """Whether ``value`` is a number of Python, finite, and none that an operation may leave out."""
    return value.type in (i64, f64) and math.isfinite(value.value.data) and value.value.data not in (0, 1)


@dataclass(frozen=True)
class Template:
    """``block``: the loops of groups with ``outline``. ``places``: of each constant that stands in for a number, which one."""

    outline: Outline
    block: Block
    places: Mapping[Attribute, int]

    def copy(self, outline: Outline) -> Block | None:
        """The loops of a group with ``outline``, whose key is the same; None where two values would get each other's name."""
        copier, names = Copier(self.outline, outline), dict[str, str]()
        for old, new in copier.names.items():
            if names.setdefault(_hint(old), _hint(new)) != _hint(new):
                return None
        copier.names = names
        copier.numbers = {stand_in: _cast(outline.numbers[place], stand_in) for stand_in, place in self.places.items()}
        return copier.block(self.block)


@lru_cache(maxsize=1 << 12)
def _hint(name: str) -> str:
    """What a value is called that is given ``name``: without a number at its end."""
    return SSAValue.extract_valid_name(name)


def template(group: GroupOp, outline: Outline, convert: Callable[[GroupOp], Block]) -> Template | None:
    """The loops of groups like ``group``; None where what they make of its numbers is not clear."""
    if len(outline.numbers) > MOST:
        return None
    choices = [[_stand_in(number, first + place) for place, number in enumerate(outline.numbers)] for first in FIRST]
    blocks = [convert(_with_numbers(group, dict(zip(outline.numbers, choice, strict=True)))) for choice in choices]
    places = _places(blocks, choices)
    blocks[1].drop_all_references()
    if places is None:
        blocks[0].drop_all_references()
        return None
    return Template(outline, blocks[0], places)


def _stand_in(number: Attribute, value: int) -> Attribute:
    return float_attr(value) if isinstance(number, FloatAttr) else int_attr(value)


def _with_numbers(group: GroupOp, numbers: Mapping[Attribute, Attribute]) -> GroupOp:
    """A copy of ``group`` with other ``numbers``."""
    copy = group.clone()
    for op in copy.body.block.ops:
        op.properties.update({name: numbers[value] for name, value in factors(op).items()})
    return copy


def _places(blocks: Sequence[Block], choices: Sequence[Sequence[Attribute]]) -> dict[Attribute, int] | None:
    """Constant of the first of ``blocks`` -> the place of the number that it is; None where one may be another."""
    found, fixed = dict[Attribute, int](), set[Attribute]()
    first_ops, second_ops = ([op for op in block.walk()] for block in blocks)
    if [op.name for op in first_ops] != [op.name for op in second_ops]:
        return None
    for first, second in zip(first_ops, second_ops, strict=True):
        if not isinstance(first, arith.ConstantOp) or not isinstance(second, arith.ConstantOp):
            continue
        if first.value == second.value:
            fixed.add(first.value)
            continue
        pairs = enumerate(zip(*choices, strict=True))
        fitting = [
            place for place, (a, b) in pairs if (_cast(a, first.value), _cast(b, second.value)) == (first.value, second.value)
        ]
        if len(fitting) != 1 or found.setdefault(first.value, fitting[0]) != fitting[0]:
            return None
    return None if fixed & found.keys() else found


def _cast(number: Attribute, like: Attribute) -> Attribute:
    """``number`` in the type of the constant ``like``, as ``scalars.constant`` makes it."""
    assert isinstance(number, (IntegerAttr, FloatAttr)) and isinstance(like, (IntegerAttr, FloatAttr))
    value, type = number.value.data, like.type
    if isinstance(type, IntegerType):
        return IntegerAttr(bool(value) if type == i1 else int(value), type, truncate_bits=True)
    return FloatAttr(float(value), type)  # type: ignore[arg-type]
