"""Refuse to capture what no program has: seeds of generators, assignments to data, effects of autograd, stored elements."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, cast

import torch
from torch._C import _TorchDispatchModeKey
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.cuda import random as cuda_random
from torch.fx.experimental.proxy_tensor import get_proxy_slot
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fxc.dialects.torch_ops.effects import REPLACE_MEMORY
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.runtime.process_state import READS, SETS

SEED_BEFORE = f"seed before the call, or use {TORCH_COMPILE}"


@contextmanager
def hidden_calls_refused() -> Generator[None, None, None]:
    """CaptureError where this thread seeds a generator of the process, or sets its state, even if the model catches the error.

    PyTorch's tracers may do so, as they restore the state. No mode of PyTorch sees these calls; PyTorch's Python functions make
    them through the globals that are replaced here. Unrecorded where the model enters a ``TorchDispatchMode``: a trace before
    dispatch does not see what it changes.
    """
    thread, refused = threading.get_ident(), list[CaptureError]()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            name = _name_in_model(sys._getframe(1)) if threading.get_ident() == thread else None
            if name is None:
                return function(*args, **kwargs)
            message = f"the model calls {name}, which seeds a random generator or sets its state, and a program cannot"
            refused.append(CaptureError(message, hint=SEED_BEFORE))
            raise refused[-1] from Unrecorded(message)

        return run

    enter = TorchDispatchMode.__enter__

    def enter_if_of_torch(mode: TorchDispatchMode) -> TorchDispatchMode:
        if threading.get_ident() == thread and type(mode).__module__.partition(".")[0] not in ("torch", "fxc"):
            raise Unrecorded(f"{type(mode).__name__}, a mode of dispatch, may change what operators compute")
        return enter(mode)

    known = torch.default_generator
    methods: dict[str, Any] = {name: watched(getattr(known, name)) for name in ("manual_seed", "seed", "set_state")}
    methods |= {name: getattr(known, name) for name in ("get_state", "initial_seed")}
    generator = type("Generator", (torch.Generator,), {name: staticmethod(method) for name, method in methods.items()})()
    replaced: list[tuple[Any, str, Any]] = [
        (torch, "default_generator", generator),
        (torch.random, "default_generator", generator),
        (TorchDispatchMode, "__enter__", enter_if_of_torch),
        (cuda_random, "_lazy_call", watched(cast("Any", cuda_random)._lazy_call)),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield
    if refused:
        raise refused[0]


@contextmanager
def state_read() -> Generator[dict[str, int], None, None]:
    """A context that yields what functions (``READS``) have told the model in this thread, not what they have told PyTorch.

    Unrecorded where the model sets state of the process (``SETS``).
    """
    thread, reads = threading.get_ident(), dict[str, int]()
    functions = {name: getattr(torch, name) for name in (*READS, *SETS)}
    outside = {name: functions[name]() for name in READS}  # a model may have switched it itself

    def watched(name: str, function: Callable[[], int]) -> Callable[[], int]:
        def read() -> int:
            result = function()
            if threading.get_ident() == thread and result == outside[name] and _is_of_model(sys._getframe(1)):
                reads.setdefault(name, result)
            return result

        return read

    def refused(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread and _is_of_model(sys._getframe(1)):
                raise Unrecorded(f"torch.{name} sets state of the process, which is not recorded")
            return function(*args, **kwargs)

        return write

    for name, function in functions.items():
        setattr(torch, name, (watched if name in READS else refused)(name, function))
    try:
        yield reads
    finally:
        for name, function in functions.items():
            setattr(torch, name, function)


def _is_of_model(frame: FrameType | None, function: Any = None) -> bool:
    """Whether ``frame``, except for modes that pass ``function`` on, is not of PyTorch or of this package."""
    while frame is not None and frame.f_code.co_name == "__torch_function__" and frame.f_locals.get("func") == function:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] not in ("torch", "fxc")


def _name_in_model(frame: FrameType | None) -> str | None:
    """PyTorch's function that the model has called, and that leads to ``frame``; None where PyTorch itself has called it."""
    name = "Generator.manual_seed"
    while frame is not None and (module := frame.f_globals.get("__name__")) in (*_MODULES, *_WRAPPERS):
        if module in _MODULES:
            name = f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    caller = "" if frame is None else str(frame.f_globals.get("__name__"))
    return None if caller.startswith("torch.") else name


_MODULES = ("torch.random", "torch.cuda.random")
_WRAPPERS = ("contextlib", "torch._compile", "torch._dynamo.eval_frame")
"""Modules of functions that wrap those of ``_MODULES``."""


_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
_STORED = ("_nnz", "_values", "_indices", "values", "indices", "crow_indices", "col_indices", "ccol_indices", "row_indices")
"""Their results have as many elements as a sparse tensor stores; fake tensors store none."""
_METHODS = frozenset[Any](getattr(torch.Tensor, name) for name in (*_HOOKS, *_STORED))


_REQUIRES_GRAD: tuple[Any, ...] = (torch.Tensor.requires_grad_, torch.Tensor.requires_grad.__set__)  # type: ignore[attr-defined]


class Unrecorded(NotImplementedError):
    """What no route records, such as a hook on a gradient, a backward, or an assignment to data: the model runs in parts."""


class FlagRead(Unrecorded):
    """The model reads whether a tensor requires a gradient, has one, how it was computed, or if in inference mode."""


_OF_TENSOR: Any = torch.Tensor
_GOT = ("requires_grad", "is_leaf", "grad", "grad_fn")
_FLAGS = (*(getattr(_OF_TENSOR, name).__get__ for name in _GOT), torch.Tensor.is_inference)
_VERSION = _OF_TENSOR._version.__get__


_EFFECTS = frozenset[Any]([*_METHODS, *_REQUIRES_GRAD, torch.Tensor.backward])


class UnrecordedRefused(TorchFunctionMode):
    """Raise Unrecorded for calls that a trace loses.

    These are assignments to the data of a tensor, hooks, ``backward``, which adds to ``grad`` of parameters, parameters and
    inputs that no longer require a gradient or do so now, stored elements, and flags (``FlagRead``). ``training``: also
    factories of tensors that require one, and operators without a gradient inside of autocast, as torch.export loses
    switches of grad mode there; and reads of tensors that require one and are not of the model, which become constants.
    """

    def __init__(self, model: Any, training: bool) -> None:
        super().__init__()
        self._gradients = training and torch.is_grad_enabled()
        self._own = {id(each) for each in model.parameters()} if isinstance(model, torch.nn.Module) else set[int]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _is_data_set(func):
            raise Unrecorded("the model assigns to the data of a tensor, which is not recorded")
        if func in _METHODS and (func.__name__ in _HOOKS or args[0].layout not in (torch.strided, torch.jagged)):
            raise Unrecorded(f"{func.__name__} is not recorded")
        if self._gradients and (kwargs or {}).get("requires_grad"):
            raise Unrecorded(f"that what {_name_of(func)} makes requires a gradient is not recorded")
        if self._gradients and any(map(self._is_foreign, tree_leaves((args, kwargs)))):
            raise Unrecorded("the gradient of a tensor that is neither an input nor a parameter of the model is not recorded")
        if func is torch.Tensor.detach_ and args[0].requires_grad and _is_given(args[0]):
            raise Unrecorded("that an input is detached in place is not recorded")
        if func is torch.Tensor.backward:
            raise Unrecorded("backward is not recorded")
        if func in _FLAGS and _is_of_model(sys._getframe(1), func):
            raise FlagRead(f"what the model computes depends on {_name_of(func)} of a tensor")
        if func == _VERSION and _is_of_model(sys._getframe(1), func):
            raise CaptureError("the model reads the version of a tensor, which each write changes", hint="count in a buffer")
        before = args[0].requires_grad if func in _REQUIRES_GRAD and _is_given(args[0]) else None
        result = func(*args, **(kwargs or {}))
        if self._gradients and not torch.is_grad_enabled() and _loses((args, kwargs), result):
            raise Unrecorded(f"{_name_of(func)} without a gradient inside of autocast is not recorded")
        if before is not None and args[0].requires_grad != before:
            raise Unrecorded("whether a parameter or an input requires a gradient is not recorded")
        return result

    def _is_foreign(self, value: Any) -> bool:
        """Whether a trace reads ``value``, which requires a gradient and is no fake tensor, as it makes, nor of the model."""
        is_real = type(value) in (torch.Tensor, torch.nn.Parameter) and not is_functorch_wrapped_tensor(value)
        return is_real and value.requires_grad and value.is_leaf and id(value) not in self._own and _proxies() is not None


def _loses(given: Any, result: Any) -> bool:
    """Whether a tensor of ``result``, computed under autocast, has no gradient although one that is ``given`` does."""
    if not torch._C._is_any_autocast_enabled():
        return False
    before, after = ([each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)] for tree in (given, result))
    could = [each for each in after if each.is_floating_point() or each.is_complex()]
    return any(each.requires_grad for each in before) and not all(each.requires_grad for each in could)


def _name_of(function: Any) -> str:
    """The name of a function, or of the attribute that it gets."""
    return function.__name__ if function.__name__ != "__get__" else function.__self__.__name__


def _proxies() -> Any:
    """The mode of a trace that records calls above autograd, if there is one."""
    return cast("Any", torch)._ops._get_dispatch_mode_pre_dispatch(_TorchDispatchModeKey.PROXY)


def _is_given(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` exists before the call that is traced: a parameter, a buffer or an input."""
    mode = _proxies()
    found: Any = None if mode is None else cast("Any", get_proxy_slot)(tensor, mode.tracer, None)
    return isinstance(tensor, torch.nn.Parameter) or (found is not None and found.proxy.node.op == "placeholder")


def is_new_leaf(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` requires a gradient, and is neither computed from others, nor a view, nor given to the call."""
    return tensor.requires_grad and tensor.is_leaf and not tensor._is_view() and not _is_given(tensor)


def is_unrecorded(function: Any, kwargs: Mapping[str, Any] | None) -> bool:
    """Whether a trace does not record a call, as a mode gets it: it makes a leaf, or assigns to data, or changes gradients."""
    return (
        _is_data_set(function)
        or bool((kwargs or {}).get("requires_grad"))
        or function in _EFFECTS
        or (function in (*_FLAGS, _VERSION) and _is_of_model(sys._getframe(1), function))
    )


def replaces_memory(target: Any) -> bool:
    """Whether an operator gives a tensor other memory, which traces record and the IR cannot. No mode sees ``set_`` called."""
    return getattr(getattr(target, "overloadpacket", None), "__name__", "") in REPLACE_MEMORY


def _is_data_set(function: Any) -> bool:
    """Whether ``function`` implements ``tensor.data = other``: the tensor gets other memory."""
    return function == torch.Tensor.data.__set__  # type: ignore[attr-defined]
