"""The ``fx`` dialect: a graph as FX captured it, before its calls are resolved to ATen operators.

``%y = fx.call_module @layer1.conv(%x) : (!fx.value) -> !fx.value`` is a node of an FX graph, with the same arguments. Modules
and tensors that nodes name are declared beside the function, as data: for a path in the model, ``fx.module`` states the class
and the configuration, ``fx.tensor`` the type. Values of tensors are not in the text.
"""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Dialect
from xdsl.ir.core import OpTraits
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import FX_TYPES
from fxc.dialects.attributes.values import VALUE_ATTRIBUTES, DictAttr, TupleAttr, str_attr
from fxc.dialects.base.effects import CallEffects, EffectsInterface
from fxc.dialects.base.op_rules import local
from fxc.dialects.text.call import CallOp
from fxc.dialects.text.call_text import Arguments, CallReader, CallWriter
from fxc.dialects.text.lexer import Layout
from fxc.dialects.text.nesting import NestingAttr
from fxc.dialects.text.syntax import type_text

PURE_FUNCTIONS = frozenset(
    {"getattr", "len", "int", "float", "bool", "min", "max", "abs", "sum", "round", "pow", "range", "slice"}
)
"""Python functions without effects. All functions of ``math``, and of ``operator`` except in-place ones, have none either."""

PURE_METHODS = frozenset({"item", "size", "dim", "numel", "stride"})
"""Methods of tensors that return numbers, without effects."""

IN_PLACE_OPERATORS = frozenset(
    {
        "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift",
        "iconcat", "setitem", "delitem",
    }
)  # fmt: skip
"""Functions of ``operator`` that write their first argument."""


class PositionalCall(CallOp):
    """A call of a callee without a schema: positional and keyword arguments as passed."""

    PROPERTY_NAMES = ("target", "args", "kwargs")

    def call_arguments(self) -> Arguments:
        args, kwargs = self.properties.get("args"), self.properties.get("kwargs")
        arguments: Arguments = []
        if args is not None:
            if not isinstance(args, TupleAttr):
                raise VerifyException(f"{self.name}: 'args' must be #fx.tuple")
            arguments += [(None, template) for template in args.elements.data]
        if kwargs is not None:
            if not isinstance(kwargs, DictAttr):
                raise VerifyException(f"{self.name}: 'kwargs' must be #fx.dict")
            for key, template in zip(kwargs.keys.data, kwargs.values.data, strict=True):
                if not isinstance(key, StringAttr):
                    raise VerifyException(f"{self.name}: a keyword must be a string")
                arguments.append((key.data, template))
        return arguments

    def call_target(self) -> str | None:
        target = self.properties.get("target")
        return target.data if isinstance(target, StringAttr) else None

    @classmethod
    def layout(cls, arguments: Arguments, target: str | None) -> Layout:
        keywords = [name for name, _ in arguments if name is not None]
        if any(name is not None for name, _ in arguments[: len(arguments) - len(keywords)]):
            raise VerifyException("a positional argument follows a keyword")
        if len(set(keywords)) != len(keywords):
            raise VerifyException("a keyword is given twice")
        properties: dict[str, Attribute] = {}
        if target is not None:
            properties["target"] = str_attr(target)
        properties["args"] = TupleAttr(ArrayAttr([template for name, template in arguments if name is None]))
        if keywords:
            values = [template for name, template in arguments if name is not None]
            properties["kwargs"] = DictAttr(ArrayAttr([str_attr(name) for name in keywords]), ArrayAttr(values))
        return properties, None

    @local
    def verify_(self) -> None:
        if self.HAS_TARGET and self.call_target() is None:
            raise VerifyException(f"{self.name} needs a target")
        super().verify_()


class _FxCall(PositionalCall, EffectsInterface):
    HAS_TARGET = True
    traits: ClassVar[OpTraits] = OpTraits(lambda: (CallEffects(),))


class CallFunctionOp(_FxCall):
    """``fx.call_function @torch.nn.functional.relu(%x)``: a Python function, resolved through the allow-list only."""

    name = "fx.call_function"

    def has_side_effect(self) -> bool:
        module, _, name = (target := self.call_target() or "").rpartition(".")
        if module in ("operator", "_operator"):
            return name in IN_PLACE_OPERATORS
        return module != "math" and target not in PURE_FUNCTIONS


class CallMethodOp(_FxCall):
    """``fx.call_method @view(%x, -1, 10)``: a method of the first argument."""

    name = "fx.call_method"

    def has_side_effect(self) -> bool:
        return self.call_target() not in PURE_METHODS


class CallModuleOp(_FxCall):
    """``fx.call_module @layer1.conv(%x)``: a submodule that ``fx.module`` declares."""

    name = "fx.call_module"


class GetAttrOp(_FxCall):
    """``fx.get_attr @fc.weight()``: a parameter, buffer or constant that ``fx.tensor`` declares."""

    name = "fx.get_attr"

    def has_side_effect(self) -> bool:
        return False


class OutputOp(PositionalCall):
    """``fx.output((%a, [%b, none]))``: the result of the graph, any nesting of values and constants."""

    name = "fx.output"
    traits: ClassVar[OpTraits] = OpTraits(lambda: (IsTerminator(),))


class ModuleDeclOp(PositionalCall):
    """``fx.module @conv @torch.nn.modules.conv.Conv2d(in_channels = 3, weight = #fx.state<"conv.weight">, ...)``.

    A submodule: the path, the class (resolved through the allow-list only), and its ``__dict__`` as keywords. Its parameters
    and buffers are references to ``fx.tensor`` declarations.
    """

    name = "fx.module"
    PROPERTY_NAMES = ("path", "target", "args", "kwargs")

    @property
    def path(self) -> str:
        path = self.properties.get("path")
        return path.data if isinstance(path, StringAttr) else ""

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.path)
        printer.print_string(" ")
        printer.print_symbol_name(self.call_target() or "")
        printer.print_string(f"({CallWriter(printer).arguments(self.call_arguments(), iter(()))})")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        path = parser.parse_symbol_name()
        target = parser.parse_symbol_name().data
        op = cls.from_arguments(CallReader(parser).arguments(), (), (), target=target)
        op.properties["path"] = path
        return op


_TENSOR_FACTS = ("kind", "requires_grad", "non_persistent")


@irdl_op_definition
class TensorDeclOp(IRDLOperation):
    """``fx.tensor @fc.weight : tensor<10x5xf32> {kind = "parameter", requires_grad}``: a tensor of the model.

    ``kind`` is ``parameter``, ``buffer`` (``non_persistent`` where it is not in the state dict) or ``constant``. The value is
    stored under the same name in the safetensors file beside the text.
    """

    name = "fx.tensor"
    sym = prop_def(StringAttr)
    type = prop_def(TensorType)
    kind = prop_def(StringAttr)
    requires_grad = opt_prop_def(UnitAttr)
    non_persistent = opt_prop_def(UnitAttr)

    @local
    def verify_(self) -> None:
        if self.kind.data not in ("parameter", "buffer", "constant"):
            raise VerifyException(f"fx.tensor: kind is parameter, buffer or constant, not {self.kind.data}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym.data)
        printer.print_string(f" : {type_text(self.type)}")
        extra = {name: self.properties[name] for name in _TENSOR_FACTS if name in self.properties}
        printer.print_op_attributes({**extra, **self.attributes})

    @classmethod
    def parse(cls, parser: Parser) -> TensorDeclOp:
        sym = parser.parse_symbol_name()
        parser.parse_punctuation(":")
        properties: dict[str, Attribute] = {"sym": sym, "type": parser.parse_type()}
        attributes = parser.parse_optional_attr_dict()
        for name in _TENSOR_FACTS:
            if name in attributes:
                properties[name] = attributes.pop(name)
        return cls.create(properties=properties, attributes=attributes)


Fx = Dialect(
    "fx",
    [CallFunctionOp, CallMethodOp, CallModuleOp, GetAttrOp, OutputOp, ModuleDeclOp, TensorDeclOp],
    [*VALUE_ATTRIBUTES, *FX_TYPES, NestingAttr],
)
