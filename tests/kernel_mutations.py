"""Kernels with one thing wrong: a bound, a mask, a stride, an address, a loop or the grid, changed in the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from unittest.mock import patch

import torch
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.text.syntax import clone_module
from fxc.dialects.tile import KernelOp, LoadOp, MaskOp, StoreOp
from fxc.dialects.tile.memory import integers
from fxc.dialects.verify.verifier import verify
from fxc.interpret.tile_programs import Programs


@dataclass(frozen=True)
class Mutant:
    """``module`` with one kernel changed: what was done, and to which op."""

    what: str
    op: str
    module: ModuleOp


def _shift(op: Operation, index: int, by: int) -> None:
    """Let ``op`` read an index that is ``by`` larger than its operand."""
    constant = arith.ConstantOp(IntegerAttr(by, IndexType()))
    moved = arith.AddiOp(op.operands[index], constant.result)
    Rewriter.insert_op([constant, moved], InsertPoint.before(op))
    op.operands[index] = moved.result


def _shift_by_step(op: Operation, index: int, operation: type[arith.AddiOp] | type[arith.SubiOp]) -> None:
    """Let the loop ``op`` begin, or end, a step later or earlier."""
    assert isinstance(op, scf.ForOp)
    moved = operation(op.operands[index], op.step)
    Rewriter.insert_op([moved], InsertPoint.before(op))
    op.operands[index] = moved.result


def _without_mask(op: Operation) -> None:
    assert isinstance(op, (LoadOp, StoreOp))
    if isinstance(op, LoadOp):
        new: Operation = LoadOp.of(op.pointer, op.base, op.strides(), op.result.type)
        op.result.replace_all_uses_with(new.results[0])
    else:
        new = StoreOp.of(op.value, op.pointer, op.base, op.strides())
    Rewriter.insert_op([new], InsertPoint.before(op))
    Rewriter.erase_op(op)


def _with_stride(op: Operation, add: int) -> None:
    assert isinstance(op, (LoadOp, StoreOp))
    strides = [*op.static_strides.get_values()]
    strides[-1] += add
    op.properties["static_strides"] = integers(strides)


def _with_grid(op: Operation, add: int) -> None:
    assert isinstance(op, KernelOp)
    first, *rest = op.programs
    op.properties["grid"] = integers([first + add, *rest])


def _is_masked(op: Operation) -> bool:
    return isinstance(op, (LoadOp, StoreOp)) and op.mask is not None


def _masks_a_store(mask: SSAValue) -> bool:
    users = [use.operation for use in mask.uses]
    return any(isinstance(op, StoreOp) or (isinstance(op, arith.AndIOp) and _masks_a_store(op.result)) for op in users)


def _has_static_stride(op: Operation) -> bool:
    return isinstance(op, (LoadOp, StoreOp)) and bool(op.static_strides.get_values()) and isinstance(op.strides()[-1], int)


def _place(op: Operation, value: SSAValue) -> int:
    return next(index for index, operand in enumerate(op.operands) if operand is value)


def _address(op: Operation) -> int:
    assert isinstance(op, (LoadOp, StoreOp))
    return _place(op, op.base)


MUTATIONS: Mapping[str, tuple[Callable[[Operation], bool], Callable[[Operation], None]]] = MappingProxyType(
    {
        "address + 1": (lambda op: isinstance(op, (LoadOp, StoreOp)), lambda op: _shift(op, _address(op), 1)),
        "address - 1": (lambda op: isinstance(op, (LoadOp, StoreOp)), lambda op: _shift(op, _address(op), -1)),
        "stride + 1": (_has_static_stride, lambda op: _with_stride(op, 1)),
        "stride - 1": (_has_static_stride, lambda op: _with_stride(op, -1)),
        "no mask": (_is_masked, _without_mask),
        "mask from 1 later": (lambda op: isinstance(op, MaskOp), lambda op: _shift(op, 0, 1)),
        "mask to 1 less": (lambda op: isinstance(op, MaskOp), lambda op: _shift(op, 1, -1)),
        "mask to 1 more": (
            lambda op: isinstance(op, MaskOp) and _masks_a_store(op.result),  # what is loaded too much may be there
            lambda op: _shift(op, 1, 1),
        ),
        "loop from a step later": (lambda op: isinstance(op, scf.ForOp), lambda op: _shift_by_step(op, 0, arith.AddiOp)),
        "loop to a step less": (lambda op: isinstance(op, scf.ForOp), lambda op: _shift_by_step(op, 1, arith.SubiOp)),
        "loop to a step more": (lambda op: isinstance(op, scf.ForOp), lambda op: _shift_by_step(op, 1, arith.AddiOp)),
        "a program less": (lambda op: isinstance(op, KernelOp) and op.programs[0] > 1, lambda op: _with_grid(op, -1)),
        "a program more": (lambda op: isinstance(op, KernelOp) and op.programs[0] >= 0, lambda op: _with_grid(op, 1)),
    }
)
"""What is done -> (to which ops, how)."""

MAY_DO_NOTHING = frozenset({"loop to a step more", "a program more"})
"""What is too much here may be masked to the last lane."""


def sites(module: ModuleOp, live: set[Operation]) -> list[tuple[int, str]]:
    """Where what can be done: the number in ``module.walk()`` of an op that is ``live``, and a key of ``MUTATIONS``."""
    ops = [(place, op) for place, op in enumerate(module.walk()) if op in live]
    return [(place, what) for place, op in ops for what, (applies, _) in MUTATIONS.items() if applies(op)]


@contextmanager
def recorded_ops() -> Iterator[set[Operation]]:
    """The ops of kernels that the reference interpreter runs in the meantime; of loops, those with a turn."""
    live, run = set[Operation](), Programs.op

    def op(programs: Programs, op: Operation) -> Sequence[torch.Tensor]:
        around = op.parent_op()
        live.update(each for each in (op, around) if each is not None and not (each is op and isinstance(op, scf.ForOp)))
        return run(programs, op)

    with patch.object(Programs, "op", op):
        yield live


def mutant(module: ModuleOp, place: int, what: str) -> Mutant:
    """A copy of ``module`` with this one thing done."""
    changed = clone_module(module)
    op = next(other for number, other in enumerate(changed.walk()) if number == place)
    name = op.name
    MUTATIONS[what][1](op)
    verify(changed)
    return Mutant(what, name, changed)
