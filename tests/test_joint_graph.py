"""Joint graphs of forward and backward: their text, their marks, and what torch.compile makes of them."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import fxc
import fxc.torch_compile
from fxc.dialects.autodiff import HELD, RECOMPUTED, SAVED
from fxc.dialects.entry import argument_attributes
from fxc.errors import CaptureError, FallbackWarning
from fxc.export.joint_modules import _part
from fxc.passes.joint.split_joint import split_joint
from fxc.program.program import Program
from fxc.torch_compile import capture_joint
from tests.models.zoo import ZOO, load, resize_batch


@pytest.fixture(autouse=True)
def fresh() -> Generator[None, None, None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The joint programs that torch.compile imports in the test, as they are before the passes."""
    found, plain = list[Program](), fxc.torch_compile.import_joint

    def record(joint: torch.fx.GraphModule, forward_results: int, held: Collection[int]) -> Program:
        program = plain(joint, forward_results, held)
        found.append(program.copy())
        return program

    monkeypatch.setattr(fxc.torch_compile, "import_joint", record)
    return found


def weigh(results: Any) -> Tensor:
    """A loss with another weight for each element."""
    tensors = [leaf for leaf in tree_leaves(results) if isinstance(leaf, Tensor) and leaf.requires_grad]
    return torch.stack([(t.float() * torch.linspace(0.5, 1.5, t.numel()).view(t.shape)).sum() for t in tensors]).sum()


def train_both(model: Any, *calls: Sequence[Any], dynamic: bool | None = None, **tolerances: float) -> None:
    """Compare results, gradients and buffers of ``model`` in eager mode and compiled, for each of ``calls``."""
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="fxc", dynamic=dynamic)
    for inputs in calls:
        given = [copy.deepcopy(inputs) for _ in range(2)]
        results = list[Any]()
        for call, args in zip((compiled, twin), given, strict=True):
            torch.manual_seed(1)
            results.append(call(*args))
            weigh(results[-1]).backward()
        assert_close(*results, **tolerances)
        assert_close(*([leaf.grad for leaf in tree_leaves(args) if isinstance(leaf, Tensor)] for args in given), **tolerances)
        assert_close(given[0], given[1], **tolerances)
    if isinstance(model, nn.Module):
        for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
            assert_close(p.grad, q.grad, msg=lambda text, name=name: f"{name}: {text}", **tolerances)
        assert_close(list(model.buffers()), list(twin.buffers()), **tolerances)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def parts_of(program: Program) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward and the backward of a split program, run by PyTorch."""
    forward, backward = (_part(program, name) for name in ("forward", "backward"))
    return fxc.to_fx(forward), fxc.to_fx(backward)


# text


def marked(model: Callable[..., Any], *args: Any) -> Program:
    program = capture_joint(model, args)
    return fxc.run_passes(program, "lower-to-torch,partition-default")


def gated(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(torch.sigmoid(x @ w).exp()).sin()


def checkpointed(x: Tensor, w: Tensor) -> Tensor:
    return checkpoint(lambda x: torch.dropout(torch.tanh(x @ w), 0.5, True), x, use_reentrant=False)


@pytest.mark.parametrize("model", [gated, checkpointed])
@pytest.mark.parametrize("pipeline", ["", "lower-to-torch,partition-default", "joint"])
def test_text_round_trip(model: Callable[..., Any], pipeline: str) -> None:
    program = capture_joint(model, (leaf(4, 8), leaf(8, 8)))
    if pipeline:
        program = fxc.run_passes(program, pipeline)
    for debuginfo in (False, True):
        text = program.text(debuginfo=debuginfo)
        assert Program.parse(text).text(debuginfo=debuginfo) == text
    assert Program.parse(program.text(generic=True)).text() == program.text()


class Layer(nn.Module):
    """Inputs in a list, a nested parameter, and an input whose name is that of an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4, bias=False))

    def forward(self, pair: list[Tensor], sigmoid: Tensor) -> Tensor:
        return torch.sigmoid(self.inner(pair[0] * pair[1])) * sigmoid


def test_arguments_and_modules_are_named_as_in_the_code() -> None:
    texts = set[str]()
    for _ in range(2):
        torch._dynamo.reset()
        program = capture_joint(Layer(), ([torch.ones(2, 4), torch.ones(2, 4)], torch.ones(4)))
        texts.add(program.text(debuginfo=True))
        assert [value._name for value in program.main.args] == ["pair_0", "pair_1", "inner_0_weight", "primals_4", "tangents_1"]
    assert len(texts) == 1 and "\"L['self'].inner\"(\"L['self'].inner\"" in texts.pop()


def test_edited_marks_are_obeyed() -> None:
    x, w = leaf(4, 8), leaf(8, 8)
    text = marked(gated, x, w).text()
    expected = gated(x, w)
    gradients = torch.autograd.grad(expected, [x, w], torch.ones(4, 8))
    saved = [line for line in text.splitlines() if SAVED in line]
    assert [re.findall(r"aten\.(\w+)", line)[0] for line in saved] == ["sigmoid", "exp", "tanh"]
    edited = [text]
    for line in saved[1:]:
        edited.append(edited[-1].replace(line, re.sub(r"autodiff.saved = array<i64: 0>", RECOMPUTED, line)))
    counts = list[int]()
    for each in edited:
        forward, backward = parts_of(fxc.run_passes(Program.parse(each), "split-joint"))
        result, *kept = forward(x.detach(), w.detach())
        counts.append(len(kept))
        assert_close(result, expected.detach())
        assert_close(tuple(backward(*kept, torch.ones(4, 8))), gradients)
    assert counts == [5, 4, 3]


def test_a_mark_that_is_missing_is_one_error() -> None:
    text = marked(gated, leaf(4, 8), leaf(8, 8)).text().replace("{autodiff.saved = array<i64: 0>} ", "", 1)
    with pytest.raises(fxc.errors.PassError, match=r"the backward reads %sigmoid, which is not marked autodiff\.saved"):
        fxc.run_passes(Program.parse(text), "split-joint")


def test_a_model_without_gradients_is_one_error() -> None:
    with pytest.raises(CaptureError, match="no result of the model requires a gradient"):
        capture_joint(torch.sin, (torch.randn(3),))


def test_a_graph_break_is_one_error_with_its_line() -> None:
    def model(x: Tensor) -> Tensor:
        raise ValueError("a reason")

    for capture in (capture_joint, lambda model, args: fxc.capture(model, args, route="dynamo")):
        with pytest.raises(CaptureError, match=r"ValueError\('a reason'\)") as caught:
            capture(model, (leaf(3),))
        assert caught.value.place is not None and "test_joint_graph.py" in caught.value.place


# torch.compile


@pytest.mark.slow
@pytest.mark.share(24)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", [name for name, entry in ZOO.items() if entry.dynamo])
def test_models_train(name: str, dynamic: bool, imported: list[Program]) -> None:
    """With a dynamic batch, one graph serves all sizes. Batches of 2 or 3 would have the symbol of heads or channels."""
    model, inputs = load(name)
    calls = [resize_batch(name, inputs, size) for size in (4, 3)] if dynamic else [inputs]
    with torch._dynamo.config.patch(error_on_recompile=name != "cond"):  # in eager mode, torch.cond compiles by itself
        train_both(model.train(), *calls, dynamic=dynamic, rtol=1e-3, atol=2e-4)
    assert imported


def test_check_numerics_runs_both_parts_of_a_split(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """A random operator that is recomputed without the state of the generator is named."""

    def model(x: Tensor, buffer: Tensor) -> Tensor:
        buffer.add_(1)
        return checkpoint(lambda x: torch.dropout(torch.tanh(x * buffer), 0.5, True), x, use_reentrant=False)

    def compiled() -> Any:
        torch._dynamo.reset()
        options = {"check_numerics": True, "target": None}
        return torch.compile(model, backend="fxc", options=options)(leaf(4, 8), torch.ones(8))

    compiled().sum().backward()
    assert "is not checked" not in capfd.readouterr().err

    def sampled_again(op: Any, state: Any, block: Any, values: Any) -> None:
        block.add_op(split_joint.copy_op(op, values))

    monkeypatch.setattr(split_joint, "run_with_state", sampled_again)
    with pytest.raises(BackendCompilerFailed, match="NumericsError: pass split-joint changes the numbers of @main"):
        compiled()


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_checkpoints_with_dropout(dynamic: bool, imported: list[Program]) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.5)) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            for block in self.blocks:
                x = x + checkpoint(block, x, use_reentrant=False)
            return x

    train_both(Model(), (leaf(4, 8),), (leaf(6, 8),), dynamic=dynamic)
    assert RECOMPUTED in str(imported[0])
    split = fxc.run_passes(imported[0], "joint")
    assert str(split).count("run_and_save_rng_state") == str(split).count("run_with_rng_state") == 3


def test_selective_checkpoints(imported: list[Program]) -> None:
    from functools import partial

    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    context = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def model(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(lambda x: torch.tanh(x @ w).exp() @ w, x, use_reentrant=False, context_fn=context)

    train_both(model, (leaf(4, 8), leaf(8, 8)))
    lines = str(imported[0]).splitlines()
    assert any("aten.mm" in line and SAVED in line for line in lines)
    assert any("aten.tanh.default" in line and RECOMPUTED in line for line in lines)


@pytest.mark.slow
def test_cond(imported: list[Program]) -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x, y: x.sin() * y, lambda x, y: x.cos() - y, (x, y)) * x

    train_both(model, (leaf(4), leaf(4)), ((-torch.ones(4)).requires_grad_(), leaf(4)))
    assert imported


def test_buffers_that_the_model_writes(imported: list[Program]) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.norm(self.linear(x)) * self.scale.clone()
            self.scale.mul_(1.5)
            return y * self.scale.clone()

    train_both(Model(), (leaf(8, 4),), (leaf(8, 4),), rtol=1e-3, atol=1e-4)
    assert imported


def test_an_input_that_is_written(imported: list[Program]) -> None:
    def model(x: Tensor, y: Tensor, count: Tensor) -> Tensor:
        z = x.clone() * y * count.clone()
        x.mul_(2.0)
        with torch.no_grad():
            count.add_(1)
        return z * x

    gradients = list[Any]()
    for call in (model, torch.compile(model, backend="fxc")):
        torch.manual_seed(1)
        x, y, count = leaf(4), leaf(4), torch.ones(4)
        written = x * 1.0
        gradients.append((call(written, y, count).sum() + written.sin().sum(), written, count))
        gradients[-1] += torch.autograd.grad(gradients[-1][0], [x, y])
    assert_close(*gradients)
    assert "autodiff.written" in str(imported[0])


def test_results_that_are_views_of_inputs(imported: list[Program]) -> None:
    train_both(lambda x, y: (x.view(-1), x[0] * y, y.t()), (leaf(4, 3), leaf(3, 3)))
    assert imported


def test_a_view_of_a_written_input_is_left_to_pytorch(imported: list[Program]) -> None:
    def model(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(2.0)
        return x.view(-1), (x * y).exp()

    train_both(model, (torch.randn(2, 2), leaf(2, 2)))
    assert not imported


class Scaled(torch.autograd.Function):
    """Saves a value that the forward does not return, and writes a buffer in the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: Tensor) -> Tensor:
        ctx.save_for_backward(x.cos(), count)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        cosine, count = ctx.saved_tensors
        count.add_(1)
        return gradients[0] * cosine * 3, None


def test_a_custom_function(imported: list[Program]) -> None:
    train_both(lambda x, count: Scaled.apply(x * 2, count) * 2, (leaf(4), torch.zeros(1)))
    assert imported


class Counted(Scaled):
    """Writes the buffer in the forward, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: Tensor) -> Tensor:
        count.mul_(3)
        ctx.save_for_backward(x.cos())
        ctx.count = count
        return x.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.count.add_(1)
        return gradients[0] * ctx.saved_tensors[0], None


def test_writes_in_both_parts() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return Counted.apply(x * 2, self.count) * 2

    train_both(Model(), (leaf(4),), (leaf(4),))


def test_regions_of_the_user(imported: list[Program]) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        @torch.compiler.nested_compile_region
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(self.linear(x)).exp()

    train_both(nn.Sequential(Block(), Block()), (leaf(4, 8),))
    assert "invoke_subgraph" in str(imported[0])


def test_hooks_of_saved_tensors() -> None:
    pack, unpack = (torch.fx.symbolic_trace(lambda x, factor=factor: x * factor) for factor in (4.0, 0.25))
    x = leaf(4, 8)
    compiled = torch.compile(lambda x: x.sin().exp() * 2, backend="fxc")
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = compiled(x)
    [gradient] = torch.autograd.grad(result.sum(), x)
    assert_close(gradient, x.sin().exp() * 2 * x.cos())


def test_autocast(imported: list[Program]) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.second(torch.tanh(self.first(x))).float()

    train_both(Model(), (leaf(4, 8),), rtol=2e-2, atol=2e-2)
    assert imported


@pytest.mark.slow
def test_only_sizes_are_read(imported: list[Program]) -> None:
    def model(x: Tensor) -> Tensor:
        return (x * 2).exp().sum(0) + (x.sin() * 3).mean()

    train_both(model, (leaf(4, 3),), (leaf(5, 3),), dynamic=True)
    split = fxc.run_passes(imported[0], "joint")
    assert "!torch.int" in str(split)


def test_a_random_backward(imported: list[Program]) -> None:
    train_both(lambda x: torch.dropout(torch.nn.functional.rrelu(x, training=True), 0.3, True).exp(), (leaf(64),))
    assert imported


def test_parameters_are_held_by_the_caller(imported: list[Program]) -> None:
    model = torch.nn.Linear(4, 4)
    torch.compile(model, backend="fxc")(torch.rand(2, 4)).sum().backward()
    [program] = imported
    held = [arg for arg, mark in zip(program.main.args, argument_attributes(program.main), strict=True) if HELD in mark.data]
    assert len(held) == len(list(model.parameters()))
