"""Names that no other thing has: symbols of a module, values of a text, arguments of a function."""

from __future__ import annotations

import re
from collections.abc import Iterable


class UniqueNames:
    """Generates names that are not in ``taken``, to which it adds them."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken, self._last = set(taken), dict[str, int]()

    def fresh(self, base: str) -> str:
        """``base``, with a number appended where that name is taken."""
        name, number = base, self._last.get(base, 0)
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        self._last[base] = number
        return name


def python_name(hint: str) -> str:
    """``hint`` with the characters replaced that are invalid in a Python name: ``arg0.1`` becomes ``arg0_1``."""
    name = re.sub(r"\W", "_", hint, flags=re.ASCII)
    return f"v{name}" if name[:1].isdigit() or not name else name
