"""Second derivatives of programs with kernels: eager's, or an error; never what holds statistics for constants."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fxc
from fxc.errors import DerivativeError

RANDOM = partial(torch.randn, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
ROWS, IMAGES = RANDOM(4, 3), RANDOM(2, 6, 3, 2)
W3, B3, W6, B6 = map(RANDOM, (3, 3, 6, 6))

CASES: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), [ROWS]),
    "layer_norm, affine": (lambda x, w, b: F.layer_norm(x, (3,), w, b), [ROWS, W3, B3]),
    "layer_norm, weight": (lambda x, w: F.layer_norm(x, (3,), w), [ROWS, W3]),
    "layer_norm in between": (lambda x: F.layer_norm(x.sin(), (3,)).tanh(), [ROWS]),
    "group_norm": (lambda x: F.group_norm(x, 2), [IMAGES]),
    "group_norm, affine": (lambda x, w, b: F.group_norm(x, 2, w, b), [IMAGES, W6, B6]),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), [IMAGES]),
    "batch_norm, affine": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [IMAGES, W6, B6]),
    "instance_norm": (F.instance_norm, [IMAGES]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (3,), w), [ROWS, W3]),
    "softmax": (lambda x: x.softmax(-1), [ROWS]),
    "log_softmax": (lambda x: x.log_softmax(-1), [ROWS]),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 0])), [ROWS]),
    "var": (lambda x: x.var(-1), [ROWS]),
    "std": (lambda x: x.std(-1), [ROWS]),
    "logsumexp": (lambda x: x.logsumexp(-1), [ROWS]),
    "norm": (lambda x: x.norm(dim=-1), [ROWS]),
    "cumprod": (lambda x: x.cumprod(-1), [ROWS]),
    "cumsum": (lambda x: x.cumsum(-1) ** 3, [ROWS]),
    "silu": (F.silu, [ROWS]),
    "mish": (F.mish, [ROWS]),
    "logit": (lambda x: x.sigmoid().logit(), [ROWS]),
    "several group_norms": (lambda x, w, b: F.group_norm(F.silu(F.group_norm(x, 2, w, b)) + x, 3, w, b), [IMAGES, W6, B6]),
    "linear": (lambda x, w, b: F.linear(x, w.expand(5, 3), b[0].expand(5)).tanh(), [ROWS, W3, B3]),
}


SQUARE, SCALES, COMPLEX = map(RANDOM, ((3, 3), (3, 1), (4, 3, 2)))


def apart(x: Tensor) -> Tensor:
    """A matrix that has an inverse, and other eigenvalues than its transpose; made in a kernel."""
    return x.sin() + torch.diag(torch.tensor([3.0, 5.0, 9.0], dtype=x.dtype))


def symmetric(x: Tensor) -> Tensor:
    return apart(x) + apart(x).mT


CASES |= {
    "solve": (lambda a, b: torch.linalg.solve(apart(a), b).exp(), [SQUARE, ROWS[:3]]),
    "solve, input": (lambda a, b: torch.linalg.solve(a, b), [SQUARE, ROWS[:3]]),
    "inverse": (lambda a: torch.linalg.inv(apart(a)), [SQUARE]),
    "slogdet": (lambda a: torch.linalg.slogdet(apart(a))[1], [SQUARE]),
    "slogdet, input": (lambda a: torch.linalg.slogdet(a)[1], [SQUARE]),
    "logdet": (lambda a: torch.logdet(symmetric(a) @ symmetric(a)), [SQUARE]),
    "cholesky": (lambda a: torch.linalg.cholesky(apart(a) @ apart(a).mT), [SQUARE]),
    "weight_norm": (lambda v, g: torch._weight_norm(v.sin(), g, 0).tanh(), [SQUARE, SCALES]),
    "weight_norm, last": (lambda v, g: torch._weight_norm(v, g.mT.contiguous(), 1).tanh(), [SQUARE, SCALES]),
    "cumprod of a kernel": (lambda x: x.sin().cumprod(0).exp(), [ROWS]),
    "cumprod in float64": (lambda x: x.float().cumprod(0, dtype=torch.float64), [ROWS]),
    "cumprod, complex": (lambda x: torch.view_as_complex(x).cumprod(1).real.sin(), [COMPLEX]),
}


def second(f: Callable[..., Tensor], arguments: list[Tensor], wanted: list[bool]) -> list[Tensor | None]:
    """Of a function of the first gradients, those of the arguments that are ``wanted``."""
    xs = [x.detach().clone().requires_grad_(is_wanted) for x, is_wanted in zip(arguments, wanted, strict=True)]
    inputs = [x for x in xs if x.requires_grad]
    result = f(*xs)
    weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).view_as(result)
    first = torch.autograd.grad((result * weights).sum(), inputs, create_graph=True)
    total = sum((g * g * torch.linspace(1, 3, g.numel(), dtype=g.dtype).view_as(g)).sum() for g in first)
    assert isinstance(total, Tensor)
    return list(torch.autograd.grad(total, inputs, allow_unused=True))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("first_only", [False, True])
def test_second_derivatives_on_the_host(name: str, first_only: bool) -> None:
    f, arguments = CASES[name]
    wanted = [True] + [not first_only] * (len(arguments) - 1)
    examples = tuple(x.clone().requires_grad_(is_wanted) for x, is_wanted in zip(arguments, wanted, strict=True))
    compiled = fxc.compile(f, examples, training=True, options={"target": "host"})
    is_rounded = name == "cumprod in float64" and torch.__version__ < (2, 12)  # PyTorch traces another formula, in float32
    tolerance = dict.fromkeys(("rtol", "atol"), 1e-5) if is_rounded else {}
    torch.testing.assert_close(second(compiled, arguments, wanted), second(f, arguments, wanted), **tolerance)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "name",
    ["layer_norm, affine", "group_norm", "group_norm, affine", "batch_norm", "instance_norm", "softmax", "var", "cumprod"],
)
def test_numeric_second_derivatives(name: str) -> None:
    f, arguments = CASES[name]
    xs = tuple(x.clone().requires_grad_() for x in arguments)
    compiled = fxc.compile(f, xs, training=True, options={"target": "host"})
    assert torch.autograd.gradgradcheck(compiled, xs)


@pytest.mark.slow
def test_statistics_that_are_used_have_gradients_too() -> None:
    def f(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        normal, mean, rstd = torch.native_group_norm(x, w, b, 2, 6, 6, 2, 1e-5)
        return normal.sin().sum() + mean.exp().sum() + rstd.square().sum()

    xs = [x.clone().requires_grad_() for x in (IMAGES, W6, B6)]
    compiled = fxc.compile(f, tuple(xs), training=True, options={"target": "host"})
    torch.testing.assert_close(second(compiled, xs, [True] * 3), second(f, xs, [True] * 3))


@pytest.mark.parametrize("name, create_graph", [("group_norm, affine", False), ("silu", False), ("silu", True)])
def test_batches_of_gradients(name: str, create_graph: bool) -> None:
    f, arguments = CASES[name]
    examples = tuple(x.clone().requires_grad_() for x in arguments)
    compiled = fxc.compile(f, examples, training=True, options={"target": "host"})
    found = []
    for function in (f, compiled):
        xs = [x.clone().requires_grad_() for x in arguments]
        result = function(*xs)
        rows = torch.stack([torch.ones_like(result), torch.linspace(0, 1, result.numel()).view_as(result).double()])
        found.append(torch.autograd.grad(result, xs, rows, is_grads_batched=True, create_graph=create_graph))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_second_derivatives_of_group_norm_in_other_dtypes(dtype: torch.dtype) -> None:
    f, arguments = CASES["group_norm, affine"]
    xs = [x.to(dtype).requires_grad_() for x in arguments]
    compiled = fxc.compile(f, tuple(xs), training=True, options={"target": "host"})
    rtol, atol = (1e-4, 1e-3) if dtype == torch.float32 else (0.1, 1.0)
    exact = second(f, [x.double() for x in xs], [True] * 3)
    for got, wanted in zip(second(compiled, xs, [True] * 3), exact, strict=True):
        assert (got is None) == (wanted is None)  # the first gradients are linear in the bias
        if got is not None and wanted is not None:
            assert got.dtype == dtype
            torch.testing.assert_close(got.double(), wanted, rtol=rtol, atol=atol)


@pytest.mark.slow
@pytest.mark.share(12)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("places", [[], [0], [5], [1, 7], [0, 1, 2], list(range(12))])
@pytest.mark.parametrize("target", ["host", None])
def test_products_with_zeros(places: list[int], dim: int, target: str | None) -> None:
    """Eager looks at the values to choose a formula for the derivative: where there are zeros, the fast one has none."""
    x = torch.linspace(-1.5, 2, 12, dtype=torch.float64)
    x[places] = 0
    for f in (lambda x: x.clamp(-1.25, 1.25).cumprod(dim), lambda x: x.prod(dim), lambda x: x.cumprod(dim).exp().prod()):
        arguments = [x.view(4, 3)]
        compiled = fxc.compile(f, (arguments[0].clone().requires_grad_(),), training=True, options={"target": target})
        torch.testing.assert_close(second(compiled, arguments, [True]), second(f, arguments, [True]))


REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "det": torch.linalg.det,
    "det of a kernel": lambda x: torch.linalg.det(apart(x)),
    "eigvalsh": torch.linalg.eigvalsh,
    "eigvalsh of a kernel": lambda x: torch.linalg.eigvalsh(symmetric(x)),
    "svdvals": torch.linalg.svdvals,
    "svdvals of a kernel": lambda x: torch.linalg.svdvals(apart(x)),
    "nuclear norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "two": lambda x: torch.linalg.svdvals(torch.linalg.eigvalsh(symmetric(x)).diag()),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("made", [lambda x: x, lambda x: x * 2, lambda x: x.view_as(x), lambda x: torch.cat([x, x])[:3]])
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_second_derivative_here_says_so(name: str, made: Callable[[Tensor], Tensor]) -> None:
    """Also where a kernel makes the operand, and where the input is no leaf."""
    compiled = fxc.compile(REFUSED[name], (SQUARE.clone().requires_grad_(),), training=True, options={"target": "host"})
    with pytest.raises(RuntimeError, match="cannot be differentiated again") as caught:
        second(lambda x: compiled(made(x)), [SQUARE], [True])
    error = caught.value
    assert isinstance(error, DerivativeError) and error.op and error.place


@pytest.mark.parametrize("name", ["det of a kernel", "eigvalsh", "scatter_reduce"])
def test_the_way_out_of_a_second_derivative_that_is_refused(name: str) -> None:
    def scattered(x: Tensor) -> Tensor:
        return x.new_zeros(3).scatter_reduce(0, torch.tensor([0, 1, 1]), x[0], "prod", include_self=False)

    f = REFUSED.get(name, scattered)
    example = (SQUARE.clone().requires_grad_(),)
    with pytest.raises(DerivativeError) as caught:
        second(fxc.compile(f, example, training=True, options={"target": "host"}), [SQUARE], [True])
    assert caught.value.hint is not None
    options = ast.literal_eval(caught.value.hint.partition("options=")[2].rpartition(",")[0])
    compiled = fxc.compile(f, example, training=True, options=options)
    torch.testing.assert_close(second(compiled, [SQUARE], [True]), second(f, [SQUARE], [True]))


def test_a_mask_that_a_kernel_gives_beside_values_is_a_constant() -> None:
    """What of a kernel depends on what is read off the kernel."""

    def f(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, True).pow(3)

    compiled = fxc.compile(f, (ROWS.clone().requires_grad_(),), training=True, options={"target": "host"})
    found = []
    for run in (compiled, f):
        torch.manual_seed(0)
        found.append(second(run, [ROWS], [True]))
    torch.testing.assert_close(*found)


def test_what_has_no_second_derivative_has_first_ones_that_can_be_used() -> None:
    """The gradient of one input carries a link to all; where none is taken through it nothing is refused."""
    x, y = (SQUARE.clone().requires_grad_() for _ in range(2))
    compiled = fxc.compile(lambda x, y: torch.linalg.svdvals(x) @ y, (x, y), training=True, options={"target": "host"})
    found = torch.autograd.grad(compiled(x * 1, y).sum(), (x, y), create_graph=True)
    wanted = torch.autograd.grad((torch.linalg.svdvals(x * 1) @ y).sum(), (x, y))
    torch.testing.assert_close(found, wanted)
    assert all(gradient.requires_grad for gradient in found)
    weight = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad((found[0] * weight).sum(), weight)[0], wanted[0])
    for of in (x, y):
        with pytest.raises(RuntimeError, match="cannot be differentiated again"):
            torch.autograd.grad(found[0].sum(), of, allow_unused=True, retain_graph=True)


class Square(torch.autograd.Function):
    """The square, with a backward that the class states."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 2 * x


def scaled(x: Tensor) -> Tensor:
    with torch.no_grad():
        largest = x.abs().max()
    return x.sin() / largest


def scaled_by_det(x: Tensor) -> Tensor:
    with torch.no_grad():
        volume = torch.linalg.det(apart(x)).sin()
    return (volume * x).exp() * x


def standardized(x: Tensor) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True).detach(), x.var(-1, keepdim=True).detach()
    return ((x - mean) / variance.sqrt()).tanh()


def rotary(x: Tensor) -> Tensor:
    angles = POSITIONS[:, None].double() * torch.tensor([1.0, 0.1], dtype=torch.float64)
    (a, b), cos, sin = torch.cat([x, x.exp()], -1)[:, :4].chunk(2, -1), angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def balance(x: Tensor) -> Tensor:
    """The loss that balances a mixture of experts: how many tokens each expert has, times its mean probability."""
    probabilities = x.softmax(-1)
    shares = F.one_hot(probabilities.argmax(-1), 3).double().mean(0)
    return (shares * probabilities.mean(0)).sum()


def attention(x: Tensor) -> Tensor:
    return (x @ x.mT).masked_fill(~torch.ones(3, 3, dtype=torch.bool).tril(), -1e9).softmax(-1) @ x


def layers(x: Tensor) -> Tensor:
    for _ in range(3):
        x = (x.sin() * POSITIONS.double().cos() + x.detach().tanh() * x).tanh() @ SCALES.expand(3, 3)
    return x


POSITIONS, MASK = torch.tensor([1, 2, 4]), torch.tensor([True, False, True])

CONSTANT: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda x: x.sin() * x.detach().exp(),
    "detach, of a value that has a derivative too": lambda x: x.sin().exp() * x.detach().sin().exp(),
    "detach, matrix product": lambda x: ((x.sin() @ x).exp() * (x.detach().sin() @ x.detach()).exp()).tanh() * x.cos(),
    "detach, straight through": lambda x: x.sin() + (x.round() - x).detach() * x,
    "detach, statistics": standardized,
    "detach, solve": lambda x: torch.linalg.solve(apart(x.detach()), x.exp()).sin(),
    "no_grad": scaled,
    "no_grad, det": scaled_by_det,
    "integers": lambda x: POSITIONS.double().cos() * x,
    "integers, view": lambda x: x * POSITIONS.double().cos()[:, None],
    "mask": lambda x: x.sin() * MASK + x.masked_fill(MASK, 0.0).exp(),
    "where": lambda x: torch.where(x > x.mean(), x.sin(), x * x) * (x.detach() > 0.5),
    "tensor of the function": lambda x: x * W3.sin().exp(),
    "arange": lambda x: x * torch.arange(3, dtype=torch.float64).sin(),
    "embedding": lambda x: F.embedding(POSITIONS % 3, x).sin() * F.embedding(POSITIONS % 3, x).detach(),
    "one_hot": lambda x: (F.one_hot(x.argmax(-1), 3) * x.exp()).sum(-1) * x,
    "topk": lambda x: x.gather(-1, x.topk(2)[1]).sin() * x.topk(2)[0].detach(),
    "rotary embedding": rotary,
    "balance of experts": balance,
    "attention": attention,
    "layers": layers,
    "autograd.Function": lambda x: cast(Any, Square).apply(x.sin()).exp(),
    "autograd.Function only": lambda x: cast(Any, Square).apply(x),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("target", ["host", None])
@pytest.mark.parametrize("name", CONSTANT)
def test_factors_without_a_derivative(name: str, target: str | None) -> None:
    """A value that needs no gradient is a constant of the second derivative, also where a kernel computes it."""
    f, example = CONSTANT[name], (SQUARE.clone().requires_grad_(),)
    compiled = fxc.compile(f, example, training=True, options={"target": target})
    found, wanted = (torch.autograd.grad(function(*example).sum(), example) for function in (compiled, f))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(
        second(lambda x: compiled(x).exp(), [SQUARE], [True]), second(lambda x: f(x).exp(), [SQUARE], [True])
    )


@pytest.mark.parametrize("name", ["detach", "no_grad", "integers, view", "layers"])
def test_factors_without_a_derivative_at_free_sizes(name: str) -> None:
    f, example = CONSTANT[name], (SQUARE.clone().requires_grad_(),)
    sizes = ({1: torch.export.Dim.AUTO},) if name == "integers, view" else ({0: torch.export.Dim.AUTO},)
    compiled = fxc.compile(f, example, training=True, dynamic_shapes=sizes, options={"target": "host"})
    torch.testing.assert_close(
        second(lambda x: compiled(x).exp(), [SQUARE], [True]), second(lambda x: f(x).exp(), [SQUARE], [True])
    )


@pytest.mark.slow
def test_an_undefined_gradient_has_no_size() -> None:
    """The second backward of a sum sends no gradient to the result, only to what the first backward reads."""

    def f(x: Tensor, row: Tensor) -> Tensor:
        return x * row.expand(3, 3).sum(0) * row.expand(3, 3).sum(1) * row.expand(3, 3).sum(0)

    arguments, wanted = [SQUARE, SQUARE[0].clone()], [True, True]
    example = tuple(argument.clone().requires_grad_() for argument in arguments)
    sizes = ({0: torch.export.Dim.AUTO}, None)
    compiled = fxc.compile(f, example, training=True, dynamic_shapes=sizes, options={"target": "host"})
    torch.testing.assert_close(second(compiled, arguments, wanted), second(f, arguments, wanted))


def test_factors_that_are_inputs_without_a_gradient() -> None:
    def f(x: Tensor, w: Tensor, positions: Tensor) -> Tensor:
        return F.linear(x, w.sin()).exp() * positions.double().cos() + (w * x.detach()).exp() * x

    arguments, wanted = [SQUARE, SQUARE + 1, POSITIONS], [True, False, False]
    example = (SQUARE.clone().requires_grad_(), SQUARE + 1, POSITIONS)
    compiled = fxc.compile(f, example, training=True, options={"target": "host"})
    torch.testing.assert_close(second(compiled, arguments, wanted), second(f, arguments, wanted))
