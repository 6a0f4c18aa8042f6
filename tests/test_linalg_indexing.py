"""Gathers, scatters and tensors put together of others: as loops and as kernels, on every engine, they equal eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.dialects.base.effects import aliases
from fxc.dialects.fusion import GroupOp
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.tile import KernelOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.errors import BoundsError
from fxc.passes.operators import accumulating, assembling, indexing, views
from tests.kernel_engines import ENGINES, kernels_for
from tests.kernel_groups import CONTEXT, LINALG, Call, GroupBuilder, Recorder, calls_of, group_of, run_main, run_passes, samples

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
OF_MANY_UPDATES = accumulating.RECORDS["aten.scatter_reduce.two"]
OF_INDICES = (indexing, assembling, accumulating, views)
COVERED = {name for family in OF_INDICES for name, record in family.RECORDS.items() if record != OF_MANY_UPDATES}
TARGETS = {"interpreter": "cpu", "simulator": "cuda:sm_80", "native": "cpu:avx2", "gpu": "cuda:sm_90"}
"""What kernels are made for, that an engine runs."""

EAGER = (IndexError, RuntimeError)


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    made = torch.randn(shape, generator=generator) * 4
    return made > 0 if dtype == torch.bool else made.to(dtype)


def indices(size: int, *shape: int, seed: int = 0, low: int = 0) -> torch.Tensor:
    return torch.randint(low, size, shape, generator=torch.Generator().manual_seed(seed + size))


def equal(result: torch.Tensor, expected: torch.Tensor) -> None:
    assert result.stride() == expected.stride() or expected.numel() <= 1
    torch.testing.assert_close(result, expected, equal_nan=True)


def compare(
    module: ModuleOp, arguments: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], engines: Sequence[str]
) -> bool:
    """Compare the loops of a module of one group, and its kernels on ``engines``, with ``outputs``; whether there are any."""
    kernels = {engine: kernels_for(module, TARGETS[engine]) for engine in engines}
    if not run_passes(module, LINALG)["groups converted"]:
        assert not any(kernels.values())
        return False
    assert parse_module(CONTEXT, print_module(module)).is_structurally_equivalent(module)
    for result, expected in zip(run_main(module, arguments), outputs, strict=True):
        equal(result, expected)
    for name, made in kernels.items():
        assert made is not None
        for result, expected in zip(made.run(ENGINES[name], arguments), outputs, strict=True):
            equal(result, expected)
    return True


def module_of_call(call: Call) -> tuple[ModuleOp, list[torch.Tensor], list[torch.Tensor]]:
    """A group of ``call``, and of a copy of each result that is a view; what it takes, and what eager gives."""
    builder, outputs = GroupBuilder(), list(call.result) if isinstance(call.result, (tuple, list)) else [call.result]
    if any(aliases(builder.call(call))):
        copies = Recorder()
        with copies:
            outputs = [output.clone(memory_format=torch.contiguous_format) for output in outputs]
        for copy in copies.calls:
            builder.call(copy)
    return builder.module(outputs), builder.arguments, outputs


def names_of(op: Any) -> set[str]:
    return {op.name.split(".")[-1], op.aten_name}


OPERATORS = sorted(
    {
        op.name
        for op in op_db
        if names_of(op) & {name.split(".")[1] for name in COVERED if "_copy" not in name}
        or op.name in ("nn.functional.pad", "hstack", "take_along_dim")
    }
)


def is_view(op: Any) -> bool:
    return not names_of(op) & {name.split(".")[1] for family in OF_INDICES[:3] for name in family.RECORDS}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", OPERATORS)
def test_samples_of_pytorch(name: str) -> None:
    """Two calls with float32, and one with each other dtype, that are compiled, each on one of the engines in turn."""
    engines, compiled = list(ENGINES), 0
    for op in (op for op in op_db if op.name == name):
        for dtype in (dtype for dtype in DTYPES[:: 3 if is_view(op) else 1] if op.supports_dtype(dtype, "cpu")):
            calls = [call for sample in samples(op, dtype, 6) for call in calls_of(sample) if call.name in COVERED]
            limit = compiled + (2 if dtype is torch.float32 else 1)
            for call in calls[:8]:
                compiled += compare(*module_of_call(call), engines=[engines[compiled % 3]]) if compiled < limit else 0
    assert compiled or name in NOT_AS_KERNELS


NOT_AS_KERNELS = frozenset(
    ["nn.functional.unfold", "resolve_conj", "resolve_neg", "conj_physical", "positive", "contiguous", "rot90"]
)
"""Operators of which the samples reach no rule: they give back their operand, or are made of others that write."""


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "rows of a table": (lambda w, i: F.embedding(i, w) * 2 + 1, (tensor(9, 33), indices(9, 4, 5))),
    "rows of a turned table": (lambda w, i: F.embedding(i, w.t()).exp(), (tensor(33, 9), indices(9, 4, 5))),
    "narrow indices": (lambda x, i: x.index_select(1, i).neg(), (tensor(5, 7), indices(7, 11).int())),
    "computed indices": (lambda x, i: x[i * 2 - 1, i.flip(0)].abs(), (tensor(9, 7), indices(4, 6, low=1))),
    "negative indices": (lambda x, i: x[:, i] * 2, (tensor(4, 7, 3), indices(7, 5, low=-7))),
    "two indices that meet": (lambda x, i, j: x[i, :, j] + 1, (tensor(6, 5, 7), indices(6, 4, 1), indices(7, 3, low=-7))),
    "neighbours": (lambda x, i, j: x[:, i, j] + 1, (tensor(3, 6, 7), indices(6, 4), indices(7, 2, 4))),
    "of a computed tensor": (lambda x, i: (x * 3).gather(1, i).relu(), (tensor(5, 9), indices(9, 5, 4))),
    "of a view": (lambda x, i: x.reshape(6, 15).t()[i].neg(), (tensor(9, 10), indices(15, 4, low=-15))),
    "of a strided tensor": (lambda x, i: x.take(i) * 2, (tensor(6, 10)[::2, 1::3], indices(9, 3, 5, low=-9))),
    "of what is gathered": (lambda x, i, j: x[i][j] * 2, (tensor(6, 5), indices(6, 9), indices(9, 4))),
    "summed up": (lambda x, i: x[i].sum(-1), (tensor(8, 33), indices(8, 12))),
    "summed up over indices": (lambda x, i: (x.index_select(0, i) * 2).sum(0), (tensor(8, 33), indices(8, 12))),
    "normalised": (
        lambda w, i, p: F.layer_norm(F.embedding(i, w) + p, (20,)),
        (tensor(9, 20), indices(9, 3, 4), tensor(4, 20)),
    ),
    "one of each row": (lambda x, i: -x.log_softmax(-1).gather(1, i[:, None]).mean(), (tensor(6, 9), indices(9, 6))),
    "of a reduction": (lambda x, i: x.exp().sum(1)[i] + 1, (tensor(6, 9), indices(6, 5))),
    "stored and gathered": (lambda x, i: ((y := x.exp()), y[i] * 2), (tensor(6, 9), indices(6, 5))),
    "no index": (lambda x, i: x[i] * 2, (tensor(6, 9), indices(6, 0))),
    "consumed concatenation": (lambda x, y: torch.cat([x.exp(), y, x[:, :1]], 1).relu(), (tensor(5, 9), tensor(5, 4))),
    "concatenation of rows": (lambda x, y: torch.cat([x, y * 2]).sum(-1), (tensor(5, 9), tensor(4, 9))),
    "concatenation, stored and read": (lambda x, y: ((c := torch.cat([x.neg(), y])), c * 2), (tensor(5, 9), tensor(4, 9))),
    "concatenation of nothing": (lambda x, y: torch.cat([x, y, x], 1) * 2, (tensor(3, 0), tensor(3, 4))),
    "gathered concatenation": (lambda x, y, i: torch.cat([x, y])[i] * 2, (tensor(5, 9), tensor(4, 9), indices(9, 6, low=-9))),
    "nested concatenation": (lambda x, y: torch.cat([torch.cat([x, y], 1), y], 1).t() * 2, (tensor(3, 4), tensor(3, 2))),
    "concatenation of a reshape": (lambda x, y: torch.cat([y, x.exp().reshape(-1)]) * 2, (tensor(4, 6), tensor(5))),
    "concatenation of turned rows": (lambda x, y: torch.cat([y, x.t().reshape(3, 8)]) * 2, (tensor(4, 6), tensor(5, 8))),
    "concatenation of a mirror": (
        lambda x, y: torch.cat([y, F.pad(x, (3, 2), mode="reflect"), y], 1) * 2,
        (tensor(2, 6), tensor(2, 20)),
    ),
    "concatenation of a gather": (
        lambda w, i, y: torch.cat([y, F.embedding(i - 1, w), y]) * 2,
        (tensor(4, 6), indices(5, 7, low=1), tensor(9, 6)),
    ),
    "padding of a gather": (lambda w, i: F.pad(F.embedding(i - 1, w), (0, 0, 2, 3)) * 2, (tensor(4, 6), indices(5, 7, low=1))),
    "padding of a reshape": (lambda x: F.pad(x.reshape(-1)[1:], (7, 3)) * 2, (tensor(4, 6),)),
    "padding of padding": (lambda x: F.pad(F.pad(x, (2, 2), value=1.5).exp(), (3, 1)) * 2, (tensor(4, 6),)),
    "updates by computed indices": (
        lambda x, i, y: x.scatter(1, i - 1, y) * 2,
        (tensor(5, 9), indices(10, 3, 2, low=1), tensor(3, 2)),
    ),
    "types that meet": (lambda x, y: torch.cat([x, y]) * 2, (tensor(5), tensor(4, dtype=torch.int64))),
    "stack": (lambda x, y: torch.stack([x, y, x + y], 1) * 2, (tensor(5, 6), tensor(5, 6, seed=1))),
    "stored stack": (lambda x, y: torch.stack([x.exp(), y, x + y], -1), (tensor(5, 6), tensor(5, 6, seed=1))),
    "complex rotation": (
        lambda x, c: torch.cat([-x[..., 8:], x[..., :8]], -1) * c.sin() + x * c.cos(),
        (tensor(2, 3, 16), tensor(3, 16)),
    ),
    "padding": (lambda x: F.pad(x.exp(), (1, 2, 3, 0), value=-1.5) * 2, (tensor(3, 5),)),
    "cut and padded": (lambda x: F.pad(x, (-1, 4, 2, -2)).neg(), (tensor(4, 6),)),
    "padded, then summed up": (lambda x: F.pad(x, (3, 3)).sum(-1), (tensor(4, 30),)),
    "mirrored": (lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect") * 2, (tensor(2, 3, 5, 4),)),
    "edges": (lambda x: F.pad(x, (2, 1, 3, 2), mode="replicate") * 2, (tensor(2, 3, 5, 4),)),
    "triangles": (lambda x: torch.tril(x, -1) + torch.triu(x.t(), 2), (tensor(6, 6),)),
    "masked softmax": (lambda x: (x + torch.triu(torch.full_like(x, -torch.inf), 1)).softmax(-1), (tensor(5, 17, 17),)),
    "moved around": (lambda x: x.roll(3, 1).flip(0).repeat(2, 3) + 1, (tensor(4, 5),)),
    "a number turned around": (lambda x: ((x * 2).flip(0) + 1).flip(-1).neg(), (tensor(),)),
    "rolled as a line": (lambda x: x.roll(7) * 2, (tensor(4, 5),)),
    "windows": (lambda x: x.unfold(1, 3, 2).amax(-1), (tensor(4, 9),)),
    "repeated elements": (lambda x: x.repeat_interleave(3, 1).neg(), (tensor(4, 5),)),
    "slices written": (lambda x, y: torch.slice_scatter(x, y.exp(), 1, 1, 8, 3) * 2, (tensor(4, 9), tensor(4, 3))),
    "a slice from the end": (lambda x, y: torch.slice_scatter(x, y, 0, -3) * 2, (tensor(5, 4), tensor(3, 4))),
    "a row written": (lambda x, y: torch.select_scatter(x, y, 0, -2) * 2, (tensor(5, 4), tensor(4))),
    "few updates": (lambda x, i, y: x.scatter(1, i, y) * 2, (tensor(5, 9), indices(9, 4, 2), tensor(4, 3))),
    "the last update": (lambda x, i, y: x.scatter(0, i, y) * 2, (tensor(5, 9), torch.zeros(3, 9).long(), tensor(3, 9))),
    "a number at indices": (lambda i: torch.zeros(5, 9).scatter(1, i, 1.5) * 2, (indices(9, 5, 1),)),
    "few additions": (lambda x, i, y: x.scatter_add(1, i, y) * 2, (tensor(5, 9), indices(9, 5, 3), tensor(5, 3))),
    "few rows added": (lambda x, i, y: x.index_add(0, i, y, alpha=2) * 2, (tensor(5, 9), indices(5, 3), tensor(3, 9))),
    "few rows copied": (lambda x, i, y: x.index_copy(1, i, y) * 2, (tensor(5, 9), torch.tensor([7, 0]), tensor(5, 2))),
    "few rows filled": (lambda x, i: x.index_fill(1, i, 3.5) * 2, (tensor(5, 9), torch.tensor([-1, 0, 4]))),
    "few elements put": (lambda x, i, y: x.index_put((i, i - 1), y) * 2, (tensor(5, 9), torch.tensor([2, 4]), tensor(2))),
    "few elements added": (
        lambda x, i, y: x.index_put((i,), y, accumulate=True) * 2,
        (tensor(5, 9), torch.tensor([2, -3]), tensor(2, 9)),
    ),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    module, inputs, outputs = group_of(function, arguments)
    assert compare(module, inputs, outputs, list(ENGINES))


WRONG: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "gather": lambda x, i: x.gather(0, i[:, None].expand(-1, x.shape[1])) * 2,
    "index": lambda x, i: x[i] * 2,
    "second index": lambda x, i: x[:, i] * 2,
    "index_select": lambda x, i: x.index_select(0, i) * 2,
    "embedding": lambda x, i: F.embedding(i, x) * 2,
    "take": lambda x, i: x.take(i) * 2,
    "scatter": lambda x, i: x.scatter(0, i[:3, None], 1.0) * 2,
    "index_add": lambda x, i: x.index_add(0, i[:3], x[:3]) * 2,
    "index_fill": lambda x, i: x.index_fill(0, i[:3], 2.0) * 2,
    "index_put": lambda x, i: x.index_put((i[:3],), x[:3]) * 2,
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_indices(name: str) -> None:
    """Where eager raises, the loops and all kernels do; where it counts from the end, they agree."""
    x, good = tensor(4, 4), torch.tensor([0, 3, 1, 2, 0])
    module, _, _ = group_of(WRONG[name], (x, good))
    kernels = {engine: kernels_for(module, TARGETS[engine]) for engine in ENGINES}
    assert run_passes(module, LINALG)["groups converted"]
    runs = {name: partial(made.run, ENGINES[name]) for name, made in kernels.items() if made is not None}
    assert len(runs) == len(ENGINES)
    runs["loops"] = partial(run_main, module)
    for bad in (4, -1, -5, 1 << 40):
        wrong = torch.tensor([0, bad, 1, 2, 0])
        try:
            expected = WRONG[name](x, wrong)
        except EAGER:
            for run in runs.values():
                with pytest.raises(BoundsError, match="out of range") as caught:
                    run([x, wrong])
                assert isinstance(caught.value, IndexError) and isinstance(caught.value, RuntimeError)
        else:
            for run in runs.values():
                equal(run([x, wrong])[0], expected)


def test_lanes_that_do_not_count_assert_nothing() -> None:
    """Of 5 lanes the rest of a vector reads no index; what is computed of nothing may be out of range."""
    x, i = tensor(5), torch.tensor([3, 2, 1, 0, 3])
    module, inputs, outputs = group_of(lambda x, i: x[i - 9 + 9 + 1] * 2, (x, i))
    assert compare(module, inputs, outputs, list(ENGINES))
    module, inputs, outputs = group_of(lambda x, i: x[i * -1 + 4] * 2, (x, i))
    assert compare(module, inputs, outputs, list(ENGINES))


def test_a_kernel_can_be_called_again_after_wrong_indices() -> None:
    x, i = tensor(4, 4), torch.tensor([0, 3, 1])
    made = kernels_for(group_of(lambda x, i: x[i] * 2, (x, i))[0], TARGETS["native"])
    assert made is not None
    with pytest.raises(BoundsError):
        made.run(ENGINES["native"], [x, i + 1])
    equal(made.run(ENGINES["native"], [x, i])[0], x[i] * 2)


def test_threads_and_compiled_functions_report_wrong_indices() -> None:
    x, i = tensor(50, 300), indices(50, 400)
    compiled = fxc.compile(lambda x, i: x[i] * 2 + 1, (x, i), options={"target": "host"})
    assert compiled.plan.stats.library_calls == 0
    torch.testing.assert_close(compiled(x, i), x[i] * 2 + 1)
    for place in (0, 399):
        wrong = i.clone()
        wrong[place] = -51
        with pytest.raises(IndexError, match=r"aten\.index\.Tensor .* size 50"):
            compiled(x, wrong)
    torch.testing.assert_close(compiled(x, i - 50), x[i] * 2 + 1)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "a mask": (
        lambda x, y: torch.ops.aten.index.Tensor(x, [y]) * 2,
        (tensor(5, 3), torch.tensor([True, True, False, True, False])),
    ),
    "a mask to write": (lambda x, m: x.masked_scatter(m, x) * 2, (tensor(5), tensor(5) > 0)),
    "many updates": (lambda x, i: x.index_copy(0, i, x[i]) * 2, (tensor(9, 3), indices(9, 8))),
    "many parts": (lambda x: torch.cat([x] * 9) * 2, (tensor(5),)),
    "a source without elements": (lambda x, i: x[i] * 2, (torch.empty(3, 0), indices(3, 4))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, arguments = REFUSED[name]
    module, inputs, outputs = group_of(function, arguments)
    assert not compare(module, inputs, outputs, list(ENGINES))
    equal(run_main(module, inputs)[0], outputs[0])


# fusion


def fused(function: Callable[..., Any], *arguments: torch.Tensor) -> list[list[str]]:
    """The operators of each group, after which kernels compute what eager does."""
    flow = "lower-to-torch,simplify,lower-simple-tuples,decompose-ops{reductions=true},simplify,fuse{reductions=true}"
    program = fxc.run_passes(fxc.capture(function, arguments), flow)
    groups = [op for op in program.module.walk() if isinstance(op, GroupOp)]
    found = [[op.operator.split(".")[1] for op in group.body.block.ops if isinstance(op, TorchOp)] for group in groups]
    kernels = fxc.run_passes(program, "convert-fusion-to-linalg,schedule,tile")
    assert any(isinstance(op, KernelOp) for op in kernels.module.walk()) == bool(found)
    for result, expected in zip(run_main(kernels.module, arguments), [function(*arguments)], strict=False):
        torch.testing.assert_close(result, expected)
    return found


COMPOSED: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "one_hot": (lambda i: F.one_hot(i, 7), (indices(7, 4, 3),)),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), (tensor(4, 5), indices(12, 1, 6, low=-12))),
    "take_along_dim as a line": (lambda x, i: torch.take_along_dim(x, i), (tensor(4, 5), indices(20, 2, 3))),
    "pad": (lambda x: F.pad(x, (1, 2, -1, 3)), (tensor(4, 5),)),
    "pad around": (lambda x: F.pad(x, (2, 1), mode="circular"), (tensor(2, 3, 5),)),
    "pad mirrored": (lambda x: F.pad(x, (2, 1), mode="reflect"), (tensor(2, 3, 5),)),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, -2), (tensor(4, 5),)),
    "repeat_interleave of a line": (lambda x: x.repeat_interleave(2), (tensor(4, 5),)),
    "movedim": (lambda x: x.movedim((0, -1), (2, 0)), (tensor(2, 3, 4, 5),)),
    "swapaxes": (lambda x: x.swapaxes(0, -1), (tensor(2, 3, 4),)),
    "mT": (lambda x: x.mT, (tensor(2, 3, 4),)),
    "adjoint": (lambda x: x.adjoint(), (tensor(2, 3, 4),)),
    "narrow": (lambda x: x.narrow(1, -3, 2), (tensor(4, 5),)),
    "tile": (lambda x: x.tile(2, 3), (tensor(4, 5),)),
    "diagonal": (lambda x: x.diagonal(-1, 2, 0), (tensor(4, 5, 6),)),
    "unfold": (lambda x: x.unfold(0, 2, 1), (tensor(4, 5),)),
    "ravel": (lambda x: x.ravel(), (tensor(4, 5),)),
    "view_as": (lambda x, y: x.view_as(y), (tensor(4, 5), tensor(2, 10))),
    "concat": (lambda x, y: torch.concat([x, y], -1), (tensor(4, 5), tensor(4, 2))),
    "stack": (lambda x, y: torch.stack([x, y], -1), (tensor(4, 5), tensor(4, 5, seed=1))),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_operators_that_capture_keeps(name: str) -> None:
    function, arguments = COMPOSED[name]
    [group] = fused(lambda *values: function(*values) * 2 + 1, *arguments)
    assert name.split()[0] in group


def test_what_reads_a_gather_joins_it() -> None:
    assert fused(lambda w, i: F.embedding(i, w) * 2 + 1, tensor(9, 8), indices(9, 5)) == [["embedding", "mul", "add"]]
    [group] = fused(lambda x, i: -x.gather(1, i[:, None]).mean(), tensor(5, 9), indices(9, 5))
    assert {"gather", "mean", "neg"} <= set(group)


def test_what_is_gathered_is_made_before() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1).t()[i].relu() * 3

    first, second = fused(function, tensor(5, 9), indices(9, 20))
    assert first == ["mul", "add"] and "index" in second and "relu" in second


def test_indices_are_computed_with_the_gather() -> None:
    [group] = fused(lambda x, i: x[i * 2 + 1] * 3, tensor(20, 4), indices(9, 5))
    assert group == ["mul", "add", "index", "mul"]


def test_concatenations_join_what_reads_them() -> None:
    [group] = fused(lambda x, y: torch.cat([x.exp(), y], 1).relu() * 2, tensor(5, 9), tensor(5, 4))
    assert group == ["exp", "cat", "relu", "mul"]
    many = fused(lambda x: torch.cat([x * k for k in range(2, 11)]).relu() * 2, tensor(5, 9))
    assert not any("cat" in group and "relu" in group for group in many)


FAMILIES = {
    "gathers": "gather index_select index.Tensor embedding take take_along_dim one_hot _unsafe_index",
    "assembling": """cat stack constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
        replication_pad2d replication_pad3d slice_scatter select_scatter roll flip repeat expand chunk select.int
        slice.Tensor narrow tril triu diagonal unfold movedim tile repeat_interleave.self_int select_backward
        slice_backward arange""",
    "scatters": """scatter.src scatter.value scatter_add index_add index_put index_copy index_fill embedding_dense_backward
        masked_scatter scatter.reduce scatter_reduce""",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_share_of_operators(family: str) -> None:
    """Most of each family have a rule; what has none is called."""
    names = FAMILIES[family].split()
    known = {name.removeprefix("aten.") for name in COVERED}
    ruled = {name for name in names if name in known or any(each.split(".")[0] == name for each in known)}
    print(f"{family}: {len(ruled)} of {len(names)} have a rule; without: {sorted(set(names) - ruled)}")
    assert len(ruled) > len(names) / 2
