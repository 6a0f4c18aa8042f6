"""Lower ``tile.assert``: store the number of the failed assertion in memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.codegen.cpu.arith_rules import Rule
from fxc.codegen.cpu.builder import Builder, i32
from fxc.codegen.cpu.types import I1, PTR, Value
from fxc.dialects.tile import AssertOp, KernelOp

STATUS = Value("%status", PTR)
"""The pointer to which functions of a kernel with assertions write the number."""


def messages(kernel: KernelOp) -> list[str]:
    """The messages of the assertions of ``kernel``; the first one has number 1."""
    return list(dict.fromkeys(op.message.data for op in kernel.walk() if isinstance(op, AssertOp)))


def _assert(b: Builder, op: AssertOp, condition: Value) -> None:
    """Store the assertion's number if it fails. Threads may write concurrently; the last failure is reported."""
    kernel = op.parent_op()
    while not isinstance(kernel, KernelOp):
        assert kernel is not None
        kernel = kernel.parent_op()
    if condition.type.lanes is not None:
        condition = b.call(f"llvm.vector.reduce.and.{condition.type.suffix}", I1, condition)
    failed, done = b.name("failed"), b.name("asserted")
    b.branch_if(condition, done, failed)
    b.label(failed)
    b.line(f"store atomic {i32(messages(kernel).index(op.message.data) + 1)}, {STATUS} monotonic, align 4")
    b.branch(done)
    b.label(done)


RULES: Mapping[str, Rule] = MappingProxyType({"tile.assert": _assert})
"""Op name -> rule."""
