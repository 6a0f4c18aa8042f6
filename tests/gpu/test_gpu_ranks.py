"""Ranks on GPUs, by NCCL, whose collectives go on beside kernels after they are started."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from fxc.distributed import LAYOUTS
from tests import ranks


def check_layouts() -> None:
    """Messages of many megabytes, so that a kernel that reads one before its wait, or writes to one, changes the numbers."""
    mesh = init_device_mesh("cuda", (torch.distributed.get_world_size(),))
    for name in ("data-parallel", "fully-sharded"):
        found = list[list[Tensor]]()
        for backend in (None, "fxc"):
            torch.manual_seed(0)
            layers = [layer for _ in range(6) for layer in (nn.Linear(2047, 2047), nn.GELU())]
            placed = LAYOUTS[name](nn.Sequential(*layers).cuda().double(), mesh)
            x, y = placed.place(*torch.randn(2, 8 * mesh.size(), 2047, device="cuda", dtype=torch.float64))
            step = lambda x, y, placed=placed: nn.functional.mse_loss(placed.model(x), y)  # noqa: E731
            call, optimizer = (
                torch.compile(step, backend=backend) if backend else step,
                torch.optim.SGD(placed.model.parameters()),
            )
            for _ in range(10):
                optimizer.zero_grad()
                loss = call(x, y)
                loss.backward()
                optimizer.step()
            gradients = [each.grad for each in placed.model.parameters()]
            found.append([loss, *(each.to_local() if isinstance(each, DTensor) else each for each in gradients)])
        torch.testing.assert_close(*found, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL has a GPU for each rank")
def test_two_gpus() -> None:
    ranks.run(check_layouts, 2)
