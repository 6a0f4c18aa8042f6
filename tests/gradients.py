"""Gradients of IR: f and df of functions, run by the interpreter and checked against PyTorch's autograd in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

import fxc
from fxc.dialects.attributes.values import leaves
from fxc.dialects.autodiff import GradientAttr, SubgraphOp
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import clone_module
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes import load
from fxc.program.program import new_context

CONTEXT = new_context()
F64 = torch.float64


def functions(module: ModuleOp) -> dict[str, FuncOp]:
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}


def run(module: ModuleOp, *names: str, **options: Any) -> ModuleOp:
    for name in names:
        load(name)(**options).apply(CONTEXT, module)
        verify(module)
    return module


def whole(run_: Callable[..., Any], inputs: Sequence[Any]) -> ModuleOp:
    """A module whose @main is one subgraph: all of what ``run_`` computes."""
    program = fxc.capture(run_, tuple(inputs))
    module = clone_module(fxc.run_passes(program, "lower-to-torch").module)
    entry = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    return outlined(module, entry, [isinstance(x, torch.Tensor) and x.requires_grad for x in inputs])


def outlined(module: ModuleOp, entry: FuncOp, needs: Sequence[bool]) -> ModuleOp:
    block, last = entry.body.block, entry.body.block.last_op
    assert last is not None
    values = list(last.operands)
    if isinstance(last, OutputOp):
        values = [leaf for leaf in leaves(last.trees()[0]) if isinstance(leaf, SSAValue)]
    block.erase_op(last)
    block.add_op(ReturnOp(*values))
    marks = [DictionaryAttr({"fx.requires_grad": UnitAttr()} if need else {}) for need in needs]
    inputs, outputs = [a.type for a in block.args], [v.type for v in values]
    type = FunctionType.from_lists(inputs, outputs)
    entry.properties.update(
        {
            "sym_name": StringAttr("f"),
            "function_type": type,
            "arg_attrs": ArrayAttr(marks),
            "sym_visibility": StringAttr("private"),
        }
    )
    entry.properties.pop("res_attrs", None)
    entry.attributes.clear()
    main = Block(arg_types=inputs)
    call = SubgraphOp.of("f", main.args, outputs)
    main.add_ops([call, ReturnOp(*call.results)])
    module.body.block.add_op(FuncOp("main", type, Region(main)))
    verify(module)
    return module


def gradient_of(module: ModuleOp) -> tuple[str, GradientAttr]:
    op = next(op for op in functions(module)["main"].body.block.ops if isinstance(op, SubgraphOp))
    assert op.gradient is not None
    return op.callee.root_reference.data, op.gradient


def forward(module: ModuleOp, inputs: Sequence[Any], name: str = "f") -> list[Any]:
    with torch.no_grad():
        return ReferenceInterpreter(functions(module)).call(functions(module)[name], [_detached(x) for x in inputs])


def backward(
    module: ModuleOp, gradient: GradientAttr, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]
) -> dict[int, Any]:
    """Input index -> gradient, with undefined gradients for temporaries."""
    given = [cotangents[i] if i < len(cotangents) else None for i in gradient.indices("input_vjps")]
    given += [_detached(inputs[i]) for i in gradient.indices("captured_inputs")]
    given += [outputs[i] for i in gradient.indices("captured_outputs")]
    df = functions(module)[gradient.df.root_reference.data]
    with torch.no_grad():
        found = ReferenceInterpreter(functions(module)).call(df, given)
    return dict(zip(gradient.indices("output_vjps"), found, strict=True))


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def check(run_: Callable[..., Any], *inputs: Any, passes: Sequence[str] = (), seed: int = 0) -> ModuleOp:
    """The gradients of ``run_`` are eager's, and those of undefined cotangents too."""
    module = run(whole(run_, inputs), "differentiate", *passes)
    name, gradient = gradient_of(module)
    real = gradient.real_outputs.value.data
    torch.manual_seed(seed)
    expected = [x for x in tree_leaves(run_(*inputs)) if isinstance(x, torch.Tensor)]
    torch.manual_seed(seed)
    outputs = forward(module, inputs, name)
    assert real == len(expected)
    torch.testing.assert_close(outputs[:real], [x.detach() for x in expected], equal_nan=True)
    differentiable = [i for i, x in enumerate(expected) if x.requires_grad]
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(x.shape, dtype=x.dtype, generator=generator) if x.requires_grad else None for x in expected]
    leaves_ = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    for alone in [None, *(differentiable if len(differentiable) > 1 else [])]:
        given = [c if alone in (None, i) else None for i, c in enumerate(cotangents)]
        used = [i for i in differentiable if given[i] is not None]
        wanted = torch.autograd.grad(
            [expected[i] for i in used],
            [inputs[i] for i in leaves_],
            [given[i] for i in used],
            allow_unused=True,
            retain_graph=True,
        )
        found = backward(module, gradient, inputs, outputs, given)
        assert set(found) <= set(leaves_)
        for index, value in zip(leaves_, wanted, strict=True):
            if value is not None or found.get(index) is not None:
                zero = torch.zeros_like(inputs[index])
                actual = zero if found.get(index) is None else found[index]
                torch.testing.assert_close(actual, zero if value is None else value, msg=lambda m: f"input {index}: {m}")  # noqa: B023
    return module


def t(*shape: int, grad: bool = True, seed: int = 0, positive: bool = False) -> torch.Tensor:
    made = torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return (made.abs() + 0.5 if positive else made).requires_grad_(grad)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def bn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, train: bool) -> torch.Tensor:
    mean, var = torch.zeros(3, dtype=F64), torch.ones(3, dtype=F64)
    return F.batch_norm(x, None if train else mean, None if train else var, w, b, train)


def projected(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.view(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8)


CASES: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "diamond": (lambda x: torch.exp(x) * torch.sin(x) + x, (t(2, 3),)),
    "broadcast": (lambda x, y: x * y + y, (t(2, 3), t(3))),
    "broadcast scalar tensor": (lambda x, y: x / y, (t(2, 3), t(positive=True))),
    "duplicated output": (lambda x: (u := torch.tanh(x), u), (t(3),)),
    "output is input": (lambda x: (torch.exp(x) * x, x), (t(3),)),
    "same operand twice": (lambda x: x * x, (t(3),)),
    "integer argument": (lambda x, i: torch.index_select(x, 0, i).sin(), (t(4, 3), ints(0, 2, 2))),
    "gather": (lambda x, i: torch.gather(x, 1, i), (t(2, 3), torch.tensor([[0, 2], [1, 1]]))),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=0), (t(5, 3), torch.tensor([[0, 2], [1, 1]]))),
    "unused input": (lambda x, y: torch.sin(x), (t(3), t(3))),
    "input only compared": (lambda x, y: torch.where(y > 0, x, -x), (t(3), t(3))),
    "detach": (lambda x: x.detach() * x, (t(3),)),
    "no gradient wanted": (lambda x, y: x * y, (t(3), t(3, grad=False))),
    "split": (lambda x: (p := torch.split(x, 2), p[0].sin() * p[1])[1], (t(4, 3),)),
    "split, one used": (lambda x: torch.split(x, 2)[1].sin(), (t(4, 3),)),
    "split, all returned": (lambda x: list(torch.split(x, 2)), (t(4, 3),)),
    "unbind": (lambda x: torch.unbind(x)[1] * x.sum(), (t(4, 3),)),
    "cat": (lambda x, y: torch.cat([x, y, x]).exp(), (t(2, 3), t(1, 3))),
    "stack": (lambda x, y: torch.stack([x, y]).prod(0), (t(3), t(3, seed=1))),
    "max with indices": (lambda x: torch.max(x, 0)[0] * 2, (t(4, 3),)),
    "topk": (lambda x: torch.topk(x, 2), (t(5),)),
    "sort": (lambda x: torch.sort(x, dim=1).values.cumsum(1), (t(2, 5),)),
    "var_mean": (lambda x: torch.var_mean(x, 1), (t(2, 5),)),
    "sum expands": (lambda x: x.sum() * x, (t(2, 5),)),
    "mean and transpose": (lambda x: x.t().mean(0) + x.t().sum(0), (t(2, 5),)),
    "two layouts of one gradient": (lambda x: x.t().contiguous().sin().sum(0) + x.expand(3, 2, 5).sum((0, 2)), (t(2, 5),)),
    "linear": (lambda x, w, b: F.linear(x, w, b).relu(), (t(2, 3), t(4, 3), t(4))),
    "linear, three dimensions": (lambda x, w, b: F.linear(x, w, b), (t(2, 5, 3), t(4, 3), t(4))),
    "matmul, batched": (lambda x, y: torch.matmul(x, y.transpose(-1, -2)), (t(2, 3, 4, 5), t(3, 4, 5))),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), (t(2, 3, 4), t(2, 5, 4))),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), (t(2, 3, 7, 7), t(4, 3, 3, 3), t(4))),
    "max pool": (lambda x: F.max_pool2d(x, 2), (t(2, 3, 6, 6),)),
    "average pool": (lambda x: F.adaptive_avg_pool2d(x, (2, 2)), (t(2, 3, 6, 6),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (3,), w, b).sin(), (t(2, 3), t(3), t(3, seed=1))),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (t(2, 4, 3), t(4), t(4, seed=1))),
    "batch norm, training": (lambda x, w, b: bn(x, w, b, True), (t(4, 3, 2), t(3), t(3, seed=1))),
    "batch norm, evaluating": (lambda x, w, b: bn(x, w, b, False), (t(4, 3, 2), t(3), t(3, seed=1))),
    "softmax": (lambda x: F.softmax(x, -1) * F.log_softmax(x, 0), (t(3, 4),)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (t(1, 2, 4, 8), t(1, 2, 4, 8, seed=1), t(1, 2, 4, 8, seed=2)),
    ),
    "attention of one projection": (
        lambda x, w: projected(F.linear(x, w)),
        (t(2, 5, 8), t(24, 8)),
    ),
    "cross entropy": (lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1), (t(4, 3), ints(0, 2, 1, 1))),
    "losses": (lambda x, y: F.mse_loss(x, y) + F.huber_loss(x, y) + F.l1_loss(x, y), (t(3), t(3, seed=1))),
    "binary cross entropy": (lambda x, y: F.binary_cross_entropy_with_logits(x, y), (t(3), t(3, grad=False, positive=True))),
    "pointwise": (lambda x: F.gelu(x) + F.silu(x) + F.elu(x) + F.softplus(x) + x.abs() + x.clamp(-1, 1) + x**3, (t(7),)),
    "roots and logs": (lambda x: x.sqrt() + x.log() + x.rsqrt() + x.reciprocal() + x.log1p() + x.erf(), (t(7, positive=True),)),
    "norms": (lambda x: torch.linalg.vector_norm(x, 2, 1) + x.logsumexp(1) + x.std(1), (t(3, 4),)),
    "indexing": (lambda x: x[1:, ::2].sin() + x[:-1, None, 0], (t(3, 4),)),
    "index_put": (lambda x, v, i: x.index_put((i,), v, accumulate=True), (t(4, 3), t(2, 3), ints(1, 1))),
    "scatter": (lambda x, v, i: x.scatter_add(0, i, v), (t(4), t(3), ints(0, 0, 2))),
    "pad and roll": (lambda x: F.pad(x, (1, 2)).roll(1, 0).flip(1), (t(3, 4),)),
    "cumulative": (lambda x: x.cumsum(0) * x.cumprod(1), (t(3, 4),)),
    "dtype": (lambda x: (x.float() * 2).double().sin(), (t(3),)),
    "complex": (lambda x: torch.view_as_real(torch.fft.rfft(x)), (t(8),)),
    "triangular": (lambda x: x.tril() @ x.triu(1), (t(4, 4),)),
    "inverse": (lambda x: torch.linalg.inv(x @ x.t() + torch.eye(3, dtype=F64)), (t(3, 3),)),
    "prelu": (lambda x, w: F.prelu(x, w), (t(2, 3), t(3))),
    "bilinear resize": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (t(1, 2, 3, 3),)),
    "where and masked fill": (lambda x, y: torch.where(x > 0, x, y).masked_fill(x < -1, 0.0), (t(5), t(5, seed=1))),
    "comparison only": (lambda x: (x > 0, x.argmax()), (t(5),)),
    "size zero": (lambda x: x.sin().sum(0), (t(0, 3),)),
}  # fmt: skip
