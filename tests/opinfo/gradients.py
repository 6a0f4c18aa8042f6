"""PyTorch's own samples of every differentiable operator, through the compiler: values, gradients and second derivatives.

    python -m tests.opinfo.gradients --fraction 1/12 --only softmax --out build/gradients

``make_fx`` traces each sample before dispatch; the pipeline differentiates everything that it can, however small, and the
exported graph runs forward and backward. Results and gradients are compared with eager's at the same random cotangents, in
float64 and complex128 where the operator has them. ``by`` says what computed the gradients: ``df``, eager's autograd, or both.
"""

from __future__ import annotations

import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr

import fxc
from tests.differentiation import ONCE, SUBGRAPH, TWICE, autograd_nodes
from tests.opinfo.suite import (
    Sample,
    SampleResult,
    argument_parser,
    compare,
    copies,
    operators,
    outcome_of,
    outcomes_of,
    run_all,
    samples_of,
    trace,
)

SECOND = 4
"""One sample of so many is differentiated twice."""


@dataclass
class Differentiated(SampleResult):
    """``by``: what computed the gradients: ``df``, ``df and eager``, ``eager``, or nothing. ``twice``: second ones too."""

    by: str = ""
    left: tuple[str, ...] = ()
    twice: bool = False


@dataclass(frozen=True)
class Results:
    values: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    second: list[torch.Tensor | None] | None
    left: frozenset[str]
    """What eager's autograd differentiates, other than the subgraphs."""


def dtypes_of(info: Any) -> list[torch.dtype]:
    """The widest real dtype that the operator has gradients in, and the widest complex one."""
    supported = info.supported_backward_dtypes("cpu")
    pairs = ((torch.float64, torch.float32), (torch.complex128, torch.complex64))
    return [found for pair in pairs if (found := next((dtype for dtype in pair if dtype in supported), None)) is not None]


def check(sample: Sample, twice: bool = False) -> SampleResult:
    """Takes one sample through the compiler and back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected, twice = eager(sample, twice)
        except Exception as error:
            return outcome_of(sample, "undifferentiable", error)
        try:
            graph = trace(sample, "pre_dispatch")
        except Exception as error:
            return outcome_of(sample, "untraced", error)
        stage = ["import"]
        try:
            actual = differentiated(compiled(graph, sample, TWICE if twice else ONCE, stage), sample, twice, stage)
        except Exception as error:
            return outcome_of(sample, stage[0], error)
        error = difference(actual, expected, sample)
        reason = ""
        if error is not None:  # random operators that trace to others, or at other places
            again = [differentiated(graph, sample, twice) for _ in range(2)]
            if (unstable := difference(again[1], again[0], sample)) is not None:
                return outcome_of(sample, "unstable", unstable)
            if difference(actual, again[0], sample) is not None:
                return outcome_of(sample, *error)
            reason = "as the traced graph"
    return Differentiated(sample.name, "ok", reason, by=_by(actual), left=tuple(sorted(actual.left)), twice=twice)


def eager(sample: Sample, twice: bool) -> tuple[Results, bool]:
    """What eager gives, and whether it has second derivatives of it. Raises where it has no first ones."""
    if twice:
        try:
            return differentiated(sample.function, sample, True), True
        except Exception:  # an operator whose backward has no derivative
            pass
    return differentiated(sample.function, sample, False), False


def compiled(graph: GraphModule, sample: Sample, pipeline: str, stage: list[str]) -> GraphModule:
    """The graph after ``pipeline``. ``stage`` holds the step that is being taken."""
    program = fxc.import_fx(graph)
    known = program.main.arg_attrs or [DictionaryAttr({})] * len(sample.tensors)
    needs = [{"fx.requires_grad": UnitAttr()} if tensor.requires_grad else {} for tensor in sample.tensors]
    program.main.properties["arg_attrs"] = ArrayAttr(
        [DictionaryAttr({**a.data, **need}) for a, need in zip(known, needs, strict=True)]
    )
    stage[0] = "passes"
    result = fxc.run_passes(program, pipeline)
    stage[0] = "export"
    return fxc.to_fx(result)


def differentiated(function: Callable[..., Any], sample: Sample, twice: bool, stage: list[str] | None = None) -> Results:
    """The results of ``function`` at the sample, and their gradients at random cotangents that are always the same."""
    stage = ["run"] if stage is None else stage
    stage[0] = "run"
    leaves = copies(sample.tensors)
    given = [leaf.clone() for leaf in leaves]
    torch.manual_seed(0)
    values = [value for value in tree_leaves(function(*given)) if isinstance(value, torch.Tensor)]
    stage[0] = "backward"
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    outputs = [value for value in values if value.requires_grad]
    left = autograd_nodes(outputs, given)
    cotangents = [torch.randn(value.shape, dtype=value.dtype, generator=_generator(i)) for i, value in enumerate(outputs)]
    if not outputs:
        return Results(values, [None] * len(inputs), None, left)
    for cotangent in cotangents:
        cotangent.requires_grad_(twice)
    gradients = list(torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True, create_graph=twice))
    detached = [None if g is None else g.detach() for g in gradients]
    second: list[torch.Tensor | None] | None = None
    if twice:
        stage[0] = "second backward"
        again = [(i, g) for i, g in enumerate(gradients) if g is not None and g.requires_grad]
        given = [torch.randn(g.shape, dtype=g.dtype, generator=_generator(100 + i)) for i, g in again]
        every = [*inputs, *cotangents]
        second = [None] * len(every)
        if again:
            second = list(torch.autograd.grad([g for _, g in again], every, given, allow_unused=True))
    return Results([value.detach() for value in values], detached, second, left)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def difference(actual: Results, expected: Results, sample: Sample) -> tuple[str, Exception] | None:
    """The first part that is not equal, and how. A gradient that is not there is zero."""
    for part in ("values", "gradients", "second"):
        found, wanted = getattr(actual, part), getattr(expected, part)
        if wanted is None:
            continue
        if part != "values":
            found, wanted = _filled(found, wanted), _filled(wanted, found)
        try:
            compare(found, wanted, sample)
        except AssertionError as error:
            return part, error
    return None


def _filled(gradients: Sequence[Any], others: Sequence[Any] | None) -> list[Any]:
    """``gradients`` with zeros where only the others are there."""
    pairs = zip(gradients, others or [None] * len(gradients), strict=True)
    return [torch.zeros_like(b) if a is None and b is not None else a for a, b in pairs]


def _by(results: Results) -> str:
    if not results.left:
        return ""
    return "df" if results.left == {SUBGRAPH} else "df and eager" if SUBGRAPH in results.left else "eager"


def check_operator(name: str, part: int, whole: int) -> list[SampleResult]:
    """The outcomes of an operator's samples; none where it has no gradients."""
    info = operators()[name]
    if not info.supports_autograd:
        return []

    def check_one(sample: Sample) -> SampleResult:
        return check(sample, info.supports_gradgrad and zlib.crc32(f"{sample.name} twice".encode()) % SECOND == 0)

    return outcomes_of(name, samples_of(info, part, whole, dtypes_of(info), requires_grad=True), check_one)


def shares(outcomes: Sequence[SampleResult]) -> str:
    """What computed the gradients of the samples that passed, and what eager's autograd did of it."""
    passed = [outcome for outcome in outcomes if isinstance(outcome, Differentiated)]
    by = Counter(outcome.by for outcome in passed)
    left = Counter(name for outcome in passed for name in outcome.left if name != SUBGRAPH)
    lines = [
        f"gradients by df: {by['df']}, by df and eager: {by['df and eager']}, by eager: {by['eager']}, none: {by['']}",
        f"differentiated twice: {sum(outcome.twice for outcome in passed)}",
        "left to eager: " + ", ".join(f"{name} {count}" for name, count in left.most_common(60)),
    ]
    return "\n".join(["", *lines])


def main() -> None:
    options = argument_parser(__doc__ or "").parse_args()
    part, whole = map(int, options.fraction.split("/"))
    run_all(check_operator, [(name, part, whole) for name in operators() if options.only in name], options, shares)


if __name__ == "__main__":
    main()
