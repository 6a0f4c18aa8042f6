"""Host programs: what the plan level runs as. Results equal eager's, and nothing that is given makes it read elsewhere."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import fxc
from fxc.errors import InputError, TargetError
from fxc.program.program_signature import signature_of
from fxc.runtime.arena import Arenas, Place
from fxc.runtime.host_program import HostProgram

HOST: dict[str, Any] = {"target": "host"}


class Block(torch.nn.Module):
    """Library calls between kernels, views, and buffers that share an arena."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.nn.functional.gelu(self.first(self.norm(x))) * 1.5)
        return torch.cat([(x + y).relu(), torch.sigmoid(y) * x], -1)


@pytest.fixture(scope="module")
def block() -> Block:
    torch.manual_seed(0)
    return Block().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def plan(block: Block) -> fxc.ExecutionPlan:
    return plan_of(block, x())


def x(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape or (5, 8), generator=torch.Generator().manual_seed(seed))


def plan_of(function: Any, *args: Any, **kwargs: Any) -> fxc.ExecutionPlan:
    made = fxc.compile(function, args, kwargs, options=HOST).plan
    assert isinstance(made, fxc.ExecutionPlan)
    return made


def check(function: Callable[..., Any], *args: Any) -> fxc.ExecutionPlan:
    """The plan, after two calls of it on copies of ``args``: results and what was written equal eager's."""
    made = plan_of(function, *copy.deepcopy(args))
    for run in (made, made.module):
        for _ in range(2):
            ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
            with torch.no_grad():
                torch.testing.assert_close(run(*ours), function(*theirs), equal_nan=True)
            torch.testing.assert_close(ours, theirs, equal_nan=True)
    return made


# what runs


def test_the_program_can_be_read(plan: fxc.ExecutionPlan) -> None:
    host = plan.host
    assert isinstance(host, HostProgram) and plan.code == host.source.strip() + "\n"
    assert inspect.getsource(host.main).startswith("def main(x")
    for part in ("def main(x", "kernel_0(", "aten_mm_out(", "arenas.take()", "arenas.give_back(arena)", "return "):
        assert part in plan.code
    assert "# test_plan_runtime.py:" in plan.code and '"first.weight", float32 (32, 8)' in plan.code


def test_every_statement_is_an_op(plan: fxc.ExecutionPlan) -> None:
    body = plan.code[plan.code.index("def main") :].splitlines()[1:]
    statements = [line for line in body if not line.strip().startswith("#")]
    ops = [op for op in plan.ir.main.body.block.ops]
    checks = [line for line in statements if "expect_" in line or "give_back" in line]
    assert len(statements) - len(checks) <= len(ops)


def test_stats(plan: fxc.ExecutionPlan) -> None:
    stats = plan_of(Block().eval(), x()).stats
    assert stats.launches == plan.code.count("    kernel_")
    assert stats.library_calls >= 2 and stats.allocations >= 1 and stats.parameter_bytes > 0
    assert 0 < stats.lower_bound_bytes <= stats.arena_bytes <= stats.sum_bytes
    assert "arena memory" in str(stats) and repr(plan).endswith(f"{stats.launches} kernel launches>")


def test_the_graph_is_another_form_of_it(plan: fxc.ExecutionPlan, block: Block) -> None:
    assert isinstance(plan.module, torch.fx.GraphModule) and "kernel_0" in plan.module.code
    torch.testing.assert_close(plan.module(x()), block(x()))
    plan.module.graph.eliminate_dead_code()
    plan.module.recompile()
    torch.testing.assert_close(plan.module(x()), block(x()))


def add_in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.mul_(2).add_(b)
    return a.sin() + b


def swap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    old = a.clone()
    a.copy_(b + 1)
    b.copy_(old * 2)
    return a + b


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "written": (add_in_place, (x(), x(seed=2))),
    "swapped": (swap, (x(), x(seed=2))),
    "written part": (lambda a, b: (a[1:3].add_(b.sigmoid()), a.tanh() * 2)[1], (x(), x(2, 8))),
    "views of inputs": (lambda a: (a.t(), a[1:], (a * 2 + 1).t()), (x(),)),
    "an input and twice a result": (lambda a: (a, b := a.sin() * 2, b), (x(),)),
    "nested": (lambda a: {"k": [a + 1, (a.exp() * 2,)], "n": None, "m": 3}, (x(),)),
    "columns": (lambda a: (a * 2 + 1, a.sum(0)), (x(8, 5).t(),)),
    "strided": (lambda a: (a * 2 + 1).softmax(-1), (x(9, 20)[::2, 1::3],)),
    "empty": (lambda a: (a * 2 + 1, a.sum(-1)), (x(0, 8),)),
    "scalar": (lambda a: (a * 2 + 1).exp(), (torch.tensor(0.5),)),
    "one": (lambda a: (a * 2 + 1).exp().sum(), (x(1, 1),)),
    "nan": (lambda a: (a.relu() * 2, a.amax()), (torch.tensor([0.0, -0.0, float("nan"), float("inf"), -1]),)),
    "integers": (lambda a, b: ((a + b) * 2, (a > b) & (a != 0)), (torch.arange(12), torch.arange(12).flip(0))),
    "half": (lambda a: (a * 2 + 1).sigmoid(), (x().bfloat16(),)),
    "double": (lambda a: torch.nn.functional.layer_norm(a, (8,)) * 2, (x().double(),)),
    "complex": (lambda a: (a.abs() * 2 + 1, a.real + a.imag), (torch.randn(4, 6, dtype=torch.complex64),)),
    "broadcast": (lambda a, b: (a + b) * b, (x(), x(8))),
    "several returns": (lambda a: (a * 2).max(-1), (x(),)),
    "a list": (lambda a: [part * 2 + 1 for part in (a + 1).split(2)], (x(),)),
    "branch": (lambda a: torch.cond(a.sum() > 0, lambda b: b.sin() + 1, lambda b: b.cos() * 2, (a * 2,)), (x(),)),
    "sorted": (lambda a: (a * 2 + 1).sort(-1).values.exp() + 1, (x(),)),
    "products": (lambda a, b: ((a @ b).relu() @ b.t()).tanh() * a, (x(), x(8, 4))),
    "constants": (lambda a: a * torch.tensor([1.0, 2.0]).repeat(4) + torch.arange(8), (x(),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_equal_eager(name: str) -> None:
    function, args = FUNCTIONS[name]
    check(function, *args)


def test_most_of_these_are_host_programs() -> None:
    made = [plan_of(*[FUNCTIONS[name][0], *copy.deepcopy(FUNCTIONS[name][1])]) for name in ("written", "nested", "products")]
    assert all(plan.host is not None for plan in made)


def test_statistics_of_a_batch_norm_are_written() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    eager, images = copy.deepcopy(model), x(2, 3, 8, 8)
    made = plan_of(model, images)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(made(images), eager(images))
    for ours, theirs in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_results_are_the_callers() -> None:
    """Two calls share no memory, and a result is no part of an arena."""
    made = plan_of(lambda a, b: ((a @ b).relu() * 2, (a @ b).sin()), x(), x(8, 8))
    first = made(x(), x(8, 8))
    kept = copy.deepcopy(first)
    second = made(x(seed=3), x(8, 8))
    torch.testing.assert_close(first, kept, rtol=0, atol=0)
    storages = [value.untyped_storage().data_ptr() for value in (*first, *second)]
    assert len(set(storages)) == 4


def test_dynamic_sizes_stay_graphs() -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    made = fxc.compile(lambda a: (a * 2 + 1).relu(), (x(),), dynamic_shapes=({0: batch},), options=HOST)
    for rows in (2, 5, 8):
        torch.testing.assert_close(made(x(rows, 8)), (x(rows, 8) * 2 + 1).relu())


def test_grad_mode_is_off_within_and_restored(plan: fxc.ExecutionPlan) -> None:
    needing = x().requires_grad_()
    result = plan(needing)
    assert torch.is_grad_enabled() and not result.requires_grad
    with pytest.raises(InputError):
        plan(x(2, 8))
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert torch.equal(plan(needing), result) and not torch.is_grad_enabled()


def test_inference_mode_does_not_spoil_later_calls(block: Block) -> None:
    """An arena that was made in inference mode could not be written outside of it."""
    made = plan_of(block, x())
    with torch.inference_mode():
        first = made(x())
    torch.testing.assert_close(made(x()), first)
    with torch.inference_mode():
        torch.testing.assert_close(made(x()), first)


def test_autocast_is_part_of_the_program(block: Block, plan: fxc.ExecutionPlan) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        made, expected = plan_of(block, x()), block(x())
        torch.testing.assert_close(made(x()), expected, rtol=2e-2, atol=2e-2)
        with pytest.raises(InputError, match=r"compiled under no torch.autocast"):
            plan(x())
    with pytest.raises(InputError, match=r"compiled under torch.autocast"):
        made(x())


def test_only_allowed_functions_are_bound(plan: fxc.ExecutionPlan) -> None:
    program = fxc.Program.parse(
        """func.func @main(%x: tensor<4xf32> {fx.kind = "input", fx.name = "x"}) -> !fx.value {
          %b = plan.alloc : tensor<4xf32>
          %r = fx.call_function @os.system("true") : () -> !fx.value
          fx.output(%r) : (!fx.value) -> ()
        }"""
    )
    with pytest.raises(TargetError, match=r"may not call 'os.system'"):
        fxc.ExecutionPlan.of(program, plan.signature, False, {})


# threads, processes, copies


def test_threads_call_one_plan(plan: fxc.ExecutionPlan, block: Block) -> None:
    def work(seed: int) -> bool:
        inputs = [x(seed=seed * 100 + i) for i in range(20)]
        return all(torch.allclose(plan(value), block(value), atol=1e-5) for value in inputs)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_call_within_a_call_has_an_arena_of_its_own() -> None:
    arenas = Arenas(256, [Place(0, torch.float32, (4,), (1,)), Place(64, torch.float32, (4,), (1,), is_address=True)])
    outer = arenas.take()
    inner = arenas.take()
    assert outer[0].data_ptr() != inner[0].data_ptr()  # type: ignore[union-attr]
    assert outer[1].data_ptr() == outer[0].data_ptr() and outer[2] == outer[0].data_ptr() + 64  # type: ignore[union-attr]
    arenas.give_back(inner)
    arenas.give_back(outer)
    assert arenas.idle == 2 and arenas.take() is outer
    assert copy.deepcopy(arenas).idle == 0


def test_an_arena_is_kept_for_the_next_call(block: Block) -> None:
    made = plan_of(block, x())
    assert made.host is not None
    [arenas] = [value for value in made.host.globals.values() if isinstance(value, Arenas)]
    for _ in range(3):
        made(x())
    assert arenas.idle == 1


def _in_a_child(plan: fxc.ExecutionPlan, queue: Any) -> None:
    queue.put(plan(x()).tolist())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_after_compiling_runs(plan: fxc.ExecutionPlan) -> None:
    plan(x())
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_a_child, args=(plan, queue))
    child.start()
    found = queue.get()
    child.join(60)
    assert child.exitcode == 0
    torch.testing.assert_close(torch.tensor(found), plan(x()))


@pytest.mark.parametrize("options", [HOST, {}], ids=["program", "graph"])
def test_a_copy_has_weights_of_its_own(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = Block().eval()
    made = fxc.compile(model, (x(),), options=options).plan
    before = made(x())
    other = copy.deepcopy(made)
    with torch.no_grad():
        model.first.weight.zero_()
    assert torch.equal(other(x()), before) and not torch.equal(made(x()), before)
    assert (made.hits, other.hits) == (2, 2)
    with pytest.raises(InputError):
        other(x(2, 8))


# what does not fit


class Own(torch.Tensor):
    pass


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (lambda: [[1.0] * 8] * 5, "nested otherwise"),
    "a number": (lambda: 3, "input x is a int"),
    "None": (lambda: None, "nested otherwise|input x is a NoneType"),
    "text": (lambda: "text", "input x is a str"),
    "an array": (lambda: x().numpy(), "input x is a ndarray"),
    "dtype": (lambda: x().double(), r"input x has dtype torch.float64, but torch.float32"),
    "sizes": (lambda: x(6, 8), r"input x has shape \(6, 8\)"),
    "rank": (lambda: x(40), r"input x has shape \(40,\)"),
    "empty": (lambda: x(0, 8), r"input x has shape \(0, 8\)"),
    "strides": (lambda: x(8, 5).t(), r"input x has strides \(1, 5\)"),
    "expanded": (lambda: x(1, 8).expand(5, 8), r"input x has strides \(0, 1\)"),
    "device": (lambda: x().to("meta"), "input x is on meta, not on cpu"),
    "sparse": (lambda: x().to_sparse(), "input x has layout torch.sparse_coo"),
    "mkldnn": (lambda: x().to_mkldnn(), "input x has layout torch._mkldnn"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_input_that_does_not_fit_is_named(case: str, plan: fxc.ExecutionPlan) -> None:
    make, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        plan(make())


def test_a_number_of_inputs_that_does_not_fit(plan: fxc.ExecutionPlan) -> None:
    for args, kwargs in (((), {}), ((x(), x()), {}), ((), {"x": x()}), ((x(),), {"y": 1})):
        with pytest.raises(InputError, match=r"positional inputs are expected|input y is given"):
            plan(*args, **kwargs)


def test_tensors_that_are_not_plain_go_another_way(plan: fxc.ExecutionPlan, block: Block) -> None:
    expected = block(x())
    torch.testing.assert_close(plan(torch.nn.Parameter(x())), expected)
    torch.testing.assert_close(plan(x().as_subclass(Own)), expected)
    with pytest.raises(InputError, match="is a TwoTensor, which has no elements"):
        plan(TwoTensor(x(), x()))


def test_lazy_negations_are_resolved() -> None:
    made = plan_of(lambda a: a * 2 + 1, torch.ones(4, dtype=torch.complex64).imag.clone())
    lazy = torch.ones(4, dtype=torch.complex64).conj().imag.as_strided((4,), (1,))
    assert lazy.is_neg()
    torch.testing.assert_close(made(lazy), lazy * 2 + 1)


def test_fake_tensors_give_fake_results() -> None:
    made = plan_of(lambda a, b: ((a @ b).relu() * 2 + 1).t(), x(), x(8, 4))
    mode = FakeTensorMode()
    with mode:
        fakes = torch.empty(5, 8), torch.empty(8, 4)
        inside = made(*fakes)
    for found in (inside, made(*fakes)):
        assert isinstance(found, FakeTensor) and found.shape == (4, 5) and found.stride() == (1, 4)


def test_batched_tensors_are_an_error_and_no_crash() -> None:
    made = plan_of(lambda a: a * 2 + 1, x(4))
    with pytest.raises(InputError, match="transform"):
        torch.func.vmap(made)(x(3, 4))


CHANGES: dict[str, Callable[[torch.nn.Parameter], torch.Tensor]] = {
    "smaller": lambda p: torch.zeros(1),
    "nothing": lambda p: torch.zeros(0),
    "dtype": lambda p: p.detach().double(),
    "other sizes": lambda p: torch.zeros(3, 5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_weight_that_was_changed_is_an_error_and_no_crash(change: str) -> None:
    """A parameter's data may be another tensor's by now."""

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(64, 64))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return a * self.scale + 1

    model = Scaled().requires_grad_(False)
    made = plan_of(model, x(64, 64))
    model.scale.data = torch.full((64, 64), 3.0)
    torch.testing.assert_close(made(x(64, 64)), x(64, 64) * 3 + 1)
    model.scale.data = torch.full((64, 64), 2.0).t()
    torch.testing.assert_close(made(x(64, 64)), x(64, 64) * 2 + 1)
    model.scale.data = CHANGES[change](model.scale)
    with pytest.raises(InputError, match=r"has sizes|has dtype"):
        made(x(64, 64))


PASSED_ON = """
builtin.module attributes {fxc.target = TARGET} {
  func.func @main(%x: TENSOR) -> TENSOR {
    %v, %i = torch.aten.sort.default(%x) : (TENSOR) -> (TENSOR, tensor<4xi64, META>)
    %r = func.call @part(%v) : (TENSOR) -> TENSOR
    fx.output(%r) : (TENSOR) -> ()
  }
  func.func private @part(%v: TENSOR) -> TENSOR {
    %0 = torch.aten.exp.default(%v) : (TENSOR) -> TENSOR
    func.return %0 : TENSOR
  }
}
"""


@pytest.mark.parametrize(("target", "device", "is_checked"), [("cpu", "cpu", True), ("gpu", "cuda:0", False)])
def test_kernels_for_gpus_check_what_functions_get(target: str, device: str, is_checked: bool) -> None:
    """PyTorch's attention returns its seeds on the CPU, and promises them on the GPU."""
    names = {"TARGET": f"#target.{target}", "TENSOR": "tensor<4xf32, META>", "META": f'#torch.meta<device = "{device}">'}
    text = PASSED_ON
    for name, meaning in names.items():
        text = text.replace(name, meaning)
    plan = fxc.run_passes(fxc.Program.parse(text), "lower-to-plan")
    assert ("expect_" in fxc.ExecutionPlan.of(plan, signature_of(plan), training=False).code) == is_checked


def test_an_operator_that_breaks_its_promise_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel gets from an operator is as that operator's fake implementation said, a copy, or an error."""
    made = plan_of(lambda a: (a.sort(-1).values * 2).exp() + 1, x())
    assert made.host is not None and "expect_" in made.code
    main = made.host.main
    [name] = [name for name in main.__globals__ if name.startswith("aten_sort")]
    real = main.__globals__[name]
    for change, error in (
        (lambda v: v.t().contiguous().t(), None),
        (lambda v: v[:2], "has sizes"),
        (lambda v: v.double(), "dtype"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(main.__globals__, name, lambda *a, change=change, **k: (change(real(*a, **k)[0]), None))
            if error is None:
                torch.testing.assert_close(made(x()), (x().sort(-1).values * 2).exp() + 1)
            else:
                with pytest.raises(InputError, match=error):
                    made(x())


# torch.compile


@pytest.mark.slow
def test_torch_compile_runs_host_programs() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Block()
    compiled = torch.compile(model, backend="fxc", options=HOST)
    for transposed in (False, True):
        given = x(8, 5).t().contiguous().requires_grad_()
        ours, theirs = compiled(given), model(given)
        torch.testing.assert_close(ours, theirs)
        weights = [given, *model.parameters()]
        cotangent = x(16, 5).t() if transposed else x(5, 16)
        torch.testing.assert_close(
            torch.autograd.grad(ours, weights, cotangent), torch.autograd.grad(theirs, weights, cotangent)
        )


# inputs elsewhere


def moving(function: Callable[..., Any], *args: Any) -> fxc.ExecutionPlan:
    made = fxc.compile(function, args, options={**HOST, "move_inputs": True}).plan
    assert isinstance(made, fxc.ExecutionPlan)
    return made


def test_inputs_are_brought_where_that_was_asked_for(tmp_path: Any) -> None:
    """Fake tensors of another device stand for tensors of one: a program on the CPU gives results on the CPU."""
    made = moving(lambda a, b: (a * 2 + 1) @ b, x(), x(8, 4))
    assert made.code.count(".to(cpu)") == 2
    torch.testing.assert_close(made(x(), x(8, 4)), (x() * 2 + 1) @ x(8, 4))
    made.save(tmp_path / "plan")
    for plan in (made, fxc.ExecutionPlan.load(tmp_path / "plan")):
        with FakeTensorMode():
            there = [torch.empty(5, 8, device="cuda"), torch.empty(8, 4, device="cuda")]
            found = plan(*there)
        assert found.device.type == "cpu" and found.shape == (5, 4)
    with pytest.raises(InputError, match="input a is on meta, where tensors hold no numbers"):
        made(x().to("meta"), x(8, 4))
    with pytest.raises(InputError, match=r"input a has shape \(4, 8\)"):
        made(x(4, 8), x(8, 4))
    with pytest.raises(InputError, match=r"input b has strides"):
        made(x(), x(4, 8).t())


def test_inputs_that_are_written_stay_where_they_are() -> None:
    made = moving(add_in_place, x(), x(seed=2))
    given = x()
    made(given, x(seed=2))
    torch.testing.assert_close(given, x() * 2 + x(seed=2))
    with FakeTensorMode(), pytest.raises(InputError, match="input a is on cuda"):
        made(torch.empty(5, 8, device="cuda"), torch.empty(5, 8))
    with pytest.raises(fxc.errors.PipelineError, match="move_inputs needs a host program"):
        fxc.compile(lambda a: a.relu(), (x(),), options={"move_inputs": True})
