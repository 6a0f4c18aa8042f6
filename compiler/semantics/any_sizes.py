"""What holds for any sizes: answers of PyTorch that do not hang on the hints that were there when it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.semantics import CannotInfer
from fxc.semantics.assumptions import Hints, add_conditions, assumptions
from fxc.semantics.tensors import FakeWorld

Answer = TypeVar("Answer")


def traced_for_any_sizes(trace: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None) -> Answer:
    """The result of ``trace`` in ``world``, else in an oblivious one. CannotInfer where that, too, asks something of sizes, and
    another answer gives another result."""
    traced = trace(world)
    if not world.has_guards or all(_same(traced, other) for other in other_answers(trace, world, symbols)):
        return traced
    if not world.oblivious:
        return traced_for_any_sizes(trace, type(world)(symbols, oblivious=True), symbols)
    raise CannotInfer("what it computes hangs on sizes that are not known")


def traced_at_two_sizes(trace: Callable[[FakeWorld], Answer], symbols: DictionaryAttr | None) -> Answer:
    """The result of ``trace``. CannotInfer where it asked something of sizes, and gives another one where all are others.

    That is less than ``traced_for_any_sizes``, which would refuse derivatives of views: those of one row are written otherwise.
    """
    world = FakeWorld(symbols)
    traced = trace(world)
    if world.has_guards and not _same(traced, trace(FakeWorld(symbols, other_guesses=True))):
        raise CannotInfer("what it computes hangs on sizes that are not known")
    return traced


def traced_under_conditions(trace: Callable[[FakeWorld], Answer], symbols: DictionaryAttr | None, module: ModuleOp) -> Answer:
    """The result of ``trace``; what it assumes of sizes, where that changes the result, is stated in ``module``."""
    for oblivious in (False, True):
        world = FakeWorld(symbols, oblivious=oblivious)
        traced, found = trace(world), dict[str, Hints]()
        for condition, hints in assumptions(world).items():
            others = list(_answers(trace, world, symbols, [hints])) if hints else []
            if not (others and _same(traced, others[0])):
                found[condition] = hints
        if not any(found.values()):
            break
    add_conditions(module, found)
    return traced


def other_answers(ask: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None) -> Iterator[Answer]:
    """What ``ask`` answers in worlds that guess otherwise than ``world``: one all through, and some whose hints break its
    guards."""
    yield ask(type(world)(symbols, other_guesses=True, oblivious=world.oblivious))
    yield from _answers(ask, world, symbols, dict.fromkeys(hints for hints in assumptions(world).values() if hints))


def _answers(
    ask: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None, hints: Iterable[Hints]
) -> Iterator[Answer]:
    """One for each of ``hints``, apart from sizes that the operators refuse, as they do when they run."""
    for chosen in hints:
        try:
            answer = ask(type(world)(symbols, hints=dict(chosen), oblivious=world.oblivious))
        except CannotInfer:
            raise
        except Exception:
            continue
        yield answer


def _same(a: object, b: object, values: dict[Any, Any] | None = None) -> bool:
    values = {} if values is None else values
    if isinstance(a, (Operation, Block)) and isinstance(b, (Operation, Block)):
        return a.is_structurally_equivalent(b, values)
    if isinstance(a, SSAValue):
        return values.get(a) is b
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_same(x, y, values) for x, y in zip(a, b))
    if is_dataclass(a) and is_dataclass(b):
        return all(_same(getattr(a, field.name), getattr(b, field.name), values) for field in fields(a) if field.compare)
    return a == b
