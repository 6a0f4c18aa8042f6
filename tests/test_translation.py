"""Random groups mean the same on each level: loops, kernels on the interpreter, machine code, and Triton on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from torch.export import Dim

import fxc
from fxc.codegen.cpu.launch import compile_launch
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.errors import InputError
from fxc.program.execute import execute
from fxc.program.program_signature import signature_of
from tests.group_programs import ANY_SIZES, KNOWN_SIZES, MOST, Step, program, steps
from tests.kernel_engines import ENGINES, Engine, Kernels, kernels_for
from tests.kernel_groups import LINALG, group_of, run_main, run_passes

EXAMPLES = {"known": 40, "any": 12}
"""How many groups ``make test`` takes; ``--cases=all`` takes fifty times as many, which are others each time."""

TARGETS = {engine: {"interpreter": "cpu:avx512", "native": "cpu:avx2"}.get(engine, "cuda:sm_90") for engine in ENGINES}

Drawn = tuple[Sequence[Step], Sequence[int], torch.dtype, int]


@st.composite
def known(draw: st.DrawFn) -> Drawn:
    """A program, and the sizes, the dtype and the seed of what it takes."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 17, 33]), min_size=1, max_size=3))
    return draw(steps(KNOWN_SIZES, 7)), shape, draw(st.sampled_from([torch.float32, torch.float64])), draw(st.integers(0, 9))


def sample(shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def equal(where: str, result: torch.Tensor, expected: torch.Tensor) -> None:
    """Up to what sums in another order may differ by."""
    largest = float(expected.nan_to_num(0, 0, 0).abs().max()) if expected.numel() else 0.0
    unit = 2e-5 if expected.dtype == torch.float32 else 1e-11
    torch.testing.assert_close(
        result, expected, rtol=unit, atol=unit * max(largest, 1), equal_nan=True, msg=lambda text: f"{where}: {text}"
    )


@pytest.fixture
def times(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    """Settings of hypothesis for one of ``EXAMPLES``."""
    everything = request.config.getoption("--cases") == "all"
    return lambda name: settings(
        max_examples=EXAMPLES[name] * (50 if everything else 1), deadline=None, derandomize=not everything
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)  # with all cases
def test_groups_of_known_sizes(times: Callable[[str], Any]) -> None:
    @times("known")
    @given(known())
    def check(drawn: Drawn) -> None:
        made, shape, dtype, seed = drawn
        x = sample(shape, dtype, seed)
        function = program(made)
        try:
            if function(x).numel() > MOST:
                reject()
        except (RuntimeError, IndexError):
            reject()  # eager takes no such sizes
        module, arguments, [expected] = group_of(function, (x,))
        kernels = {engine: kernels_for(module, target) for engine, target in TARGETS.items()}
        if not run_passes(module, LINALG)["groups converted"]:
            assert not any(kernels.values())
            reject()
        [result] = run_main(module, arguments)
        equal("loops", result, expected)
        for engine, found in kernels.items():
            assert found is not None and found.count
            if found.are_for(engine):
                [result] = found.run(ENGINES[engine], arguments)
                equal(engine, result, expected)

    check()


# sizes that are not known

SHAPES: Sequence[Sequence[int | str]] = (("s",), ("b", "s"), ("b", 5), (3, "s"), ("b", "s", 4), ("b", 3, "s"), (2, "s", 6))

NUMBERS = ((10, 6), (1, 1), (2, 5), (0, 3), (3, 0), (7, 1), (33, 2), (70, 3))
"""Of ``s`` and of ``b``; the first is what the program is captured with."""

LOWER = "lower-to-torch,canonicalize,optimize{reductions=true}"


def native() -> Engine:
    """Machine code, compiled once a launch."""
    made = dict[LaunchOp, Any]()

    def run(op: LaunchOp, operands: Sequence[Any]) -> Sequence[torch.Tensor]:
        if op not in made:
            made[op] = compile_launch(op, None, copies=True)
        assert made[op] is not None
        return made[op](*operands)

    return run


class Function(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def captured(function: Callable[[torch.Tensor], torch.Tensor], shape: Sequence[int | str]) -> Any:
    """The program of ``function`` for any sizes; None where PyTorch asks for some."""
    sizes = {place: Dim(size) for place, size in enumerate(shape) if isinstance(size, str)}
    try:
        return fxc.capture(Function(function), (of_sizes(shape, *NUMBERS[0]),), dynamic_shapes=(sizes,))
    except fxc.errors.FxcError:
        return None


def of_sizes(shape: Sequence[int | str], s: int, b: int) -> torch.Tensor:
    numbers: dict[int | str, int] = {"s": s, "b": b}
    return sample([numbers.get(size, size) for size in shape], torch.float64, s + 7 * b)  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.timeout(3600)  # with all cases
def test_groups_of_any_sizes(times: Callable[[str], Any]) -> None:
    @times("any")
    @given(steps(ANY_SIZES, 5), st.sampled_from(SHAPES))
    @example([("flatten", 0, 0), ("pad", 0, 1)], ("b", "s"))  # places are divided by a size that is 0
    @example([("scatter_add", 0, 0), ("places", 0, 0)], ("s",))
    def check(made: Sequence[Step], shape: Sequence[int | str]) -> None:
        function = program(made)
        if (group := captured(function, shape)) is None:
            reject()
        loops = fxc.run_passes(group, f"{LOWER},convert-fusion-to-linalg")
        lowered = {
            target: fxc.run_passes(group, f'set-target{{to="{target}"}},{LOWER},lower-kernels').module
            for target in dict.fromkeys(TARGETS.values())
        }
        if not any(isinstance(op, KernelOp) for module in lowered.values() for op in module.ops):
            reject()
        compiled: dict[str, Engine] = {**ENGINES, "native": native()}
        signature = signature_of(group)
        for s, b in NUMBERS:
            x = of_sizes(shape, s, b)
            try:
                signature.check((x,), {})
                expected = function(x)
            except (InputError, RuntimeError, IndexError, ZeroDivisionError):
                continue  # the program, or eager, takes no such sizes
            if expected.numel() > 20 * MOST:
                continue
            equal(f"loops at s = {s}, b = {b}", execute(loops, [x]).value, expected)
            for engine, target in TARGETS.items():
                kernels = Kernels(lowered[target], 0)
                if kernels.are_for(engine):
                    [result] = kernels.run(compiled[engine], [x])
                    equal(f"{engine} at s = {s}, b = {b}", result, expected)

    check()
