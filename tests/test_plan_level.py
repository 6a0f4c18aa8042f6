"""The plan level computes what the program did: values, what is left in arguments, and memory that no two buffers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.bridge.callables import BINDINGS, resolve_operator
from fxc.dialects.entry import public_functions
from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.verify.verifier import verify
from fxc.numerics.reference_run import ReferenceRun
from fxc.program.program import new_context
from tests.models.zoo import load
from tests.opinfo.suite import copies, operators, samples_of, trace
from tests.plan_programs import KERNELS, OPERATORS, PLAN, consumed, memory, ops, planned, run
from tests.random_modules import Sample
from tests.random_programs import graphs


def view_of_input(x: Tensor) -> Tensor:
    return x.view(-1)[2:]


def mutation(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y.exp())
    return x * 2


def mutation_returned(x: Tensor) -> tuple[Tensor, Tensor]:
    x.mul_(2)
    return x, x.sin()


def mutation_through_a_view(x: Tensor) -> Tensor:
    x[1:].mul_(3)
    return x.sum(-1)


def exchange(x: Tensor, y: Tensor) -> Tensor:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return kept + 1


def old_value(x: Tensor) -> tuple[Tensor, Tensor]:
    before = x.clone()
    x.zero_()
    return before, before.view(-1)


def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = (x.sin() * 2).exp()
    return y, y


def unused_results(x: Tensor) -> Tensor:
    return x.max(-1).values.exp() + x.topk(1).indices.squeeze(-1)


def products(x: Tensor, y: Tensor) -> Tensor:
    for _ in range(4):
        x = torch.relu(x @ y + 1).softmax(-1)
    return x


def parts(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b, c = (x * 2).chunk(3, -1)
    return a @ b.mT, torch.cat([a.exp(), c], -1).cumsum(-1)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) / 4).masked_fill(q.new_ones(4, 4).triu(1) > 0, -torch.inf).softmax(-1) @ v


def special(x: Tensor) -> tuple[Tensor, Tensor]:
    return (x * -1).exp().log1p().neg(), torch.where(x > 0, x.sqrt(), x).mm(torch.eye(3))


def nothing(x: Tensor) -> tuple[()]:
    x.exp()
    return ()


def of(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Callable[[], list[Tensor]]:
    def make() -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        if dtype.is_floating_point:
            return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
        return [torch.randint(0, 2, shape, generator=generator).to(dtype) for shape in shapes]

    return make


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]]]] = {
    "view of an input": (view_of_input, of((3, 4))),
    "view of a result": (lambda x: (x.sin() * 2).view(-1), of((3, 4))),
    "input returned": (lambda x: (x, x + 1), of((3,))),
    "the same twice": (twice, of((3, 4))),
    "nothing": (nothing, of((3,))),
    "mutation": (mutation, of((3, 4), (4,))),
    "mutation returned": (mutation_returned, of((3, 4))),
    "mutation through a view": (mutation_through_a_view, of((3, 4))),
    "exchange": (exchange, of((3, 4), (3, 4))),
    "old value": (old_value, of((3, 4))),
    "unused results": (unused_results, of((3, 4))),
    "products": (products, of((4, 8), (8, 8))),
    "empty products": (products, of((0, 8), (8, 8))),
    "products of nothing": (products, of((4, 0), (0, 0))),
    "size 1": (products, of((1, 1), (1, 1))),
    "double": (products, of((4, 8), (8, 8), dtype=torch.float64)),
    "bfloat16": (lambda x, y: ((x @ y) + 1).tanh() @ y, of((4, 8), (8, 8), dtype=torch.bfloat16)),
    "half": (lambda x: ((x * 2).cumsum(0) + 1).tanh(), of((4, 8), dtype=torch.float16)),
    "integers": (lambda x, y: ((x @ y) * 3 % 5).sort(-1), of((4, 8), (8, 8), dtype=torch.int64)),
    "booleans": (lambda x, y: (x | y.any(0)).logical_not().sum(), of((4, 8), (3, 8), dtype=torch.bool)),
    "0-d": (lambda x, y: ((x * y).exp() + x).atan2(y), of((), ())),
    "parts": (parts, of((2, 9))),
    "transposed": (lambda x: (x.t() @ x).t().exp().sum(0), lambda: [of((5, 3))()[0].t()]),
    "strided": (lambda x: (x.exp() + x).mm(x.new_ones(3, 2)), lambda: [of((4, 6))()[0][:, ::2]]),
    "expanded": (lambda x: (x + 1).exp().mm(x.t()), lambda: [of((1, 3))()[0].expand(4, 3)]),
    "attention": (attention, of((4, 4), (4, 4), (4, 4))),
    "special numbers": (special, lambda: [torch.tensor([[torch.nan, torch.inf, -0.0], [-torch.inf, 1e-45, 3e38], [0, 1, -1]])]),
    "dropout that is off": (lambda x: torch.nn.functional.dropout(x.exp(), training=False) @ x, of((4, 4))),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("pipeline", [OPERATORS, KERNELS], ids=["operators", "kernels"])
@pytest.mark.parametrize("name", CASES)
def test_results_and_arguments(name: str, pipeline: str) -> None:
    function, make = CASES[name]
    inputs, theirs = make(), make()
    program = planned(function, make(), pipeline)
    verify(program.module)
    actual, expected = run(program, inputs), tree_leaves(function(*theirs))
    torch.testing.assert_close(actual, expected, equal_nan=True)
    torch.testing.assert_close(inputs, theirs, equal_nan=True)
    check_memory(program.module)


def check_memory(module: ModuleOp) -> None:
    """What a plan says of its memory is between what must be and what would do without sharing."""
    for function in public_functions(module):
        if "plan.memory" in function.attributes:
            facts = memory(function)
            assert facts["lower_bound"] <= facts["peak"] <= facts["sum"]
            assert facts["arena"] <= facts["peak"]


def test_a_mutated_input_that_is_returned_is_the_input() -> None:
    [x] = of((3, 4))()
    returned, _ = run(planned(mutation_returned, [x.clone()]), [x])
    assert returned is x


def test_what_is_returned_is_not_in_an_arena() -> None:
    program = planned(products, of((4, 8), (8, 8))())
    [result] = run(program, inputs := of((4, 8), (8, 8))())
    arena = memory(program.main)["arena"]
    assert arena and result.untyped_storage().nbytes() == result.nbytes != arena
    kept = result.clone()
    run(program, inputs)
    torch.testing.assert_close(result, kept)


def test_kernels_work_in_place() -> None:
    program = planned(lambda x, y: ((x @ y).sin() * 2) @ y, of((4, 8), (8, 8))())
    [launch] = [op for op in program.module.walk() if isinstance(op, LaunchOp)]
    assert launch.outs[0] in launch.inputs
    # that of the kernel, which is its input's, and the result's
    assert memory(program.main)["sum"] == 2 * memory(program.main)["arena"]


def test_a_broadcast_input_is_not_written_over() -> None:
    program = planned(lambda x, y: ((y @ y)[:, :1] * 2 + (x @ y)) @ y, of((8, 8), (8, 8))())
    [launch] = [op for op in program.module.walk() if isinstance(op, LaunchOp)]
    [product] = [op for op in ops(program.module, "mm.out") if launch.outs[0] is op.operands[-1]]
    assert len(launch.inputs) == 2 and product.operands[0] is program.main.args[0]


def test_operators_write_into_buffers() -> None:
    program = planned(products, of((4, 8), (8, 8))(), OPERATORS)
    assert len(ops(program.module, "mm.out")) == 4 and not ops(program.module, "mm.default")
    assert len(ops(program.module, "_softmax.out")) == 4 and not ops(program.module, "_softmax.default")
    [result] = [op for op in ops(program.module, "plan.alloc") if op.arena is None]
    assert result.buffer in ops(program.module, "_softmax.out")[-1].operands, "what is returned is its own"


def test_text_and_effects() -> None:
    """A plan is text, and the passes that make graphs smaller leave it right."""
    program = planned(products, inputs := of((4, 8), (8, 8))())
    text = print_module(program.module)
    assert print_module(parse_module(new_context(), text)) == text
    after = fxc.run_passes(program, "canonicalize,cse,dce,constant-propagation,constant-pooling")
    torch.testing.assert_close(run(after, inputs), run(program, inputs), rtol=0, atol=0)
    assert len(ops(after.module, "plan.alloc")) == len(ops(program.module, "plan.alloc"))


def test_a_plan_whose_buffers_meet_is_refused() -> None:
    program = planned(parts, of((2, 9))())
    text = print_module(program.module)
    overlapping = text.replace("%arena[128]", "%arena[0]")
    assert overlapping != text
    with pytest.raises(Exception, match="which is still in use"):
        verify(parse_module(new_context(), overlapping))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "training"), [("mlp", False), ("mlp", True), ("cond", False), ("lstm", True)])
def test_models(name: str, training: bool) -> None:
    model, inputs = load(name)
    model.train(training)
    kernels = fxc.run_passes(fxc.capture(model, inputs), KERNELS)
    plan = fxc.run_passes(kernels, PLAN)
    before = ReferenceRun(kernels.state)(kernels.module, kernels.main)
    after = ReferenceRun(kernels.state)(plan.module, plan.main)
    torch.testing.assert_close(after.results, before.results, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(after.arguments, before.arguments, rtol=0, atol=0, equal_nan=True)
    check_memory(plan.module)
    assert not any(op.name == "tile.launch" for op in plan.main.body.block.ops)


def test_check_numerics() -> None:
    model, inputs = load("mlp")
    kernels = fxc.run_passes(fxc.capture(model, inputs), KERNELS)
    fxc.run_passes(kernels, "lower-to-plan", options=fxc.Options(check_numerics=True))


@given(sample=graphs(), seed=st.integers(0, 3))
@settings(max_examples=40)
def test_random_programs(sample: Sample, seed: int) -> None:
    """Each name that the plan makes is released once, or returned, and numbers are as before."""
    context = new_context()
    [function] = public_functions(sample.module)
    try:
        expected = ReferenceRun(seed=seed)(sample.module, function)
    except (RuntimeError, IndexError):
        return  # such as writing to an expanded tensor, which only the run finds out
    program = fxc.run_passes(fxc.program.program.Program(sample.module, {}, {}, context), f"lower-simple-tuples,{PLAN}")
    after = ReferenceRun(seed=seed)(program.module, program.main)
    torch.testing.assert_close(after.results, expected.results, equal_nan=True)
    torch.testing.assert_close(after.arguments, expected.arguments, equal_nan=True)
    check_memory(program.module)
    released = [value for op in program.module.walk() if isinstance(op, FreeOp) for value in op.values]
    assert len(set(released)) == len(released)
    for op in program.main.body.block.ops:
        if isinstance(op, AllocOp):
            assert op.buffer in released or any(use.operation.next_op is None for use in op.buffer.uses)


WITH_OVERLOADS = (
    "mm", "addmm", "baddbmm", "addmv", "sum", "mean", "amax", "cumsum", "topk", "max_reduction_with_dim", "gather", "cat",
    "clamp", "div_floor_rounding", "lerp", "softmax", "log_softmax", "tril", "scatter_add", "index_add", "sort",
    "nn_functional_avg_pool2d", "nn_functional_gelu", "nn_functional_softplus", "nn_functional_leaky_relu",
)  # fmt: skip


@pytest.mark.parametrize("name", WITH_OVERLOADS)
def test_operators_compute_the_same_into_buffers(name: str) -> None:
    """PyTorch's own samples of operators whose results stay inside: the same bits."""
    into_buffers = 0
    for sample in list(samples_of(operators()[name], dtypes=[torch.float32]))[:3]:
        program = fxc.run_passes(fxc.import_fx(consumed(trace(sample))), "lower-to-torch,lower-simple-tuples")
        plan = fxc.run_passes(program, PLAN)
        expected = run(program, copies(sample.tensors))
        torch.testing.assert_close(run(plan, copies(sample.tensors)), expected, rtol=0, atol=0, equal_nan=True)
        into_buffers += len(ops(plan.module, "plan.alloc"))
    assert into_buffers


def test_a_loss_that_uses_its_result_as_scratch_gets_no_buffer() -> None:
    loss = torch.nn.functional.binary_cross_entropy
    inputs = [torch.rand(5, 5), torch.rand(5, 5)]
    program = planned(lambda x, y: loss(x, y).exp() + x, inputs, "lower-to-torch")
    assert ops(program.module, "binary_cross_entropy.default")
    torch.testing.assert_close(run(program, inputs), [loss(*inputs).exp() + inputs[0]])


X, Y, B = torch.randn(3, 3), torch.randn(3, 3), torch.randn(3, 3, 3)

BOUND: dict[str, tuple[Any, ...]] = {
    "mm.default": (X, Y), "mm.out": (X, Y, {"out": X @ Y}), "bmm.default": (B, B), "bmm.out": (B, B, {"out": B @ B}),
    "addmm.default": (X, X, Y, {"beta": 2}), "addmm.out": (X, X, Y, {"out": X @ Y}),
    "baddbmm.default": (B, B, B, {"alpha": 2}), "baddbmm.out": (B, B, B, {"out": B @ B}),
    "convolution.default": (B, torch.ones(3, 3, 2), None, [1], [0], [1], False, [0], 1),
    "embedding.default": (X, torch.tensor([1, 0]), -1, False, False),
    "cat.default": ([X, Y], 1), "t.default": (X,), "transpose.int": (B, 0, 2), "permute.default": (B, [2, 0, 1]),
    "unsqueeze.default": (X, -1), "squeeze.dim": (X[None], 0), "select.int": (B, 1, -1),
    "as_strided.default": (X, [2], [1], 1),
}  # fmt: skip


class Calls(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators = list[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def test_functions_that_stand_for_operators() -> None:
    assert sorted(BINDINGS) == sorted(f"aten.{name}" for name in BOUND)
    for name, inputs in BOUND.items():
        args, kwargs = (inputs[:-1], inputs[-1]) if isinstance(inputs[-1], dict) else (inputs, {})
        with Calls() as calls:
            found = BINDINGS[f"aten.{name}"](*args, **kwargs)
        assert calls.operators == [f"aten.{name}"]
        torch.testing.assert_close(found, resolve_operator(f"aten.{name}")(*args, **kwargs))
