"""TorchScript's own C++ passes for shapes, gradients, loops and matrix products, on the same programs as ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
import torch
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp

from fxc.dialects.attributes.types import sizes
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.passes import load
from fxc.program.program import new_context
from tests.test_torchscript_oracle import torchscript

C = torch._C
CONTEXT = new_context()
A, B, R, T = "tensor<2x3xf32>", "tensor<3x2xf32>", "tensor<2x2xf32>", "tensor<3x2xf32, #torch.meta<strides = [1, 3]>>"


def entry(module: ModuleOp) -> FuncOp:
    [function] = [op for op in module.walk() if isinstance(op, FuncOp)]
    return function


def ours(text: str, *names: str) -> ModuleOp:
    module = parse_module(CONTEXT, text)
    for name in names:
        load(name)().apply(CONTEXT, module)
    return module


# shapes and gradients

PROGRAMS = {
    "pointwise": ["%c = torch.aten.add.Tensor(%x, %w) : (F, F) -> F", "%d = torch.aten.tanh.default(%c) : (F) -> F"],
    "comparison": ["%c = torch.aten.exp.default(%w) : (F) -> F",
                   "%d = torch.aten.gt.Tensor(%c, %x) : (F, F) -> tensor<4x4xi1>"],
    "detach": ["%c = torch.aten.detach.default(%w) : (F) -> F", "%d = torch.aten.mul.Tensor(%c, %x) : (F, F) -> F"],
    "type_as": ["%c = torch.aten.type_as.default(%x, %w) : (F, F) -> F", "%d = torch.aten.neg.default(%c) : (F) -> F"],
    "product": ["%c = torch.aten.mm.default(%x, %w) : (F, F) -> F", "%d = torch.aten.sum.default(%c) : (F) -> tensor<f32>"],
    "view": ["%c = torch.aten.view.default(%w, [2, 8]) : (F) -> F", "%d = torch.aten.relu.default(%c) : (F) -> F"],
    "transpose": ["%c = torch.aten.t.default(%w) : (F) -> F", "%d = torch.aten.exp.default(%c) : (F) -> F"],
}  # fmt: skip


THEY_PASS_ON = ("comparison", "detach")
"""Their shape analysis says that a result requires grad where an operand does; the pass that is exact is not exported."""


@pytest.mark.parametrize("case", PROGRAMS)
def test_shapes_and_gradients(case: str) -> None:
    """Where they state sizes, or whether a value requires grad, we state the same. They may say nothing; we do not."""
    kind = "tensor<4x4xf32>"
    lines = "\n".join(PROGRAMS[case]).replace("F", kind)
    text = f"func.func @main(%x: {kind}, %w: {kind} {{fx.requires_grad}}) {{\n{lines}\nfx.output(%d) : (TYPE) -> ()\n}}"
    text = text.replace("TYPE", lines.rpartition("-> ")[2])
    module = ours(text, "propagate-shapes", "propagate-requires-grad")
    stale = parse_module(CONTEXT, text)
    graph = C.parse_ir(re.sub(r" : \w+\([^)]*\)( =)", r" : Tensor\1", _without_types(entry(stale))))
    inputs = (torch.randn(4, 4), torch.randn(4, 4, requires_grad=True))
    C._jit_pass_complete_shape_analysis(graph, inputs, True)
    ops = [op for op in module.walk() if isinstance(op, TorchOp)]
    nodes = [node for node in graph.nodes() if node.kind().startswith("aten::")]
    assert [node.kind().removeprefix("aten::") for node in nodes] == [op.operator.split(".")[1] for op in ops]
    for node, op in zip(nodes, ops, strict=True):
        [result], type = op.results, node.output().type()
        said = op.attributes["requires_grad"]
        assert isinstance(result.type, TensorType) and isinstance(said, ArrayAttr)
        if type.sizes() is not None:
            assert list(sizes(result.type)) == type.sizes()
        if case in THEY_PASS_ON and op is ops[-1]:
            assert type.requires_grad() and not any(bit.value.data for bit in said)  # type: ignore[attr-defined]
        elif case not in THEY_PASS_ON and type.requires_grad() is not None:
            assert bool(said.data[0].value.data) == type.requires_grad()  # type: ignore[attr-defined]


def _without_types(function: FuncOp) -> str:
    """TorchScript's text of ``function``, in which no tensor has a size."""
    for op in function.walk():
        for result in op.results if isinstance(op, TorchOp) else ():
            result._type = function.body.block.args[0].type
    return torchscript(function)


def test_a_branch_that_does_not_agree() -> None:
    """They keep the rank where sizes differ; we keep the sizes that do not differ as well."""

    def model(p: bool, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if p:
            r = x.exp()
        else:
            r = y.neg()
        return r

    graph = torch.jit.script(model).graph
    C._jit_pass_complete_shape_analysis(graph, (True, torch.randn(2, 3), torch.randn(2, 4)), False)
    type = next(iter(graph.outputs())).type()
    assert (type.dim(), type.sizes()) == (2, None)
    assert type.varyingSizes() in (None, [2, None], [None, None])
    text = """func.func @main(%p: !torch.bool, %x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
      %r = torch.higher_order.cond(%p, @t, @f, (%x, %y)) ({
      ^bb0(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>):
        fx.output((%a,)) : (tensor<2x3xf32>) -> ()
      }, {
      ^bb0(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>):
        fx.output((%b,)) : (tensor<2x4xf32>) -> ()
      }) : (!torch.bool, tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
      fx.output(%r) : (tensor<2x3xf32>) -> ()
    }"""
    [loop] = [op for op in ours(text, "propagate-shapes").walk() if isinstance(op, HigherOrderOp)]
    assert sizes(loop.results[0].type) == (2, "")  # type: ignore[arg-type]


# loops


def their_loop(trips: str, body: int) -> str:
    lines = "\n".join(f"      %a.{i + 1} : Tensor = aten::tanh(%a.{i})" for i in range(body))
    return f"""graph(%x : Tensor, %n : int):
  %true : bool = prim::Constant[value=1]()
  {"" if trips == "n" else f"%k : int = prim::Constant[value={trips}]()"}
  %r : Tensor = prim::Loop({"%n" if trips == "n" else "%k"}, %true, %x)
    block0(%i : int, %a.0 : Tensor):
{lines}
      -> (%true, %a.{body})
  return (%r)
"""


def our_loop(trips: str, body: int) -> str:
    kind = "tensor<4xf32>"
    lines = "\n".join(f"%a{i + 1} = torch.aten.tanh.default(%a{i}) : ({kind}) -> {kind}" for i in range(body))
    bound, more = ("%q", ", !torch.int") if trips == "n" else (trips, "")
    return f"""func.func @main(%x: {kind}, %n: !torch.int) {{
      %m, %r = torch.higher_order.while_loop(@c, @b, (0, %x), (%n,)) ({{
      ^bb0(%i: !torch.int, %a0: {kind}, %q: !torch.int):
        %c = fx.call_function @operator.lt(%i, {bound}) : (!torch.int{more}) -> !torch.bool
        fx.output(%c) : (!torch.bool) -> ()
      }}, {{
      ^bb0(%i: !torch.int, %a0: {kind}, %q: !torch.int):
        %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
        {lines}
        fx.output((%j, %a{body})) : (!torch.int, {kind}) -> ()
      }}) : ({kind}, !torch.int) -> (!torch.int, {kind})
      fx.output(%r) : ({kind}) -> ()
    }}"""


def count_theirs(trips: str, body: int) -> tuple[int, int]:
    graph = C.parse_ir(their_loop(trips, body))
    C._jit_pass_loop_unrolling(graph)
    text = str(graph)
    return text.count("prim::Loop"), text.count("aten::tanh")


def count_ours(trips: str, body: int) -> tuple[int, int]:
    module = ours(our_loop(trips, body), "unroll-loops")
    names = [op.name for op in module.walk()]
    return names.count("torch.higher_order.while_loop"), names.count("torch.aten.tanh.default")


@pytest.mark.parametrize(
    ("trips", "body"), [("1", 1), ("3", 2), ("63", 1), ("64", 1), ("100", 3), ("n", 1), ("n", 4), ("n", 40)]
)
def test_the_same_loops_and_copies(trips: str, body: int) -> None:
    assert count_theirs(trips, body) == count_ours(trips, body)


def test_a_loop_that_does_not_run() -> None:
    """They leave nothing of it either, but hand on the value itself; we copy it, as PyTorch's while_loop does."""
    assert count_theirs("0", 1) == count_ours("0", 1) == (0, 0)
    assert "torch.aten.clone.default" in [op.name for op in ours(our_loop("0", 1), "unroll-loops").walk()]


# matrix products


def product(i: int, a: str, b: str) -> str:
    return f"%p{i} = torch.aten.mm.default({a}, {b}) : ({A}, {B}) -> {R}"


def add(result: str, a: str, b: str, alpha: str = "") -> str:
    return f"%{result} = torch.aten.add.Tensor(%{a}, %{b}{alpha}) : ({R}, {R}) -> {R}"


def program(lines: Sequence[str], *returned: str) -> str:
    arguments = ", ".join([f"%a{i}: {A}, %b{i}: {B}" for i in range(8)])
    output = f"fx.output(({', '.join(returned)},)) : ({', '.join([R] * len(returned))}) -> ()"
    return "\n".join([f"func.func @main({arguments}) {{", *lines, output, "}"])


LEAVES = [product(i, f"%a{i}", f"%b{i}") for i in range(8)]
CHAIN = [add("s1", "p0", "p1"), add("s2", "s1", "p2"), add("s3", "s2", "p3")]
PAIRS = [add("s1", "p0", "p1"), add("s2", "p2", "p3"), add("s3", "s1", "s2")]


def batched_by_them(text: str) -> tuple[int, int]:
    graph = C.parse_ir(torchscript(entry(parse_module(CONTEXT, text))))
    C._jit_pass_batch_mm(graph)
    return str(graph).count("prim::MMTreeReduce"), str(graph).count("prim::MMBatchSide")


def batched_by_us(text: str) -> tuple[int, int]:
    names = [op.name for op in ours(text, "batch-mm").walk()]
    sides = names.count("torch.aten.split.Tensor") + names.count("torch.aten.unbind.int")
    return names.count("torch.aten.cat.default") // 2 if not sides else 0, sides


def shared(count: int, left: bool, between: str = "") -> str:
    lines = list[str]()
    for i in range(count):
        lines += [product(i, "%a0" if left else f"%a{i}", f"%b{i}" if left else "%b0")]
        lines += [f"%r{i} = torch.aten.relu.default(%p{i}) : ({R}) -> {R}"]
    return program([*lines, between], f"%r{count - 1}")


AGREE = {
    "four": program(LEAVES[:4] + CHAIN, "%s3"),
    "four, balanced": program(LEAVES[:4] + PAIRS, "%s3"),
    "three": program(LEAVES[:3] + CHAIN[:2], "%s2"),
    "a sum read twice": program(LEAVES[:4] + CHAIN, "%s3", "%s2"),
    "a leaf read twice": program(LEAVES[:4] + CHAIN, "%s3", "%p0"),
    "a product that is not added": program([*LEAVES[:5], *CHAIN], "%s3", "%p4"),
    "eight share the left side": shared(8, True),
    "seven share the left side": shared(7, True),
    "eight share the right side": shared(8, False),
    "seven share the right side": shared(7, False),
    "the shared side is written": shared(8, True, f"%w = torch.aten.zero_.default(%a0) : ({A}) -> {A}"),
}


@pytest.mark.parametrize("case", AGREE)
def test_the_same_products(case: str) -> None:
    assert batched_by_them(AGREE[case]) == batched_by_us(AGREE[case])


DIFFER = {
    "alpha: they drop it, and compute another sum": (
        program([*LEAVES[:4], *CHAIN[:2], add("s3", "s2", "p3", ", alpha = 2")], "%s3"), (1, 0), (0, 0),
    ),
    "results that are returned: theirs share memory then": (
        program([product(i, "%a0", f"%b{i}") for i in range(8)], *[f"%p{i}" for i in range(8)]), (0, 1), (0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFER)
def test_where_we_differ(case: str) -> None:
    text, them, us = DIFFER[case]
    assert (batched_by_them(text), batched_by_us(text)) == (them, us)
