"""How a model's inputs and outputs are nested, as an attribute, and back.

``fx.inputs = #fx.nesting<((_,), {})>`` is one positional argument and no keyword. A nesting with containers of the user's own
is kept as PyTorch's JSON text.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from torch.utils._pytree import TreeSpec, tree_structure, tree_unflatten, treespec_dumps, treespec_loads
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from fxc.dialects.nesting import NestingAttr
from fxc.dialects.values import SSA, SSAAttr, decode_constants, encode, str_attr
from fxc.errors import CaptureError, FxcError
from fxc.semantics.values import python_of, tree_of, value_of

INPUTS, OUTPUTS = "fx.inputs", "fx.outputs"
"""The function attributes that hold the nestings of a captured model: (args, kwargs), and what it returned."""


class _Leaf:
    pass


def nesting_attr(spec: TreeSpec) -> Attribute:
    """The attribute of a nesting."""
    leaf = _Leaf()
    nest = tree_unflatten([leaf] * spec.num_leaves, spec)
    try:
        if tree_structure(_plain(nest)) == spec:
            return NestingAttr(encode(tree_of(nest, lambda value: SSA), []))
    except CaptureError:
        pass  # a key that cannot be written
    return str_attr(treespec_dumps(spec))


def _plain(nest: Any) -> Any:
    """``nest`` rebuilt from tuples, lists and dicts alone: equal in structure where it had no others."""
    if isinstance(nest, dict):
        return {key: _plain(value) for key, value in nest.items()}
    return type(nest)(map(_plain, nest)) if type(nest) in (list, tuple) else nest


def spec_of(attr: Attribute) -> TreeSpec:
    """The nesting of an attribute. FxcError where it is not one."""
    if isinstance(attr, NestingAttr):
        tree = decode_constants(attr.template)
        return tree_structure(python_of(tree, lambda a: _Leaf() if isinstance(a, SSAAttr) else value_of(a)))  # type: ignore[arg-type]
    if not isinstance(attr, StringAttr):
        raise FxcError(f"not a nesting: {attr}", hint="write it as #fx.nesting<((_, _), {})>")
    try:
        _check_imports_nothing(json.loads(attr.data)[1])
        return treespec_loads(attr.data)
    except (ValueError, NotImplementedError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise FxcError(f"the program's input or output nesting cannot be read: {error}") from error


_FACTORIES = frozenset({"list", "dict", "set", "tuple", "int", "float", "str", "bool"})
"""What a ``defaultdict`` in a nesting may make its values with."""


def _check_imports_nothing(schema: dict[str, Any]) -> None:
    """PyTorch's reader imports the modules that a nesting names: of enums, and of what a defaultdict calls."""
    context = schema["context"]
    _check_enums(json.loads(context) if isinstance(context, str) and context[:1] in ("[", "{") else context)
    if isinstance(context, dict) and "default_factory_module" in context:
        module, name = context["default_factory_module"], context["default_factory_name"]
        if module != "builtins" or name not in _FACTORIES:
            raise ValueError(f"a defaultdict may not call {module}.{name}")
    for child in schema["children_spec"]:
        _check_imports_nothing(child)


def _check_enums(value: Any) -> None:
    if isinstance(value, dict):
        if "__enum__" in value and str(value.get("fqn")).partition(":")[0] not in sys.modules:
            raise ValueError(f"{value.get('fqn')} is not imported here")
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        _check_enums(inner)
