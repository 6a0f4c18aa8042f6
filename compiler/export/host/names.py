"""Names of a host program: those of the IR, where Python takes them and no other has them."""

from __future__ import annotations

import builtins
import keyword

from fxc.codegen.triton.names import python_name

RESERVED = frozenset({*keyword.kwlist, *dir(builtins), "torch"})
"""What a program does not call its own values."""


class UniqueNames:
    """Gives out names, each once."""

    def __init__(self, taken: frozenset[str] = RESERVED) -> None:
        self.taken = set(taken)

    def new(self, hint: str | None) -> str:
        """``hint`` as Python takes it, with a number where that is taken."""
        base = name = python_name(hint or "v0")
        count = 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name
