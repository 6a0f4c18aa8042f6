"""Results have the strides that eager gives them, and what reads memory finds eager's elements there."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import fxc
from fxc.bridge.tensors import FakeWorld
from tests.fuzz import check as checks

IMAGES = torch.linspace(-2, 3, 120).view(2, 3, 4, 5)
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.mT.contiguous().mT,
    "reversed": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "with gaps": lambda x: torch.stack([x, x + 1], -1)[..., 0],
    "one channel": lambda x: x[:, :1].contiguous(memory_format=torch.channels_last),
    "one image": lambda x: x[:1].contiguous(memory_format=torch.channels_last),
    "one row": lambda x: x[:1, :1].reshape(1, 1, 1, 20).to(memory_format=torch.channels_last),
}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "roll": lambda x: x.roll(1, 1),
    "roll twice": lambda x: x.roll((1, 2), (1, 3)),
    "roll flat": lambda x: x.roll(1),
    "floor_divide": lambda x: torch.floor_divide(x, x.contiguous().abs() + 1),
    "divide, rounded": lambda x: torch.div(x, torch.tensor(0.5), rounding_mode="trunc"),
    "copysign": lambda x: torch.copysign(x, torch.tensor(-1.0)),
    "heaviside": lambda x: torch.heaviside(x, x.contiguous()),
    "logaddexp": lambda x: torch.logaddexp(x.contiguous(), x),
    "logical_and": lambda x: torch.logical_and(x, x.contiguous()),
    "xlogy": lambda x: torch.xlogy(x, x[0].abs() + 1),
    "ldexp": lambda x: torch.ldexp(x, x[:, :1].contiguous()),
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0]), 2),
    "logsigmoid": F.logsigmoid,
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), x.contiguous().sigmoid(), reduction="none"),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm, running": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), training=True),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), mode="replicate"),
    "channel_shuffle": lambda x: F.channel_shuffle(x, x.shape[1]),
    "another dtype, joined": lambda x: torch.hstack([x, x.to(torch.float64) + 2]),
    "upsampled": lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"),
    "upsampled rows": lambda x: F.interpolate(x[0], scale_factor=2.0, mode="nearest")[None],
    "upsampled volumes": lambda x: F.interpolate(x[None], scale_factor=2.0, mode="nearest")[0],
    "times two": lambda x: F.conv2d(x * 2, torch.ones(2, x.shape[1], 1, 1)),
}
AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda x: x,
    "in memory": lambda x: x.as_strided((17,), (1,), 2) * 2,
    "contiguous": lambda x: x.contiguous(),
    "flat": lambda x: x.flatten(1) + 1,
    "added": lambda x: x + x.transpose(2, 3).transpose(2, 3),
}
ROUTES: dict[str, Callable[..., Any]] = {
    "compile": lambda f, x: fxc.compile(f, (x,)),
    "torch.compile": lambda f, x: torch.compile(f, backend="fxc"),
    "torch.compile, dynamic": lambda f, x: torch.compile(f, backend="fxc", dynamic=True),
}


def steps(x: Tensor) -> list[int]:
    """The strides that lead to elements."""
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]


@pytest.fixture(autouse=True)
def _reset() -> None:
    torch._dynamo.reset()


@pytest.mark.share(20)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("route", ["compile"])
def test_results_lie_as_in_eager(route: str, name: str, layout: str, after: str) -> None:
    check(route, name, layout, after)


@pytest.mark.not_proved  # places in a grid that is a product of free sizes
@pytest.mark.share(200)
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("route", ["torch.compile", "torch.compile, dynamic"])
def test_results_of_torch_compile_lie_as_in_eager(route: str, name: str, layout: str, after: str) -> None:
    check(route, name, layout, after)


def check(route: str, name: str, layout: str, after: str) -> None:
    x = LAYOUTS[layout](IMAGES)

    def f(x: Tensor) -> Tensor:
        return AFTER[after](FUNCTIONS[name](x))

    expected, found = f(x), ROUTES[route](f, x)(x)
    torch.testing.assert_close(found, expected)
    assert steps(found) == steps(expected)


@pytest.mark.parametrize("route", ROUTES)
def test_memory_of_a_result_is_read_as_it_lies(route: str) -> None:
    x = torch.arange(4.0).view(1, 2, 1, 2).contiguous(memory_format=torch.channels_last)

    def f(x: Tensor) -> Tensor:
        return x.roll(1, 1).as_strided((4,), (1,), 0)

    assert torch.equal(ROUTES[route](f, x)(x), f(x))


def test_a_graph_whose_types_are_wrong_is_put_right() -> None:
    """torch.export recorded a view where eager's strides allow none: it is of a copy."""

    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.roll(1, 1).reshape(2, 60) + 1

    x = LAYOUTS["channels_last"](IMAGES)
    exported = torch.export.export(Model(), (x,))
    for node in list(exported.graph.nodes):
        if "reshape" in str(node.target):
            node.target = torch.ops.aten.view.default
    program = fxc.run_passes(fxc.import_fx(exported), "lower-to-torch,propagate-shapes")
    assert "aten.clone" in program.text()
    assert torch.equal(tree_leaves(fxc.to_fx(program)(x))[0], Model()(x))


def test_a_view_that_eager_refuses_is_refused() -> None:
    x = LAYOUTS["channels_last"](IMAGES)
    with pytest.raises(fxc.errors.CaptureError, match="view"):
        fxc.compile(lambda x: x.roll(1, 1).view(2, 60), (x,))


def test_capture_leaves_fake_tensors_as_they_are() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = FakeTensorMode.dispatch
    fxc.capture(nn.Linear(2, 2), (torch.ones(1, 2),), route="make_fx")
    assert FakeTensorMode.dispatch is before


GAPS: dict[str, Callable[[int, int], Tensor]] = {
    "first": lambda n, m: torch.linspace(-1, 1, 4 * n * m).view(4, n, m)[::2],
    "second": lambda n, m: torch.linspace(-1, 1, 4 * n * m).view(n, 4, m)[:, ::2],
    "last": lambda n, m: torch.linspace(-1, 1, 4 * n * m).view(n, m, 4)[..., ::2],
    "turned": lambda n, m: torch.linspace(-1, 1, 4 * n * m).view(4, m, n).permute(1, 2, 0)[1:, ::2],
}
LOOPS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": lambda x: F.silu(x.permute(2, 1, 0)),
    "with a copy": lambda x: x.permute(1, 2, 0) * x.permute(1, 2, 0).clone(),
    "clone": lambda x: x.transpose(0, 1).clone(),
    "pow": lambda x: x.permute(2, 0, 1) ** 2,
    "two": lambda x: x.abs().permute(2, 0, 1).sin(),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("gaps", GAPS)
@pytest.mark.parametrize("name", LOOPS)
def test_strides_that_no_size_tells_are_ordered_as_in_eager(name: str, gaps: str) -> None:
    checks.check("dynamic", lambda x: [LOOPS[name](x)], lambda n, m: [GAPS[gaps](n, m)], [(4, 9), (3, 7)])


INDEX = torch.tensor([2, 0])
WRITES: dict[str, Callable[[Tensor], Any]] = {
    "index_add": lambda y: y.index_add_(1, INDEX, y[:, :2] * 2),
    "index_copy": lambda y: y.index_copy_(1, INDEX, y[:, 1:3] * 2),
    "scatter": lambda y: y.scatter_(1, torch.zeros_like(y[:, :1], dtype=torch.int64), 3.0),
    "masked_scatter": lambda y: y.masked_scatter_(y > 0, y * 2),
    "cumsum": lambda y: y.cumsum_(1),
    "renorm": lambda y: y.renorm_(2, 0, 1.0),
    "tril": lambda y: y.tril_(),
    "all": lambda y: y.__setitem__(..., 0),
    "exp": lambda y: y.exp_(),
    "exp of a view": lambda y: y.mT[0].exp_(),
    "cumsum of a view": lambda y: y[0].mT.cumsum_(0),
}
MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "turned": lambda x: x.permute(2, 1, 0, 3) * 1,
    "columns": lambda x: x[..., 1:-1].slice_scatter(torch.ones_like(x[..., 1:-1:2]), -1, 0, None, 2),
    "steps": lambda x: x[:, :, ::2].select_scatter(torch.ones_like(x[:, 0, ::2]), 1, 0),
    "diagonal": lambda x: x.mT[:, :, ::2].diagonal_scatter(torch.ones_like(x.mT[:, :, ::2].diagonal(0, 2, 3)), 0, 2, 3),
}


@pytest.mark.slow
@pytest.mark.not_proved  # places in a grid that is a product of free sizes
@pytest.mark.share(40)
@pytest.mark.parametrize("route", ["static", "training", "compile", "dynamic"])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_lies_as_before(write: str, made: str, route: str) -> None:
    def f(x: Tensor) -> list[Tensor]:
        y = MADE[made](x)
        WRITES[write](y)
        return [y, y[0], y * 2, y.reshape(-1)]

    checks.check(route, f, lambda: [IMAGES.clone().requires_grad_(route != "static")])


@pytest.mark.share(12)
@pytest.mark.parametrize("route", ["static", "compile", "dynamic"])
@pytest.mark.parametrize("write", WRITES)
def test_what_follows_a_write_to_an_input_lies_as_in_eager(write: str, route: str) -> None:
    def f(x: Tensor) -> list[Tensor]:
        WRITES[write](x)
        copy = x.reshape(-1)
        copy.mul_(2)
        return [copy, x * 2, x.contiguous()]

    for turn in (lambda x: x.permute(2, 1, 0, 3), lambda x: x[..., 1:-1], lambda x: x.mT[:, :, ::2]):
        checks.check(route, f, lambda turn=turn: [turn(IMAGES.clone())])


PLACED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "times one": lambda x: (x * 1).as_strided((3,), (2,), 4) + 1,
    "a copy": lambda x: x.clone().as_strided((3,), (2,), 4) + 1,
    "a cast back": lambda x: x.double().float().as_strided((3,), (2,), 4) + 1,
    "a view of a copy": lambda x: x.clone().view(3, 4)[1:].as_strided((3,), (2,), 4) + 1,
    "two copies": lambda x: x.clone().as_strided((3,), (2,), 4) + x.clone().as_strided((3,), (2,), 5),
    "the input": lambda x: x.as_strided((3,), (2,), 4) + 1,
    "no offset": lambda x: x.clone().as_strided((3,), (2,)) + 1,
}


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", PLACED)
def test_what_starts_at_another_place_is_not_read_instead(name: str, target: str | None) -> None:
    """``as_strided`` with an offset counts from where a storage starts: a copy starts there, the input does not."""
    x = torch.arange(20.0)[3:15]
    torch.testing.assert_close(fxc.compile(PLACED[name], [x], options={"target": target})(x), PLACED[name](x))
    torch.testing.assert_close(torch.compile(PLACED[name], backend="fxc")(x), PLACED[name](x))


def random_indexing(random: Random) -> tuple[Tensor, list[Tensor | None]]:
    """A tensor of some layout with dimensions of size 1, and indices of some of its dimensions."""
    order = random.sample(range(4), 4)[: random.randint(1, 4)]
    order = [sorted(order).index(i) for i in order]
    x = torch.randn([random.choice([1, 1, 2, 3]) for _ in order]).permute(order)
    if random.random() < 0.5:
        x = x.unsqueeze(random.randrange(x.dim() + 1))
    shapes = [random.choice([(2,), (2, 1), (1,), (3, 2), (1, 2)]) for _ in range(x.dim())]
    tensors = [torch.randint(0, size, shape) for size, shape in zip(x.shape, shapes)]
    turned = [index.mT.contiguous().mT if index.dim() == 2 and random.random() < 0.3 else index for index in tensors]
    return x, [index if random.random() < 0.5 else None for index in turned]


@pytest.mark.slow
def test_indexing_lies_as_in_eager() -> None:
    random, checked = Random(3), 0
    while checked < 400:
        x, indices = random_indexing(random)
        if all(index is None for index in indices):
            continue
        try:
            expected = torch.ops.aten.index.Tensor(x, indices)
        except IndexError:
            continue
        checked += 1
        with FakeWorld().mode:
            given, *others = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype) for t in (x, *indices) if t is not None]
            rest = iter(others)
            fake = torch.ops.aten.index.Tensor(given, [None if index is None else next(rest) for index in indices])
        strides = [[step for size, step in zip(t.shape, t.stride()) if size != 1] for t in (fake, expected)]
        assert strides[0] == strides[1], (x.shape, x.stride(), indices)


@pytest.mark.parametrize("operator", [torch.tril, torch.triu])
@pytest.mark.parametrize("make", [
    lambda: torch.randn(17, 2, 4).unfold(1, 1, 3), lambda: torch.randn(2, 3, 4, 5).permute(0, 2, 3, 1),
    lambda: torch.randn(4, 5).t(), lambda: torch.randn(5, 4)[None].expand(2, 5, 4), lambda: torch.randn(8, 8)[::2, ::2],
])  # fmt: skip
def test_triangles_are_contiguous(make: Callable[[], torch.Tensor], operator: Callable[..., torch.Tensor]) -> None:
    """Into memory of other strides, PyTorch's kernel writes outside of it where a dimension has one element."""
    x = make()
    for compiled in (fxc.compile(lambda x: operator(x, 1), [x]), torch.compile(lambda x: operator(x, 1), backend="fxc")):
        result = compiled(x)
        assert torch.equal(result, operator(x, 1)) and result.stride() == operator(x, 1).stride()
