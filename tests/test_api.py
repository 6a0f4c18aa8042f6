"""The public functions on small models: capture by each route, compile, torch.compile, run_passes."""

from __future__ import annotations

import copy
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import fxc
from fxc.errors import CaptureError, InputError, PassError, PipelineError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor, scale: float = 1.0, bias: Tensor | None = None) -> Tensor:
        y = self.second(torch.relu(self.norm(self.first(x)))) * scale
        return y if bias is None else y + bias


class Plain(Net):
    """Without optional inputs, which symbolic_trace cannot leave out."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)


class Nested(nn.Module):
    def forward(self, pair: tuple[Tensor, Tensor], table: dict[str, Any], *, more: list[Tensor]) -> dict[str, Any]:
        a, b = pair
        return {"sum": a + b, "items": [table["x"] * 2, (more[0] - 1, more[1])], "constant": 3, "none": None}


def x() -> Tensor:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def test_four_routes() -> None:
    model = Plain().eval()
    levels = {"export": "torch.aten", "make_fx": "torch.aten", "symbolic_trace": "fx.call_module", "dynamo": "fx.call_function"}
    for route, level in levels.items():
        program = fxc.capture(model, (x(),), route=route)
        assert level in str(program), route
        result = fxc.to_fx(program)(x())
        torch.testing.assert_close(result[0] if isinstance(result, tuple) else result, model(x()))
        again = fxc.Program.parse(program.text(debuginfo=True), program.state)
        assert again.text(debuginfo=True) == program.text(debuginfo=True), route


@pytest.mark.parametrize("route", ["export", "symbolic_trace", "dynamo", "make_fx"])
def test_keyword_inputs(route: str) -> None:
    model, bias = Net().eval(), torch.randn(3)
    program = fxc.capture(model, (x(),), {"bias": bias}, route=route)
    names = [str(attrs.data.get("fx.name")) for attrs in program.main.arg_attrs or ()]
    assert any("bias" in name for name in names) or route == "make_fx"
    if route == "export":
        torch.testing.assert_close(fxc.to_fx(program)(x(), bias=bias), model(x(), bias=bias))
        torch.testing.assert_close(fxc.Interpreter(program).run(x(), bias=bias), model(x(), bias=bias))


def test_nested_inputs_and_outputs() -> None:
    model = Nested()
    a, b, c = torch.randn(2), torch.randn(2), torch.randn(2)
    args, kwargs = ((a, b), {"x": c}), {"more": [a, b]}
    expected = model(*args, **kwargs)
    program = fxc.capture(model, args, kwargs)
    for result in (
        fxc.to_fx(program)(*args, **kwargs),
        fxc.to_fx(fxc.run_passes(program, "lower-to-torch,simplify"))(*args, **kwargs),
        fxc.compile(model, args, kwargs)(*args, **kwargs),
        fxc.Interpreter(program).run(*args, **kwargs),
    ):
        assert list(result) == list(expected) and result["constant"] == 3 and result["none"] is None
        assert isinstance(result["items"], list) and isinstance(result["items"][1], tuple)
        torch.testing.assert_close(result["sum"], expected["sum"])
        torch.testing.assert_close(result["items"], expected["items"])


def test_functions_and_lambdas() -> None:
    program = fxc.capture(lambda a, b: a @ b, (torch.ones(2, 3), torch.ones(3, 2)))
    assert fxc.to_fx(program)(torch.ones(2, 3), torch.ones(3, 2)).tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_dynamic_shapes() -> None:
    model = Net().eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    program = fxc.capture(model, (x(),), dynamic_shapes=({0: batch},))
    assert '"s' in str(program) and "torch.symbols" in str(program)
    compiled = fxc.compile(model, (x(),), dynamic_shapes=({0: batch},))
    for rows in (2, 7, 64):
        inputs = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(inputs), model(inputs))
    with pytest.raises(InputError, match="65"):
        compiled(torch.randn(65, 4))


def test_capture_errors_say_the_way_out() -> None:
    with pytest.raises(CaptureError, match="no capture route 'trace'") as caught:
        fxc.capture(Net(), (x(),), route="trace")
    assert "export, symbolic_trace" in str(caught.value)
    with pytest.raises(CaptureError, match="takes no dynamic_shapes"):
        fxc.capture(Net(), (x(),), route="dynamo", dynamic_shapes=({0: 1},))

    def branches(x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x

    for route in ("export", "symbolic_trace", "dynamo"):
        with pytest.raises(CaptureError) as caught:
            fxc.capture(branches, (x(),), route=route)
        assert "torch.cond" in str(caught.value) or "route" in str(caught.value)
    with pytest.raises(CaptureError, match="import_fx takes"):
        fxc.import_fx(Net())  # type: ignore[arg-type]


def test_capture_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout()).train()
    before, generator = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    for route in ("export", "symbolic_trace", "dynamo", "make_fx"):
        fxc.capture(model, (x(),), route=route)
        assert model.training and all(torch.equal(before[k], v) for k, v in model.state_dict().items()), route
    assert torch.equal(generator, torch.get_rng_state())


# compile


def test_compile_gives_eagers_numbers() -> None:
    model = Net().eval()
    compiled = fxc.compile(model, (x(),))
    torch.testing.assert_close(compiled(x()), model(x()))
    assert not compiled(x()).requires_grad
    assert "torch.aten.mm" in str(compiled.ir) and "aten" in compiled.plan.code and "1 input" in repr(compiled)


def test_parameters_stay_the_models_own() -> None:
    model = Net().eval()
    compiled = fxc.compile(model, (x(),))
    with torch.no_grad():
        model.second.weight.mul_(2)
    torch.testing.assert_close(compiled(x()), model(x()))
    model.load_state_dict({k: torch.ones_like(v) for k, v in model.state_dict().items()})
    torch.testing.assert_close(compiled(x()), model(x()))


def test_training_gradients() -> None:
    model = Net().train()
    reference = copy.deepcopy(model)
    inputs, reference_inputs = x().requires_grad_(), x().requires_grad_()
    compiled = fxc.compile(model, (inputs,), training=True)
    compiled(inputs).square().sum().backward()
    reference(reference_inputs).square().sum().backward()
    torch.testing.assert_close(inputs.grad, reference_inputs.grad)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, reference.get_parameter(name).grad)


def test_training_loop_with_an_optimizer() -> None:
    model = Net()
    reference = copy.deepcopy(model)
    compiled = fxc.compile(model, (x(),), training=True)
    for network, call in ((model, compiled), (reference, reference)):
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            call(x()).square().mean().backward()
            optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, reference.get_parameter(name))


def test_mutated_buffers_and_inputs() -> None:
    model = nn.BatchNorm1d(4).train()
    reference = copy.deepcopy(model)
    compiled = fxc.compile(model, (x(),))
    assert torch.equal(model.running_mean, reference.running_mean)  # type: ignore[arg-type]
    torch.testing.assert_close(compiled(x()), reference(x()))
    torch.testing.assert_close(model.state_dict(), reference.state_dict())

    def write(a: Tensor) -> Tensor:
        a.mul_(2)
        return a.sum()

    argument = x()
    result = fxc.compile(write, (x(),))(argument)
    torch.testing.assert_close(argument, x() * 2)
    torch.testing.assert_close(result, (x() * 2).sum())


def test_random_ops_draw_like_eager() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    compiled = fxc.compile(model, (x(),))
    torch.manual_seed(3)
    expected = model(x())
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x()), expected)
    assert not torch.equal(compiled(x()), compiled(x()))


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((torch.zeros(5, 4).double(),), {}, r"has dtype torch.float64, but torch.float32 is expected"),
        ((torch.zeros(6, 4),), {}, r"has shape \(6, 4\), but \(5, 4\) is expected"),
        ((torch.zeros(5, 4, 1),), {}, r"has shape \(5, 4, 1\), but \(5, 4\) is expected"),
        ((torch.zeros(5, 4, device="meta"),), {}, r"is on meta"),
        ((3.0,), {}, r"is a float, but a tensor is expected"),
        ((), {}, r"1 positional inputs are expected, but got 0 \(the inputs are x\)"),
        ((torch.zeros(5, 4), torch.zeros(5, 4)), {}, r"1 positional inputs are expected, but got 2"),
        ((torch.zeros(5, 4),), {"other": torch.zeros(1)}, r"input other is given, but not expected"),
        (([torch.zeros(5, 4)],), {}, r"input 0 is nested otherwise than in the example"),
    ],
)
def test_inputs_that_do_not_fit(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    compiled = fxc.compile(Net().eval(), (x(),))
    with pytest.raises(InputError, match=message) as caught:
        compiled(*args, **kwargs)
    assert caught.value.hint or "expected" in caught.value.message


def test_options() -> None:
    model = Net().eval()
    for options in ({"pipeline": "lower-to-torch"}, fxc.Options(pipeline="lower-to-torch"), None, {"check_numerics": True}):
        torch.testing.assert_close(fxc.compile(model, (x(),), options=options)(x()), model(x()))
    with pytest.raises(PipelineError, match="no option 'pipelin'") as caught:
        fxc.compile(model, (x(),), options={"pipelin": "cse"})
    assert "did you mean pipeline" in str(caught.value)
    with pytest.raises(PipelineError, match="there is no pass or pipeline csee"):
        fxc.compile(model, (x(),), options={"pipeline": "csee"})


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("cache_plans", "no", "True or False"),
        ("verify_each", 1, "True or False"),
        ("streams", "two", "a number from 1 on"),
        ("streams", 0, "a number from 1 on"),
        ("streams", True, "a number from 1 on"),
        ("cache_size", 2.0, "a number from 1 on"),
        ("target", 3, "a text or None"),
        ("pipeline", ["cse"], "a text or None"),
        ("passes", [{}], "a list of classes of passes and of Python files"),
        ("passes", (int,), "a list of classes of passes and of Python files"),
        ("passes", "mine.py", "a list of classes of passes and of Python files"),
    ],
)
def test_options_of_another_kind(name: str, value: Any, takes: str) -> None:
    message = re.escape(f"option {name} is {value!r}") + f"\n.*it takes {takes}"
    with pytest.raises(PipelineError, match=message):
        fxc.compile(Net().eval(), (x(),), options={name: value})
    with pytest.raises(PipelineError, match=message):
        fxc.Options(**{name: value})


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("CACHE_PLANS", "maybe", "True or False, .* 1 or 0"),
        ("STREAMS", "0", "a number from 1 on"),
        ("CACHE_SIZE", "-1", "a number"),
    ],
)
def test_values_of_the_environment_of_another_kind(name: str, text: str, takes: str) -> None:
    with pytest.raises(PipelineError, match=f"FXC_{name} is '{text}'\n.*it takes {takes}"):
        fxc.Options.from_env({f"FXC_{name}": text})


@pytest.mark.parametrize(
    ("options", "training", "why"),
    [
        ({"target": "host"}, False, "the target is host, which is not a GPU"),
        ({"target": None}, False, "the target is None, which is not a GPU"),
        ({}, False, "the target is host, which is not a GPU"),
        ({"target": "cuda:sm_90"}, True, "training plans have no streams"),
        ({"pipeline": "lower-to-torch"}, False, "the option pipeline decides it\n.*lower-to-plan{streams=2}"),
    ],
)
def test_streams_where_there_are_none(options: dict[str, Any], training: bool, why: str) -> None:
    with pytest.raises(PipelineError, match=f"streams is 2, but {why}"):
        fxc.compile(Net().eval(), (x(),), training=training, options={**options, "streams": 2})


@pytest.mark.parametrize(("name", "value"), [("memory_budget", 0.5), ("memory_budget", "64MiB"), ("offload", 1)])
def test_memory_options_where_no_joint_graph_is_partitioned(name: str, value: float | str) -> None:
    with pytest.raises(PipelineError, match=rf"{name} is {value!r}, but .*\n.*torch.compile\(model, backend='fxc'\)"):
        fxc.compile(Net(), (x(),), training=True, options={name: value})
    assert fxc.compile(Net().eval(), (x(),), options={name: value}).plan.training is False


def test_options_from_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FXC_PRINT_IR", "1")
    monkeypatch.setenv("FXC_PIPELINE", "lower-to-torch,dce")
    fxc.compile(lambda a: torch.relu(a) + a.view(-1).unsqueeze(0).squeeze(0).view(5, 4), (x(),))
    assert fxc.Options.from_env().pipeline == "lower-to-torch,dce"
    monkeypatch.setenv("FXC_PRINT_IR", "maybe")
    with pytest.raises(fxc.errors.FxcError, match="FXC_PRINT_IR is 'maybe'"):
        fxc.Options.from_env()
    capsys.readouterr()


def test_print_ir_and_timing(capsys: pytest.CaptureFixture[str]) -> None:
    fxc.compile(lambda a: torch.relu(a) * 1, (x(),), options={"print_ir": True, "timing": True})
    captured = capsys.readouterr()
    assert "IR Dump After canonicalize" in captured.err and "canonicalize" in captured.err and not captured.out


def test_passes_of_the_users_own_in_the_slots_of_the_pipeline() -> None:
    seen = list[str]()

    @dataclass(frozen=True)
    class CountSines(ModulePass):
        name = "count-sines"
        where: str = ""

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            seen.append(f"{self.where} {sum(inner.name == 'torch.aten.sin.default' for inner in op.walk())}")

    pipeline = 'lower-to-torch,torchscript{pre="count-sines{where=before}" post="count-sines{where=after},dce"}'
    compiled = fxc.compile(lambda a: a.sin() + a.sin(), (x(),), options={"pipeline": pipeline, "passes": (CountSines,)})
    assert seen == ["before 1", "after 1"]
    torch.testing.assert_close(compiled(x()), 2 * x().sin())


# torch.compile


def test_torch_compile_inference() -> None:
    model = Net().eval()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fxc")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x()), model(x()))
        torch.testing.assert_close(compiled(x(), 2.0, torch.ones(3)), model(x(), 2.0, torch.ones(3)))
    with torch.no_grad():
        model.second.weight.zero_()
        torch.testing.assert_close(compiled(x()), model(x()))


def test_torch_compile_training() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2)).train()
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend="fxc")
    compiled(x()).square().sum().backward()
    reference(x()).square().sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, reference.get_parameter(name).grad)
    torch.testing.assert_close(model.state_dict(), reference.state_dict())


def test_torch_compile_options_and_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()

    def function(a: Tensor) -> Tensor:
        b = a * 1 + 1
        if b.sum() > 0:  # a graph break
            return torch.relu(b)
        return b - 1

    compiled = torch.compile(function, backend="fxc", options={"print_ir": True})
    torch.testing.assert_close(compiled(x() + 9), function(x() + 9))
    torch.testing.assert_close(compiled(x() - 9), function(x() - 9))
    assert "IR Dump After" in capsys.readouterr().err
    torch._dynamo.reset()
    with pytest.raises(Exception, match="fxc has no option 'nothing'"):
        torch.compile(function, backend="fxc", options={"nothing": True})(x())
    with pytest.raises(Exception, match="fxc has no mode 'max-autotune'"):
        torch.compile(function, backend="fxc", mode="max-autotune")(x())


def test_torch_compile_dynamic() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda a: torch.softmax(a, -1).reshape(-1, a.shape[-1]) * 2, backend="fxc", dynamic=True)
    for rows in (2, 3, 9):
        inputs = torch.randn(rows, 3, 4)
        torch.testing.assert_close(compiled(inputs), torch.softmax(inputs, -1).reshape(-1, 4) * 2)


# run_passes


def test_run_passes_leaves_the_program_unchanged() -> None:
    model = Plain().eval()
    program = fxc.capture(model, (x(),), route="symbolic_trace")
    text, state, live = program.text(debuginfo=True), dict(program.state), dict(program.live)
    result = fxc.run_passes(program, "lower-to-torch,simplify")
    assert program.text(debuginfo=True) == text and program.live == live
    assert all(program.state[name] is tensor for name, tensor in state.items()) and len(program.state) == len(state)
    assert result is not program and str(result) != str(program)
    torch.testing.assert_close(fxc.to_fx(result)(x()), model(x()))

    class BreakPass(ModulePass):
        """break: erases the body, then raises."""

        name = "break"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for inner in list(op.ops):
                inner.detach()
            raise ValueError("on purpose")

    with pytest.raises(PassError, match="pass break crashed: ValueError: on purpose"):
        fxc.run_passes(program, "break", passes=[BreakPass])
    assert program.text(debuginfo=True) == text


def test_passes_from_files() -> None:
    path = Path(__file__).parent.parent / "examples" / "custom_pass" / "square_by_mul.py"
    program = fxc.capture(lambda a: a**2, (x(),))
    assert "aten.mul" in str(fxc.run_passes(program, "square-by-mul", passes=[path]))
    assert "aten.mul" in str(fxc.run_passes(program, "square-by-mul", passes=[str(path)]))
    with pytest.raises(PipelineError, match="there is no such file"):
        fxc.run_passes(program, "square-by-mul", passes=["nothing.py"])


def test_interpreter_can_be_subclassed() -> None:
    seen = list[str]()

    class Log(fxc.Interpreter):
        def run_node(self, op: Any) -> Any:
            seen.append(op.name)
            return super().run_node(op)

    model = Plain().eval()
    for route in ("export", "symbolic_trace"):
        program = fxc.capture(model, (x(),), route=route)
        torch.testing.assert_close(Log(program).run(x()), model(x()))
    assert "torch.aten.layer_norm.default" in seen and "fx.call_module" in seen
    with pytest.raises(InputError):
        Log(program).run(torch.zeros(1))


@pytest.mark.parametrize("route", ["export", "make_fx", "dynamo", "symbolic_trace"])
def test_a_frozen_parameter_stays_frozen(route: str, tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    model[0].weight.requires_grad_(False)
    program = fxc.run_passes(fxc.capture(model, (torch.randn(2, 3),), route=route), "lower-to-torch")
    program.save(tmp_path / "model.mlir")
    loaded = dict(fxc.to_fx(fxc.Program.load(tmp_path / "model.mlir")).named_parameters())
    assert {name: p.requires_grad for name, p in loaded.items()} == {n: p.requires_grad for n, p in model.named_parameters()}


def test_the_lines_of_a_function_are_known() -> None:
    def scaled(x: torch.Tensor, *, by: float = 3.0) -> torch.Tensor:
        return torch.relu(x) * by

    x = torch.randn(4)
    torch.testing.assert_close(fxc.compile(scaled, (x,))(x), scaled(x))
    text = fxc.capture(scaled, (x,)).text(debuginfo=True)
    assert all("test_api.py" in line for line in text.splitlines() if "torch.aten" in line)


def test_several_threads_compile_at_once() -> None:
    def compile_and_run(power: int) -> torch.Tensor:
        x = torch.full((3, power), 0.5)
        return fxc.compile(lambda x: torch.softmax(x**power, 0).sin(), (x,))(x)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compile_and_run, range(1, 7)))
    torch.testing.assert_close(found, [torch.full((3, power), 1 / 3).sin() for power in range(1, 7)])


class Sharing(nn.Module):
    def __init__(self, *, writes: bool) -> None:
        super().__init__()
        self.writes, whole = writes, torch.zeros(4)
        self.register_buffer("whole", whole)
        self.register_buffer("same", whole)
        self.register_buffer("part", whole[:2])
        self.register_buffer("rest", torch.as_strided(whole, (2,), (1,), 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.writes:
            self.whole.add_(1)
        return x + self.same.sum() + self.part.sum() + self.rest.sum()


def test_buffers_that_share_a_part_of_their_memory() -> None:
    x = torch.ones(1)
    assert torch.equal(fxc.compile(Sharing(writes=False), (x,))(x), x)
    with pytest.raises(CaptureError, match="'part' share a part of their memory, and the model writes there"):
        fxc.compile(Sharing(writes=True), (x,))


def test_an_input_that_is_in_no_tuple() -> None:
    with pytest.raises(InputError, match="args is a Tensor, but a tuple of inputs is expected"):
        fxc.compile(torch.nn.ReLU(), torch.ones(1, 3))
