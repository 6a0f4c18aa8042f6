"""The text of attributes and locations, which a printer spells out once, against xDSL's."""

from __future__ import annotations

import io

import pytest
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    DictionaryAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnitAttr,
    f32,
    i1,
)
from xdsl.ir import Attribute
from xdsl.printer import Printer

from fxc.bridge.location import node_location, places
from fxc.dialects.text.syntax import FxcPrinter
from fxc.program.program import Program

TEXTS = ["", "plain", 'with "quotes"', "back\\slash", "two\nlines", "tab\t", "é and 漢", "\x00\x7f"]


def location(name: str, *parts: Attribute) -> NameLoc:
    return NameLoc(StringAttr(name), FusedLoc(parts, NoneAttr()) if parts else UNKNOWN_LOC)  # type: ignore[arg-type]


def file(line: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr("model.py"), IntAttr(line), IntAttr(0))


ATTRIBUTES: list[Attribute] = [
    *map(StringAttr, TEXTS),
    ArrayAttr([StringAttr("a"), StringAttr("a"), f32, i1]),
    DictionaryAttr({"b": UnitAttr(), "a key": StringAttr("b"), "type": f32}),
    UNKNOWN_LOC,
    file(3),
    location("x"),
    location('x "1"', location("in f: return\ny", file(3)), UNKNOWN_LOC),
    CallSiteLoc(location("callee"), location("caller", file(3))),
]


@pytest.mark.parametrize("first", range(len(ATTRIBUTES)))
def test_attributes_are_printed_as_xdsl_prints_them(first: int) -> None:
    """Whichever was printed before, alone or in others."""
    ours, theirs = FxcPrinter(io.StringIO()), Printer(io.StringIO())
    nested = [NameLoc(StringAttr("around"), attribute) for attribute in ATTRIBUTES if isinstance(attribute, NameLoc)]
    for attribute in [*ATTRIBUTES[first:], *nested, *ATTRIBUTES, *nested]:
        for printer in (ours, theirs):
            printer.print_attribute(attribute)
            printer.print_string("\n")
    assert isinstance(ours.stream, io.StringIO) and isinstance(theirs.stream, io.StringIO)
    assert ours.stream.getvalue() == theirs.stream.getvalue()


SOURCE = """
func.func @main(%x: tensor<2xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = torch.aten.relu.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%b) : (tensor<2xf32>) -> ()
}
"""
TRACE = '  File "model.py", line 12, in forward\n    return x.relu()\n'


def placed(*locations: Attribute) -> Program:
    program = Program.parse(SOURCE)
    for op, place in zip(program.main.body.block.ops, locations, strict=False):
        op.location = place  # type: ignore[assignment]
    return program


def test_a_program_that_names_no_place_and_names_it_in_another_reads_back() -> None:
    program = placed(location("whole"), UNKNOWN_LOC)
    text = program.text(debuginfo=True)
    assert text.count("loc(unknown)") == 5 and text.count('loc("whole"(unknown))') == 1
    assert Program.parse(text).text(debuginfo=True) == text


def test_equal_places_are_equal_text_whichever_objects_they_are() -> None:
    one = node_location("relu", TRACE, (("k", "layer", "Layer"),))
    copies = [Program.parse(placed(one, one).text(debuginfo=True)).main.body.block.first_op for _ in range(2)]
    others = [copy.location for copy in copies if copy is not None]
    assert others == [one, one] and one is not others[0] is not others[1]
    assert places(placed(one, one).module) == places(placed(*others).module) == places(placed(one, others[0]).module)


def test_other_places_are_other_text() -> None:
    modules = (("k", "layer", "Layer"),)
    found = [
        places(placed(*each).module)
        for each in (
            (node_location("relu", TRACE, modules), UNKNOWN_LOC),
            (UNKNOWN_LOC, node_location("relu", TRACE, modules)),
            (node_location("relu_1", TRACE, modules), UNKNOWN_LOC),
            (node_location("relu", TRACE.replace("12", "13"), modules), UNKNOWN_LOC),
            (node_location("relu", TRACE, (("k", "layer.0", "Layer"),)), UNKNOWN_LOC),
            (node_location("relu", TRACE), UNKNOWN_LOC),
            (node_location("relu", None, modules), UNKNOWN_LOC),
        )
    ]
    assert len(set(found)) == len(found)
    addresses = [placed(node_location("relu", TRACE, ((key, "layer", "Layer"),))) for key in ("1400", "1500")]
    assert len({places(program.module) for program in addresses}) == 1
