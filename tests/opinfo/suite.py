"""PyTorch's own samples of every operator, through the compiler: trace, import, print, parse, simplify, export, run, compare.

    python -m tests.opinfo.suite --fraction 1/12 --only softmax --out build/opinfo

``make_fx`` traces each sample; what it cannot trace is counted and left out. Results are compared with eager's, or, where the
traced graph itself does not reproduce eager (random operators that trace to others), with the traced graph's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

import fxc
from fxc.dialects.verify.verifier import verify
from fxc.program.program import Program
from tests.graph_equality import assert_same_graph
from tests.opinfo_samples import sample_inputs

PIPELINE = "canonicalize,cse,dce,constant-propagation"
SECOND_DTYPES = (torch.int64, torch.bool, torch.complex64, torch.bfloat16)
UNINITIALIZED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Operators whose results have no defined values: only their sizes and dtypes are compared."""


@dataclass(frozen=True)
class Sample:
    """One call: ``function(*tensors)`` calls the operator, every other argument is bound in it."""

    name: str
    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    initialized: bool


@dataclass
class SampleResult:
    """How a sample went. ``stage``: ``ok``, one of LEFT_OUT, or the step that failed. ``reason``: one line."""

    sample: str
    stage: str
    reason: str = ""
    detail: str = field(default="", repr=False)


LEFT_OUT = {
    "untraced": "not traced by make_fx",
    "unstable": "differ from run to run",
    "undifferentiable": "without gradients in eager",
}
"""Stages of samples that say nothing of the compiler."""

Summary = Callable[[Sequence[SampleResult]], str]


@cache
def operators() -> dict[str, Any]:
    """Name -> OpInfo, of every operator that has CPU samples."""
    return {info.formatted_name: info for info in op_db}


def dtypes_of(info: Any) -> list[torch.dtype]:
    """float32, and one other dtype, chosen by the operator's name; all that it has where float32 is not supported."""
    supported = info.supported_dtypes("cpu")
    others = [dtype for dtype in SECOND_DTYPES if dtype in supported]
    chosen = [others[zlib.crc32(info.formatted_name.encode()) % len(others)]] if others else []
    return [dtype for dtype in (torch.float32, *chosen) if dtype in supported]


def samples_of(
    info: Any,
    part: int = 1,
    whole: int = 1,
    dtypes: Sequence[torch.dtype] | None = None,
    requires_grad: bool = False,
    seed: int = 0,
) -> Iterator[Sample]:
    """The samples of an operator, or part ``part`` of ``whole`` disjoint parts of them: always the same ones for a ``seed``.

    ``dtypes``: by default those of ``dtypes_of``. ``requires_grad``: tensors that the operator can be differentiated by
    require grad, and results are made independent of what PyTorch leaves open in them, such as the signs of eigenvectors.
    """
    for dtype in dtypes_of(info) if dtypes is None else dtypes:
        torch.manual_seed(zlib.crc32(info.formatted_name.encode()) + seed)
        for i, sample in enumerate(sample_inputs(info, dtype, requires_grad=requires_grad)):
            name = f"{info.formatted_name}/{str(dtype).removeprefix('torch.')}/{i}"
            if (zlib.crc32(name.encode()) + seed) % whole == part - 1:
                yield _sample(info, name, sample, requires_grad)


def _sample(info: Any, name: str, given: Any, differentiated: bool) -> Sample:
    leaves, spec = tree_flatten((given.input, given.args, given.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def function(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        input, args, kwargs = tree_unflatten(filled, spec)
        if differentiated:
            return given.output_process_fn_grad(info.gradcheck_wrapper(info.op, input, *args, **kwargs))
        return info.op(input, *args, **kwargs)

    return Sample(name, function, tuple(leaves[place] for place in places), info.name not in UNINITIALIZED)


def check(sample: Sample, pipeline: str = PIPELINE, mode: str = "fake") -> SampleResult:
    """Takes one sample through the compiler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = run(sample.function, sample)
            graph = trace(sample, mode)
        except Exception as error:  # whatever make_fx raises, the sample is not for an FX compiler
            return outcome_of(sample, "untraced", error)
        stage = ["import"]
        try:
            actual = run(compiled(graph, pipeline, stage), sample)
            stage[0] = "compare"
            compare(actual, expected, sample)
        except Exception as error:
            if stage[0] != "compare":
                return outcome_of(sample, stage[0], error)
            return compare_with_graph(graph, actual, sample)
    return SampleResult(sample.name, "ok")


def compare_with_graph(graph: GraphModule, actual: Any, sample: Sample) -> SampleResult:
    """The outcome of a sample whose result is not eager's: ``ok`` where the traced graph gives the same."""
    expected = run(graph, sample)
    try:
        compare(run(graph, sample), expected, sample)
    except AssertionError as error:
        return outcome_of(sample, "unstable", error)
    try:
        compare(actual, expected, sample)
    except AssertionError as error:
        return outcome_of(sample, "compare", error)
    return SampleResult(sample.name, "ok", "as the traced graph")


MODES: dict[str, dict[str, Any]] = {
    "fake": {"tracing_mode": "fake"},
    "symbolic": {"tracing_mode": "symbolic"},
    "pre_dispatch": {"tracing_mode": "fake", "pre_dispatch": True},
}
"""How make_fx traces: ATen after decomposition, the same with symbolic sizes, and the operators as they were called."""


def trace(sample: Sample, mode: str = "fake") -> GraphModule:
    """The graph of the sample with fake tensors; with real ones where its sizes depend on data."""
    torch.manual_seed(0)
    try:
        return make_fx(sample.function, **MODES[mode])(*copies(sample.tensors))
    except Exception:
        torch.manual_seed(0)
        return make_fx(sample.function, pre_dispatch=mode == "pre_dispatch")(*copies(sample.tensors))


def compiled(graph: GraphModule, pipeline: str, stage: list[str]) -> Callable[..., Any]:
    """The graph after import, text and ``pipeline``. ``stage`` holds the step that is being taken."""
    program = fxc.import_fx(graph)
    stage[0] = "verify"
    verify(program.module)
    stage[0] = "parse"
    text = program.text(debuginfo=True)
    parsed = Program.parse(text, program.state)
    verify(parsed.module)
    stage[0] = "print"
    if parsed.text(debuginfo=True) != text:
        raise AssertionError("the text of the parsed module differs")
    parsed.live = program.live
    stage[0] = "round trip"
    assert_same_graph(graph.graph, fxc.to_fx(parsed, lifted=True).graph)
    stage[0] = "passes"
    result = fxc.run_passes(parsed, pipeline)
    stage[0] = "export"
    exported = fxc.to_fx(Program.parse(result.text(), result.state))
    stage[0] = "run"
    return exported


def run(function: Callable[..., Any], sample: Sample) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        return function(*copies(sample.tensors))


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors with strides kept, so that a sample that writes to its input leaves the next run alone. What requires grad
    is no leaf, which could not be written."""
    return [tensor.detach().requires_grad_(tensor.requires_grad).clone() for tensor in tensors]


def compare(actual: Any, expected: Any, sample: Sample) -> None:
    """Equal leaves: dtype and shape exactly, values within the tolerances of torch.testing."""
    left, right = tree_leaves(actual), tree_leaves(expected)
    assert len(left) == len(right), f"{len(left)} results, expected {len(right)}"
    for a, b in zip(left, right, strict=True):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b), f"a {type(a).__name__}, expected a {type(b).__name__}"
            torch.testing.assert_close(a, b, equal_nan=True) if isinstance(b, (int, float, complex)) else None
            continue
        assert a.dtype == b.dtype and a.shape == b.shape and a.layout == b.layout, f"{a.dtype} {a.shape} {b.dtype} {b.shape}"
        if sample.initialized:
            torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)


def outcome_of(sample: Sample, stage: str, error: Exception) -> SampleResult:
    """A sample that ``error`` kept from passing."""
    text = (str(error).strip().splitlines() or [""])[0]
    reason = f"{type(error).__name__}: {text}"[:200]
    return SampleResult(sample.name, stage, reason, "".join(traceback.format_exception(error))[-6000:])


def check_operator(name: str, part: int, whole: int, pipeline: str = PIPELINE, mode: str = "fake") -> list[SampleResult]:
    """The outcomes of an operator's samples."""
    return outcomes_of(name, samples_of(operators()[name], part, whole), lambda sample: check(sample, pipeline, mode))


def outcomes_of(name: str, samples: Iterable[Sample], check: Callable[[Sample], SampleResult]) -> list[SampleResult]:
    """What ``check`` says of the samples of the operator ``name``."""
    torch.set_num_threads(1)
    found = list[SampleResult]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found.extend(map(check, samples))
        except Exception as error:  # PyTorch could not make the sample: a package that is not installed
            found.append(SampleResult(f"{name}/samples", "untraced", f"{type(error).__name__}: {error}"[:200]))
    return found


def summary(outcomes: Sequence[SampleResult]) -> str:
    """Shares, and failures by stage and reason with an example each."""
    stages = Counter(outcome.stage for outcome in outcomes)
    counted = sum(count for stage, count in stages.items() if stage not in LEFT_OUT)
    as_other = sum(outcome.stage == "ok" and bool(outcome.reason) for outcome in outcomes)
    lines = [
        f"{len(outcomes)} samples; " + ", ".join(f"{stages[stage]} {what}" for stage, what in LEFT_OUT.items()),
        f"{stages['ok']} of {counted} pass: {stages['ok'] / max(counted, 1):.2%}, {as_other} not as eager, as graph or float64",
    ]
    reasons, examples = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for outcome in outcomes:
        if outcome.stage not in ("ok", *LEFT_OUT):
            key = (outcome.stage, re.sub(r"\d+", "N", outcome.reason))
            reasons[key] += 1
            examples.setdefault(key, outcome.sample)
    lines += [f"{count:6} {stage}: {reason}  ({examples[stage, reason]})" for (stage, reason), count in reasons.most_common()]
    left_out = Counter((o.stage, re.sub(r"\d+", "N", o.reason)[:110]) for o in outcomes if o.stage in LEFT_OUT)
    lines += ["", "left out:"] + [f"{count:6} {stage}: {reason}" for (stage, reason), count in left_out.most_common(40)]
    return "\n".join(lines)


def by_operator(outcomes: Sequence[SampleResult]) -> str:
    """One line an operator with a failure: passed and counted samples."""
    ok, counted = Counter[str](), Counter[str]()
    for outcome in outcomes:
        operator = outcome.sample.rpartition("/")[0].rpartition("/")[0]
        if outcome.stage not in LEFT_OUT:
            counted[operator] += 1
            ok[operator] += outcome.stage == "ok"
    return "\n".join(f"{operator:60} {ok[operator]:5} of {n:5}" for operator, n in sorted(counted.items()) if ok[operator] < n)


def main() -> None:
    parser = argument_parser(__doc__ or "")
    parser.add_argument("--pipeline", default=PIPELINE)
    parser.add_argument("--trace", default="fake", choices=MODES, help="how make_fx traces")
    options = parser.parse_args()
    part, whole = map(int, options.fraction.split("/"))
    names = [name for name in operators() if options.only in name]
    run_all(check_operator, [(name, part, whole, options.pipeline, options.trace) for name in names], options)


def argument_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--fraction", default="1/1", help="N/M: part N of M disjoint parts of the samples")
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="folder for summary.txt, operators.txt and failures.jsonl")
    return parser


def run_all(
    check: Callable[..., Sequence[SampleResult]], calls: Sequence[tuple[Any, ...]], options: Any, more: Summary = lambda _: ""
) -> None:
    """Calls ``check`` in processes, each call for one operator, whose name comes first; prints and writes what was found."""
    start, outcomes = time.monotonic(), list[SampleResult]()
    with ProcessPoolExecutor(options.processes) as pool:
        tasks = {pool.submit(check, *call): call[0] for call in calls}
        for done, task in enumerate(as_completed(tasks), 1):
            with contextlib.suppress(Exception):
                task.exception() and outcomes.append(SampleResult(f"{tasks[task]}/process/0", "crash", repr(task.exception())))
                outcomes.extend(task.result())
            if done % 50 == 0:
                seconds = time.monotonic() - start
                print(f"{done} of {len(calls)} operators, {len(outcomes)} samples, {seconds:.0f} s", flush=True)
    text = summary(outcomes) + more(outcomes) + f"\n{time.monotonic() - start:.0f} s"
    print(text)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "summary.txt").write_text(text + "\n")
        (options.out / "operators.txt").write_text(by_operator(outcomes) + "\n")
        with (options.out / "failures.jsonl").open("w") as file:
            file.writelines(json.dumps(asdict(o)) + "\n" for o in outcomes if o.stage != "ok")


if __name__ == "__main__":
    main()
