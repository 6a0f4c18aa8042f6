"""Types of operations with long expressions as sizes: inferred for any values of their parts, and right at each size."""

from __future__ import annotations

import pytest
import torch
from xdsl.ir import Attribute

import fxc
from fxc.bridge.expressions import canonical
from fxc.bridge.tensors import number_at
from fxc.dialects.attributes.types import sizes, strides
from fxc.semantics.named_sizes import NamedSizes


def padded(size: str) -> str:
    """The number of windows of 4 in an image of this size, padded."""
    return canonical(f"(({size}) + Mod(4 - Mod({size}, 4), 4))//4")


FIRST = padded("s0//2")
SECOND = padded(f"(4*({FIRST}) + 1)//2")
THIRD = padded(f"(4*({SECOND}) + 1)//2")


def inferred(size: str, symbols: str = "s0 = {hint = 96 : i64, min = 2 : i64}") -> list[Attribute]:
    """Types of the results of views of windows, given none."""
    windows = f'tensor<?x?x4x?x4x8xf32, #torch.meta<sizes = ["s1", "{size}", 4, "{size}", 4, 8]>>'
    unknown = "tensor<?x?x?x?x?x?xf32>"
    result = fxc.run_passes(
        fxc.Program.parse(f"""
builtin.module attributes {{torch.symbols = {{{symbols}, s1 = {{hint = 2 : i64, min = 2 : i64}}}}}} {{
  func.func @main(%n: !torch.int<"s1">, %x: {windows}) -> tensor<?x?x?xf32> {{
    %t = torch.aten.transpose.int(%x, 2, 3) : ({windows}) -> {unknown}
    %c = torch.aten.clone.default(%t, memory_format = torch.contiguous_format) : ({unknown}) -> {unknown}
    %w = torch.aten.view.default(%c, [-1, 16, 8]) : ({unknown}) -> tensor<?x?x?xf32>
    %r = torch.aten.relu.default(%w) : (tensor<?x?x?xf32>) -> tensor<?x?x?xf32>
    %v = torch.aten.view.default(%r, [%n, -1, 8]) : (tensor<?x?x?xf32>, !torch.int<"s1">) -> tensor<?x?x?xf32>
    func.return %v : tensor<?x?x?xf32>
  }}
}}"""),
        "propagate-shapes",
    )
    return [op.results[0].type for op in result.main.body.block.ops if op.results]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Operations that were typed by names for parts of their sizes."""
    found, original = list[str](), NamedSizes.original

    def noted(self: NamedSizes, type: Attribute) -> Attribute:
        found.append(self.op.name.removeprefix("torch.aten."))
        return original(self, type)

    monkeypatch.setattr(NamedSizes, "original", noted)
    return found


@pytest.mark.parametrize("size", [FIRST, SECOND, THIRD])
def test_views_of_windows_are_right_at_each_size(size: str, names: list[str]) -> None:
    types = inferred(size)
    assert ("view.default" in names) == (size != FIRST)
    for image, batch in ((96, 2), (12, 3), (33, 5), (64, 2)):
        numbers = {"s0": image, "s1": batch}
        count = number_at(size, numbers)
        assert count is not None
        x = torch.empty(batch, count, 4, count, 4, 8).transpose(2, 3)
        expected = [x, c := x.contiguous(), w := c.view(-1, 16, 8), w, w.view(batch, -1, 8)]
        for type, value in zip(types, expected, strict=True):
            assert tuple(number_at(dim, numbers) for dim in sizes(type)) == value.shape  # type: ignore[arg-type]
            steps = strides(type)  # type: ignore[arg-type]
            assert value.stride() == tuple(number_at(step, numbers) for step in steps) if steps else value.is_contiguous()


@pytest.mark.slow
def test_symbols_of_a_file_have_any_name(names: list[str]) -> None:
    known = [str(type).replace("s0", "batch") for type in inferred(SECOND)]
    assert [str(type) for type in inferred(SECOND.replace("s0", "batch"), "batch = {hint = 96 : i64, min = 2 : i64}")] == known
    assert names


def test_parts_that_depend_on_data_have_no_names(names: list[str]) -> None:
    types = inferred(SECOND.replace("s0", "u0"), "u0 = {min = 2 : i64}")
    assert not names and not any("" in sizes(type) for type in types)  # type: ignore[arg-type]
