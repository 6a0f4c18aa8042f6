"""Random PyTorch programs do on every route what they do in eager; and the search for those that do not finds planted bugs.

``python -m tests.fuzz --seconds 600 --seed 5`` looks for longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from fxc.passes.analysis.index.forms import Form
from fxc.passes.operators import table
from tests.fuzz import check as checks
from tests.fuzz import operators_compute, operators_views, search, strategy
from tests.fuzz.__main__ import main as command
from tests.fuzz.check import MODES, Difference, check
from tests.fuzz.outcome import differs, run
from tests.fuzz.programs import Input, Program, Step
from tests.fuzz.reduction import reductions
from tests.fuzz.search import Search

EXAMPLES = {
    "static": 12,
    "training": 6,
    "compile": 15,
    "dynamic": 2,
    "dynamic_shapes": 2,
    "frozen": 6,
    "saved": 6,
    "passes": 6,
}


@pytest.mark.slow
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("mode", MODES)
def test_random_programs(mode: str, request: pytest.FixtureRequest) -> None:
    examples = 20_000 if request.config.getoption("--cases") == "all" else EXAMPLES[mode]
    counts = Search(mode, 0, examples=examples).run()
    assert not counts.failures, "\n\n".join(map(str, counts.failures))


# the search


def rotated(op: Any, index: tuple[Form, ...], result: int) -> tuple[Form, ...]:
    """The places of ``flip(0)``, too far by one."""
    size = max(op.operands[0].type.get_shape()[0], 1)
    return ((-index[0] + size) % size, *index[1:])


@pytest.fixture
def wrong_flip(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(search, "SHRINK_PROGRAMS", 25)
    monkeypatch.setattr(operators_views.Builder, "dims", lambda self, value: [0] if value.ndim else self.of([]))
    monkeypatch.setattr(strategy, "FAMILIES", [[operators_views.flip, operators_views.transpose], [operators_compute.scalar]])
    rule: Any = table.OPERATORS["aten.flip.default"].formula
    before = rule.place
    object.__setattr__(rule, "place", rotated)  # it is frozen
    yield
    object.__setattr__(rule, "place", before)


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_flip")
def test_a_wrong_rule_is_found_in_a_small_program(tmp_path: Path) -> None:
    counts = Search("static", 1, examples=15).run()
    failure = counts.failures[0]
    assert failure.word == "wrong" and "result 0" in failure.reason
    assert len(failure.program.steps) <= 2 and "flip" in failure.program.operators and len(failure.program.inputs) == 1
    assert counts.programs + counts.not_counted >= 15 and " wrong, 0 errors" in str(counts)
    scope: dict[str, Any] = {}
    exec(failure.program.test, scope)
    with pytest.raises(Difference, match="result 0"):
        scope["test_static"]()


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_flip")
def test_equal_seeds_give_equal_searches() -> None:
    first, second = (Search("static", 2, examples=6) for _ in range(2))
    counts = first.run(), second.run()
    assert list(first.known) == list(second.known)
    assert [str(failure) for failure in counts[0].failures] == [str(failure) for failure in counts[1].failures]


def test_a_program_is_reduced_to_what_matters() -> None:
    steps = (Step("sin", "v0 = torch.sin(x0)"), Step("add_", "x1.add_(1)"), Step("cos", "v2 = torch.cos(v0)"))
    program = Program("static", (Input("x0", (2,), "float32"), Input("x1", (3,), "int64")), steps, ("v2", "v0"))
    found = {
        (tuple(step.code for step in smaller.steps), smaller.results, len(smaller.inputs)) for smaller in reductions(program)
    }
    assert (("v0 = torch.sin(x0)", "x1.add_(1)"), ("v0",), 2) in found  # one result less
    assert (("v0 = torch.sin(x0)", "v2 = torch.cos(v0)"), ("v2", "v0"), 1) in found  # no write
    assert (("x1.add_(1)", "v2 = torch.cos(x0)"), ("v2", "x0"), 2) in found  # an operand instead of what is made of it


# what is compared


def two() -> list[torch.Tensor]:
    return [torch.linspace(-1, 1, 6).reshape(2, 3), torch.ones(2, 3)]


def plain(x: torch.Tensor, y: torch.Tensor) -> Any:
    y.mul_(2)
    return x + y, x.t()


def refuse() -> None:
    raise ValueError("no\nbecause")


def test_a_run_in_float64_keeps_the_gaps_of_inputs() -> None:
    def f(x: torch.Tensor) -> Any:
        return (x.mul_(2).logsumexp(1),)

    given = torch.linspace(-3, 3, 54, dtype=torch.float16).reshape(3, 18)[:, 1:-1]
    plain_run, raised = run(f, [given.clone()]), run(f, [given], raised=True)
    assert raised.inputs[0].stride() == (18, 1) and raised.storages[0].shape == (54,)
    assert raised.storages[0].dtype == torch.float64
    torch.testing.assert_close(raised.results[0], plain_run.results[0].double(), rtol=1e-2, atol=1e-2)


DIFFERENT: dict[str, Callable[..., Any]] = {
    "result 0: ": lambda x, y: (x + y.mul_(2) + 1e-3, x.t()),
    "strides of result 0": lambda x, y: ((x + y.mul_(2)).t().contiguous().t(), x.t()),
    "memory of result 1: does not share that of input 0": lambda x, y: (x + y.mul_(2), x.clone().t()),
    "memory of result 0: shares that of input 1": lambda x, y: (y.mul_(2).add_(x), x.t()),
    "input 1": lambda x, y: (x + y * 2, x.t()),
    "dtype of result 0": lambda x, y: ((x + y.mul_(2)).double(), x.t()),
    "shape of result 0": lambda x, y: ((x + y.mul_(2))[:1], x.t()),
    "1 results for 2": lambda x, y: (x + y.mul_(2),),
    "error: ValueError: no": lambda x, y: refuse(),
}


@pytest.mark.parametrize("reason", DIFFERENT)
def test_each_difference_is_noticed(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "compile_on", lambda route, f, inputs, free: plain)
    check("static", plain, two)
    monkeypatch.setattr(checks, "compile_on", lambda route, f, inputs, free: DIFFERENT[reason])
    with pytest.raises(Difference) as found:
        check("static", plain, two)
    assert reason in str(found.value)


def test_gradients_of_both_orders_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return gradient * 3 * (x**2).detach()

    def leaf() -> list[torch.Tensor]:
        return [torch.ones(3).requires_grad_()]

    for wrong, reason in ((lambda x: (x.detach() ** 2 * x,), "gradient1 0"), (lambda x: (Twice.apply(x),), "gradient2 0")):
        monkeypatch.setattr(checks, "compile_on", lambda route, f, inputs, free, wrong=wrong: wrong)
        with pytest.raises(Difference, match=reason):
            check("training", lambda x: (x**3,), leaf)


def test_rounding_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nearer to float64 than eager may be far from eager."""

    def half() -> list[torch.Tensor]:
        return [torch.linspace(1, 2, 50).bfloat16()]

    monkeypatch.setattr(checks, "compile_on", lambda route, f, inputs, free: lambda x: (x.double().cumsum(0).bfloat16(),))
    check("static", lambda x: (x.cumsum(0),), half)


@pytest.mark.slow
def test_a_gradient_that_cancels_is_as_exact_as_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a value that is converted to bfloat16 and back is rounded in eager; another may round less, not more."""

    def leaf() -> list[torch.Tensor]:
        return [torch.linspace(-1, 1, 90, dtype=torch.float64).requires_grad_()]

    def norm(x: torch.Tensor) -> Any:
        return (x, torch.linalg.vector_norm(x.to(torch.bfloat16)))

    for error, found in ((0, False), (0.003, False), (0.03, True)):
        other = lambda x, error=error: (x, torch.linalg.vector_norm(x).to(torch.bfloat16) + error * x.sum().bfloat16())  # noqa: E731
        monkeypatch.setattr(checks, "compile_on", lambda route, f, inputs, free, other=other: other)
        with pytest.raises(Difference, match="gradient1 0") if found else nullcontext():
            check("compile", norm, leaf)


def test_a_gradient_that_cancels_is_rounding() -> None:
    """The second derivative of softmin is 0: of order one in float32, what another order of sums leaves is up to 1e-7."""
    zero = torch.zeros(2)
    for rest, sums, found in ((2e-10, True, False), (1e-7, True, False), (1e-6, True, True), (2e-10, False, True)):
        assert (differs(zero, torch.tensor([rest, 0.0]), zero.double(), sums=sums) is not None) == found


def test_none_stands_for_zeros_with_rounding() -> None:
    """Eager's second derivative of a product of one factor is rounding, where it is no exact zero."""
    zero, rounding, much = torch.zeros(2), torch.tensor([1e-9, 0.0]), torch.tensor([0.5, 0.0])
    assert differs(zero, None, zero.double()) is None and differs(rounding, None, zero.double()) is None
    assert differs(much, None, much.double()) is not None and differs(None, much, zero.double()) is not None


def test_the_reference_is_rounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean is 0; eager's is 1e-16 in float32, and in float64."""

    def cancels() -> list[torch.Tensor]:
        return [((torch.arange(16) * 37 % 101 - 50) / 16).reshape(8, 2).msort()[1:]]

    assert [torch.var_mean(value)[1].item() != 0 for x in cancels() for value in (x, x.double())] == [True, True]
    for mean, found in ((0.0, False), (1e-12, True)):
        monkeypatch.setattr(checks, "compile_on", lambda route, f, inputs, free, mean=mean: lambda x: (torch.tensor(mean),))
        with pytest.raises(Difference) if found else nullcontext():
            check("static", lambda x: (torch.var_mean(x)[1],), cancels)


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    done = CliRunner().invoke(command, ["--mode", "static", "--examples", "3", "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("static: 3 programs, all as eager, 0 not counted")


def test_factories_of_a_program_for_a_device_name_it() -> None:
    writes = Step("full", "v0[:] = torch.full((2, 1), 2, dtype=x0.dtype) + torch.zeros((torch.arange(3) % 2).shape)")
    steps = (Step("zeros", "v0 = torch.zeros(2, 3)"), writes, Step("relu", "v1 = F.relu(x0 + torch.tensor([1.0]))"))
    program = Program("compile", (Input("x0", (3,), "float32"),), steps, ("v0", "v1"), device="meta")
    f, inputs = program.functions()
    assert {result.device.type for result in f(inputs()[0].to("meta"))} == {"meta"}
    assert {result.device.type for result in f(*inputs())} == {"cpu"}
    assert program.source.count("device=x0.device") == 5 and 'device="meta"' in program.check
