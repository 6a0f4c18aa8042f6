"""Functions that are called once, when a plan is created, to precompute values of weights."""

from __future__ import annotations

from collections import defaultdict

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from fxc.dialects.attributes.discardable import ONCE


def called_once(around: Operation) -> set[str]:
    """The names of functions that are only called by marked calls or by such functions; kernels are not worth it there."""
    calls = defaultdict[str, list[CallOp]](list)
    for op in around.walk():
        if isinstance(op, CallOp):
            calls[op.callee.root_reference.data].append(op)
    found, before = set[str](), -1
    while len(found) != before:
        before = len(found)
        found |= {
            name for name, called in calls.items() if all(ONCE in call.attributes or _caller(call) in found for call in called)
        }
    return found


def _caller(call: CallOp) -> str | None:
    function = call.parent_op()
    while function is not None and not isinstance(function, FuncOp):
        function = function.parent_op()
    return None if function is None else function.sym_name.data
