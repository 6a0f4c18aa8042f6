"""Guards of inputs: the generated test and the error of what it refuses come from one list of records."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxc.errors import InputError
from fxc.runtime.guards import CodeNames, Guard, all_of
from fxc.runtime.inputs import OtherInput, TensorInput
from fxc.runtime.signature import Signature


def signature(*inputs: TensorInput | OtherInput, conditions: tuple[str, ...] = ()) -> Signature:
    return Signature(inputs, None, BOUNDS, conditions=conditions)


BOUNDS = {"s0": (1, 4)}
X = TensorInput("x", "float32", ("s0", "2*s0"), "cpu")
N = OtherInput("n", ("an int",), symbol="s0")


@pytest.mark.parametrize(
    "case, args, message",
    [
        ("fits", (torch.ones(3, 6), 3), ""),
        ("another number", (torch.ones(3, 6), 2), "input n is 2, but dimension 0 of input x makes it 3"),
        ("no int", (torch.ones(3, 6), 3.0), "input n is 3.0, but an int is expected"),
        (
            "out of bounds",
            (torch.ones(5, 10), 5),
            r"dimension 0 of input x is 5, but s0 lies in \[1, 4\]\n  hint: widen the bounds",
        ),
        ("another expression", (torch.ones(3, 5), 3), r"has shape \(3, 5\), but \(s0, 2\*s0\) is expected"),
        ("a condition", (torch.ones(4, 8), 4), "compiled for sizes with s0 < 4, but dimension 0 of input x is 4"),
    ],
)
def test_sizes(case: str, args: tuple[Any, ...], message: str) -> None:
    made = signature(X, N, conditions=("s0 < 4",))
    assert made.fits(args, {}) is not bool(message), case
    if message:
        with pytest.raises(InputError, match=message):
            made.check(args, {})
    else:
        made.check(args, {})


def test_a_number_has_bounds_and_a_type() -> None:
    assert [n for n in (-1, 0, 1, 4, 5, True, 2.0, None) if signature(N).fits((n,), {})] == [1, 4]


def test_the_stride_of_one_element_says_nothing() -> None:
    row = signature(TensorInput("x", "float32", (1, 3), "cpu", (7, 2)))
    assert row.fits((torch.ones(6)[::2].view(1, 3),), {}) and row.fits((torch.ones(1, 6)[:, ::2],), {})
    assert not row.fits((torch.ones(1, 3),), {})


def test_what_is_no_arithmetic_does_not_hold_and_is_not_run() -> None:
    made = signature(N, conditions=("print(s0)",))
    assert made.fits((1,), {}) is False
    with pytest.raises(InputError, match=r"compiled for sizes with print\(s0\)"):
        made.check((1,), {})


def test_names_of_a_file_are_no_names_of_the_function() -> None:
    """A symbol that is called like a constant, a keyword or an input of the generated function is none of them."""
    sizes = ("Tensor", "strided", "x0", "c0", "if", "leaves")
    made = signature(TensorInput("x", "float32", sizes, "cpu"))
    assert made.fits((torch.ones(1, 2, 3, 4, 5, 6),), {}) and not made.fits((torch.ones(1),), {})


def test_the_first_guard_that_fails_says_why() -> None:
    names = CodeNames(limit=3)
    guards = [
        Guard("(y := x + 1) > 0", lambda v: InputError(f"{v[0]} is small")),
        Guard("y < limit", lambda _: InputError("large")),
    ]
    fits = names.function(["x"], [f"return {all_of(guard.test for guard in guards)}"])
    assert [fits(x) for x in (-1, 1, 2)] == [False, True, False]
    names.check(guards, ["x"], [1])
    for x, message in ((-1, "-1 is small"), (2, "large")):
        with pytest.raises(InputError, match=message):
            names.check(guards, ["x"], [x])
