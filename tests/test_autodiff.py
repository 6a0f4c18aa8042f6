"""Gradients of IR: f and df, run by the interpreter, against PyTorch's autograd in float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

import fxc
from fxc.dialects.autodiff import GradientAttr, SubgraphOp
from fxc.dialects.base.effects import aliases, is_pure
from fxc.dialects.text.syntax import clone_module, parse_module
from fxc.errors import InputError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.program.program import Program
from tests.gradients import (
    CASES,
    CONTEXT,
    F64,
    _detached,
    backward,
    check,
    forward,
    functions,
    gradient_of,
    outlined,
    run,
    t,
    whole,
)


@pytest.mark.share(3)
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_eagers(case: str) -> None:
    check(*[CASES[case][0]], *CASES[case][1])


class Runtime(ReferenceInterpreter):
    """Runs each subgraph as one node of eager's autograd: the contract of ``#autodiff.gradient`` in thirty lines."""

    def op(self, op: Any, env: Any) -> Sequence[Any]:
        if not isinstance(op, SubgraphOp) or op.gradient is None:
            return super().op(op, env)
        found = _Node.apply(self, op.callee.root_reference.data, op.gradient, *(env[value] for value in op.operands))
        return list(found)


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, runtime: Runtime, name: str, gradient: GradientAttr, *inputs: Any) -> tuple[Any, ...]:
        ctx.set_materialize_grads(False)
        outputs = runtime.call(runtime.functions[name], list(map(_detached, inputs)))
        ctx.runtime, ctx.gradient, ctx.count = runtime, gradient, len(inputs)
        ctx.captured = [inputs[i] for i in gradient.indices("captured_inputs")]
        ctx.captured += [outputs[i] for i in gradient.indices("captured_outputs")]
        real = gradient.real_outputs.value.data
        vjps = set(gradient.indices("input_vjps"))
        ctx.mark_non_differentiable(*(o for i, o in enumerate(outputs[:real]) if i not in vjps and isinstance(o, torch.Tensor)))
        return tuple(outputs[:real])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        gradient: GradientAttr = ctx.gradient
        given = [cotangents[i] if i < len(cotangents) else None for i in gradient.indices("input_vjps")]
        given = [None if g is None else g.contiguous() for g in given]
        df = ctx.runtime.functions[gradient.df.root_reference.data]
        found = ctx.runtime.call(df, [*given, *map(_detached, ctx.captured)])
        gradients = [None] * ctx.count
        for index, value in zip(gradient.indices("output_vjps"), found, strict=True):
            gradients[index] = value
        return (None, None, None, *gradients)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.mix = torch.nn.Linear(8, 24)
        self.out = torch.nn.Linear(8, 5)
        self.dropout = torch.nn.Dropout(0.3)

    def forward(self, tokens: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embedding(tokens)
        q, k, v = self.mix(self.norm(x)).chunk(3, dim=-1)
        x = x + self.dropout(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x.view(-1, 8)
        logits = self.out(F.gelu(x))
        return F.cross_entropy(logits, target), logits


REVERSE = ("create-autodiff-subgraphs", "differentiate")
DERIVED = ("lower-grad-of", "specialize-autograd-zero", "canonicalize", "cse", "dce")


@pytest.mark.parametrize("passes", [(), ("inline-autodiff-subgraphs",), DERIVED], ids=["grad_of", "inlined", "lowered"])
def test_a_network_trains_alike(passes: Sequence[str]) -> None:
    torch.manual_seed(0)
    net = Net().double()
    inputs = (torch.randint(0, 11, (2, 4)), torch.randint(0, 5, (8,)))
    program = fxc.run_passes(fxc.capture(net, inputs), "lower-to-torch")
    module = run(clone_module(program.module), *REVERSE, *passes)
    entry = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    assert any(isinstance(op, SubgraphOp) for op in entry.walk())
    names = [str(found.data["fx.name"].data) for found in entry.arg_attrs or () if found.data["fx.kind"].data != "input"]  # type: ignore[union-attr]
    torch.manual_seed(1)
    expected = net(*inputs)
    wanted = torch.autograd.grad([x.sum() for x in expected], list(net.parameters()))
    kinds = [found.data["fx.kind"].data for found in entry.arg_attrs or ()]  # type: ignore[union-attr]
    given, parameters = iter(inputs), iter(names)
    arguments = [next(given) if kind == "input" else net.get_parameter(next(parameters)) for kind in kinds]
    torch.manual_seed(1)
    actual = tree_leaves(Runtime(functions(module)).call(entry, arguments))
    torch.testing.assert_close(tuple(actual), expected)
    torch.testing.assert_close(torch.autograd.grad([x.sum() for x in actual], list(net.parameters())), wanted)


def test_a_mask_is_saved_not_drawn_again() -> None:
    module = check(lambda x: F.dropout(x, 0.5) * 2, t(50))
    name, gradient = gradient_of(module)
    df = functions(module)[gradient.df.root_reference.data]
    assert not any("bernoulli" in op.name or "dropout" in op.name for op in df.walk())
    assert sum("bernoulli" in op.name for op in functions(module)[name].walk()) == 1


COND = """
func.func private @f(%p: tensor<i1>, %x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %a = torch.aten.exp.default(%x) : (tensor<3xf64>) -> tensor<3xf64>
  %v = torch.higher_order.cond(%p, @t, @e, (%a, %y)) ({
  ^bb0(%u: tensor<3xf64>, %w: tensor<3xf64>):
    %z = torch.aten.mul.Tensor(%u, %w) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
    fx.output((%z,)) : (tensor<3xf64>) -> ()
  }, {
  ^bb0(%u: tensor<3xf64>, %w: tensor<3xf64>):
    %z = torch.aten.sin.default(%u) : (tensor<3xf64>) -> tensor<3xf64>
    fx.output((%z,)) : (tensor<3xf64>) -> ()
  }) : (tensor<i1>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  func.return %v : tensor<3xf64>
}
func.func @main(%p: tensor<i1>, %x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %v = autodiff.subgraph @f(%p, %x, %y) : (tensor<i1>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  func.return %v : tensor<3xf64>
}
"""


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_that_ran_is_differentiated(taken: bool) -> None:
    module = run(parse_module(CONTEXT, COND), "differentiate", *DERIVED)
    x, y, g = t(3), t(3, seed=1), t(3, seed=2, grad=False)
    name, gradient = gradient_of(module)
    inputs = (torch.tensor(taken), x, y)
    found = backward(module, gradient, inputs, forward(module, inputs, name), [g])
    value = x.exp() * y if taken else x.exp().sin()
    wanted = torch.autograd.grad(value, [x, y], g, allow_unused=True)
    torch.testing.assert_close(found[1], wanted[0])
    torch.testing.assert_close(found[2], torch.zeros_like(y) if wanted[1] is None else wanted[1])


def test_an_operator_of_the_user_has_the_derivative_that_it_registered() -> None:
    @torch.library.custom_op("fxc_test::scaled_exp", mutates_args=())
    def scaled_exp(x: torch.Tensor, by: float) -> torch.Tensor:
        return x.exp() * by

    scaled_exp.register_fake(lambda x, by: torch.empty_like(x))

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.by = inputs[1]
        ctx.save_for_backward(inputs[0])

    scaled_exp.register_autograd(
        lambda ctx, g: (torch.ops.fxc_test.scaled_exp(ctx.saved_tensors[0], ctx.by) * g, None), setup_context=save
    )
    module = check(lambda x: torch.ops.fxc_test.scaled_exp(x, 2.5) + x, t(4))
    assert "torch.operator @fxc_test.scaled_exp.default" in str(module)


@pytest.mark.parametrize("case", ["diamond", "broadcast", "layer norm", "linear", "split", "softmax", "cross entropy"])
def test_lowered_and_specialized_derivatives_are_the_same(case: str) -> None:
    check(CASES[case][0], *CASES[case][1], passes=DERIVED)


@pytest.mark.parametrize(
    "run_",
    [lambda x: x.exp().tanh(), lambda x: x * x.sin(), lambda x: (x @ x.t()).sum(0), lambda x: F.layer_norm(x, (3,)).sin()],
)
def test_second_derivatives(run_: Callable[..., Any]) -> None:
    x = t(3, 3)
    module = run(whole(run_, (x,)), "differentiate")
    name, gradient = gradient_of(module)
    y = run_(x)
    dy = torch.randn(y.shape, dtype=F64, generator=torch.Generator().manual_seed(5)).requires_grad_()
    (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
    ddx = torch.randn(x.shape, dtype=F64, generator=torch.Generator().manual_seed(6))
    wanted = torch.autograd.grad(dx, [dy, x], ddx)
    again, arguments = _second(module, gradient, [x], forward(module, [x], name), dy)
    inner, second = gradient_of(again)
    assert inner == "f"
    found = backward(again, second, arguments, forward(again, arguments), [ddx])
    torch.testing.assert_close(found[0], wanted[0])
    through_f = [None] * len(functions(module)[name].function_type.outputs)
    direct = torch.zeros_like(x)
    offset = len(gradient.indices("input_vjps"))
    for i, index in enumerate(gradient.indices("captured_inputs")):
        assert index == 0
        direct = direct + (found.get(offset + i) if found.get(offset + i) is not None else 0)
    offset += len(gradient.indices("captured_inputs"))
    for i, index in enumerate(gradient.indices("captured_outputs")):
        through_f[index] = found.get(offset + i)
    rest = backward(module, gradient, [x], forward(module, [x], name), through_f)
    torch.testing.assert_close(direct + (rest[0] if rest[0] is not None else 0), wanted[1])


def _second(
    module: ModuleOp, gradient: GradientAttr, inputs: Any, outputs: Any, dy: torch.Tensor
) -> tuple[ModuleOp, list[Any]]:
    """df as the whole of a program that is differentiated: its real gradient is there, those of temporaries are not."""
    copy = clone_module(module)
    df = functions(copy)[gradient.df.root_reference.data]
    marks = [
        DictionaryAttr({"autodiff.defined" if i < 1 else "autodiff.undefined": UnitAttr()})
        for i in range(len(gradient.indices("input_vjps")))
    ]
    marks += [DictionaryAttr({})] * (len(df.function_type.inputs) - len(marks))
    df.properties["arg_attrs"] = ArrayAttr(marks)
    for op in list(copy.body.block.ops):
        if op is not df:
            op.detach()
    run(copy, *DERIVED)
    vjps = len(gradient.indices("input_vjps"))
    arguments: list[Any] = [dy, *([None] * (vjps - 1)), *(inputs[i] for i in gradient.indices("captured_inputs"))]
    arguments += [outputs[i] for i in gradient.indices("captured_outputs")]
    vjp_or_input = [True] * (len(arguments) - len(gradient.indices("captured_outputs")))
    with_vjp = [*vjp_or_input, *(i in gradient.indices("input_vjps") for i in gradient.indices("captured_outputs"))]
    needs = [isinstance(a, torch.Tensor) and a.is_floating_point() and v for a, v in zip(arguments, with_vjp, strict=True)]
    return run(outlined(copy, df, needs), "differentiate"), arguments


@pytest.mark.parametrize(
    "case",
    ["diamond", "broadcast", "layer norm", "linear", "softmax", "split", "same operand twice", "comparison only"],
)
def test_tangents_are_torch_funcs(case: str) -> None:
    run_, inputs = CASES[case]
    module = run(whole(run_, inputs), "differentiate", mode="forward")
    name = next(op.attributes["autodiff.jvp"].root_reference.data for op in module.walk() if isinstance(op, SubgraphOp))  # type: ignore[attr-defined]
    primals = tuple(x.detach() for x in inputs)
    tangents = tuple(torch.randn(x.shape, dtype=F64, generator=torch.Generator().manual_seed(3)) for x in primals)
    wanted = torch.func.jvp(lambda *xs: tuple(tree_leaves(run_(*xs))), primals, tangents)
    found = ReferenceInterpreter(functions(module)).call(functions(module)[name], [*primals, *tangents])
    results = tree_leaves(wanted[0])
    differentiable = [i for i, r in enumerate(results) if r.is_floating_point()]
    torch.testing.assert_close(found[: len(results)], results)
    for value, index in zip(found[len(results) :], differentiable, strict=True):
        torch.testing.assert_close(value, tree_leaves(wanted[1])[index])


def test_an_operator_without_a_forward_derivative_is_named() -> None:
    run_, inputs = CASES["attention"]
    with pytest.raises(VerifyException, match=r"scaled_dot_product_attention.*cannot be differentiated"):
        run(whole(run_, inputs), "differentiate", mode="forward")


def test_slices_run_as_fx_and_keep_the_numbers() -> None:
    """The exported graph calls f as a submodule; the runner finds the same numbers before and after each pass."""
    torch.manual_seed(0)
    net = Net().double()
    inputs = (torch.randint(0, 11, (2, 4)), torch.randint(0, 5, (8,)))
    options = fxc.Options(check_numerics=True)
    program = fxc.run_passes(fxc.capture(net, inputs), ",".join(["lower-to-torch", *REVERSE]), options=options)
    graph = fxc.to_fx(program)
    assert sum(node.op == "call_module" for node in graph.graph.nodes) >= 1
    torch.manual_seed(3)
    expected = net(*inputs)
    torch.manual_seed(3)
    torch.testing.assert_close(graph(*inputs), expected)


def test_what_is_left_of_gradients_is_no_fx_graph() -> None:
    text = """func.func @main(%g: tensor<2xf32>) -> tensor<2xf32> {
  %s = autodiff.add(%g, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}"""
    with pytest.raises(InputError, match="specialize-autograd-zero"):
        fxc.to_fx(Program(parse_module(CONTEXT, text)))


GRADIENTS = """
func.func private @pure(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func private @draws(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.dropout.default(%x, 0.5, true) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func @main(%g: tensor<2xf32>, %h: tensor<2xf32>) {
  %a = autodiff.subgraph @pure(%g) : (tensor<2xf32>) -> tensor<2xf32>
  %b = autodiff.subgraph @draws(%g) : (tensor<2xf32>) -> tensor<2xf32>
  %c = autodiff.add(%g, %h) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %d = autodiff.grad_of "exp"(%g) ({
    autodiff.yield %g : tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(none) : () -> ()
}
"""


def test_effects_of_subgraphs_are_those_of_their_functions() -> None:
    """A subgraph that draws must run; the others, and the ops of gradients, may go, and may share memory with operands."""
    module = parse_module(CONTEXT, GRADIENTS)
    pure, draws, add, grad_of, _ = functions(module)["main"].body.block.ops
    assert [is_pure(op) for op in (pure, draws, add, grad_of)] == [True, False, True, True]
    assert list(aliases(add)) == [(0, add.operands[0]), (0, add.operands[1])]
    run(module, "dce")
    assert [op.name for op in functions(module)["main"].body.block.ops] == ["autodiff.subgraph", "fx.output"]


@pytest.mark.parametrize("present", [(), (0,), (1,), (0, 1)])
def test_ops_of_gradients_at_undefined_ones(present: Sequence[int]) -> None:
    text = """func.func @main(%g: tensor<2x3xf64>, %h: tensor<2x3xf64>) {
  %there = autodiff.any_nonzero(%g, %h) : (tensor<2x3xf64>, tensor<2x3xf64>) -> i1
  %s = autodiff.add(%g, %h) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %r = autodiff.sum_to_size(%g, [1, 3]) : (tensor<2x3xf64>) -> tensor<1x3xf64>
  %k = autodiff.sum_to_size(%h, none) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %m = autodiff.materialize(%g, [2, 3]) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  fx.output((%there, %s, %r, %k, %m)) : (i1, tensor<2x3xf64>, tensor<1x3xf64>, tensor<2x3xf64>, tensor<2x3xf64>) -> ()
}"""
    module = parse_module(CONTEXT, text)
    g, h = (t(2, 3, grad=False, seed=i) if i in present else None for i in range(2))
    there, s, r, k, m = ReferenceInterpreter({}).call(functions(module)["main"], [g, h])
    assert there is bool(present)
    total = g + h if g is not None and h is not None else g if g is not None else h
    zero = torch.zeros(2, 3, dtype=F64)
    expected = [total, None if g is None else g.sum(0, keepdim=True), h, zero if g is None else g]
    for actual, wanted in zip((s, r, k, m), expected, strict=True):
        assert (actual is None) == (wanted is None)
        if wanted is not None:
            torch.testing.assert_close(actual, wanted)


def test_sizes_that_are_not_known_before_the_program_runs() -> None:
    """One derivative for all sizes: what it must know of them is captured as numbers."""
    program = fxc.capture(
        lambda x, y: ((x + y).sum(), torch.var_mean(x, 1)),
        (t(4, 3), t(3)),
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC}, None),
    )
    module = clone_module(fxc.run_passes(program, "lower-to-torch").module)
    entry = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    run(outlined(module, entry, [True, True]), "differentiate")
    name, gradient = gradient_of(module)
    for rows in (2, 7):
        x, y = t(rows, 3), t(3)
        values = [(x + y).sum(), *torch.var_mean(x, 1)]
        given = [torch.randn(v.shape, dtype=F64) for v in values]
        wanted = torch.autograd.grad(values, [x, y], given)
        found = backward(module, gradient, [x, y], forward(module, [x, y], name), given)
        torch.testing.assert_close((found[0], found[1]), wanted)


def program(draw: random.Random) -> str:
    """A random program over tensors of one shape: what has derivatives, what is no torch op, what draws, and views."""
    type = "tensor<2x2xf64>"
    values, lines = ["x", "y"], list[str]()
    for i in range(draw.randrange(4, 14)):
        a, b = draw.choice(values[-4:]), draw.choice(values)
        call = draw.choice(
            [
                f"torch.aten.sin.default(%{a}) : ({type}) -> {type}",
                f"torch.aten.tanh.default(%{a}) : ({type}) -> {type}",
                f"torch.aten.mul.Tensor(%{a}, %{b}) : ({type}, {type}) -> {type}",
                f"torch.aten.add.Tensor(%{a}, %{b}) : ({type}, {type}) -> {type}",
                f"fx.call_function @operator.neg(%{a}) : ({type}) -> {type}",
                f"torch.aten.dropout.default(%{a}, 0.5, true) : ({type}) -> {type}",
                f"torch.aten.view.default(%{a}, [2, 2]) : ({type}) -> {type}",
                f"torch.aten.detach.default(%{a}) : ({type}) -> {type}",
                f"torch.aten.rand_like.default(%{a}) : ({type}) -> {type}",
            ]
        )
        lines.append(f"  %v{i} = {call}\n")
        values.append(f"v{i}")
    returned = [values[-1], *(value for value in values[2:-1] if draw.random() < 0.2)]
    types, names = ", ".join([type] * len(returned)), ", ".join(f"%{value}" for value in returned)
    return f"func.func @main(%x: {type}, %y: {type}) -> ({types}) {{\n{''.join(lines)}  func.return {names} : {types}\n}}\n"


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_in_slices(seed: int) -> None:
    """Slices keep values, draws and gradients, at any threshold."""
    draw = random.Random(seed)
    text = program(draw)
    before = parse_module(CONTEXT, text)
    after = run(parse_module(CONTEXT, text), "create-autodiff-subgraphs", threshold=draw.randrange(1, 4))
    run(after, "differentiate", *draw.choice([(), ("inline-autodiff-subgraphs",), DERIVED]))
    inputs = (t(2, 2), t(2, 2, seed=1))
    found = list[tuple[Any, Any]]()
    for runtime in (ReferenceInterpreter(functions(before)), Runtime(functions(after))):
        torch.manual_seed(seed)
        values = runtime.call(runtime.functions["main"], inputs)
        weighted = [(value * (i + 1)).sum() for i, value in enumerate(values) if value.requires_grad]
        gradients = torch.autograd.grad(weighted, inputs, allow_unused=True) if weighted else (None, None)
        zeros = map(torch.zeros_like, inputs)
        found.append((values, [z if g is None else g for g, z in zip(gradients, zeros, strict=True)]))
    torch.testing.assert_close(*[values for values, _ in found])
    torch.testing.assert_close(*[gradients for _, gradients in found])
