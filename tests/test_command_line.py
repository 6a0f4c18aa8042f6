"""What both programs do for whoever types them: progress, colour, units, exit codes, versions, completion."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from fxc.runtime.units import bytes_text
from fxc.tools import command_line
from fxc.tools.fxc import command as fxc_command
from fxc.tools.fxc import run
from fxc.tools.fxc_opt import command as opt_command
from fxc.tools.fxc_opt import run as run_opt

IDENTITY = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  func.return %x : tensor<2xf32>\n}\n"
AT_ONCE = """
class AtOnce:
    def __init__(self, seconds, function):
        self.start = function
    def cancel(self): pass
    join = cancel
"""
MODEL = "import torch\ndef make():\n    print('from the model')\n    return torch.nn.Linear(2, 2), (torch.ones(5, 2),)\n"


def on_a_terminal(script: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of Python code whose stderr is a terminal and whose stdout is a pipe."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = b""
    try:
        while block := os.read(leader, 4096):
            shown += block
    except OSError:  # the process has closed the terminal
        pass
    os.close(leader)
    printed, _ = process.communicate()
    return process.returncode, printed.decode(), shown.decode()


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["fxc.tools.fxc", "completion", "bash"], ["fxc.tools.fxc_opt", "--list-passes"]])
def test_a_reader_that_closes_the_pipe_is_no_error(argv: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", f"import sys, {argv[0]} as tool; sys.argv = {argv}; tool.main()"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_model_that_ends_the_process_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(
        "import sys, torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x): sys.exit(3)\n\n"
        "def model(): return Model(), (torch.ones(3),)\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(["compile", "model.py:model", "-o", "out"])
    assert ended.value.code == 3


@pytest.mark.slow
def test_a_terminal_shows_what_runs(tmp_path: Path) -> None:
    """Each command names its steps on stderr; stdout has only the result, also where it is a file."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "in.mlir").write_text(IDENTITY)
    commands = {
        "import model.py:make -o out.mlir -p dce": ("loading model.py:make", "capturing model.py:make", "writing out.mlir"),
        "compile model.py:make -o folder": (
            "loading PyTorch",
            "capturing model.py:make",
            "stage 1 of",
            "stage 2 of",
            "writing the plan",
        ),
        "report in.mlir": ("reading in.mlir",),
        "report in.mlir --html page.html": ("loading PyTorch", "compiling", "writing page.html"),
        "run out.mlir": ("loading PyTorch", "reading out.mlir", "running out.mlir"),
        "translate in.mlir --to=fx": ("translating in.mlir",),
        "translate in.mlir --to=dot": ("drawing in.mlir",),
    }
    script = (
        f"{AT_ONCE}import sys\nfrom fxc.tools import command_line, fxc, fxc_opt\ncommand_line.threading.Timer = AtOnce\n"
        f"for words in {list(commands)!r}:\n    print('==', words, file=sys.stderr)\n    print('==', words)\n"
        "    assert fxc._main(words.split()) == 0\n"
        "assert fxc_opt._main(['in.mlir', '-p', 'simplify']) == 0\n"
    )
    code, printed, shown = on_a_terminal(script, tmp_path)
    assert code == 0, shown
    parts = re.split(r"== (.*)\r\n", shown)[1:]
    for words, part in zip(parts[::2], parts[1::2], strict=True):
        assert all(step in part for step in commands[words]), f"{words}: {part}"
    assert "running simplify" in parts[-1]
    assert "class GraphModule" in printed.split("== translate in.mlir --to=fx")[1] and "\x1b" not in printed
    assert printed.count("from the model") == 2 and "from the model" not in shown


def test_a_short_step_is_not_shown(tmp_path: Path) -> None:
    script = "import sys\nfrom fxc.tools import fxc_opt\ncode = fxc_opt._main([])\nassert 'rich' not in sys.modules"
    (tmp_path / "in.mlir").write_text(IDENTITY)
    script = script.replace("[]", "['in.mlir']")
    assert on_a_terminal(script, tmp_path)[::2] == (0, "")


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_colour_only_on_terminals(tmp_path: Path, no_color: str, is_coloured: bool) -> None:
    script = "from fxc.tools import fxc_opt\nfxc_opt._main(['nowhere.mlir'])"
    _, _, shown = on_a_terminal(script, tmp_path, NO_COLOR=no_color)
    assert ("\x1b[31m" in shown and "\x1b[2m  hint:" in shown) == is_coloured == ("\x1b" in shown)
    assert "\x1b" not in run_opt(["nowhere.mlir"])[2]


@pytest.mark.slow
def test_ctrl_c_exits_with_130(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-c", "from fxc.tools.fxc import main; main()", "import", "slow.py:make"]
    with_interrupts = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    command[2] = f"{with_interrupts} {command[2]}"  # a job in the background starts with SIGINT ignored
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err


@pytest.mark.parametrize("program", [run, run_opt])
def test_help_and_version(program: object) -> None:
    assert callable(program)
    assert command_line.EXIT_CODES in " ".join(program(["--help"])[1].split())
    code, out, _ = program(["--version"])
    assert code == 0 and re.fullmatch(r"fxc \S+ \(xdsl \S+, torch \S+, Python \S+\)\n", out)


@pytest.mark.parametrize(
    ("program", "argv", "code"),
    [
        (run, ["passes", "dce"], 0),
        (run, ["passes", "nothing"], 1),
        (run, ["passes", "--nothing"], 2),
        (run, [], 2),
        (run_opt, ["-"], 0),
        (run_opt, ["nowhere.mlir"], 1),
        (run_opt, ["--nothing"], 2),
    ],
)
def test_exit_codes(program: object, argv: list[str], code: int) -> None:
    assert callable(program)
    found, _, err = program(argv, "")
    assert found == code
    assert not err or argv == [] or "\n  hint: " in err


def test_a_bug_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no luck\ntoday")

    for program, command, argv in ((run, fxc_command.commands["passes"], ["passes"]), (run_opt, opt_command, [])):
        monkeypatch.setattr(command, "callback", broken)
        monkeypatch.setattr(command, "params", [])
        code, out, err = program(argv)
        assert (code, out) == (1, "") and err.startswith("error: ZeroDivisionError: no luck\n  hint: --traceback ")


def test_units(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run_opt(["--timing"], IDENTITY)
    assert re.search(r"^total +[\d.]+ m?s +100% +[\d.]+ m?s$", err, re.MULTILINE)
    assert (bytes_text(1000), bytes_text(3 << 20)) == ("1000 bytes", "3.0 MiB")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fxc tran", ["translate"]),
        ("fxc completion bash fxc", ["fxc", "fxc-opt"]),
        ("fxc passes constant-pr", ["constant-propagation"]),
        ("fxc passes simpl", ["simplify"]),
        ("fxc ops aten.relu.", ["aten.relu.default", "aten.relu.out"]),
        ("fxc compile --target cuda:", ["cuda:sm_80", "cuda:sm_90"]),
        ("fxc report --target cpu:avx5", ["cpu:avx512"]),
        ("fxc compile -p dce,simpl", ["dce,simplify"]),
        ("fxc compile --emit tab", ["table"]),
        ("fxc translate --to s", ["svg"]),
        ("fxc-opt -p a,simpl", ["a,simplify"]),
        ("fxc-opt --target ho", ["host"]),
        ("fxc-opt --remarks dc", ["dce"]),
        ("fxc-opt --verify-di", ["--verify-diagnostics"]),
        ("fxc passes nothing-of-this-name", []),
    ],
)
def test_completion(words: str, expected: list[str]) -> None:
    program, *before, last = words.split()
    command = fxc_command if program == "fxc" else opt_command
    found = [item.value for item in ShellComplete(command, {}, program, "").get_completions(before, last)]
    assert found == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("program", ["fxc", "fxc-opt"])
def test_completion_in_a_shell(shell: str, program: str) -> None:
    """The script calls the program with these variables, which answers without running a command."""
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    code, script, _ = run(["completion", shell, program])
    assert code == 0 and f"{variable}={shell}_complete" in script
    word = "--vers" if shell == "fish" else "1"
    environment = {**os.environ, variable: f"{shell}_complete", "COMP_WORDS": f"{program} --vers", "COMP_CWORD": word}
    main = f"from fxc.tools.{program.replace('-', '_')} import main; main()"
    done = subprocess.run([sys.executable, "-c", main], capture_output=True, text=True, check=False, env=environment)
    assert "--version" in done.stdout and not done.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_a_word_with_a_colon(tmp_path: Path) -> None:
    program = tmp_path / "fxc"
    program.write_text(f"#!{sys.executable}\nfrom fxc.tools.fxc import main; main()\n")
    program.chmod(0o755)
    script = 'eval "$(fxc completion bash)"; COMP_WORDS=(fxc compile --target cuda:sm_9); COMP_CWORD=3; _fxc_completion fxc\n'
    command = ["bash", "-c", script + 'echo "${COMPREPLY[@]}" "$COMP_WORDBREAKS"']
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    found, breaks = done.stdout.split(" ", 1)
    assert found == "cuda:sm_90" and "=" in breaks and ":" not in breaks, done.stdout + done.stderr
