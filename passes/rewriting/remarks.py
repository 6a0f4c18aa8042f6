"""Remarks: a pass reports why it did not transform an op: ``remark("fuse", "cycle: ...", op)``.

Remarks of a pass are written on request (``fxc-opt --remarks=fuse``). Otherwise ``wanted`` costs one look-up, and a pass
prepares no text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.ir import Operation

from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import written_name
from fxc.dialects.torch_ops.base import TorchOp

ALIASES = {"patterns": "apply-patterns"}
"""Shorter name of remarks -> the pass."""

_listener: ContextVar[tuple[frozenset[str], Callable[[str], object]] | None] = ContextVar("fxc_remarks", default=None)


def wanted(name: str) -> bool:
    """Whether remarks of the pass ``name`` are requested."""
    listener = _listener.get()
    return listener is not None and name in listener[0]


def remark(name: str, what: str, *ops: Operation) -> None:
    """Write one line from the pass ``name``: ``what``, and the ops that it refers to with their locations."""
    listener = _listener.get()
    if listener is not None and name in listener[0]:
        listener[1](f"remark: {name}: {what}: {', '.join(map(_shown, ops))}\n")


@contextmanager
def remarking(names: Collection[str], write: Callable[[str], object]) -> Generator[None, None, None]:
    """Pass the remarks of the passes ``names`` inside the ``with`` block to ``write``, line by line."""
    token = _listener.set((frozenset(names), write))
    try:
        yield
    finally:
        _listener.reset(token)


def _shown(op: Operation) -> str:
    results = ", ".join(f"%{written_name(result) or '_'}" for result in op.results)
    name = op.operator if isinstance(op, TorchOp) else op.name
    place = place_of(op)
    return f"{results} = {name}" + (f" ({place})" if place else "")
