"""Equations between two Python functions, traced on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Operation

from fxc.bridge.tensors import FakeWorld
from fxc.bridge.values import value_of
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import bool_attr
from fxc.dialects.base.effects import aliases, is_random, writes
from fxc.dialects.equations import COMPOSITE, JOINT, Snippet, needed_operations
from fxc.dialects.fx import IN_PLACE_OPERATORS, CallFunctionOp, CallMethodOp, CallModuleOp
from fxc.dialects.text.diagnostics import one_line
from fxc.errors import CaptureError, FxcError
from fxc.passes.patterns.traced.engine import flaw
from fxc.patterns.trace import PythonFunction, functional, name_of, parameter_count, trace_at_inputs, with_numbers, with_written
from fxc.semantics.inference import quiet
from fxc.semantics.snippets import trace_at

_RANKS = (2, 3, 4, 1, 0, 5)
_MOST_TRACES = 256


@dataclass(frozen=True)
class Candidate:
    """A match that a check accepts or rejects.

    ``arguments``: parameter -> a fake tensor with the dtype, sizes, strides and device of the value, or the number that the
    program states. ``place``: the user's source line.
    """

    arguments: dict[str, Any]
    place: str | None


@dataclass(eq=False)
class PythonEquation:
    """``search`` is replaced by ``replace``. Implements ``fxc.dialects.equations.Equation``.

    ``examples``: inputs of ``search``, one for each structure that it may have. ``names``: parameters. ``levels``: where it
    matches. ``needs``: for ``JOINT``, the parameters with gradients. ``is_functional``: programs have no mutation, and neither
    have the traces; else ``search`` may not write.
    """

    name: str
    search: PythonFunction
    replace: PythonFunction
    examples: Sequence[Sequence[Any]]
    names: Sequence[str] = ()
    levels: Sequence[str] = (COMPOSITE,)
    exclusive: Sequence[int] = ()
    check: Callable[[Candidate], object] | None = None
    needs: Sequence[bool] = ()
    is_functional: bool = False
    keeps_gradients: bool = True

    def structures(self) -> Sequence[Snippet]:
        return self._structures

    @cached_property
    def _structures(self) -> list[Snippet]:
        found = dict[Any, Snippet]()
        for level in self.levels:
            for inputs in self.examples:
                snippet = self.example(inputs, level, self.search, "the pattern")
                found.setdefault((level, tuple(op.name for op in snippet.block.ops)), checked(snippet))
        return list(found.values())

    def example(self, inputs: Sequence[Any], level: str, function: PythonFunction, what: str, **rules: bool) -> Snippet:
        """``function`` at ``inputs``; at ``JOINT`` also at gradients like its results. ``rules``: those of ``with_numbers``."""
        needs = self.needs if level == JOINT else ()
        tangents = [torch.ones_like(each) for each in differentiable_results(self.search, inputs, needs).values()]

        def at(values: Sequence[Any]) -> Snippet:
            return self.traced(lambda f, name: trace_at_inputs(f, [*values, *tangents], name, level, needs), None, function)

        return with_numbers(at, inputs, what, **rules)

    def at(
        self, arguments: Sequence[Attribute], level: str, symbols: DictionaryAttr | None, function: PythonFunction
    ) -> Snippet:
        """``function`` at ``arguments``. CaptureError if it does not accept them."""
        needs = self.needs if level == JOINT else ()
        return self.traced(lambda f, name: trace_at(f, arguments, symbols, name, level, needs), symbols, function)

    def traced(
        self, trace: Callable[[PythonFunction, str], Snippet], symbols: DictionaryAttr | None, function: PythonFunction
    ) -> Snippet:
        """``function`` by ``trace``. If functional, it also returns the new values of what both functions write."""
        if not self.is_functional:
            return trace(function, "the pattern" if function is self.search else "the replacement")
        snippet, new = functional(trace(self.search, "the pattern"), symbols) if function is self.search else (None, {})
        if snippet is not None and not new:
            return snippet
        other, written = functional(trace(self.replace, "the replacement"), symbols)
        if snippet is not None:
            return with_written(snippet, new, new.keys() & written.keys())
        if written and not written.keys() <= functional(trace(self.search, "the pattern"), symbols)[1].keys():
            raise CaptureError("the replacement writes to a tensor", hint="write it without in-place operators")
        return with_written(other, written, written.keys())

    def pattern(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        with suppress(FxcError):
            return self.at(arguments, level, symbols, self.search)

    def replacement(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        with suppress(FxcError):
            return self.replacement_at(level, arguments, symbols)

    def replacement_at(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet:
        """``replacement``. CaptureError if it cannot be traced, or writes to what the pattern does not write."""
        snippet = self.at(arguments, level, symbols, self.replace)
        check_writes(snippet)
        return snippet

    def accepts(self, arguments: Sequence[Attribute], symbols: DictionaryAttr | None, place: str | None) -> bool:
        if self.check is None:
            return True
        world = FakeWorld(symbols)
        values = [world.fake(each) if is_tensor(each) else value_of(each) for each in arguments]
        return bool(self.check(Candidate(dict(zip(self.names, values, strict=False)), place)))


def examples_of(function: PythonFunction) -> list[list[torch.Tensor]]:
    """Inputs of sizes 4 that ``function`` accepts, for a few ranks. CaptureError if there are none."""
    count = parameter_count(function)
    found, first = list[list[torch.Tensor]](), None
    equal = [(rank,) * count for rank in _RANKS]
    for ranks in (*equal, *islice(product((1, 2, 3, 4), repeat=count), _MOST_TRACES)):
        if found and ranks not in equal:
            break
        inputs = [torch.ones([4] * rank) for rank in ranks]
        try:
            with quiet():
                snippet = trace_at_inputs(function, inputs, "the pattern")
        except CaptureError as error:
            first = first or error
            continue
        checked_shape(snippet)
        found.append(inputs)
    if not found:
        assert first is not None
        first.hint = "give example_inputs: tensors that the pattern can be called with"
        raise first
    return found


def differentiable_results(function: PythonFunction, inputs: Sequence[Any], needs: Sequence[bool]) -> dict[int, torch.Tensor]:
    """The results of ``function`` at ``inputs`` that have gradients, by position, where those in ``needs`` require them."""
    if not any(needs):
        return {}
    own = [
        value.detach().clone().requires_grad_(need) if isinstance(value, torch.Tensor) else value
        for value, need in zip(inputs, needs, strict=True)
    ]
    with torch.enable_grad():
        results: list[Any] = tree_leaves(function(*own))
    return {i: value.detach() for i, value in enumerate(results) if isinstance(value, torch.Tensor) and value.requires_grad}


def checked_shape(pattern: Snippet) -> None:
    """CaptureError if ``pattern`` returns nothing that it computes, or does not read a parameter."""
    if (found := flaw(pattern)) is not None:
        raise CaptureError(found[0], hint=found[1])


def checked(pattern: Snippet) -> Snippet:
    """Return ``pattern``, or raise CaptureError if it cannot be matched."""
    checked_shape(pattern)
    needed = needed_operations(pattern)
    for op in pattern.block.ops:
        if is_in_place(op) or (not isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp)) and writes(op)):
            raise CaptureError("the pattern writes to a tensor", op=one_line(op), hint="write it without in-place operators")
        if op not in needed and is_random(op):
            raise CaptureError("the pattern has a random operator that it does not use", op=one_line(op), hint="remove it")
    return pattern


def check_writes(snippet: Snippet) -> None:
    """Check that a replacement writes only to tensors that it makes."""
    made = {result for op in snippet.block.ops if not any(aliases(op)) for result in op.results}
    for op in snippet.block.ops:
        written = writes(op)
        if written is None or not made.issuperset(written):
            raise CaptureError(
                "the replacement writes to a tensor", op=one_line(op), hint="write it without in-place operators"
            )


def same_count(pattern: Snippet, snippet: Snippet) -> None:
    if len(pattern.outputs) != len(snippet.outputs):
        raise CaptureError(
            f"the pattern returns {len(pattern.outputs)} values, but the replacement {len(snippet.outputs)}",
            hint="both must return the same number of tensors",
        )


def same_parameters(search: PythonFunction, replace: PythonFunction) -> int:
    """The number of parameters of both. CaptureError if they differ."""
    count = parameter_count(search)
    if parameter_count(replace) != count:
        raise CaptureError(
            f"the pattern takes {count} parameters, but {name_of(replace)} takes {parameter_count(replace)}",
            hint="the replacement gets the same values as the pattern",
        )
    return count


def is_in_place(op: Operation) -> bool:
    """Whether an ``fx`` call writes by its name or arguments: ``add_``, ``operator.iadd``, ``inplace=True``."""
    if not isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp)):
        return False
    module, _, name = (op.call_target() or "").rpartition(".")
    if isinstance(op, CallFunctionOp) and module == "operator":  # its and_, or_, not_ and is_ write nothing
        return name in IN_PLACE_OPERATORS
    in_place = op.trees()[1].get("inplace") == bool_attr(True)
    return in_place or (not isinstance(op, CallModuleOp) and name.endswith("_") and not name.endswith("__"))
