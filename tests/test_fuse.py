"""Fused programs compute what they did before: through the interpreter, and as FX graphs."""

from __future__ import annotations

import random

import pytest
import torch
from xdsl.dialects.func import FuncOp

import fxc
from fxc.dialects.base.effects import aliases, is_pure
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import preset, set_target
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes import load
from fxc.program.program import new_context

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
    tensors = [*given, *ReferenceInterpreter({}).call(function, given)]
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [tensor.numpy().tobytes() for tensor in tensors], [places.index(place) for place in places]


def sized_program(seed: int) -> str:
    """Exact pointwise ops on 4x6 tensors and smaller ones that broadcast, cut along a dimension, joined, asked for sizes."""
    choose, lines = random.Random(seed), list[str]()
    shapes = {"%x": (4, 6), "%y": (6,), "%z": (4, 1), "%w": (4, 6), "%s": ()}
    numbers = list[str]()

    def type_of(name: str) -> str:
        return f"tensor<{''.join(f'{size}x' for size in shapes[name])}f32>"

    for i in range(choose.randrange(4, 14)):
        full = [name for name, shape in shapes.items() if shape == (4, 6)]
        a, b, name = choose.choice(full[-3:]), choose.choice(list(shapes)), f"%v{i}"
        kind = choose.choice(["unary", "binary", "binary", "cut", "cut", "size", "sum"])
        if kind == "unary":
            lines.append(f"{name} = torch.aten.{choose.choice(['neg', 'abs'])}.default({a}) : ({type_of(a)}) -> {type_of(a)}")
            shapes[name] = (4, 6)
        elif kind == "binary":
            operator = choose.choice(["add", "mul", "sub"])
            lines.append(f"{name} = torch.aten.{operator}.Tensor({a}, {b}) : ({type_of(a)}, {type_of(b)}) -> {type_of(a)}")
            shapes[name] = (4, 6)
        elif kind == "sum":
            lines.append(f"{name} = torch.aten.cumsum.default({a}, 0) : ({type_of(a)}) -> {type_of(a)}")
            shapes[name] = (4, 6)
        elif kind == "size":
            lines.append(f"{name} = torch.aten.sym_size.int({a}, {choose.randrange(2)}) : ({type_of(a)}) -> !torch.int")
            numbers.append(name)
        else:
            dim = choose.randrange(2)
            half, step = ("2x6", "") if dim == 0 else ("4x3", ", #torch.meta<strides = [6, 1]>")
            piece, result = f"tensor<{half}xf32{step}>", f"tensor<{half}xf32>"
            cut = choose.choice(["chunk.default", "tensor_split.sections"])
            lines.append(f"{name}p, {name}q = torch.aten.{cut}({a}, 2, {dim}) : ({type_of(a)}) -> ({piece}, {piece})")
            lines.append(f"{name}m = torch.aten.mul.Tensor({name}p, {name}q) : ({piece}, {piece}) -> {result}")
            lines.append(f"{name}n = torch.aten.abs.default({name}m) : ({result}) -> {result}")
            lines.append(
                f"{name} = torch.aten.cat.default([{name}m, {name}n], {dim}) : ({result}, {result}) -> {type_of('%x')}"
            )
            shapes[name] = (4, 6)
    returned = [name for name in shapes if name.startswith("%v")][-2:] or ["%x"]
    types = [*map(type_of, returned), *["!torch.int"] * len(numbers)]
    lines.append(f"fx.output(({', '.join([*returned, *numbers])},)) : ({', '.join(types)}) -> ()")
    arguments = ", ".join(f"{name}: {type_of(name)}" for name in ("%x", "%y", "%z", "%w", "%s"))
    return f"func.func @main({arguments}) {{\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_pieces_and_sizes(start: int) -> None:
    torch.manual_seed(start)
    arguments = [torch.randn(4, 6), torch.randn(6), torch.randn(4, 1), torch.randn(4, 6), torch.tensor(0.5)]
    moved = 0
    for seed in range(start, start + 30):
        module = parse_module(CONTEXT, text := sized_program(seed))
        [function] = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        expected = ReferenceInterpreter({}).call(function, arguments)
        set_target(module, preset("cpu"))
        load("fuse")().apply(CONTEXT, module)
        verify(module)
        once = print_module(module)
        for a, b in zip(ReferenceInterpreter({}).call(function, arguments), expected, strict=True):
            same = a.numpy().tobytes() == b.numpy().tobytes() and a.stride() == b.stride() if torch.is_tensor(a) else a == b
            assert same, f"program {seed}:\n{text}\nbecame\n{once}"
        load("fuse")().apply(CONTEXT, module)
        assert print_module(module) == once
        moved += once.count("chunk.default") + once.count("sections") > text.count("chunk.default") + text.count("sections")
    assert moved


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
