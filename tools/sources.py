"""SOURCE on the command line, the origin of a model, and programs in IR files.

``package.module:factory``, ``file.py`` with ``Model`` and ``get_inputs``, ``file.py:factory``, or ``file.pt2``. Loading a
source runs code: Python is imported, and ``torch.export.load`` may unpickle the contents of a .pt2 file.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import click

from fxc.errors import CaptureError, InputError, WeightsError, nearest, nearest_file
from fxc.program.weights import load_state
from fxc.tools.command_line import progress, read_text

FORMS = "give package.module:factory, file.py, file.py:factory, or file.pt2"


EXPORT = "write the file by torch.export.save, with this version of PyTorch"


@dataclass(frozen=True)
class ModelSource:
    """``model``: a module, a function or an ExportedProgram. ``args``: its example inputs; ``kwargs``: those by name."""

    name: str
    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])


def load_source(text: str, *, train: bool = False) -> ModelSource:
    """The model of ``text``, in train or eval mode, and its example inputs. InputError where there is none.

    PyTorch's generator is seeded first, so a model with random weights is the same model each time.
    """
    check_source(text)
    import torch

    if text.endswith(".pt2"):
        return _exported(text)
    torch.manual_seed(0)
    place, _, name = text.partition(":") if not text.endswith(".py") else (text, "", "")
    with running(place):
        module = import_source(place)
        source = _made(text, module, name)
    if isinstance(source.model, torch.nn.Module):
        source.model.train(train)
    return source


def check_source(text: str) -> str:
    """``text`` if it may name a model. InputError, without a need of PyTorch, where the file is missing or no Python file."""
    place = text if text.endswith((".py", ".pt2")) else text.partition(":")[0]
    if place.endswith((".py", ".pt2")):
        if not Path(place).is_file():
            raise InputError(f"there is no file {place}", hint=nearest_file(place))
    elif place.endswith(".mlir"):
        raise InputError(f"{place} is IR text, not a source of a model", hint=f"fxc run and fxc-opt read IR; here {FORMS}")
    elif not all(part.isidentifier() for part in place.split(".")):
        raise InputError(f"{place!r} is not a source of a model", hint=FORMS)
    return text


def import_source(place: str) -> ModuleType:
    """The module of a Python file or a dotted name; the working directory is on the search path."""
    check_source(place)
    if not place.endswith(".py"):
        with _first_on_path(os.getcwd()):
            return importlib.import_module(place)
    path = Path(place).resolve()
    name = path.stem if path.stem.isidentifier() else "model"
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if known is not None or name in sys.stdlib_module_names:
        name = f"fxc_source_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Dynamo and dataclasses look up the module of a class by name
    try:
        with _first_on_path(str(path.parent)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def allowed(names: tuple[str, ...]) -> dict[str, Any]:
    """The objects that ``--allow MODULE:NAME`` names, under their names in IR text."""
    found = dict[str, Any]()
    for text in names:
        place, _, name = text.rpartition(":")
        if not place or not name:
            raise InputError(f"--allow {text} does not name anything", hint="write MODULE:NAME, as in mypackage.ops:gelu_fast")
        with running(place):
            value = attribute(import_source(place), name)
        found[f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else f"{place}.{name}"] = value
        found[f"{place}.{name}"] = value
    return found


def attribute(module: ModuleType, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            public = [name for name in dir(value) if not name.startswith("_")]
            hint = nearest(part, public) or f"it has {', '.join(public[:10]) or 'nothing public'}"
            raise InputError(f"{module.__name__} has no {path!r}", hint=hint)
        value = getattr(value, part)
    return value


@contextmanager
def running(place: str) -> Generator[None]:
    """Convert an exception of user code to one CaptureError, with the source line."""
    try:
        yield
    except (InputError, CaptureError, KeyboardInterrupt):
        raise
    except BaseException as error:  # user code may raise anything, including SystemExit
        message = f"{place} cannot be run: {type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
        raise CaptureError(message, place=_line_of(error, place), hint=_hint(error, place)) from error


def _line_of(error: BaseException, place: str) -> str | None:
    """The innermost line of the user file, or of any file outside of the import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename and f.filename != __file__]
    own = [f for f in frames if place.endswith(".py") and Path(f.filename).name == Path(place).name]
    frame = (own or frames or [None])[-1]
    return None if frame is None else f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"


def _hint(error: BaseException, place: str) -> str | None:
    if isinstance(error, SyntaxError):
        return "correct the file; python FILE shows the same error"
    if isinstance(error, ModuleNotFoundError) and error.name and place.split(".")[0] == error.name.split(".")[0]:
        return FORMS
    return None


@contextmanager
def _first_on_path(folder: str) -> Generator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _made(text: str, module: ModuleType, name: str) -> ModelSource:
    """The result of the factory: a model, or (model, inputs); without inputs, those of ``get_inputs``."""
    import torch

    if not name and not (hasattr(module, "Model") and hasattr(module, "get_inputs")):
        raise InputError(f"{text} has no class Model and function get_inputs()", hint="name a factory: file.py:factory")
    factory = attribute(module, name or "Model")
    made: Any = factory if isinstance(factory, torch.nn.Module) or not callable(factory) else factory()
    pair = cast("tuple[Any, ...]", made) if isinstance(made, tuple) else ()
    if len(pair) == 2 and isinstance(pair[1], (tuple, list)):
        model, inputs = pair
    else:
        get_inputs: Callable[[], Any] | None = getattr(module, "get_inputs", None)
        if get_inputs is None:
            raise InputError(f"{text} returns no example inputs", hint="return (model, inputs), or define get_inputs()")
        model, inputs = cast(Any, made), get_inputs()
    if not callable(model):
        raise InputError(f"{text} returns {type(model).__name__} {model!r:.60}, not a model", hint="return (model, inputs)")
    several = isinstance(inputs, (tuple, list))
    return ModelSource(text, model, tuple(cast("list[Any]", inputs)) if several else (inputs,))


def _exported(path: str) -> ModelSource:
    import torch

    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is not an archive")
        program = torch.export.load(path)
    except Exception as error:  # PyTorch raises any exception for an invalid file
        message = f"{path} is not a program that torch.export can load: {str(error).splitlines()[0]}"
        raise CaptureError(message, hint=EXPORT) from error
    args, kwargs = program.example_inputs or ((), {})
    return ModelSource(path, program, tuple(args), kwargs)


if TYPE_CHECKING:
    from fxc.program.program import Program


def allow_options(function: Any) -> Any:
    """The options that extend the allow-list of a file."""
    allow = click.option(
        "--allow",
        multiple=True,
        metavar="MODULE:NAME",
        help="Allow the file to call this function or class.",
    )
    packages = click.option(
        "--import",
        "packages",
        multiple=True,
        metavar="PACKAGE",
        help="Import this package first, to register its operators.",
    )
    return packages(allow(function))


def load_program(
    file: str,
    *,
    allow: Sequence[str] = (),
    packages: Sequence[str] = (),
    pipeline: str = "",
    check_numerics: bool = False,
    need_weights: bool = True,
) -> Program:
    """The program of an IR file after ``pipeline``, with the weights file beside it if needed."""
    from fxc.driver.runner import read_module
    from fxc.program.program import new_context

    text, shown = read_text(file), "<stdin>" if file == "-" else file
    with progress(f"reading {file}"):
        for package in packages:
            with running(package):
                import_source(package)
        live = allowed(tuple(allow))
        importlib.import_module("torch")
        from fxc.program.program import Program, state_names, weights_beside

        context = new_context(live)
        module = read_module(context, text, shown)
        program = Program(module, {}, live, context)
        names = state_names(module) if need_weights else []
        weights = weights_beside(Path(file))
        if names and (file == "-" or not weights.exists()):
            missing = "stdin has no weights" if file == "-" else f"{weights.name} is missing"
            raise WeightsError(
                f"{shown} names {len(names)} tensors, but {missing}",
                hint="`fxc import` writes both files; keep them side by side, or generate values with --lifted",
            )
        program.state.update(load_state(weights, names) if names else {})
    if pipeline or check_numerics:
        with progress("running passes"):
            run_on(program, pipeline, check_numerics)
    return program


def run_on(program: Program, pipeline: str, check_numerics: bool = False) -> None:
    """Run passes on ``program`` in place."""
    from fxc.api import run_options
    from fxc.compilation.passes import Passes

    Passes(pipeline, run_options({"check_numerics": True} if check_numerics else None)).run(program)
