"""``fxc import``: from a model to a file; and the capture options that it shares with ``fxc compile``."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fxc.errors import CaptureError, InputError, nearest
from fxc.tools.command_line import check_writable, complete_pipeline, progress, say, write_output, writing
from fxc.tools.sources import load_source, run_on

if TYPE_CHECKING:
    from fxc.program.program import Program


ROUTES = ("export", "symbolic_trace", "dynamo", "make_fx")

SOURCE_HELP = """
\b
SOURCE is one of
  package.module:factory   a function that returns a model, or (model, inputs)
  file.py                  a file with a class Model and a function get_inputs()
  file.py:factory          a function of that file
  file.pt2                 a program that torch.export.save wrote
A Python source is run, and a .pt2 file can make torch.export.load unpickle: name only what you trust. PyTorch's generator
is seeded first, so random weights are the same each time.
"""

IMPORT_HELP = f"""Capture a model as IR text.

Writes the text, and the weights beside it with the suffix .safetensors; without -o prints the text alone.

{SOURCE_HELP}
\b
Examples:
  fxc import examples/models/mlp.py:small
  fxc import mypackage.models:tiny -o tiny.mlir
  fxc import model.py -o model.mlir --dynamic-shapes x:0=batch
  fxc import model.py --route symbolic_trace            calls as the code has them, before ATen
  fxc import model.py -p lower-to-torch,simplify        after passes
  fxc import model.py --train --joint -p joint          forward and backward, as torch.compile splits them
"""


def _complete_source(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    return [str(path) for path in Path().glob(f"{text}*.py")]


def capture_options(function: Any) -> Any:
    """The options of both commands that capture a model."""
    for option in reversed(
        [
            click.argument("source", shell_complete=_complete_source),
            click.option(
                "--route",
                type=click.Choice(ROUTES),
                default="export",
                show_default=True,
                help="How PyTorch captures the model.",
            ),
            click.option(
                "--dynamic-shapes",
                multiple=True,
                metavar="SHAPES",
                help='Dynamic sizes: x:0=batch, x:0=batch,1=seq[2..512], or JSON {"x": {"0": "batch"}}. May be repeated.',
            ),
            click.option("--train/--eval", default=False, help="The mode of the captured model.  [default: eval]"),
        ]
    ):
        function = option(function)
    return function


@click.command("import", help=IMPORT_HELP)
@capture_options
@click.option("-o", "output", metavar="FILE", type=click.Path(dir_okay=False), help="Write the text and the weights here.")
@click.option("--joint", is_flag=True, help="Capture forward and backward in one graph, as torch.compile does.")
@click.option("-p", "--pipeline", default="", metavar="TEXT", shell_complete=complete_pipeline, help="Passes to run.")
@click.option(
    "--print-debuginfo/--no-print-debuginfo", default=None, help="Write node names and source lines.  [default: with -o]"
)
def import_command(
    source: str,
    route: str,
    dynamic_shapes: tuple[str, ...],
    train: bool,
    joint: bool,
    output: str | None,
    pipeline: str,
    print_debuginfo: bool | None,
) -> None:
    check_writable(output)
    if joint:
        program = _joint_program(source, route, dynamic_shapes, train)
    else:
        program, _ = capture_source(source, route, dynamic_shapes, train)
    if pipeline:
        with progress("running passes"):
            run_on(program, pipeline)
    if output is None:
        write_output(None, program.text(debuginfo=bool(print_debuginfo)))
        return
    save(program, Path(output), debuginfo=print_debuginfo is not False)


def capture_source(source: str, route: str, dynamic_shapes: tuple[str, ...], train: bool) -> tuple[Program, tuple[Any, ...]]:
    """The program of a SOURCE, and the inputs of the capture; no inputs if SOURCE is a captured program.

    ``train``: in training mode, with ``fx.requires_grad`` at what has a gradient.
    """
    with progress(f"loading {source}"):
        loaded = load_source(source, train=train)
    with progress(f"capturing {source}"):
        from torch.export import ExportedProgram

        from fxc.api import capture, import_fx
        from fxc.program.program_signature import mark_gradients, signature_of

        if isinstance(loaded.model, ExportedProgram):
            if route != "export" or dynamic_shapes:
                raise CaptureError(f"{source} is captured already", hint="leave out --route and --dynamic-shapes")
            program = import_fx(loaded.model)
        else:
            shapes = parse_dynamic_shapes(dynamic_shapes, loaded.model, loaded.args)
            program = capture(loaded.model, loaded.args, route=route, dynamic_shapes=shapes)
        if train:
            mark_gradients(program, signature_of(program), loaded.args, {})
        return program, loaded.args


def _joint_program(source: str, route: str, dynamic_shapes: tuple[str, ...], train: bool) -> Program:
    """The joint program of a SOURCE, which is not a captured program."""
    if route != "export" or source.endswith(".pt2"):
        raise CaptureError("torch.compile captures joint graphs of models", hint="leave out --route, and name a model")
    with progress(f"loading {source}"):
        loaded = load_source(source, train=train)
    with progress(f"capturing {source}"):
        from fxc.torch_compile import capture_joint

        shapes = parse_dynamic_shapes(dynamic_shapes, loaded.model, loaded.args)
        _mark_dynamic(loaded.args, tuple(shapes.values()) if shapes else None)
        return capture_joint(loaded.model, loaded.args)


def _mark_dynamic(value: Any, shapes: Any) -> None:
    """Mark the axes of tensors in ``value`` that ``shapes``, as for torch.export, declares dynamic."""
    if isinstance(shapes, dict):
        from torch._dynamo import mark_dynamic

        for axis in cast("dict[int, Any]", shapes):
            mark_dynamic(value, axis)
    elif shapes is not None:
        for each, inner in zip(value, shapes, strict=False):
            _mark_dynamic(each, inner)


def save(program: Program, path: Path, *, debuginfo: bool) -> None:
    """Write text and weights, with messages."""
    from fxc.program.program import weights_path

    with writing(path), progress(f"writing {path}"):
        program.save(path, debuginfo=debuginfo)
    say(f"wrote {path}" + (f" and {weights_path(path)}" if program.state else ""))


# ``--dynamic-shapes``: which sizes are dynamic, as text or JSON


_DIM = re.compile(r"([A-Za-z_]\w*)(?:\[(\d*)\.\.(\d*)\])?")


def parse_dynamic_shapes(texts: Sequence[str], model: Any, args: Sequence[Any]) -> dict[str, Any] | None:
    """The dynamic shapes for torch.export: an entry for every argument. InputError where the text or a name is wrong."""
    if not texts:
        return None
    forward = model.forward if hasattr(model, "forward") else model
    try:
        names = list(inspect.signature(forward).bind(*args).arguments)
    except TypeError as error:
        raise InputError(
            f"the example inputs do not fit the model: {error}", hint="return (model, inputs) with inputs that the model takes"
        ) from error
    dims = dict[str, Any]()
    given = dict[str, Any]()
    for text in texts:
        entries = _json(text) if text.lstrip().startswith("{") else dict(map(_entry, filter(None, text.split(";"))))
        for name, entry in entries.items():
            if name not in names:
                raise InputError(f"the model has no input {name!r}", hint=nearest(name, names) or f"inputs: {', '.join(names)}")
            given[name] = _shapes(entry, dims)
    return {name: given.get(name) for name in names}


def _json(text: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"--dynamic-shapes is not JSON: {error}", hint='write {"x": {"0": "batch"}}') from error


def _entry(text: str) -> tuple[str, Any]:
    name, colon, rest = text.strip().partition(":")
    parts = [part.partition("=") for part in re.split(r",(?![^\[]*\])", rest)]
    if not colon or not all(axis.strip().isdigit() and dim for axis, _, dim in parts):
        raise InputError(f"--dynamic-shapes {text} is malformed", hint="write x:0=batch, or x:0=batch,1=seq[2..512]")
    return name.strip(), {axis.strip(): dim for axis, _, dim in parts}


def _shapes(entry: Any, dims: dict[str, Any]) -> Any:
    """An entry with its names as torch.export dimensions: axes as a dict, nested inputs as a list."""
    if entry is None:
        return None
    if isinstance(entry, list):
        return tuple(_shapes(element, dims) for element in cast(list[Any], entry))
    if isinstance(entry, dict):
        entries = cast(dict[str, Any], entry)
        if all(key.isdigit() for key in entries):
            return {int(axis): _dim(dim, dims) for axis, dim in entries.items() if dim is not None}
        return {key: _shapes(element, dims) for key, element in entries.items()}
    raise InputError(f"--dynamic-shapes: {entry!r} is neither axes nor nested axes", hint='write {"0": "batch"}')


def _dim(text: Any, dims: dict[str, Any]) -> Any:
    from torch.export import Dim

    if text in ("auto", "dynamic"):
        return Dim.AUTO if text == "auto" else Dim.DYNAMIC
    found = _DIM.fullmatch(str(text).strip())
    if found is None:
        raise InputError(f"--dynamic-shapes: {text!r} is not a size name", hint="write batch, batch[2..64] or auto")
    name, low, high = found.groups()
    if low and high and int(low) > int(high):
        raise InputError(f"--dynamic-shapes: no size is in {text!r}", hint=f"write {name}[{high}..{low}]")
    if name not in dims or low or high:
        dims[name] = Dim(name, min=int(low) if low else None, max=int(high) if high else None)
    return dims[name]
