"""What the functions of a host program share: names, kernels, weights, and the program that they are printed from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Region, SSAValue

from fxc.bridge.nesting import OUTPUTS
from fxc.bridge.nesting import spec_of as nesting_of
from fxc.bridge.values import torch_dtype
from fxc.codegen.cpu.choices import shares_work
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import sizes_of, strides_of
from fxc.dialects.attributes.values import Tree
from fxc.dialects.base.effects import aliases
from fxc.dialects.plan import LaunchOp
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import KernelOp
from fxc.errors import InputError, WeightsError
from fxc.export.fx import region_module, submodule
from fxc.export.host.globals import Globals
from fxc.export.host.kernels import Kernels, failures, kernel_of
from fxc.export.host.memory import spec_of, tensor_text
from fxc.export.host.text import Leaf, nest_text, text_of, tuple_text
from fxc.export.plan_time_values import frozen_results
from fxc.program.program import Program
from fxc.runtime.expected import passed
from fxc.runtime.host_program import Weight
from fxc.runtime.kept_memory import kept_memory
from fxc.runtime.streams import Streams


class Host:
    """The program being printed. ``main``: its entry function."""

    def __init__(self, program: Program, kernels: Kernels) -> None:
        self.program, self.kernels, self.main = program, kernels, program.main
        self.globals = Globals()
        self.weights = dict[str, Weight]()
        self.state = dict[SSAValue, str]()
        """The arguments of ``main`` that are the program's own tensors; the name is empty where none is needed."""
        self.pending = list[FuncOp]()
        self.functions = {op.sym_name.data: op for op in program.module.ops if isinstance(op, FuncOp)}
        self._names = dict[str, str]()
        self._kernel_names = dict[str, str]()

    # functions

    def function(self, symbol: str) -> str:
        """The name of a function of the program, which is to be printed, too."""
        if symbol not in self._names:
            function = self.functions.get(symbol)
            if function is None or function.is_declaration:
                raise InputError(f"@{symbol} is called, but has no body", hint="define the function or inline it away")
            self._names[symbol] = self.globals.names.new(symbol)
            self.pending.append(function)
        return self._names[symbol]

    def region(self, region: Region, name: str) -> torch.nn.Module:
        """A region of a higher-order operator as the module that PyTorch wants for it."""
        return region_module(self.program, region, name)

    def submodule(self, path: str) -> torch.nn.Module:
        return submodule(self.program, path)

    # tensors

    def weight(self, name: str, value: SSAValue) -> str:
        """The name of the tensor ``name`` of the program. WeightsError where it has no value."""
        tensor = self.program.state.get(name)
        if tensor is None:
            raise WeightsError(
                f"the program has no value for the tensor {name!r}", hint="load the weights file that belongs to it"
            )
        text = tensor_text(value.type) if isinstance(value.type, TensorType) else ""
        bound = self.globals.bind(value._name or name, tensor, f'"{name}", {text}')
        if bound not in self.weights and isinstance(value.type, TensorType) and self._is_relied_on(value):
            spec = spec_of(value.type, name)
            if spec is not None:
                self.weights[bound] = Weight(name, tensor, spec)
        return bound

    def _is_relied_on(self, value: SSAValue) -> bool:
        """Whether code that takes addresses may get ``value`` or a view of it."""
        for use in value.uses:
            op = use.operation
            if not hasattr(op, "SCHEMA") or any(source is value for _, source in aliases(op)):
                return True
        return False

    def frozen(self, op: CallOp) -> dict[SSAValue, str]:
        """The names of the results of a call that is made once: now."""
        names = dict[SSAValue, str]()
        for result, made in zip(op.results, frozen_results(self.program, op), strict=True):
            spec = spec_of(result.type, "") if isinstance(result.type, TensorType) else None
            if spec is not None and spec.complaint(made):
                raise WeightsError(f"%{result._name} {spec.complaint(made)}", op=op_text(op))
            names[result] = self.globals.bind(result._name or "frozen", made if spec is None else spec.laid_out(made))
        return names

    @cached_property
    def _new_kept(self) -> Callable[..., torch.Tensor]:
        return kept_memory().new

    def allocation(self, type: TensorType, numbers: Mapping[str, str], *, is_brief: bool) -> tuple[str, str]:
        """The name of what makes a tensor of ``type``, and its arguments. ``numbers``: names of sizes that it does not say.

        ``is_brief``: its memory is given back at once, also where it is large.
        """
        device = torch.device(types.device(type))
        sizes, steps = (
            tuple_text([str(each) if isinstance(each, int) else each.text(numbers.__getitem__) for each in dims])
            for dims in (sizes_of(type), strides_of(type))
        )
        dtype = torch_dtype(type.element_type)
        fast = getattr(torch._C._dynamo.guards, f"_empty_strided_{device.type}", None)  # type: ignore[attr-defined]
        if fast is not None and device.index is None:
            if not is_brief and (spec := spec_of(type, "")) is not None and (bytes := spec.kept_bytes) is not None:
                return self.globals.bind("empty_kept", self._new_kept), f"{bytes}, {sizes}, {steps}, {dtype}"
            return self.globals.bind(f"empty_{device.type}", fast), f"{sizes}, {steps}, {dtype}"
        where = f"dtype={dtype}, device={self.globals.constant(device)}"
        return "torch.empty_strided", f"{sizes}, {steps}, {where}"

    # kernels

    def kernel(self, name: str) -> str:
        """The name of the native function of a kernel; it is made when all are known."""
        if name not in self._kernel_names:
            self._kernel_names[name] = self.globals.names.new(name)
        return self._kernel_names[name]

    def bind_kernels(self, functions: Any) -> None:
        self.globals.values.update((bound, functions[name]) for name, bound in self._kernel_names.items())

    def failing(self, kernel: KernelOp) -> str:
        """The name of what raises where a kernel says that an assertion failed."""
        name = kernel.sym_name.data
        return self.globals.bind(f"check_{name}", passed(name, failures(kernel)))

    def is_shared(self, op: LaunchOp) -> bool:
        """Whether the kernel of ``op`` runs on OpenMP's threads."""
        return self.kernels.is_native(op) and shares_work(kernel_of(op))

    def threads(self) -> str:
        return self.globals.bind("get_num_threads", torch.get_num_threads)

    def streams(self) -> str:
        if "streams" not in self.globals.values:
            self.globals.bind("streams", Streams())
        return "streams"

    # results

    def nested(self, tree: Tree, leaf: Leaf) -> str:
        """The text of what ``main`` returns, nested as the captured model did."""
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
