"""Every load and store of a kernel lies inside of its buffer for all sizes, is masked, or is checked: z3 proves it."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import fxc
from fxc.errors import KernelError
from fxc.program.execute import execute
from fxc.program.program import Program
from fxc.testing import parse
from tests.access_proofs import Watch, unproved_in
from tests.kernel_engines import ENGINES, Kernels, kernels_for
from tests.kernel_mutations import mutant, recorded_ops, sites
from tests.models.kernel_suite import TARGETS, recorded_groups
from tests.test_dynamic_kernels import PATTERNS, REPEATED, Function, arguments, dynamic_shapes, repeated
from tests.test_view_programs import ANY_SIZE, PROGRAMS, normal

SHARE = 20
"""One mutant of so many is proved here."""


@pytest.mark.share(8)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_views_stay_inside(name: str, dynamic: bool) -> None:
    function, makers = PROGRAMS[name]
    torch._dynamo.reset()
    with Watch().on() as found:
        torch.compile(function, backend="fxc", dynamic=dynamic)(*(make() for make in makers))
    assert not found, "\n".join(map(str, found))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", ANY_SIZE)
def test_programs_of_any_size_stay_inside(name: str) -> None:
    torch._dynamo.reset()
    with Watch().on() as found:
        torch.compile(ANY_SIZE[name], backend="fxc", dynamic=True)(normal(6, 8)())
    assert not found, "\n".join(map(str, found))


def lowered(name: str, target: str) -> Program:
    """The kernels of a pattern, of sizes that are not known."""
    function, shapes = PATTERNS[name]
    program = fxc.capture(Function(function), arguments(shapes, 10, 6), dynamic_shapes={"args": dynamic_shapes(shapes)})
    return with_kernels(program, target)


def with_kernels(program: Program, target: str) -> Program:
    passes = "lower-to-torch,canonicalize,optimize{reductions=true},lower-kernels"
    return fxc.run_passes(program, f'set-target{{to="{target}"}},{passes}')


@pytest.mark.share(8)
@pytest.mark.parametrize("target", ["cpu:avx2", "cuda:sm_90"])
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_stay_inside(name: str, target: str) -> None:
    found = unproved_in(lowered(name, target).module)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("target", ["cpu:avx2", "cuda:sm_90"])
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_elements_stay_inside(name: str, target: str) -> None:
    model, make, free = repeated(name)
    found = unproved_in(with_kernels(fxc.capture(model, (make(6),), dynamic_shapes=free), target).module)
    assert not found, "\n".join(map(str, found))


NUMBERS = ((1, 1), (2, 5), (7, 1), (64, 3), (130, 2))
"""Sizes at which mutants run."""


def runs_outside(program: Program, shapes: Sequence[Sequence[int | str]]) -> str | None:
    """What the interpreter says of an access outside of a buffer, at one of ``NUMBERS``."""
    return next(filter(None, (leaves(program, arguments(shapes, s, b)) for s, b in NUMBERS)), None)


def leaves(program: Program, arguments: Sequence[Any]) -> str | None:
    """What the interpreter says of an access outside of a buffer."""
    try:
        execute(program, list(arguments))
    except KernelError as error:
        if ", but there are" in str(error):
            return str(error)
    return None


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize("target", ["cpu:avx2", "cuda:sm_90"])
@pytest.mark.parametrize("name", PATTERNS)
def test_what_leaves_a_buffer_of_any_size_is_noticed(name: str, target: str) -> None:
    program, (_, shapes), missed = lowered(name, target), PATTERNS[name], list[str]()
    with recorded_ops() as live:
        assert runs_outside(program, shapes) is None
    for place, what in sites(program.module, live):
        if zlib.crc32(f"{name} {target} {place} {what}".encode()) % SHARE == 0:
            changed = replace(program, module=mutant(program.module, place, what).module)
            error = runs_outside(changed, shapes)
            if error is not None and not unproved_in(changed.module):
                missed.append(f"{what}: {error}")
    assert not missed, "\n".join(missed)


TYPE = 'tensor<?x?x?xf32, #torch.meta<sizes = ["n", "m", "k"], strides = STRIDES>>'
TURNED = 'tensor<?x?x?xf32, #torch.meta<sizes = ["k", "m", "n"], strides = STRIDES>>'
PERMUTED = f"""
func.func @main(%n: !torch.int<"n">, %m: !torch.int<"m">, %k: !torch.int<"k">, %a: !torch.int<"a">, %x: {TYPE}) -> {TURNED} {{
  %p = torch.aten.permute.default(%x, [2, 1, 0]) : ({TYPE}) -> {TURNED}
  %y = torch.aten.silu.default(%p) : ({TURNED}) -> {TURNED}
  fx.output(%y) : ({TURNED}) -> ()
}}
"""
STRIDES: dict[str, tuple[str, str, str]] = {
    "free": ('["a", "m", "a"]', '["a", "m", "a"]', '["m*n", 1, "m"]'),
    "of one loop": ('["m*k**2", "k**2", "k"]', '["k", "k**2", "m*k**2"]', '[1, "k", "m*k"]'),
}
"""Of the argument, of its view, and of the result; products of these with an index count elements."""


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("name", STRIDES)
def test_what_leaves_a_buffer_of_free_strides_is_noticed(name: str) -> None:
    strides = iter([STRIDES[name][i] for i in (0, 2, 0, 1, 1, 2, 2)])
    text = re.sub("STRIDES", lambda _: next(strides), PERMUTED)
    program = with_kernels(Program(parse(text)), "cpu:avx2")
    assert not unproved_in(program.module)
    calls = list[list[Any]]()
    for n, m, k, a in ((2, 40, 1, 80), (3, 1, 2, 2)):
        steps = (a, m, a) if name == "free" else (m * k * k, k * k, k)
        storage = torch.zeros(1 + sum((size - 1) * step for size, step in zip((n, m, k), steps)))
        calls.append([n, m, k, a, storage.as_strided((n, m, k), steps)])

    outside = 0
    with recorded_ops() as live:
        assert not any(leaves(program, call) for call in calls)
    for place, what in sites(program.module, live):
        if what in ("address + 1", "mask to 1 more"):
            changed = replace(program, module=mutant(program.module, place, what).module)
            if any(leaves(changed, call) for call in calls):
                outside += 1
                assert unproved_in(changed.module), what
    assert outside >= 3


@pytest.mark.slow
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
