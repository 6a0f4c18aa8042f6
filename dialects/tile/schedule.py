"""Schedules: how loops over elements become a kernel, as attributes that can be read, changed and applied again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import int_attr, str_attr

KINDS = ("elementwise", "inner", "outer")
FORMS = ("looped", "held", "stored", "online")
PROGRAMS = ("own", "last")


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """``#tile.schedule<"inner", stages = [0, 1, 2], lanes = 16, unroll = 4, block = 8, form = "online">``: one kernel.

    ``stages``  indices of the linalg.generic ops of the group that the kernel computes
    ``kind``    "elementwise": no reduction. "inner": lanes run along a reduced loop; a program computes whole rows. "outer":
                lanes run along a loop that is not reduced; a program runs the whole reduction for each lane
    ``lanes``   number of elements of a vector
    ``unroll``  number of independent vectors: accumulators of an inner reduction, adjacent columns of an outer one, copies of
                an elementwise body
    ``block``   number of elements that a program computes; of rows in "inner" kernels

    Fields that are omitted where they have the default:

    ``tile``    number of lanes along a second loop. Elementwise kernels: the contiguous loop of operands that the first one
                strides through (these are loaded along it and transposed), else the next outer loop. "outer": the reduced loop
                of the only pass; after it, these lanes are combined
    ``parts``   number of partial reductions. Each is a separate program, and the last program combines them
    ``form``    how an inner kernel makes several passes over a row. "looped": load it from memory each time. "held": a vector
                holds the whole row, which is loaded once. "stored": values of an element that several passes use are computed
                once and stored in the memory of a result until that is written. "online": a reduction and the one that it
                centres (the sum of exponentials over the maximum, the variance over the mean) in one pass, in pieces of
                ``piece`` elements; 1: each lane has totals of its elements, which are combined after the row
    ``program`` "own": the kernel has separate programs. "last": no kernel is made; the last program of the previous kernel
                computes it after all stores, for small amounts of work
    """

    name = "tile.schedule"
    kind: StringAttr
    stages: ArrayAttr[IntegerAttr]
    lanes: IntegerAttr
    unroll: IntegerAttr
    block: IntegerAttr
    tile: IntegerAttr
    parts: IntegerAttr
    piece: IntegerAttr
    form: StringAttr
    program: StringAttr
    NUMBERS: ClassVar = ("lanes", "unroll", "block")
    DEFAULTS: ClassVar[Mapping[str, int | str]] = MappingProxyType(
        {"tile": 1, "parts": 1, "piece": 4096, "form": "looped", "program": "own"}
    )

    @classmethod
    def of(
        cls,
        kind: str,
        stages: Sequence[int],
        lanes: int,
        unroll: int,
        block: int,
        *,
        tile: int = 1,
        parts: int = 1,
        piece: int = 4096,
        form: str = "looped",
        program: str = "own",
    ) -> ScheduleAttr:
        numbers = [int_attr(number) for number in (lanes, unroll, block, tile, parts, piece)]
        texts = [str_attr(form), str_attr(program)]
        return cls(str_attr(kind), ArrayAttr(map(int_attr, stages)), *numbers, *texts)  # type: ignore[call-arg]

    @property
    def is_last(self) -> bool:
        """Whether the last program of the previous kernel computes it."""
        return self.program.data == "last"

    def numbers(self) -> list[int]:
        """The stages."""
        return [stage.value.data for stage in self.stages]

    def fields(self) -> dict[str, int | str]:
        """All fields except kind and stages, by name."""
        found = {name: getattr(self, name) for name in (*self.NUMBERS, *self.DEFAULTS)}
        return {name: value.data if isinstance(value, StringAttr) else value.value.data for name, value in found.items()}

    def verify(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f'#tile.schedule: the kind is one of {", ".join(KINDS)}, not "{self.kind.data}"')
        if self.form.data not in FORMS:
            raise VerifyException(f'#tile.schedule: the form is one of {", ".join(FORMS)}, not "{self.form.data}"')
        if self.program.data not in PROGRAMS:
            raise VerifyException(f'#tile.schedule: the program is one of {", ".join(PROGRAMS)}, not "{self.program.data}"')
        for name, value in self.fields().items():
            if isinstance(value, int) and value < 1:
                raise VerifyException(f"#tile.schedule: {name} must be positive, not {value}")
        if not self.stages.data or self.numbers() != sorted(set(self.numbers())):
            raise VerifyException("#tile.schedule: stages are ascending numbers, one at least")
        self._verify_kind()

    def _verify_kind(self) -> None:
        """VerifyException for fields that do not apply to the kind."""
        takes = {"elementwise": ("tile",), "inner": ("parts", "form", "piece"), "outer": ("parts", "tile")}[self.kind.data]
        takes = (*takes, "program")
        fields = self.fields()
        if unused := [name for name, default in self.DEFAULTS.items() if fields[name] != default and name not in takes]:
            raise VerifyException(f'#tile.schedule: {unused[0]} is not for kernels that are "{self.kind.data}"')
        if self.parts.value.data > 1 and self.form.data != "looped":
            raise VerifyException(f'#tile.schedule: a row in parts cannot be "{self.form.data}"')
        if self.parts.value.data > 1 and self.is_last:
            raise VerifyException("#tile.schedule: one program has no parts")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = str_attr(parser.parse_str_literal())
            parser.parse_punctuation(",")
            parser.parse_keyword("stages")
            parser.parse_punctuation("=")
            stages = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            numbers = list[Attribute]()
            for name in cls.NUMBERS:
                parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                numbers.append(int_attr(parser.parse_integer()))
            more = dict(cls.DEFAULTS)
            while parser.parse_optional_punctuation(",") is not None:
                name = parser.parse_identifier()
                if name not in more:
                    parser.raise_error(f"expected one of {', '.join(more)}, but got {name}")
                parser.parse_punctuation("=")
                more[name] = parser.parse_str_literal() if isinstance(more[name], str) else parser.parse_integer()
        rest = [str_attr(value) if isinstance(value, str) else int_attr(value) for value in more.values()]
        return [kind, ArrayAttr(map(int_attr, stages)), *numbers, *rest]

    def print_parameters(self, printer: Printer) -> None:
        stages = ", ".join(map(str, self.numbers()))
        shown = {name: value for name, value in self.fields().items() if value != self.DEFAULTS.get(name)}
        texts = [f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in shown.items()]
        printer.print_string(f'<"{self.kind.data}", stages = [{stages}], {", ".join(texts)}>')
