"""Compiled functions inside of traces, of transforms and of other compilations: right, or an error. Traces see no kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import fxc
from fxc.errors import CaptureError, FallbackWarning, InputError

X, OTHER = torch.randn(6, 8), torch.randn(6, 8)


def kernels(x: Tensor) -> Tensor:
    return x.tanh() * 2 + x


def library_first() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).eval()


PARTS: dict[str, Callable[[], Callable[..., Any]]] = {
    "kernels": lambda: fxc.compile(kernels, (X,)),
    "library first": lambda: fxc.compile(library_first(), (X,)),
    "library only": lambda: fxc.compile(nn.Linear(8, 8), (X,)),
    "training": lambda: fxc.compile(kernels, (X,), training=True, options={"target": "host"}),
    "training, library first": lambda: fxc.compile(library_first(), (X,), training=True, options={"target": "host"}),
}


class Whole(nn.Module):
    def __init__(self, part: Callable[..., Any]) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x) + 1


@pytest.mark.parametrize("part", PARTS)
def test_traces_are_errors(part: str) -> None:
    model = Whole(PARTS[part]())
    traces: list[Callable[[], Any]] = [
        lambda: torch.export.export(model, (X,)),
        lambda: make_fx(model)(X),
        lambda: make_fx(model, pre_dispatch=True)(X),
    ]
    if part != "training, library first":  # torch.jit.trace refuses its weights, which the model does not hold
        traces.append(lambda: torch.jit.trace(model, X))
    for trace in traces:
        with pytest.raises(InputError, match="runs in a trace, which does not record"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace()
    torch.testing.assert_close(model(OTHER), model.part(OTHER) + 1)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_a_model_that_calls_one_runs_in_parts(part: str, training: bool) -> None:
    model = Whole(PARTS[part]())
    for refused in (fxc.compile, fxc.capture):
        with pytest.raises(CaptureError, match="the model calls 'part', which is compiled"):
            refused(model, (X,))
    with pytest.warns(FallbackWarning, match="the model calls 'part', which is compiled"):
        compiled = fxc.compile(model, (X,), training=training, options={"fallback": True})
    torch._dynamo.reset()
    for run in (compiled, torch.compile(model, backend="fxc")):
        torch.testing.assert_close(run(OTHER), model(OTHER))


def test_the_weights_of_a_compiled_part_are_trained_and_followed() -> None:
    net: Any = library_first()
    with pytest.warns(FallbackWarning):
        compiled = fxc.compile(Whole(fxc.compile(net, (X,), training=True)), (X,), training=True, options={"fallback": True})
    (compiled(OTHER) * OTHER).sum().backward()
    found = [each.grad for each in net.parameters()]
    net.zero_grad()
    (net(OTHER) * OTHER).sum().backward()
    torch.testing.assert_close(found, [each.grad for each in net.parameters()])
    net[0].weight = nn.Parameter(net[0].weight.detach() * 2)
    torch.testing.assert_close(compiled(OTHER), net(OTHER) + 1)


def test_a_graph_of_operators_is_traced() -> None:
    part = fxc.compile(kernels, (X,), training=True)
    for traced in (make_fx(Whole(part))(X), torch.export.export(Whole(part), (X,)).module()):
        torch.testing.assert_close(traced(OTHER), kernels(OTHER) + 1)


@pytest.mark.parametrize("part", ["kernels", "library first", "library only"])
def test_transforms_are_errors(part: str) -> None:
    compiled = PARTS[part]()

    def forward_mode() -> None:
        with forward_ad.dual_level():
            compiled(forward_ad.make_dual(X, X))

    transforms: list[Callable[[], Any]] = [
        lambda: torch.vmap(compiled)(X[None].expand(3, 6, 8)),
        lambda: torch.func.jvp(compiled, (X,), (X,)),
        forward_mode,
    ]
    for transform in transforms:
        with pytest.raises(InputError, match="an input is a tensor of a transform"):
            transform()
