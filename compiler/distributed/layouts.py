"""Layouts: how the parameters of a model, its inputs and its targets lie on a device mesh.

A layout stores parameters as DTensors under their names. The model reads them through a property that gathers them, and whose
derivative reduces their gradients: one graph of ``torch.compile`` has every collective, and checkpoints have the names of the
model. Between parameters the model computes with tensors of its rank; with ``spatial`` it computes with DTensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from fxc.distributed.convolution import correct_convolutions
from fxc.errors import InputError

Read = Callable[[DTensor], Tensor]


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

    ``model`` is changed in place. InputError for one with recurrent layers (``nn.RNNBase``), in each layout.
    """
    return Distributed(_distribute(model, mesh, Replicate(), _read(Partial("avg"))), mesh, Shard(0), Shard(0))


def replicated(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """``model`` on each rank of ``mesh``, without communication. InputError as for ``data_parallel``."""
    return Distributed(_distribute(model, mesh, Replicate(), _read(Replicate())), mesh, Replicate(), Replicate())


def fully_sharded(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """Parameters of ``model`` sharded over ``mesh`` by their first dimension: an all_gather a use, a reduce_scatter a gradient.

    InputError as for ``data_parallel``.
    """
    return Distributed(_distribute(model, mesh, Shard(0), _read(Partial("avg"))), mesh, Shard(0), Shard(0))


def spatial(model: nn.Module, mesh: DeviceMesh) -> Distributed:
    """Replicated parameters, a part of the width of each image (N, C, H, W) on each rank; convolutions exchange halos.

    ``model`` then takes DTensors on ``mesh``. InputError as for ``data_parallel``.
    """
    correct_convolutions(mesh)
    model = distribute_module(_distribute(model, mesh, Replicate(), _gather), mesh)  # the latter replicates buffers
    return Distributed(model, mesh, Shard(3), Replicate(), local=False)


def tensor_parallel(model: nn.Module, mesh: DeviceMesh, plan: Mapping[str, ParallelStyle]) -> Distributed:
    """Modules of ``model`` split over ``mesh`` by ``plan``, their styles by name (``parallelize_module``); the rest replicated.

    InputError as for ``data_parallel``.
    """
    parallelize_module(model, mesh, dict(plan))
    return Distributed(_distribute(model, mesh, Replicate(), _read(Replicate())), mesh, Replicate(), Replicate())


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


def _gather(parameter: DTensor) -> DTensor:
    return parameter.redistribute(placements=[Replicate()] * parameter.device_mesh.ndim)


def _read(gradient: Placement) -> Read:
    """Read the whole parameter; the gradients of the ranks are parts of ``gradient``."""
    return lambda parameter: _gather(parameter).to_local(grad_placements=[gradient] * parameter.device_mesh.ndim)


def _distribute(model: nn.Module, mesh: DeviceMesh, placement: Placement, read: Read) -> nn.Module:
    """Make the parameters that are no DTensors yet DTensors; a parameter that modules share stays shared."""
    done = dict[nn.Parameter, nn.Parameter]()
    for name, module in cast(Iterable[tuple[str, nn.Module]], model.named_modules()):
        if isinstance(module, nn.RNNBase):
            raise InputError(
                f"{name or 'the model'} is {type(module).__name__}, which reads its weights from a list of tensors",
                hint="write the recurrence with layers that read self.weight, or train this model by DistributedDataParallel",
            )
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


def _read_through(module: nn.Module, read: Read) -> None:
    """Let ``module.weight`` be ``read(the parameter weight)``: a subclass with a property for each parameter of the module."""

    def reader(name: str) -> property:
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
