"""The nesting of a model's inputs and outputs as an attribute, and back.

``fx.inputs = #fx.nesting<((_,), {})>`` is one positional argument and no keywords. Named tuple classes are stored by name, and
looked up in modules that are imported already. Nestings with other user-defined containers are stored as PyTorch's JSON text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, TypeGuard

from torch.utils._pytree import TreeSpec, tree_structure, tree_unflatten, treespec_dumps, treespec_loads
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, StringAttr, i64
from xdsl.ir import Attribute

from fxc.bridge.instances import CLASSES, imported, register_instances
from fxc.bridge.values import is_dict, is_sequence, is_tuple, python_of, tree_of, value_of
from fxc.dialects.attributes.values import SSA, SSAAttr, decode_constants, encode, str_attr
from fxc.dialects.text.nesting import NestingAttr
from fxc.errors import CaptureError, FxcError
from fxc.runtime.object_inputs import Returned, register_inputs

INPUTS, OUTPUTS, NAMES, RETURNS = "fx.inputs", "fx.outputs", "fx.arguments", "fx.returns"
"""The function attributes with the nestings of a captured model: (args, kwargs), and its result; the names of arguments; and
what the results are of a model that changes its inputs."""


class _Leaf:
    pass


def nesting_attr(spec: TreeSpec) -> Attribute:
    """Return the attribute of a nesting."""
    nest = tree_unflatten([_Leaf()] * spec.num_leaves, spec)
    names = [*_names(nest)]
    try:
        template = encode(tree_of(nest, lambda value: SSA), [])
        attr = NestingAttr(template, ArrayAttr([StringAttr(name) for name in names] if any(names) else []))
        if spec_of(attr) == spec:
            return attr
    except FxcError:
        pass  # a key that cannot be written, or a tuple class without field names
    try:
        text = treespec_dumps(spec)
        if treespec_loads(text) != spec:
            raise NotImplementedError("JSON has no such keys")  # a tuple as a key would be a list
        return str_attr(text)
    except (NotImplementedError, TypeError) as error:
        hint = "nest inputs and outputs in lists, tuples, named tuples and dicts"
        raise CaptureError(f"the nesting of inputs or outputs cannot be written: {error}", hint=hint) from error


def has_keywords(spec: TreeSpec) -> bool:
    """Whether ``spec`` is that of (args, kwargs)."""
    children = spec.children()
    return spec.type is tuple and len(children) == 2 and children[0].type is tuple and children[1].type is dict


def _names(nest: Any) -> Iterator[str]:
    """Yield the class names of the tuples in ``nest``; empty for plain tuples."""
    if is_tuple(nest):
        kind = type(nest)
        name = "" if kind is tuple else f"{kind.__module__}.{kind.__qualname__}"
        if name:
            CLASSES[name] = kind
        yield name
    if is_dict(nest) or is_sequence(nest):
        for part in nest.values() if isinstance(nest, dict) else nest:
            yield from _names(part)


def _rebuilt(nest: Any, names: Iterator[str]) -> Any:
    """Rebuild ``nest`` from tuples of these classes, lists and dicts; the structure is equal if it has no other containers.

    LookupError if there are too few names, or a name is not of an imported named tuple class.
    """
    if is_dict(nest):
        return {key: _rebuilt(value, names) for key, value in nest.items()}
    if not is_sequence(nest):
        return nest
    if isinstance(nest, list):
        return [_rebuilt(value, names) for value in nest]
    name = next(names, "")
    parts = tuple([_rebuilt(value, names) for value in nest])
    return _named(name, parts) if name else parts


def _named(name: str, parts: tuple[Any, ...]) -> Any:
    """Make a named tuple of an imported class, without running its code."""
    kind = CLASSES.get(name) or imported(name)
    if _is_tuple_class(kind):
        if len(getattr(kind, "_fields", ())) == len(parts):
            return tuple.__new__(kind, parts)
        if getattr(kind, "n_sequence_fields", None) == len(parts):
            return kind(parts)  # structseqs, PyTorch's results of several tensors; their constructor is in C
    raise LookupError(f"{name} is not a class of {len(parts)} named elements that is imported in this process")


def _is_tuple_class(kind: Any) -> TypeGuard[type[tuple[Any, ...]]]:
    return isinstance(kind, type) and issubclass(kind, tuple)


def spec_of(attr: Attribute) -> TreeSpec:
    """Return the nesting of an attribute. FxcError if it is not one."""
    try:
        if isinstance(attr, NestingAttr):
            tree = decode_constants(attr.template)
            nest = python_of(tree, lambda a: _Leaf() if isinstance(a, SSAAttr) else value_of(a))  # type: ignore[arg-type]
            return tree_structure(_rebuilt(nest, iter([name.data for name in attr.named])))
        if isinstance(attr, StringAttr):
            _check_imports_nothing(json.loads(attr.data)[1])
            register_instances()
            register_inputs()
            spec = treespec_loads(attr.data)
            tree_unflatten([_Leaf()] * spec.num_leaves, spec)  # LookupError for a class that is not imported
            return spec
    except (ValueError, NotImplementedError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise FxcError(f"the program's input or output nesting cannot be read: {error}", hint=_WRITTEN) from error
    raise FxcError(f"not a nesting: {attr}", hint=_WRITTEN)


def returned_attr(returned: Returned) -> Attribute:
    """The attribute of what a program returns that changes its inputs."""
    inputs = DenseArrayBase.from_list(i64, returned.inputs)
    return DictionaryAttr({"nesting": nesting_attr(returned.nesting), "inputs": inputs})


def returned_of(attr: Attribute | None) -> Returned | None:
    """The inverse of ``returned_attr``; None for None. FxcError if it is not such an attribute."""
    if attr is None:
        return None
    facts = attr if isinstance(attr, DictionaryAttr) else DictionaryAttr({})
    inputs, nesting = facts.data.get("inputs"), facts.data.get("nesting")
    if not isinstance(inputs, DenseArrayBase) or nesting is None:
        raise FxcError(f"not a description of results: {attr}", hint="capture the model again")
    return Returned(spec_of(nesting), tuple(map(int, inputs.get_values())))


_WRITTEN = "write it as #fx.nesting<((_, _), {})>"


_FACTORIES = frozenset({"list", "dict", "set", "tuple", "int", "float", "str", "bool"})
"""The allowed factories of a ``defaultdict`` in a nesting."""


def _check_imports_nothing(schema: dict[str, Any]) -> None:
    """Reject names that PyTorch's reader would import: enums, and factories of a defaultdict."""
    context = schema["context"]
    _check_enums(json.loads(context) if isinstance(context, str) and context[:1] in ("[", "{") else context)
    if is_dict(context) and "default_factory_module" in context:
        module, name = context["default_factory_module"], context["default_factory_name"]
        if module != "builtins" or name not in _FACTORIES:
            raise ValueError(f"a defaultdict may not call {module}.{name}")
    for child in schema["children_spec"]:
        _check_imports_nothing(child)


def _check_enums(value: Any) -> None:
    if is_dict(value):
        if "__enum__" in value and str(value.get("fqn")).partition(":")[0] not in sys.modules:
            raise ValueError(f"{value.get('fqn')} is not imported in this process")
        value = list(value.values())
    for inner in value if is_sequence(value) else ():
        _check_enums(inner)
