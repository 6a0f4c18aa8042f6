"""Groups that differ in numbers are copies of one conversion: the same text as each converted alone."""

from __future__ import annotations

import pytest

from fxc.context import new_context
from fxc.dialects.syntax import print_module
from fxc.passes.lowering import convert_fusion_to_linalg as convert
from fxc.passes.lowering._templates import factors
from fxc.pipeline import parse_pipeline
from fxc.runner import run_pipeline
from fxc.testing import parse

GROUP = """
  %r{i} = fusion.group ({{
    %s{i} = torch.aten.{op}(%x, %y, alpha = {alpha}) : (tensor<4x3x{t}>, tensor<3x{t}>) -> tensor<4x3x{t}>
    %m{i} = torch.aten.mul.Tensor(%s{i}, {factor}) : (tensor<4x3x{t}>) -> tensor<4x3x{t}>
    %p{i} = torch.aten.add.Tensor(%m{i}, %x, alpha = {alpha}) : (tensor<4x3x{t}>, tensor<4x3x{t}>) -> tensor<4x3x{t}>
    fusion.yield %p{i} : tensor<4x3x{t}>
  }}) -> tensor<4x3x{t}>
"""
NUMBERS = [("3", "5"), ("7", "7"), ("300", "11"), ("1", "5"), ("0", "5"), ("3", "5"), ("4000", "-2")]


def converted(op: str, type: str, numbers: list[tuple[str, str]]) -> str:
    groups = "".join(GROUP.format(i=i, op=op, alpha=alpha, factor=factor, t=type) for i, (alpha, factor) in enumerate(numbers))
    results = ", ".join(f"%r{i}" for i in range(len(numbers)))
    types = ", ".join([f"tensor<4x3x{type}>"] * len(numbers))
    body = f"{groups}  fx.output(({results})) : ({types}) -> ()"
    module = parse(f"func.func @main(%x: tensor<4x3x{type}>, %y: tensor<3x{type}>) {{{body}\n}}")
    run_pipeline(new_context(), module, parse_pipeline("convert-fusion-to-linalg"))
    return print_module(module, generic=True)


@pytest.mark.parametrize("op", ["add.Tensor", "sub.Tensor", "rsub.Tensor"])
@pytest.mark.parametrize("type", ["f32", "bf16", "i64", "i8"])
def test_copies_are_what_each_group_is_alone(op: str, type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[object]()
    original = convert._converted
    monkeypatch.setattr(convert, "_converted", lambda *arguments: made.append(arguments) or original(*arguments))
    together = converted(op, type, NUMBERS)
    assert together.count("linalg.generic") == len(NUMBERS)
    assert len(made) == 6, "once for each kind of numbers, and twice for the numbers that stand in for others"
    monkeypatch.setattr(convert, "factors", lambda op: {})
    assert converted(op, type, NUMBERS) == together


def test_numbers_that_an_operator_looks_at_are_not_factors() -> None:
    module = parse(
        "func.func @main(%x: tensor<3xf32>) {\n"
        "  %a = torch.aten.pow.Tensor_Scalar(%x, 2) : (tensor<3xf32>) -> tensor<3xf32>\n"
        "  %b = torch.aten.add.Tensor(%x, 2, alpha = 1) : (tensor<3xf32>) -> tensor<3xf32>\n"
        "  %c = torch.aten.add.Tensor(%x, 2.0, alpha = 3) : (tensor<3xf32>) -> tensor<3xf32>\n"
        "  fx.output((%a, %b, %c)) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> ()\n}"
    )
    found = [sorted(factors(op)) for op in module.walk() if op.name.startswith("torch.")]
    assert found == [[], ["other"], ["alpha", "other"]]
