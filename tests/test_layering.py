"""Who may import whom, and that nothing below the compiler needs torch.

tools -> compiler -> passes -> dialects: arrows down only, inside each of them as well. ``LAYERS`` is the order.
"""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LAYERS = {
    "dialects/attributes": "xdsl",
    "dialects/base": "xdsl",
    "dialects": "xdsl",
    "passes/analysis": "xdsl",
    "passes/rewriting": "xdsl",
    "passes/patterns": "xdsl",
    "passes/simplify": "xdsl",
    "passes/normalize": "xdsl numpy",
    "passes/autodiff": "xdsl",
    "passes/library": "xdsl",
    "passes/operators": "xdsl",
    "passes/fusion": "xdsl numpy",
    "passes/kernels": "xdsl",
    "passes/plan": "xdsl",
    "passes": "xdsl",
    "compiler/errors.py": "",
    "compiler/options.py": "",
    "compiler/runtime": "torch llvmlite",
    "compiler/bridge": "torch xdsl numpy sympy",
    "compiler/driver": "xdsl",
    "compiler/program": "torch xdsl safetensors",
    "compiler/interpret": "torch xdsl numpy sympy",
    "compiler/semantics": "torch xdsl sympy",
    "compiler/frontends": "torch xdsl",
    "compiler/patterns": "torch xdsl",
    "compiler/codegen": "torch xdsl numpy llvmlite triton",
    "compiler/derivatives": "torch xdsl",
    "compiler/export": "torch xdsl",
    "compiler/numerics": "torch xdsl",
    "compiler/artifact": "torch xdsl",
    "compiler/measure": "torch xdsl",
    "compiler": "torch xdsl",
    "tools": "torch xdsl click networkx rich safetensors",
}
"""Folder or file, the lowest first: the libraries that it may import, beside the standard one and what stands before it. Of
several entries for a file the longest counts."""

UP = {
    "fxc.derivatives.subgraphs -> fxc.artifact.cache",
    "fxc.derivatives.subgraphs -> fxc.export.host",
    "fxc.derivatives.subgraphs -> fxc.export.host.memory",
    "fxc.program.context -> fxc.measure.program_times",
    "fxc.program.context -> fxc.semantics.torch_semantics",
}
"""Imports that still run up."""

NEEDS_TORCH = (
    "compiler/runtime",
    "compiler/bridge",
    "compiler/interpret",
    "compiler/semantics",
    "compiler/frontends",
    "compiler/numerics",
    "compiler/patterns",
    "compiler/codegen",
    "compiler/derivatives",
    "compiler/export",
    "compiler/artifact",
    "compiler/measure",
    "compiler/torch_compile.py",
)
"""Only these may import torch at the top of a file; elsewhere the import stands in the function that needs it."""


def python_files() -> list[Path]:
    return [path for top in ("compiler", "dialects", "passes", "tools") for path in sorted((ROOT / top).rglob("*.py"))]


def imports(path: Path, *, top_level_only: bool = False) -> Iterator[tuple[str, int]]:
    """(module, line) of each import in ``path``, those for types only left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in _import_nodes(tree.body, nested=not top_level_only):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        else:
            assert node.level == 0 and node.module, f"{path.relative_to(ROOT)}:{node.lineno}: imports are absolute"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name if node.module == "fxc" or name in MODULES else node.module, node.lineno) for name in named)


def _import_nodes(body: list[ast.stmt], *, nested: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
            continue
        for_types = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        function = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        if not for_types and (nested or not function):
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _import_nodes(getattr(statement, name, []), nested=nested)


def is_within(module: str, packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages.split())


def is_standard(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names


def module_name(path: Path) -> str:
    top, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["fxc", *[top] * (top != "compiler"), *rest]).removesuffix(".__init__")


MODULES = {module_name(path): path for path in python_files()}


def layer(path: Path) -> str:
    return max((name for name in LAYERS if path.is_relative_to(ROOT / name)), key=len)


def is_allowed(path: Path, module: str) -> bool:
    if not is_within(module, "fxc"):
        return is_standard(module) or is_within(module, LAYERS[layer(path)] or "-")
    while module not in MODULES:
        module = module.rpartition(".")[0]
    order = list(LAYERS)
    return order.index(layer(MODULES[module])) <= order.index(layer(path)) or f"{module_name(path)} -> {module}" in UP


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
