"""The kernels of a host program: native functions that take addresses if this CPU supports them, else functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from fxc.codegen.contract import is_interpreted, launch_writer
from fxc.codegen.cpu.choices import usable_features
from fxc.dialects.plan import LaunchOp
from fxc.dialects.target import CpuAttr, target_of
from fxc.dialects.tile import KernelOp
from fxc.errors import KernelError
from fxc.interpret.tile_level import kernel_of
from fxc.runtime.host_cpu import CpuFeatures
from fxc.runtime.host_program import KernelCode
from fxc.runtime.native_kernel import TensorSpec


class Kernels:
    """The kernels of ``module``. ``stored``: their machine code from a file, which is used if it fits this CPU."""

    def __init__(self, module: ModuleOp, stored: KernelCode | None = None) -> None:
        self.module, self.target, self.stored = module, target_of(module), stored
        self.launched = set[str]()
        self._specs = dict[LaunchOp, tuple[list[TensorSpec], list[TensorSpec]] | None]()

    @cached_property
    def features(self) -> CpuFeatures | None:
        """The CPU features that machine code may use; None if no machine code is generated."""
        if (self.target is not None and not isinstance(self.target, CpuAttr)) or is_interpreted(self.target):
            return None

        return usable_features(self.target)

    def is_native(self, op: LaunchOp) -> bool:
        """Whether the kernel of ``op`` is called with addresses."""
        return self.specs(op) is not None

    def specs(self, op: LaunchOp) -> tuple[list[TensorSpec], list[TensorSpec]] | None:
        """The tensors that ``op`` reads and writes; None if its kernel takes tensors, not addresses."""
        if op not in self._specs:
            self._specs[op] = None if self.features is None else _specs(op)
            if self._specs[op] is not None:
                self.launched.add(kernel_of(op).sym_name.data)
        return self._specs[op]

    def writer(self, op: LaunchOp) -> Callable[..., None]:
        """The function that checks the tensors and runs ``op`` on them."""
        return launch_writer(op, self.target)

    def load(self) -> Mapping[str, Callable[..., Any]]:
        """The functions of all native kernels, by name."""
        if not self.launched or self.features is None:
            return {}
        from fxc.codegen.cpu.machine_code import load_kernels

        names, stored = sorted(self.launched), self.stored
        if stored is not None and stored.key == KernelCode.key_of(self.features) and set(names) <= set(stored.names):
            with suppress(KernelError):  # code of another LLVM of equal version: compile it again
                return load_kernels(stored.code, names)
        self.stored = self.compile()
        assert self.stored is not None
        return load_kernels(self.stored.code, names)

    def compile(self) -> KernelCode | None:
        """The machine code of all native kernels; None if there are none."""
        if not self.launched or self.features is None:
            return None
        from fxc.codegen.cpu.machine_code import compile_kernels

        kernels = [op for op in self.module.ops if isinstance(op, KernelOp) and op.sym_name.data in self.launched]
        code = compile_kernels(kernels, self.features)
        return KernelCode(code, KernelCode.key_of(self.features), tuple(sorted(self.launched)))


def _specs(op: LaunchOp) -> tuple[list[TensorSpec], list[TensorSpec]] | None:
    from fxc.codegen.cpu.launch import native_specs

    return None if kernel_of(op).scalars() else native_specs(op)
