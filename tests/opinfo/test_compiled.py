"""A part of PyTorch's own operator samples on all routes, forward and backward; ``compiled.py`` runs any part."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db

from tests.opinfo.compiled import check, check_operator, is_rounding
from tests.opinfo.gradients import differentiated
from tests.opinfo.suite import LEFT_OUT, operators, samples_of, summary

WHOLE = 1200
"""One sample of so many is a part."""
PARTS, GROUPS = 4, 4


@pytest.mark.slow
@pytest.mark.share(PARTS)
@pytest.mark.parametrize("part", range(1, PARTS + 1))
@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.filterwarnings("ignore")
def test_compiled(group: int, part: int) -> None:
    """Every sample that is captured has eager's values and gradients on its route."""
    names = sorted(operators())[group::GROUPS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [outcome for name in names for outcome in check_operator(name, part, WHOLE)]
    assert not [o for o in outcomes if o.stage not in ("ok", *LEFT_OUT)], summary(outcomes)
    assert any(o.stage == "ok" for o in outcomes)


HIGHER_ORDER = {info.formatted_name: info for info in (*hop_db, *custom_op_db) if info.name != "inline_asm_elementwise"}
UNTRACED = {
    ("local_map_hop_simple", "compile"): "Dynamo makes it from other calls",
    ("register_hook_simple", "compile"): "Dynamo makes it from other calls",
    ("register_hook_simple", "static"): "its hook is not recorded",
}
"""What PyTorch itself cannot trace."""
UNDIFFERENTIATED = {
    "flex_attention_simple": "not on the CPU",
    "invoke_quant_simple": "AOTAutograd cannot partition it, and writes the graph to the working directory",
}


@pytest.mark.share(12)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("route", ["compile", "static"])
@pytest.mark.parametrize("name", HIGHER_ORDER)
def test_higher_order_and_custom_operators(name: str, route: str) -> None:
    """PyTorch's samples of them have eager's values and, where eager has them, gradients."""
    info = HIGHER_ORDER[name]
    differentiated = info.supports_autograd and name not in UNDIFFERENTIATED
    samples = samples_of(info, dtypes=[torch.float32], requires_grad=differentiated)
    outcomes = [check(sample, route) for sample in samples]
    stages = {"ok", "untraced"} if (name, route) in UNTRACED else {"ok"}
    assert outcomes and {each.stage for each in outcomes} <= stages, summary(outcomes)


@pytest.mark.filterwarnings("ignore")
def test_float64_says_whose_gradients_are_rounded() -> None:
    """Eager's gradient of the weight of one element is 4e-5, in float64 it is 1e-13; numbers further from it are wrong."""
    samples = samples_of(operators()["nn_functional_layer_norm"], dtypes=[torch.float32], requires_grad=True)
    sample = next(each for each in samples if each.name.endswith("/2"))
    outcome = check(sample)
    assert (outcome.stage, outcome.reason) == ("ok", "as near to float64 as eager")
    expected = differentiated(sample.function, sample, False)
    for place, gradient in enumerate(expected.gradients):
        wrong = differentiated(sample.function, sample, False)
        wrong.gradients[place] = None if gradient is None else gradient + 1e-3 * gradient.abs().max().clamp(min=1)
        assert is_rounding(sample, expected, wrong) is (gradient is None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", [i for i in autograd_function_db if "Sort" not in i.name], ids=lambda info: info.name)
def test_autograd_functions(info: Any) -> None:
    """Those that read NumPy arrays are not captured; the derivatives of the others, some not of their results, are theirs."""
    outcomes = [check(sample, "static") for sample in samples_of(info, dtypes=[torch.float32], requires_grad=True)]
    stages = {"ok", "untraced"} if "Numpy" in info.name else {"ok"}
    assert outcomes and {each.stage for each in outcomes} <= stages, summary(outcomes)
