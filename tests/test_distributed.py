"""Layouts train as one process does: the losses and every gradient; failures of collectives name rank and operation."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from fxc.distributed import LAYOUTS, Distributed, process_group
from fxc.errors import InputError
from tests import ranks

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.append(str(EXAMPLES))
from models import convnext, gpt2  # noqa: E402
from train_convnext import split_gpt2  # noqa: E402

Build = Callable[[nn.Module, DeviceMesh], Distributed]


def cases() -> list[tuple[str, nn.Module, Tensor, Tensor, Build]]:
    torch.manual_seed(0)
    images = convnext.Model(depths=(1, 1), dims=(8, 12), classes=5, drop_path=0, layer_scale=0.1).double()
    words = gpt2.Model(vocab=61, context=16, layers=2, width=24, heads=4, dropout=0).double()
    normed = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten()).double()
    image, sequence = torch.randn(4, 3, 32, 128, dtype=torch.float64), torch.randint(61, (4, 11))
    found = [(name, images, image, torch.arange(4), build) for name, build in LAYOUTS.items()]
    buffers = [(f"{name}, buffers", normed, image, torch.arange(4), LAYOUTS[name]) for name in ("spatial", "replicated")]
    return [
        *found,
        *buffers,
        ("GPT-2, tensor-parallel", words, sequence[:, :-1], sequence[:, 1:], split_gpt2),
        ("GPT-2, fully-sharded", words, sequence[:, :-1], sequence[:, 1:], LAYOUTS["fully-sharded"]),
    ]


def losses(
    steps: int, model: nn.Module, x: Tensor, y: Tensor, mean: Callable[[Tensor], float], compiled: Any = None
) -> list[float]:
    """The losses of ``steps``; the gradients of the last one stay."""
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.5), list[float]()

    def function(x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x).flatten(0, -2), y.flatten())

    torch._dynamo.reset()
    step = torch.compile(function, backend=compiled, fullgraph=True) if compiled else function
    for _ in range(steps):
        optimizer.zero_grad()
        loss = step(x, y)
        loss.backward()
        optimizer.step()
        found.append(mean(loss))
    return found


def check_layouts(steps: int = 3) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for name, model, x, y, build in cases():
        whole, graphs = copy.deepcopy(model), list[torch.fx.GraphModule]()
        expected = losses(steps, whole, x, y, Tensor.item)

        def backend(graph: torch.fx.GraphModule, inputs: Any, graphs: list[Any] = graphs) -> Any:
            graphs.append(graph)
            return make_boxed_func(graph.forward)

        in_graphs = aot_autograd(fw_compiler=backend, bw_compiler=backend)
        for compiled in (None, in_graphs) if steps > 3 or name in ("spatial", "fully-sharded") else (None,):
            placed = build(copy.deepcopy(model), mesh)
            assert list(placed.model.state_dict()) == list(model.state_dict()), "checkpoints have the names of the model"
            found = losses(steps, placed.model, *placed.place(x, y), placed.mean, compiled)
            torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11, msg=name)
            for (parameter, one), other in zip(placed.model.named_parameters(), whole.parameters(), strict=True):
                gradient = one.grad.full_tensor() if isinstance(one.grad, DTensor) else one.grad
                gradient = gradient.view(other.shape)
                torch.testing.assert_close(gradient, other.grad, rtol=1e-9, atol=1e-10, msg=f"{name}, {parameter}")
        names = [str(node.target) for graph in graphs for node in graph.graph.nodes]
        parameters = len(list(whole.parameters()))
        reduction = {"data-parallel": "all_reduce", "fully-sharded": "reduce_scatter"}.get(name)
        if graphs and reduction:
            assert sum(reduction in name for name in names) == parameters * (mesh.size() > 1), (
                "every reduction stands in a graph"
            )


def check_twenty_steps() -> None:
    check_layouts(20)


@pytest.mark.slow
def test_layouts() -> None:
    ranks.run(check_layouts, 2)


@pytest.mark.share(0)
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_twenty_steps(world_size: int) -> None:
    ranks.run(check_twenty_steps, world_size)


def check_two_axes() -> None:
    """Samples are divided on one axis of the mesh, and the model on the other."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model, words = gpt2.Model(vocab=17, context=8, layers=1, width=8, heads=2, dropout=0).double(), torch.randint(17, (4, 7))
    whole, x, y = copy.deepcopy(model), words[:, :-1], words[:, 1:]
    expected = losses(3, whole, x, y, Tensor.item)
    for compiled in (None, "fxc"):
        divided = split_gpt2(copy.deepcopy(model), mesh["tensor"]).model
        if compiled is None:
            for layout in ("fully-sharded", "spatial"):
                with pytest.raises(InputError, match=r"\.weight is a DTensor on DeviceMesh.*\n  hint: divide parameters once"):
                    LAYOUTS[layout](divided, mesh["data"])
        placed = LAYOUTS["data-parallel"](divided, mesh["data"])
        found = losses(3, placed.model, *placed.place(x, y), placed.mean, compiled)
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)
        for one, other in zip(placed.model.parameters(), whole.parameters(), strict=True):
            assert isinstance(one.grad, DTensor) and one.grad.device_mesh == mesh["tensor"] and other.grad is not None
            torch.testing.assert_close(one.grad.full_tensor().view(other.shape), other.grad, rtol=1e-9, atol=1e-10)


@pytest.mark.share(0)  # four ranks on two cores
def test_two_axes() -> None:
    ranks.run(check_two_axes, 4)


def call_others() -> None:
    """Rank 1 calls another collective than rank 0."""
    mesh, x = init_device_mesh("cpu", (2,)), torch.ones(3, 5)
    placed = LAYOUTS["spatial"](nn.Conv2d(3, 4, 3, padding=1), mesh)
    with pytest.raises(InputError, match=r"dimension 3 of \[1, 3, 8, 9\] is not a multiple of the 2 ranks\n  hint: choose"):
        placed.place(torch.ones(1, 3, 8, 9), torch.ones(1))
    with pytest.raises(InputError, match=r"^1 is LSTM, which reads its weights from a list of tensors\n  hint: write"):
        LAYOUTS["replicated"](nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2)), mesh)
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=3), dist.group.WORLD)
    torch.add(all_gather_tensor(x, 0, mesh) if dist.get_rank() else all_reduce(x, "sum", mesh), 1)


def fail() -> None:
    """Rank 1 raises while rank 0 waits for it."""
    x, mesh = torch.ones(3), init_device_mesh("cpu", (2,))
    if dist.get_rank():
        raise ValueError("an empty batch")
    torch.add(all_reduce(x, "sum", mesh), 1)


def end() -> None:
    """Rank 1 ends."""
    if dist.get_rank():
        os._exit(0)
    torch.add(all_reduce(torch.ones(3), "sum", init_device_mesh("cpu", (2,))), 1)


@pytest.mark.slow
def test_an_error_names_ranks_and_operations() -> None:
    with pytest.raises(AssertionError) as caught:
        ranks.run(call_others, 2)
    called = [rf"all_{name} of Float\[3, 5\] \(collective \d+\)" for name in ("reduce", "gather")]
    for rank, other in ((0, 1), (1, 0)):
        pattern = rf"CollectiveError: rank {rank}: {called[rank]} failed: .*\n.* at: rank {other}: {called[other]}\n.*hint: "
        assert re.search(pattern, str(caught.value)), caught.value


def test_an_error_names_the_exception_of_another_rank() -> None:
    with pytest.raises(AssertionError, match=r"rank 0: all_reduce of .*\n.*  at: rank 1: ValueError: an empty batch\n"):
        ranks.run(fail, 2)


@pytest.mark.share(0)
def test_an_error_names_the_rank_that_ended() -> None:
    with pytest.raises(AssertionError, match=r"CollectiveError: rank 0: all_reduce of .*\n.*  at: rank 1: no answer\n"):
        ranks.run(end, 2)


def test_threads_of_gloo_end_with_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that releases a tensor during the end of the interpreter aborts the process."""
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    with process_group() as mesh:
        torch.add(all_reduce(torch.ones(3), "sum", mesh), 1)
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert mesh.size() == 1 and not any("gloo" in name for name in names)


def test_a_restart_does_not_see_the_ranks_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun's store is the same after a restart."""
    store, found = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False), list[bool]()
    known = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": store.port}
    for restart in (0, 1):
        for name, value in (known | {"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": restart}).items():
            monkeypatch.setenv(name, str(value))
        with process_group():
            found.append(dist.distributed_c10d._get_default_store().check(["address"]))
            dist.distributed_c10d._get_default_store().set("address", "a port")
    assert found == [False, False]


def train(*options: str, torchrun: tuple[str, ...] = ()) -> str:
    """What the example prints."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--max-restarts=3",
        *torchrun,
        str(EXAMPLES / "train_convnext.py"),
    ]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def table(printed: str) -> dict[int, str]:
    """Step -> losses."""
    return {int(line.split()[0]): line for line in printed.splitlines() if re.match(r" +\d+ ", line)}


@pytest.mark.share(0)
def test_a_killed_rank_starts_again(tmp_path: Path) -> None:
    """Its losses are those of a run without a failure; another layout on another number of ranks reads the checkpoint."""
    two = ("--nproc-per-node=2",)
    whole = table(train("--layout=fully-sharded", "--steps=8", torchrun=two))
    checkpoint = ("--save-every=3", f"--checkpoint={tmp_path}")
    killed = train(
        "--layout=fully-sharded",
        "--steps=8",
        "--kill-rank=1",
        "--kill-step=4",
        *checkpoint,
        torchrun=two,
    )
    assert re.search("rank 1: goes on from step 3, ", killed)
    assert table(killed) == whole and list(table(killed)) == list(range(8))
    for count in (1, 4):
        other = train("--layout=spatial", "--steps=8", *checkpoint, torchrun=(f"--nproc-per-node={count}",))
        assert list(table(other)) == [6, 7]


@pytest.mark.share(0)
@pytest.mark.parametrize("layout", [*LAYOUTS, "tensor-parallel"])
def test_example(layout: str) -> None:
    model = "gpt2" if layout == "tensor-parallel" else "convnext"
    printed = train(f"--layout={layout}", f"--model={model}", torchrun=("--nproc-per-node=4",))
    assert len(table(printed)) == 20 and float(printed.split("difference: ")[1]) < 1e-5
