"""Results of PyTorch queries that hold for any sizes, not only for the hints that they were computed with.

Each guard that is not implied by the ranges of sizes is violated by chosen sizes. At these, PyTorch must reject the call, or
return an equivalent result: equal, the same program in another form, or a program that computes the same. Otherwise types,
decompositions, derivatives and replacements are rejected. For whole functions the guard becomes a condition of the program.

A test whether a size is 0 leaves no guard: PyTorch's symbols are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.utils.exceptions import VerifyException

from fxc.bridge.tensors import FakeWorld
from fxc.dialects.semantics import CannotInfer
from fxc.errors import FxcError
from fxc.semantics.assumptions import Hints, add_conditions, are_broken_elsewhere, assumptions, breaking, written
from fxc.semantics.refusals import is_of_torch, is_refusal, root_of
from fxc.semantics.same_at_sizes import same_programs
from fxc.semantics.trace import first_line

Answer = TypeVar("Answer")


def traced_for_any_sizes(
    trace: Callable[[FakeWorld], Answer],
    world: FakeWorld,
    symbols: DictionaryAttr | None,
    agree: Callable[[Answer, Answer, Mapping[str, int]], bool] = same_programs,
) -> Answer:
    """Return the result of ``trace`` in ``world``, or else in an oblivious world.

    CannotInfer if the result in the oblivious world also depends on guards: other sizes, or other values of unknown numbers,
    lead to another result, with which it does not ``agree`` at these sizes.
    """
    traced = trace(world)
    if all(agree(traced, other, numbers) for other, numbers in other_answers(trace, world, symbols)):
        return traced
    if not world.oblivious:
        return traced_for_any_sizes(trace, type(world)(symbols, oblivious=True), symbols, agree)
    raise CannotInfer("what it computes hangs on sizes that are not known")


def traced_under_conditions(trace: Callable[[FakeWorld], Answer], symbols: DictionaryAttr | None, module: ModuleOp) -> Answer:
    """Return the result of ``trace``; guards on sizes that change the result become conditions of ``module``."""
    found: tuple[Answer, FakeWorld, list[Any]] | None = None
    for oblivious in (False, True):
        world = FakeWorld(symbols, oblivious=oblivious)
        try:
            traced = trace(world)
        except FxcError:
            if found is None:
                raise
            break  # an operator needs a size that an oblivious world does not know
        broken = [(condition, breaking(condition, world)) for condition in assumptions(world)]
        known = dict[Hints, bool]()
        left = [each for each in broken if not _holds_without(trace, world, symbols, traced, each[1], known)]
        found = traced, world, left
        if not any(sizes for _, sizes in left):
            break
    assert found is not None
    traced, world, left = found
    add_conditions(module, written([condition for condition, _ in left], world))
    return traced


def _holds_without(
    trace: Callable[[FakeWorld], Answer],
    world: FakeWorld,
    symbols: DictionaryAttr | None,
    traced: Answer,
    sizes: Sequence[Hints],
    known: dict[Hints, bool],
) -> bool:
    """Whether ``trace`` also returns ``traced`` for sizes that violate a condition. ``known``: whether it does, by sizes."""
    for hints in sizes:
        if hints not in known:
            try:
                others = list(_answers(trace, world, symbols, [hints]))
            except CannotInfer:
                others = []
            known[hints] = bool(others) and same_programs(traced, *others[0])
        if not known[hints]:
            return False
    return bool(sizes)


def other_answers(
    ask: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None
) -> Iterator[tuple[Answer, Mapping[str, int]]]:
    """Yield the results of ``ask`` in worlds with other hints than ``world``, and these hints.

    One world has other hints for all symbols, and other guesses; others violate single guards. Worlds that satisfy all guards
    are skipped, as their result is the same.
    """
    assumed = assumptions(world)
    if world.has_guesses or are_broken_elsewhere(assumed, world):
        other = type(world)(symbols, other_guesses=True, oblivious=world.oblivious)
        answer = ask(other)
        yield answer, other.numbers
    yield from _answers(ask, world, symbols, dict.fromkeys(hints for each in assumed for hints in breaking(each, world)))


def _answers(
    ask: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None, hints: Iterable[Hints]
) -> Iterator[tuple[Answer, Mapping[str, int]]]:
    """Yield the result for each of ``hints``, except those that the operators reject, as they also do at run time.

    CannotInfer if PyTorch or a rule of fxc cannot compute the result; internal errors pass through.
    """
    for chosen in hints:
        other = type(world)(symbols, hints=dict(chosen), oblivious=world.oblivious)
        try:
            answer = ask(other)
        except Exception as error:
            root = root_of(error)
            if is_refusal(root):
                continue
            if isinstance(root, (FxcError, VerifyException)) or is_of_torch(root):
                raise CannotInfer(f"the result where {_written(chosen)} is unknown: {first_line(root)}") from error
            raise root from None  # an internal error, not a result
        yield answer, other.numbers


def _written(hints: Hints) -> str:
    return " and ".join(f"{name} is {size}" for name, size in hints)
