"""Plain models are captured without Dynamo: the same program as torch.export's, or torch.export is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils._pytree import tree_map

import fxc
from fxc.bridge import static_world
from fxc.bridge.location import places
from fxc.bridge.static_world import IS_PLAIN
from fxc.errors import CaptureError
from fxc.frontends.import_fx import import_traced
from fxc.program.program import Program
from tests.models.captures import cases, kept, model_of
from tests.opinfo.test_modules import MODULES, samples

pytestmark = pytest.mark.skipif(not IS_PLAIN, reason="torch.export of this PyTorch is asked")
traced = pytest.importorskip("fxc.frontends.non_strict_trace", exc_type=ImportError).traced

X = torch.randn(4, 6)
NOT_PLAIN = ("cond", "lstm", "moe")


def exported(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Program:
    return fxc.import_fx(torch.export.export(model, args, kwargs, strict=False))


def assert_same(ours: Program, theirs: Program) -> None:
    """Text, names, places in the source, and the very tensors."""
    assert ours.text() == theirs.text()
    assert places(ours.module) == places(theirs.module)
    assert list(ours.state) == list(theirs.state)
    for name, tensor in ours.state.items():
        assert tensor is theirs.state[name] or (name.startswith("lifted") and torch.equal(tensor, theirs.state[name]))


@pytest.mark.share(8)
@pytest.mark.parametrize(("name", "train"), [(name, train) for name, train, _ in cases(("export",))])
def test_the_zoo_is_traced_as_torch_export_does(name: str, train: bool) -> None:
    model, args = model_of(name, train)
    with kept(model):
        trace = traced(model, args) if isinstance(args, tuple) else None
        if trace is not None:
            assert_same(import_traced(trace), exported(model, args))
    assert (trace is None) == (name in NOT_PLAIN)


class Many(nn.Module):
    """What a plain model may do: tied weights, buffers of both kinds, nested inputs and results, writes."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.self_norm = nn.LayerNorm(6)
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("seen", torch.zeros(6))
        self.register_buffer("scale", torch.ones(6), persistent=False)

    def forward(self, x: Tensor, pair: tuple[Tensor, dict[str, Tensor]], mul: Tensor) -> dict[str, Any]:
        y = self.second(self.first(self.self_norm(x))).to(torch.float64).float()
        first, *_ = y.chunk(2)
        self.seen.add_(y.detach().mean(0))
        z = F.dropout(self.norm(y * self.scale), 0.5, self.training) * mul
        w = z.unsqueeze(0).expand(3, -1, -1).reshape(12, 6)[1:, ::2].detach()
        return {"a": first, "b": [pair[0] + torch.arange(6, dtype=x.dtype), None, pair[1]["K-1"]], "c": w, "d": (mul, 2)}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("train", [False, True])
def test_what_plain_models_do(train: bool, gradients: bool) -> None:
    model = Many().train(train)
    args = (X, (torch.randn(6), {"K-1": torch.ones(2, requires_grad=True)}), torch.randn(6))
    with torch.set_grad_enabled(gradients):
        trace = traced(model, args)
        assert trace is not None
        assert_same(import_traced(trace), exported(model, args))
    assert torch.equal(model.seen, torch.zeros(6))


class Keywords(nn.Module):
    """Takes constants and keywords, makes tensors of Python values, and reads by indices."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(
        self, x: Tensor, n: int, mask: Tensor | None = None, *, scale: float = 1.5, name: str = "a", train: bool = False
    ) -> Any:
        table = torch.tensor([[1, 2], [n, 3]])
        y = self.layer(x) * torch.tensor(scale) + torch.as_tensor(n) if not train else x
        y = y if mask is None else torch.where(mask, y, torch.tensor(torch.finfo(y.dtype).min))
        table[0, 1] = 4
        return y[table[0] - 1, table[1] % 2], name, n, torch.tensor(True), torch.tensor([], dtype=torch.float16), scale


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X, 4), {}),
        ((X, True, X > 0), {"name": "b"}),
        ((X,), {"scale": 0.5, "mask": X > 0, "n": -1}),
        ((X, 2, None), {"train": True, "scale": float("inf")}),
        ((), {"n": 1, "x": X}),
    ],
    ids=["number", "bool", "keywords", "none", "no position"],
)
def test_constants_and_keywords(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    model = Keywords()
    trace = traced(model, args, kwargs)
    assert trace is not None
    assert_same(import_traced(trace), exported(model, args, kwargs))


@pytest.mark.share(40)
@pytest.mark.parametrize("name", [name for name, info in MODULES.items() if not issubclass(info.module_cls, LazyModuleMixin)])
@pytest.mark.filterwarnings("ignore")
def test_modules_of_pytorch(name: str) -> None:
    for module, (args, kwargs) in samples(name):
        args, kwargs = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        if (trace := traced(module, args, kwargs)) is not None:
            assert_same(import_traced(trace), exported(module, args, kwargs))


class Calls(nn.Module):
    """``body`` as a forward, with a layer and a list to use."""

    count: Tensor

    def __init__(self, body: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.body, self.layer, self.log, self.last = body, nn.Linear(6, 6), list[Any](), None
        self.register_buffer("count", torch.zeros(6))

    def forward(self, x: Tensor) -> Any:
        return self.body(self, x)


def assigns_a_buffer(model: Any, x: Tensor) -> Tensor:
    model.count += 1
    return x + model.count


def replaces_a_buffer(model: Any, x: Tensor) -> Tensor:
    model.count = model.count + 1
    return x + model.count


def without_gradients(model: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        return model.layer(x)


def swallows(model: Any, x: Tensor) -> Tensor:
    try:
        with torch.no_grad():
            x = x + 1
    except Exception:  # any model may
        x = x + 2
    return x


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * 3


REFUSED: dict[str, Callable[[Any, Tensor], Any]] = {
    "replaces a buffer": replaces_a_buffer,
    "gradients switched": without_gradients,
    "refusal swallowed": swallows,
    "a global tensor": lambda model, x: x + X[:1],
    "a value": lambda model, x: x * x.sum().item(),
    "sizes that depend on data": lambda model, x: x[x > 0],
    "autocast": lambda model, x: torch.autocast("cpu", torch.bfloat16)(model.layer)(x),
    "vmap": lambda model, x: torch.vmap(torch.sin)(x),
    "a function of autograd": lambda model, x: Twice.apply(x),
    "cond": lambda model, x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_torch_export_is_asked_for_the_rest(what: str) -> None:
    model = Calls(REFUSED[what])
    assert traced(model, (X,)) is None
    assert not model.log and model.last is None and torch.equal(model.count, torch.zeros(6))


def test_what_is_captured_then_is_what_torch_export_has() -> None:
    model = Calls(replaces_a_buffer)
    assert_same(fxc.capture(model, (X,)), exported(model, (X,)))


def test_a_buffer_that_is_assigned_itself_is_written_once() -> None:
    trace = traced(Calls(assigns_a_buffer), (X,))
    assert trace is not None and [str(node.target) for node in trace.graph.nodes if node.op == "call_function"] == [
        "aten.add_.Tensor",
        "aten.add.Tensor",
    ]


def test_attributes_are_put_back() -> None:
    def keeps(model: Any, x: Tensor) -> Tensor:
        model.log.append(x)
        model.last = x
        return x + 1

    model = Calls(keeps)
    model.own = [model.log]  # type: ignore[assignment]
    model.log.append(model.own)
    assert traced(model, (X,)) is None
    assert len(model.log) == 1 and model.last is None


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (nn.Linear(6, 6), (X, X)),
        (nn.Linear(6, 6), (3,)),
        (nn.Linear(6, 6), (X.to("meta"),)),
        (nn.Sequential(*[nn.ReLU()] * 2), (X,)),
        (torch.fx.symbolic_trace(nn.Linear(6, 6)), (X,)),
        (torch.jit.script(nn.ReLU()), (X,)),
    ],
    ids=["fails", "number", "other device", "shared module", "graph", "script"],
)
def test_models_and_inputs_that_are_not_plain(model: nn.Module, args: tuple[Any, ...]) -> None:
    assert traced(model, args) is None


def test_inputs_that_share_memory_are_not_plain() -> None:
    model = Calls(lambda model, x: x)
    assert traced(model, (X[:2],)) is not None
    assert traced(model, (X[1:],)) is None
    assert traced(Many(), (X, (X, {"K-1": X}), X)) is None


def test_hooks_of_others_are_not_plain() -> None:
    model = nn.Linear(6, 6)
    handle = model.register_forward_hook(lambda module, args, result: None)
    assert traced(model, (X,)) is None
    handle.remove()
    assert traced(model, (X,)) is not None


def test_errors_are_torch_exports() -> None:
    with pytest.raises(CaptureError, match="data-dependent"):
        fxc.capture(lambda x: x if x.sum() > 0 else -x, (X,))


def test_nothing_of_pytorch_stays_changed() -> None:
    flags = torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()
    assert traced(nn.Linear(6, 6), (X,)) is not None
    assert torch._C._get_mkldnn_enabled() == flags
    assert not torch.nn.modules.module._global_forward_hooks and not torch.nn.modules.module._global_forward_pre_hooks
    assert not any("__dynamo_disable" in vars(f) and vars(f)["__dynamo_disable"] is f for f in static_world._switched())


@pytest.mark.slow
def test_dynamo_is_not_imported() -> None:
    code = """
import sys
import torch
import fxc
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Flatten(),
    torch.nn.LayerNorm(144), torch.nn.Linear(144, 6), torch.nn.Softmax(-1)).eval()
program = fxc.capture(model, (torch.randn(1, 3, 8, 8),))
assert "torch.aten.conv2d.default" in program.text()
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
