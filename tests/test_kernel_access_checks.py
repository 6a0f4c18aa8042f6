"""Each form of access to memory, wherever it stands: the reference interpreter and the simulator find what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from fxc.codegen.triton.printer import print_kernel
from fxc.dialects.tile import KernelOp
from fxc.errors import KernelError
from fxc.interpret.tile_level import run_kernel
from tests.simulator.simulator import simulate
from tests.tile_programs import kernel_text, parse_kernel

ELEMENTS, LANES = 64, 16

FORMS = {
    "load": "%v = tile.load %x0[%start] strides [1]$READ : !tile.ptr<f32> -> vector<16xf32>",
    "gather": "%v = tile.gather %x0[%offsets]$READ : !tile.ptr<f32> -> vector<16xf32>",
    "store": "tile.store %ones, %y0[%start] strides [1]$WRITE : vector<16xf32>, !tile.ptr<f32>",
    "scatter": "tile.scatter %ones, %y0[%offsets]$WRITE : vector<16xf32>, !tile.ptr<f32>",
    "atomic_add": "tile.atomic_add %ones, %y0[%offsets]$WRITE : vector<16xf32>, !tile.ptr<f32>",
}
WRITES = ("store", "scatter")

HEAD = """
%zero = arith.constant 0 : index
%one = arith.constant 1 : index
%two = arith.constant 2 : index
%stop = arith.constant 64 : index
%first = arith.constant $FIRST : index
%stride = arith.constant $STRIDE : index
%i = tile.program_id {axis = 0} : index
%moved = arith.muli %i, %stride : index
%start = arith.addi %first, %moved : index
%start64 = arith.index_cast %start : index to i64
%starts = tile.splat %start64 : i64 to vector<16xi64>
%lanes = tile.iota {dim = 0} : vector<16xi64>
%offsets = arith.addi %starts, %lanes : vector<16xi64>
%mask = tile.mask %start, %stop {dim = 0} : vector<16xi1>
%none = arith.constant 0.0 : f32
%ones = arith.constant dense<1.0> : vector<16xf32>
%yes = arith.constant true
%no = arith.constant false
%third = arith.cmpi eq, %i, %two : index
"""

RUN = {
    "alone": "$ACCESS",
    "in a loop": "scf.for %k = %zero to %one step %one {\n$ACCESS\n}",
    "in a loop of a loop": "scf.for %k = %zero to %one step %one {\nscf.for %l = %zero to %one step %one {\n$ACCESS\n}\n}",
    "in a branch": "scf.if %yes {\n$ACCESS\n}",
    "in one program's branch": "scf.if %third {\n$ACCESS\n}",
}
"""Where an access is made."""

NOT_RUN = {
    "in a loop without turns": "scf.for %k = %one to %zero step %one {\n$ACCESS\n}",
    "in a branch": "scf.if %no {\n$ACCESS\n}",
}


def interpret(kernel: KernelOp, arguments: Sequence[torch.Tensor]) -> None:
    run_kernel(kernel, arguments)


def simulated(kernel: KernelOp, arguments: Sequence[torch.Tensor]) -> None:
    simulate(print_kernel(kernel), arguments)


ENGINES = {"interpreter": interpret, "simulator": simulated}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Callable[[KernelOp, Sequence[torch.Tensor]], None]:
    return ENGINES[request.param]


def run(
    engine: Callable[[KernelOp, Sequence[torch.Tensor]], None],
    form: str,
    place: str,
    *,
    first: int = 0,
    stride: int = LANES,
    masked: bool = False,
    access: str = "write",
) -> None:
    """A kernel of four programs, each of which accesses 16 elements from ``first`` plus ``stride`` times its number on."""
    text = FORMS[form].replace("$READ", ", %mask, %none" if masked else "").replace("$WRITE", ", %mask" if masked else "")
    body = HEAD.replace("$FIRST", str(first)).replace("$STRIDE", str(stride)) + place.replace("$ACCESS", text)
    x, y = torch.ones(ELEMENTS), torch.zeros(ELEMENTS)
    kind = "readwrite" if form == "atomic_add" else access
    engine(parse_kernel(kernel_text(body, [x], [y], [4], kind)), [x, y])


@pytest.mark.parametrize("place", RUN)
@pytest.mark.parametrize("form", FORMS)
def test_bounds(engine: Callable[..., None], form: str, place: str) -> None:
    run(engine, form, RUN[place])
    run(engine, form, RUN[place], first=8, masked=True)
    for first in (40, -40):
        with pytest.raises(KernelError, match="element"):
            run(engine, form, RUN[place], first=first)
    with pytest.raises(KernelError, match="element"):
        run(engine, form, RUN[place], first=-40, masked=True)


@pytest.mark.parametrize("place", NOT_RUN)
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_run_may_be_wrong(engine: Callable[..., None], form: str, place: str) -> None:
    run(engine, form, NOT_RUN[place], first=1000)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", WRITES)
def test_two_programs_write_one_element(engine: Callable[..., None], form: str, masked: bool) -> None:
    for place in ("alone", "in a loop", "in a branch"):
        for stride in (0, 8):
            with pytest.raises(KernelError, match=r"two programs write|as another program did"):
                run(engine, form, RUN[place], stride=stride, masked=masked)
    run(engine, form, RUN["in one program's branch"], stride=0, masked=masked)


def test_several_may_add_to_one_element(engine: Callable[..., None]) -> None:
    for place in RUN.values():
        run(engine, "atomic_add", place, stride=0)
        run(engine, "atomic_add", place, stride=8, masked=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("form", ["load", "gather"])
def test_reading_what_nothing_wrote(
    engine: Callable[..., None], form: str, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMS, form, FORMS[form].replace("%x0", "%y0"))
    for place in RUN.values():
        with pytest.raises(KernelError, match="nothing wrote"):
            run(engine, form, place, masked=masked)
    for place in NOT_RUN.values():
        run(engine, form, place, masked=masked)
    written = FORMS["store"].replace("$WRITE", "") + "\n$ACCESS"
    run(engine, form, written, masked=masked)


@pytest.mark.parametrize("form", [*WRITES, "atomic_add"])
def test_two_lanes_of_one_element(engine: Callable[..., None], form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMS, form, FORMS[form].replace("[%offsets]", "[%starts]").replace("strides [1]", "strides [0]"))
    if form == "atomic_add":
        run(engine, form, RUN["alone"])
        return
    for place in RUN.values():
        with pytest.raises(KernelError, match="two lanes"):
            run(engine, form, place)


@pytest.mark.parametrize("form", [*WRITES, "atomic_add"])
def test_writing_what_is_only_read(engine: Callable[..., None], form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMS, form, FORMS[form].replace("%y0", "%x0"))
    for place in ("alone", "in a loop"):
        with pytest.raises(KernelError, match="only read"):
            run(engine, form, RUN[place])
