"""Strategies of hypothesis for types, attributes, locations and trees of arguments: whatever the text may hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    NoneType,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
)
from xdsl.ir import Attribute, SSAValue

from fxc.bridge.location import node_location
from fxc.dialects.attributes import types, values
from fxc.dialects.torch_ops.constant import TensorLiteralAttr

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["", 'a"b\\', "\x00\x7f\n", "ä€😀", "}}//", "a b", "loc", "0"]),
)
NAMES = st.sampled_from(["x", "x_1", "x_1_0", "add", "y.1", "$z", "_", "a-b", "loc"])
IDENTIFIERS = st.one_of(st.sampled_from(["a", "torch.nn.functional.relu", "none", "true", "nan", "slice", "device"]), TEXTS)
INTEGERS = st.one_of(
    st.integers(), st.integers(-(2**200), 2**200), st.sampled_from([0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1])
)
FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-5, 1e300, 5e-324]))


def scalar(value: Any) -> Attribute:
    attr = values.scalar_attr(value)
    assert attr is not None
    return attr


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    FLOATS,
    TEXTS,
    st.complex_numbers(),
    st.just(...),
    st.builds(range, *[st.integers(1, 9)] * 3),
).map(scalar)

DTYPES = st.sampled_from([*types.ELEMENT_TYPES, "quint8", "bits8", "an odd\nname"])
DIMS = st.one_of(st.integers(0, 7), st.sampled_from(["s0", "s0 + 1", "2*s0", 'a"b', "ä"]))
DEVICES = st.sampled_from(["cpu", "cuda", "cuda:1", "meta", 'odd "one"'])
LAYOUTS = st.sampled_from(sorted(values.LAYOUTS))


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    sizes = tuple(draw(st.lists(DIMS, max_size=3)))
    strides = draw(st.none() | st.tuples(*[DIMS] * len(sizes)))
    return types.tensor_type(draw(DTYPES), sizes, strides, draw(DEVICES), draw(LAYOUTS))


PLAIN_TENSORS = st.builds(types.tensor_type, DTYPES, st.lists(st.integers(0, 5), max_size=3).map(tuple))
LEAF_TYPES = st.one_of(
    PLAIN_TENSORS,
    tensor_types(),
    st.builds(
        lambda kind, text: kind(values.str_attr(text)), st.sampled_from([types.IntType, types.FloatType, types.BoolType]), TEXTS
    ),
    st.sampled_from([types.VALUE, types.NONE_TYPE, IntegerType(1), IntegerType(7), IndexType(), NoneType(), f32]),
    DTYPES.map(types.element_type),
)
TYPES = st.recursive(LEAF_TYPES, lambda inner: st.lists(inner, max_size=3).map(types.tuple_type), max_leaves=4)

FUNCTION = FunctionType.from_lists([f32], [f32])
LEAVES = st.one_of(
    SCALARS,
    SCALARS,
    DTYPES.map(values.dtype_attr),
    LAYOUTS.map(values.enum_attr),
    st.sampled_from(sorted(values.MEMORY_FORMATS)).map(values.enum_attr),
    TEXTS.map(values.enum_attr),
    TEXTS.map(lambda text: values.LayoutAttr(StringAttr(text))),
    TEXTS.map(lambda text: values.MemoryFormatAttr(StringAttr(text))),
    DEVICES.map(values.device_attr),
    st.builds(
        lambda kind, text: kind(StringAttr(text)),
        st.sampled_from([values.FunctionAttr, values.StateAttr, values.OpaqueAttr]),
        TEXTS,
    ),
    TYPES,
    st.builds(lambda value, width: IntegerAttr(value, IntegerType(width)), st.integers(-64, 63), st.sampled_from([7, 8, 32])),
    st.integers(0, 99).map(lambda value: IntegerAttr(value, IndexType())),
    st.floats(width=32).map(lambda value: FloatAttr(value, f32)),
    st.sampled_from([UnitAttr(), BytesAttr(b"\xff"), FUNCTION, DenseArrayBase.from_list(f32, [1.0])]),
    st.just(TensorLiteralAttr(StringAttr("00ff"))),
)
CONSTANTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(ArrayAttr),
        st.lists(inner, max_size=3).map(lambda elements: values.TupleAttr(ArrayAttr(elements))),
        st.lists(st.tuples(SCALARS, inner), max_size=2, unique_by=lambda item: item[0]).map(
            lambda items: values.DictAttr(ArrayAttr([k for k, _ in items]), ArrayAttr([v for _, v in items]))
        ),
        st.builds(values.SliceAttr, inner, inner, inner),
        st.dictionaries(TEXTS.filter(bool), inner, max_size=2).map(DictionaryAttr),
    ),
    max_leaves=4,
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["fx.note", "a b", "fx.x"]), CONSTANTS, max_size=1)

TRACES = st.one_of(
    st.none(),
    st.just('  File "model.py", line 3, in forward\n    return x + y\n'),
    st.just('  File "ä b.py", line 3, in f\n    a\n  File "c", line 4, in <module>\n'),
    TEXTS,
)
MODULE_STACKS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=2).map(tuple)
LOCATIONS = st.one_of(st.none(), st.builds(node_location, TEXTS, TRACES, MODULE_STACKS))


def trees(operands: Sequence[SSAValue]) -> st.SearchStrategy[values.Tree]:
    """Nestings of lists, tuples, dicts and slices over constants and ``operands``."""
    leaf = CONSTANTS if not operands else st.one_of(st.sampled_from(operands), st.sampled_from(operands), CONSTANTS)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(SCALARS, inner, max_size=2),
            st.builds(slice, inner, inner, inner),
        ),
        max_leaves=4,
    )
