"""Files that replay a failing pipeline: the module before it, and the run options as MLIR's external resources.

{-# external_resources: { mlir_reproducer: { pipeline: "builtin.module(cse)", verify_each: true } } #-}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fxc.errors import ParseError, PipelineError

_BLOCK = re.compile(
    r"\{-#\s*external_resources\s*:\s*\{\s*mlir_reproducer\s*:\s*\{(?P<entries>(?:\"(?:[^\"\\]|\\.)*\"|[^\"}])*)\}\s*\}\s*#-\}"
)
_ENTRY = re.compile(r"\s*(?P<key>\w+)\s*:\s*(?P<value>true|false|\"(?:[^\"\\]|\\.)*\")\s*(?:,|$)")

_ENTRIES = 'write entries as in pipeline: "builtin.module(cse)", verify_each: true'


@dataclass(frozen=True)
class Reproducer:
    """The pipeline and options that the module in the file was run with."""

    pipeline: str
    verify_each: bool = True
    allow_unregistered_dialect: bool = False

    def header(self) -> str:
        entries = {
            "pipeline": '"' + self.pipeline.replace("\\", "\\\\").replace('"', '\\"') + '"',
            "verify_each": str(self.verify_each).lower(),
            "allow_unregistered_dialect": str(self.allow_unregistered_dialect).lower(),
        }
        lines = ",\n".join(f"      {key}: {value}" for key, value in entries.items())
        return f"{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n{lines}\n    }}\n  }}\n#-}}\n"


def write(
    path: Path, reproducer: Reproducer, module_text: str, error: str, inputs: tuple[Path, ...] = (), more: str = ""
) -> None:
    """Write the file at ``path``, which must not be one of the ``inputs``. ``more``: arguments of ``fxc-opt``."""
    check_path(path, inputs)
    summary = error.splitlines()[0] if error else "unknown error"
    comment = f"// replay with: fxc-opt --run-reproducer {path.name}{more}\n// {summary}\n"
    path.write_text(comment + reproducer.header() + module_text, encoding="utf-8")


def check_path(path: Path, inputs: tuple[Path, ...]) -> None:
    """Raise ``PipelineError`` where a reproducer at ``path`` would overwrite an input."""
    if any(path.resolve() == given.resolve() for given in inputs):
        raise PipelineError(f"the reproducer {path} would overwrite the input", hint="name another file for --crash-reproducer")


def split(text: str) -> tuple[Reproducer | None, str]:
    """The reproducer in ``text``, if any, and ``text`` with it blanked out, so that line numbers do not change."""
    found = _BLOCK.search(text)
    if found is None:
        return None, text
    blank = "\n" * found.group().count("\n")
    return _from_entries(_entries(found["entries"])), text[: found.start()] + blank + text[found.end() :]


def _entries(text: str) -> dict[str, str | bool]:
    entries: dict[str, str | bool] = {}
    position, text = 0, text.rstrip()
    while position < len(text):
        found = _ENTRY.match(text, position)
        if found is None:
            raise ParseError(f"malformed mlir_reproducer entry: {text[position:].strip()[:60]}", hint=_ENTRIES)
        value = found["value"]
        entries[found["key"]] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value == "true"
        position = found.end()
    return entries


def _from_entries(entries: Mapping[str, str | bool]) -> Reproducer:
    pipeline = entries.get("pipeline")
    if not isinstance(pipeline, str):
        raise ParseError("the mlir_reproducer of this file names no pipeline", hint=_ENTRIES)
    return Reproducer(
        pipeline,
        verify_each=entries.get("verify_each", True) is not False,
        allow_unregistered_dialect=entries.get("allow_unregistered_dialect", False) is True,
    )
