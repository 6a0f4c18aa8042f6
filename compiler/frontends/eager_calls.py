"""Trace calls as eager executes them, where PyTorch's traces record another operator, or refuse the call."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

import torch
from torch.fx.experimental.proxy_tensor import PythonKeyTracer
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fxc.bridge.values import is_tuple
from fxc.dialects.attributes.values import isa
from fxc.frontends.unrecorded import Unrecorded
from fxc.runtime.guards import PLAIN

_FILLS = frozenset(
    {torch.Tensor.fill_, torch.Tensor.index_fill_, torch.Tensor.masked_fill_, torch.Tensor.__setitem__, torch.fill_}
)
"""Functions that write a number, which may be in a tensor, to elements of a tensor."""

_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]

_METADATA = frozenset(
    "requires_grad_ detach_ resize_ resize_as_ set_ t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_".split()
)
"""In-place methods that write no elements."""

_SET_GRADIENTS = torch._C._set_grad_enabled
_CONTIGUOUS = frozenset({torch.max_pool1d, functional.max_pool1d, functional.one_hot})


class EagerCalls(TorchFunctionMode):
    """Trace these calls as eager executes them:

    - ``y.fill_(x)``, with an integer tensor ``y`` and a tensor ``x`` that requires a gradient, as ``y.fill_(x.detach())``:
      after PyTorch's fill ``y`` requires a gradient, which traced operators refuse.
    - ``max_pool1d(x)`` without a gradient, and ``one_hot(x)``, on the CPU, with a contiguous result: traces record the operator
      that also returns the places of the maxima, and a comparison, whose results have the memory order of ``x``.
    - ``t.add_(1)``, with no tensors but those that exist before the call, as of a view of ``t``: traces run it at the capture.
      ``t.data`` of such a tensor as ``t.detach()``: traces lose it.
    - ``randint_like(x)`` as of ``x.detach()``: the recorded operator requires a gradient, and has none.
    - ``x[m]`` with a mask ``m`` of ``uint8`` as with one of ``bool``, which traces require.
    - attention on the CPU whose mask requires a gradient as the operator that eager calls then: a trace without gradients
      would infer the strides of another one. Not under autocast, which casts the operands of the recorded operator.
    - ``_foreach_add_([x[:2], x[1:]], y)``, whose tensors share memory, as one call for each: traces compute all before they
      write one.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_write_of_list(func, args):
            return _one_by_one(func, args, kwargs)
        if _writes(func, kwargs) and all(type(each) in PLAIN for each in tree_leaves((args, kwargs)) if _is_tensor(each)):
            return _on_view(func, args, kwargs)
        if func == _DATA and type(args[0]) in PLAIN:
            return args[0].detach()
        if func in _FILLS and args and not (args[0].is_floating_point() or args[0].is_complex()):
            args, kwargs = tree_map_only(torch.Tensor, _detached, (args, kwargs))
        if func is torch.randint_like:
            args = tree_map_only(torch.Tensor, _detached, args)
        if func is torch.Tensor.__getitem__:
            args = args[0], tree_map_only(torch.Tensor, _as_mask, args[1])
        is_attention = func is functional.scaled_dot_product_attention and not torch.is_autocast_enabled("cpu")
        if is_attention and _learns_mask(*args, **kwargs):
            return _attention(*args, **kwargs)
        written = _written(kwargs)
        result = func(*args, **kwargs)
        _refuse_resized(func, written)
        if func in _CONTIGUOUS and isinstance(result, torch.Tensor) and result.is_cpu and not result.requires_grad:
            return result.contiguous()
        return result


_IN_PLACE = frozenset(f"__i{name}__" for name in "add and floordiv lshift mod mul or pow rshift sub truediv xor".split())


def _writes(func: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether ``func`` is an in-place function, or writes to ``out``."""
    name = str(getattr(func, "__name__", ""))
    return "out" in kwargs or name in _IN_PLACE or (name.endswith("_") and not name.endswith("__") and name not in _METADATA)


def _is_write_of_list(func: Any, args: Sequence[Any]) -> bool:
    """Whether ``func`` writes to the tensors of a list, of which some share memory."""
    name = str(getattr(func, "__name__", ""))
    if not (name.startswith("_foreach") and name.endswith("_") and args and len(args[0]) > 1):
        return False
    return len({each.untyped_storage()._cdata for each in args[0]}) < len(args[0])


def _one_by_one(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    def part(value: Any, i: int) -> Any:
        return [value[i]] if isinstance(value, (list, tuple)) else value

    for i in range(len(args[0])):
        func(*(part(value, i) for value in args), **{name: part(value, i) for name, value in kwargs.items()})


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _on_view(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Call ``func``, and return the tensor that it writes to through a view."""
    written: Any = kwargs.get("out", args[0] if args else None)
    if not _is_tensor(written):
        return func(*args, **kwargs)
    args, kwargs = tree_map_only(torch.Tensor, lambda each: each[...] if each is written else each, (args, kwargs))
    sizes = _written(kwargs)
    func(*args, **kwargs)
    _refuse_resized(func, sizes)
    return written


def _written(kwargs: Mapping[str, Any]) -> list[tuple[torch.Tensor, torch.Size]]:
    """The tensors that a call writes its results to, with their sizes."""
    return [(each, each.shape) for each in tree_leaves(kwargs.get("out")) if _is_tensor(each)]


def _refuse_resized(func: Any, written: Sequence[tuple[torch.Tensor, torch.Size]]) -> None:
    """Unrecorded if ``func`` has resized what it has ``written``."""
    if any(each.shape != shape for each, shape in written):
        raise Unrecorded(f"{func.__name__} resizes the tensor that it writes to, which is not recorded")


def _as_mask(index: torch.Tensor) -> torch.Tensor:
    return index.bool() if index.dtype is torch.uint8 else index


def _detached(x: torch.Tensor) -> torch.Tensor:
    return x.detach() if x.requires_grad else x


def _learns_mask(query: Any, key: Any, value: Any, attn_mask: Any = None, *_: Any, **__: Any) -> bool:
    tensors = (query, key, value, attn_mask)
    return all(isinstance(each, torch.Tensor) and each.is_cpu for each in tensors) and attn_mask.requires_grad


def _attention(query: Any, key: Any, value: Any, attn_mask: Any, *options: Any, **more: Any) -> torch.Tensor:
    return cast(Any, torch)._scaled_dot_product_attention_math(query, key, value, attn_mask, *options, **more)[0]


class IndexedWrites(TorchFunctionMode):
    """Trace ``x[:, p] = y``, where ``p`` is a number in a tensor, as operators: PyTorch's implementation reads the number.

    torch.export supports such an index for reads, by tensors from PyTorch 2.13 on.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _INDEXINGS or not _is_view_by_data(items := _items(args[1], args[0].dim())):
            return func(*args, **(kwargs or {}))
        return _write(args[0], items, args[2]) if len(args) > 2 else _view(args[0], items)


_INDEXINGS = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)


def _view(x: torch.Tensor, items: Sequence[Any]) -> torch.Tensor:
    from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler  # imports Dynamo

    with _NonStrictTorchFunctionHandler():
        return x[tuple(map(_numbered, items))]


def _numbered(item: Any) -> Any:
    """``item`` with numbers instead of the tensors that hold them."""
    if isa(item, slice):
        return slice(_numbered(item.start), _numbered(item.stop), _numbered(item.step))
    return item.item() if isinstance(item, torch.Tensor) else item


def _write(x: torch.Tensor, items: Sequence[Any], value: Any) -> None:
    """Apply slices as a view; numbers in tensors become indices of ``index_put_``, which is differentiable."""
    places = [item if isinstance(item, torch.Tensor) else None for item in items if type(item) not in _REMOVED]
    view = _view(x, [slice(None) if isinstance(item, torch.Tensor) else item for item in items])
    if isinstance(value, torch.Tensor):
        shape = [size for i, size in enumerate(view.shape) if i >= len(places) or places[i] is None]
        while value.dim() > len(shape) and value.shape[0] == 1:
            value = value.select(0, 0)
    else:
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    if any(place is not None for place in places):
        torch.ops.aten.index_put_.default(view, places, value.to(x.device, x.dtype))
    else:
        view.copy_(value)


_REMOVED = (int, torch.SymInt)
"""Items that select one index and remove the dimension."""


def _items(index: Any, dims: int) -> list[Any]:
    """``index`` as one item for each dimension, with None for new dimensions."""
    items = list(index) if is_tuple(index) else [index]
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    for i in places[:1]:
        items[i : i + 1] = [slice(None)] * (dims - sum(item is not None and item is not Ellipsis for item in items))
    return items


def _is_view_by_data(items: Sequence[Any]) -> bool:
    """Whether ``items`` only select and slice, and at least one is a number in a tensor."""
    bounds = [bound for item in items for bound in ((item.start, item.stop, item.step) if isa(item, slice) else (item,))]
    return all(bound is None or type(bound) is int or _is_number(bound) for bound in bounds) and any(map(_is_number, bounds))


def _is_number(bound: Any) -> bool:
    if isinstance(bound, torch.Tensor):
        return bound.dim() == 0 and not (bound.is_floating_point() or bound.is_complex() or bound.dtype is torch.bool)
    return isinstance(bound, torch.SymInt)


@contextmanager
def inference_as_no_grad() -> Generator[None, None, None]:
    """A context in which ``inference_mode()`` is ``no_grad()``: tracers record that switch, not the one of inference mode."""
    plain = torch.inference_mode.__enter__

    def enter(self: Any) -> None:
        if not self.mode:
            return plain(self)
        self._inference_mode_context = torch.no_grad()  # what __exit__ leaves
        return self._inference_mode_context.__enter__()

    torch.inference_mode.__enter__ = enter
    try:
        yield
    finally:
        torch.inference_mode.__enter__ = plain


@contextmanager
def grad_mode_recorded() -> Generator[None, None, None]:
    """A context in which traces before dispatch record operators with gradients enabled or not as they are in eager mode.

    PyTorch records where Python switches them, but C++ does so, too: around hooks of saved tensors, as those of a checkpoint
    inside of another, and during a backward. What Python restores inside would hold for the rest of the program.
    """
    known, plain = dict[Any, bool](), PythonKeyTracer.create_node

    def create_node(tracer: Any, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any) -> Any:
        if target is _SET_GRADIENTS:
            known[tracer] = args[0]
        elif kind == "call_function" and known.setdefault(tracer, now := torch.is_grad_enabled()) != now:
            tracer.create_node("call_function", _SET_GRADIENTS, (now,), {}).meta["val"] = None
        return plain(tracer, kind, target, args, kwargs, *more, **named)

    with patch.object(PythonKeyTracer, "create_node", create_node):
        yield
