"""What ``fxc.dialects.base.effects`` says of ops: writes, hidden writes, randomness, order, views, regions, unknown callees."""

from __future__ import annotations

import pytest
import torch
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import MemoryEffectKind, get_effects

from fxc.bridge.callables import resolve_operator
from fxc.dialects.base.effects import aliases, has_side_effect, is_pure, is_random, is_view, may_retain, reads_memory, writes
from fxc.dialects.torch_ops.effects import CONVERSIONS, DROPOUTS, VIEWS_OF_EACH
from fxc.testing import parse

T = "tensor<4xf32>"


def op_of(line: str) -> Operation:
    """The op of ``line``, which may use tensors ``%x``, ``%y``, ``%z``, the number ``%n`` and any value ``%v``."""
    arguments = f"%x: {T}, %y: {T}, %z: {T}, %n: !torch.float, %v: !fx.value"
    module = parse(f"func.func private @callee()\nfunc.func @f({arguments}) {{\n {line}\n func.return\n}}")
    function = list(module.body.block.ops)[-1]
    assert isinstance(function, FuncOp)
    return next(iter(function.body.block.ops))


def call(name: str, arguments: str, results: str = T) -> Operation:
    tensors = ", ".join([T] * sum(arguments.count(f"%{value}") for value in "xyz"))
    result = "" if results == "()" else "%r = "
    return op_of(f"{result}torch.{name}({arguments}) : ({tensors}) -> {results}")


@pytest.mark.parametrize("name", sorted(VIEWS_OF_EACH))
def test_each_result_is_a_view_of_one_of_the_list(name: str) -> None:
    more = ', indexing = "ij"' if name.endswith("indexing") else ""
    op = op_of(f"%r, %s = torch.{name}([%x, %y]{more}) : ({T}, {T}) -> ({T}, {T})")
    assert aliased(op) == [(0, "x"), (1, "y")]
    first, second = torch.ones(2, 3, 4)[:, 0, 0], torch.ones(3)
    operator = resolve_operator(name)
    found = operator([first[:1], second], **({"indexing": "ij"} if more else {}))
    storages = [value.untyped_storage().data_ptr() for value in (first, second)]
    assert [value.untyped_storage().data_ptr() for value in found] == storages


ARGUMENTS = {"dtype": ", torch.float16", "device": ', "cpu", torch.float16', "dtype_layout": ", dtype = torch.float16"}


@pytest.mark.parametrize("name", sorted(CONVERSIONS))
def test_a_conversion_returns_its_first_argument_or_a_new_tensor_of_another_dtype(name: str) -> None:
    more = ARGUMENTS.get(name.split(".")[2], ", %y")
    assert aliased(call(name, f"%x{more}")) == [(0, "x")]
    assert not aliased(call(name, f"%x{more}", "tensor<4xf16>"))


def names(values: object) -> list[str | None]:
    return [value.name_hint for value in values]  # type: ignore[attr-defined]


def aliased(op: Operation) -> list[tuple[int, str | None]]:
    return [(index, value.name_hint) for index, value in aliases(op)]


@pytest.mark.parametrize(
    ("name", "arguments", "written"),
    [
        ("aten.add.Tensor", "%x, %y", []),
        ("aten.add_.Tensor", "%x, %y", ["x"]),
        ("aten.add.out", "%x, %y, out = %z", ["z"]),
        ("aten.copy_.default", "%x, %y", ["x"]),
        ("aten.index_put_.default", "%x, [none], %y", ["x"]),
        ("aten._foreach_add_.List", "[%x, %y], [%z, %z]", ["x", "y"]),
        ("aten.max.dim_max", "%x, 0, max = %y, max_values = %z", ["y", "z"]),
    ],
)
def test_writes_are_what_the_schema_marks(name: str, arguments: str, written: list[str]) -> None:
    results = {"aten._foreach_add_.List": "()", "aten.max.dim_max": f"tuple<{T}, {T}>"}
    op = call(name, arguments, results=results.get(name, T))
    assert names(writes(op)) == written
    assert is_pure(op) == (not written)
    assert not has_side_effect(op)  # writes are told apart from effects that nothing can observe through memory


@pytest.mark.parametrize(
    ("training", "written"), [("true", ["y", "z"]), ("false", [])], ids=["training", "inference"]
)  # fmt: skip
def test_batch_norm_writes_its_statistics_in_training(training: str, written: list[str]) -> None:
    op = call("aten.batch_norm.default", f"%x, none, none, %y, %z, {training}, 0.1, 1.0e-5, false")
    assert names(writes(op)) == written and is_pure(op) == (not written)


def test_batch_norm_whose_mode_is_not_known_writes() -> None:
    line = f"%r = torch.aten.native_batch_norm.default(%x, none, none, %y, none, %v, 0.1, 1.0e-5) : ({T}, {T}, !fx.value)"
    assert names(writes(op_of(f"{line} -> tuple<{T}, {T}, {T}>"))) == ["y"]


def test_batch_norm_without_statistics_writes_nothing() -> None:
    assert writes(call("aten.batch_norm.default", "%x, none, none, none, none, true, 0.1, 1.0e-5, false")) == []


@pytest.mark.parametrize(
    ("name", "arguments", "random"),
    [
        ("aten.rand.default", "[4]", True),
        ("aten.rand_like.default", "%x", True),
        ("aten.bernoulli.default", "%x", True),
        ("aten.normal_.default", "%x", True),
        ("aten.dropout.default", "%x, 0.5, true", True),
        ("aten.dropout.default", "%x, 0.5, false", False),
        ("aten.dropout.default", "%x, -0.0, true", False),
        ("aten.bernoulli.p", "%x, 0.0", True),
        ("aten.scaled_dot_product_attention.default", "%x, %y, %z", False),
        ("aten.scaled_dot_product_attention.default", "%x, %y, %z, dropout_p = 0.1", True),
        ("aten.zeros_like.default", "%x", False),
        ("aten.add.Tensor", "%x, %y", False),
    ],
)
def test_random_operators(name: str, arguments: str, random: bool) -> None:
    op = call(name, arguments)
    assert is_random(op) == random
    if random:
        assert has_side_effect(op) and not is_pure(op)


@pytest.mark.parametrize(
    ("name", "arguments", "results"),
    [
        ("aten._assert_async.msg", '%x, "why"', "!torch.none"),
        ("aten._assert_async.default", "%x", "!torch.none"),
        ("aten._print.default", '"text"', "!torch.none"),
        ("_c10d_functional.all_reduce.default", '%x, "sum", "0"', T),
        ("_c10d_functional.wait_tensor.default", "%x", T),
    ],
)
def test_asserts_and_collectives_must_run(name: str, arguments: str, results: str) -> None:
    op = call(name, arguments, results=results)
    assert has_side_effect(op) and not is_pure(op) and not is_random(op)


def test_collectives_of_dist_must_run() -> None:
    """A start makes a new tensor and may hold its operand until the wait, whose result is that tensor; neither writes."""
    text = (
        f'dist.group @g "0" ranks [0, 1]\nfunc.func @f(%x: {T}) {{\n'
        f'  %r = dist.all_reduce "sum" over @g (%x) : ({T}) -> {T}\n  %w = dist.wait %r : {T}\n  func.return\n}}'
    )
    start, wait = [op for op in parse(text).walk() if op.name in ("dist.all_reduce", "dist.wait")]
    for op in (start, wait):
        assert has_side_effect(op) and not is_pure(op) and not is_random(op) and writes(op) == []
    assert list(aliases(start)) == [] and may_retain(start)
    assert list(aliases(wait)) == [(0, start.results[0])]


@pytest.mark.parametrize("name", sorted(DROPOUTS))
@pytest.mark.parametrize("share", [0.0, -0.0, 0.5])
@pytest.mark.parametrize("training", [True, False])
def test_dropouts_do_what_pytorch_does(name: str, share: float, training: bool) -> None:
    """Whether they draw, and whether the result is the argument."""
    op, x = call(name, f"%x, {share}, {str(training).lower()}"), torch.ones(2, 3, 4)
    torch.manual_seed(0)
    before, result = torch.get_rng_state(), resolve_operator(name)(x, share, training)
    assert is_random(op) == (not torch.equal(before, torch.get_rng_state()))
    assert bool(aliased(op)) == (result.data_ptr() == x.data_ptr())


def test_native_dropout_draws_for_a_share_of_zero() -> None:
    assert is_random(call("aten.native_dropout.default", "%x, 0.0, true", results=f"tuple<{T}, tensor<4xi1>>"))


def test_a_dropout_whose_share_is_not_known_may_give_back_its_argument() -> None:
    op = op_of(f"%r = torch.aten.dropout.default(%x, %n, true) : ({T}, !torch.float) -> {T}")
    assert is_random(op) and ("x" in [name for _, name in aliased(op)])


@pytest.mark.parametrize(
    ("name", "arguments", "shared", "view"),
    [
        ("aten.view.default", "%x, [2, 2]", [(0, "x")], True),
        ("aten.transpose.int", "%x, 0, 0", [(0, "x")], True),
        ("aten._unsafe_view.default", "%x, [2, 2]", [(0, "x")], True),
        ("aten.detach.default", "%x", [(0, "x")], True),
        ("aten.add_.Tensor", "%x, %y", [(0, "x")], False),
        ("aten.add.out", "%x, %y, out = %z", [(0, "z")], False),
        ("aten.add.Tensor", "%x, %y", [], False),
        ("aten.clone.default", "%x", [], False),
        # may be a view, may be a copy
        ("aten.reshape.default", "%x, [2, 2]", [(0, "x")], False),
        ("aten.contiguous.default", "%x", [(0, "x")], False),
        ("aten.dropout.default", "%x, 0.5, false", [(0, "x")], False),
        ("aten.linear.default", "%x, %y", [], False),
    ],
)
def test_results_that_share_memory(name: str, arguments: str, shared: list[tuple[int, str]], view: bool) -> None:
    op = call(name, arguments)
    assert aliased(op) == shared
    assert is_view(op) == view


def test_all_parts_of_a_split_share_memory() -> None:
    unpacked = op_of(f"%a, %b = torch.aten.split.Tensor(%x, 2) : ({T}) -> ({T}, {T})")
    assert aliased(unpacked) == [(0, "x"), (1, "x")] and is_view(unpacked)
    packed = op_of(f"%a = torch.aten.split.Tensor(%x, 2) : ({T}) -> tuple<{T}, {T}>")
    assert aliased(packed) == [(0, "x")] and is_view(packed)


@pytest.mark.parametrize(
    ("line", "pure"),
    [
        ("%r = fx.call_function @operator.add(%v, %v) : (!fx.value, !fx.value) -> !fx.value", True),
        ("%r = fx.call_function @operator.getitem(%v, 0) : (!fx.value) -> !fx.value", True),
        ("%r = fx.call_function @math.sqrt(%v) : (!fx.value) -> !fx.value", True),
        ("%r = fx.call_function @getattr(%v, \"shape\") : (!fx.value) -> !fx.value", True),
        ("%r = fx.call_function @operator.iadd(%v, %v) : (!fx.value, !fx.value) -> !fx.value", False),
        ("%r = fx.call_function @operator.setitem(%v, 0, %v) : (!fx.value, !fx.value) -> !fx.value", False),
        ("%r = fx.call_function @torch.relu(%v) : (!fx.value) -> !fx.value", False),
        ("%r = fx.call_function @my.operator(%v) : (!fx.value) -> !fx.value", False),
        ("%r = fx.call_method @relu(%v) : (!fx.value) -> !fx.value", False),
        ("%r = fx.call_module @layer(%v) : (!fx.value) -> !fx.value", False),
        ("%r = fx.get_attr @weight() : () -> !fx.value", True),
        ("func.call @callee() : () -> ()", False),
        ("%r = torch.constant(3) : !torch.int", True),
    ],
)  # fmt: skip
def test_calls_whose_callee_is_unknown_may_do_anything(line: str, pure: bool) -> None:
    op = op_of(line)
    assert is_pure(op) == pure
    assert (writes(op) == []) == pure
    if op.operands or not pure:
        kinds = {effect.kind for effect in get_effects(op) or ()}
        assert (MemoryEffectKind.WRITE in kinds) == (not pure) or op.name == "func.call"


def test_results_of_unknown_calls_may_share_memory_with_every_operand() -> None:
    line = "%r, %s = fx.call_function @f(%v, %x) : (!fx.value, tensor<4xf32>) -> (!fx.value, !fx.value)"
    assert aliased(op_of(line)) == [(0, "v"), (0, "x"), (1, "v"), (1, "x")]
    assert aliased(op_of("%r = torch.constant(3) : !torch.int")) == []


def region(value: str, inner: str) -> str:
    """A call of a region over ``value`` in which ``inner`` is computed from ``%a``."""
    body = f"^bb0(%a: {T}): %b = {inner} fx.output(%b) : ({T}) -> ()"
    return f"torch.higher_order.checkpoint(@body, {value}) ({{ {body} }}) : ({T}) -> {T}"


RELU = f"torch.aten.relu.default(%a) : ({T}) -> {T}"
RELU_ = f"torch.aten.relu_.default(%a) : ({T}) -> {T}"


@pytest.mark.parametrize(
    ("inner", "pure", "known"),
    [
        (RELU, True, True),
        (RELU_, False, False),
        (f"torch.aten.rand_like.default(%a) : ({T}) -> {T}", False, True),
        (f"torch._c10d_functional.wait_tensor.default(%a) : ({T}) -> {T}", False, True),
        (f"fx.call_function @f(%a) : ({T}) -> {T}", False, False),
        (region("%a", RELU), True, True),
        (region("%a", RELU_), False, False),
    ],
    ids=["pure", "writes", "random", "collective", "unknown", "nested pure", "nested writes"],
)
def test_an_op_with_regions_does_what_is_in_them(inner: str, pure: bool, known: bool) -> None:
    """``known``: it surely writes nothing, though it may draw or have to run."""
    op = op_of("%r = " + region("%x", inner))
    assert is_pure(op) == pure
    assert (writes(op) == []) == known


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        (f"%r = torch.aten.add.Tensor(%x, %y) : ({T}, {T}) -> {T}", True),
        (f"%r = torch.aten.full.default([4], %n) : (!torch.float) -> {T}", False),
        ("%r = fx.call_function @operator.add(%v, 1) : (!fx.value) -> !fx.value", True),
    ],
)
def test_reads(line: str, reads: bool) -> None:
    op = op_of(line)
    assert reads_memory(op) == reads
    assert (MemoryEffectKind.READ in {effect.kind for effect in get_effects(op) or ()}) == reads
