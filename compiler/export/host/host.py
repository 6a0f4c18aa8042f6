"""State that the functions of a host program share: names, kernels, weights, and the program that is printed."""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, cast

import torch
from torch.utils._pytree import tree_unflatten
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Region, SSAValue

from fxc.bridge.callables import operator_function
from fxc.bridge.nesting import OUTPUTS
from fxc.bridge.nesting import spec_of as nesting_of
from fxc.bridge.values import torch_dtype, value_of
from fxc.codegen.cpu.choices import shares_work
from fxc.codegen.cpu.memory_rules import messages
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import sizes_of, strides_of
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import KnownTree
from fxc.dialects.base.effects import aliases
from fxc.dialects.base.names import UniqueNames, python_name
from fxc.dialects.plan import LaunchOp
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import KernelOp
from fxc.errors import InputError, WeightsError
from fxc.export.fx import region_module, submodule
from fxc.export.host.kernels import Kernels
from fxc.export.host.memory import spec_of, tensor_text
from fxc.export.plan_time_values import frozen_results
from fxc.interpret.tile_level import kernel_of
from fxc.program.program import Program
from fxc.runtime.cuda_graphs import Streams
from fxc.runtime.host_program import Weight
from fxc.runtime.memory_cache import memory_cache
from fxc.runtime.native_kernel import passed


class Host:
    """The program being printed. ``main``: its entry function."""

    def __init__(self, program: Program, kernels: Kernels) -> None:
        self.program, self.kernels, self.main = program, kernels, program.main
        self.globals = Globals()
        self.weights = dict[str, Weight]()
        self.state = dict[SSAValue, str]()
        """The state arguments of ``main`` and their names; the name is empty if it is not needed."""
        self.pending = list[FuncOp]()
        self.functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
        self._names = dict[str, str]()
        self._kernel_names = dict[str, str]()

    # functions

    def function(self, symbol: str) -> str:
        """The name of a function of the program; the function is added to the functions to print."""
        if symbol not in self._names:
            function = self.functions.get(symbol)
            if function is None or function.is_declaration:
                raise InputError(f"@{symbol} is called, but has no body", hint="define the function or inline it away")
            self._names[symbol] = self.globals.names.fresh(python_name(symbol))
            self.pending.append(function)
        return self._names[symbol]

    def region(self, region: Region, name: str) -> torch.nn.Module:
        """A region of a higher-order operator as the module that PyTorch expects."""
        return region_module(self.program, region, name)

    def submodule(self, path: str) -> torch.nn.Module:
        return submodule(self.program, path)

    # tensors

    def weight(self, name: str, value: SSAValue) -> str:
        """The Python name of the tensor ``name`` of the program. WeightsError if it has no value."""
        tensor = self.program.state.get(name)
        if tensor is None:
            raise WeightsError(
                f"the program has no value for the tensor {name!r}", hint="load the weights file that belongs to it"
            )
        text = tensor_text(value.type) if is_tensor(value.type) else ""
        bound = self.globals.bind(value._name or name, tensor, f'"{name}", {text}')
        if bound not in self.weights and is_tensor(value.type) and self._is_relied_on(value):
            spec = spec_of(value.type, name)
            if spec is not None:
                self.weights[bound] = Weight(name, tensor, spec)
        return bound

    def _is_relied_on(self, value: SSAValue) -> bool:
        """Whether ``value`` or a view of it may be passed to code that takes addresses."""
        for use in value.uses:
            op = use.operation
            if not hasattr(op, "SCHEMA") or any(source is value for _, source in aliases(op)):
                return True
        return False

    def frozen(self, op: CallOp) -> dict[SSAValue, str]:
        """Evaluate a plan-time call, and return the names of its results."""
        names = dict[SSAValue, str]()
        for result, made in zip(op.results, frozen_results(self.program, op), strict=True):
            spec = spec_of(result.type, "") if is_tensor(result.type) else None
            if spec is not None and spec.complaint(made):
                hint = "load the weights that were saved with the text"
                raise WeightsError(f"%{result._name} {spec.complaint(made)}", op=op_text(op), hint=hint)
            names[result] = self.globals.bind(result._name or "frozen", made if spec is None else spec.laid_out(made))
        return names

    @cached_property
    def _new_cached(self) -> Callable[..., torch.Tensor]:
        return memory_cache().new

    def allocation(self, type: TensorType, numbers: Mapping[str, str], *, is_short_lived: bool) -> tuple[str, str]:
        """The name of the function that allocates a tensor of ``type``, and its arguments as text.

        ``numbers``: names of the dynamic sizes. ``is_short_lived``: the memory is freed at once, even if it is large.
        """
        device = torch.device(types.device(type))
        sizes, steps = (
            tuple_text([str(each) if isinstance(each, int) else each.text(numbers.__getitem__) for each in dims])
            for dims in (sizes_of(type), strides_of(type))
        )
        dtype = torch_dtype(type.element_type)
        fast = getattr(torch._C._dynamo.guards, f"_empty_strided_{device.type}", None)  # type: ignore[attr-defined]
        if fast is not None and cast(int | None, device.index) is None:
            if not is_short_lived and (spec := spec_of(type, "")) is not None and (bytes := spec.cached_bytes) is not None:
                return self.globals.bind("empty_kept", self._new_cached), f"{bytes}, {sizes}, {steps}, {dtype}"
            return self.globals.bind(f"empty_{device.type}", fast), f"{sizes}, {steps}, {dtype}"
        where = f"dtype={dtype}, device={self.globals.constant(device)}"
        return "torch.empty_strided", f"{sizes}, {steps}, {where}"

    # kernels

    def kernel(self, name: str) -> str:
        """The name of the native function of a kernel; ``bind_kernels`` binds all of them at the end."""
        if name not in self._kernel_names:
            self._kernel_names[name] = self.globals.names.fresh(python_name(name))
        return self._kernel_names[name]

    def bind_kernels(self, functions: Any) -> None:
        self.globals.values.update((bound, functions[name]) for name, bound in self._kernel_names.items())

    def failing(self, kernel: KernelOp) -> str:
        """The name of the function that raises if a kernel returns the number of a failed assertion."""
        name = kernel.sym_name.data
        return self.globals.bind(f"check_{name}", passed(name, messages(kernel)))

    def is_shared(self, op: LaunchOp) -> bool:
        """Whether the kernel of ``op`` runs in parallel on OpenMP threads."""
        return self.kernels.is_native(op) and shares_work(kernel_of(op))

    def threads(self) -> str:
        return self.globals.bind("get_num_threads", torch.get_num_threads)

    def streams(self) -> str:
        if "streams" not in self.globals.values:
            self.globals.bind("streams", Streams())
        return "streams"

    # results

    def nested(self, tree: KnownTree, leaf: Leaf) -> str:
        """The text of the return value of ``main``, in the nesting of the captured model."""
        attribute = self.main.attributes.get(OUTPUTS)
        if attribute is None:
            return text_of(tree, leaf)
        assert isinstance(tree, (tuple, list))
        texts, spec = [text_of(each, leaf) for each in tree], nesting_of(attribute)
        nested = nest_text(tree_unflatten(texts, spec))
        if nested is not None:
            return nested
        unflatten = self.globals.bind("nest", partial(_unflatten, spec))
        return f"{unflatten}([{', '.join(texts)}])"


def _unflatten(spec: Any, leaves: list[Any]) -> Any:
    return tree_unflatten(leaves, spec)


# global names of a host program: operators, kernels, weights, constants


class Globals:
    """Global objects by name. Each object has one name."""

    def __init__(self) -> None:
        self.names = UniqueNames(RESERVED)
        self.values: dict[str, Any] = {"torch": torch}
        self.comments = dict[str, str]()
        self._known = dict[Any, str]()

    def bind(self, hint: str, value: Any, comment: str = "") -> str:
        """The name of ``value``; ``comment`` describes it in the head of the program."""
        key = repr(value) if isinstance(value, (torch.device, float, complex)) else id(value)
        name = self._known.get(key)
        if name is None:
            name = self.names.fresh(python_name(hint))
            self._known[key], self.values[name] = name, value
            if comment:
                self.comments[name] = comment
        return name

    def operator(self, operator: str) -> str:
        """The name of an operator such as ``aten.mm.out``. TargetError if this process has no operator of that name."""
        return self.bind(operator.removesuffix(".default").replace(".", "_"), operator_function(operator))

    def constant(self, value: Any) -> str:
        """A Python constant as text: a literal if it has a short one, else a name."""
        print_one = _TEXTS.get(value.__class__)
        text = print_one(value) if print_one is not None else None
        return self.bind(_hint(value), value) if text is None else text


def _float(value: float) -> str | None:
    return repr(value) if math.isfinite(value) else None


_TEXTS: Mapping[type, Callable[[Any], str | None]] = MappingProxyType({
    type(None): repr,
    bool: repr,
    int: repr,
    str: repr,
    float: _float,
    type(...): lambda _: "...",
    torch.dtype: str,
    torch.layout: str,
    torch.memory_format: str,
})  # fmt: skip


def _hint(value: Any) -> str:
    """A name for a constant without a literal: ``cpu``, ``inf``."""
    return str(getattr(value, "__name__", None) or value).replace(":", "_").replace("-", "minus_")


# unique names of a host program: names of the IR if they are valid in Python and not taken


RESERVED = frozenset({*keyword.kwlist, *dir(builtins), "torch"})
"""Names that a program does not use for its values."""


# nestings of values as Python text


Leaf = Callable[[SSAValue | Attribute], str]


def text_of(tree: KnownTree, leaf: Leaf) -> str:
    """The text of a tree of call arguments; ``leaf`` returns the text of a leaf."""
    if isinstance(tree, list):
        return f"[{', '.join(text_of(each, leaf) for each in tree)}]"
    if isinstance(tree, tuple):
        return tuple_text([text_of(each, leaf) for each in tree])
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{value_of(key)!r}: {text_of(each, leaf)}' for key, each in tree.items())}}}"
    if isinstance(tree, slice):
        return f"slice({', '.join(text_of(part, leaf) for part in (tree.start, tree.stop, tree.step))})"
    return leaf(tree)


def tuple_text(texts: list[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def nest_text(nest: str | tuple[Any, ...] | list[Any] | dict[Any, Any]) -> str | None:
    """The text of a nesting whose leaves are texts; None if it has containers other than Python's builtin ones."""
    if type(nest) is str:
        return nest
    if type(nest) in (tuple, list):
        parts = [nest_text(each) for each in nest]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return tuple_text(found) if type(nest) is tuple else f"[{', '.join(found)}]"
    if type(nest) is dict and all(type(key) in (str, int) for key in nest):
        parts = [nest_text(each) for each in nest.values()]
        return None if None in parts else f"{{{', '.join(f'{key!r}: {part}' for key, part in zip(nest, parts, strict=True))}}}"
    return None
