"""Types, gradients, loops and matrix products: what these passes claim holds when the program runs, and numbers stay."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType, UnitAttr
from xdsl.ir import Operation

from fxc.dialects.attributes.types import dtype_name, sizes, strides
from fxc.dialects.text.syntax import parse_module, print_module
from fxc.dialects.torch_ops import HigherOrderOp, TorchOp
from fxc.dialects.verify.verifier import verify
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.passes import load
from tests.test_simplify import CONTEXT, assert_equivalent, assert_same_bits, functions, outcome, programs, run

LIT = Path(__file__).parent.parent / "lit_tests" / "passes"
SIMPLIFY = ("canonicalize", "cse", "constant-propagation", "dce")


def _text(name: str) -> str:
    [path] = LIT.glob(f"*/{name}.mlir")
    return path.read_text()


def parts(name: str) -> Iterator[ModuleOp]:
    for part in _text(name).split("// -----"):
        yield parse_module(CONTEXT, part)


ENDLESS = ("away", "zero_step", "wraps", "narrow", "scaled_step", "other_step", "not_a_scalar")
"""Loops that do not end, or only after a long time."""


def runnable(name: str) -> Iterator[tuple[ModuleOp, str]]:
    """The functions of a lit file that the interpreter runs."""
    for module in parts(name):
        for function, op in functions(module).items():
            if op.sym_visibility is not None or function in ENDLESS:
                continue  # a pass may change what a private function takes
            try:
                outcome(module, function, 0)
            except Exception:
                continue
            yield module, function


# types


def check_types(op: Operation, values: Sequence[Any]) -> None:
    """Whether the types of ``op``'s results are true of what it gave."""
    for value, result in zip(values, op.results, strict=True):
        if not isinstance(result.type, TensorType):
            continue
        assert dtype_name(result.type.element_type) == str(value.dtype).removeprefix("torch.")
        expected = sizes(result.type)
        assert len(expected) == value.dim()
        assert all(not isinstance(size, int) or size == actual for size, actual in zip(expected, value.shape, strict=True))
        if all(isinstance(size, int) for size in expected) and value.numel():
            steps = strides(result.type)
            if steps is None:
                assert value.is_contiguous()
            else:
                assert all(not isinstance(s, int) or s == t for s, t in zip(steps, value.stride(), strict=True))


def run_checked(module: ModuleOp, name: str, args: Sequence[Any], check: Callable[[Operation, Sequence[Any]], None]) -> None:
    ReferenceInterpreter(functions(module), watch=lambda op, values, _: check(op, values)).call(functions(module)[name], args)


def test_types_are_true() -> None:
    ran = 0
    for module, name in runnable("propagate_shapes"):
        after = run(module, ["propagate-shapes"])
        args, _ = outcome(module, name, 1)
        run_checked(after, name, args, check_types)
        if not name.startswith("resized"):  # what resize_ adds holds whatever lay in memory
            assert_equivalent(module, after, name, 1)
        ran += 1
    assert ran >= 8


def test_types_of_random_programs() -> None:
    """Types that are all wrong come out as they were."""
    for seed, module in programs(40, in_place=0.1):
        expected = print_module(run(module, ["propagate-shapes"]))
        args, _ = outcome(module, "main", seed)
        run_checked(run(module, ["propagate-shapes"]), "main", args, check_types)
        for op in module.walk():
            for result in op.results if isinstance(op, TorchOp) else ():
                result._type = parse_type("tensor<9x9x9xf16>")
        assert print_module(run(module, ["propagate-shapes"])) == expected


def parse_type(text: str) -> Any:
    module = parse_module(CONTEXT, f"func.func private @f(%x: {text}) {{ func.return }}")
    return functions(module)["f"].function_type.inputs.data[0]


def test_a_large_graph_takes_little_time() -> None:
    kind = 'tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>'
    lines = [f"%v{i + 1} = torch.aten.relu.default(%v{i}) : ({kind}) -> {kind}" for i in range(1000)]
    body = "\n".join([f"func.func @main(%v0: {kind}) -> {kind} {{", *lines, f"func.return %v1000 : {kind}", "}"])
    module = parse_module(CONTEXT, f"builtin.module attributes {{torch.symbols = {{s0 = {{hint = 4, min = 2}}}}}} {{{body}}}")
    load("propagate-shapes")().apply(CONTEXT, module)
    start = time.perf_counter()
    load("propagate-shapes")().apply(CONTEXT, module)
    assert time.perf_counter() - start < 1


# gradients


def check_gradients(op: Operation, values: Sequence[Any]) -> None:
    """Nothing that requires grad is said not to: that would be a wrong gradient."""
    said = op.attributes.get("requires_grad")
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.requires_grad and isinstance(said, ArrayAttr):
            assert said.data[index].value.data, f"{op} gives what requires grad"  # type: ignore[attr-defined]


def leaf(value: Any, flag: bool) -> Any:
    """A tensor that requires grad and may be written."""
    if flag and isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.clone().requires_grad_().clone()
    return value


def test_gradients_are_not_lost() -> None:
    ran = 0
    for module, name in runnable("propagate_requires_grad"):
        after = run(module, ["propagate-requires-grad"])
        function = functions(after)[name]
        args, _ = outcome(module, name, 0)
        facts = function.arg_attrs or [DictionaryAttr({})] * len(args)
        flags = ["fx.requires_grad" in fact.data for fact in facts]  # type: ignore[attr-defined]
        run_checked(after, name, [leaf(a, f) for a, f in zip(args, flags, strict=True)], check_gradients)
        ran += 1
    assert ran >= 5


@pytest.mark.parametrize("in_place", [0.0, 0.2])
def test_gradients_of_random_programs(in_place: float) -> None:
    exact = 0
    for seed, module in programs(60, in_place):
        function = functions(module)["main"]
        flag = DictionaryAttr({"fx.requires_grad": UnitAttr()})
        function.arg_attrs = ArrayAttr([flag, DictionaryAttr({})])
        args, _ = outcome(module, "main", seed)
        load("propagate-requires-grad")().apply(CONTEXT, module)
        verify(module)
        found = list[bool]()

        def check(op: Operation, values: Sequence[Any], found: list[bool] = found) -> None:
            check_gradients(op, values)
            said = op.attributes["requires_grad"].data[0]  # type: ignore[attr-defined]
            found.append(bool(said.value.data) == values[0].requires_grad)

        run_checked(module, "main", [leaf(args[0], True), args[1]], check)
        exact += all(found)
    assert exact == 60 if not in_place else exact > 20


# loops

T = "tensor<4xf32>"


def loop(counter: str, start: str, bound: str, step: str, body: Sequence[str], compare: str = "lt") -> str:
    """A function of ``%s, %k, %x`` with one loop; ``start`` and ``bound`` are constants, or ``%s`` and ``%k``."""
    tensor = counter != "!torch.int"
    truth = "tensor<i1>" if tensor else "!torch.bool"
    kind = ("Tensor" if bound == "%k" else "Scalar") if tensor else ""
    test = f"torch.aten.{compare}.{kind}" if tensor else f"fx.call_function @operator.{compare}"
    add = "torch.aten.add.Tensor" if tensor else "fx.call_function @operator.add"
    right, right_type = ("%q", f", {counter}") if bound == "%k" else (bound, "")
    begin = (
        [f"%s0 = torch.aten.full.default([], {start}, dtype = torch.int64) : () -> {counter}"]
        if tensor and start != "%s"
        else []
    )
    first = "%s0" if begin else start
    passed = f"{counter}, " if first.startswith("%") else ""
    return "\n".join([
        f"func.func @main(%s: {counter}, %k: {counter}, %x: {T}) {{", *begin,
        f"%n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, ({first}, %x), (%k,)) ({{",
        f"^bb0(%i: {counter}, %a0: {T}, %q: {counter}):",
        f"%c = {test}(%i, {right}) : ({counter}{right_type}) -> {truth}", f"fx.output(%c) : ({truth}) -> ()", "}, {",
        f"^bb0(%i: {counter}, %a0: {T}, %q: {counter}):", f"%j = {add}(%i, {step}) : ({counter}) -> {counter}", *body,
        f"fx.output((%j, %a{len(body)})) : ({counter}, {T}) -> ()", f"}}) : ({passed}{T}, {counter}) -> ({counter}, {T})",
        f"fx.output((%n, %r)) : ({counter}, {T}) -> ()", "}",
    ])  # fmt: skip


def chain(length: int) -> list[str]:
    return [f"%a{i + 1} = torch.aten.cos.default(%a{i}) : ({T}) -> {T}" for i in range(length)]


READS = {
    "!torch.int": [f"%a1 = torch.aten.add.Scalar(%a0, %i) : ({T}, !torch.int) -> {T}"],
    "tensor<i64>": [f"%a1 = torch.aten.sub.Tensor(%a0, %i) : ({T}, tensor<i64>) -> {T}"],
}


def results(module: ModuleOp, counter: str, start: int, bound: int) -> list[Any]:
    scalars = [torch.tensor(v) if counter != "!torch.int" else v for v in (start, bound)]
    torch.manual_seed(0)
    return list(ReferenceInterpreter(functions(module)).call(functions(module)["main"], [*scalars, torch.linspace(-1, 1, 4)]))


def loops_in(module: ModuleOp) -> int:
    return sum(isinstance(op, HigherOrderOp) for op in module.walk())


def assert_same_results(text: str, counter: str, start: int, bound: int, loops: int | None) -> None:
    before = parse_module(CONTEXT, text)
    after = run(before, ["unroll-loops"])
    assert loops is None or loops_in(after) == loops
    for module in (after, run(after, SIMPLIFY), run(after, ["propagate-shapes"])):
        for a, b in zip(results(before, counter, start, bound), results(module, counter, start, bound), strict=True):
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.parametrize("counter", READS)
@pytest.mark.parametrize("body", ["reads", "cos", "rand"])
def test_constant_trips(counter: str, body: str) -> None:
    bodies = {"reads": READS[counter], "cos": chain(2), "rand": [f"%a1 = torch.aten.rand_like.default(%a0) : ({T}) -> {T}"]}
    for trips, loops in ((-3, 0), (0, 0), (1, 0), (63, 0), (64, 2), (71, 2)):
        assert_same_results(loop(counter, "0", str(trips), "1", bodies[body]), counter, 0, trips, loops)
    for (compare, start, bound, step), _ in itertools.product([("le", 3, 20, 5), ("gt", 9, -4, -2), ("ge", 9, 1, -2)], [0]):
        assert_same_results(loop(counter, str(start), str(bound), str(step), bodies[body], compare), counter, start, bound, 0)


@pytest.mark.parametrize("counter", READS)
def test_dynamic_trips(counter: str) -> None:
    for trips in (0, 1, 7, 8, 9, 16, 23):
        assert_same_results(loop(counter, "%s", "%k", "1", READS[counter]), counter, 0, trips, 2)
        assert_same_results(loop(counter, "%s", "%k", "-3", READS[counter], "gt"), counter, trips, -trips, 2)
        assert_same_results(loop(counter, "%s", "5", "2", READS[counter], "le"), counter, -trips, 5, 2)


def test_a_counter_near_the_end_of_its_range() -> None:
    top = 2**63 - 1
    for start in (top - 20, top - 9, top - 8, top - 3, top):
        assert_same_results(loop("tensor<i64>", "%s", "%k", "1", chain(1)), "tensor<i64>", start, top, 2)
        assert_same_results(loop("tensor<i64>", "%s", "%k", "-1", chain(1), "gt"), "tensor<i64>", -start, -top - 1, 2)
    assert_same_results(loop("tensor<i64>", str(top - 70), str(top), "1", chain(1)), "tensor<i64>", 0, 0, 2)


def test_size_limit() -> None:
    for size, loops in ((31, 0), (32, 1)):  # with the counting, 32 and 33 ops
        assert_same_results(loop("!torch.int", "0", "3", "1", chain(size)), "!torch.int", 0, 3, loops)


def test_lit_loops_keep_their_numbers() -> None:
    ran = 0
    for module, name in runnable("unroll_loops"):
        after = run(module, ["unroll-loops"])
        if name == "no_run":  # the interpreter hands on what PyTorch copies
            assert_same_bits(*(outcome(m, name, 0)[1] for m in (module, after)))
        else:
            assert_equivalent(module, after, name, 0)
        ran += 1
    assert ran >= 5


@pytest.mark.slow
def test_a_captured_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    import fxc

    def model(x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, torch.sin(x) + i), (0, x))[1]  # type: ignore[no-any-return]

    x = torch.randn(4)
    program = fxc.run_passes(fxc.capture(model, (x,), route="export"), "lower-to-torch,simplify,unroll-loops,simplify")
    assert loops_in(program.module) == 0
    assert torch.equal(fxc.to_fx(program)(x), model(x))


# matrix products


def close(a: Any, b: Any) -> None:
    assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
    torch.testing.assert_close(a, b)


def small(type: Any, dtype: torch.dtype) -> torch.Tensor:
    value = torch.randint(-4, 5, [4 if isinstance(s, str) else s for s in sizes(type)])
    return value if dtype is torch.int64 else (value / 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex64])
def test_products_keep_their_numbers(dtype: torch.dtype) -> None:
    ran, name = 0, {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.complex64: "complex<f32>"}[dtype]
    for part in _text("batch_mm").split("// -----"):
        if "1048577" in part:
            continue
        before = parse_module(CONTEXT, part.replace("xf32", f"x{name}").replace("relu", "neg"))
        after = run(before, ["batch-mm"])
        again = run(after, ["propagate-shapes"])
        assert print_module(again) == print_module(after) or "dynamic" in part, "the types are those that PyTorch gives"
        for function in functions(before):
            inputs = functions(before)[function].function_type.inputs.data
            args = [small(t, dtype) for t in inputs]
            values = [
                ReferenceInterpreter(functions(m)).call(functions(m)[function], [a.clone() for a in args])
                for m in (before, after)
            ]
            for a, b in zip(*map(torch.utils._pytree.tree_leaves, values), strict=True):
                close(a, b)
            ran += 1
    assert ran > 15


def random_products(seed: int) -> str:
    draw = random.Random(seed)
    kind, values, lines = "tensor<3x3xf64>", ["%a", "%b", "%c"], list[str]()
    for i in range(draw.randrange(10, 50)):
        left, right = draw.choice(values[:3] if draw.random() < 0.7 else values), draw.choice(values[-6:])
        operator = draw.choices(["mm.default", "add.Tensor", "tanh.default", "add_.Tensor"], [8, 5, 1, 0.15])[0]
        arguments = left if operator == "tanh.default" else f"{left}, {right}"
        types = kind if operator == "tanh.default" else f"{kind}, {kind}"
        lines.append(f"%v{i} = torch.aten.{operator}({arguments}) : ({types}) -> {kind}")
        values.append(f"%v{i}")
    returned = draw.sample(values[3:], 3)
    output = f"fx.output(({', '.join(returned)})) : ({', '.join([kind] * 3)}) -> ()"
    return "\n".join([f"func.func @main(%a: {kind}, %b: {kind}, %c: {kind}) {{", *lines, output, "}"])


@pytest.mark.slow
def test_random_products() -> None:
    changed = 0
    for seed in range(80):
        before = parse_module(CONTEXT, random_products(seed))
        after = parse_module(CONTEXT, random_products(seed))
        load("batch-mm")(min_leaves=2, min_batch=2).apply(CONTEXT, after)  # type: ignore[call-arg]
        verify(after)
        changed += print_module(before) != print_module(after)
        generator = torch.Generator().manual_seed(seed)
        args = [torch.randn(3, 3, dtype=torch.float64, generator=generator) / 3 for _ in range(3)]
        values = [
            ReferenceInterpreter(functions(m)).call(functions(m)["main"], [a.clone() for a in args]) for m in (before, after)
        ]
        for a, b in zip(*values, strict=True):
            close(a, b)
    assert changed > 30
