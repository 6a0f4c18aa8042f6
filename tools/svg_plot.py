"""SVG plots of commands, in colours that fit light and dark pages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fxc.errors import InputError
from fxc.tools.command_line import writing

GREY, BLUE, ORANGE = "#808080", "#3b82f6", "#f97316"


@contextmanager
def svg_plot(path: Path) -> Generator[Any]:
    """Axes to plot on; the plot is written to ``path`` with a legend. InputError without matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(f"the plot needs matplotlib: {error}", hint="pip install matplotlib, or leave out -o") from error
    texts = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    style: dict[Any, Any] = {
        "svg.hashsalt": "fxc",
        "svg.fonttype": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    style |= {"font.size": 9.0, "legend.frameon": False, **dict.fromkeys(texts, GREY)}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(6, 3), layout="constrained")
        axes: Any = figure.subplots()
        yield axes
        axes.legend()
        with writing(path):
            figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
