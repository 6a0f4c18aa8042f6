"""Write patterns to IR files: ``python -m fxc.tools.generate_patterns PATTERNS.py FOLDER``.

Runs the Python file, and writes ``FOLDER/NAME.mlir`` for each pattern that it registers.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def generate(source: str | Path, folder: str | Path) -> list[Path]:
    """Run ``source``, write the patterns that it registers to ``folder``, and remove them from the registry."""
    from fxc.patterns import registry
    from fxc.patterns.equation import PythonEquation
    from fxc.patterns.register import RegisteredPattern

    before, written = registry.registered(), list[Path]()
    runpy.run_path(str(source))
    for equation in registry.registered():
        if isinstance(equation, PythonEquation) and equation not in before:
            pattern = RegisteredPattern(equation)
            written.append(Path(folder) / f"{pattern.name}.mlir")
            pattern.save(written[-1])
            pattern.remove()
    return written


if __name__ == "__main__":
    for path in generate(*sys.argv[1:]):
        print(f"wrote {path}")
