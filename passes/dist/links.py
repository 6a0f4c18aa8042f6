"""Estimate how long collectives take: a latency, and a time for each byte, by kind of collective and number of ranks.

A module has measured times in the attribute ``dist.links``, which ``set-links`` reads from a file of ``fxc measure-links``. For
numbers of ranks that were not measured, the times grow as the steps and the traffic of the algorithms do: rings and pairwise
exchanges (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005), or, for reductions
and broadcasts, two binary trees (Sanders, Speck, Traeff: Two-tree algorithms for full bandwidth broadcast, 2009).

The time of a program on one rank is simulated with computations on one stream, and collectives on another. Operations start in
the order of the text. A collective starts when those before it have ended and the computations that stand before it, too. The
call that starts it holds up the computations after it, and so does ``dist.wait`` until it has ended. Times of computations are
measured, or the estimates of ``annotate-costs``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log, log2
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from fxc.dialects.attributes.values import float_attr, int_attr, isa, str_attr
from fxc.dialects.base.effects import inner_operations
from fxc.dialects.dist import CollectiveOp, GroupOp, MeshOp, WaitOp
from fxc.dialects.text.syntax import written_name
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.dist.moves import message_bytes
from fxc.passes.operators.costs import Costs

ATTRIBUTE = "dist.links"

Growth: TypeAlias = "tuple[Callable[[int], float], Callable[[int], float]]"
"""Steps of an algorithm, and bytes that a link carries for each byte of the message, for a number of ranks."""

_RING: Growth = (lambda p: p - 1, lambda p: (p - 1) / p)
_ALGORITHMS: Mapping[str, Sequence[Growth]] = MappingProxyType({
    "all_reduce": (
        (lambda p: 2 * (p - 1), lambda p: 2 * (p - 1) / p),
        (lambda p: 2 * ceil(log2(p)), lambda p: 2),
    ),
    "all_gather": (_RING,),
    "reduce_scatter": (_RING,),
    "all_to_all": (_RING,),
    "broadcast": ((lambda p: ceil(log2(p)), lambda p: 1),),
})  # fmt: skip
COLLECTIVES = tuple(_ALGORITHMS)


class Link(NamedTuple):
    """Measured times of a collective of ``ranks`` ranks, on links along ``axis`` of a mesh or, without a name, any links.

    ``start_us``: of ``latency_us``, what the call takes that starts the collective; computations wait for it.
    """

    collective: str
    ranks: int
    latency_us: float
    bytes_per_us: float
    axis: str = ""
    start_us: float = 0.0


_ASSUMED = MappingProxyType({"cpu": (100.0, 1e3), "": (10.0, 1e5)})
"""Latency and rate by device where nothing was measured: orders of magnitude of a local socket and of links between GPUs."""


class Links:
    """The times of collectives in ``module``. ``ranks``: numbers of ranks of axes, instead of those of the meshes."""

    def __init__(self, module: ModuleOp, ranks: Mapping[str, int] | None = None) -> None:
        self.sizes, self._ranks = HintedSizes(module), dict(ranks or {})
        self._meshes = {op.sym_name.data: op for op in module.ops if isinstance(op, MeshOp)}
        self._links = links_of(module)

    def ranks(self, group: GroupOp) -> int:
        """The number of ranks of ``group``."""
        size = group.size
        for axis in group.axes:
            if group.mesh is not None and axis in self._ranks:
                known = self._meshes[group.mesh.root_reference.data].axes[axis]
                size = size // known * self._ranks[axis]
        return size

    def time(self, op: CollectiveOp, kind: str | None = None) -> float:
        """The microseconds of ``op``, or of the collective ``kind`` of a message of the same size."""
        group, kind = op.process_group(), kind or op.name.removeprefix("dist.")
        ranks, bytes = self.ranks(group), message_bytes(op, self.sizes)
        if ranks == 1:
            return 0.0
        link = self._link(group, kind, ranks)
        if link is None:
            mesh = None if group.mesh is None else self._meshes.get(group.mesh.root_reference.data)
            latency, rate = _ASSUMED["cpu" if mesh is None or mesh.device.data == "cpu" else ""]
            return min(steps(ranks) * latency + traffic(ranks) * bytes / rate for steps, traffic in _ALGORITHMS[kind])
        return min(
            link.latency_us * steps(ranks) / steps(link.ranks)
            + bytes / link.bytes_per_us * traffic(ranks) / traffic(link.ranks)
            for steps, traffic in _ALGORITHMS[kind]
        )

    def start_time(self, op: CollectiveOp) -> float:
        """The microseconds for which the call that starts ``op`` holds up computations."""
        ranks = self.ranks(group := op.process_group())
        link = self._link(group, op.name.removeprefix("dist."), ranks)
        return 0.0 if link is None or ranks == 1 else link.start_us

    def _link(self, group: GroupOp, kind: str, ranks: int) -> Link | None:
        """Of the measured ones that serve, that of the axis of ``group`` and the next number of ranks."""
        axis = group.axes[0] if len(group.axes) == 1 else ""
        found = [link for link in self._links if link.collective == kind and link.axis in ("", axis)]
        return min(found, key=lambda each: (each.axis != axis, abs(log(each.ranks / ranks))), default=None)


def links_of(module: ModuleOp) -> list[Link]:
    """The measured times that ``module`` states."""
    found = module.attributes.get(ATTRIBUTE)
    entries = [entry.data for entry in found if isinstance(entry, DictionaryAttr)] if isa(found, ArrayAttr) else []
    return [link({name: _value(attr) for name, attr in entry.items()}, ATTRIBUTE) for entry in entries]


def _value(attr: object) -> Any:
    return attr.value.data if isinstance(attr, (IntegerAttr, FloatAttr)) else getattr(attr, "data", None)


def links_attr(links: Sequence[Link]) -> ArrayAttr[DictionaryAttr]:
    """The attribute of a module with ``links``."""

    def attr(value: object) -> Any:
        return (
            str_attr(value)
            if isinstance(value, str)
            else int_attr(value)
            if isinstance(value, int)
            else float_attr(cast(float, value))
        )

    return ArrayAttr([DictionaryAttr({name: attr(value) for name, value in each._asdict().items()}) for each in links])


def link(entry: Mapping[str, Any], where: str) -> Link:
    """The link of ``entry``. PassFailedException, with ``where`` it stands, for one that is invalid."""
    try:
        made = Link(**entry)
        valid = made.collective in COLLECTIVES and made.ranks >= 2 and made.bytes_per_us > 0
        valid = valid and 0 <= made.start_us <= made.latency_us
    except TypeError:
        valid, made = False, None
    if not valid or made is None:
        fields = "collective, ranks (2 or more), latency_us, bytes_per_us (more than 0), and optional axis and start_us"
        raise PassFailedException(f"{where}: {dict(entry)} is no link: it has {fields}; collective: {', '.join(COLLECTIVES)}")
    return made._replace(
        latency_us=float(made.latency_us), bytes_per_us=float(made.bytes_per_us), start_us=float(made.start_us)
    )


def read_links(path: str) -> list[Link]:
    """The links in a file of ``fxc measure-links``. PassFailedException where it cannot be read."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PassFailedException(f"{path}: {error}; fxc measure-links -o FILE writes such a file") from error
    entries = cast(dict[str, Any], found).get("links") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries:
        raise PassFailedException(f"{path}: expected an object with a list of links; fxc measure-links -o FILE writes one")
    return [
        link(cast(dict[str, Any], each) if isinstance(each, dict) else {"": each}, path) for each in cast(list[Any], entries)
    ]


COMPUTE, COMMUNICATION, WAITING = "compute", "communication", "waiting"
NO_TIMES: Mapping[Operation, float] = MappingProxyType({})


class Event(NamedTuple):
    """``operation`` runs on ``stream`` from ``start`` to ``end``, in microseconds. WAITING: the computations are held up."""

    stream: str
    start: float
    end: float
    operation: str


@dataclass(frozen=True)
class Timeline:
    """The events of one run, and the most bytes of results of collectives that were started and not awaited."""

    events: Sequence[Event]
    in_flight: int

    @property
    def time(self) -> float:
        """Microseconds from the first start to the last end."""
        return max((event.end for event in self.events), default=0.0)

    def busy(self, stream: str) -> float:
        """Microseconds of all events of ``stream``."""
        return sum(event.end - event.start for event in self.events if event.stream == stream)

    def messages(self) -> int:
        """The number of messages."""
        return sum(event.stream == COMMUNICATION for event in self.events)

    def exposed(self) -> float:
        """Microseconds of communication that no computation hides."""
        return self.time - self.busy(COMPUTE)


def simulate(
    module: ModuleOp, function: FuncOp, ranks: Mapping[str, int], times: Mapping[Operation, float] = NO_TIMES
) -> Timeline:
    """The timeline of ``function``, with these numbers of ranks along axes instead of those of the meshes.

    ``times``: measured microseconds of computations.
    """
    costs, links = Costs(function), Links(module, ranks)
    events, ends = list[Event](), dict[SSAValue, float]()
    now, free, waiting, most = 0.0, 0.0, 0, 0
    for op in inner_operations(function):
        if isinstance(op, CollectiveOp):
            start = max(now, free)
            free = start + links.time(op)
            events.append(Event(COMMUNICATION, start, free, _text(op)))
            if (held := links.start_time(op)) > 0:
                events.append(Event(WAITING, now, now + held, _text(op)))
                now += held
            ends.update(dict.fromkeys(op.values, free))
            waiting += sum(links.sizes.distinct_bytes(value.type) for value in op.values)
            most = max(most, waiting)
        elif isinstance(op, WaitOp):
            end = ends.pop(op.input, None)
            if end is not None:
                waiting -= links.sizes.distinct_bytes(op.input.type)
            if end is not None and end > now:
                events.append(Event(WAITING, now, end, _text(op)))
                now = end
        elif (time := times[op] if op in times else costs.of(op).time) > 0:
            events.append(Event(COMPUTE, now, now + time, _text(op)))
            now += time
    return Timeline(events, most)


def _text(op: Operation) -> str:
    names = [f"%{written_name(result) or '_'}" for result in op.results]
    return f"{', '.join(names[:2])}{', ...' if len(names) > 2 else ''} = {op.name.removeprefix('torch.')}"
