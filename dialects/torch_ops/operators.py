"""The classes of PyTorch's operators: one is made when an operator is first named.

Those of higher-order operators (cond, while_loop, map, checkpoint, ...), calls that take graphs, are ops with regions.
``torch.operator`` states the schema of an operator that is not part of PyTorch, in the file that uses it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.core import OpTraits
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.effects import CallEffects, EffectsInterface, has_inner_effect, inner_operations, writes
from fxc.dialects.fx import PositionalCall
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.schema import parse_schema

TABLE = Path(__file__).parent / "operators.tbl"


@cache
def table() -> dict[str, tuple[str, str]]:
    """``aten.add.Tensor`` -> (flags, signature)."""
    with TABLE.open(encoding="utf-8") as lines:
        rows = (line.rstrip("\n").split("\t", 2) for line in lines if not line.startswith("#"))
        return {name: (flags, signature) for name, flags, signature in rows}


@cache
def op_class(name: str) -> type[Operation] | None:
    """The class of the op ``name`` (``torch.aten.add.Tensor``), or None where it is not in the table."""
    operator = name.removeprefix("torch.")
    if operator.startswith("higher_order."):
        return type(operator.replace(".", "_"), (HigherOrderOp,), {"name": name})
    row = table().get(operator)
    return None if row is None else make_op_class(operator, *row)


@cache
def make_op_class(operator: str, flags: str, signature: str) -> type[TorchOp]:
    """The class of an operator, from its schema. Equal arguments return the same class."""
    return type(
        operator.replace(".", "_"),
        (TorchOp,),
        {
            "name": f"torch.{operator}",
            "SCHEMA": (schema := parse_schema(signature)),
            "FLAGS": flags,
            "PROPERTY_NAMES": (*schema.by_name, "keywords"),
            "__doc__": f"{operator}{signature}",
        },
    )


def torch_op(operator: str) -> type[TorchOp]:
    """The class of ``aten.add.Tensor``, to build or match calls of it. ValueError where it is not in the table."""
    found = op_class(f"torch.{operator}")
    if found is None or not issubclass(found, TorchOp):
        raise ValueError(f"PyTorch has no operator {operator}; names are as in aten.add.Tensor, aten.relu.default")
    return found


RUN_ALWAYS = frozenset({"torch.higher_order.with_effects", "torch.higher_order.print"})
"""Operators that must run, for any regions."""


class HigherOrderOp(PositionalCall, EffectsInterface):
    """``torch.higher_order.cond(%p, @true_graph_0, @false_graph_0, (%x,)) ({...}, {...}) : ...``.

    Each graph argument names its submodule; ``regions[i]`` is the i-th distinct name in argument order. A region takes the
    operands of the operator as block arguments, uses no other values from outside, and ends in ``fx.output``.
    """

    name = "torch.higher_order"
    PROPERTY_NAMES = ("args", "kwargs")
    traits: ClassVar[OpTraits] = OpTraits(lambda: (IsolatedFromAbove(), CallEffects()))

    @property
    def operator(self) -> str:
        """``higher_order.cond``."""
        return self.name.removeprefix("torch.")

    def writes(self) -> list[SSAValue] | None:
        """Nothing where the regions write nothing, even if they sample or have side effects."""
        is_quiet = bool(self.regions) and all(writes(inner) == [] for inner in inner_operations(self))
        return [] if self.is_pure() or is_quiet else None

    def has_side_effect(self) -> bool:
        return has_inner_effect(self) or self.name in RUN_ALWAYS


@irdl_op_definition
class OperatorDeclOp(IRDLOperation):
    """``torch.operator @mylib.scale.default "(Tensor x, float by) -> Tensor" flags ""``, before its first use in the file.

    ``flags`` as in ``operators.tbl``. Parsing the text registers the op in the context; it does not import the operator.
    """

    name = "torch.operator"
    sym = prop_def(StringAttr)
    signature = prop_def(StringAttr)
    flags = prop_def(StringAttr)

    def verify_(self) -> None:
        try:
            parse_schema(self.signature.data)
        except ValueError as error:
            raise VerifyException(f"torch.operator @{self.sym.data}: {error}") from error

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym.data)
        printer.print_string(" ")
        printer.print_string_literal(self.signature.data)
        printer.print_string(" flags ")
        printer.print_string_literal(self.flags.data)
        printer.print_op_attributes(self.attributes)

    def declare(self, parser: Parser, position: int) -> None:
        """Register the op in the context of the parser; a parse error at ``position`` where the signature is malformed."""
        facts = [self.properties.get(name) for name in ("sym", "flags", "signature")]
        texts = [fact.data for fact in facts if isinstance(fact, StringAttr)]
        if len(texts) != len(facts):
            return  # the verifier reports it
        try:
            op_class = make_op_class(*texts)
        except ValueError as error:
            parser.raise_error(f"torch.operator @{texts[0]}: {error}", position)
        parser.ctx._loaded_ops[op_class.name] = op_class

    @classmethod
    def parse(cls, parser: Parser) -> OperatorDeclOp:
        position = parser.pos
        sym = parser.parse_symbol_name()
        signature = parser.parse_str_literal()
        parser.parse_keyword("flags")
        flags = parser.parse_str_literal()
        attributes = parser.parse_optional_attr_dict()
        op = cls.create(
            properties={"sym": sym, "signature": StringAttr(signature), "flags": StringAttr(flags)},
            attributes=attributes,
        )
        op.declare(parser, position)
        return op
