"""What the simulator finds in a kernel, and what the printer refuses."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest
import torch

from fxc.codegen.triton.ahead_of_time import compile_kernel
from fxc.errors import KernelError
from tests.simulator.simulator import simulate
from tests.test_triton_backend import printed
from tests.triton_kernels import CASES, kernel, pointer

COPY = """
  %size = arith.constant 16 : index
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %x = tile.load %p[%start] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %x, %out[%start] strides [1] : vector<16xf32>, !tile.ptr<f32>"""


def run_copy(body: str, elements: int = 64, written: int = 64) -> None:
    arguments = [pointer("p", "f32", "read", elements), pointer("out", "f32", "write", written)]
    simulate(printed(kernel("copy", [4], arguments, body)), [torch.ones(elements), torch.empty(written)])


def test_nothing_is_wrong_with_a_copy() -> None:
    run_copy(COPY)


@pytest.mark.parametrize(
    ("body", "sizes", "message"),
    [
        (COPY, (60, 64), "program 3 reads element 60 of p, which has 60"),
        (COPY, (64, 40), "program 2 writes element 40 of out, which has 40"),
        (COPY.replace("constant 16", "constant -1"), (64, 64), "program 1 reads element -1 of p"),
        (
            COPY.replace("%out[%start] strides [1]", "%out[%start] strides [0]"),
            (64, 64),
            "writes element 0 of out in two lanes",
        ),
        (COPY.replace("%p[%start]", "%out[%start]"), (64, 64), "reads element 0 of out, which nothing wrote"),
        (COPY.replace("%x, %out", "%x, %p"), (64, 64), "p is written, but the kernel says that it is only read"),
    ],
)
def test_wrong_accesses(body: str, sizes: tuple[int, int], message: str) -> None:
    with pytest.raises(KernelError, match=message) as caught:
        run_copy(body, *sizes)
    assert "copy, line" in str(caught.value) and "tl." in (caught.value.op or "")


def test_writing_what_another_program_wrote() -> None:
    body = """
  %zero = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  tile.store %one, %out[%zero] : f32, !tile.ptr<f32>"""
    with pytest.raises(KernelError, match="writes element 0 of out, as another program did"):
        run_copy(body)


def test_reading_what_another_program_wrote() -> None:
    body = """
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %i = tile.program_id {axis = 0} : index
  %x = tile.load %p[%i] : !tile.ptr<f32> -> f32
  tile.store %x, %out[%i] : f32, !tile.ptr<f32>
  %y = tile.load %out[%zero] : !tile.ptr<f32> -> f32"""
    with pytest.raises(KernelError, match="program 1 reads element 0 of out, which another program wrote"):
        run_copy(body)


def test_arguments_are_checked() -> None:
    source = printed(kernel("copy", [4], [pointer("p", "f32", "read", 64), pointer("out", "f32", "write", 64)], COPY))
    with pytest.raises(KernelError, match=r"argument p takes a CPU tensor of torch\.float32, not torch\.float64"):
        simulate(source, [torch.ones(64, dtype=torch.float64), torch.empty(64)])
    with pytest.raises(KernelError, match="argument out addresses 64 elements, but the tensor has 63"):
        simulate(source, [torch.ones(64), torch.empty(64)[1:]])
    with pytest.raises(KernelError, match="argument p is a pointer"):
        simulate(source, [3.0, torch.empty(64)])


def refused(text: str) -> KernelError:
    with pytest.raises(KernelError) as caught:
        printed(text)
    return caught.value


def test_blocks_have_sizes_that_are_powers_of_two() -> None:
    error = refused(CASES["softmax"].text.replace("1024x", "1000x"))
    assert error.message == "Triton has only blocks with sizes that are powers of two, not vector<1000xi1>"
    assert "tile.mask" in (error.op or "") and "mask what is beyond" in (error.hint or "")


def test_blocks_have_a_largest_size() -> None:
    assert "no blocks of more than 1048576 lanes" in refused(CASES["softmax"].text.replace("1024x", "2097152x")).message


def one_line(line: str, type: str = "f32") -> str:
    body = f"""
  %base = arith.constant 0 : index
  %at = arith.constant dense<1> : vector<8xi64>
  %x = tile.load %p[%base] strides [1] : !tile.ptr<{type}> -> vector<8x{type}>
  {line}"""
    arguments = [pointer("p", type, "read", 8), pointer("out", type, "readwrite", 8)]
    return kernel("one_line", [1], arguments, body)


PRODUCT = """%a = arith.constant dense<1.0> : vector<{size}x{type}>
  %d = tile.dot %a, %a, %a : vector<{size}x{type}>, vector<{size}x{type}> -> vector<{size}x{type}>"""


@pytest.mark.parametrize(
    ("line", "type", "message"),
    [
        ('%y = tile.math "digamma" %x : vector<8xf32>', "f32", 'Triton has nothing for tile.math "digamma"'),
        ("%y = math.ctpop %x : vector<8xi32>", "i32", "Triton has nothing for math.ctpop"),
        ("tile.atomic_add %x, %out[%at] : vector<8xi8>, !tile.ptr<i8>", "i8", "no GPU adds i8 atomically"),
        ('%y = tile.reduce "max" %x {dims = [0]} : vector<8xi1> -> i1', "i1", 'not by "max"'),
        ('%y = tile.math "nextafter" %x, %x : vector<8xbf16>', "bf16", "no float's next"),
        (PRODUCT.format(size="8x8", type="f32"), "f32", "Triton multiplies blocks of 16x16 and more"),
        (PRODUCT.format(size="16x16", type="f64"), "f64", "not every GPU multiplies blocks of float64"),
        ("%y = arith.ceildivui %x, %x : vector<8xi32>", "i32", "no unsigned division that rounds up"),
        (
            "%c = arith.constant dense<[1, 2, 3, 4, 5, 6, 7, 8]> : vector<8xi64>\n  %y = arith.addi %at, %c : vector<8xi64>",
            "f32",
            "different constants in its lanes",
        ),
    ],
)
def test_what_triton_has_not(line: str, type: str, message: str) -> None:
    assert message in refused(one_line(line, type)).message


def test_printing_needs_neither_torch_nor_triton() -> None:
    code = f"""
import sys
from fxc.tools.fxc_opt import run
code, out, err = run(["-", "--emit=triton"], {CASES["softmax"].text!r})
assert code == 0 and "def softmax(p, out):" in out, err
assert not [name for name in ("torch", "triton") if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_compiling_without_triton_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(KernelError, match=r"(?s)Triton is not installed.*pip install fxc\[triton\]"):
        compile_kernel(printed(CASES["softmax"].text), "cuda:sm_90")
