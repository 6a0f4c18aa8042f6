"""PyTorch's own samples of every differentiable operator, through ``torch.compile(backend="fxc")``: values and gradients.

    python -m tests.opinfo.compiled --fraction 1/20 --seed 3 --only softmax --out build/compiled

Each sample is one graph, forward and backward, in float64 and float32; a quarter of them have free sizes. Where the numbers
are not eager's, the sample runs with ``backend="aot_eager"``, which is AOTAutograd without a compiler.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence

import torch

from tests.opinfo.gradients import Results, difference, differentiated
from tests.opinfo.suite import Sample, SampleResult, argument_parser, operators, outcome_of, outcomes_of, run_all, samples_of

DTYPES = (torch.float64, torch.float32)
DYNAMIC = 4
"""One sample of so many has free sizes."""

AOTAUTOGRAD = "aotautograd"
"""The stage of samples that differ from eager in the same way with ``aot_eager``."""


def check(sample: Sample, dynamic: bool = False) -> SampleResult:
    """Takes one sample through torch.compile, forward and backward."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = differentiated(sample.function, sample, False)
        except Exception as error:
            return outcome_of(sample, "undifferentiable", error)
        stage = ["compile"]
        try:
            actual = compiled(sample, "fxc", dynamic, stage)
        except Exception as error:
            return _of_error(sample, dynamic, stage[0], error)
        error = difference(actual, expected, sample)
        if error is None:
            return SampleResult(sample.name, "ok")
        reference = compiled(sample, "aot_eager", dynamic)
        if difference(compiled(sample, "aot_eager", dynamic), reference, sample) is not None:
            return outcome_of(sample, "unstable", error[1])
        if difference(actual, reference, sample) is not None:
            return outcome_of(sample, *error)
        if _is_random(sample, expected):
            return SampleResult(sample.name, "ok", "as AOTAutograd's graph")
        return outcome_of(sample, AOTAUTOGRAD, error[1])


def compiled(sample: Sample, backend: str, dynamic: bool, stage: list[str] | None = None) -> Results:
    """The results of the sample, compiled as one graph. ``stage`` holds the step that is being taken."""
    torch._dynamo.reset()
    function = torch.compile(sample.function, backend=backend, fullgraph=True, dynamic=dynamic)
    return differentiated(function, sample, False, stage)


def _of_error(sample: Sample, dynamic: bool, stage: str, error: Exception) -> SampleResult:
    """The outcome of a sample that raised ``error``: left out where the graph of AOTAutograd raises one too."""
    try:
        compiled(sample, "aot_eager", dynamic)
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


def check_operator(name: str, part: int, whole: int, seed: int = 0) -> list[SampleResult]:
    """The outcomes of an operator's samples; none where it has no gradients."""
    info = operators()[name]
    if not info.supports_autograd:
        return []
    dtypes: Sequence[torch.dtype] = [dtype for dtype in DTYPES if dtype in info.supported_backward_dtypes("cpu")]

    def check_one(sample: Sample) -> SampleResult:
        return check(sample, zlib.crc32(f"{sample.name} dynamic {seed}".encode()) % DYNAMIC == 0)

    return outcomes_of(name, samples_of(info, part, whole, dtypes, requires_grad=True, seed=seed), check_one)


def main() -> None:
    parser = argument_parser(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0, help="another seed has other numbers, and other samples in each part")
    options = parser.parse_args()
    part, whole = map(int, options.fraction.split("/"))
    run_all(check_operator, [(name, part, whole, options.seed) for name in operators() if options.only in name], options)


if __name__ == "__main__":
    main()
