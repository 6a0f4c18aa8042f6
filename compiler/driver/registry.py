"""The passes that a pipeline may name: those of the package, and those loaded from user files."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from types import MappingProxyType

from xdsl.passes import ModulePass

from fxc.errors import PipelineError, nearest, nearest_file
from fxc.passes import available, load, pass_in

_LOADED = "fxc_loaded_pass_"

TRACEBACK = "fxc-opt --traceback shows where"


@dataclass(frozen=True)
class PassRegistry:
    """Name -> pass class. Immutable: ``with_pass`` and ``with_file`` return a larger one."""

    extra: Mapping[str, type[ModulePass]] = field(default_factory=lambda: MappingProxyType({}))

    def names(self) -> list[str]:
        """All names, sorted; imports nothing."""
        return sorted({*available(), *self.extra})

    def __contains__(self, name: str) -> bool:
        return name in self.extra or name in available()

    def get(self, name: str) -> type[ModulePass]:
        """The pass class ``name``; imports its file. PipelineError where there is none."""
        if name in self.extra:
            return self.extra[name]
        if name not in available():
            raise PipelineError(f"there is no pass {name}", hint=nearest(name, self.names()) or "see --list-passes")
        try:
            return load(name)
        except (ImportError, TypeError) as error:
            raise PipelineError(f"pass {name} cannot be loaded: {error}", hint=TRACEBACK) from error

    def with_pass(self, cls: type[ModulePass]) -> PassRegistry:
        if cls.name in self:
            raise PipelineError(f"there is already a pass {cls.name}", hint="give the new pass another name")
        return replace(self, extra=MappingProxyType({**self.extra, cls.name: cls}))

    def with_file(self, path: Path) -> PassRegistry:
        """A registry that also has the one pass that the Python file at ``path`` defines. Runs the file."""
        return self.with_pass(_load_file(path))


def load_arguments(passes: Iterable[ModulePass]) -> str:
    """The arguments of ``fxc-opt`` that load those of ``passes`` that ``with_file`` loaded, each after a space."""
    modules = [sys.modules[type(each).__module__] for each in passes if type(each).__module__.startswith(_LOADED)]
    files = dict.fromkeys(str(Path(module.__file__).resolve()) for module in modules if module.__file__)
    return "".join(f" --load-pass={quote(file)}" for file in files)


def _load_file(path: Path) -> type[ModulePass]:
    if not path.is_file():
        raise PipelineError(f"no pass can be loaded from {path}: there is no such file", hint=nearest_file(path))
    name = _LOADED + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"no pass can be loaded from {path}: it is not a Python file", hint="name it *.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module by name
    try:
        spec.loader.exec_module(module)
        return pass_in(module)
    except Exception as error:  # user files may raise any exception
        raise PipelineError(f"no pass can be loaded from {path}: {type(error).__name__}: {error}", hint=TRACEBACK) from error
