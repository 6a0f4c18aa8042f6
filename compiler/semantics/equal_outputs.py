"""Outputs of a scan that are equal. Its derivative adds those that it saves, although the scan may return them already.

Without this the derivative of a scan that saves its carries would save them again each time that it is traced.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_flatten

from fxc.bridge.operators import is_overload, is_random

_SCAN, _CLONE = torch.ops.higher_order.scan, torch.ops.aten.clone.default
_WITH_OUTPUTS_OF_BODIES = (_SCAN, torch.ops.higher_order.cond, torch.ops.higher_order.map_impl)


def read_first_of_equal(module: GraphModule) -> None:
    """Replace uses of an output of a scan in ``module`` by the first equal one, except as results of the graph."""
    for scan in module.graph.find_nodes(op="call_function", target=_SCAN):
        keys, known = _keys(module, scan), dict[Any, Node]()
        for element in sorted(scan.users, key=lambda user: user.args[1]):
            first = known.setdefault(keys[element.args[1]], element)
            if first is not element:
                element.replace_all_uses_with(first, lambda user: user.op != "output")


def _keys(module: GraphModule, call: Node) -> list[Any]:
    """What identifies the value of each output of ``call``, which calls bodies, in the graph of ``module``."""
    named = [module.get_submodule(str(each.target)) for each in call.all_input_nodes if each.op == "get_attr"]
    bodies = [body for body in named if isinstance(body, GraphModule)]
    values = [[first.get(value) for value in _outputs(body)] for body in bodies for first in (_first_equal(body),)]
    keys: list[Any] = [(call, *each) for each in zip(*values, strict=True)]
    carries: Any = call.args[1] if call.target is _SCAN else ()
    return [(call, place) if place < len(carries) else key for place, key in enumerate(keys)]


def _outputs(body: GraphModule) -> Any:
    return body.graph.output_node().args[0]


def _first_equal(body: GraphModule) -> dict[Any, Node]:
    """Each node of ``body`` -> the first one that computes the same value; a copy has the value of what it copies."""
    found, known, keys = dict[Any, Node](), dict[Any, Node](), dict[Any, list[Any]]()
    for node in body.graph.nodes:
        source: Any = node.args[0] if node.args else None
        key: Any = node
        if node.target in _WITH_OUTPUTS_OF_BODIES:
            keys[node] = _keys(body, node)
        elif node.target is operator.getitem and source in keys:
            key = keys[source][node.args[1]]
        elif is_overload(node.target) and not node.target._schema.is_mutable and not is_random(node.target):
            leaves, nesting = tree_flatten((node.args, node.kwargs))
            operands = [found.get(leaf, leaf) if isinstance(leaf, Node) else repr(leaf) for leaf in leaves]
            key = node.target, str(nesting), *operands
        found[node] = found[source] if node.target is _CLONE else known.setdefault(key, node)
    return found
