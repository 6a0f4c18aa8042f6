"""TorchScript's own C++ passes, run on the same graphs: where we keep the same ops, and where we differ and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import contiguous_strides, dtype_name, sizes
from fxc.dialects.attributes.values import NoneValueAttr, Tree, leaves
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.schema import Argument
from fxc.passes import load
from fxc.program.program import new_context

C = torch._C
CONTEXT = new_context()
F4, I4, F44 = "tensor<4xf32>", "tensor<4xi64>", "tensor<4x4xf32>"


def torchscript(function: FuncOp) -> str:
    """``function`` in TorchScript's IR, with every argument that a schema gives a default."""
    return _Writer().graph(function)


class _Writer:
    def __init__(self) -> None:
        self.lines, self.names, self.constants = list[str](), dict[SSAValue, str](), 0

    def graph(self, function: FuncOp) -> str:
        arguments = ", ".join(f"{self.name(a)} : {_type(a)}" for a in function.body.block.args)
        for op in function.body.block.ops:
            if isinstance(op, OutputOp):
                returned = [self.name(leaf) for leaf in leaves(op.trees()[0]) if isinstance(leaf, SSAValue)]
                self.lines.append(f"  return ({', '.join(returned)})")
            elif isinstance(op, TorchOp):
                bound = op.bound()
                passed = [self.value(bound[a.name]) if a.name in bound else self.default(a) for a in op.SCHEMA.arguments]
                namespace, name, _ = op.operator.split(".")
                results = ", ".join(f"{self.name(r)} : {_type(r)}" for r in op.results)
                self.lines.append(f"  {results} = {namespace}::{name}({', '.join(passed)})")
        return f"graph({arguments}):\n" + "\n".join(self.lines) + "\n"

    def name(self, value: SSAValue) -> str:
        return self.names.setdefault(value, f"%v_{len(self.names)}")

    def value(self, tree: Tree) -> str:
        if isinstance(tree, SSAValue):
            return self.name(tree)
        if isinstance(tree, (list, ArrayAttr)):
            elements = ", ".join(self.value(element) for element in tree)
            return self.define("int[]", f"prim::ListConstruct({elements})")
        if isinstance(tree, NoneValueAttr):
            return self.define("NoneType", "prim::Constant()")
        kind = "int" if isinstance(tree, IntegerAttr) else "float"
        return self.define(kind, f"prim::Constant[value={tree.value.data}]()")

    def default(self, argument: Argument) -> str:
        text = argument.default
        if text in (None, "None"):
            return self.define("NoneType", "prim::Constant()")
        text = {"False": "0", "True": "1"}.get(text or "", text or "")
        kind = "bool" if argument.type == "bool" else "float" if "." in text else "int"
        return self.define(kind, f"prim::Constant[value={text}]()")

    def define(self, type: str, expression: str) -> str:
        self.constants += 1
        self.lines.append(f"  %c_{self.constants} : {type} = {expression}")
        return f"%c_{self.constants}"


def _type(value: SSAValue) -> str:
    assert isinstance(value.type, TensorType)
    shape = [int(size) for size in sizes(value.type)]
    scalar = {"float32": "Float", "int64": "Long"}[dtype_name(value.type.element_type)]
    steps = ", ".join(map(str, contiguous_strides(shape)))
    return f"{scalar}({', '.join(map(str, shape))}, strides=[{steps}], requires_grad=0, device=cpu)"


def aten_calls(text: str) -> Counter[str]:
    return Counter(re.findall(r"aten::(\w+)\(", text))


def ours(module: ModuleOp, names: Sequence[str]) -> Counter[str]:
    for name in names:
        load(name)().apply(CONTEXT, module)
    return Counter(op.operator.split(".")[1] for op in module.walk() if isinstance(op, TorchOp))


def theirs(module: ModuleOp, passes: Sequence[Callable[[Any], Any]]) -> Counter[str]:
    [function] = [op for op in module.walk() if isinstance(op, FuncOp)]
    graph = C.parse_ir(torchscript(function))
    for run in passes:
        run(graph)
    return aten_calls(str(graph))


CSE = ("cse", "dce"), (C._jit_pass_cse, C._jit_pass_dce)
DCE = ("dce",), (C._jit_pass_dce,)
PEEPHOLE = ("canonicalize", "dce"), (lambda g: C._jit_pass_peephole(g, False), C._jit_pass_dce)


def graph(arguments: str, *lines: str) -> str:
    return f"func.func @main({arguments}) {{\n" + "\n".join(lines) + "\n}"


def call(result: str, operator: str, arguments: str, *types: str) -> str:
    """``%r = torch.aten.<operator>(<arguments>)`` whose result has the type of its first operand."""
    return f"%{result} = torch.aten.{operator}({arguments}) : ({', '.join(types)}) -> {types[0]}"


def output(names: str, *types: str) -> str:
    return f"fx.output(({names},)) : ({', '.join(types)}) -> ()"


X = f"%x: {F4}"
RELU_A, RELU_B = call("a", "relu.default", "%x", F4), call("b", "relu.default", "%x", F4)
ADD_C = call("c", "add.Tensor", "%a, %b", F4, F4)
LOCAL = call("y", "exp.default", "%x", F4)

AGREE = {
    "merge": (CSE, graph(X, RELU_A, RELU_B, ADD_C, output("%c", F4))),
    "chain": (
        CSE,
        graph(
            X, RELU_A, RELU_B, call("e", "neg.default", "%a", F4), call("f", "neg.default", "%b", F4),
            call("g", "mul.Tensor", "%e, %f", F4, F4), output("%g", F4),
        ),
    ),
    "write between": (
        CSE,
        graph(
            X, LOCAL, call("a", "relu.default", "%y", F4), call("w", "add_.Tensor", "%y, %y", F4, F4),
            call("b", "relu.default", "%y", F4), ADD_C, output("%c", F4),
        ),
    ),
    "both returned": (CSE, graph(X, RELU_A, RELU_B, output("%a, %b", F4, F4))),
    "commuted": (
        CSE,
        graph(
            f"{X}, %z: {F4}", call("a", "mul.Tensor", "%x, %z", F4, F4), call("b", "mul.Tensor", "%z, %x", F4, F4), ADD_C,
            output("%c", F4),
        ),
    ),
    "random": (
        CSE,
        graph(X, call("a", "rand_like.default", "%x", F4), call("b", "rand_like.default", "%x", F4), ADD_C, output("%c", F4)),
    ),
    "result written": (
        CSE, graph(X, RELU_A, RELU_B, call("w", "zero_.default", "%a", F4), ADD_C, output("%c", F4)),
    ),
    "alpha": (
        CSE,
        graph(X, call("a", "add.Tensor", "%x, %x", F4, F4), call("b", "add.Tensor", "%x, %x, alpha = 2", F4, F4), ADD_C,
              output("%c", F4)),
    ),
    "dead": (DCE, graph(X, RELU_A, RELU_B, output("%b", F4))),
    "live write": (DCE, graph(X, LOCAL, call("w", "zero_.default", "%y", F4), output("%y", F4))),
    "write to input": (DCE, graph(X, call("w", "zero_.default", "%x", F4), RELU_A, output("%a", F4))),
    "t of t": (
        PEEPHOLE,
        graph(
            f"%x: {F44}", call("a", "t.default", "%x", F44), call("b", "t.default", "%a", F44),
            call("c", "relu.default", "%b", F44), output("%c", F44),
        ),
    ),
    "int times 1": (
        PEEPHOLE,
        graph(f"%x: {I4}", call("a", "mul.Scalar", "%x, 1", I4), call("b", "neg.default", "%a", I4), output("%b", I4)),
    ),
    "int plus 0": (
        PEEPHOLE,
        graph(f"%x: {I4}", call("a", "add.Scalar", "%x, 0", I4), call("b", "neg.default", "%a", I4), output("%b", I4)),
    ),
    "float times 1": (
        PEEPHOLE, graph(X, call("a", "mul.Scalar", "%x, 1", F4), call("b", "neg.default", "%a", F4), output("%b", F4)),
    ),
    "times 1 returned": (PEEPHOLE, graph(f"%x: {I4}", call("a", "mul.Scalar", "%x, 1", I4), output("%a", I4))),
}  # fmt: skip


@pytest.mark.parametrize("case", AGREE)
def test_same_ops_are_left(case: str) -> None:
    (our_passes, their_passes), text = AGREE[case]
    assert theirs(parse_module(CONTEXT, text), their_passes) == ours(parse_module(CONTEXT, text), our_passes)


DIFFER = {
    "float plus 0: -0.0 + 0 is 0.0, which they lose": (
        PEEPHOLE,
        graph(X, call("a", "add.Scalar", "%x, 0", F4), call("b", "neg.default", "%a", F4), output("%b", F4)),
        {"neg": 1},
        {"add": 1, "neg": 1},
    ),
    "a dead write: their pass, as it can be called alone, has no alias analysis and keeps every write": (
        DCE,
        graph(X, LOCAL, call("w", "zero_.default", "%y", F4), RELU_A, output("%a", F4)),
        {"exp": 1, "zero_": 1, "relu": 1},
        {"relu": 1},
    ),
    "a dead draw: removing it would change what later draws give": (
        DCE,
        graph(X, call("a", "rand_like.default", "%x", F4), RELU_B, output("%b", F4)),
        {"relu": 1},
        {"rand_like": 1, "relu": 1},
    ),
    "neg of neg: they have no such rule": (
        PEEPHOLE,
        graph(
            X, call("a", "neg.default", "%x", F4), call("b", "neg.default", "%a", F4), call("c", "relu.default", "%b", F4),
            output("%c", F4),
        ),
        {"neg": 2, "relu": 1},
        {"relu": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFER)
def test_where_we_differ(case: str) -> None:
    (our_passes, their_passes), text, their_ops, our_ops = DIFFER[case]
    assert theirs(parse_module(CONTEXT, text), their_passes) == their_ops
    assert ours(parse_module(CONTEXT, text), our_passes) == our_ops


def test_merge_with_a_later_write_to_the_operand() -> None:
    """They skip any op whose operand is ever written; we merge what no write lies between."""
    text = graph(
        X, LOCAL, call("a", "relu.default", "%y", F4), call("b", "relu.default", "%y", F4), ADD_C,
        call("w", "zero_.default", "%y", F4), output("%c", F4),
    )  # fmt: skip
    assert theirs(parse_module(CONTEXT, text), CSE[1])["relu"] == 2
    assert ours(parse_module(CONTEXT, text), CSE[0])["relu"] == 1
