"""Fused programs compute what they did before: through the interpreter, and as FX graphs."""

from __future__ import annotations

import random

import pytest
import torch
from xdsl.dialects.func import FuncOp

import fxc
from fxc.context import new_context
from fxc.dialects.effects import aliases, is_pure
from fxc.dialects.fusion import GroupOp
from fxc.dialects.syntax import parse_module, print_module
from fxc.dialects.verification import verify
from fxc.passes import load
from fxc.semantics.interpret import Interpreter

CONTEXT = new_context()
T = "tensor<4xf32>"
OPS = ("neg", "sigmoid", "abs", "square", "tanh")


def program(seed: int) -> str:
    """Pointwise ops, sums, draws, writes, views, concatenations and chunks of random values."""
    choose, lines, values = random.Random(seed), list[str](), ["%x", "%y", "%z"]
    for i in range(choose.randrange(4, 24)):
        a, b, name = choose.choice(values), choose.choice(values), f"%v{i}"
        kind = choose.choice(["unary", "unary", "binary", "binary", "where", "sum", "draw", "write", "view", "cat"])
        if kind == "unary":
            lines.append(f"{name} = torch.aten.{choose.choice(OPS)}.default({a}) : ({T}) -> {T}")
        elif kind == "binary":
            lines.append(f"{name} = torch.aten.{choose.choice(['add', 'mul', 'maximum'])}.Tensor({a}, {b}) : ({T}, {T}) -> {T}")
            lines[-1] = lines[-1].replace("maximum.Tensor", "maximum.default")
        elif kind == "where":
            lines.append(f"{name}c = torch.aten.gt.Tensor({a}, {b}) : ({T}, {T}) -> tensor<4xi1>")
            lines.append(f"{name} = torch.aten.where.self({name}c, {a}, {b}) : (tensor<4xi1>, {T}, {T}) -> {T}")
        elif kind == "sum":
            lines.append(f"{name} = torch.aten.cumsum.default({a}, 0) : ({T}) -> {T}")
        elif kind == "draw":
            lines.append(f"{name} = torch.aten.rand_like.default({a}) : ({T}) -> {T}")
        elif kind == "write":
            lines.append(f"{name} = torch.aten.add_.Tensor({a}, {b}) : ({T}, {T}) -> {T}")
        elif kind == "view":
            lines.append(f"{name} = torch.aten.view.default({a}, [4]) : ({T}) -> {T}")
        else:
            lines.append(f"{name}c = torch.aten.cat.default([{a}, {b}]) : ({T}, {T}) -> tensor<8xf32>")
            lines.append(f"{name}, {name}q = torch.aten.chunk.default({name}c, 2) : (tensor<8xf32>) -> ({T}, {T})")
            values.append(f"{name}q")
        values.append(name)
    returned = choose.choices(values, k=3)
    lines.append(f"fx.output(({', '.join(returned)})) : ({T}, {T}, {T}) -> ()")
    return f"func.func @main(%x: {T}, %y: {T}, %z: {T}) {{\n" + "\n".join(lines) + "\n}"


def inputs() -> list[torch.Tensor]:
    return [torch.tensor([-0.0, 1.5, float("nan"), -2.0]), torch.arange(4.0) - 1.5, torch.full((4,), 0.25)]


def outcome(function: FuncOp) -> tuple[list[bytes], list[int]]:
    """The bytes of inputs and results after a run, and for each the first of them that shares its memory."""
    torch.manual_seed(0)
    given = inputs()
    tensors = [*given, *Interpreter({}).call(function, given)]
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [tensor.numpy().tobytes() for tensor in tensors], [places.index(place) for place in places]


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_the_same_numbers_and_the_same_memory(start: int) -> None:
    made = 0
    for seed in range(start, start + 30):
        module = parse_module(CONTEXT, program(seed))
        [function] = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        expected = outcome(function)
        load("fuse")().apply(CONTEXT, module)
        verify(module)
        once = print_module(module)
        assert outcome(function) == expected, f"program {seed} computes something else:\n{program(seed)}\nbecame\n{once}"
        load("fuse")().apply(CONTEXT, module)
        assert print_module(module) == once
        made += sum(isinstance(op, GroupOp) for op in module.walk())
    assert made > 10


def test_a_group_is_exported_as_its_ops() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = x * y + 2
        return torch.cat([a.sigmoid(), a.neg()]), a

    arguments = (torch.randn(3, 4), torch.randn(4))
    program = fxc.capture(model, arguments)
    plain = fxc.run_passes(program, "lower-simple-tuples")
    fused = fxc.run_passes(plain, "fuse")
    assert any(isinstance(op, GroupOp) for op in fused.module.walk())
    nodes = [[(node.name, node.target) for node in fxc.to_fx(p).graph.nodes] for p in (plain, fused)]
    assert nodes[0] == nodes[1]
    torch.testing.assert_close(fxc.to_fx(fused)(*arguments), model(*arguments))


def test_the_effects_of_a_group_are_those_of_its_body() -> None:
    text = f"""func.func @main(%x: {T}, %y: {T}) {{
      %u, %v = fusion.group ({{
        %a = torch.aten.view.default(%x, [4]) : ({T}) -> {T}
        %b = torch.aten.view.default(%a, [4]) : ({T}) -> {T}
        %c = torch.aten.OP.Tensor(%y, %b) : ({T}, {T}) -> {T}
        fusion.yield %b, %c : {T}, {T}
      }}) -> ({T}, {T})
      fx.output((%u, %v)) : ({T}, {T}) -> ()
    }}"""
    for operator, pure in (("add", True), ("add_", False)):
        module = parse_module(CONTEXT, text.replace("OP", operator))
        [function] = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        [group] = [op for op in module.walk() if isinstance(op, GroupOp)]
        x, y = function.body.block.args
        assert is_pure(group) == pure
        assert group.inputs() == [x, y]
        assert list(aliases(group)) == ([(0, x)] if pure else [(0, x), (1, y)])
