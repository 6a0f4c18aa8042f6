"""Compiled functions inside of traces, of transforms and of other compilations: right, or an error. Traces see no kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import fxc
from fxc.bridge.autograd_functions import recorded
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


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2


def test_other_threads_run_autograd_functions_during_a_capture() -> None:
    found = list[Any]()

    def train() -> None:
        try:
            x = torch.ones(3, requires_grad=True)
            with torch.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
                Double.apply(x).sum().backward()
            found.append(x.grad)
        except Exception as error:
            found.append(error)

    def traced(x: Tensor) -> Tensor:
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        return Double.apply(x)

    with recorded():
        graph = make_fx(traced, pre_dispatch=True)(torch.ones(3, requires_grad=True))
    assert torch.equal(found[0], torch.full((3,), 2.0))
    assert any("autograd_function_apply" in str(node.target) for node in graph.graph.nodes)


def test_a_process_without_stderr() -> None:
    code = """
import sys
sys.stderr = None
import torch, fxc
def f(x): return x.relu() + 1
for compiled in (fxc.compile(f, (torch.ones(3),), options={"check_numerics": "call"}), torch.compile(f, backend="fxc")):
    print(compiled(torch.ones(3)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.stdout == "[2.0, 2.0, 2.0]\n" * 2, done


def test_models_of_fsdp() -> None:
    """Before their first call, an error that leaves the model as it was; in parts after it."""
    code = """
import warnings
import torch, fxc, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
warnings.simplefilter("ignore")
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
fully_shard(model)
x = torch.randn(5, 8)
for training in (False, True):
    try:
        fxc.compile(model, (x,), training=training)
    except fxc.errors.CaptureError as error:
        print(error.hint)
expected = model(x)
print(torch.equal(fxc.compile(model, (x,), training=True)(x), expected), torch.equal(model(x), expected))
dist.destroy_process_group()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, env=os.environ | {"FXC_FALLBACK": "1"}
    )
    hint = "call the model once before you compile it, which then runs in parts\n"
    assert done.stdout == hint * 2 + "True True\n", done.stderr
