"""Kernels of sizes that are not known before a call: compiled once, they give eager's numbers for every size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim

import fxc
from fxc.codegen.triton.printer import print_kernel
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.errors import InputError
from fxc.interpret import torch_level as interpret
from fxc.interpret.tile_level import kernel_of, result_specs, symbol_values
from fxc.program.execute import execute
from fxc.program.program import Program
from fxc.runtime.native_kernel import TensorKernel
from fxc.runtime.replacements import NO_ELEMENTS
from fxc.testing import parse
from tests.simulator.simulator import simulate

SIZES = (0, 1, 2, 3, 7, 130, 2049)
LOWER = "lower-to-torch,canonicalize,optimize{reductions=true}"


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def centred(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-3).sqrt()


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "elementwise": (lambda x: torch.tanh(x) * 2 + x.abs(), (5,)),
    "one dimension": (lambda x: (x * 2 + 1).sigmoid(), ()),
    "three dimensions": (lambda x: (x * x + 1).log(), (3, 7)),
    "broadcast over a row": (lambda x: x * torch.arange(20.0) + 0.5, (20,)),
    "broadcast of rows": (lambda x: (x - x[:, :1]) * 3, (33,)),
    "softmax": (lambda x: torch.softmax(x * 0.5, -1), (19,)),
    "long rows": (lambda x: torch.log_softmax(x, -1), (1000,)),
    "norm": (centred, (32,)),
    "outer reduction": (lambda x: (x * 2).sum(1), (6, 40)),
    "all of a row": (lambda x: x.exp().sum((1, 2)), (4, 9)),
    "maximum": (lambda x: x.amax(-1) + 1, (17,)),
    "turned": (lambda x: x.transpose(1, 2).relu() + 1, (8, 16)),
    "two results": (lambda x: (x * 2, (x * 2).sum(-1)), (12,)),
}


def sample(size: int, rest: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(size + 1)
    return torch.randn(size, *rest, generator=generator).to(dtype)


def compiled(function: Callable[..., Any], rest: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Any:
    return fxc.compile(
        Function(function),
        (sample(6, rest, dtype),),
        dynamic_shapes={"args": ({0: Dim("batch")},)},
        options={"target": "host"},
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_plan_has_kernels_for_every_size(name: str) -> None:
    function, rest = FUNCTIONS[name]
    run = compiled(function, rest)
    assert run.plan.stats.launches > 0
    for size in SIZES:
        x = sample(size, rest)
        torch.testing.assert_close(run(x), function(x), rtol=2e-5, atol=2e-5)
    assert len(run.plans) == 1


@pytest.mark.parametrize("name", ["elementwise", "norm"])
def test_half_precision_is_rounded_once_more_at_most(name: str) -> None:
    function, rest = FUNCTIONS[name]
    run = compiled(function, rest, torch.bfloat16)
    assert run.plan.stats.launches > 0
    for size in SIZES[:-1]:
        x = sample(size, rest, torch.bfloat16)
        torch.testing.assert_close(run(x), function(x.float()).bfloat16(), rtol=2e-2, atol=2e-2)


def test_values_that_are_no_numbers() -> None:
    run = compiled(*FUNCTIONS["softmax"])
    x = sample(9, (19,))
    x[0], x[1, 3], x[2, 4], x[3] = -0.0, float("nan"), float("inf"), -float("inf")
    torch.testing.assert_close(run(x), torch.softmax(x * 0.5, -1), equal_nan=True)


def test_inputs_with_other_strides_are_refused_as_for_static_sizes() -> None:
    run = compiled(*FUNCTIONS["elementwise"])
    with pytest.raises(InputError):
        run(torch.randn(5, 6).t())


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 40), torch.nn.GELU(), torch.nn.LayerNorm(40), torch.nn.Linear(40, 5))


def convolutional() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.SiLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(8, 4), torch.nn.Softmax(-1),
    )  # fmt: skip


@pytest.mark.parametrize(("make", "rest"), [(mlp, (16,)), (convolutional, (3, 9, 11))])
def test_models_of_any_batch(make: Callable[[], torch.nn.Module], rest: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = make().eval()
    run = fxc.compile(model, (sample(4, rest),), dynamic_shapes=({0: Dim("batch")},), options={"target": "host"})
    assert run.plan.stats.launches > 0
    for size in (1, 2, 3, 8, 65):
        x = sample(size, rest)
        torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(run.plans) == 1


def test_a_plan_is_saved_and_loaded(tmp_path: Any) -> None:
    function, rest = FUNCTIONS["norm"]
    run = compiled(function, rest)
    run.plan.save(tmp_path / "plan.zip")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan.zip")
    for size in (1, 11):
        x = sample(size, rest)
        torch.testing.assert_close(loaded(x), function(x), rtol=2e-5, atol=2e-5)


@cache
def captured(name: str) -> Program:
    function, rest = FUNCTIONS[name]
    return fxc.capture(Function(function), (sample(6, rest),), dynamic_shapes={"args": ({0: Dim("batch")},)})


def lowered(name: str, pipeline: str) -> Program:
    return fxc.run_passes(captured(name), pipeline)


@pytest.mark.parametrize("level", ["convert-fusion-to-linalg", "lower-kernels", "lower-kernels,lower-to-plan"])
@pytest.mark.parametrize("name", ["norm", "outer reduction"])
def test_every_level_runs_and_parses_back(name: str, level: str) -> None:
    program, (function, rest) = lowered(name, f"{LOWER},{level}"), FUNCTIONS[name]
    text = str(program.module)
    assert str(parse(text)) == text
    for size in (0, 1, 35):
        x = sample(size, rest)
        torch.testing.assert_close(execute(program, [x]).value, function(x), rtol=2e-5, atol=2e-5)


def simulated_launches(monkeypatch: pytest.MonkeyPatch) -> list[KernelOp]:
    """The kernels that are launched from now on, all of them as Triton on the simulator."""
    launched = list[KernelOp]()

    def launch(op: LaunchOp, operands: Sequence[Any]) -> list[torch.Tensor]:
        kernel, numbers = kernel_of(op), symbol_values(op, operands)
        inputs = len(kernel.inputs())
        results = [spec.at(numbers).new() for spec in result_specs(op)]
        simulate(print_kernel(kernel), [*operands[:inputs], *results, *operands[inputs:]])
        launched.append(kernel)
        return results

    monkeypatch.setattr(interpret, "launch", launch)
    return launched


@pytest.mark.parametrize("name", ["elementwise", "broadcast over a row", "norm", "outer reduction", "turned"])
def test_triton_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, (function, rest) = lowered(name, f'set-target{{to="cuda:sm_90"}},{LOWER},lower-kernels'), FUNCTIONS[name]
    launched = simulated_launches(monkeypatch)
    for size in (0, 1, 5, 70):
        x = sample(size, rest)
        torch.testing.assert_close(execute(program, [x]).value, function(x), rtol=2e-5, atol=2e-5)
    assert launched


def test_an_element_that_may_not_be_there_is_left_to_the_library() -> None:
    function = lambda x: x[0] * 2 + 1  # noqa: E731
    run = compiled(function, (5,))
    for size in (1, 4, 9):
        x = sample(size, (5,))
        torch.testing.assert_close(run(x), function(x))
    with pytest.raises(InputError, match=r"lies in \[1, inf\]"):  # where eager raises, too
        run(sample(0, (5,)))


def test_two_symbols_in_one_program() -> None:
    model = Function(lambda x, y: ((x * 2).tanh(), (y + 1).sigmoid()))
    shapes = {"args": ({0: Dim("first")}, {0: Dim("second")})}
    run = fxc.compile(model, (sample(6, (5,)), sample(7, (4,))), dynamic_shapes=shapes, options={"target": "host"})
    assert run.plan.stats.launches > 0
    for sizes in ((1, 8), (30, 1), (2, 2)):
        x, y = sample(sizes[0], (5,)), sample(sizes[1], (4,))
        torch.testing.assert_close(run(x, y), model(x, y))


EMPTY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "roll, pad": lambda x: torch.nn.functional.pad(x.roll(1, 0), (0, 1)) * 2,
    "repeat, pad": lambda x: torch.nn.functional.pad(x.repeat(2), (2, 2)) * 2,
    "roll, cat": lambda x: torch.cat([x.roll(1, 0), torch.ones(3)]) * 2,
    "roll, roll, pad": lambda x: torch.nn.functional.pad(x.roll(1, 0).roll(-2, 0), (1, 0)) + 1,
    "select, pad": lambda x: torch.nn.functional.pad(x.index_select(0, torch.arange(x.shape[0])), (0, 1)) * 2,
    "gather, pad": lambda x: torch.nn.functional.pad(x.gather(0, torch.arange(x.shape[0])), (1, 1)) * 2,
    "take, pad": lambda x: torch.nn.functional.pad(x.take(torch.arange(x.shape[0])), (1, 1)) * 2,
    "from the end, pad": lambda x: torch.nn.functional.pad(x[torch.arange(x.shape[0]) - x.shape[0]], (1, 1)) * 2,
    "embedding, pad": lambda x: torch.nn.functional.pad(x[:, None][torch.arange(x.shape[0])], (0, 0, 1, 0)).exp(),
    "index, cat": lambda x: torch.cat([x[torch.arange(x.shape[0]).flip(0)], torch.ones(2)]) * 2,
}
"""There are elements of the result that are none of ``x``, as where ``x`` has none."""


@pytest.mark.parametrize("name", EMPTY)
def test_what_has_no_elements_is_not_read(name: str) -> None:
    function = EMPTY[name]
    run = compiled(function, ())
    assert run.plan.stats.launches > 0
    for size in SIZES:
        x = sample(size, ())
        torch.testing.assert_close(run(x), function(x))


REPEATED: dict[str, tuple[Callable[[int], torch.Tensor], Callable[[torch.Tensor], Any]]] = {
    "sum": (lambda n: torch.ones(1).expand(n), lambda x: x.sum() * 2),
    "half": (lambda n: torch.ones(1).half().expand(n), lambda x: x.sum()[None] + torch.zeros(2)),
    "columns": (lambda n: torch.arange(16.0).expand(n, 16), lambda x: x.sum(0)),
    "rows": (lambda n: torch.arange(4.0)[:, None].expand(4, n), lambda x: x.exp().sum(1)),
    "beside": (lambda n: torch.ones(1).expand(n), lambda x: (x * torch.arange(x.shape[0])).sum()),
    "two kernels": (lambda n: torch.ones(1).expand(n), lambda x: (torch.ones(3).exp() * 2, x.sin() * 2)),
    "nested": (lambda n: torch.ones(3, 1, 1).expand(3, n, 5), lambda x: (x * 2 + 1).sum((1, 2))),
}
"""Tensors that repeat an element along a dimension of unknown size, and reductions of them."""


def repeated(name: str) -> tuple[torch.nn.Module, Callable[[int], torch.Tensor], Any]:
    make, function = REPEATED[name]
    return Function(function), make, {"args": ({make(6).stride().index(0): Dim("n")},)}


@pytest.mark.parametrize("name", REPEATED)
def test_a_repeated_element_that_is_not_there_is_not_read(name: str) -> None:
    """A tensor without elements has no memory: what is the same in all steps of a loop is not read where there are none."""
    model, make, free = repeated(name)
    x = make(6)
    run = fxc.compile(model, (x,), dynamic_shapes=free, options={"target": "host"})
    assert run.plan.stats.launches > 0
    for size in (0, 1, 40):
        torch.testing.assert_close(run(make(size)), model(make(size)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_attention_without_queries_has_the_types_of_the_operator(dtype: torch.dtype) -> None:
    key = torch.randn(1, 2, 3, 4, dtype=dtype)
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    found, expected = NO_ELEMENTS[operator](key[:, :, :0], key, key), operator(key, key, key)
    assert [(x.shape, x.dtype) for x in found] == [(x[:, :, :0].shape, x.dtype) for x in expected]


def test_an_input_stays_a_leaf_where_a_dropout_has_no_elements() -> None:
    """PyTorch's ``native_dropout`` returns its operand there, and autograd makes that the result of an operation."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.nn.functional.dropout(x, 1.0)
        return y.mT @ y, x

    compiled = fxc.compile(function, [torch.randn(1, 3).requires_grad_()], training=True, dynamic_shapes=({1: Dim("n")},))
    for size in (3, 0):
        x = torch.randn(1, size).requires_grad_()
        product, same = compiled(x)
        assert x.is_leaf and same is x
        assert torch.autograd.grad(product.sum(), x)[0].equal(torch.zeros(1, size))


@pytest.mark.share(6)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0), (2, 4, 3)])
def test_a_batch_norm_may_have_no_elements(shape: tuple[int, ...], statistics: bool, affine: bool, training: bool) -> None:
    """PyTorch's ``native_batch_norm`` rejects them; ``batch_norm`` returns a copy, and its running statistics stay."""
    torch.manual_seed(0)
    model = torch.nn.BatchNorm1d(4, affine=affine, track_running_stats=statistics).double().train(training)
    mine = deepcopy(model)
    free = ({0: Dim.AUTO, 2: Dim.AUTO},)
    compiled = fxc.compile(mine, [torch.randn(3, 4, 5).double().requires_grad_()], training=True, dynamic_shapes=free)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    results = compiled(x), model(y)
    torch.testing.assert_close(*results)
    gradients = [
        torch.autograd.grad(result.sin().sum(), [leaf, *net.parameters()], allow_unused=True)
        for result, leaf, net in zip(results, (x, y), (mine, model), strict=True)
    ]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(dict(mine.named_buffers()), dict(model.named_buffers()))


@pytest.mark.slow
def test_a_batch_norm_may_have_no_channels() -> None:
    """PyTorch's ``native_batch_norm`` divides by their number, which ends the process."""

    def function(x: torch.Tensor) -> torch.Tensor:
        mean, variance = torch.zeros(x.shape[1], dtype=x.dtype), torch.ones(x.shape[1], dtype=x.dtype)
        return torch.nn.functional.batch_norm(x, mean, variance)

    for dtype in (torch.float32, torch.float16):
        x = torch.ones(1, 5, dtype=dtype).requires_grad_()
        compiled = fxc.compile(function, [x], training=True, dynamic_shapes=({1: Dim("n")},))
        for size in (5, 0):
            x = torch.ones(1, size, dtype=dtype).requires_grad_()
            torch.testing.assert_close(compiled(x), function(x))


def test_an_index_into_nothing_is_an_error() -> None:
    function = lambda x: x.index_select(0, torch.tensor([0, 1])) * 2  # noqa: E731
    run = compiled(function, ())
    torch.testing.assert_close(run(sample(5, ())), function(sample(5, ())))
    for size in (0, 1):
        with pytest.raises(IndexError):
            run(sample(size, ()))


KERNEL = """
tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}, %n: index)
attributes {grid = affine_map<(d0) -> (d0 * 3 ceildiv 8)>} {
  %size = arith.constant 8 : index
  %three = arith.constant 3 : index
  %zero = arith.constant 0.0 : f32
  %all = arith.muli %n, %three : index
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %all {dim = 0} : vector<8xi1>
  %v = tile.load %x[%start] strides [1], %mask, %zero : !tile.ptr<f32> -> vector<8xf32>
  %w = arith.addf %v, %v : vector<8xf32>
  tile.store %w, %y[%start] strides [1], %mask : vector<8xf32>, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, %n: !torch.int<"s0">) {
  %y = tile.launch @k(%x, %n) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, !torch.int<"s0">)
    -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  fx.output(%y) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> ()
}
"""


def native() -> TensorKernel:
    from fxc.codegen.cpu import launch_runner
    from fxc.dialects.target import CpuAttr

    [launch] = [op for op in parse(KERNEL).walk() if isinstance(op, LaunchOp)]
    runner = launch_runner(launch, CpuAttr.of())
    assert isinstance(runner, TensorKernel)
    return runner


def test_a_kernel_refuses_numbers_that_are_not_the_sizes_of_its_tensors() -> None:
    run, x = native(), torch.randn(5, 3)
    assert torch.equal(run(x, 5)[0], x + x)
    for number in (4, 6, -1, 1 << 40):
        with pytest.raises(InputError):
            run(x, number)
    with pytest.raises(InputError):
        run(torch.randn(5, 4), 5)
    with pytest.raises(InputError):
        run.write(x, 5, torch.empty(4, 3))
    assert torch.equal(run(torch.empty(0, 3), 0)[0], torch.empty(0, 3))
    assert torch.equal(run(torch.ones(1, 3).t().contiguous().t(), 1)[0], torch.full((1, 3), 2.0))


def test_a_kernel_gives_fake_results_for_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(9, 3)
    [y] = native()(x, 9)
    assert y.shape == (9, 3) and type(y) is type(x)


PATTERNS: dict[str, tuple[Callable[..., Any], tuple[tuple[int | str, ...], ...]]] = {
    "pointwise in the middle": (lambda x: torch.tanh(x) * 2 + x.abs(), ((3, "s", 5),)),
    "two sizes": (lambda x, y: (x + y).relu() * 2, (("b", "s", 5), ("s", 1))),
    "softmax": (lambda x: torch.softmax(x * 2, -1), (("b", 4, "s"),)),
    "softmax in the middle": (lambda x: torch.log_softmax(x * 2, 1), (("b", "s", 4),)),
    "norm": (centred, (("b", "s"),)),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x * 2, (16,)), (("b", "s", 16),)),
    "mean of all": (lambda x: (x * 2).mean(), (("b", "s"),)),
    "variance": (lambda x: (x * 2).var(-1), ((3, "s"),)),
    "sum over two": (lambda x: (x * 2).sum((0, 1)), (("b", "s", 20),)),
    "heads": (lambda x: (x * 2).transpose(1, 2).reshape(x.shape[0], x.shape[2], 32) + 1, (("b", 4, "s", 8),)),
    "merged": (lambda x: (x * 2).reshape(-1, 6) + 1, (("b", "s", 6),)),
    "turned": (lambda x: x.transpose(1, 2).clone(memory_format=torch.contiguous_format) * 2 + 1, (("b", "s", 12),)),
    "flipped": (lambda x: x.flip(1) * 2 + 1, (("b", "s", 3),)),
    "joined": (lambda x, y: torch.cat([x * 2, y + 1], 1), (("b", "s", 6), ("b", "t", 6))),
    "joined and read": (lambda x, y: torch.cat([x * 2, y + 1], 1).relu() + 1, (("b", "s", 6), ("b", 3, 6))),
    "padded": (lambda x: torch.nn.functional.pad(x * 2, (1, 2)) + 1, ((3, "s"),)),
    "places": (lambda x: x * torch.arange(x.shape[1])[None] + 1, ((3, "s"),)),
    "causal": (lambda x: (x * 2).tril().amax(-1, keepdim=True) - x, (("b", "s", "s"),)),
    "each with each": (lambda x, y: x[:, None] * y[None, :] + 1, (("b",), ("s",))),
    "repeated": (lambda x: x.repeat(1, 2) * 2 + 1, (("b", "s"),)),
}
"""Functions, and the sizes of their arguments: names are sizes that are not known."""

NUMBERS = ((0, 3), (1, 1), (2, 0), (2, 5), (7, 1), (64, 3), (1000, 2))
"""Of ``s`` and of ``b``; ``t`` is half of ``s``, and one more."""


def arguments(shapes: Sequence[Sequence[int | str]], s: int, b: int) -> tuple[torch.Tensor, ...]:
    numbers: dict[int | str, int] = {"s": s, "b": b, "t": s // 2 + 1}
    generator = torch.Generator().manual_seed(s + 7 * b)
    return tuple(torch.randn([numbers.get(size, size) for size in shape], generator=generator) for shape in shapes)  # type: ignore[misc]


def dynamic_shapes(shapes: Sequence[Sequence[int | str]]) -> tuple[dict[int, Any], ...]:
    return tuple({place: Dim(size) for place, size in enumerate(shape) if isinstance(size, str)} for shape in shapes)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", PATTERNS)
def test_any_size_may_be_unknown(name: str) -> None:
    function, shapes = PATTERNS[name]
    described = {"args": dynamic_shapes(shapes)}
    run = fxc.compile(Function(function), arguments(shapes, 10, 6), dynamic_shapes=described, options={"target": "host"})
    assert run.plan.stats.launches > 0
    for s, b in NUMBERS:
        inputs = arguments(shapes, s, b)
        if name == "causal" and not s:
            continue  # PyTorch refuses the maximum of nothing
        torch.testing.assert_close(run(*inputs), function(*inputs), rtol=1e-4, atol=1e-4, equal_nan=True)
    assert len(run.plans) == 1


@pytest.mark.parametrize("name", ["softmax", "heads", "joined and read"])
def test_triton_kernels_of_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, shapes = PATTERNS[name]
    program = fxc.capture(Function(function), arguments(shapes, 10, 6), dynamic_shapes={"args": dynamic_shapes(shapes)})
    program = fxc.run_passes(program, f'set-target{{to="cuda:sm_90"}},{LOWER},lower-kernels')
    launched = simulated_launches(monkeypatch)
    for s, b in ((0, 2), (1, 1), (33, 3)):
        inputs = arguments(shapes, s, b)
        torch.testing.assert_close(execute(program, list(inputs)).value, function(*inputs), rtol=1e-4, atol=1e-4)
    assert launched


@pytest.mark.parametrize("name", ["merged", "joined and read", "padded"])
def test_loops_of_any_size_run_and_parse_back(name: str) -> None:
    function, shapes = PATTERNS[name]
    program = fxc.capture(Function(function), arguments(shapes, 10, 6), dynamic_shapes={"args": dynamic_shapes(shapes)})
    for pipeline in (f"{LOWER},convert-fusion-to-linalg", f"{LOWER},lower-kernels"):
        lowered = fxc.run_passes(program, pipeline)
        again = parse(str(lowered.module))
        assert again.is_structurally_equivalent(lowered.module)
        for s, b in ((0, 2), (9, 3)):
            inputs = arguments(shapes, s, b)
            torch.testing.assert_close(execute(lowered, list(inputs)).value, function(*inputs), rtol=1e-4, atol=1e-4)


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.inner(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in parts)
        weights = (q @ k.transpose(-1, -2) / 3).tril().softmax(-1)
        return x + self.outer((weights @ v).transpose(1, 2).reshape(batch, length, width))


@pytest.mark.slow
def test_training_of_any_batch_and_length_compiles_once() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, counter = Attention(), CompileCounterWithBackend("fxc")
    run = torch.compile(model, backend=counter, dynamic=True)
    compiled = list[int]()
    for batch, length in ((3, 10), (2, 2), (5, 7), (2, 64)):
        x = torch.randn(batch, length, 16)
        expected, parameters = model(x), list(model.parameters())
        gradients = torch.autograd.grad(expected.square().mean(), parameters)
        result = run(x)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        found = torch.autograd.grad(result.square().mean(), parameters)
        torch.testing.assert_close(found, gradients, rtol=1e-4, atol=1e-5)
        compiled.append(counter.frame_count)
    assert len(set(compiled)) == 1
