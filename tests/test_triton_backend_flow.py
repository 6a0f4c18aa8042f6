"""From a fused group of PyTorch's operators to Triton source, on the simulator, against the operators themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, silu

from fxc.codegen.triton.printer import print_kernels
from fxc.testing import parse, run_pass
from tests.simulator.simulator import simulate
from tests.triton_kernels import random

PASSES = "convert-fusion-to-linalg,schedule,tile"


def group(arguments: list[str], body: list[str], result: str) -> str:
    """A program with one fused group; its last value has the type ``result``."""
    last = body[-1].split(" = ")[0]
    lines = "\n".join(f"    {line}" for line in body)
    return f"""
builtin.module attributes {{fxc.target = #target.gpu<arch = "sm_90">}} {{
func.func @main({", ".join(f"{name}: {type}" for name, type in (each.split(" ") for each in arguments))}) {{
  %u = fusion.group ({{
{lines}
    fusion.yield {last} : {result}
  }}) -> {result}
  fx.output(%u) : ({result}) -> ()
}}
}}"""


SOFTMAX = group(
    ["%x tensor<9x100xf32>", "%w tensor<100xf32>"],
    [
        "%m = torch.aten._softmax.default(%x, 1, false) : (tensor<9x100xf32>) -> tensor<9x100xf32>",
        "%t = torch.aten.mul.Tensor(%m, %w) : (tensor<9x100xf32>, tensor<100xf32>) -> tensor<9x100xf32>",
        "%g = torch.aten.gelu.default(%t) : (tensor<9x100xf32>) -> tensor<9x100xf32>",
    ],
    "tensor<9x100xf32>",
)
HALF = group(
    ["%x tensor<7x33xbf16>", "%y tensor<33xbf16>"],
    [
        "%s = torch.aten.silu.default(%x) : (tensor<7x33xbf16>) -> tensor<7x33xbf16>",
        "%t = torch.aten.mul.Tensor(%s, %y) : (tensor<7x33xbf16>, tensor<33xbf16>) -> tensor<7x33xbf16>",
    ],
    "tensor<7x33xbf16>",
)
WHERE = group(
    ["%x tensor<300xf32>", "%y tensor<300xf32>"],
    [
        "%c = torch.aten.gt.Tensor(%x, %y) : (tensor<300xf32>, tensor<300xf32>) -> tensor<300xi1>",
        "%w = torch.aten.where.self(%c, %x, %y) : (tensor<300xi1>, tensor<300xf32>, tensor<300xf32>) -> tensor<300xf32>",
        "%r = torch.aten.sqrt.default(%w) : (tensor<300xf32>) -> tensor<300xf32>",
    ],
    "tensor<300xf32>",
)
COLUMNS = group(
    ["%x tensor<50x70xf32>"],
    [
        "%e = torch.aten.exp.default(%x) : (tensor<50x70xf32>) -> tensor<50x70xf32>",
        "%s = torch.aten.sum.dim_IntList(%e, [0]) : (tensor<50x70xf32>) -> tensor<70xf32>",
    ],
    "tensor<70xf32>",
)


@pytest.mark.parametrize(
    ("text", "inputs", "function"),
    [
        (SOFTMAX, [random(9, 100), random(100)], lambda x, w: gelu(x.softmax(1) * w)),
        (HALF, [random(7, 33).bfloat16(), random(33).bfloat16()], lambda x, y: (silu(x.float()) * y.float()).bfloat16()),
        (WHERE, [random(300), random(300).flip(0)], lambda x, y: torch.where(x > y, x, y).sqrt()),
        (COLUMNS, [random(50, 70)], lambda x: x.exp().sum(0)),
    ],
    ids=["softmax", "half", "where", "columns"],
)
def test_groups(text: str, inputs: list[Tensor], function: Callable[..., Tensor]) -> None:
    [source] = print_kernels(parse(run_pass(text, PASSES)))
    expected = function(*inputs)
    out = torch.empty_like(expected)
    simulate(source, [*inputs, out])
    torch.testing.assert_close(out, expected, equal_nan=True)


def test_numbers_that_are_known_have_no_lines() -> None:
    """Index arithmetic on constants, splats of constants, and sums with zero stand where they are used."""
    [source] = print_kernels(parse(run_pass(SOFTMAX, PASSES)))
    assert "32-bit index" in source.source
    assert " + 0\n" not in source.source and "tl.full((), " not in source.source


def test_rows_in_parts_have_short_indices() -> None:
    """The last part may be shorter than the others, and is never of a negative length."""
    body = ["%s = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<5x50257xf32>) -> tensor<5xf32>"]
    [source] = print_kernels(parse(run_pass(group(["%x tensor<5x50257xf32>"], body, "tensor<5xf32>"), PASSES)))
    assert "32-bit index" in source.source and "tl.atomic_add(counter" in source.source and "uint64" not in source.source
    x, out = random(5, 50257), torch.empty(5)
    simulate(source, [x, out, *(torch.empty(argument.elements or 0) for argument in source.arguments[2:])])
    torch.testing.assert_close(out, x.sum(1), rtol=1e-5, atol=1e-3)
