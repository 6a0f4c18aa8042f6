"""Convolutions of DTensors: images sharded by height or width, with an exchange of the halo.

Stock PyTorch labels the result ``Shard(0)`` whatever the placement of the image is (2.13, pytorch#191926), and the backward of
its halo returns None (all versions). Here each rank computes its part of the result from its part of the image and from what
its windows cover on other ranks, which one all_to_all with split sizes brings. That is differentiable and functional, so
``torch.compile`` holds it in one graph. A placement that it cannot use is redistributed first, never ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._redistribute import redistribute_local_tensor
from torch.nn.functional import conv2d

aten = torch.ops.aten
Interval = tuple[int, int]


def correct_convolutions(mesh: DeviceMesh) -> None:
    """Replace DTensor's convolution unless a check on ``mesh`` shows that it is right. Every rank of the mesh calls this.

    Raises CollectiveError within ``process_group`` where another rank fails.
    """
    handlers = DTensor._op_dispatcher._custom_op_handlers
    if handlers.get(aten.convolution.default) is not convolution and not is_stock_right(mesh):
        handlers |= {aten.convolution.default: convolution, aten.convolution_backward.default: convolution_backward}


def is_stock_right(mesh: DeviceMesh) -> bool:
    """Whether DTensor's convolution has the right placement and gradient on ``mesh``. Every rank of the mesh calls this."""
    placements = [Shard(3), *[Replicate()] * (mesh.ndim - 1)]
    image = torch.arange(2.0 * mesh.size(0), device=mesh.device_type).reshape(1, 1, 1, -1)
    weight = image.new_ones(1, 1, 1, 3)

    def gradient(x: Tensor, weight: Tensor) -> Any:
        x = x.detach().requires_grad_()
        conv2d(x, weight, padding=(0, 1)).square().sum().backward()
        return x.grad

    try:
        x = distribute_tensor(image, mesh, placements, src_data_rank=None)
        weights = distribute_tensor(weight, mesh, [Replicate()] * mesh.ndim, src_data_rank=None)
        if cast(DTensor, conv2d(x, weights[..., :1])).placements != x.placements:
            return False
        return torch.equal(gradient(x, weights).full_tensor(), gradient(image, weight))
    except Exception:  # whatever it does with what it does not support
        return False


@dataclass(frozen=True)
class Halo:
    """What the ranks of one axis of a mesh exchange so that each has the part of ``dim`` that its windows cover."""

    dim: int
    mesh: DeviceMesh
    axis: int
    size: int
    """The size of ``dim`` in the result."""
    owned: Sequence[Interval]
    """What each rank has of the image."""
    windows: Sequence[Interval]
    """What each rank needs, padding included."""

    @property
    def rank(self) -> int:
        return self.mesh.get_local_rank(self.axis)

    def needed(self, rank: int) -> Interval:
        return _common(self.windows[rank], (0, self.owned[-1][1]))

    @property
    def zeros(self) -> Interval:
        """The sizes of the padding before and after what this rank needs."""
        (start, stop), (lo, hi) = self.windows[self.rank], self.needed(self.rank)
        return lo - start, stop - hi

    @property
    def is_local(self) -> bool:
        """Whether no rank needs anything of another: the same answer on every rank."""
        return all(_common(owned, self.needed(rank)) == self.needed(rank) for rank, owned in enumerate(self.owned))

    def transfers(self) -> tuple[list[Interval], Interval, list[Interval]]:
        """Of the image: what is sent to each other rank, what stays on this one, and what comes from each other rank."""
        sent = [_common(self.owned[self.rank], self.needed(rank)) for rank in range(len(self.owned))]
        received = [_common(owned, self.needed(self.rank)) for owned in self.owned]
        stays, nothing = sent[self.rank], (0, 0)
        sent[self.rank] = received[self.rank] = nothing
        return sent, stays, received

    def gather(self, x: Tensor) -> Tensor:
        """What this rank needs of the image, from what it owns."""
        sent, stays, received = self.transfers()
        first = self.owned[self.rank][0]
        parts = [self._part(x, stays, first)]
        if not self.is_local:
            others = self._exchange(x, first, sent, received)
            left = sum(hi - lo for lo, hi in received[: self.rank])
            parts = [others.narrow(self.dim, 0, left), *parts, others.narrow(self.dim, left, others.size(self.dim) - left)]
        return _pad(torch.cat(parts, self.dim), self.dim, *self.zeros)

    def scatter(self, gradient: Tensor) -> Tensor:
        """The transpose of ``gather``: each part of the gradient is added on the rank that owns it."""
        sent, stays, received = self.transfers()
        start, (first, last) = self.windows[self.rank][0], self.owned[self.rank]
        total = _pad(self._part(gradient, stays, start), self.dim, stays[0] - first, last - stays[1])
        if not self.is_local:
            others, at = self._exchange(gradient, start, received, sent), 0
            for lo, hi in sent:
                if hi > lo:
                    total = total + _pad(others.narrow(self.dim, at, hi - lo), self.dim, lo - first, last - hi)
                    at += hi - lo
        return total

    def _part(self, x: Tensor, interval: Interval, first: int) -> Tensor:
        return x.narrow(self.dim, interval[0] - first, interval[1] - interval[0])

    def _exchange(self, x: Tensor, first: int, sent: list[Interval], received: list[Interval]) -> Tensor:
        """Send to each rank its interval of ``x``, which begins at ``first``; return what arrives, by rank."""
        parts = [self._part(x, interval, first) for interval in sent if interval[1] > interval[0]]
        packed = torch.cat(parts or [x.narrow(self.dim, 0, 0)], self.dim).movedim(self.dim, 0).contiguous()
        incoming, outgoing = ([hi - lo for lo, hi in intervals] for intervals in (received, sent))
        arrived = functional.all_to_all_single(packed, incoming, outgoing, (self.mesh, self.axis))
        return functional.wait_tensor(arrived).movedim(0, self.dim)


def convolution(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """``aten.convolution`` of DTensors."""
    (x, weight, bias), specs, (stride, padding, *more) = _operands(op, args, kwargs)
    placements, halos, padding = _halos(specs[0], specs[1].shape, stride, padding, more)
    x, weight, bias = _move(x, specs[0], placements), _move(weight, specs[1]), _move(bias, specs[2])
    for halo in halos:
        x = halo.gather(x)
    result = op(x, weight, bias, stride, padding, *more)
    shape = [specs[0].shape[0], *result.shape[1:]]
    for halo in halos:
        shape[halo.dim] = halo.size
    return _wrap(result, specs[0].mesh, placements, shape)


def convolution_backward(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """``aten.convolution_backward`` of DTensors. Gradients of a weight and a bias are partial where the image is sharded."""
    (gradient, x, weight), specs, (bias_sizes, stride, padding, *more) = _operands(op, args, kwargs)
    placements, halos, padding = _halos(specs[1], specs[2].shape, stride, padding, more)
    gradient, x, weight = _move(gradient, specs[0], placements), _move(x, specs[1], placements), _move(weight, specs[2])
    for halo in halos:
        x = halo.gather(x)
    on_x, *on_weights = op(gradient, x, weight, bias_sizes, stride, padding, *more)
    if on_x is not None:
        for halo in reversed(halos):
            on_x = halo.scatter(on_x)
        on_x = _wrap(on_x, specs[1].mesh, placements, specs[1].shape)
    partial = [Partial() if isinstance(placement, Shard) else placement for placement in placements]
    return on_x, *(None if on is None else _wrap(on, specs[1].mesh, partial, on.shape) for on in on_weights)


def _operands(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[DTensorSpec], list[Any]]:
    """The local tensors, where they lie, and the other arguments."""
    info = DTensor._op_dispatcher.unwrap_to_op_info(op, args, kwargs)
    return list(info.local_args[:3]), cast(list[DTensorSpec], info.flat_args_schema[:3]), list(info.local_args[3:])


def _halos(
    spec: DTensorSpec, weight: Sequence[int], stride: list[int], padding: list[int], more: list[Any]
) -> tuple[list[Placement], list[Halo], list[int]]:
    """The placements that a convolution can use, nearest to those of the image, the exchanges, and the padding that is left.

    Used are Shard(0), and a height or width of which each rank has part of the image and of the result. Along an axis of the
    mesh with another placement, or with a dimension that an axis before it shards, the image is replicated.
    """
    (dilation, transposed), padding = more[:2], list(padding)
    placements, halos = list[Placement]([Replicate()] * spec.mesh.ndim), list[Halo]()
    for axis, placement in enumerate(spec.placements):
        if type(placement) is not Shard or placement.dim == 1 or placement in placements:
            continue
        if placement.dim:
            dim, ranks = cast(int, placement.dim), spec.mesh.size(axis)
            at, size = dim - 2, int(spec.shape[dim])
            extent: int = dilation[at] * (weight[dim] - 1) + 1
            outputs = (size + 2 * padding[at] - extent) // stride[at] + 1
            owned, computed = _shards(size, ranks), _shards(outputs, ranks)
            if transposed or padding[at] >= extent or any(lo >= hi for lo, hi in (*owned, *computed)):
                continue
            windows = [(lo * stride[at] - padding[at], (hi - 1) * stride[at] - padding[at] + extent) for lo, hi in computed]
            halos.append(Halo(dim, spec.mesh, axis, outputs, owned, windows))
            padding[at] = 0
        placements[axis] = placement
    return placements, halos, padding


def _move(local: Any, spec: DTensorSpec | None, placements: Sequence[Placement] | None = None) -> Any:
    """The local part under other placements; replicated where none are given."""
    if spec is None:
        return None
    placements = placements or [Replicate()] * spec.mesh.ndim
    target = DTensorSpec(spec.mesh, tuple(placements), tensor_meta=spec.tensor_meta)
    return redistribute_local_tensor(local, spec, target)


def _wrap(local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], shape: Sequence[int]) -> object:
    strides, step = [0] * local.dim(), 1
    for dim in sorted(range(local.dim()), key=lambda dim: (local.stride(dim), -dim)):
        strides[dim], step = step, step * shape[dim]
    meta = TensorMeta(torch.Size(shape), tuple(strides), local.dtype)
    return DTensor._op_dispatcher.wrap(local, DTensorSpec(mesh, tuple(placements), tensor_meta=meta))


def _shards(size: int, ranks: int) -> list[Interval]:
    """The interval of each rank, as ``Shard`` divides a dimension."""
    step = -(-size // ranks)
    return [(min(rank * step, size), min((rank + 1) * step, size)) for rank in range(ranks)]


def _common(a: Interval, b: Interval) -> Interval:
    lo = min(max(a[0], b[0]), a[1])
    return lo, max(lo, min(a[1], b[1]))


def _pad(x: Tensor, dim: int, before: int, after: int) -> Tensor:
    return aten.constant_pad_nd(x, [0, 0] * (x.dim() - 1 - dim) + [before, after]) if before or after else x
