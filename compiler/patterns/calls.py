"""Matching of captured calls of Python functions, whose arguments have the names and defaults of the function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any

from xdsl.ir import Attribute

from fxc.bridge.callables import resolve_function
from fxc.dialects.attributes.values import Tree, scalar_attr
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.text.call import CallOp
from fxc.errors import TargetError
from fxc.passes.patterns.traced.matching import PatternMatch


class CallMatch(PatternMatch):
    """A match of calls of Python functions."""

    def arguments(self, op: CallOp) -> Mapping[str | int, Tree]:
        if not isinstance(op, CallFunctionOp):
            return super().arguments(op)
        args, kwargs = op.trees()
        names = list(_python_parameters(op.call_target() or ""))
        positions: list[str | int] = [*names[: len(args)], *range(len(names), len(args))]
        return {**dict(zip(positions, args, strict=True)), **kwargs}

    def is_default(self, op: CallOp, name: str | int, tree: Tree) -> bool:
        if not isinstance(op, CallFunctionOp):
            return super().is_default(op, name, tree)
        defaults = _python_parameters(op.call_target() or "")
        return isinstance(tree, Attribute) and name in defaults and scalar_attr(defaults[str(name)]) == tree


@cache
def _python_parameters(target: str) -> Mapping[str, Any]:
    """Return parameter -> default (``Parameter.empty`` for none) of a Python function; empty without a plain signature."""
    try:
        parameters = inspect.signature(resolve_function(target)).parameters.values()
    except (TargetError, TypeError, ValueError):  # implemented in C, or a function of this process
        return {}
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return {}
    return {p.name: p.default for p in parameters}
