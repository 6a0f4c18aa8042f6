"""Who may import whom, and that nothing below the compiler needs torch.

tools -> compiler -> passes -> dialects: arrows down only, inside each of them as well, and never in a circle. ``LAYERS`` is the
order. A function imports nothing but libraries that a start must not pay for (``LATE``), and modules that load one.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import networkx
import pytest

from fxc.report.svg import render
from fxc.tools.import_graph import (
    LAYERS,
    MODULES,
    ROOT,
    fxc_imports,
    fxc_module,
    imports,
    is_within,
    layer,
    python_files,
    view,
)

LATE = "torch triton xdsl numpy sympy networkx llvmlite safetensors rich matplotlib importlib.metadata"
"""Libraries that a start must not pay for where it needs none of them: a function may import them."""

LATE_MODULES = {
    "fxc.api -> fxc.frontends.distributed_capture": "AOTAutograd, for training with DTensors only",
    "fxc.dialects.verify.verifier -> fxc.dialects.verify.races": "the dialects plan and tile, a fifth of the start of fxc-opt",
    "fxc.dialects.verify.verifier -> fxc.dialects.dist.mesh": "the dialect dist, for programs without layouts",
    "fxc.interpret.torch_level -> fxc.interpret.linalg_level": "xdsl's linalg, 0.03 s, which loading a saved plan does without",
}
"""Modules of ours that a function may import though they bring no such library -> what they bring."""

NEEDS_TORCH = (
    "compiler/runtime",
    "compiler/distributed",
    "compiler/bridge",
    "compiler/interpret",
    "compiler/semantics",
    "compiler/frontends",
    "compiler/numerics",
    "compiler/patterns",
    "compiler/codegen",
    "compiler/export",
    "compiler/artifact",
    "compiler/measure",
    "compiler/aot_cache.py",
    "compiler/torch_compile.py",
    "compiler/transformer.py",
)
"""Only these may import torch at the top of a file; elsewhere the import stands in the function that needs it."""


def is_standard(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names


def is_allowed(path: Path, module: str) -> bool:
    if not is_within(module, "fxc"):
        return is_standard(module) or is_within(module, LAYERS[layer(path)] or "-")
    module = fxc_module(module)
    order = list(LAYERS)
    return order.index(layer(MODULES[module])) <= order.index(layer(path))


@pytest.mark.parametrize("name", LAYERS)
def test_imports_run_down(name: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in MODULES.values()
        if layer(path) == name
        for module, line in imports(path)
        if not is_allowed(path, module)
    ]
    assert not wrong, f"{name} may import {LAYERS[name] or 'the standard library'} and what stands before it:\n" + "\n".join(
        wrong
    )


@pytest.mark.slow
def test_no_two_modules_import_each_other() -> None:
    """Not in a circle either, and not in functions: a circle means that parts do not know which of them is the lower one."""
    edges = [(name, other) for name in MODULES for other in fxc_imports(name) if other != name]
    graph = networkx.DiGraph(edges)
    circles = [circle for circle in networkx.strongly_connected_components(graph) if len(circle) > 1]
    texts = [" -> ".join(a for a, _ in networkx.find_cycle(graph.subgraph(circle))) for circle in circles]
    assert not texts, "modules import each other in a circle:\n" + "\n".join(texts)


@cache
def loaded_libraries(name: str) -> frozenset[str]:
    """Which of ``LATE`` importing the module loads: itself, through what it imports, or through the packages around them."""
    found, todo, seen = set[str](), [name], {name}
    while todo:
        here = todo.pop()
        around = {package for package in parents(here) if package in MODULES}
        for module, _ in imports(MODULES[here], top_level_only=True):
            if is_within(module, "fxc"):
                around.add(fxc_module(module))
            else:
                found.update(library for library in LATE.split() if is_within(module, library))
        todo += around - seen
        seen |= around
    return frozenset(found)


def parents(module: str) -> Iterator[str]:
    while module := module.rpartition(".")[0]:
        yield module


def is_needless(name: str, module: str) -> bool:
    """Whether an import of ``module`` in a function of ``name`` may as well stand at the top.

    It may not where it loads a library of ``LATE`` that importing ``name`` does not load. Of torch a function may import any
    part: most are loaded late by torch itself, and ``NEEDS_TORCH`` says who may import it at the top.
    """
    if is_within(module, "fxc"):
        late = f"{name} -> {fxc_module(module)}" in LATE_MODULES
        return not late and loaded_libraries(fxc_module(module)) <= loaded_libraries(name)
    if is_within(module, "torch"):
        return False
    return not any(is_within(module, library) for library in set(LATE.split()) - loaded_libraries(name))


@pytest.mark.slow
def test_functions_import_only_what_costs_much() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for name, path in MODULES.items()
        for module, line in {*imports(path)} - {*imports(path, top_level_only=True)}
        if is_needless(name, module)
    ]
    assert not wrong, "imports in functions that may as well stand at the top of the file:\n" + "\n".join(sorted(wrong))


def test_no_module_hides_behind_an_underscore() -> None:
    """What one pass needs alone lies in a folder with it; the rest has a name that says what it is."""
    files = [*python_files(), *(ROOT / "benchmarks").glob("*.py")]
    assert not [path.name for path in files if path.name.startswith("_") and path.name != "__init__.py"]


def test_exceptions_are_needed() -> None:
    """An entry that nothing needs goes: it would hide the next import of its kind."""
    found = {f"{name} -> {other}" for name in MODULES for other in fxc_imports(name)}
    assert not LATE_MODULES.keys() - found


def test_torch_is_imported_late() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files()
        if not any(path.is_relative_to(ROOT / folder) for folder in NEEDS_TORCH)
        for module, line in imports(path, top_level_only=True)
        if is_within(module, "torch")
    ]
    assert not wrong, "import torch inside the function that needs it:\n" + "\n".join(wrong)


def run_without_torch(code: str) -> None:
    """Run ``code`` in a process of its own; it must not import torch."""
    check = "import sys; assert not any(m.split('.')[0] == 'torch' for m in sys.modules), 'torch was imported'"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_importing_needs_no_torch() -> None:
    modules = ["fxc", "fxc.passes", "fxc.tools.fxc_opt", "fxc.testing"]
    modules += [
        ".".join(["fxc", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
        for path in python_files()
        if path.relative_to(ROOT).parts[0] in ("dialects", "passes")
    ]
    run_without_torch("\n".join(f"import {module}" for module in modules))


TEXT = """
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = torch.aten.sym_size.int(%x, 0) : (tensor<4xf32>) -> !torch.int
  %y = torch.aten.add.Scalar(%x, %n) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


def test_fxc_opt_needs_no_torch() -> None:
    pipeline = "inline,symbol-dce,cse,constant-propagation,constant-pooling,dce"
    run_without_torch(
        "from fxc.tools.fxc_opt import run\n"
        f"code, out, err = run(['-', '--pass-pipeline={pipeline}'], {TEXT!r})\n"
        "assert code == 0 and 'aten.add.Scalar(%x, 4)' in out, out + err"
    )


def test_type_checkers_see_every_module() -> None:
    """pyright, mypy and import-linter read ``.typing/fxc``: links to what setuptools puts into the package ``fxc``."""
    links = ROOT / ".typing" / "fxc"
    expected = {path.name: path for path in (ROOT / "compiler").iterdir() if path.name != "__pycache__"}
    expected |= {name: ROOT / name for name in ("dialects", "passes", "tools")}
    wrong = [name for name, target in expected.items() if (links / name).resolve() != target.resolve()]
    fix = "".join(f"\n  ln -sfn {os.path.relpath(expected[name], links)} .typing/fxc/{name}" for name in sorted(wrong))
    assert not wrong, f"missing links; in the root of the repository run{fix}"
    stale = sorted(link.name for link in links.iterdir() if link.name not in expected)
    assert not stale, "links to nothing; run" + "".join(f"\n  rm .typing/fxc/{name}" for name in stale)


def test_every_package_is_shipped() -> None:
    """A sub-package that pyproject.toml does not list is missing from the wheel, while an editable install works."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    tops = {folder: package for package, folder in setuptools["package-dir"].items()}
    tracked = subprocess.run(["git", "ls-files", *(f"{top}/*.py" for top in tops)], capture_output=True, text=True, cwd=ROOT)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    folders = {Path(line).parent for line in tracked.stdout.splitlines()}
    expected = {".".join([tops[folder.parts[0]], *folder.parts[1:]]) for folder in folders}
    assert set(setuptools["packages"]) == expected, "[tool.setuptools] packages in pyproject.toml lists other folders than git"


def test_the_picture_shows_every_layer_above_what_it_imports() -> None:
    svg = ElementTree.fromstring(render(view()))
    space = "{http://www.w3.org/2000/svg}"
    heights = {str(box[1].text): float(box[0].attrib["y"]) for box in svg.findall(f"{space}g")}
    assert set(heights) == set(LAYERS)
    arrows = [str(title.text).split(" imports ") for title in svg.iter(f"{space}title")]
    assert ["tools", "compiler"] in arrows and ["passes/analysis", "dialects"] in arrows
    assert all(heights[source] < heights[target] for source, target in arrows)
