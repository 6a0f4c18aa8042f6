"""Passes from names and options, and back. The options of a pass are the fields of its dataclass.

The range of a number is the metadata of its field: ``field(default=8, metadata={"minimum": 1, "maximum": 64})``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from math import inf
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass

from fxc.driver.pipeline_text import PassSpec, Word, scalar_word
from fxc.errors import PipelineError, nearest

_Convert = Callable[[tuple[Word, ...]], Any]
_Limits = Mapping[str, float]
_NO_LIMITS: _Limits = MappingProxyType({})


def make_pass(cls: type[ModulePass], spec: PassSpec) -> ModulePass:
    """An instance of ``cls`` with the options of ``spec``. Raises ``PipelineError`` for an option that does not fit."""
    fields = dict(zip(option_names(cls), _options(cls), strict=True))
    hints = get_type_hints(cls) if spec.options else {}
    arguments: dict[str, Any] = {}
    for written, words in spec.options:
        key = written.replace("_", "-")
        if key not in fields:
            accepted = ", ".join(option_help(cls)) or "none"
            hint = nearest(key, fields) or f"fxc passes {cls.name} explains its options"
            raise PipelineError(f"pass {cls.name} has no option {written}; it accepts: {accepted}", hint=hint)
        name = fields[key].name
        arguments[name] = _convert(hints[name], words, f"option {key} of pass {cls.name}", fields[key].metadata)
    missing = [key for key, field in fields.items() if _is_required(field) and field.name not in arguments]
    if missing:
        raise PipelineError(f"pass {cls.name} needs option {', '.join(missing)}", hint=f"write {cls.name}{{{missing[0]}=...}}")
    try:
        return cls(**arguments)
    except (ValueError, TypeError) as error:
        hint = f"fxc passes {cls.name} explains its options"
        raise PipelineError(f"pass {cls.name} does not accept {spec}: {error}", hint=hint) from error


def spec_of(instance: ModulePass) -> PassSpec:
    """The spec that recreates ``instance``: its options that differ from the defaults."""
    options = list[tuple[str, tuple[Word, ...]]]()
    for field in _options(type(instance)):
        value = getattr(instance, field.name)
        if _is_required(field) or value != _default(field):
            options.append((field.name.replace("_", "-"), _words(value)))
    return PassSpec(instance.name, tuple(options))


def option_names(cls: type[ModulePass]) -> list[str]:
    """The names of the options, as pipelines have them, in the order of the fields."""
    return [field.name.replace("_", "-") for field in _options(cls)]


def option_help(cls: type[ModulePass]) -> list[str]:
    """``key: type = default`` for each option."""
    hints = get_type_hints(cls)
    lines = list[str]()
    for field in _options(cls):
        default = "" if _is_required(field) else " = " + (",".join(map(str, _words(_default(field)))) or '""')
        lines.append(f"{field.name.replace('_', '-')}: {_type_text(hints[field.name], field.metadata)}{default}")
    return lines


def _options(cls: type[ModulePass]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(cls) if field.init and field.name != "name"]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _words(value: tuple[Any, ...] | list[Any] | Enum | str | float | None) -> tuple[Word, ...]:
    if value is None:
        return (Word("none"),)
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(scalar_word(item.value if isinstance(item, Enum) else item) for item in values)


def _convert(hint: Any, words: tuple[Word, ...], what: str, limits: _Limits = _NO_LIMITS) -> Any:
    for accepts in _converters(hint):
        try:
            value = accepts(words)
        except ValueError:
            continue
        if not isinstance(value, (int, float)) or limits.get("minimum", -inf) <= value <= limits.get("maximum", inf):
            return value
    given = ",".join(map(str, words)) or "nothing"
    message = f"{what} is {_type_text(hint, limits)}, got {given}"
    raise PipelineError(message, hint="fxc passes NAME explains the options of a pass")


def _converters(hint: Any) -> list[_Convert]:
    """Converters from words to ``hint``, the strictest first. Each raises ValueError where the words do not fit."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        order = [NoneType, bool, int, float]
        members = sorted(arguments, key=lambda member: order.index(member) if member in order else len(order))
        return [converter for member in members for converter in _converters(member)]
    if origin is tuple:
        element = arguments[0]
        return [lambda words: tuple(_scalar(element, word) for word in words)]
    if hint is bool:
        return [lambda words: _scalar(bool, _only(words)) if words else True]
    return [lambda words: _scalar(hint, _only(words) if words or hint is not NoneType else Word("none"))]


def _only(words: tuple[Word, ...]) -> Word:
    if len(words) != 1:
        raise ValueError
    return words[0]


def _scalar(hint: Any, word: Word) -> Any:
    if get_origin(hint) in (Union, UnionType):
        return _convert(hint, (word,), "value")
    if get_origin(hint) is Literal:
        return _member({str(value): value for value in get_args(hint)}, word)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _member({str(member.value): member for member in hint}, word)
    if hint is str:
        return word.text
    if word.quoted:
        raise ValueError
    if hint is NoneType:
        return _member({"none": None}, word)
    if hint is bool:
        return _member({"true": True, "false": False}, word)
    if hint in (int, float):
        return hint(word.text)
    raise ValueError


def _member(members: dict[str, Any], word: Word) -> Any:
    if word.text not in members:
        raise ValueError
    return members[word.text]


def _type_text(hint: Any, limits: _Limits = _NO_LIMITS) -> str:
    if limits:
        low, high = limits.get("minimum"), limits.get("maximum")
        span = f"at least {low}" if high is None else f"at most {high}" if low is None else f"{low} to {high}"
        return f"{_type_text(hint)} ({span})"
    origin, arguments = get_origin(hint), get_args(hint)
    name: str = getattr(hint, "__name__", str(hint))
    if origin in (Union, UnionType):
        return " or ".join("none" if member is NoneType else _type_text(member) for member in arguments)
    if origin is tuple:
        return f"list of {_type_text(arguments[0])}"
    if origin is Literal:
        return "one of " + "|".join(map(str, arguments))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "one of " + "|".join(str(member.value) for member in hint)
    return name
