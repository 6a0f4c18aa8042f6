"""Convolutions of DTensors equal those of one process, forward and every gradient, whatever the placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.functional import conv1d, conv2d, conv_transpose2d

from fxc.distributed.convolution import correct_convolutions, is_stock_right
from tests import ranks

SHARDED = [Shard(3)]
CASES: list[tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any], list[Placement], int]] = [
    # function, image, weight, options, placements, all_to_all of the forward
    (conv2d, (2, 4, 6, 16), (4, 1, 7, 7), {"padding": 3, "groups": 4}, SHARDED, 1),
    (conv2d, (2, 4, 16, 6), (4, 1, 7, 7), {"padding": 3, "groups": 4}, [Shard(2)], 1),
    (conv2d, (2, 3, 8, 16), (4, 3, 2, 2), {"stride": 2}, SHARDED, 0),
    (conv2d, (2, 3, 8, 16), (4, 3, 1, 1), {}, SHARDED, 0),
    (conv2d, (2, 3, 6, 15), (4, 3, 3, 3), {"padding": 1, "stride": 2}, SHARDED, 1),  # uneven shards
    (conv2d, (2, 3, 6, 15), (4, 3, 3, 4), {"padding": (0, 2), "dilation": 2}, SHARDED, 1),
    (conv2d, (2, 3, 6, 4), (4, 3, 3, 7), {"padding": (1, 3)}, SHARDED, 1),  # a halo wider than a shard
    (conv2d, (2, 3, 6, 32), (4, 3, 2, 2), {"stride": 4}, SHARDED, 0),  # columns that no window covers
    (conv2d, (2, 3, 6, 20), (4, 3, 2, 2), {"stride": 3, "bias": False}, SHARDED, 1),
    (conv2d, (2, 3, 6, 9), (4, 3, 3, 9), {"padding": (1, 0)}, SHARDED, 0),  # one column of the result: gathered
    (conv2d, (2, 3, 6, 10), (4, 3, 2, 2), {"padding": (0, 1)}, SHARDED, 1),
    (conv2d, (5, 3, 6, 8), (4, 3, 3, 3), {"padding": 1}, [Shard(0)], 0),
    (conv2d, (2, 4, 6, 8), (4, 4, 3, 3), {"padding": 1}, [Shard(1)], 0),
    (conv2d, (2, 3, 6, 8), (4, 3, 3, 3), {"padding": 1}, [Replicate()], 0),
    (conv2d, (2, 3, 6, 8), (4, 3, 3, 3), {"padding": 1, "weight": Shard(0)}, SHARDED, 1),
    (conv1d, (2, 3, 16), (4, 3, 5), {"padding": 2}, [Shard(2)], 1),
    (conv_transpose2d, (2, 3, 6, 8), (3, 4, 3, 3), {"padding": 1}, SHARDED, 0),
    (conv2d, (4, 3, 6, 16), (4, 3, 7, 7), {"padding": 3}, [Shard(0), Shard(3)], 1),
    (conv2d, (4, 3, 12, 16), (4, 3, 7, 7), {"padding": 3}, [Shard(2), Shard(3)], 2),
    (conv2d, (4, 3, 6, 16), (4, 3, 7, 7), {"padding": 3}, [Shard(3), Shard(3)], 1),
]


def check_cases() -> None:
    size = dist.get_world_size()
    meshes = [init_device_mesh("cpu", (size,)), init_device_mesh("cpu", (size // 2, 2))]
    for mesh in meshes:
        correct_convolutions(mesh)
    for number, (function, image, weight, options, placements, exchanges) in enumerate(CASES):
        mesh, options = meshes[len(placements) - 1], dict(options)
        weights = [options.pop("weight", Replicate())] * mesh.ndim
        torch.manual_seed(number)
        tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in (image, weight, (4,))]
        tensors = tensors[: 2 + options.pop("bias", True)]
        shards = [
            distribute_tensor(tensor.detach(), mesh, where).requires_grad_()
            for tensor, where in zip(tensors, (placements, weights, weights))
        ]
        with CommDebugMode() as communication:
            found = function(*shards, **options)
        called = sum(n for name, n in communication.get_comm_counts().items() if "all_to_all" in str(name))
        if mesh.size(0) > 1:
            assert called == exchanges, f"{number}: {called}"
        expected = function(*tensors, **options)
        for result in (found, expected):
            result.sin().sum().backward()
        found, expected = [found, *(shard.grad for shard in shards)], [expected, *(tensor.grad for tensor in tensors)]
        for part, whole in zip(found, expected, strict=True):
            assert part.shape == whole.shape and part.stride() == whole.stride(), number
            torch.testing.assert_close(part.full_tensor(), whole, rtol=1e-12, atol=1e-12, msg=str(number))


class Graphs:
    """A backend that lists its graphs."""

    def __init__(self) -> None:
        self.graphs = list[torch.fx.GraphModule]()

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> Any:
        self.graphs.append(graph)
        return make_boxed_func(graph.forward)

    def count(self, name: str) -> list[int]:
        return [sum(name in str(node.target) for node in graph.graph.nodes) for graph in self.graphs]


def check_stock_and_compiled() -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    propagator, handlers = DTensor._op_dispatcher.sharding_propagator, DTensor._op_dispatcher._custom_op_handlers
    stock = handlers[torch.ops.aten.convolution.default]
    with pytest.MonkeyPatch.context() as patch:  # the rules of 2.12: right placements, and still no gradient from the halo
        for op in (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default):
            patch.delitem(propagator.op_single_dim_strategy_funcs, op, raising=False)
        assert not is_stock_right(mesh)
    assert not is_stock_right(mesh)
    correct_convolutions(mesh)
    assert handlers[torch.ops.aten.convolution.default] is not stock
    assert is_stock_right(mesh), "the check fails where convolutions are right"

    torch.manual_seed(0)
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((1, 2, 4, 16), (2, 1, 7, 7))]
    shards = [
        distribute_tensor(tensor.detach(), mesh, [where]).requires_grad_()
        for tensor, where in zip(tensors, (Shard(3), Replicate()))
    ]

    def loss(x: Tensor, weight: Tensor) -> Tensor:
        return conv2d(x, weight, padding=3, groups=2).sin().sum()

    graphs = Graphs()
    torch.compile(loss, backend=aot_autograd(fw_compiler=graphs, bw_compiler=graphs), fullgraph=True)(*shards).backward()
    loss(*tensors).backward()
    for shard, tensor in zip(shards, tensors):
        torch.testing.assert_close(shard.grad.full_tensor(), tensor.grad, rtol=1e-12, atol=1e-12)
    assert graphs.count("all_to_all") == [1, 2], "of the image, and in the backward once more, and of its gradient"


def check_all() -> None:
    check_stock_and_compiled()
    check_cases()


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.share(0))])
def test_convolutions(world_size: int) -> None:
    ranks.run(check_all, world_size)
