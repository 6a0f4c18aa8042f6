"""Views that composite operators return: what is written to an operand is seen in them, and the other way round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

import fxc
from tests.fuzz import check as programs

Arguments = Callable[[Tensor], tuple[Any, ...]]

VIEWS: dict[str, list[Arguments]] = {
    "_autocast_to_full_precision": [lambda x: (x, False, False)],
    "_autocast_to_reduced_precision": [lambda x: (x, False, False, torch.float16, torch.bfloat16)],
    "_cast_Float": [lambda x: (x,)],
    "_to_cpu": [lambda x: ([x, x[0]],)],
    "adjoint": [lambda x: (x,)],
    "alpha_dropout": [lambda x: (x, 0.5, False)],
    "atleast_1d": [lambda x: (x,), lambda x: (x[0, 0, 0],)],
    "atleast_1d.Sequence": [lambda x: ([x, x[0, 0, 0]],)],
    "atleast_2d": [lambda x: (x,), lambda x: (x[0, 0],)],
    "atleast_2d.Sequence": [lambda x: ([x, x[0, 0]],)],
    "atleast_3d": [lambda x: (x,), lambda x: (x[0],)],
    "atleast_3d.Sequence": [lambda x: ([x, x[0]],)],
    "broadcast_tensors": [lambda x: ([x, x[:1]],), lambda x: ([x],)],
    "broadcast_to": [lambda x: (x[:1], [2, 4, 4]), lambda x: (x, [2, 4, 4])],
    "cartesian_prod": [lambda x: ([x[0, 0]],)],
    "chunk": [lambda x: (x, 2, 1)],
    "conj": [lambda x: (x,)],
    "conj_physical": [lambda x: (x,)],
    "contiguous": [lambda x: (x,), lambda x: (x.mT,)],
    "dropout": [lambda x: (x, 0.5, False)],
    "dsplit.array": [lambda x: (x, [1, 2])],
    "dsplit.int": [lambda x: (x, 2)],
    "einsum": [lambda x: ("ijk->kij", [x]), lambda x: ("iij->ij", [x[:, :2]])],
    "expand_as": [lambda x: (x[:1], x), lambda x: (x, x)],
    "feature_alpha_dropout": [lambda x: (x, 0.5, False)],
    "feature_dropout": [lambda x: (x, 0.5, False)],
    "flatten.using_ints": [lambda x: (x, 1, 2), lambda x: (x.mT, 1, 2)],
    "hsplit.array": [lambda x: (x, [1, 2])],
    "hsplit.int": [lambda x: (x, 2)],
    "linalg_diagonal": [lambda x: (x,)],
    "mH": [lambda x: (x,)],
    "mT": [lambda x: (x,)],
    "matrix_H": [lambda x: (x[0],)],
    "meshgrid": [lambda x: ([x[0, 0], x[0, 1]],)],
    "meshgrid.indexing": [lambda x: ([x[0, 0], x[0, 1]], {"indexing": "xy"}), lambda x: ([x[0, 0]], {"indexing": "ij"})],
    "moveaxis.int": [lambda x: (x, 0, 2)],
    "moveaxis.intlist": [lambda x: (x, [0, 1], [1, 2])],
    "movedim.int": [lambda x: (x, 0, 2)],
    "movedim.intlist": [lambda x: (x, [0, 1], [1, 2])],
    "narrow": [lambda x: (x, 1, 1, 2)],
    "numpy_T": [lambda x: (x[0],)],
    "positive": [lambda x: (x,)],
    "ravel": [lambda x: (x,), lambda x: (x.mT,)],
    "real": [lambda x: (x,), lambda x: (torch.view_as_complex(x.view(2, 4, 2, 2)),)],
    "imag": [lambda x: (torch.view_as_complex(x.view(2, 4, 2, 2)),)],
    "reshape": [lambda x: (x, [4, 8]), lambda x: (x.mT, [4, 8])],
    "reshape_as": [lambda x: (x, x.view(4, 8))],
    "resolve_conj": [lambda x: (x,)],
    "resolve_neg": [lambda x: (x,)],
    "split.sizes": [lambda x: (x, [1, 3], 1)],
    "sum_to_size": [lambda x: (x, [2, 4, 4]), lambda x: (x, [1, 4, 4]), lambda x: (x[:1], [4, 4])],
    "swapaxes": [lambda x: (x, 0, 1)],
    "swapdims": [lambda x: (x, 0, 1)],
    "tensor_split.indices": [lambda x: (x, [1, 3], 1)],
    "tensor_split.sections": [lambda x: (x, 3, 1)],
    "to.device": [lambda x: (x, "cpu", torch.float32), lambda x: (x, "cpu", torch.float64)],
    "to.dtype": [lambda x: (x, torch.float32), lambda x: (x, torch.float64)],
    "to.dtype_layout": [lambda x: (x,)],
    "to.other": [lambda x: (x, x[0])],
    "type_as": [lambda x: (x, x[0]), lambda x: (x, x.double())],
    "unflatten.int": [lambda x: (x, 1, [2, 2])],
    "unflatten_dense_tensors": [lambda x: (x.view(-1), [x[0], x[1]])],
    "view_as": [lambda x: (x, x.view(4, 8))],
    "vsplit.array": [lambda x: (x, [1])],
    "vsplit.int": [lambda x: (x, 2)],
}  # fmt: skip
"""Composite operators of ``aten`` that may return a view -> their arguments, made of an operand."""

UNSAFE: dict[str, list[Arguments]] = {
    "_unsafe_view": [lambda x: (x, [4, 8])],
    "unsafe_chunk": [lambda x: (x, 2, 1)],
    "unsafe_split.Tensor": [lambda x: (x, 2, 1)],
    "unsafe_split_with_sizes": [lambda x: (x, [1, 3], 1)],
}
"""Operators that return views which autograd, and so AOTAutograd, takes for tensors in memory of their own."""

ELSEWHERE = {
    "_batch_norm_impl_index": "no view: writes to running statistics",
    "batch_norm": "no view: writes to running statistics",
    "_unpack_dual": "for forward-mode derivatives",
    "coalesce": "for sparse tensors",
    "pin_memory": "for GPUs",
    **dict.fromkeys(
        [
            "align_to", "align_to.ellipsis_idx", "diagonal.Dimname", "flatten.DimnameList", "flatten.named_out_dim",
            "flatten.using_names", "refine_names", "rename", "select.Dimname", "squeeze.dimname", "transpose.Dimname",
            "unbind.Dimname", "unflatten.Dimname",
        ],
        "for named tensors, which PyTorch has before 2.13",
    ),
}  # fmt: skip

DATA_DEPENDENT: dict[str, list[Arguments]] = {
    "narrow.Tensor": [lambda x: (x, 1, torch.tensor(1), 2)],
    "tensor_split.tensor_indices_or_sections": [lambda x: (x, torch.tensor([1, 3]), 1)],
}
"""Those whose result has sizes or places given by data: torch.export cannot capture some of their writes for training."""

ALL = {**VIEWS, **UNSAFE, **DATA_DEPENDENT}
WAYS = ("ahead", "compiled", "training")
CASES = [
    pytest.param(name, place, how, id=f"{name}-{place}-{how}")
    for table, ways in ((VIEWS, WAYS), (DATA_DEPENDENT, WAYS[:2]), (UNSAFE, WAYS[:1]))
    for name, found in table.items()
    for place in range(len(found))
    for how in ways
]


def overload(name: str) -> torch._ops.OpOverload:
    packet, _, rest = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), rest or "default")


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def is_writable(value: Tensor) -> bool:
    return not any(step == 0 and size > 1 for size, step in zip(value.shape, value.stride(), strict=True))


def called(name: str, place: int, x: Tensor) -> list[Tensor]:
    args = ALL[name][place](x)
    keywords = args[-1] if isinstance(args[-1], dict) else {}
    return tensors(overload(name)(*args[: len(args) - bool(keywords)], **keywords))


def operand_written(name: str, place: int) -> Callable[[Tensor], Any]:
    def run(given: Tensor) -> Any:
        x = given * 1
        views = called(name, place, x)
        early = [view + 1 for view in views]
        x.unsqueeze(0).mul_(2)
        return x, views, early, [view * 3 for view in views]

    return run


def result_written(name: str, place: int) -> Callable[[Tensor], Any]:
    def run(given: Tensor) -> Any:
        x = given * 1
        views = called(name, place, x)
        written = [view for view in views if is_writable(view)]
        for count, view in enumerate(written):
            view.view_as(view).mul_(count + 2)
        return x, views, x * 3

    return run


def input_written(name: str, place: int) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Any:
        views = called(name, place, x)
        x.unsqueeze(0).mul_(2)
        return views

    return run


def test_no_composite_operator_is_forgotten() -> None:
    key, found = torch._C.DispatchKey.CompositeImplicitAutograd, set[str]()
    for each in torch._C._dispatch_get_all_op_names():
        name = each.removeprefix("aten::")
        if name == each or not torch._C._dispatch_has_kernel_for_dispatch_key(each, key):
            continue
        if not hasattr(torch.ops.aten, name.partition(".")[0]):
            continue
        schema, tags = overload(name)._schema, overload(name).tags
        is_told = any(value.alias_info for value in schema.returns) or torch.Tag.maybe_aliasing_or_mutating in tags
        if is_told and not schema.is_mutable:
            found.add(name)
    assert found <= ALL.keys() | ELSEWHERE.keys()


def check(run: Any, mine: Tensor, expected: Any, eager: Tensor) -> None:
    got = run(mine)
    assert_close((got, mine), (expected, eager))
    if mine.requires_grad:
        for results in (got, expected):
            sum(each.abs().square().sum() for each in tensors(results) if each.requires_grad).backward()
        assert_close(mine.grad, eager.grad)


@pytest.mark.share(24)
@pytest.mark.parametrize("make", [operand_written, result_written, input_written])
@pytest.mark.parametrize(("name", "place", "how"), CASES)
def test_writes_reach_views(name: str, place: int, make: Callable[..., Any], how: str, tmp_path: Path) -> None:
    function = make(name, place)

    def start() -> Tensor:
        x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
        return x.requires_grad_(how == "training" and make is not input_written)

    mine, eager = start(), start()
    try:
        expected = function(eager)
    except RuntimeError as error:
        assert "multiple views" in str(error)  # autograd refuses to write to one of several views
        return
    run: Any
    if how == "compiled":
        torch._dynamo.reset()
        run = torch.compile(function, backend="fxc")
    else:
        run = fxc.compile(function, (start(),), training=how == "training")
    check(run, mine, expected, eager)
    if how == "ahead":
        run.plan.save(tmp_path / "plan")
        check(fxc.ExecutionPlan.load(tmp_path / "plan"), start(), expected, eager)


def test_writes_beside_a_tensor_without_strides() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 1
        dense = y.to_sparse().to_dense()
        y.mul_(2)
        return dense + y

    x = torch.randn(3, 3)
    assert_close(fxc.compile(function, (x,))(x), function(x))


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("mode", ["static", "training", "compile", "dynamic", "dynamic_shapes", "frozen", "saved"])
def test_a_dropout_of_nothing_lies_as_its_operand(mode: str) -> None:
    """PyTorch's decomposition copies, and a copy has no gaps: what follows would be a view of it, or no copy."""

    def copied(x: Tensor) -> tuple[Tensor, ...]:
        x.mul_(2)
        return (F.dropout(x, 0.0).contiguous(), F.dropout(x, 0.5, False), F.alpha_dropout(x, 0.5, False))

    def reshaped(x: Tensor) -> tuple[Tensor, ...]:
        wide = F.dropout(x.expand(3, *x.shape), 0.5, False)
        return (wide.reshape(-1), wide.sum(1), (wide @ torch.ones(x.shape[1], 2)))

    def given(n: int = 5, m: int = 4) -> list[Tensor]:
        return [torch.arange(4.0 * n).reshape(n, 4)[:, ::2]]

    for f in (copied, reshaped):
        programs.check(mode, f, given, sizes=((5, 4), (3, 4)) if mode.startswith("dynamic") else ((),))
