"""Strides and values of written tensors under PyTorch's functionalization.

It replaces written tensors by new values, which may have other strides, and other values in expanded views.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.utils._pytree import tree_leaves

from fxc.bridge.eager_strides import same_strides
from fxc.bridge.loop_strides import is_same

_C: Any = torch._C

Size = int | torch.SymInt
Dispatch = Callable[..., Any]
"""``FunctionalTensorMode.__torch_dispatch__``."""


@contextmanager
def in_all_functionalizations() -> Generator[None, None, None]:
    """A context in which functionalization restores the strides of tensors after each write, and ``with_exact_writes``."""
    with with_exact_writes(), _dispatching(_laying_out):
        yield


@contextmanager
def with_exact_writes() -> Generator[None, None, None]:
    """A context in which functionalization writes exactly through ``expand``.

    It adds the difference from the old value, which rounds, and is NaN if the old value is infinite. PyTorch's kernels accept
    writes only through a view that repeats no element; such an ``expand`` becomes ``unsqueeze``, and for no elements ``slice``
    and ``view``.
    """
    with _dispatching(_unsqueezing):
        yield


@contextmanager
def _dispatching(changed: Callable[[Dispatch], Dispatch]) -> Generator[None, None, None]:
    plain = FunctionalTensorMode.__torch_dispatch__
    FunctionalTensorMode.__torch_dispatch__ = changed(plain)
    try:
        yield
    finally:
        FunctionalTensorMode.__torch_dispatch__ = plain


def _unsqueezing(plain: Dispatch) -> Dispatch:
    aten = torch.ops.aten

    def dispatch(
        mode: FunctionalTensorMode, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is not aten.expand.default or (sizes := _of_expand_without_repeats(*args[:2])) is None:
            return plain(mode, func, types, args, kwargs)
        view = plain(mode, aten.alias.default, types, args[:1])
        for _ in range(len(sizes) - args[0].dim()):
            view = plain(mode, aten.unsqueeze.default, types, (view, 0))
        for dim, size in enumerate(sizes):
            if is_same(size, 0):
                view = plain(mode, aten.slice.Tensor, types, (view, dim, 0, 0))
        return view if all(map(is_same, sizes, view.shape)) else plain(mode, aten.view.default, types, (view, sizes))

    return dispatch


def _of_expand_without_repeats(x: torch.Tensor, sizes: Sequence[Size]) -> list[Size] | None:
    """The shape of ``x.expand(sizes)``; None where it has elements several times."""
    old = [*[1] * (len(sizes) - x.dim()), *x.shape]
    shape = [before if is_same(size, -1) else size for size, before in zip(sizes, old, strict=True)]
    return shape if any(is_same(size, 0) for size in shape) or all(map(is_same, shape, old)) else None


def _laying_out(plain: Dispatch) -> Dispatch:
    bases = dict[int, FunctionalTensor]()

    def note(values: Any) -> None:  # not a result: autograd copies what others hold
        for value in tree_leaves(values):
            if is_strided(value) and not _C._functionalization.get_view_meta_sequence(value.elem):
                bases.setdefault(memory_of(value), value)

    def dispatch(
        mode: FunctionalTensorMode, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        note((args, kwargs))
        results = plain(mode, func, types, args, kwargs)
        written = [value for value in tree_leaves(_written(func, args, kwargs or {})) if is_strided(value)]
        for base in [bases[place] for place in dict.fromkeys(map(memory_of, written)) if place in bases]:
            with torch._C._AutoDispatchBelowAutograd():
                lay_out(base)
        return results

    return dispatch


def lay_out(base: FunctionalTensor) -> bool:
    """Restore the strides of ``base`` in its new value; return whether they differ in dimensions with several elements.

    Strides of dimensions of one element are restored, too: a convolution derives its memory format from them.
    """
    torch._sync(base)  # type: ignore[attr-defined]
    new = torch._from_functional_tensor(base.elem)  # type: ignore[attr-defined]
    moves = not same_strides(base, new)
    if moves:
        laid_out = torch.ops.aten.slice_scatter.default(new.new_empty_strided(base.shape, base.stride()), new, 0)
    elif _has_other_idle_strides(base, new):
        laid_out = torch.ops.aten.as_strided.default(new, base.shape, base.stride())
    else:
        return False
    base.replace_(laid_out)
    base.commit_update()
    base.sync()
    return moves


def _has_other_idle_strides(base: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether strides of dimensions of one element differ, if all numbers are known."""
    pairs = list(zip(base.stride(), new.stride(), strict=True))
    unknown = any(isinstance(number, torch.SymInt) for pair in (*pairs, base.shape) for number in pair)
    return not unknown and base.numel() > 0 and any(a != b for a, b in pairs)


def is_strided(value: Any) -> bool:
    return isinstance(value, FunctionalTensor) and value.layout is torch.strided


def memory_of(value: Any) -> int:
    return value.untyped_storage()._cdata


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the operands that ``func`` writes; metadata changes (``inplace_view``) do not count."""
    if not isinstance(func, OpOverload) or not func._schema.is_mutable or torch.Tag.inplace_view in func.tags:
        return []
    places = enumerate(func._schema.arguments)
    written = ((i, argument.name) for i, argument in places if argument.alias_info is not None and argument.alias_info.is_write)
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in written]
