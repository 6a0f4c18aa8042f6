"""Meshes, process groups, and layouts of tensors on a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    StringAttr,
    SymbolRefAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface, SymbolTable, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.discardable import LAYOUT
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import str_attr, string_text
from fxc.dialects.base.op_rules import local
from fxc.dialects.text.syntax import type_text

Integers: TypeAlias = DenseArrayBase[I64]

REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")


@irdl_attr_definition
class PlacementAttr(Data[tuple[str, int | str | None]]):
    """``#dist.placement<shard<0>>``: what the ranks along an axis of a mesh hold of a tensor.

    ``shard<0>``: parts of dimension 0; ``replicate``: the tensor; ``partial<"sum">``: tensors whose reduction is the tensor.
    """

    name = "dist.placement"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, int | str | None]:
        with parser.in_angle_brackets():
            return cls._parse(parser)

    @classmethod
    def _parse(cls, parser: AttrParser) -> tuple[str, int | str | None]:
        kind = parser.parse_identifier()
        match kind:
            case "replicate":
                return kind, None
            case "shard":
                with parser.in_angle_brackets():
                    return kind, parser.parse_integer(allow_negative=False, allow_boolean=False)
            case "partial":
                with parser.in_angle_brackets():
                    return kind, parser.parse_str_literal()
            case _:
                parser.raise_error(f"a placement is shard, replicate or partial, not {kind}")

    @classmethod
    def parse_bare(cls, parser: AttrParser) -> PlacementAttr:
        return cls(cls._parse(parser))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self}>")

    def __str__(self) -> str:
        kind, detail = self.data
        return kind if detail is None else f"{kind}<{detail if isinstance(detail, int) else string_text(detail)}>"

    def verify(self) -> None:
        if self.data[0] == "partial" and self.data[1] not in REDUCTIONS:
            raise VerifyException(f"#dist.placement: {self.data[1]!r} is no reduction; there are {', '.join(REDUCTIONS)}")


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """``#dist.layout<@mesh, [shard<0>, replicate]>``: a mesh, and a placement for each of its axes."""

    name = "dist.layout"
    mesh: SymbolRefAttr
    placements: ArrayAttr[PlacementAttr]

    @classmethod
    def of(cls, mesh: str, placements: Sequence[tuple[str, int | str | None]]) -> LayoutAttr:
        return cls(SymbolRefAttr(mesh), ArrayAttr(map(PlacementAttr, placements)))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_symbol_name(self.mesh.root_reference.data)
            printer.print_string(f", [{', '.join(map(str, self.placements))}]")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            mesh = SymbolRefAttr(parser.parse_symbol_name())
            parser.parse_punctuation(",")
            placements = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: PlacementAttr.parse_bare(parser))
        return [mesh, ArrayAttr(placements)]


def verify_layouts(function: FuncOp) -> None:
    """Verify the layouts of arguments and results of ``function``. Raises VerifyException."""
    type = function.function_type
    for what, types, attributes in (
        ("argument", type.inputs.data, function.arg_attrs),
        ("result", type.outputs.data, function.res_attrs),
    ):
        for index, (tensor, found) in enumerate(zip(types, attributes or (), strict=False)):
            if (layout := found.data.get(LAYOUT)) is None:
                continue
            try:
                _verify_layout(function, layout, tensor)
            except VerifyException as error:
                raise VerifyException(f"{LAYOUT} of {what} {index} of @{function.sym_name.data}: {error}") from error


def _verify_layout(function: FuncOp, layout: Attribute, type: Attribute) -> None:
    if not isinstance(layout, LayoutAttr):
        raise VerifyException(f"expected #dist.layout, not {layout}")
    if not is_tensor(type):
        raise VerifyException(f"a value of type {type_text(type)} is no part of a tensor")
    mesh = lookup(function, layout.mesh)
    if not isinstance(mesh, MeshOp):
        raise VerifyException(f"there is no mesh @{layout.mesh.root_reference.data}")
    if len(layout.placements) != len(mesh.axes):
        raise VerifyException(f"there are {len(layout.placements)} placements for the {len(mesh.axes)} axes of {mesh.text()}")
    for kind, detail in (placement.data for placement in layout.placements):
        if kind == "shard" and isinstance(detail, int) and detail >= len(type.shape):
            raise VerifyException(f"shard<{detail}> of a tensor with {len(type.shape)} dimensions")


def lookup(op: Operation, symbol: SymbolRefAttr) -> Operation | None:
    """The op of the nearest symbol table around ``op`` that ``symbol`` names."""
    around = op.parent_op()
    while around is not None and not around.has_trait(SymbolTable):
        around = around.parent_op()
    return None if around is None else SymbolTable.lookup_symbol(around, symbol)


def integers_attr(values: Sequence[int]) -> Integers:
    """The attribute of a list of integers."""
    return DenseArrayBase.from_list(i64, values)


def _parse_ranks(parser: Parser) -> list[int]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)


def _verify_ranks(ranks: Sequence[int]) -> None:
    if any(rank < 0 for rank in ranks):
        raise VerifyException(f"ranks begin at 0, and {min(ranks)} is one of them")
    if len(set(ranks)) != len(ranks):
        raise VerifyException(f"rank {next(rank for rank in ranks if ranks.count(rank) > 1)} is there twice")


@irdl_op_definition
class MeshOp(IRDLOperation):
    """``dist.mesh @mesh "cuda" (dp = 2, tp = 2) ranks [0, 2, 1, 3]``: a device mesh, its axes, and its ranks row by row.

    Without ``ranks`` these are 0, 1, ...
    """

    name = "dist.mesh"
    sym_name = prop_def(StringAttr)
    device = prop_def(StringAttr)
    axis_names = prop_def(ArrayAttr[StringAttr])
    shape = prop_def(Integers)
    rank_list = prop_def(Integers)
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def of(cls, name: str, device: str, axes: dict[str, int], ranks: Sequence[int] | None = None) -> MeshOp:
        found = list(range(prod(axes.values()))) if ranks is None else ranks
        return cls.create(
            properties={
                "sym_name": str_attr(name),
                "device": str_attr(device),
                "axis_names": ArrayAttr(map(str_attr, axes)),
                "shape": integers_attr(list(axes.values())),
                "rank_list": integers_attr(found),
            }
        )

    @property
    def axes(self) -> dict[str, int]:
        """Axis -> number of ranks along it."""
        return dict(zip((name.data for name in self.axis_names), self.shape.get_values(), strict=True))

    @property
    def ranks(self) -> Sequence[int]:
        return self.rank_list.get_values()

    def text(self) -> str:
        return f"@{self.sym_name.data}({', '.join(f'{axis} = {size}' for axis, size in self.axes.items())})"

    @local
    def verify_(self) -> None:
        names = [name.data for name in self.axis_names]
        if not names or len(set(names)) != len(names) or len(names) != len(self.shape):
            raise VerifyException(f"dist.mesh: a mesh has axes of different names, with a size each; there are {names}")
        if min(self.axes.values()) < 1:
            raise VerifyException(f"dist.mesh: an axis of {self.text()} has no ranks")
        if len(self.ranks) != prod(self.axes.values()):
            raise VerifyException(f"dist.mesh: {self.text()} has {prod(self.axes.values())} ranks, not {len(self.ranks)}")
        _verify_ranks(self.ranks)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        axes = ", ".join(f"{axis} = {size}" for axis, size in self.axes.items())
        printer.print_string(f" {string_text(self.device.data)} ({axes})")
        if list(self.ranks) != list(range(len(self.ranks))):
            printer.print_string(f" ranks {list(self.ranks)}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> MeshOp:
        name, device = parser.parse_symbol_name().data, parser.parse_str_literal()
        position, axes = parser.pos, parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_axis(parser))
        if len(dict(axes)) != len(axes):
            parser.raise_error("two axes have the same name", position, parser.pos)
        ranks = _parse_ranks(parser) if parser.parse_optional_keyword("ranks") else None
        op = cls.of(name, device, dict(axes), ranks)
        op.attributes = parser.parse_optional_attr_dict()
        return op


def _parse_axis(parser: Parser) -> tuple[str, int]:
    name = parser.parse_identifier()
    parser.parse_punctuation("=")
    return name, parser.parse_integer(allow_negative=False, allow_boolean=False)


class _GroupSymbols(SymbolUserOpInterface):
    """Verifies that the mesh of a group has its axes."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, GroupOp)
        if op.mesh is not None and lookup(op, op.mesh) is not None:
            op.mesh_of(op.mesh)


@irdl_op_definition
class GroupOp(IRDLOperation):
    """``dist.group @dp "1" on @mesh(dp)``: the process group ``"1"`` of this rank, along axes of a mesh.

    ``dist.group @pair "7" ranks [0, 3]`` is a group that is along no axis.
    """

    name = "dist.group"
    sym_name = prop_def(StringAttr)
    process_group = prop_def(StringAttr)
    mesh = opt_prop_def(FlatSymbolRefAttrConstr)
    axis_names = opt_prop_def(ArrayAttr[StringAttr])
    rank_list = opt_prop_def(Integers)
    traits = traits_def(SymbolOpInterface(), _GroupSymbols())

    @classmethod
    def along(cls, name: str, process_group: str, mesh: str, axes: Sequence[str]) -> GroupOp:
        more = {"mesh": SymbolRefAttr(mesh), "axis_names": ArrayAttr(map(str_attr, axes))}
        return cls.create(properties={"sym_name": str_attr(name), "process_group": str_attr(process_group), **more})

    @classmethod
    def of_ranks(cls, name: str, process_group: str, ranks: Sequence[int]) -> GroupOp:
        names = {"sym_name": str_attr(name), "process_group": str_attr(process_group)}
        return cls.create(properties={**names, "rank_list": integers_attr(ranks)})

    @property
    def axes(self) -> list[str]:
        return [name.data for name in self.axis_names or ()]

    @property
    def size(self) -> int:
        """The number of ranks."""
        if self.rank_list is not None:
            return len(self.rank_list)
        assert self.mesh is not None, "verified"
        mesh = self.mesh_of(self.mesh)
        return prod(mesh.axes[axis] for axis in self.axes)

    def mesh_of(self, name: SymbolRefAttr) -> MeshOp:
        """The mesh ``name``. Raises VerifyException where it is none, or lacks an axis of the group."""
        mesh = lookup(self, name)
        if not isinstance(mesh, MeshOp):
            raise VerifyException(f"dist.group: @{name.root_reference.data} is no mesh")
        if missing := [axis for axis in self.axes if axis not in mesh.axes]:
            raise VerifyException(f"dist.group: {mesh.text()} has no axis {missing[0]}")
        return mesh

    @local
    def verify_(self) -> None:
        if (self.mesh is None) == (self.rank_list is None) or (self.mesh is None) != (not self.axes):
            raise VerifyException("dist.group: a group is along axes of a mesh, or a list of ranks")
        if len(set(self.axes)) != len(self.axes):
            raise VerifyException("dist.group: an axis is there twice")
        if self.rank_list is not None:
            if len(self.rank_list) == 0:
                raise VerifyException("dist.group: a group has at least one rank")
            _verify_ranks(self.rank_list.get_values())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" {string_text(self.process_group.data)} ")
        if self.mesh is not None:
            printer.print_string("on ")
            printer.print_symbol_name(self.mesh.root_reference.data)
            printer.print_string(f"({', '.join(self.axes)})")
        elif self.rank_list is not None:
            printer.print_string(f"ranks {list(self.rank_list.get_values())}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> GroupOp:
        name, process_group = parser.parse_symbol_name().data, parser.parse_str_literal()
        if parser.parse_optional_keyword("on"):
            mesh = parser.parse_symbol_name().data
            axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_identifier)
            op = cls.along(name, process_group, mesh, axes)
        else:
            parser.parse_keyword("ranks")
            op = cls.of_ranks(name, process_group, _parse_ranks(parser))
        op.attributes = parser.parse_optional_attr_dict()
        return op
