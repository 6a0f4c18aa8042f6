"""Random programs and random text: what is printed parses back to the same IR, and no text makes ``fxc-opt`` crash.

``pytest tests/test_properties.py --hypothesis-profile=long`` looks for longer.
"""

from __future__ import annotations

import importlib
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NoneType,
    StringAttr,
    TensorType,
    TupleType,
    UnitAttr,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException, VerifyException

from fxc.context import new_context
from fxc.dialects import types, values
from fxc.dialects.fx import (
    CallFunctionOp,
    CallMethodOp,
    CallModuleOp,
    GetAttrOp,
    ModuleDeclOp,
    OutputOp,
    TensorDeclOp,
)
from fxc.dialects.syntax import clone_module, parse_module, print_module
from fxc.dialects.torch_ops import OperatorDeclOp, TorchOp, make_op_class, op_class, table
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.verification import verify
from fxc.errors import CaptureError
from fxc.location import node_location, with_regions
from fxc.passes import available, load
from fxc.semantics.reference_run import Outcome, ReferenceRun, public_functions, why_not
from fxc.tools import fxc_opt

pytestmark = pytest.mark.timeout(3600)  # the long profile takes its time; each text has a limit of its own

# attributes and types

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["", 'a"b\\', "\x00\x7f\n", "ä€😀", "}}//", "a b", "loc", "0"]),
)
NAMES = st.sampled_from(["x", "x_1", "x_1_0", "add", "y.1", "$z", "_", "a-b", "loc"])
IDENTIFIERS = st.one_of(st.sampled_from(["a", "torch.nn.functional.relu", "none", "true", "nan", "slice", "device"]), TEXTS)
INTEGERS = st.one_of(
    st.integers(), st.integers(-(2**200), 2**200), st.sampled_from([0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1])
)
FLOATS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-5, 1e300, 5e-324]))

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    INTEGERS,
    FLOATS,
    TEXTS,
    st.complex_numbers(),
    st.just(...),
    st.builds(range, *[st.integers(1, 9)] * 3),
).map(values.scalar_attr)

DTYPES = st.sampled_from([*types.ELEMENT_TYPES, "quint8", "bits8", "an odd\nname"])
DIMS = st.one_of(st.integers(0, 7), st.sampled_from(["s0", "s0 + 1", "2*s0", 'a"b', "ä"]))
DEVICES = st.sampled_from(["cpu", "cuda", "cuda:1", "meta", 'odd "one"'])
LAYOUTS = st.sampled_from(sorted(values.LAYOUTS))


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    sizes = tuple(draw(st.lists(DIMS, max_size=3)))
    strides = draw(st.none() | st.tuples(*[DIMS] * len(sizes)))
    return types.tensor_type(draw(DTYPES), sizes, strides, draw(DEVICES), draw(LAYOUTS))


PLAIN_TENSORS = st.builds(types.tensor_type, DTYPES, st.lists(st.integers(0, 5), max_size=3).map(tuple))
LEAF_TYPES = st.one_of(
    PLAIN_TENSORS,
    tensor_types(),
    st.builds(
        lambda kind, text: kind(values.str_attr(text)), st.sampled_from([types.IntType, types.FloatType, types.BoolType]), TEXTS
    ),
    st.sampled_from([types.VALUE, types.NONE_TYPE, IntegerType(1), IntegerType(7), IndexType(), NoneType(), f32]),
    DTYPES.map(types.element_type),
)
TYPES = st.recursive(LEAF_TYPES, lambda inner: st.lists(inner, max_size=3).map(types.tuple_type), max_leaves=4)

FUNCTION = FunctionType.from_lists([f32], [f32])
LEAVES = st.one_of(
    SCALARS,
    SCALARS,
    DTYPES.map(values.dtype_attr),
    LAYOUTS.map(values.enum_attr),
    st.sampled_from(sorted(values.MEMORY_FORMATS)).map(values.enum_attr),
    TEXTS.map(values.enum_attr),
    TEXTS.map(lambda text: values.LayoutAttr(StringAttr(text))),
    TEXTS.map(lambda text: values.MemoryFormatAttr(StringAttr(text))),
    DEVICES.map(values.device_attr),
    st.builds(
        lambda kind, text: kind(StringAttr(text)),
        st.sampled_from([values.FunctionAttr, values.StateAttr, values.OpaqueAttr]),
        TEXTS,
    ),
    TYPES,
    st.builds(lambda value, width: IntegerAttr(value, IntegerType(width)), st.integers(-64, 63), st.sampled_from([7, 8, 32])),
    st.integers(0, 99).map(lambda value: IntegerAttr(value, IndexType())),
    st.floats(width=32).map(lambda value: FloatAttr(value, f32)),
    st.sampled_from([UnitAttr(), BytesAttr(b"\xff"), FUNCTION, DenseArrayBase.from_list(f32, [1.0])]),
    st.just(TensorLiteralAttr(StringAttr("00ff"))),
)
CONSTANTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(ArrayAttr),
        st.lists(inner, max_size=3).map(lambda elements: values.TupleAttr(ArrayAttr(elements))),
        st.lists(st.tuples(SCALARS, inner), max_size=2, unique_by=lambda item: item[0]).map(
            lambda items: values.DictAttr(ArrayAttr([k for k, _ in items]), ArrayAttr([v for _, v in items]))
        ),
        st.builds(values.SliceAttr, inner, inner, inner),
        st.dictionaries(TEXTS.filter(bool), inner, max_size=2).map(DictionaryAttr),
    ),
    max_leaves=4,
)
ATTRIBUTES = st.dictionaries(st.sampled_from(["fx.note", "a b", "fx.x"]), CONSTANTS, max_size=1)

TRACES = st.one_of(
    st.none(),
    st.just('  File "model.py", line 3, in forward\n    return x + y\n'),
    st.just('  File "ä b.py", line 3, in f\n    a\n  File "c", line 4, in <module>\n'),
    TEXTS,
)
MODULE_STACKS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=2).map(tuple)
LOCATIONS = st.one_of(st.none(), st.builds(node_location, TEXTS, TRACES, MODULE_STACKS))


def trees(operands: Sequence[SSAValue]) -> st.SearchStrategy[values.Tree]:
    """Nestings of lists, tuples, dicts and slices over constants and ``operands``."""
    leaf = CONSTANTS if not operands else st.one_of(st.sampled_from(operands), st.sampled_from(operands), CONSTANTS)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(SCALARS, inner, max_size=2),
            st.builds(slice, inner, inner, inner),
        ),
        max_leaves=4,
    )


# ops


class Scope:
    """Makes the ops of one block. ``available`` are the values that the next op may take."""

    def __init__(self, draw: st.DrawFn, types_: Sequence[Attribute]) -> None:
        self.draw, self.block = draw, Block(arg_types=types_)
        self.available: list[SSAValue] = list(self.block.args)
        for value in self.available:
            self.name(value)

    def name(self, value: SSAValue) -> None:
        value._name = self.draw(st.none() | NAMES)

    def add(self, op: Operation) -> None:
        op.location = self.draw(LOCATIONS) or op.location
        self.block.add_op(op)
        for result in op.results:
            self.name(result)
            self.available.append(result)

    def tree(self) -> values.Tree:
        return self.draw(trees(self.available))

    def trees(self, most: int = 3) -> list[values.Tree]:
        return [self.tree() for _ in range(self.draw(st.integers(0, most)))]

    def keywords(self) -> dict[str, values.Tree]:
        return {name: self.tree() for name in self.draw(st.lists(IDENTIFIERS, max_size=2, unique=True))}

    def result_types(self, most: int = 2) -> list[Attribute]:
        return self.draw(st.lists(TYPES, min_size=0, max_size=most))

    def operator(self, name: str, cls: type[TorchOp]) -> TorchOp:
        """A call of an operator: its required arguments, some of the others, keywords in any order for constants."""
        bound: dict[str, values.Tree] = {}
        for argument in cls.SCHEMA.arguments:
            if argument.default is None or self.draw(st.booleans()):
                plain = self.available and self.draw(st.booleans())
                bound[argument.name] = self.draw(st.sampled_from(self.available)) if plain else self.tree()
        args, kwargs = cls.divide(bound)
        while args and self.draw(st.integers(0, 3)) == 0:
            last = [argument.name for argument in cls.SCHEMA.arguments if argument.name in bound][len(args) - 1]
            kwargs = {last: args.pop(), **kwargs}
        returns = cls.SCHEMA.returns
        if len(returns) == 1:
            results = self.draw(st.lists(TYPES, min_size=1, max_size=3 if "[]" in returns[0].type else 1))
        else:
            packed = [types.tuple_type(self.draw(st.lists(TYPES, max_size=3)))]
            unpacked = [self.draw(TYPES) for _ in returns]
            results = self.draw(st.sampled_from([packed, unpacked, [types.NONE_TYPE]]))
        return cls.build_call(args, kwargs, results, attributes=self.draw(ATTRIBUTES))

    def fx_call(self) -> Operation:
        kind = self.draw(st.sampled_from([CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp]))
        more = {"target": self.draw(IDENTIFIERS), "attributes": self.draw(ATTRIBUTES)}
        return kind.build_call(self.trees(), self.keywords(), self.result_types(), **more)

    def higher_order(self, depth: int) -> Operation:
        cls: Any = op_class("torch.higher_order." + self.draw(st.sampled_from(["cond", "while_loop", "made_up"])))
        names = self.draw(st.lists(IDENTIFIERS, max_size=2, unique=True))
        references = [values.RegionAttr(StringAttr(name)) for name in names]
        regions = [Region(block(self.draw, depth - 1, OutputOp)) for _ in names]
        location = self.draw(LOCATIONS)
        if location is not None and names:
            location = with_regions(location, {names[0]: node_location("inner")})
        args = [*self.trees(1), *references, *references[:1], tuple(self.trees(2))]
        return cls.build_call(args, self.keywords(), self.result_types(), regions=regions, location=location)

    def constant(self) -> Operation:
        if self.draw(st.booleans()):
            host = SCALARS.filter(lambda a: isinstance(a, (IntegerAttr, FloatAttr, StringAttr, values.NoneValueAttr)))
            return ConstantOp.of(self.draw(host), self.draw(LEAF_TYPES.filter(lambda t: not isinstance(t, TensorType))))
        dtype, width = self.draw(
            st.sampled_from([("float32", 4), ("bfloat16", 2), ("int64", 8), ("bool", 1), ("complex64", 8)])
        )
        shape = self.draw(st.sampled_from([(), (0,), (1,), (3,), (2, 2), (65,)]))
        count = width * math.prod(shape)
        raw = bytes(count) if count > 40 else self.draw(st.binary(min_size=count, max_size=count))
        return ConstantOp.of(TensorLiteralAttr(StringAttr(raw.hex())), types.tensor_type(dtype, shape))

    def unregistered_kind(self) -> Operation:
        """An op of another dialect, with a region that sees the values around it."""
        inner = Scope(self.draw, [])
        inner.available = list(self.available)
        inner.add(inner.fx_call())
        inner.add(xdsl_test.TestTermOp())
        return xdsl_test.TestOp(self.available[:2], self.result_types(), self.draw(ATTRIBUTES), regions=[Region(inner.block)])


def block(draw: st.DrawFn, depth: int, end: Callable[..., Any]) -> Block:
    scope = Scope(draw, draw(st.lists(TYPES, max_size=3)))
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["operator", "operator", "fx", "higher order", "constant", "test"]))
        if kind == "operator":
            name = draw(st.sampled_from(OPERATORS))
            scope.add(scope.operator(name, op_class(f"torch.{name}")))  # type: ignore[arg-type]
        elif kind == "higher order" and depth:
            scope.add(scope.higher_order(depth))
        elif kind == "constant":
            scope.add(scope.constant())
        elif kind == "test":
            scope.add(scope.unregistered_kind())
        else:
            scope.add(scope.fx_call())
    if end is OutputOp:
        scope.add(OutputOp.build_call([scope.tree()], {}, []))
    else:
        returned = scope.available[-2:]
        scope.add(func.ReturnOp(*returned))
    return scope.block


OPERATORS = sorted(table())


class Sample:
    """A module that a failing test shows as text."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module

    def __repr__(self) -> str:
        return print_module(self.module, generic=True, debuginfo=True)


@st.composite
def modules(draw: st.DrawFn) -> Sample:
    """A module with every kind of op and attribute: declarations, functions, nested regions."""
    ops: list[Operation] = []
    for sym in draw(st.lists(IDENTIFIERS, max_size=1)):
        kind = StringAttr(draw(st.sampled_from(["parameter", "buffer", "constant"])))
        flags = {name: UnitAttr() for name in draw(st.lists(st.sampled_from(["requires_grad", "non_persistent"]), unique=True))}
        tensor = draw(tensor_types())
        ops.append(TensorDeclOp.create(properties={"sym": StringAttr(sym), "type": tensor, "kind": kind, **flags}))
    for path in draw(st.lists(IDENTIFIERS, max_size=1)):
        fields = draw(st.dictionaries(IDENTIFIERS, CONSTANTS, max_size=2))
        declared = ModuleDeclOp.build_call([], fields, [], target=draw(IDENTIFIERS))
        declared.properties["path"] = StringAttr(path)
        ops.append(declared)
    custom = draw(st.booleans())
    signature = "(Tensor x, float by=2, *, str[] names=[]) -> (Tensor, Tensor[])"
    if custom:
        facts = {"sym": "mylib.scale.default", "signature": signature, "flags": "c"}
        ops.append(OperatorDeclOp.create(properties={name: StringAttr(text) for name, text in facts.items()}))
    for index in range(draw(st.integers(0, 2))):
        ends = draw(st.sampled_from([func.ReturnOp, OutputOp]))
        body = block(draw, 2, ends)
        last = body.last_op
        assert last is not None
        if custom and draw(st.booleans()):
            scope = Scope(draw, [])
            scope.available = list(body.args)
            call = scope.operator("mylib.scale.default", make_op_class("mylib.scale.default", "c", signature))
            body.insert_op_before(call, last)
        function = FunctionType.from_lists([arg.type for arg in body.args], last.operand_types)
        attributes = [DictionaryAttr(draw(ATTRIBUTES)) for _ in body.args]
        symbol = draw(st.sampled_from(["main", "f b", "ä"])) + str(index)
        arg_attrs = ArrayAttr(attributes) if any(a.data for a in attributes) else None  # func.func does not print empty ones
        ops.append(func.FuncOp(symbol, function, Region(body), arg_attrs=arg_attrs))
        ops[-1].location = draw(LOCATIONS) or ops[-1].location
    module = ModuleOp(ops)
    module.attributes.update(draw(ATTRIBUTES))
    return Sample(module)


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


@pytest.mark.parametrize("debuginfo", [False, True])
@pytest.mark.parametrize("generic", [False, True])
@given(sample=modules())
def test_text_is_exact(sample: Sample, generic: bool, debuginfo: bool) -> None:
    verify(sample.module)
    text = print_module(sample.module, generic=generic, debuginfo=debuginfo)
    assert_exact(sample.module, text, generic=generic, debuginfo=debuginfo)


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
        ("%b = torch.aten.add.Tensor(%x, %q) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", "used but not defined"),
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


# programs that run


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
    ("aten.sum.dim_IntList", with_constants(([0],), ([-1], True))),
    ("aten.mean.default", unary),
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
def graphs(draw: st.DrawFn) -> Sample:
    """A module whose one function the reference interpreter runs."""
    arguments = [tensor("float32", 2, 3), tensor("float32", 2, 3), tensor("float32", 3), tensor("int64", 2, 3), PREDICATE]
    graph = Graph(draw, arguments, 1, CALLS + WRITES)
    graph.grow(10)
    returned = draw(st.lists(st.sampled_from(graph.tensors), min_size=1, max_size=3))
    graph.block.add_op(OutputOp.build_call([tuple(returned)], {}, []))
    type = FunctionType.from_lists(arguments, [value.type for value in returned])
    return Sample(ModuleOp([func.FuncOp("main", type, Region(graph.block))]))


def outcome(module: ModuleOp, seed: int) -> Outcome:
    (function,) = public_functions(module)
    return ReferenceRun(seed=seed)(module, function)


def assert_same(before: Outcome, after: Outcome) -> None:
    assert list(before.arguments) == list(after.arguments)
    pairs = zip([*before.results, *before.arguments.values()], [*after.results, *after.arguments.values()], strict=True)
    for expected, actual in pairs:
        torch.testing.assert_close(actual, expected, equal_nan=True)


def is_idempotent(name: str) -> bool:
    return "Running it again changes nothing" in (importlib.import_module(available()[name]).__doc__ or "")


REFUSED = (
    "might be aliasing the input",  # operands of a cond that share memory
)
"""What functionalize may say: it does not know these programs yet."""


@given(sample=graphs(), seed=st.integers(0, 3))
def test_passes_keep_numbers(sample: Sample, seed: int) -> None:
    before = sample.module
    verify(before)
    try:
        expected = outcome(before, seed)
    except (RuntimeError, IndexError):
        return  # such as writing to an expanded tensor, which only the run finds out
    for name in available():
        try:
            check_pass(name, before, expected, seed)
        except CaptureError as error:
            assert name == "functionalize" and any(text in str(error) for text in REFUSED), error
        except BaseException as error:
            error.add_note(f"in pass {name}")
            raise


def check_pass(name: str, before: ModuleOp, expected: Outcome, seed: int) -> None:
    after = clone_module(before)
    try:
        load(name)().apply(CONTEXT, after)
    except PassFailedException:
        return  # the pass says that it is not for such a program
    verify(after)
    text = print_module(after)
    assert print_module(parse_module(new_context(), text)) == text
    if why_not(after, public_functions(after)[0]) is None:
        assert_same(expected, outcome(after, seed))
    if is_idempotent(name):
        load(name)().apply(CONTEXT, after)
        assert print_module(after) == text


# any text

LIT_TESTS = Path(__file__).parent.parent / "lit_tests"
PARTS = [
    part
    for path in sorted(LIT_TESTS.rglob("*.mlir"))
    for part in path.read_text(encoding="utf-8").split("// -----")
    if len(part) < 3000
]
TOKEN = re.compile(r"\s+|[\w.$]+|.", re.DOTALL)
PIECES = st.one_of(
    st.sampled_from(
        [*'()[]{}<>=,:%@#!^"\\-/', "->", "loc(", '"', "\n", "\x00", "0x", "1e999", "9" * 30, "nan", "none", "%0", "@f"]
    ),
    st.sampled_from(["tensor<2x?xf32>", "!torch.int", "#fx.ssa", "torch.aten.add.Tensor", '"torch.constant"', "slice(1, 2)"]),
    st.text(max_size=3),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A part of a test file with some tokens or characters deleted, doubled, swapped or replaced."""
    text = draw(st.sampled_from(PARTS))
    parts = TOKEN.findall(text) if draw(st.booleans()) else list(text)
    for _ in range(draw(st.integers(1, 4))):
        if not parts:
            break
        start = draw(st.integers(0, len(parts) - 1))
        end = start + draw(st.integers(1, 4))
        match draw(st.integers(0, 4)):
            case 0:
                del parts[start:end]
            case 1:
                parts[start:start] = parts[start:end]
            case 2:
                parts[start:end] = [draw(PIECES)]
            case 3:
                parts.insert(start, draw(PIECES))
            case _:
                other = draw(st.integers(0, len(parts) - 1))
                parts[start], parts[other] = parts[other], parts[start]
    return "".join(parts)


def assert_ends_well(text: str, *options: str) -> None:
    """The program prints IR that parses, or one error of ours; in the time that its length allows."""
    started = time.process_time()
    code, out, err = fxc_opt.run(options, text)
    assert time.process_time() - started < 5
    if code == 0:
        code, again, err = fxc_opt.run(options, out)
        assert (code, again, err) == (0, out, "") or "nested too deeply" in err  # one level deeper, in a module
        return
    assert code == 1 and out == "" and err.startswith("error: ")
    assert "Traceback" not in err and "crashed" not in err


@settings(max_examples=6 * settings.default.max_examples)  # type: ignore[union-attr]
@given(text=damaged())
def test_damaged_text(text: str) -> None:
    assert_ends_well(text)


@given(text=st.one_of(st.text(), st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))))
def test_garbage(text: str) -> None:
    assert_ends_well(text)


@given(raw=st.binary(max_size=50))
def test_files_of_bytes(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage.mlir"
    path.write_bytes(raw)
    code, _, err = fxc_opt.run([str(path)])
    assert code == 0 or err.startswith("error: ")


DEEP = 10_000
HOSTILE = {
    "brackets": [*"([{<-%\"", "({", "[(", "tensor<", "tuple<", "#fx.tuple<[", "!fx<", "loc(callsite(", "slice(", "// "],
    "number": [
        "9" * 5000, "0x" + "f" * 5000, "1." + "9" * 5000, "1e99999", "1.0e99999", "²", "٣", "1_000", "1 : i99999999999", "i0",
    ],
    "string": ['"', '"' + "a" * 5000, '"\\', '"\\x"', '"a\nb"', '"\\ff"', "'a'"],
}  # fmt: skip
PLACES = [
    "{}",
    '"test.op"() {{a = {}}} : () -> ()',
    "fx.call_function @f({})",
    "fx.call_function @f({}) : () -> ()",
    "%c = torch.constant({}) : tensor<1xi64>",
    "%c = torch.constant({}) : !torch.int",
    "func.func @f(%a: {}) {{ func.return }}",
    "%c = torch.aten.relu.default(%c) : (tensor<{}xf32>) -> tensor<f32>",
    "fx.tensor @a : tensor<2xf32, #torch.meta<sizes = [{}]>>",
    'torch.operator @a.b.c "(Tensor {}) -> Tensor" flags ""',
    '"test.op"() : () -> () loc({})',
    "func.func @{}() {{ func.return }}",
]


@pytest.mark.parametrize("place", PLACES)
def test_hostile_text(place: str) -> None:
    for piece in HOSTILE["brackets"]:
        assert_ends_well(place.format(piece * DEEP))
    for piece in (*HOSTILE["number"], *HOSTILE["string"]):
        assert_ends_well(place.format(piece))


def test_deep_regions() -> None:
    for depth in range(10, 400, 30):
        assert_ends_well('"test.op"() ({' * depth + '"test.termop"() : () -> ()' + "}) : () -> ()" * depth)
        assert_ends_well(f'"test.op"() {{a = {"[" * depth}{"]" * depth}}} : () -> ()')
        assert_ends_well(f"fx.call_function @f({'[' * depth}{']' * depth}) : () -> ()")
    assert_ends_well('"test.op"() ({' * DEEP)
    assert_ends_well('"test.op"() ({' * DEEP + '"test.termop"() : () -> ()' + "}) : () -> ()" * DEEP)
    assert_ends_well("builtin.module {" * DEEP + "}" * DEEP)
