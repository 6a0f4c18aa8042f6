"""The tensors of a scope whose elements are equal: what they hold, and their replacement by ``full``."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.dialects.attributes.types import (
    VALUE,
    device,
    dims_of,
    dtype_name,
    is_tensor,
    layout,
    sizes,
    strides,
    tensor_type,
)
from fxc.dialects.attributes.values import Tree, device_attr, dtype_attr, int_attr, isa
from fxc.dialects.base.effects import aliases
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, is_floating, is_integral, number
from fxc.passes.analysis.memory import is_isolated
from fxc.passes.analysis.statistics import count
from fxc.passes.operators.record import Role
from fxc.passes.operators.rules import Constant, Conversion, View
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.patterns import PatternRewriter

CONVERT, _FULL = "aten._to_copy.default", "aten.full.default"


class UniformValues:
    """The tensors of a scope whose elements are equal."""

    def __init__(self, context: FxcContext, rewriter: PatternRewriter, numbers: dict[SSAValue, Attribute]) -> None:
        self.context, self.rewriter, self.numbers = context, rewriter, numbers
        self.elements = dict[SSAValue, TensorLiteralAttr]()
        """Value -> the bytes of an element; ``numbers`` holds the element as a number."""
        self.shapes = dict[SSAValue, Tree]()
        """Value -> its sizes, as an argument of ``full``."""

    def visit(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    if inner.regions and not is_isolated(inner):
                        self.visit(inner)
                    elif isinstance(inner, (TorchOp, ConstantOp)) and inner.results and all(map(_may_hold, inner.result_types)):
                        self.learn(inner)

    def learn(self, op: TorchOp | ConstantOp) -> None:
        """Record the results of ``op`` if their elements are known to be equal."""
        element = _of_constant(op) if isinstance(op, ConstantOp) else self.element(op)
        if element is None or any(map(self.rewriter.memory.is_written, op.results)):
            return
        for result in op.results:
            item = self.computed("aten.item.default", {"self": result}, VALUE, {result: element})
            if number(item) is None:
                continue
            self.elements[result], self.numbers[result] = element, item  # type: ignore[assignment]
            if result not in self.shapes and (shape := self.shape_like(op, result)) is not None:
                self.shapes[result] = shape

    def element(self, op: TorchOp) -> TensorLiteralAttr | None:
        record, type = operator_of(op), op.results[0].type
        assert is_tensor(type)
        name, known = dtype_attr(dtype_name(type.element_type)), self.elements
        if isinstance(record.formula, Constant):
            bound = op.bound()
            fill = bound.get("fill_value", bound.get("s", int_attr(int(record.formula.number))))
            if isinstance(size := bound.get("size"), list):
                self.shapes[op.results[0]] = size
            return None if number(fill) is None else self.filled(fill, type)
        tensors = [value for value in op.operands if is_tensor(value.type)]
        if not tensors or any(value not in known for value in tensors):
            return None
        if isinstance(record.formula, View) or record.role is Role.SPLIT:
            return known[tensors[0]] if all(dtype(result.type) == dtype(tensors[0].type) for result in op.results) else None
        if isinstance(record.formula, Conversion):
            return self.made(CONVERT, {"self": tensors[0], "dtype": name}, type)
        is_pointwise = "p" in op.FLAGS and "r" not in op.FLAGS and len(tensors) == len(op.operands)
        return self.made(op.operator, op.bound(), type) if is_pointwise else None

    def filled(self, fill: Tree, type: Attribute) -> TensorLiteralAttr | None:
        """The element of a tensor of ``type`` that ``full`` makes from the number ``fill``."""
        assert is_tensor(type)
        shape = [int_attr(1)] * min(len(sizes(type)), 1)
        return self.made(_FULL, {"size": shape, "fill_value": fill, "dtype": dtype_attr(dtype_name(type.element_type))}, type)

    def made(self, operator: str, bound: Mapping[str, Tree], type: Attribute) -> TensorLiteralAttr | None:
        """The element of a result of ``type``."""
        found = self.computed(operator, bound, _one(type), self.elements)
        return found if isinstance(found, TensorLiteralAttr) else None

    def computed(
        self, operator: str, bound: Mapping[str, Tree], type: Attribute, elements: Mapping[SSAValue, Attribute]
    ) -> Attribute | None:
        """What PyTorch computes from tensors with one element. 0-d tensors remain 0-d, because they promote differently."""
        kind = torch_op(operator)
        stands = {value: Block(arg_types=[_one(value.type)]).args[0] for value in bound.values() if isa(value, SSAValue)}
        args, kwargs = kind.divide({name: stands[tree] if isa(tree, SSAValue) else tree for name, tree in bound.items()})
        call = kind.build_call(args, kwargs, [type])
        known: dict[SSAValue, Attribute] = {stand: elements[value] for value, stand in stands.items()}
        found = self.context.semantics.evaluate(call, [known[operand] for operand in call.operands], 1)
        call.erase()
        return found[0] if found else None

    def shape_like(self, op: Operation, result: SSAValue) -> Tree | None:
        """The sizes of ``result``: static, or those of an operand with equal ones."""
        shape = dims_of(result)
        if all(isinstance(size, int) for size in shape):
            return [int_attr(size) for size in shape if isinstance(size, int)]
        known = (self.shapes[value] for value in op.operands if value in self.shapes and dims_of(value) == shape)
        return next(known, None) if "" not in shape else None

    def fold(self) -> None:
        """Replace the values by ``full``, the last first, so that what they were computed from is unused."""
        for value, found in reversed(list(self.numbers.items())):
            op, type = value.owner, value.type
            if not isinstance(op, TorchOp) or not is_tensor(type) or not self.may_fold(op, value):
                continue
            if self.filled(found, type) != self.elements[value]:
                continue  # a NaN with another sign
            kwargs: dict[str, Tree] = {"dtype": dtype_attr(dtype_name(type.element_type))}
            if device(type) != "cpu":
                kwargs["device"] = device_attr(device(type))
            full = torch_op(_FULL).build_call([self.shapes[value], found], kwargs, [type], location=op.location)
            self.numbers[full.results[0]] = found
            self.rewriter.replace(op, full)
            count("uniform values folded")

    def may_fold(self, op: TorchOp, value: SSAValue) -> bool:
        """Whether ``op`` may be ``full``: not if a caller could tell the result from the view that it is."""
        is_made = isinstance(operator_of(op).formula, Constant)
        if is_made or op.parent is None or len(op.results) != 1 or value.first_use is None or value not in self.shapes:
            return False
        is_dense, is_view = is_tensor(value.type) and strides(value.type) is None, any(True for _ in aliases(op))
        return is_dense and not (is_view and self.rewriter.memory.reaches_output(value))


def _may_hold(type: Attribute) -> bool:
    return is_tensor(type) and layout(type) == "strided" and (is_integral(type) or is_floating(type))


def _one(type: Attribute) -> Attribute:
    """The type of a tensor on the CPU with one element, with no dimension or one."""
    return tensor_type(dtype_name(type.element_type), (1,) * min(len(sizes(type)), 1)) if is_tensor(type) else type


def _of_constant(op: ConstantOp) -> TensorLiteralAttr | None:
    if not isinstance(op.value, TensorLiteralAttr) or not is_tensor(op.result.type):
        return None
    total, elements = len(op.value.hex.data), math.prod(op.result.type.get_shape())
    if not elements or total % elements:
        return None
    first = op.value.hex.data[: total // elements]
    return TensorLiteralAttr(StringAttr(first)) if first * elements == op.value.hex.data else None
