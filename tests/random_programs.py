"""A strategy of hypothesis for programs that run: operators, writes, views, draws and branches, each where PyTorch takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    TupleType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types, values
from fxc.dialects.fx import (
    CallFunctionOp,
    OutputOp,
)
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.program.program import new_context
from tests.random_modules import Sample

Arguments: TypeAlias = tuple[list[values.Tree], dict[str, values.Tree]]
Call: TypeAlias = tuple[str, Callable[["Graph"], Arguments]]


def tensor(dtype: str, *sizes: int) -> TensorType:
    return types.tensor_type(dtype, sizes)


class Graph:
    """A well-typed function: each op is kept where PyTorch takes its operands."""

    def __init__(self, draw: st.DrawFn, types_: Sequence[Attribute], depth: int, calls: Sequence[Call]) -> None:
        self.draw, self.depth, self.calls = draw, depth, calls
        self.block = Block(arg_types=types_)
        self.tensors: list[SSAValue] = [arg for arg in self.block.args if arg.type != PREDICATE]
        self.predicates: list[SSAValue] = [arg for arg in self.block.args if arg.type == PREDICATE]

    def pick(self) -> SSAValue:
        """A tensor, more often a late one."""
        return self.draw(st.sampled_from(self.tensors[-4:]) | st.sampled_from(self.tensors))

    def grow(self, most: int) -> None:
        for _ in range(self.draw(st.integers(1, most))):
            kind = self.draw(st.integers(0, 9))
            if kind == 0 and self.depth and self.predicates:
                self.cond()
            elif kind == 1:
                self.constant()
            else:
                self.call(*self.draw(st.sampled_from(self.calls)))

    def call(self, operator: str, arguments: Callable[[Graph], Arguments]) -> None:
        cls: Any = op_class(f"torch.{operator}")
        op = cls.build_call(*arguments(self), [types.VALUE])
        try:
            inferred = CONTEXT.semantics.infer(op)
        except VerifyException:
            op.erase()
            return
        if len(inferred) == 1 and isinstance(inferred[0], TupleType):
            self.elements(op, inferred[0])
            return
        if not all(isinstance(t, TensorType) and sum(t.get_shape()) < 30 for t in inferred):
            op.erase()
            return
        self.add(cls.build_call(*op.trees(), inferred), op)

    def add(self, op: Operation, instead_of: Operation | None = None) -> None:
        if instead_of is not None:
            instead_of.erase()
        self.block.add_op(op)
        self.tensors += op.results

    def elements(self, op: TorchOp, packed: TupleType) -> None:
        """The call as FX has it: one tuple, and ``getitem`` of some of its elements."""
        whole = type(op).build_call(*op.trees(), [packed])
        op.erase()
        self.block.add_op(whole)
        for index in self.draw(st.lists(st.integers(0, len(packed.types) - 1), max_size=3)):
            args = [whole.results[0], values.int_attr(index)]
            self.add(CallFunctionOp.build_call(args, {}, [packed.types.data[index]], target="operator.getitem"))

    def constant(self) -> None:
        raw = self.draw(st.sampled_from(["0000803f" * 3, "0000c07f00000080000080ff", "00" * 12]))
        self.add(ConstantOp.of(TensorLiteralAttr(StringAttr(raw)), tensor("float32", 3)))

    def cond(self) -> None:
        taken = [self.pick() for _ in range(self.draw(st.integers(1, 2)))]
        calls = [call for call in self.calls if call not in WRITES]  # PyTorch's functionalization refuses them in a branch
        branches = [Graph(self.draw, [value.type for value in taken], self.depth - 1, calls) for _ in range(2)]
        for branch in branches:
            branch.grow(3)
        shared = [t.type for t in branches[0].tensors if any(t.type == other.type for other in branches[1].tensors)]
        if not shared:
            for branch in branches:
                branch.block.erase()
            return
        result = self.draw(st.sampled_from(shared))
        for branch in branches:
            returned = self.draw(st.sampled_from([value for value in branch.tensors if value.type == result]))
            # PyTorch's cond refuses a branch that returns its argument, or a view of it
            branch.call("aten.clone.default", lambda graph, value=returned: ([value], {}))
            branch.block.add_op(OutputOp.build_call([(branch.tensors[-1],)], {}, []))
        names = [values.RegionAttr(StringAttr(name)) for name in ("then", "else")]
        args = [self.draw(st.sampled_from(self.predicates)), *names, tuple(taken)]
        cls: Any = op_class("torch.higher_order.cond")
        whole = cls.build_call(args, {}, [types.tuple_type([result])], regions=[Region(branch.block) for branch in branches])
        self.block.add_op(whole)
        args = [whole.results[0], values.int_attr(0)]
        self.add(CallFunctionOp.build_call(args, {}, [result], target="operator.getitem"))


def unary(graph: Graph) -> Arguments:
    return [graph.pick()], {}


def binary(graph: Graph) -> Arguments:
    return [graph.pick(), graph.pick()], {}


def with_constants(*choices: Any) -> Callable[[Graph], Arguments]:
    """One tensor, and one of the tuples of Python constants in ``choices``."""

    def arguments(graph: Graph) -> Arguments:
        chosen = graph.draw(st.sampled_from(choices))
        return [graph.pick(), *[constant_tree(value) for value in chosen]], {}

    return arguments


def constant_tree(value: Any) -> values.Tree:
    return [constant_tree(element) for element in value] if isinstance(value, list) else values.scalar_attr(value)


def many(graph: Graph) -> Arguments:
    return [[graph.pick() for _ in range(graph.draw(st.integers(1, 3)))]], {}


def added(graph: Graph) -> Arguments:
    alpha = graph.draw(st.sampled_from([1, 2, -1.0]))
    return [graph.pick(), graph.pick()], {"alpha": constant_tree(alpha)}


def made(graph: Graph) -> Arguments:
    return [constant_tree([2, 3]), constant_tree(graph.draw(st.sampled_from([0, 1, 2.5])))], {
        "dtype": values.dtype_attr("float32")
    }


CONTEXT = new_context()
PREDICATE = tensor("bool")
CALLS: list[Call] = [
    *[
        (f"aten.{name}.default", unary)
        for name in ("relu", "neg", "exp", "sin", "abs", "sigmoid", "clone", "detach", "t", "alias", "rand_like", "contiguous")
    ],
    *[(f"aten.{name}.Tensor", binary) for name in ("mul", "sub", "div", "eq")],
    *[(f"aten.{name}.default", binary) for name in ("maximum", "mm")],
    ("aten.add.Tensor", added),
    ("aten.add.Scalar", with_constants((0,), (1.5,), (-0.0,))),
    ("aten.mul.Scalar", with_constants((1,), (0,), (2.0,))),
    ("aten.pow.Tensor_Scalar", with_constants((1,), (2,), (0.5,))),
    ("aten.view.default", with_constants(([6],), ([3, 2],), ([2, 3],), ([-1],))),
    ("aten.reshape.default", with_constants(([6],), ([3, 2],), ([-1, 1],))),
    ("aten.transpose.int", with_constants((0, 1), (1, 0), (0, 0))),
    ("aten.permute.default", with_constants(([1, 0],), ([0, 1],), ([0],))),
    ("aten.unsqueeze.default", with_constants((0,), (-1,))),
    ("aten.squeeze.dim", with_constants((0,), (-1,))),
    ("aten.expand.default", with_constants(([2, 3],), ([2, 2, 3],))),
    ("aten.slice.Tensor", with_constants((0, 0, 1), (0, 0, 9223372036854775807), (-1, 1, 3))),
    ("aten.select.int", with_constants((0, 0), (0, -1))),
    ("aten.cat.default", many),
    ("aten.stack.default", many),
    ("aten.split.Tensor", with_constants((1,), (2, 0), (2, -1))),
    ("aten.unbind.int", with_constants((), (0,), (-1,))),
    *[
        (f"aten.{name}", with_constants(([0],), ([-1], True), ([0, 1],)))
        for name in ("sum.dim_IntList", "mean.dim", "amax.default", "amin.default")
    ],
    *[(f"aten.{name}.default", unary) for name in ("mean", "sum", "var")],
    ("aten.flatten.using_ints", with_constants((), (0, 1))),
    ("aten.flip.default", with_constants(([0],), ([-1],))),
    ("aten.max.dim", with_constants((0,), (-1, True))),
    ("aten.topk.default", with_constants((2,), (1, 0))),
    ("aten.full.default", made),
    ("aten.dropout.default", with_constants((0.5, True), (0.5, False))),
]  # fmt: skip
WRITES: list[Call] = [
    *[(f"aten.{name}", binary) for name in ("add_.Tensor", "mul_.Tensor", "copy_.default")],
    ("aten.relu_.default", unary),
]


@st.composite
def graphs(draw: st.DrawFn, calls: Sequence[Call] = (*CALLS, *WRITES)) -> Sample:
    """A module whose one function the reference interpreter runs."""
    arguments = [tensor("float32", 2, 3), tensor("float32", 2, 3), tensor("float32", 3), tensor("int64", 2, 3), PREDICATE]
    graph = Graph(draw, arguments, 1, calls)
    graph.grow(10)
    returned = draw(st.lists(st.sampled_from(graph.tensors), min_size=1, max_size=3))
    graph.block.add_op(OutputOp.build_call([tuple(returned)], {}, []))
    type = FunctionType.from_lists(arguments, [value.type for value in returned])
    return Sample(ModuleOp([func.FuncOp("main", type, Region(graph.block))]))
