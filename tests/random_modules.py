"""A strategy of hypothesis for modules with every kind of op and attribute. They are verified, and mean nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.bridge.location import node_location, with_regions
from fxc.dialects.attributes import types, values
from fxc.dialects.fx import (
    CallFunctionOp,
    CallMethodOp,
    CallModuleOp,
    GetAttrOp,
    ModuleDeclOp,
    OutputOp,
    TensorDeclOp,
)
from fxc.dialects.text.syntax import print_module
from fxc.dialects.torch_ops import OperatorDeclOp, TorchOp, make_op_class, op_class, table
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.schema_call import fits
from tests.random_attributes import (
    ATTRIBUTES,
    CONSTANTS,
    IDENTIFIERS,
    LEAF_TYPES,
    LOCATIONS,
    NAMES,
    SCALARS,
    TYPES,
    tensor_types,
    trees,
)


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

    def argument(self, type: str) -> values.Tree:
        """A tree that fits an argument of ``type`` of a schema."""
        tree = self.tree()
        constants = (values.int_attr(self.draw(st.integers(-3, 3))), values.str_attr("a"), ArrayAttr([]))
        return tree if fits(values.encode(tree, []), type) else next(each for each in constants if fits(each, type))

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
                bound[argument.name] = self.draw(st.sampled_from(self.available)) if plain else self.argument(argument.type)
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
