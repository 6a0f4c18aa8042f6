"""Models whose calls change their modules: hooks that are installed or removed, and submodules that are added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxc
from fxc.errors import CaptureError, FallbackWarning

X = torch.linspace(-1, 1, 6).view(2, 3)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.installed = nn.Linear(3, 3), False

    def install(self) -> None:
        self.linear.register_forward_hook(lambda module, args, result: result + 1)

    def forward(self, x: Tensor) -> Tensor:
        if not self.installed:
            self.install()
            self.installed = True
        return self.linear(x)


class Before(Model):
    def install(self) -> None:
        self.linear.register_forward_pre_hook(lambda module, args: args[0] * 2)


class WithKeywords(Model):
    def install(self) -> None:
        self.linear.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 3,), kwargs), with_kwargs=True)
        self.linear.register_forward_hook(lambda module, args, kwargs, result: result + len(kwargs) + 2, with_kwargs=True)


class OnItself(Model):
    """Its first call runs without the hook that it installs."""

    def install(self) -> None:
        self.register_forward_hook(lambda module, args, result: result * 2)


def hooks_of(model: nn.Module) -> list[dict[Any, Any]]:
    names = "_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"
    return [dict(getattr(module, name)) for module in model.modules() for name in names]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [Model, Before, WithKeywords])
def test_hooks_that_the_first_call_installs(kind: Callable[[], Model], training: bool) -> None:
    model, plain = kind(), kind()
    before = hooks_of(model)
    compiled = fxc.compile(model, (X,), training=training, options={"fallback": False})
    assert hooks_of(model) == before
    assert not model.installed
    for _ in range(2):
        torch.testing.assert_close(compiled(X), plain(X))
    torch.testing.assert_close(model(X), plain(X))


class Once(Model):
    """The hook of its first call removes itself."""

    def __init__(self) -> None:
        super().__init__()
        self.handle = self.linear.register_forward_hook(self.add)
        self.last = self.linear.register_forward_hook(lambda module, args, result: result * 2)

    def add(self, module: nn.Module, args: Any, result: Tensor) -> Tensor:
        self.handle.remove()
        return result + 1

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", [Once, OnItself])
def test_hooks_by_which_the_second_call_differs_are_refused_and_kept(kind: Callable[[], Model], training: bool) -> None:
    model, plain = kind(), kind()
    before = hooks_of(model)
    with pytest.raises(CaptureError, match=r"a call of the model changes .*, on which the next one depends"):
        fxc.compile(model, (X,), training=training, options={"fallback": False})
    assert hooks_of(model) == before
    assert [*model.linear._forward_hooks] == [*before[4]]
    for _ in range(2):
        torch.testing.assert_close(model(X), plain(X))


class Growing(nn.Module):
    """The first call adds a submodule to a sequence; ``linear`` is a second name in it, so that traces see proxies."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.sequence, self.done = nn.Sequential(nn.Linear(3, 3)), False
        self.linear = self.sequence[0]

    def forward(self, x: Tensor) -> Tensor:
        if not self.done:
            self.sequence.append(nn.Tanh())
            self.done = True
        return self.sequence(x)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_a_submodule_that_the_first_call_adds_below_a_second_name(training: bool) -> None:
    with pytest.raises(CaptureError, match=r"registers or removes 'sequence\.1'"):
        fxc.compile(Growing(), (X,), training=training, options={"fallback": False})
    with pytest.warns(FallbackWarning, match=r"registers or removes 'sequence\.1'"):
        compiled = fxc.compile(Growing(), (X,), training=training, options={"fallback": True})
    plain = Growing()
    for _ in range(2):
        torch.testing.assert_close(compiled(X), plain(X))
