"""Random programs with writes, views, calls and branches compute the same before and after each simplification.

The same means: bit for bit, inputs included, and who shares memory with whom among inputs and outputs.
"""

import random
from collections.abc import Sequence

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fxc.dialects.text.syntax import clone_module, parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes import load
from fxc.program.program import new_context

T, WHOLE = "tensor<4xf32>", "tensor<8xf32>"
PAIR = f"tuple<{T}, {T}>"
PASSES = (
    "inline", "constant-propagation", "constant-pooling", "cse", "dce", "canonicalize", "fold-uniform-values",
    "constant-propagation",
)  # fmt: skip


class Body:
    """The text of random ops, and the values that they give."""

    def __init__(
        self, choose: random.Random, arguments: Sequence[str], callees: Sequence[str], size: int, depth: int = 0
    ) -> None:
        self.choose, self.callees, self.depth = choose, callees, depth
        self.lines, self.ints, self.tensors = list[str](), list[str](), list(arguments)
        self.wholes = list[str]()
        for _ in range(size):
            choose.choice(
                [
                    self.constant, self.full, self.add, self.write, self.view, self.size, self.number, self.branch, self.call,
                    self.whole, self.pieces, self.times,
                ]
            )()  # fmt: skip

    def tensor(self) -> str:
        return self.choose.choice(self.tensors)

    def emit(self, text: str, *, results: int = 1, into: list[str] | None = None) -> None:
        names = [f"%v{self.depth}_{len(self.lines)}_{i}" for i in range(results)]
        self.lines.append(f"{', '.join(names)} = {text}")
        (self.tensors if into is None else into).extend(names)

    def constant(self) -> None:
        self.emit(f"torch.constant([{self.choose.choice(['0.0', '-0.0', '3.0'])}, 1.0, 2.0, 0.5]) : {T}")

    def full(self) -> None:
        self.emit(f"torch.aten.full.default([4], {self.choose.choice(['0.5', '1.0', '0.0', '-0.0'])}) : () -> {T}")

    def times(self) -> None:
        name = self.choose.choice(["mul", "add", "sub", "div"])
        self.emit(f"torch.aten.{name}.Tensor({self.tensor()}, {self.tensor()}) : ({T}, {T}) -> {T}")

    def whole(self) -> None:
        self.emit(f"torch.aten.cat.default([{self.tensor()}, {self.tensor()}]) : ({T}, {T}) -> {WHOLE}", into=self.wholes)
        if self.choose.random() < 0.2:
            self.emit(f"torch.aten.mul_.Tensor({self.wholes[-1]}, 2) : ({WHOLE}) -> {WHOLE}", into=self.wholes)

    def pieces(self) -> None:
        if self.wholes:
            self.emit(f"torch.aten.split.Tensor({self.choose.choice(self.wholes)}, 4) : ({WHOLE}) -> ({T}, {T})", results=2)

    def add(self, name: str = "add") -> None:
        number, type = (self.choose.choice(self.ints), ", !torch.int") if self.ints else ("2", "")
        self.emit(f"torch.aten.{name}.Tensor({self.tensor()}, {self.tensor()}, alpha = {number}) : ({T}, {T}{type}) -> {T}")

    def write(self) -> None:
        self.add("add_")

    def view(self) -> None:
        self.emit(f"torch.aten.view.default({self.tensor()}, [4]) : ({T}) -> {T}")

    def size(self) -> None:
        self.emit(f"torch.aten.sym_size.int({self.tensor()}, 0) : ({T}) -> !torch.int", into=self.ints)

    def number(self) -> None:
        if self.ints:
            self.emit(
                f"fx.call_function @operator.sub({self.choose.choice(self.ints)}, 3) : (!torch.int) -> !torch.int",
                into=self.ints,
            )

    def call(self) -> None:
        if self.callees:
            callee = f"@{self.choose.choice(self.callees)}({self.tensor()}, {self.tensor()})"
            self.emit(f"func.call {callee} : ({T}, {T}) -> ({T}, {T})", results=2)

    def branch(self) -> None:
        if self.depth == 2:
            return
        regions = [self.region(), self.region()]
        predicate = self.choose.choice(["true", "false", "%p"])
        types = f"{'tensor<i1>, ' if predicate == '%p' else ''}tensor<i1>, {T}, {T}"
        call = f"torch.higher_order.cond({predicate}, @t, @f, (%p, {self.tensor()}, {self.tensor()})) ({', '.join(regions)})"
        if self.choose.random() < 0.5:
            self.emit(f"{call} : ({types}) -> ({T}, {T})", results=2)
        else:
            packed = list[str]()
            self.emit(f"{call} : ({types}) -> {PAIR}", into=packed)
            self.emit(f"fx.call_function @operator.getitem({packed[0]}, {self.choose.randrange(2)}) : ({PAIR}) -> {T}")

    def region(self) -> str:
        inner = Body(self.choose, ["%x", "%y"], self.callees, self.choose.randrange(5), self.depth + 1)
        returned = f"fx.output(({inner.tensor()}, {inner.tensor()})) : ({T}, {T}) -> ()"
        return "\n".join([f"{{\n^bb0(%p: tensor<i1>, %x: {T}, %y: {T}):", *inner.lines, returned, "}"])


def program(seed: int) -> str:
    choose = random.Random(seed)
    functions, callees = list[str](), list[str]()
    for name in ["f", "g", "main"]:
        body = Body(choose, ["%x", "%y"], callees, 15 if name == "main" else 4)
        header = f"func.func {'' if name == 'main' else 'private '}@{name}(%x: {T}, %y: {T}) -> ({T}, {T}) {{"
        predicate = "%p = torch.constant([true]) : tensor<i1>"
        returned = f"func.return {body.tensor()}, {body.tensor()} : {T}, {T}"
        functions.append("\n".join([header, predicate, *body.lines, returned, "}"]))
        callees.append(name)
    return "\n".join(functions)


def outcome(module: ModuleOp) -> tuple[list[bytes], list[int]]:
    """The bytes of inputs and outputs after a run, and for each the first of them that shares its memory."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    inputs = [torch.arange(4.0) - 1.5, torch.full((4,), 0.25)]
    tensors = [*inputs, *ReferenceInterpreter(functions).call(functions["main"], inputs)]
    places = [tensor.data_ptr() for tensor in tensors]
    return [tensor.numpy().tobytes() for tensor in tensors], [places.index(place) for place in places]


@pytest.mark.share(2)
@pytest.mark.parametrize("start", range(0, 60, 10))
def test_the_same_numbers_and_the_same_memory(start: int) -> None:
    context = new_context()
    for seed in range(start, start + 10):
        module = parse_module(context, program(seed))
        verify(module)
        expected = outcome(module)
        for name in PASSES:
            before = clone_module(module)
            load(name)().apply(context, module)
            verify(module)
            if outcome(module) != expected:
                shown = f"{print_module(before)}\nbecame\n{print_module(module)}"
                pytest.fail(f"{name} changed what program {seed} computes:\n{shown}", pytrace=False)
