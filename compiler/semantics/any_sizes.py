"""What holds for any sizes: answers of PyTorch that do not hang on the hints that were there when it was asked.

Each guard that the ranges of sizes do not imply is broken by sizes chosen for it. At these PyTorch must refuse the call, or
give an answer that agrees: the same, one program written otherwise, or another one that computes the same. Else types,
decompositions, derivatives and replacements are refused; of whole functions the guard becomes a condition of the program.

A question whether a size is 0 leaves no guard: PyTorch's symbols are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

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
    """The result of ``trace`` in ``world``, else in an oblivious one. CannotInfer where that, too, asks something of sizes, and
    another answer gives another result: one that it does not ``agree`` with at the sizes for which that is the answer."""
    traced = trace(world)
    if all(agree(traced, other, numbers) for other, numbers in other_answers(trace, world, symbols)):
        return traced
    if not world.oblivious:
        return traced_for_any_sizes(trace, type(world)(symbols, oblivious=True), symbols, agree)
    raise CannotInfer("what it computes hangs on sizes that are not known")


def traced_under_conditions(trace: Callable[[FakeWorld], Answer], symbols: DictionaryAttr | None, module: ModuleOp) -> Answer:
    """The result of ``trace``; what it assumes of sizes, where that changes the result, is stated in ``module``."""
    for oblivious in (False, True):
        world = FakeWorld(symbols, oblivious=oblivious)
        traced = trace(world)
        found = [(condition, breaking(condition, world)) for condition in assumptions(world)]
        left = [(condition, sizes) for condition, sizes in found if not _holds_without(trace, world, symbols, traced, sizes)]
        if not any(sizes for _, sizes in left):
            break
    add_conditions(module, written([condition for condition, _ in left], world))
    return traced


def _holds_without(
    trace: Callable[[FakeWorld], Answer],
    world: FakeWorld,
    symbols: DictionaryAttr | None,
    traced: Answer,
    sizes: Sequence[Hints],
) -> bool:
    """Whether ``trace`` gives ``traced`` for sizes that do not satisfy a condition, too."""
    try:
        others = list(_answers(trace, world, symbols, sizes))
    except CannotInfer:
        return False
    return bool(others) and len(others) == len(sizes) and all(same_programs(traced, *other) for other in others)


def other_answers(
    ask: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None, *, guessed: bool = False
) -> Iterator[tuple[Answer, Mapping[str, int]]]:
    """What ``ask`` answers in worlds that guess otherwise than ``world``, and their hints: one all through, and some that break
    its guards.

    Worlds that satisfy all guards are left out, as they give the same answer. ``guessed``: it may hang on other numbers, too.
    """
    assumed = assumptions(world)
    if guessed or are_broken_elsewhere(assumed, world):
        other = type(world)(symbols, other_guesses=True, oblivious=world.oblivious)
        answer = ask(other)
        yield answer, other.numbers
    yield from _answers(ask, world, symbols, dict.fromkeys(hints for each in assumed for hints in breaking(each, world)))


def _answers(
    ask: Callable[[FakeWorld], Answer], world: FakeWorld, symbols: DictionaryAttr | None, hints: Iterable[Hints]
) -> Iterator[tuple[Answer, Mapping[str, int]]]:
    """One for each of ``hints``, apart from sizes that the operators refuse, as they do when they run.

    CannotInfer where PyTorch or a rule of ours cannot tell; faults pass through.
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
                raise CannotInfer(f"what it computes where {_written(chosen)} cannot be told: {first_line(root)}") from error
            raise root from None  # a fault, which is no answer
        yield answer, other.numbers


def _written(hints: Hints) -> str:
    return " and ".join(f"{name} is {size}" for name, size in hints)
