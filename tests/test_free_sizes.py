"""Programs of free sizes do what the model does at each size that they take; what was assumed of sizes is checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr
from xdsl.ir import Operation

import fxc
from fxc.api import compile_graph, run_options
from fxc.bridge.expressions import canonical
from fxc.bridge.tensors import FakeWorld
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor, tensor_type
from fxc.dialects.attributes.values import str_attr
from fxc.dialects.semantics import Vjp
from fxc.errors import CaptureError, InputError
from fxc.frontends.import_fx import import_fx
from fxc.pipelines import AOT_INFERENCE
from fxc.runtime.inputs import value_of
from fxc.semantics import differentiate
from fxc.semantics.inference import TypeInference
from tests.models.zoo import ZOO, load

Function = Callable[..., torch.Tensor]


class Model(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


def attended(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm((x[:, None] * torch.tensor([[1.0], [2.0], [4.0]])).permute(0, 2, 1), (3,)).permute(0, 2, 1).softmax(-1)


FUNCTIONS: dict[str, tuple[Function, set[int]]] = {
    "not one": (lambda x: x * 2 if x.shape[0] != 1 else x * 3, {2, 3}),
    "more than one": (lambda x: x * 2 if x.shape[0] > 1 else x * 3, {2, 3}),
    "not empty": (lambda x: x * 2 if x.numel() else x.reshape(-1), {1, 2, 3}),
    "squeeze": (lambda x: x.squeeze(0) * 2, {2, 3}),
    "squeeze all": (lambda x: x.squeeze(), {2, 3}),
    "slice, squeeze": (lambda x: (x * 2)[:1].squeeze(0), {1, 2, 3}),
    "statistics": (lambda x: F.batch_norm(x, None, None, training=True), {2, 3}),
    "a constant": (lambda x: x + torch.tensor([1.0, 2.0]) if x.shape[0] != 1 else x + torch.tensor([2.0, 1.0]), {2, 3}),
    "an argument": (lambda x: x.sum(int(x.shape[0] == 1)), {2, 3}),
    "everywhere": (lambda x: torch.tanh(x)[:, :1] * 2 + x.flatten().view(-1, 2), {0, 1, 2, 3}),
    "rows": (attended, {0, 1, 2, 3}),
    "a branch": (lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)), {0, 1, 2, 3}),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("free", [Dim("n"), Dim.AUTO])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_sizes_are_right_or_refused(name: str, free: Dim) -> None:
    function, taken = FUNCTIONS[name]
    run = fxc.compile(Model(function), [torch.randn(4, 2)], dynamic_shapes={"args": ({0: free},)})
    for size in range(4):
        x = torch.randn(size, 2)
        if size in taken:
            torch.testing.assert_close(run(x), function(x))
        else:
            with pytest.raises(InputError, match=f"dimension 0 of input args_0 is {size}, but s"):
                run(x)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [name for name, entry in ZOO.items() if entry.dynamic_batch])
def test_models_take_one_row(name: str) -> None:
    model, inputs = load(name)

    def free(dims: object) -> object:
        if isinstance(dims, tuple):
            return tuple(map(free, dims))
        return None if dims is None else {0: Dim("batch")}

    specs = {key: free(dims) for key, dims in (ZOO[name].dynamic_batch or {}).items()}
    (bounds,) = fxc.capture(model, inputs, dynamic_shapes=specs).module.attributes["torch.symbols"].data.values()
    assert bounds.data["min"].value.data <= 1


CONDITIONS: dict[str, tuple[Function, list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "remainder": (lambda x: x * 2 if x.shape[0] % 4 != 3 else x * 3, [(4,), (5,), (14,)], [(3,), (7,), (11,)]),
    "order": (lambda x, y: x * 2 if x.shape[0] < y.shape[0] else x * 3, [(2, 6), (5, 9)], [(6, 6), (7, 6)]),
    "not equal": (lambda x, y: x * 2 if x.shape[0] != y.shape[0] else x * 3, [(4, 6), (5, 9)], [(6, 6), (7, 7)]),
    "not twice": (lambda x, y: x * 2 if x.shape[0] * 2 != y.shape[0] else x * 3, [(4, 6), (5, 9)], [(3, 6), (4, 8)]),
    "both": (lambda x: x * 2 if x.shape[0] > 3 and x.shape[0] * 2 != 12 else x * 3, [(4,), (5,), (7,)], [(2,), (3,), (6,)]),
    "quotient": (lambda x: x * 2 if x.shape[0] // 3 == 1 else x * 3, [(4,), (5,)], [(2,), (6,), (9,)]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_what_a_program_assumes_of_sizes_is_checked(name: str, tmp_path: Path) -> None:
    function, taken, refused = CONDITIONS[name]
    example = [torch.randn(size) for size in (4, 6)[: len(taken[0])]]
    run = fxc.compile(Model(function), example, dynamic_shapes={"args": tuple({0: Dim.AUTO} for _ in example)})
    run.plan.save(tmp_path / "plan.zip")
    for plan in (run, fxc.ExecutionPlan.load(tmp_path / "plan.zip")):
        for sizes in taken:
            inputs = [torch.randn(size) for size in sizes]
            torch.testing.assert_close(plan(*inputs), function(*inputs))
        for sizes in refused:
            with pytest.raises(InputError, match=r"it was compiled for sizes with|lies in"):
                plan(*[torch.randn(size) for size in sizes])


@pytest.mark.slow
def test_what_passes_assume_of_sizes_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functionalization writes down a size where a window is written."""
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))

    def f(x: torch.Tensor) -> torch.Tensor:
        windows = (x * 1).reshape(-1).unfold(0, 2, 2)
        windows[...] += 2
        return windows

    n = Dim("n")
    for _ in range(2):  # the second is found on disk
        compiled = fxc.compile(f, (torch.randn(5, 5),), dynamic_shapes=({0: n, 1: n},))
        x = torch.randn(5, 5)
        torch.testing.assert_close(compiled(x), f(x))
        for size in (4, 8):
            x = torch.randn(size, size)
            try:
                torch.testing.assert_close(compiled(x), f(x))
            except InputError as error:
                assert "it was compiled for sizes with" in error.message


@pytest.mark.parametrize("target", ["host", None])
def test_what_passes_assume_of_sizes_in_a_graph_of_aot_autograd_is_checked(target: str | None) -> None:
    """Dynamo's guards are about sizes that PyTorch assumed."""
    program = import_fx(make_fx(lambda n, x: (x * 2,), tracing_mode="symbolic")(5, torch.randn(5, 3)))
    size = types.sizes(next(type for type in program.main.function_type.inputs if is_tensor(type)))[0]
    program.module.attributes[types.CONDITIONS] = ArrayAttr([str_attr(f"{size} < 9")])
    compiled = compile_graph(program, run_options({"target": target}), AOT_INFERENCE).flat()
    for rows in (5, 8):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(rows, x)[0], x * 2)
    with pytest.raises(InputError, match=f"it was compiled for sizes with {size} < 9, but input n_1 is 9"):
        compiled(9, torch.randn(9, 3))


def filled(x: torch.Tensor, start: int, end: int) -> torch.Tensor:
    y = x * 2
    y[start:end] = 1
    return y.sin()


THRESHOLDS: dict[str, Function] = {
    "below": lambda x: x.exp()[:11].sin(),
    "above": lambda x: x.exp()[:100].sin() + 1,
    "between": lambda x: (x * 3)[2:11].cos().sum(),
    "the last": lambda x: x.exp()[-11:].sin(),
    "beyond the last": lambda x: x.exp()[-100:-3].sin(),
    "steps": lambda x: x.exp()[1:30:4].sin(),
    "write": lambda x: filled(x, 0, 11),
    "write above": lambda x: filled(x, 5, 100),
    "write to the last": lambda x: filled(x, -11, 40),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", THRESHOLDS)
def test_bounds_that_some_sizes_pass_and_others_do_not(name: str, training: bool) -> None:
    function = THRESHOLDS[name]
    example = torch.randn(16, requires_grad=training)
    if training and name in ("write", "write above") and torch.__version__ < (2, 12):
        pytest.skip("torch.export does not find the symbol of the size of a slice in a view that autograd made")
    run = fxc.compile(Model(function), [example], training=training, dynamic_shapes={"args": ({0: Dim("n")},)})
    for size in (1, 2, 3, 10, 11, 12, 16, 39, 99, 100, 101, 200):
        x = torch.randn(size, requires_grad=training)
        found, expected = run(x), function(x)
        torch.testing.assert_close(found, expected)
        if training:
            torch.testing.assert_close(torch.autograd.grad(found.sum(), x), torch.autograd.grad(expected.sum(), x))


WITHOUT_ELEMENTS: dict[str, Function] = {
    "mean": lambda x: (x * 2).mean(),
    "mean of rows": lambda x: (x * 2).mean(0),
    "max": lambda x: (x * 2).max(),
    "min": lambda x: (x * 2).min(),
    "amax": lambda x: (x * 2).amax(0),
    "amin of columns": lambda x: (x * 2).amin(1),
    "max of rows": lambda x: (x + 1).max(0).values,
    "argmax": lambda x: (x * 2).argmax(),
    "argmax of rows": lambda x: (x * 2).argmax(0),
    "argmin of columns": lambda x: (x * 2).argmin(1),
    "norm": lambda x: torch.linalg.vector_norm(x * 2, float("inf")),
    "softmax": lambda x: (x * 2).softmax(0),
    "log_softmax": lambda x: (x * 2).log_softmax(1),
    "cat": lambda x: torch.cat([x * 2, x + 1, torch.ones(1, 3)]),
    "reshape": lambda x: (x * 2).reshape(-1, 3).sin(),
    "reshape what is left": lambda x: (x * 2).reshape(x.shape[0], -1).sin(),
    "one row": lambda x: (x * 2)[-1],
    "product": lambda x: (x.t() * 2) @ x,
    "topk": lambda x: (x * 2).topk(1, 0).values,
}


def _outcome(run: Function, x: torch.Tensor) -> torch.Tensor | type:
    try:
        return run(x)
    except (InputError, RuntimeError, IndexError, AssertionError):
        return Exception


@pytest.mark.share(3)
@pytest.mark.parametrize("unbacked", [False, True])
@pytest.mark.parametrize("name", WITHOUT_ELEMENTS)
def test_no_rows_are_as_in_eager(name: str, unbacked: bool) -> None:
    function = WITHOUT_ELEMENTS[name]
    if unbacked:
        torch._dynamo.reset()
        run = torch.compile(function, backend="fxc", dynamic=True)
    else:
        run = fxc.compile(Model(function), [torch.randn(4, 3)], dynamic_shapes={"args": ({0: Dim("n", min=0)},)})
    for size in (4, 0, 1):
        x = torch.randn(size, 3)
        if unbacked:
            torch._dynamo.decorators.mark_unbacked(x, 0)
        found, expected = _outcome(run, x), _outcome(function, x)
        if isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found, expected, equal_nan=True)
        else:
            assert found is expected


class Cell(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, c = self.cell(x[:, 0])
        for step in range(1, 3):
            h, c = self.cell(x[:, step], (h, c))
        return h * c


class Sequence(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(8, 8, batch_first=True), torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


LEARNERS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[int, ...]]]] = {
    "encoder": lambda: (torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (5, 8)),
    "cell": lambda: (Cell(), (3, 8)),
    "sequence": lambda: (Sequence(), (3, 8)),
    "images": lambda: (
        torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
            torch.nn.Linear(36, 2),
        ),
        (3, 8, 8),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", LEARNERS)
def test_models_learn_from_any_number_of_rows(name: str) -> None:
    model, shape = LEARNERS[name]()
    forward = next(iter(inspect.signature(model.forward).parameters))
    run = fxc.compile(model, [torch.randn(4, *shape)], training=True, dynamic_shapes={forward: {0: Dim("n")}})
    for rows in (4, 1, 3, 9):
        x = torch.randn(rows, *shape)
        found, expected = run(x), model(x)
        torch.testing.assert_close(found, expected)
        weights = list(model.parameters())
        torch.testing.assert_close(*[torch.autograd.grad((y * y).sum(), weights) for y in (found, expected)])


@pytest.mark.slow
def test_the_derivative_of_a_copy_is_that_of_a_view_at_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """``linear`` copies what is transposed, and is another formula where there is one row."""
    seen = list[tuple[bool, dict[str, int]]]()

    def agree(op: Operation, first: Vjp, second: Vjp, numbers: dict[str, int]) -> bool:
        seen.append((original(op, first, second, numbers), numbers))
        return seen[-1][0]

    original = differentiate._agree
    monkeypatch.setattr(differentiate, "_agree", agree)
    model = Model(lambda x, w: F.linear(x.transpose(0, 1), w))
    inputs = [torch.randn(4, 5, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)]
    run = fxc.compile(model, inputs, training=True, dynamic_shapes={"args": ({0: Dim("n")}, None)})
    assert any(1 in numbers.values() for _, numbers in seen) and all(found for found, _ in seen)
    for rows in (1, 6):
        x, w = torch.randn(rows, 5, 8, requires_grad=True), inputs[1]
        torch.testing.assert_close(*[torch.autograd.grad(y.sum(), (x, w)) for y in (run(x, w), model(x, w))])


@pytest.mark.slow
def test_a_size_that_is_always_one_is_squeezed() -> None:
    def third(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).tensor_split(3)[1].squeeze(0) + 1

    torch._dynamo.reset()
    run = torch.compile(third, backend="fxc", dynamic=True)
    for size in (7, 8, 3, 5):
        x = torch.randn(size)
        torch.testing.assert_close(run(x), third(x))


def test_conditions_are_computed_as_arithmetic() -> None:
    assert value_of("(1.0 / (torch.sym_float(n) ** 0.5)) >= 0.25", {"n": 16}) is True
    assert value_of("((n**2)//2) - 12", {"n": 5}) == 0
    for text in ("9**9**9", "n // 0", "(n - 6)**0.5 > 1", "os.system(n)", "m", "n +"):
        assert value_of(text, {"n": 5}) is None, text


def test_conditions_are_text() -> None:
    model = Model(CONDITIONS["remainder"][0])
    program = fxc.capture(model, [torch.randn(4)], dynamic_shapes={"args": ({0: Dim.AUTO},)})
    assert 'torch.conditions = ["(s' in program.text() and '% 4) != 3"]' in program.text()


def test_a_size_that_is_not_free_is_said_with_the_way_out() -> None:
    with pytest.raises(CaptureError, match="max=9"):
        fxc.compile(Model(lambda x: x if x.shape[0] < 10 else -x), [torch.ones(4)], dynamic_shapes={"args": ({0: Dim("n")},)})


def test_a_symbol_of_pytorch_may_have_the_name_of_another_of_the_module() -> None:
    names = [f"s{i}" for i in range(150)]
    facts = DictionaryAttr({name: DictionaryAttr({"hint": IntegerAttr(7 + i, 64)}) for i, name in enumerate(names)})
    for first, second in pairwise(names):
        world = FakeWorld(facts)
        fake = world.fake(type := tensor_type("float32", (first, second), (canonical(f"2*{first}*{second}"), first)))
        assert world.type_of(fake) == type
        a, b = 7 + int(first[1:]), 7 + int(second[1:])
        assert [stride.node.hint for stride in fake.stride()] == [2 * a * b, a]


@pytest.mark.parametrize("affine", [False, True])
def test_the_derivative_of_a_batch_norm_of_no_rows(affine: bool) -> None:
    model = torch.nn.BatchNorm1d(3, affine=affine).eval()
    example = torch.randn(4, 3, 2, requires_grad=True)
    compiled = fxc.compile(model, (example,), training=True, dynamic_shapes=({0: Dim("n", min=0)},))
    for rows in (0, 5):
        x = torch.randn(rows, 3, 2, requires_grad=True)
        wanted = [x, *model.parameters()]
        found, expected = (torch.autograd.grad(f(x).square().sum(), wanted) for f in (compiled, model))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("heads", [0, 2])
def test_attention_of_no_heads(heads: int, target: str | None) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x = torch.ceil(x)
        return F.scaled_dot_product_attention(x, x, x)

    example = torch.randn(7, 5, 1, 3, requires_grad=True)
    compiled = fxc.compile(f, (example,), training=True, dynamic_shapes=({1: Dim("n", min=0)},), options={"target": target})
    x = torch.randn(7, heads, 1, 3, requires_grad=True)
    found = compiled(x)
    with sdpa_kernel(SDPBackend.MATH):  # PyTorch 2.11's other kernel divides by the number of heads
        expected = f(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(each.square().sum(), x) for each in (found, expected)))


def test_a_size_of_three_factors_is_computed() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        flat = x.view(-1)
        place = (torch.arange(1) * 2 % flat.shape[0]).reshape(1)
        return flat.index_put((place,), torch.tensor(2.0)), F.batch_norm(y, None, None, training=True)

    m, n = Dim("m"), Dim("n")
    compiled = fxc.compile(f, (torch.randn(7, 2, 5), torch.randn(7, 7)), dynamic_shapes=({0: m, 2: n}, {0: m, 1: m}))
    for m, n in ((3, 4), (4, 1)):
        inputs = torch.randn(m, 2, n), torch.randn(m, m)
        torch.testing.assert_close(compiled(*inputs), f(*inputs))


@pytest.mark.slow
def test_a_gradient_has_the_sizes_of_its_operand() -> None:
    """A size that is the smaller of two is one of them where a broadcast needs it."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.diagonal(0, 2, -3)
        return y @ y.mT, torch.sub(torch.tensor([1, 2]), y, alpha=0.5)

    n = Dim("n")
    example = torch.randn(2, 7, 7, requires_grad=True)
    compiled = fxc.compile(f, (example,), training=True, dynamic_shapes=({1: n, 2: n},))
    for size in (6, 2):
        x = torch.randn(2, size, size, requires_grad=True)
        found, expected = (
            [*each(x), *torch.autograd.grad(sum(r.square().sum() for r in each(x)), x)] for each in (compiled, f)
        )
        torch.testing.assert_close(found, expected)


def test_a_gradient_at_a_size_of_one_has_that_size() -> None:
    x = torch.randn(2, 2, requires_grad=True)
    compiled = fxc.compile(lambda x: x.view(-1).sum(0), (x,), training=True, dynamic_shapes=({1: Dim.DYNAMIC},))
    for size in (2, 5, 1):
        x = torch.randn(2, size, requires_grad=True)
        assert torch.equal(torch.autograd.grad(compiled(x), x)[0], torch.ones(2, size))


@pytest.mark.share(4)
@pytest.mark.parametrize("hint", [7, 8, 17])
@pytest.mark.parametrize(("start", "end"), [(0, 8), (2, 8), (0, -8), (-8, None), (3, -2)])
def test_a_slice_that_is_written_ends_where_its_tensor_does(start: int, end: int | None, hint: int) -> None:
    """8 is ``Min(8, s)`` of all sizes from 8, and ``s`` at 8: what was assumed for a hint below is asked of more than that."""

    def f(x: torch.Tensor) -> torch.Tensor:
        x[start:end].neg_()
        return x * 2

    compiled = fxc.compile(f, (torch.arange(float(hint)),), dynamic_shapes=({0: Dim.DYNAMIC},))
    for size in (hint, 7, 8, 9, 10, 16, 17, 25, 2):
        x = torch.arange(float(size))
        y = x.clone()
        assert torch.equal(compiled(x), f(y)) and torch.equal(x, y)


@pytest.mark.slow
def test_the_symbolic_types_of_aotautograd_are_not_inferred_again(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred, infer = list[str](), TypeInference._inferred

    def recorded(self: TypeInference, op: Operation, *more: Any) -> Any:
        inferred.append(op.name)
        return infer(self, op, *more)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], -1, 4).transpose(0, 1).reshape(-1, x.shape[0] * 4).tanh()

    monkeypatch.setattr(TypeInference, "_inferred", recorded)
    torch._dynamo.reset()
    x = torch.randn(5, 6, 8)
    torch.testing.assert_close(
        torch.compile(function, backend="fxc", dynamic=True, options={"cache_plans": False})(x), function(x)
    )
    assert not {"torch.aten.tanh.default", "torch.aten.view.default", "torch.aten.clone.default"} & set(inferred), inferred
