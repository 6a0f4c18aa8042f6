"""Every rule of ``convert-fusion-to-linalg`` against eager PyTorch, through the reference interpreter of the linalg level."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import fxc
from fxc.bridge.callables import resolve_operator
from fxc.dialects.torch_ops import op_class, table
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators import bessel, incomplete_gamma, polynomials, special
from fxc.passes.operators.rules import Pointwise
from tests.kernel_groups import COVERED, calls_of, check, run_main, samples

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
LONG = special.RECORDS.keys() | bessel.RECORDS.keys() | incomplete_gamma.RECORDS.keys()
"""Formulas of many terms: ``test_special_rules.py`` has more of them."""


@cache
def operators() -> dict[str, list]:
    """OpInfo's operators that reach an operator with a rule, by name."""
    found = dict[str, list]()
    names = {name.split(".")[1] for name in COVERED}
    for op in op_db:
        last = op.name.split(".")[-1]
        if {last, op.aten_name, f"special_{last}"} & names or op.name in _OTHERS:
            found.setdefault(op.name, []).append(op)
    return found


_OTHERS = frozenset(["softmax", "log_softmax", "var", "std", "nan_to_num", "type_as"])


def run(name: str) -> Counter[str]:
    """Compare samples of the operator; how often each overload was, and was not, compiled."""
    seen = Counter[str]()
    for op in operators()[name]:
        long = f"aten.{op.name.replace('.', '_')}.default" in LONG
        for dtype in (dtype for dtype in (DTYPES[:1] if long else DTYPES) if op.supports_dtype(dtype, "cpu")):
            most = 1 if long or dtype is not torch.float32 else 3
            calls = [call for sample in samples(op, dtype, most) for call in calls_of(sample) if call.name in COVERED]
            for place, call in enumerate(calls):
                compiled = check(call, kernels=place % 2 == 0)
                seen[call.name if compiled else f"not {call.name}"] += 1
    return seen


@pytest.mark.share(12)
@pytest.mark.parametrize("name", sorted(operators()))
def test_samples_of_pytorch(name: str) -> None:
    run(name)


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, 1e-40, 3e38, -3e38, 88.0, -100.0, 20.5]
EXTREMES = [0, 1, -1, 2, -2, 7, -8, 127, -128]


UNSTEADY = frozenset(["aten.floor_divide.default", "aten.gelu.default", "aten.gelu_backward.default"])
"""Of these, eager itself gives other numbers for an element of a long float32 tensor than for it alone."""


def arguments_of(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...] | None:
    """Every pair of special values, for an operator of one or two tensors and nothing else that it needs."""
    cls = op_class(f"torch.{name}")
    assert cls is not None and issubclass(cls, TorchOp)
    required = [cls.SCHEMA.by_name[argument].type for argument in cls.SCHEMA.required]
    if required not in (["Tensor"], ["Tensor", "Tensor"]):
        return None
    values = torch.tensor(SPECIAL if dtype.is_floating_point else EXTREMES, dtype=dtype)
    pairs = torch.cartesian_prod(values, values)
    return (pairs[:, 0].contiguous(), pairs[:, 1].contiguous()) if len(required) == 2 else (values,)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int8])
def test_special_values(dtype: torch.dtype) -> None:
    compared, wrong = 0, list[str]()
    for name in sorted(name for name, rule in COVERED.items() if isinstance(rule, Pointwise) and name.startswith("aten.")):
        arguments = arguments_of(name, dtype)
        if arguments is None or name in polynomials.RECORDS or (dtype == torch.float32 and name in UNSTEADY):
            continue  # of NaN eager leaves polynomials open
        calls = [call for call in calls_of(partial(resolve_operator(name), *arguments)) if call.name == name]
        try:
            compared += sum(check(call, kernels=False) for call in calls)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)
    assert compared > (80 if dtype.is_floating_point else 50)


OF_NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "floor_divide": lambda x: x // 4,
    "floor_divide by a negative one": lambda x: torch.floor_divide(x, -3),
    "floor_divide of a number": lambda x: 100 // x,
    "div, floor": lambda x: torch.div(x, 3, rounding_mode="floor"),
    "div, trunc": lambda x: torch.div(x, 3, rounding_mode="trunc"),
    "remainder of a number": lambda x: 100 % x,
    "rsub": lambda x: torch.rsub(x, 3, alpha=2),
    "add": lambda x: torch.add(x, 3, alpha=2),
    "comparison with what has no such number": lambda x: torch.eq(x, 0.1) | torch.ge(x, 0.1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int8])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_for_tensors(name: str, dtype: torch.dtype) -> None:
    """PyTorch takes a number where the schema has a tensor, and graphs have it so."""
    x = torch.tensor([-7.6, -3, -0.1, 0.1, 1, 5, 9.5]) * (1 if dtype.is_floating_point else 10)
    x, function = x.to(dtype), OF_NUMBERS[name]
    program = fxc.run_passes(fxc.capture(lambda x: function(x) + 0, (x,)), FUSED)
    results = run_main(program.module, [x])
    torch.testing.assert_close(results, [function(x) + 0], equal_nan=True)


FUSED = "lower-to-torch,lower-simple-tuples,decompose-ops{reductions=true},fuse{reductions=true},convert-fusion-to-linalg"


def pointwise_operators() -> set[str]:
    """What ``fuse`` may put into a group: the operators with PyTorch's tag ``pointwise`` that broadcast and draw nothing."""
    classes = {name: op_class(f"torch.{name}") for name in table() if name.startswith("aten.")}
    found = {name: cls for name, cls in classes.items() if cls is not None and issubclass(cls, TorchOp)}
    return {name for name, cls in found.items() if "p" in cls.FLAGS and "r" not in cls.FLAGS and not cls.SCHEMA.mutates}


def test_most_pointwise_operators_have_a_rule() -> None:
    """Without a rule: what gives an answer to the host, what is made of others, and what is its operand."""
    without = {"aten.equal.default", "aten.nan_to_num.default", "aten.positive.default"}
    assert pointwise_operators() - COVERED.keys() == without


OF_INDUCTOR = frozenset(["prims.fma.default"])
"""Operators that PyTorch has once Inductor is loaded."""


def test_every_rule_is_of_an_operator() -> None:
    assert [name for name in COVERED.keys() - OF_INDUCTOR if op_class(f"torch.{name}") is None] == []
