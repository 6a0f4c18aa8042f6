"""The text of ``fxc-opt --list-passes``."""

from __future__ import annotations

import inspect
import sys

from xdsl.passes import ModulePass

from fxc.driver.pass_options import option_help
from fxc.driver.registry import PassRegistry
from fxc.pipelines import NAMED


def listing(registry: PassRegistry) -> str:
    """Each pass with its summary and options, then each named pipeline. Imports every pass."""
    lines = ["Passes:"]
    for name in registry.names():
        cls = registry.get(name)
        lines.append(f"  {name}".ljust(34) + f"  {_summary(cls)}".rstrip())
        lines += [f"      {option}" for option in option_help(cls)]
    lines += ["", "Pipelines:"]
    for name, pipeline in NAMED.items():
        lines.append(f"  {name}".ljust(34) + f"  {pipeline}")
        lines += [f"      {option}" for option in pipeline.option_names()]
    return "\n".join(lines)


def _summary(cls: type[ModulePass]) -> str:
    """The first line of the module docstring of the pass."""
    return (inspect.getdoc(sys.modules[cls.__module__]) or "").split("\n", 1)[0]
