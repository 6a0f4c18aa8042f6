"""Symbols that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.traits import SymbolOpInterface, SymbolTable

from fxc.passes.analysis.statistics import count


def erase_unused_symbols(module: ModuleOp) -> None:
    """Erase private symbols, in nested modules too, that nothing else uses, directly or through other symbols."""
    candidates = _private_symbols(module)
    if not candidates:
        return
    private = {symbol for symbols in candidates.values() for symbol in symbols}
    waiting: list[Operation] = [module]
    live = set[Operation]()
    while waiting:
        for name in _used_names(waiting.pop(), private):
            for symbol in candidates.get(name, ()):
                if symbol not in live:
                    live.add(symbol)
                    waiting.append(symbol)
    for symbol in private - live:
        symbol.detach()
    for symbol in private - live:
        symbol.erase(safe_erase=False)
        count("symbols removed")


def _private_symbols(root: Operation) -> dict[str, list[Operation]]:
    """Name -> the private symbols of this name in ``root`` and in nested modules."""
    found = dict[str, list[Operation]]()
    tables: list[Operation] = [root]
    while tables:
        for op in tables.pop().regions[0].block.ops:
            name, visibility = op.get_attr_or_prop("sym_name"), op.get_attr_or_prop("sym_visibility")
            if op.has_trait(SymbolOpInterface) and isinstance(name, StringAttr) and visibility == StringAttr("private"):
                found.setdefault(name.data, []).append(op)
            if op.has_trait(SymbolTable):
                tables.append(op)
    return found


def _used_names(op: Operation, private: set[Operation]) -> Iterator[str]:
    """The names that ``op`` and the ops in it reference, except inside private symbols, which may be dead."""
    for attributes in (op.properties, op.attributes):
        for attribute in attributes.values():
            yield from _names(attribute)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner not in private:
                    yield from _used_names(inner, private)


def _names(attribute: Attribute) -> Iterator[str]:
    match attribute:
        case SymbolRefAttr():
            yield attribute.root_reference.data
            for name in attribute.nested_references:
                yield name.data
        case ArrayAttr():
            for element in attribute:
                yield from _names(element)
        case DictionaryAttr():
            for element in attribute.data.values():
                yield from _names(element)
        case ParametrizedAttribute():
            for parameter in attribute.parameters:
                yield from _names(parameter)
        case _:
            return
