"""Errors end with what to do next: each error that a user can cause has a hint."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.fx import symbolic_trace

import fxc
from fxc import errors
from fxc.bridge.callables import check_attribute, check_method, resolve_higher_order
from fxc.driver.registry import PassRegistry
from fxc.errors import FxcError, nearest_file
from fxc.pipelines import parse_pipeline
from fxc.program.weights import load_state, save_state
from fxc.tools.fxc import run

ROOT = Path(__file__).parent.parent
KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, FxcError) and not kind.HINT}
ENTRANCES = [
    *sorted((ROOT / "tools").glob("*.py")),
    *(path for name in ("artifact", "program") for path in sorted((ROOT / "compiler" / name).glob("*.py"))),
    *(ROOT / "compiler" / name for name in ("api.py", "execution_plan.py", "torch_compile.py", "options.py", "pipelines.py")),
    *(ROOT / "compiler/driver" / f"{name}.py" for name in ("registry", "pass_options", "pipeline_text", "reproducer")),
]
"""The files in which every error is caused by what the user wrote."""


@pytest.mark.parametrize("path", ENTRANCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_error_of_an_entrance_has_a_hint(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    raised = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in KINDS]
    assert not [call.lineno for call in raised if not any(keyword.arg == "hint" for keyword in call.keywords)]


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["report", "plain.mlr"], "did you mean plain.mlir?"),
        (["report", "nowhere/at/all"], "give the path of a file that exists"),
        (["report", "bytes.mlir"], "give an IR file"),
        (["report", "misspelt.mlir"], "did you mean fx.output?"),
        (["report", "plain.mlir", "--seed"], "fxc report --help shows the arguments and options"),
        (["run", "plain.mlir", "--inputs", "none.safetensors"], "give the path of a file"),
        (["run", "plain.mlir", "-o", "/nowhere/out.safetensors"], errors.WRITE_ELSEWHERE),
        (["import", "model.py:make", "-o", "/nowhere/out.mlir"], errors.WRITE_ELSEWHERE),  # before the capture, which fails
        (["report", "model.py:make", "--html", "/nowhere/page.html"], errors.WRITE_ELSEWHERE),
        (["translate", "plain.mlir", "--to=dot", "-o", "/nowhere/out.dot"], errors.WRITE_ELSEWHERE),
        (["translate", "plain.mlir", "--to=dot", "-p", "dce{a=1}"], "fxc passes dce explains its options"),
        (["import", "modl.py"], "did you mean model.py?"),
        (["import", "bad.pt2"], "torch.export.save"),
        (["import", "bda.pt2"], "did you mean bad.pt2?"),
        (["import", "model.py:make", "--dynamic-shapes", "x:0=b"], "return (model, inputs)"),
        (["passes", "nothing"], "fxc passes lists them"),
        (["ops", "nothing"], "fxc ops lists the dialects"),
    ],
)
def test_a_command_ends_with_a_hint(argv: list[str], hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plain.mlir").write_text("func.func @main(%x: tensor<2xf32>) {\n  func.return\n}\n")
    Path("misspelt.mlir").write_text("func.func @main() {\n  fx.outpt() : () -> ()\n}\n")
    Path("bytes.mlir").write_bytes(b"\xff")
    Path("bad.pt2").write_text("hi")
    Path("model.py").write_text("import torch\ndef make():\n    return torch.nn.Linear(2, 2), (torch.ones(2), 1, 2)\n")
    code, _, err = run(argv)
    assert code and hint in err.splitlines()[-1], err


def graph_that_reads(value: object) -> fxc.ExecutionPlan | object:
    module = symbolic_trace(torch.nn.ReLU())
    with module.graph.inserting_before():
        node = module.graph.create_node("get_attr", "value")
    next(n for n in module.graph.nodes if n.op == "output").args = (node,)
    if value is not None:
        module.value = value
    return fxc.import_fx(module, (torch.ones(2),))


def plan_of(tmp_path: Path, text: str | None) -> object:
    path = tmp_path / "plan"
    if text is not None:
        path.mkdir()
        (path / "manifest.json").write_text(text)
    return fxc.ExecutionPlan.load(path)


def scaled(x: torch.Tensor, *, scale: float) -> torch.Tensor:
    return x * scale


@pytest.mark.parametrize(
    ("cause", "kind", "hint"),
    [
        (lambda _: fxc.compile(scaled, (torch.ones(2),), {"scale": 2.0})(torch.ones(2), scal=2.0), errors.InputError, "scale?"),
        (lambda _: fxc.compile(scaled, (torch.ones(2),), {"scale": 2.0})(torch.ones(2)), errors.InputError, "like those of"),
        (lambda _: fxc.capture(torch.neg, (torch.ones(2),), dynamic_shapes=3), errors.InputError, "a free batch is"),
        (lambda _: fxc.capture(scaled, (torch.ones(2), 2), dynamic_shapes={"x": {}}), errors.CaptureError, ""),
        (lambda _: fxc.capture(torch.nn.Tanh(), (torch.ones(2),), dynamic_shapes={"inpt": {}}), errors.InputError, "input?"),
        (lambda _: fxc.compile(torch.relu, (torch.ones(2),), 3), errors.InputError, "one input is"),
        (lambda _: fxc.compile(torch.relu, (torch.ones(2),), options=3), errors.PipelineError, "one option is"),
        (lambda _: fxc.capture(torch.relu, torch.ones(2)), errors.InputError, "one input is"),
        (
            lambda _: fxc.run_passes(fxc.capture(torch.relu, (torch.ones(2),)), "dce", options={"timng": True}),
            errors.PipelineError,
            "timing",
        ),
        (lambda _: graph_that_reads(3), errors.CaptureError, "get_attr"),
        (lambda _: graph_that_reads(None), errors.CaptureError, "erase the node"),
        (lambda _: resolve_higher_order("cnd"), errors.TargetError, errors.OTHER_VERSION),
        (lambda _: check_method("zzz"), errors.TargetError, "call a function of PyTorch"),
        (lambda _: check_attribute("zzz"), errors.TargetError, "call a function of PyTorch"),
        (lambda path: plan_of(path, None), errors.PlanFileError, "give the path"),
        (lambda path: plan_of(path, "{}"), errors.PlanFileError, "compile the model again"),
        (lambda path: PassRegistry().with_file(path / "x.py"), errors.PipelineError, "give the path"),
        (lambda _: parse_pipeline("try{a=1,a=2}"), errors.PipelineError, ""),
        (lambda path: load_state(path / "x", ["a"]), errors.WeightsError, "fxc import"),
        (lambda path: save_state({"a": torch.ones(2).to_sparse()}, path / "x"), errors.WeightsError, "dense tensor"),
    ],
)
def test_an_error_of_the_library_has_a_hint(
    cause: Callable[[Path], object], kind: type[FxcError], hint: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        cause(tmp_path)
    assert caught.value.hint and hint in caught.value.hint


def test_a_model_that_fails_in_pytorch() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x).relu()

    with pytest.raises(errors.CaptureError, match="see that the model runs in PyTorch") as caught:
        fxc.capture(Net(), (torch.ones(2, 4),))
    assert "return self.linear(x).relu()  (test_hints.py" in str(caught.value.place)


def test_a_kind_has_a_hint_of_its_own() -> None:
    assert str(errors.NoRuleError("no rule")).startswith("no rule\n  hint: lower the operation first")
    assert errors.NoRuleError("no rule", hint="else").hint == "else"


def test_files_with_close_names(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").touch()
    assert nearest_file(tmp_path / "modle.mlir") == f"did you mean {tmp_path / 'model.mlir'}?"
    assert nearest_file(tmp_path / "none" / "x").startswith("give the path")
    assert nearest_file(tmp_path / "model.mlir").startswith("give a file of the expected format")
