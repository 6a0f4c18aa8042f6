"""Run module passes on one op: it moves to a temporary module, with declarations of the symbols that it uses.

A pass that is anchored on an op may change that op only. It cannot access the ops beside it. It fails where it removes, renames
or adds ops at the level of the anchor, or changes the attributes of the module; added ops and attributes are then dropped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsolatedFromAbove, SymbolTable
from xdsl.utils.exceptions import PassFailedException

from fxc.dialects.attributes.values import isa
from fxc.dialects.text.diagnostics import OpPassFailedException


class Isolated:
    """An anchor op and the temporary module that passes run on; ``check`` finds the anchor again, as a pass may replace it."""

    def __init__(self, module: ModuleOp, anchor: Operation, declared: set[str]) -> None:
        self.module, self.anchor = module, anchor
        self._declared, self._symbol, self._attributes = declared, _symbol_of(anchor), dict(module.attributes)

    def check(self) -> None:
        """Find the anchor again. PassFailedException where the pass changed anything outside of it."""
        own = [op for op in self.module.body.block.ops if _symbol_of(op) not in self._declared]
        where = f"{self.anchor.name}" + (f" @{self._symbol}" if self._symbol else "")
        hint = f"run it on {ModuleOp.name}, not inside {self.anchor.name}(...)"
        if len(own) != 1 or own[0].name != self.anchor.name or _symbol_of(own[0]) != self._symbol:
            raise PassFailedException(f"it removed, renamed or added ops beside {where}; {hint}")
        if self.module.attributes != self._attributes:
            raise PassFailedException(f"it changed the attributes of the module around {where}; {hint}")
        self.anchor = own[0]


@contextmanager
def isolated(anchor: Operation) -> Generator[Isolated, None, None]:
    """Move ``anchor`` into a temporary module for the duration of the context; the final op moves back."""
    if not anchor.has_trait(IsolatedFromAbove):
        raise OpPassFailedException(f"passes cannot be anchored on {anchor.name}: it uses values of the ops around it", anchor)
    outer = anchor.parent_op()
    block = anchor.parent
    assert outer is not None and block is not None
    declarations = list(_declarations(anchor))
    place = InsertPoint.before(anchor.next_op) if anchor.next_op is not None else InsertPoint.at_end(block)
    anchor.detach()
    module = ModuleOp([*declarations, anchor], dict(_module_attributes(outer)))
    inside = Isolated(module, anchor, {name for op in declarations if (name := _symbol_of(op)) is not None})
    try:
        yield inside
    finally:
        if inside.anchor.parent is module.body.block:
            inside.anchor.detach()
            Rewriter.insert_op(inside.anchor, place)


def _module_attributes(outer: Operation) -> dict[str, Attribute]:
    module: Operation | None = outer
    while module is not None and not isinstance(module, ModuleOp):
        module = module.parent_op()
    return {} if module is None else module.attributes


def _declarations(anchor: Operation) -> Generator[Operation, None, None]:
    """Declarations of the symbols that ``anchor`` uses: functions without bodies, other ops in full."""
    table = anchor.parent_op()
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    if table is None:
        return
    symbols = {name: op for op in table.regions[0].block.ops if (name := _symbol_of(op)) is not None}
    wanted = list(_used_symbols(anchor))
    seen = {_symbol_of(anchor)}
    while wanted:
        name = wanted.pop()
        if name in seen or name not in symbols:
            continue
        seen.add(name)
        declaration = _declare(symbols[name])
        wanted.extend(_used_symbols(declaration))
        yield declaration


def _declare(op: Operation) -> Operation:
    if not isinstance(op, FuncOp):
        return op.clone()
    declaration = op.clone_without_regions()
    declaration.properties["sym_visibility"] = StringAttr("private")
    return declaration


def _used_symbols(op: Operation) -> Iterator[str]:
    for inner in op.walk():
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            yield from _names_in(attribute)


def _names_in(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root_reference.data
    elif isa(attribute, ArrayAttr):
        for element in attribute.data:
            yield from _names_in(element)
    elif isinstance(attribute, DictionaryAttr):
        for element in attribute.data.values():
            yield from _names_in(element)


def _symbol_of(op: Operation) -> str | None:
    name = op.get_attr_or_prop("sym_name")
    return name.data if isinstance(name, StringAttr) else None
