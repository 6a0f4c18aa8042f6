"""Models of libraries (``library.py``) through fxc, against eager mode: ``python -m tests.models.status --only bert``.

Each model in inference, training (two steps), inference with free batch and length, and bfloat16, by ``fxc.compile`` and by
``torch.compile``. Each result is written to ``status.csv`` at once, and what is in it is not run again without ``--again``;
then ``docs/reference/models.md`` is written from it.
"""

from __future__ import annotations

import argparse
import copy
import csv
import os
import re
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.export import Dim

import fxc
from fxc.errors import FallbackWarning
from fxc.report.kernels import library_calls
from tests.models.library import ROWS, Row
from tests.recorded_plans import recorded

MODES = ("inference", "training", "dynamic", "bfloat16")
ROUTES = ("fxc.compile", "torch.compile")
LISTED = (MODES[0], ROUTES[0])
"""The cell whose calls are listed with their reasons."""
SIZES = ((3, 9), (2, 7), (5, 12))
"""Batch and length: those of the example; then others, where they are free."""
TOLERANCE, RATIO, SAMPLES = 1e-5, 2, 9
"""Of the largest number of a tensor; of a gradient, of the largest number of all gradients if that is 1,000 times larger. A
tensor that is further from eager's has at most ``RATIO`` times eager's error against float64 in the first sample of inputs, or
else in the median of ``SAMPLES``, as errors of few numbers, and numbers beside 0 before a ReLU, differ by chance. Of several
samples the unit is the worst tensor of eager mode with weights and inputs that differ by a rounding, if that is worse."""

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = Path(__file__).with_name("status.csv"), ROOT / "docs/reference/models.md"


@dataclass(frozen=True)
class Result:
    """``outcome``: ``ok``, ``wrong`` or ``error``. ``difference``: relative to eager's numbers; in half precision the error in
    units of eager's. ``graphs``, ``kernels`` and ``calls`` (of ATen): of all plans. ``breaks``: of Dynamo's graphs."""

    model: str
    mode: str
    route: str
    outcome: str
    difference: float = 0.0
    graphs: int = 0
    breaks: int = 0
    kernels: int = 0
    calls: int = 0
    seconds: float = 0.0
    library: str = ""
    date: str = ""
    why: str = ""
    """In one cell why operators are calls, with their number; then errors, and why a graph breaks or there are parts."""


def check(row: Row, mode: str, route: str) -> Result:
    """One model in one mode by one route."""
    start, reasons, difference, outcome = time.monotonic(), list[str](), 0.0, "ok"
    counters.clear()
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as caught, recorded() as plans:
        warnings.simplefilter("always")
        try:
            difference, ratio = _difference(row, mode, route)
            if not (difference <= TOLERANCE or ratio <= RATIO):
                outcome = "wrong"
            elif difference > TOLERANCE and mode != "bfloat16":
                reasons.append(f"{ratio:.2g} times eager's error against float64")
            difference = ratio if mode == "bfloat16" else difference
        except Exception as error:
            outcome = "error"
            reasons.append(f"{type(error).__name__}: {_line(str(getattr(error, 'inner_exception', error)))}")
        reasons += [_line(str(each.message)) for each in caught if issubclass(each.category, FallbackWarning)]
        breaks = counters["graph_break"]
        reasons += [_line(reason) for reason in breaks]
        calls = Counter[str]()
        for plan in plans:
            calls.update({f"{each.operator}, {each.why}": each.count for each in library_calls(plan.ir.module)})
        listed = [f"{count} {what}" for what, count in calls.most_common()]
        return Result(
            row.name, mode, route, outcome, float(f"{difference:.1g}"), len(plans), sum(breaks.values()),
            sum(plan.stats.launches for plan in plans), calls.total(), round(time.monotonic() - start, 1),
            f"{row.library} {version(row.library)}, torch {torch.__version__}", f"{datetime.now(UTC):%Y-%m-%d}",
            "; ".join([*(listed if (mode, route) == LISTED else ()), *dict.fromkeys(reasons)]),
        )  # fmt: skip


def _line(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())[:300].replace(";", ",")


def _difference(row: Row, mode: str, route: str) -> tuple[float, float]:
    """The distance from eager's numbers; and where that is too large the error in units of eager's, of the worst tensor."""
    dtype = torch.bfloat16 if mode == "bfloat16" else torch.float32
    model = made(row, dtype)
    twin, training = copy.deepcopy(model), mode == "training"
    examples = _examples(row, mode, dtype)
    free = _free(examples, Dim.AUTO if row.loops else Dim.DYNAMIC) if mode == "dynamic" else None
    model.train(training)
    twin.train(training)
    if route == "fxc.compile":
        options = {"recompile": row.loops}
        compiled = fxc.compile(model, (), examples[0], training=training, dynamic_shapes=free, options=options)
    else:
        compiled = _marked(torch.compile(model, backend="fxc"), free or {})
    run, start, exact = trained if training else inferred, copy.deepcopy(twin.state_dict()), copy.deepcopy(model).double()
    if hasattr(exact, "set_experts_implementation"):
        exact.set_experts_implementation("eager")  # the product of grouped matrices takes no float64
    actual, expected = run(compiled, model, examples), run(twin, twin, examples)
    difference = max(map(distances, actual, expected))
    if difference <= TOLERANCE:
        return difference, 1.0
    found, rounded = list[Errors](), list[Errors]()
    for sample in range(SAMPLES):
        if sample:
            torch.manual_seed(sample)
            examples = _examples(row, mode, dtype)
            for each in (model, twin, exact):
                each.load_state_dict(start)
            actual, expected = run(compiled, model, examples), run(twin, twin, examples)
        wide = run(exact, exact, [{name: _wide(value) for name, value in each.items()} for each in examples])
        found.append(_all_errors(actual, expected, wide))
        if not sample and _worst(found) <= RATIO:
            break
        twin.load_state_dict(start)
        with torch.no_grad():
            for value in twin.parameters():
                value.copy_(_rounded(value))
        nearby = run(twin, twin, [{name: _rounded(value) for name, value in each.items()} for each in examples])
        rounded.append(_all_errors(nearby, expected, wide))
    return difference, _worst(found) / max(1.0, _worst(rounded) if rounded else 1.0)


def _examples(row: Row, mode: str, dtype: torch.dtype) -> list[dict[str, Any]]:
    return [called(row, size, mode == "training", dtype) for size in (SIZES if mode == "dynamic" else SIZES[:1] * 2)]


def made(row: Row, dtype: torch.dtype) -> nn.Module:
    """The model, always with the same numbers; none of them is 0 or 1 in all of a tensor, where losing one would not show."""
    torch.manual_seed(0)
    model = row.make()
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            if value.is_floating_point() and value.numel() > 1 and bool((value == value.flatten()[0]).all()):
                value.add_(torch.rand(value.shape) * 0.5)
    return model.to(dtype)


def called(row: Row, size: tuple[int, int], training: bool, dtype: torch.dtype) -> dict[str, Any]:
    """Inputs by name."""
    inputs = row.inputs(*size)
    inputs |= row.labels(inputs) if training else {}
    return {name: value.to(dtype) if _is_float(value) else value for name, value in inputs.items()}


def _is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _wide(value: Any) -> Any:
    return value.double() if _is_float(value) else value


def _rounded(value: Any) -> Any:
    """Numbers that may differ by a rounding."""
    return value * (1 + (torch.rand_like(value) - 0.5) * torch.finfo(value.dtype).eps) if _is_float(value) else value


def _free(examples: Sequence[Mapping[str, Any]], how: Any) -> dict[str, Any]:
    """The dimensions whose sizes differ between examples."""
    first, *_, last = examples
    return {
        name: {axis: how for axis, size in enumerate(value.shape) if size != last[name].shape[axis]}
        for name, value in first.items()
    }


def _marked(call: Callable[..., Any], free: Mapping[str, Mapping[int, Any]]) -> Callable[..., Any]:
    """``call`` with these dimensions free: ``dynamic=True`` would free all, where PyTorch traces some models for minutes."""

    def run(**inputs: Any) -> Any:
        for name, axes in free.items():
            torch._dynamo.maybe_mark_dynamic(inputs[name], list(axes))
        return call(**inputs)

    return run


Groups = list[list[Tensor]]


def inferred(call: Callable[..., Any], _: nn.Module, examples: Iterable[Mapping[str, Any]]) -> Groups:
    with torch.no_grad():
        return [list(tensors(call(**each))) for each in examples]


def trained(call: Callable[..., Any], model: nn.Module, examples: Iterable[Mapping[str, Any]]) -> Groups:
    """Results, gradients and buffers of steps of SGD."""
    optimizer, found = torch.optim.SGD(model.parameters(), 0.01), Groups()
    for i, each in enumerate(examples):
        torch.manual_seed(i)
        optimizer.zero_grad()
        result = call(**each)
        loss = getattr(result, "loss", None)
        if loss is None:
            loss = sum(value.float().square().mean() for value in tensors(result) if value.requires_grad)
        loss.backward()
        found += [[value.detach() for value in tensors(result)], [value.clone() for value in model.buffers()]]
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        optimizer.step()
    return found


def tensors(value: Any) -> Iterator[Tensor]:
    """Those of a result: of nestings, and of objects such as caches."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(item)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, nn.Module, torch.dtype, torch.device)):
        yield from tensors(vars(value))


def distances(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """The largest of the distances of tensors; infinite where they cannot be compared."""
    if len(actual) != len(expected):
        return float("inf")
    floor = _floor(expected)
    return max((_distance(a, e, floor) for a, e in zip(actual, expected)), default=0.0)


def _floor(expected: Sequence[Tensor]) -> float:
    return max((_largest(value) for value in expected), default=0.0) * 1e-3


def _distance(actual: Tensor, expected: Tensor, floor: float) -> float:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if not expected.is_floating_point():
        return 0.0 if actual.equal(expected) else float("inf")
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return _largest((actual.double() - expected.double()).masked_fill(same, 0)) / max(_largest(expected), floor, 1e-30)


def _largest(value: Tensor) -> float:
    value = value[value.isfinite()] if value.is_floating_point() else value.new_zeros(0)
    return float(value.abs().max()) if value.numel() else 0.0


Errors = list[tuple[float, float]]
"""Of each tensor, that of ``actual`` and that of ``expected``; the same where these are equal by ``TOLERANCE``."""


def errors(actual: Sequence[Tensor], expected: Sequence[Tensor], exact: Sequence[Tensor]) -> Errors:
    """Against ``exact``; at least that of a rounding, and infinite where tensors cannot be compared."""
    floor, found = _floor(expected), Errors()
    for a, e, x in zip(actual, expected, exact, strict=True):
        distance = _distance(a, e, floor)
        if not e.is_floating_point() or distance == float("inf"):
            found.append((max(distance, 1.0), 1.0))
            continue
        ours, eager, most = (value.double().nan_to_num() for value in (a, e, x))
        rounding = float(most.norm()) * torch.finfo(e.dtype).eps / 4
        error = max(float((eager - most).norm()), rounding, 1e-30)
        found.append((error if distance <= TOLERANCE else float((ours - most).norm()), error))
    return found


def _all_errors(actual: Groups, expected: Groups, exact: Groups) -> Errors:
    return [pair for group in zip(actual, expected, exact, strict=True) for pair in errors(*group)]


def _worst(found: Sequence[Errors]) -> float:
    """Of all tensors the largest ratio of the medians of errors."""
    return max(median(ours) / median(eager) for ours, eager in (zip(*pairs) for pairs in zip(*found, strict=True)))


def read() -> list[Result]:
    if not RESULTS.exists():
        return []
    kinds = {field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(Result)}
    with RESULTS.open(newline="") as file:
        found = [Result(**{name: kinds[name](value) for name, value in each.items()}) for each in csv.DictReader(file)]
    latest = {(each.model, each.mode, each.route): each for each in found}
    order = [(name, mode, route) for name in ROWS for mode in MODES for route in ROUTES]
    return [latest[key] for key in order if key in latest]


def write(results: Iterable[Result], how: str = "w") -> None:
    is_new = how == "w" or not RESULTS.exists()
    with RESULTS.open(how, newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Result)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(map(asdict, results))


def page(results: Sequence[Result]) -> str:
    """The table: a row a model."""
    cells = {(each.model, each.mode, each.route): each for each in results}
    rows = {each.model: each.library.split()[0] for each in results}
    right, whole = [each for each in results if each.outcome == "ok"], [each for each in results if _is_whole(each)]
    libraries = sorted({part for each in results for part in each.library.split(", ")})
    lines = [
        "# Models\n",
        f"{len(rows)} models of libraries, made from small configurations with random weights. {len(right)} of {len(results)}",
        f"runs equal eager mode, {len(whole)} of them as one program: each tensor by 1e-5 of its largest number, or by at most",
        f"{RATIO} times eager's error against float64 in one sample of inputs, or in the median of {SAMPLES}, where eager",
        "mode with weights and inputs that differ by a rounding may be the unit.",
        "A run is a cell by one route, `fxc.compile` or `torch.compile`, named where they differ. Training is two SGD steps;",
        "free sizes are three calls, with a graph for each length where a Python loop runs over it (mamba).",
        f"`python -m tests.models.status` writes this page. {', '.join(libraries)},",
        f"{min(each.date for each in results)} to {max(each.date for each in results)}.\n",
        "| model | library | inference | training | free sizes | bfloat16 | kernels | calls |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, library in rows.items():
        texts = [_cell([cells.get((name, mode, route)) for route in ROUTES]) for mode in MODES]
        counted = cells.get((name, *LISTED))
        lines.append(f"| {name} | {library} | {' | '.join(texts)} | {_counts(counted)} |")
    if others := [each for each in results if each.outcome != "ok" or not _is_whole(each)]:
        lines += ["", "## Not right, or in parts\n"]
    for each in others:
        why = _reasons(each) or f"{each.difference:g}"
        lines.append(f"- {each.model}, {each.mode}, {each.route}: {each.outcome}, {why}")
    lines += ["", "## Calls of ATen, and why\n", "In inference by `fxc.compile`, of all models.\n"]
    lines += ["| operator | calls | models | why |", "|---|---|---|---|"]
    found = defaultdict[tuple[str, str], Counter[str]](Counter)
    for each in results:
        for part in each.why.split("; ") if (each.mode, each.route) == LISTED else ():
            if match := re.fullmatch(r"(\d+) ([\w.]+), (.*)", part):
                found[match[2], match[3]][each.model] += int(match[1])
    for (operator, why), models in sorted(found.items(), key=lambda item: (-item[1].total(), item[0])):
        lines.append(f"| `{operator}` | {models.total()} | {len(models)} | {why} |")
    return "\n".join(lines) + "\n"


def _is_whole(result: Result) -> bool:
    return result.outcome == "ok" and not result.breaks and "only parts of it are compiled" not in result.why


def _reasons(result: Result) -> str:
    return "; ".join(part for part in result.why.split("; ") if not re.match(r"\d+ \w+\.", part))


def _text(result: Result) -> str:
    if result.outcome == "ok" and result.mode == "dynamic" and result.graphs > 1:
        return f"ok in {result.graphs} graphs"
    return "ok in parts" if result.outcome == "ok" and not _is_whole(result) else result.outcome


def _cell(results: Sequence[Result | None]) -> str:
    texts = ["not run" if each is None else _text(each) for each in results]
    return texts[0] if len({*texts}) == 1 else ", ".join(f"{route} {text}" for route, text in zip(ROUTES, texts, strict=True))


def _counts(result: Result | None) -> str:
    return " | " if result is None else f"{result.kernels} | {result.calls}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--mode", default="", choices=("", *MODES))
    parser.add_argument("--again", action="store_true", help="run what has a result, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ |= {"FXC_CACHE_PLANS": "0", "FXC_CACHE_DIR": tempfile.mkdtemp()}
    done = set() if options.again else {(each.model, each.mode, each.route) for each in read()}
    for row in (row for name, row in ROWS.items() if options.only in name):
        for mode in (mode for mode in MODES if options.mode in mode):
            for route in (route for route in ROUTES if (row.name, mode, route) not in done):
                result = check(row, mode, route)
                write([result], "a")
                print(
                    *(asdict(result)[key] for key in ("model", "mode", "route", "outcome", "difference", "seconds")), flush=True
                )
    write(read())
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(read()))


if __name__ == "__main__":
    main()
