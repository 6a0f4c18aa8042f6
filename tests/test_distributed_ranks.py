"""Two ranks: layouts train as in eager mode, one rank compiles for both, and different graphs are an error."""

import os
import re
import tempfile
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d
from torch.nn.utils.parametrize import register_parametrization

from tests.ranks import run


class Gathered(nn.Module):
    """A parameter from its parts. Its gradient is an average, so the collective of it is part of the graph."""

    def forward(self, part: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, Partial, Replicate

        assert isinstance(part, DTensor)
        return part.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial("avg")])


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 7)).double()  # 7: uneven shards


def distributed(layout: str, mesh: dist.DeviceMesh, x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor, Tensor]:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    whole, rank = model(), mesh.get_rank()
    mine = slice(rank * len(x) // mesh.size(), (rank + 1) * len(x) // mesh.size())
    match layout:
        case "data parallel" | "replicated":
            placements = [Shard(0) if layout == "data parallel" else Replicate()]
            given = (distribute_tensor(each, mesh, placements) for each in (x, y))
            return distribute_module(whole, mesh), *given
        case "gradients reduced" | "parameters gathered":
            for module in list(whole.modules()):
                for name, parameter in list(module.named_parameters(recurse=False)):
                    placements = [Replicate() if layout == "gradients reduced" else Shard(0)]
                    part = nn.Parameter(distribute_tensor(parameter.data, mesh, placements))
                    module.register_parameter(name, part)
                    register_parametrization(module, name, Gathered(), unsafe=True)
            return whole, x[mine], y[mine]
        case "tensor parallel":
            columns, rows = ColwiseParallel(output_layouts=Replicate()), RowwiseParallel(input_layouts=Replicate())
            return parallelize_module(whole, mesh, {"0": columns, "3": rows}), x, y
        case _:
            fully_shard(whole, mesh=mesh)
            return whole, x[mine], y[mine]


LAYOUTS = ("data parallel", "parameters gathered", "tensor parallel")
OTHERS = ("replicated", "gradients reduced", "fully_shard")


def trained(layout: str, mesh: dist.DeviceMesh, backend: str | None) -> list[Tensor]:
    """Losses and gradients of two steps."""
    from torch.distributed.tensor import DTensor

    torch.manual_seed(1)
    whole, x, y = distributed(layout, mesh, torch.randn(8, 16).double(), torch.randint(0, 7, (8,)))

    def step(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(whole(x), y)

    if backend is not None:
        torch._dynamo.reset()
    call = torch.compile(step, backend=backend, fullgraph=layout != "fully_shard") if backend is not None else step
    optimizer, found = torch.optim.SGD(whole.parameters(), 0.1), list[Tensor]()
    for _ in range(2):
        optimizer.zero_grad()
        loss = call(x, y)
        loss.backward()
        found += [loss.detach(), *(p.grad for p in whole.parameters() if p.grad is not None)]
        optimizer.step()
    return [each.full_tensor() if isinstance(each, DTensor) else each.clone() for each in found]


def check_layouts(layouts: tuple[str, ...]) -> dist.DeviceMesh:
    torch.set_num_threads(1)
    distributed_c10d._get_default_store().set_timeout(timedelta(seconds=200))  # one rank waits while the other compiles
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    for layout in layouts:
        expected, found = trained(layout, mesh, None), trained(layout, mesh, "fxc")
        torch.testing.assert_close(found, expected, msg=lambda message, layout=layout: f"{layout}: {message}")
    return mesh


def first_layouts() -> None:
    mesh = check_layouts(LAYOUTS)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"FXC_CACHE_DIR": folder, "FXC_CACHE_PLANS": "1"}
        compile_once(mesh)
    leave_what_one_rank_cannot_merge(mesh)
    refuse_different_graphs(mesh)


def other_layouts() -> None:
    check_layouts(OTHERS)


def compile_once(mesh: dist.DeviceMesh) -> None:
    from fxc.compilation.passes import Passes

    group, runs, compile = mesh.get_group(), list[int](), Passes.compile
    Passes.compile = lambda *args: runs.append(1) or compile(*args)  # type: ignore[method-assign]
    both = torch.compile(lambda x: functional.all_reduce(x * 3, "sum", group) + 1, backend="fxc", fullgraph=True)
    assert both(torch.ones(7)).tolist() == [7.0] * 7
    count = torch.tensor(len(runs))
    dist.all_reduce(count)
    assert count == 1, f"{count} ranks compile"


def leave_what_one_rank_cannot_merge(mesh: dist.DeviceMesh) -> None:
    """The second collective of one rank needs the result of the first: both ranks have two."""
    rank, group = dist.get_rank(), mesh.get_group()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total = functional.all_reduce(x, "sum", group)
        return total, functional.all_reduce(y + total if rank else y * 2, "sum", group)

    x, y = torch.full((3,), 1.0), torch.full((3,), 10.0)
    for _ in range(2):
        torch._dynamo.reset()
        total, more = torch.compile(step, backend="fxc", fullgraph=True)(x, y)
        assert (total.tolist(), more.tolist()) == ([2.0] * 3, [32.0] * 3)


def refuse_different_graphs(mesh: dist.DeviceMesh) -> None:
    rank, group = dist.get_rank(), mesh.get_group()

    def reduced(x: Tensor, kind: str = "sum") -> Tensor:
        return functional.all_reduce(x, kind, group)

    def gathered(x: Tensor) -> Tensor:
        return functional.all_gather_tensor(x, 0, group)

    cases: list[tuple[Callable[[Tensor], object], Callable[[Tensor], object], str]] = [
        (reduced, lambda x: reduced(x[1:]), "all_reduce over [0, 1] of tensor<3xf32> sum"),
        (reduced, lambda x: reduced(x.double()), "all_reduce over [0, 1] of tensor<5xf64> sum"),
        (reduced, lambda x: reduced(x, "avg"), "all_reduce over [0, 1] of tensor<6xf32> avg"),
        (lambda x: (reduced(x), gathered(x)), lambda x: (gathered(x), reduced(x)), "all_gather_into_tensor over [0, 1]"),
    ]
    for size, (first, second, other) in enumerate(cases, 4):
        torch._dynamo.reset()
        texts = [other if each else f"all_reduce over [0, 1] of tensor<{size}xf32> sum" for each in (rank, 1 - rank)]
        mine, theirs = (re.escape(f"rank {each} has {text}") for each, text in zip((rank, 1 - rank), texts, strict=True))
        with pytest.raises(Exception, match=f"collective 0 differs between ranks: {mine}.*, {theirs}"):
            torch.compile(second if rank else first, backend="fxc", fullgraph=True)(torch.ones(size))
    dist.barrier()


@pytest.mark.slow
def test_two_ranks() -> None:
    run(first_layouts, 2, timeout=300)


@pytest.mark.share(0)
def test_two_ranks_in_other_layouts() -> None:
    run(other_layouts, 2, timeout=300)
