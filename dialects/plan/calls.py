"""What calls with the mark ``plan.borrows`` promise of the functions that they call."""

from __future__ import annotations

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.traits import IsTerminator, SymbolTable

from fxc.dialects.attributes.discardable import BORROWS
from fxc.dialects.base.effects import aliases, may_keep
from fxc.dialects.plan.lifetimes import reads
from fxc.dialects.text.diagnostics import OpVerifyException


def borrows(block: Block) -> bool:
    """Whether ``block`` neither returns memory of its arguments, in a view or not, nor gives it to what may keep it."""
    names = set[SSAValue](block.args)
    for op in block.ops:
        if (op.has_trait(IsTerminator) or may_keep(op)) and not names.isdisjoint(reads(op)):
            return False
        names.update(op.results[index] for index, operand in aliases(op) if operand in names)
    return True


def check_calls(block: Block) -> None:
    """Refuse calls with the mark of functions that do not keep to it."""
    known = dict[str, bool]()
    for op in block.ops:
        if isinstance(op, CallOp) and BORROWS in op.attributes:
            name = op.callee.string_value()
            if name not in known:
                function = SymbolTable.lookup_symbol(op, op.callee)
                known[name] = isinstance(function, FuncOp) and (function.is_declaration or borrows(function.body.block))
            if not known[name]:
                raise OpVerifyException(f"{op.name}: @{name} keeps or returns what it is given, unlike {BORROWS} says", op)
