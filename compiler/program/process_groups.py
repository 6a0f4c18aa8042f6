"""Meshes and process groups of a program: declared for the groups of this process that it names, found again after loading.

PyTorch names groups by numbers, which depend on the process. A program states the ranks: along axes of a mesh, or as a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from fxc.dialects.attributes.discardable import LAYOUT
from fxc.dialects.attributes.values import str_attr
from fxc.dialects.dist import GroupOp, LayoutAttr, MeshOp
from fxc.dialects.dist.mesh import lookup
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import CollectiveError
from fxc.passes.analysis.joint_graph import returned
from fxc.passes.analysis.written_arguments import MUTATES
from fxc.passes.rewriting.functions import symbols_of

if TYPE_CHECKING:
    from fxc.program.program import Program
    from fxc.runtime.signature import Signature

GROUP = "group_name"
"""The argument of operators that is the name of a process group."""


def group_name(op: Operation) -> str | None:
    """The name of the process group that an operator names."""
    name = op.argument(GROUP) if isinstance(op, TorchOp) and GROUP in op.SCHEMA.by_name else None
    return name.data if isinstance(name, StringAttr) else None


def declare_groups(module: ModuleOp, meshes: Sequence[Any]) -> Sequence[str]:
    """Declare ``meshes``, of PyTorch, and the process groups that ``module`` names. Returns the symbol of each mesh."""
    from torch.utils._python_dispatch import _disable_current_modes

    names = symbols_of(module)
    symbols, declared = list[str](), list[Operation]()
    along = dict[str, tuple[str, str]]()
    for mesh in meshes:
        symbols.append(names.fresh("mesh"))
        axes = axes_of(mesh)
        with _disable_current_modes():
            ranks = mesh.mesh.flatten().tolist()
        declared.append(MeshOp.of(symbols[-1], mesh.device_type, axes, ranks))
        for i, axis in enumerate(axes):
            along.setdefault(str(mesh.get_group(i).group_name), (symbols[-1], axis))
    for name in dict.fromkeys(filter(None, map(group_name, module.walk()))):
        if name in along:
            mesh, axis = along[name]
            declared.append(GroupOp.along(names.fresh(axis), name, mesh, [axis]))
        elif (ranks := _groups().get(name)) is not None:
            declared.append(GroupOp.of_ranks(names.fresh("group"), name, ranks))
    first = module.body.block.first_op
    if first is not None and declared:
        module.body.block.insert_ops_before(declared, first)
    return symbols


def axes_of(mesh: Any) -> dict[str, int]:
    """The axes of a mesh of PyTorch, named ``axis0``, ... where they have no names, or names that text cannot have."""
    given: Sequence[str] = mesh.mesh_dim_names or ()
    names = given if given and all(name.isidentifier() for name in given) else [f"axis{i}" for i in range(mesh.ndim)]
    return dict(zip(names, mesh.shape, strict=True))


def _groups() -> dict[str, list[int]]:
    """Name -> ranks of the process groups of this process, in the order in which they were made."""
    from fxc.runtime.rank_store import is_distributed

    if not is_distributed():
        return {}
    from torch.distributed import get_process_group_ranks
    from torch.distributed.distributed_c10d import _world

    return {name: get_process_group_ranks(group) for group, name in _world.pg_names.items()}


def ranks_of(group: GroupOp, rank: int) -> list[int]:
    """The ranks of the group, of which ``rank`` is one. CollectiveError where it is none."""
    if group.rank_list is not None:
        return [*group.rank_list.get_values()]
    mesh = None if group.mesh is None else lookup(group, group.mesh)
    assert isinstance(mesh, MeshOp), "verified"
    return _along(mesh, group.axes, rank)


def _along(mesh: MeshOp, axes: Sequence[str], rank: int) -> list[int]:
    if rank not in mesh.ranks:
        raise CollectiveError(f"rank {rank} is not on the mesh {mesh.text()}", hint=_SAME_MESH)
    places = dict(zip(product(*map(range, mesh.axes.values())), mesh.ranks, strict=True))
    here = next(place for place, at in places.items() if at == rank)
    free = [axis in axes for axis in mesh.axes]
    return [at for place, at in places.items() if all(f or a == b for f, a, b in zip(free, place, here, strict=True))]


_SAME_MESH = "run it under torchrun with as many processes, and make the mesh with init_device_mesh before"


def bind_groups(module: ModuleOp) -> None:
    """Let ``module``, which was read from a file, name the process groups of this process.

    CollectiveError where this process has no such group.
    """
    declared = [op for op in module.ops if isinstance(op, GroupOp)]
    if not declared:
        return
    from torch import distributed

    from fxc.runtime.rank_store import is_distributed

    if not is_distributed():
        message = "the program has collectives, and this process has no process groups"
        raise CollectiveError(message, hint="start it with torchrun and call torch.distributed.init_process_group")
    names = dict[str, StringAttr]()
    for op in declared:
        old = op.process_group.data
        names[old] = op.process_group = str_attr(_found(ranks_of(op, distributed.get_rank()), old))
    for op in module.walk():
        if (new := names.get(group_name(op) or "")) is not None:
            op.properties[GROUP] = new


def _found(ranks: Sequence[int], first: str = "") -> str:
    """The name of a process group of these ranks, if possible ``first``. CollectiveError where there is none."""
    groups = _groups()
    names = [name for name, at in groups.items() if at == list(ranks)]
    if not names:
        raise CollectiveError(f"this process has no process group of the ranks {list(ranks)}", hint=_SAME_MESH)
    return first if first in names else names[0]


def mesh_of(op: MeshOp) -> Any:
    """The mesh as one of PyTorch, on the process groups of this process. CollectiveError where it has none along an axis."""
    from torch import distributed, tensor
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.distributed_c10d import _world

    rank = distributed.get_rank()
    found = [_found(_along(op, [axis], rank)) for axis in op.axes]
    groups = [next(group for group, name in _world.pg_names.items() if name == each) for each in found]
    is_named = not all(axis == f"axis{i}" for i, axis in enumerate(op.axes))
    names = tuple(op.axes) if is_named else None
    ranks = tensor(list(op.ranks)).reshape(*op.axes.values())
    return DeviceMesh.from_group(groups, op.device.data, ranks, mesh_dim_names=names)


def call_of(program: Program, signature: Signature) -> Callable[[Callable[..., Any]], Callable[..., Any]] | None:
    """What ``Plan.call_through`` takes for a program from a file, by its layouts; None where it has none.

    CollectiveError where this process has no such mesh.
    """
    meshes = {op.sym_name.data: op for op in program.module.ops if isinstance(op, MeshOp)}
    known = [each for each in argument_attributes(program.main) if not ArgumentFacts.of(each).is_state]
    layouts = [each.data.get(LAYOUT) for each in known]
    returns = [facts.get(LAYOUT) for _, facts in returned(program.main) if MUTATES not in facts]
    if not any(isinstance(layout, LayoutAttr) for layout in (*layouts, *returns)):
        return None
    from torch.distributed.tensor import Partial, Replicate, Shard

    from fxc.runtime.distributed_call import DistributedCall, DTensorPart

    made, kinds = {name: mesh_of(op) for name, op in meshes.items()}, {"shard": Shard, "partial": Partial}

    def part(layout: Attribute | None) -> DTensorPart | None:
        if not isinstance(layout, LayoutAttr):
            return None
        placements = [
            Replicate() if detail is None else kinds[kind](detail) for kind, detail in (p.data for p in layout.placements)
        ]
        return DTensorPart(made[layout.mesh.string_value()], tuple(placements))

    names, inputs, results = [spec.name for spec in signature.inputs], [*map(part, layouts)], [*map(part, returns)]
    return lambda run: DistributedCall(run, names, inputs, results, {})
