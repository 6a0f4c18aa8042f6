"""The equations of the joint graph on numbers: programs compute the same bits before and after, on values of every kind."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import fxc
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.driver.runner import run_pipeline
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.pipelines import parse_pipeline
from fxc.program.program import new_context
from fxc.testing import run_pass
from tests.test_simplify import assert_equivalent, functions, tensor_of

JOINT = "lower-to-torch,canonicalize,fold-uniform-values,canonicalize,cse,dce"
SPECIAL = [0.0, -0.0, 1.0, -2.5, math.nan, math.inf, -math.inf, 0.5, 3.0, 1e-30, 65504.0, -7.0]


def special(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of these sizes with NaN, infinities and both zeros; of small numbers of both signs for integers."""
    count = math.prod(sizes)
    if dtype == torch.bool:
        return (torch.arange(count) % 3 == 0).reshape(sizes)
    if not dtype.is_floating_point:
        return (torch.arange(count) % 7 - 3).to(dtype).reshape(sizes)
    return torch.tensor([SPECIAL[i % len(SPECIAL)] for i in range(count)], dtype=dtype).reshape(sizes)


def operators(program: Any) -> list[str]:
    return re.findall(r"torch\.(?:aten|prims)\.(\w+)\.", str(program))


def memory(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The pairs of tensors that share memory."""
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [(i, j) for i in range(len(places)) for j in range(i) if places[i] == places[j] and tensors[i].numel()]


def assert_bits(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        if a.is_floating_point():
            assert torch.equal(torch.signbit(a) & ~a.isnan(), torch.signbit(b) & ~b.isnan())


def check(function: Callable[..., Any], *inputs: torch.Tensor, is_traced: bool = False) -> list[str]:
    """The operators of ``function`` after the equations. It computes the same bits, with the same memory shared."""
    captured = fxc.import_fx(make_fx(function)(*inputs), inputs) if is_traced else fxc.capture(function, inputs)
    program = fxc.run_passes(captured, JOINT)
    outputs = list[list[torch.Tensor]]()
    for run in (fxc.to_fx(program), function):
        given = [value.clone() for value in inputs]
        torch.manual_seed(0)
        found = run(*given)
        outputs.append([*given, *([found] if isinstance(found, torch.Tensor) else found)])
    assert_bits(*outputs)
    assert memory(outputs[0]) == memory(outputs[1])
    return operators(program)


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
SIZES = [(), (0, 3), (1,), (4, 3)]


@pytest.mark.share(3)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_neutral_tensors(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one, zero = torch.ones_like(x), torch.zeros_like(x)
        sums = (x + zero, zero + x, x - zero) if dtype != torch.bool else (x + zero, zero + x)
        return (x * one, one * x, x / one, *sums)

    names = check(function, special(*sizes, dtype=dtype))
    assert names.count("mul") == 2, "a product that is returned is no alias of the argument"
    inner = check(lambda x: torch.cat([part.reshape(-1) for part in function(x)[:2]]), special(*sizes, dtype=dtype))
    assert "mul" not in inner
    signed = check(lambda x: (x + torch.zeros_like(x)).neg() if dtype != torch.bool else ~x, special(*sizes, dtype=dtype))
    assert ("add" in signed) == dtype.is_floating_point, "-0.0 + 0.0 is 0.0"


@pytest.mark.parametrize("other", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_neutral_tensors_of_another_dtype(dtype: torch.dtype, other: torch.dtype) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        one, zero = torch.ones(4, 3, dtype=other), torch.zeros(4, 3, dtype=other)
        found = [
            x * one,
            x / torch.ones(3, dtype=other),
            x + -zero,
            x * torch.ones((), dtype=other),
            *([x - zero] if dtype != torch.bool else []),
        ]
        return [each.sin() for each in found]

    check(function, special(4, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_uniform_values(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        two = torch.full((2, 3), 2, dtype=dtype)
        shape = torch.zeros(2, 1, dtype=dtype).expand(2, 3)
        return (two * 3 + 1, two / (two - two if dtype != torch.bool else two), torch.where(x > 0, two + shape, -shape.float()),
                torch.maximum(two, shape).to(torch.float16).exp(), (two == shape).t())  # fmt: skip

    assert not {"mul", "div", "eq", "maximum", "exp"} & {*check(function, special(2, 3))}


def test_a_view_of_a_uniform_tensor_stays_a_view() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = torch.ones(2, 3)
        return whole, whole.view(6), x + whole.view(6)

    check(function, special(6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_splits(dtype: torch.dtype) -> None:
    x, y = special(4, 6, dtype=dtype), special(4, 6, dtype=dtype) + 1
    assert not {"cat", "split"} & {*check(lambda x, y: [part.neg() for part in torch.cat([x, y]).split(4)], x, y)}
    assert not {"stack", "unbind"} & {*check(lambda x, y: [part.neg() for part in torch.stack([x, y]).unbind()], x, y)}
    assert "cat" not in check(lambda x: torch.cat(x.split([1, 2, 3], 1), 1).neg(), x)
    assert "stack" not in check(lambda x: torch.stack(x.unbind(1), 1).neg(), x.t().contiguous().t().contiguous())
    check(lambda x, y: [*torch.cat([x, y]).split(4)], x, y)
    check(lambda x, y: [torch.cat([x, y]), *torch.cat([x, y], 1).split(6, 1)], x, y)
    check(lambda x: [*x.split([2, 4], 1)[1].split([1, 3], 1), x.split([2, 4], 1)[0]], x)
    check(lambda x, y: torch.cat([*x.split([1, 2, 3], 1)[1:], y, x.split(2, 1)[0]], 1), x, y)
    check(lambda x: torch.cat([x.split(3, 1)[1], x.split(3, 1)[0]], 1), x)
    check(lambda x: [*x[:0].split(4), torch.cat([x[:0], x]).neg()], x)


def test_copies_and_conversions() -> None:
    x = special(4, 3)
    assert operators(fxc.run_passes(fxc.capture(lambda x: x.clone().sin(), (x,)), JOINT)) == ["sin"]
    check(lambda x: (x.clone(), x.t().clone().sin()), x)
    check(lambda x: x.clone().view(12), x)
    check(lambda x: x.half().float(), x)
    check(lambda x: x.double().half(), x)
    check(lambda x: x.half().double().bfloat16(), x)
    check(lambda x: x.view(3, 4).view(4, 3).sin(), x)
    check(lambda x: x.t().reshape(12).reshape(3, 4), x)
    check(lambda x: torch.slice_scatter(x, x.neg(), 1).sin(), x)


def loss_and_gradient(x: torch.Tensor, tangent: torch.Tensor) -> tuple[torch.Tensor, ...]:
    order = torch.randperm(6)[:4]
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        result = leaf[order] * 2
        [gradient] = torch.autograd.grad(result, leaf, tangent)
    return result.detach(), gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_gradient_of_a_shuffle_accumulates_nothing(dtype: torch.dtype) -> None:
    names = check(loss_and_gradient, special(6, 3, dtype=dtype), special(4, 3, dtype=dtype), is_traced=True)
    assert "index_select" in names


ADDITION = """
func.func @main(%x: tensor<6x3xDTYPE, #torch.meta<device = "cuda:0">>, %y: tensor<4x3xDTYPE, #torch.meta<device = "cuda:0">>) {
  %p = torch.aten.randperm.default(6, device = device("cuda:0")) : () -> tensor<6xi64, #torch.meta<device = "cuda:0">>
  %i = torch.aten.slice.Tensor(%p, 0, 1, 5) : (tensor<6xi64, #torch.meta<device = "cuda:0">>) -> tensor<4xi64, #torch.meta<device = "cuda:0">>
  %a = torch.aten.index_add.default(%x, 0, %i, %y) : (tensor<6x3xDTYPE, #torch.meta<device = "cuda:0">>, tensor<4xi64, #torch.meta<device = "cuda:0">>, tensor<4x3xDTYPE, #torch.meta<device = "cuda:0">>) -> tensor<6x3xDTYPE, #torch.meta<device = "cuda:0">>
  fx.output(%a) : (tensor<6x3xDTYPE, #torch.meta<device = "cuda:0">>) -> ()
}
"""  # noqa: E501


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i64"])
def test_sums_at_distinct_positions(dtype: str) -> None:
    """The rewrite is for GPUs; its two sides are compared on the CPU."""
    before = ADDITION.replace("DTYPE", dtype)
    after = run_pass(before, "canonicalize")
    assert "index_copy" in after
    on_cpu = [text.replace(', #torch.meta<device = "cuda:0">', "").replace("cuda:0", "cpu") for text in (before, after)]
    for seed in range(3):
        assert_equivalent(*(parse_module(new_context(), text) for text in on_cpu), "main", seed)


PRODUCTS = {
    "mm": ("%x, %y", "3x6", "6x5", "3x5"),
    "bmm": ("%x, %y", "2x3x6", "2x6x5", "2x3x5"),
    "addmm": ("%b, %x, %y, alpha = 2, beta = 3", "3x6", "6x5", "3x5"),
}


def product(name: str, dtype: str, bias: str) -> str:
    arguments, *sizes = PRODUCTS[name]
    x, y, z, b = (f'tensor<{shape}x{dtype}, #torch.meta<device = "cuda:0">>' for shape in (*sizes, bias))
    operands = [b, x, y] if name == "addmm" else [x, y]
    return f"""builtin.module attributes {{fxc.target = #target.gpu}} {{ func.func @main(%x: {x}, %y: {y}, %b: {b}) {{
      %z = torch.aten.{name}.default({arguments}) : ({", ".join(operands)}) -> {z}
      fx.output(%z) : ({z}) -> () }} }}"""


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("name", "bias"), [("mm", "5"), ("bmm", "5"), *(("addmm", bias) for bias in ("5", "1", "3x5", "3x1", "1x5"))]
)
def test_padded_products(name: str, bias: str, dtype: str) -> None:
    """The rewrite is for GPUs; its two sides are compared on the CPU."""
    before = product(name, dtype, bias)
    after = run_pass(before, "pad-matmul{choose=all}")
    assert "constant_pad_nd" in after
    results = list[torch.Tensor]()
    for text in (before, after):
        module = parse_module(new_context(), text.replace(', #torch.meta<device = "cuda:0">', ""))
        main = functions(module)["main"]
        torch.manual_seed(0)
        inputs = [tensor_of(type, random.Random(0)).nan_to_num(1.0, 1.0, 1.0) for type in main.function_type.inputs.data]
        results.append(ReferenceInterpreter(functions(module)).call(main, inputs)[0])
    assert results[0].stride() == results[1].stride()
    torch.testing.assert_close(*results)


@pytest.mark.parametrize(("times", "is_padded"), [([1.1, 0.9], True), ([1.0, 0.95], False), (None, False)])
def test_products_are_padded_where_that_measures_faster(times: list[float] | None, is_padded: bool) -> None:
    """As a part of ``optimize``, which the flows for GPUs run."""
    context = new_context()
    context.times = lambda modules: times
    module = parse_module(context, product("mm", "f16", "5"))
    run_pipeline(context, module, parse_pipeline("optimize"))
    assert ("constant_pad_nd" in print_module(module)) == is_padded


def test_a_bitcast_has_no_gradient() -> None:
    """PyTorch's ``view`` to a dtype is not differentiable, also where it is that of the tensor."""
    x = torch.randn(3, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(torch.float32) * x

    compiled = fxc.compile(f, (x,), training=True)
    [mine], [theirs] = (torch.autograd.grad(g(x).sum(), x) for g in (compiled, f))
    assert torch.equal(mine, theirs)
