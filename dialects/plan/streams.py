"""The ops of the ``plan`` dialect that synchronize streams of an accelerator."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.plan.types import EventType, PlanEffects


@irdl_op_definition
class RecordOp(IRDLOperation, PlanEffects):
    """``%e = plan.record {stream = 1 : i64} : !plan.event``: records the current position of stream 1."""

    name = "plan.record"
    stream = prop_def(IntegerAttr.constr(i64))
    event = result_def(EventType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($event)"

    @classmethod
    def of(cls, stream: int) -> RecordOp:
        return cls.create(properties={"stream": IntegerAttr(stream, i64)}, result_types=[EventType()])

    def verify_(self) -> None:
        _check_stream(self.name, self.stream)


@irdl_op_definition
class WaitOp(IRDLOperation, PlanEffects):
    """``plan.wait %e {stream = 0 : i64}``: later work of stream 0 starts after the work that ``%e`` recorded."""

    name = "plan.wait"
    event = operand_def(EventType)
    stream = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$event attr-dict"

    @classmethod
    def of(cls, event: SSAValue, stream: int) -> WaitOp:
        return cls.create(operands=[event], properties={"stream": IntegerAttr(stream, i64)})

    def verify_(self) -> None:
        _check_stream(self.name, self.stream)


def _check_stream(name: str, stream: IntegerAttr) -> None:
    if stream.value.data < 0:
        raise VerifyException(f"{name}: there is no stream {stream.value.data}")
