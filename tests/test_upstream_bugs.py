"""Programs that rewrites of PyTorch have miscompiled: the wrong rewrite is not done, and the numbers are eager's.

The numbers are those of the list in ``pass_semantics``: PyTorch's issues, and defects found in PyTorch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import fxc
from fxc.testing import run_pass

EQUATIONS = "lower-to-torch,canonicalize,fold-uniform-values,canonicalize,dce"


def compiled(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> Callable[..., Any]:
    steps = {"pipeline": f"{EQUATIONS},{options.pop('pipeline', 'optimize')}"} if not options.get("freeze") else {}
    return fxc.compile(function, inputs, options={**steps, **options})


def agrees(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> None:
    """The compiled function returns what eager does, and leaves the same in its inputs."""
    mine, theirs = ([value.clone() for value in inputs] for _ in range(2))
    with torch.no_grad():
        found, expected = compiled(function, *inputs, **options)(*mine), function(*theirs)
    torch.testing.assert_close(found, expected, equal_nan=True)
    torch.testing.assert_close(mine, theirs, equal_nan=True)


def test_a_copy_of_an_input_that_is_written_later() -> None:
    """pytorch#198132: the copy is read after the write."""

    def function(x: torch.Tensor) -> torch.Tensor:
        old = x.clone()
        x.add_(1)
        return old * 2 + x

    agrees(function, torch.randn(4))


def test_arithmetic_with_neutral_tensors_returns_no_input() -> None:
    """pytorch#197893: a caller that writes the result would change its input."""
    x = torch.randn(4)
    for function in (
        lambda x: x + torch.zeros(4),
        lambda x: x * torch.ones(4),
        lambda x: x / torch.ones(4),
        lambda x: x - torch.zeros(4),
    ):
        assert compiled(function, x)(x).data_ptr() != x.data_ptr()


def test_the_sign_of_zero_and_nan_remain() -> None:
    """-0.0 + 0.0 is 0.0; pytorch#187580: NaN and infinity times zero are NaN."""
    x = torch.tensor([0.0, -0.0, math.nan, math.inf, 1.0])
    assert not compiled(lambda x: x + torch.zeros(5), x)(x)[1].signbit()
    assert compiled(lambda x: x * 0, x)(x).isnan().tolist() == [False, False, True, True, False]
    assert compiled(lambda x: x * torch.zeros(5), x)(x).isnan().tolist() == [False, False, True, True, False]


def test_uniform_tensors_of_symbolic_sizes() -> None:
    """pytorch#103924, 108160, 144176: sizes are not specialized, also where a number is a size."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ones = torch.ones(x.shape[0], 3) * 2
        return x * ones, torch.full((x.shape[0],), x.shape[0]) + 1, torch.zeros(3) * x.shape[0], ones.shape[0] * ones

    run = fxc.compile(
        function, (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim("batch")}}, options={"pipeline": f"{EQUATIONS},optimize"}
    )
    for batch in (4, 7):
        x = torch.randn(batch, 3)
        torch.testing.assert_close(run(x), function(x))


def test_factors_of_sums_and_products() -> None:
    """pytorch#167313, 196577, 195463: alpha and beta are retained by fusion, decomposition and folding."""
    c, a, b = torch.randn(4, 5), torch.randn(4, 3), torch.randn(3, 5)
    agrees(lambda c, a, b: torch.add(c, a @ b, alpha=2), c, a, b)
    agrees(lambda c, a, b: torch.add(torch.mm(a, b), c, alpha=3), c, a, b)
    agrees(lambda c, a, b: torch.sub(torch.mm(a, b), c[0], alpha=3), c, a, b)
    agrees(lambda c, a, b: torch.addmm(c, a, b, alpha=2, beta=3), c, a, b)
    agrees(lambda c, a, b: torch.addmm(c[0], a, b, beta=0), c * math.nan, a, b)


def test_sums_of_products_with_a_broadcast() -> None:
    """pytorch#100679, 96634: a product of one row is no term of a product of concatenated matrices."""
    a, b, c, d = torch.randn(4, 3), torch.randn(3, 5), torch.randn(1, 3), torch.randn(3, 5)
    agrees(lambda a, b, c, d: a @ b + c @ d + a @ d + c @ b + a @ b, a, b, c, d)


def test_opposite_rewrites_of_addmm_end() -> None:
    """pytorch#110235: splitting an addmm and joining it again are in one pass order; repeating them changes nothing."""
    text = """
    func.func @main(%b: tensor<4xf32>, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
      %y = torch.aten.addmm.default(%b, %x, %w) : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      fx.output(%y) : (tensor<2x4xf32>) -> ()
    }"""
    once = run_pass(text, "decompose-ops,fuse")
    assert run_pass(once, "decompose-ops,fuse") == once


def test_results_of_padded_products_have_their_strides() -> None:
    """pytorch#180499, 115098, 193638: strides do not leak; a bias that is broadcast, and rows, are not padded."""
    type = 'tensor<{}xf16, #torch.meta<device = "cuda:0">>'
    x, y, b, z = (type.format(sizes) for sizes in ("3x6", "6x5", "1x1", "3x5"))
    text = f"""builtin.module attributes {{fxc.target = #target.gpu}} {{ func.func @main(%x: {x}, %y: {y}, %b: {b}) {{
      %z = torch.aten.addmm.default(%b, %x, %y) : ({b}, {x}, {y}) -> {z}
      fx.output(%z) : ({z}) -> () }} }}"""
    after = run_pass(text, "pad-matmul{choose=all}")
    assert f"fx.output(%z) : ({z})" in after and "addmm.default(%b, " in after and "[0, 2, 0, 0]" in after


def test_a_piece_of_a_concatenation_that_is_written() -> None:
    """pytorch#128570: the pieces of a split are views of the whole, not the parts."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.cat([x, y])
        first, second = whole.split(2)
        first.add_(1)
        return x, first + second, whole

    agrees(function, torch.randn(2, 3), torch.randn(2, 3))


def test_merged_products_of_different_kinds() -> None:
    """pytorch#197069, 187880: products that share an input, with and without bias, and of other widths, in one call."""
    torch.manual_seed(0)
    weights = [torch.randn(width, 6) for width in (3, 5, 3, 4, 4, 4, 4, 4, 4, 4, 4)]

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterList(weights)
            self.bias = torch.nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [F.linear(x, w, self.bias if i == 0 else None) * (i + 1) for i, w in enumerate(self.weights)]

    agrees(Heads(), torch.randn(7, 6))
    agrees(Heads(), torch.randn(7, 6), freeze=True)


class Convolution(torch.nn.Module):
    """A convolution whose weights are frozen, and what follows it."""

    def __init__(self, after: Callable[..., torch.Tensor], *sizes: int, transposed: bool = False) -> None:
        super().__init__()
        kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
        self.convolution, self.after = kind(2, 3, 1), after
        self.other = torch.nn.Parameter(torch.randn(*sizes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(self.convolution(x), self.other)


@pytest.mark.parametrize(
    ("after", "sizes"),
    [
        (torch.add, (1, 3)), (torch.mul, (1, 3)), (torch.mul, (3,)), (torch.mul, (3, 1, 1)), (torch.sub, (1, 3, 1, 1)),
        (torch.div, (3, 1, 1)), (torch.mul, (3, 3, 3)), (torch.mul, (1,)), (torch.add, (1, 1, 1)),
        (lambda y, k: torch.add(y, k, alpha=2), (3, 1, 1)), (lambda y, k: torch.sub(k, y), (3, 1, 1)),
        (lambda y, k: torch.mul(y, k) + y, (3, 1, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_folding_into_a_convolution(after: Callable[..., torch.Tensor], sizes: tuple[int, ...], transposed: bool) -> None:
    """Freezing of PyTorch 2.13 aligns [1, C] with the channels, forgets alpha, and scales a transposed convolution wrongly."""
    torch.manual_seed(0)
    agrees(Convolution(after, *sizes, transposed=transposed).eval(), torch.randn(1, 2, 3, 3), freeze=True)


def test_folding_into_a_convolution_of_half_precision() -> None:
    """pytorch#145623: weights are not rounded twice."""
    model = Convolution(torch.mul, 3, 1, 1).eval().bfloat16()
    program = fxc.run_passes(fxc.capture(model, (torch.randn(1, 2, 3, 3).bfloat16(),)), f"{EQUATIONS},fold-affine")
    assert "aten.mul.Tensor(%convolution" in str(program) or "aten.mul.Tensor(%conv2d" in str(program)
