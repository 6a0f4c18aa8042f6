"""Compiled programs on disk: found for equal graphs alone, and as good as compiled ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._decomp import decomposition_table
from torch.library import Library

import fxc
from fxc.api import pipeline_for
from fxc.artifact import cache as program_cache
from fxc.compilation.passes import text_of
from fxc.pipelines import INFERENCE

ROOT = Path(__file__).parent.parent
ON = {"cache_plans": True}
HOST = {**ON, "target": "host"}
SHORT = {**ON, "pipeline": "lower-to-torch"}


class Net(torch.nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, width)
        self.scale, self.shift = torch.nn.Parameter(torch.rand(width)), torch.nn.Parameter(torch.rand(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.first(x) * self.scale + self.shift * 2, -1)


@pytest.fixture(autouse=True, name="folder")
def folder_of_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """That of the programs, which is empty."""
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(program_cache, "_START", math.inf)  # whoever edits fxc while this runs
    torch.manual_seed(0)
    return tmp_path / "programs"


def entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.entry"))


def x(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes or (4, 8), generator=torch.Generator().manual_seed(1))


def is_cached(compiled: fxc.Compiled) -> bool:
    return compiled.plan.stats.is_cached


# the key


def key(model: Any = None, args: tuple[Any, ...] = (), dynamic: Any = None, **options: Any) -> str | None:
    """What the pipeline of inference would be looked up under."""
    torch.manual_seed(0)
    program = fxc.capture(model or Net(), args or (x(),), dynamic_shapes=dynamic)
    chosen = fxc.Options(**{"target": None, **options})
    return program_cache.key_of(program, pipeline_for(INFERENCE, chosen), text_of(chosen))


class Other(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.first(x) * self.scale + self.shift * 2, -1)


class Constant(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.first(x) * self.scale + self.shift * 3, -1)


def tied() -> torch.nn.Module:
    model = Net()
    model.shift = model.scale
    return model


BATCH = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
WIDER = {"x": {0: torch.export.Dim("batch", min=2, max=128)}}

DIFFERENT: dict[str, Callable[[], str | None]] = {
    "sizes": lambda: key(args=(x(5, 8),)),
    "dtype": lambda: key(Net().double(), (x().double(),)),
    "strides": lambda: key(args=(x(8, 4).t(),)),
    "size of a weight": lambda: key(Net(24)),
    "frozen parameter": lambda: key(Net().requires_grad_(False)),
    "one tensor for two weights": lambda: key(tied()),
    "a number": lambda: key(Constant()),
    "line of the source": lambda: key(Other()),
    "a free size": lambda: key(dynamic=BATCH),
    "bounds of a free size": lambda: key(dynamic=WIDER),
    "hint of a free size": lambda: key(args=(x(7, 8),), dynamic=BATCH),
    "pipeline": lambda: key(pipeline="lower-to-torch"),
    "target": lambda: key(target="interpret"),
    "another target": lambda: key(target="host"),
    "freeze": lambda: key(freeze=True),
    "autotune": lambda: key(autotune=True),
}


def test_what_changes_a_program_changes_the_key() -> None:
    keys = {name: make() for name, make in DIFFERENT.items()} | {"none": key()}
    assert None not in keys.values() and len(set(keys.values())) == len(keys), keys


def test_what_does_not_change_a_program_does_not_change_the_key() -> None:
    other = Net()
    with torch.no_grad():
        other.first.weight.add_(1)
    same = [key(other), key(verify_each=False), key(timing=True), key(recompile=True, cache_size=3), key(args=(x() + 1,))]
    assert same == [key()] * len(same)


def settings() -> dict[str, Callable[[bool], Any]]:
    return {
        "threads": lambda on: torch.set_num_threads(3 if on else 1),
        "default dtype": lambda on: torch.set_default_dtype(torch.float64 if on else torch.float32),
        "deterministic": lambda on: torch.use_deterministic_algorithms(on),
        "precision": lambda on: torch.set_float32_matmul_precision("medium" if on else "highest"),
        "grad mode": lambda on: torch.set_grad_enabled(not on),
        "autocast": lambda on: torch.set_autocast_enabled("cpu", on),
        "default device": lambda on: torch.set_default_device("meta" if on else None),
        "oneDNN": lambda on: torch.backends.mkldnn.set_flags(not on),
        "SDPA": lambda on: torch.backends.cuda.enable_flash_sdp(not on),
        "SDPA, efficient": lambda on: torch.backends.cuda.enable_mem_efficient_sdp(not on),
        "SDPA, math": lambda on: torch.backends.cuda.enable_math_sdp(not on),
        "SDPA, cuDNN": lambda on: torch.backends.cuda.enable_cudnn_sdp(not on),
    }


@pytest.mark.parametrize("name", settings())
def test_settings_of_pytorch_are_part_of_the_key(name: str) -> None:
    program = fxc.capture(Net(), (x(),))
    before = program_cache.key_of(program)
    settings()[name](True)
    try:
        assert program_cache.key_of(program) != before
    finally:
        settings()[name](False)
    assert program_cache.key_of(program) == before


def test_versions_and_sources_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def found() -> str | None:
        program_cache._source.cache_clear()
        return program_cache._source()

    first = found()
    assert found() == first
    with monkeypatch.context() as patch:
        patch.setattr(program_cache, "version", lambda name: "9.9" if name == "xdsl" else "1.0")
        assert found() != first
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.py").write_text("1")
    monkeypatch.setattr(program_cache.passes, "__path__", [str(own)])
    second = found()
    (own / "a.py").write_text("2")
    assert len({first, second, found()}) == 3
    monkeypatch.setattr(program_cache, "_START", (own / "a.py").stat().st_mtime - 1)
    assert found() is None and key() is None  # what runs is older than the file
    program_cache._source.cache_clear()


def test_the_instructions_of_the_cpu_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from fxc.runtime.host_cpu import features_named

    program = fxc.capture(Net(), (x(),))
    keys = {program_cache.key_of(program)}
    for features in ("", "+avx2"):
        monkeypatch.setattr(program_cache, "host_features", lambda features=features: features_named(features))
        keys.add(program_cache.key_of(program))
    assert len(keys) == 3


def test_which_inputs_require_gradients_is_part_of_the_key() -> None:
    for inputs in ((x(),), (x().requires_grad_(),)):
        assert not is_cached(fxc.compile(Net(), inputs, training=True, options=SHORT))


def mine(x: torch.Tensor) -> torch.Tensor:
    return x * 2


torch.fx.wrap("mine")


def test_what_text_does_not_say_is_not_kept() -> None:
    library = Library("fxc_test_cache", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    assert program_cache.key_of(fxc.capture(torch.ops.fxc_test_cache.twice.default, (x(),), route="make_fx")) is not None
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", lambda x: x * 3, "CompositeExplicitAutograd")
    library.impl("thrice", lambda x: torch.empty_like(x), "Meta")
    assert program_cache.key_of(fxc.capture(lambda x: torch.ops.fxc_test_cache.thrice(x), (x(),))) is None
    program = fxc.capture(lambda x: mine(x), (x(),), route="symbolic_trace")
    assert program.live and program_cache.key_of(program) is None


def test_decompositions_of_the_users_own_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    program = fxc.capture(Net(), (x(),))
    assert program_cache.key_of(program) is not None
    monkeypatch.setitem(decomposition_table, torch.ops.aten.erfinv.default, mine)
    assert program_cache.key_of(program) is None


def test_no_gpu_is_asked_for_its_name_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """That starts the driver, and is an error in a forked process."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"GPU {i}")
    keys = list[str | None]()
    for is_used in (False, True):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda is_used=is_used: is_used)
        assert ("GPU 0" in str(program_cache._process())) == is_used
        keys.append(key())
    assert keys[0] != keys[1]


@pytest.mark.parametrize("option", ["cache_plans", "check_numerics", "print_ir"])
def test_options_that_look_at_passes_run_them(option: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def twice() -> list[bool]:
        options = {**ON, "pipeline": "lower-to-torch", option: option != "cache_plans"}
        return [is_cached(fxc.compile(Net(), (x(),), options=options)) for _ in range(2)]

    assert twice() == [False, False] and not entries(folder)


def test_the_environment_switches_it_off(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for text, found in (("0", False), ("1", True)):
        monkeypatch.setenv("FXC_CACHE_PLANS", text)
        fxc.compile(Net(), (x(),), options={"pipeline": "lower-to-torch"})
        assert bool(entries(folder)) == found


# what is found


@pytest.mark.parametrize("options", [ON, HOST, {**HOST, "freeze": True}], ids=["operators", "host", "frozen"])
def test_a_found_plan_computes_with_the_weights_of_the_model(options: dict[str, Any], folder: Path) -> None:
    first = fxc.compile(Net().eval(), (x(),), options=options)
    assert not is_cached(first) and first.plan.stats.times["plan cache"] > 0
    model = Net().eval()
    made = fxc.compile(model, (x(),), options=options)
    assert is_cached(made) and "cached plan" in str(made.plan.stats) and "plan cache" not in made.plan.stats.times
    torch.testing.assert_close(made(x()), model(x()))
    before = model(x())
    with torch.no_grad():
        model.first.weight.mul_(-1)
    torch.testing.assert_close(made(x()), before if "freeze" in options else model(x()))
    weights = model.first.weight.detach().neg().numpy().tobytes()
    assert all(weights[:32] not in path.read_bytes() for path in entries(folder))


def test_gradients_of_a_found_plan() -> None:
    for found in (False, True):
        model, inputs = Net(), x().requires_grad_()
        made = fxc.compile(model, (inputs,), training=True, options=HOST)
        assert is_cached(made) is found
        wanted = [inputs, *model.parameters()]
        ours = torch.autograd.grad(made(inputs).square().sum(), wanted)
        torch.testing.assert_close(ours, torch.autograd.grad(model(inputs).square().sum(), wanted))


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x.mul_(2)
        return x + self.calls


def test_a_found_plan_writes_buffers_and_inputs() -> None:
    for found in (False, True):
        model, given = Counter(), torch.ones(3)
        made = fxc.compile(model, (torch.ones(3),), options=HOST)
        assert is_cached(made) is found
        torch.testing.assert_close(made(given), torch.full((3,), 3.0))
        torch.testing.assert_close((model.calls, given), (torch.ones(3), torch.full((3,), 2.0)))


def test_a_found_plan_draws_the_same_random_numbers() -> None:
    model, drawn = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout()), list[torch.Tensor]()
    for found in (False, True):
        made = fxc.compile(model, (x(),), training=True, options=HOST)
        assert is_cached(made) is found
        torch.manual_seed(3)
        drawn += [made(x()), made(x())]
    torch.testing.assert_close(drawn[:2], drawn[2:], rtol=0, atol=0)
    assert not torch.equal(drawn[0], drawn[1])


def test_a_found_plan_of_free_sizes() -> None:
    for found in (False, True):
        made = fxc.compile(model := Net(), (x(),), dynamic_shapes=BATCH, options=HOST)
        assert is_cached(made) is found
        torch.testing.assert_close(made(x(9, 8)), model(x(9, 8)))
        with pytest.raises(fxc.errors.InputError):
            made(x(65, 8))


@pytest.mark.slow
def test_torch_compile_finds_forward_and_backward(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    def run() -> str:
        torch._dynamo.reset()
        model, inputs = Net(), x().requires_grad_()
        wanted = [inputs, *model.parameters()]
        compiled = torch.compile(model, backend="fxc", options={**HOST, "timing": True})
        ours = torch.autograd.grad(compiled(inputs).square().sum(), wanted)
        torch.testing.assert_close(ours, torch.autograd.grad(model(inputs).square().sum(), wanted))
        return capfd.readouterr().err

    assert "lower-kernels" in run() and len(entries(folder)) == 2
    err = run()
    assert "lower-kernels" not in err and err.count("cached plan") == 2


def test_a_frozen_graph_of_torch_compile_has_the_weights_of_its_model() -> None:
    for scale in (1, 2):
        torch._dynamo.reset()
        model = Net().eval()
        with torch.no_grad():
            model.first.weight.mul_(scale)
            compiled = torch.compile(model, backend="fxc", options={**HOST, "freeze": True})
            torch.testing.assert_close(compiled(x()), model(x()))


def test_precisions_count_however_they_were_set(folder: Path) -> None:
    """PyTorch's question for the old setting is an error where a new one was set."""
    before = torch.backends.mkldnn.matmul.fp32_precision
    try:
        for precision, found in (("ieee", False), ("bf16", False), ("ieee", True)):
            torch.backends.mkldnn.matmul.fp32_precision = precision
            assert is_cached(fxc.compile(Net(), (x(),), options=ON)) == found
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before
