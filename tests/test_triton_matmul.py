"""Products of matrices as kernels, with what is around them, against eager: by the interpreter, the simulator and the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64

import fxc
from fxc.codegen.contract import KernelLaunch
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.target import AUTOTUNE, TF32, GpuAttr, preset, presets, set_target
from fxc.dialects.tile import KernelOp, LaunchOp
from fxc.dialects.torch_ops import TorchOp
from fxc.errors import PipelineError
from fxc.interpret.tile_level import launch
from fxc.measure.program_times import program_times
from fxc.passes.kernels.tile_matmul.tile_matmul import TileMatmulPass
from fxc.passes.operators.table import operator_of
from fxc.program.program import Program, new_context
from fxc.testing import parse, run_pass
from tests.kernel_engines import native, runner_of, simulated
from tests.simulator.simulator import simulate

GROUPS = "lower-to-torch,canonicalize,optimize{reductions=true},convert-fusion-to-linalg"
KERNELS = "schedule,tile"


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    inputs: Sequence[Tensor]
    blocks: tuple[int, int, int] = (16, 16, 16)
    fused: bool = True


HOLES = random(20, 30)
HOLES[3, 4], HOLES[19, 29] = torch.inf, torch.nan


def softened(x: Tensor) -> Tensor:
    return x.tanh() * 0.5


CASES = {
    "linear, gelu": Case(lambda x, w, b: gelu(nn.functional.linear(x, w, b)), (random(35, 20), random(18, 20), random(18))),
    "linear without bias": Case(lambda x, w: gelu(nn.functional.linear(x, w)), (random(2, 3, 50), random(33, 50))),
    "rows of a batch": Case(lambda x, w, b: softened(x @ w + b), (random(3, 5, 24), random(24, 40), random(40))),
    "scaled": Case(
        lambda x, y, z: softened(torch.addmm(z, x, y, beta=0.5, alpha=2)), (random(9, 7), random(7, 11), random(9, 1))
    ),
    "a bias that does not count": Case(
        lambda x, y, z: softened(torch.addmm(z, x, y, beta=0)), (random(9, 7), random(7, 11), torch.full((9, 11), torch.nan))
    ),
    "batches": Case(
        lambda q, k, m: torch.bmm(q, k.transpose(1, 2)) * 0.3 + m, (random(3, 20, 8), random(3, 17, 8), random(1, 20, 17))
    ),
    "a matrix of batches": Case(lambda x, y: softened(x @ y), (random(3, 20, 8), random(3, 8, 17))),
    "bfloat16": Case(
        lambda x, w, r: (x @ w).relu() + r,
        (random(17, 24, dtype=torch.bfloat16), random(24, 20, dtype=torch.bfloat16), random(17, 20, dtype=torch.bfloat16)),
    ),
    "float16 and a factor that is computed": Case(
        lambda x, w: softened(torch.exp(x) @ w), (random(17, 24, dtype=torch.float16), random(24, 20, dtype=torch.float16))
    ),
    "both factors computed": Case(lambda x, y: softened((x * 2).exp() @ (y + 1).cos()), (random(20, 30), random(30, 10))),
    "groups of rows": Case(lambda x, y: softened(x @ y), (random(400, 20), random(20, 33))),
    "one row": Case(lambda x, y: softened(x @ y), (random(1, 20), random(20, 33))),
    "one column": Case(lambda x, y: softened(x @ y), (random(20, 30), random(30, 1))),
    "one of each": Case(lambda x, y: softened(x @ y), (random(5, 1), random(1, 6))),
    "transposed": Case(lambda x, y: softened(x.t() @ y.t()), (random(30, 20), random(10, 30))),
    "a matrix and itself": Case(lambda x: softened(torch.addmm(x, x, x)), (random(20, 20),)),
    "infinite": Case(lambda x, y: softened(x @ y), (HOLES, random(30, 10))),
    "expanded": Case(lambda x, y: softened(x.expand(20, 30) @ y), (random(1, 30), random(30, 10))),
    "used twice": Case(lambda x, y: (softened(p := x @ y), p), (random(20, 30), random(30, 10))),
    "several results": Case(
        lambda x, y, z: (softened(p := x @ y), (p + z).relu()), (random(20, 30), random(30, 10), random(20, 1))
    ),
    "booleans": Case(lambda x, y, m: torch.where(m, x @ y, 0.0) > 1, (random(20, 30), random(30, 10), random(20, 10) > 0)),
    "plain": Case(lambda x, y: x @ y, (random(20, 30), random(30, 10))),
    "a sum behind": Case(lambda x, y: softened(x @ y).sum(1), (random(20, 30), random(30, 10)), fused=False),
    "another order behind": Case(
        lambda x, w: softened((x @ w).view(2, 9, 4, 8).permute(0, 2, 1, 3).contiguous()),
        (random(2, 9, 24), random(24, 32)),
        fused=False,
    ),
}
"""Function, arguments, blocks, and whether all that it computes is one kernel."""


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def program_of(case: Case, pipeline: str = KERNELS, *, tf32: bool = False) -> Program:
    """The case with each of its products asked for in blocks of its own."""
    program = fxc.run_passes(fxc.capture(Model(case.function), tuple(case.inputs)), GROUPS)
    set_target(program.module, preset("cuda:sm_90"), tf32=tf32)
    for op in program.module.walk():
        if operator_of(op).factors is not None:
            op.attributes["tile.blocks"] = DenseArrayBase.from_list(i64, case.blocks)
    return fxc.run_passes(program, f"tile-matmul,{pipeline}")


ENGINES = (launch, simulated, native)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CASES)
def test_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    program = program_of(case)
    products = [op for op in program.module.walk() if operator_of(op).factors is not None]
    launches = [op for op in program.module.walk() if isinstance(op, LaunchOp)]
    assert launches and not products
    assert (len(launches) == 1) == case.fused, f"{len(launches)} kernels"
    expected = case.function(*case.inputs)
    for engine in ENGINES:
        monkeypatch.setattr("fxc.codegen.contract.launch_runner", runner_of(engine))
        module = fxc.to_fx(program)
        assert any(isinstance(child, KernelLaunch) for child in module.modules())
        half = any(value.dtype in (torch.bfloat16, torch.float16) for value in case.inputs)
        more = {"rtol": 1.6e-2, "atol": 1e-2} if half else {"rtol": 1e-4, "atol": 1e-5}
        actual = module(*case.inputs)
        torch.testing.assert_close(actual, expected, equal_nan=True, **more)


def test_blocks_are_chosen_without_a_word() -> None:
    model = nn.Sequential(nn.Linear(100, 80), nn.GELU(), nn.Linear(80, 3))
    program = fxc.run_passes(fxc.capture(model, (random(20, 100),)), f"{GROUPS},tile-matmul{{choose=all}},{KERNELS}")
    sizes = [str(op.attributes["tile.source"]) for op in program.module.ops if isinstance(op, KernelOp)]
    assert len(sizes) == 2 and "linear" in sizes[0] and "gelu" in sizes[0]
    torch.testing.assert_close(fxc.to_fx(program)(random(20, 100)), model(random(20, 100)))


def test_a_choice_that_is_none() -> None:
    with pytest.raises(PipelineError, match="choose is one of measured, all, not 'fastest'"):
        fxc.run_passes(fxc.capture(nn.Linear(3, 4), (random(2, 3),)), "tile-matmul{choose=fastest}")


class Stopwatch:
    """In the place of the clock: says which of the ways is the fastest, or that there is no device."""

    def __init__(self, best: int | None) -> None:
        self.best, self.asked = best, list[list[list[str]]]()

    def times(self, modules: Sequence[Any]) -> Sequence[float] | None:
        self.asked.append([[op.name for op in module.walk() if isinstance(op, (TorchOp, LaunchOp))] for module in modules])
        return None if self.best is None else [float(i != self.best) for i in range(len(modules))]


ON_GPU = """
builtin.module attributes {fxc.target = #target.gpu<arch = "sm_90">ATTRIBUTES} {
  func.func @main(%x: TYPE, %y: TYPE) {
    %p = torch.aten.mm.default(%x, %y) : (TYPE, TYPE) -> TYPE
    %u = fusion.group ({
      %t = torch.aten.tanh.default(%p) : (TYPE) -> TYPE
      fusion.yield %t : TYPE
    }) -> TYPE
    fx.output(%u) : (TYPE) -> ()
  }
}
"""


def module_on(device: str, attributes: str = ", fxc.autotune") -> ModuleOp:
    text = ON_GPU.replace("TYPE", f'tensor<200x200xf32, #torch.meta<device = "{device}">>').replace("ATTRIBUTES", attributes)
    return parse(run_pass(text.replace(', #torch.meta<device = "cpu">', ""), "convert-fusion-to-linalg"))


@pytest.mark.parametrize(("best", "kernels"), [(0, 0), (2, 1), (None, 0)])
def test_a_kernel_is_chosen_where_it_is_faster(best: int | None, kernels: int) -> None:
    module, context, watch = module_on("cuda:0"), new_context(), Stopwatch(best)
    context.times = watch.times
    TileMatmulPass().apply(context, module)
    assert sum(isinstance(op, LaunchOp) for op in module.walk()) == kernels
    [ways] = watch.asked
    assert ways[0] == ["torch.aten.mm.default", "tile.launch"]
    assert len(ways) > 2 and all(way == ["tile.launch"] for way in ways[1:])


@pytest.mark.parametrize("module", [module_on("cuda:0", ""), module_on("cpu")], ids=["not asked for", "on the CPU"])
def test_nothing_is_measured(module: ModuleOp) -> None:
    context, watch = new_context(), Stopwatch(2)
    context.times = watch.times
    TileMatmulPass().apply(context, module)
    assert not watch.asked and not any(isinstance(op, LaunchOp) for op in module.walk())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_library_multiplies() -> None:
    x, y = random(20, 30), random(30, 10)
    assert program_times([module_on("cuda:0")]) is None
    made = fxc.compile(Model(lambda x, y: (x @ y).relu()), (x, y), options={"target": "cuda:sm_90", "autotune": True})
    assert any(operator_of(op).factors is not None for op in made.ir.module.walk())
    assert AUTOTUNE in made.ir.module.attributes
    torch.testing.assert_close(made(x, y), (x @ y).relu())


def test_float32_products_obey_the_precision_of_the_backend() -> None:
    """The setting is recorded in the program; only float32 is rounded, to what the library's products round it to."""
    case = CASES["plain"]
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        made = fxc.compile(Model(case.function), tuple(case.inputs), options={"target": "cuda:sm_90"})
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert TF32 in made.ir.module.attributes
    assert (
        TF32 not in fxc.compile(Model(case.function), tuple(case.inputs), options={"target": "cuda:sm_90"}).ir.module.attributes
    )
    for dtype, expected in ((torch.float32, "tf32"), (torch.float16, "ieee")):
        inputs = [value.to(dtype) for value in case.inputs]
        [source] = print_kernels(program_of(Case(case.function, inputs), tf32=True).module)
        assert f'input_precision="{expected}"' in source.source
        found = torch.empty(20, 10, dtype=dtype)
        simulate(source, [*inputs, found])
        error = (found.double() - inputs[0].double() @ inputs[1].double()).abs().max()
        assert error < 2e-2 and (error > 1e-4 or dtype is torch.float16)


LARGE = {
    torch.float32: Case(lambda x, w, b: gelu(nn.functional.linear(x, w, b)), (random(256, 128), random(128, 128), random(128))),
    torch.float16: Case(
        lambda x, w, r: (x * x.sigmoid() @ w).sigmoid() + r,
        [random(*shape, dtype=torch.float16) for shape in ((256, 128), (128, 128), (256, 128))],
    ),
}


@pytest.mark.parametrize("target", presets(GpuAttr))
def test_products_compile(target: str, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="needs the triton extra: pip install fxc[triton]")
    from fxc.codegen.triton.ahead_of_time import compile_kernels

    sources = list[Any]()
    for case in LARGE.values():
        [source] = print_kernels(program_of(Case(case.function, case.inputs, (64, 64, 32))).module)
        assert 'input_precision="ieee"' in source.source
        sources.append(source)
    single, half = compile_kernels(sources, target, cache=tmp_path)
    assert single.resources.spilled == 0 and half.resources.spilled == 0
    if target.startswith("cuda"):
        assert "tf32" not in single.assembly and "mma" not in single.assembly
        assert "cp.async.cg.shared.global" in half.assembly, "loads of the next block, while this one is multiplied"
        assert "ld.global.v4.b32" in half.assembly and "st.global.v4.b32" in half.assembly, "128 bits at once"
        assert "wgmma" in half.assembly if target.endswith("90") else "mma.sync" in half.assembly
    else:
        assert "v_mfma_f32" in half.assembly
