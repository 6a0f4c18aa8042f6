"""Snippets without mutation: the new values of written parameters are outputs, or dropped where only the results count."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fxc.dialects.attributes.types import SYMBOLS
from fxc.dialects.base.effects import has_side_effect, writes
from fxc.dialects.equations import Snippet, body_of, function_of, needed_operations
from fxc.errors import CaptureError, FxcError
from fxc.passes.analysis.write_backs import MUTATES
from fxc.passes.normalize.functionalize import FunctionalizePass
from fxc.passes.rewriting.unpacking import unpack_tuples
from fxc.program.program import new_context


def as_module(snippet: Snippet, symbols: DictionaryAttr | None) -> ModuleOp:
    """A module with the operations of ``snippet``, which move into its only function."""
    declarations: list[Operation] = [each.clone() for each in snippet.operators.values()]
    return ModuleOp([*declarations, function_of(snippet)], {} if symbols is None else {SYMBOLS: symbols})


def functional(snippet: Snippet, symbols: DictionaryAttr | None) -> tuple[Snippet, dict[int, int]]:
    """``snippet`` without mutation, and parameter -> output with its new value. CaptureError if a write remains."""
    if not any(writes(op) for op in snippet.block.ops):
        return snippet, {}
    module = as_module(snippet, symbols)
    try:
        FunctionalizePass().apply(new_context(), module)
    except FxcError as error:
        raise CaptureError(f"its writes cannot be removed: {error.message}", hint=error.hint) from error
    unpack_tuples(module)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    marks = [each.data.get(MUTATES) for each in function.res_attrs or ()]
    found = body_of(function)
    new = {mark.value.data: place for place, mark in enumerate(marks) if isinstance(mark, IntegerAttr)}
    return replace(snippet, block=found.block, outputs=found.outputs), new


def with_written(snippet: Snippet, new: dict[int, int], kept: Collection[int]) -> Snippet:
    """``snippet`` that returns its results and the new values of ``kept``, without operations that compute nothing else."""
    results = [value for place, value in enumerate(snippet.outputs) if place not in new.values()]
    changed = replace(snippet, outputs=[*results, *(snippet.outputs[new[i]] for i in sorted(kept))])
    return without_dead(changed)


def without_dead(snippet: Snippet) -> Snippet:
    """``snippet`` without operations that compute nothing that it returns, and have no effect."""
    needed = needed_operations(snippet)
    for op in reversed(list(snippet.block.ops)):
        if (
            op not in needed
            and not has_side_effect(op)
            and not writes(op)
            and not any(result.first_use for result in op.results)
        ):
            snippet.block.erase_op(op)
    return snippet
