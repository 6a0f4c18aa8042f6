"""Random modules: what is printed parses back to the same IR.

``pytest tests/test_properties_text.py --hypothesis-profile=long`` looks for longer.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from xdsl.dialects.builtin import (
    ModuleOp,
)

from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.program.program import new_context
from fxc.tools import fxc_opt
from tests.random_modules import Sample, modules

pytestmark = pytest.mark.timeout(3600)  # the long profile takes its time


def assert_exact(module: ModuleOp, text: str, *, generic: bool, debuginfo: bool) -> None:
    """``text`` parses to a module that is equal to ``module``, verifies and prints as ``text`` again."""
    again = parse_module(new_context(), text)
    verify(again)
    equal = module.is_structurally_equivalent(again)
    assert equal
    assert print_module(again, generic=generic, debuginfo=debuginfo) == text
    if debuginfo:
        places = [[op.location for op in whole.walk()] for whole in (module, again)]
        assert places[0] == places[1]


@pytest.mark.slow
@pytest.mark.parametrize("debuginfo", [False, True])
@pytest.mark.parametrize("generic", [False, True])
@given(sample=modules())
def test_text_is_exact(sample: Sample, generic: bool, debuginfo: bool) -> None:
    verify(sample.module)
    text = print_module(sample.module, generic=generic, debuginfo=debuginfo)
    assert_exact(sample.module, text, generic=generic, debuginfo=debuginfo)


@pytest.mark.slow
@given(sample=modules())
def test_a_line_reads_the_same_when_it_is_known(sample: Sample) -> None:
    """The parser looks up lines that it has read before; here it has read them all."""
    text = print_module(sample.module)
    both = parse_module(new_context(), "builtin.module {\n" + text + text + "}\n")
    for module in both.body.block.ops:
        equal = module.is_structurally_equivalent(sample.module)
        assert equal
        assert print_module(module) == text


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("%b = torch.aten.add.Tensor(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", None),
        ('%b = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("n")', None),
        ("%b = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> // why", None),
        ("%b = torch.aten.add.Tensor(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "operand is used with type"),
        ("%b = torch.aten.add.Tensor(%x, %q) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "%q is not defined"),
        ("%b = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>) -> tensor<2xf32>", "expected 1 operand types but had 2"),
        ("%b = torch.aten.add.Tensor(%x#1, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "index out of bounds"),
        ("%a = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "%a is already defined"),
        ("%b, %c = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "was given 2 to bind"),
        ("%b = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> %c", "Expected '='"),
        ("%b = torch.aten.relu.default(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "takes 1 positional"),
    ],
)
def test_a_line_like_one_that_is_known(second: str, message: str | None) -> None:
    first = "%a = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"
    code, out, err = fxc_opt.run([], f"func.func @f(%x: tensor<2xf32>, %y: i32) {{\n{first}\n{second}\nfunc.return\n}}")
    assert (code == 0 and out.count("add.Tensor") == 2) if message is None else (code == 1 and message in err)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('loc("a)("("f.py":1:2))', 'loc("a)("("f.py":1:2))'),
        ('loc("f.py":1 // not :2) here\n :2)', 'loc("f.py":1 // not :2) here\n :3)'),
        ('loc(fused["f.py":1:2, callsite("g" at "h")])', 'loc(fused["f.py":1:2, callsite("g" at "k")])'),
    ],
)
def test_a_location_like_one_that_is_known(first: str, second: str) -> None:
    ops = [f"%{i} = torch.constant(1) : !torch.int {loc}" for i, loc in enumerate((first, second))]
    together = parse_module(new_context(), "\n".join(ops)).body.block.ops
    alone = [parse_module(new_context(), text).body.block.first_op for text in ops]
    assert [op.location for op in together] == [op.location for op in alone if op is not None]
