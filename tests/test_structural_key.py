"""The key of what ops compute, which outlining, fusion, kernels and their merging compare by."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from xdsl.dialects import test
from xdsl.dialects.builtin import FloatAttr, StringAttr, f32, i32
from xdsl.ir import Block, Region, SSAValue

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.passes.analysis.structural_key import StructuralKey

NUMBERS = AttributeNumbers()


def op(*operands: SSAValue, inside: Any = None, types: Any = (f32,), **attributes: Any) -> test.TestOp:
    regions = [] if inside is None else [Region(Block(inside))]
    return test.TestOp(operands=[*operands], result_types=[*types], regions=regions, attributes=attributes)


def key(*ops: test.TestOp) -> Hashable:
    found = StructuralKey(NUMBERS)
    found.block(Block(ops))
    return found.key


def test_names_do_not_count_and_attributes_do() -> None:
    named = op()
    named.results[0].name_hint = "a"
    assert key(named) == key(op())
    assert key(op(a=StringAttr("x"))) != key(op(a=StringAttr("y")))
    assert key(op(a=FloatAttr(0.0, f32))) != key(op(a=FloatAttr(-0.0, f32)))
    assert key(op()) != key(op(types=(i32,))) != key(op(types=(f32, f32)))


def test_who_reads_whom_counts() -> None:
    def pair(second: bool) -> Hashable:
        a, b = op(), op()
        return key(a, b, op((b if second else a).results[0]))

    assert pair(True) == pair(True) != pair(False)


def test_where_a_region_ends_counts() -> None:
    assert key(op(inside=[op()]), op()) != key(op(inside=[op(), op()]))
    assert key(op(inside=[])) != key(op(inside=None))


def test_of_a_value_that_is_made_elsewhere_the_type_counts() -> None:
    outside = op(types=(f32, f32, i32)).results
    assert key(op(outside[0])) == key(op(outside[1])) != key(op(outside[2]))
