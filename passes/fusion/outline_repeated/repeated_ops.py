"""Repeated runs of ops in a block that compute the same function of different values.

They are found by a suffix array (Manber and Myers) and longest common prefixes (Kasai).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import is_pure, is_view
from fxc.dialects.entry import updated_arguments
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.schema import is_prim
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.operators.record import FOR_KERNELS, NO_FAST_CALL, Role
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.broadcasting import broadcasts

UNEVEN = 0.85
"""The factor on the worth of a repeat whose runs start at an op that could be fused."""


@dataclass(frozen=True)
class Runs:
    """Runs of ops that are equal except for their inputs.

    ``members``: the ops of each run. ``arguments``: the outside values that each reads, in a common order. ``results``: the
    values of each that other ops read.
    """

    members: list[list[Operation]]
    arguments: list[list[SSAValue]]
    results: list[list[SSAValue]]


class Sequence:
    """The ops of a one-block function in order, without host constants, each with a number for its kind."""

    def __init__(self, function: FuncOp) -> None:
        self.block, updated = function.body.block, updated_arguments(function)
        self.ops = [op for op in self.block.ops if not (op.results and is_scalar_constant(op.results[0]))]
        self.place = {op: i for i, op in enumerate(self.ops)}
        self.structures, kinds = Structures(), dict[Hashable, _Kind]()
        keys = [self.structures.of(op) for op in self.ops]
        self.reads = [key.reads for key in keys]
        found = [_kind(op, key.key, kinds) for op, key in zip(self.ops, keys, strict=True)]
        movable = [kind.may_move and updated.isdisjoint(read) for kind, read in zip(found, self.reads, strict=True)]
        self.tokens = [kind.number if movable[i] else -1 - i for i, kind in enumerate(found)]
        self.stands_alone = [kind.stands_alone for kind in found]
        self.sources = [[self._place(value) for value in values] for values in self.reads]
        self.last_readers = [[self._last_reader(value) for value in op.results] for op in self.ops]

    def _place(self, value: SSAValue) -> int:
        """The position of the op that defines ``value``; -1 for values from outside."""
        return self.place.get(value.owner, -1) if isinstance(value.owner, Operation) else -1

    def _last_reader(self, value: SSAValue) -> int:
        """The position of the last op that reads ``value``, itself or in a region; -1 where none does."""
        return max([self.place.get(self._at(use.operation), len(self.ops)) for use in value.uses], default=-1)

    def _at(self, op: Operation) -> Operation:
        """The op of the block that is or contains ``op``."""
        while op.parent is not self.block and (around := op.parent_op()) is not None:
            op = around
        return op

    def most_repeated(self, shortest: int, least: int) -> Runs | None:
        """The runs that save most, which are then removed from the sequence; None where there are none.

        There are at least ``least`` runs of at least ``shortest`` ops.
        """
        best, best_worth = None, 0.0
        for repeat in sorted(repeats(self.tokens, shortest), key=self._worth, reverse=True):
            if self._worth(repeat) <= best_worth:
                break
            if not self._calls_library(repeat):
                continue
            if (equal := self._equal_runs(repeat, least)) is not None and self._worth(equal) > best_worth:
                best, best_worth = equal, self._worth(equal)
        return None if best is None else self._taken(best)

    def _worth(self, repeat: Repeat) -> float:
        return repeat.saved * (1 if self.stands_alone[repeat.starts[0]] else UNEVEN)

    def _calls_library(self, repeat: Repeat) -> bool:
        """Whether a run has an op that is not fused. Other ops become kernels, and small kernels of several runs may be one."""
        start = repeat.starts[0]
        return any(self.stands_alone[start : start + repeat.length])

    def _equal_runs(self, repeat: Repeat, least: int) -> Repeat | None:
        """The runs with the most common def-use edges, inside and to other ops."""
        kinds = defaultdict[Hashable, list[int]](list)
        for start in repeat.starts:
            kinds[self._links(start, repeat.length)].append(start)
        most = max(kinds.values(), key=len)
        return replace(repeat, starts=tuple(most)) if len(most) >= max(least, 2) else None

    def _links(self, start: int, length: int) -> Hashable:
        """The def-use edges of a run relative to its start, with its repeated inputs, and its results that are read outside."""
        stop, given = start + length, dict[SSAValue, int]()
        read, returned = list[int](), list[tuple[int, int]]()
        for i in range(start, stop):
            for value, source in zip(self.reads[i], self.sources[i], strict=True):
                read.append(source - start if source >= start else -1 - given.setdefault(value, len(given)))
            returned += [(i - start, number) for number, reader in enumerate(self.last_readers[i]) if reader >= stop]
        return tuple(read), tuple(returned)

    def _taken(self, repeat: Repeat) -> Runs:
        spans = [range(start, start + repeat.length) for start in repeat.starts]
        for span in spans:
            for i in span:
                self.tokens[i] = -1 - i
        members = [[self.ops[i] for i in span] for span in spans]
        return Runs(members, [self._given(span) for span in spans], [self._returned(span) for span in spans])

    def _given(self, span: range) -> list[SSAValue]:
        """The values defined outside that the ops currently read, in order."""
        pairs = [pair for i in span for pair in zip(self.structures.of(self.ops[i]).reads, self.sources[i], strict=True)]
        return list(dict.fromkeys(value for value, source in pairs if source < span.start))

    def _returned(self, span: range) -> list[SSAValue]:
        """The results of the ops that other ops read, in order."""
        pairs = [pair for i in span for pair in zip(self.ops[i].results, self.last_readers[i], strict=True)]
        return [value for value, reader in pairs if reader >= span.stop]


@dataclass(frozen=True)
class _Kind:
    """A kind of equal ops: a number, whether they may move, and whether they are not fused."""

    number: int
    may_move: bool
    stands_alone: bool


def _kind(op: Operation, key: Hashable, known: dict[Hashable, _Kind]) -> _Kind:
    if key not in known:
        known[key] = _Kind(len(known), bool(op.results) and is_pure(op) and not op.has_trait(IsTerminator), _stays_a_call(op))
    return known[key]


def _stays_a_call(op: Operation) -> bool:
    """Whether ``op`` stays a library call, such as a product or a convolution."""
    record = operator_of(op)
    is_fused = record.role in (Role.CONCATENATION, Role.SPLIT) or record.parts in (FOR_KERNELS, NO_FAST_CALL)
    fused = is_fused or is_view(op) or is_prim(op)
    return isinstance(op, TorchOp) and not fused and not broadcasts(op)


@dataclass(frozen=True)
class Repeat:
    """The same ``length`` tokens at each of ``starts``, which are ascending and do not overlap."""

    length: int
    starts: tuple[int, ...]

    @property
    def saved(self) -> int:
        """The number of tokens in all runs except the first."""
        return self.length * (len(self.starts) - 1)


def repeats(tokens: list[int], shortest: int) -> list[Repeat]:
    """Runs of at least ``shortest`` tokens that occur at least twice, those that save most first.

    Of each class of runs with the same start positions, the result has the longest, and the longest that do not overlap.
    """
    if sum(count for count in Counter(tokens).values() if count > 1) < 2 * shortest:
        return []
    found = dict[tuple[int, tuple[int, ...]], Repeat]()
    order = _suffix_array(np.asarray(tokens))
    for length, left, right in _intervals(_common_prefixes(tokens, order), shortest):
        places = np.sort(order[left : right + 1])
        gap = int((places[1:] - places[:-1]).min())
        for size in {length, min(gap, length)}:
            if size >= shortest:
                starts = tuple(places.tolist() if size <= gap else _spaced(places.tolist(), size))
                if len(starts) > 1:
                    found[size, starts] = Repeat(size, starts)
    return sorted(found.values(), key=lambda repeat: (-repeat.saved, repeat.length, repeat.starts))


def _spaced(places: list[int], length: int) -> Iterator[int]:
    """The subset of ``places``, ascending, at distances of at least ``length``."""
    index = 0
    while index < len(places):
        yield places[index]
        index = bisect_left(places, places[index] + length, index)


def _suffix_array(tokens: np.ndarray) -> np.ndarray:
    """The start positions of the suffixes of ``tokens`` in lexicographic order."""
    rank, count, width = np.unique(tokens, return_inverse=True)[1], len(tokens), 1
    while True:
        following = np.full(count, -1, dtype=rank.dtype)
        following[:-width] = rank[width:]
        order = np.lexsort((following, rank))
        first, second = rank[order], following[order]
        steps = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        rank = np.empty(count, dtype=np.int64)
        rank[order] = np.concatenate(([0], np.cumsum(steps)))
        width *= 2
        if rank[order[-1]] == count - 1 or width >= count:
            return order


def _common_prefixes(tokens: list[int], order: np.ndarray) -> list[int]:
    """For each suffix in ``order`` the number of tokens that it shares with the previous one; 0 for the first."""
    places, count = order.tolist(), len(tokens)
    rank = [0] * count
    for i, place in enumerate(places):
        rank[place] = i
    shared, length = [0] * count, 0
    for place in range(count):
        if rank[place] == 0:
            length = 0
            continue
        other = places[rank[place] - 1]
        while max(place, other) + length < count and tokens[place + length] == tokens[other + length]:
            length += 1
        shared[rank[place]] = length
        length = max(length - 1, 0)
    return shared


def _intervals(shared: list[int], shortest: int) -> Iterator[tuple[int, int, int]]:
    """The length and bounds of each maximal range of suffixes that share at least ``shortest`` tokens."""
    stack = [(0, 0)]
    for i in range(1, len(shared) + 1):
        length = shared[i] if i < len(shared) else 0
        left = i - 1
        while stack and stack[-1][0] > length:
            top, left = stack.pop()
            if top >= shortest:
                yield top, left, i - 1
        if not stack or stack[-1][0] < length:
            stack.append((length, left))
