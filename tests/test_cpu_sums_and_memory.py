"""Sums of many numbers, loads at even steps, and large results on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import fxc
from fxc.interpret.tile_level import run_kernel
from fxc.measure.peak import peak_bytes
from fxc.runtime.arena import LARGE, in_large_pages
from fxc.runtime.memory_cache import CACHED_FROM
from tests.tile_programs import NAMES, TARGETS, kernel_text, parse_kernel, run_native

HOST = {"target": "host"}
SUMS: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "columns": ((4000, 7), lambda x: x.sum(0)),
    "middle": ((3, 3000, 5), lambda x: x.sum(1)),
    "all": ((300_001,), lambda x: x.sum()),
    "all of rows": ((3000, 101), lambda x: x[:, 1:].sum()),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_many_is_not_rounded_for_each(name: str) -> None:
    """Of ones and a tenth more each: one total after another would be off by hundreds of epsilons."""
    shape, function = SUMS[name]
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)) + 1
    found, exact = fxc.compile(function, (x,), options=HOST)(x), function(x.double())
    assert ((found.double() - exact).abs() / exact).max() < 8 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 127, 128, 129, 1000])
def test_blocks_have_each_row_once(rows: int) -> None:
    x = torch.arange(rows * 5).reshape(rows, 5)
    for function in (lambda x: x.float().sum(0), lambda x: x.float().sum(), lambda x: x.double().sum(0), lambda x: x.sum(0)):
        torch.testing.assert_close(fxc.compile(function, (x,), options=HOST)(x), function(x))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("step", [2, 3, 5, 8, 9])
def test_every_so_manyth_element(step: int, dtype: torch.dtype, target) -> None:
    """The last lane is the last element of the tensor: nothing behind it may be read."""
    lanes, name = 32, NAMES[dtype]
    x = torch.arange((lanes - 1) * step + 2).to(dtype)
    body = f"""
  %first = arith.constant 1 : index
  %zero = arith.constant 0 : index
  %v = tile.load %x0[%first] strides [{step}] : !tile.ptr<{name}> -> vector<{lanes}x{name}>
  tile.store %v, %y0[%zero] strides [1] : vector<{lanes}x{name}>, !tile.ptr<{name}>
"""
    expected = x[1::step].clone()
    kernel = parse_kernel(kernel_text(body, [x], [expected]))
    for run in (run_kernel, lambda kernel, arguments: run_native(kernel, arguments, target)):
        found = torch.zeros_like(expected)
        run(kernel, [x, found])
        assert torch.equal(found, expected)


def test_large_results_are_in_kept_memory() -> None:
    x = torch.ones(LARGE // 4)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + 1)

    with torch.no_grad():
        compiled, small = (fxc.compile(function, (each,), options=HOST) for each in (x, x[: CACHED_FROM // 4 - 1]))
        assert torch.equal(compiled(x), function(x))
    assert "empty_kept(" in compiled.plan.code
    assert "empty_kept(" not in small.plan.code


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="has no large pages")
def test_linux_was_asked() -> None:
    tensor = in_large_pages(torch.empty(LARGE, dtype=torch.uint8))
    middle, flags, inside = tensor.data_ptr() + LARGE // 2, "", False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        ends = line.split()[0].split("-")
        if len(ends) == 2:
            inside = int(ends[0], 16) <= middle < int(ends[1], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line
    assert " hg" in flags


@pytest.mark.parametrize("dynamic_shapes", [None, ({0: torch.export.Dim.DYNAMIC},)])
def test_sums_of_many_rows_are_as_exact_as_eager(dynamic_shapes: Any) -> None:
    torch.manual_seed(0)
    x = torch.rand(300_000, 8) + 0.5
    example = x if dynamic_shapes is None else x[:70]
    compiled = fxc.compile(lambda x: (x * 1.5).sum(0), (example,), dynamic_shapes=dynamic_shapes)
    exact = (x.double() * 1.5).sum(0)
    assert compiled.plan.stats.launches == 1
    assert float(((compiled(x) - exact) / exact).abs().max()) < 4e-7


def _counted(x: Tensor) -> Any:
    return while_loop(
        lambda i, s: i < 64, lambda i, s: (i + 1, s * 0.9 + x), (torch.zeros((), dtype=torch.int64), torch.zeros_like(x))
    )[1]


def _scanned(x: Tensor) -> Any:
    return scan(lambda s, v: (s * 0.9 + v, v.clone()), torch.zeros(256, 256), torch.arange(64.0))[0] + x


@pytest.mark.slow
@pytest.mark.parametrize("loop", [_counted, _scanned])
def test_loops_from_a_constant_release_each_state(loop: Callable[[Tensor], Any]) -> None:
    x = torch.randn(256, 256)
    compiled = fxc.compile(loop, (x,), options={"target": "host"})
    torch.testing.assert_close(compiled(x), loop(x))
    fxc.release_memory()
    assert peak_bytes(lambda: compiled(x)) < 6 * x.nbytes


READ_TWICE: dict[str, tuple[tuple[int, ...], bool, Callable[[torch.Tensor], torch.Tensor]]] = {
    "rows of free length": ((5, 40), True, lambda x: (x * 1e30).softmax(1)),
    "columns of free length": ((40, 5), True, lambda x: (x * 1e30).softmax(0)),
    "long columns": ((20000, 20), False, lambda x: (x * 1e30).softmax(0)),
    "equal numbers": ((3, 20000), False, lambda x: (x * 0 + 3.3).mul(2000.0).std(1)),
}


@pytest.mark.parametrize("name", READ_TWICE)
def test_a_product_is_rounded_as_what_is_subtracted_from_it(name: str) -> None:
    """A product minus the maximum of its row, which is computed in a loop before, is at most 0."""
    shape, free, function = READ_TWICE[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    sizes = ({0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},) if free else None
    torch.testing.assert_close(fxc.compile(function, (x,), dynamic_shapes=sizes, options=HOST)(x), function(x))
