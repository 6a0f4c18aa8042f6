"""Orders of the operations of a block that respect their dependences and effects."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.base.effects import has_side_effect, writes
from fxc.passes.analysis.slices import reads
from fxc.passes.operators.peak_memory import Simulation

Key = Callable[[int, int], tuple[int, int]]
"""(place in the block, bytes that live more after the operation than before) -> the priority, the lowest first."""


def least_growth(place: int, growth: int) -> tuple[int, int]:
    return growth, place


def releases_first(place: int, growth: int) -> tuple[int, int]:
    return int(growth >= 0), place


class Schedules:
    """Orders of ``ops``, as places in that sequence. ``simulation`` has run them; ``lasting`` are the values not released."""

    def __init__(self, ops: Sequence[Operation], simulation: Simulation, lasting: Iterable[SSAValue | Attribute]) -> None:
        self.ops = ops
        place = {op: i for i, op in enumerate(ops)}
        self.sources = [self._sources(op, place) for op in ops]
        self._add_effects()
        self.readers: list[list[int]] = [[] for _ in ops]
        for i, found in enumerate(self.sources):
            for j in found:
                self.readers[j].append(i)
        read = [simulation.storages(reads(op)) for op in ops]
        made = [simulation.storages(op.results) for op in ops]
        self._touched = [read[i] | made[i] for i in range(len(ops))]
        self._new = [sum(map(simulation.bytes_of, made[i] - read[i])) for i in range(len(ops))]
        self._held = [sum(map(simulation.bytes_of, made[i])) for i in range(len(ops))]
        self._lasting, self._bytes_of = simulation.storages(lasting), simulation.bytes_of

    def in_order_of(self, key: Key) -> list[int]:
        """A list schedule: of the operations whose sources ran, the one with the lowest key runs."""
        waiting, done, order = list(map(len, self.sources)), set[int](), list[int]()
        touching = defaultdict[int, set[int]](set)
        """Storage -> the operations that still touch it."""
        for i, storages in enumerate(self._touched):
            for storage in storages - self._lasting:
                touching[storage].add(i)

        def growth(i: int) -> int:
            return self._new[i] - sum(self._bytes_of(s) for s in self._touched[i] - self._lasting if len(touching[s]) == 1)

        ready = [(key(i, growth(i)), i) for i, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        while ready:
            _, i = heapq.heappop(ready)
            if i in done:
                continue
            done.add(i)
            order.append(i)
            changed = set(self.readers[i])
            for reader in self.readers[i]:
                waiting[reader] -= 1
            for storage in self._touched[i] - self._lasting:
                touching[storage].discard(i)
                if len(touching[storage]) == 1:
                    changed |= touching[storage]
            for other in changed:  # growth only falls, so earlier entries of the heap come later
                if not waiting[other] and other not in done:
                    heapq.heappush(ready, (key(other, growth(other)), other))
        return order

    def on_demand(self) -> list[int]:
        """Each operation just before the first that needs it, what needs most memory beside its result first.

        If each result is used once, no order needs less (Sethi and Ullman 1970).
        """
        needed, sources = list[int](), list[Sequence[int]]()
        for i in range(len(self.ops)):
            sources.append(sorted(self.sources[i], key=lambda j: self._held[j] - needed[j]))
            before = accumulate((self._held[j] for j in sources[i]), initial=0)
            peaks = [held + needed[j] for j, held in zip(sources[i], before, strict=False)]
            needed.append(max(*peaks, sum(self._held[j] for j in sources[i]) + self._new[i], 0))
        order, done = list[int](), set[int]()
        for root in (i for i, readers in enumerate(self.readers) if not readers):
            pending: list[tuple[int, Iterator[int]]] = [(root, iter(sources[root]))]
            done.add(root)
            while pending:
                i, rest = pending[-1]
                source = next((j for j in rest if j not in done), None)
                if source is None:
                    order.append(i)
                    pending.pop()
                else:
                    done.add(source)
                    pending.append((source, iter(sources[source])))
        return order

    def _sources(self, op: Operation, place: dict[Operation, int]) -> list[int]:
        owners = (value.owner for value in reads(op))
        return sorted({place[owner] for owner in owners if isinstance(owner, Operation) and owner in place})

    def _add_effects(self) -> None:
        """Order effects and random numbers as they are, and writes with everything."""
        last_effect, last_write, since = list[int](), list[int](), list[int]()
        for i, op in enumerate(self.ops):
            is_write = writes(op) != []
            more = [*last_write, *(since if is_write else last_effect if has_side_effect(op) else ())]
            self.sources[i] = sorted({*self.sources[i], *more} - {i})
            since.append(i)
            if is_write:
                last_write, since = [i], []
            if is_write or has_side_effect(op):
                last_effect = [i]
