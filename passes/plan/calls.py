"""Functions that only plans call, so that a change of the function can be applied to all its calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, BlockArgument

from fxc.dialects.attributes.discardable import ONCE
from fxc.passes.analysis.call_graph import callee_first, functions_of, is_private


@dataclass(frozen=True, eq=False)
class Callee:
    """A private function of one block at the plan level, with all its calls, which are in blocks at the plan level, too."""

    function: FuncOp
    calls: tuple[CallOp, ...]

    @property
    def block(self) -> Block:
        return self.function.body.block

    def add_arguments(self, types: Sequence[Attribute]) -> Sequence[BlockArgument]:
        """Append arguments of ``types``. The caller of this method must add an operand for each of them to all calls."""
        attributes = self.function.arg_attrs
        arguments = [self.block.insert_arg(type, len(self.block.args)) for type in types]
        self._retype()
        if attributes is not None:
            self.function.arg_attrs = ArrayAttr([*attributes.data, *[DictionaryAttr({})] * len(types)])
        return arguments

    def drop_argument(self, argument: BlockArgument) -> None:
        """Erase ``argument``, which has no uses, and its operand in all calls."""
        index, attributes = argument.index, self.function.arg_attrs
        for call in self.calls:
            call.operands = [value for place, value in enumerate(call.operands) if place != index]
        self.block.erase_arg(argument)
        self._retype()
        if attributes is not None:
            self.function.arg_attrs = ArrayAttr([each for place, each in enumerate(attributes.data) if place != index])

    def _retype(self) -> None:
        self.function.function_type = FunctionType.from_lists(self.block.arg_types, self.function.function_type.outputs.data)


def callees(module: ModuleOp) -> list[Callee]:
    """The functions of ``module`` that only plans call, callees before callers."""
    functions = functions_of(module)
    plans = {name: block for name, function in functions.items() if (block := _plan(function)) is not None}
    blocks = set(plans.values())
    calls, others = defaultdict[str, list[CallOp]](list), set[str]()
    for function in functions.values():
        for op in function.walk():
            callee = op.properties.get("callee")
            if not isinstance(callee, SymbolRefAttr):
                continue
            name = callee.root_reference.data
            is_plain = isinstance(op, CallOp) and ONCE not in op.attributes and op.parent in blocks
            if isinstance(op, CallOp) and is_plain and functions.get(name) is not function:
                calls[name].append(op)
            else:
                others.add(name)
    order = [name for group in callee_first(functions) if len(group) == 1 for name in group]
    return [
        Callee(functions[name], tuple(calls[name]))
        for name in order
        if name in plans and calls[name] and name not in others and is_private(functions[name])
    ]


def _plan(function: FuncOp) -> Block | None:
    """The block of a function at the plan level; None if it is at another level or has several blocks."""
    block = function.body.first_block
    if block is None or block is not function.body.last_block:
        return None
    return block if any(op.name.startswith("plan.") for op in block.ops) else None
