"""The memory behind a pointer of a simulated kernel, and what is checked of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fxc.errors import KernelError


class Memory:
    """The elements of a ``flat`` tensor. Remembers which program wrote what, and, where ``undoable``, what was there before."""

    def __init__(self, name: str, flat: torch.Tensor, access: str, undoable: bool = True) -> None:
        self.name, self.flat, self.access, self.undoable = name, flat, access, undoable
        self.writers = torch.full(flat.shape if access != "read" else (0,), -1, dtype=torch.int32)
        self._old = list[Callable[[], None]]()

    def read(self, offsets: torch.Tensor, active: torch.Tensor, programs: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """The elements at ``offsets``, anything where a lane is not ``active``. ``last`` programs see what others wrote."""
        self._check_bounds(offsets, active, programs, "reads")
        places = torch.where(active, offsets, 0)
        if not len(self.flat):
            return self.flat.new_zeros(places.shape)
        if self.access == "write":
            writers, readers = self.writers[places], programs.expand_as(places)
            self._refuse(active & (writers < 0), offsets, readers, "reads element {} of {}, which nothing wrote")
            unseen = active & (writers != readers) & ~last
            self._refuse(unseen, offsets, readers, "reads element {} of {}, which another program wrote")
        return self.flat[places]

    def write(self, offsets: torch.Tensor, active: torch.Tensor, programs: torch.Tensor, values: torch.Tensor) -> None:
        """Store. No two lanes, and no two programs, may write one element."""
        self._check_write(offsets, active, programs)
        places, owners, numbers = _taken(active, offsets, programs.int().expand_as(offsets), values)
        lanes, last = torch.arange(len(places), dtype=torch.int32), torch.empty_like(self.writers)
        last[places] = lanes
        twice, before = last[places] != lanes, self.writers[places]
        others = (twice & (owners[last[places]] != owners)) | ((before >= 0) & (before != owners))
        self._refuse(others, places, owners, "writes element {} of {}, as another program did")
        self._refuse(twice, places, owners, "writes element {} of {} in two lanes")
        self._remember(places)
        self.flat[places], self.writers[places] = numbers, owners

    def combine(
        self, offsets: torch.Tensor, active: torch.Tensor, programs: torch.Tensor, values: torch.Tensor, kind: str
    ) -> None:
        """Keep the sum ("sum"), the larger one ("amax") or the smaller one ("amin"), each lane on its own."""
        self._check_write(offsets, active, programs)
        places, numbers = _taken(active, offsets, values)
        self._remember(places)
        self.flat.scatter_reduce_(0, places.long(), numbers, kind)

    def count(self, offsets: torch.Tensor, active: torch.Tensor, programs: torch.Tensor) -> torch.Tensor:
        """Add 1 to the same element for each program, one after another. Gives what each of them found."""
        self.combine(offsets, active, programs, torch.ones_like(offsets, dtype=self.flat.dtype), "sum")
        after = self.flat[offsets]
        return after - torch.arange(len(offsets), 0, -1, dtype=self.flat.dtype).reshape(-1, *[1] * (offsets.dim() - 1))

    def undo(self) -> None:
        """Take back all writes since ``commit``."""
        while self._old:
            self._old.pop()()

    def commit(self) -> None:
        self._old.clear()

    def _remember(self, places: torch.Tensor) -> None:
        if not self.undoable:
            return
        numbers, writers = self.flat[places], self.writers[places]

        def restore() -> None:
            self.flat[places], self.writers[places] = numbers, writers

        self._old.append(restore)

    def _check_write(self, offsets: torch.Tensor, active: torch.Tensor, programs: torch.Tensor) -> None:
        if self.access == "read":
            raise KernelError(f"{self.name} is written, but the kernel says that it is only read")
        self._check_bounds(offsets, active, programs, "writes")

    def _check_bounds(self, offsets: torch.Tensor, active: torch.Tensor, programs: torch.Tensor, does: str) -> None:
        if not offsets.numel() or (offsets.amin() >= 0 and offsets.amax() < len(self.flat)):
            return
        wrong = active & ((offsets < 0) | (offsets >= len(self.flat)))
        self._refuse(wrong, offsets, programs.expand_as(offsets), f"{does} element {{}} of {{}}, which has {len(self.flat)}")

    def _refuse(self, wrong: torch.Tensor, offsets: torch.Tensor, programs: torch.Tensor, message: str) -> None:
        if bool(wrong.any()):
            place = tuple(wrong.nonzero()[0])
            raise KernelError(f"program {int(programs[place])} " + message.format(int(offsets[place]), self.name))


def _taken(active: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
    """The active lanes of each, in one row."""
    return [value.reshape(-1) if active.all() else value[active] for value in values]
