"""Offsets in an arena, kernels in place, and what planning costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import VerifyException

import fxc
from fxc.dialects.attributes.discardable import SHORT_LIVED
from fxc.dialects.plan import AllocOp
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.verify.verifier import verify
from fxc.errors import KernelError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.measure.peak import peak_bytes
from fxc.passes.plan import offsets as _offsets
from fxc.passes.plan.buffers import Buffers
from fxc.passes.plan.offsets import LiveRange, MemoryPlan, best_layout, lower_bound
from fxc.passes.plan.plan_memory import MAPPED, SMALL, PlanMemoryPass
from fxc.program.program import Program, new_context
from fxc.program.program_signature import signature_of
from fxc.testing import parse
from tests.plan_programs import memory

SPANS = st.lists(
    st.builds(
        lambda size, start, length: LiveRange(64 * size, start, start + length),
        st.integers(0, 9),
        st.integers(0, 30),
        st.integers(1, 12),
    ),
    max_size=30,
)


def meet(a: LiveRange, b: LiveRange) -> bool:
    """Whether two buffers are in use at one step."""
    return a.start < b.end and b.start < a.end


def highest(spans: Sequence[LiveRange]) -> int:
    """The most bytes in use, by looking at each step."""
    steps = range(max((span.end for span in spans), default=0))
    return max((sum(span.size for span in spans if span.start <= step < span.end) for step in steps), default=0)


def check(spans: Sequence[LiveRange], layout: MemoryPlan) -> None:
    for (a, first), (b, second) in combinations(zip(spans, layout.offsets, strict=True), 2):
        if meet(a, b) and a.size and b.size:
            assert first + a.size <= second or second + b.size <= first
    assert all(offset >= 0 and offset % 64 == 0 for offset in layout.offsets)
    ends = [offset + span.size for span, offset in zip(spans, layout.offsets, strict=True)]
    assert max(ends, default=0) <= layout.peak <= sum(span.size for span in spans)
    assert layout.peak >= highest(spans)


@pytest.mark.slow
@given(SPANS)
def test_layouts(spans: list[LiveRange]) -> None:
    layouts = list(_offsets._layouts(spans))
    for layout in (*layouts, best_layout(spans)):
        check(spans, layout)
    assert best_layout(spans).peak == min(layout.peak for layout in layouts)
    assert lower_bound(spans) == highest(spans)


def test_a_gap_that_fits_is_taken_before_a_larger_one() -> None:
    spans = [
        LiveRange(192, 0, 2),
        LiveRange(64, 0, 9),
        LiveRange(64, 0, 2),
        LiveRange(64, 0, 9),
        LiveRange(64, 3, 9),
        LiveRange(192, 4, 9),
    ]
    assert _offsets.by_time(spans).peak == 384 == lower_bound(spans)


def test_a_stack_needs_no_more_than_it_holds() -> None:
    spans = [LiveRange(64 * (i % 7 + 1), i, 200 - i) for i in range(100)]
    assert best_layout(spans).peak == lower_bound(spans)


@pytest.mark.parametrize("count", [500, 4000])
def test_steps_grow_with_buffers(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap is made at most twice a buffer, and buffers are compared with a bounded number of others."""
    made = calls(monkeypatch, _offsets._Gaps, "_add")
    spans = [LiveRange(64 * (i * 7919 % 97 + 1), i, i + i * 31 % 23 + 1) for i in range(count)]
    _offsets.by_time(spans)
    assert len(made) <= 2 * count
    others = _offsets._in_use_together(spans, _offsets.MOST_PAIRS * count)
    assert others is not None and sum(map(len, others)) <= 2 * _offsets.MOST_PAIRS * count
    long = [LiveRange(64, 0, count) for _ in range(count)]
    assert _offsets._in_use_together(long, _offsets.MOST_PAIRS * count) is None


@pytest.mark.parametrize("count", [50, 400])
def test_planning_looks_at_each_op_a_fixed_number_of_times(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = calls(monkeypatch, Buffers, "_step")
    context = new_context()
    module = parse_module(context, chain(count))
    length = len(list(module.walk()))
    PlanMemoryPass().apply(context, module)
    assert len(looks) <= 3 * length


def calls(monkeypatch: pytest.MonkeyPatch, cls: type, name: str) -> list[Any]:
    """The arguments of each call of a method from here on."""
    seen, method = list[Any](), getattr(cls, name)

    def counted(self: Any, *arguments: Any) -> None:
        seen.append(arguments)
        method(self, *arguments)

    monkeypatch.setattr(cls, name, counted)
    return seen


def chain(count: int) -> str:
    """``count`` calls, each of which reads what the one before wrote."""
    lines = ["%b0 = plan.alloc : tensor<16xf32>", add("%x", "%b0", 0)]
    for i in range(1, count):
        lines += [f"%b{i} = plan.alloc : tensor<16xf32>", add(f"%b{i - 1}", f"%b{i}", i), free(i - 1)]
    returned = f"%s = torch.aten.sum.default(%b{count - 1}) : (tensor<16xf32>) -> tensor<f32>"
    lines += [returned, free(count - 1), "fx.output(%s) : (tensor<f32>) -> ()"]
    return "func.func @main(%x: tensor<16xf32>) -> tensor<f32> {\n" + "\n".join(lines) + "\n}"


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6), st.booleans()), min_size=1, max_size=12))
def test_buffers_leave_the_arena_where_that_takes_less(tensors: list[tuple[int, int, bool]]) -> None:
    """Tensors of so many times 32 KiB, for so many steps, in buffers or of operators."""
    spans = [LiveRange(size << 15, step, step + length) for step, (size, length, _) in enumerate(tensors)]
    types = [f"tensor<{span.size // 4}xf32>" for span in spans]
    lines = list[str]()
    for step, (_, _, is_buffer) in enumerate(tensors):
        operator = f"torch.aten.zeros.default([{spans[step].size // 4}]) : () -> {types[step]}"
        lines.append(f"%b{step} = plan.alloc : {types[step]}" if is_buffer else f"%b{step} = {operator}")
        lines += [f"plan.free %b{i} : {types[i]}" for i, span in enumerate(spans) if span.end == step + 1]
    module = parse_module(new_context(), "func.func @main() {\n" + "\n".join([*lines, "fx.output(()) : () -> ()"]) + "\n}")
    PlanMemoryPass().apply(new_context(), module)
    verify(module)
    allocs = {op.buffer._name: op for op in module.walk() if isinstance(op, AllocOp)}
    if not allocs:
        return
    short = [span for i, span in enumerate(spans) if (op := allocs.get(f"b{i}")) is not None and SHORT_LIVED in op.attributes]
    inside = [span for i, span in enumerate(spans) if (op := allocs.get(f"b{i}")) is not None and op.arena is not None]
    others = [span for span in spans if span not in short and span not in inside]
    facts = memory(next(op for op in module.ops if isinstance(op, FuncOp)))
    assert facts["lower_bound"] == highest(spans) and facts["sum"] == sum(span.size for span in spans)
    assert facts["peak"] == facts["arena"] + highest([*short, *others]) and facts["arena"] >= highest(inside)
    assert all(SMALL < span.size <= MAPPED for span in short)
    assert not short or highest(inside) + highest([*short, *others]) < highest([*inside, *short]) + highest(others)


def add(source: str, out: str, i: int) -> str:
    return f"%r{i} = torch.aten.add.out({source}, %x, out = {out}) : ({', '.join(['tensor<16xf32>'] * 3)}) -> tensor<16xf32>"


def free(i: int) -> str:
    return f"plan.free %b{i} : tensor<16xf32>"


def test_a_chain_takes_turns() -> None:
    context = new_context()
    module = parse_module(context, chain(20))
    PlanMemoryPass().apply(context, module)
    verify(module)
    [function] = module.ops
    # with the sum at the end, which an operator allocates
    assert memory(function) == {"arena": 128, "peak": 192, "lower_bound": 128, "sum": 64 * 21}  # type: ignore[arg-type]
    [result] = [ReferenceInterpreter({}).call(function, [torch.ones(16)])]  # type: ignore[arg-type]
    assert result.item() == 16 * 21


@given(SPANS.filter(lambda spans: len(spans) > 1), st.data())
def test_the_verifier_refuses_just_what_meets(spans: list[LiveRange], data: st.DataObject) -> None:
    """Any offsets, right or wrong: the check that follows names through the program says what comparing all pairs says."""
    offsets = [64 * data.draw(st.integers(0, 8)) for _ in spans]
    both = list(zip(spans, offsets, strict=True))
    wrong = any(
        meet(a, b) and max(first, second) < min(first + a.size, second + b.size)
        for (a, first), (b, second) in combinations(both, 2)
    )
    module = parse_module(new_context(), timeline(both))
    try:
        verify(module)
    except VerifyException as error:
        assert wrong and "still in use" in str(error)
    else:
        assert not wrong


def timeline(spans: Sequence[tuple[LiveRange, int]]) -> str:
    """Allocations and releases in the order of their steps; releases of a step first."""
    lines = ['%a = plan.arena : !plan.arena<4096, "cpu">']
    for step in range(max(span.end for span, _ in spans) + 1):
        for i, (span, _) in enumerate(spans):
            if span.end == step:
                lines.append(f"plan.free %b{i} : tensor<{span.size}xi8>")
        for i, (span, offset) in enumerate(spans):
            if span.start == step:
                lines.append(f"%b{i} = plan.alloc %a[{offset}] : tensor<{span.size}xi8>")
    return "func.func @main() {\n" + "\n".join(lines) + "\nfx.output(()) : () -> ()\n}"


KERNEL = """
tile.kernel @k(
  %x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place}
) attributes {grid = array<i64: 2>} {
  %zero = arith.constant 0 : index
  %eight = arith.constant 8 : index
  %i = tile.program_id {axis = 0} : index
  %here = arith.muli %i, %eight : index
  %there = arith.subi %eight, %here : index
  %a = tile.load %x[%FROM] strides [1] : !tile.ptr<f32> -> vector<8xf32>
  tile.store %a, %y[%here] strides [1] : vector<8xf32>, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = plan.alloc : tensor<16xf32>
  %0 = torch.aten.add.out(%x, 1, out = %y) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  plan.launch @k(%y) outs(%y) : (tensor<16xf32>) outs(tensor<16xf32>)
  fx.output(%y) : (tensor<16xf32>) -> ()
}
"""


def test_the_interpreter_refuses_a_kernel_that_is_not_right_in_place() -> None:
    """The analysis decides; this run of the kernel, with one record of who read and wrote each element, does not trust it."""
    x = torch.arange(16.0)
    right = parse_module(new_context(), KERNEL.replace("%FROM", "%here"))
    verify(right)
    main = list(right.ops)[1]
    torch.testing.assert_close(ReferenceInterpreter({}).call(main, [x]), x + 1)  # type: ignore[arg-type]
    wrong = parse_module(new_context(), KERNEL.replace("%FROM", "%there"))
    with pytest.raises(KernelError, match="another writes it"):
        ReferenceInterpreter({}).call(list(wrong.ops)[1], [x])  # type: ignore[arg-type]


def blocks(x: torch.Tensor, w: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """Layers of two streams of values, both of which come new from each."""
    norm = x
    for _ in range(6):
        x = x + torch.relu(norm @ w) @ u
        norm = torch.nn.functional.layer_norm(x, x.shape[-1:])
    return norm.mean(-1)


def test_a_call_takes_what_is_in_use_at_one_time() -> None:
    """Measured by PyTorch's profiler, against the plan's own lower bound."""
    torch.manual_seed(0)
    inputs = torch.randn(4, 64, 256), torch.randn(256, 1024) / 16, torch.randn(1024, 256) / 32
    with torch.no_grad():
        compiled = fxc.compile(blocks, inputs, options={"target": "host"})
        for _ in range(2):
            torch.testing.assert_close(compiled(*inputs), blocks(*inputs))
        fxc.release_memory()
        taken = peak_bytes(lambda: compiled(*inputs))
    stats = compiled.plan.stats
    assert taken <= 1.05 * stats.lower_bound_bytes and stats.peak_bytes <= 1.05 * stats.lower_bound_bytes


@pytest.mark.parametrize(("marks", "release", "tensors"), [("attributes {plan.boxed}", "plan.free %x : X", 2), ("", "", 3)])
def test_a_function_releases_its_arguments(marks: str, release: str, tensors: int) -> None:
    """The caller passes the last reference, so that the memory is free while the function still runs."""
    text = f"""
      func.func private @f(%x: X) -> X {marks} {{
        %m = torch.aten.exp.default(%x) : (X) -> X
        {release}
        %y = torch.aten.sin.default(%m) : (X) -> X
        plan.free %m : X
        func.return %y : X
      }}
      func.func @main(%x: X) -> X {{
        %a = torch.aten.cos.default(%x) : (X) -> X
        %b = func.call @f(%a) : (X) -> X
        plan.free %a : X
        fx.output(%b) : (X) -> ()
      }}
    """.replace("X", "tensor<1024xf32>")
    program = Program(parse(text), {}, {}, new_context())
    plan, x = fxc.ExecutionPlan.of(program, signature_of(program), training=False), torch.randn(1024)
    assert plan.host is not None
    run = plan.host.main
    assert_close(run(x), x.cos().exp().sin())
    assert peak_bytes(lambda: run(x)) == tensors * 4096


FACTORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "qr": torch.linalg.qr,
    "lu": torch.linalg.lu,
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False),
}


@pytest.mark.parametrize("shape", [(4, 4), (2, 6, 4), (2, 4, 6)])
@pytest.mark.parametrize("name", FACTORS)
def test_factors_of_a_matrix_share_an_arena(name: str, shape: tuple[int, ...]) -> None:
    """PyTorch's ``linalg_qr.out`` takes tensors in one storage for one tensor: its factors were wrong."""

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        return [each.abs().sum(-1) + 1 for each in FACTORS[name](x * 2)]

    x = torch.randn(shape)
    compiled = fxc.compile(model, (x,))
    assert_close(compiled(x), model(x))
