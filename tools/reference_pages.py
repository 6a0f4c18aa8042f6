"""The reference part of the documentation, generated from the code. ``make docs`` adds the pages to the site."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from typing import Any, cast

import click

import fxc
from fxc import distributed, errors, pipelines, testing
from fxc.driver.pass_options import option_help
from fxc.driver.registry import PassRegistry
from fxc.options import Options
from fxc.passes import available
from fxc.patterns.register import RegisteredPattern
from fxc.patterns.replace import Match
from fxc.pipelines import FLOWS, NAMED
from fxc.runtime.cache import CacheStats
from fxc.runtime.plan import PlanStats
from fxc.tools import fxc as fxc_tool
from fxc.tools import fxc_opt

_SECTION = re.compile(r"^(?:(Assumes|Ensures|Leaves|Cost|Cause|Fix)(?= )|(Before|After):)", re.MULTILINE)
_OPTION = re.compile(r"^- ``(\w+)``: (.*(?:\n  .*)*)", re.MULTILINE)
_GROUPS = {
    "simplify": "Simplification",
    "normalize": "Normalization",
    "autodiff": "Differentiation",
    "joint": "Joint graphs",
    "dist": "Distributed programs",
    "library": "Library calls",
    "fusion": "Fusion",
    "kernels": "Kernels",
    "plan": "Host programs",
}
"""Folder of ``passes/`` -> title of its page, in the order in which the folders run."""
_RETURNED = (fxc.Compiled, fxc.ExecutionPlan, fxc.Program, PlanStats, CacheStats, Match, RegisteredPattern)
"""Classes of which fxc makes the instances."""
_INTERNAL = frozenset(
    "follow watch_first_call use_cuda_graphs run_module of ready flat kernel_codes boxed call_through run".split()
)
"""Methods of ``fxc.ExecutionPlan`` that only the compiler calls."""


def sections(text: str) -> dict[str, str]:
    """Section of a docstring -> its text, in the order of the docstring."""
    parts = [part for part in _SECTION.split(text) if part is not None]
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def pages() -> dict[str, str]:
    """Path below ``docs/`` -> Markdown."""
    passes = {f"reference/passes-{folder}.md": text for folder, text in _pass_pages().items()}
    return passes | {
        "reference/pipelines.md": _pipelines(),
        "reference/options.md": _options(),
        "reference/errors.md": _errors(),
        "reference/fxc.md": _commands("fxc", fxc_tool.command),
        "reference/fxc-opt.md": _commands("fxc-opt", fxc_opt.command),
        "reference/api.md": _api(),
    }


def _pass_pages() -> dict[str, str]:
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name, module in available().items():
        by_folder[module.split(".")[2]].append(_pass(name, module))
    return {
        folder: f"# Passes: {_GROUPS[folder].lower()}\n\nThe passes of `passes/{folder}/`.\n\n" + "\n".join(texts)
        for folder, texts in by_folder.items()
    }


def _pass(name: str, module: str) -> str:
    cls = PassRegistry().get(name)
    doc = inspect.getdoc(sys.modules[module]) or ""
    found = sections(doc)
    stated = found["Before"].partition("\n")[0].strip()
    options = [f"- `{option}`" for option in option_help(cls)]
    more = (inspect.getdoc(cls) or "") if "\n\n" in (cls.__doc__ or "") or options else ""
    before = f"Before `{stated}`:" if stated else "Before:"
    return "\n".join([
        f"## {name}\n",
        f"{doc.splitlines()[0]} Pipelines: {_users(name) or 'none'}.\n",
        *(f"- **{section}:** {_line(found[section])}" for section in ("Assumes", "Ensures", "Leaves", "Cost")),
        "",
        *(["Options:\n", *options, ""] if options else []),
        *([_prose(more.partition("\n\n")[2]), ""] if more else []),
        before,
        _fence("mlir", found["Before"].partition("\n")[2]),
        "After:",
        _fence("mlir", found["After"]),
    ])  # fmt: skip


def _users(name: str) -> str:
    """The named pipelines, without the variants of flows, that have the pass ``name``."""
    whole = re.compile(rf"(?<![\w-]){name}(?![\w-])")
    found = [each for each, steps in NAMED.items() if not each.endswith(("-frozen", "-aten")) and whole.search(str(steps))]
    return ", ".join(f"[{each}](pipelines.md#{each})" for each in found)


def _pipelines() -> str:
    lines = [
        "# Pipelines\n",
        "Names for `-p` of `fxc-opt` and for `fxc.run_passes`, from `compiler/pipelines.py`. With the suffix `-frozen`",
        "weights are frozen; with `-aten` there is no target, and the kernels of PyTorch run.\n",
    ]
    docs = dict[int, str]()
    for statement, after in pairwise(ast.parse(inspect.getsource(pipelines)).body):
        if isinstance(statement, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            docs[id(getattr(pipelines, ast.unparse(statement.targets[0])))] = str(after.value.value)
    docs = {name: docs[id(value)] for name, value in {**NAMED, **FLOWS}.items() if id(value) in docs}
    for name, steps in NAMED.items():
        options = [f"- `{option}`" for option in steps.option_names()]
        lines += [f"## {name}\n", *([f"{_prose(docs[name])}\n"] if name in docs else [])]
        lines += [_fence("text", str(steps).replace(",", ",\n")), *(["Options:\n", *options, ""] if options else [])]
    return "\n".join(lines)


def _options() -> str:
    meanings = {name: _line(text) for name, text in _OPTION.findall(inspect.getdoc(Options) or "")}
    lines = [
        "# Options\n",
        "Fields of `fxc.Options`, for `fxc.compile`, `fxc.run_passes` and `torch.compile(backend=\"fxc\")`. A variable of the",
        "environment sets the default of a process; `1` and `0` stand for True and False, `none` for None.\n",
    ]  # fmt: skip
    for field in fields(Options):
        variable = "none" if field.name == "passes" else f"`FXC_{field.name.upper()}`"
        lines += [
            f"## {field.name}\n",
            f"{_sentence(meanings[field.name])}\n",
            f"- Type: `{field.type}`\n- Default: `{field.default!r}`\n- Environment: {variable}\n",
        ]
    return "\n".join(lines)


def _errors() -> str:
    lines = ["# Errors\n", f"{_prose(inspect.getdoc(errors) or '')}\n"]
    for name, cls in vars(errors).items():
        if isinstance(cls, type) and cls.__module__ == errors.__name__:
            doc = inspect.getdoc(cls) or ""
            found = sections(doc)
            bases = ", ".join(base.__name__ for base in cls.__bases__)
            head = _SECTION.split(doc)[0].strip()
            lines += [f"## {name}\n", f"{_prose(head)}\n", f"- **Is a:** {bases}"]
            lines += [*(f"- **{section}:** {_line(found[section])}" for section in found), ""]
    return "\n".join(lines)


def _commands(name: str, command: click.Command) -> str:
    """The help of ``command`` and of its sub-commands, as the terminal shows it."""
    context = click.Context(command, info_name=name, max_content_width=78, terminal_width=78)
    lines = [f"# {name}\n", _fence("text", command.get_help(context))]
    for each, inner in command.commands.items() if isinstance(command, click.Group) else ():
        with click.Context(inner, parent=context, info_name=each, max_content_width=78, terminal_width=78) as inside:
            lines += [f"## {name} {each}\n", _fence("text", inner.get_help(inside))]
    return "\n".join(lines)


def _api() -> str:
    lines = [
        "# Public API\n",
        "Everything else in the package is internal. Results have the shapes and dtypes of the captured model. Names",
        "that end in `_bytes` are bytes, `times` are milliseconds, and `group_seconds` is in seconds. A `Model` is a module or",
        "function, a `PythonFunction` a function, an `FxPattern` one of these or a `torch.fx.Graph`, and a `Rewritten` a",
        "`Program` with `matches`. A `Candidate` has `arguments` and `place`, the user's source line.\n",
    ]
    for name, value in public().items():
        lines += [f"## {name}\n", *_described(value, name.removeprefix("fxc."))]
        for member, inner in members(value):
            lines += [f"### {name.removeprefix('fxc.')}.{member}\n", *_described(inner, member)]
    lines += ["## fxc.errors\n", "See [Errors](errors.md)."]
    return "\n".join(lines)


def public() -> dict[str, Any]:
    """Name -> function or class, of what users call and get."""
    names = sorted(set(fxc.__all__) - {"distributed", "errors", "testing"}, key=lambda name: (not name.islower(), name))
    found = {f"fxc.{name}": getattr(fxc, name) for name in names}
    found |= {cls.__name__: cls for cls in (Match, RegisteredPattern, PlanStats, CacheStats)}
    found |= {f"fxc.distributed.{name}": getattr(distributed, name) for name in distributed.__all__ if name != "LAYOUTS"}
    return found | {f"fxc.testing.{name}": getattr(testing, name) for name in ("parse", "run_pass", "same_ir")}


def members(cls: Any) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of ``cls`` that fxc defines and documents, the base classes first."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__) if isinstance(cls, type) and cls is not Options else ():
        is_shown = base is cls or base is not fxc.Interpreter  # of a Profiler
        if is_shown and base.__module__.startswith("fxc.") and base.__module__ != "fxc.interpret.torch_level":
            found.update({name: value for name, value in vars(base).items() if not name.startswith("_")})
    for name, value in found.items():
        inner: Any = getattr(value, "__func__", value)  # of a class method
        is_internal = name in _INTERNAL and cls is fxc.ExecutionPlan
        if not is_internal and inspect.getdoc(inner) and (inspect.isfunction(inner) or isinstance(inner, property)):
            yield name, inner


def _described(value: Any, name: str) -> list[str]:
    if value is Options:
        return ["See [Options](options.md).\n"]
    lines = list[str]()
    if inspect.isroutine(value) or (isinstance(value, type) and value not in _RETURNED):
        lines.append(_fence("python", _signature(value, name)))
    if isinstance(value, property):
        lines.append(_fence("python", f"{name}: {inspect.signature(cast(Any, value.fget)).return_annotation}"))
    return [*lines, f"{_prose(inspect.getdoc(value) or '')}\n"]


def _signature(value: Any, name: str) -> str:
    """The call of ``value``, with a parameter on each line where it is long."""
    signature = inspect.signature(value)
    parts = list[str]()
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if each.name not in ("self", "cls"):
            given = each.default.__qualname__ if isinstance(each.default, type) else repr(each.default)
            default = "" if each.default is each.empty else f" = {given}"
            parts.append(f"{each.replace(annotation=each.empty, default=each.empty)!s}: {each.annotation}{default}")
    end = f") -> {signature.return_annotation}" if isinstance(signature.return_annotation, str) else ")"
    line = f"{name}({', '.join(parts)}{end}"
    return line if len(line) < 90 else "\n".join([f"{name}(", *(f"    {part}," for part in parts), end])


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{inspect.cleandoc(text)}\n```\n"


def _prose(doc: str) -> str:
    """A docstring as Markdown: ``code`` is `code`."""
    return doc.replace("``", "`")


def _line(text: str) -> str:
    return _prose(" ".join(text.split()))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
