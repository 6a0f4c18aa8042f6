"""PyTorch's samples of modules (``module_db``) in training and evaluation, by both routes: results, gradients and buffers."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.testing import assert_close
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

import fxc
from fxc.errors import CaptureError

SAMPLES, MODULES = 2, {info.formatted_name: info for info in module_db}
BRANCHING = ("nn_CTCLoss", "nn_GaussianNLLLoss", "nn_Transformer", "nn_TransformerEncoder")
"""Modules that read values of tensors in Python, which fxc.compile refuses."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def samples(name: str) -> Iterator[tuple[nn.Module, Arguments]]:
    """Modules with arguments of a call, in each mode that is different; always the same."""
    info = MODULES[name]
    dtype = torch.float32 if torch.float32 in info.dtypes else info.dtypes[0]
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        found = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        found = [each for each in found if each.forward_input is not None]
        for each in sorted(found, key=lambda each: zlib.crc32(f"{name} {found.index(each)}".encode()))[:SAMPLES]:
            made = each.constructor_input
            module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
            yield module, (each.forward_input.args, each.forward_input.kwargs)


def step(call: Callable[..., Any], module: nn.Module, arguments: Arguments) -> list[Tensor | None]:
    """Results, gradients of inputs and parameters, and buffers."""
    args, kwargs = tree_map(_leaf, arguments)
    torch.manual_seed(1)
    results = [leaf for leaf in tree_leaves(call(*args, **kwargs)) if isinstance(leaf, Tensor)]
    if roots := [result for result in results if result.requires_grad]:
        torch.autograd.backward(roots, [torch.linspace(0.5, 1.5, r.numel()).view(r.shape).to(r.dtype) for r in roots])
    inputs = [leaf.grad for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    return [*(r.detach() for r in results), *inputs, *(p.grad for p in module.parameters()), *module.buffers()]


def _leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


@pytest.mark.share(20)
@pytest.mark.parametrize("route", ["compile", "torch.compile"])
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_module(name: str, route: str) -> None:
    ran = 0
    for module, arguments in samples(name):
        if route == "compile" and isinstance(module, LazyModuleMixin):
            continue  # has no parameters before its first call
        twin = copy.deepcopy(module)
        expected = step(twin, twin, arguments)
        if route == "compile":
            try:
                call = fxc.compile(module, *tree_map(_leaf, arguments), training=True)
            except CaptureError as error:
                assert name in BRANCHING and "use torch.compile(model" in str(error)
                continue
        else:
            torch._dynamo.reset()
            call = torch.compile(module, backend="fxc")
        assert_close(step(call, module, arguments), expected, rtol=1e-4, atol=1e-5, equal_nan=True)
        ran += 1
    assert ran or "Lazy" in name or name in BRANCHING
