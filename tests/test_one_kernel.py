"""What people write kernels for by hand is one kernel: forward, and at most two backward, by both routes to gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

import fxc
from fxc.compilation.passes import Passes
from fxc.dialects.autodiff import SubgraphOp
from fxc.dialects.base.effects import aliases, is_random
from fxc.dialects.fusion import GroupOp
from fxc.dialects.tile import LaunchOp
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.options import Options
from fxc.passes.rewriting.functions import derivatives
from fxc.runtime.autograd import HostSubgraph

TARGET = "host"
KERNELS = "lower-to-torch,canonicalize,optimize{reductions=true},lower-kernels"
Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """``inputs`` makes the arguments of ``function``, of which those of the dtype that is asked for need gradients."""

    function: Callable[..., Any]
    inputs: Callable[[torch.dtype], Tensors]


def _randn(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    return lambda dtype: torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def _flipped(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    return lambda dtype: _randn(*sizes)(dtype).flip(0)


def _all(*makers: Callable[[torch.dtype], torch.Tensor]) -> Callable[[torch.dtype], Tensors]:
    return lambda dtype: tuple(make(dtype) for make in makers)


def layer_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = x + r
    return F.layer_norm(hidden, (64,), w, b), hidden


ANGLES = torch.outer(torch.arange(8.0), 10000 ** -(torch.arange(32.0) % 16 / 16)).unsqueeze(1)
TABLES = {dtype: (ANGLES.cos().to(dtype), ANGLES.sin().to(dtype)) for dtype in (torch.float32, torch.bfloat16, torch.float64)}


def rotary(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """RMSNorm of each head, and its halves turned by angles that grow with the place."""
    hidden = F.rms_norm(x, (32,), w, 1e-6)
    first, second = hidden.chunk(2, -1)
    turned = torch.cat([-second, first], -1)
    cos, sin = TABLES[x.dtype]
    return hidden * cos + turned * sin


def batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.relu(F.batch_norm(x, None, None, w, b, True))


def cross_entropy(x: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, torch.arange(32, device=x.device) * 3)


CASES = {
    "gelu": Case(lambda x: F.gelu(x), _all(_randn(16, 64))),
    "gelu with tanh": Case(lambda x: F.gelu(x, approximate="tanh"), _all(_randn(16, 64))),
    "softmax": Case(lambda x: torch.softmax(x, -1), _all(_randn(16, 64))),
    "layer norm with residual": Case(layer_norm, _all(_randn(16, 64), _flipped(16, 64), _randn(64), _flipped(64))),
    "rms norm with rotary embedding": Case(rotary, _all(_randn(2, 8, 4, 32), _randn(32))),
    "cross entropy": Case(cross_entropy, _all(_randn(32, 100))),
    "batch norm with relu": Case(batch_norm, _all(_randn(4, 8, 6, 6), _randn(8), _randn(8))),
    "dropout with add": Case(lambda x, r: F.dropout(x, 0.2, True) + r, _all(_randn(16, 64), _flipped(16, 64))),
}
DTYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def arguments(case: Case, dtype: torch.dtype) -> list[torch.Tensor]:
    return [tensor.requires_grad_() for tensor in case.inputs(dtype)]


def aot_graphs(function: Callable[..., Any], inputs: list[torch.Tensor]) -> tuple[GraphModule, GraphModule]:
    """Forward and backward graph, as ``torch.compile(backend="fxc")`` gets them."""
    found = list[GraphModule]()

    def keep(graph: GraphModule, _: Any) -> Callable[..., Any]:
        found.append(copy.deepcopy(graph))
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    loss(torch.compile(function, backend=aot_autograd(fw_compiler=keep))(*inputs)).backward()
    torch._dynamo.reset()
    forward, backward = found
    return forward, backward


def loss(outputs: Any) -> torch.Tensor:
    leaves = [leaf for leaf in tree_leaves(outputs) if leaf.requires_grad]
    weights = [torch.linspace(-1, 1 + i, leaf.numel()).reshape(leaf.shape) for i, leaf in enumerate(leaves)]
    return torch.stack([(leaf.float() * weight).sum() for leaf, weight in zip(leaves, weights, strict=True)]).sum()


def launched(operations: Iterator[Operation]) -> tuple[int, list[str]]:
    """How many kernels run, and the library calls, draws and what makes memory for them apart."""
    kernels, calls = 0, list[str]()
    for op in operations:
        if isinstance(op, (LaunchOp, GroupOp)):
            kernels += 1
        elif isinstance(op, TorchOp) and not (isinstance(op, ConstantOp) or any(aliases(op)) or is_random(op)):
            calls += [op.operator] if op.operator != "aten.empty_like.default" else []
    return kernels, calls


@pytest.mark.share(2)
def test_kernels_of_aot_graphs(case: Case, dtype: torch.dtype) -> None:
    for graph, limit in zip(aot_graphs(case.function, arguments(case, dtype)), (1, 2), strict=True):
        program = fxc.import_fx(graph)
        Passes(KERNELS, Options(target=TARGET)).run(program)
        kernels, calls = launched(program.module.walk())
        assert 1 <= kernels <= limit and not calls, str(program)


@pytest.mark.share(2)
def test_kernels_of_derivatives(case: Case, dtype: torch.dtype) -> None:
    inputs = arguments(case, dtype)
    compiled = fxc.compile(case.function, inputs, training=True, options={"target": TARGET})
    loss(compiled(*inputs)).backward()
    backward = derivatives(compiled.ir.module)
    functions = [op for op in compiled.ir.module.ops if isinstance(op, FuncOp) and op.sym_name.data not in backward]
    assert sum(isinstance(op, SubgraphOp) for function in functions for op in function.walk()) == 1, str(compiled.ir)
    kernels, calls = launched(op for function in functions for op in function.walk())
    assert kernels == 1 and not calls, str(compiled.ir)
    parts = [module for name, module in compiled.plan.module.named_modules() if name.split(".")[-1].startswith("graph_")]
    assert [part.host.facts.launches <= 2 for part in parts if isinstance(part, HostSubgraph)] == [True]


@pytest.mark.share(4)
@pytest.mark.parametrize("route", ["torch.compile", "fxc.compile"])
def test_numbers(case: Case, dtype: torch.dtype, route: str) -> None:
    inputs, again, exact = (arguments(case, dtype) for _ in range(3))
    exact = [tensor.detach().double().requires_grad_() for tensor in exact]
    torch._dynamo.reset()
    if route == "torch.compile":
        compiled = torch.compile(case.function, backend="fxc", options={"target": TARGET})
    else:
        compiled = fxc.compile(case.function, inputs, training=True, options={"target": TARGET})
    ours, eager = step(compiled, inputs), step(case.function, again)
    if dtype == torch.float32:
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
    elif not is_drawn(case):  # eager rounds after each operator, kernels do not
        for result, other, wide in zip(ours, eager, step(case.function, exact), strict=True):
            errors = [(value.double() - wide).abs().max() for value in (result, other)]
            assert errors[0] <= 1.5 * errors[1] + 2e-2 * wide.abs().max(), errors
    else:
        torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)


def step(function: Callable[..., Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Results and gradients."""
    torch.manual_seed(0)
    outputs = function(*inputs)
    loss(outputs).backward()
    return [*tree_leaves(outputs), *(tensor.grad for tensor in inputs if tensor.grad is not None)]


def is_drawn(case: Case) -> bool:
    """Whether random numbers are drawn: those of another dtype are others."""
    return case is CASES["dropout with add"]
