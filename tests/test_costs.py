"""Estimated flops are what PyTorch counts, on the joint graph of each model of the zoo."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter
from torch.utils.flop_counter import FlopCounterMode, conv_backward_flop, sdpa_backward_flop, sdpa_flop

import fxc
from fxc.dialects.torch_ops.base import TorchOp
from fxc.frontends.import_fx import import_fx
from fxc.passes.operators.costs import Costs
from fxc.passes.operators.table import operator_of
from tests.models.captures import capture_of
from tests.models.zoo import ZOO

aten = torch.ops.aten


def _convolution_backward(*args: Any, **kwargs: Any) -> int:
    """PyTorch counts the gradient of the weights as if there was one group."""
    grad, input, weight, *rest = args
    count = cast(Any, conv_backward_flop).__wrapped__
    flops = count(*args, **kwargs)
    without = count(grad, input, weight, *rest[:-1], [rest[-1][0], False, False], **kwargs)
    return without + (flops - without) // rest[-2]


COUNTED: dict[Any, Any] = {
    aten._scaled_dot_product_flash_attention_for_cpu: cast(Any, sdpa_flop).__wrapped__,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: cast(Any, sdpa_backward_flop).__wrapped__,
    aten.convolution_backward: _convolution_backward,
}
"""Formulas that PyTorch lacks."""


def counted(graph: GraphModule) -> Counter[str]:
    """Operator -> flops that PyTorch counts."""
    values = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    mode = next(value.fake_mode for value in values if isinstance(value, Tensor))  # type: ignore[attr-defined]
    with mode, FlopCounterMode(display=False, custom_mapping=COUNTED) as counter:
        Interpreter(graph).run(*values, enable_io_processing=False)
    return Counter({str(operator): flops for operator, flops in counter.get_flop_counts()["Global"].items()})


def estimated(graph: GraphModule) -> Counter[str]:
    """Operator -> flops of products by the estimate."""
    module = fxc.run_passes(import_fx(graph), "lower-to-torch").module
    costs, found = Costs(module), Counter[str]()
    for op in module.walk():
        if isinstance(op, TorchOp) and operator_of(op).flops is not None:
            found[op.operator.rpartition(".")[0]] += costs.of(op).flops
    return found


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", ZOO)
def test_flops_are_those_that_pytorch_counts(name: str) -> None:
    graph = capture_of(name, True, "joint")
    assert isinstance(graph, GraphModule)
    assert estimated(graph) == counted(graph)
    assert estimated(graph).total() > 0
