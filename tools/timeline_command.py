"""``fxc timeline``: simulate the time of a distributed program for a number of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import click
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fxc.dialects.dist import MeshOp
from fxc.errors import InputError
from fxc.runtime.units import bytes_text
from fxc.tools.command_line import read_text, write_output

HELP = """Simulate the time of a distributed program on one of its ranks, without running it.

FILE is IR with dist.mesh and dist.group, before or after the pipeline "distributed". Computations run on one stream,
collectives on another. For other numbers of ranks a rank computes, reduces and gathers tensors of the same sizes.

\b
Columns:
  exposed     time in which no computation runs
  in flight   the most bytes of results of collectives that were started and not awaited

\b
Examples:
  fxc timeline step.mlir --links links.json
  fxc-opt step.mlir -p distributed | fxc timeline - --world 8,64,1024 --links links.json
  fxc timeline step.mlir --events
"""
COLUMNS = f"{'ranks':>6} {'step':>12} {'compute':>12} {'communication':>14} {'exposed':>12} {'messages':>9} {'in flight':>12}"


@click.command("timeline", help=HELP)
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--world", metavar="LIST", help="Numbers of ranks; by default that of the mesh.")
@click.option("--axis", metavar="NAME", help="The axis of the mesh that has more ranks then; by default the first.")
@click.option(
    "--links", metavar="FILE", help="Times that fxc measure-links wrote; by default dist.links of the text, or rough ones."
)
@click.option("--events", is_flag=True, help="Print start and end of each computation and collective.")
@click.option("-o", "output", metavar="FILE", type=click.Path(dir_okay=False), help="Write to a file.")
def timeline_command(
    file: str, world: str | None, axis: str | None, links: str | None, events: bool, output: str | None
) -> None:
    from fxc.driver.runner import read_module, run_pipeline
    from fxc.passes.dist.timeline import simulate
    from fxc.pipelines import parse_pipeline
    from fxc.program.program import new_context

    context = new_context()
    module = read_module(context, read_text(file), "<stdin>" if file == "-" else file)
    steps = [f"set-links{{file={links}}}"] if links is not None else []
    run_pipeline(context, module, parse_pipeline(",".join([*steps, "convert-torch-to-dist"])))
    lines = list[str]()
    for name, each, function in _functions(module):
        lines += [f"@{name}", COLUMNS]
        for ranks, axes in _worlds(each, world, axis):
            found = simulate(each, function, axes)
            times = (found.time, found.busy("compute"), found.busy("communication"), found.exposed())
            numbers = [f"{time / 1000:{width}.3f} ms" for time, width in zip(times, (9, 9, 11, 9), strict=True)]
            lines.append(f"{ranks:6} {' '.join(numbers)} {found.messages():9} {bytes_text(found.in_flight):>12}")
            if events:
                lines += [f"  {e.start:12.1f} {e.end:12.1f} us  {e.stream:14} {e.operation}" for e in found.events]
    write_output(output, "\n".join(lines) + "\n")


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
