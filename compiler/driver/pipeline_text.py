"""Pipeline text in the syntax of mlir-opt, to and from specs. Parses the syntax only; no pass is looked up here.

pipeline ::= element ("," element)*
element  ::= pass-name options? | op-name "(" pipeline? ")"
options  ::= "{" (key ("=" value ("," value)*)?)* "}"        separated by spaces
value    ::= number | word | quoted string with \\" \\\\ \\n \\t
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fxc.errors import PipelineError

ROOT = "builtin.module"

_NAME = re.compile(r"[A-Za-z_0-9][\w.-]*")
_WORD = re.compile(r"[^\s,{}()=\"]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"n": "\n", "t": "\t"}


@dataclass(frozen=True)
class Word:
    """A word of an option value; ``quoted`` distinguishes the string "true" from the boolean."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        if not self.quoted and _WORD.fullmatch(self.text):
            return self.text
        escaped = self.text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'


@dataclass(frozen=True)
class PassSpec:
    """A pass and its options: key -> values; a bare key has no values."""

    name: str
    options: tuple[tuple[str, tuple[Word, ...]], ...] = ()

    @classmethod
    def of(cls, name: str, **options: str | int | float | bool) -> PassSpec:
        """For pipelines written in Python: ``PassSpec.of("dce", max_rounds=2)``."""
        words = ((key.replace("_", "-"), (scalar_word(value),)) for key, value in options.items())
        return cls(name, tuple(words))

    def __str__(self) -> str:
        options = " ".join(key + ("=" if values else "") + ",".join(map(str, values)) for key, values in self.options)
        return self.name + (f"{{{options}}}" if options else "")


@dataclass(frozen=True)
class AnchorSpec:
    """Passes that run on each ``op_name`` op, one op at a time."""

    op_name: str
    items: tuple[PassSpec | AnchorSpec, ...]

    def __str__(self) -> str:
        return f"{self.op_name}({','.join(map(str, self.items))})"


Spec = PassSpec | AnchorSpec


def scalar_word(value: str | int | float | bool) -> Word:
    """The word for ``value``. A string that would parse as another type is quoted."""
    if isinstance(value, str):
        return Word(value, quoted=not re.fullmatch(r"[A-Za-z][\w./-]*", value) or value in ("true", "false", "none"))
    return Word(str(value).lower() if isinstance(value, bool) else repr(value))


def to_text(specs: Sequence[Spec]) -> str:
    """The canonical text: ``builtin.module(...)``, with spaces between options only."""
    return str(AnchorSpec(ROOT, tuple(specs)))


def parse(text: str) -> tuple[Spec, ...]:
    """The elements of ``text``. An outermost ``builtin.module(...)`` stands for the module itself and is dropped."""
    specs = _Parser(text).whole()
    if len(specs) == 1 and isinstance(specs[0], AnchorSpec) and specs[0].op_name == ROOT:
        return specs[0].items
    return specs


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def whole(self) -> tuple[Spec, ...]:
        self.spaces()
        if self.position == len(self.text):
            return ()
        specs = self.elements()
        if self.position < len(self.text):
            raise self.error("',' or the end")
        return specs

    def elements(self) -> tuple[Spec, ...]:
        elements = [self.element()]
        while self.take(","):
            elements.append(self.element())
        return tuple(elements)

    def element(self) -> Spec:
        name = self.match(_NAME, "the name of a pass or of an op").group()
        if self.take("("):
            if self.take(")"):
                return AnchorSpec(name, ())
            items = self.elements()
            self.expect(")", "',' or ')'")
            return AnchorSpec(name, items)
        return PassSpec(name, self.options() if self.take("{") else ())

    def options(self) -> tuple[tuple[str, tuple[Word, ...]], ...]:
        options: dict[str, tuple[Word, ...]] = {}
        while not self.take("}"):
            key = self.match(_NAME, "an option or '}'").group()
            if key in options:
                raise PipelineError(f"malformed pipeline: option {key} is given twice in {self.text!r}", hint="give it once")
            options[key] = self.values() if self.take("=") else ()
        return tuple(options.items())

    def values(self) -> tuple[Word, ...]:
        values = [self.value()]
        while self.take(","):
            values.append(self.value())
        return tuple(values)

    def value(self) -> Word:
        if self.text.startswith('"', self.position):
            body = self.match(_QUOTED, "a closing quote").group(1)
            return Word(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), body), quoted=True)
        return Word(self.match(_WORD, "a value").group())

    def match(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise self.error(expected)
        self.position = found.end()
        self.spaces()
        return found

    def take(self, character: str) -> bool:
        if not self.text.startswith(character, self.position):
            return False
        self.position += 1
        self.spaces()
        return True

    def expect(self, character: str, expected: str) -> None:
        if not self.take(character):
            raise self.error(expected)

    def spaces(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def error(self, expected: str) -> PipelineError:
        found = repr(self.text[self.position]) if self.position < len(self.text) else "the end"
        return PipelineError(
            f"malformed pipeline: expected {expected} at column {self.position + 1}, found {found}, in {self.text!r}",
            hint="write passes as a,b{option=1},func.func(c)",
        )
