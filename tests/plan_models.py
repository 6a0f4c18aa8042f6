"""What tests of execution plans run: one model, an input, and a plan."""

from __future__ import annotations

from typing import Any

import torch

import fxc

PIPELINE = "lower-to-torch,simplify"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 4)
        self.second.weight.requires_grad_(False)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, options: dict[str, Any] | None = None) -> dict[str, torch.Tensor]:
        y = self.second(torch.relu(self.first(x))) * self.scale
        return {"y": y if options is None else y + options["bias"], "sum": y.sum()}


def make_net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def x(rows: int = 3) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(1))


def plan_of(model: Any, *args: Any, options: dict[str, Any] | None = None, **how: Any) -> fxc.ExecutionPlan:
    """A plan that is a graph, of PyTorch's own kernels where ``options`` name no target."""
    return fxc.compile(model, args, options={"target": None, **(options or {})}, **how).plan
