"""The implementation of ``fxc timeline``: read a distributed program and simulate it for numbers of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.dist import GroupOp, MeshOp
from fxc.driver.runner import read_module, run_pipeline
from fxc.errors import InputError
from fxc.passes.dist.links import COMMUNICATION, COMPUTE, NO_TIMES, Timeline, simulate
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from fxc.runtime.units import bytes_text
from fxc.tools.svg_plot import svg_plot

COLUMNS = f"{'ranks':>6} {'step':>12} {'compute':>12} {'communication':>14} {'exposed':>12} {'messages':>9} {'in flight':>12}"


@dataclass(frozen=True)
class Scaling:
    """The timelines of the function ``name``, by number of ranks."""

    name: str
    timelines: dict[int, Timeline]


def simulated(
    text: str, file: str, world: str | None, axis: str | None, links: str | None, *, measure: bool = False
) -> list[Scaling]:
    """Each function of the program ``text`` of ``file``, simulated; the other arguments are the options of the command."""
    context = new_context()
    module = read_module(context, text, file)
    steps, times = [f"set-links{{file={links}}}"] if links is not None else [], NO_TIMES
    run_pipeline(context, module, parse_pipeline(",".join([*steps, "convert-torch-to-dist"])))
    found = list[Scaling]()
    for name, each, function in _functions(module):
        worlds = _worlds(each, world, axis)
        if measure:
            from torch import set_num_threads

            from fxc.measure.program_times import fuse_for_host, operation_times

            set_num_threads(1)
            fuse_for_host(context, each)
            times = operation_times(context, each, function)
        found.append(Scaling(name, {ranks: simulate(each, function, axes, times) for ranks, axes in worlds}))
    if not found:
        raise InputError(f"{file} has no function", hint="fxc import SOURCE -o FILE writes a program")
    return found


def table(scalings: Sequence[Scaling], *, events: bool) -> str:
    lines = list[str]()
    for scaling in scalings:
        lines += [f"@{scaling.name}", COLUMNS]
        for ranks, each in scaling.timelines.items():
            times = (each.time, each.busy(COMPUTE), each.busy(COMMUNICATION), each.exposed())
            numbers = [f"{time / 1000:{width}.3f} ms" for time, width in zip(times, (9, 9, 11, 9), strict=True)]
            lines.append(f"{ranks:6} {' '.join(numbers)} {each.messages():9} {bytes_text(each.in_flight):>12}")
            if events:
                lines += [f"  {e.start:12.1f} {e.end:12.1f} us  {e.stream:14} {e.operation}" for e in each.events]
    return "\n".join(lines) + "\n"


def draw(scalings: Sequence[Scaling], path: Path) -> None:
    """Write an SVG plot of the times over the numbers of ranks. InputError without matplotlib."""
    with svg_plot(path) as axes:
        for scaling in scalings:
            ranks, label = list(scaling.timelines), f"@{scaling.name}, " if len(scalings) > 1 else ""
            timelines = scaling.timelines.values()
            axes.plot(ranks, [each.time / 1000 for each in timelines], "o-", label=f"{label}step")
            axes.plot(ranks, [each.exposed() / 1000 for each in timelines], "x--", label=f"{label}exposed communication")
        axes.set_xscale("log", base=2)
        axes.set(xlabel="ranks", ylabel="simulated time, ms", ylim=(0, None))


def _functions(module: ModuleOp) -> list[tuple[str, ModuleOp, FuncOp]]:
    """The functions with a body of ``module``, and of those in it, such as ``@forward`` and ``@backward``."""
    found = [(op.sym_name.data, module, op) for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    for op in module.ops:
        if isinstance(op, ModuleOp):
            outer = op.sym_name.data if op.sym_name is not None else "_"
            found += [(f"{outer}::@{name}", each, function) for name, each, function in _functions(op)]
    return found


def _worlds(module: ModuleOp, world: str | None, axis: str | None) -> Sequence[tuple[int, dict[str, int]]]:
    """Each number of ranks, and that along the axis that has more than in the text."""
    meshes = [op for op in module.ops if isinstance(op, MeshOp)]
    groups = [op for op in module.ops if isinstance(op, GroupOp)]
    if groups and not meshes:
        if world is None:
            return [(max(group.size for group in groups), {})]
        meshes = _mesh_of(groups)
    if not meshes:
        raise InputError("the program has no dist.mesh", hint="fxc timeline is for distributed programs")
    mesh, axes = meshes[0], meshes[0].axes
    if world is None:
        return [(len(mesh.ranks), {})]
    grows = axis or next(iter(axes))
    if grows not in axes:
        raise InputError(f"{mesh.text()} has no axis {grows}", hint=f"--axis={' or '.join(axes)}")
    others, found = len(mesh.ranks) // axes[grows], list[tuple[int, dict[str, int]]]()
    for text in world.split(","):
        if not text.strip().isdigit() or (ranks := int(text)) % others or not ranks:
            more = f", divisible by {others}" if others > 1 else ""
            raise InputError(f"--world={world}: {text!r} is no number of ranks of {mesh.text()}", hint=f"numbers{more}")
        found.append((ranks, {grows: ranks // others}))
    return found


def _mesh_of(groups: Sequence[GroupOp]) -> list[MeshOp]:
    """A mesh of one axis, along which ``groups`` then are. InputError unless all have the same ranks."""
    (ranks, *others) = {tuple(group.rank_list.get_values()) for group in groups if group.rank_list is not None}
    if others:
        raise InputError("the groups have different ranks, and no dist.mesh has them as axes", hint="leave out --world")
    mesh = MeshOp.of("mesh", "", {"ranks": len(ranks)}, ranks)
    Rewriter.insert_op(mesh, InsertPoint.before(groups[0]))
    for group in groups:
        Rewriter.replace_op(group, GroupOp.along(group.sym_name.data, group.process_group.data, "mesh", ["ranks"]), [])
    return [mesh]
