"""torch.export with dynamic sizes that is also correct for sizes 0 and 1.

torch.export assumes that each dynamic size is at least 2 (its 0/1 specialization) and states no guard: for
``x * 2 if x.shape[0] != 1 else x * 3`` it returns ``x * 2`` only. Here the export assumes sizes of at least 1. If the graph may
depend on whether a size is 1, the model is also captured at 1, and always at 0, where the caller allows that size. If such a
capture returns another graph, the range of the size starts above it.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram, export
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental import _config
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from fxc.bridge.tensors import expression_of
from fxc.semantics.assumptions import conditions_on, ranges_of


def export_free(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    """The result of ``torch.export.export``, with the range of each size for which it is correct."""
    try:
        with _silent(), _config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]
            found = export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except Exception:  # a condition that the caller did not allow for, or an error that the second export reports better
        found = None
    small = (0,)
    if found is None or _is_doubtful(found):
        found, small = export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False), (1, 0)
    ranges = ranges_of(found)
    for symbol, range in ranges.items():
        for size in small:
            if range.lower <= size and not _is_right_at(found, module, args, kwargs, {symbol: size}):
                ranges[symbol] = type(range)(size + 1, range.upper)
                break
    return found


@contextlib.contextmanager
def _silent() -> Generator[None, None, None]:
    """Suppress the messages of PyTorch for a capture that may fail."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(disabled)


def _is_doubtful(program: ExportedProgram) -> bool:
    """Whether the graph may differ where a size is 1."""
    nodes = program.graph.nodes
    for node in nodes:
        if node.target in _SQUEEZES and any(isinstance(size, torch.SymInt) for size in node.args[0].meta["val"].shape):
            return True
    conditions = conditions_on(tree_leaves([node.meta.get("val") for node in nodes]), ranges_of(program))
    symbols = [str(symbol) for symbol, range in ranges_of(program).items() if range.lower < 2]
    return any(symbol in condition for condition in conditions for symbol in symbols)


_SQUEEZES = [getattr(of, name) for of in (torch.ops.aten.squeeze, torch.ops.aten.squeeze_) for name in of.overloads()]
"""The operators that remove dimensions of size 1, so the rank of the result depends on sizes."""


def _is_right_at(
    program: ExportedProgram, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], sizes: Mapping[Any, int]
) -> bool:
    """Whether a capture at ``sizes`` returns the graph of ``program``."""
    leaves, nesting = tree_flatten((args, kwargs))
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"][-len(leaves) :]
    known = dict(sizes)
    for node, leaf in zip(nodes, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            for size, number in zip(node.meta["val"].shape, leaf.shape, strict=True):
                if isinstance(size, torch.SymInt) and expression_of(size).is_Symbol:
                    known.setdefault(expression_of(size), number)
    given = [_resized(leaf, _known(node.meta["val"], known)) for node, leaf in zip(nodes, leaves, strict=True)]
    small_args, small_kwargs = tree_unflatten(given, nesting)
    try:
        with _silent():
            small = export(module, small_args, small_kwargs, strict=False)
    except Exception:  # calls with these sizes cannot be captured: exclude them
        return False
    constants = [(program.constants.get(name), value) for name, value in small.constants.items()]
    are_equal = all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a is b for a, b in constants
    )
    rows, expected = tree_flatten(_written(program.graph, known)), tree_flatten(_written(small.graph, {}))
    return are_equal and rows[1] == expected[1] and all(map(partial(_agrees, known), rows[0], expected[0]))


def _agrees(known: dict[Any, Any], value: Any, expected: Any) -> bool:
    """Whether ``value`` is ``expected``. A size that depends on data takes the value that is expected where it first occurs."""
    if hasattr(value, "free_symbols"):
        value = known.setdefault(value, expected) if value.is_Symbol else value.subs(known)
    return value == expected


def _resized(leaf: Any, shape: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or list(leaf.shape) == shape:
        return leaf
    with torch.no_grad():
        for axis, size in enumerate(shape):
            leaf = leaf.narrow(axis, 0, size)
        return leaf.clone().requires_grad_(leaf.requires_grad)


def _known(value: Any, sizes: Mapping[Any, int]) -> Any:
    """The shape of a tensor, or a number, evaluated at ``sizes`` as far as they say; other values unchanged."""
    if isinstance(value, torch.Tensor):
        return [_known(size, sizes) for size in value.shape]
    if isinstance(value, (torch.SymInt, torch.SymBool, torch.SymFloat)):
        number = expression_of(value).subs(sizes)
        if number.free_symbols:
            return number
        return bool(number) if number.is_Boolean else int(number) if number.is_Integer else float(number)
    return value


def _written(graph: Graph, sizes: Mapping[Any, int]) -> list[Any]:
    """The operators in order, with their arguments and shapes; numbers evaluated at ``sizes``."""
    places, rows = dict[Node, int](), list[Any]()

    def argument(value: Any) -> Any:
        if not isinstance(value, Node):
            return _known(value, sizes)
        inner = getattr(graph.owning_module, str(value.target), None) if value.op == "get_attr" else None
        if isinstance(inner, GraphModule):
            return _written(inner.graph, sizes)
        return ("node", places[value]) if value in places else _known(value.meta.get("val"), sizes)

    for node in graph.nodes:
        shapes = tree_map(partial(_known, sizes=sizes), node.meta.get("val"))
        is_tensor = any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(node.meta.get("val")))
        reads_data = torch.Tag.data_dependent_output in getattr(node.target, "tags", ())
        if node.op == "output":
            rows.append([argument(part) for part in tree_leaves(node.args)])
        elif node.target is torch.ops.aten.slice.Tensor and shapes == _known(node.args[0].meta["val"], sizes):
            places[node] = places[node.args[0]]  # a slice of the whole dimension; a graph of static size does not have it
        elif (is_tensor or reads_data) and node.op != "get_attr":
            places[node] = len(rows)
            target = None if node.op == "placeholder" else node.target
            rows.append((target, [argument(part) for part in tree_leaves((node.args, node.kwargs))], tree_leaves(shapes)))
    return rows
