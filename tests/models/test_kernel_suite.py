"""A fixed part of the zoo's kernels on every engine; ``kernel_suite.py`` runs all of them."""

from __future__ import annotations

import importlib.util
import zlib

import pytest

from tests.kernel_accuracy import Expected, difference
from tests.kernel_engines import kernels_for
from tests.models.kernel_suite import check, failures, recorded_groups
from tests.models.zoo import ZOO
from tests.triton_interpreter import TritonInterpreter, can_compute_bounds, can_interpret

GROUPS = 2
"""So many groups of each model run here: of its forward or its backward graph, which are the largest and others."""


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("name", sorted(ZOO))
def test_kernels_equal_operators(name: str) -> None:
    """Scheduled for a CPU and for a GPU, on the reference interpreter, as Triton source, and as machine code."""
    kind = ("forward", "backward")[zlib.crc32(name.encode()) % 2]
    groups = sorted(recorded_groups(name, kinds=[kind]), key=lambda group: -sum(1 for _ in group.module.walk()))
    chosen = [*groups[:1], *groups[1 :: max(len(groups) - 1, 1)][: GROUPS - 1]]
    outcomes = [outcome for group in chosen for outcome in check(group)]
    assert not failures(outcomes), "\n".join(failures(outcomes))
    assert len(outcomes) == 2 * 3 * len(chosen) and all(outcome.kernels for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_tritons_own_interpreter_agrees() -> None:
    """Kernels without libdevice's functions, which it lacks: tanh and others that ``tl`` does not have."""
    if not can_compute_bounds():
        pytest.skip("Triton 3.6's interpreter takes no loop bounds from kernels with NumPy 2.4")
    kernels = 0
    with TritonInterpreter() as engine:
        for group in (group for name in ("mlp", "gpt2") for group in recorded_groups(name)):
            made = kernels_for(group.module, "cuda:sm_90")
            assert made is not None
            if not all(map(can_interpret, made.sources())):
                continue
            found = difference(made.run(engine, group.arguments), Expected.of(group.module, group.arguments))
            assert not found.wrong, f"{group.where}: {found.wrong}"
            kernels += made.count
    assert kernels >= 19
