"""Verify a whole module in one walk: the rules of each op, structure, dominance, symbol uses and the order of streams.

xDSL's ``Operation.verify`` lacks dominance and most symbol uses, and prints the whole module into the error that it
raises. ``verify`` raises ``OpVerifyException``, which holds the invalid op.

Dominance follows MLIR: a value is visible after its definition, including nested regions, and in the blocks that its block
dominates. The body of a ``builtin.module`` is a graph region, where order does not matter; ops in unreachable blocks are not
checked for dominance.

A symbol use is a symbol in a property of a registered op: it must name an op of the nearest symbol table. Discardable
attributes may hold any symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr, UnregisteredOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, ErasedSSAValue, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, SymbolTable
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.discardable import LAYOUT, STREAM
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.dominators import dominator_tree
from fxc.dialects.base.op_rules import OpRules
from fxc.dialects.text.diagnostics import OpVerifyException
from fxc.dialects.text.syntax import written_name


def verify(root: Operation, rules: OpRules | None = None) -> None:
    """Verify ``root`` and all nested ops. Raises ``OpVerifyException`` for the first op that breaks a rule.

    ``rules`` is a cache for callers that verify the same ops repeatedly: functions of a module that have not changed are
    skipped.
    """
    _Verifier(root, rules or OpRules()).run()


class _Verifier:
    def __init__(self, root: Operation, rules: OpRules) -> None:
        self.root, self.rules = root, rules
        self.visible: set[int] = set()  # ids of values: hashing an SSAValue is a Python call
        self.tables: dict[Operation, dict[str, Operation]] = {}
        self.unseen = 0
        """The number of operands in graph regions that were not visible."""

    def run(self) -> None:
        self.visible.update(id(operand) for operand in self.root.operands)
        if isinstance(self.root, ModuleOp):
            self.rules.functions.start(self.root)
        self.op(self.root, in_order=False)

    def op(self, op: Operation, in_order: bool) -> None:
        self.operands(op, in_order)
        if op.successors or (op.parent is not None and op.next_op is None):
            _check_block_end(op)
        if op.properties and not isinstance(op, UnregisteredOp):
            for name, attribute in op.properties.items():
                if type(attribute) is not SymbolRefAttr and type(attribute) is not ArrayAttr:
                    continue
                for symbol in _symbols(attribute):
                    if not self.resolves(op, symbol):
                        raise OpVerifyException(f"{op.name}: {name} names {_symbol_text(symbol)}, which does not exist", op)
        unseen = self.unseen
        if op.regions:
            self.regions(op, in_order or not isinstance(op, ModuleOp))
        self.op_rules(op, is_isolated=self.unseen == unseen)

    def function(self, op: Operation) -> None:
        """Verify an op of the root module, unless it is an unchanged function."""
        functions = self.rules.functions
        if not functions.is_known(op):
            self.op(op, in_order=False)
            functions.add(op)

    def operands(self, op: Operation, in_order: bool) -> None:
        for index, operand in enumerate(op._operands):
            if id(operand) in self.visible:
                continue
            if isinstance(operand, ErasedSSAValue):
                raise OpVerifyException(f"{op.name}: operand {index} was erased", op)
            if in_order:
                raise OpVerifyException(f"{op.name}: operand {index} does not dominate this use{_defined_at(operand)}", op)
            self.unseen += 1

    def op_rules(self, op: Operation, is_isolated: bool) -> None:
        try:
            self.rules.verify(op, is_isolated=is_isolated, callee=self.callee_type(op) if type(op) is CallOp else None)
            if type(op) is FuncOp and any(LAYOUT in each.data for each in (*(op.arg_attrs or ()), *(op.res_attrs or ()))):
                from fxc.dialects.dist.mesh import verify_layouts  # imported late: few programs are distributed

                verify_layouts(op)
        except OpVerifyException:
            raise
        except VerifyException as error:
            text = str(error)
            if text.startswith("Redefinition of symbol"):
                op = _second_symbol(op)
            raise OpVerifyException(text if op.name in text else f"{op.name}: {text}", op) from error

    def regions(self, op: Operation, ordered: bool) -> None:
        outer = self.visible
        if op.has_trait(IsolatedFromAbove):
            self.visible = set()
        for region in op.regions:
            self.region(region, ordered)
        self.visible = outer

    def region(self, region: Region, ordered: bool) -> None:
        owner = region.parent
        assert owner is not None
        blocks = tuple(region.blocks)
        if len(blocks) == 1:
            if blocks[0].first_op is None and not owner.has_trait(NoTerminator):
                raise OpVerifyException(f"{owner.name}: a region's only block must end in a terminator, and is empty", owner)
            self.leave(self.block(blocks[0], ordered))
            return
        if not blocks:
            return
        if not ordered:
            defined = [value for block in blocks for value in self.block(block, ordered=False)]
            self.leave(defined)
            return
        self.blocks_by_dominance(blocks)

    def blocks_by_dominance(self, blocks: tuple[Block, ...]) -> None:
        """Visit each block with only the values of its dominators visible."""
        children = dominator_tree(blocks)
        stack: list[Block | list[int]] = [blocks[0]]
        while stack:
            item = stack.pop()
            if isinstance(item, list):
                self.leave(item)
                continue
            stack.append(self.block(item, ordered=True))
            stack.extend(reversed(children[item]))
        for block in blocks:
            if block not in children:
                self.leave(self.block(block, ordered=False))

    def block(self, block: Block, ordered: bool) -> list[int]:
        """Verify the ops of ``block``. Its values stay visible and are returned."""
        defined = [id(arg) for arg in block.args]
        visible = self.visible
        visible.update(defined)
        is_top = isinstance(self.root, ModuleOp) and block.parent_op() is self.root
        has_streams = False
        for op in block.ops:
            if op.parent is not block:
                raise OpVerifyException(f"{op.name}: the parent of the op is another block", op)
            if is_top:
                self.function(op)
            else:
                self.op(op, ordered)
            for result in op.results:
                visible.add(id(result))
                defined.append(id(result))
            has_streams = has_streams or STREAM in op.attributes
        if has_streams:
            from fxc.dialects.verify.races import check_order  # imported late: few programs have streams

            check_order(block)
        return defined

    def leave(self, defined: Iterable[int]) -> None:
        self.visible.difference_update(defined)

    def resolves(self, op: Operation, symbol: SymbolRefAttr) -> bool:
        table_op = _table_around(op)
        if table_op is None:
            return True  # a detached op has no symbol table
        found = self.table(table_op).get(symbol.root_reference.data)
        for name in symbol.nested_references.data:
            if found is None:
                return False
            found = self.table(found).get(name.data)
        return found is not None

    def callee_type(self, op: CallOp) -> Attribute | None:
        """The type of the function that ``op`` calls, if the enclosing symbol table has it."""
        table_op, callee = _table_around(op), op.properties.get("callee")
        if table_op is None or not isinstance(callee, SymbolRefAttr) or callee.nested_references.data:
            return None
        function = self.table(table_op).get(callee.root_reference.data)
        return function.properties.get("function_type") if isinstance(function, FuncOp) else None

    def table(self, op: Operation) -> dict[str, Operation]:
        """Symbol name -> op, for the ops directly in ``op``; made once a walk."""
        if op not in self.tables:
            ops = (inner for region in op.regions for block in region.blocks for inner in block.ops)
            named = ((inner.get_attr_or_prop("sym_name"), inner) for inner in ops)
            self.tables[op] = {name.data: inner for name, inner in named if isinstance(name, StringAttr)}
        return self.tables[op]


def _second_symbol(table: Operation) -> Operation:
    """The first op in ``table`` with the symbol name of an op before it."""
    seen = set[Attribute]()
    for op in (inner for region in table.regions for block in region.blocks for inner in block.ops):
        name = op.get_attr_or_prop("sym_name")
        if name in seen:
            return op
        if name is not None:
            seen.add(name)
    return table


def _table_around(op: Operation) -> Operation | None:
    around = op.parent_op()
    while around is not None and not around.has_trait(SymbolTable):
        around = around.parent_op()
    return around


def _check_block_end(op: Operation) -> None:
    block = op.parent
    if op.successors:
        if block is None or block.last_op is not op:
            raise OpVerifyException(f"{op.name}: an op with successors must end its block", op)
        if any(successor.parent is not block.parent for successor in op.successors):
            raise OpVerifyException(f"{op.name}: branches to a block of another region", op)
    region = None if block is None else block.parent
    owner = None if region is None else region.parent
    if region is None or owner is None or op.has_trait(IsTerminator):
        return
    if region.first_block is not region.last_block or not owner.has_trait(NoTerminator):
        raise OpVerifyException(f"{op.name}: ends a block of {owner.name} and is not a terminator", op)


def _symbols(attribute: Attribute) -> Iterator[SymbolRefAttr]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute
    elif isa(attribute, ArrayAttr):
        for element in attribute.data:
            yield from _symbols(element)


def _symbol_text(symbol: SymbolRefAttr) -> str:
    return "::".join(f"@{name.data}" for name in (symbol.root_reference, *symbol.nested_references.data))


def _defined_at(value: SSAValue) -> str:
    written = written_name(value)
    name = f"%{written}" if written else "its value"
    owner = value.owner
    return (
        f": {name} is a block argument of another block" if isinstance(owner, Block) else f": {name} is defined by {owner.name}"
    )
