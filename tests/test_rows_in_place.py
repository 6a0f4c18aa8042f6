"""Kernels of rows that write over what they read: where that is right, and where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

import fxc
from fxc.dialects.tile import KernelOp
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes.plan.in_place import writes_over
from fxc.program.program import new_context

HOST: dict[str, Any] = {"target": "host"}

ROWS = """
tile.kernel @k(
  %x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place}
) attributes {grid = array<i64: 3>, schedule = #tile.schedule<"inner", stages = [0], lanes = 8, unroll = 2, block = 1>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c37 = arith.constant 37 : index
  %zero = arith.constant 0.0 : f32
  %i = tile.program_id {axis = 0} : index
  %row = arith.muli %i, %LENGTH : index
  %total = scf.for %j = %c0 to %c32 step %c8 iter_args(%t = %zero) -> (f32) {
    %place = arith.addi %row, %j : index
    %a = tile.load %x[%place] strides [1] : !tile.ptr<f32> -> vector<8xf32>
    %s = tile.reduce "add" %a {dims = [0]} : vector<8xf32> -> f32
    %u = arith.addf %t, %s : f32
    scf.yield %u : f32
  }
  %b = tile.splat %total : f32 to vector<8xf32>
  scf.for %j = %c0 to %c32 step %c16 {
    %place = arith.addi %row, %j : index
    %a = tile.load %x[%FIRST] strides [1] : !tile.ptr<f32> -> vector<8xf32>
    %d = arith.subf %a, %b : vector<8xf32>
    tile.store %d, %y[%place] strides [1] : vector<8xf32>, !tile.ptr<f32>
    %k = arith.addi %j, %c8 : index
    %next = arith.addi %row, %k : index
    %e = tile.load %x[%SECOND] strides [1] : !tile.ptr<f32> -> vector<8xf32>
    %f = arith.subf %e, %b : vector<8xf32>
    tile.store %f, %y[%next] strides [1] : vector<8xf32>, !tile.ptr<f32>
  }
  %mask = tile.mask %c32, %END {dim = 0} : vector<8xi1>
  %place = arith.addi %row, %c32 : index
  %a = tile.load %x[%TAIL] strides [1], %mask, %zero : !tile.ptr<f32> -> vector<8xf32>
  %d = arith.subf %a, %b : vector<8xf32>
  tile.store %d, %y[%place] strides [1], %mask : vector<8xf32>, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<SIZExf32>) -> tensor<SIZExf32> {
  %y = plan.alloc : tensor<SIZExf32>
  %0 = torch.aten.mul.out(%x, 2, out = %y) : (tensor<SIZExf32>, tensor<SIZExf32>) -> tensor<SIZExf32>
  plan.launch @k(%y) outs(%y) : (tensor<SIZExf32>) outs(tensor<SIZExf32>)
  fx.output(%y) : (tensor<SIZExf32>) -> ()
}
"""
RIGHT = {"LENGTH": "c37", "FIRST": "place", "SECOND": "next", "TAIL": "place", "END": "c37", "SIZE": "111"}


def text(**changes: str) -> str:
    made = ROWS
    for name, value in (RIGHT | changes).items():
        made = made.replace(name, value)
    return made


def judged(text: str) -> bool:
    module = Parser(new_context(), text).parse_module()
    verify(module)
    kernel = next(iter(module.ops))
    assert isinstance(kernel, KernelOp)
    return writes_over(kernel, *kernel.body.block.args)


def test_a_program_may_write_over_its_own_row() -> None:
    assert judged(text())
    module = Parser(new_context(), text()).parse_module()
    [main] = [op for op in module.ops if isinstance(op, FuncOp)]
    x = torch.randn(111)
    rows = 2 * x.view(3, 37)
    torch.testing.assert_close(ReferenceInterpreter({}).call(main, [x]), (rows - rows[:, :32].sum(1, keepdim=True)).flatten())


WRONG = {
    "what this step has stored": text(SECOND="place"),
    "what the step before has stored, by a shift": text(FIRST="place").replace("step %c16 {", "step %c8 {"),
    "a row of which the next has a part": text(LENGTH="c32", SIZE="101"),
    "behind the row": text(END="c37", LENGTH="c16", SIZE="80"),
    "the start of the row at its end": text(TAIL="row"),
    "two axes": text().replace("grid = array<i64: 3>", "grid = array<i64: 3, 1>"),
    "an outer kernel": text().replace('"inner"', '"outer"'),
    "every second element": text().replace("strides [1] :", "strides [2] :", 1),
    "a store before the sum": text().replace("  %total = ", "  tile.store %zero, %y[%row] : f32, !tile.ptr<f32>\n  %total = "),
    "a row that another program has": text().replace("%place = arith.addi %row, %j", "%place = arith.addi %i, %j", 1),
    "mask of another place": text().replace("tile.mask %c32", "tile.mask %c16"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_may_have_been_stored_is_not_read_in_place(case: str) -> None:
    assert WRONG[case] != text() and not judged(WRONG[case])


MODELS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "log_softmax": lambda x, w: F.log_softmax(torch.mm(x, w), -1),
    "layer_norm": lambda x, w: F.layer_norm(torch.mm(x, w), (w.shape[1],)).mm(w.t()),
    "softmax": lambda x, w: torch.mm(F.softmax(torch.mm(x, w), -1), w.t()),
    "shifted": lambda x, w: (y := torch.mm(x, w)).roll(1, 1) - y.amax(-1, keepdim=True),
    "reversed": lambda x, w: (y := torch.mm(x, w)).flip(0) - y.amax(-1, keepdim=True),
    "a column": lambda x, w: (F.log_softmax(y := torch.mm(x, w), -1), y[:, 3:4] + 1),
    "loss": lambda x, w: (y := F.log_softmax(torch.mm(x, w), -1), F.nll_loss(y, torch.arange(len(x)))),
}


@pytest.mark.parametrize("width", [40, 1000, 4099])
@pytest.mark.parametrize("name", MODELS)
def test_products_and_what_is_made_of_their_rows(name: str, width: int) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(9, 16), torch.randn(16, width)
    with torch.no_grad():
        compiled = fxc.compile(MODELS[name], (x, w), options=HOST)
        for _ in range(2):
            torch.testing.assert_close(compiled(x, w), MODELS[name](x, w))
        places = str(compiled.plan.ir).count("tile.in_place")
    if width > 4000 and name in ("log_softmax", "layer_norm"):  # a program has one row
        assert places == 2
    if name in ("shifted", "reversed"):
        assert not places
