"""The page about a compilation: what it says is what the compiler did, and text of the user stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

import fxc
from fxc.api import pipeline_for, with_machine
from fxc.compilation.passes import Passes
from fxc.errors import FallbackWarning, InputError, PipelineError
from fxc.options import Options
from fxc.passes.plan.plan_memory import MEMORY
from fxc.pipelines import INFERENCE
from fxc.report.kernels import kernels, library_calls
from fxc.report.memory import timelines
from fxc.report.module_graphs import ModuleGraph, module_graph
from fxc.report.page import Edit, Texts, page
from fxc.report.recording import Recording, record
from fxc.runtime.units import bytes_text, duration
from fxc.tools.fxc import run
from tests.models.zoo import ZOO, load


def recorded(model: Any, args: tuple[Any, ...], **options: Any) -> Recording:
    program = fxc.capture(model, args)
    chosen = with_machine(Options(**options), INFERENCE, program)
    return record(program, Passes(pipeline_for(INFERENCE, chosen), chosen))


def applied(before: list[int], edits: list[Edit]) -> list[int]:
    after = before.copy()
    for start, removed, added in edits:
        after[start : start + removed] = added
    return after


LINES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12)


@pytest.mark.slow
@given(st.lists(LINES, min_size=1, max_size=5))
def test_edits_give_each_version(versions: list[list[str]]) -> None:
    texts = Texts()
    edits = texts.edits(["\n".join(lines) + "\n" for lines in versions])
    table, now = texts.lines(), list[int]()
    assert len(table) == len(set(table))
    for lines, change in zip(versions, edits, strict=True):
        now = applied(now, change)
        assert [table[number] for number in now] == lines


def test_a_pass_that_changes_nothing_has_no_edits() -> None:
    assert Texts().edits(["a\nb\n", "a\nb\n", "b\n"])[1:] == [[], [(0, 1, [])]]


def data_of(text: str) -> dict[str, Any]:
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_the_page_has_each_pass_and_the_ir_after_it() -> None:
    model, args = load("mlp")
    recording = recorded(model, args)
    data, now = data_of(page("mlp", recording, {})), list[int]()
    assert [run.name for run in recording.runs][-1] == "merge-kernels"
    assert len(recording.texts) == len(recording.runs) + 1 == len(data["edits"])
    for text, edits in zip(recording.texts, data["edits"], strict=True):
        now = applied(now, edits)
        assert [data["lines"][number] for number in now] == text.rstrip("\n").split("\n")
    assert recording.texts[-1] == str(fxc.compile(model, args, options={"cache_plans": False}).ir)


def test_recording_leaves_the_captured_program() -> None:
    program = fxc.capture(*load("mlp"))
    before = str(program)
    record(program, Passes("lower-to-torch,canonicalize", Options()))
    assert str(program) == before


class Checked(HTMLParser):
    """Fails where tags are not nested, and collects their names and the text."""

    VOID = frozenset({"meta", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open, self.tags, self.text = list[str](), set[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Checked:
    checked = Checked()
    checked.feed(text)
    assert not checked.open
    return checked


HOSTILE = '</script><img src=x onerror="alert(1)">'


class Hostile(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add_module(HOSTILE.replace(".", ""), torch.nn.Linear(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.children():
            x = torch.relu(layer(x)) * 2.0 + x.sum(1, keepdim=True)  # </script><img src=x onerror="alert(1)">
        return x


@pytest.mark.parametrize("target", ["auto", "cuda:sm_90"])
def test_text_of_the_user_is_escaped(target: str) -> None:
    recording = recorded(Hostile(), (torch.randn(2, 3),), target=target)
    text = page(HOSTILE, recording, {})
    found = parsed(text)
    assert "img" not in found.tags
    assert text.count("<script") == text.count("</script>") == 2
    assert HOSTILE in "".join(found.text)


def test_the_page_loads_nothing() -> None:
    text = page("mlp", recorded(*load("mlp")), {})
    assert "default-src 'none'" in text
    assert not re.findall(r"(?:src|href)=\"(?!#)", text)
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"] * text.count("http://")


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", ZOO)
def test_memory_equals_what_the_pass_computes(name: str) -> None:
    module = fxc.compile(*load(name)).ir.module
    for timeline in timelines(module):
        assert timeline.peak == planned(module, timeline.function)["lower_bound"]
        assert timeline.allocated == planned(module, timeline.function)["peak"]
        assert sum(each.bytes for each in timeline.at_peak) == timeline.peak


def planned(module: ModuleOp, name: str) -> dict[str, int]:
    [function] = [op for op in module.walk() if isinstance(op, FuncOp) and op.sym_name.data == name]
    facts = function.attributes[MEMORY]
    assert isinstance(facts, DictionaryAttr)
    return {key: value.value.data for key, value in facts.data.items() if isinstance(value, IntegerAttr)}


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["gpt2", "convnext", "layers"])
def test_launches_are_those_of_a_call(name: str, training: bool) -> None:
    layers = torch.nn.Sequential(*[layer for _ in range(30) for layer in (torch.nn.Linear(8, 8), torch.nn.GELU())])
    model, args = (layers, (torch.randn(4, 8),)) if name == "layers" else load(name)
    compiled = fxc.compile(model, args, training=training, options={"target": "host"})
    assert sum(kernel.launches for kernel in kernels(compiled.ir.module)) == compiled.plan.stats.launches > 0
    calls = sum(each.count for each in library_calls(compiled.ir.module))
    assert 0 < calls <= compiled.plan.stats.library_calls  # which counts views


def test_memory_of_free_sizes_is_not_claimed() -> None:
    compiled = fxc.compile(torch.nn.GELU(), (torch.randn(4, 3),), dynamic_shapes={"input": {0: torch.export.Dim("n")}})
    assert [each.is_known for each in timelines(compiled.ir.module)] == [False]


def test_sizes_of_inputs_are_in_no_module() -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(x.shape[0], -1) + x.new_ones(x.shape[0], 1)

    program = fxc.capture(Rows(), (torch.randn(4, 3, 2),), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert "sym_size" in str(program) and not module_graph(program.main).inner


def test_without_kernels_no_kernel_is_called_unprofitable() -> None:
    compiled = fxc.compile(lambda x: torch.softmax(x, 0) + 1, (torch.randn(3),), options={"target": None})
    reasons = {each.why for each in library_calls(compiled.ir.module)}
    assert reasons == {"there is no target, so no kernels were made"}


def test_the_command_refuses_what_would_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "import torch\n\n\ndef model():\n    return torch.nn.ReLU(), (torch.randn(3),)\n"
    Path("model.py").write_text(source, encoding="utf-8")
    for target, message in (("model.py", "is the source itself"), ("missing/page.html", "cannot write missing/page.html")):
        code, _, err = run(["report", "model.py:model", "--html", target], "")
        assert code == 1 and message in err
    assert Path("model.py").read_text(encoding="utf-8") == source
    code, _, err = run(["report", "model.py:model"], "")
    assert code == 2 and "is no IR file: compile it with --html FILE" in err
    code, _, err = run(["report", "plan.zip", "--html", "page.html"], "")
    assert code == 1 and "is a saved plan" in err
    code, out, _ = run(["report", "model.py:model", "--html", "-"], "")
    assert code == 0 and out.startswith("<!doctype html>")


def test_calls_say_why() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x @ w).t() + torch.rand_like(x)

    found = library_calls(fxc.compile(function, (torch.eye(3), torch.eye(3))).ir.module)
    reasons = {each.operator: (each.count, each.why, [*each.lines]) for each in found}
    assert reasons["aten.rand_like.default"][1].startswith("random numbers are PyTorch's")
    [product] = [each for name, each in reasons.items() if name.startswith("aten.m")]
    assert product[:2] == (1, "matrix products and convolutions are kernels only where these measured faster")
    [inverse] = [each for name, each in reasons.items() if "inv" in name]
    assert inverse[1] == "kernels have no formula for it"
    assert "return torch.linalg.inv(x @ w).t() + torch.rand_like(x)" in inverse[2][0]
    assert not any(name.startswith("aten.t.") for name in reasons)  # a view


def test_what_may_be_a_copy_is_listed_as_that() -> None:
    found = library_calls(
        fxc.compile(lambda x, w: (x @ w).t().flatten() @ w[0], (torch.ones(1, 3), torch.ones(3, 3))).ir.module
    )
    assert "a view where the layout allows one, else a copy" in {each.why for each in found if "flatten" in each.operator}


def graphs(graph: ModuleGraph) -> Iterator[ModuleGraph]:
    yield graph
    for inner in graph.inner.values():
        yield from graphs(inner)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", ZOO)
def test_each_operation_is_drawn_once_in_its_module(name: str) -> None:
    main = fxc.capture(*load(name)).main
    found = list(graphs(module_graph(main)))
    nodes = [node for each in found for node in each.view.nodes if node.kind in ("op", "output")]
    drawn = sum(not node.lines[0].startswith("%") for node in nodes)
    assert drawn == len(list(main.body.block.ops)) == found[0].ops
    for graph in found:
        names = {node.id for node in graph.view.nodes}
        assert all(edge.source in names and edge.target in names for edge in graph.view.edges)
        read = {edge.target for edge in graph.view.edges} | {edge.source for edge in graph.view.edges}
        assert len(names) == 1 or all(node.id in read or node.kind in ("op", "input") for node in graph.view.nodes)


def test_modules_of_modules() -> None:
    graph = module_graph(fxc.capture(*load("gpt2")).main)
    block = graph.inner["blocks"].inner["blocks.0"]
    assert (block.type, graph.inner["blocks"].type) == ("Block", "Sequential")
    assert [node.lines[0] for node in block.view.nodes if node.kind == "module"][:2] == ["blocks.0.norm1", "blocks.0.attention"]
    assert [node.lines[0] for node in block.view.nodes if node.kind == "output"] == ["%add_2"]


ROUTES = {
    "inference": {},
    "training": {"training": True, "options": {"target": "host"}},
    "frozen": {"options": {"freeze": True}},
    "operators": {"options": {"target": None}},
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ROUTES)
def test_a_compiled_model_writes_its_page(how: str, tmp_path: Path) -> None:
    model, args = load("mlp")
    for _ in range(2):  # compiled, and from the cache
        compiled = fxc.compile(model, args, **ROUTES[how])
        compiled.report(tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        parsed(text)
        assert f"<h1>{type(model).__name__}</h1>" in text
        assert ("No kernel was made" in text) == (compiled.plan.stats.launches == 0)
    torch.testing.assert_close(compiled(*args), model(*args))


def test_a_plan_from_a_file_has_no_page(tmp_path: Path) -> None:
    fxc.compile(*load("mlp")).plan.save(tmp_path / "plan.zip")
    with pytest.raises(PipelineError, match=r"this plan has no captured program to report on\n  hint: .*fxc report model.py"):
        fxc.ExecutionPlan.load(tmp_path / "plan.zip").report(tmp_path / "report.html")


def test_a_model_in_parts_has_no_page(tmp_path: Path) -> None:
    with pytest.warns(FallbackWarning):
        compiled = fxc.compile(lambda x: x + 1 if x.sum() > 0 else x, (torch.ones(3),), options={"fallback": True})
    with pytest.raises(PipelineError, match=r"a model that runs in parts has no page: .*\n  at: .*test_report.py"):
        compiled.report(tmp_path / "report.html")


def double(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).relu() * 2


def test_operations_of_a_branch_have_the_line_of_the_user() -> None:
    recording = recorded(lambda x: torch.cond(x.sum() > 0, double, torch.neg, (x,)), (torch.ones(3, 3),))
    remarks = [remark for remark in recording.remarks if "matmul" in remark]
    assert remarks and all("test_report.py" in each and "eval_with_key" not in each for each in remarks)


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    compiled = fxc.compile(*load("mlp"))
    with pytest.raises(InputError, match=r"cannot write .*report.html: No such file or directory"):
        compiled.report(tmp_path / "missing" / "report.html")


def test_units() -> None:
    sizes = 1023, 1536, 5 << 20, 3 << 30
    assert [bytes_text(each) for each in sizes] == ["1023 bytes", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
    assert [duration(t) for t in (0.04, 9.96, 340, 1250)] == ["0.0 ms", "10.0 ms", "340 ms", "1.25 s"]
