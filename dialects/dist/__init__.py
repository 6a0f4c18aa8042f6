"""The ``dist`` dialect: device meshes, layouts of tensors on them, and collectives between ranks.

A program is the text that one rank runs: its tensor types are those of the local part. A module states its meshes and process
groups as symbols; a group is along axes of a mesh, or a list of ranks. ``"1"`` is the name that PyTorch gave the group on this
rank; the rest of a program is the same text on every rank:

    dist.mesh @mesh "cuda" (dp = 2, tp = 4)
    dist.group @dp "1" on @mesh(dp)

    %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
    %y = dist.wait %r : tensor<4xf32>

A collective starts, and ``dist.wait`` ends it: nothing else reads its result, and its operands are read until then. With
several operands it is one message for all of them (PyTorch's ``coalesced`` operators). Every rank starts the collectives of a
group in the same order: they have side effects, and only passes that decide alike on all ranks move, merge or remove them.
The collectives of xDSL's ``shard`` dialect are pure, and it has no wait.

Arguments and results of functions have a layout where they are parts of a distributed tensor, with a placement for each axis of
the mesh: ``{dist.layout = #dist.layout<@mesh, [shard<0>, replicate]>}``.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from fxc.dialects.dist.collectives import (
    AllGatherOp,
    AllReduceOp,
    AllToAllOp,
    BroadcastOp,
    CollectiveOp,
    ReduceScatterOp,
    WaitOp,
)
from fxc.dialects.dist.mesh import GroupOp, LayoutAttr, MeshOp, PlacementAttr

__all__ = [
    "AllGatherOp",
    "AllReduceOp",
    "AllToAllOp",
    "BroadcastOp",
    "CollectiveOp",
    "GroupOp",
    "LayoutAttr",
    "MeshOp",
    "PlacementAttr",
    "ReduceScatterOp",
    "WaitOp",
]

Dist = Dialect(
    "dist",
    [MeshOp, GroupOp, AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp, BroadcastOp, WaitOp],
    [PlacementAttr, LayoutAttr],
)
