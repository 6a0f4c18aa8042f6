"""Capture of models that take objects, or change lists, dicts and objects among their inputs."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import SUPPORTED_NODES, tree_flatten, tree_flatten_with_path, tree_leaves, tree_map

from fxc.bridge.instances import CLASSES, class_of, constant_of, parts_with_instances, with_instances
from fxc.bridge.nesting import RETURNS, returned_attr
from fxc.bridge.values import is_dict, is_sequence
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.check_call import held_by, model_signature
from fxc.frontends.stored_values import StoredValues
from fxc.frontends.without_effects import with_forward
from fxc.program.program import Program
from fxc.runtime.object_inputs import (
    COMPUTED,
    MODEL,
    SAME,
    UNCHANGED,
    InputObject,
    Returned,
    class_name,
    contents,
    empty,
    fill,
    holds_objects,
    is_object,
    one_level,
    opened,
    register_inputs,
)


class ChangedInputs:
    """Inputs of a call, opened in ``args`` and ``kwargs``; ``around``: the context in which a model is captured with these.

    The model then returns flat values where it takes objects, or changes its inputs, or where there are ``stored`` values;
    then ``mark`` states what they are. ``is_needed``: whether there are objects, lists or dicts.
    """

    stored: StoredValues | None = None

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        register_inputs()
        self.args, self.kwargs, self._given = opened(args, kwargs)
        for each in self._given:
            if is_object(each):
                CLASSES[class_name(each)] = type(each)
        self.is_needed = bool(self._given)
        self.has_objects = holds_objects(tree_flatten((self.args, self.kwargs))[1])
        self._returned: Returned | None = None
        leaves = tree_leaves((self.args, self.kwargs))
        if self.has_objects or any(is_object(leaf) or isinstance(leaf, torch.nn.Module) for leaf in leaves):
            _refuse_other_values((self.args, self.kwargs))

    @contextmanager
    def around(self, module: torch.nn.Module) -> Generator[None, None, None]:
        """A context in which the forward of ``module`` takes opened inputs, and returns what it changes, too."""
        if not self._given and self.stored is None:
            yield
            return
        held = held_by(module)
        if (found := next((each for each in self._given if id(each) in held), None)) is not None:
            message = f"an input, a {type(found).__qualname__}, is also an attribute or variable of the model"
            raise CaptureError(message, hint=f"give it a copy, or use {TORCH_COMPILE}") from TypeError(class_name(found))
        forward = module.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            made = _Made()
            args = tuple([made.value(each) for each in args])
            named = {name: made.value(kwargs[name]) for name in sorted(kwargs)}
            before = [contents(each) for each in made.containers]
            result = forward(*args, **{name: named[name] for name in kwargs})
            return self._flat(module, result, made.containers, before)

        with with_forward(module, run):
            yield

    def _flat(self, module: torch.nn.Module, result: Any, containers: list[Any], before: list[Any]) -> Any:
        changes = dict[int, Any]()
        for i, (container, was) in enumerate(zip(containers, before, strict=True)):
            now = contents(container)
            if has_changed(was, now):
                changes[i] = {part: _marked(was[part], now[part]) for part in now}
                self._refuse(i)
        if self.stored is not None:
            changes[MODEL] = self.stored.computed()
        known, held = {id(each): _Leaf(i) for i, each in enumerate(containers)}, held_by(module)
        returned = tree_leaves(result, is_leaf=lambda value: id(value) in known)
        if not (changes or self.has_objects or any(id(value) in known for value in returned)):
            return result
        tree = with_instances(result, held, known), parts_with_instances(changes, held, known)
        leaves, nesting = tree_flatten(tree)
        inputs = tuple(leaf.index if isinstance(leaf, _Leaf) else COMPUTED for leaf in leaves)
        returned = Returned(nesting, inputs)
        if self._returned not in (None, returned):
            raise CaptureError("what the model does to its inputs depends on their sizes", hint=f"use {TORCH_COMPILE}")
        self._returned = returned
        return tuple(leaf for leaf in leaves if not isinstance(leaf, _Leaf))

    def _refuse(self, i: int) -> None:
        """CaptureError where the container ``i``, which the model changes, is made anew in a call."""
        given = self._given[i]
        is_registered = type(given) in SUPPORTED_NODES and type(given).__module__ not in ("builtins", "collections")
        if is_registered or sum(each is given for each in self._given) > 1:
            what = "of a class that is registered in PyTorch's pytree" if is_registered else "which is given twice"
            message = f"the model changes an input, a {type(given).__qualname__}, {what}"
            raise CaptureError(message, hint=f"return the new value, or use {TORCH_COMPILE}") from TypeError(class_name(given))

    def mark(self, program: Program) -> None:
        """State in ``program`` what its results are."""
        if self._returned is not None:
            program.main.attributes[RETURNS] = returned_attr(self._returned)
        program.stored = self.stored

    def shapes(self, model: Any, dynamic_shapes: Any) -> Any:
        """``dynamic_shapes``, which has a dictionary by attributes for each object, in the structure of opened inputs."""
        if not (self.has_objects and (is_dict(dynamic_shapes) or is_sequence(dynamic_shapes))):
            return dynamic_shapes
        parameters = model_signature(model)
        inputs = parameters.bind(*self.args, **self.kwargs).arguments
        given = dynamic_shapes if is_dict(dynamic_shapes) else dict(zip(inputs, dynamic_shapes, strict=False))
        is_open = {name: each.kind is each.VAR_KEYWORD for name, each in parameters.parameters.items()}
        return {name: _shapes(value, given.get(name, given if is_open[name] else None), name) for name, value in inputs.items()}


def _refuse_other_values(inputs: Any) -> None:
    """CaptureError for a function, module or other value that is no container of tensors and numbers."""
    for path, leaf in tree_flatten_with_path(inputs)[0]:
        if not isinstance(leaf, (torch.Tensor, int, float, complex, str, type(None))):
            keys = [str(getattr(key, "name", getattr(key, "key", getattr(key, "idx", "")))) for key in path[1:]]
            kind = class_name(leaf)
            message = (
                f"input {'.'.join(key for key in keys if key)} is a {kind}, and the objects that a program takes hold tensors"
            )
            hint = f"give the model an attribute instead, or use {TORCH_COMPILE}"
            raise CaptureError(f"{message}, numbers, strings and containers", hint=hint) from TypeError(kind)


class _Leaf:
    """A leaf of results that the program does not compute."""

    def __init__(self, index: int) -> None:
        self.index = index


_UNCHANGED = _Leaf(UNCHANGED)


class _Made:
    """Makes the objects of opened inputs, and lists the ``containers`` in the order of ``opened``."""

    def __init__(self) -> None:
        self.containers = list[Any]()

    def value(self, value: Any) -> Any:
        if isinstance(value, InputObject):
            return self._object(value)
        if type(value) not in SUPPORTED_NODES:
            return value
        index = len(self.containers)
        if not isinstance(value, tuple):
            self.containers.append(None)
        made = one_level(value, self.value)
        if not isinstance(value, tuple):
            self.containers[index] = made
        return made

    def _object(self, value: InputObject) -> Any:
        if not value.parts:
            return self.containers[int(value.name[1:])] if value.name.startswith(SAME) else constant_of(value.name)
        made = empty(class_of(value.name))
        self.containers.append(made)
        attributes = {name: self.value(each) for name, each in value.parts[0].items()}
        fill(made, attributes, [one_level(items, self.value) for items in value.parts[1:]])
        return made


def has_changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the ``contents`` of a container differ."""
    return not all([*was[part]] == [*now[part]] and all(was[part][key] is now[part][key] for key in was[part]) for part in now)


def _marked(was: Mapping[Any, Any], now: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: _UNCHANGED if was.get(key, _UNCHANGED) is value else value for key, value in now.items()}


def _shapes(value: Any, shapes: Any, name: str) -> Any:
    """The shapes of ``value``, with None for what ``shapes`` omits. CaptureError for an attribute that does not exist."""
    if isinstance(value, InputObject):
        attributes, *items = value.parts or [{}]
        if is_dict(shapes) and (unknown := next((key for key in shapes if key not in attributes), None)) is not None:
            raise CaptureError(f"dynamic_shapes names {unknown!r} of {name}", hint=f"its attributes: {', '.join(attributes)}")
        inner = [_shapes(attributes, shapes, name), *(_shapes(each, None, name) for each in items)]
        return inner if value.parts else []
    if is_dict(value):
        return {
            key: _shapes(each, shapes.get(key) if is_dict(shapes) else None, f"{name}.{key}") for key, each in value.items()
        }
    if is_sequence(value):
        each_shapes = shapes if is_sequence(shapes) and len(shapes) == len(value) else [None] * len(value)
        return [_shapes(each, shape, f"{name}[{i}]") for i, (each, shape) in enumerate(zip(value, each_shapes, strict=True))]
    return tree_map(_nothing, value) if shapes is None else shapes


def _nothing(_: Any) -> None:
    return None
