"""A text that declares types other than PyTorch gives is refused, before memory is laid out as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxc.api import run_passes
from fxc.dialects.torch_ops import TorchOp
from fxc.driver.declared_types import check_types
from fxc.driver.runner import read_module
from fxc.errors import VerifyError
from fxc.program.program import Program, new_context
from fxc.tools import fxc_opt

PIPELINE = "fuse,set-target,lower-kernels"
STRIDED = "tensor<3x2xf32, #torch.meta<strides = [1, 3]>>"


def program(body: str, arguments: str, symbols: str = "") -> str:
    head = f"builtin.module attributes {{torch.symbols = {{{symbols}}}}} {{\n" if symbols else "builtin.module {\n"
    return f"{head}  func.func @main({arguments}) {{\n{body}\n    fx.output(()) : () -> ()\n  }}\n}}\n"


X, Y = "%x: tensor<2x3xf32>", "%x: tensor<2x3xf32>, %y: tensor<3x4xf32>"
S0 = "s0 = {hint = 4, min = 2, max = 100}"
DYNAMIC = 'tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>'

LIES = {
    "pointwise": ("%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<9x3xf32>", X, "", "tensor<2x3xf32>"),
    "rank": ("%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<6xf32>", X, "", "tensor<2x3xf32>"),
    "dtype": ("%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf64>", X, "", "tensor<2x3xf32>"),
    "comparison": ("%0 = torch.aten.gt.Scalar(%x, 0) : (tensor<2x3xf32>) -> tensor<2x3xf32>", X, "", "tensor<2x3xi1>"),
    "library call": (
        "%0 = torch.aten.mm.default(%x, %y) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<9x4xf32>",
        Y, "", "2x4",
    ),
    "reduction": ("%0 = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<2x3xf32>) -> tensor<3xf32>", X, "", "tensor<2xf32>"),
    "view": ("%0 = torch.aten.view.default(%x, [6]) : (tensor<2x3xf32>) -> tensor<7xf32>", X, "", "tensor<6xf32>"),
    "expand": (
        "%0 = torch.aten.expand.default(%x, [5, 2, 3]) : (tensor<2x3xf32>) -> tensor<5x2x3xf32>",
        X, "", "strides = [0, 3",
    ),
    "strides left out": ("%0 = torch.aten.t.default(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>", X, "", STRIDED),
    "strides": (
        f"%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> {STRIDED.replace('3x2', '2x3')}",
        X, "", "returns tensor<2x3xf32>",
    ),
    "list": (
        "%0, %1 = torch.aten.split.Tensor(%x, 1) : (tensor<2x3xf32>) -> (tensor<1x3xf32>, tensor<2x3xf32>)",
        X, "", "tensor<1x3xf32>",
    ),
    "tuple": (
        "%0 = torch.aten.max.dim(%x, 1) : (tensor<2x3xf32>) -> tuple<tensor<2xf32>, tensor<2xi32>>", X, "", "tensor<2xi64>",
    ),
    "tuple length": (
        "%0 = torch.aten.split.Tensor(%x, 1) : (tensor<2x3xf32>) -> tuple<tensor<1x3xf32>>",
        X, "", "tuple<tensor<1x3xf32>, tensor<1x3xf32>>",
    ),
    "count": (
        "%0, %1 = torch.aten.split.Tensor(%x, 2) : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)", X, "", "1 values",
    ),
    "device": (
        '%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32, #torch.meta<device = "cuda:0">>',
        X, "", "returns tensor<2x3xf32>",
    ),
    "kind": ("%0 = torch.aten.sym_size.int(%x, 0) : (tensor<2x3xf32>) -> tensor<i64>", X, "", "!torch.int"),
    "refused": (
        "%0 = torch.aten.mm.default(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        X, "", "cannot take",
    ),
    "symbolic": (f"%0 = torch.aten.relu.default(%x) : ({DYNAMIC}) -> tensor<4x3xf32>", f"%x: {DYNAMIC}", S0, "s0"),
    "expression": (
        f'%0 = torch.aten.cat.default([%x, %x]) : ({DYNAMIC}, {DYNAMIC})'
        ' -> tensor<?x3xf32, #torch.meta<sizes = ["s0 + 4", 3]>>',
        f"%x: {DYNAMIC}", S0, "2*s0",
    ),
    "call": ("%0 = fx.call_function @torch.relu(%x) : (tensor<2x3xf32>) -> tensor<9x3xf32>", X, "", "tensor<2x3xf32>"),
    "group": (
        "%0 = fusion.group ({\n%a = torch.aten.exp.default(%x) : (tensor<2x3xf32>) -> tensor<9x3xf32>\n"
        "fusion.yield %a : tensor<9x3xf32>\n}) -> tensor<9x3xf32>", X, "", "tensor<2x3xf32>",
    ),
}  # fmt: skip
"""Body, arguments, symbols, and a part of the message."""


@pytest.mark.parametrize("lie", LIES)
def test_types_that_pytorch_does_not_give_are_refused(lie: str, tmp_path: Path) -> None:
    body, arguments, symbols, part = LIES[lie]
    text = program(body, arguments, symbols)
    with pytest.raises(VerifyError) as caught:
        run_passes(Program.parse(text), PIPELINE)
    assert part in str(caught.value) and caught.value.op
    path = tmp_path / "lie.mlir"
    path.write_text(text)
    code, out, err = fxc_opt.run([str(path), "-p", PIPELINE])
    assert (code, out) == (1, "") and part in err and f"at: {path}:" in err and "Traceback" not in err


def test_propagate_shapes_is_the_way_out() -> None:
    body, arguments, symbols, _ = LIES["pointwise"]
    code, text, _ = fxc_opt.run(["-p", "propagate-shapes"], program(body, arguments, symbols))
    assert code == 0
    assert fxc_opt.run(["-p", "fuse,lower-kernels,lower-to-plan"], text)[0] == 0


VAGUE = {
    "unnamed size": ("%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> tensor<?x3xf32>", X, ""),
    "no type": ("%0 = torch.aten.relu.default(%x) : (tensor<2x3xf32>) -> !fx.value", X, ""),
    "operand without type": ("%0 = fx.call_function @torch.relu(%x) : (!fx.value) -> tensor<9x3xf32>", "%x: !fx.value", ""),
    "strides of one element": (
        "%0 = torch.aten.relu.default(%x) : (tensor<1x3xf32>) -> tensor<1x3xf32, #torch.meta<strides = [7, 1]>>",
        "%x: tensor<1x3xf32>", "",
    ),
    "another spelling": (
        f"%0 = torch.aten.cat.default([%x, %x]) : ({DYNAMIC}, {DYNAMIC})"
        ' -> tensor<?x3xf32, #torch.meta<sizes = ["s0 + s0", 3]>>', f"%x: {DYNAMIC}", S0,
    ),
    "from data": (
        "%0 = torch.aten.nonzero.default(%x) : (tensor<2x3xf32>)"
        ' -> tensor<?x2xi64, #torch.meta<sizes = ["u0", 2], strides = [1, "u0"]>>',
        X, "",
    ),
    "a dimension that is a value": (
        "%0 = torch.aten.cumsum.default(%x, %n) : (tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>", f"{X}, %n: !torch.int", "",
    ),
    "resized": ("%0 = torch.aten.resize_.default(%x, [9, 3]) : (tensor<2x3xf32>) -> tensor<?x?xf32>", X, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", VAGUE)
def test_a_type_may_say_less(case: str) -> None:
    context = new_context()
    check_types(context, read_module(context, program(*VAGUE[case]), "text"), lambda op: None)


def test_a_result_whose_elements_share_memory_is_not_written_by_an_overload_for_out() -> None:
    strided = "tensor<2x3xf32, #torch.meta<strides = [0, 1]>>"
    for type, found in ((strided, False), ("tensor<2x3xf32>", True)):
        context = new_context()
        module = read_module(context, program(f"%0 = torch.aten.neg.default(%x) : (tensor<2x3xf32>) -> {type}", X), "text")
        [op] = [op for op in module.walk() if isinstance(op, TorchOp)]
        assert (context.semantics.out_variant(op) is not None) is found


def test_text_of_which_no_kernels_are_made_needs_no_types() -> None:
    parsed = Program.parse(program(*LIES["pointwise"][:3]))
    assert "tensor<9x3xf32>" in str(run_passes(parsed, "cse"))
