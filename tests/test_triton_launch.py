"""Launches of compiled kernels, by Triton's own launcher on a driver that runs the simulator. Needs the ``triton`` extra."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from fxc.codegen.contract import launch_runner, target_named
from fxc.codegen.triton.ahead_of_time import DEFAULT, CompileOptions, TritonTarget
from fxc.codegen.triton.device import by_turns, runs_on
from fxc.codegen.triton.launch import GpuKernel, candidates, gpu_kernel, tuned
from fxc.dialects import plan
from fxc.dialects.target import GpuAttr, preset
from fxc.dialects.tile import LaunchOp
from fxc.errors import InputError, KernelError, PipelineError
from fxc.testing import parse

pytest.importorskip("triton", reason="needs the triton extra: pip install fxc[triton]")

from tests.triton_driver import stand_in

SM_90 = preset("cuda:sm_90")
assert isinstance(SM_90, GpuAttr)

SCALE = """
tile.kernel @scale(
  %x: !tile.ptr<f32> {tile.access = "read", tile.elements = 100, tile.divisible = 16},
  %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 100, tile.divisible = 16},
  %n: i64, %by: f32
) attributes {grid = array<i64: 2>} {
  %size = arith.constant 64 : index
  %count = arith.constant 100 : index
  %none = arith.constant 0.0 : f32
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %count {dim = 0} : vector<64xi1>
  %v = tile.load %x[%start] strides [1], %mask, %none : !tile.ptr<f32> -> vector<64xf32>
  %f = arith.sitofp %n : i64 to f32
  %g = arith.mulf %f, %by : f32
  %s = tile.splat %g : f32 to vector<64xf32>
  %r = arith.mulf %v, %s : vector<64xf32>
  tile.store %r, %y[%start] strides [1], %mask : vector<64xf32>, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<20x5xf32DEVICE>, %n: !torch.int, %by: !torch.float) -> tensor<20x5xf32DEVICE> {
  %y = tile.launch @scale(%x, %n, %by) : (tensor<20x5xf32DEVICE>, !torch.int, !torch.float) -> tensor<20x5xf32DEVICE>
  func.return %y : tensor<20x5xf32DEVICE>
}
"""


def launch_of(device: str = "", text: str = SCALE) -> LaunchOp:
    meta = f', #torch.meta<device = "{device}">' if device else ""
    return next(op for op in parse(text.replace("DEVICE", meta)).walk() if isinstance(op, LaunchOp))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One folder for all tests of this file: each kernel is compiled once."""
    folder = tmp_path_factory.getbasetemp() / "launches"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def made(text: str = SCALE) -> GpuKernel:
    return gpu_kernel(launch_of(text=text), SM_90)


def test_a_launch_passes_what_triton_takes() -> None:
    kernel, x = made(), torch.randn(20, 5)
    with stand_in(kernel.source) as driver:
        [y] = kernel(x, 3, 0.5)
        [again] = kernel(x, 3, 0.5)
    assert torch.equal(y, x * 1.5) and torch.equal(again, y)
    assert driver.loaded == ["scale"], "loaded once"
    first, second = driver.started
    assert first.signature == {"x": "*fp32", "y": "*fp32", "n": "i64", "by": "fp32"}
    assert (first.grid, first.stream, first.function, first.hooks) == ((2, 1, 1), 7, 1, (None, None, None))
    assert first.arguments == (x.data_ptr(), y.data_ptr(), 3, 0.5)
    assert second.arguments == (x.data_ptr(), again.data_ptr(), 3, 0.5)
    assert (first.metadata.name, first.metadata.num_warps, first.metadata.target.arch) == ("scale", kernel.source.warps, 90)


def test_results_can_be_given() -> None:
    kernel, x, out = made(), torch.randn(20, 5), torch.empty(20, 5)
    with stand_in(kernel.source) as driver:
        kernel.into([x, 2, 1.0], [out])
        kernel.into([x.t().contiguous().t(), 4, 1.0], [out])
        with pytest.raises(InputError, match=r"argument y of kernel scale has strides \(1, 20\), but \(5, 1\) is expected"):
            kernel.into([x, 2, 1.0], [torch.empty(5, 20).t()])
        with pytest.raises(InputError, match="argument y of kernel scale is a float"):
            kernel.into([x, 2, 1.0], [1.0])
    assert torch.equal(out, x * 4) and len(driver.started) == 2


def test_results_given_one_by_one_are_checked() -> None:
    """Before the kernel is loaded, and by the code that is written out for it then."""
    kernel, x, out = made(), torch.randn(20, 5), torch.empty(20, 5)
    with stand_in(kernel.source) as driver:
        for number in (2, 3, 4):
            kernel.write(x, number, 1.0, out)
            assert torch.equal(out, x * number)
            with pytest.raises(InputError, match=r"argument y of kernel scale has sizes \(5, 20\)"):
                kernel.write(x, 2, 1.0, torch.empty(5, 20))
            with pytest.raises(InputError, match=r"argument n of kernel scale is 1\.5"):
                kernel.write(x, 1.5, 1.0, out)
        kernel.write(x.t().contiguous().t(), 5, 1.0, out)
    assert torch.equal(out, x * 5) and len(driver.started) == 4


def test_a_launch_of_the_plan_level() -> None:
    text = (
        SCALE[: SCALE.index("func.func")]
        + """
func.func @main(%x: tensor<20x5xf32>, %n: !torch.int, %by: !torch.float, %y: tensor<20x5xf32>) {
  plan.launch @scale(%x, %n, %by) outs(%y) : (tensor<20x5xf32>, !torch.int, !torch.float) outs(tensor<20x5xf32>)
  func.return
}"""
    )
    launch = next(op for op in parse(text).walk() if isinstance(op, plan.LaunchOp))
    kernel, x, out = gpu_kernel(launch, SM_90), torch.randn(20, 5), torch.empty(20, 5)
    with stand_in(kernel.source):
        kernel.write(x, 2, 1.0, out)
    assert torch.equal(out, 2 * x)


@pytest.mark.parametrize("which", ["input", "output"])
def test_what_is_not_aligned_runs_another_variant(which: str) -> None:
    kernel, x = made(), torch.randn(20, 5)
    odd = torch.empty(101)[1:].view(20, 5)
    source, out = (odd.copy_(x), torch.empty(20, 5)) if which == "input" else (x, odd)
    with stand_in(kernel.source) as driver:
        kernel(x, 1, 1.0)
        kernel.into([source, 2, 1.0], [out])
        kernel(x, 1, 1.0)
    assert torch.equal(out, 2 * x)
    assert [started.function for started in driver.started] == [1, 2, 1]
    assert kernel.source.unaligned().arguments[0].divisible == 1


def test_numbers_less_divisible_than_said_run_another_variant() -> None:
    text = SCALE.replace("%n: i64", "%n: i64 {tile.divisible = 16 : i64}")
    kernel, x = made(text), torch.ones(20, 5)
    with stand_in(kernel.source) as driver:
        results = [kernel(x, n, 1.0)[0][0, 0].item() for n in (32, 33, 48)]
    assert results == [32, 33, 48] and [started.function for started in driver.started] == [1, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(20, 5, dtype=torch.float64), 1, 1.0), r"argument x of kernel scale has dtype torch\.float64"),
        ((torch.ones(5, 20), 1, 1.0), r"argument x of kernel scale has sizes \(5, 20\), but \(20, 5\)"),
        ((torch.ones(20, 5, device="meta"), 1, 1.0), r"argument x of kernel scale is a torch\.strided tensor on meta"),
        ((3, 1, 1.0), "argument x of kernel scale is a int"),
        ((torch.ones(20, 5), 1.5, 1.0), r"argument n of kernel scale is 1\.5, but int of 64 bits"),
        ((torch.ones(20, 5), 1), "kernel scale takes 3 arguments, but got 2"),
    ],
)
@pytest.mark.parametrize("bound", [False, True])
def test_arguments_are_checked(arguments: tuple, message: str, bound: bool) -> None:
    kernel = made()
    with stand_in(kernel.source) as driver:
        if bound:
            kernel(torch.ones(20, 5), 1, 1.0)
        with pytest.raises(InputError, match=message):
            kernel(*arguments)
        assert len(driver.started) == bound


def test_tensors_with_other_strides_are_copied() -> None:
    kernel, x = made(), torch.randn(5, 20).t()
    with stand_in(kernel.source):
        assert torch.equal(kernel(x, 2, 1.0)[0], 2 * x)


def test_fake_tensors_give_fake_results_without_a_gpu() -> None:
    runner = launch_runner(launch_of("cuda:0"), SM_90)
    with FakeTensorMode() as mode:
        x = torch.empty(20, 5, device="cuda:0")
        [y] = runner(x, 1, 1.0)
    assert y.fake_mode is mode and (y.device, y.shape) == (torch.device("cuda:0"), (20, 5))


def test_a_launch_without_a_gpu() -> None:
    """On tensors of the CPU, the reference interpreter; on those of a GPU there is none to run on."""
    x = torch.randn(20, 5)
    torch.testing.assert_close(launch_runner(launch_of(), SM_90)(x, 2, 1.0), [2 * x])
    kernel = launch_runner(launch_of("cuda:0"), SM_90)
    assert isinstance(kernel, GpuKernel) and kernel.device == torch.device("cuda", 0)
    with pytest.raises(InputError, match="tensor on cpu, but a strided one on cuda:0 is expected"):
        kernel(x, 1, 1.0)
    with pytest.raises(KernelError, match="this machine has no GPU for Triton"):
        made()(x, 1, 1.0)


def test_a_gpu_that_is_not_the_target() -> None:
    kernel = made()
    with stand_in(kernel.source, arch=80), pytest.raises(KernelError, match="made for cuda:sm_90, but cpu is cuda:sm_80"):
        kernel(torch.ones(20, 5), 1, 1.0)


def test_a_kernel_that_does_not_fit() -> None:
    shared = """
tile.kernel @turn(
  %x: !tile.ptr<f32> {tile.access = "read", tile.elements = 4096},
  %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 4096}
) attributes {grid = array<i64: 1>} {
  %c = arith.constant 0 : index
  %v = tile.load %x[%c] strides [64, 1] : !tile.ptr<f32> -> vector<64x64xf32>
  %t = tile.transpose %v {permutation = [1, 0]} : vector<64x64xf32> to vector<64x64xf32>
  tile.store %t, %y[%c] strides [64, 1] : vector<64x64xf32>, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = tile.launch @turn(%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  func.return %y : tensor<64x64xf32>
}"""
    kernel, x = made(shared), torch.randn(64, 64)
    with stand_in(kernel.source, shared=1024), pytest.raises(KernelError, match="kernel turn does not fit the device"):
        kernel(x)
    with stand_in(kernel.source):
        assert torch.equal(kernel(x)[0], x.t())


def test_kernels_run_on_later_devices_of_their_generation() -> None:
    def runs(built: str, here: str) -> bool:
        return runs_on(TritonTarget.of(built), TritonTarget.of(here))

    assert runs("cuda:sm_80", "cuda:sm_89") and runs("cuda:sm_90", "cuda:sm_90") and runs("rocm:gfx942", "rocm:gfx942")
    assert not runs("cuda:sm_89", "cuda:sm_80") and not runs("cuda:sm_80", "cuda:sm_90")
    assert not runs("rocm:gfx942", "rocm:gfx950") and not runs("cuda:sm_90", "rocm:gfx942")
    assert not runs("cuda:sm_100", "cuda:sm_103"), "kernels use what one architecture alone has"


H200 = {
    "major": 9,
    "minor": 0,
    "warp_size": 32,
    "multi_processor_count": 132,
    "shared_memory_per_block": 48 << 10,
    "shared_memory_per_block_optin": 227 << 10,
    "regs_per_multiprocessor": 65536,
    "gcnArchName": "",
}


def test_the_gpu_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(**H200))
    assert target_named("cuda") == SM_90
    later = H200 | {"major": 10, "multi_processor_count": 148}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(**later))
    assert target_named("cuda") == GpuAttr.of(**SM_90.fields() | {"arch": "sm_100", "multiprocessors": 148})
    amd = H200 | {"gcnArchName": "gfx942:sramecc+:xnack-", "warp_size": 64, "multi_processor_count": 304}
    amd |= {"shared_memory_per_block": 64 << 10, "shared_memory_per_block_optin": 0}
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(**amd))
    assert target_named("cuda") == preset("rocm:gfx942")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_an_error() -> None:
    with pytest.raises(PipelineError, match="this machine has no GPU"):
        target_named("cuda")


class StandInClock:
    """Each run takes the time that it adds to ``now``; flushes are counted."""

    def __init__(self) -> None:
        self.now, self.flushed = 0.0, 0

    def flush(self) -> None:
        self.flushed += 1
        self.now += 100

    def mark(self) -> float:
        return self.now

    def milliseconds(self, start: float, end: float) -> float:
        return end - start


def test_times_are_taken_by_turns() -> None:
    clock, order = StandInClock(), list[str]()

    def run(name: str, times: list[float]):
        def work() -> None:
            order.append(name)
            clock.now += times.pop(0)

        return work

    assert by_turns([run("a", [50, 1, 2, 9]), run("b", [5, 4, 4, 4])], clock, rounds=3) == [2, 4]
    assert order == ["a", "b"] * 4 and clock.flushed == 8


def test_the_fastest_way_is_kept_on_disk(tmp_path: Path) -> None:
    source, asked = made().source, list[int]()

    def times(ways):
        asked.append(len(ways))
        return [3.0, *([2.0] * (len(ways) - 2)), 1.0]

    wide = replace(source, lanes=4096, warps=4)
    assert [way.warps for way in candidates(wide)] == [None, 2, 8, 16]
    assert [way.warps for way in candidates(replace(source, warps=1))] == [None, 2], "a lane a thread at least"
    assert tuned(wide, "H200", times, tmp_path) == CompileOptions(warps=16)
    assert tuned(wide, "H200", times, tmp_path) == CompileOptions(warps=16) and asked == [4]
    tuned(wide, "A100", times, tmp_path)
    tuned(replace(wide, source=wide.source + "changed"), "H200", times, tmp_path)
    assert asked == [4, 4, 4]
    [first, *_] = (tmp_path / "tuned").iterdir()
    first.write_text("{")
    for device in ("H200", "A100"):
        tuned(wide, device, times, tmp_path)


def test_the_first_call_tunes(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, clock, x = made(), StandInClock(), torch.randn(20, 5)
    kernel.tunes = True
    monkeypatch.setattr(kernel, "_clock", lambda: clock)
    monkeypatch.setattr(kernel, "_device_name", lambda: "stand-in")
    with stand_in(kernel.source) as driver:
        simulated = driver.launcher_cls

        def launcher(source, metadata):
            launch = simulated(source, metadata)

            def timed(*arguments) -> None:
                launch(*arguments)
                clock.now += 1 / metadata.num_warps

            return timed

        monkeypatch.setattr(driver, "launcher_cls", launcher, raising=False)
        assert torch.equal(kernel(x, 2, 1.0)[0], 2 * x)
    assert candidates(kernel.source) == [DEFAULT, CompileOptions(warps=2)]
    assert driver.started[-1].metadata.num_warps == 2


def benchmark() -> ModuleType:
    """benchmarks/gpu.py, which is a script and in no package."""
    path = Path(__file__).parent.parent / "benchmarks" / "gpu.py"
    spec = importlib.util.spec_from_file_location("fxc_benchmarks_gpu", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_benchmark_without_a_gpu() -> None:
    gpu = benchmark()
    clock = StandInClock()

    def way(cost: float):
        def make(function, inputs):
            def call(*arguments):
                clock.now += cost
                return function(*arguments)

            return call

        return make

    x = torch.randn(1000, 1000)
    row = gpu.measure("twice", lambda x: x * 2, (x,), clock, {"eager": way(2.0), "fxc": way(1.0), "Inductor": way(1.5)})
    assert row.times == {"eager": 2.0, "fxc": 1.0, "Inductor": 1.5} and row.bytes == 8_000_000 and not row.failed
    model = gpu.Row("model", {"eager": 4.0, "fxc": 3.0, "Inductor": 2.0})
    large = gpu.Row("large", {"eager": 4.0, "fxc": 10.0}, 80_000_000, {"Inductor": "CompileError: no"})
    found = gpu.measurements([row, model, large], 16e9)
    assert [(each.labels["name"], each.quantity, each.implementation, each.value) for each in found] == [
        ("copy", "bandwidth, GB/s", "eager", 16.0),
        ("twice", "time, ms", "eager", 2.0),
        ("twice", "time, ms", "fxc", 1.0),
        ("twice", "time, ms", "Inductor", 1.5),
        ("twice", "bandwidth, GB/s", "fxc", 8.0),
        ("twice", "bandwidth", "fxc", 0.5),
        ("model", "time, ms", "eager", 4.0),
        ("model", "time, ms", "fxc", 3.0),
        ("model", "time, ms", "Inductor", 2.0),
        ("large", "time, ms", "eager", 4.0),
        ("large", "time, ms", "fxc", 10.0),
        ("large", "failed", "Inductor", None),
        ("large", "bandwidth, GB/s", "fxc", 8.0),
        ("large", "bandwidth", "fxc", 0.5),
    ]
    wrong = {"eager": way(1.0), "fxc": lambda function, inputs: lambda x: x}
    row = gpu.measure("twice", lambda x: x * 2, (x,), clock, wrong)
    assert list(row.times) == ["eager"] and "not close" in row.failed["fxc"]


def test_the_benchmark_says_that_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    gpu = benchmark()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu.py", "--folder", str(tmp_path)])
    gpu.main()
    assert "this machine has no GPU" in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_the_benchmark_writes_a_file_of_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu, x = benchmark(), torch.randn(8)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(gpu, "EventClock", StandInClock)
    monkeypatch.setattr(gpu, "copy_bandwidth", lambda clock: 16e9)
    monkeypatch.setattr(gpu, "_work", lambda only: [("twice", lambda x: x * 2, (x,), True)])
    monkeypatch.setattr("sys.argv", ["gpu.py", "--ways", "eager", "--folder", str(tmp_path)])
    gpu.main()
    assert (tmp_path / "gpu-nvidia-h200.csv").read_text().splitlines()[1].startswith('copy,copy,"bandwidth, GB/s",eager,,16,')
    assert '"triton"' in (tmp_path / "machines.json").read_text()
