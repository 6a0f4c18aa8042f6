"""Python names for the values of a kernel: the names in the IR's text if Python allows them."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

RESERVED = frozenset({"tl", "triton", "libdevice", "float", "range", *keyword.kwlist})
"""Names that the printed file itself uses."""


def value_names(kernel: Operation, taken: frozenset[str]) -> dict[SSAValue, str]:
    """A unique name for every value in ``kernel``, in the order of the text; none is in ``taken`` or ``RESERVED``."""
    names, used, numbers = dict[SSAValue, str](), set(taken | RESERVED), itertools.count()
    for region in kernel.regions:
        for block in region.blocks:
            _name_block(block, names, used, numbers)
    return names


def python_name(hint: str) -> str:
    """``hint`` with the characters replaced that are invalid in a Python name: ``arg0.1`` becomes ``arg0_1``."""
    name = re.sub(r"\W", "_", hint, flags=re.ASCII)
    return f"v{name}" if name[:1].isdigit() or not name else name


def _name_block(block: Block, names: dict[SSAValue, str], used: set[str], numbers: Iterator[int]) -> None:
    for value in block.args:
        names[value] = _unique(value, used, numbers)
    for op in block.ops:
        for value in op.results:
            names[value] = _unique(value, used, numbers)
        for region in op.regions:
            for inner in region.blocks:
                _name_block(inner, names, used, numbers)


def _unique(value: SSAValue, used: set[str], numbers: Iterator[int]) -> str:
    hint = value._name
    base = f"v{next(numbers)}" if hint is None else python_name(hint)
    name, count = base, 0
    while name in used:
        count += 1
        name = f"{base}_{count}"
    used.add(name)
    return name
