"""The modules and tensors that a graph names, during conversion: fake modules to call, arguments for tensors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.nn.utils.stateless import _reparametrize_module
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.bridge.modules import build_module
from fxc.bridge.tensors import DeferredFake, FakeWorld
from fxc.bridge.values import is_dict, is_sequence
from fxc.dialects.attributes.values import StateAttr, encode, isa, str_attr
from fxc.dialects.fx import CallModuleOp, ModuleDeclOp, TensorDeclOp
from fxc.errors import CaptureError


class ModelState:
    """``leaves``: declared tensor name -> its argument of ``block``, made on first use, in order."""

    def __init__(self, module: ModuleOp, block: Block, world: FakeWorld, live: dict[str, Any]) -> None:
        self.block, self.world, self.live = block, world, live
        self.modules = {op.path: op for op in module.ops if isinstance(op, ModuleDeclOp)}
        self.tensors = {op.sym.data: op for op in module.ops if isinstance(op, TensorDeclOp)}
        self.leaves = dict[str, Leaf]()
        self._built = dict[str, torch.nn.Module]()

    def leaf(self, name: str) -> Leaf:
        """Return the function argument for a declared tensor, made on first use."""
        if name not in self.leaves:
            declaration = self.tensors.get(name)
            if declaration is None:
                raise CaptureError(f"the graph reads the tensor {name!r}, which the module does not declare")
            argument = self.block.insert_arg(declaration.type, len(self.block.args))
            argument._name = "p_" + re.sub(r"\W", "_", name)
            self.leaves[name] = Leaf(self.world.later(declaration.type), argument)
        return self.leaves[name]

    def of_call(self, op: Operation) -> dict[str, Leaf]:
        """Return parameter name within the called module -> leaf."""
        if not isinstance(op, CallModuleOp):
            return {}
        path = op.call_target() or ""
        module = self.submodule(path)
        named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        return {name: self.leaf(f"{path}.{name}") for name, _ in named}

    def submodule(self, path: str) -> torch.nn.Module:
        if isinstance(module := self.live.get(path), torch.nn.Module):
            return module
        if path not in self._built:
            self._built[path] = build_module(path, self.modules, self.tensors, self._fake, self.live)
        return self._built[path]

    def _fake(self, name: str) -> torch.Tensor:
        return self.world.fake(self.tensors[name].type)

    @contextlib.contextmanager
    def reparametrized(self, op: Operation, state: dict[str, Any]) -> Generator[None, None, None]:
        if not isinstance(op, CallModuleOp):
            yield
            return
        with _reparametrize_module(self.submodule(op.call_target() or ""), state):
            yield

    def module_key(self, path: str) -> Any:
        """Return a key that is equal for equal layers: the declarations with relative names, or the path if there are none."""
        inside = [(p, d) for p, d in self.modules.items() if p == path or p.startswith(path + ".")]
        if not inside:
            return path

        def relative(leaf: Any) -> Any:
            return StateAttr(StringAttr(leaf.target.data.removeprefix(path))) if isinstance(leaf, StateAttr) else leaf

        fields = [
            (p.removeprefix(path), d.call_target(), [(k, encode(map_leaves(t, relative), [])) for k, t in d.trees()[1].items()])
            for p, d in inside
        ]
        kinds = [(n.removeprefix(path), t.kind, t.requires_grad) for n, t in self.tensors.items() if n.startswith(path + ".")]
        return str(fields), str(kinds)

    def class_name(self, path: str) -> str:
        declaration = self.modules.get(path)
        return (declaration.call_target() or "module").rpartition(".")[2] if declaration else "module"

    def argument_attributes(self) -> list[DictionaryAttr]:
        """Return the attributes of the new arguments, in order, and detach their declarations, which are redundant now."""
        made = list[DictionaryAttr]()
        for name in self.leaves:
            declaration = self.tensors[name]
            attributes: dict[str, Attribute] = {"fx.kind": declaration.kind, "fx.name": str_attr(name)}
            if declaration.non_persistent is not None:
                attributes["fx.non_persistent"] = UnitAttr()
            if declaration.requires_grad is not None:
                attributes["fx.requires_grad"] = UnitAttr()
            made.append(DictionaryAttr(attributes))
            declaration.detach()
        return made


# abstract values of a walk over Python calls: nestings whose leaves are constants or ``Leaf``


@dataclass(frozen=True, eq=False)
class Leaf:
    """A tensor or symbolic number of the graph: its fake value, and its SSA value."""

    given: Any
    """The fake value, possibly deferred."""
    value: SSAValue

    @cached_property
    def fake(self) -> Any:
        return self.given.make() if isinstance(self.given, DeferredFake) else self.given

    def type(self, world: FakeWorld) -> Attribute:
        """Return the type of the fake value, or that of the SSA value if the fake value is not made yet."""
        is_made = "fake" in self.__dict__ or not isinstance(self.given, DeferredFake)
        return world.type_of(self.fake) if is_made else self.value.type


class Size(tuple[Any, ...]):
    """The elements of a torch.Size, some of them symbolic."""


def map_leaves(nest: Any, function: Callable[[Any], Any], size: Callable[[Sequence[Any]], Any] = torch.Size) -> Any:
    """Apply ``function`` to the leaves of ``nest``.

    A Size becomes a torch.Size, or the result of ``size``: ``tuple`` if ``function`` does not return numbers.
    """
    if isinstance(nest, (Size, torch.Size)):
        return size([function(element) for element in nest])
    if is_sequence(nest):
        elements = (map_leaves(element, function, size) for element in nest)
        return type(nest)(*elements) if hasattr(nest, "_fields") else type(nest)(elements)
    if is_dict(nest):
        return {key: map_leaves(value, function, size) for key, value in nest.items()}
    if isa(nest, slice):
        return slice(*(map_leaves(part, function, size) for part in (nest.start, nest.stop, nest.step)))
    return function(nest)


def leaves_of(nest: Any) -> list[Leaf]:
    found = list[Leaf]()
    map_leaves(nest, lambda leaf: found.append(leaf) if isinstance(leaf, Leaf) else None, size=tuple)
    return found


@dataclass(frozen=True)
class LeafSlot:
    """The position of a traced output in a nested result, or of an input in a nested argument."""

    index: int


def with_slots(result: Any, slot: Callable[[Any], Any]) -> Any:
    """Apply ``slot`` to the leaves of a nested result; a torch.Size with symbolic elements becomes a Size."""
    if isinstance(result, torch.Size):
        return Size(map(slot, result)) if any(isinstance(s, torch.SymInt) for s in result) else result
    return map_leaves(result, slot)
