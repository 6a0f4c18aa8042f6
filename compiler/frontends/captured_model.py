"""The modules and tensors of a model that is captured, and the lock of captures."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from threading import RLock
from types import FunctionType
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr

from fxc.dialects.attributes.values import str_attr
from fxc.frontends.python_state import variables_of
from fxc.program.program import Program, is_frozen

Model = torch.nn.Module | Callable[..., Any]

_tracing = RLock()
_torch: Any = torch
_functorch = _torch._C._functorch


@contextlib.contextmanager
def compile_lock(*, dynamo: bool = False) -> Generator[None, None, None]:
    """A lock for captures: PyTorch's tracers are not thread-safe. Transforms of torch.func that a failure leaves active end.

    If Dynamo is imported, its compile lock is held as well. ``dynamo``: the capture needs Dynamo, so import it.
    """
    with contextlib.ExitStack() as held:
        held.enter_context(_tracing)
        if dynamo or "torch._dynamo.convert_frame" in sys.modules:
            from torch._dynamo import convert_frame

            held.enter_context(convert_frame.compile_lock)
        held.callback(_end_transforms, _functorch.get_dynamic_layer_stack_depth(), _is_in_dual_level())
        yield


def _end_transforms(depth: int, is_dual: bool) -> None:
    """End the transforms of torch.func but ``depth``. PyTorch's function for that ends one too many before 2.12."""
    if not is_dual and _is_in_dual_level():
        _torch._C._exit_dual_level(level=0)
    while _functorch.get_dynamic_layer_stack_depth() > depth:
        getattr(_functorch, f"_{_functorch.peek_interpreter_stack().key().name[:4].lower()}_decrement_nesting")()


def _is_in_dual_level() -> bool:
    """Whether forward-mode differentiation is active; there is one level of it."""
    try:
        _torch._C._exit_dual_level(level=_torch._C._enter_dual_level())
    except RuntimeError:
        return True
    return False


def modules_of(model: Model) -> dict[str, torch.nn.Module]:
    """The modules whose tensors a program of ``model`` has, by access path: the model, or the modules that it references."""
    if isinstance(model, torch.nn.Module):
        return {"": model}
    owner = getattr(model, "__self__", None)
    named: dict[str, Any] = {"self": owner}
    if isinstance(function := getattr(model, "__func__", model), FunctionType):
        named |= variables_of(function)
    return {name: module for name, module in named.items() if isinstance(module, torch.nn.Module)}


def state_of(model: Model) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module, by name."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def tensors_of(model: Model) -> Iterator[torch.Tensor]:
    """The parameters and buffers of ``modules_of`` a model."""
    return (tensor for module in modules_of(model).values() for tensor in state_of(module).values())


def name_state(program: Program, inputs: Sequence[Any], state: Mapping[str, torch.Tensor], model: Model) -> None:
    """Mark the arguments that are tensors of the model, and add these to the state of the program."""
    names = {id(tensor): name for name, tensor in state.items()}
    parameters = {name for name, _ in model.named_parameters()} if isinstance(model, torch.nn.Module) else set[str]()
    function = program.main
    attributes = list[DictionaryAttr]()
    for value, known in zip(inputs, function.arg_attrs or (), strict=True):
        name = names.get(id(value))
        if name is not None:
            kind = "parameter" if name in parameters else "buffer"
            frozen = {"fx.frozen": UnitAttr()} if is_frozen(value) else {}
            known = DictionaryAttr({**known.data, "fx.kind": str_attr(kind), "fx.name": str_attr(name), **frozen})
            program.state[name] = value
        attributes.append(known)
    if attributes:
        function.properties["arg_attrs"] = ArrayAttr(attributes)
