"""``benchmarks/cpu.py``: statistics and tables of made-up results, and every model and kernel eagerly at a small size."""

from __future__ import annotations

import json
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
cpu, interleaved, tables, sections = map(import_module, ("cpu", "interleaved", "cpu_tables", "cpu_sections"))
items, kernels, models, rows = map(import_module, ("cpu_item", "cpu_kernels", "cpu_models", "cpu_rows"))
ways = import_module("cpu_implementations")
library = import_module("library_time")
Row, Item = rows.Row, rows.Item


def row(name: str, times: dict[str, list[float]], **others: Any) -> Any:
    return Row({"model": name, "type": "float32", "threads": 1}, times, **others)


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


def test_table_of_ratios() -> None:
    text = tables.ratios(ROWS, [("fxc", "eager")], "eager", 1e3, "ms").splitlines()
    assert text == [
        "| model | type | threads | eager, ms | fxc / eager |",
        "| --- | --- | --- | --- | --- |",
        "| a | float32 | 1 | 4000 | 0.25 (0.25 to 0.38) |",
        "| b | float32 | 1 | 1000 | 4.00 (2.50 to 6.50) |",
        "| c | float32 | 1 | 1000 | failed |",
    ]


def test_summary_has_mean_worst_and_failures() -> None:
    text = tables.summary(ROWS, [("fxc", "eager"), ("Inductor", "eager")], ["type"]).splitlines()
    assert text[2:] == [
        "| fxc / eager | float32 | 2 | 1 | 1.00 | 4.00 | b, threads 1 |",
        "| Inductor / eager | float32 | 0 | 3 |  |  |  |",
    ]
    assert tables.summary([], [("fxc", "eager")], ["type"]) == tables.NOT_MEASURED


def test_values_of_a_label_as_columns() -> None:
    found = [
        Row({"kernel": name, "elements": size}, {"fxc": [size * 2.0], "eager": [float(size)]})
        for name, size in [("gelu", 10), ("gelu", 9), ("sum", 1000)]
    ]
    assert tables.across(found, "elements", ("fxc", "eager")).splitlines() == [
        "| kernel | 9 | 10 | 1,000 |",
        "| --- | --- | --- | --- |",
        "| gelu | 2.00 (2.00 to 2.00) | 2.00 (2.00 to 2.00) |  |",
        "| sum |  |  | 2.00 (2.00 to 2.00) |",
    ]


def test_facts_become_ratios() -> None:
    found = [Row({"model": "a", "type": "float32"}, facts={"peak MB": {"fxc": 3.0, "eager": 2.0, "Inductor": 0.0}})]
    text = tables.summary(tables.facts_as_times(found, "peak MB"), [("fxc", "eager"), ("fxc", "Inductor")], ("type",))
    assert [line.split(" | ")[1:6] for line in text.splitlines()[2:]] == [
        ["float32", "1", "0", "1.50", "1.50"],
        ["float32", "0", "1", "", ""],
    ]


def test_the_better_of_two_ways_round_by_round() -> None:
    [found] = tables.with_better([row("a", {"eager": [2.0, 4.0], "Inductor": [3.0, 1.0]})], ("eager", "Inductor"))
    assert found.times["better of eager and Inductor"] == [2.0, 1.0]
    assert tables.with_better(ROWS, ("eager", "Inductor")) == ROWS


def test_largest_facts() -> None:
    found = [row("a", {}, facts={"error": {"fxc": 1.0, "eager": 5.0}}), row("a", {}, facts={"error": {"fxc": 3.0}})]
    text = tables.largest_facts(found, "error", ["model"], "{:.1f}".format).splitlines()
    assert text == ["| model | fxc | eager |", "| --- | --- | --- |", "| a | 3.0 | 5.0 |"]
    assert tables.facts(found, "peak MB", str) == tables.NOT_MEASURED


def test_growth_adds_up_small_stages_and_has_exponents() -> None:
    found = [
        Row(
            {"layers": n}, {"capture": [n * 1.0], "cse": [n * 1e-3], "dce": [n * 2e-3], "tile": [n**2.0], "total": [n + n**2.0]}
        )
        for n in (1, 12, 48)
    ]
    assert sections.growth_text(found).splitlines() == [
        "| stage, ms | 1 layers | 12 layers | 48 layers | exponent |",
        "| --- | --- | --- | --- | --- |",
        "| capture | 1000 | 12000 | 48000 | 1.00 |",
        "| tile | 1000 | 144000 | 2304000 | 2.00 |",
        "| others | 3 | 36 | 144 | 1.00 |",
        "| total | 2000 | 156000 | 2352000 | 1.96 |",
    ]


def test_a_section_of_a_page_is_replaced_and_nothing_else() -> None:
    page = "before\n<!-- a -->\nold\n<!-- end of a -->\nbetween\n<!-- b -->\nkept\n<!-- end of b -->\n"
    changed = tables.with_section(page, "a", "new \\1 text\n")
    assert changed == page.replace("old", "new \\1 text")
    assert tables.with_section(changed, "a", "new \\1 text") == changed
    with pytest.raises(ValueError, match="<!-- c -->"):
        tables.with_section(page, "c", "text")
    with pytest.raises(ValueError, match="once"):
        tables.with_section(page + page, "a", "text")


def test_the_page_has_all_sections() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for name in sections.SECTIONS:
        tables.with_section(page, name, "")


@pytest.mark.parametrize("name", sections.SECTIONS)
def test_keys_tell_items_apart(name: str) -> None:
    section = sections.SECTIONS[name]
    keys = [item.key for item in section.items]
    assert len(set(keys)) == len(keys)
    assert {item.key for item in section.quick} <= set(keys)


def test_results_become_the_page(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text("# Page\n<!-- calls -->\nNot measured yet.\n<!-- end of calls -->\n")
    [first, second] = sections.SECTIONS["calls"].items
    found = Row({"function": first.name}, {"eager": [2e-6] * 3, "fxc": [1e-6] * 3}, {"Inductor": "RuntimeError: no"})
    cpu.write(
        results, {second.key: {"rows": [], "error": "ended with -11: gone"}, first.key: {"rows": [vars(found)], "error": ""}}
    )
    arguments = ["--sections", "calls", "--no-run", "--write", "--results", str(results), "--page", str(page)]
    done = CliRunner().invoke(cpu.main, arguments)
    assert done.exit_code == 0, done.output
    text = page.read_text()
    assert "| one kernel of 64 elements | 2.00 | 1.00 |" in text
    assert "| one kernel of 64 elements | 2 | 0.50 (0.50 to 0.50) | failed | failed |" in text
    assert "Inductor: RuntimeError: no" in text and f"{second.key}: ended with -11: gone" in text
    assert cpu.machine() in text and text.endswith("<!-- end of calls -->\n")
    results.write_text(json.dumps({"machine": "another", "items": {}}))
    assert "choose other --results" in CliRunner().invoke(cpu.main, arguments).output
    assert "no section speed" in CliRunner().invoke(cpu.main, ["--sections", "speed"]).output


def test_what_fails_does_not_lose_the_rest() -> None:
    def broken(model: Any, inputs: Any) -> Any:
        raise NotImplementedError("not on\na Sunday")

    found = row("a", {})
    runs = items.made({"eager": lambda model, inputs: model, "fxc": broken}, torch.neg, (torch.ones(2),), found)
    assert list(runs) == ["eager"] and found.failed == {"fxc": "NotImplementedError: not on"}


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", models.MODELS)
def test_models_run(name: str, dtype: torch.dtype) -> None:
    case = models.MODELS[name]
    model = case.model(dtype, tiny=True)
    for batch in sections.BATCHES:
        with torch.no_grad():
            first, *_ = tree_leaves(model(*case.inputs(batch, dtype, tiny=True)))
        assert first.dtype == dtype and first.size(0) == batch and first.isfinite().all()


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
