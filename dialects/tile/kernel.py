"""Kernels, and launches of kernels on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.size_polynomials import names_in
from fxc.dialects.attributes.types import FloatType, IntType, contiguous_strides, is_tensor, sizes, strides
from fxc.dialects.text.syntax import isolated
from fxc.dialects.tile.types import PtrType, TileEffects, TileOp, integers, is_number, shape_of

ACCESS = "tile.access"
ELEMENTS = "tile.elements"
INIT = "tile.init"
DIVISIBLE = "tile.divisible"
SIZE = "tile.size"
SOURCE = "tile.source"
"""The attribute of a group, and of its kernels, that lists the operators that it computes; a launch has one if its list differs
from the kernel's."""


@irdl_op_definition
class KernelOp(IRDLOperation, TileEffects):
    """``tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 128>} { ...; tile.return }``.

    A program that runs once for each point of ``grid`` (one to three axes), in any order and in parallel. Arguments: pointers
    that are read, then pointers that are written, then scalars. If the number of programs is dynamic, the grid is a map of the
    ``index`` scalars, in order: ``grid = affine_map<(d0) -> (d0 ceildiv 64)>``. Attributes of a pointer:

    ``tile.access``    "read", "write" or "readwrite"; required
    ``tile.elements``  number of addressable elements from the pointer on
    ``tile.init``      initial value of all elements; a launch requires it for a "readwrite" pointer
    ``tile.divisible`` a divisor of the address in bytes

    and of an ``index``:

    ``tile.size``      the size that it holds, as an expression in tensor types
    """

    name = "tile.kernel"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    grid = prop_def(DenseArrayBase.constr(i64) | BaseAttr(AffineMapAttr))
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def of(
        cls,
        name: str,
        grid: Sequence[int] | AffineMap,
        body: Region,
        arguments: Sequence[Mapping[str, Attribute]] = (),
        attributes: Mapping[str, Attribute] | None = None,
    ) -> KernelOp:
        """``arguments``: the attributes of each argument of ``body``; ``attributes``: those of the kernel."""
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists([argument.type for argument in body.block.args], []),
            "grid": AffineMapAttr(grid) if isinstance(grid, AffineMap) else integers(grid),
        }
        if any(arguments):
            properties["arg_attrs"] = ArrayAttr([DictionaryAttr(dict(each)) for each in arguments])
        return cls.create(properties=properties, attributes=dict(attributes or {}), regions=[body])

    @property
    def programs(self) -> tuple[int, ...]:
        """The number of programs along each axis; ``DYNAMIC_INDEX`` where it depends on scalars."""
        if isinstance(self.grid, DenseArrayBase):
            return tuple(self.grid.get_values())
        axes = self.grid.data.results
        return tuple(axis.value if isinstance(axis, AffineConstantExpr) else DYNAMIC_INDEX for axis in axes)

    @property
    def is_dynamic(self) -> bool:
        """Whether the number of programs depends on scalars."""
        return DYNAMIC_INDEX in self.programs

    def programs_for(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The number of programs along each axis for these values of the ``index`` scalars."""
        return self.programs if isinstance(self.grid, DenseArrayBase) else self.grid.data.eval(numbers, [])

    def indices(self) -> list[BlockArgument]:
        """The ``index`` scalars, the operands of a dynamic grid."""
        return [argument for argument in self.scalars() if isinstance(argument.type, IndexType)]

    def argument_attributes(self, argument: BlockArgument) -> Mapping[str, Attribute]:
        return self.arg_attrs.data[argument.index].data if self.arg_attrs is not None else {}

    def access(self, argument: BlockArgument) -> str:
        """ "read", "write" or "readwrite"."""
        found = self.argument_attributes(argument).get(ACCESS)
        return found.data if isinstance(found, StringAttr) else ""

    def elements(self, argument: BlockArgument) -> int | None:
        """The number of addressable elements; None where the kernel does not state it."""
        found = self.argument_attributes(argument).get(ELEMENTS)
        return found.value.data if isinstance(found, IntegerAttr) else None

    def inputs(self) -> list[BlockArgument]:
        """The read-only pointers."""
        return [argument for argument in self.body.block.args if self.access(argument) == "read"]

    def outputs(self) -> list[BlockArgument]:
        """The pointers that are written."""
        return [argument for argument in self.body.block.args if self.access(argument) in ("write", "readwrite")]

    def scalars(self) -> list[BlockArgument]:
        return [argument for argument in self.body.block.args if not isinstance(argument.type, PtrType)]

    def verify_(self) -> None:
        block = self.body.block
        if tuple(self.function_type.inputs.data) != block.arg_types or self.function_type.outputs.data:
            raise VerifyException("tile.kernel: the function type must be that of the body's arguments, without results")
        self._verify_grid()
        if self.arg_attrs is not None and len(self.arg_attrs) != len(block.args):
            raise VerifyException("tile.kernel: there must be attributes for each argument, or none")
        if not isinstance(block.last_op, ReturnOp):
            raise VerifyException("tile.kernel: the body must end in tile.return")
        self._verify_arguments()

    def _verify_grid(self) -> None:
        known = self.programs if isinstance(self.grid, DenseArrayBase) else [n for n in self.programs if n != DYNAMIC_INDEX]
        if not 1 <= len(self.programs) <= 3 or any(count < 0 for count in known):
            raise VerifyException(f"tile.kernel: grid {list(self.programs)} must have one to three sizes, none negative")
        if isinstance(self.grid, DenseArrayBase):
            return
        map, expected = self.grid.data, len(self.indices())
        if map.num_dims != expected or map.num_symbols:
            found = f"a map of {map.num_dims} dimensions and {map.num_symbols} symbols"
            raise VerifyException(f"tile.kernel: the grid is a map of the {expected} scalars that are an index, not {found}")

    def _verify_arguments(self) -> None:
        order = list[int]()
        for argument in self.body.block.args:
            if isinstance(argument.type, PtrType):
                access = self.access(argument)
                if access not in ("read", "write", "readwrite"):
                    message = f'{ACCESS} of argument {argument.index} must be "read", "write" or "readwrite", not "{access}"'
                    raise VerifyException(f"tile.kernel: {message}")
                order.append(0 if access == "read" else 1)
            elif shape_of(argument.type) or not is_number(argument.type):
                message = f"argument {argument.index} is a pointer or a number, not {argument.type}"
                raise VerifyException(f"tile.kernel: {message}")
            else:
                order.append(2)
        if order != sorted(order):
            raise VerifyException("tile.kernel: arguments must be pointers that are read, pointers that are written, scalars")

    def print(self, printer: Printer) -> None:
        attributes = {"grid": self.grid, **self.attributes}
        print_func_op_like(
            printer, self.sym_name, self.function_type, self.body, attributes, arg_attrs=self.arg_attrs, reserved_attr_names=()
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        position = parser.pos
        with isolated(parser):
            parsed = parse_func_op_like(parser, reserved_attr_names=("sym_name", "function_type", "arg_attrs"))
        name, inputs, outputs, body, extra, arg_attrs, _ = parsed
        attributes = dict(extra.data) if extra is not None else {}
        if not isinstance(grid := attributes.pop("grid", None), (DenseArrayBase, AffineMapAttr)):
            parser.raise_error("tile.kernel needs attributes {grid = array<i64: ...>}", position)
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(inputs, outputs),
            "grid": grid,
        }
        if arg_attrs is not None:
            properties["arg_attrs"] = arg_attrs
        return cls.create(properties=properties, attributes=attributes, regions=[body])


@irdl_op_definition
class ReturnOp(IRDLOperation, TileEffects):
    """``tile.return``: ends a kernel."""

    name = "tile.return"
    traits = traits_def(IsTerminator(), HasParent(KernelOp), Pure())
    assembly_format = "attr-dict"


@irdl_op_definition
class ProgramIdOp(TileOp):
    """``%i = tile.program_id {axis = 0} : index``: the index of this program along an axis of the grid."""

    name = "tile.program_id"
    axis = prop_def(IntegerAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    FIELDS: ClassVar = ("axis",)

    @classmethod
    def of(cls, axis: int) -> ProgramIdOp:
        return cls.create(properties={"axis": IntegerAttr(axis, i64)}, result_types=[IndexType()])

    def verify_(self) -> None:
        kernel = self.parent_op()
        while kernel is not None and not isinstance(kernel, KernelOp):
            kernel = kernel.parent_op()
        if kernel is None:
            raise VerifyException("tile.program_id must be in a tile.kernel")
        if not 0 <= self.axis.value.data < len(kernel.programs):
            raise VerifyException(f"tile.program_id: the grid has no axis {self.axis.value.data}")


@irdl_op_definition
class LaunchOp(IRDLOperation, TileEffects):
    """``%y = tile.launch @k(%x, %n) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>``: run a kernel on tensors.

    Operands: a tensor for each pointer that is read, then a number for each scalar. Each has exactly the sizes and strides of
    its type. Results: a new tensor of the result type for each pointer that is written. No operand is written.
    """

    name = "tile.launch"
    callee = prop_def(SymbolRefAttr)
    inputs = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(Pure())
    assembly_format = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    @classmethod
    def of(cls, name: str, operands: Sequence[SSAValue], result_types: Sequence[Attribute]) -> LaunchOp:
        return cls.create(properties={"callee": SymbolRefAttr(name)}, operands=operands, result_types=result_types)

    def kernel(self) -> KernelOp | None:
        """The kernel in the enclosing symbol table; None where there is none."""
        return kernel_around(self, self.callee)

    def verify_(self) -> None:
        kernel = self.kernel()
        if kernel is None:
            if self.parent_op() is None:
                return
            raise VerifyException(f"tile.launch: @{self.callee.root_reference.data} is not a tile.kernel")
        check_arguments(self.name, kernel, self.operands, self.results)


def kernel_around(op: Operation, name: SymbolRefAttr) -> KernelOp | None:
    """The kernel ``name`` in the symbol table that encloses ``op``; None where there is none."""
    table: Operation | None = op.parent_op()
    while table is not None and not table.has_trait(SymbolTable):
        table = table.parent_op()
    found = SymbolTable.lookup_symbol(table, name) if table is not None else None
    return found if isinstance(found, KernelOp) else None


def check_arguments(name: str, kernel: KernelOp, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
    """VerifyException where operands of the op ``name`` do not fit ``kernel``: tensors read, numbers, tensors written."""
    pointers, written, scalars = kernel.inputs(), kernel.outputs(), kernel.scalars()
    expected = [len(pointers) + len(scalars), len(written)]
    if [len(inputs), len(outputs)] != expected:
        raise VerifyException(
            f"{name}: the kernel takes {expected[0]} operands and gives {expected[1]} results, "
            f"but there are {len(inputs)} and {len(outputs)}"
        )
    numbers, values = inputs[len(pointers) :], [*inputs[: len(pointers)], *outputs]
    _check_sizes(name, numbers, values)
    for argument, value in zip([*pointers, *written], values, strict=True):
        _check_tensor(name, argument, value, kernel.elements(argument))
    for argument, value in zip(scalars, numbers, strict=True):
        if not isinstance(value.type, (IntType, FloatType)) and value.type != argument.type:
            raise VerifyException(f"{name}: argument {argument.index} is a number, not {value.type}")
    for argument in written:
        if kernel.access(argument) == "readwrite" and INIT not in kernel.argument_attributes(argument):
            raise VerifyException(f"{name}: argument {argument.index} is readwrite, and has no {INIT}")


def _check_sizes(name: str, numbers: Sequence[SSAValue], tensors: Sequence[SSAValue]) -> None:
    """VerifyException for a tensor with a size or stride that is neither static nor computed from ``numbers``."""
    known = {number.type.expression.data for number in numbers if isinstance(number.type, IntType)} - {""}
    for value in tensors:
        for size in names_in(value.type) if is_tensor(value.type) else ():
            if size not in known:
                raise VerifyException(f"{name}: no number is the size {size or '?'} of {value.type}")


def _check_tensor(name: str, argument: BlockArgument, value: SSAValue, elements: int | None) -> None:
    """VerifyException unless ``value`` is a tensor with the element type of the pointer and enough elements."""
    assert isinstance(argument.type, PtrType)
    if not is_tensor(value.type) or value.type.element_type != argument.type.pointee:
        expected = f"a tensor of {argument.type.pointee}"
        raise VerifyException(f"{name}: for argument {argument.index}, expected {expected}, not {value.type}")
    steps = strides(value.type) or contiguous_strides(value.type.get_shape())
    dims = list(zip(sizes(value.type), steps, strict=True))
    if elements is None or not all(isinstance(number, int) for pair in dims for number in pair):
        return
    extent = 1 + sum((int(size) - 1) * int(step) for size, step in dims) if all(size for size, _ in dims) else 0
    if extent < elements:
        found = f"argument {argument.index} addresses {elements} elements, but there are {extent} in {value.type}"
        raise VerifyException(f"{name}: {found}")
