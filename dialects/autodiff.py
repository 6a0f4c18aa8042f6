"""The ``autodiff`` dialect: derivatives and gradients, until they are lowered to plain ``torch`` ops.

A gradient may be *undefined*: it is known to be zero, and there is no tensor for it. An undefined gradient costs nothing, and a
program can test for it; a tensor of zeros is a defined gradient. ``autodiff.zero`` is undefined, every gradient value may be,
and the interpreter represents it as None. Ops of ``torch`` accept no undefined gradient: ``autodiff.grad_of`` guards ops that
use one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.ir.core import OpTraits
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, sizes, strides, tensor_type
from fxc.dialects.attributes.values import int_attr, isa
from fxc.dialects.base.effects import CallEffects, EffectsInterface, has_side_effect, writes
from fxc.dialects.fx import PositionalCall
from fxc.dialects.text.syntax import type_text

INDEX_LISTS = ("input_vjps", "captured_inputs", "captured_outputs", "output_vjps")
UNDEFINED, DEFINED = "autodiff.undefined", "autodiff.defined"
"""Unit attributes of a function argument that is a gradient: it is always undefined, or always defined."""

IMPLEMENTS = "autodiff.implements"
"""The attribute of a module whose entry implements the function of that name: ``f``, or ``df`` for the set of defined incoming
gradients that is marked on the arguments of the entry."""

FORWARD_RESULTS, TANGENT, WRITTEN = "autodiff.forward_results", "autodiff.tangent", "autodiff.written"
"""Of a joint graph of forward and backward: the number of results of the forward, which are the first; marks of the arguments
that are gradients of these results, and of those that the caller overwrites after the forward."""

HELD = "autodiff.held"
"""The mark of an argument that its caller holds beyond the step, such as a parameter: to save it takes no memory."""

PART, SAVED, RECOMPUTED = "autodiff.part", "autodiff.saved", "autodiff.recomputed"
"""Of an operation of a joint graph: the part that it must be in, ``forward`` or ``backward``; the indices of its results that
are saved for the backward, elements if it returns a tuple; and that the backward computes it again."""

OFFLOADED = "autodiff.offloaded"
"""The indices of saved results that wait for the backward in memory of the host."""


def is_differentiable(type: Attribute) -> bool:
    """Whether a value of ``type`` can have a gradient: a tensor of floating-point or complex numbers."""
    if not is_tensor(type):
        return False
    element = type.element_type
    return isinstance(element, ComplexType) or dtype_name(element).startswith(("float", "bfloat"))


def contiguous_type(type: Attribute) -> TensorType:
    """``type`` with row-major strides."""
    assert is_tensor(type)
    return tensor_type(dtype_name(type.element_type), sizes(type), None, device(type), layout(type))


def gradient_type(type: Attribute) -> TensorType:
    """The type of incoming gradients of a value of ``type``: with its strides if these are dense, else contiguous."""
    assert is_tensor(type)
    steps, expected = strides(type), 1
    if steps is None or layout(type) != "strided":
        return type
    if any(isinstance(dim, str) for dim in (*steps, *sizes(type))):
        return contiguous_type(type)
    pairs = sorted((int(st), int(si)) for st, si in zip(steps, sizes(type), strict=True) if si != 1)
    for step, size in pairs:
        if step != expected:
            return contiguous_type(type)
        expected *= size
    return type


@irdl_attr_definition
class GradientAttr(ParametrizedAttribute):
    """``#autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [0], captured_outputs = [1], ...>``.

    The derivative of a function f: a function df with one argument for each of these, in this order: the gradients of the
    outputs ``input_vjps`` of f, its inputs ``captured_inputs`` and its outputs ``captured_outputs``. df returns the gradients
    of the inputs ``output_vjps`` of f. The outputs of f from ``real_outputs`` on are used by df only.
    """

    name = "autodiff.gradient"
    df: SymbolRefAttr
    real_outputs: IntegerAttr
    input_vjps: ArrayAttr[IntegerAttr]
    captured_inputs: ArrayAttr[IntegerAttr]
    captured_outputs: ArrayAttr[IntegerAttr]
    output_vjps: ArrayAttr[IntegerAttr]

    @classmethod
    def of(
        cls,
        df: str,
        real_outputs: int,
        input_vjps: Sequence[int],
        captured_inputs: Sequence[int],
        captured_outputs: Sequence[int],
        output_vjps: Sequence[int],
    ) -> GradientAttr:
        lists = [
            ArrayAttr([int_attr(i) for i in found]) for found in (input_vjps, captured_inputs, captured_outputs, output_vjps)
        ]
        return cls(SymbolRefAttr(df), int_attr(real_outputs), *lists)

    def indices(self, name: str) -> list[int]:
        """One of the index lists as Python integers."""
        found: ArrayAttr[IntegerAttr] = getattr(self, name)
        return [index.value.data for index in found]

    def verify(self) -> None:
        for name in INDEX_LISTS:
            found = self.indices(name)
            if len(set(found)) != len(found):
                raise VerifyException(f"#autodiff.gradient: {name} names an index twice")

    def signature(self, f: FunctionType) -> FunctionType:
        """The type of df for an f of type ``f``, with any strides of results. VerifyException where there is none."""
        inputs, outputs, real = f.inputs.data, f.outputs.data, self.real_outputs.value.data
        if not 0 <= real <= len(outputs):
            raise VerifyException(f"real_outputs is {real}, but the function returns {len(outputs)} values")
        for name in INDEX_LISTS:
            count = len(inputs if name in ("captured_inputs", "output_vjps") else outputs)
            for index in self.indices(name):
                if not 0 <= index < count:
                    raise VerifyException(f"{name} names {index}, but there are only {count}")
        if missing := sorted(set(range(real, len(outputs))) - set(self.indices("captured_outputs"))):
            raise VerifyException(f"output {missing[0]} is none of the real outputs, and captured_outputs does not name it")
        vjps = [outputs[i] for i in self.indices("input_vjps")]
        gradients = [inputs[i] for i in self.indices("output_vjps")]
        for type in (*vjps, *gradients):
            if not is_differentiable(type):
                raise VerifyException(f"a value of type {type_text(type)} has no gradient")
        vjps = list(map(gradient_type, vjps))
        captured = [inputs[i] for i in self.indices("captured_inputs")]
        captured += [outputs[i] for i in self.indices("captured_outputs")]
        return FunctionType.from_lists([*vjps, *captured], gradients)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_symbol_name(self.df.root_reference.data)
            printer.print_string(f", real_outputs = {self.real_outputs.value.data}")
            for name in INDEX_LISTS:
                printer.print_string(f", {name} = {self.indices(name)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            df = SymbolRefAttr(parser.parse_symbol_name())
            _name(parser, "real_outputs")
            parameters: list[Attribute] = [df, int_attr(parser.parse_integer(allow_boolean=False))]
            for name in INDEX_LISTS:
                _name(parser, name)
                indices = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
                parameters.append(ArrayAttr([int_attr(i) for i in indices]))
        return parameters


def _name(parser: AttrParser, name: str) -> None:
    parser.parse_punctuation(",")
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def _alike(a: Attribute, b: Attribute) -> bool:
    """Whether these are tensors of equal shape and dtype."""
    return is_tensor(a) and is_tensor(b) and (a.element_type, a.shape) == (b.element_type, b.shape)


class _SubgraphSymbols(SymbolUserOpInterface):
    """Verifies that the callee and the derivative have the types that the op and its gradient attribute state."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, SubgraphOp)
        if not _has_symbol_table(op):
            return
        f = _function(op, op.callee)
        inputs, outputs = f.function_type.inputs.data, f.function_type.outputs.data
        gradient = op.gradient
        df_type = None if gradient is None else gradient.signature(f.function_type)
        expected = outputs if gradient is None else outputs[: gradient.real_outputs.value.data]
        for what, given, wanted in (("operand", op.operand_types, inputs), ("result", op.result_types, expected)):
            if tuple(given) != tuple(wanted):
                texts = [f"({', '.join(map(type_text, types))})" for types in (wanted, given)]
                raise VerifyException(f"the {what} types of @{f.sym_name.data} are {texts[0]}, not {texts[1]}")
        if gradient is None or df_type is None:
            return
        df = _function(op, gradient.df)
        fits = df.function_type.inputs == df_type.inputs and len(df.function_type.outputs) == len(df_type.outputs)
        if not fits or not all(map(_alike, df.function_type.outputs.data, df_type.outputs.data)):
            raise VerifyException(f"@{df.sym_name.data} is {df.function_type}, but its gradient attribute has {df_type}")


def _has_symbol_table(op: Operation) -> bool:
    around = op.parent_op()
    while around is not None and not around.has_trait(SymbolTable):
        around = around.parent_op()
    return around is not None


def _function(op: Operation, symbol: SymbolRefAttr) -> FuncOp:
    found = SymbolTable.lookup_symbol(op, symbol)
    if not isinstance(found, FuncOp):
        raise VerifyException(f"{op.name}: there is no function @{symbol.root_reference.data}")
    return found


@irdl_op_definition
class SubgraphOp(IRDLOperation, EffectsInterface):
    """``%y = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, ...>} : (tensor<2xf32>) -> tensor<2xf32>``.

    A call of f that is differentiated as a whole. Its derivative is df, after ``gradient`` is set.
    """

    name = "autodiff.subgraph"
    arguments = var_operand_def()
    values = var_result_def()
    callee = prop_def(FlatSymbolRefAttrConstr)
    gradient = opt_prop_def(GradientAttr)
    traits = traits_def(CallEffects(), _SubgraphSymbols())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $values)"

    @classmethod
    def of(cls, callee: str, operands: Sequence[SSAValue], result_types: Sequence[Attribute]) -> SubgraphOp:
        return cls.create(operands=operands, result_types=result_types, properties={"callee": SymbolRefAttr(callee)})

    def function(self) -> FuncOp | None:
        """The callee, if the op is in a module that has it."""
        found = SymbolTable.lookup_symbol(self, self.callee) if _has_symbol_table(self) else None
        return found if isinstance(found, FuncOp) else None

    def has_side_effect(self) -> bool:
        """Whether an op of the callee has a side effect; True where the callee is not found."""
        function = self.function()
        if function is None or function.is_declaration:
            return True
        ops = (inner for block in function.body.blocks for inner in block.ops if not inner.has_trait(IsTerminator))
        return any(has_side_effect(inner) or writes(inner) != [] for inner in ops)


@irdl_op_definition
class GradOfOp(IRDLOperation):
    """``%da = autodiff.grad_of "mul"(%g) ({ ...; autodiff.yield %p : tensor<2xf32> }) : (tensor<2xf32>) -> tensor<2xf32>``.

    The backward of one op, a *linear* map of its gradient operands. If all of them are undefined, so are its results; else the
    body runs. The body reads values of the enclosing block, including the gradients.
    """

    name = "autodiff.grad_of"
    gradients = var_operand_def()
    values = var_result_def()
    label = prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())
    assembly_format = "$label `` `(` $gradients `)` `(` $body `)` attr-dict `:` functional-type($gradients, $values)"

    @classmethod
    def of(cls, label: str, gradients: Sequence[SSAValue], body: Region) -> GradOfOp:
        last = body.block.last_op
        assert last is not None
        return cls.create(
            operands=gradients, result_types=last.operand_types, properties={"label": StringAttr(label)}, regions=[body]
        )

    def verify_(self) -> None:
        last = self.body.block.last_op
        if self.body.block.args:
            raise VerifyException("autodiff.grad_of: the body takes no arguments, it reads the gradients themselves")
        if not isinstance(last, YieldOp) or last.operand_types != self.result_types:
            raise VerifyException("autodiff.grad_of: the body must end in an autodiff.yield of the result types")
        if not self.operands or not all(is_differentiable(value.type) for value in (*self.operands, *self.results)):
            raise VerifyException("autodiff.grad_of takes and gives gradients: tensors of floating-point numbers, at least one")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """``autodiff.yield %p, %q : tensor<2xf32>, tensor<3xf32>``: ends the body of ``autodiff.grad_of`` with its results."""

    name = "autodiff.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^)? attr-dict (`:` type($values)^)?"

    @classmethod
    def of(cls, values: Sequence[SSAValue]) -> YieldOp:
        return cls.create(operands=values)


@irdl_op_definition
class ZeroOp(IRDLOperation):
    """``%z = autodiff.zero : tensor<2xf32>``: the undefined gradient."""

    name = "autodiff.zero"
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    @classmethod
    def of(cls, type: Attribute) -> ZeroOp:
        return cls.create(result_types=[type])


class _GradientCall(PositionalCall):
    """An op on gradients with the text of a call and one result."""

    PROPERTY_NAMES = ("args", "kwargs")
    traits: ClassVar[OpTraits] = OpTraits(lambda: (Pure(),))
    TYPES: ClassVar[str] = ""

    @classmethod
    def of(cls, *args: Any, type: Attribute) -> _GradientCall:
        return cls.build_call(args, {}, [type])

    def verify_(self) -> None:
        super().verify_()
        args, kwargs = self.trees()
        if kwargs or len(self.results) != 1 or not self.fits(args):
            raise VerifyException(f"{self.name} is {self.TYPES}")

    def fits(self, args: Sequence[Any]) -> bool:
        raise NotImplementedError


class AnyNonzeroOp(_GradientCall):
    """``%c = autodiff.any_nonzero(%g, %h) : (tensor<2xf32>, tensor<2xf32>) -> i1``: whether one of the gradients is defined."""

    name = "autodiff.any_nonzero"
    TYPES = "a call with gradients, at least one, whose result is i1"

    def fits(self, args: Sequence[Any]) -> bool:
        tensors = all(isa(arg, SSAValue) and is_tensor(arg.type) for arg in args)
        return bool(args) and tensors and self.results[0].type == i1


class AddOp(_GradientCall):
    """``%s = autodiff.add(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>``: the sum of two gradients.

    ``aten.add`` of equal shapes if both are defined; the defined one if one is; else undefined.
    """

    name = "autodiff.add"
    TYPES = "a call with two gradients of one shape and dtype, and a result like them"

    def fits(self, args: Sequence[Any]) -> bool:
        values = all(isinstance(arg, SSAValue) for arg in args)
        return len(args) == 2 and values and all(_alike(arg.type, self.results[0].type) for arg in args)


class SumToSizeOp(_GradientCall):
    """``%r = autodiff.sum_to_size(%g, [2, 1]) : (tensor<2x3xf32>) -> tensor<2x1xf32>``: the gradient of a broadcast.

    If the size is ``none``, or a value that is none at run time, the result is the operand.
    """

    name = "autodiff.sum_to_size"
    TYPES = "a call with a gradient and a size or none"

    def fits(self, args: Sequence[Any]) -> bool:
        return len(args) == 2 and isinstance(args[0], SSAValue) and is_tensor(self.results[0].type)


class MaterializeOp(_GradientCall):
    """``%m = autodiff.materialize(%g, [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>``: zeros where it is undefined.

    For a backward with several gradients, at least one of them defined: it computes with tensors only.
    """

    name = "autodiff.materialize"
    TYPES = "a call with a gradient and its size, whose result is like the gradient"

    def fits(self, args: Sequence[Any]) -> bool:
        return (
            len(args) == 2
            and isa(args[0], SSAValue)
            and isinstance(args[1], list)
            and _alike(args[0].type, self.results[0].type)
        )


Autodiff = Dialect(
    "autodiff",
    [SubgraphOp, GradOfOp, YieldOp, ZeroOp, AnyNonzeroOp, AddOp, SumToSizeOp, MaterializeOp],
    [GradientAttr],
)
