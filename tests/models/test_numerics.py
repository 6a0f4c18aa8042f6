"""The numbers after the pipelines are eager's: results, buffers after a step, gradients, other batch sizes, and from files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_structure

import fxc
from fxc.program.program import Program
from tests.models.captures import EXPORTING, capture_of, case_name, cases, example_inputs, kept, loss_of, model_of, state_of
from tests.models.zoo import resize_batch

CASES = cases(EXPORTING)
MODES = cases(("export",))
DYNAMIC = cases(("export_dynamic",))
TORCH_COMPILE = {(name, True) for name in ("bert", "cond", "llama", "mlp", "moe", "resnet")} | {("resnet", False)}
"""Models and modes for torch.compile, which takes seconds each."""


@functools.cache
def lowered(name: str, train: bool, route: str) -> Program:
    captured = capture_of(name, train, route)
    _, inputs = model_of(name, train)
    args = example_inputs(name, inputs, captured) if isinstance(captured, GraphModule) else None
    return fxc.run_passes(fxc.import_fx(captured, args), "lower-to-torch")


@functools.cache
def simplified(name: str, train: bool, route: str) -> Program:
    return fxc.run_passes(lowered(name, train, route), "simplify")


def step(function: Callable[..., Any], model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, dict[str, Tensor]]:
    """The result of one call, and the model's tensors after it; the model is left as it was."""
    with torch.no_grad(), kept(model):
        torch.manual_seed(0)
        result = function(*inputs)
        return result, {name: tensor.detach().clone() for name, tensor in state_of(model).items()}


def assert_same_step(function: Callable[..., Any], model: nn.Module, inputs: tuple[Any, ...]) -> None:
    expected, state = step(model, model, inputs)
    actual, new_state = step(function, model, inputs)
    assert tree_structure(actual) == tree_structure(expected)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(new_state, state)


@pytest.mark.share(9)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_pipelines(case: tuple[str, bool, str]) -> None:
    model, inputs = model_of(*case[:2])
    for program in (lowered(*case), simplified(*case)):
        assert_same_step(fxc.to_fx(program), model, inputs)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("case", DYNAMIC, ids=case_name)
def test_another_batch_size(case: tuple[str, bool, str]) -> None:
    name, train, _ = case
    model, inputs = model_of(name, train)
    for program in (lowered(*case), simplified(*case)):
        graph = fxc.to_fx(program)
        for size in (2, 3):
            assert_same_step(graph, model, resize_batch(name, inputs, size))


@pytest.mark.share(4)
@pytest.mark.parametrize("case", [c for c in DYNAMIC if not c[1]], ids=case_name)
def test_from_files(case: tuple[str, bool, str], tmp_path: Path) -> None:
    model, inputs = model_of(*case[:2])
    simplified(*case).save(tmp_path / "model.mlir")
    loaded = Program.load(tmp_path / "model.mlir")
    expected, _ = step(model, model, inputs)
    actual, _ = step(fxc.to_fx(loaded), model, inputs)
    assert tree_structure(actual) == tree_structure(expected)
    torch.testing.assert_close(actual, expected)


def gradients(function: Callable[..., Any], model: nn.Module, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Result, gradients and buffers of one training step."""
    with kept(model):
        torch.manual_seed(0)
        result = function(*inputs)
        loss_of(result).backward()
        grads = {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}
        buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
        return {"result": result, "grads": {k: g for k, g in grads.items() if g is not None}, "buffers": buffers}


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize("case", MODES, ids=case_name)
def test_gradients_of_compile(case: tuple[str, bool, str]) -> None:
    model, inputs = model_of(*case[:2])
    with kept(model):
        compiled = fxc.compile(model, inputs, training=True)
    torch.testing.assert_close(gradients(compiled, model, inputs), gradients(model, model, inputs))


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("case", [c for c in MODES if (c[0], c[1]) in TORCH_COMPILE], ids=case_name)
def test_gradients_of_torch_compile(case: tuple[str, bool, str]) -> None:
    model, inputs = model_of(*case[:2])
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fxc", fullgraph=True)
    try:
        torch.testing.assert_close(gradients(compiled, model, inputs), gradients(model, model, inputs))
    finally:
        torch._dynamo.reset()
