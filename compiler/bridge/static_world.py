"""Shape inference for CPU tensors of known sizes without Dynamo, whose import takes as long as that of PyTorch.

PyTorch's fake mode reads its configuration on every call, which imports Dynamo; the one here does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from threading import RLock
from types import FunctionType
from typing import Any, NoReturn, TypeVar

import torch
import torch.nested._internal.nested_tensor as nested_tensor
from torch import _decomp, _refs
from torch._compile import _disable_dynamo
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_impls import has_meta, stride_incorrect_op
from torch._subclasses.fake_tensor import (
    _DISPATCH_HANDLE_DIRECTLY,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorMode,
    UnsupportedOperatorException,
    in_kernel_invocation_manager,
    torch_decomp_decompositions,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only
from xdsl.dialects.builtin import DictionaryAttr, TensorType

from fxc.bridge.eager_strides import as_in_eager
from fxc.bridge.tensors import FakeWorld
from fxc.bridge.values import torch_dtype
from fxc.dialects.attributes import types
from fxc.dialects.semantics import CannotInfer
from fxc.errors import FxcError

IS_PLAIN = torch.__version__.startswith("2.13.")
"""Whether ``StaticFakeMode`` and the plain trace, which use PyTorch internals, were verified with this version of it."""

Answer = TypeVar("Answer")


class NoFake(CannotInfer):
    """No world can make fakes of the results of an operator."""


class StaticWorld(FakeWorld):
    """A world of plain CPU tensors of known sizes. Other types, and failures, raise an error."""

    @cached_property
    def mode(self) -> StaticFakeMode:
        return StaticFakeMode()

    @property
    def shape_env(self) -> NoReturn:  # type: ignore[override]
        raise FxcError("a size that is not known")

    def _tensor(self, type: TensorType) -> torch.Tensor:
        sizes, strides = types.sizes(type), types.strides(type)
        known = [dim for dim in (*sizes, *(strides or ())) if isinstance(dim, int)]
        if types.layout(type) != "strided" or types.device(type) != "cpu" or len(known) < len(sizes) + len(strides or ()):
            raise FxcError(f"{type} is not plain")
        dims = known[: len(sizes)]
        steps = types.contiguous_strides(dims) if strides is None else known[len(sizes) :]
        return self.mode.made(dims, steps, torch_dtype(type.element_type))


def evaluate(
    question: Callable[[FakeWorld], Answer],
    symbols: DictionaryAttr | None,
    static: Callable[[], StaticWorld] = StaticWorld,
    world: Callable[[DictionaryAttr | None], FakeWorld] = FakeWorld,
) -> Answer:
    """Evaluate ``question`` in a static world, or if that fails, in a world with the ``symbols`` of the module."""
    if not symbols and IS_PLAIN:
        try:
            with without_dynamo():
                return question(static())
        except NoFake:
            raise
        except Exception:  # the second evaluation raises PyTorch's error, if any
            pass
    return question(world(symbols))


_tables: Any = _decomp
_impls: Any = fake_impls
_fakes: Any = fake_tensor
_nested: Any = nested_tensor
_CPU = torch.device("cpu")
_SWITCH: Any = _disable_dynamo(lambda: None).__code__
_switching = RLock()


@contextmanager
def without_dynamo() -> Generator[None, None, None]:
    """A context in which PyTorch's reference implementations run without their Dynamo wrapper, which imports Dynamo."""
    with _switching:
        is_needed = "torch._dynamo" not in sys.modules
        functions = [each for each in _switched() if not hasattr(each, "__dynamo_disable")] if is_needed else []
        for function in functions:
            function.__dynamo_disable = function
        try:
            yield
        finally:
            for function in functions:
                del function.__dynamo_disable


@cache
def _switched() -> list[Any]:
    """Return the reference functions that have a Dynamo-disabling wrapper."""
    found, seen = list[Any](), set[int]()
    todo: list[Any] = [*_tables.decomposition_table.values(), *_tables.meta_table.values(), *vars(_refs).values()]
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        inner = [cell.cell_contents for cell in function.__closure__ or () if isinstance(cell.cell_contents, FunctionType)]
        found += inner if function.__code__ is _SWITCH else []
        todo += inner
    return found


def _are_new(storages: Sequence[int], others: Sequence[int]) -> bool:
    """Whether ``storages`` are distinct, and disjoint from ``others``."""
    return len({*storages, *others}) == len(storages) + len({*others})


@dataclass(frozen=True)
class _Facts:
    """The properties of a fake on the CPU."""

    shape: torch.Size
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype


class StaticFakeMode(FakeTensorMode):
    """FakeTensorMode with default settings, for CPU tensors from ``fake``, without running real kernels.

    Operators have the same semantics, with the same precedence: PyTorch's fake rule, a decomposition, a meta kernel. Views of
    known sizes need no rule.
    """

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.allow_fallback_kernels = self.allow_non_fake_inputs = self.allow_scalar_outputs = False
        self.propagate_real_tensors = self.allow_meta = self._allow_unsafe_data_ptr_access = False
        self.fake_tensor_converter = FakeTensorConverter(copy_data=False, export=True)
        self.static_shapes, self.shape_env = True, None
        self.cache_enabled = self.cache_crosscheck_enabled = False
        self.in_kernel_invocation = False
        self._known = dict[Any, Any]()
        self.enter_stack = []
        self._stack_trace, self._stack = None, ""
        self._mode_key = torch._C._TorchDispatchModeKey.FAKE
        self.nt_tensor_id_initial_count = self.nt_tensor_id_counter = _nested._tensor_id_counter

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if (handler := _fakes._DISPATCH_META_HANDLERS.get(func)) is not None:
            return handler(args)
        if func in _DISPATCH_HANDLE_DIRECTLY:
            with in_kernel_invocation_manager(self):
                return func(*args, **kwargs)
        leaves, nesting = tree_flatten((args, kwargs))
        facts = [self._key(leaf) for leaf in leaves]  # also of a view: a fake with the memory of a real tensor would spoil it
        key = None if func.is_view or func._schema.is_mutable else (func, nesting, *facts)
        if (known := self._known.get(key)) is not None:
            return tree_map_only(_Facts, self._made, known)
        result = as_in_eager(self, func, args, kwargs, self._computed(func, args, kwargs))
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        storages = [each.untyped_storage()._cdata for each in (*results, *leaves) if isinstance(each, torch.Tensor)]
        if key is not None and _are_new(storages[: len(results)], storages[len(results) :]):
            self._known[key] = tree_map_only(torch.Tensor, self._key, result)
        return result

    def _key(self, leaf: Any) -> Any:
        """Return the properties of an argument that the result of an operator depends on."""
        if not isinstance(leaf, torch.Tensor):
            if isinstance(leaf, torch.device) and leaf != _CPU:
                raise FxcError(f"a tensor on {leaf}")
            return type(leaf), leaf
        if not self.is_our_fake(leaf):
            raise FxcError("a tensor that is not fake")
        return _Facts(leaf.shape, leaf.stride(), int(leaf.storage_offset()), leaf.dtype)

    def _made(self, facts: _Facts) -> FakeTensor:
        with torch._C._DisableTorchDispatch():
            meta = torch.empty_strided(facts.shape, facts.strides, dtype=facts.dtype, device="meta")
        return FakeTensor(self, meta, _CPU)

    def _computed(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found = self._by_rule(func, args, kwargs)
        if found is not NotImplemented:
            return found
        if not has_meta(func):
            raise UnsupportedOperatorException(func)
        with in_kernel_invocation_manager(self):
            found = func(*args, **kwargs)
        made = dict[int, FakeTensor]()
        return tree_map_only(
            torch.Tensor, lambda t: t if self.is_our_fake(t) else made.setdefault(id(t), FakeTensor(self, t, _CPU)), found
        )

    def _by_rule(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of PyTorch's fake rule or of a decomposition; NotImplemented if the meta kernel must run."""
        if (func.is_view and not func._can_decompose()) or func is torch.ops.aten._unsafe_view.default:
            return NotImplemented
        if func not in _tables.meta_table and not self.cpp_meta_supports_symint(func):
            with self:
                if func in _tables.decomposition_table and torch_decomp_decompositions(func):
                    return _tables.decomposition_table[func](*args, **kwargs)
                found = func.decompose(*args, **kwargs)
                if found is not NotImplemented:
                    return found
        if func.namespace == "prims" and hasattr(func, "prim_meta_impl") and not stride_incorrect_op(func):
            with self:
                return func.prim_meta_impl(*args, **kwargs)
        for has_rule, rule in _impls.op_implementations_checks:
            if has_rule(func):
                found = rule(self, func, *args, **kwargs)
                if found is not NotImplemented:
                    return found
        return NotImplemented

    def made(self, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> FakeTensor:
        """Return a fake with these properties."""
        return self._made(_Facts(torch.Size(sizes), tuple(strides), 0, dtype))

    def snapshot(self, fake: torch.Tensor) -> FakeTensor:
        """Return another fake like ``fake``."""
        return self._made(self._key(fake))

    def fake(self, tensor: torch.Tensor) -> FakeTensor:
        """Return a fake of ``tensor``. FxcError unless it is plain: dtype, sizes and strides on the CPU."""
        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if not is_plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or tensor.storage_offset():
            raise FxcError("this tensor is not plain")
        meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        fake = FakeTensor(self, meta, tensor.device)
        fake.requires_grad_(tensor.requires_grad)
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        return fake
