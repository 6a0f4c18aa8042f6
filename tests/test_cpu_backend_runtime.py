"""Around the machine code: the object cache, threads, checks of arguments, and launches in programs."""

from __future__ import annotations

import copy
import ctypes
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import fxc
from fxc.codegen.cpu import launch, machine_code
from fxc.codegen.cpu.choices import SHARED_FROM
from fxc.codegen.cpu.kernel_printer import print_kernels
from fxc.codegen.cpu.launch import compile_launch
from fxc.codegen.cpu.machine_code import assembly, compile_module
from fxc.dialects.target import CpuAttr, presets
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.tile import LaunchOp
from fxc.errors import FallbackWarning, InputError, KernelError
from fxc.program.program import Program, new_context
from fxc.runtime import native_code
from fxc.runtime.host_cpu import _candidates, features_named, openmp_symbols
from fxc.runtime.native_kernel import NativeKernel
from fxc.runtime.object_cache import ObjectCache, cache_key
from tests.tile_programs import kernel_text, llvm_text, parse_kernel

ROOT = Path(__file__).parent.parent

LAUNCH = """
builtin.module attributes {{fxc.target = #target.cpu<vector_bits = 128, features = "+sse2">}} {{
  tile.kernel @add(%a: !tile.ptr<f32> {{tile.access = "read", tile.elements = {extent}}},
                   %b: !tile.ptr<f32> {{tile.access = "read", tile.elements = {extent}}},
                   %out: !tile.ptr<f32> {{tile.access = "write", tile.elements = {extent}}})
  attributes {{grid = array<i64: {rows}>}} {{
    %p = tile.program_id {{axis = 0}} : index
    %n = arith.constant {columns} : index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %row = arith.muli %p, %n : index
    scf.for %i = %c0 to %n step %c1 {{
      %at = arith.addi %row, %i : index
      %x = tile.load %a[%at] : !tile.ptr<f32> -> f32
      %y = tile.load %b[%at] : !tile.ptr<f32> -> f32
      %r = arith.addf %x, %y : f32
      tile.store %r, %out[%at] : f32, !tile.ptr<f32>
    }}
    tile.return
  }}
  func.func @main(%a: {type} {{fx.kind = "input", fx.name = "a"}}, %b: {type} {{fx.kind = "input", fx.name = "b"}}) -> {type} {{
    %r = tile.launch @add(%a, %b) : ({type}, {type}) -> {type}
    fx.output(%r) : ({type}) -> ()
  }}
}}
"""


def launch_text(rows: int, columns: int, extent: int | None = None, type: str = "") -> str:
    extent = rows * columns if extent is None else extent
    return LAUNCH.format(rows=rows, columns=columns, extent=extent, type=type or f"tensor<{rows}x{columns}xf32>")


def native(text: str, *, verify: bool = True, copies: bool = False) -> NativeKernel:
    module = parse_module(new_context(), text)
    if verify:
        module.verify()
    run = compile_launch(next(op for op in module.walk() if isinstance(op, LaunchOp)), None, copies=copies)
    assert run is not None
    return run


def small() -> NativeKernel:
    return native(launch_text(2, 3))


def test_results_are_new_tensors() -> None:
    a, b, run = torch.randn(2, 3), torch.randn(2, 3), small()
    first, second = run(a, b)[0], run(b, b)[0]
    assert torch.equal(first, a + b) and torch.equal(second, b + b)
    assert repr(run) == "<NativeKernel add: 2 inputs, 1 outputs>"


WRONG = {
    "a list": ([[1.0] * 3] * 2, "is a list"),
    "dtype": (torch.zeros(2, 3, dtype=torch.float64), r"has dtype torch.float64, but torch.float32"),
    "sizes": (torch.zeros(3, 2), r"has sizes \(3, 2\), but \(2, 3\)"),
    "rank": (torch.zeros(6), r"has sizes \(6,\)"),
    "strides": (torch.zeros(3, 2).t(), r"has strides \(1, 2\), but \(3, 1\)"),
    "device": (torch.zeros(2, 3, device="meta"), "is a torch.strided tensor on meta"),
    "layout": (torch.zeros(2, 3).to_sparse(), "is a torch.sparse_coo tensor"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("place", [0, 1])
def test_an_argument_that_does_not_fit_is_named(case: str, place: int) -> None:
    value, message = WRONG[case]
    arguments = [torch.zeros(2, 3), torch.zeros(2, 3)]
    arguments[place] = value  # type: ignore[assignment]
    with pytest.raises(InputError, match=f"argument {'ab'[place]} of kernel add {message}"):
        small()(*arguments)


def test_a_lazy_negation_is_resolved() -> None:
    lazy = torch._neg_view(torch.randn(2, 3))
    torch.testing.assert_close(small()(lazy, lazy)[0], lazy + lazy)


def test_the_number_of_arguments_is_checked() -> None:
    for count in (0, 1, 3):
        with pytest.raises(InputError, match=f"takes 2 arguments, but got {count}"):
            small()(*[torch.zeros(2, 3)] * count)


def test_fake_tensors_give_fake_results() -> None:
    run = small()
    mode = FakeTensorMode()
    with mode:
        fake = torch.ones(2, 3)
        (inside,) = run(fake, fake)
    (outside,) = run(fake, fake)
    for found in (inside, outside):
        assert isinstance(found, FakeTensor) and found.shape == (2, 3) and found.stride() == (3, 1)
    with pytest.raises(InputError, match=r"argument b of kernel add has sizes \(2,\)"), mode:
        run(fake, torch.ones(2))


def test_subclasses_of_tensors() -> None:
    """Those that hold their numbers themselves are as good as any; others are refused."""
    a = torch.ones(2, 3)
    assert torch.equal(small()(a.as_subclass(Plain), torch.nn.Parameter(a))[0], a + a)
    with pytest.raises(InputError, match="argument a of kernel add is a TwoTensor, which has no elements"):
        small()(TwoTensor(a, a), a)


class Plain(torch.Tensor):
    pass


def test_other_strides_are_copied_where_that_was_asked_for() -> None:
    a, b = torch.randn(3, 2).t(), torch.randn(2, 3)
    (found,) = native(launch_text(2, 3), copies=True)(a, b)
    assert torch.equal(found, a + b) and found.stride() == (3, 1)


def test_the_stride_of_one_element_does_not_matter() -> None:
    a = torch.randn(1, 3).as_strided((1, 3), (77, 1))
    assert torch.equal(native(launch_text(1, 3))(a, a)[0], a + a)


def test_tensors_that_are_too_small_for_the_kernel_are_refused() -> None:
    with pytest.raises(KernelError, match="points to 7 elements, but the tensor has 6"):
        native(launch_text(2, 3, 7), verify=False)


def test_empty_tensors() -> None:
    assert native(launch_text(0, 3))(torch.zeros(0, 3), torch.zeros(0, 3))[0].shape == (0, 3)
    assert native(launch_text(3, 0))(torch.zeros(3, 0), torch.zeros(3, 0))[0].shape == (3, 0)


def test_strided_results() -> None:
    type = "tensor<2x3xf32, #torch.meta<strides = [1, 2]>>"
    a = torch.randn(3, 2).t()
    (found,) = native(launch_text(2, 3, type=type))(a, a)
    assert found.stride() == (1, 2) and torch.equal(found, a + a)


def test_results_that_start_filled() -> None:
    text = """
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 3},
               %y: !tile.ptr<f32> {tile.access = "readwrite", tile.elements = 3, tile.init = 2.5 : f32})
  attributes {grid = array<i64: 1>} {
  %c1 = arith.constant 1 : index
  %v = tile.load %x[%c1] : !tile.ptr<f32> -> f32
  %w = tile.load %y[%c1] : !tile.ptr<f32> -> f32
  %r = arith.addf %v, %w : f32
  tile.store %r, %y[%c1] : f32, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = tile.launch @k(%x) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}"""
    assert native(text)(torch.ones(3))[0].tolist() == [2.5, 3.5, 2.5]


def test_programs_run_their_launches_natively() -> None:
    module = fxc.to_fx(Program(parse_module(new_context(), launch_text(2, 3))))
    launched = [child for child in module.modules() if type(child).__name__ == "KernelLaunch"]
    assert [type(child.run) for child in launched] == [NativeKernel]
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    assert torch.equal(module(a, b), a + b) and torch.equal(copy.deepcopy(module)(a, b), a + b)


# targets


def test_code_for_another_cpu_is_not_run_here() -> None:
    module = parse_module(new_context(), launch_text(2, 3))
    launch = next(op for op in module.walk() if isinstance(op, LaunchOp))
    assert compile_launch(launch, CpuAttr.of(features="+not-a-feature-of-this-cpu")) is None


def test_features_decide_the_instructions() -> None:
    body = """
  %c0 = arith.constant 0 : index
  %v = tile.load %x0[%c0] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  %w = math.exp %v : vector<16xf32>
  tile.store %w, %y0[%c0] strides [1] : vector<16xf32>, !tile.ptr<f32>"""
    kernel = parse_kernel(kernel_text(body, [torch.zeros(16)], [torch.zeros(16)]))
    for name, register, fused in (("cpu:avx512", "zmm", True), ("cpu:avx2", "ymm", True), ("cpu", "xmm", False)):
        features = presets(CpuAttr)[name].features.data
        text = assembly(llvm_text(kernel, features), features_named(features))
        wider = {"zmm": [], "ymm": ["zmm"], "xmm": ["ymm", "zmm"]}[register]
        assert register in text and not any(other in text for other in wider)
        assert ("vfmadd" in text) == fused
    assert features_named("+fma,+avx2").vector_bits == 256


# threads


def test_large_kernels_share_their_programs_among_threads() -> None:
    if not openmp_symbols():
        pytest.skip("this PyTorch uses no OpenMP")
    rows = 8 * SHARED_FROM // 100
    a, b = torch.randn(rows, 100), torch.randn(rows, 100)
    run = native(launch_text(rows, 100))
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(run(a, b)[0], a + b)
    finally:
        torch.set_num_threads(before)


def test_a_new_thread_uses_as_many_threads_as_torch_does() -> None:
    """OpenMP's own setting is one of each thread, and starts with all cores."""
    if not openmp_symbols():
        pytest.skip("this PyTorch uses no OpenMP")
    library = ctypes.CDLL(_candidates()[0])
    run, a = native(launch_text(SHARED_FROM, 1)), torch.ones(SHARED_FROM, 1)
    before, found = torch.get_num_threads(), list[int]()
    try:
        torch.set_num_threads(before + 1)
        thread = threading.Thread(target=lambda: found.extend([run(a, a)[0].numel(), library.omp_get_max_threads()]))
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    assert found == [SHARED_FROM, before + 1]


def test_only_large_kernels_start_threads() -> None:
    from fxc.tools.fxc_opt import run

    small_code, small_text, _ = run(["-", "--emit=llvm"], launch_text(2, 3))
    large_code, large_text, _ = run(["-", "--emit=llvm"], launch_text(SHARED_FROM, 1))
    assert small_code == large_code == 0
    assert "GOMP_parallel" not in small_text and "GOMP_parallel" in large_text


def test_a_team_of_any_size_runs_each_program_once() -> None:
    """What each thread runs, for teams that the pool does not have here: the range function, called with its shares."""
    kernel = parse_kernel(COUNTING)
    code = compile_module(llvm_text(kernel), ["k"], features_named(""), None)["k"]
    for team in (1, 2, 3, 7, 64):
        counts = torch.zeros(10, dtype=torch.int32)
        table = (ctypes.c_void_p * 1)(counts.data_ptr())
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code)
        for thread in range(team):
            run(ctypes.addressof(table), 10 * thread // team, 10 * (thread + 1) // team)
        assert counts.tolist() == [1] * 10


COUNTING = """
tile.kernel @k(%y: !tile.ptr<i32> {tile.access = "readwrite", tile.elements = 10}) attributes {grid = array<i64: 5, 2>} {
  %i = tile.program_id {axis = 0} : index
  %j = tile.program_id {axis = 1} : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : i32
  %row = arith.muli %i, %c2 : index
  %at = arith.addi %row, %j : index
  %old = tile.load %y[%at] : !tile.ptr<i32> -> i32
  %new = arith.addi %old, %one : i32
  tile.store %new, %y[%at] : i32, !tile.ptr<i32>
  tile.return
}"""


def test_kernels_may_be_called_and_compiled_from_several_threads() -> None:
    def work(size: int) -> bool:
        a = torch.full((3, size), float(size))
        run = native(launch_text(3, size))
        return all(torch.equal(run(a, a)[0], a + a) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(100, 112)))


# cache


def count_compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from fxc.codegen.cpu import machine_code

    seen, compile_now = list[str](), machine_code.object_code
    monkeypatch.setattr(machine_code, "object_code", lambda text, features: seen.append(text) or compile_now(text, features))
    return seen


def test_what_is_cached_is_not_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, cache = count_compilations(monkeypatch), ObjectCache(tmp_path / "deep" / "folder")
    text, features = llvm_text(parse_kernel(COUNTING)), features_named("")
    for _ in range(2):
        assert compile_module(text, ["k", "k.call"], features, cache).keys() == {"k", "k.call"}
    assert len(seen) == 1
    compile_module(text, ["k"], features_named("+avx2"), cache)
    assert len(seen) == 2
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".new-")]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "of another key"])
def test_a_damaged_entry_is_compiled_again(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, cache = count_compilations(monkeypatch), ObjectCache(tmp_path)
    text, features = llvm_text(parse_kernel(COUNTING)), features_named("")
    compile_module(text, ["k"], features, cache)
    (entry,) = tmp_path.rglob("*.entry")
    content = entry.read_bytes()
    cache.put(cache_key("another"), b"no object file")
    (other,) = set(tmp_path.rglob("*.entry")) - {entry}
    damages = {"truncated": content[:-9], "flipped": content[:-1] + bytes([content[-1] ^ 1]), "empty": b""}
    entry.write_bytes(damages.get(damage, other.read_bytes()))
    with pytest.warns(FallbackWarning, match="damaged or of another key"):
        compile_module(text, ["k"], features, cache)
    assert len(seen) == 2 and entry.read_bytes() == content


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = ObjectCache(tmp_path / "file")
    cache.put(cache_key("a"), b"data")
    assert cache.get(cache_key("a")) is None
    assert compile_module(llvm_text(parse_kernel(COUNTING)), ["k"], features_named(""), cache)["k"]


def test_keys_tell_texts_apart() -> None:
    assert cache_key("ab", "c") != cache_key("a", "bc") != cache_key("abc")
    assert cache_key("a", "b") == cache_key("a", "b")


CHILD = """
import sys
import torch
from xdsl.parser import Parser
from fxc.codegen.cpu import machine_code
from fxc.codegen.cpu.launch import compile_launch
from fxc.program.program import new_context
from fxc.dialects.tile import LaunchOp
calls = []
compile_now = machine_code.object_code
machine_code.object_code = lambda text, features: calls.append(text) or compile_now(text, features)
module = Parser(new_context(), sys.argv[1]).parse_module()
run = compile_launch(next(op for op in module.walk() if isinstance(op, LaunchOp)), None)
assert torch.equal(run(torch.ones(4, 5), torch.ones(4, 5))[0], torch.full((4, 5), 2.0))
print(len(calls))
"""


@pytest.mark.slow
def test_processes_share_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at the same moment, then this one, which compiles nothing."""
    environment, command = {**os.environ, "FXC_CACHE_DIR": str(tmp_path)}, [sys.executable, "-c", CHILD, launch_text(4, 5)]
    children = [subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = list[str]()
    for child in children:
        out, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        counts.append(out.strip())
    assert "1" in counts and set(counts) <= {"0", "1"}
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine_code, "object_code", None)
    launch._loaded.cache_clear()
    assert torch.equal(native(launch_text(4, 5))(torch.ones(4, 5), torch.ones(4, 5))[0], torch.full((4, 5), 2.0))
    launch._loaded.cache_clear()


def test_text_that_llvm_refuses_is_an_error() -> None:
    with pytest.raises(KernelError, match="LLVM refuses"):
        compile_module("define void @f( {", ["f"], features_named(""), None)
    with pytest.raises(KernelError, match=r"cannot be loaded: Symbols not found: \[ g \]"):
        compile_module("define void @f() {\n  ret void\n}", ["g"], features_named(""), None)
    with pytest.raises(KernelError, match=r"cannot be loaded: Failed to materialize symbols"):
        compile_module(
            "declare void @there_is_none()\ndefine void @f() {\n  tail call void @there_is_none()\n  ret void\n}",
            ["f"],
            features_named(""),
            None,
        )


CROWDED = """
import ctypes, torch, fxc
from fxc.errors import KernelError

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
NOTHING, PRIVATE, STEP, COUNT = 0, 0x4022, 3 << 30, 50

def f(x):
    return (x.exp() * 3.25).softmax(-1), (x.tanh() * 0.3).sum(0)

x = torch.arange(40.0).view(5, 8) / 40
fxc.compile(f, (x,), options={"cache_plans": False})  # what is allocated once is allocated now
base = libc.mmap(None, STEP * COUNT, NOTHING, PRIVATE, -1, 0)
for bits in range(30, 11, -1):  # nothing is free above
    while (place := libc.mmap(None, 1 << bits, NOTHING, PRIVATE, -1, 0)) > base:
        pass
    libc.munmap(place, 1 << bits)
for number in range(1, COUNT):
    libc.munmap(base + number * STEP, 4096)
from fxc.runtime import native_code
for code, names in LOADED:
    native_code._linked(code, names)  # again
print("ok")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the calls are Linux's")
def test_code_is_loaded_where_memory_is_free_in_small_pieces_only() -> None:
    """As in processes with a GPU: parts of an object that lie further apart than its code can reach would end the process."""
    record = """
LOADED = []
from fxc.codegen.cpu import machine_code
load = machine_code.load_object
machine_code.load_object = lambda code, names: LOADED.append((code, names)) or load(code, names)
"""
    command = [sys.executable, "-c", record + CROWDED]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert found.stdout == "ok\n" and found.returncode == 0, found.stderr[-2000:]


def test_equal_code_is_loaded_once() -> None:
    """A process that loads a plan again and again does not grow, as loaded code stays."""
    counts = list[int]()
    for _ in range(2):
        fxc.compile(lambda x: x.exp() * 7.25 + x, (torch.ones(4),), options={"cache_plans": False})
        counts.append(len(native_code._LOADED))
    assert counts[0] == counts[1] > 0


def test_several_kernels_make_one_module() -> None:
    text = kernel_text("", [torch.zeros(1)], [torch.zeros(1)])
    kernels = [parse_kernel(text.replace("@k", f"@{name}")) for name in ("one", "two")]
    module = print_kernels(kernels, features_named(""), lambda _: False)
    addresses = compile_module(module, ["one.call", "two.call"], features_named(""), None)
    assert len(set(addresses.values())) == 2


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int16", "int32", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["sign", "double", "choose"])
def test_nothing_is_written_beside_the_last_element(name: str, dtype: str) -> None:
    """Of columns that end in one lane of a vector; LLVM once stored that lane as wide as it was computed."""
    compute = {"sign": torch.sign, "double": lambda x: x + x, "choose": lambda x: torch.where(x > 1, x, -1)}[name]

    def fill(out: torch.Tensor, x: torch.Tensor) -> None:
        out.copy_(compute(x))

    for columns in (1, 9, 17, 33, 65):
        x = (torch.arange(12 * 80).view(12, 80) % 50).to(getattr(torch, dtype))[:, :columns]
        expected = torch.full((12 * columns + 80,), 3, dtype=x.dtype)
        given = expected.clone()
        fill(expected[: x.numel()].view(12, columns), x)
        out = given[: x.numel()].view(12, columns)
        fxc.compile(fill, [out.clone(), x])(out, x)
        assert torch.equal(given, expected), columns
