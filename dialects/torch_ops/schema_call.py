"""A call of an operator overload, whose arguments are properties by schema name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, TupleType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import NoneValueType, ValueType
from fxc.dialects.attributes.values import (
    SSA,
    ComplexAttr,
    DeviceAttr,
    DictAttr,
    DTypeAttr,
    EllipsisAttr,
    LayoutAttr,
    MemoryFormatAttr,
    NoneValueAttr,
    RangeAttr,
    SliceAttr,
    SSAAttr,
    Tree,
    TupleAttr,
    count_ssa,
    decode,
    isa,
    str_attr,
)
from fxc.dialects.base.op_rules import local
from fxc.dialects.text.call import CallOp
from fxc.dialects.text.call_text import Arguments
from fxc.dialects.text.lexer import Layout
from fxc.dialects.torch_ops.schema import Schema

_REAL = (IntegerAttr, FloatAttr)
_NUMBERS = (*_REAL, ComplexAttr)
_NAMED_INTEGERS = (DTypeAttr, LayoutAttr, MemoryFormatAttr)
_CONSTANTS: frozenset[type[Attribute]] = frozenset([
    *_NUMBERS, *_NAMED_INTEGERS, StringAttr, NoneValueAttr, ArrayAttr, TupleAttr, DictAttr, RangeAttr, SliceAttr, DeviceAttr,
    EllipsisAttr,
])  # fmt: skip
_FITTING: dict[str, tuple[type[Attribute], ...]] = {
    "Tensor": (*_NUMBERS, NoneValueAttr),  # none: an undefined tensor
    "Scalar": _NUMBERS,
    "complex": _NUMBERS,
    "float": _REAL,
    "int": (IntegerAttr, *_NAMED_INTEGERS),
    "SymInt": (IntegerAttr,),
    "bool": (IntegerAttr,),
    "str": (StringAttr,),
    "ScalarType": (DTypeAttr, IntegerAttr),
    "Layout": (LayoutAttr, IntegerAttr),
    "MemoryFormat": (MemoryFormatAttr, IntegerAttr),
    "Device": (DeviceAttr, StringAttr),
}


def fits(value: Attribute, expected: str) -> bool:
    """Whether ``value``, a template of an argument, may be passed for ``expected``, a type of a schema."""
    kind = type(value)
    if kind not in _CONSTANTS:
        return True
    if expected.endswith("?"):
        return kind is NoneValueAttr or fits(value, expected[:-1])
    if expected.endswith("]"):
        element, _, length = expected[:-1].rpartition("[")
        if isa(value, ArrayAttr) or isinstance(value, TupleAttr):
            return all(fits(each, element) for each in (value.elements if isinstance(value, TupleAttr) else value).data)
        return kind is RangeAttr or (length != "" and fits(value, element))
    return expected not in _FITTING or kind in _FITTING[expected]


KEYWORDS = "keywords"
"""The property that lists the arguments passed by keyword, if they differ from the keyword-only arguments of the schema."""


class SchemaCall(CallOp):
    """``torch.aten.add.Tensor(%0, %1, alpha = 2)``.

    An argument that is or contains a constant is a property. An argument that is a plain SSA value needs no property if its
    position identifies it: plain operands belong to the first schema arguments without a property, in order.

    Results are the returns of the operator. The ``packed`` form has them as FX has, in one value of type ``tuple``; the
    unpacked form has one result for each return, or for each tensor where the operator returns a list (``split``).
    """

    SCHEMA: ClassVar[Schema]
    FLAGS: ClassVar[str] = ""

    @property
    def operator(self) -> str:
        """``aten.add.Tensor``."""
        return self.name.removeprefix("torch.")

    @property
    def is_packed(self) -> bool:
        """Whether several returns, or a list, are packed in one value as in FX."""
        return len(self.results) == 1 and isinstance(self.results[0].type, (TupleType, NoneValueType, ValueType))

    def argument(self, name: str) -> Tree | None:
        """The value passed for ``name``: an SSA value, an attribute, or a tree of them; None where it is omitted."""
        return self.bound().get(name)

    def bound(self) -> dict[str, Tree]:
        """Argument name -> tree of SSA values and attributes, for the passed arguments, in schema order."""
        operands = iter(self.operands)
        return {name: decode(template, operands) for name, template in self._templates().items()}

    def rebuilt(self, bound: Mapping[str, Tree], result_types: Sequence[Attribute] | None = None) -> Self:
        """A detached copy of this op with the arguments ``bound``; keywords are the keyword-only arguments of the schema."""
        args, kwargs = self.divide(bound)
        op = self.build_call(
            args, kwargs, result_types or self.result_types, attributes=self.attributes, location=self.location
        )
        for old, new in zip(self.results, op.results, strict=False):
            new._name = old._name
        return op

    @classmethod
    def divide(cls, bound: Mapping[str, Tree]) -> tuple[list[Tree], dict[str, Tree]]:
        """Split named arguments into positional and keyword ones: positional up to the first omitted argument."""
        args, kwargs, gap = list[Tree](), dict[str, Tree](), False
        for argument in cls.SCHEMA.arguments:
            if argument.name not in bound:
                gap = True
            elif gap or argument.keyword_only:
                kwargs[argument.name] = bound[argument.name]
            else:
                args.append(bound[argument.name])
        if unknown := [name for name in bound if name not in cls.SCHEMA.by_name]:
            raise VerifyException(f"{cls.name} has no argument {unknown[0]!r}")
        return args, kwargs

    def _templates(self) -> dict[str, Attribute]:
        """Argument name -> template, for the passed arguments, in operand order."""
        properties = self.properties
        implicit = len(self._operands)
        for name, template in properties.items():
            if name != KEYWORDS:
                implicit -= count_ssa(template)
        templates = dict[str, Attribute]()
        for name in self.SCHEMA.by_name:
            template = properties.get(name)
            if template is not None:
                templates[name] = template
            elif implicit > 0:
                templates[name] = SSA
                implicit -= 1
        if implicit:
            raise VerifyException(f"{self.name} has {abs(implicit)} operands too {'many' if implicit > 0 else 'few'}")
        return templates

    def call_arguments(self) -> Arguments:
        return self._arguments(self._templates())

    def _arguments(self, templates: dict[str, Attribute]) -> Arguments:
        keywords = self._keywords(templates)
        arguments: Arguments = [(None, template) for name, template in templates.items() if name not in keywords]
        expected = self.SCHEMA.positional
        for index, name in enumerate([name for name in templates if name not in keywords]):
            if index >= len(expected) or name != expected[index]:
                raise VerifyException(f"{self.name}: a positional argument is missing before {name!r}")
        arguments += [(name, templates[name]) for name in keywords]
        return arguments

    def _keywords(self, templates: dict[str, Attribute]) -> Sequence[str]:
        """The names of arguments passed by keyword, in order."""
        listed = self.properties.get(KEYWORDS)
        if listed is None:
            keyword_only = self.SCHEMA.keyword_only
            return [name for name in templates if name in keyword_only] if keyword_only else ()
        if not isa(listed, ArrayAttr) or not all(isinstance(name, StringAttr) for name in listed.data):
            raise VerifyException(f"{self.name}: 'keywords' must be an array of strings")
        keywords = [name.data for name in listed.data if isinstance(name, StringAttr)]
        if any(name not in templates for name in keywords):
            raise VerifyException(f"{self.name}: 'keywords' names an argument that is not passed")
        if len(set(keywords)) != len(keywords):
            raise VerifyException(f"{self.name}: 'keywords' names an argument twice")
        return keywords

    def call_operands(self) -> Sequence[SSAValue]:
        if KEYWORDS not in self.properties:
            return self._operands
        operands, templates = iter(self._operands), self._templates()
        by_name = {name: [next(operands) for _ in range(count_ssa(t))] for name, t in templates.items()}
        keywords = self._keywords(templates)
        names = [*(name for name in templates if name not in keywords), *keywords]
        return [value for name in names for value in by_name[name]]

    @classmethod
    def layout(cls, arguments: Arguments, target: str | None) -> Layout:
        schema, given, keywords = cls.SCHEMA, dict[str, Attribute](), list[str]()
        for position, (keyword, template) in enumerate(arguments):
            if keyword is None:
                if position >= len(schema.positional):
                    raise VerifyException(f"{cls.name} takes {len(schema.positional)} positional arguments")
                keyword = schema.positional[position]
                if keywords:
                    raise VerifyException("a positional argument follows a keyword")
            elif keyword not in schema.by_name:
                raise VerifyException(f"{cls.name} has no argument {keyword!r}; it takes {', '.join(schema.by_name)}")
            else:
                keywords.append(keyword)
            if keyword in given:
                raise VerifyException(f"{cls.name}: argument {keyword!r} is given twice")
            given[keyword] = template
        names = [name for name in schema.by_name if name in given]
        plain = [name for name in names if type(given[name]) is SSAAttr]
        unnamed = [name for name in schema.by_name if name not in given or type(given[name]) is SSAAttr]
        implicit = set[str]()
        for value, slot in zip(plain, unnamed, strict=False):
            if value != slot:
                break
            implicit.add(value)
        properties = {name: given[name] for name in names if name not in implicit}
        if keywords != [name for name in names if name in schema.keyword_only]:
            properties[KEYWORDS] = ArrayAttr([str_attr(name) for name in keywords])
        return properties, None if list(given) == names else _order(given, names)

    @local
    def verify_(self) -> None:
        by_name = self.SCHEMA.by_name
        for name, value in self.properties.items():
            if name == KEYWORDS:
                continue
            if name not in by_name:
                raise VerifyException(f"{self.name} has no argument {name!r}; it takes {', '.join(by_name)}")
            if not fits(value, by_name[name].type):
                raise VerifyException(f"{self.name}: argument {name!r} must be of type {by_name[name].type}")
        templates = self._templates()
        for name in self.SCHEMA.required:
            if name not in templates:
                raise VerifyException(f"{self.name} needs the argument {name!r} ({by_name[name].type})")
        self._verify_results()
        self.verify_call(self._arguments(templates))

    def _verify_results(self) -> None:
        returns, count = self.SCHEMA.returns, len(self.results)
        if self.is_packed or (len(returns) == 1 and "[]" in returns[0].type) or count == len(returns):
            return
        raise VerifyException(f"{self.name} returns {len(returns)} values, but has {count} results")


def _order(given: Mapping[str, Attribute], names: Sequence[str]) -> list[int]:
    """For each operand in schema order, its position in the text, where keywords are in another order."""
    places, next_place = dict[str, range](), 0
    for name, template in given.items():
        places[name] = range(next_place, next_place := next_place + count_ssa(template))
    return [place for name in names for place in places[name]]
