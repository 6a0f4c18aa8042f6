"""Whether two FX graphs are the same, node for node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, Node


def assert_same_graph(expected: Graph, actual: Graph, *, traces: bool = True) -> None:
    """Equal nodes in order: kind, name, target, arguments as they were given, type annotation, and the user's line."""
    left, right = list(expected.nodes), list(actual.nodes)
    assert [node.name for node in left] == [node.name for node in right]
    for a, b in zip(left, right, strict=True):
        assert (a.op, a.target) == (b.op, b.target), f"{a.format_node()} became {b.format_node()}"
        assert same_value(a.args, b.args), f"{a.format_node()}: arguments {a.args} became {b.args}"
        assert list(a.kwargs) == list(b.kwargs), f"{a.format_node()}: keywords {list(a.kwargs)} became {list(b.kwargs)}"
        assert same_value(a.kwargs, b.kwargs), f"{a.format_node()}: keywords {a.kwargs} became {b.kwargs}"
        if traces:
            assert a.type == b.type and a.meta.get("is_wrapped") == b.meta.get("is_wrapped"), a.format_node()
            assert a.meta.get("stack_trace") == b.meta.get("stack_trace"), a.format_node()


def same_value(a: Any, b: Any) -> bool:
    """Whether two arguments are the same value of the same type; nodes by name, NaN equal to NaN, -0.0 not equal to 0.0."""
    if isinstance(a, Node) or isinstance(b, Node):
        return isinstance(a, Node) and isinstance(b, Node) and a.name == b.name
    if kind_of(a) is not kind_of(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, slice):
        return same_value((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, complex):
        return same_value((a.real, a.imag), (b.real, b.imag))
    return bool(a == b)


def kind_of(value: Any) -> type:
    """The type that an argument has for the call: FX makes its own classes of the containers it is given."""
    for kind in (list, dict, torch.Size):
        if isinstance(value, kind):
            return kind
    return type(value)
