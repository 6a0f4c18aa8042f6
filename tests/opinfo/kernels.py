"""PyTorch's own samples of every operator with a kernel rule, each call as a group of its own, on every engine.

    python -m tests.opinfo.kernels --fraction 1/12 --only softmax --out build/opinfo-kernels

A sample is run as it is, with strides that are not those of a new tensor, and with NaN, infinities and zeros of both signs in
its floats. Every call of an operator overload that it makes, and that has a rule, becomes kernels, whose results are compared
with eager's and with float64 (``tests/kernel_accuracy.py``). A view is negated after: alone it computes nothing. A call that
has a rule, and falls back to the operator, is a failure, but for the reasons in ``BY_DESIGN``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ModuleOp

from fxc.dialects.text.syntax import clone_module
from fxc.passes.operators.rules import Conversion, View
from tests.kernel_accuracy import Expected, difference
from tests.kernel_engines import ENGINES, kernels_for
from tests.kernel_groups import COVERED, LINALG, Call, GroupBuilder, calls_of, run_passes
from tests.opinfo.suite import Sample, SampleResult, argument_parser, operators, outcome_of, outcomes_of, run_all, samples_of

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool)
TARGETS = ("cpu:avx512", "cuda:sm_90")
LARGEST = 1 << 16
"""Elements of a tensor: larger samples say no more, and take long."""

SPECIAL = (torch.nan, torch.inf, -torch.inf, 0.0, -0.0)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def strided(tensor: torch.Tensor) -> torch.Tensor:
    return noncontiguous_like(tensor) if tensor.numel() > 1 else tensor


def special(tensor: torch.Tensor) -> torch.Tensor:
    """A float tensor with a special value in every third place."""
    if not tensor.is_floating_point():
        return tensor
    changed = tensor.detach().clone()
    flat = changed.view(-1) if changed.is_contiguous() else changed.reshape(-1)
    values = itertools.cycle(SPECIAL)
    for place in range(0, flat.numel(), 3):
        flat[place] = next(values)
    return flat.view(changed.shape)


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"plain": plain, "strided": strided, "special": special}


BY_DESIGN = (
    "an integer division by what may be 0",
    "an integer power that the program does not state, or a large or negative one",
    "a fill value that the program does not state",
    "a number that the program does not state",
    "a mask as an index",
    "more than 4 updates of an element",
    "updates combined by",
    "a range of floats",
    "updates that replace an element and are combined",
    "polygamma of order 2 and more",
)
"""How a reason begins for which a call is left to its operator: PyTorch raises where a kernel cannot, what is needed is known
only when it runs, or the operator is faster."""


@dataclass
class Compiled(SampleResult):
    """A call that became kernels, or did not. ``overload`` is what was called."""

    overload: str = ""


def dtypes_of(info: Any) -> list[torch.dtype]:
    supported = info.supported_dtypes("cpu")
    return [dtype for dtype in DTYPES if dtype in supported]


def calls(sample: Sample, seen: set[str]) -> Iterator[tuple[str, Call]]:
    """The calls of overloads with a rule that the variants of a sample make, but for the kinds that were ``seen``."""
    for variant, change in VARIANTS.items():
        tensors = [change(tensor) for tensor in sample.tensors]
        for call in calls_of(lambda tensors=tensors: sample.function(*tensors)):
            key = f"{variant if variant == 'special' else ''} {_kind(call)}"
            if call.name in COVERED and key not in seen and _is_small(call) and _is_defined(call):
                seen.add(key)
                yield f"{sample.name}/{variant}", call


def _kind(call: Call) -> str:
    leaves = tree_leaves((call.args, dict(call.kwargs)))
    return f"{call.name} {[(x.dtype, x.shape, x.stride()) if isinstance(x, torch.Tensor) else x for x in leaves]}"


def _is_small(call: Call) -> bool:
    tensors = [leaf for leaf in tree_leaves((call.args, call.kwargs, call.result)) if isinstance(leaf, torch.Tensor)]
    real = all(not t.is_complex() and not t.is_sparse and not t.is_quantized for t in tensors)
    return real and all(t.numel() <= LARGEST and t.device.type == "cpu" for t in tensors)


def _is_defined(call: Call) -> bool:
    """Whether eager's result is the same on each machine: an integer of NaN, or of infinity, is not."""
    tensors = [leaf for leaf in tree_leaves((call.args, call.kwargs)) if isinstance(leaf, torch.Tensor)]
    results = [leaf for leaf in tree_leaves(call.result) if isinstance(leaf, torch.Tensor)]
    to_integer = isinstance(COVERED.get(call.name), Conversion) and not any(each.is_floating_point() for each in results)
    return not to_integer or all(bool(each.isfinite().all()) for each in tensors)


def check(
    call: Call, name: str, targets: Sequence[str] = TARGETS, engines: Sequence[str] = tuple(ENGINES)
) -> Iterator[SampleResult]:
    """Runs one call: an outcome for it, or one for each target and engine that is wrong."""
    sample = Sample(name, lambda: None, (), True)
    builder = GroupBuilder()
    try:
        builder.call(call)
        module = builder.module([_computed(result, call, builder) for result in tree_leaves(call.result)])
        expected = Expected.of(module, builder.arguments)
    except Exception as error:  # the sample cannot be a group: a result that is an operand, a tensor without a type
        yield outcome_of(sample, "untraced", error)
        return
    stage, wrong = "lowering", False
    for target in targets:
        try:
            stage = f"lowering {target}"
            kernels = kernels_for(module, target)
            if kernels is None:
                reason = _why_not(module)
                stage = "refused" if reason.startswith(BY_DESIGN) else "fell back"
                yield Compiled(name, stage, f"{call.name}: {reason}", overload=call.name)
                return
            for engine in filter(kernels.are_for, engines):
                stage = f"{engine} {target}"
                found = difference(kernels.run(ENGINES[engine], builder.arguments), expected)
                if found.wrong:
                    wrong = True
                    yield Compiled(name, stage, f"{call.name}: {found.wrong}", _kind(call), overload=call.name)
        except Exception as error:
            wrong = True
            yield outcome_of(sample, stage, error)
    if not wrong:
        yield Compiled(name, "ok", overload=call.name)


def _why_not(module: ModuleOp) -> str:
    """Why no kernel computes the group of ``module``."""
    counts = run_passes(clone_module(module), LINALG)
    return next((key.removeprefix("because of ") for key in counts if key.startswith("because of ")), "no reason is given")


def _computed(result: torch.Tensor, call: Call, builder: GroupBuilder) -> torch.Tensor:
    """``result``, or of a view what a further operator of the group makes of it."""
    if not isinstance(COVERED.get(call.name), View):
        return result
    invert = torch.ops.aten.logical_not.default if result.dtype == torch.bool else torch.ops.aten.neg.default
    computed = invert(result)
    builder.call(Call(invert, (result,), {}, computed))
    return computed


def check_operator(
    name: str, part: int, whole: int, targets: Sequence[str] = TARGETS, engines: Sequence[str] = tuple(ENGINES)
) -> list[SampleResult]:
    """The outcomes of the calls that a part of an operator's samples make."""
    info = operators()[name]
    found, seen = list[SampleResult](), set[str]()

    def check_sample(sample: Sample) -> SampleResult:
        for place, (where, call) in enumerate(calls(sample, seen)):
            found.extend(check(call, f"{where}/{place}", targets, engines))
        return SampleResult(sample.name, "ok")

    rest = outcomes_of(name, samples_of(info, part, whole, dtypes_of(info)), check_sample)
    return found + [outcome for outcome in rest if outcome.stage != "ok"]


def shares(outcomes: Sequence[SampleResult]) -> str:
    """How many overloads with a rule were called, became kernels, and fell back."""
    compiled = [each for each in outcomes if isinstance(each, Compiled)]
    became = Counter(each.overload for each in compiled if each.stage == "ok")
    left = {stage: Counter(each.reason for each in compiled if each.stage == stage) for stage in ("refused", "fell back")}
    called = {each.overload for each in compiled}
    lines = [
        "",
        f"{len(called)} of {len(COVERED)} overloads with a rule are called by samples",
        f"calls that became kernels: {became.total()}",
        *(f"{stage}: {found.total()}" for stage, found in left.items()),
        *(f"  {count:5} {reason}" for found in left.values() for reason, count in found.most_common()),
        "never called: " + ", ".join(sorted(COVERED.keys() - called)),
    ]
    return "\n".join(lines)


def main() -> None:
    options = argument_parser(__doc__ or "").parse_args()
    part, whole = map(int, options.fraction.split("/"))
    run_all(check_operator, [(name, part, whole) for name in operators() if options.only in name], options, shares)


if __name__ == "__main__":
    main()
