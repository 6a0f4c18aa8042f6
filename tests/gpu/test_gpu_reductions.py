"""Kernels on a GPU that ``benchmarks/gpu.py`` measures: reductions, losses, random numbers and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import fxc
from fxc.codegen.triton.printer import print_kernels
from tests.test_random_kernels import RANDOM, kernels_for, program, run

SHAPES = {
    "columns": (lambda x: x.sum(0), (16384, 1024)),
    "odd columns": (lambda x: ((x * 2).sum(0), x.amax(0)), (5001, 77)),
    "narrow": (lambda x: (x * x).sum(0), (100_003, 8)),
    "few long rows": (lambda x: x.softmax(-1), (4, 300_001)),
    "long rows": (lambda x: x.softmax(-1), (300, 50_257)),
    "large products": (lambda x: (x * 1e30).softmax(-1), (300, 50_257)),
    "columns of large products": (lambda x: (x * 1e30).softmax(0), (5001, 77)),
    "long layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), (300, 20_001)),
    "deviations": (lambda x: (x.mean(-1), x.var(-1, correction=0)), (300, 20_001)),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.arange(len(x), device=x.device) % x.shape[1]), (300, 50_257)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SHAPES)
def test_reductions(name: str, dtype: torch.dtype) -> None:
    function, shape = SHAPES[name]
    if "large" in name and dtype == torch.float16:
        pytest.skip("the product is infinite in eager; a kernel rounds to half precision where it stores")
    x = torch.randn(shape, device="cuda", dtype=dtype, generator=torch.Generator("cuda").manual_seed(0))
    check(fxc.compile(function, (x,), options={"target": "cuda"}), function, x)
    if "entropy" not in name:
        x[1, 2], x[2], x[3, 3] = torch.nan, -torch.inf, torch.inf
        check(fxc.compile(function, (x,), options={"target": "cuda"}), function, x)


def check(compiled: Callable[..., Any], function: Callable[..., Any], x: Tensor) -> None:
    """Three calls, of which each leaves the counters of programs at 0; the same bits each time.

    A result is within twice eager's error, or two units in the last place of the largest.
    """
    exact, eager, found = function(x.double()), function(x), [compiled(x) for _ in range(3)]
    pairs = [(each if isinstance(each, tuple) else (each,)) for each in (exact, eager, *found)]
    for true, theirs, *ours in zip(*pairs, strict=True):
        assert all(torch.equal(ours[0].nan_to_num(), other.nan_to_num()) for other in ours[1:])
        finite = true.isfinite() & theirs.isfinite()
        error = ((theirs.double() - true)[finite].abs().max() if finite.any() else torch.zeros(())).item()
        largest = true[finite].abs().max().item() if finite.any() else 0.0
        torch.testing.assert_close(
            ours[0].double()[finite], true[finite], rtol=0, atol=max(2 * error, 2 * torch.finfo(x.dtype).eps * largest)
        )
        assert torch.equal(ours[0].isnan(), theirs.isnan())


def test_exponentials_are_as_accurate_as_the_librarys() -> None:
    x = torch.cat([torch.linspace(-110, 95, 1 << 20), torch.tensor([torch.inf, -torch.inf, torch.nan])]).cuda()
    found, exact = fxc.compile(lambda x: x.exp() * 1, (x,), options={"target": "cuda"})(x), x.double().exp()
    normal = (exact > 1.2e-38) & exact.float().isfinite()
    assert ((found.double() - exact) / exact)[normal].abs().max() <= 2 * torch.finfo(torch.float32).eps
    torch.testing.assert_close(found[~normal], exact[~normal].float(), rtol=0, atol=1e-38, equal_nan=True)


@pytest.mark.parametrize(("shape", "helper"), [((4099,), "consecutive_words"), ((7, 5, 3), "_words")])
def test_random_words_are_those_of_the_seed(shape: tuple[int, ...], helper: str) -> None:
    """Also where a kernel computes four at once."""
    x = torch.ones(shape)
    reference = fxc.run_passes(program(lambda x: torch.rand_like(x) * x, x), RANDOM)
    kernels = fxc.run_passes(reference, kernels_for("gpu"))
    assert f"{helper}(" in print_kernels(kernels.module)[0].source
    assert torch.equal(run(kernels, (x,), "gpu")[0].cpu(), run(reference, (x,))[0])


@pytest.mark.parametrize("allowed", [False, True])
def test_float32_products_in_kernels_obey_the_backend(allowed: bool) -> None:
    a, b = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        f = lambda a, b: (a @ b).relu()  # noqa: E731
        compiled = fxc.compile(f, (a, b), options={"target": "cuda", "autotune": True})
        error = (compiled(a, b).double() - f(a.double(), b.double())).abs().max()
        assert error < (0.2 if allowed else 1e-3)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
