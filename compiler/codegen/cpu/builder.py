"""Build the text of LLVM functions: one line per instruction, numbered SSA names, declarations collected per module."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from fxc.codegen.cpu.types import I1, I32, I64, PTR, Type, Value
from fxc.runtime.host_cpu import CpuFeatures


class ModuleText:
    """The shared state of the functions of one LLVM module: declarations, helper functions, and the CPU features."""

    def __init__(self, features: CpuFeatures) -> None:
        self.features = features
        self.declarations = dict[str, str]()
        self.helpers = dict[str, str]()
        self.functions = list[str]()

    def helper(self, name: str, result: Type, parameters: Sequence[Type], body: Callable[..., Value]) -> None:
        """Define a function to be inlined, unless it exists. ``body(builder, *arguments)`` emits its code."""
        if name in self.helpers:
            return
        self.helpers[name] = ""  # ends the recursion if the body calls this helper
        builder = Builder(self)
        arguments = [Value(f"%a{i}", type) for i, type in enumerate(parameters)]
        builder.line(f"ret {body(builder, *arguments)}")
        listed = ", ".join(map(str, arguments))
        self.helpers[name] = f"define internal {result} @{name}({listed}) #1 {{\n{builder.text()}}}\n"

    def text(self) -> str:
        width = self.features.vector_bits
        wide = f' "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"' if width >= 512 else ""
        common = f'nounwind{wide} "no-trapping-math"="true"'
        attributes = f"attributes #0 = {{ {common} }}\nattributes #1 = {{ alwaysinline {common} }}\n"
        attributes += f"attributes #2 = {{ noinline {common} }}\n"
        declarations = "".join(f"{line}\n" for _, line in sorted(self.declarations.items()))
        return "\n".join([declarations, *self.helpers.values(), *self.functions, attributes])


class Builder:
    """Builds the body of one function. Methods append instructions and return their results."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self._lines = list[str]()
        self._names = 0
        self._reserved = list[str]()
        self.label("entry")

    def text(self) -> str:
        entry, *lines = self._lines
        return "".join(f"{line}\n" for line in (entry, *self._reserved, *lines))

    def line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def name(self, stem: str = "") -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def emit(self, type: Type, text: str) -> Value:
        """Append ``%n = text`` and return the value, which has type ``type``."""
        name = "%" + self.name("v")
        self.line(f"{name} = {text}")
        return Value(name, type)

    # blocks

    def label(self, name: str) -> None:
        """Start a block; ``current`` is its name."""
        self.current = name
        self._lines.append(f"{name}:")

    def branch(self, target: str) -> None:
        self.line(f"br label %{target}")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.text}, label %{yes}, label %{no}")

    def phi(self, type: Type, *incoming: tuple[Value, str]) -> Value:
        edges = ", ".join(f"[ {value.text}, %{block} ]" for value, block in incoming)
        return self.emit(type, f"phi {type} {edges}")

    def open_phi(self, type: Type, value: Value, block: str) -> tuple[Value, int]:
        """A phi with one incoming edge; ``close_phi`` adds the second."""
        return self.phi(type, (value, block)), len(self._lines) - 1

    def close_phi(self, position: int, value: Value, block: str) -> None:
        self._lines[position] += f", [ {value.text}, %{block} ]"

    # arithmetic

    def binary(self, instruction: str, left: Value, right: Value) -> Value:
        return self.emit(left.type, f"{instruction} {left}, {right.text}")

    def add(self, left: Value, right: Value) -> Value:
        return self.binary("fadd contract" if left.type.is_float else "add", left, right)

    def sub(self, left: Value, right: Value) -> Value:
        return self.binary("fsub contract" if left.type.is_float else "sub", left, right)

    def mul(self, left: Value, right: Value) -> Value:
        return self.binary("fmul contract" if left.type.is_float else "mul", left, right)

    def div(self, left: Value, right: Value) -> Value:
        return self.binary("fdiv contract", left, right)

    def neg(self, value: Value) -> Value:
        return self.emit(value.type, f"fneg {value}")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, fused if the CPU supports it."""
        return self.intrinsic("llvm.fmuladd", a, b, c)

    def compare(self, predicate: str, left: Value, right: Value) -> Value:
        """Compare with an LLVM predicate, such as ``olt`` for floats or ``slt`` for integers."""
        instruction = "fcmp" if left.type.is_float else "icmp"
        return self.emit(left.type.of("i1"), f"{instruction} {predicate} {left}, {right.text}")

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.emit(yes.type, f"select {condition}, {yes}, {no}")

    def cast(self, instruction: str, value: Value, element: str) -> Value:
        """Convert with an LLVM instruction: ``sext``, ``fptosi``, ``bitcast``, ..."""
        target = value.type.of(element)
        return value if target == value.type else self.emit(target, f"{instruction} {value} to {target}")

    def to_integer(self, value: Value, element: str, instruction: str = "fptosi") -> Value:
        """Round towards zero. The result for NaN and values out of range is an arbitrary integer."""
        converted = self.cast(instruction, value, element)
        return self.emit(converted.type, f"freeze {converted}")

    def call(self, name: str, result: Type, *arguments: Value, flags: str = "") -> Value:
        """Call an external function and declare it with the types of the arguments."""
        parameters = ", ".join(str(argument.type) for argument in arguments)
        self.module.declarations[name] = f"declare {result} @{name}({parameters})"
        return self.call_helper(name, result, *arguments, flags=flags)

    def call_helper(self, name: str, result: Type, *arguments: Value, flags: str = "") -> Value:
        listed = ", ".join(map(str, arguments))
        return self.emit(result, f"call {flags}{' ' if flags else ''}{result} @{name}({listed})")

    def call_void(self, name: str, *arguments: Value) -> None:
        parameters = ", ".join(str(argument.type) for argument in arguments)
        self.module.declarations[name] = f"declare void @{name}({parameters})"
        self.line(f"call void @{name}({', '.join(map(str, arguments))})")

    def intrinsic_with_flag(self, name: str, value: Value) -> Value:
        """An intrinsic whose second argument is a flag for undefined inputs; the flag is false, so all inputs are defined."""
        return self.call(f"{name}.{value.type.suffix}", value.type, value, FALSE)

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """An intrinsic overloaded on the type of its arguments and result."""
        type = arguments[0].type
        return self.call(f"{name}.{type.suffix}", type, *arguments)

    # vectors

    def splat(self, scalar: Value, lanes: int | None) -> Value:
        """``scalar`` in every lane; ``scalar`` itself if ``lanes`` is None."""
        if lanes is None:
            return scalar
        type = scalar.type.with_lanes(lanes)
        if scalar.text[0] not in "%@":
            return self.splat_constant(scalar, lanes)
        one = self.emit(type, f"insertelement {type} poison, {scalar}, i64 0")
        return self.emit(type, f"shufflevector {one}, {type} poison, <{lanes} x i32> zeroinitializer")

    @staticmethod
    def splat_constant(scalar: Value, lanes: int) -> Value:
        type = scalar.type.with_lanes(lanes)
        return Value(_splat_text(type, scalar.text), type)

    def shuffle(self, value: Value, lanes: Sequence[int], other: Value | None = None) -> Value:
        """The listed lanes of the concatenation of ``value`` and ``other``; lane -1 is poison."""
        count = value.type.lanes
        assert count is not None
        if other is None and list(lanes) == list(range(count)):
            return value
        listed = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
        second = f"{value.type} poison" if other is None else str(other)
        type = value.type.with_lanes(len(lanes))
        return self.emit(type, f"shufflevector {value}, {second}, <{len(lanes)} x i32> <{listed}>")

    def extract(self, value: Value, lane: int | Value) -> Value:
        index = lane if isinstance(lane, Value) else Value(str(lane), I64)
        return self.emit(value.type.with_lanes(None), f"extractelement {value}, {index}")

    def insert(self, vector: Value, scalar: Value, lane: int) -> Value:
        return self.emit(vector.type, f"insertelement {vector}, {scalar}, i64 {lane}")

    # memory

    def stack(self, value: Value) -> Value:
        """The address of a copy of ``value``, in memory that is reserved once per call of the function."""
        address = Value("%" + self.name("s"), PTR)
        self._reserved.append(f"  {address.text} = alloca {value.type}, align 64")
        self.line(f"store {value}, {address}, align 64")
        return address

    def count(
        self, stop: int, step: int, carried: Sequence[Value], body: Callable[[Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """A loop from 0 to ``stop``, which is at least one ``step``. ``body`` takes and returns the carried values."""
        before, head = self.current, self.name("count")
        self.branch(head)
        self.label(head)
        index, position = self.open_phi(I64, Value("0", I64), before)
        opened = [self.open_phi(value.type, value, before) for value in carried]
        new = body(index, [phi for phi, _ in opened])
        following, done = self.add(index, Value(str(step), I64)), self.name("counted")
        for (_, at), value in zip([(index, position), *opened], [following, *new], strict=True):
            self.close_phi(at, value, self.current)
        self.branch_if(self.compare("slt", following, Value(str(stop), I64)), head, done)
        self.label(done)
        return new

    def address(self, pointer: Value, element: Type, offset: Value) -> Value:
        """The address of element ``offset``; a vector of addresses if ``offset`` is a vector."""
        if offset.text == "0":
            return pointer
        return self.emit(offset.type.of("ptr"), f"getelementptr {element}, {pointer}, {offset}")


def _splat_text(type: Type, scalar: str) -> str:
    return "zeroinitializer" if scalar == "0" else f"splat ({type.with_lanes(None)} {scalar})"


def float_text(value: float, element: str) -> str:
    """A float constant as exact LLVM text: the bits of a double, or those of the type itself for half precision."""
    if element == "bfloat":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return str(0x7FC0 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if element == "float" and value == value and abs(value) != float("inf"):
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def constant(type: Type, value: float | int) -> Value:
    """``value`` in every lane."""
    text = float_text(float(value), type.element) if type.is_float else str(int(value))
    return Value(text if type.lanes is None else _splat_text(type, text), type)


def vector_constant(element: Type, lanes: Sequence[str]) -> Value:
    """A vector constant of the given lanes."""
    listed = ", ".join(f"{element} {lane}" for lane in lanes)
    return Value(f"<{listed}>", element.with_lanes(len(lanes)))


TRUE, FALSE = Value("true", I1), Value("false", I1)
ZERO = Value("0", I64)


def all_true(lanes: int | None) -> Value:
    return TRUE if lanes is None else Value(_splat_text(I1.with_lanes(lanes), "true"), I1.with_lanes(lanes))


def i32(value: int) -> Value:
    return Value(str(value), I32)


def i64(value: int) -> Value:
    return Value(str(value), I64)
