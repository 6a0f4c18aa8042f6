"""The implementation of ``fxc report``: count the contents of a module from its text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.types import SYMBOLS, element_bytes, is_tensor
from fxc.dialects.base.effects import is_random, writes
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.dialects.fx import TensorDeclOp
from fxc.dialects.text.syntax import type_text
from fxc.driver.runner import read_module
from fxc.program.program import new_context
from fxc.report.graph_view import DECLARATIONS
from fxc.runtime.units import bytes_text


def report(text: str, name: str) -> str:
    """The report on the module of ``text``, from a file called ``name``."""
    return "\n".join(_report(read_module(new_context(), text, name))) + "\n"


def _report(module: ModuleOp) -> Iterator[str]:
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    inside = [op for op in module.walk() if op is not module and not isinstance(op, FuncOp) and op.name not in DECLARATIONS]
    yield f"functions: {len(functions)}"
    for function in functions:
        yield from _function(function)
    state = dict(_state(module))
    for kind in ("parameter", "buffer", "constant"):
        types = [type for found, type in state.values() if found == kind]
        if types:
            elements, size = sum(map(_elements, types)), sum(map(_bytes, types))
            yield f"{kind}s: {len(types)} tensors, {elements:,} elements, {bytes_text(size)}"
    yield from _symbols(module)
    random = sum(is_random(op) for op in inside)
    mutating = sum(writes(op) != [] for op in inside if not op.regions and not op.has_trait(IsTerminator))
    yield f"ops: {len(inside)}, of which {random} random, {mutating} may write memory"
    for name, count in sorted(Counter(map(_kind, inside)).items(), key=lambda item: (-item[1], item[0])):
        yield f"  {count:6}  {name}"


def _kind(op: Operation) -> str:
    """The name of the op, and its callee unless that only identifies a submodule."""
    target = op.properties.get("target")
    if isinstance(target, StringAttr) and op.name in ("fx.call_function", "fx.call_method"):
        return f"{op.name} {target.data}"
    return op.name


def _function(function: FuncOp) -> Iterator[str]:
    private = " (private)" if function.sym_visibility is not None and function.sym_visibility.data == "private" else ""
    yield f"  @{function.sym_name.data}{private}"
    for index, (type, attrs) in enumerate(zip(function.function_type.inputs, argument_attributes(function), strict=True)):
        kind, name = ArgumentFacts.of(attrs)
        if kind == "input":
            yield f"    input {index if name is None else name}: {type_text(type)}"
    results = function.res_attrs or [DictionaryAttr({})] * len(function.function_type.outputs.data)
    for index, (type, attrs) in enumerate(zip(function.function_type.outputs.data, results, strict=True)):
        target = attrs.data.get("fx.mutates")
        note = f", the new value of argument {target.value.data}" if isinstance(target, IntegerAttr) else ""
        yield f"    result {index}: {type_text(type)}{note}"


def _state(module: ModuleOp) -> Iterator[tuple[str, tuple[str, Attribute]]]:
    """Name -> (kind, type) of each tensor that the module reads from the weights file."""
    for op in module.ops:
        if isinstance(op, TensorDeclOp):
            yield op.sym.data, (op.kind.data, cast(Attribute, op.type))
        elif isinstance(op, FuncOp):
            for type, attrs in zip(op.function_type.inputs, argument_attributes(op), strict=True):
                kind, name = ArgumentFacts.of(attrs)
                if name is not None and kind != "input":
                    yield name, (kind, type)


def _symbols(module: ModuleOp) -> Iterator[str]:
    symbols = module.attributes.get(SYMBOLS)
    if isinstance(symbols, DictionaryAttr) and symbols.data:
        yield "symbols:"
        for name, facts in symbols.data.items():
            known: Mapping[str, Attribute] = facts.data if isinstance(facts, DictionaryAttr) else {}
            texts = [f"{key} {value.value.data}" for key, value in known.items() if isinstance(value, IntegerAttr)]
            yield f"  {name}: {', '.join(texts) or 'nothing is known'}"


def _elements(type: Attribute) -> int:
    return math.prod(max(size, 0) for size in type.get_shape()) if isinstance(type, TensorType) else 1


def _bytes(type: Attribute) -> int:
    return (element_bytes(type.element_type if is_tensor(type) else type) or 0) * _elements(type)
