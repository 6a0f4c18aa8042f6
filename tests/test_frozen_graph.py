"""``torch.compile(backend="fxc", options={"freeze": True})``: weights as they are, for as long as they are that."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch
from torch import nn

import fxc
from fxc.frontends.frozen_graph import FrozenGraph


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)]
    for statistics in (layers[1].running_mean, layers[1].running_var):
        assert isinstance(statistics, torch.Tensor)
        statistics.uniform_(0.5, 2.0)
    return nn.Sequential(*layers).eval()


def compiled(model: nn.Module, **options: object) -> nn.Module:
    made = torch.compile(model, backend="fxc", options={"target": "host", "freeze": True, **options})
    assert isinstance(made, nn.Module)
    return made


def assert_eagers(made: nn.Module, model: nn.Module, x: torch.Tensor) -> None:
    torch.testing.assert_close(made(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.fixture
def programs() -> Iterator[list[str]]:
    """The text of each program that weights were frozen in."""
    torch._dynamo.reset()
    found, made = list[str](), FrozenGraph._program

    def program(self: FrozenGraph, weights: list[torch.Tensor]) -> object:
        found.append(str(result := made(self, weights)))
        return result

    with patch.object(FrozenGraph, "_program", program):
        yield found
    torch._dynamo.reset()


X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_weights_are_frozen_once(mode: type[torch.no_grad], programs: list[str]) -> None:
    model = network()
    made = compiled(model)
    with mode():
        for _ in range(3):
            assert_eagers(made, model, X)
    assert len(programs) == 1
    assert programs[0].count('fx.kind = "parameter"') == 8, "four parameters of layers, and a batch norm's four tensors"


def test_weights_that_were_written_are_frozen_anew(programs: list[str]) -> None:
    model = network()
    made = compiled(model)
    with torch.no_grad():
        assert_eagers(made, model, X)
        model[4].weight.mul_(2.0)
        assert_eagers(made, model, X)
        model[1].running_mean.zero_()
        assert_eagers(made, model, X)
        model.load_state_dict(network(1).state_dict())
        assert_eagers(made, model, X)
    assert len(programs) == 4


def test_models_that_share_a_graph_have_their_own_weights(programs: list[str]) -> None:
    models = [network(seed) for seed in range(3)]
    made = [compiled(model, cache_size=2) for model in models]
    with torch.no_grad():
        for _ in range(2):
            for each, model in zip(made, models, strict=True):
                assert_eagers(each, model, X)


def test_where_gradients_are_on_nothing_is_frozen(programs: list[str]) -> None:
    model = network()
    made = compiled(model)
    ours = torch.autograd.grad(made(X).square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(model(X).square().sum(), list(model.parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert not programs


def test_what_a_call_writes_is_not_frozen(programs: list[str]) -> None:
    """The statistics of a batch norm in train mode."""
    model, eager = network().train(), network().train()
    made = compiled(model)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(made(X), eager(X), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.state_dict(), eager.state_dict())
    assert len(programs) == 1


class Counting(torch.nn.Module):
    """Weights that are packed, read as they are, read in a view, and broadcast; a buffer that calls write."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.linear = torch.nn.Embedding(5, 8), torch.nn.Linear(8, 16)
        self.scale, self.shift = torch.nn.Parameter(torch.randn(16)), torch.nn.Parameter(torch.randn(1).expand(16).detach())
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.linear(self.rows(x)) * self.scale[::2].repeat(2) + self.shift


@pytest.mark.parametrize("target", ["host", None])
def test_a_frozen_function_has_weights_of_its_own(target: str | None) -> None:
    model, x = Counting().eval(), torch.tensor([0, 3])
    with torch.no_grad():
        frozen = fxc.compile(model, (x,), options={"freeze": True, "target": target})
        before = model(x)
        for weight in (model.rows.weight, model.linear.weight, model.linear.bias, model.scale):
            weight.mul_(-2)
        torch.testing.assert_close(frozen(x), before)
    assert model.calls == 2


@pytest.mark.parametrize(
    "shape, window, given, packed",
    [
        ((7, 4, 16, 1), (2, 1), {"stride": 2, "padding": 1, "dilation": 2}, False),
        ((1, 4, 2, 2), (2, 2), {"padding": 1, "dilation": 3}, False),
        ((1, 4, 4, 4), (7, 7), {"padding": 3}, True),
    ],
)
def test_a_convolution_is_not_packed_where_a_window_reads_padding_only(
    shape: tuple[int, ...], window: tuple[int, int], given: dict[str, int], packed: bool
) -> None:
    """oneDNN's kernels crash for such windows."""
    model, x = nn.Conv2d(4, 2, window, **given).eval(), torch.randn(shape)
    pipeline = "lower-to-torch,pack-weights{gain=1.0e30}"  # whatever is measured
    with torch.no_grad():
        program = fxc.run_passes(fxc.capture(model, (x,)), pipeline)
        assert ("mkldnn" in program.text()) == packed
        torch.testing.assert_close(fxc.to_fx(program)(x), model(x))
