"""fxc as a program: sources of models, files, exit codes, messages. What it prints of IR is tested in ``lit_tests/tools``."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import fxc
from fxc.program.program import Program
from fxc.tools.fxc import run
from fxc.tools.fxc_opt import run as run_opt
from fxc.tools.sources import import_source

MODEL = """
import torch

@torch.fx.wrap
def halve(x):
    return x / 2

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x, scale=2.0):
        self.steps += 1
        return {"y": halve(self.drop(self.fc(x))) * scale, "n": self.steps}

def get_inputs():
    return (torch.randn(2, 3),)

def other():
    return torch.nn.Linear(2, 2), (torch.ones(5, 2),)

def broken():
    raise ValueError("no luck today")

def number():
    return 3, ()
"""
PLAIN = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  func.return %x : tensor<2xf32>\n}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cli_model.py").write_text(MODEL)
    (tmp_path / "plain.mlir").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cli_model", raising=False)
    return tmp_path


def ok(*argv: str, stdin: str = "") -> tuple[str, str]:
    code, out, err = run(argv, stdin)
    assert code == 0, err
    return out, err


@pytest.mark.parametrize("source", ["cli_model.py", "cli_model:Model", "cli_model.py:Model"])
def test_import_run_compare(folder: Path, source: str) -> None:
    out, err = ok("import", source, "-o", "m.mlir")
    assert out == "" and err == "wrote m.mlir and m.safetensors\n"
    assert Program.load("m.mlir").state["fc.weight"].shape == (4, 3)
    before = {path: path.read_bytes() for path in folder.glob("m.*")}
    out, _ = ok("run", "m.mlir", "--compare", source, "-p", "lower-to-torch,simplify", "--check-numerics")
    assert "result['y']: tensor<2x4xf32>" in out and "new value of steps" in out
    assert "\nclose to eager: no difference\n" in out
    assert {path: path.read_bytes() for path in folder.glob("m.*")} == before


@pytest.mark.parametrize("route", ["dynamo", "make_fx"])
def test_flat_routes_compare_by_name(folder: Path, route: str) -> None:
    ok("import", "cli_model.py:other", "--route", route, "-o", "m.mlir")
    assert "close to eager" in ok("run", "m.mlir", "--compare", "cli_model.py:other", "--seed", "3")[0]


def test_text_alone_goes_to_stdout(folder: Path) -> None:
    out, err = ok("import", "cli_model.py:other", "-p", "simplify")
    assert out.startswith("builtin.module {\n  func.func @main(") and err == "" and "loc(" not in out
    assert "loc(" in ok("import", "cli_model.py:other", "--print-debuginfo")[0]
    assert not list(folder.glob("*.safetensors"))


def test_train_mode_is_baked_in(folder: Path) -> None:
    assert "aten.dropout.default(%linear, 0.5, false)" in ok("import", "cli_model.py")[0]
    trained = ok("import", "cli_model.py", "--train")[0]
    assert "aten.dropout.default(%linear, 0.5, true)" in trained and "fx.requires_grad" in trained


def test_joint_graph(folder: Path) -> None:
    ok("import", "cli_model.py:other", "--joint", "--dynamic-shapes", "input:0=batch", "-o", "m.mlir")
    text = (folder / "m.mlir").read_text()
    assert "autodiff.forward_results = 1" in text and "autodiff.tangent" in text
    code, out, err = run_opt(["m.mlir", "-p", "joint", "--remarks=split-joint"])
    assert code == 0 and "builtin.module @backward" in out and "remark: split-joint: saves" in err
    code, _, err = run(["import", "cli_model.py", "--joint", "--route", "make_fx"])
    assert code == 1 and "torch.compile captures joint graphs" in err


@pytest.mark.parametrize("shapes", ["x:0=batch[2..64]", '{"x": {"0": "batch[2..64]"}}'])
def test_dynamic_shapes(folder: Path, shapes: str) -> None:
    ok("import", "cli_model.py:other", "-o", "m.mlir", "--dynamic-shapes", shapes.replace("x", "input"))
    out, _ = ok("report", "m.mlir")
    assert "min 2, max 64" in out and "input input: tensor<?x2xf32" in out
    assert "result: tensor<5x2xf32>" in ok("run", "m.mlir")[0]


def test_exported_program(folder: Path) -> None:
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),)), folder / "m.pt2")
    ok("import", "m.pt2", "-o", "m.mlir")
    assert "close to eager" in ok("run", "m.mlir", "--compare", "m.pt2")[0]


def test_a_wrong_result_is_found(folder: Path) -> None:
    ok("import", "cli_model.py:other", "-o", "m.mlir")
    state = load_file("m.safetensors")
    save_file({**state, "weight": state["weight"] + 1}, "m.safetensors")
    code, out, err = run(["run", "m.mlir", "--compare", "cli_model.py:other"])
    assert code == 1 and err == ""
    assert "NOT close to eager\n  result 0: max abs difference 2" in out and "1 tensors of the weights file differ" in out


def test_inputs_and_results_as_files(folder: Path) -> None:
    save_file({"x": torch.tensor([1.5, -2.0])}, "in.safetensors")
    out, err = ok("run", "plain.mlir", "--inputs", "in.safetensors", "-o", "out.safetensors")
    assert "first 1.5 -2" in out and err == "wrote out.safetensors: result\n"
    assert load_file("out.safetensors")["result"].tolist() == [1.5, -2.0]
    save_file({"y": torch.ones(2)}, "in.safetensors")
    code, _, err = run(["run", "plain.mlir", "--inputs", "in.safetensors"])
    assert code == 1 and "has no tensor for the input 'x'" in err and "it has y" in err
    save_file({"x": torch.ones(3)}, "in.safetensors")
    assert "input x has shape (3,), but (2,) is expected" in run(["run", "plain.mlir", "--inputs", "in.safetensors"])[2]


def test_same_seed_same_inputs(folder: Path) -> None:
    first, again, other = (ok("run", "plain.mlir", "--seed", seed)[0] for seed in "112")
    assert first == again != other


@pytest.mark.parametrize("type", ["tensor<2xi3>", "tensor<99999999999999999999999xf32>", "tensor<9223372036854775807x4xf32>"])
def test_a_type_of_which_pytorch_has_no_tensor_is_an_error_with_the_input(folder: Path, type: str) -> None:
    text = f'func.func @main(%x: {type} {{fx.kind = "input", fx.name = "x"}}) -> {type} {{\n fx.output(%x) : ({type}) -> ()\n}}'
    Path("odd.mlir").write_text(text)
    code, _, err = run(["run", "odd.mlir"])
    assert code == 1 and f"x is {type}, of which no tensor can be made" in err and "hint: give it a dtype" in err


def test_a_seed_has_64_bits(folder: Path) -> None:
    code, _, err = run(["run", "plain.mlir", "--seed", str(10**23)])
    assert code == 2 and "'--seed'" in err and "is not in the range" in err


def test_functions_of_the_user_need_permission(folder: Path) -> None:
    ok("import", "cli_model.py", "--route", "symbolic_trace", "-o", "m.mlir")
    code, _, err = run(["run", "m.mlir"])
    assert code == 1 and "may not call 'cli_model.halve'" in err and "--allow=MODULE:NAME" in err
    for name in ("cli_model:halve", "cli_model.py:halve"):
        assert "result['y']" in ok("run", "m.mlir", "--allow", name)[0]
    assert "close to eager" in ok("run", "m.mlir", "--allow", "cli_model:halve", "--compare", "cli_model.py")[0]


def test_a_refused_function_is_never_resolved(folder: Path) -> None:
    text = (
        "func.func @main() -> !fx.value {\n"
        '  %r = fx.call_function @cli_trap.spring("x") : () -> !fx.value\n'
        "  fx.output(%r) : (!fx.value) -> ()\n}\n"
    )
    (folder / "cli_trap.py").write_text("raise SystemExit('sprung')\n")
    code, out, err = run(["run", "-"], text)
    assert (code, out) == (1, "") and "may not call 'cli_trap.spring'" in err
    assert "cli_trap" not in sys.modules


def test_compile_leaves_every_step(folder: Path) -> None:
    out, err = ok("compile", "cli_model.py", "-o", "build", "-p", "lower-to-torch,func.func(cse),dce")
    names = sorted(path.name for path in (folder / "build").iterdir())
    steps = ["1-captured.mlir", "2-torch.mlir", "3-func.func.mlir", "4-dce.mlir"]
    assert names == [*steps, "graph.py", "plan.zip", "weights.safetensors"]
    assert out == "" and err.splitlines() == [
        f"wrote build/{name}" for name in (*steps, "weights.safetensors", "graph.py", "plan.zip")
    ]
    compile((folder / "build" / "graph.py").read_text(), "graph.py", "exec")
    assert "aten.add_" in (folder / "build" / "1-captured.mlir").read_text()
    assert "aten.add_" not in (folder / "build" / "2-torch.mlir").read_text()


POINTWISE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.where(x > y, torch.exp(-x * x) + y, torch.tanh(y) * x)

def get_inputs():
    return torch.randn(64, 128), torch.randn(64, 128)
"""


def test_compile_for_a_cpu(folder: Path) -> None:
    (folder / "pointwise.py").write_text(POINTWISE)
    ok("compile", "pointwise.py", "-o", "build", "--target=cpu:avx2")
    assert "<32 x float>" in (folder / "build" / "kernels.ll").read_text()
    assert "tile.launch" in next((folder / "build").glob("*-tile.mlir")).read_text()


TWO_SUMS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        rows = x.sum(1, keepdim=True)
        return x * rows * x.sum(0, keepdim=True)

def get_inputs():
    return (torch.randn(128, 256),)
"""


def test_compile_says_why_two_kernels_are_not_one(folder: Path) -> None:
    (folder / "sums.py").write_text(TWO_SUMS)
    quiet, err = ok("compile", "sums.py", "--target=cpu:avx2", "--emit=mlir")
    assert "remark" not in err
    told, err = ok("compile", "sums.py", "--target=cpu:avx2", "--emit=mlir", "--remarks")
    assert told == quiet and quiet.count("tile.kernel @") == 2
    [line] = [line for line in err.splitlines() if "remark: fuse: rows: " in line]
    assert "rows = x.sum(1, keepdim=True)" in line and "sums.py:6" in line


KERNELS = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(9, 7), torch.nn.LayerNorm(7)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps += 1
        return torch.relu(self.norm(self.fc(x)) * 2).sum(-1), self.steps

def get_inputs():
    return (torch.randn(5, 9),)
"""

LEVELS = {
    "captured": "torch.aten.layer_norm",
    "torch": "torch.aten.add.Tensor",
    "fused": "fusion.group",
    "linalg": "linalg.generic",
    "scheduled": "tile.schedule",
    "tile": "tile.kernel",
    "plan": "plan.launch",
}
"""What is in the IR of each stage, and was not in the stage before."""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "mode"), [("cpu", "--eval"), ("interpret", "--train"), ("cuda:sm_90", "--eval")])
def test_the_ir_of_each_stage_runs(folder: Path, target: str, mode: str) -> None:
    (folder / "kernels.py").write_text(KERNELS)
    ok("compile", "kernels.py", "-o", "build", f"--target={target}", mode)
    files = {path.stem.split("-", 1)[1]: path for path in sorted((folder / "build").glob("*.mlir"))}
    levels = [name for name in LEVELS if name != "plan" or mode == "--eval"]
    assert [name for name in files if name in LEVELS] == levels
    before = ""
    for name, path in files.items():
        text = path.read_text()
        assert LEVELS.get(name, "") in text and (name not in LEVELS or LEVELS[name] not in before)
        before = text if name in LEVELS else before
        assert Program.load(path).state.keys() >= {"fc.weight", "norm.bias"}
        code, again, err = run_opt([str(path), *(["--print-debuginfo"] if name == "captured" else [])])
        assert (code, err) == (0, "") and again == text
        out, _ = ok("run", str(path), "--compare", "kernels.py", mode)
        assert "close to eager" in out and "NOT" not in out


@pytest.mark.parametrize("target", ["host", "interpret"])
def test_the_plan_that_compile_leaves(folder: Path, target: str) -> None:
    (folder / "kernels.py").write_text(KERNELS)
    ok("compile", "kernels.py", "-o", "build", f"--target={target}")
    plan = fxc.ExecutionPlan.load("build/plan.zip")
    assert any(getattr(module, "is_kernel", False) for module in plan.module.modules())
    torch.manual_seed(0)
    model = import_source("kernels.py").Model().eval()
    x = torch.randn(5, 9)
    torch.testing.assert_close(plan(x), model(x))


def test_what_a_plan_cannot_hold_is_said(folder: Path) -> None:
    _, err = ok("compile", "cli_model.py", "--route", "symbolic_trace", "-o", "build", "-p", "cse")
    assert (
        "wrote no plan.zip: the plan calls what only this process has" in err and not (folder / "build" / "plan.zip").exists()
    )


@pytest.mark.parametrize(
    ("target", "emit", "expected"),
    [
        ("cuda:sm_90", "triton", "@triton.jit"),
        ("rocm:gfx942", "triton", "@triton.jit"),
        ("cpu:avx2", "llvm", "define "),
        ("interpret", "llvm", "define "),
        ("cpu", "mlir", "plan.launch"),
        ("cpu", "table", "call_"),
    ],
)
def test_compile_prints_what_is_asked_for(folder: Path, target: str, emit: str, expected: str) -> None:
    (folder / "pointwise.py").write_text(POINTWISE)
    before = set(folder.iterdir())
    out, err = ok("compile", "pointwise.py", f"--target={target}", f"--emit={emit}")
    assert expected in out and err == "" and set(folder.iterdir()) - before <= {folder / "__pycache__"}


def test_the_target_of_the_command_line_is_stronger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pointwise.py").write_text(POINTWISE)
    monkeypatch.setenv("FXC_TARGET", "cpu:avx512")
    assert "#target.gpu" in ok("compile", "pointwise.py", "--target=cuda:sm_90", "--emit=mlir")[0]
    assert "vector_bits = 512" in ok("compile", "pointwise.py", "--emit=mlir")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("target", "suffix"), [("cuda:sm_90", "cubin"), ("rocm:gfx942", "hsaco")])
def test_compile_for_a_gpu_that_is_not_here(folder: Path, target: str, suffix: str) -> None:
    (folder / "pointwise.py").write_text(POINTWISE)
    ok("compile", "pointwise.py", "-o", "build", f"--target={target}")
    [source] = (folder / "build" / "kernels").glob("*.py")
    assert "@triton.jit" in source.read_text() and "accurate_exp" in source.read_text()
    if find_spec("triton") is not None:
        assert source.with_suffix(f".{suffix}").read_bytes()[:4] == b"\x7fELF"


def test_compile_for_the_memory_of_a_gpu_that_is_not_here(folder: Path) -> None:
    (folder / "kernels.py").write_text(KERNELS)
    _, err = ok("compile", "kernels.py", "-o", "build", "--target=cuda:sm_90", "--device=cuda")
    [text] = (path.read_text() for path in (folder / "build").glob("*-plan.mlir"))
    assert "plan.launch" in text and '"cpu"' not in text and "on the CPU" not in err
    _, weight = text.split("%p_fc_weight: tensor<", 1)
    assert weight.split("{")[0].rstrip().endswith('#torch.meta<device = "cuda:0">>')
    if not torch.cuda.is_available():
        with pytest.raises(fxc.errors.PlanFileError, match=r"cannot be put on cuda:0(?s:.*)where PyTorch has this device"):
            fxc.ExecutionPlan.load("build/plan.zip")
    _, err = ok("compile", "kernels.py", "-o", "build", "--target=cuda:sm_90")
    assert "its tensors are on the CPU: give --device=cuda" in err


@pytest.mark.parametrize("route", ["export", "symbolic_trace"])
def test_python_folder_runs(folder: Path, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ok("import", "cli_model.py:other", "--route", route, "-o", "m.mlir")
    ok("translate", "m.mlir", "--to=fx", "-o", "cli_written")
    assert sorted(path.name for path in (folder / "cli_written").iterdir()) == [
        "__init__.py",
        "module.py",
        "weights.safetensors",
    ]
    ok("run", "m.mlir", "--seed", "0", "-o", "out.safetensors")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "cli_written", raising=False)
    monkeypatch.delitem(sys.modules, "cli_written.module", raising=False)
    from cli_written import Model  # type: ignore[import-not-found]

    x = torch.randn(10, generator=torch.Generator().manual_seed(0)).view(5, 2)
    torch.testing.assert_close(Model()(x), load_file("out.safetensors")["result"])


def test_svg_is_layered_and_nothing_overlaps(folder: Path) -> None:
    ok("import", "cli_model.py", "-o", "m.mlir")
    root = ElementTree.fromstring(ok("translate", "m.mlir", "--to=svg")[0])
    space = "{http://www.w3.org/2000/svg}"
    rects = [group.find(f"{space}rect") for group in root.iter(f"{space}g")]
    boxes = [tuple(float(rect.attrib[key]) for key in ("x", "y", "width", "height")) for rect in rects if rect is not None]
    assert len(boxes) > 8
    for i, (x, y, w, h) in enumerate(boxes):
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in boxes[:i])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("cli_model.py:broken", "ValueError: no luck today\n  at: {folder}/cli_model.py:26 in broken: raise ValueError"),
        ("cli_model.py:number", "returns int 3, not a model"),
        ("cli_model.py:othr", "cli_model has no 'othr'\n  hint: did you mean other?"),
        ("nowhere.py", "there is no file nowhere.py"),
        ("cli_nowhere.models:tiny", "No module named 'cli_nowhere'\n  hint: give package.module:factory"),
        ("no way", "'no way' is not a source of a model"),
        ("nowhere.mlir", "nowhere.mlir is IR text, not a source of a model\n  hint: fxc run and fxc-opt read IR"),
        ("syntax.py", "(syntax.py, line 1)\n  at: {folder}/syntax.py:1: def f(:\n  hint: correct the file"),
        ("quits.py", "SystemExit: 3\n  at: {folder}/quits.py:2 in <module>: sys.exit(3)"),
        ("empty.py", "empty.py has no class Model and function get_inputs()"),
        ("bad.pt2", "bad.pt2 is not a program that torch.export can load"),
    ],
)
def test_a_bad_source_is_one_message(folder: Path, source: str, message: str) -> None:
    (folder / "syntax.py").write_text("def f(:\n  pass\n")
    (folder / "quits.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "empty.py").write_text("")
    (folder / "bad.pt2").write_text("hi")
    code, out, err = run(["import", source])
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and err.count("error: ") == 1 and "Traceback" not in err
    assert message.replace("{folder}", str(folder)) in err


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["improt"], 2, "there is no command 'improt'\n  hint: did you mean import?"),
        (["run"], 2, "Missing argument 'FILE'"),
        (["run", "plain.mlir", "--sead", "1"], 2, "No such option '--sead'"),
        (["run", "plain.mlir", "--seed", "1", "--inputs", "x"], 2, "--inputs and --seed exclude each other"),
        (["translate", "plain.mlir", "--to=png"], 2, "'png' is not one of"),
        (["run", "nowhere.mlir"], 1, "cannot read nowhere.mlir: No such file or directory"),
        (["report", "cli_model.py"], 2, "cli_model.py is no IR file"),
        (["run", "plain.mlir", "--allow", "halve"], 1, "--allow halve does not name anything"),
        (["run", "plain.mlir", "--import", "cli_nowhere"], 1, "No module named 'cli_nowhere'"),
        (["run", "plain.mlir", "-o", "/nowhere/out.safetensors"], 1, "cannot write /nowhere/out.safetensors"),
        (["import", "cli_model.py", "--dynamic-shapes", "z:0=b"], 1, "the model has no input 'z'"),
        (["import", "cli_model.py", "--dynamic-shapes", "x=b"], 1, "--dynamic-shapes x=b is malformed"),
        (["import", "cli_model.py", "--dynamic-shapes", "x:0=b[5..3]"], 1, "no size is in 'b[5..3]'"),
        (["import", "cli_model.py", "--dynamic-shapes", "{x"], 1, "--dynamic-shapes is not JSON"),
        (["import", "cli_model.py", "--route", "dynamo", "--dynamic-shapes", "x:0=b"], 1, "takes no dynamic_shapes"),
        (["compile", "cli_model.py", "-o", "d", "-p", "dec"], 1, "there is no pass or pipeline dec"),
        (["compile", "cli_model.py", "-o", "d", "--target=cuda:sm_9"], 1, "there is no target cuda:sm_9"),
        (["compile", "cli_model.py", "-o", "d", "--target=host", "--device=cuda"], 1, "give --device=cpu, or another target"),
        (["compile", "cli_model.py", "-o", "d", "--target=cuda:sm_90", "--device=cpu"], 1, "sm_90 has its memory on cuda"),
        (["compile", "cli_model.py", "-o", "d", "--device=gpu"], 1, "there is no device gpu"),
        (["compile", "cli_model.py"], 2, "nothing to write: give -o DIR, --emit=FORMAT, or both"),
        (["compile", "cli_model.py", "--emit=png"], 2, "'png' is not one of"),
        (["compile", "cli_model.py", "-p", "simplify", "--emit=llvm"], 1, "the module has no tile.kernel to print"),
    ],
)
def test_messages_and_exit_codes(folder: Path, argv: list[str], code: int, message: str) -> None:
    found, out, err = run(argv)
    assert (found, out) == (code, "")
    assert err.startswith("error: ") and message in err and "Traceback" not in err
    assert not (folder / "d").exists()


@pytest.mark.skipif(torch.accelerator.current_accelerator() is not None, reason="this PyTorch is built for a GPU")
def test_derivatives_on_a_device_that_pytorch_is_built_without(folder: Path) -> None:
    code, _, err = run(["compile", "cli_model.py", "-o", "d", "--train", "--target=cuda:sm_90", "--device=cuda"])
    assert code == 1 and "this PyTorch is built without cuda, and has no derivatives there" in err and "--train" in err


def test_traceback_on_request(folder: Path) -> None:
    assert "Traceback" in run(["--traceback", "run", "nowhere.mlir"])[2]


def test_version_and_help() -> None:
    assert ok("--version")[0].startswith("fxc 0.")
    out, _ = ok("--help")
    assert out.index("\n  import ") < out.index("\n  run ") < out.index("\n  completion ")
    for command in ("import", "run", "compile", "translate", "report", "passes", "ops", "completion"):
        assert "Examples:" in ok(command, "--help")[0], command
    code, out, err = run([])
    assert (code, out) == (2, "") and "A first tour:" in err


@pytest.mark.slow
def test_looking_things_up_needs_no_torch(folder: Path) -> None:
    commands = [["passes"], ["passes", "dce"], ["ops"], ["ops", "aten.add"], ["report", "plain.mlir"]]
    commands += [["translate", "plain.mlir", f"--to={form}", "-p", "cse"] for form in ("dot", "svg")]
    script = (
        "import sys; from fxc.tools.fxc import run\ncode, out, err = run(['--help'])\n"
        "assert code == 0 and 'xdsl' not in sys.modules\n"
        f"for argv in {commands!r}:\n"
        "    code, out, err = run(argv)\n    assert code == 0 and out, err\n    assert 'torch' not in sys.modules, argv\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_statistics_of_a_module_in_train_mode_are_shown(folder: Path) -> None:
    (folder / "norm.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Sequential(torch.nn.BatchNorm1d(3)), (torch.randn(4, 3),)\n"
    )
    ok("import", "norm.py:make", "--train", "--route", "symbolic_trace", "-o", "m.mlir")
    out, _ = ok("run", "m.mlir", "--train", "--compare", "norm.py:make")
    assert "new value of 0.running_mean: tensor<3xf32>" in out and "close to eager" in out
    assert "new value of 0.running_mean" in ok("run", "m.mlir", "-p", "lower-to-torch")[0]
    assert load_file("m.safetensors")["0.running_mean"].tolist() == [0.0, 0.0, 0.0]
