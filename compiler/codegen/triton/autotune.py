"""Which of a handful of ways to compile a kernel is the fastest on the device that is here.

A way is a number of warps, and for products of matrices a number of pipeline stages; blocks are as the kernel has them. What
was found lies on disk, under the text of the kernel, the device and the versions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from fxc.codegen.triton.ahead_of_time import DEFAULT, FORMAT, CompileOptions, cache_folder, triton_version
from fxc.codegen.triton.kernel_source import KernelSource

MOST_WARPS = 16
STAGES = (2, 3, 4)


def candidates(source: KernelSource) -> list[CompileOptions]:
    """The ways to try, the one without tuning first. A thread has one lane at least."""
    most = min(MOST_WARPS, max(source.lanes // 32, 1))
    warps = [count for count in (source.warps // 2, source.warps * 2, source.warps * 4) if 1 <= count <= most]
    found = [DEFAULT, *(CompileOptions(warps=count) for count in warps)]
    if "tl.dot(" not in source.source:
        return found
    return [DEFAULT, *(CompileOptions(warps=each.warps, stages=stages) for each in found for stages in STAGES)]


def tuned(
    source: KernelSource,
    device: str,
    times: Callable[[Sequence[CompileOptions]], Sequence[float]],
    cache: Path | None = None,
) -> CompileOptions:
    """The fastest of the candidates by ``times``, or what was found before on a ``device`` of this name."""
    path = (cache_folder() if cache is None else cache) / "tuned" / f"{_key(source, device)}.json"
    known = _read(path)
    if known is not None:
        return known
    ways = candidates(source)
    measured = times(ways)
    best = ways[min(range(len(ways)), key=lambda way: measured[way])]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{id(best)}")
    part.write_text(json.dumps({**asdict(best), "milliseconds": list(measured)}), encoding="utf-8")
    part.replace(path)
    return best


def _key(source: KernelSource, device: str) -> str:
    parts = [FORMAT, source.code(), device, triton_version(), asdict(DEFAULT)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> CompileOptions | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return CompileOptions(fp_fusion=found["fp_fusion"], warps=found["warps"], stages=found["stages"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
