"""Launches of kernels, run and exported; and the checks that the reference interpreter makes."""

from __future__ import annotations

from types import FunctionType

import pytest
import torch

import fxc
from fxc.codegen.contract import KernelLaunch
from fxc.dialects.target import preset, set_target
from fxc.errors import KernelError, NoRuleError
from fxc.numerics.reference_run import Float64Interpreter
from fxc.program.program import Program
from fxc.testing import parse
from tests.interpreted_kernels import LAUNCH, SOFTMAX, compute, interpret, kernel, made, run


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_a_launch_runs_and_is_exported(layout: str) -> None:
    x = made(7, 100) if layout == "contiguous" else made(100, 7).t()
    torch.testing.assert_close(interpret(SOFTMAX + LAUNCH, x)[0], (-x).softmax(1))
    module = fxc.to_fx(Program(parse(SOFTMAX + LAUNCH)))
    torch.testing.assert_close(module(x), (-x).softmax(1))
    assert [node.name for node in module.graph.nodes] == ["x", "e", "softmax", "y", "output"]


def test_a_target_picks_the_backend_that_compiles() -> None:
    module = parse(SOFTMAX + LAUNCH)
    set_target(module, preset("cpu"))
    exported, x = fxc.to_fx(Program(module)), made(7, 100)
    call = exported.softmax
    assert isinstance(call, KernelLaunch) and not isinstance(call.run, FunctionType)
    torch.testing.assert_close(exported(x), (-x).softmax(1))


def test_a_launch_is_checked_and_repeated_in_float64() -> None:
    x = made(7, 100, dtype=torch.float64)
    torch.testing.assert_close(interpret(SOFTMAX + LAUNCH, x, cls=Float64Interpreter)[0], (-x).softmax(1), rtol=1e-13, atol=0)


def test_a_launch_on_fake_tensors_gives_types() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        y = interpret(SOFTMAX + LAUNCH, mode.from_tensor(made(7, 100)))[0]
    assert y.shape == (7, 100) and type(y).__name__ == "FakeTensor"


HISTOGRAM = """
tile.kernel @k(%x: !tile.ptr<i64> {tile.access = "read"}, %y: !tile.ptr<i32> {tile.access = "readwrite", tile.init = 0 : i32}) attributes {grid = array<i64: 5>} {
  %p = tile.program_id {axis = 0} : index
  %c16 = arith.constant 16 : index
  %one = arith.constant dense<1> : vector<16xi32>
  %at = arith.muli %p, %c16 : index
  %v = tile.load %x[%at] strides [1] : !tile.ptr<i64> -> vector<16xi64>
  tile.atomic_add %one, %y[%v] : vector<16xi32>, !tile.ptr<i32>
  tile.return
}
func.func @main(%x: tensor<80xi64>) -> tensor<10xi32> {
  %y = tile.launch @k(%x) : (tensor<80xi64>) -> tensor<10xi32>
  func.return %y : tensor<10xi32>
}
"""  # noqa: E501


def test_atomic_add_makes_a_histogram() -> None:
    x = torch.randint(10, (80,), generator=torch.Generator().manual_seed(2))
    assert torch.equal(interpret(HISTOGRAM, x)[0], torch.bincount(x, minlength=10).int())


PLACE = "%p = tile.program_id {axis = 0} : index\n"
ONE = "%one = arith.constant 1.0 : f32\n"
ERRORS = {
    "read outside": (
        "%v = tile.load %x0[%c8] strides [1] : !tile.ptr<f32> -> vector<16xf32>",
        r"%x0: element 16 is read, but there are 16\n  at: in @k\n  op: %v = tile.load",
    ),
    "written outside": (
        "%m = arith.constant -1 : index\n" + ONE + "tile.store %one, %y0[%m] : f32, !tile.ptr<f32>",
        "%y0: element -1 is written, but there are 16",
    ),
    "gathered outside": (
        "%o = arith.constant dense<99> : vector<4xi64>\n%v = tile.gather %x0[%o] : !tile.ptr<f32> -> vector<4xf32>",
        "%x0: element 99 is read, but there are 16",
    ),
    "read before written": (
        "%v = tile.load %y0[%c8] : !tile.ptr<f32> -> f32",
        "%y0: element 8 is read, but nothing wrote it",
    ),
    "added to what nothing wrote": (
        "%o = arith.constant dense<3> : vector<4xi64>\n%f = arith.constant dense<1.0> : vector<4xf32>\n"
        "tile.atomic_add %f, %y0[%o] : vector<4xf32>, !tile.ptr<f32>",
        "%y0: element 3 is added to, but nothing wrote it",
    ),
    "written by two lanes": (
        "%o = arith.constant dense<3> : vector<4xi64>\n%f = arith.constant dense<1.0> : vector<4xf32>\n"
        "tile.scatter %f, %y0[%o] : vector<4xf32>, !tile.ptr<f32>",
        "%y0: two lanes of a program write element 3",
    ),
    "written by two programs at once": (
        ONE + "tile.store %one, %y0[%c8] : f32, !tile.ptr<f32>",
        "%y0: two programs write element 8",
    ),
    "written by two programs in turn": (
        PLACE
        + ONE
        + "%q = arith.subi %c1, %p : index\ntile.store %one, %y0[%p] : f32, !tile.ptr<f32>\n"
        + "tile.store %one, %y0[%q] : f32, !tile.ptr<f32>",
        "%y0: two programs write element [01]",
    ),
    "read from another program": (
        PLACE + ONE + "tile.store %one, %y0[%p] : f32, !tile.ptr<f32>\n%v = tile.load %y0[%c1] : !tile.ptr<f32> -> f32",
        "%y0: one program reads element 1, another writes it",
    ),
    "written where it only reads": (
        ONE + "tile.store %one, %x0[%c0] : f32, !tile.ptr<f32>",
        "%x0 is only read, and this writes it",
    ),
    "a loop that stands still": (
        "scf.for %i = %c0 to %c8 step %c0 {\n}",
        "a loop's step must be positive, not 0",
    ),
    "an op that is no kernel's": (
        "%v = arith.constant dense<1.0> : vector<4xf32>\n%t = vector.broadcast %v : vector<4xf32> to vector<2x4xf32>",
        "the reference interpreter does not run vector.broadcast in a kernel",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_op_and_the_place(name: str) -> None:
    body, message = ERRORS[name]
    with pytest.raises((KernelError, NoRuleError), match=message):
        compute(body, [torch.zeros(16)], torch.empty(16), grid=[2])


def test_one_program_may_write_twice_and_read_what_it_wrote() -> None:
    body = """
      %one = arith.constant 1.0 : f32
      tile.store %one, %y0[%c0] : f32, !tile.ptr<f32>
      %v = tile.load %y0[%c0] : !tile.ptr<f32> -> f32
      %w = arith.addf %v, %v : f32
      tile.store %w, %y0[%c0] : f32, !tile.ptr<f32>
    """
    y = torch.empty(1)
    compute(body, [], y)
    assert y.item() == 2


def test_arguments_are_checked() -> None:
    text = kernel("", [torch.zeros(4)], [], [1])
    with pytest.raises(KernelError, match=r"%x0 points to f32, but got torch\.float64"):
        run(text, torch.zeros(4, dtype=torch.float64))
    with pytest.raises(KernelError, match="the kernel takes 1 arguments, but got 2"):
        run(text, torch.zeros(4), 3)
    with pytest.raises(KernelError, match="%x points to 700 elements, but the tensor has 699"):
        run(SOFTMAX, torch.zeros(699), torch.zeros(700))


def test_a_launch_writes_all_of_its_results() -> None:
    text = kernel(ONE + "tile.store %one, %y0[%c0] : f32, !tile.ptr<f32>", [], [torch.zeros(1)], [1])
    main = """
    func.func @main() -> tensor<2xf32> {
      %y = tile.launch @k() : () -> tensor<2xf32>
      func.return %y : tensor<2xf32>
    }
    """
    with pytest.raises(KernelError, match="the kernel leaves elements of %y0 unwritten"):
        interpret(text + main)
