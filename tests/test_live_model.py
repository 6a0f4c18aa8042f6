"""Parameters, buffers and submodules that are replaced after a model was compiled: what is called is the model as it is."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fxc
from fxc.errors import InputError

Change = Callable[[nn.Sequential], Any]


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 3)).eval()


def parameter(m: nn.Sequential) -> None:
    m[0].weight = nn.Parameter(torch.randn(3, 3))


def memory(m: nn.Sequential) -> None:
    m[0].weight.data = torch.randn(3, 3)


def dictionary(m: nn.Sequential) -> None:
    m[0]._parameters["weight"] = nn.Parameter(torch.randn(3, 3))


def buffer(m: nn.Sequential) -> None:
    m[2].running_mean = torch.randn(3)


def submodule(m: nn.Sequential) -> None:
    m[0] = nn.Linear(3, 3)


def stateless(m: nn.Sequential) -> None:
    m[1] = nn.ReLU()


def assigned(m: nn.Sequential) -> None:
    new = {
        name: torch.rand_like(value) if value.is_floating_point() else value.clone() for name, value in m.state_dict().items()
    }
    m.load_state_dict(new, assign=True)


def there_and_back(m: nn.Sequential) -> None:
    """Buffers are others afterwards."""
    m.double().float()
    m[2].running_mean.add_(1)


FITTING = [parameter, memory, dictionary, buffer, submodule, stateless, assigned, there_and_back]


def by_function(m: nn.Sequential, x: torch.Tensor, **options: Any) -> Callable[..., Any]:
    return fxc.compile(lambda x: m(x), (x,), **options)


def by_method(m: nn.Sequential, x: torch.Tensor, **options: Any) -> Callable[..., Any]:
    return fxc.compile(m.forward, (x,), **options)


def by_export(m: nn.Sequential, x: torch.Tensor, **options: Any) -> Callable[..., Any]:
    compiled = fxc.compile(m, (), {"input": x}, **options)
    return lambda x: compiled(input=x)


def by_model(m: nn.Sequential, x: torch.Tensor, **options: Any) -> Callable[..., Any]:
    return fxc.compile(m, (x,), **options)


def by_backend(m: nn.Sequential, x: torch.Tensor, **options: Any) -> Callable[..., Any]:
    return torch.compile(m, backend="fxc", **options)


WAYS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (by_model, {}),
    (by_model, {"options": {"target": None}}),
    (by_model, {"options": {"recompile": True}}),
    (by_model, {"training": True}),
    (by_function, {}),
    (by_function, {"training": True}),
    (by_method, {}),
    (by_export, {}),
    (by_backend, {}),
    (by_backend, {"options": {"freeze": True}}),
]


@pytest.mark.share(5)
@pytest.mark.parametrize("change", FITTING)
@pytest.mark.parametrize(("way", "options"), WAYS)
def test_what_was_replaced_is_used(way: Callable[..., Any], options: dict[str, Any], change: Change) -> None:
    torch._dynamo.reset()
    m, x = model(), torch.randn(2, 3)
    with torch.set_grad_enabled("training" in options):
        compiled = way(m, x, **options)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), m(x))
            change(m)
            torch.testing.assert_close(compiled(x), m(x))
            torch.testing.assert_close(compiled(x), m(x))


def test_gradients_reach_what_was_replaced() -> None:
    m, x = model(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,), training=True)
    submodule(m)
    compiled(x).sum().backward()
    expected = torch.autograd.grad(m(x).sum(), m[0].weight)
    torch.testing.assert_close((m[0].weight.grad,), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.__setitem__(1, nn.Tanh()), "submodule '1' was replaced, and is a Tanh where it was a ReLU"),
        (lambda m: m.__setitem__(1, nn.ReLU(inplace=True)), "submodule '1' was replaced, and its 'inplace' is not what it was"),
        (
            lambda m: m.__setitem__(0, nn.Linear(3, 3, bias=False)),
            "'0.bias' was replaced, and is None where it was a Parameter",
        ),
        (lambda m: m.__delitem__(3), "the model has no submodule '3' any more"),
        (lambda m: m.double(), r"'0.weight' has dtype torch.float64 where it had torch.float32"),
        (lambda m: m[2].half(), r"'2.weight' has dtype torch.float16 where it had torch.float32"),
        (lambda m: setattr(m[0], "weight", nn.Parameter(torch.ones(3, 1))), r"'0.weight' .* has shape \(3, 1\)"),
        (lambda m: setattr(m[0], "weight", nn.Parameter(torch.randn(3, 3).t())), r"'0.weight' .* has strides \(1, 3\)"),
        (lambda m: setattr(m[0], "bias", None), "'0.bias' was replaced, and is None"),
        (lambda m: setattr(m[3], "weight", m[0].weight), "shares memory with another tensor"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"target": None}])
def test_what_does_not_fit_is_an_error(change: Change, message: str, options: dict[str, Any]) -> None:
    m, x = model(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,), options=options)
    change(m)
    for _ in range(2):
        with pytest.raises(InputError, match=f"(?s){message}.*compile the model again"):
            compiled(x)


def test_gradients_that_are_wanted_elsewhere_are_an_error() -> None:
    m, x = model(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,), training=True)
    m[0].weight = nn.Parameter(torch.randn(3, 3), requires_grad=False)
    with pytest.raises(InputError, match=r"'0.weight' was replaced, and has requires_grad False"):
        compiled(x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def test_tied_parameters() -> None:
    m, x = Tied(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,))
    m.first.weight = m.second.weight = nn.Parameter(torch.randn(3, 3))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), m(x))
    m.second.weight = nn.Parameter(torch.randn(3, 3))
    with pytest.raises(InputError, match=r"'second.weight' was one tensor with another of the model, and is no more"):
        compiled(x)


def test_plans_of_their_own_follow_no_model(tmp_path: Path) -> None:
    m, x = model(), torch.randn(2, 3)
    compiled: Any = fxc.compile(m, (x,))
    expected = compiled(x)
    compiled.plan.save(tmp_path / "plan")
    others = [
        deepcopy(compiled.plan),
        fxc.ExecutionPlan.load(tmp_path / "plan"),
        fxc.compile(m, (x,), options={"freeze": True}),
    ]
    parameter(m)
    for other in others:
        torch.testing.assert_close(other(x), expected)
    torch.testing.assert_close(compiled(x), m(x).detach())
    compiled.plan.save(tmp_path / "plan")
    torch.testing.assert_close(fxc.ExecutionPlan.load(tmp_path / "plan")(x), m(x).detach())


def test_a_call_while_the_model_is_captured_again() -> None:
    """Tracers put fake tensors in the place of a model's own."""
    m, x = model(), torch.randn(2, 3)
    compiled, errors, done = fxc.compile(m, (x,)), list[BaseException](), threading.Event()
    expected = compiled(x)

    def call() -> None:
        try:
            while not done.is_set():
                torch.testing.assert_close(compiled(x), expected)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    for _ in range(3):
        fxc.capture(m, (x,))
    done.set()
    thread.join()
    assert not errors


class Scaled(nn.Module):
    """``scale`` is a constant of a program; ``length`` is assigned in each call; ``note`` is no matter."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scale, self.eps, self.length = nn.Linear(3, 3), 2.0, (1e-5, "add"), None
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.length = x.shape[0]
        return self.shift(self.inner(x) * self.scale) + self.eps[0]

    def shift(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: setattr(m, "scale", 5.0), "'scale' was 2.0 when the model was compiled, and is 5.0"),
        (lambda m: setattr(m, "scale", 2), "'scale' was 2.0 when the model was compiled, and is 2"),
        (lambda m: setattr(m, "eps", (1e-5, "sub")), r"'eps' was \(1e-05, 'add'\) when the model was compiled"),
        (lambda m: setattr(m, "eps", [1.0]), r"'eps' was \(1e-05, 'add'\) when the model was compiled, and is \[1\.0\]"),
        (lambda m: delattr(m, "scale"), "'scale' was 2.0 when the model was compiled, and is not there"),
        (lambda m: setattr(m, "shift", torch.relu), "'shift' was not there when the model was compiled, and is <built-in"),
        (lambda m: setattr(m.inner, "forward", torch.relu), "'inner.forward' was not there when"),
        (lambda m: m.inner.register_forward_hook(lambda *_: None), "'inner' has other hooks than when it was compiled"),
        (lambda m: m.register_forward_pre_hook(lambda *_: None), "'the model' has other hooks than when it was compiled"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"training": True}, {"options": {"target": None}}])
def test_other_numbers_and_hooks_are_an_error(change: Change, message: str, options: dict[str, Any]) -> None:
    m, x = Scaled(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,), **options)
    change(m)
    for _ in range(2):
        with pytest.raises(InputError, match=f"(?s){message}.*compile the model again"):
            compiled(x)


@pytest.mark.parametrize("deep", [0, 40])
@pytest.mark.parametrize("options", [{}, {"training": True}, {"options": {"target": None}}])
def test_what_a_program_has_no_constant_of_may_change(options: dict[str, Any], deep: int) -> None:
    m, x = Scaled(), torch.randn(2, 3)
    m.inner = nn.Sequential(m.inner, *[nn.Identity() for _ in range(deep)])
    compiled = fxc.compile(m, (x,), **options)
    expected = m(x)  # assigns the length
    m.scale, m.note, m.helper = float("2"), "a note", lambda: 0  # type: ignore[assignment]
    m.seen.append(1)
    hook = m.register_forward_hook(lambda *_: None)
    hook.remove()
    m.train(not m.training)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected)


def test_a_hook_of_backward_matters_where_the_plan_is_differentiated() -> None:
    m, x = Scaled(), torch.randn(2, 3)
    inference, training = fxc.compile(m, (x,)), fxc.compile(m, (x,), training=True)
    expected = m(x)
    m.inner.register_full_backward_hook(lambda *_: None)
    torch.testing.assert_close(inference(x), expected)
    with pytest.raises(InputError, match="'inner' has other hooks"):
        training(x)


SCALE, OFFSET, UNREAD = 2.0, torch.ones(3), [1]


class Settings:
    gain = 2.0
    unread = 1

    def __init__(self) -> None:
        self.bias, self.note = 1.0, "a note"

    def shift(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias * self.gain


SETTINGS = Settings()


def helper(x: torch.Tensor) -> torch.Tensor:
    return SETTINGS.shift(x) + OFFSET


class Stateful(nn.Module):
    """Its ``forward`` reads each attribute but the ``unread`` ones."""

    def __init__(self) -> None:
        super().__init__()
        self.mask, self.act, self.name = torch.ones(3), torch.relu, "add"
        self.config: dict[str, Any] = {"k": 2.0, "inner": {"depth": [1.0]}}
        self.terms, self.flags, self.settings = [1.0, 2.0], {"on"}, Settings()
        self.hidden = [nn.Linear(3, 3).requires_grad_(False)]  # a weight that learns would not be of the model
        self.layers, self.line = nn.ModuleList([nn.Linear(3, 3)]), nn.Sequential(nn.Linear(3, 3))
        self.unread, self.unread_named, self.unread_act = [1.0], {"k": 1.0}, torch.relu
        self.unread_tensor = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.line(self.act(self.hidden[0](x))) * self.mask * self.config["k"] + self.config["inner"]["depth"][0]
        x = self.settings.shift(x * sum(self.terms) if "on" in self.flags else x)
        return helper(x if self.name == "add" else -x) * SCALE


READ: list[tuple[Callable[[Any], Any], str]] = [
    (lambda m: setattr(m, "mask", torch.zeros(3)), "'mask' was a Tensor .* another Tensor"),
    (lambda m: setattr(m, "act", torch.tanh), "'act' was <built-in method relu"),
    (lambda m: setattr(m, "name", "sub"), "'name' was 'add' .* is 'sub'"),
    (lambda m: m.config.update(k=7.0), r"config\['k'\]\" was 2.0 .* is 7.0"),
    (lambda m: m.config.pop("k"), r"config\['k'\]\" was 2.0 .* is not there"),
    (lambda m: m.config["inner"]["depth"].append(2.0), r"depth'\]\[1\]\" was not there .* is 2.0"),
    (lambda m: setattr(m, "config", {"k": 3.0}), "'config' was {'k': 2.0"),
    (lambda m: m.terms.append(3.0), r"'terms\[2\]' was not there .* is 3.0"),
    (lambda m: m.terms.__setitem__(0, 3.0), r"'terms\[0\]' was 1.0 .* is 3.0"),
    (lambda m: m.flags.clear(), "'the elements of flags' was frozenset"),
    (lambda m: setattr(m.settings, "bias", 3.0), "'settings.bias' was 1.0"),
    (lambda m: setattr(m.settings, "gain", 3.0), "'settings.gain' was not there"),
    (lambda m: setattr(m.hidden[0], "weight", nn.Parameter(torch.zeros(3, 3))), r"'hidden\[0\].weight'"),
    (lambda m: m.layers.append(nn.Tanh()), "the model had no submodule 'layers.1'"),
    (lambda m: m.line.append(nn.Tanh()), "the model had no submodule 'line.1'"),
]


@pytest.mark.share(4)
@pytest.mark.parametrize(("change", "message"), READ)
@pytest.mark.parametrize("options", [{}, {"training": True}, {"options": {"target": None}}])
def test_other_state_of_modules_is_an_error(change: Callable[[Any], Any], message: str, options: dict[str, Any]) -> None:
    m, x = Stateful(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,), **options)
    torch.testing.assert_close(compiled(x), m(x))
    change(m)
    for _ in range(2):
        with pytest.raises(InputError, match=f"(?s){message}.*compile the model again"):
            compiled(x)


@pytest.mark.parametrize("options", [{}, {"training": True}, {"options": {"target": None}}])
def test_state_that_is_not_read_may_change(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    m, x = Stateful(), torch.randn(2, 3)
    compiled = fxc.compile(m, (x,), **options)
    m.unread.append(2.0)
    m.unread_named["k"], m.unread_act, m.unread_tensor = 2.0, torch.tanh, torch.zeros(3)
    m.settings.note, m.other = "another", nn.Linear(3, 3)
    m.terms, m.config["k"], m.flags = [1.0, float("2")], float("2"), {"on"}  # equal values
    monkeypatch.setattr(Settings, "unread", 2)
    monkeypatch.setitem(globals(), "UNREAD", [2])
    for _ in range(2):
        torch.testing.assert_close(compiled(x), m(x))
    assert compiled.plan._live is not None and compiled.plan._live.is_same()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SCALE", 3.0, "'SCALE' was 2.0 .* is 3.0"),
        ("OFFSET", torch.zeros(3), "'OFFSET' was a Tensor .* another Tensor"),
        ("SETTINGS", Settings(), "'SETTINGS' was <"),
        ("helper", torch.relu, "'helper' was <function helper"),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_other_globals_are_an_error(
    name: str, value: Any, message: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return helper(x) * SCALE

    x = torch.randn(2, 3)
    for model in (Stateful(), function):
        compiled = fxc.compile(model, (x,), training=training)
        torch.testing.assert_close(compiled(x), model(x))
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value)
            for _ in range(2):
                with pytest.raises(InputError, match=f"(?s){message}.*compile the model again"):
                    compiled(x)
        torch.testing.assert_close(compiled(x), model(x))


def test_class_attributes_and_attributes_of_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3)
    compiled = fxc.compile(helper, (x,))
    for owner, name in ((Settings, "gain"), (SETTINGS, "bias")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, 5.0)
            with pytest.raises(InputError, match=f"{name}' was .* is 5.0"):
                compiled(x)
        torch.testing.assert_close(compiled(x), helper(x))


def test_closure_variables() -> None:
    factor, unread, x = 2.0, 1.0, torch.randn(3)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    compiled = fxc.compile(function, (x,))
    unread = 2.0
    torch.testing.assert_close(compiled(x), function(x) * (unread / 2.0))
    factor = 3.0
    with pytest.raises(InputError, match=r"'factor' was 2\.0 .* is 3\.0"):
        compiled(x)


class ByName(nn.Module):
    """Reads attributes by names that its code does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.scale_0, self.scale_1 = 2.0, 3.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(2):
            x = x * getattr(self, f"scale_{number}")
        return x


def test_attributes_that_are_read_by_a_computed_name() -> None:
    m, x = ByName(), torch.randn(3)
    compiled = fxc.compile(m, (x,))
    m.scale_1 = 4.0
    with pytest.raises(InputError, match=r"'scale_1' was 3\.0"):
        compiled(x)


TABLES: dict[Any, torch.Tensor] = {}


def test_a_cache_that_a_call_fills_may_grow() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.shape not in TABLES:
            TABLES[x.shape] = torch.arange(float(x.shape[0]))
        return x + TABLES[x.shape]

    x = torch.randn(3)
    compiled = fxc.compile(function, (x,))
    for size in (3, 4):
        function(torch.randn(size))
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("options", [{}, {"training": True}])
def test_lists_of_parameters_follow_them(options: dict[str, Any]) -> None:
    """A recurrent module has its parameters in a list, too."""
    m, x = nn.LSTM(3, 3), torch.randn(4, 2, 3)
    compiled = fxc.compile(m, (x,), **options)
    m.weight_hh_l0 = nn.Parameter(torch.randn(12, 3))
    for _ in range(2):
        torch.testing.assert_close(compiled(x)[0], m(x)[0])
    assert compiled.plan._live is not None and compiled.plan._live.is_same()


def test_another_mode_warns_once() -> None:
    """A plan has the mode of its compilation. Modules that compute the same in both modes are not compared."""
    dropped, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval(), torch.randn(2, 3)
    compiled, wanted = fxc.compile(dropped, (x,)), dropped(x)
    dropped.train()
    with pytest.warns(UserWarning, match=r"'1' is in train mode, but the plan computes what it did in eval mode"):
        torch.testing.assert_close(compiled(x), wanted)
    plain = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval()
    same = fxc.compile(plain, (x,))
    plain.train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(x), compiled(x)
        dropped[1].eval(), compiled(x)


def test_the_train_mode_is_compiled_in() -> None:
    normed = nn.BatchNorm1d(3)
    compiled = fxc.compile(normed, (torch.randn(4, 3),), training=True)
    normed.eval()
    with pytest.warns(UserWarning, match="the model' is in eval mode, but the plan computes what it did in train mode"):
        compiled(torch.randn(4, 3))
