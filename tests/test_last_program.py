"""What the last program of a kernel does: found in memory what all have stored, once, and computed as eager does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import fxc
from fxc.codegen.cpu.launch import compile_kernel
from fxc.codegen.triton.launch import Counters, counters, gpu_kernel
from fxc.codegen.triton.printer import print_kernel
from fxc.dialects.plan import LaunchOp as PlannedLaunch
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, preset, set_target
from fxc.dialects.tile import KernelOp, LastProgramOp, LaunchOp
from fxc.errors import KernelError
from fxc.interpret.tile_level import run_kernel
from tests.kernel_engines import ENGINES, EngineInterpreter, functions_of, kernels_for
from tests.kernel_groups import LINALG, group_of, run_passes
from tests.simulator.simulator import simulate
from tests.tile_programs import parse_kernel
from tests.triton_kernels import CASES

THREADS = CpuAttr.of(threads=4, vector_bits=512)


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def kernels(function: Callable[..., Any], arguments: Sequence[torch.Tensor], target: TargetAttr) -> tuple[ModuleOp, Any, Any]:
    module, inputs, outputs = group_of(function, arguments)
    set_target(module, target)
    run_passes(module, f"{LINALG},schedule,append-kernels,tile")
    return module, inputs, outputs


REDUCED: dict[str, tuple[Callable[..., Any], Callable[[int], list[torch.Tensor]]]] = {
    "mean": (lambda x: x.mean(), lambda n: [tensor(n, 256)]),
    "columns": (lambda x: x.mean(0) * 2, lambda n: [tensor(2048, 33)]),
    "several": (lambda x: (x.sum(), x.amax(), (x * x).mean()), lambda n: [tensor(n, 301)]),
    "logic": (lambda x: ((x > 0).any(), (x > 3).sum()), lambda n: [tensor(n, 300)]),
    "rows and all": (lambda x: (lambda r: (r, r.sum(), r.amax() + 1))((x * 2).sum(-1)), lambda n: [tensor(70, 40)]),
    "rows of rows": (lambda x: x.sum(-1).amax(-1), lambda n: [tensor(6, 17, 40)]),
    "read at places": (lambda x, i: x.softmax(-1)[i].sum(), lambda n: [tensor(50, 7), torch.tensor([3, 49, 0, 3])]),
}
"""A function, and its arguments, of about 256 * n elements where a sum is cut in parts."""


ON_GPU = preset("cuda:sm_90")
SLOW = ("columns", "logic")
"""Those that the simulator takes long for."""


@pytest.mark.parametrize(
    ("name", "target"), [(name, THREADS) for name in REDUCED] + [(name, ON_GPU) for name in REDUCED if name not in SLOW]
)
def test_one_launch_computes_what_eager_does(name: str, target: TargetAttr) -> None:
    function, make = REDUCED[name]
    module, inputs, outputs = kernels(function, make(256 if target is THREADS else 32), target)
    launches = [op for op in module.walk() if isinstance(op, LaunchOp)]
    assert len(launches) == 1 and any(isinstance(op, LastProgramOp) for op in module.walk())
    main = functions_of(module)["main"]
    for engine in ENGINES if target is not THREADS else ("interpreter", "native"):
        with torch.no_grad():
            results = EngineInterpreter(functions_of(module), ENGINES[engine]).call(main, list(inputs))
        for result, expected in zip(results, outputs, strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-5, atol=2e-4)


def test_the_same_numbers_each_time_on_threads() -> None:
    x = tensor(1 << 18)
    run = fxc.compile(lambda x: x.sum(), (x,), options={"target": "host"})
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert len({run(x).item() for _ in range(50)}) == 1
    finally:
        torch.set_num_threads(before)


def test_what_nothing_else_reads_is_memory_of_the_plan() -> None:
    x, labels = tensor(64, 100), torch.arange(64)
    compiled = fxc.compile(F.cross_entropy, (x, labels), options={"target": "host"})
    [launch] = [op for op in compiled.ir.module.walk() if isinstance(op, PlannedLaunch)]
    text = str(compiled.ir)
    assert len(launch.outs) > 1 and text.count("plan.alloc %arena") == len(launch.outs) - 1
    assert "plan.free" in text
    torch.testing.assert_close(compiled(x, labels), F.cross_entropy(x, labels))
    with pytest.raises(fxc.errors.BoundsError):
        compiled(x, labels + 90)


# what is checked

TOTALS = CASES["last_program"].text


def run_anyhow(text: str) -> list[torch.Tensor]:
    """The results of the kernel of CASES, changed to ``text``, by the interpreter."""
    outputs = CASES["last_program"].outputs()
    run_kernel(parse_kernel(text), [*CASES["last_program"].inputs(), *outputs])
    return outputs


def test_only_the_last_program_may_read_what_others_wrote() -> None:
    [x] = CASES["last_program"].inputs()
    assert torch.equal(run_anyhow(TOTALS)[0], x.sum(1))
    start = "tile.last_program (%q = %parts, %o = %out) : !tile.ptr<f32>, !tile.ptr<f32> {"
    lines = TOTALS[TOTALS.index(start) + len(start) : TOTALS.rindex("  }\n")]
    each = TOTALS.replace(start + lines + "  }", lines.replace("%q[", "%parts[").replace("%o[", "%out["))
    assert each != TOTALS
    with pytest.raises(KernelError, match=r"two programs write|another writes it|nothing wrote"):
        run_anyhow(each)
    with pytest.raises(KernelError):
        simulate(print_kernel(parse_kernel(each)), [x, *CASES["last_program"].outputs()])


def test_the_last_program_reads_what_it_added_itself() -> None:
    def added(x: torch.Tensor) -> torch.Tensor:
        y, places = x.softmax(0).flip(1), torch.zeros(x.shape, dtype=torch.int64)
        return y.scatter_reduce(0, places, y * 0.5, "sum") * 1.5

    module, inputs, [expected] = group_of(added, [tensor(1, 2, 33)])
    made = kernels_for(module, "cpu:avx512")
    assert made is not None and any(isinstance(op, LastProgramOp) for op in made.module.walk())
    for engine in ENGINES:
        [result] = made.run(ENGINES[engine], inputs)
        torch.testing.assert_close(result, expected)


def test_what_nothing_wrote_is_not_there_for_the_last_program() -> None:
    text = TOTALS.replace("tile.store %sum, %parts[%i] : f32, !tile.ptr<f32>", "")
    with pytest.raises(KernelError, match="nothing wrote it"):
        run_anyhow(text)
    with pytest.raises(KernelError, match="nothing wrote"):
        simulate(print_kernel(parse_kernel(text)), [*CASES["last_program"].inputs(), *CASES["last_program"].outputs()])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tl.store(counter, 0)", "pass", "does not leave its counter at 0"),
        ("if before == 7", "if before == 3", "which another program wrote|nothing wrote"),
        ('"acq_rel"', '"relaxed"', "a counter of programs takes 1 of each with acq_rel"),
    ],
)
def test_the_simulator_finds_what_is_wrong_with_counting(old: str, new: str, message: str) -> None:
    source = print_kernel(parse_kernel(TOTALS))
    wrong = source.source.replace(old, new)
    assert wrong != source.source
    with pytest.raises(KernelError, match=message):
        changed = type(source)(**{**source.__dict__, "source": wrong})
        simulate(changed, [*CASES["last_program"].inputs(), *CASES["last_program"].outputs()])


def test_batches_and_branches_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulator.simulator.LANES_AT_ONCE", 48)
    outputs = CASES["last_program"].outputs()
    simulate(print_kernel(parse_kernel(TOTALS)), [*CASES["last_program"].inputs(), *outputs])
    for output, expected in zip(outputs, CASES["last_program"].expected(*CASES["last_program"].inputs()), strict=True):
        torch.testing.assert_close(output, expected)


def test_native_code_of_a_kernel_alone() -> None:
    case = CASES["last_program"]
    run, outputs = compile_kernel(parse_kernel(TOTALS.replace(", tile.divisible = 16 : i64", "")), None), case.outputs()
    assert run is not None
    run([*case.inputs(), *outputs])
    for output, expected in zip(outputs, case.expected(*case.inputs()), strict=True):
        torch.testing.assert_close(output, expected)


# counters

LAUNCH = """
func.func @main(%x: tensor<8x16xf32>) -> tensor<2xf32> {
  %p, %y = tile.launch @totals(%x) : (tensor<8x16xf32>) -> (tensor<8xf32>, tensor<2xf32>)
  func.return %y : tensor<2xf32>
}
"""


def test_launches_on_a_stream_share_a_counter() -> None:
    pytest.importorskip("triton")
    from fxc.testing import parse
    from tests.triton_driver import stand_in

    op = next(op for op in parse(TOTALS + LAUNCH).walk() if isinstance(op, LaunchOp))
    assert isinstance(ON_GPU, GpuAttr)
    kernel, x = gpu_kernel(op, ON_GPU), tensor(8, 16)
    with stand_in(kernel.source) as driver:
        for _ in range(2):
            torch.testing.assert_close(kernel(x)[1][0], x.sum())
    addresses = [started.arguments[-1] for started in driver.started]
    assert addresses == [counters(torch.device("cpu"))(7).data_ptr()] * 2
    assert driver.started[0].signature == {"p": "*fp32", "parts": "*fp32", "out": "*fp32", "counter": "*i32"}


def test_a_counter_for_each_stream_and_a_new_one_for_each_recorded_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Counters(torch.device("cpu"))
    assert made(1) is made(1) and made(1) is not made(2)
    assert made(1).dtype == torch.int32 and not made(1).any()
    monkeypatch.setattr("fxc.codegen.triton.launch.is_captured", lambda device: True)
    assert made(1) is not made(1)


def test_the_counter_has_a_name_of_its_own() -> None:
    source = print_kernel(parse_kernel(TOTALS.replace("%p", "%counter").replace("%counterarts", "%parts")))
    assert source.counter == "counter_" and "def totals(counter, parts, out, counter_):" in source.source


def test_a_kernel_that_has_a_name_is_found_in_main() -> None:
    module, _, _ = kernels(lambda x: x.mean(), [tensor(300, 300)], THREADS)
    [kernel] = [op for op in module.ops if isinstance(op, KernelOp)]
    assert [schedule.is_last for schedule in kernel.attributes["last"]] == [True]  # type: ignore[attr-defined]
    assert [op.sym_name.data for op in module.ops if isinstance(op, FuncOp)] == ["main"]


def test_a_concatenation_that_the_last_program_reads() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        both = torch.cat([x.relu() * 2, y.exp() + 1], 1)
        return both, both.mean(0), (both * both).sum()

    inputs = torch.randn(3, 8), torch.randn(3, 4)
    compiled = fxc.compile(f, inputs, options={"target": "host"})
    torch.testing.assert_close(compiled(*inputs), f(*inputs))
