"""TorchScript's own FuseGraph, run on the same graphs as ours: which ops share a group, and where we differ and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fxc.dialects.fusion import GroupOp
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.torch_ops.base import TorchOp
from fxc.driver.runner import run_pipeline
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from tests.test_torchscript_oracle import graph, output
from tests.test_torchscript_oracle_ops import Writer

C = torch._C
CONTEXT = new_context()
F4, F8 = "tensor<4xf32>", "tensor<8xf32>"


def unary(name: str, result: str, source: str, type: str = F4) -> str:
    return f"%{result} = torch.aten.{name}.default(%{source}) : ({type}) -> {type}"


def binary(name: str, result: str, a: str, b: str) -> str:
    return f"%{result} = torch.aten.{name}.Tensor(%{a}, %{b}) : ({F4}, {F4}) -> {F4}"


def cat(result: str, a: str, b: str) -> str:
    return f"%{result} = torch.aten.cat.default([%{a}, %{b}]) : ({F4}, {F4}) -> {F8}"


def sums(count: int) -> str:
    first = binary("add", "s1", "x0", "x1")
    rest = [binary("add", f"s{i}", f"s{i - 1}", f"x{i}") for i in range(2, count)]
    return graph(", ".join(f"%x{i}: {F4}" for i in range(count)), first, *rest, output(f"%s{count - 1}", F4))


XY = f"%x: {F4}, %y: {F4}"
ABC = binary("add", "a", "x", "y"), binary("mul", "b", "a", "x"), unary("sigmoid", "c", "b")
NEG, EXP = unary("neg", "a", "x"), unary("exp", "b", "a")
CHUNK = f"%p, %q = torch.aten.chunk.default(%z, 2) : ({F8}) -> ({F4}, {F4})"
SUM = "%s = torch.aten.cumsum.default(%a, 0) : (tensor<4xf32>) -> tensor<4xf32>"

AGREE = {
    "chain": graph(XY, *ABC, output("%c", F4)),
    "two results": graph(XY, *ABC, output("%c, %a", F4, F4)),
    "diamond": graph(XY, NEG, EXP, unary("sin", "c", "a"), binary("mul", "d", "b", "c"), output("%d", F4)),
    "alone": graph(XY, NEG, output("%a", F4)),
    "siblings": graph(XY, NEG, unary("exp", "b", "x"), output("%a, %b", F4, F4)),
    "between": graph(XY, NEG, SUM, EXP, output("%b, %s", F4, F4)),
    "no cycle": graph(XY, NEG, SUM, unary("exp", "b", "s"), binary("mul", "c", "a", "b"), output("%c", F4)),
    "cat": graph(XY, NEG, EXP, cat("c", "a", "b"), output("%c", F8)),
    "cat alone": graph(XY, cat("c", "x", "y"), output("%c", F8)),
    "after cat": graph(
        XY, NEG, EXP, cat("c", "a", "b"), unary("neg", "d", "c", F8), unary("tanh", "e", "d", F8), output("%e", F8)
    ),
    "chunk": graph(f"%z: {F8}", CHUNK, binary("mul", "m", "p", "q"), unary("tanh", "n", "m"), output("%n", F4)),
    "a piece outside": graph(
        f"%z: {F8}", CHUNK, binary("mul", "m", "p", "q"), unary("tanh", "n", "m"), output("%n, %p", F4, F4)
    ),
    "chunk between": graph(
        f"%z: {F8}", unary("neg", "u", "z", F8), CHUNK.replace("%z", "%u"), binary("mul", "m", "p", "q"), output("%m", F4)
    ),
    "equal": graph(XY, NEG, unary("neg", "b", "x"), binary("mul", "c", "a", "b"), output("%c", F4)),
    "write": graph(
        XY, NEG, f"%w = torch.aten.zero_.default(%x) : ({F4}) -> {F4}", binary("mul", "c", "a", "x"), output("%c, %w", F4, F4)
    ),
    "random": graph(XY, NEG, unary("bernoulli", "r", "a"), unary("exp", "b", "r"), output("%b", F4)),
    "as many as fit": sums(120),
}  # fmt: skip

BROADCAST = graph(
    f"%z: {F8}, %x: tensor<1xf32>", f"%u = torch.aten.mul.Tensor(%z, %x) : ({F8}, tensor<1xf32>) -> {F8}",
    CHUNK.replace("%z", "%u"), binary("mul", "m", "p", "q"), output("%m", F4),
)  # fmt: skip

DIFFER = {
    "chunk of a broadcast": BROADCAST,
    "other operators": graph(XY, unary("square", "a", "x"), unary("sinc", "b", "a"), output("%b", F4)),
    "write to another": graph(
        XY, NEG, f"%w = torch.aten.zero_.default(%y) : ({F4}) -> {F4}", EXP, output("%b, %w", F4, F4)
    ),
    "different shapes": graph(
        f"%x: {F4}, %z: {F8}", NEG, unary("exp", "b", "z", F8),
        f"%c = torch.aten.cat.default([%a, %b]) : ({F4}, {F8}) -> tensor<12xf32>", output("%c", "tensor<12xf32>"),
    ),
}  # fmt: skip
"""We fuse every pointwise operator, move past no write, cut no operand that is broadcast, and fuse a concatenation of equal
shapes only, as one kernel has one shape: TorchScript finds that out when the kernel runs."""

Grouping = list[list[str]]
"""The names of the ops of each group, sorted; first those outside of groups."""


class _FuserWriter(Writer):
    def value(self, tree: Any) -> str:
        if isinstance(tree, list) and tree and all(isinstance(element, SSAValue) for element in tree):
            return self.define("Tensor[]", f"prim::ListConstruct({', '.join(map(self.name, tree))})")
        return super().value(tree)


@pytest.fixture(autouse=True, scope="module")
def fuser() -> Iterator[None]:
    executor, profiling = C._jit_set_profiling_executor(False), C._jit_set_profiling_mode(False)
    on_cpu = C._jit_can_fuse_on_cpu_legacy()
    C._jit_override_can_fuse_on_cpu_legacy(True)
    yield
    C._jit_override_can_fuse_on_cpu_legacy(on_cpu)
    C._jit_set_profiling_executor(executor)
    C._jit_set_profiling_mode(profiling)


def theirs(module: ModuleOp) -> Grouping:
    [function] = [op for op in module.walk() if isinstance(op, FuncOp)]
    parsed = C.parse_ir(_FuserWriter().graph(function), parse_tensor_constants=True)
    C._jit_pass_canonicalize_graph_fuser_ops(parsed)
    C._jit_pass_fuse(parsed, False)  # type: ignore[attr-defined]
    names = {"FusedConcat": "cat", "ConstantChunk": "chunk"}
    skipped = r"(?:aten|prim)::(?!Constant\b|ListConstruct|ListUnpack|FusionGroup|broadcast_tensors)(\w+)"
    outside, *groups = str(parsed).split("\nwith ")
    found = [sorted(str(names.get(name, name)) for name in re.findall(skipped, text)) for text in (outside, *groups)]
    return [found[0], *sorted(found[1:])]


def ours(module: ModuleOp) -> Grouping:
    run_pipeline(CONTEXT, module, parse_pipeline("set-target,fuse,dce"))
    groups = [op for op in module.walk() if isinstance(op, GroupOp)]
    inside = [[op for op in group.body.walk() if isinstance(op, TorchOp)] for group in groups]
    outside = [op for op in module.walk() if isinstance(op, TorchOp) and not any(op in ops for ops in inside)]
    names = [sorted(str(op.operator).split(".")[1] for op in ops) for ops in (outside, *inside)]
    return [names[0], *sorted(names[1:])]


@pytest.mark.parametrize("name", AGREE)
def test_the_same_groups(name: str) -> None:
    text = AGREE[name]
    assert ours(parse_module(CONTEXT, text)) == theirs(parse_module(CONTEXT, text))


@pytest.mark.parametrize("name", DIFFER)
def test_where_we_differ(name: str) -> None:
    text = DIFFER[name]
    assert ours(parse_module(CONTEXT, text)) != theirs(parse_module(CONTEXT, text))


def test_a_limit_of_values() -> None:
    """TorchScript adds up the inputs and outputs of what it merges, and we count those of the result."""
    assert sorted(map(len, ours(parse_module(CONTEXT, sums(140))))) == [0, 13, 126]
    assert sorted(map(len, theirs(parse_module(CONTEXT, sums(140))))) == [0, 16, 123]


def test_a_chunk_of_a_broadcast() -> None:
    """TorchScript, which knows no shapes, broadcasts all operands and cuts them; we pass whole what is broadcast. Its
    ``broadcast_tensors`` are not counted."""
    assert theirs(parse_module(CONTEXT, BROADCAST)) == [[], ["chunk", "chunk", "mul", "mul", "mul"]]
    assert ours(parse_module(CONTEXT, BROADCAST)) == [[], ["chunk", "mul", "mul", "mul"]]


def test_sizes_keep_no_result() -> None:
    """TorchScript's size queries ask the inputs too, and the group has one result."""
    text = "graph(%x : F, %y : F):\n  %a : F = aten::mul(%x, %y)\n  %b : F = aten::sigmoid(%a)\n  %s : int[] = aten::size(%a)\n"
    parsed = C.parse_ir(f"{text}  return (%b, %s)\n".replace(": F", ": Float(4, strides=[1], requires_grad=0, device=cpu)"))
    C._jit_pass_fuse(parsed, False)  # type: ignore[attr-defined]
    assert "BroadcastSizes" in str(parsed) and re.search(r"aten::size\(%x\)", str(parsed))
    assert len([node for node in parsed.nodes() if node.kind() == "prim::FusionGroup" for _ in node.outputs()]) == 1
    size = "%s = torch.aten.sym_size.int(%a, 0) : (tensor<4xf32>) -> !torch.int"
    module = parse_module(
        CONTEXT,
        graph(
            XY,
            binary("mul", "a", "x", "y"),
            unary("sigmoid", "b", "a"),
            size,
            "fx.output((%b, %s)) : (tensor<4xf32>, !torch.int) -> ()",
        ),
    )
    run_pipeline(CONTEXT, module, parse_pipeline("fuse,dce"))
    [group] = [op for op in module.walk() if isinstance(op, GroupOp)]
    assert len(group.results) == 1
