"""Run-time assertions on the data of a kernel, such as indices within bounds."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, i1
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.traits import MemoryWriteEffect

from fxc.dialects.base.op_rules import local
from fxc.dialects.tile.types import TileEffects, check_type, with_element


@irdl_op_definition
class AssertOp(IRDLOperation, TileEffects):
    """``tile.assert %ok, "index out of range" : vector<16xi1>``: the launch is an error where a lane is false.

    The kernel continues, so it must handle such a lane safely. On a CPU the launch raises fxc.errors.BoundsError after the
    kernel has finished; on a GPU it is a device-side assertion, as in PyTorch's kernels.
    """

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"

    @classmethod
    def of(cls, condition: SSAValue, message: str) -> AssertOp:
        return cls.create(operands=[condition], properties={"message": StringAttr(message)})

    @local
    def verify_(self) -> None:
        check_type("tile.assert: the condition", self.condition.type, with_element(self.condition.type, i1))
