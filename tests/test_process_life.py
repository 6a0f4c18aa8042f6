"""Compiled models in the life of a process: interrupts, other threads, no stderr, modules that a first call sets up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import fxc
from fxc.bridge.autograd_functions import recorded

X = torch.randn(5, 8)


@pytest.mark.parametrize("target", ["host", None])
def test_an_interrupt_restores_grad_mode(target: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises KeyboardInterrupt as soon as the function that switches it returns."""
    compiled, switch = fxc.compile(torch.nn.Linear(8, 8), (X,), options={"target": target}), torch._C._set_grad_enabled

    def interrupted(mode: bool) -> None:
        switch(mode)
        if not mode:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch._C, "_set_grad_enabled", interrupted)
    compiled.plan._bind_again()
    with pytest.raises(KeyboardInterrupt):
        compiled(X)
    assert torch.is_grad_enabled()


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


@pytest.mark.slow
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


@pytest.mark.slow
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
