"""The ``fusion`` dialect: groups of ops that one kernel may compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.effects import EffectsInterface, aliases, inner_operations, may_retain
from fxc.dialects.text.syntax import parse_type, type_text


@irdl_op_definition
class GroupOp(IRDLOperation, EffectsInterface):
    """``%u = fusion.group ({ %t = ...; fusion.yield %t : tensor<2xf32> }) -> tensor<2xf32>``.

    Runs its body. The body reads values of the enclosing block, and yields values that it computes.
    """

    name = "fusion.group"
    values = var_result_def()
    body = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    @classmethod
    def of(cls, body: Region) -> GroupOp:
        last = body.block.last_op
        assert last is not None
        return cls.create(result_types=last.operand_types, regions=[body])

    def yielded(self) -> Sequence[SSAValue]:
        """The values of the body that are the results."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.operands

    def inputs(self) -> list[SSAValue]:
        """The distinct values of the enclosing block that the body reads."""
        made = set[SSAValue]()
        for op in self.body.walk():
            made.update(op.results, *(block.args for region in op.regions for block in region.blocks))
        return [value for value in dict.fromkeys(_reads(self.body)) if value not in made]

    def writes(self) -> list[SSAValue] | None:
        """What its operators write. Operations of other dialects in it, such as linalg's, compute new tensors."""
        found = [op.writes() for op in inner_operations(self) if isinstance(op, EffectsInterface)]
        return None if None in found else [value for each in found for value in each or ()]

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        for index, value in enumerate(self.yielded()):
            for source in self._sources(value):
                yield index, source

    def _sources(self, value: SSAValue) -> Iterator[SSAValue]:
        """The values outside of the group that may share memory with a value of its body."""
        if not isinstance(value.owner, Operation) or value.owner.parent_op() is not self:
            yield value
            return
        for index, operand in aliases(value.owner):
            if value.owner.results[index] is value:
                yield from self._sources(operand)

    def may_retain(self) -> bool:
        return any(map(may_retain, inner_operations(self)))

    def verify_(self) -> None:
        last = self.body.block.last_op
        if self.body.block.args:
            raise VerifyException("fusion.group: the body takes no arguments, it reads the values around it")
        if not isinstance(last, YieldOp) or last.operand_types != self.result_types:
            raise VerifyException("fusion.group: the body must end in a fusion.yield of the result types")
        made = {result for op in self.body.block.ops for result in op.results}
        if not made.issuperset(last.operands):
            raise VerifyException("fusion.group: the body yields values that it makes, not those around it")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)
        results = ", ".join(map(type_text, self.result_types))
        printer.print_string(" -> " + (results if len(self.results) == 1 else f"({results})"))

    @classmethod
    def parse(cls, parser: Parser) -> GroupOp:
        with parser.in_parens():
            body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("->")
        types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_type(parser))
        results = [parse_type(parser)] if types is None else types
        return cls.create(result_types=results, attributes=attributes, regions=[body])


def _reads(body: Region) -> Iterator[SSAValue]:
    for op in body.walk():
        yield from op.operands


@irdl_op_definition
class YieldOp(IRDLOperation):
    """``fusion.yield %p, %q : tensor<2xf32>, tensor<3xf32>``: ends the body of ``fusion.group`` with its results."""

    name = "fusion.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), HasParent(GroupOp))
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    @classmethod
    def of(cls, values: Sequence[SSAValue]) -> YieldOp:
        return cls.create(operands=values)


def groups_of(around: Operation) -> list[GroupOp]:
    """The groups in ``around``, in order, without those of nested modules. Groups are not nested."""
    found = list[GroupOp]()
    for region in around.regions:
        for block in region.blocks:
            for op in block.ops:
                if type(op) is GroupOp:
                    found.append(op)
                elif op.regions and not isinstance(op, ModuleOp):
                    found += groups_of(op)
    return found


Fusion = Dialect("fusion", [GroupOp, YieldOp], [])
