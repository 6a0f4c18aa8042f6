"""PyTorch's own samples of every operator, on each route of fxc: values, and gradients where the route has them.

    python -m tests.opinfo.compiled --fraction 1/20 --seed 3 --route dynamic_shapes --only softmax --out build/compiled

Each sample is one graph, in float64 and float32. Numbers that are not eager's pass where they are as near to float64's; else
the sample runs with ``backend="aot_eager"``, AOTAutograd without a compiler. What ``fxc.compile`` cannot capture is left out.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fxc.errors import CaptureError
from tests.fuzz.check import compile_on
from tests.fuzz.outcome import RAISED, InFloat64, differs
from tests.opinfo.gradients import Results, difference, differentiated
from tests.opinfo.suite import (
    Sample,
    SampleResult,
    argument_parser,
    copies,
    operators,
    outcome_of,
    outcomes_of,
    run_all,
    samples_of,
)

DTYPES = (torch.float64, torch.float32)
ROUTES = {"compile": True, "dynamic": True, "static": True, "dynamic_shapes": True, "frozen": False, "saved": False}
"""Route of ``compile_on`` -> whether it has gradients."""
OF_DYNAMO = ("compile", "dynamic")

NEAR = 1e-3
"""Of the largest element, how far eager's float32 may be from float64 where that decides."""

AOTAUTOGRAD = "aotautograd"
"""The stage of samples that differ from eager in the same way with ``aot_eager``."""


def check(sample: Sample, route: str = "compile") -> SampleResult:
    """Takes one sample through ``route``, forward and, where it has gradients, backward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = differentiated(sample.function, sample, False)
        except Exception as error:
            return outcome_of(sample, "undifferentiable", error)
        stage = ["compile"]
        try:
            actual = differentiated(compiled(sample, route), sample, False, stage)
        except Exception as error:
            return _of_error(sample, route, stage[0], error)
        error = difference(actual, expected, sample)
        if error is None:
            return SampleResult(sample.name, "ok")
        if is_rounding(sample, expected, actual):
            return SampleResult(sample.name, "ok", "as near to float64 as eager")
        mode = route if route in OF_DYNAMO else "compile"
        first, second = (differentiated(_by_dynamo(sample, "aot_eager", mode), sample, False) for _ in range(2))
        if difference(second, first, sample) is not None:
            return outcome_of(sample, "unstable", error[1])
        if difference(actual, first, sample) is not None:
            return outcome_of(sample, *error)
        if _is_random(sample, expected):
            return SampleResult(sample.name, "ok", "as AOTAutograd's graph")
        return outcome_of(sample, AOTAUTOGRAD, error[1])


def is_rounding(sample: Sample, expected: Results, actual: Results) -> bool:
    """Whether eager's results are near those of float64, and ``actual`` as near as these up to a small multiple."""

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        with InFloat64():
            found = sample.function(*(tensor.to(RAISED.get(tensor.dtype, tensor.dtype)) for tensor in tensors))
        leaves = [leaf for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]
        return [leaf.to(value.dtype) for leaf, value in zip(leaves, expected.values, strict=True)]

    try:
        exact = differentiated(function, sample, False)
    except Exception:  # an operator without float64
        return False
    for part in ("values", "gradients"):
        for eager, found, wide in zip(*(getattr(each, part) for each in (expected, actual, exact)), strict=True):
            if wide is not None and eager is not None and (wide.is_floating_point() or wide.is_complex()):
                bound = NEAR * max(1.0, float(wide.abs().nan_to_num().max())) if wide.numel() else 0.0
                if not torch.allclose(eager, wide, rtol=0, atol=bound, equal_nan=True):
                    return False  # other random numbers, or an ill-conditioned sample, which shows nothing
            if differs(eager, found, wide, sums=part == "gradients") is not None:
                return False
    return True


def compiled(sample: Sample, route: str) -> Callable[..., Any]:
    """The function of the sample, compiled as one graph."""
    if route in OF_DYNAMO:
        return _by_dynamo(sample, "fxc", route)
    inputs = copies([tensor.detach().requires_grad_(tensor.requires_grad) for tensor in sample.tensors])
    free = None
    if route == "dynamic_shapes":
        auto = torch.export.Dim.AUTO
        free = (tuple({axis: auto for axis, size in enumerate(each.shape) if size > 1} for each in inputs),)
    return compile_on(route, sample.function, inputs, free, fallback=False)


def _by_dynamo(sample: Sample, backend: str, route: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(sample.function, backend=backend, fullgraph=True, dynamic=route == "dynamic")


def _of_error(sample: Sample, route: str, stage: str, error: Exception) -> SampleResult:
    """The outcome of a sample that raised ``error``: left out where no graph of it is captured."""
    if isinstance(error, CaptureError):
        return outcome_of(sample, "untraced", error)
    if route in OF_DYNAMO:
        try:
            differentiated(_by_dynamo(sample, "aot_eager", route), sample, False)
        except Exception as other:
            return outcome_of(sample, "untraced", other)
    return outcome_of(sample, stage, error)


def _is_random(sample: Sample, expected: Results) -> bool:
    """Whether eager's results depend on the seed."""
    seed = torch.manual_seed

    def function(*tensors: torch.Tensor) -> object:
        seed(12345)
        return sample.function(*tensors)

    return difference(differentiated(function, sample, False), expected, sample) is not None


def check_operator(name: str, part: int, whole: int, seed: int = 0, route: str = "") -> list[SampleResult]:
    """The outcomes of an operator's samples on ``route``, or each on one of all; none where it has no gradients but they do."""
    info, found = operators()[name], list[SampleResult]()
    for each, has_gradients in ROUTES.items():
        if route not in ("", each) or (has_gradients and not info.supports_autograd):
            continue
        supported = info.supported_backward_dtypes("cpu") if has_gradients else info.supported_dtypes("cpu")
        dtypes: Sequence[torch.dtype] = [dtype for dtype in DTYPES if dtype in supported]
        samples = samples_of(info, part, whole, dtypes, requires_grad=has_gradients, seed=seed)
        chosen = (sample for sample in samples if sample.tensors and each in (route, _route_of(sample, seed)))
        found += outcomes_of(name, chosen, lambda sample, each=each: check(sample, each))
    return found


def _route_of(sample: Sample, seed: int) -> str:
    return list(ROUTES)[zlib.crc32(f"{sample.name} {seed}".encode()) % len(ROUTES)]


def main() -> None:
    parser = argument_parser(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0, help="another seed has other numbers, and other samples in each part")
    parser.add_argument("--route", default="", choices=("", *ROUTES), help="without it, each sample runs on one of them")
    options = parser.parse_args()
    part, whole = map(int, options.fraction.split("/"))
    names = [name for name in operators() if options.only in name]
    run_all(check_operator, [(name, part, whole, options.seed, options.route) for name in names], options)


if __name__ == "__main__":
    main()
