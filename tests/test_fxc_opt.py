"""fxc-opt as a program: streams, files, exit codes, start-up. What it does to IR is tested in ``lit_tests/tools``."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fxc.pipelines import parse_pipeline
from fxc.tools.emitters import EMITTERS
from fxc.tools.expected_diagnostics import Diagnostic, expectations, mismatches
from fxc.tools.fxc_opt import HELP, run

TEXT = "func.func @f(%a: i32) -> i32 {\n  func.return %a : i32\n}\n"
PRINTED = "builtin.module {\n  func.func @f(%a: i32) -> i32 {\n    func.return %a : i32\n  }\n}\n"


@pytest.mark.parametrize("argv", [[], ["-"], ["-", "-o", "-"], ["--pass-pipeline="], ["-p", "builtin.module()"]])
def test_stdin_to_stdout(argv: list[str]) -> None:
    assert run(argv, TEXT) == (0, PRINTED, "")


@pytest.mark.parametrize("text", ["", "\n", "// only a comment\n"])
def test_no_text_is_an_empty_module(text: str) -> None:
    assert run([], text) == (0, "builtin.module {\n}\n", "")


def test_files(tmp_path: Path) -> None:
    source, target = tmp_path / "ä.mlir", tmp_path / "out.mlir"
    source.write_text(TEXT)
    assert run([str(source), "-o", str(target)]) == (0, "", "")
    assert target.read_text() == PRINTED
    assert source.read_text() == TEXT


@pytest.mark.parametrize(
    ("argv", "text", "message"),
    [
        (["nowhere.mlir"], "", "cannot read nowhere.mlir: No such file or directory"),
        (["-o", "/nowhere/out.mlir"], TEXT, "cannot write /nowhere/out.mlir"),
        ([], "func.func @f(", "<stdin>:1:"),
        ([], '"test.op"() : () -> tensor<2x\n', "at: <stdin>:2:1"),
        ([], '"test.op"() {a = dense<[1, 2, 3]> : tensor<2xi32>} : () -> ()', "at: <stdin>:1"),
        ([], '{-# external_resources: { other: { a: "0x" } } #-}', "external_resources"),
        (["-p", "canonicalise"], TEXT, "there is no pass or pipeline canonicalise"),
        (["-p", "a(b"], TEXT, "malformed pipeline"),
        (["--print-ir-after=nothing"], TEXT, "there is no pass nothing to print around"),
        (["--remarks=nothing"], TEXT, "there is no pass nothing to explain"),
        (["--run-reproducer"], TEXT, "<stdin> is not a reproducer"),
        (["--run-reproducer", "-p", "cse"], TEXT, "--run-reproducer takes the pipeline from the file"),
    ],
)
def test_one_message_and_exit_code_1(argv: list[str], text: str, message: str) -> None:
    code, out, err = run(argv, text)
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and err.count("error:") == 1
    assert message in err and "Traceback" not in err


def test_file_that_is_not_text(tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_bytes(b"\xff\xfe")
    code, _, err = run([str(source)])
    assert code == 1 and "is not UTF-8 text" in err


def test_a_failing_part_leaves_no_file(tmp_path: Path) -> None:
    """As in mlir-opt: stdout gets the parts that are valid, a file is written only where all are."""
    text = "func.func @a() {\n  func.return\n}\n// -----\nfunc.func b\n"
    out = tmp_path / "out.mlir"
    assert run(["--split-input-file", "-o", str(out)], text)[:2] == (1, "")
    assert not out.exists()
    code, printed, _ = run(["--split-input-file"], text)
    assert code == 1 and "func.func @a" in printed


def test_usage_errors_exit_with_2() -> None:
    code, out, err = run(["--no-such-option"])
    assert (code, out) == (2, "") and err.startswith("error: No such option")
    code, _, err = run(["--emit=brainfuck"], TEXT)
    assert code == 2 and "mlir" in err


def test_traceback_on_request() -> None:
    code, _, err = run(["--traceback"], "func.func @f(")
    assert code == 1 and "Traceback" in err and "ParseError" in err


@pytest.mark.parametrize("name", ["llvm", "triton", "svg", "dot", "mlir", "fx", "table"])
def test_a_bug_of_an_emitter_is_one_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, function = EMITTERS[name].split(":")

    def broken(*_: object) -> str:
        raise ZeroDivisionError("no luck\ntoday")

    monkeypatch.setattr(importlib.import_module(path), function, broken)
    code, out, err = run([f"--emit={name}"], TEXT)
    assert (code, out) == (1, "")
    assert err == (
        f"error: the module cannot be written as {name}: ZeroDivisionError: no luck\n  hint: --traceback shows where\n"
    )
    assert "raise ZeroDivisionError" in run([f"--emit={name}", "--traceback"], TEXT)[2]


def test_help_shows_groups_and_examples() -> None:
    code, out, _ = run(["--help"])
    assert code == 0
    for expected in ("Examples:", "Input and output:", "Passes:", "Checking:", "Inspection:", "--crash-reproducer"):
        assert expected in out


@pytest.mark.parametrize("pipeline", re.findall(r"-p (?:'([^']+)'|(\S+))", HELP), ids="".join)
def test_the_pipelines_of_the_examples_exist(pipeline: tuple[str, str]) -> None:
    assert len(parse_pipeline("".join(pipeline))) > 0


def test_unregistered_dialects_on_request() -> None:
    text = '"some.op"() : () -> ()\n'
    assert run([], text)[0] == 1
    assert run(["--allow-unregistered-dialect"], text) == (0, 'builtin.module {\n  "some.op"() : () -> ()\n}\n', "")


def test_debuginfo_and_generic_form() -> None:
    text = '"test.op"() : () -> () loc("relu_1")\n'
    assert "relu_1" not in run([], text)[1]
    assert 'loc("relu_1")' in run(["--print-debuginfo"], text)[1]
    assert '"builtin.module"() ({' in run(["--print-op-generic"], text)[1]


def test_process_loads_neither_torch_nor_much_else() -> None:
    """What starting takes is what is imported: ``benchmarks/compile_time.py`` has the milliseconds."""
    script = (
        "import sys; from fxc.tools.fxc_opt import run; code, out, err = run([], sys.stdin.read());"
        "assert code == 0, err; assert 'torch' not in sys.modules; assert not {'rich', 'jinja2', 'pygments'} & {*sys.modules};"
        "loaded = [m for m in sys.modules if m.startswith('xdsl.dialects.')]; assert len(loaded) < 25, loaded;"
        "print(sum(m.startswith('fxc.') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], input=TEXT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 80


@pytest.mark.slow
def test_console_script_stops_quietly_when_its_reader_does() -> None:
    lines = "".join(f"func.func private @f{i}()\n" for i in range(3000))
    command = f"{sys.executable} -c 'from fxc.tools.fxc_opt import main; main()' | head -1"
    done = subprocess.run(
        command, shell=True, input=lines, capture_output=True, text=True, check=False, env={**os.environ}
    )  # fmt: skip
    assert done.stdout == "builtin.module {\n" and done.stderr == ""


def test_expected_comments() -> None:
    text = "\n".join(
        [
            "a",
            "b // expected-error {{here}}",
            "// expected-error@+2 {{two down}}",
            "// expected-warning-re @-1 {{a {{[0-9]+}} .}}",
            "// expected-remark@below {{below}}",
            "// expected-note@above {{above}}",
            "b",
            "// expected-error@unknown {{x}}",
        ]
    )
    found = [(expected.kind, expected.line, expected.pattern.pattern) for expected in expectations(text)]
    assert found == [
        ("error", 2, "here"),
        ("error", 5, "two\\ down"),
        ("warning", 3, "a\\ [0-9]+\\ \\."),
        ("remark", 7, "below"),
        ("note", 1, "above"),
        ("error", None, "x"),
    ]


def test_mismatches() -> None:
    text = "// expected-error@+1 {{one}}\nop\n"
    assert mismatches(text, [Diagnostic("error", 2, "one two")], "f") == []
    assert mismatches(text, [Diagnostic("error", None, "one")], "f") == []
    assert mismatches(text, [Diagnostic("error", 2, "one"), Diagnostic("note", 2, "try", False)], "f") == []
    wrong = mismatches(text, [Diagnostic("error", 1, "one")], "f")
    assert wrong == ["f:1: unexpected error: one", 'f:2: expected error "one" was not produced']


def test_pipelines_are_joined() -> None:
    text = "func.func @main(%x: tensor<2xf32>) {\n  %a = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
    text += "  %b = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  fx.output(%x) : (tensor<2xf32>) -> ()\n}\n"
    assert run(["-", "-p", "cse", "-p", "dce"], text) == run(["-", "-p", "cse,dce"], text)
    assert "neg" not in run(["-", "-p", "dce", "-p", "cse"], text)[1]


def test_passes_are_options() -> None:
    text = "func.func @main(%x: tensor<2xf32>) {\n  %a = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
    text += "  fx.output(%x) : (tensor<2xf32>) -> ()\n}\n"
    assert run(["--cse", "-", "--dce"], text) == run(["-", "-p", "cse,dce"], text)
    assert run(["-p", "cse", "--set-target=to=cpu:avx2 deterministic", "--simplify"], text) == run(
        ["-p", "cse,set-target{to=cpu:avx2 deterministic},simplify"], text
    )
    assert run(["--dce=max-rounds=none", "--verify-each"], text)[0] == 1
    assert run(["--set-target=cpu:avx2"], text) == run(["-p", "set-target{to=cpu:avx2}"], text)
    assert run(["--set-target=cpu:avx2"], text)[0] == 0
    assert run(["--set-target=to=cpu:avx2 deterministic"], text) == run(["-p", "set-target{to=cpu:avx2 deterministic}"], text)
    code, _, err = run(["--canonicalise"], text)
    assert code == 2 and "No such option" in err
