"""The strides of what some operators give on the CPU, dtypes, and refusals, where PyTorch's fake tensors have others than its
kernels.

The strides are those of what other operators give, whose fakes are right. Strides of dimensions of one element, and of tensors
without elements, stay as PyTorch's fakes have them: they lead to no element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import compute_elementwise_output_strides, make_contiguous_strides_for, suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

_aten: Any = torch.ops.aten


@contextmanager
def in_all_fakes() -> Iterator[None]:
    """While PyTorch's own fake tensors have these strides too: what it captures hangs on them, as ``reshape`` does."""
    plain = FakeTensorMode.dispatch
    FakeTensorMode.dispatch = _corrected(plain)  # type: ignore[method-assign]
    try:
        yield
    finally:
        FakeTensorMode.dispatch = plain  # type: ignore[method-assign]


def lay_out_as_eager(mode: FakeTensorMode) -> None:
    """Gives fakes of ``mode`` these strides. It stays of PyTorch's class, for which higher-order operators have rules."""
    mode.dispatch = partial(_corrected(FakeTensorMode.dispatch), mode)  # type: ignore[method-assign]


def _corrected(plain: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(mode: FakeTensorMode, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return as_in_eager(mode, func, args, kwargs or {}, plain(mode, func, types, args, kwargs))

    return dispatch


def as_in_eager(mode: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """``result`` of fakes, which ``func`` gave in ``mode``, with the dtype and strides that its kernel gives.

    RuntimeError where only the kernel refuses the arguments.
    """
    if func in _OF_SOME:
        torch._check(args[0].numel() != 0, lambda: f"{func.overloadpacket.__name__}(): expected an input with elements")
    if (place := _DTYPES.get(func)) is not None:
        dtype = (args[place] if place < len(args) else kwargs[func._schema.arguments[place].name]).dtype
        if result.dtype != dtype:
            with mode:
                result = torch.empty_like(result, dtype=dtype)
    rule = _RULES.get(func)
    if rule is None or all(_lies_plainly(leaf) for leaf in tree_leaves((args, kwargs))):
        return result
    with mode:
        like = rule(next(leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)), *args, **kwargs)
        return tree_map_only(Tensor, lambda given: _laid_out(given, like), result)


def _lies_plainly(value: Any) -> bool:
    """Whether no rule is needed for ``value``. One channel is contiguous, and may be channels_last as well; sizes of 1 may
    have any stride, by which loops are ordered."""
    if not isinstance(value, Tensor) or value.device.type != "cpu":
        return True
    if not value.is_contiguous() or suggest_memory_format(value) is not torch.contiguous_format:
        return False
    sizes, strides = value.shape, value.stride()
    return not all(isinstance(number, int) for number in (*sizes, *strides)) or strides == make_contiguous_strides_for(sizes)


def _laid_out(given: Tensor, like: Tensor) -> Tensor:
    """``given`` with the strides of ``like``; a result of other sizes, such as statistics, as it is."""
    if given.shape != like.shape or given.numel() == 0 or same_strides(given, like):
        return given
    return given.new_empty_strided(given.shape, like.stride())


def same_strides(a: Tensor, b: Tensor) -> bool:
    """Whether the strides surely are the same where they matter; of sizes that are not known, without a guess."""
    return all(_is(size, 1) or _is(x, y) for size, x, y in zip(a.shape, a.stride(), b.stride(), strict=True))


def _is(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(a == b)


def _joined(given: Tensor, *args: Any, **__: Any) -> Tensor:
    """As a loop over all tensor operands lays out what it makes."""
    operands = torch.broadcast_tensors(*[arg for arg in args if isinstance(arg, Tensor)])
    return given.new_empty_strided(operands[0].shape, compute_elementwise_output_strides(*operands))


def _like_first(_: Tensor, x: Tensor, y: Tensor, *__: Any, **___: Any) -> Tensor:
    return torch.empty_like(torch.broadcast_tensors(x, y)[0])


def _contiguous(given: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(given, memory_format=torch.contiguous_format)


def _in_format(given: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor:
    """Contiguous, or channels_last as ``x`` is."""
    return torch.empty_like(given, memory_format=suggest_memory_format(x))


def _rolled(_: Tensor, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """Two parts side by side, for one dimension after the other; of no dimension, those of all elements in a line."""
    if not dims or x.numel() == 0:
        return torch.empty_like(x, memory_format=torch.contiguous_format if x.numel() else torch.preserve_format)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        start = (size - shift) % size
        x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x


def _indexed(given: Tensor, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """As a loop over ``x``, in which the dimensions that are indexed stand still, and all indices lays out what it makes."""
    found = [index for index in indices if index is not None]
    if x.numel() == 0 or any(index.dtype in (torch.bool, torch.uint8) for index in found):
        return given
    places = [i for i, index in enumerate(indices) if index is not None]
    others = [i for i in range(x.dim()) if i not in places]
    first = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    shape = torch.broadcast_shapes(*[index.shape for index in found])
    steps = [x.stride(i) for i in others]
    sizes = [*(x.shape[i] for i in others[:first]), *shape, *(x.shape[i] for i in others[first:])]
    source = x.as_strided(sizes, [*steps[:first], *[0] * len(shape), *steps[first:]])
    around = [1] * first, [1] * (len(others) - first)
    return _joined(given, source, *[index.expand(shape).reshape(*around[0], *shape, *around[1]) for index in found])


_RULES: Mapping[Any, Callable[..., Tensor]] = {
    **dict.fromkeys(
        [
            _aten.copysign.Tensor,
            _aten.div.Tensor_mode,
            _aten.floor_divide.default,
            _aten.heaviside.default,
            _aten.logaddexp.default,
            _aten.logaddexp2.default,
            _aten.logical_and.default,
            _aten.logical_or.default,
            _aten.logical_xor.default,
            _aten.logit_backward.default,
            _aten.native_dropout_backward.default,
            _aten.special_xlog1py.default,
            _aten.xlogy.Tensor,
        ],
        _joined,
    ),
    **dict.fromkeys([_aten.binary_cross_entropy.default, _aten.huber_loss.default], _like_first),
    _aten.ldexp.Tensor: lambda _, x, y: x * torch.pow(2.0, y),
    **dict.fromkeys([_aten.log_sigmoid_forward.default, _aten.normal.Tensor_Tensor, _aten.pow.Scalar], _contiguous),
    **dict.fromkeys(
        [
            _aten._batch_norm_no_update.default,
            _aten._batch_norm_with_update.default,
            _aten._batch_norm_with_update_functional.default,
            _aten._native_batch_norm_legit.default,
            _aten._native_batch_norm_legit.no_stats,
            _aten._native_batch_norm_legit_functional.default,
            _aten.channel_shuffle.default,
            _aten.max_unpool2d.default,
            _aten.native_batch_norm.default,
            _aten.reflection_pad3d.default,
            _aten.replication_pad3d.default,
        ],
        _in_format,
    ),
    **dict.fromkeys(
        [_aten.batch_norm_backward.default, _aten.native_batch_norm_backward.default],
        lambda given, _, x, *__, **___: _in_format(given, x),
    ),
    **dict.fromkeys([_aten.index.Tensor, _aten._unsafe_index.Tensor], _indexed),
    _aten.roll.default: _rolled,
}
"""Operator -> a fake that is laid out as its result, of the first result that PyTorch's fakes give and of the arguments."""

_OF_SOME = frozenset([_aten.max.default, _aten.min.default])
"""The operators that refuse a tensor without elements, of which their fakes have a result."""

_DTYPES: Mapping[Any, int] = {
    _aten.huber_loss.default: 0,
    _aten.mse_loss_backward.default: 1,
    _aten.smooth_l1_loss_backward.default: 1,
    _aten.soft_margin_loss.default: 0,
    _aten.soft_margin_loss_backward.default: 1,
}
"""Operator -> the place of the argument whose dtype its result has, whatever the others have."""
