"""Scatters of many updates: as loops and as kernels that combine in memory, on every engine, they equal eager PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import PRESETS, GpuAttr, preset, set_target
from fxc.dialects.tile import AccumulateOp, KernelOp, LaunchOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.errors import BoundsError
from fxc.passes.rewriting.remarks import remarking
from fxc.pipelines import AOT
from fxc.program.execute import execute
from fxc.program.program import Program
from tests.kernel_engines import ENGINES, kernels_for
from tests.kernel_groups import LINALG, group_of, run_main, run_passes

TARGETS = {"interpreter": "cuda:sm_90", "simulator": "cuda:sm_90", "native": "cpu:avx2"}
"""What kernels are made for, that an engine runs."""

LOWER = "lower-to-torch,canonicalize,optimize{reductions=true},lower-kernels"
GPU = f'set-target{{to="cuda:sm_90"}},{LOWER}'

aten = torch.ops.aten


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))) * 4).to(dtype)


def indices(size: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, size, shape, generator=torch.Generator().manual_seed(size)).to(dtype)


def equal(result: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    assert result.stride() == expected.stride() or expected.numel() <= 1
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def compare(function: Callable[..., Any], arguments: Sequence[torch.Tensor], tolerance: float = 1e-5) -> ModuleOp:
    """Compare the loops of a group of all that ``function`` calls, and its kernels on each engine, with eager; its loops."""
    module, inputs, _ = group_of(function, arguments)
    expected = function(*(x.double() if x.dtype in (torch.float16, torch.bfloat16) else x for x in arguments))
    made = {target: kernels_for(module, target) for target in set(TARGETS.values())}
    for engine, target in TARGETS.items():
        kernels = made[target]
        assert kernels is not None
        [result] = kernels.run(ENGINES[engine], inputs)
        equal(result, expected.to(result.dtype), tolerance)
    assert run_passes(module, LINALG)["groups converted"]
    [result] = run_main(module, inputs)
    equal(result, expected.to(result.dtype), tolerance)
    assert any(isinstance(op, AccumulateOp) for op in module.walk())
    return module


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "scatter_add": (lambda x, i, y: x.scatter_add(1, i, y.exp()), (tensor(5, 9), indices(9, 4, 30), tensor(6, 40) / 4)),
    "scatter_add along rows": (lambda x, i, y: x.scatter_add(-2, i, y), (tensor(5, 9), indices(5, 30, 9), tensor(30, 9))),
    "into zeros": (lambda i, y: torch.zeros(7, 3).index_add(0, i, y * 2), (indices(7, 50), tensor(50, 3))),
    "index_add with a factor": (
        lambda x, i, y: x.index_add(1, i, y, alpha=3) * 2,
        (tensor(4, 7), indices(7, 50), tensor(4, 50)),
    ),
    "int32 indices": (lambda i, y: torch.zeros(7).index_add(0, i, y), (indices(7, 50, dtype=torch.int32), tensor(50))),
    "rows put": (lambda x, i, y: x.index_put((i,), y, accumulate=True), (tensor(7, 3), indices(7, 20, low=-7), tensor(20, 3))),
    "two indices": (
        lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
        (tensor(6, 5, 3), indices(6, 8, 1, low=-6), indices(5, 9), tensor(9, 3)),
    ),
    "indices apart": (
        lambda x, i, j, y: aten.index_put(x, [i, None, j], y, True),
        (tensor(6, 2, 5), indices(6, 30), indices(5, 30), tensor(30, 2)),
    ),
    "one number put": (lambda x, i, y: x.index_put((i,), y, accumulate=True), (tensor(7), indices(7, 50), tensor())),
    "embedding": (
        lambda g, i: aten.embedding_dense_backward(g * 2, i, 11, -1, False),
        (tensor(4, 6, 33), indices(11, 4, 6)),
    ),
    "embedding with padding": (
        lambda g, i: aten.embedding_dense_backward(g / 0, i, 5, 2, False),
        (tensor(30, 3), indices(5, 30)),
    ),
    "transposed": (lambda x, i, y: x.t().index_add(0, i, y.t()) + 1, (tensor(5, 9), indices(9, 40), tensor(5, 40))),
    "after a reduction": (
        lambda i, x: torch.zeros(9, 6).index_add(0, i, x.softmax(-1)),
        (indices(9, 25), tensor(25, 6)),
    ),
    "sums of rows": (lambda i, x: torch.zeros(9).index_add(0, i, x.sum(-1)), (indices(9, 25), tensor(25, 6))),
    "updates without elements": (lambda i, x: torch.ones(3, 2).scatter_add(0, i, x), (indices(3, 6, 0), tensor(6, 0))),
    "the largest": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
        (tensor(6, 3), indices(6, 40, 3), torch.where(tensor(40, 3) > 9, torch.nan, tensor(40, 3))),
    ),
    "the smallest": (
        lambda x, i, y: x.scatter_reduce(0, i, y - torch.inf, "amin"),
        (tensor(6, 3), indices(6, 40, 3), torch.where(tensor(40, 3) > 9, torch.inf, tensor(40, 3))),
    ),
    "scatter that adds": (lambda x, i, y: aten.scatter(x, 0, i, y, reduce="add"), (tensor(6), indices(6, 40), tensor(40))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_functions(name: str) -> None:
    compare(*FUNCTIONS[name])


SUMMED = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32)
COMPARED = (torch.bfloat16, torch.float64, torch.uint8, torch.int64)


@pytest.mark.parametrize(("dtype", "how"), [*((dtype, "sum") for dtype in SUMMED), *((dtype, "amax") for dtype in COMPARED)])
def test_dtypes(dtype: torch.dtype, how: str) -> None:
    """Half precision is added up in float32, so it is as good as float64 but for one rounding; integers wrap around."""
    x, i, y = tensor(6, 3, dtype=dtype), indices(6, 40, 3), tensor(40, 3, dtype=dtype)
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3}.get(dtype, 1e-12)
    compare(lambda x, i, y: x.scatter_reduce(0, i, y, how), (x, i, y), tolerance)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "replacing": (lambda x, i, y: x.index_put((i,), y) * 2, (tensor(5, 3), indices(5, 20), tensor(20, 3))),
    "products": (lambda x, i, y: x.scatter_reduce(0, i, y, "prod"), (tensor(5), indices(5, 20), tensor(20))),
    "means": (lambda x, i, y: x.scatter_reduce(0, i, y, "mean"), (tensor(5), indices(5, 20), tensor(20))),
    "without what was there": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "sum", include_self=False),
        (tensor(5), indices(5, 20), tensor(20)),
    ),
    "divided by how often": (
        lambda g, i: aten.embedding_dense_backward(g, i, 5, -1, True),
        (tensor(20, 3), indices(5, 20)),
    ),
    "booleans": (lambda x, i, y: x.index_put((i,), y, accumulate=True), (tensor(5) > 0, indices(5, 20), tensor(20) > 0)),
    "no dimension": (lambda x, i, y: x.scatter_add(0, i, y), (tensor(), indices(1, 8), tensor(8))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, arguments = REFUSED[name]
    module, inputs, outputs = group_of(function, arguments)
    assert not run_passes(module, LINALG)["groups converted"]
    equal(run_main(module, inputs)[0], outputs[0])


WRONG: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "scatter_add": lambda x, i: torch.zeros(4, 2).scatter_add(0, i[:, None].expand(-1, 2), x),
    "index_add": lambda x, i: torch.zeros(4, 2).index_add(0, i, x),
    "index_put": lambda x, i: torch.zeros(4, 2).index_put((i,), x, accumulate=True),
    "embedding": lambda x, i: aten.embedding_dense_backward(x, i, 4, -1, False),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_indices(name: str) -> None:
    """Where eager raises, the loops and all kernels do; where it counts from the end, they agree."""
    x, good = tensor(8, 2), torch.tensor([0, 3, 1, 2, 0, 3, 3, 1])
    module, _, _ = group_of(WRONG[name], (x, good))
    found = {target: kernels_for(module, target) for target in set(TARGETS.values())}
    kernels = {engine: found[target] for engine, target in TARGETS.items()}
    for bad in (4, -1, 1 << 40):
        wrong = good.index_fill(0, torch.tensor([5]), bad)
        for engine, made in kernels.items():
            assert made is not None
            if name == "index_put" and bad == -1:
                equal(made.run(ENGINES[engine], [x, wrong])[0], WRONG[name](x, wrong))
                continue
            with pytest.raises(BoundsError, match="out of range"):
                made.run(ENGINES[engine], [x, wrong])


# which scatters become kernels


def operators(module: ModuleOp) -> Counter[str]:
    """The operators that are calls, and the launches."""
    names = (op.operator if isinstance(op, TorchOp) else op.name for op in module.walk() if isinstance(op, TorchOp | LaunchOp))
    return Counter(names)


def lowered(function: Callable[..., Any], arguments: Sequence[torch.Tensor], pipeline: str = GPU) -> tuple[Program, list[str]]:
    """``function`` after ``pipeline``, and the remarks of ``fuse``."""
    remarks = list[str]()
    with remarking(["fuse"], remarks.append):
        return fxc.run_passes(fxc.capture(function, tuple(arguments)), pipeline), remarks


ROWS = (indices(500, 3000), tensor(3000, 40))


def test_what_computes_updates_is_in_their_kernel_on_a_gpu() -> None:
    function = lambda i, x: torch.zeros(500, 40).index_add(0, i, x.exp() * 2)  # noqa: E731
    program, remarks = lowered(function, ROWS)
    assert operators(program.module) == {"tile.launch": 1} and not remarks
    [kernel] = print_kernels(program.module)
    assert "accurate_exp" in kernel.source and 'sem="relaxed"' in kernel.source
    torch.testing.assert_close(execute(program, ROWS).value, function(*ROWS))


def test_a_cpu_keeps_the_call() -> None:
    function = lambda i, x: torch.zeros(500, 40).index_add(0, i, x.exp() * 2)  # noqa: E731
    program, remarks = lowered(function, ROWS, f"set-target{{to=cpu}},{LOWER}")
    assert operators(program.module)["aten.index_add.default"] == 1
    assert any("updates: programs of a CPU would wait" in remark for remark in remarks)


def test_deterministic_programs_add_no_floats_in_any_order() -> None:
    pipeline = f'set-target{{to="cuda:sm_90" deterministic=true}},{LOWER}'
    i, x = ROWS
    program, remarks = lowered(lambda i, x: torch.zeros(500, 40).index_add(0, i, x.exp() * 2), ROWS, pipeline)
    assert operators(program.module)["aten.index_add.default"] == 1
    assert any("order: floats that are added in any order" in remark for remark in remarks)
    whole = lambda i, x: torch.zeros(500, 40, dtype=torch.int64).index_add(0, i, x * 2)  # noqa: E731
    assert operators(lowered(whole, (i, x.long()), pipeline)[0].module) == {"tile.launch": 1}
    largest = lambda i, x: torch.zeros(500, 40).scatter_reduce(0, i[:, None].expand(-1, 40), x * 2, "amax")  # noqa: E731
    assert "aten.scatter_reduce.two" not in operators(lowered(largest, ROWS, pipeline)[0].module)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_switch_of_pytorch_is_followed() -> None:
    function = lambda i, x: torch.zeros(500, 40).index_add(0, i, x.exp() * 2)  # noqa: E731
    options = {"target": "cuda:sm_90"}
    plans = [fxc.compile(function, ROWS, options=options).plan]
    with deterministic():
        plans.append(fxc.compile(function, ROWS, options=options).plan)
    assert ["aten_index_add" in plan.code for plan in plans] == [False, True]
    for plan in plans:
        torch.testing.assert_close(plan(*ROWS), function(*ROWS))


LEFT: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "contention": (
        lambda i, x: aten.embedding_dense_backward(x * 2, i, 2, -1, False),
        (indices(2, 60000), tensor(60000, 4)),
        "so many updates of one element",
    ),
    "traffic": (
        lambda i, x: aten.embedding_dense_backward(x * 2, i, 40000, -1, False),
        (indices(40000, 64), tensor(64, 768, dtype=torch.bfloat16)),
        "are written and read once more",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_calls_that_are_faster_stay(name: str) -> None:
    function, arguments, why = LEFT[name]
    program, remarks = lowered(function, arguments)
    assert operators(program.module)["aten.embedding_dense_backward.default"] == 1
    assert any(remark.startswith(f"remark: fuse: {name}: ") and why in remark for remark in remarks)


@pytest.mark.parametrize("arguments", [(torch.tensor(2), torch.tensor(3.0)), (torch.tensor([2]), torch.tensor(3.0))])
@pytest.mark.parametrize("pipeline", [LOWER, GPU], ids=["cpu", "cuda"])
def test_a_number_in_the_place_of_a_vector_stays(arguments: tuple[torch.Tensor, ...], pipeline: str) -> None:
    def function(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> Sequence[torch.Tensor]:
        return x.scatter_add(0, i, y) * 2, x.scatter(0, i, y) * 2, x.scatter_reduce(0, i, y, "amax") * 2

    given = (tensor(5), *arguments)
    program = fxc.run_passes(fxc.capture(function, given), pipeline)
    for result, expected in zip(execute(program, given).value, function(*given), strict=True):
        torch.testing.assert_close(result, expected)


def test_numbers_of_the_target_decide() -> None:
    fields = PRESETS["cuda:sm_90"].fields()
    function, arguments, _ = LEFT["contention"]
    program = fxc.run_passes(fxc.capture(function, arguments), "lower-to-torch,canonicalize")
    for atomic, expected in ((2, 1), (1, 0)):
        set_target(program.module, GpuAttr.of(**{**fields, "atomic": atomic}))
        made = fxc.run_passes(program, "optimize{reductions=true},lower-kernels").module
        assert operators(made)["aten.embedding_dense_backward.default"] == expected


def test_small_updates_of_tables_side_by_side_are_one_kernel() -> None:
    def function(i: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Sequence[torch.Tensor]:
        return [aten.embedding_dense_backward(each, i, 7, -1, False) for each in (x, y)]

    arguments = (indices(7, 20), tensor(20, 8), tensor(20, 8, seed=1))
    program, _ = lowered(function, arguments)
    assert operators(program.module) == {"tile.launch": 1}
    for result, expected in zip(execute(program, arguments).value, function(*arguments), strict=True):
        torch.testing.assert_close(result, expected)


def test_any_number_of_updates() -> None:
    class Rows(torch.nn.Module):
        def forward(self, i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.zeros(50, 8).index_add(0, i, x.exp()) * 2

    size, model = Dim("size", min=6), Rows()
    program = fxc.capture(model, (indices(50, 30), tensor(30, 8)), dynamic_shapes={"i": {0: size}, "x": {0: size}})
    program = fxc.run_passes(program, GPU)
    assert operators(program.module)["aten.index_add.default"] == 0
    for count in (6, 71, 300):
        arguments = (indices(50, count), tensor(count, 8) / 4)
        torch.testing.assert_close(execute(program, arguments).value, model(*arguments))


def test_the_gradient_of_an_embedding_is_computed_where_it_is_added() -> None:
    """What a softmax gives backward goes on into the table, without a tensor between."""

    def gradient(table: torch.Tensor, i: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(F.embedding(i, table).softmax(-1), table, seen)[0]

    arguments = (tensor(61, 16).requires_grad_(), indices(61, 4, 10), tensor(4, 10, 16))
    program = fxc.import_fx(make_fx(gradient)(*arguments))
    set_target(program.module, preset("cuda:sm_90"))
    module = fxc.run_passes(program, AOT.text(kernels=True, freeze=False)).module
    assert not [op for op in module.walk() if isinstance(op, GroupOp) or "embedding_dense" in op.name]
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    [adds] = [kernel for kernel in kernels if any(op.name == "tile.atomic_add" for op in kernel.walk())]
    assert any(op.name == "tile.reduce" for op in adds.walk())


@pytest.mark.parametrize("how", ["flip", "roll", "values"])
def test_places_that_the_group_has_made_itself(how: str) -> None:
    class Rows(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n = torch.arange(x.shape[0])
            moved = {"flip": n.flip(0), "roll": n.roll(3, 0), "values": n.gather(0, torch.where(x > 0, n, n.flip(0)))}[how]
            return torch.zeros_like(x).scatter_add(0, moved, x.sin()) + n

    program, model = fxc.capture(Rows(), (tensor(10),), dynamic_shapes=({0: Dim("size")},)), Rows()
    for pipeline in (GPU, f'set-target{{to="cpu:avx512"}},{LOWER}'):
        made = fxc.run_passes(program, pipeline)
        for count in (10, 1, 0, 33):
            torch.testing.assert_close(execute(made, [tensor(count)]).value, model(tensor(count)))


@pytest.mark.parametrize("count", [1, 50])
def test_a_factor_that_is_a_size(count: int) -> None:
    """Few updates are searched by each element, many are accumulated; both have no symbol as a factor, and are PyTorch's."""

    def model(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.index_add(1, i, y, alpha=x.shape[0]) * 2

    given = tensor(5, 9), indices(9, count), tensor(5, count)
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, backend="fxc", dynamic=True)
        for rows in (5, 3):
            x, i, y = given[0][:rows].clone(), given[1], given[2][:rows].clone()
            torch.testing.assert_close(compiled(x, i, y), model(x, i, y))
