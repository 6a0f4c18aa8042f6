"""Random programs compute the same before and after each pass.

``pytest tests/test_properties_passes.py --hypothesis-profile=long`` looks for longer.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import PassFailedException

import fxc
from fxc.dialects.attributes.types import dtype_name
from fxc.dialects.base.effects import is_random
from fxc.dialects.entry import public_functions
from fxc.dialects.text.syntax import clone_module, parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.errors import CaptureError
from fxc.numerics.reference_run import ReferenceResult, ReferenceRun, why_not
from fxc.passes import available, load
from fxc.program.program import Program, new_context
from tests.pass_contracts import is_idempotent
from tests.random_modules import Sample
from tests.random_programs import CALLS, CONTEXT, WRITES, graphs

pytestmark = pytest.mark.timeout(3600)  # the long profile takes its time


def outcome(module: ModuleOp, seed: int) -> ReferenceResult:
    (function,) = public_functions(module)
    return ReferenceRun(seed=seed)(module, function)


def assert_same(before: ReferenceResult, after: ReferenceResult) -> None:
    assert list(before.arguments) == list(after.arguments)
    pairs = zip([*before.results, *before.arguments.values()], [*after.results, *after.arguments.values()], strict=True)
    for expected, actual in pairs:
        torch.testing.assert_close(actual, expected, equal_nan=True)


REFUSED = (
    "might be aliasing the input",  # operands of a cond that share memory
)
"""What functionalize may say: it does not know these programs yet."""


@pytest.mark.slow
@given(sample=graphs(), seed=st.integers(0, 3))
def test_passes_keep_numbers(sample: Sample, seed: int) -> None:
    before = sample.module
    verify(before)
    try:
        expected = outcome(before, seed)
    except (RuntimeError, IndexError):
        return  # such as writing to an expanded tensor, which only the run finds out
    given, draws = print_module(before), any(map(is_random, before.walk()))
    for name in available():
        if name == "move-to-device" or (draws and name == "lower-random"):
            continue  # for another machine; with other numbers
        try:
            check_pass(name, before, given, expected, seed)
        except CaptureError as error:
            assert name == "functionalize" and any(text in str(error) for text in REFUSED), error
        except BaseException as error:
            error.add_note(f"in pass {name}")
            raise


def check_pass(name: str, before: ModuleOp, given: str, expected: ReferenceResult, seed: int) -> None:
    """``given`` is the text of ``before``; where it stays, there is nothing more to look at."""
    after = clone_module(before)
    try:
        load(name)().apply(CONTEXT, after)
    except PassFailedException:
        return  # the pass says that it is not for such a program
    verify(after)
    text = print_module(after)
    if text == given:
        return
    assert print_module(parse_module(new_context(), text)) == text
    if why_not(after, public_functions(after)[0]) is None:
        assert_same(expected, outcome(after, seed))
    if is_idempotent(name):
        load(name)().apply(CONTEXT, after)
        assert print_module(after) == text


@pytest.mark.slow
@given(sample=graphs([call for call in CALLS if call[0] in ("aten.clone.default", "aten.select.int")] + WRITES))
@settings(max_examples=100)
def test_dce_removes_all_at_once(sample: Sample) -> None:
    """Programs with many writes: dead ops by which dead memory and live memory may be the same are in one of thirty."""
    load("dce")().apply(CONTEXT, sample.module)
    text = print_module(sample.module)
    load("dce")().apply(CONTEXT, sample.module)
    assert print_module(sample.module) == text


# the whole pipeline, gradients too

PIPELINE = "lower-to-torch,torchscript"


def step(program: Program, seed: int) -> tuple[list[Any], list[torch.Tensor]]:
    """What the graph returns, and the gradients of a weighted sum of that with respect to the float inputs."""
    generator = torch.Generator().manual_seed(seed)
    inputs = [made(argument.type, generator) for argument in program.main.args]
    leaves = [value.requires_grad_() for value in inputs if value.is_floating_point()]
    torch.manual_seed(seed)
    # a leaf must not be written
    results = list(fxc.to_fx(program)(*[value * 1 if value.requires_grad else value for value in inputs]))
    sums = [(r * torch.linspace(-1, 2, r.numel()).reshape(r.shape)).sum() for r in results if r.requires_grad]
    grads = torch.autograd.grad(sums, leaves, allow_unused=True) if sums else [None] * len(leaves)
    zeros = [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(grads, leaves, strict=True)]
    return [result.detach() for result in results], zeros


def made(type: Attribute, generator: torch.Generator) -> torch.Tensor:
    assert isinstance(type, TensorType)
    if dtype_name(type.element_type) != "float32":
        value = torch.randint(0, 2, type.get_shape(), generator=generator)
        return value.bool() if dtype_name(type.element_type) == "bool" else value
    return torch.randn(type.get_shape(), generator=generator)


@pytest.mark.slow
@given(sample=graphs(), seed=st.integers(0, 3))
def test_the_pipeline_keeps_numbers_and_gradients(sample: Sample, seed: int) -> None:
    """Eager's, of the graph as it was. Where eager's gradient is no number, as of 0 * inf, it is not looked at."""
    program = Program(sample.module, {}, {}, CONTEXT)
    try:
        expected, wanted = step(program, seed)
    except (RuntimeError, IndexError, AssertionError):
        return  # PyTorch itself does not run or differentiate it
    try:
        after = fxc.run_passes(program, PIPELINE, options=fxc.Options(verify_each=True))
    except CaptureError as error:
        assert any(text in str(error) for text in REFUSED), error
        return
    found, grads = step(after, seed)
    torch.testing.assert_close(found, expected, equal_nan=True)
    for actual, grad in zip(grads, wanted, strict=True):
        if grad.isfinite().all():
            torch.testing.assert_close(actual, grad)
