"""The text of ``fxc-opt --list-passes``."""

from __future__ import annotations

import inspect
import sys

from xdsl.passes import ModulePass

from fxc.pass_options import option_help
from fxc.pass_registry import PassRegistry
from fxc.pipeline_text import to_text
from fxc.pipelines import NAMED


def listing(registry: PassRegistry) -> str:
    """Each pass with its summary and options, then each named pipeline. Imports every pass."""
    lines = ["Passes:"]
    for name in registry.names():
        cls = registry.get(name)
        lines.append(f"  {name}".ljust(34) + f"  {_summary(cls)}".rstrip())
        lines += [f"      {option}" for option in option_help(cls)]
    lines += ["", "Pipelines:"]
    lines += [f"  {name}".ljust(34) + f"  {to_text(specs)}" for name, specs in NAMED.items()]
    return "\n".join(lines)


def _summary(cls: type[ModulePass]) -> str:
    """The first line of the pass file's docstring, without the name of the pass."""
    doc = inspect.getdoc(sys.modules[cls.__module__]) or ""
    return doc.split("\n", 1)[0].removeprefix(f"{cls.name}: ")
