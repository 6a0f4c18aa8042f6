"""Make results of AOTAutograd's graphs that are views of a written input views of that input, not of its new value.

AOTAutograd regenerates such a result at run time from the written input, with the sizes, strides and storage offset of the
result of the graph. In the graph the result is a view of the new value, a separate tensor, whose storage offset and gaps may
differ from those of the input.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch.fx import GraphModule, Node


def return_views_of_inputs(graph: GraphModule) -> None:
    """Rewrite such results of ``graph``, which AOTAutograd is compiling."""
    metadata = TracingContext.get().fw_metadata
    assert metadata is not None
    output = graph.graph.output_node()
    (results,) = output.args
    assert isinstance(results, (list, tuple))
    given = graph.graph.find_nodes(op="placeholder")
    first, changed = len(metadata.mutated_inp_runtime_indices), list(results)
    written = dict(zip(metadata.mutated_inp_runtime_indices, results))
    for i, info in enumerate(metadata.output_info, first):
        view = results[i]
        if info.output_type is OutputType.alias_of_input and info.base_idx is not None and isinstance(view, Node):
            argument = given[info.base_idx]
            new_value = written.get(info.base_idx, _new_value(argument))
            if isinstance(new_value, Node) and new_value.meta["val"].shape == argument.meta["val"].shape:
                changed[i] = _same_view(view, new_value, argument)
    if changed != list(results):
        output.args = (type(results)(changed),)
        graph.graph.lint()
        graph.recompile()


def _new_value(argument: Node) -> Node | None:
    """The value that the graph copies into ``argument``."""
    copies = [user for user in argument.users if user.target is torch.ops.aten.copy_.default and user.args[0] is argument]
    return copies[-1].args[1] if copies else None  # type: ignore[return-value]


def _same_view(view: Node, of: Node, argument: Node) -> Any:
    """``view``, a chain of view operators on ``of``, applied to ``argument``; ``view`` itself if it is not such a chain."""
    if view is of:
        return argument
    source, schema = view.args[0] if view.args else None, getattr(view.target, "_schema", None)
    is_view = schema is not None and not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)
    if not isinstance(source, Node) or not (is_view or view.target is operator.getitem):
        return view
    made = _same_view(source, of, argument)
    if made is source:
        return view
    with view.graph.inserting_before(view.graph.output_node()):
        new = view.graph.node_copy(view, lambda node: made if node is source else node)
    return new
