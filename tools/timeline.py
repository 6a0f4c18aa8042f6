"""The implementation of ``fxc timeline``: read a distributed program and simulate it for numbers of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from fxc.dialects.dist import MeshOp
from fxc.driver.runner import read_module, run_pipeline
from fxc.errors import InputError
from fxc.passes.dist.timeline import simulate
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from fxc.runtime.units import bytes_text

COLUMNS = f"{'ranks':>6} {'step':>12} {'compute':>12} {'communication':>14} {'exposed':>12} {'messages':>9} {'in flight':>12}"


def table(text: str, name: str, world: str | None, axis: str | None, links: str | None, *, events: bool) -> str:
    """The simulated times of the program ``text`` of the file ``name``; the other arguments are the options of the command."""
    context = new_context()
    module = read_module(context, text, name)
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
    return "\n".join(lines) + "\n"


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
