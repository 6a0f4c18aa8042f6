"""The base of every ``torch`` op: a call of an operator overload, its arguments in properties by schema name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TupleType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.core import OpTraits
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.call import Arguments, CallOp
from fxc.dialects.effects import CallEffects
from fxc.dialects.torch_ops.schema import Schema
from fxc.dialects.types import NoneValueType
from fxc.dialects.values import SSA, SSAAttr, Tree, count_ssa, decode, str_attr

KEYWORDS = "keywords"
"""The property that lists the arguments passed by keyword, where that differs from the schema's own division."""


class TorchOp(CallOp):
    """``torch.aten.add.Tensor(%0, %1, alpha = 2)``.

    A property per argument that is a constant or holds one; arguments that are a plain SSA value need none where their
    order says which argument they are: the first schema arguments without a property, in order.

    Results are the operator's returns. ``packed`` form has them as FX has them, in one value of type ``tuple``; the unpacked
    form has one result a return, or one a tensor where the operator returns a list (``split``).
    """

    SCHEMA: ClassVar[Schema]
    FLAGS: ClassVar[str] = ""
    traits: ClassVar[OpTraits] = OpTraits(lambda: (CallEffects(),))

    @property
    def operator(self) -> str:
        """``aten.add.Tensor``."""
        return self.name.removeprefix("torch.")

    @property
    def is_packed(self) -> bool:
        """Whether several returns, or a list, stand in one value as in FX."""
        return len(self.results) == 1 and isinstance(self.results[0].type, (TupleType, NoneValueType))

    def argument(self, name: str) -> Tree | None:
        """What the call passed for ``name``: an SSA value, an attribute, or a tree of them; None where it left it out."""
        return self.bound().get(name)

    def bound(self) -> dict[str, Tree]:
        """Argument name -> tree of SSA values and attributes, for what the call passed, in schema order."""
        operands = iter(self.operands)
        return {name: decode(template, operands) for name, template in self._templates().items()}

    def rebuilt(self, bound: Mapping[str, Tree], result_types: Sequence[Attribute] | None = None) -> Self:
        """A detached copy of this op that passes ``bound`` (keywords as the schema divides them)."""
        args, kwargs = self.divide(bound)
        op = self.build_call(
            args, kwargs, result_types or self.result_types, attributes=self.attributes, location=self.location
        )
        for old, new in zip(self.results, op.results, strict=False):
            new._name = old._name
        return op

    @classmethod
    def divide(cls, bound: Mapping[str, Tree]) -> tuple[list[Tree], dict[str, Tree]]:
        """Splits named arguments into positional and keyword ones: positional up to the first that is left out."""
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
        """Argument name -> template, for what the call passed, in the order in which operands lie."""
        properties = self.properties
        implicit = len(self.operands) - sum(count_ssa(t) for name, t in properties.items() if name != KEYWORDS)
        templates = dict[str, Attribute]()
        for argument in self.SCHEMA.arguments:
            template = properties.get(argument.name)
            if template is not None:
                templates[argument.name] = template
            elif implicit > 0:
                templates[argument.name] = SSA
                implicit -= 1
        if implicit:
            raise VerifyException(f"{self.name} has {abs(implicit)} operands too {'many' if implicit > 0 else 'few'}")
        return templates

    def call_arguments(self) -> Arguments:
        templates = self._templates()
        by_keyword = self.properties.get(KEYWORDS)
        keywords: Sequence[str]
        if by_keyword is None:
            keywords = [name for name in templates if self.SCHEMA.by_name[name].keyword_only]
        elif isinstance(by_keyword, ArrayAttr) and all(isinstance(k, StringAttr) for k in by_keyword.data):
            keywords = [k.data for k in by_keyword.data]  # type: ignore[attr-defined]
        else:
            raise VerifyException(f"{self.name}: 'keywords' must be an array of strings")
        if any(name not in templates for name in keywords):
            raise VerifyException(f"{self.name}: 'keywords' names an argument that is not passed")
        given = set(keywords)
        arguments: Arguments = [(None, template) for name, template in templates.items() if name not in given]
        arguments += [(name, templates[name]) for name in keywords]
        positional = tuple(name for name in templates if name not in given)
        if positional != self.SCHEMA.positional[: len(positional)]:
            raise VerifyException(f"{self.name}: a positional argument is missing before {positional[-1]!r}")
        if list(templates) != [*positional, *keywords]:
            return self._in_operand_order(arguments, templates)
        return arguments

    def _in_operand_order(self, arguments: Arguments, templates: dict[str, Attribute]) -> Arguments:
        """Keywords given out of schema order take operands in schema order: only constants may be out of order."""
        names = [*self.SCHEMA.positional[: sum(k is None for k, _ in arguments)], *(k for k, _ in arguments if k)]
        ssa = [name for name in names if count_ssa(templates[name])]
        if ssa != [name for name in templates if count_ssa(templates[name])]:
            raise VerifyException(f"{self.name}: keywords that hold values must follow the schema's order")
        return arguments

    @classmethod
    def from_arguments(
        cls,
        arguments: Arguments,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        *,
        target: str | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        location: Any = None,
    ) -> Self:
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
        names = [a.name for a in schema.arguments if a.name in given]
        if list(given) != names:
            operands = _reordered(given, names, operands)
        properties = _explicit(schema, given, names)
        if keywords != [name for name in names if schema.by_name[name].keyword_only]:
            properties[KEYWORDS] = ArrayAttr([str_attr(name) for name in keywords])
        return cls.create(
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=attributes or {},
            regions=regions,
            location=location,
        )

    def verify_(self) -> None:
        for name in self.properties:
            if name not in self.SCHEMA.by_name and name != KEYWORDS:
                raise VerifyException(f"{self.name} has no argument {name!r}; it takes {', '.join(self.SCHEMA.by_name)}")
        passed = self._templates()
        for argument in self.SCHEMA.arguments:
            if argument.default is None and argument.name not in passed:
                raise VerifyException(f"{self.name} needs the argument {argument.name!r} ({argument.type})")
        self._verify_results()
        super().verify_()

    def _verify_results(self) -> None:
        returns, count = self.SCHEMA.returns, len(self.results)
        if self.is_packed or (len(returns) == 1 and "[]" in returns[0].type) or count == len(returns):
            return
        raise VerifyException(f"{self.name} returns {len(returns)} values, but has {count} results")


def _explicit(schema: Schema, given: Mapping[str, Attribute], names: Sequence[str]) -> dict[str, Attribute]:
    """The properties that arguments need: all but the plain SSA values whose order already names them."""
    plain = [name for name in names if type(given[name]) is SSAAttr]
    unnamed = [a.name for a in schema.arguments if a.name not in given or type(given[a.name]) is SSAAttr]
    implicit = set[str]()
    for value, slot in zip(plain, unnamed, strict=False):
        if value != slot:
            break
        implicit.add(value)
    return {name: given[name] for name in names if name not in implicit}


def _reordered(given: Mapping[str, Attribute], names: Sequence[str], operands: Sequence[SSAValue]) -> list[SSAValue]:
    """Operands in schema order, where keywords were given in another."""
    values, by_name = iter(operands), dict[str, list[SSAValue]]()
    for name, template in given.items():
        by_name[name] = [next(values) for _ in range(count_ssa(template))]
    return [value for name in names for value in by_name[name]]
