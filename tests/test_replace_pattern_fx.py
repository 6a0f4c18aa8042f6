"""``fxc.replace_pattern`` in programs of the fx level, whose calls are those of the source."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxc
from fxc.errors import CaptureError
from tests.replaced_programs import X, Y, program_of, run


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.fc(x)).view(-1, 2)
        return self.act(y) + torch.cat([y, y]).sum()


def test_calls_on_the_fx_level() -> None:
    model = Net()
    program = program_of(model, X, route="symbolic_trace")
    result = fxc.replace_pattern(program, lambda a: F.relu(a).view(-1, 2), lambda a: F.gelu(a).reshape(-1, 2))
    y = F.gelu(model.fc(X)).view(-1, 2)
    torch.testing.assert_close(run(result, X), torch.relu(y) + torch.cat([y, y]).sum())
    [match] = result.matches
    assert match.replaced == ("relu", "view") and match.arguments == ("fc",)
    lowered = fxc.run_passes(result, "lower-to-torch")
    torch.testing.assert_close(run(lowered, X), torch.relu(y) + torch.cat([y, y]).sum())


def test_fx_level_as_torch_fx_has_it() -> None:
    """The examples of torch.fx.replace_pattern's own documentation, compared with it."""

    def model(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        m1 = torch.cat([w1, w2]).sum()
        m2 = torch.cat([w1, w2]).sum()
        return x + torch.max(m1) + torch.max(m2)

    def pattern(w1: Tensor, w2: Tensor) -> Tensor:
        return torch.cat([w1, w2])

    def replacement(w1: Tensor, w2: Tensor) -> Tensor:
        return torch.stack([w1, w2])

    program = program_of(model, X, X, Y, route="symbolic_trace")
    result = fxc.replace_pattern(program, pattern, replacement)
    graph = torch.fx.symbolic_trace(model)
    theirs = torch.fx.replace_pattern(graph, pattern, replacement)
    assert len(result.matches) == len(theirs) == 2
    ours = fxc.to_fx(result)
    assert [(n.op, n.target) for n in ours.graph.nodes] == [(n.op, n.target) for n in graph.graph.nodes]
    torch.testing.assert_close(ours(X, X, Y), graph(X, X, Y))


def test_fx_modules_by_path() -> None:
    class Old(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(x)

    class New(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.other = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.other(x)

    model, new = Net(), New()
    program = program_of(model, X, route="symbolic_trace")
    result = fxc.replace_pattern(program, Old(), new)
    y = F.relu(model.fc(X)).view(-1, 2)
    assert len(result.matches) == 1 and "fx.module @other" in str(result) and "other.weight" in result.state
    torch.testing.assert_close(run(result, X), new(y) + torch.cat([y, y]).sum())
    assert "other.weight" not in program.state


def test_fx_level_defaults_and_writes() -> None:
    def model(x: Tensor) -> Tensor:
        y = torch.exp(x)
        y.add_(1)
        return F.relu(x) * y

    program = program_of(model, X, route="symbolic_trace")
    assert len(fxc.replace_pattern(program, lambda a: F.relu(a, False), lambda a: a.sin()).matches) == 1
    product = fxc.replace_pattern(program, lambda a: F.relu(a) * torch.exp(a), lambda a: a.sin())
    assert not product.matches
    with pytest.raises(CaptureError, match="the pattern writes"):
        fxc.replace_pattern(program, lambda a: a.add_(1), lambda a: a + 1)


@pytest.mark.parametrize("operate", [operator.and_, operator.or_, operator.xor])
def test_operators_whose_names_are_python_words_write_nothing(operate: Callable[..., Any]) -> None:
    def model(x: Tensor) -> Tensor:
        return torch.neg(operate(torch.abs(x), x))

    program = program_of(model, X.int(), route="symbolic_trace")
    result = fxc.replace_pattern(program, lambda a: operate(torch.abs(a), a), lambda a: a + 1)
    assert len(result.matches) == 1
    torch.testing.assert_close(run(result, X.int()), -(X.int() + 1))


def test_arithmetic_of_sizes_is_no_fx_level() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)

    def model(x: Tensor) -> Tensor:
        return torch.relu(x).reshape(x.shape[0] * 2, -1)

    program = program_of(model, torch.randn(3, 4), dynamic_shapes=({0: batch},))
    assert "operator.mul" in str(program)
    assert len(fxc.replace_pattern(program, torch.relu, lambda x: F.gelu(x)).matches) == 1


def test_dynamo_route_keeps_types() -> None:
    model = Net()
    program = program_of(model, X, route="dynamo")
    result = fxc.replace_pattern(program, lambda a: F.relu(a), lambda a: F.gelu(a))
    assert len(result.matches) == 2 and "!fx.value" not in str(result).split("%relu")[0].rsplit("->", 1)[0]
    y = F.gelu(model.fc(X)).view(-1, 2)
    returned = run(result, X)
    returned = returned[0] if isinstance(returned, tuple) else returned
    torch.testing.assert_close(returned, F.gelu(y) + torch.cat([y, y]).sum())
