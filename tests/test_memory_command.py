"""``fxc memory``: what it prints, draws and refuses."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch

from fxc.measure.peak import peak_bytes
from fxc.options import Options
from fxc.tools import fxc as tool

MLP = str(Path(__file__).parent.parent / "examples" / "models" / "mlp.py:small")


@pytest.mark.slow
def test_peaks_of_a_step(tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    code, out, err = tool.run(["memory", MLP, "--budgets", "1.0, 0", "-o", str(plot)])
    assert (code, err) == (0, f"wrote {plot}\n")
    header, *rows = [line.split() for line in out.splitlines()]
    assert header[:2] == ["budget", "measured"]
    assert [row[0] for row in rows] == ["eager", "fxc", "fxc"] and [row[1] for row in rows[1:]] == ["1.0", "0"]
    for row in rows:
        assert float(row[-1]) == pytest.approx(1, abs=0.1 if row is rows[0] else 0.05)
    assert plot.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("source", "budgets", "message"),
    [
        (MLP, "half", "bytes such as 1.5e9"),
        (MLP, "-1", "bytes such as 1.5e9"),
        ("nowhere.py", "1.0", "there is no file nowhere.py"),
    ],
)
def test_one_message(source: str, budgets: str, message: str) -> None:
    code, out, err = tool.run(["memory", source, f"--budgets={budgets}"])
    assert (code, out) == (1, "") and message in err and err.count("error:") == 1


def test_a_model_without_parameters(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text("import torch\n\ndef made():\n    return torch.exp, (torch.ones(2),)\n")
    code, _, err = tool.run(["memory", f"{path}:made"])
    assert code == 1 and "no result of the model requires a gradient" in err


class Allocator:
    """The functions of torch.cuda that count what its allocator hands out."""

    live, most = 1000, 5000

    def memory_allocated(self) -> int:
        return self.live

    def reset_peak_memory_stats(self) -> None:
        self.most = self.live

    def max_memory_allocated(self) -> int:
        return self.most

    def allocate(self, size: int) -> None:
        self.live += size
        self.most = max(self.most, self.live)


def test_a_peak_on_a_gpu_is_what_its_allocator_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator()
    for name in ("memory_allocated", "reset_peak_memory_stats", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, getattr(allocator, name))

    def call() -> None:
        for size in (300, -100, 150, -350):
            allocator.allocate(size)

    assert [peak_bytes(call, "cuda") for _ in range(2)] == [350, 350]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_device_that_is_not_there() -> None:
    code, out, err = tool.run(["memory", MLP, "--device", "cuda"])
    assert (code, out) == (1, "") and "this machine has no GPU" in err


@pytest.mark.slow
def test_a_plot_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(f"No module named {name!r}")
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    code, _, err = tool.run(["memory", MLP, "-o", str(tmp_path / "plot.svg")])
    assert code == 1 and "the plot needs matplotlib" in err


def test_a_wrong_budget_is_an_error_of_torch_compile() -> None:
    model = torch.nn.Linear(2, 2)
    torch.compiler.reset()
    with pytest.raises(Exception, match="a budget is a fraction from 0 to 1"):
        torch.compile(model, backend="fxc", options={"memory_budget": "half"})(torch.ones(1, 2))
    with pytest.raises(Exception, match="option memory_budget is -1"):
        torch.compile(model, backend="fxc", options={"memory_budget": -1})(torch.ones(1, 2))
    assert Options.from_env({"FXC_MEMORY_BUDGET": "64MiB"}).memory_budget == "64MiB"
