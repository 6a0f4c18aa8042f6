"""TorchScript's own C++ passes RemoveExpands, CanonicalizeOps, Peephole and DecomposeOps, run on the same graphs as ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, TensorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fxc.bridge.values import constant_value
from fxc.dialects.attributes.types import FloatType, IntType, contiguous_strides, dtype_name, sizes
from fxc.dialects.attributes.values import Tree, leaves
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.driver.runner import run_pipeline
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from tests.test_torchscript_oracle import _Writer, call, graph, output

C = torch._C
CONTEXT = new_context()
F, F4, F24, F44 = "tensor<f32>", "tensor<4xf32>", "tensor<2x4xf32>", "tensor<4x4xf32>"
I4, D4, D = "tensor<4xi64>", "tensor<4xf64>", "tensor<f64>"


class Writer(_Writer):
    """TorchScript's text, with constant tensors, numbers and lists as results too."""

    def graph(self, function: FuncOp) -> str:
        arguments = ", ".join(f"{self.name(a)} : {type_of(a)}" for a in function.body.block.args)
        for op in function.body.block.ops:
            if isinstance(op, OutputOp):
                returned = [self.name(leaf) for leaf in leaves(op.trees()[0]) if isinstance(leaf, SSAValue)]
                self.lines.append(f"  return ({', '.join(returned)})")
            elif isinstance(op, ConstantOp):
                value = f"{{{constant_value(op).item()}}}"
                self.lines.append(f"  {self.name(op.result)} : {type_of(op.result)} = prim::Constant[value={value}]()")
            elif isinstance(op, TorchOp):
                self.call(op)
        return f"graph({arguments}):\n" + "\n".join(self.lines) + "\n"

    def call(self, op: TorchOp) -> None:
        bound = op.bound()
        passed = [self.value(bound[a.name]) if a.name in bound else self.default(a) for a in op.SCHEMA.arguments]
        namespace, name, _ = op.operator.split(".")
        results = ", ".join(f"{self.name(r)} : {type_of(r)}" for r in op.results)
        text = f"{namespace}::{name}({', '.join(passed)})"
        if op.SCHEMA.returns[0].type == "Tensor[]":
            self.constants += 1
            self.lines.append(f"  %l_{self.constants} : Tensor[] = {text}")
            text = f"prim::ListUnpack(%l_{self.constants})"
        self.lines.append(f"  {results} = {text}")

    def value(self, tree: Tree) -> str:
        if isinstance(tree, IntegerAttr) and tree.type == i1:
            return self.define("bool", f"prim::Constant[value={int(tree.value.data != 0)}]()")
        if isinstance(tree, FloatAttr):
            return self.define("float", f"prim::Constant[value={float(tree.value.data)}]()")
        return super().value(tree)


def type_of(value: SSAValue) -> str:
    if isinstance(value.type, (IntType, FloatType)):
        return "int" if isinstance(value.type, IntType) else "float"
    assert isinstance(value.type, TensorType)
    scalar = {"float32": "Float", "float64": "Double", "float16": "Half", "int64": "Long"}[dtype_name(value.type.element_type)]
    shape = [int(size) for size in sizes(value.type)]
    dims = [*map(str, shape), f"strides=[{', '.join(map(str, contiguous_strides(shape)))}]"] if shape else []
    return f"{scalar}({', '.join([*dims, 'requires_grad=0', 'device=cpu'])})"


def calls(text: str) -> Counter[str]:
    return Counter(
        re.findall(r"(?:aten|prim)::(?!Constant\b|ListConstruct|ListUnpack)(\w+)\(", text.replace("[chunks", "([chunks"))
    )


def theirs(module: ModuleOp, passes: Sequence[Callable[[Any], Any]]) -> tuple[Counter[str], int]:
    [function] = [op for op in module.walk() if isinstance(op, FuncOp)]
    parsed = C.parse_ir(Writer().graph(function), parse_tensor_constants=True)
    for run in (*passes, C._jit_pass_dce):
        run(parsed)
    text = re.sub(r"(prim::ConstantChunk)\[[^]]*\]", r"\1", str(parsed))
    return calls(text), len(re.findall(r"value=\{", text))


def ours(module: ModuleOp, pipeline: str) -> tuple[Counter[str], int]:
    run_pipeline(CONTEXT, module, parse_pipeline(f"{pipeline},dce"))
    names = Counter(op.operator.split(".")[1] for op in module.walk() if isinstance(op, TorchOp))
    return names, sum(isinstance(op, ConstantOp) and isinstance(op.result.type, TensorType) for op in module.walk())


EXPANDS = "remove-expands", (C._jit_pass_remove_expands,)
CANONICAL = "canonicalize-ops", (C._jit_pass_canonicalize_graph_fuser_ops,)
PEEPHOLE = "peephole", (C._jit_pass_constant_propagation, lambda g: C._jit_pass_peephole(g, False))
ANY_SIZES = "peephole{shapes=false}", (C._jit_pass_constant_propagation, lambda g: C._jit_pass_peephole(g, True))
DECOMPOSE = "decompose-ops", (C._jit_pass_decompose_ops,)


def expand(name: str, source: str, more: str = "", shape: str = "[4, 4]", to: str = F44, of: str = F4) -> str:
    return f"%{name} = torch.aten.expand.default({source}, {shape}{more}) : ({of}) -> {to}"


X44_B4 = f"%x: {F44}, %b: {F4}"
IMPLICIT = ", implicit = true"
TWO, HALF = f"%c = torch.constant([2.0]) : {F}", f"%c = torch.constant([0.5]) : {D}"
MATRICES = f"%b: {F4}, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>"


def addmm(more: str = "") -> str:
    return f"%y = torch.aten.addmm.default(%b, %x, %w{more}) : ({F4}, tensor<2x3xf32>, tensor<3x4xf32>) -> {F24}"


def query(name: str, operator: str, type: str) -> str:
    return f"%{name} = torch.{operator} : ({type}) -> !torch.int"


def binary(name: str, operator: str, arguments: str, a: str, b: str, result: str) -> str:
    return f"%{name} = torch.aten.{operator}({arguments}) : ({a}, {b}) -> {result}"


AGREE = {
    "implicit expand": (
        EXPANDS,
        graph(X44_B4, expand("e", "%b", IMPLICIT), call("y", "add.Tensor", "%x, %e", F44, F44), output("%y", F44)),
    ),
    "explicit expand": (
        EXPANDS, graph(X44_B4, expand("e", "%b"), call("y", "add.Tensor", "%x, %e", F44, F44), output("%y", F44)),
    ),
    "explicit expand returned": (EXPANDS, graph(f"%b: {F4}", expand("e", "%b"), output("%e", F44))),
    "constant tensor": (
        CANONICAL,
        graph(f"%x: {F4}", TWO, call("y", "mul.Tensor", "%x, %c", F4, F), output("%y", F4)),
    ),
    "constant tensor with alpha": (
        CANONICAL, graph(f"%x: {F4}", TWO, call("y", "add.Tensor", "%x, %c, alpha = 3", F4, F), output("%y", F4)),
    ),
    "constant tensor on the left": (
        CANONICAL, graph(f"%x: {F4}", TWO, binary("y", "mul.Tensor", "%c, %x", F, F4, F4), output("%y", F4)),
    ),
    "constant tensor with a dimension": (
        CANONICAL,
        graph(f"%x: {F4}", TWO.replace("<f32>", "<1xf32>"), call("y", "mul.Tensor", "%x, %c", F4, "tensor<1xf32>"),
              output("%y", F4)),
    ),
    "expand to its size": (
        PEEPHOLE,
        graph(f"%x: {F4}", expand("e", "%x", "", "[4]", F4), call("y", "relu.default", "%e", F4), output("%y", F4)),
    ),
    "expand to another size": (
        PEEPHOLE, graph(f"%x: {F4}", expand("e", "%x"), call("y", "relu.default", "%e", F44), output("%y", F44)),
    ),
    "type_as of the type": (
        PEEPHOLE,
        graph(f"%x: {F4}, %z: {F4}", call("a", "type_as.default", "%x, %z", F4, F4), call("y", "relu.default", "%a", F4),
              output("%y", F4)),
    ),
    "type_as of another type": (
        PEEPHOLE,
        graph(f"%x: {F4}, %z: {D4}", binary("a", "type_as.default", "%x, %z", F4, D4, D4), call("y", "relu.default", "%a", D4),
              output("%y", D4)),
    ),
    "sum to none": (
        PEEPHOLE,
        graph(f"%x: {F4}", call("a", "_grad_sum_to_size.default", "%x, none", F4), call("y", "relu.default", "%a", F4),
              output("%y", F4)),
    ),
    "sum of a sum": (
        PEEPHOLE,
        graph(f"%x: {F24}", f"%a = torch.aten._grad_sum_to_size.default(%x, [1, 4]) : ({F24}) -> tensor<1x4xf32>",
              f"%b = torch.aten._grad_sum_to_size.default(%a, [4]) : (tensor<1x4xf32>) -> {F4}",
              call("y", "relu.default", "%b", F4), output("%y", F4)),
    ),
    "rank": (PEEPHOLE, graph(f"%x: {F24}", query("n", "aten.dim.default(%x)", F24), output("%n", "!torch.int"))),
    "size": (PEEPHOLE, graph(f"%x: {F24}", query("n", "aten.size.int(%x, 1)", F24), output("%n", "!torch.int"))),
    "dtype": (PEEPHOLE, graph(f"%x: {F24}", query("n", "prim.dtype.default(%x)", F24), output("%n", "!torch.int"))),
    "size of sizes that do not count": (
        ANY_SIZES, graph(f"%x: {F24}", query("n", "aten.size.int(%x, 1)", F24), output("%n", "!torch.int")),
    ),
    "expand to a size that does not count": (
        ANY_SIZES,
        graph(f"%x: {F4}", expand("e", "%x", "", "[4]", F4), call("y", "relu.default", "%e", F4), output("%y", F4)),
    ),
    "int times 1, any size": (
        ANY_SIZES,
        graph(f"%x: {I4}", call("a", "mul.Scalar", "%x, 1", I4), call("y", "neg.default", "%a", I4), output("%y", I4)),
    ),
    "int times 1.0": (
        PEEPHOLE,
        graph(f"%x: {I4}", f"%a = torch.aten.mul.Scalar(%x, 1.0) : ({I4}) -> {F4}", call("y", "neg.default", "%a", F4),
              output("%y", F4)),
    ),
    "int by 1": (
        PEEPHOLE,
        graph(f"%x: {I4}", f"%a = torch.aten.div.Scalar(%x, 1) : ({I4}) -> {F4}", call("y", "neg.default", "%a", F4),
              output("%y", F4)),
    ),
    "addmm": (DECOMPOSE, graph(MATRICES, addmm(), output("%y", F24))),
    "addmm with alpha": (DECOMPOSE, graph(MATRICES, addmm(", alpha = 2"), output("%y", F24))),
    "addmm with beta": (DECOMPOSE, graph(MATRICES, addmm(", beta = 0.5"), output("%y", F24))),
    "layer_norm on the CPU": (
        DECOMPOSE,
        graph(f"%x: {F24}, %w: {F4}", call("y", "layer_norm.default", "%x, [4], %w, %w", F24, F4, F4), output("%y", F24)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AGREE)
def test_same_ops_are_left(case: str) -> None:
    (our_pass, their_passes), text = AGREE[case]
    assert theirs(parse_module(CONTEXT, text), their_passes) == ours(parse_module(CONTEXT, text), our_pass)


DIFFER = {
    "an implicit expand that is returned: they return another shape": (
        EXPANDS, graph(f"%b: {F4}", expand("e", "%b", IMPLICIT), output("%e", F44)), ({}, 0), ({"expand": 1}, 0),
    ),
    "an implicit expand that gives a result its shape": (
        EXPANDS,
        graph(f"%b: {F4}", expand("e", "%b", IMPLICIT), call("y", "relu.default", "%e", F44), output("%y", F44)),
        ({"relu": 1}, 0),
        ({"expand": 1, "relu": 1}, 0),
    ),
    "an implicit expand into a product": (
        EXPANDS,
        graph(X44_B4, expand("e", "%b", IMPLICIT), call("y", "mm.default", "%e, %x", F44, F44), output("%y", F44)),
        ({"mm": 1}, 0),
        ({"expand": 1, "mm": 1}, 0),
    ),
    "an implicit expand of a scalar of a wider dtype: they change the dtype of the result": (
        EXPANDS,
        graph(f"%x: {F4}, %b: {D}", expand("e", "%b", IMPLICIT, "[4]", D4, D), binary("y", "add.Tensor", "%x, %e", F4, D4, D4),
              output("%y", D4)),
        ({"add": 1}, 0),
        ({"expand": 1, "add": 1}, 0),
    ),
    "int64 plus a constant float64: plus a Python float it would be float32": (
        CANONICAL,
        graph(f"%x: {I4}", HALF, binary("y", "add.Tensor", "%x, %c", I4, D, D4), output("%y", D4)),
        ({"add": 1}, 0),
        ({"add": 1}, 1),
    ),
    "a chunk: their n-ary op names the count, ours all sizes": (
        CANONICAL,
        graph(f"%x: {F4}", f"%a, %b = torch.aten.chunk.default(%x, 2) : ({F4}) -> (tensor<2xf32>, tensor<2xf32>)",
              call("y", "add.Tensor", "%a, %b", "tensor<2xf32>", "tensor<2xf32>"), output("%y", "tensor<2xf32>")),
        ({"ConstantChunk": 1, "add": 1}, 0),
        ({"split_with_sizes": 1, "add": 1}, 0),
    ),
    "a chunk that gives fewer pieces than it was asked for: sizes can say so, a count cannot": (
        CANONICAL,
        graph(f"%x: {F4}", f"%a, %b = torch.aten.chunk.default(%x, 3) : ({F4}) -> (tensor<2xf32>, tensor<2xf32>)",
              call("y", "add.Tensor", "%a, %b", "tensor<2xf32>", "tensor<2xf32>"), output("%y", "tensor<2xf32>")),
        ({"chunk": 1, "add": 1}, 0),
        ({"split_with_sizes": 1, "add": 1}, 0),
    ),
    "rank and dtype where sizes do not count: a plan is made for them": (
        ANY_SIZES,
        graph(f"%x: {F24}", query("n", "aten.dim.default(%x)", F24), query("m", "prim.dtype.default(%x)", F24),
              output("%n, %m", "!torch.int", "!torch.int")),
        ({"dim": 1, "dtype": 1}, 0),
        ({}, 0),
    ),
    "sum to the size that is there: they have no such rule": (
        PEEPHOLE,
        graph(f"%x: {F4}", call("a", "_grad_sum_to_size.default", "%x, [4]", F4), call("y", "relu.default", "%a", F4),
              output("%y", F4)),
        ({"_grad_sum_to_size": 1, "relu": 1}, 0),
        ({"relu": 1}, 0),
    ),
    "a float that goes through a tensor and comes out as int: they take the float": (
        PEEPHOLE,
        graph("%f: !torch.float", "%t = torch.prim.NumToTensor.Scalar(%f) : (!torch.float) -> tensor<f64>",
              query("n", "aten.Int.Tensor(%t)", "tensor<f64>"), output("%n", "!torch.int")),
        ({}, 0),
        ({"NumToTensor": 1, "Int": 1}, 0),
    ),
    "addmm in half precision: the product would be rounded once more": (
        DECOMPOSE,
        graph(MATRICES.replace("f32", "f16"), addmm().replace("f32", "f16"), output("%y", "tensor<2x4xf16>")),
        ({"mm": 1, "add": 1}, 0),
        ({"addmm": 1}, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFER)
def test_where_we_differ(case: str) -> None:
    (our_pass, their_passes), text, their_ops, our_ops = DIFFER[case]
    assert theirs(parse_module(CONTEXT, text), their_passes) == their_ops
    assert ours(parse_module(CONTEXT, text), our_pass) == our_ops
