"""``benchmarks/start_stages.py``: a small model in each way, and the arithmetic of its clock."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))
stages, inside = map(import_module, ("start_stages", "start_process"))

WAYS = {
    "cold": (["import torch", "model and inputs", "import fxc", "capture", "lower-to-plan", "plan cache", "of that: LLVM"], []),
    "warm": (["capture", "cached plan", "of that: importing xdsl"], ["lower-to-plan", "export", "of that: LLVM"]),
    "plan": (["inputs", "read", "first call"], ["capture", "export", "of that: importing sympy", "of that: importing xdsl"]),
}
"""Lines that the table of a way has, and lines that it does not have."""


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("way", WAYS)
def test_a_start_has_its_stages(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FXC_CACHE_PLANS", raising=False)
    done = CliRunner().invoke(stages.main, ["--model", "MLP", "--way", way, "--threads", "1", "--tiny", "--markdown"])
    assert done.exit_code == 0, done.output
    first, _, *lines = done.output.splitlines()
    assert first == f"| MLP, {way} | ms |"
    found = {name: float(spent) for name, spent in (line.strip("| ").split(" | ") for line in lines)}
    there, absent = WAYS[way]
    assert set(there) <= set(found) and not set(absent) & set(found)
    assert all(spent >= 0 for spent in found.values()) and found["import torch"] > 0
    until = list(found).index("to the first result")
    assert sum(list(found.values())[:until]) == pytest.approx(found["to the first result"], abs=until)


def test_a_model_that_is_not_there_is_refused() -> None:
    assert "Invalid value" in CliRunner().invoke(stages.main, ["--model", "GPT-9"]).output


def test_lines_are_medians_and_have_a_sum() -> None:
    found = [{"stages": {"a": a, "b": 0.25, "second call": 9.0}, "within": {"LLVM": a}} for a in (0.5, 1.0, 8.0)]
    assert stages.lines(found) == [
        ("a", 1000.0),
        ("b", 250.0),
        ("to the first result", 1250.0),
        ("second call", 9000.0),
        ("of that: LLVM", 1000.0),
    ]


def test_what_is_inside_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0])
    monkeypatch.setattr(inside.time, "perf_counter", lambda: next(now))
    clock = inside.Clock()
    with clock.of("outer"), clock.of("inner"):
        pass
    assert clock.seconds == {"": 1.0, "outer": 2.0 + 4.0, "inner": 3.0}
