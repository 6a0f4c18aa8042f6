"""Write the files of a new pass, pattern, operator record or dialect: ``python -m fxc.tools.new pass NAME --folder simplify``.

Run it in the root of a checkout. The new files work and their lit test passes; replace the example with the real code.
"""

from __future__ import annotations

import ast
import importlib
import keyword
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

import click
from xdsl.dialects import get_all_dialects
from xdsl.ir import Block

from fxc.dialects.torch_ops import parse_schema, table
from fxc.passes.operators.scalars import Scalar, constant
from fxc.passes.operators.table import OPERATORS
from fxc.pipelines import NAMED
from fxc.tools.command_line import exit_code

_TEMPLATES = Path(__file__).parent / "templates"
_SPELLINGS = {"self": "x", "input": "x", "other": "y"}
"""Schema arguments that have other names in formulas."""
_DIALECTS = re.compile(r"^DIALECTS = \{\n(?: {4}.*\n)*", re.MULTILINE)
_RECORDS = re.compile(r"^RECORDS: Mapping\[str, Operator\] = MappingProxyType\(\n {4}\{\n(?: {8}.*\n)*", re.MULTILINE)


@click.group("new", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".", help="The checkout.")
@click.pass_context
def command(context: click.Context, root: Path) -> None:
    """Write a new pass, pattern, operator record or dialect and its lit file. Both work at once; change them from there."""
    if not (root / "passes" / "__init__.py").is_file():
        raise click.ClickException(f"{root.resolve()} is not a checkout of fxc: run this in its root, or name it by --root")
    context.obj = root


@command.command("pass")
@click.argument("name")
@click.option("--folder", default="simplify", show_default=True, help="Folder of passes/ that the pass belongs to.")
@click.pass_obj
def new_pass(root: Path, name: str, folder: str) -> None:
    """Write the pass NAME, such as drop-dead-branches, which fxc-opt finds at once."""
    stem = _stem(name)
    if name in NAMED:
        raise click.ClickException(f"{name} is a pipeline: choose another name")
    files = [file.relative_to(root) for file in root.glob("passes/*/**/*.py") if "(ModulePass)" in file.read_text("utf-8")]
    _one_of("folder of passes", folder, {file.parts[1] for file in files})
    if found := [*root.glob(f"passes/*/{stem}.py"), *root.glob(f"passes/*/{stem}/")]:
        raise click.ClickException(f"there is already {found[0].relative_to(root)}: choose another name")
    made = {f"passes/{folder}/{stem}.py": "pass.py", f"lit_tests/passes/{folder}/{stem}.mlir": "pass.mlir"}
    _write(root, made, name=name, cls=_class(stem))


@command.command("pattern")
@click.argument("name")
@click.pass_obj
def new_pattern(root: Path, name: str) -> None:
    """Write the family of patterns NAME, such as sorting, which canonicalize and peephole apply at once."""
    stem = _stem(name)
    files = {f"passes/patterns/{stem}.py": "pattern.py", f"lit_tests/patterns/{stem}.mlir": "pass.mlir"}
    _write(root, files, name="canonicalize", cls=_class(stem))


@command.command("dialect")
@click.argument("name")
@click.pass_obj
def new_dialect(root: Path, name: str) -> None:
    """Write the dialect NAME with one operation, and list it in dialects/__init__.py."""
    stem = _stem(name)
    listed = root / "dialects" / "__init__.py"
    text = listed.read_text("utf-8")
    if f'    "{stem}": ' in text or stem in get_all_dialects():
        raise click.ClickException(f"there is already a dialect {stem}: choose another name")
    files = {f"dialects/{stem}.py": "dialect.py", f"lit_tests/dialects/{stem}.mlir": "dialect.mlir"}
    _write(root, files, name=stem, cls=_class(stem))
    found = _DIALECTS.search(text)
    assert found is not None
    end = found.end()
    _edit(root, listed, text[:end] + f'    "{stem}": "fxc.dialects.{stem}:{_class(stem)}",\n' + text[end:])


@command.command("operator")
@click.argument("name")
@click.option("--formula", required=True, help="An element of the result, as a Python expression of the schema's arguments.")
@click.option("--schema", default="(Tensor x) -> Tensor", show_default=True, help="Of an operator that PyTorch does not have.")
@click.option("--folder", default="functions", show_default=True, help="Family in passes/operators/ that gets the record.")
@click.pass_obj
def new_operator(root: Path, name: str, formula: str, schema: str, folder: str) -> None:
    """Write the record of the pointwise operator NAME, such as mylib.double.default: how kernels compute it."""
    if not re.fullmatch(r"[a-z_]\w*\.\w+\.\w+", name):
        raise click.ClickException(f"{name} is not an operator overload, such as mylib.double.default")
    texts = {path.stem: path.read_text("utf-8") for path in root.glob("passes/operators/*.py")}
    if name in OPERATORS or any(f'"{name}"' in text for text in texts.values()):
        raise click.ClickException(f"{name} has a record in passes/operators already: change that one")
    _one_of(
        "family of formulas", folder, [stem for stem, text in texts.items() if _RECORDS.search(text) and "arithmetic(" in text]
    )
    try:
        expression = ast.parse(formula, mode="eval")
        schema = table()[name][1] if name in table() else schema
        parsed = parse_schema(schema)
    except (SyntaxError, ValueError) as error:
        raise click.ClickException(f"{name}: {error}") from error
    if any(argument.type != "Tensor" for argument in parsed.arguments):
        raise click.ClickException(f"{name}{schema} takes something else than tensors: write its record by hand")
    tensors = [argument.name for argument in parsed.arguments]
    parameters = [_SPELLINGS.get(tensor, tensor) for tensor in tensors]
    if name.startswith(("aten.", "prims.")) and name not in table():
        raise click.ClickException(f"PyTorch has no operator {name}")
    if [result.type for result in parsed.returns] != ["Tensor"]:
        raise click.ClickException(f"{name}{schema} does not return one tensor: write its record by hand")
    names = vars(importlib.import_module(f"fxc.passes.operators.{folder}"))
    unknown = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} - {*parameters, *names}
    if unknown:
        raise click.ClickException(f"the formula reads {', '.join(sorted(unknown))}; it may read {', '.join(parameters)}")
    _check_formula(formula, names, parameters)
    function = "_".join(name.split(".")).removesuffix("_default")
    family = root / "passes" / "operators" / f"{folder}.py"
    values = {
        "operator": name,
        "operands": ", ".join(f"%{tensor}" for tensor in tensors),
        "declaration": "" if name in table() else f'torch.operator @{name} "{schema}" flags "p"',
    }
    for key, type in {"float": "tensor<4xf32>", "complex": "tensor<4xcomplex<f32>>"}.items():
        values[f"{key}_types"] = ", ".join(type for _ in tensors)
        values[f"{key}_arguments"] = ", ".join(f"%{tensor}: {type}" for tensor in tensors)
    _write(root, {f"lit_tests/operators/{function}.mlir": "operator.mlir"}, **values)
    text = texts[folder]
    found = _RECORDS.search(text)
    assert found is not None
    rule = f"def {function}({': Scalar, '.join(parameters)}: Scalar) -> Scalar:\n    return {ast.unparse(expression)}\n\n\n"
    entry = f'        **each("{name}", arithmetic({function})),\n'
    _edit(root, family, text[: found.start()] + rule + found[0] + entry + text[found.end() :])


def _check_formula(formula: str, names: Mapping[str, Any], parameters: Iterable[str]) -> None:
    """Compute ``formula`` of float32 elements, as a kernel does. An error where that fails."""
    body = Block()
    elements = {name: constant(body, 0.5, "float32") for name in parameters}
    try:
        made = eval(formula, {**names, **elements})
        if not isinstance(made, Scalar):
            raise TypeError(f"it gives {made!r}, no element")
    except Exception as error:
        raise click.ClickException(f"the formula fails: {error}") from error


def _stem(name: str) -> str:
    """The file stem of ``name``. An error unless it is words joined by dashes."""
    stem = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(stem):
        raise click.ClickException(f"{name} is not a name in kebab case, such as fold-add-zero, or is a word of Python")
    return stem


def _class(stem: str) -> str:
    return "".join(word.capitalize() for word in stem.split("_"))


def _one_of(kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise click.ClickException(f"there is no {kind} {name}, but {', '.join(sorted(known))}")


def _write(root: Path, files: Mapping[str, str], **values: str) -> None:
    """Write each of ``files`` from its template. If one exists already, raises an error and writes nothing."""
    taken = [path for path in files if (root / path).exists() or (root / path.removesuffix(".py")).is_dir()]
    if taken:
        raise click.ClickException(f"there is already {taken[0]}: choose another name")
    for path, template in files.items():
        text = (_TEMPLATES / f"{template}.txt").read_text("utf-8")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(Template(text).substitute(values), "utf-8")
        click.echo(f"wrote {path}")


def _edit(root: Path, path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    click.echo(f"changed {path.relative_to(root)}")


if __name__ == "__main__":
    sys.exit(exit_code(command, None, "python -m fxc.tools.new"))
