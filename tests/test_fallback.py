"""Groups that cannot become kernels: the program runs, the other groups are kernels, and one warning says what and why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import torch
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, f64

import fxc
from fxc.codegen.cpu import kernel_printer, machine_code
from fxc.codegen.triton import launch as triton_launch
from fxc.codegen.triton.ahead_of_time import DEFAULT, compile_pool
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.compilation.passes import Passes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import PRESETS, GpuAttr
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.errors import FallbackWarning, FxcError, KernelError, PassError
from fxc.options import Options
from fxc.passes.kernels import append_kernels, convert_fusion_to_linalg, group_kernels, schedule
from fxc.passes.kernels.tile import tile
from fxc.passes.kernels.tile_matmul import tile_matmul
from fxc.passes.plan import merge_kernels
from fxc.program.program import Program
from fxc.tools.fxc_opt import run

OPTIONS: dict[str, Any] = {"fallback": True}
TORCH = "lower-to-torch,canonicalize,optimize{reductions=true}"


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    a = (x.cos() + 1) * 2
    b = (a @ w).sin() * 3
    c = (b @ w).tanh() - 1
    return c @ w


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(8, 8, generator=generator), torch.randn(8, 8, generator=generator) / 4


def breaks(patch: pytest.MonkeyPatch, where: object, name: str, mark: str, what: Callable[[], object]) -> None:
    """Let the function ``name`` do ``what`` where something that it is called with has ``mark`` in its text."""
    original = getattr(where, name)

    def broken(*arguments: Any, **options: Any) -> Any:
        if any(mark in str(each) for each in arguments):
            what()
        return original(*arguments, **options)

    patch.setattr(where, name, broken)


def fails() -> None:
    raise AssertionError("it cannot be done")


def compiled(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, list[str]]:
    """What is compiled, and the messages of the warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = fxc.compile(function, args, options=OPTIONS | options)
        result(*args)
    return result, [str(each.message) for each in found if each.category is FallbackWarning]


def kernels(module: ModuleOp) -> str:
    """What the kernels of ``module`` are made of."""
    return " ".join(str(op.attributes["tile.source"]) for op in module.ops if isinstance(op, KernelOp))


def check_replay(message: str) -> None:
    """Run the command that the warning says: it must end in the error."""
    found = re.search(r"replay with: fxc-opt (.*)", message)
    assert found is not None, message
    arguments = found[1].split()
    code, _, err = run(arguments, "")
    assert code != 0 and ("it cannot be done" in err or "not verify" in err), err


PASSES = {
    "convert": (convert_fusion_to_linalg, "_converted", "aten.sin"),
    "schedule": (schedule, "_chosen", "math.sin"),
    "tile": (tile, "_written", "math.sin"),
    "print": (kernel_printer, "_print_body", "math.sin"),
}


@pytest.mark.parametrize("place", PASSES)
def test_a_group_that_fails_runs_as_calls(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, mark = PASSES[place]
    breaks(monkeypatch, where, name, mark, fails)
    args = inputs()
    result, [message] = compiled(model, *args)
    torch.testing.assert_close(result(*args), model(*args))
    made = kernels(result.plan.ir.module)
    assert "aten.cos" in made and "aten.tanh" in made and "aten.sin" not in made
    assert "aten.sin.default: b = (a @ w).sin() * 3  (test_fallback.py:" in message and "aten.cos" not in message
    assert "it cannot be done" in message
    check_replay(message)
    for options in ({"strict": True}, {"fallback": False}):
        with pytest.raises((AssertionError, FxcError), match="it cannot be done"):
            fxc.compile(model, args, options=OPTIONS | options)


def test_ir_that_does_not_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tile._written

    def broken(group: GroupOp, names: Iterator[str]) -> Any:
        pairs, given = original(group, names)
        if "math.sin" in str(group):
            block = pairs[0][0].body.block
            first, *_, stored, _ = block.ops
            block.insert_op_before(test.TestOp(operands=[stored.operands[0]], result_types=[f64]), first)
        return pairs, given

    monkeypatch.setattr(tile, "_written", broken)
    args = inputs()
    result, [message] = compiled(model, *args)
    torch.testing.assert_close(result(*args), model(*args))
    assert "aten.cos" in kernels(result.plan.ir.module) and "does not verify" in message and "aten.sin" in message
    check_replay(message)


def test_object_code_of_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM refuses the text of all kernels together, and no exception names a group."""
    breaks(monkeypatch, machine_code, "cached_object", "llvm.sqrt", fails)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a = (x.abs() + 1) @ w
        b = (a * a + 2).sqrt() @ w
        return b.relu() * 3

    args = inputs()
    result, [message] = compiled(function, *args)
    torch.testing.assert_close(result(*args), function(*args))
    made = kernels(result.plan.ir.module)
    assert "aten.abs" in made and "aten.relu" in made and "aten.sqrt" in message and "aten.abs" not in message
    assert "--emit=llvm" in message


def test_groups_that_cannot_be_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a kernel alone: one of them is one, and the program as it was reproduces the failure."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sin() @ w, w.cos() @ w

    monkeypatch.setattr(group_kernels, "join", lambda *_: fails())
    args = inputs()
    result, [message] = compiled(function, *args)
    torch.testing.assert_close(result(*args), function(*args))
    made = kernels(result.plan.ir.module)
    assert ("aten.sin" in made) != ("aten.cos" in made) and ("aten.sin" in message) != ("aten.cos" in message)
    check_replay(message)


def test_a_last_program_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sum(0).sum(), w.cos() @ w

    monkeypatch.setattr(append_kernels, "choose_last", lambda *_: fails())
    args = torch.linspace(0, 1, 1 << 16).view(256, 256), inputs()[1]
    result, [message] = compiled(function, *args)
    torch.testing.assert_close(result(*args), function(*args))
    assert "aten.cos" in kernels(result.plan.ir.module) and "aten.sum" in message and "aten.cos" not in message
    check_replay(message)


def test_products_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, product: Any, *more: Any) -> Any:
        return fails() if product.op.operator == "aten.mm.default" else original(name, product, *more)

    original = tile_matmul.product_kernel
    monkeypatch.setattr(tile_matmul, "product_kernel", broken)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.mm(torch.matmul(x, w).sin(), w).cos()

    args = inputs()
    pipeline = f"{TORCH},lower-kernels{{matmul=all}},lower-to-plan"
    result, [message] = compiled(function, *args, pipeline=pipeline, target="host")
    torch.testing.assert_close(result(*args), function(*args))
    made = kernels(result.plan.ir.module)
    assert "aten.matmul" in made and "aten.cos" in made and "aten.mm" not in made and "aten.mm" in message
    check_replay(message)


def test_triton_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is printed where the launch is made."""
    breaks(monkeypatch, triton_launch, "print_kernel", "math.sin", fails)
    target = PRESETS["cuda:sm_90"]
    assert isinstance(target, GpuAttr)
    program, options = fxc.capture(model, inputs()), Options(target="cuda:sm_90")
    program.group_limit = options.group_limit
    pipeline = f"{TORCH},lower-kernels"

    def finish(program: Program) -> list[str]:
        launches = [op for op in program.module.walk() if isinstance(op, LaunchOp)]
        return [triton_launch.gpu_kernel(op, target).source.source for op in launches]

    with pytest.warns(FallbackWarning, match="aten.sin") as found:
        sources = Passes(pipeline, options).compile(program, finish)
    assert len(found) == 1 and "--emit=triton" in str(found[0].message)
    assert "aten.cos" in " ".join(sources) and "aten.tanh" in " ".join(sources) and "aten.sin" not in " ".join(sources)


@pytest.mark.slow
def test_triton_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compile in the background: the compilation waits, and learns that Triton rejects one."""
    printed = triton_launch.print_kernel
    target = PRESETS["cuda:sm_90"]
    assert isinstance(target, GpuAttr)

    def print_kernel(kernel: KernelOp) -> KernelSource:
        source = printed(kernel)
        return replace(source, source=f"{source.source}    unknown\n") if "math.sin" in str(kernel) else source

    def finish(program: Program) -> list[str]:
        launches = [op for op in program.module.walk() if isinstance(op, LaunchOp)]
        sources = [triton_launch.gpu_kernel(op, target).source for op in launches]
        for source in sources:
            compile_pool().submit(source, "cuda:sm_90", DEFAULT)
        return [source.source for source in sources]

    monkeypatch.setattr(triton_launch, "print_kernel", print_kernel)
    program, options = fxc.capture(model, inputs()), Options(target="cuda:sm_90")
    passes, captured = Passes(f"{TORCH},lower-kernels", options), program.copy()
    program.group_limit = options.group_limit
    with pytest.warns(FallbackWarning, match="unknown is not defined") as found:
        sources = passes.compile(program, finish)
    assert len(found) == 1 and "aten.sin" in str(found[0].message)
    assert "aten.cos" in " ".join(sources) and "aten.sin" not in " ".join(sources)
    with pytest.raises(KernelError, match="unknown is not defined"):
        passes.compile(captured, finish)  # it has no group limit, as where strict is set


@pytest.mark.slow
def test_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> None:
        while True:
            sleep(0.001)

    breaks(monkeypatch, schedule, "_chosen", "math.sin", endless)
    args = inputs()
    result, [message] = compiled(model, *args, group_seconds=1)
    torch.testing.assert_close(result(*args), model(*args))
    assert "aten.tanh" in kernels(result.plan.ir.module) and "time limit of 1 s" in message and "aten.sin" in message


def test_a_profiler_runs_after_a_time_limit() -> None:
    """In its own process: an interruption that is left pending makes CPython 3.11 loop forever in the first traced function."""
    code = """
import sys
from time import sleep
from xdsl.dialects.test import TestOp
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.passes.rewriting.one_group import one_group, time_limit

with time_limit(0.05):
    for _ in range(3):
        try:
            with one_group(TestOp()), one_group(TestOp()):
                sleep(0.1)
        except OpPassFailedException as error:
            print(error)
for trace in (sys.setprofile, sys.settrace):
    trace(lambda *_: None)
    (lambda: None)()
    trace(None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.count("the time limit of 0.05 s") == 3, done.stderr


def test_an_error_that_is_there_without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No group is at fault: the error is raised, and so are those that no compilation survives."""
    monkeypatch.setattr(merge_kernels, "_merged", lambda module: fails())
    with pytest.raises(PassError, match="it cannot be done"):
        compiled(model, *inputs())

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(merge_kernels, "_merged", no_memory)
    with pytest.raises(PassError) as found:
        compiled(model, *inputs())
    assert isinstance(found.value.__cause__, MemoryError)


def test_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups of backward are in a module inside the program's, and run as calls too."""
    breaks(monkeypatch, tile, "_written", "math.cos", fails)  # of sin in backward, and the first of forward
    args = [each.requires_grad_() for each in inputs()]
    want = torch.autograd.grad(model(*args).sum(), args)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = fxc.compile(model, tuple(args), training=True, options=OPTIONS | {"target": "host"})
        torch.testing.assert_close(torch.autograd.grad(result(*args).sum(), args), want)
    messages = [str(each.message) for each in found if each.category is FallbackWarning]
    assert len(messages) == 2 and all("aten.cos" in message for message in messages)
    for message in messages:
        check_replay(message)


def test_a_derivative_that_is_compiled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """So do those of a backward for other gradients, when it is compiled."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = x.sin() * 3
        return a @ w, a.tanh() @ w

    breaks(monkeypatch, tile, "_written", "math.cos", fails)
    args = [each.requires_grad_() for each in inputs()]
    want = torch.autograd.grad(function(*args)[0].sum(), args)
    with pytest.warns(FallbackWarning, match="aten.cos") as first:
        result = fxc.compile(function, tuple(args), training=True, options=OPTIONS | {"target": "host"})
    with pytest.warns(FallbackWarning, match="aten.cos") as later:
        torch.testing.assert_close(torch.autograd.grad(result(*args)[0].sum(), args), want)
    for found in (first, later):
        [message] = [str(each.message) for each in found if each.category is FallbackWarning]
        check_replay(message)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, tile, "_written", "math.sin", fails)
    torch._dynamo.reset()
    args = [each.requires_grad_() for each in inputs()]
    want = torch.autograd.grad(model(*args).sum(), args)
    with pytest.warns(FallbackWarning, match="aten.sin"):
        result = torch.compile(model, backend="fxc", dynamic=dynamic, options=OPTIONS)
        torch.testing.assert_close(torch.autograd.grad(result(*args).sum(), args), want)
    torch._dynamo.reset()


def test_a_saved_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, tile, "_written", "math.sin", fails)
    args = inputs()
    result, _ = compiled(model, *args)
    result.plan.save(tmp_path / "plan.zip")
    torch.testing.assert_close(fxc.ExecutionPlan.load(tmp_path / "plan.zip")(*args), model(*args))


def test_a_plan_with_calls_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    args = inputs()
    monkeypatch.setenv("FXC_CACHE_PLANS", "1")
    with monkeypatch.context() as patch:
        breaks(patch, tile, "_written", "math.sin", fails)
        _, messages = compiled(model, *args, cache_plans=True)
        assert len(messages) == 1
        _, messages = compiled(model, *args, cache_plans=True)
        assert len(messages) == 1
    result, messages = compiled(model, *args, cache_plans=True)
    assert not messages and "aten.sin" in kernels(result.plan.ir.module)


@pytest.mark.slow
def test_a_compilation_ends_under_a_profiler() -> None:
    """In a process of its own, which can be stopped."""
    code = (
        "import cProfile, fxc, torch\n"
        "with cProfile.Profile():\n"
        "    print(fxc.compile(lambda x: (x * 2 + 1).relu(), [torch.ones(3)])(torch.ones(3)).tolist())"
    )
    environment = {**os.environ, "FXC_CACHE_PLANS": "0"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    assert run.stdout.strip() == "[3.0, 3.0, 3.0]", run.stderr
