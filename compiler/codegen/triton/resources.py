"""What a compiled kernel uses of the hardware, read from the words of ptxas or from AMD's assembly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fxc.errors import KernelError


@dataclass(frozen=True)
class Resources:
    """Of a thread: ``registers``, and bytes of them ``spilled`` to memory. Of a program: ``shared`` bytes, ``warps``."""

    registers: int
    spilled: int
    shared: int
    warps: int


def cuda_resources(log: str, shared: int, warps: int) -> Resources:
    """From what ``ptxas -v`` said. The stack frame is no measure of spills: sines and cosines have an array there."""
    spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    used = re.search(r"Used (\d+) registers", log)
    if spilled is None or used is None:
        raise KernelError(f"ptxas did not say what a kernel uses, but: {log.strip()[-200:]}")
    return Resources(int(used[1]), max(int(spilled[1]), int(spilled[2])), shared, warps)


def rocm_resources(assembly: str, shared: int, warps: int) -> Resources:
    """From the metadata in the assembly: vector registers, and those of 4 bytes that were spilled."""
    numbers = {name: int(number) for name, number in re.findall(r"^\s*\.(\w+):\s+(\d+)\s*$", assembly, re.MULTILINE)}
    return Resources(numbers["vgpr_count"], 4 * numbers["vgpr_spill_count"], shared, warps)
