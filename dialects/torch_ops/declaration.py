"""``torch.operator``: the schema of an operator that is not part of PyTorch, declared in the file that uses it."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.torch_ops.operators import make_op_class
from fxc.dialects.torch_ops.schema import parse_schema


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
