"""Layouts: how the parameters of a model, its inputs and its targets lie on a device mesh.

A layout stores parameters under their names: as DTensors if they are divided, else as tensors. The model reads them through a
property that gathers them, and whose derivative reduces their gradients: one graph of ``torch.compile`` has every collective,
and checkpoints have the names of the model. Between parameters the model computes with tensors of its rank; with ``spatial`` it
computes with DTensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from fxc.distributed.convolution import correct_convolutions
from fxc.errors import InputError

Read = Callable[[Any], Tensor]
collectives = torch.ops._c10d_functional


@dataclass(frozen=True)
class Distributed:
    """A model in a layout: ``model``, and where on ``mesh`` its ``inputs`` and ``targets`` lie.

    ``local``: whether the model takes tensors of its rank, not DTensors.
    """

    model: nn.Module
    mesh: DeviceMesh
    inputs: Placement
    targets: Placement
    local: bool = True

    def place(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The parts for this rank of a batch that every rank has: ``inputs`` (N, ...), ``targets`` (N, ...), of any dtype.

        InputError where a divided dimension is not a multiple of the number of ranks.
        """
        return self._place(inputs, self.inputs), self._place(targets, self.targets)

    def mean(self, loss: Tensor) -> float:
        """The loss of the batch, from ``loss``, the mean over the part of this rank (a tensor of one element)."""
        loss = loss.detach()
        if not isinstance(loss, DTensor):
            loss = DTensor.from_local(loss, self.mesh, [Partial("avg")] * self.mesh.ndim, run_check=False)
        return loss.full_tensor().item()

    def _place(self, tensor: Tensor, placement: Placement) -> Tensor:
        dim = cast(int, placement.dim) if isinstance(placement, Shard) else None
        if dim is not None and tensor.size(dim) % self.mesh.size():
            raise InputError(
                f"dimension {dim} of {list(tensor.shape)} is not a multiple of the {self.mesh.size()} ranks",
                hint="choose a batch or an image that divides evenly: a mean over uneven parts is another loss",
            )
        placed = distribute_tensor(tensor, self.mesh, [placement] * self.mesh.ndim, src_data_rank=None)
        return placed.to_local() if self.local else placed


def data_parallel(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """Replicated parameters, a part of the batch on each rank of ``mesh``; an all_reduce averages gradients.

    ``model`` is changed in place; it may be that of ``tensor_parallel`` on another axis. InputError for one
    with recurrent layers (``nn.RNNBase``), in each layout.
    """
    groups = [mesh.get_group(axis).group_name for axis in _axes(mesh)]

    def read(parameter: Any) -> Tensor:
        if not isinstance(parameter, DTensor):
            return _averaged(parameter, groups)
        local, (inner, placements) = _averaged(parameter.to_local(), groups), (parameter.device_mesh, parameter.placements)
        return DTensor.from_local(local, inner, placements, run_check=False, shape=parameter.shape, stride=parameter.stride())

    return Distributed(_replicate(model, mesh, read), mesh, Shard(0), Shard(0))


def replicated(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """``model`` on each rank of ``mesh``, without communication. InputError as for ``data_parallel``."""
    return Distributed(_replicate(model, mesh, None), mesh, Replicate(), Replicate())


def fully_sharded(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """Parameters of ``model`` sharded over ``mesh`` by their first dimension: an all_gather a use, a reduce_scatter a gradient.

    InputError as for ``data_parallel``, and for a model whose parameters are DTensors.
    """
    _refuse_dtensors(model)
    return Distributed(_distribute(model, mesh, Shard(0), _gathered(mesh)), mesh, Shard(0), Shard(0))


def spatial(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """Replicated parameters, a part of the width of each image (N, C, H, W) on each rank; convolutions exchange halos.

    ``model`` then takes DTensors on ``mesh``. InputError as for ``fully_sharded``.
    """
    _refuse_dtensors(model)
    correct_convolutions(mesh)
    everywhere = [Replicate()] * mesh.ndim
    _replicate(model, mesh, lambda parameter: DTensor.from_local(parameter, mesh, everywhere, run_check=False))
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            module._buffers[name] = distribute_tensor(buffer, mesh, everywhere)
    return Distributed(model, mesh, Shard(3), Replicate(), local=False)


def tensor_parallel(model: nn.Module, mesh: DeviceMesh, plan: Mapping[str, ParallelStyle]) -> Distributed:
    """Modules of ``model`` split over ``mesh`` by ``plan``, their styles by name (``parallelize_module``); the rest replicated.

    InputError as for ``data_parallel``.
    """
    parallelize_module(model, mesh, dict(plan))
    model = _distribute(model, mesh, Replicate(), lambda parameter: parameter.to_local())
    return Distributed(model, mesh, Replicate(), Replicate())


class StackedColwiseParallel(ParallelStyle):
    """A linear layer whose result is ``count`` stacked parts (query, key and value), each split by columns.

    The parameters become stacks, ``weight`` of (count, columns, inputs): the layout does not depend on the number of ranks.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        for name, parameter in list(module.named_parameters(recurse=False)):
            stack = parameter.detach().reshape(self.count, -1, *parameter.shape[1:])
            module.register_parameter(name, nn.Parameter(distribute_tensor(stack, device_mesh, [Shard(1)])))
        _read_through(module, lambda parameter: parameter.to_local().flatten(0, 1))
        everywhere = [Replicate()] * device_mesh.ndim

        def enter(module: nn.Module, inputs: tuple[Tensor, ...], mesh: DeviceMesh) -> tuple[Tensor]:
            x = DTensor.from_local(inputs[0], mesh, everywhere, run_check=False)
            return (x.to_local(grad_placements=[Partial()] * mesh.ndim),)

        return distribute_module(module, device_mesh, lambda *_: None, enter)  # type: ignore[arg-type]


class _Averaged(torch.autograd.Function):
    """A replicated tensor; the gradient is the average of those of the ranks of ``groups``."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, groups: Sequence[str]) -> Tensor:
        ctx.groups = groups
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in ctx.groups:
            gradient = collectives.wait_tensor(collectives.all_reduce(gradient, "avg", group))
        return gradient, None


@torch.compiler.allow_in_graph  # Dynamo would trace it for each parameter
def _averaged(whole: Tensor, groups: Sequence[str]) -> Tensor:
    return cast(Tensor, _Averaged.apply(whole, groups))


class _Gathered(torch.autograd.Function):
    """The whole of a tensor of which ``part`` is the shard; the gradient is the shard of the average of those of the ranks.

    ``size``: the first size of the whole. Shards at the end may be smaller, or empty.
    """

    @staticmethod
    def forward(ctx: Any, part: Tensor, size: int, ranks: int, group: str) -> Tensor:
        ctx.part, ctx.step, ctx.ranks, ctx.group = part.size(0), -(-size // ranks), ranks, group
        part = _resized(part, ctx.step).contiguous()
        return collectives.wait_tensor(collectives.all_gather_into_tensor(part, ranks, group))[:size]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        whole = _resized(gradient, ctx.step * ctx.ranks).contiguous()
        part = collectives.wait_tensor(collectives.reduce_scatter_tensor(whole, "avg", ctx.ranks, ctx.group))
        return part[: ctx.part], None, None, None


@torch.compiler.allow_in_graph
def _gather(part: Tensor, size: int, ranks: int, group: str) -> Tensor:
    return cast(Tensor, _Gathered.apply(part, size, ranks, group))


def _axes(mesh: DeviceMesh) -> list[int]:
    """The axes with several ranks."""
    return [axis for axis in range(mesh.ndim) if mesh.size(axis) > 1]


def _resized(x: Tensor, size: int) -> Tensor:
    """``x`` with zeros at the end, so that its first size is ``size``."""
    missing = size - x.size(0)
    return torch.ops.aten.constant_pad_nd(x, [0, 0] * (x.dim() - 1) + [0, missing]) if missing else x


def _gathered(mesh: DeviceMesh) -> Read:
    """Read the whole of a parameter that every axis of ``mesh`` shards by the first dimension."""
    axes = [(mesh.size(axis), mesh.get_local_rank(axis), mesh.get_group(axis).group_name) for axis in _axes(mesh)]

    return lambda parameter: _joined(parameter.to_local(), parameter.shape[0], axes)


def _joined(part: Tensor, size: int, axes: Sequence[tuple[int, int, str]]) -> Tensor:
    """The tensor of this first size that ``axes`` divide, each given by its ranks, this rank, and the group."""
    if not axes:
        return part
    (ranks, rank, group), *rest = axes
    step = -(-size // ranks)
    return _gather(_joined(part, max(0, min(step, size - rank * step)), rest), size, ranks, group)


def _from_first(tensor: Tensor, mesh: DeviceMesh) -> Tensor:
    return distribute_tensor(tensor, mesh, [Replicate()] * mesh.ndim).to_local()


def _replicate(model: nn.Module, mesh: DeviceMesh, read: Read | None) -> nn.Module:
    """Give every rank the parameters of the first one."""
    for parameter in model.parameters():
        local = parameter.detach()
        if isinstance(local, DTensor):
            local = local.to_local()
            local.copy_(_from_first(local, mesh))
        else:
            parameter.data = _from_first(local, mesh)
    for name, module in cast(Iterable[tuple[str, nn.Module]], model.named_modules()):
        _refuse_recurrence(name, module)
        if read is not None and any(module.named_parameters(recurse=False)):
            _read_through(module, read)
    return model


def _distribute(model: nn.Module, mesh: DeviceMesh, placement: Placement, read: Read) -> nn.Module:
    """Make the parameters that are no DTensors yet DTensors; a parameter that modules share stays shared."""
    done = dict[nn.Parameter, nn.Parameter]()
    for name, module in cast(Iterable[tuple[str, nn.Module]], model.named_modules()):
        _refuse_recurrence(name, module)
        found = list(module.named_parameters(recurse=False))
        plain = [(each, parameter) for each, parameter in found if not isinstance(parameter, DTensor)]
        for each, parameter in plain:
            if parameter not in done:
                whole = distribute_tensor(parameter.detach(), mesh, [placement] * mesh.ndim)
                done[parameter] = nn.Parameter(whole, parameter.requires_grad)
            module.register_parameter(each, done[parameter])
        if plain:
            _read_through(module, read)
    return model


def _refuse_dtensors(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if isinstance(parameter, DTensor):
            hint = "divide parameters once; data_parallel takes a model that is divided on another axis of the mesh"
            raise InputError(f"{name} is a DTensor on {parameter.device_mesh}", hint=hint)


def _refuse_recurrence(name: str, module: nn.Module) -> None:
    if isinstance(module, nn.RNNBase):
        raise InputError(
            f"{name or 'the model'} is {type(module).__name__}, which reads its weights from a list of tensors",
            hint="write the recurrence with layers that read self.weight, or train this model by DistributedDataParallel",
        )


def _read_through(module: nn.Module, read: Read) -> None:
    """Let ``module.weight`` be ``read(the parameter weight)``: a subclass with a property for each parameter of the module."""

    def reader(name: str) -> property:
        before = getattr(base, name, None)  # the property of a layout on other axes of the mesh
        if isinstance(before, property) and before.fget is not None:
            found = before.fget
            return property(lambda self: read(found(self)))
        return property(lambda self: read(self._parameters[name]))

    base = type(module)
    names = {name: reader(name) for name, _ in module.named_parameters(recurse=False)}
    module.__class__ = type(base.__name__, (base,), names | {"__module__": base.__module__})


LAYOUTS: dict[str, Callable[[nn.Module, DeviceMesh], Distributed]] = {
    "data-parallel": data_parallel,
    "replicated": replicated,
    "spatial": spatial,
    "fully-sharded": fully_sharded,
}
