"""Models whose submodules and tensors have names of attributes that every GraphModule has."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxc


class Named(nn.Module):
    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        self.linear, self.name = nn.Linear(3, 3), name
        if kind == "submodule":
            self.add_module(name, nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
        elif kind == "parameter":
            self.register_parameter(name, nn.Parameter(torch.full((3,), 2.0)))
        elif kind == "buffer":
            self.register_buffer(name, torch.full((3,), 2.0))
        else:
            setattr(self, name, torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        named = getattr(self, self.name)
        return named(self.linear(x)) if isinstance(named, nn.Module) else self.linear(x) * named


@pytest.mark.parametrize("kind", ["submodule", "parameter", "buffer", "constant"])
@pytest.mark.parametrize("name", ["graph", "code", "meta", "_graph", "recompile"])
def test_names_of_a_graph_module(name: str, kind: str) -> None:
    model, x = Named(name, kind).eval(), torch.randn(2, 3, requires_grad=True)
    expected = model(x)
    torch.testing.assert_close(fxc.to_fx(fxc.capture(model, (x,)))(x), expected)
    torch.testing.assert_close(fxc.compile(model, (x,))(x), expected)
    weights = [*model.parameters()]
    actual = fxc.compile(model, (x,), training=True)(x)
    gradients = [torch.autograd.grad(result.pow(2).sum(), [x, *weights]) for result in (actual, expected)]
    torch.testing.assert_close(*gradients)
