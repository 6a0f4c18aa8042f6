"""Attention by the fused operator: the numbers and gradients of eager mode for each form, and NaN where a row has no key."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx import GraphModule
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr

import fxc
from fxc.compilation.passes import Passes
from fxc.dialects.entry import argument_attributes
from fxc.errors import FallbackWarning
from fxc.frontends.dynamo_attention import fuse_attention
from fxc.passes.analysis.requires_grad import ARGUMENT
from tests import attention_forms as forms
from tests.attention_forms import FORMS

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
NAN = float("nan")
FILL_AND_MASK = {"19: GPT-2 and mask"}
"""They may leave a row whose gradients cannot be reproduced."""
SDPA = "torch.aten.scaled_dot_product_attention.default"


def lowered(function: Callable[..., Any], inputs: Sequence[Any]) -> fxc.Program:
    return fxc.run_passes(fxc.capture(function, tuple(inputs)), "lower-to-torch,canonicalize")


def fused(program: fxc.Program, gradients: bool = False) -> tuple[Callable[..., Any], int]:
    """``program`` after the pass, and how many attentions it found. ``gradients``: of the first three inputs."""
    if gradients:
        learned = [{ARGUMENT: UnitAttr()} if i < 3 else {} for i in range(len(program.main.args))]
        known = argument_attributes(program.main)
        marked = [DictionaryAttr({**facts.data, **mark}) for facts, mark in zip(known, learned, strict=True)]
        program.main.properties["arg_attrs"] = ArrayAttr(marked)
    program = fxc.run_passes(program, f"fuse-attention{{gradients={str(gradients).lower()}}},dce")
    return fxc.to_fx(program), sum(op.name == SDPA for op in program.main.walk())


def near(actual: Any, expected: Any, exact: Any) -> None:
    """The error is at most a few times that of eager mode, and a NaN is a NaN.

    The exact result tells where NaNs are, if eager mode has others: with AMX, products of bfloat16 have them in the row before.
    """
    assert actual[0].stride() == expected[0].stride()
    for one, other, right in zip(actual, expected, exact, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert any(torch.equal(one.isnan(), each.isnan()) for each in (other, right))
        scale = right.nan_to_num().abs().max().clamp(min=1.0)
        error, eager = ((x.double() - right).nan_to_num().abs().max() for x in (one, other))
        assert error <= 3 * eager + 16 * torch.finfo(one.dtype).eps * scale


def run(function: Callable[..., Any], inputs: Sequence[Any], gradients: bool) -> tuple[Tensor, ...]:
    given = [x.detach().clone() if isinstance(x, Tensor) else x for x in inputs]
    if not gradients:
        return (function(*given),)
    learned = [x.requires_grad_() for x in given[:3]]
    result = function(*given)
    weight = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)
    return result, *torch.autograd.grad((result * weight).sum(), learned)


def wide(inputs: Sequence[Any]) -> list[Any]:
    return [x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs]


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(FORMS))
def test_forms(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    function, make = FORMS[name]
    inputs = make(dtype)
    program = lowered(function, inputs)
    is_rounded = dtype in (torch.float64, torch.float16)  # the fill of these is not added as it is
    for gradients in (False, True):
        compiled, count = fused(program, gradients)
        assert count == (0 if name in FILL_AND_MASK and (gradients or is_rounded) else 1)
        near(run(compiled, inputs, gradients), run(function, inputs, gradients), run(function, wide(inputs), gradients))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_sizes(seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    batch, count, rows, keys = (int(torch.randint(*bounds, ())) for bounds in ((1, 4), (1, 5), (1, 40), (16, 70)))
    width = int(torch.randint(1, 40, ()))
    q, k, v = (torch.randn(batch, count, n, width, dtype=dtype) for n in (rows, keys, keys))
    mask = torch.randn(batch if seed % 2 else 1, 1, rows, keys, dtype=dtype)
    compiled, found = fused(lowered(forms.f5, (q, k, v, mask)))
    assert found == 1
    inputs = [q, k, v, mask]
    near(run(compiled, inputs, True), run(forms.f5, inputs, True), run(forms.f5, wide(inputs), True))


def filled(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1) * 0.3).masked_fill(blocked, -math.inf).softmax(-1) @ v


def chosen(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor) -> Tensor:
    return torch.where(blocked, -math.inf, q @ k.transpose(-2, -1) * 0.3).softmax(-1) @ v


def low(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor) -> Tensor:
    s = q @ k.transpose(-2, -1) * 0.3
    return s.masked_fill(blocked, torch.finfo(s.dtype).min).softmax(-1) @ v


def summed(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor) -> Tensor:
    return forms.f5(q, k, v, torch.zeros(blocked.shape, dtype=q.dtype).masked_fill(blocked, -math.inf))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [filled, chosen, low, summed], ids=lambda f: f.__name__)
def test_rows_that_are_masked_entirely(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """NaN for -inf, equal probabilities for the lowest number, and gradients of NaN where eager mode has them."""
    torch.manual_seed(0)
    inputs: list[Any] = [*forms.heads(dtype), torch.rand(forms.B, 1, forms.S, forms.T) > 0.6]
    inputs[3][0, :, 4] = True
    program = lowered(function, inputs)
    for gradients in (False, True):
        compiled, count = fused(program, gradients)
        assert count == 1
        near(run(compiled, inputs, gradients), run(function, inputs, gradients), run(function, wide(inputs), gradients))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("low", [-1e9, -1e30, -math.inf, None], ids=str)
def test_a_fill_beside_another_mask(low: float | None, dtype: torch.dtype) -> None:
    """Rows that are masked entirely, in part by each mask: only a fill that no score changes is computed as a sum."""
    torch.manual_seed(0)
    low = torch.finfo(dtype).min if low is None or (dtype == torch.float16 and low > -math.inf) else low
    blocked, other = torch.rand(2, forms.B, 1, forms.S, forms.T) > 0.5
    blocked[0, :, 4], other[0, :, 4] = other[0, :, 4], ~other[0, :, 4]
    added = (100 * torch.randn(other.shape)).to(dtype).masked_fill(other, low)
    inputs = [*forms.heads(dtype), blocked, other, added]
    for function in (
        lambda q, k, v, a, b, m: ((q @ k.mT).masked_fill(a, low) + m).softmax(-1) @ v,
        lambda q, k, v, a, b, m: ((q @ k.mT) + m).masked_fill(a, low).softmax(-1) @ v,
        lambda q, k, v, a, b, m: (q @ k.mT).masked_fill(a, low).masked_fill(b, low / 2).softmax(-1) @ v,
    ):
        compiled, _ = fused(lowered(function, inputs))
        near(run(compiled, inputs, False), run(function, inputs, False), run(function, wide(inputs), False))


def test_values_with_more_leading_sizes_than_scores() -> None:
    q, k, v = forms.heads(torch.float32)
    compiled, count = fused(lowered(forms.f1, (q[:1], k[:1], v)))
    assert count == 0
    torch.testing.assert_close(compiled(q[:1], k[:1], v), forms.f1(q[:1], k[:1], v))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_float32_mask_of_half_precision_is_not_rounded(dtype: torch.dtype) -> None:
    """The lowest number of float32 is -inf in float16, where rows would be NaN."""
    torch.manual_seed(0)
    mask = torch.zeros(forms.B, 1, 1, forms.T)
    mask[1] = torch.finfo(torch.float32).min
    inputs = [*forms.tokens(dtype), mask]
    compiled, count = fused(lowered(forms.f21, inputs))
    assert count == 1
    assert not forms.f21(*inputs).isnan().any()
    near(run(compiled, inputs, False), run(forms.f21, inputs, False), run(forms.f21, wide(inputs), False))


@pytest.mark.parametrize("where", ["q", "k", "v"])
@pytest.mark.parametrize("value", [NAN, math.inf])
@pytest.mark.parametrize("keys", [16, 17, 33])
def test_not_finite_operands(where: str, value: float, keys: int) -> None:
    torch.manual_seed(0)
    inputs = forms.heads(torch.float32, keys=keys)
    inputs["qkv".index(where)][0, 0, 3, 2] = value
    compiled, count = fused(lowered(forms.f1, inputs))
    assert count == 1
    torch.testing.assert_close(compiled(*inputs), forms.f1(*inputs), equal_nan=True)


@pytest.mark.parametrize("backend", ["fxc.compile", "torch.compile"])
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_what_pytorch_miscompiles(backend: str, training: bool) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    q, k, v = (torch.randn(1, 32, 32, 16, requires_grad=training) for _ in range(3))
    if backend == "torch.compile":
        compiled: Callable[..., Any] = torch.compile(forms.miscompiled, backend="fxc")
    else:
        compiled = fxc.compile(forms.miscompiled, (q, k, v), training=training)
    actual, expected = compiled(q, k, v), forms.miscompiled(q, k, v)
    torch.testing.assert_close(actual, expected)
    if training:
        ours, theirs = (torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (actual, expected))
        torch.testing.assert_close(ours, theirs)


COMPILED = ["1, 3: div", "13: bmm", "14, 16: BERT", "17", "21, 22, 25, 26: T5", "einsum", "grouped heads", "causal", "Swin"]


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", COMPILED)
def test_torch_compile_trains_with_the_fused_operator(name: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    function, make = FORMS[name]
    inputs = [x.requires_grad_() if i < 3 else x for i, x in enumerate(make(torch.float32))]
    compiled = torch.compile(function, backend="fxc")
    with torch.profiler.profile() as record:
        actual = compiled(*inputs)
    ran = [event.key for event in record.key_averages()]
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in ran
    expected = function(*inputs)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    ours, theirs = (torch.autograd.grad(y.square().sum(), inputs[:3]) for y in (actual, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_mask_that_is_written_later_is_read_before() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        bias = mask * 1.0
        s = q @ k.transpose(-2, -1) + bias
        bias.mul_(3.0)
        return s.softmax(-1) @ v + bias.sum()

    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = [*(x.requires_grad_() for x in forms.heads(torch.float32)), forms.half_mask(torch.float32)]
    torch.testing.assert_close(torch.compile(function, backend="fxc")(*inputs), function(*inputs))


@pytest.mark.share(4)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("name", ["BERT", "Llama", "T5"])
def test_models_of_transformers(name: str, training: bool) -> None:
    pytest.importorskip("transformers")
    from tests.attention_models import MODELS

    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = MODELS[name]()
    model.train(training)
    with torch.set_grad_enabled(training):
        expected = model(*inputs)
        with torch.profiler.profile() as record:
            actual = torch.compile(model, backend="fxc")(*inputs)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert any("flash_attention_for_cpu" in event.key for event in record.key_averages())


def test_a_pass_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph then stays as it is, with a warning, or without ``fallback`` compilation fails."""

    def broken(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("fxc.passes.library.fuse_attention.fuse_attention.recognize", broken)
    inputs = [torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3)]
    for fallback in (True, False):
        torch._dynamo.reset()
        compiled = torch.compile(forms.f1, backend="fxc", options={"fallback": fallback})
        if fallback:
            with pytest.warns(FallbackWarning, match="attention is not fused"):
                torch.testing.assert_close(compiled(*inputs), forms.f1(*inputs))
        else:
            with pytest.raises(BackendCompilerFailed, match="pass fuse-attention crashed"):
                compiled(*inputs)


def test_a_mask_that_is_read_twice_at_each_step() -> None:
    """Whether it needs a gradient is found in one walk."""

    def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        for _ in range(60):
            mask = mask * 0.5 + mask * 0.5
        return forms.f5(q, k, v, mask)

    inputs = [torch.randn(1, 2, 16, 8) for _ in range(3)] + [torch.randn(1, 1, 16, 16)]
    compiled, found = fused(lowered(masked, inputs), gradients=True)
    assert found == 1
    torch.testing.assert_close(compiled(*inputs), masked(*inputs))


class Biased(torch.nn.Module):
    """Attention with a learned bias, as T5 has, whose result is read in another order."""

    def __init__(self, direct: bool) -> None:
        super().__init__()
        self.direct, self.bias, self.project = direct, torch.nn.Parameter(torch.randn(2, 17, 17)), torch.nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.project(x).view(2, 17, 2, 8).transpose(1, 2)
        bias = self.bias if self.direct else self.bias.tanh()[None]
        mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, bias, is_causal=False)
        return mixed.transpose(1, 2).contiguous().view(2, 17, -1)


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("how", ["training", "inference", "torch.compile"])
def test_learned_mask(direct: bool, how: str) -> None:
    """PyTorch calls another operator, with other strides, where a mask requires a gradient."""
    torch.manual_seed(0)
    model, x = Biased(direct), torch.randn(2, 17, 16)
    compiled = (
        torch.compile(model, backend="fxc") if how == "torch.compile" else fxc.compile(model, (x,), training=how == "training")
    )
    torch.testing.assert_close(compiled(x), model(x))
    if how != "inference":
        found = torch.autograd.grad(compiled(x).square().sum(), [*model.parameters()])
        torch.testing.assert_close(found, torch.autograd.grad(model(x).square().sum(), [*model.parameters()]))


def test_learned_mask_is_replayed() -> None:
    """The captured program has the types that passes infer."""
    program = fxc.capture(Biased(False), (torch.randn(2, 17, 16),))
    fxc.run_passes(program, "lower-to-torch{gradients=true},canonicalize,propagate-shapes")
    assert fused(fxc.run_passes(program, "lower-to-torch,canonicalize"))[1] == 1


@pytest.mark.slow
def test_learned_mask_under_autocast() -> None:
    torch.manual_seed(0)
    model, x = Biased(True), torch.randn(2, 17, 16)
    with torch.autocast("cpu", torch.bfloat16):
        compiled = fxc.compile(model, (x,), training=True)
        assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("in_place", [False, True])
def test_only_what_surrounds_a_softmax_is_lowered(in_place: bool) -> None:
    """Layers are arguments or left out; scores that are written in place belong to it, a mask that is filled does not."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        q, k, v = (torch.nn.functional.linear(x, w).tanh().unflatten(-1, (2, 8)).transpose(1, 2) for _ in range(3))
        mask = x.new_zeros(x.shape[1], x.shape[1])
        mask[:4, 4:] = -100.0
        scores = q @ k.transpose(-2, -1) / 8**0.5
        scores = scores.add_(mask * 2) if in_place else scores + mask * 2
        x = (scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)
        return torch.nn.functional.linear(x, w).exp().sin()

    found, texts = list[GraphModule](), list[str]()

    def run(program: fxc.Program, pipeline: str) -> None:
        texts.append(program.text())
        Passes(pipeline, fxc.Options(target=None)).run(program)

    def backend(graph: GraphModule, _: object) -> Callable[..., Any]:
        fuse_attention(graph, run)
        found.append(graph)
        return graph

    torch._dynamo.reset()
    x, w = torch.randn(5, 17, 16), torch.randn(16, 16) / 4
    torch._dynamo.maybe_mark_dynamic(x, 0)
    torch.testing.assert_close(torch.compile(function, backend=backend)(x, w), function(x, w))
    assert [str(node.target) for node in found[0].graph.nodes].count("aten.scaled_dot_product_attention.default") == 1
    called = set(re.findall(r"fx\.call_\w+ @([\w.]+)", texts[0]))
    added = "add_" if in_place else "operator.add"
    names = {"operator.matmul", "operator.truediv", "operator.mul"}
    assert called == {"tanh", "unflatten", "transpose", "softmax", "flatten", added, *names}
