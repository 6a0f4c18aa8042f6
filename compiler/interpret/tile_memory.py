"""Memory behind kernel pointers, with a record of the reader and writer of each element."""

from __future__ import annotations

from typing import NoReturn

import torch
from xdsl.ir import Operation

from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.kernel import KernelOp
from fxc.errors import KernelError

_NOBODY, _SEVERAL = -1, -2


def kernel_error(message: str, op: Operation) -> KernelError:
    """Return an error at ``op``, including the kernel that contains it."""
    place, around = place_of(op), op
    while around is not None and not isinstance(around, KernelOp):
        around = around.parent_op()
    if around is not None and place != (kernel := f"in @{around.sym_name.data}"):
        place = f"{place}, {kernel}"
    return KernelError(message, op=op_text(op), place=place)


def _anything(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Return arbitrary values: NaN, true, or an integer that is no valid index."""
    if dtype.is_floating_point:
        return torch.full(shape, torch.nan, dtype=dtype)
    return torch.full(shape, True if dtype is torch.bool else torch.iinfo(dtype).min, dtype=dtype)


class Buffer:
    """The elements behind one pointer.

    ``data`` is flat and holds the values; ``written`` says which elements are initialized. ``parallel``: there are several
    programs. Every access is checked; KernelError names the element and the operation.
    """

    def __init__(self, name: str, data: torch.Tensor, *, access: str, initialized: bool, parallel: bool) -> None:
        self.name, self.data, self.access, self._is_parallel = name, data, access, parallel
        size = data.numel()
        self.written = torch.full((size,), initialized)
        self.writer = torch.full((size if access != "read" else 0,), _NOBODY)
        self.reader = torch.full((size if access != "read" else 0,), _NOBODY)

    def make_writable(self) -> None:
        """Allow reads and writes from now on."""
        self.access = "readwrite"
        self.writer = torch.full((self.data.numel(),), _NOBODY)
        self.reader = torch.full((self.data.numel(),), _NOBODY)

    def settle(self) -> None:
        """Switch to a single program after all others have finished: no access conflicts any more."""
        self._is_parallel = False
        self.writer.fill_(_NOBODY)
        self.reader.fill_(_NOBODY)

    def read(self, offsets: torch.Tensor, mask: torch.Tensor, programs: torch.Tensor, op: Operation) -> torch.Tensor:
        """Read the elements at ``offsets``; arbitrary where not ``mask``. All have one shape, programs along the first axis."""
        chosen, who = self._chosen(offsets, mask, programs, "read", op)
        self._check(~self.written[chosen], chosen, "element {} is read, but nothing wrote it", op)
        if self.access != "read":
            writer = self.writer[chosen]
            racy = ((writer != who) & (writer != _NOBODY)) if self._is_parallel else torch.zeros_like(who, dtype=torch.bool)
            self._check(racy, chosen, "one program reads element {}, another writes it", op)
            self._record(self.reader, chosen, who)
        result = _anything(offsets.shape, self.data.dtype)
        result[mask] = self.data[chosen]
        return result

    def write(
        self, offsets: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, programs: torch.Tensor, op: Operation
    ) -> None:
        """Write the elements at ``offsets`` where ``mask`` is true."""
        chosen, who = self._chosen(offsets, mask, programs, "written", op)
        place = torch.arange(chosen.numel())
        last = torch.empty(self.data.numel(), dtype=torch.int64)
        last[chosen] = place
        twice = last[chosen] != place
        self._check(twice & (who == who[last[chosen]]), chosen, "two lanes of a program write element {}", op)
        self._check(twice, chosen, "two programs write element {}", op)
        self._claim(chosen, who, op)
        self.writer[chosen] = who
        self.written[chosen] = True
        self.data[chosen] = values[mask]

    def combine(
        self,
        kind: str,
        offsets: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor,
        programs: torch.Tensor,
        op: Operation,
    ) -> None:
        """Atomically combine the elements at ``offsets`` with values where ``mask`` is true; ``kind`` is "add", "max" or "min".

        Several lanes and programs may update the same element.
        """
        chosen, who = self._chosen(offsets, mask, programs, "added to", op)
        self._check(~self.written[chosen], chosen, "element {} is added to, but nothing wrote it", op)
        self._claim(chosen, who, op, atomic=True)
        self.writer[chosen] = torch.where(self.writer[chosen] == who, who, _SEVERAL)
        combine(self.data, chosen, values[mask], kind)

    def _chosen(
        self, offsets: torch.Tensor, mask: torch.Tensor, programs: torch.Tensor, verb: str, op: Operation
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chosen, who = offsets[mask], programs[mask]
        outside = (chosen < 0) | (chosen >= self.data.numel())
        self._check(outside, chosen, f"element {{}} is {verb}, but there are {self.data.numel()}", op)
        return chosen, who

    def _claim(self, chosen: torch.Tensor, who: torch.Tensor, op: Operation, *, atomic: bool = False) -> None:
        """Reject elements that another program writes or reads."""
        if not self._is_parallel:
            return
        writer, reader = self.writer[chosen], self.reader[chosen]
        other = (writer != who) & (writer != _NOBODY) & ~(torch.tensor(atomic) & (writer == _SEVERAL))
        self._check(other, chosen, "two programs write element {}", op)
        self._check((reader != who) & (reader != _NOBODY), chosen, "one program reads element {}, another writes it", op)

    def _record(self, table: torch.Tensor, chosen: torch.Tensor, who: torch.Tensor) -> None:
        before = table[chosen]
        table[chosen] = torch.where((before == _NOBODY) | (before == who), who, _SEVERAL)
        table[chosen[table[chosen] != who]] = _SEVERAL

    def _check(self, wrong: torch.Tensor, chosen: torch.Tensor, message: str, op: Operation) -> None:
        if wrong.any():
            self._fail(message.format(int(chosen[wrong][0])), op)

    def _fail(self, message: str, op: Operation) -> NoReturn:
        raise kernel_error(f"%{self.name}: {message}", op)


# combination of tensor elements with updates, several of which may have the same position


def combine(flat: torch.Tensor, places: torch.Tensor, updates: torch.Tensor, kind: str) -> None:
    """Combine the elements of ``flat`` at ``places``, int64, with ``updates``, in place; ``kind`` is "add", "max" or "min"."""
    if kind == "add":
        flat.index_put_((places,), updates, accumulate=True)
    else:
        flat.scatter_reduce_(0, places, updates, f"a{kind}")
