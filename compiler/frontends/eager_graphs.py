"""Detect graphs of Dynamo that AOTAutograd compiles wrongly, so that they run in eager mode.

AOTAutograd lacks facts on the memory of their tensors, or decomposes operators into others that are not equivalent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

import torch
from torch._C._dynamo.guards import compute_overlapping_tensors
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from fxc.bridge.tensors import symbolic_parts, type_of
from fxc.dialects.attributes.types import is_tensor, overlaps, sizes, strides
from fxc.dialects.torch_ops.effects import COPIES_AT_OFFSET, REPLACE_MEMORY, UNDECLARED_VIEWS
from fxc.frontends.dynamo_graphs import dropped, is_idle
from fxc.runtime.process_state import SETS
from fxc.semantics.windows import counts_in_memory, makes_windows, may_write, name_of

STRIDED: Final = frozenset({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"})
"""Operators with offsets from the start of an operand's storage, which functionalization does not preserve."""

RETAINING: Final = frozenset(operator.split(".")[1] for operator in COPIES_AT_OFFSET)
"""Operators whose results have the storage offset of their operand, which kernels do not retain."""

UNDECLARED: Final = frozenset(operator.split(".")[1] for operator in UNDECLARED_VIEWS)
"""Operators whose results are views that their schemas do not declare: functionalization treats them as copies, and autograd
misses writes through them."""

MISCOUNTED: Final = frozenset({"multilabel_margin_loss", "multilabel_margin_loss_forward"})
"""Operators that AOTAutograd decomposes before differentiation into operators that compute another value."""

LOST: Final = MISCOUNTED | REPLACE_MEMORY | frozenset(SETS)
"""These, and functions that give a tensor other memory or set state of the process, which a compiled graph does not."""

TIES: Final = frozenset({"multi_margin_loss"})
"""Operators whose decomposition in AOTAutograd has another gradient at exact ties of the margin."""

FILLS: Final = frozenset({"fill_", "index_fill_", "masked_fill_", "setitem"})
"""Operators that fill elements of a tensor with a number, which may be in a tensor without dimensions."""

DIVIDED: Final = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "group_norm", "native_group_norm"})
"""Operators whose gradient AOTAutograd divides by the number of elements in Python: an error for empty tensors."""


def is_for_eager(module: GraphModule) -> bool:
    """Whether AOTAutograd compiles ``module`` wrongly or not at all: a write, a fill, a returned view, a loss or a norm."""
    if any(_is_lost(node) or _has_no_gradient(node) for node in _nodes(module)):
        return True
    if (
        _counts_in_copy(module)
        or _writes_shared_input(module)
        or _writes_what_is_hidden(module)
        or _uses_number_of_written(module)
        or _returns_overlapping_input(module)
        or _returns_view_of_function(module)
        or _returns_view_without_gradient(module)
    ):
        return True
    return _writes_overlapping_windows(module)


def _is_lost(node: Node) -> bool:
    """Whether AOTAutograd loses what ``node`` does, or decomposes it, a loss or norm, to another value or gradient."""
    name = name_of(node)
    if name in LOST:
        return True
    has_none = name in DIVIDED and any(0 in value.shape for value in map(_tensor, node.all_input_nodes) if value is not None)
    return (name in TIES or has_none) and _requires_grad(node)


def _has_no_gradient(node: Node) -> bool:
    """Whether ``node`` fills a complex or integer tensor with a real number that requires a gradient: PyTorch's formula fails.

    Eager mode fails only where that gradient is used.
    """
    if name_of(node) not in FILLS:
        return False
    target, value = (_tensor(each) if isinstance(each, Node) else None for each in (node.args[0], node.args[-1]))
    if target is None or value is None or value.dim() > 0:
        return False
    return not (target.is_floating_point() or value.is_complex()) and value.requires_grad


def _writes_what_is_hidden(module: GraphModule) -> bool:
    """Whether ``module`` writes memory that has views unknown to functionalization.

    Where such a view or a write is in a nested graph, any write counts: tensors of nested graphs cannot be matched.
    """
    nodes = [node for node in _nodes(module) if node.op.startswith("call_")]
    hidden = [node for node in nodes if name_of(node) in STRIDED | UNDECLARED or counts_in_memory(node)]
    written = [node for node in nodes if may_write(node)] if hidden else []
    if any(node.graph is not module.graph for node in (*hidden, *written)):
        return bool(written)
    counted = memory([value for node in hidden for value in (node, *node.all_input_nodes)])
    return not counted.isdisjoint(memory([value for node in written for value in _written_by(node)]))


def _writes_shared_input(module: GraphModule) -> bool:
    """Whether ``module`` writes an input that overlaps another one, or of which elements share memory.

    AOTAutograd's results hold for calls whose inputs overlap as those of the first one do, which Dynamo does not check.
    """
    groups = defaultdict[StorageWeakRef, list[torch.Tensor]](list)
    for value in map(_tensor, module.graph.find_nodes(op="placeholder")):
        if value is not None:
            groups[_storage(value)].append(value)
    shared = {storage for storage, values in groups.items() if _overlap(values) or any(map(_may_overlap, values))}
    if not shared:
        return False
    written = [node for node in _nodes(module) if may_write(node)]
    is_nested = any(node.graph is not module.graph for node in written)
    return is_nested or not shared.isdisjoint(memory([value for node in written for value in _written_by(node)]))


def _overlap(values: list[torch.Tensor]) -> bool:
    """Whether AOTAutograd finds an overlap between ``values``, views of one storage."""
    mode = detect_fake_mode(values)
    env = None if mode is None else mode.shape_env
    with nullcontext() if env is None else env.suppress_guards():
        return bool(compute_overlapping_tensors(values, symbolic=any(map(_is_free, values))))


def _counts_in_copy(module: GraphModule) -> bool:
    """Whether ``as_strided`` counts in a copy that begins after the start of its storage: kernels make such copies at 0."""
    nodes = _nodes(module)
    later = [node for node in nodes if name_of(node) in RETAINING and _begins_later(node.all_input_nodes[0])]
    counted = [node.all_input_nodes[0] for node in nodes if later and name_of(node) in STRIDED]
    return not memory(later).isdisjoint(memory(counted))


def _begins_later(node: Node) -> bool:
    """Whether the storage offset may not be 0."""
    offset = 0 if (value := _tensor(node)) is None else value.storage_offset()
    return not isinstance(offset, int) or offset > 0


def _nodes(module: GraphModule) -> list[Node]:
    return [node for inner in module.modules() if isinstance(inner, GraphModule) for node in inner.graph.nodes]


def _written_by(node: Node) -> list[Node]:
    """The operands that ``node`` may write: all tensors of an ATen operator, else the first argument and ``out``."""
    if isinstance(node.target, OpOverload) or not node.args:
        return node.all_input_nodes
    return [value for value in tree_leaves((node.args[0], node.kwargs.get("out"))) if isinstance(value, Node)]


def memory(nodes: Sequence[Node]) -> set[StorageWeakRef]:
    """The storages of the example values of ``nodes``."""
    return {_storage(value) for value in map(_tensor, nodes) if value is not None}


def _uses_number_of_written(module: GraphModule) -> bool:
    """Whether a 0-d float64 tensor on the CPU is written and its ``item()`` is used.

    PyTorch assumes the number from before the write, and restarts Dynamo, which then removes the write.
    """
    nodes = _nodes(module)
    numbers = symbolic_parts([node.meta.get("example_value") for node in nodes if node.op != "placeholder"])
    used = {symbol for part in numbers for symbol in _expression(part).free_symbols}
    inputs = [_tensor(node) for node in nodes if node.op == "placeholder"]
    known = [(value, getattr(value, "item_memo", None)) for value in inputs if value is not None]
    read = {_storage(value) for value, memo in known if isinstance(memo, torch.SymFloat) and _expression(memo) in used}
    written = (_tensor(operand) for node in nodes if read and may_write(node) for operand in _written_by(node))
    return any(_storage(value) in read for value in written if value is not None)


def _expression(number: Any) -> Any:
    return number.node._expr


def _returns_overlapping_input(module: GraphModule) -> bool:
    """Whether a result is a view, with dynamic sizes, of an input whose elements may share memory.

    AOTAutograd makes it by ``as_strided``, which averages the gradients of elements that share memory.
    """
    graph = module.graph
    inputs = [_tensor(node) for node in graph.find_nodes(op="placeholder")]
    wanted = {
        _storage(value)
        for value in inputs
        if value is not None and value.requires_grad and _is_free(value) and _may_overlap(value)
    }
    if not wanted:
        return False
    results = [leaf for leaf in tree_leaves(graph.output_node().args) if isinstance(leaf, Node)]
    views = [*results, *(dropped(node) for node in graph.nodes if is_idle(node))]  # a result may be a view of a removed dropout
    return any(value is not None and _storage(value) in wanted for value in map(_tensor, views))


def _returns_view_without_gradient(module: GraphModule) -> bool:
    """Whether a result is a view that was made under ``no_grad``: AOTAutograd makes it with a gradient.

    For autograd it is a leaf, or a view of what an input that requires a gradient is a view of.
    """
    graph = module.graph
    inputs = [_tensor(node) for node in graph.find_nodes(op="placeholder")]
    learned = {_storage(value) for value in inputs if value is not None and value.requires_grad}
    results = [leaf for leaf in tree_leaves(graph.output_node().args) if isinstance(leaf, Node)]
    values = map(_tensor, (node for node in results if node.op != "placeholder" and name_of(node) != "detach"))
    leaves = (value for value in values if value is not None and value._is_view() and value.grad_fn is None)
    return any(value.requires_grad or _storage(value) in learned for value in leaves)


def _returns_view_of_function(module: GraphModule) -> bool:
    """Whether results are views of a view that an ``autograd.Function`` returns, or several of the memory of one.

    AOTAutograd makes them from their base, without the backward of the function. It knows a function only by a single result.
    """
    calls = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.autograd_function_apply)
    views = {user for call in calls for user in call.users if not memory([user]).isdisjoint(memory(call.all_input_nodes))}
    returned = {leaf for leaf in tree_leaves(module.graph.output_node().args) if isinstance(leaf, Node)}
    for view in views:
        same = [result for result in returned if not memory([view]).isdisjoint(memory([result]))]
        if len(same) > 1 or not views.issuperset(same):
            return True
    return False


def _writes_overlapping_windows(module: GraphModule) -> bool:
    """Whether views of overlapping windows are written, which eager mode allows where the written elements do not overlap."""
    views = set[Node]()
    for node in _nodes(module):
        sources = [each for each in node.all_input_nodes if each in views]
        if _makes_overlapping_windows(node) or not memory([node]).isdisjoint(memory(sources)):
            views.add(node)
    return any(value in views for node in _nodes(module) if may_write(node) for value in _written_by(node))


def _makes_overlapping_windows(node: Node) -> bool:
    if not makes_windows(node):
        return False
    given: dict[str, Any] = {**dict(zip(("self", "dimension", "size", "step"), node.args, strict=False)), **node.kwargs}
    size, step = given["size"], given["step"]
    return not isinstance(size, int) or not isinstance(step, int) or step < size


def _requires_grad(node: Node) -> bool:
    value = node.meta.get("example_value")
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_leaves(value))


def _tensor(node: Node) -> torch.Tensor | None:
    """The strided tensor that ``node`` is an example of; inside of a ``torch.func`` transform, the one that it wraps."""
    value = node.meta.get("example_value")
    while isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value):
        value = get_unwrapped(value)
    return value if isinstance(value, torch.Tensor) and value.layout is torch.strided else None


def _storage(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def _is_free(tensor: torch.Tensor) -> bool:
    return any(not isinstance(number, int) for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset()))


def _may_overlap(tensor: torch.Tensor) -> bool:
    """Whether elements share memory, or a stride has symbols that the sizes do not have."""
    type = type_of(tensor)
    if not is_tensor(type):
        return False
    told = {name for size in sizes(type) if isinstance(size, str) for name in _NAME.findall(size)}
    free = (step for step in strides(type) or () if isinstance(step, str) and not told.issuperset(_NAME.findall(step)))
    return overlaps(type) or any(free)


_NAME = re.compile(r"[A-Za-z_]\w*")
