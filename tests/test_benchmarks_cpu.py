"""``benchmarks/cpu.py``: statistics and files of made-up results, and every model and kernel eagerly at a small size."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.utils._pytree import tree_leaves

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))
cpu, interleaved, results, sections = map(import_module, ("cpu", "interleaved", "results", "cpu_sections"))
items, kernels, models, rows = map(import_module, ("cpu_item", "cpu_kernels", "cpu_models", "cpu_rows"))
ways = import_module("cpu_implementations")
library = import_module("library_time")
Row, Item, Measurement = rows.Row, rows.Item, results.Measurement


def row(name: str, times: dict[str, list[float]], **others: Any) -> Any:
    return Row({"model": name, "type": "float32", "threads": "1"}, times, **others)


ROWS = [
    row("a", {"eager": [2.0, 4.0, 8.0], "fxc": [1.0, 1.0, 2.0]}),  # ratios .5, .25, .25
    row("b", {"eager": [1.0, 1.0, 1.0], "fxc": [1.0, 4.0, 9.0]}),  # 1, 4, 9
    row("c", {"eager": [1.0, 1.0, 1.0]}, failed={"fxc": "KernelError: no"}),
]


def test_ratios_are_taken_round_by_round() -> None:
    times = {"ours": [1.0, 20.0, 3.0, 4.0, 5.0], "theirs": [1.0, 10.0, 1.0, 1.0, 1.0]}
    found = interleaved.ratio(times, "ours", "theirs")
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)  # of 1, 2, 3, 4, 5
    assert interleaved.ratio(times, "ours", "nobody") is None
    assert interleaved.ratio({"a": [3.0, 1.0], "b": [2.0]}, "a", "b").median == 1.5


def test_spread_and_geometric_mean() -> None:
    assert interleaved.Spread.of([7.0]) == interleaved.Spread(7.0, 7.0, 7.0)
    assert interleaved.geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
    assert interleaved.geometric_mean([1.0, 8.0]) == pytest.approx(8**0.5)


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c", "d", "e"]])
def test_every_name_comes_first_and_follows_others(names: list[str]) -> None:
    orders = [interleaved.order(names, index) for index in range(2 * len(names))]
    assert all(sorted(order) == names for order in orders)
    assert {order[0] for order in orders} == set(names)
    assert {order[-1] for order in orders} == set(names)
    before = {order[order.index("a") - 1] for order in orders if order[0] != "a"}
    assert len(before) == min(2, len(names) - 1)


def test_turns_are_taken_in_each_round() -> None:
    called: list[str] = []

    def call(name: str) -> Callable[[], None]:
        return lambda: called.append(name)

    times = interleaved.by_turns({"a": call("a"), "b": call("b")}, rounds=6, seconds=0.0)
    assert {name: len(found) for name, found in times.items()} == {"a": interleaved.LEAST_ROUNDS, "b": interleaved.LEAST_ROUNDS}
    assert called.count("a") == called.count("b")
    assert re.match("aabb(a+)(b+)(b*)(a+)", "".join(called))


def test_a_row_gives_times_ratios_facts_and_failures() -> None:
    first, _, third = ROWS
    found = row("a", first.times, facts={"error, epsilons": {"fxc": 0.5}}).measurements("ms", [("fxc", "eager"), ("fxc", "it")])
    assert [(each.quantity, each.implementation, each.baseline, each.value) for each in found] == [
        ("time, ms", "eager", "", 4000.0),
        ("time, ms", "fxc", "", 1000.0),
        ("time", "fxc", "eager", 0.25),
        ("error, epsilons", "fxc", "", 0.5),
    ]
    assert (found[2].low, found[2].high) == (0.25, 0.375)
    *_, failed = third.measurements("s", [("fxc", "eager")])
    assert (failed.quantity, failed.implementation, failed.note) == ("failed", "fxc", "KernelError: no")


def measurement(name: str, quantity: str, value: float, baseline: str = "", model: str = "a") -> Any:
    return Measurement({"model": model}, quantity, name, value, baseline=baseline)


def test_ratios_are_those_taken_or_quotients() -> None:
    found = [
        measurement("fxc", "time", 0.5, "eager"),
        measurement("fxc", "time, ms", 7.0),
        measurement("eager", "time, ms", 10.0),
        measurement("Inductor", "time", 0.25, "eager"),
        measurement("fxc", "peak memory, MB", 6.0),
        measurement("eager", "peak memory, MB", 4.0),
        measurement("Inductor", "peak memory, MB", 0.0),
    ]
    assert results.ratios(found, "time", "fxc", "eager") == {("a",): 0.5}
    assert results.ratios(found, "time", "fxc", "Inductor") == {("a",): 2.0}
    assert results.ratios(found, "peak memory", "fxc", "eager") == {("a",): 1.5}
    assert results.ratios(found, "peak memory", "fxc", "Inductor") == {}


def test_summary_has_mean_and_worst() -> None:
    found = results.Summary.of({("a", "1"): 0.25, ("b", "1"): 4.0})
    assert (found.rows, found.mean, found.worst, found.where) == (2, pytest.approx(1.0), 4.0, ("b", "1"))


def test_the_better_of_two_ways_round_by_round() -> None:
    found = rows.with_better(row("a", {"eager": [2.0, 4.0], "Inductor": [3.0, 1.0]}), ("eager", "Inductor"))
    assert found.times["better of eager and Inductor"] == [2.0, 1.0]
    assert [rows.with_better(each, ("eager", "Inductor")) for each in ROWS] == ROWS
    assert rows.with_better(ROWS[0], ()) is ROWS[0]


@pytest.mark.parametrize("name", sections.SECTIONS)
def test_keys_tell_items_apart(name: str) -> None:
    section = sections.SECTIONS[name]
    keys = [tuple(item.labels.values()) for item in section.items]
    assert len(set(keys)) == len(keys)
    assert {tuple(item.labels.values()) for item in section.quick} <= set(keys)


def test_a_run_is_continued_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = list[str]()

    def measured(item: Any) -> list[Any]:
        ran.append(item.name)
        if len(ran) == 1:
            return [Measurement(item.labels, "failed", "", note="ended with -11: gone")]
        return cpu.measurements(item, [{"labels": item.labels, "times": {"eager": [2e-6] * 3, "fxc": [1e-6] * 3}}])

    monkeypatch.setattr(cpu, "measured", measured)
    arguments = ["--sections", "calls", "--missing", "--folder", str(tmp_path)]
    for _ in range(3):
        done = CliRunner().invoke(cpu.main, arguments)
        assert done.exit_code == 0, done.output
    first, second = sections.CALLED
    assert ran == [first, second, first]
    assert "fxc / eager: geometric mean of 2 0.50, worst 0.50" in done.output
    [name] = results.machines(tmp_path)
    lines = (tmp_path / f"{name}.csv").read_text().splitlines()
    assert lines[0] == "function,quantity,implementation,baseline,value,low,high,note"
    assert f'{first},"time, us",eager,,2,2,2,' in lines and f"{second},time,fxc,eager,0.5,0.5,0.5," in lines
    found = results.read(name, tmp_path)
    results.write(name, found, {**results.about("another"), "notes": "kept"}, tmp_path)
    assert results.read(name, tmp_path) == found
    assert "choose another --folder" in CliRunner().invoke(cpu.main, arguments).output
    assert "no section speed" in CliRunner().invoke(cpu.main, ["--sections", "speed"]).output


def test_a_process_that_ends_early_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "HERE", Path("/nowhere"))
    [found] = cpu.measured(Item("calls", "one kernel of 64 elements"))
    assert (found.quantity, found.implementation) == ("failed", "") and found.note.startswith("ended with 2: ")


def test_what_fails_does_not_lose_the_rest() -> None:
    def broken(model: Any, inputs: Any) -> Any:
        raise NotImplementedError("not on\na Sunday")

    found = row("a", {})
    runs = items.made({"eager": lambda model, inputs: model, "fxc": broken}, torch.neg, (torch.ones(2),), found)
    assert list(runs) == ["eager"] and found.failed == {"fxc": "NotImplementedError: not on"}


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", models.TRAINING)
def test_gradients_are_those_in_float64(name: str) -> None:
    case = models.TRAINING[name]
    model, inputs = case.model(tiny=True), case.inputs(4, tiny=True)
    run, twin = ways.ours_training(model, inputs), deepcopy(model).double()
    exact = items.gradients_of(twin, twin, items.in_float64(inputs))
    assert items.difference(items.gradients_of(run, model, inputs), exact) < 1e-4


def test_wrong_results_are_failures() -> None:
    found, runs = row("a", {}), {"eager": torch.neg, "fxc": torch.sin, "Inductor": torch.cos}
    kept = items.right(runs, {"eager": 0.0, "fxc": float("nan"), "Inductor": 0.3}, found, items.BOUNDS["float32"])
    assert kept == {"eager": torch.neg} and found.failed == {"fxc": "is off by nan", "Inductor": "is off by 0.3"}


def test_difference_is_a_share_of_the_largest_element() -> None:
    expected = (torch.tensor([1.0, -10.0]), {"k": torch.tensor([4])})
    assert items.difference(expected, expected) == 0.0
    assert items.difference((torch.tensor([1.0, -9.0]), {"k": torch.tensor([3])}), expected) == pytest.approx(0.25)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", models.MODELS)
def test_models_run(name: str, dtype: torch.dtype) -> None:
    case = models.MODELS[name]
    model = case.model(dtype, tiny=True)
    for batch in sections.BATCHES:
        with torch.no_grad():
            first, *_ = tree_leaves(model(*case.inputs(batch, dtype, tiny=True)))
        assert first.dtype == dtype and first.size(0) == batch and first.isfinite().all()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", models.TRAINING)
def test_training_steps_run(name: str) -> None:
    case = models.TRAINING[name]
    found = items.gradients_of(model := case.model(tiny=True), model, case.inputs(2, tiny=True))
    assert model.training and all(gradient is not None and gradient.isfinite().all() for gradient in found)


def test_decoding_continues_the_prefill() -> None:
    model = models.MODELS["GPT-2 prefill"].model(tiny=True)
    [ids] = models.MODELS["GPT-2 prefill"].inputs(2, tiny=True)
    decode = models.Decode(model)
    cache = tuple((torch.empty(2, 4, 0, 6), torch.empty(2, 4, 0, 6)) for _ in range(2))
    with torch.no_grad():
        for i in range(ids.size(1)):
            logits, cache = decode(ids[:, i : i + 1], cache)
            torch.testing.assert_close(logits, model(ids)[:, i : i + 1])


@pytest.mark.share(3)
@pytest.mark.parametrize("sliced", [False, True], ids=["aligned", "sliced"])
@pytest.mark.parametrize("name", kernels.KERNELS)
def test_kernels_run(name: str, sliced: bool) -> None:
    case = kernels.KERNELS[name]
    inputs = case.inputs(kernels.SIZES[0], torch.bfloat16, sliced=sliced)
    floats = [tensor for tensor in inputs if tensor.is_floating_point()]
    assert all((tensor.data_ptr() % 64 != 0) == sliced for tensor in floats)
    assert floats[0].is_contiguous() != sliced and 500 <= floats[0].numel() <= 2000
    exact = case.function(*items.in_float64(inputs))
    assert 0 <= kernels.error(case.function(*inputs), exact) < 8


def test_error_is_in_epsilons_of_the_largest() -> None:
    exact = torch.tensor([4.0, 1.0], dtype=torch.float64)
    result = (exact + torch.tensor([0.0, 8 * torch.finfo(torch.float32).eps])).float()
    assert kernels.error(result, exact) == pytest.approx(2.0)


def test_sizes_have_shapes() -> None:
    assert all(rows * columns == size and rows % kernels.MIDDLE == 0 for size, (rows, columns) in kernels.SHAPES.items())
    assert tuple(kernels.SHAPES) == kernels.SIZES


def test_time_in_libraries_is_of_the_outermost_operators() -> None:
    x = torch.randn(256, 256)
    linear = torch.nn.Linear(256, 256)  # aten::linear, and aten::addmm in it

    assert library.library_share(lambda: torch.exp(x), 2) == 0
    assert 0 < library.library_share(lambda: linear(x) @ x, 50) < 1


def test_time_in_libraries_as_a_row() -> None:
    name, *cells = library.line("MLP", 1, 2)
    assert name == "MLP" and len(cells) == len(library.HEADING) - 1
