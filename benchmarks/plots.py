"""Draw the plots and the table of docs/performance.md from the files in ``benchmarks/results``.

    python benchmarks/plots.py

The SVG files are the same on each run with one version of matplotlib. Text is mid-grey and the background transparent, so that
they can be read on light and dark pages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import matplotlib
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from results import FOLDER, Measurement, Summary, machines, ratios, read, table

ROOT = Path(__file__).resolve().parents[1]
PAGE, IMAGES = ROOT / "docs" / "performance.md", ROOT / "docs" / "images"
PAGES = ROOT / "README.md", PAGE
"""The pages with the summary."""
INTEL, AMD, GPU = "intel-avx512", "amd-avx512", "nvidia-h200"
MACHINES = {INTEL: "Intel AVX-512", AMD: "AMD AVX-512", GPU: "NVIDIA H200"}
GREY = "#808080"
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "fxc",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), GREY),
    "grid.color": GREY,
    "grid.alpha": 0.25,
}
MARKS = {
    "eager": ("#808080", "X"),
    "fxc": ("#3b82f6", "o"),
    "fxc frozen": ("#06b6d4", "D"),
    "fxc by torch.compile": ("#06b6d4", "D"),
    "fxc CUDA graphs": ("#06b6d4", "D"),
    "fxc cold": ("#3b82f6", "o"),
    "fxc warm": ("#06b6d4", "D"),
    "fxc plan": ("#8b5cf6", "^"),
    "Inductor": ("#f97316", "s"),
    "Inductor cold": ("#f97316", "s"),
    "Inductor frozen": ("#eab308", "v"),
    "Inductor warm": ("#eab308", "v"),
    "Inductor CUDA graphs": ("#eab308", "v"),
    "OpenVINO": ("#8b5cf6", "P"),
    "ONNX Runtime": ("#ec4899", "*"),
}
"""Colour and marker by implementation."""


def where(measurements: Iterable[Measurement], **labels: str) -> list[Measurement]:
    """Those that have these labels."""
    return [each for each in measurements if all(each.labels[label] == value for label, value in labels.items())]


Points = Mapping[str, Sequence[tuple[str, float]]]
"""By implementation: rows and values."""


def dots(axes: Axes, points: Points, label: str, *, log: bool = False) -> None:
    """A marker for each implementation on the lines of the rows."""
    rows = list(dict.fromkeys(row for found in points.values() for row, _ in found))
    for name, found in points.items():
        color, marker = MARKS[name]
        heights = [rows.index(row) for row, _ in found]
        axes.plot([value for _, value in found], heights, marker, color=color, label=name, markersize=5, alpha=0.8)
    lines_of(axes, rows, label, log=log)


def lines_of(axes: Axes, rows: Sequence[str], label: str, *, log: bool) -> None:
    """A line for each row, the first on top, and a vertical one at 1 where ratios are drawn."""
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(label)
    axes.grid(axis="y")
    axes.tick_params(axis="y", length=0)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if " / " in label:
        axes.axvline(1, color=GREY, linewidth=1)


def against_eager(measurements: Sequence[Measurement], implementations: Sequence[str], *labels: str) -> Points:
    """Ratios to eager; a row is named by the values of ``labels``."""
    names = [*measurements[0].labels]
    places = [names.index(label) for label in labels]
    return {
        name: [(", ".join(row[i] for i in places), value) for row, value in ratios(measurements, "time", name, "eager").items()]
        for name in implementations
    }


def legend(figure: Figure) -> None:
    found = dict[str, Artist]()
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        found.update(zip(names, handles, strict=True))
    figure.legend([*found.values()], [*found], loc="outside upper center", ncols=6)


MODELS = ("fxc", "fxc frozen", "Inductor", "Inductor frozen", "OpenVINO", "ONNX Runtime")


def inference(figure: Figure) -> None:
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for line, dtype in zip(panels, ("float32", "bfloat16"), strict=True):
        for axes, machine in zip(line, (INTEL, AMD), strict=True):
            found = where(read(f"inference-{machine}"), type=dtype, batch="1", threads="2")
            dots(axes, against_eager(found, MODELS, "model"), "time / eager", log=True)
            axes.set_title(f"{MACHINES[machine]}, {dtype}")
            axes.label_outer()


def training(figure: Figure) -> None:
    for axes, machine in zip(figure.subplots(1, 2, sharex=True), (INTEL, AMD), strict=True):
        found = where(read(f"training-{machine}"), threads="2")
        dots(axes, against_eager(found, ("fxc", "Inductor"), "model", "type"), "time / eager")
        axes.set_title(MACHINES[machine])


def kernels(figure: Figure) -> None:
    """Of float32 on two threads, coloured by the number of elements."""
    for axes, machine in zip(figure.subplots(1, 2, sharex=True, sharey=True), (INTEL, AMD), strict=True):
        found = where(read(f"kernels-{machine}"), type="float32", threads="2")
        values = ratios(found, "time", "fxc", "Inductor")
        rows = list(dict.fromkeys(labels[0] for labels in values))
        sizes = sorted({int(labels[-1]) for labels in values})
        for shade, size in enumerate(sizes):
            points = [(value, rows.index(labels[0])) for labels, value in values.items() if int(labels[-1]) == size]
            color = colormaps["plasma"](0.35 + 0.55 * shade / (len(sizes) - 1))
            axes.plot(*zip(*points, strict=True), "o", color=color, label=f"{size:,}", markersize=4, alpha=0.8)
        lines_of(axes, rows, "time, fxc / Inductor", log=True)
        axes.set_title(MACHINES[machine])


def calls(figure: Figure) -> None:
    for axes, machine in zip(figure.subplots(1, 2, sharex=True, sharey=True), (INTEL, AMD), strict=True):
        found = read(f"calls-{machine}")
        names = ("eager", "fxc", "fxc by torch.compile", "Inductor")
        dots(axes, absolute(found, names, "function"), "microseconds a call", log=True)
        axes.set_title(MACHINES[machine])


def absolute(measurements: Sequence[Measurement], implementations: Sequence[str], label: str) -> Points:
    """Times, each in the unit of its file."""
    times = [each for each in measurements if each.quantity.startswith("time, ") and not each.baseline]
    return {
        name: [(each.labels[label], each.value) for each in times if each.implementation == name and each.value is not None]
        for name in implementations
    }


LEAST_SHARE = 0.02
"""Of the compile time of the deepest model: the stages that take less are not drawn."""


def compiling(figure: Figure) -> None:
    starts, growth = figure.subplots(1, 2)
    names = ("eager", "fxc cold", "fxc warm", "fxc plan", "Inductor cold", "Inductor warm")
    dots(starts, absolute(read(f"starts-{INTEL}"), names, "model"), "seconds to the first result", log=True)
    starts.set_title("Start of a process")
    starts.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    stages = dict[str, list[tuple[int, float]]]()
    for each in read(f"growth-{INTEL}"):
        if each.quantity == "time, ms" and each.value is not None:
            stages.setdefault(each.labels["stage"], []).append((int(each.labels["layers"]), each.value / 1e3))
    total = stages["total"][-1][1]
    for name, line in stages.items():
        if line[-1][1] >= LEAST_SHARE * total:
            growth.plot(*zip(*line, strict=True), marker=".", label=name, linewidth=2 if name == "total" else 1)
    growth.set_xlabel("layers")
    growth.set_ylabel("seconds")
    growth.grid()
    growth.set_title("fxc.compile of a small GPT-2")
    growth.legend()


def gpu(figure: Figure) -> None:
    found = read(f"gpu-{GPU}")
    for axes, kind in zip(figure.subplots(1, 2, sharex=True), ("kernel", "model"), strict=True):
        names = ("fxc", "fxc CUDA graphs", "Inductor", "Inductor CUDA graphs")
        dots(axes, against_eager(where(found, kind=kind), names, "name"), "time / eager", log=True)
        axes.set_title(f"{kind}s, bfloat16")


def memory(figure: Figure) -> None:
    """A panel for each model: the peak of a training step over the budget, beside lines of eager and Inductor."""
    found = read(f"memory-{AMD}")
    models = list(dict.fromkeys(each.labels["model"] for each in found))
    for axes, model in zip(figure.subplots(2, -(-len(models) // 2), squeeze=False).flat, models, strict=False):
        peaks = [each for each in where(found, model=model) if each.value is not None]
        for name in ("eager", "Inductor"):
            [value] = [each.value for each in peaks if each.implementation == name and each.quantity == "peak, MiB"]
            axes.axhline(value, color=MARKS[name][0], linewidth=1, label=name)
        for quantity, line, label in (("peak, MiB", "o-", "fxc"), ("simulated peak, MiB", "x--", "fxc, simulated")):
            line_of = [
                (each.labels["budget"], each.value) for each in peaks if each.labels["budget"] and each.quantity == quantity
            ]
            axes.plot(*zip(*line_of, strict=True), line, color=MARKS["fxc"][0], label=label, alpha=1 if line == "o-" else 0.5)
        axes.set(title=model, xlabel="memory_budget", ylabel="MiB", ylim=(0, None))


def scaling(figure: Figure) -> None:
    """Compile time and simulated step over the number of ranks, by layout; measured programs beside simulated ones."""
    found = [each for each in read(f"scaling-{AMD}") if each.value is not None]
    timelines = [each for name in TIMELINES for each in read(name) if each.value is not None]
    compile_time, step, *rest = figure.subplots(1, 3 if timelines else 2)
    for axes, quantity in ((compile_time, "compile time, CPU s"), (step, "simulated step, ms")):
        for layout, marker in (("data-parallel", "o-"), ("fully-sharded", "s--")):
            line = [
                (int(each.labels["ranks"]), each.value) for each in where(found, layout=layout) if each.quantity == quantity
            ]
            axes.plot(*zip(*line, strict=True), marker, label=layout)
        axes.set_xscale("log", base=2)
        axes.set(xlabel="ranks", ylabel=quantity, ylim=(0, None))
    for axes in rest:
        for shift, name, quantity in ((-0.2, "measured", "programs, ms"), (0.2, "simulated", "simulated programs, ms")):
            rows = [each for each in timelines if each.quantity == quantity]
            axes.barh([row + shift for row in range(len(rows))], [each.value or 0 for each in rows], 0.4, label=name)
            axes.set_yticks(range(len(rows)), [f"{each.labels['layout']}, {each.labels['ranks']}" for each in rows])
        axes.invert_yaxis()
        axes.set(xlabel="programs of a step, ms")


@dataclass(frozen=True)
class Plot:
    """A file of ``docs/images``, what draws it, its height in inches, and the files of results that it shows."""

    draw: Callable[[Figure], None]
    height: float
    files: Sequence[str]
    legend: bool = True


TIMELINES = [name for name in (f"distributed-timeline-{AMD}",) if read(name)]
PLOTS: Mapping[str, Plot] = {
    "inference": Plot(inference, 5.5, (f"inference-{INTEL}", f"inference-{AMD}")),
    "training": Plot(training, 2.5, (f"training-{INTEL}", f"training-{AMD}")),
    "memory": Plot(memory, 5.0, (f"memory-{AMD}",)),
    "kernels": Plot(kernels, 4.0, (f"kernels-{INTEL}", f"kernels-{AMD}")),
    "calls": Plot(calls, 1.8, (f"calls-{INTEL}", f"calls-{AMD}")),
    "compile": Plot(compiling, 4.5, (f"starts-{INTEL}", f"growth-{INTEL}"), legend=False),
    "scaling": Plot(scaling, 2.8, (f"scaling-{AMD}", *TIMELINES)),
    "gpu": Plot(gpu, 3.0, (f"gpu-{GPU}",)),
}


def draw(name: str, folder: Path) -> Path:
    """Write the plot; its description is the digest of what it shows."""
    plot, path = PLOTS[name], folder / f"performance-{name}.svg"
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.5, plot.height), layout="constrained")
        plot.draw(figure)
        if plot.legend:
            legend(figure)
        figure.savefig(path, transparent=True, metadata={"Date": None, "Description": digest(plot.files)})
    return path


def digest(files: Sequence[str]) -> str:
    return hashlib.sha256(b"".join((FOLDER / f"{name}.csv").read_bytes() for name in files)).hexdigest()


FLOAT32, BFLOAT16 = ({"type": dtype, "threads": "2"} for dtype in ("float32", "bfloat16"))
LINES: Sequence[tuple[str, str, str, Mapping[str, str]]] = (
    ("inference", "fxc", "eager", FLOAT32),
    ("inference", "fxc", "Inductor", FLOAT32),
    ("inference", "fxc frozen", "Inductor frozen", FLOAT32),
    ("inference", "fxc frozen", "OpenVINO", FLOAT32),
    ("inference", "fxc frozen", "ONNX Runtime", FLOAT32),
    ("inference", "fxc frozen", "Inductor frozen", BFLOAT16),
    ("training", "fxc", "Inductor", FLOAT32),
    ("kernels", "fxc", "Inductor", FLOAT32),
    ("starts", "fxc cold", "Inductor cold", {}),
    ("starts", "fxc warm", "Inductor warm", {}),
    ("gpu", "fxc", "Inductor", {"kind": "kernel"}),
    ("gpu", "fxc", "Inductor", {"kind": "model"}),
    ("gpu", "fxc CUDA graphs", "Inductor CUDA graphs", {"kind": "model"}),
)
"""Of the summary: section, implementation, baseline, and the labels that its rows have."""


def summary() -> str:
    lines = list[Sequence[str]]()
    for section, name, base, labels in LINES:
        kind = " ".join([section, *(value for label, value in labels.items() if label != "threads")])
        cells = [_cell(where(read(f"{section}-{machine}"), **labels), name, base) for machine in MACHINES]
        lines.append([kind, f"{name} / {base}", *cells])
    return table(["", "", *(name.split()[0] for name in MACHINES.values())], lines)


def _cell(measurements: Sequence[Measurement], name: str, base: str) -> str:
    """The mean, and the worst with those labels that tell rows apart."""
    found = ratios(measurements, "time", name, base)
    if not found:
        return ""
    summary = Summary.of(found)
    varied = [i for i, values in enumerate(zip(*found, strict=True)) if len(set(values)) > 1]
    names, shown = list(measurements[0].labels), list[str]()
    for i in varied:
        value = summary.where[i]
        shown.append(f"{names[i]} {int(value):,}" if value.isdigit() else value)
    return f"{summary.mean:.2f}, {summary.worst:.2f} ({', '.join(shown)})"


def measured() -> str:
    """The machines and versions of the files that the page shows, and the benchmarks of each."""
    entries, lines = machines(), dict[str, list[str]]()
    for name in dict.fromkeys(name for plot in PLOTS.values() for name in plot.files):
        entry = entries[name]
        versions = ", ".join(f"{package} {version}" for package, version in entry["versions"].items())
        lines.setdefault(f"{entry['machine']}; {versions}; {entry['date']}", []).append(
            re.sub("-(intel|amd|nvidia)-.*", "", name)
        )
    return "\n".join(f"- {line}: {', '.join(names)}" for line, names in lines.items())


def with_section(page: str, name: str, text: str) -> str:
    """``page`` with ``text`` between the markers of ``name``. ValueError where it does not have them once."""
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end of {re.escape(name)} -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page must have <!-- {name} --> and <!-- end of {name} --> once")
    return pattern.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", page)


def page_of(page: str) -> str:
    """``page`` with the summary and the machines of today's files."""
    return with_section(with_section(page, "summary", summary()), "machines", measured())


@click.command(help=(__doc__ or "").split("\n")[0])
def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name in PLOTS:
        print(draw(name, IMAGES))
    for page in PAGES:
        page.write_text(page_of(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
