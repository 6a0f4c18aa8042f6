"""Changes to the graphs of Dynamo and AOTAutograd without which they compute other results than eager PyTorch."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice
from types import MappingProxyType
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext, detect_fake_mode
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from fxc.bridge.tensors import hints_of, symbolic_parts


def _dropout(input: Any, p: float, train: bool) -> None:
    """The signature of ``torch.dropout``."""


_SIGNATURES: Mapping[Callable[..., Any], inspect.Signature] = MappingProxyType({
    torch.nn.functional.dropout: inspect.signature(torch.nn.functional.dropout),
    **dict.fromkeys((torch.dropout, torch.ops.aten.dropout, torch.ops.aten.dropout.default), inspect.signature(_dropout)),
})  # fmt: skip


def remove_idle_dropouts(module: GraphModule) -> None:
    """Replace each dropout that drops nothing by its argument, in ``module`` and its nested graphs.

    Such a dropout returns its argument, so writes to one affect the other. PyTorch's decomposition of ``aten.dropout``, which
    AOTAutograd traces, copies it: writes to the copy do not reach the argument.
    """
    for inner in module.modules():
        if not isinstance(inner, GraphModule):
            continue
        idle = [node for node in inner.graph.nodes if is_idle(node)]
        for node in idle:
            node.replace_all_uses_with(dropped(node))
            inner.graph.erase_node(node)
        if idle:
            inner.recompile()


def is_idle(node: Node) -> bool:
    """Whether ``node`` is a dropout that drops nothing.

    For one with ``p`` 0 that is training, the fake result is a copy, so fakes of its views do not show the aliasing.
    """
    if node.op != "call_function" or node.target not in _SIGNATURES:
        return False
    found = _arguments(node)
    trains = found.get("training", found.get("train"))
    return trains is False or (isinstance(found["p"], (int, float)) and found["p"] == 0)


def dropped(node: Node) -> Any:
    """The input of a dropout."""
    return _arguments(node)["input"]


def _arguments(node: Node) -> Mapping[str, Any]:
    assert callable(node.target)
    bound = _SIGNATURES[node.target].bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    return bound.arguments


def drop_unread_numbers(graph: GraphModule) -> None:
    """Remove from the shape environment of ``graph`` the hints of tensor values that no node or guard uses.

    Dynamo records the values of 0-d float64 tensors on the CPU. AOTAutograd would specialize on such a value and restart
    Dynamo, which then removes the tensor with every write to it: ``x.add_(1.0)`` has no effect.
    """
    from torch._dynamo.source import CallMethodItemSource

    nodes = [node for module in graph.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    values = tree_leaves([node.meta.get("example_value") for node in nodes])
    mode = detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    if mode is None or mode.shape_env is None:
        return
    env, hints = mode.shape_env, hints_of(mode.shape_env)
    used = {symbol for part in symbolic_parts(values) for symbol in part.node.expr.free_symbols}
    used |= {symbol for guard in env.guards for symbol in guard.expr.free_symbols}
    for symbol in list(hints):
        is_number = any(isinstance(source, CallMethodItemSource) for source in env.var_to_sources.get(symbol, ()))
        if is_number and symbol not in used:
            del hints[symbol]


def read_drawn_numbers(graph: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """Let ``graph`` read the floats that Python draws at random, and return ``inputs``, its examples, as calls pass them.

    Dynamo's example of such a number is a tensor of PyTorch's default dtype, but each call passes float64. As a tensor it would
    also promote integers and other 0-d tensors as no number of Python does.
    """
    from torch._dynamo.source import RandomValueSource

    found, drawn = list(inputs), set[Node]()
    for i, node in enumerate(graph.graph.find_nodes(op="placeholder")):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if isinstance(source, RandomValueSource) and isinstance(found[i], torch.Tensor) and found[i].is_floating_point():
            found[i] = found[i].double()
            drawn.add(node)
    readers = {node: [user for user in node.users if not _is_number(user, drawn)] for node in drawn}
    for node, users in readers.items():
        mode = TracingContext.get().fake_mode
        assert mode is not None
        mode.allow_scalar_outputs = True
        with graph.graph.inserting_after(node):
            number = graph.graph.call_method("item", (node,))
        for user in users:
            user.replace_input_with(node, number)
    if drawn:
        graph.recompile()
    return found


def _is_number(node: Node, drawn: Set[Node]) -> bool:
    """Whether ``node`` stays a tensor because Dynamo reads a number from it: a result, or a comparison of ``drawn`` numbers."""
    of_numbers = getattr(node.target, "__module__", "") == "_operator" and drawn >= set(node.all_input_nodes)
    return node.op == "output" or of_numbers


def return_views_of_inputs(graph: GraphModule) -> None:
    """Make results of ``graph``, which AOTAutograd is compiling, that are views of a written input views of that input.

    AOTAutograd regenerates such a result at run time from the written input, with the sizes, strides and storage offset of the
    result of the graph. In the graph the result is a view of the new value, a separate tensor, whose storage offset and gaps
    may differ from those of the input.
    """
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
            copies = [
                user for user in argument.users if user.target is torch.ops.aten.copy_.default and user.args[0] is argument
            ]
            new_value = written.get(info.base_idx, copies[-1].args[1] if copies else None)
            if isinstance(new_value, Node) and new_value.meta["val"].shape == argument.meta["val"].shape:
                changed[i] = _same_view(view, new_value, argument)
    if changed != list(results):
        output.args = (type(results)(changed),)
        graph.graph.lint()
        graph.recompile()


def bases_of(view: Node) -> Iterator[Node]:
    """``view``, and if it is a view by an operator, the node that it views, and so on."""
    yield view
    source, schema = view.args[0] if view.args else None, getattr(view.target, "_schema", None)
    is_view = schema is not None and not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)
    if isinstance(source, Node) and (is_view or view.target is operator.getitem):
        yield from bases_of(source)


def _same_view(view: Node, of: Node, argument: Node) -> Any:
    """``view``, a chain of view operators on ``of``, applied to ``argument``; ``view`` itself if it is not such a chain."""
    if view is of:
        return argument
    source = next(islice(bases_of(view), 1, None), None)
    if source is None:
        return view
    made = _same_view(source, of, argument)
    if made is source:
        return view
    with view.graph.inserting_before(view.graph.output_node()):
        new = view.graph.node_copy(view, lambda node: made if node is source else node)
    return new
