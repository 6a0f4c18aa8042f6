"""The functions, methods and classes that a graph may name: the operator registry and a fixed allowlist.

Text is data: names are looked up only here, and nothing is imported for them. Allowed are the functions that
``torch.overrides`` lists, creation functions, Python's operators and ``math``. Functions that read or write files, load code or
reach Python's internals are not.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch.fx._symbolic_trace import _assert_is_none

from fxc.bridge.operators import is_overload
from fxc.dialects.fx import IN_PLACE_OPERATORS
from fxc.errors import OTHER_VERSION, TORCH_COMPILE, TargetError, nearest

_overrides: Any = torch.overrides
_BUILTINS = [
    "abs",
    "all",
    "any",
    "bool",
    "complex",
    "dict",
    "divmod",
    "enumerate",
    "float",
    "getattr",
    "int",
    "isinstance",
    "len",
    "list",
    "max",
    "min",
    "pow",
    "range",
    "reversed",
    "round",
    "set",
    "slice",
    "sorted",
    "str",
    "sum",
    "tuple",
    "zip",
]
_CREATION = [
    "arange",
    "as_tensor",
    "bartlett_window",
    "blackman_window",
    "complex",
    "empty",
    "empty_strided",
    "eye",
    "full",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "polar",
    "rand",
    "randint",
    "randn",
    "randperm",
    "range",
    "scalar_tensor",
    "sparse_coo_tensor",
    "sparse_csr_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "empty_like",
    "full_like",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "zeros_like",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "sym_fresh_size",
    "broadcast_shapes",
    "is_grad_enabled",
    "get_default_dtype",
    "promote_types",
    "result_type",
    "can_cast",
    "is_floating_point",
    "is_tensor",
    "is_complex",
    "_check",
    "_check_is_size",
    "_assert",
    "device",
    "Size",
    "cond",
    "finfo",
    "iinfo",
    "manual_seed",
    "set_grad_enabled",
]
_NAMESPACES: dict[str, Any] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.functional": torch.functional,
    "torch.fft": torch.fft,
    "torch.linalg": torch.linalg,
    "torch.special": torch.special,
    "torch._C._nn": torch._C._nn,  # type: ignore[attr-defined]
}
_FORBIDDEN = frozenset({"torch.from_file", "torch.load", "torch.save", "torch.from_numpy"})
_ATTRIBUTES = frozenset(
    [
        "T",
        "H",
        "mT",
        "mH",
        "shape",
        "dtype",
        "device",
        "layout",
        "ndim",
        "real",
        "imag",
        "grad",
        "requires_grad",
        "is_cuda",
        "is_leaf",
        "is_sparse",
        "is_quantized",
        "is_nested",
        "itemsize",
        "nbytes",
        "data",
        "start",
        "stop",
        "step",
        "max",
        "min",
        "eps",
        "tiny",
        "bits",
        "smallest_normal",
        "resolution",
        "type",
        "index",
        "values",
        "indices",
    ]
)


DATA: Callable[[torch.Tensor], torch.Tensor] = torch._C._autograd._get_data_attr  # type: ignore[attr-defined]
"""The function that Dynamo calls when a model reads ``data``."""


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of ``function`` in the text: ``torch.nn.functional.relu``, ``operator.getitem``, ``len``."""
    if (known := _names().get(_key(function))) is not None:
        return known
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"torch.ops.{function}".replace("::", ".")
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    return f"{module}.{name}" if module and module != "builtins" else name


def resolve_function(name: str, extra: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return the function with a name. ``extra`` has additional allowed functions. TargetError if it is not allowed."""
    if extra and name in extra:
        return extra[name]
    function = _functions().get(name)
    if function is not None:
        return function
    if name.startswith("torch.ops.higher_order."):
        return resolve_higher_order(name.removeprefix("torch.ops.higher_order."))
    if name.startswith("torch.ops."):
        return resolve_operator(name.removeprefix("torch.ops.")) if name.count(".") == 4 else resolve_packet(name)
    raise TargetError(
        f"a graph may not call {name!r}: it is neither a PyTorch operator nor on the list of allowed functions",
        hint=nearest(name, _functions())
        or "pass it as allow={...} (library) or --allow=MODULE:NAME (command line), if you trust it",
    )


def resolve_packet(name: str) -> Any:
    """Return an overload packet, such as ``torch.ops.aten.add``, which some captures call."""
    parts = name.split(".")
    packet = getattr(getattr(torch.ops, parts[2], None), parts[3], None) if len(parts) == 4 else None
    if packet is None:
        raise TargetError(f"PyTorch has no operator {name!r}", hint="import the package that registers it first")
    return packet


def is_allowed(function: Callable[..., Any]) -> bool:
    """Whether ``function`` has a name that a file can use and that resolves to it."""
    return _key(function) in _names()


_OTHERWISE = f"call a function of PyTorch instead, or use {TORCH_COMPILE}"


def check_method(name: str) -> str:
    """Return ``name`` if a graph may call a method of that name, else raise TargetError."""
    if name in _methods():
        return name
    raise TargetError(f"a graph may not call the method {name!r}", hint=nearest(name, _methods()) or _OTHERWISE)


def check_attribute(name: Any) -> None:
    """Raise TargetError unless a graph may read ``name`` by ``getattr``: only public data of tensors, sizes and dtypes."""
    if name not in _ATTRIBUTES:
        hint = nearest(str(name), _ATTRIBUTES) or _OTHERWISE
        raise TargetError(f"a graph may not read the attribute {name!r}", hint=hint)


def resolve_operator(name: str) -> torch._ops.OpOverload:
    """Return an overload, such as ``aten.add.Tensor``; TargetError if it is not registered in this process."""
    namespace, _, rest = name.partition(".")
    packet_name, _, overload = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace, None), packet_name, None)
    found = getattr(packet, overload, None)
    if not is_overload(found):
        raise TargetError(
            f"operator {namespace}::{packet_name} (overload {overload}) is not registered in this process",
            hint="import the package that defines it before running the graph (command line: --import=PACKAGE)",
        )
    return found


_PRODUCTS = {
    f"aten.{name}.{kind}": getattr(torch, name) for name in ("mm", "bmm", "addmm", "baddbmm") for kind in ("default", "out")
}

BINDINGS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    **_PRODUCTS,
    "aten.convolution.default": torch.convolution,
    "aten.embedding.default": torch.embedding,
    "aten.cat.default": torch.cat,
    "aten.t.default": torch.t,
    "aten.transpose.int": torch.transpose,
    "aten.permute.default": torch.permute,
    "aten.unsqueeze.default": torch.unsqueeze,
    "aten.squeeze.dim": torch.squeeze,
    "aten.select.int": torch.select,
    "aten.as_strided.default": torch.as_strided,
})  # fmt: skip
"""Operator -> PyTorch's generated Python binding, which parses arguments faster."""


def operator_function(name: str) -> Callable[..., Any]:
    """Return the fastest callable of an operator, such as ``aten.mm.out``. TargetError if it is not registered here."""
    overload = resolve_operator(name)
    # OpOverload.__call__ calls _op: its Python frame costs as much as a small kernel
    return BINDINGS.get(name) or getattr(overload, "_op", overload)


def resolve_higher_order(name: str) -> torch._ops.HigherOrderOperator:
    """Return a higher-order operator, such as ``cond``."""
    found = getattr(torch.ops.higher_order, name, None)
    if not isinstance(found, torch._ops.HigherOrderOperator):
        raise TargetError(f"PyTorch has no higher-order operator {name!r}", hint=OTHER_VERSION)
    return found


def resolve_module_class(name: str, extra: dict[str, Any] | None = None) -> type[torch.nn.Module]:
    """Return a module class, such as ``torch.nn.modules.conv.Conv2d``: PyTorch's modules, and those in ``extra``."""
    if extra and name in extra:
        return extra[name]
    module_name, _, class_name = name.rpartition(".")
    if name == "torch.nn.Module":
        return torch.nn.Module
    parts = module_name.split(".")
    if parts[:3] == ["torch", "nn", "modules"] and len(parts) == 4:
        found = getattr(getattr(torch.nn.modules, parts[3], None), class_name, None)
        if isinstance(found, type) and issubclass(found, torch.nn.Module):
            return found
    raise TargetError(
        f"a file may not make a module of class {name!r}: it is not a class of PyTorch",
        hint="capture with route='export' or 'make_fx', which look inside modules, or pass it as allow={...}",
    )


def _key(function: Callable[..., Any]) -> Any:
    return id(function)


@cache
def _functions() -> dict[str, Callable[..., Any]]:
    """Return the allowed functions by name."""
    table: dict[str, Callable[..., Any]] = {name: getattr(builtins, name) for name in _BUILTINS}
    for name in dir(operator):
        if (
            not name.startswith("_")
            and callable(getattr(operator, name))
            and name not in ("attrgetter", "methodcaller", "call")
        ):
            table[f"operator.{name}"] = getattr(operator, name)
    assert all(f"operator.{name}" in table for name in IN_PLACE_OPERATORS)
    table |= {f"math.{name}": getattr(math, name) for name in dir(math) if callable(getattr(math, name)) and name[0] != "_"}
    for name in _CREATION:
        if (function := getattr(torch, name, None)) is not None:
            table[f"torch.{name}"] = function
    table["torch.fx._symbolic_trace._assert_is_none"] = _assert_is_none
    table["torch._C._autograd._get_data_attr"] = DATA
    overridable = {id(each) for functions in _overrides.get_overridable_functions().values() for each in functions}
    for prefix, namespace in _NAMESPACES.items():
        for name in dir(namespace):
            function = getattr(namespace, name)
            if callable(function) and (id(function) in overridable or _is_functional(prefix, name, function)):
                table.setdefault(f"{prefix}.{name}", function)
    return {name: function for name, function in table.items() if name not in _FORBIDDEN}


def _is_functional(prefix: str, name: str, function: Any) -> bool:
    """Whether ``function`` is defined by torch.nn.functional and not overridable (boolean dispatches, C functions)."""
    if prefix not in ("torch.nn.functional", "torch._C._nn") or name.startswith("_") or isinstance(function, type):
        return False
    module = getattr(function, "__module__", None)
    return module is None or module.startswith(("torch.nn.functional", "torch._C", "torch._jit_internal"))


@cache
def _names() -> dict[Any, str]:
    """Return the identities of allowed functions -> the first, shortest public name."""
    names: dict[Any, str] = {}
    order = {
        prefix: i for i, prefix in enumerate(("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft"))
    }
    for name, function in sorted(_functions().items(), key=lambda item: (order.get(item[0].rpartition(".")[0], 9), item[0])):
        names.setdefault(_key(function), name)
    names.update({_key(function): name for name, function in _functions().items() if name.startswith("operator.")})
    return names


@cache
def _methods() -> frozenset[str]:
    """Return the methods that a graph may call: overridable tensor methods, and methods of Python containers and numbers."""
    tensor = {
        name
        for name in dir(torch.Tensor)
        if not name.startswith("_") and name not in ("register_hook", "register_post_accumulate_grad_hook", "share_memory_")
    }
    dunder = {
        name
        for name in dir(torch.Tensor)
        if name.startswith("__") and name[2:-2] in {n.strip("_") for n in dir(operator)} | {f"r{n}" for n in dir(operator)}
    }
    python = {
        "keys",
        "values",
        "items",
        "get",
        "append",
        "extend",
        "pop",
        "count",
        "index",
        "insert",
        "numel",
        "copy",
        "is_integer",
        "__round__",
    }
    forbidden = {
        "untyped_storage",
        "storage",
        "_typed_storage",
        "set_",
        "numpy",
        "tolist_",
        "module_load",
        "data_ptr",
        "apply_",
        "map_",
        "map2_",
    }
    return frozenset((tensor | dunder | python | {"__getitem__", "__setitem__", "__contains__", "__len__"}) - forbidden)
