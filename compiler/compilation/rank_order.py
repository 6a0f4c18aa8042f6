"""The check that all ranks run the same collectives in the same order; ranks that do not would wait for each other forever."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from itertools import zip_longest
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.types import dtype_name, is_tensor, sizes
from fxc.dialects.attributes.values import leaves
from fxc.dialects.dist import GroupOp
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import type_text
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import CollectiveError
from fxc.program.process_groups import group_name, ranks_of
from fxc.program.program import entry_function
from fxc.runtime.rank_store import RankStore

_SENT, _RECEIVED = "input_split_sizes", "output_split_sizes"
_SAME = "give every rank the same model in the same mode, and inputs of the same layouts"


class Collective(NamedTuple):
    """A collective of ``ranks``. ``text`` is equal on all of them.

    ``sent`` and ``received``: sizes for each rank, of operators that state them. ``place``: the line of the user.
    """

    text: str
    ranks: Sequence[int]
    sent: Sequence[int] = ()
    received: Sequence[int] = ()
    place: str | None = None


def check_order(module: ModuleOp, store: RankStore, captured: ModuleOp, *, as_captured: bool = False) -> CollectiveError | None:
    """Compare the collectives of ``module`` with those that the other ranks compile, and return the error if they differ.

    The n-th sequence of a rank, without those that it had before for one that was ``captured``, is the n-th of every other
    rank. If two ranks differ, all that have collectives with them, or with such a rank, get an error; then each compares what
    it has ``as_captured``, a sequence of the list even if it is not new. CollectiveError where a rank does not compile one
    within the timeout of the process group.
    """
    mine, before = [*collectives_of(module, store.rank)], [*collectives_of(captured, store.rank)]
    peers = _peers([*before, *mine], store.rank)  # also where the passes removed all of them on this rank
    if not peers:
        return None
    n, wrong = store.index_of(json.dumps([as_captured, before, mine])), None
    ranks, first = sorted(peers), (mine or before)[0]
    for rank in ranks:  # grows by those that other ranks wait for
        entry = store.entry_of(rank, n)
        if entry is None:
            message = f"rank {rank} compiles no collectives, for {store.seconds:g} s, and rank {store.rank} {first.text}"
            raise CollectiveError(message, place=first.place, hint=_SAME)
        captured_there, theirs = ([Collective(*each) for each in sequence] for sequence in json.loads(entry)[1:])
        if rank in peers:
            wrong = wrong or difference(mine, theirs, store.rank, rank)
        ranks += sorted(_peers([*captured_there, *theirs], rank) - {store.rank, *ranks})
    if store.agree(n, ranks, is_right=wrong is None):
        return None
    return wrong or CollectiveError("two other ranks have different collectives", place=first.place, hint=_SAME)


def _peers(sequence: Sequence[Collective], me: int) -> Set[int]:
    return {rank for each in sequence for rank in each.ranks} - {me}


def difference(mine: Sequence[Collective], theirs: Sequence[Collective], me: int, peer: int) -> CollectiveError | None:
    """The error for the first collective of both ranks that differs."""
    common = [[each for each in sequence if me in each.ranks and peer in each.ranks] for sequence in (mine, theirs)]
    for i, (a, b) in enumerate(zip_longest(*common)):
        place = None if a is None else a.place
        if a is None or b is None or (a.text, [*a.ranks]) != (b.text, [*b.ranks]):
            here, there = ("nothing more" if each is None else each.text for each in (a, b))
            message = f"collective {i} differs between ranks: rank {me} has {here}, rank {peer} has {there}"
            return CollectiveError(message, place=place, hint=_SAME)
        for x, y, of, to in ((a, b, me, peer), (b, a, peer, me)):
            if x.sent and (given := x.sent[a.ranks.index(to)]) != (taken := y.received[a.ranks.index(of)]):
                message = f"collective {i}, {a.text}: rank {of} sends {given}, but rank {to} receives {taken}"
                return CollectiveError(message, place=place, hint=_SAME)
    return None


def collectives_of(module: ModuleOp, rank: int) -> Iterator[Collective]:
    """The collectives that the entry of ``module`` runs, in order, with those of functions that it calls."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    groups = {op.process_group.data: op for op in module.ops if isinstance(op, GroupOp)}

    def within(function: FuncOp) -> Iterator[Collective]:
        for op in function.walk():
            if isinstance(op, CallOp) and (callee := functions.get(op.callee.string_value())) is not None:
                yield from within(callee)
            elif isinstance(op, TorchOp) and (group := groups.get(group_name(op) or "")) is not None:
                yield _collective(op, group, ranks_of(group, rank))

    yield from within(entry_function(module)) if groups else ()


def _collective(op: TorchOp, group: GroupOp, ranks: Sequence[int]) -> Collective:
    bound = op.bound()
    sent, received = (
        [leaf.value.data for leaf in leaves(bound.pop(name, [])) if isinstance(leaf, IntegerAttr)]
        for name in (_SENT, _RECEIVED)
    )
    given = [leaf for tree in bound.values() for leaf in leaves(tree) if leaf != group.process_group]
    parts = [_text(leaf, is_split=bool(sent)) for leaf in given]
    where = str(list(ranks)) if group.mesh is None else f"{group.mesh.string_value()}({', '.join(group.axes)})"
    return Collective(f"{op.operator.split('.')[1]} over {where} of {' '.join(parts)}", ranks, sent, received, place_of(op))


def _text(leaf: SSAValue | Attribute, *, is_split: bool) -> str:
    """An argument as text; of an operand its type, without the first size if ranks split that differently."""
    if isinstance(leaf, StringAttr):
        return leaf.data
    if not isinstance(leaf, SSAValue):
        return str(leaf)
    type = leaf.type
    return f"{dtype_name(type.element_type)}{list(sizes(type)[1:])}" if is_split and is_tensor(type) else type_text(type)
