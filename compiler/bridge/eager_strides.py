"""Corrections of fake tensors: strides, dtypes, devices and errors of kernels, where those of PyTorch's fakes differ.

Elementwise operators have the strides of ``loop_strides``; others have the strides of a composition of operators with correct
fakes. Strides of tensors without elements are not corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, _prims_common
from torch._ops import OpOverload
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as PROMOTION
from torch._prims_common import make_contiguous_strides_for, suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fxc.bridge.flex_attention import attention_by_scores
from fxc.bridge.loop_strides import is_contiguous, is_dense, is_same, loop_strides

_torch: Any = torch
_prims: Any = _prims_common
_aten: Any = torch.ops.aten


@contextmanager
def in_all_fakes() -> Generator[None, None, None]:
    """A context that also corrects PyTorch's fake tensors: captured graphs depend on strides, such as for ``reshape``."""
    plain = FakeTensorMode.dispatch
    FakeTensorMode.dispatch = _corrected(plain)
    try:
        yield
    finally:
        FakeTensorMode.dispatch = plain


@contextmanager
def in_all_decompositions() -> Generator[None, None, None]:
    """A context that corrects PyTorch's decompositions of graphs with symbolic sizes."""
    from torch._decomp import decompositions  # imports Dynamo

    module: Any = decompositions
    plain = module._upsample_nearest
    module._upsample_nearest = _in_own_format(plain)
    try:
        with dropouts_as_in_eager(), states_as_in_eager(), attention_by_scores():
            yield
    finally:
        module._upsample_nearest = plain


@contextmanager
def states_as_in_eager() -> Generator[None, None, None]:
    """A context in which the last states of an LSTM have three dimensions: before 2.13 PyTorch's decomposition adds one."""
    from torch._decomp import decompositions  # imports Dynamo

    module: Any = decompositions
    plain = module.one_layer_lstm

    def layer(*args: Any, **kwargs: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        result, states = plain(*args, **kwargs)
        return result, tuple(state.squeeze(0) if state.dim() == 3 else state for state in states)

    module.one_layer_lstm = layer
    try:
        yield
    finally:
        module.one_layer_lstm = plain


@contextmanager
def dropouts_as_in_eager() -> Generator[None, None, None]:
    """A context in which a dropout of nothing returns its operand, as the kernel does; PyTorch's decomposition copies it."""
    dropout = _aten.dropout.default
    plain = dict(dropout.py_kernels)
    dropout.py_kernels.update({key: _unless_nothing_is_dropped(kernel) for key, kernel in plain.items()})
    dropout._dispatch_cache.clear()
    try:
        yield
    finally:
        dropout.py_kernels.update(plain)
        dropout._dispatch_cache.clear()


def _unless_nothing_is_dropped(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def dropout(x: Tensor, p: float, train: bool) -> Tensor:
        return kernel(x, p, train) if train and p != 0 else x

    return dropout


def _in_own_format(upsample: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return ``upsample`` with contiguous or channels_last results, which the decomposition has for images only."""

    def upsampled(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = upsample(x, *args, **kwargs)
        return result if result.dim() == 4 else result.contiguous(memory_format=suggest_memory_format(x))

    return upsampled


def lay_out_as_eager(mode: FakeTensorMode) -> None:
    """Correct the fakes of ``mode``, which remains an instance of PyTorch's class: higher-order operators have rules for it."""
    mode.dispatch = partial(_corrected(FakeTensorMode.dispatch), mode)


def _corrected(plain: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(mode: FakeTensorMode, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (instead := _INSTEAD.get(func)) is not None:
            with mode:
                func, args, kwargs = instead(*args, **kwargs)
        return as_in_eager(mode, func, args, kwargs, plain(mode, func, types, args, kwargs))

    return dispatch


_Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


def _masked_select(x: Tensor, mask: Tensor) -> _Call:
    """The fake selects at most the elements of the first operand."""
    return _aten.masked_select.default, tuple(_torch.broadcast_tensors(x, mask)), {}


def _split(x: Tensor, size: int, dim: int = 0) -> _Call:
    """Before 2.13 the fake fails for a dimension without elements."""
    if is_same(x.shape[dim], 0):
        return _aten.split_with_sizes.default, (x, [0], dim), {}
    return _aten.split.Tensor, (x, size, dim), {}


def _vector_norm(x: Tensor, ord: float = 2, dim: Sequence[int] | None = None, *args: Any, **kwargs: Any) -> _Call:
    """Before 2.13 the fake keeps a dimension of one element that is counted from the end."""
    dims = None if dim is None else [d + x.dim() if -x.dim() <= d < 0 else d for d in dim]
    return _aten.linalg_vector_norm.default, (x, ord, dims, *args), kwargs


_INSTEAD: Mapping[Any, Callable[..., _Call]] = {
    _aten.masked_select.default: _masked_select,
    _aten.split.Tensor: _split,
    _aten.linalg_vector_norm.default: _vector_norm,
}
"""Operator -> the call that has the right fake."""


def as_in_eager(mode: Any, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Correct dtype, device and strides of ``result``, which ``func`` returned in ``mode``, to those of its kernel.

    RuntimeError if only the kernel rejects the arguments.
    """
    if func in _OF_SOME:
        _torch._check(args[0].numel() != 0, lambda: f"{func.overloadpacket.__name__}(): expected an input with elements")
    if (place := _DTYPES.get(func)) is not None:
        dtype = (args[place] if place < len(args) else kwargs[func._schema.arguments[place].name]).dtype
        if result.dtype != dtype:
            with mode:
                result = torch.empty_like(result, dtype=dtype)
    if func in _WITH_SEEDS:
        with mode:
            seeds = [torch.empty_like(seed, device="cpu") for seed in result[2:4]]
        return (*result[:2], *seeds, *result[4:])
    rule = _RULES.get(func) or (partial(_looped, func) if _is_loop(func) else None)
    if rule is None or (func not in _OF_CUDA and all(_needs_no_rule(leaf) for leaf in tree_leaves((args, kwargs, result)))):
        return result
    with mode:
        like = rule(next(leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)), *args, **kwargs)
        return tree_map_only(Tensor, lambda given: _laid_out(given, like), result)


def _needs_no_rule(value: Any) -> bool:
    """Whether ``value`` needs no rule.

    A tensor with one channel is contiguous, and may be channels_last, too. Dimensions of size 1 may have any stride, and loops
    are ordered by it.
    """
    if not isinstance(value, Tensor) or value.device.type != "cpu":
        return True
    if not is_contiguous(value):
        return False
    ones = any(not isinstance(size, torch.SymInt) and size == 1 for size in value.shape)
    return not ones or all(map(is_same, value.stride(), make_contiguous_strides_for(value.shape)))


def _laid_out(given: Tensor, like: Tensor) -> Tensor:
    """Return ``given`` with the strides of ``like``; unchanged if sizes differ, as for statistics."""
    if given.dim() != like.dim() or all(map(is_same, given.stride(), like.stride())):
        return given
    if is_same(given.numel(), 0) or not all(map(is_same, given.shape, like.shape)):
        return given
    return given.new_empty_strided(given.shape, like.stride())


def same_strides(a: Tensor, b: Tensor) -> bool:
    """Whether the strides are known to be equal where size is not 1; unknown sizes add no guard."""
    return all(is_same(size, 1) or is_same(x, y) for size, x, y in zip(a.shape, a.stride(), b.stride(), strict=True))


def _is_loop(func: Any) -> bool:
    """Whether ``func`` is an elementwise operator that returns a new tensor."""
    if not isinstance(func, OpOverload):
        return False
    returns = func._schema.returns
    return torch.Tag.pointwise in func.tags and not func._schema.is_mutable and not any(r.alias_info for r in returns)


def _looped(func: Any, given: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return a fake with the layout of the loop of ``func`` over its operands, promoted to one dtype."""
    operands = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    if func is _aten.threshold_backward.default:
        operands.reverse()
    condition = operands[:1] if func is _aten.where.self else []
    scalars = len(operands) == 1 and _takes_scalars(func)
    return _joined(given, *condition, *_promoted(operands[len(condition) :], given.dtype), scalars=scalars)


def _takes_scalars(func: Any) -> bool:
    """Whether ``func``, called with one tensor, wraps scalars into tensors, as operators of two tensors do."""
    of_two = [argument.type.isSubtypeOf(torch._C.TensorType.get()) for argument in func._schema.arguments].count(True) > 1
    return of_two or ("scalar" in func._overloadname.lower() and func.overloadpacket is not _aten.pow)


def _promoted(operands: Sequence[Tensor], result: torch.dtype) -> Generator[Tensor, None, None]:
    """Yield ``operands`` as a loop with dtype ``result`` reads them: those of other dtypes are copied first."""
    if len({operand.dtype for operand in operands} | {result}) == 1:
        yield from operands
        return
    _, dtype = _prims.elementwise_dtypes(*operands, type_promotion_kind=PROMOTION.DEFAULT)
    if not torch.can_cast(result, dtype):  # operands of a wider kind, or a floating-point result
        dtype = result
    for operand in operands:
        yield operand if operand.dtype == dtype else _preserved(operand, operand)


def _joined(given: Tensor, *args: Any, scalars: bool = False, **__: Any) -> Tensor:
    """Return a fake with the layout of a loop over all tensor operands, and wrapped scalars if ``scalars``."""
    operands = [arg for arg in args if isinstance(arg, Tensor)]
    return given.new_empty_strided(given.shape, loop_strides(operands, given.shape, scalars))


def _of_each(given: Tensor, x: Tensor, y: Tensor, *_: Any, **__: Any) -> Tensor:
    """Return a fake of a loss of each element, in the layout of a loop, or of their sum."""
    return _joined(given, x, y) if given.dim() else given


def _preserved(_: Tensor, x: Tensor, *__: Any, **___: Any) -> Tensor:
    """Return a fake with the layout of a copy of ``x``: that of ``x`` if it is dense."""
    return x if is_dense(x) else torch.empty_like(x)


def _like_first(_: Tensor, x: Tensor, y: Tensor, *__: Any, **___: Any) -> Tensor:
    return torch.empty_like(_torch.broadcast_tensors(x, y)[0])


def _cloned(given: Tensor, x: Tensor, memory_format: torch.memory_format | None = None, **_: Any) -> Tensor:
    return given if memory_format not in (None, torch.preserve_format) else _preserved(given, x)


def _contiguous(given: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(given, memory_format=torch.contiguous_format)


def _in_format(given: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor:
    """Return a contiguous fake, or a channels_last one if ``x`` is."""
    return torch.empty_like(given, memory_format=suggest_memory_format(x))


def _angle(given: Tensor, x: Tensor) -> Tensor:
    return _contiguous(given) if x.is_complex() else given


def _ldexp(_: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return x * torch.pow(2.0, y)


def _as_second(given: Tensor, _: Tensor, x: Tensor, *__: Any, **___: Any) -> Tensor:
    return _in_format(given, x)


def _preserved_second(given: Tensor, _: Tensor, x: Tensor, *__: Any, **___: Any) -> Tensor:
    return _preserved(given, x)


def _rolled(_: Tensor, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """Concatenate two slices for each dimension; without dimensions, the result is contiguous."""
    if not dims or x.numel() == 0:
        return torch.empty_like(x, memory_format=torch.contiguous_format if x.numel() else torch.preserve_format)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        start = (size - shift) % size
        x = torch.cat([x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x


def _indexed(given: Tensor, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Return a fake with the layout of a loop over ``x``, with stride 0 in indexed dimensions, and all indices."""
    found = [index for index in indices if index is not None]
    if x.numel() == 0 or any(index.dtype in (torch.bool, torch.uint8) for index in found):
        return given
    places = [i for i, index in enumerate(indices) if index is not None]
    others = [i for i in range(x.dim()) if i not in places]
    first = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    shape: torch.Size = _torch.broadcast_shapes(*[index.shape for index in found])
    steps = [x.stride(i) for i in others]
    sizes = [*(x.shape[i] for i in others[:first]), *shape, *(x.shape[i] for i in others[first:])]
    source = x.as_strided(sizes, [*steps[:first], *[0] * len(shape), *steps[first:]])
    around = [1] * first, [1] * (len(others) - first)
    return _joined(given, source, *[index.expand(shape).reshape(*around[0], *shape, *around[1]) for index in found])


def _scattered(given: Tensor, *_: Any, **__: Any) -> Tensor:
    """Return ``given``; without repeated elements before 2.13, where PyTorch's fake has those of the operand."""
    repeats = any(is_same(step, 0) and not is_same(size, 1) for size, step in zip(given.shape, given.stride(), strict=True))
    return torch.empty_like(given) if repeats else given


def _recurrent(given: Tensor, *args: Any, **__: Any) -> Tensor:
    """Return a fake of cuDNN's result: time steps first in memory, with batches first too."""
    batch_first, batch_sizes = args[10], args[14]
    return _contiguous(given.transpose(0, 1)).transpose(0, 1) if batch_first and not batch_sizes else given


_RULES: Mapping[Any, Callable[..., Tensor]] = {
    **dict.fromkeys(
        [
            _aten._conj_physical.default,
            _aten.conj_physical.default,
            _aten.deg2rad.default,
            _aten.frexp.Tensor,
            _aten.hardtanh.default,
            _aten.index_fill.int_Scalar,
            _aten.index_fill.int_Tensor,
            _aten.nan_to_num.default,
            _aten.rad2deg.default,
            _aten.relu6.default,
        ],
        _preserved,
    ),
    **dict.fromkeys([_aten._to_copy.default, _aten.clone.default], _cloned),
    **dict.fromkeys(
        [
            _aten.elu_backward.default,
            _aten.floor_divide.default,
            _aten.hardsigmoid_backward.default,
            _aten.hardswish_backward.default,
            _aten.hardtanh_backward.default,
            _aten.mish_backward.default,
            _aten.softplus_backward.default,
        ],
        _joined,
    ),
    _aten.binary_cross_entropy_backward.default: _preserved_second,
    **dict.fromkeys([_aten.mse_loss.default, _aten.smooth_l1_loss.default], _of_each),
    **dict.fromkeys([_aten.binary_cross_entropy.default, _aten.huber_loss.default], _like_first),
    _aten.angle.default: _angle,
    _aten.ldexp.Tensor: _ldexp,
    **dict.fromkeys(
        [
            _aten._log_softmax_backward_data.default,
            _aten._standard_gamma.default,
            _aten.grid_sampler_2d.default,
            _aten.huber_loss_backward.default,
            _aten.isin.Tensor_Tensor,
            _aten.log_sigmoid_forward.default,
            _aten.masked_fill.Scalar,
            _aten.mse_loss_backward.default,
            _aten.mvlgamma.default,
            _aten.native_layer_norm_backward.default,
            _aten.normal.Tensor_Tensor,
            _aten.poisson.default,
            _aten.pow.Scalar,
            _aten.rrelu.default,
            _aten.rrelu_with_noise.default,
            _aten.smooth_l1_loss_backward.default,
            _aten.tril.default,
            _aten.triu.default,
        ],
        _contiguous,
    ),
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
    **dict.fromkeys([_aten.batch_norm_backward.default, _aten.native_batch_norm_backward.default], _as_second),
    **dict.fromkeys([_aten.index.Tensor, _aten._unsafe_index.Tensor], _indexed),
    _aten.roll.default: _rolled,
    **dict.fromkeys(
        [_aten.diagonal_scatter.default, _aten.select_scatter.default, _aten.slice_scatter.default],
        _scattered,
    ),
    _aten._cudnn_rnn.default: _recurrent,
}
"""Operator -> a function that returns a fake with the layout of its result, from PyTorch's fake result and the arguments."""

_OF_CUDA = frozenset([_aten._cudnn_rnn.default])
"""The operators of CUDA with a rule; the other rules are for tensors on the CPU."""

_OF_SOME = frozenset([_aten.max.default, _aten.min.default])
"""The operators whose kernels, unlike their fakes, reject a tensor without elements."""

_WITH_SEEDS = frozenset([_aten._scaled_dot_product_efficient_attention.default, _aten._efficient_attention_forward.default])
"""The operators of CUDA whose third and fourth results, the state of random numbers, are on the CPU."""

_DTYPES: Mapping[Any, int] = {
    _aten.huber_loss.default: 0,
    _aten.mse_loss_backward.default: 1,
    _aten.smooth_l1_loss_backward.default: 1,
    _aten.soft_margin_loss.default: 0,
    _aten.soft_margin_loss_backward.default: 1,
}
"""Operator -> the position of the argument that determines the result dtype."""
