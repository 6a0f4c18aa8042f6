"""Creating functions: fresh names, copies of bodies, and operator declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.autodiff import SubgraphOp
from fxc.dialects.base.names import UniqueNames
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops import OperatorDeclOp
from fxc.passes.rewriting.unpacking import unpack_tuples


def symbols_of(module: ModuleOp) -> UniqueNames:
    """The symbols of ``module``, and fresh ones."""
    return UniqueNames(name.data for op in module.ops if isinstance(name := op.get_attr_or_prop("sym_name"), StringAttr))


def fresh_symbol(module: ModuleOp, base: str) -> str:
    """``base``, with a number appended where ``module`` has a symbol of that name."""
    return symbols_of(module).fresh(base)


def differentiated_functions(module: ModuleOp) -> set[str]:
    """The names of functions that an ``autodiff.subgraph`` calls, and of their derivatives."""
    called = {op.callee.root_reference.data for op in module.walk() if isinstance(op, SubgraphOp)}
    return called | derivatives(module)


def derivatives(around: Operation) -> set[str]:
    """The names of functions that are the derivative of an ``autodiff.subgraph`` in ``around``."""
    gradients = [op.gradient for op in around.walk() if isinstance(op, SubgraphOp)]
    return {gradient.df.root_reference.data for gradient in gradients if gradient is not None}


def outside_derivatives(module: ModuleOp) -> Iterator[Operation]:
    """All ops except those of derivatives and of nested modules.

    Derivatives are lowered later, when it is known which gradients are needed and whether they are differentiated again.
    Functions that autograd differentiates must consist of operators that have a derivative.
    """
    apart = derivatives(module)
    for op in module.ops:
        if not isinstance(op, ModuleOp) and not (isinstance(op, FuncOp) and op.sym_name.data in apart):
            yield from op.walk()


def copy_op(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """A copy of ``op`` and its regions that reads ``values`` in place of its operands; its results are added to ``values``."""
    copy = op.clone(values, clone_name_hints=False)
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        copy_names(old.results, new.results)
        new.location = old.location
        for old_region, new_region in zip(old.regions, new.regions, strict=True):
            for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
                copy_names(old_block.args, new_block.args)
    return copy


def copy_body(function: FuncOp, arguments: Sequence[SSAValue], like: Operation) -> tuple[list[Operation], list[SSAValue]]:
    """``copy_ops`` with one result a value. All copies get the location of ``like``, for which PyTorch traced them."""
    unpack_tuples(function)
    copies, returned = copy_ops(function, arguments)
    for copy in copies:
        copy.location = like.location
    return copies, returned


def copy_ops(function: FuncOp, arguments: Sequence[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    """Copies of the ops of ``function``, applied to ``arguments`` and not yet in a block; and the values that it returns."""
    values: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, arguments, strict=True))
    copies = list[Operation]()
    for op in function.body.block.ops:
        if op is function.body.block.last_op:
            return copies, [values.get(value, value) for value in op.operands]
        copies.append(copy_op(op, values))
    return copies, []


def declare(module: ModuleOp, declarations: Sequence[Operation]) -> None:
    """Insert the ``torch.operator`` declarations that ``module`` lacks at its start."""
    known = {op.sym.data for op in module.body.block.ops if isinstance(op, OperatorDeclOp)}
    for declaration in declarations:
        if isinstance(declaration, OperatorDeclOp) and declaration.sym.data not in known:
            known.add(declaration.sym.data)
            first = module.body.block.first_op
            assert first is not None
            module.body.block.insert_op_before(declaration.clone(), first)


def owner_block(value: SSAValue) -> Block | None:
    """The block that defines ``value``."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent


def fresh_names(module: ModuleOp, stem: str) -> Iterator[str]:
    """Symbol names that are unused in ``module``: ``stem`` and a number."""
    taken = symbols_of(module).taken
    return (name for number in count() if (name := f"{stem}_{number}") not in taken)
