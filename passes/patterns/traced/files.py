"""Equations from IR text: modules with a function ``@search`` and a function ``@replacement``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, ModuleOp, StringAttr, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from fxc.dialects.attributes.types import Dim, FloatType, IntType, device, is_tensor, layout, sizes
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import writes
from fxc.dialects.context import FxcContext
from fxc.dialects.entry import argument_attributes
from fxc.dialects.equations import COMPOSITE, JOINT, OPERATORS, Snippet, body_of
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.verify.verifier import verify
from fxc.passes.patterns.traced.engine import flaw

SEARCH, REPLACEMENT = "search", "replacement"
LEVEL, EXCLUSIVE, KEEPS_GRADIENTS = "pattern.level", "pattern.exclusive", "pattern.keeps_gradients"
"""Attributes: of a module, ``"composite"`` (the default), ``"operators"`` or ``"joint"``; of parameters of ``@search`` that are
distinct; and of a module whose functions have the same gradients."""


@dataclass(eq=False)
class FileEquation:
    """``search`` is replaced by ``replace``. Implements ``fxc.dialects.equations.Equation``."""

    name: str
    search: FuncOp
    replace: FuncOp
    level: str
    exclusive: Sequence[int]
    keeps_gradients: bool
    context: FxcContext

    def structures(self) -> Sequence[Snippet]:
        return [body_of(self.search.clone(), self.level)]

    def pattern(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        return self._traced(self.search, arguments, symbols)

    def replacement(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        return self._traced(self.replace, arguments, symbols)

    def accepts(self, arguments: Sequence[Attribute], symbols: DictionaryAttr | None, place: str | None) -> bool:
        return True

    def _traced(self, function: FuncOp, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        """``function`` at ``arguments``; None if its parameters have other dtypes, devices, ranks or known sizes."""
        known = dict[str, Dim]()
        parameters = [argument.type for argument in function.args]
        if not all(_fits(parameter, given, known) for parameter, given in zip(parameters, arguments, strict=True)):
            return None
        return self.context.semantics.retrace(function, self.level, arguments, symbols)


def _fits(parameter: Attribute, given: Attribute, known: dict[str, Dim]) -> bool:
    """Whether ``given`` may be passed for ``parameter``. ``known``: symbol -> the size that it stands for."""
    if isinstance(parameter, FloatType):
        return isinstance(given, FloatAttr)
    if isinstance(parameter, IntType):
        return isa(given, IntegerAttr) and given.type != i1
    if not is_tensor(parameter) or not is_tensor(given) or parameter.element_type != given.element_type:
        return False
    if (device(parameter), layout(parameter)) != (device(given), layout(given)) or len(sizes(parameter)) != len(sizes(given)):
        return False
    pairs = zip(sizes(parameter), sizes(given), strict=True)
    return all(size == (known.setdefault(dim, size) if isinstance(dim, str) else dim) for dim, size in pairs)


def read_equations(context: FxcContext, path: str, user: ModuleOp) -> Iterator[FileEquation]:
    """The equations of the file at ``path``, in its order. OpPassFailedException, at ``user``, if it has none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OpPassFailedException(f"cannot read {path}: {reason}", user) from error
    module = parse_module(context, text, path)
    verify(module)
    found = [each for each in module.walk() if isinstance(each, ModuleOp) and _functions(each).keys() >= {SEARCH, REPLACEMENT}]
    if not found:
        missing = f"no module with functions @{SEARCH} and @{REPLACEMENT}; fxc.register_pattern(...).save writes one"
        raise OpPassFailedException(f"{path} has {missing}", user)
    for each in found:
        yield _equation(context, Path(path).stem if each.sym_name is None else each.sym_name.data, each)


def _equation(context: FxcContext, name: str, module: ModuleOp) -> FileEquation:
    functions = _functions(module)
    search, replace = functions[SEARCH], functions[REPLACEMENT]
    level = module.attributes.get(LEVEL, StringAttr(COMPOSITE))
    if not isinstance(level, StringAttr) or level.data not in (COMPOSITE, OPERATORS, JOINT):
        raise OpPassFailedException(f'{LEVEL} is "{COMPOSITE}", "{OPERATORS}" or "{JOINT}", not {level}', module)
    exclusive = [i for i, attributes in enumerate(argument_attributes(search)) if EXCLUSIVE in attributes.data]
    equation = FileEquation(name, search, replace, level.data, exclusive, KEEPS_GRADIENTS in module.attributes, context)
    if [argument.type for argument in search.args] != [argument.type for argument in replace.args]:
        raise OpPassFailedException(f"@{SEARCH} and @{REPLACEMENT} have other parameters", replace)
    [structure] = equation.structures()
    counts = [len(each.outputs) for each in (structure, body_of(replace.clone()))]
    if counts[0] != counts[1]:
        raise OpPassFailedException(f"@{SEARCH} has {counts[0]} results, but @{REPLACEMENT} {counts[1]}", replace)
    if flaw(structure) is not None:
        raise OpPassFailedException(f"@{SEARCH} must return what it computes, and read each parameter", search)
    if any(writes(op) for function in (search, replace) for op in function.body.block.ops):
        raise OpPassFailedException("a pattern in a file has no mutation", search)
    return equation


def _functions(module: ModuleOp) -> dict[str, FuncOp]:
    return {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration}
