"""Whatever is broken in a kernel of the zoo, the interpreter, the simulator, or the numbers notice."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator

import pytest

from fxc.errors import KernelError
from tests.kernel_accuracy import Expected, difference
from tests.kernel_engines import ENGINES, Kernels, kernels_for
from tests.kernel_mutations import MAY_DO_NOTHING, MUTATIONS, Mutant, mutant, recorded_ops, sites
from tests.models.kernel_suite import TARGETS, Recorded, recorded_groups

SHARE = 60
"""One mutant of so many runs here."""


def chosen(name: str) -> Iterator[tuple[Recorded, Expected, Mutant]]:
    """Mutants of the kernels of a model."""
    for group in recorded_groups(name):
        expected = Expected.of(group.module, group.arguments)
        for target in TARGETS:
            kernels = kernels_for(group.module, target)
            assert kernels is not None
            with recorded_ops() as live:
                assert not difference(kernels.run(ENGINES["interpreter"], group.arguments), expected).wrong
            for place, what in sites(kernels.module, live):
                if zlib.crc32(f"{group.where} {target} {place} {what}".encode()) % SHARE == 0:
                    yield group, expected, mutant(kernels.module, place, what)


def noticed(engine: str, group: Recorded, expected: Expected, changed: Mutant) -> bool:
    try:
        results = Kernels(changed.module, 0).run(ENGINES[engine], group.arguments)
    except KernelError:
        return True
    return bool(difference(results, expected).wrong)


@pytest.mark.slow
def test_mutants_are_noticed() -> None:
    tried, missed = Counter[str](), list[str]()
    for group, expected, changed in chosen("gpt2"):
        tried[changed.what] += 1
        by = [noticed(engine, group, expected, changed) for engine in ("interpreter", "simulator")]
        if not any(by) and changed.what not in MAY_DO_NOTHING:
            missed.append(f"{group.where}: {changed.what} of {changed.op}")
    assert not missed, "\n".join(missed)
    assert tried.keys() <= MUTATIONS.keys() and tried.total() >= 12
