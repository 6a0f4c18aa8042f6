"""Every load and store of a kernel lies inside of its buffer for all sizes, is masked, or is checked: z3 proves it."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
import torch

import fxc
from fxc.errors import KernelError
from tests.access_proofs import Watch, unproved_in
from tests.kernel_engines import ENGINES, Kernels, kernels_for
from tests.kernel_mutations import mutant, recorded_ops, sites
from tests.models.kernel_suite import TARGETS, recorded_groups
from tests.test_dynamic_kernels import PATTERNS, Function, arguments, dynamic_shapes
from tests.test_view_programs import ANY_SIZE, PROGRAMS, normal

NOT_PROVED = frozenset(["index_select, roll, flip", "gather, flip"])
"""A place that a kernel computes of data, times a stride that is not known: z3 takes the product for any number."""

SHARE = 20
"""One mutant of so many is proved here."""


@pytest.mark.share(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_views_stay_inside(name: str, dynamic: bool) -> None:
    function, makers = PROGRAMS[name]
    torch._dynamo.reset()
    with Watch().on() as found:
        torch.compile(function, backend="fxc", dynamic=dynamic)(*(make() for make in makers))
    assert bool(found) == (dynamic and name in NOT_PROVED), "\n".join(map(str, found))


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ANY_SIZE)
def test_programs_of_any_size_stay_inside(name: str) -> None:
    torch._dynamo.reset()
    with Watch().on() as found:
        torch.compile(ANY_SIZE[name], backend="fxc", dynamic=True)(normal(6, 8)())
    assert not found, "\n".join(map(str, found))


@pytest.mark.share(4)
@pytest.mark.parametrize("target", ["host", "cuda:sm_90"])
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_stay_inside(name: str, target: str) -> None:
    function, shapes = PATTERNS[name]
    inputs = arguments(shapes, 10, 6)
    program = fxc.capture(Function(function), inputs, dynamic_shapes={"args": dynamic_shapes(shapes)})
    to = f'set-target{{to="{"cpu:avx2" if target == "host" else target}"}}'
    lowered = fxc.run_passes(
        program, f"{to},lower-to-torch,canonicalize,torchscript{{gradients=false reductions=true}},lower-kernels"
    )
    found = unproved_in(lowered.module)
    assert not found, "\n".join(map(str, found))


def test_a_model_stays_inside_and_what_does_not_is_noticed() -> None:
    """Mutants of its kernels that the interpreter sees outside of a buffer are not proved; what runs inside is."""
    outside, missed = Counter[str](), list[str]()
    for group in recorded_groups("gpt2"):
        for target in TARGETS:
            kernels = kernels_for(group.module, target)
            assert kernels is not None and not unproved_in(kernels.module)
            with recorded_ops() as live:
                kernels.run(ENGINES["interpreter"], group.arguments)
            for place, what in sites(kernels.module, live):
                if zlib.crc32(f"{group.where} {target} {place} {what}".encode()) % SHARE:
                    continue
                changed = mutant(kernels.module, place, what)
                try:
                    Kernels(changed.module, 0).run(ENGINES["interpreter"], group.arguments)
                except KernelError as error:
                    if ", but there are" not in str(error):
                        continue
                    outside[what] += 1
                    if not unproved_in(changed.module):
                        missed.append(f"{what} of {changed.op} in {group.where}: {error}")
    assert not missed, "\n".join(missed)
    assert outside.total() >= 10, outside
