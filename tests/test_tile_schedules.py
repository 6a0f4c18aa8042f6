"""Each form of ``#tile.schedule`` computes what eager does: in the reference interpreter, as Triton text, and on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from fxc.codegen.contract import HOST, launch_runner, target_named
from fxc.codegen.triton import ahead_of_time
from fxc.codegen.triton.printer import print_kernel, print_kernels
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr, preset, set_target
from fxc.dialects.tile import KernelOp, LaunchOp, ScheduleAttr
from fxc.interpret.tile_level import result_specs
from fxc.passes.kernels.tiling import choices
from tests.kernel_groups import LINALG, check_function, check_text, group_of, run_passes
from tests.simulator.simulator import simulate

Tensors = list[torch.Tensor]


def edited(**changes: Any) -> Callable[[ScheduleAttr], ScheduleAttr]:
    """Sets fields of a schedule that is for reductions, or of an elementwise one where ``tile`` is among them."""

    def edit(schedule: ScheduleAttr) -> ScheduleAttr:
        if (schedule.kind.data == "elementwise") != ("tile" in changes):
            return schedule
        given = changes if schedule.kind.data != "outer" else {**changes, "form": "looped", "piece": 4096}
        fields: dict[str, Any] = {**schedule.fields(), "form": "looped", "tile": 1, **given}
        return ScheduleAttr.of(schedule.kind.data, schedule.numbers(), **fields)

    return edit


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


Launch = Callable[[LaunchOp, Sequence[torch.Tensor]], Tensors]


def launched(module: ModuleOp, inputs: Sequence[torch.Tensor], launch: Launch) -> Tensors:
    """What ``main`` of ``module``, which is launches only, returns."""
    [main] = [op for op in module.ops if isinstance(op, FuncOp)]
    values = dict[SSAValue, torch.Tensor](zip(main.body.block.args, inputs, strict=True))
    for op in main.body.block.ops:
        if isinstance(op, ReturnOp):
            return [values[value] for value in op.operands]
        assert isinstance(op, LaunchOp)
        values |= dict(zip(op.results, launch(op, [values[value] for value in op.operands]), strict=True))
    raise AssertionError("the function returns nothing")


def simulated(op: LaunchOp, operands: Sequence[torch.Tensor]) -> Tensors:
    kernel = op.kernel()
    assert kernel is not None
    results = [spec.new() for spec in result_specs(op)]
    simulate(print_kernel(kernel), [*operands, *results])
    return results


def native(op: LaunchOp, operands: Sequence[torch.Tensor]) -> Tensors:
    target = target_named(HOST)
    assert isinstance(target, CpuAttr)
    return launch_runner(op, target)(*operands)


def check_everywhere(
    function: Callable[..., Any],
    *arguments: torch.Tensor,
    edit: Callable[[ScheduleAttr], ScheduleAttr] = lambda schedule: schedule,
    target: TargetAttr | None = None,
) -> ModuleOp:
    """Compare with eager what the kernels compute, in the interpreter, the simulator of Triton, and on the CPU."""
    module = check_function(function, *arguments, edit=edit, target=target)
    _, inputs, outputs = group_of(function, arguments)
    for launch in (simulated, native):
        for result, expected in zip(launched(module, inputs, launch), outputs, strict=True):
            wide = torch.promote_types(expected.dtype, torch.float32) if expected.is_floating_point() else expected.dtype
            half = expected.dtype in (torch.bfloat16, torch.float16)
            relative, absolute = (1.6e-2, 1e-2) if half else (2e-6, 1e-5)
            torch.testing.assert_close(result.to(wide), expected.to(wide), equal_nan=True, rtol=relative, atol=absolute)
    return module


def schedules(module: ModuleOp) -> list[ScheduleAttr]:
    found = [op.attributes["schedule"] for op in module.ops if isinstance(op, KernelOp)]
    return [schedule for schedule in found if isinstance(schedule, ScheduleAttr)]


# tiles


TURNED: Mapping[str, tuple[Callable[..., Any], Callable[..., Tensors]]] = {
    "a transpose": (lambda x, y: x + y.t(), lambda m, n, dtype: [tensor(m, n, dtype=dtype), tensor(n, m, dtype=dtype)]),
    "results both ways": (
        lambda x, y: ((x + y.t()).tanh(), x.t() * y),
        lambda m, n, dtype: [tensor(m, n, dtype=dtype), tensor(n, m, dtype=dtype)],
    ),
    "a bias each way": (
        lambda x, y, row, column: (x - y.t()) * row + column,
        lambda m, n, dtype: [
            tensor(m, n, dtype=dtype), tensor(n, m, dtype=dtype), tensor(n, dtype=dtype), tensor(m, 1, dtype=dtype),
        ],
    ),
    "dimensions between": (
        lambda x, y: x.permute(0, 2, 3, 1) * y,
        lambda m, n, dtype: [tensor(2, n, m, 3, dtype=dtype), tensor(2, m, 3, n, dtype=dtype)],
    ),
    "strides": (
        lambda x, y: x[:, ::2] + y[::2].t(),
        lambda m, n, dtype: [tensor(m, 2 * n, dtype=dtype), tensor(2 * n, m, dtype=dtype)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", TURNED)
def test_tiles(name: str, dtype: torch.dtype) -> None:
    function, arguments = TURNED[name]
    for sizes, (lanes, tile, block) in {
        (9, 13): (4, 4, 16),
        (1, 7): (4, 4, 16),
        (5, 18): (8, 4, 1024),
        (0, 4): (4, 4, 16),
    }.items():
        edit = edited(lanes=lanes, tile=tile, block=block, unroll=1)
        (check_everywhere if sizes == (9, 13) else check_function)(function, *arguments(*sizes, dtype), edit=edit)


def test_tiles_are_chosen_for_operands_that_lie_across() -> None:
    module = check_everywhere(lambda x, y: x + y.t(), tensor(40, 36), tensor(36, 40), target=preset("cpu:avx512"))
    assert [schedule.tile.value.data for schedule in schedules(module)] == [16]
    module = check_everywhere(lambda x, y: x + y, tensor(40, 36), tensor(40, 36), target=preset("cpu:avx512"))
    assert [schedule.tile.value.data for schedule in schedules(module)] == [1]
    module = check_everywhere(lambda x, y: x + y.t(), tensor(40, 36), tensor(36, 40), target=preset("cuda:sm_90"))
    assert "tl.permute" in print_kernels(module)[0].source


# parts


REDUCED: Mapping[str, Callable[..., Any]] = {
    "all": lambda x: (x * 2).sum(),
    "rows": lambda x: (x.amax(-1), x.amin(-1)),
    "columns": lambda x: (x.sum(0), (x * x).sum(0)),
    "what is reduced is a result, too": lambda x: (lambda y: (y, y.sum(-1)))(x * 3),
    "logic": lambda x: ((x > 0).any(), (x > 0).sum(), (x > 5).all(-1)),
    "product": lambda x: (x * 0.1 + 1).prod(-1),
    "channels": lambda x: x.unsqueeze(1).sum((0, 2)),
}


@pytest.mark.parametrize("name", REDUCED)
def test_parts(name: str) -> None:
    for number, shape in enumerate([(33, 5), (5, 33), (1, 1), (0, 3), (2, 40)]):
        edit = edited(lanes=4, unroll=1 + number % 2, parts=2 + number)
        (check_everywhere if number < 2 else check_function)(REDUCED[name], tensor(*shape), edit=edit)
    check_everywhere(REDUCED[name], tensor(40, 14)[::2, ::2].t(), edit=edited(lanes=4, parts=3))


FOLDED = ["columns", "what is reduced is a result, too", "logic", "product", "channels"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDED)
def test_columns_in_blocks_of_rows_on_a_gpu(name: str) -> None:
    """The lanes along the reduced loop are combined after it; parts are of whole steps."""
    target = preset("cuda:sm_90")
    for number, shape in enumerate([(130, 5), (1000, 3), (0, 3), (1, 70)]):
        x = tensor(*shape)
        if number == 1:
            x[3, 1], x[4, 2] = torch.nan, torch.inf
        (check_everywhere if number < 2 else check_function)(REDUCED[name], x, target=target)
    if name == "columns":
        check_everywhere(REDUCED[name], tensor(90, 40, dtype=torch.bfloat16)[::2], target=target)


def test_programs_of_columns_fill_a_gpu() -> None:
    """Of 16,384 x 1,024 numbers: as many programs of eight warps as two for each multiprocessor."""
    module, _, _ = group_of(REDUCED["columns"], [torch.empty(16384, 1024)])
    set_target(module, preset("cuda:sm_90"))
    run_passes(module, f"{LINALG},schedule,tile")
    [source] = print_kernels(module)
    assert source.grid == (256,) and source.warps == 8 and "tl.sum(" in source.source
    narrow = group_of(lambda x: (x * 2).sum(0), [torch.ones(100000, 8)])[0]
    set_target(narrow, preset("cuda:sm_90"))
    run_passes(narrow, f"{LINALG},schedule,tile")
    assert [(each.lanes.value.data, each.tile.value.data) for each in schedules(narrow)] == [(8, 512)]


@pytest.mark.slow
def test_few_long_rows_are_split_on_a_gpu() -> None:
    """A softmax of two rows: each pass has as many programs as the GPU runs, and one program combines all parts at once."""
    x = tensor(2, 60000)
    x[1, 7], x[1, 50000] = -torch.inf, 80.0
    module = check_everywhere(ROWS["softmax"], x, target=GpuAttr.of(multiprocessors=8, bandwidth=115))
    assert [schedule.parts.value.data for schedule in schedules(module)] == [8, 8, 1]


def test_parts_of_half_precision_are_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "SHARED", 1 << 10)  # numbers that are worth more than one processor
    monkeypatch.setattr(choices, "PART", 1 << 7)
    target = CpuAttr.of(threads=2)
    module = check_everywhere(lambda x: x.sum().reshape(1, 1), tensor(2, 800, dtype=torch.bfloat16), target=target)
    assert [schedule.parts.value.data for schedule in schedules(module)] == [2, 1]


def test_parts_are_as_many_as_the_machine_has_use_for() -> None:
    def parts(function: Callable[..., Any], shape: Sequence[int], target: TargetAttr) -> list[int]:
        module, _, _ = group_of(function, [torch.ones(shape)])
        set_target(module, target)
        run_passes(module, f"{LINALG},schedule,tile")
        return [schedule.parts.value.data for schedule in schedules(module)]

    two, four = CpuAttr.of(threads=2), CpuAttr.of(threads=4)
    assert parts(REDUCED["all"], (1000, 100), two) == [2]
    assert parts(REDUCED["all"], (1000, 100), CpuAttr.of()) == [1]
    assert parts(REDUCED["all"], (10, 100), two) == [1]
    assert parts(REDUCED["columns"], (20000, 4), four) == [4]
    assert parts(REDUCED["columns"], (2000, 400), four) == [1]
    assert parts(REDUCED["all"], (1000, 1000), preset("cuda:sm_80")) == [216]


def test_sums_in_parts_are_near_those_of_float64() -> None:
    x = tensor(100003)
    module, inputs, outputs = group_of(lambda x: x.sum(), [x])
    set_target(module, CpuAttr.of(threads=4))
    run_passes(module, f"{LINALG},schedule,tile")
    exact, bound = x.double().sum(), x.double().abs().sum() * 2**-24 * math.log2(len(x))
    assert (launched(module, inputs, native)[0].double() - exact).abs() <= max((outputs[0].double() - exact).abs(), bound)


# vectors of columns side by side


COLUMNS: Mapping[str, Callable[..., Any]] = {
    "elements and their sum": lambda x, y, r: (lambda e: (e, e.sum(0)))((x * y).exp()),
    "two sums": lambda x, y, r: ((x * r).sum(0), x.sum(0), y * 2),
    "several passes": lambda x, y, r: (x * y).softmax(0) * 2,
    "several passes with a mean": lambda x, y, r: ((x - (x * r).mean(0)) * y).sum(0),
    "rows and columns": lambda x, y, r: (x.unsqueeze(1) * y.unsqueeze(1)).sum((0, 1)),
    "logic and products": lambda x, y, r: ((x > y).any(0), (x * 0.1 + 1).prod(0)),
    "what lies across": lambda x, y, r: (x.t().contiguous().t() * y).sum(0),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_vectors_of_columns_side_by_side(name: str) -> None:
    for number, (rows, columns) in enumerate([(20, 13), (7, 24), (1, 5), (0, 9), (6, 1), (9, 0)]):
        x, y, r = tensor(rows, columns), tensor(rows, columns, seed=1), tensor(rows, 1, seed=2)
        edit = edited(lanes=4, unroll=3 - number % 2, block=12 if number % 3 else 24)
        (check_everywhere if number == 0 else check_function)(COLUMNS[name], x, y, r, edit=edit)
    x, y, r = tensor(20, 26)[:, ::2], tensor(20, 26, seed=1)[:, 1:14], tensor(20, 1, seed=2)
    check_function(COLUMNS[name], x, y, r, edit=edited(lanes=4, unroll=2, block=8))


@pytest.mark.parametrize("columns", [7, 100, 250])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_long_columns_in_parts_are_near_those_of_float64(columns: int, threads: int) -> None:
    """Neither rows nor columns are a multiple of anything: totals of a part are still added up in blocks."""
    x = tensor(40009, columns).abs()
    module, inputs, outputs = group_of(lambda x: (x * 2).sum(0), [x])
    set_target(module, CpuAttr.of(threads=threads))
    run_passes(module, f"{LINALG},schedule,tile")
    exact = (x.double() * 2).sum(0)
    error, eager = (
        (each.double() - exact).abs().max() / exact.max() for each in (launched(module, inputs, native)[0], outputs[0])
    )
    assert error <= max(8 * eager, 16 * 2**-24)


# rows


ROWS: Mapping[str, Callable[..., Any]] = {
    "softmax": lambda x: F.softmax(x, -1) * 2,
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) + 1,
    "gelu and layer_norm": lambda x: F.layer_norm(F.gelu(x), x.shape[-1:]),
    "rms_norm": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5),
    "deviation": lambda x: (x.mean(-1), x.std(-1, correction=0), x - x.mean(-1, keepdim=True)),
    "several results": lambda x: (lambda y: (y, y.mean(-1), y - y.amax(-1, keepdim=True)))(x.sigmoid()),
}
FORMS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "held": [{"lanes": 64, "unroll": 1}],
    "stored": [{"lanes": 8, "unroll": 2}],
    "online": [{"lanes": 8, "unroll": 2, "piece": 16}, {"lanes": 16, "unroll": 1, "piece": 16}],
    "online in lanes": [{"form": "online", "lanes": 8, "unroll": 1, "piece": 1}],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROWS)
def test_forms_of_rows(name: str, form: str) -> None:
    for fields in FORMS[form]:
        check_everywhere(ROWS[name], tensor(5, 33), edit=edited(**{"form": form, **fields}))
    check_everywhere(ROWS[name], tensor(6, 80)[::2, ::2], edit=edited(**{"form": form, **FORMS[form][0]}))
    check_function(ROWS[name], tensor(4, 40, dtype=torch.bfloat16), edit=edited(**{"form": form, **FORMS[form][0]}))
    check_function(ROWS[name], tensor(0, 20), edit=edited(**{"form": form, **FORMS[form][0]}))
    check_function(ROWS[name], tensor(3, 1), edit=edited(**{"form": form if form != "held" else "looped", **FORMS[form][0]}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows_of_numbers_that_are_none(name: str, form: str) -> None:
    x = tensor(9, 40)
    x[0, 3], x[1, 20], x[2, 39] = math.nan, math.inf, -math.inf
    x[3], x[4, :32], x[5, 5:] = -math.inf, -math.inf, -math.inf
    x[6], x[7, :20], x[8] = 0.0, -0.0, math.inf
    for fields in FORMS[form]:
        check_text(check_everywhere(ROWS[name], x, edit=edited(**{"form": form, **fields})))


@pytest.mark.slow
@pytest.mark.parametrize("target", [CpuAttr.of(l2=4096), GpuAttr.of(registers=8192, multiprocessors=1)], ids=["cpu", "gpu"])
def test_online_rows_are_as_accurate_as_eager(target: TargetAttr) -> None:
    x = tensor(3, 5000) + 1000
    for function in (lambda x: x.var(-1, correction=0), lambda x: F.softmax(x, -1).amax(-1)):
        module, inputs, [eager] = group_of(function, [x])
        set_target(module, target)
        run_passes(module, f"{LINALG},schedule,tile")
        assert "online" in [schedule.form.data for schedule in schedules(module)]
        exact = function(x.double())
        errors = [((value.double() - exact) / exact).abs().max() for value in (launched(module, inputs, native)[0], eager)]
        assert errors[0] <= max(errors[1], 4 * torch.finfo(torch.float32).eps)


def test_what_is_held_is_loaded_once_and_what_is_stored_computed_once() -> None:
    module = check_function(ROWS["softmax"], tensor(4, 64), edit=edited(form="held", lanes=64))
    assert [print_kernels(module)[0].source.count(text) for text in ("tl.load", "= accurate_exp(")] == [1, 1]
    module = check_function(ROWS["softmax"], tensor(4, 64), edit=edited(form="stored", lanes=16, unroll=1))
    assert print_kernels(module)[0].source.count("= accurate_exp(") == 1
    module = check_function(ROWS["softmax"], tensor(4, 64), edit=edited(form="looped", lanes=16, unroll=1))
    assert print_kernels(module)[0].source.count("= accurate_exp(") == 2


def test_rows_of_a_gpu_are_held_where_they_fit() -> None:
    def forms(name: str, columns: int) -> list[str]:
        module, _, _ = group_of(ROWS[name], [torch.ones(300, columns)])
        set_target(module, preset("cuda:sm_90"))
        run_passes(module, f"{LINALG},schedule,tile")
        return [schedule.form.data for schedule in schedules(module)]

    losses = group_of(lambda x: (m := x.amax(1, keepdim=True), (x - m).exp().sum(1, keepdim=True)), [torch.ones(300, 9000)])[0]
    set_target(losses, preset("cuda:sm_90"))
    run_passes(losses, f"{LINALG},schedule,tile")
    assert print_kernels(losses)[0].source.count("tl.load(") == 2, (
        "a cross entropy loads each element once, in a loop or behind"
    )
    assert [forms("softmax", 9000), forms("layer_norm", 3000), forms("rms_norm", 9000)] == [["online"], ["held"], ["looped"]]


# groups of groups


def test_small_groups_are_one_launch() -> None:
    import fxc

    def function(*tensors: torch.Tensor) -> Tensors:
        return [value.to(torch.bfloat16) for value in tensors] + [torch.mm(tensors[0], tensors[1]).relu()]

    arguments = [tensor(4, 6), tensor(6, 5), tensor(7), tensor(3, 2, 2)]
    compiled = fxc.compile(function, tuple(arguments), options={"target": "host"})
    for result, expected in zip(compiled(*arguments), function(*arguments), strict=True):
        torch.testing.assert_close(result, expected)


# Triton, ahead of time


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_loads_are_of_128_bits(arch: str) -> None:
    pytest.importorskip("triton")
    gpu = preset(f"cuda:{arch}")
    kernels = [
        print_kernels(check_function(function, *arguments, target=gpu))[0]
        for function, arguments in (
            (lambda x, y: (x * y).relu() + 1, [tensor(40, 100), tensor(40, 100)]),
            (ROWS["softmax"], [tensor(4, 1024)]),
            (lambda x, y: x + y.t(), [tensor(64, 64), tensor(64, 64)]),
        )
    ]
    for compiled in ahead_of_time.compile_kernels(kernels, f"cuda:{arch}"):
        assert "ld.global.v4.b32" in compiled.assembly and compiled.resources.spilled == 0


def test_kernels_have_the_names_of_the_program() -> None:
    import fxc

    class Model(torch.nn.Module):
        def forward(self, features: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
            scaled = features * 2
            return torch.sigmoid(gate) * scaled

    arguments = (tensor(8, 64), tensor(8, 64))
    pipeline = "lower-to-torch,canonicalize,optimize,lower-kernels"
    program = fxc.run_passes(fxc.capture(Model(), arguments), pipeline)
    [kernel] = print_kernels(program.module)
    assert "features_1 = tl.load(features" in kernel.source
    assert "sigmoid = " in kernel.source and "mul = " in kernel.source
