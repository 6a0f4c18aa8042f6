"""Kernels of the ``tile`` dialect, written by hand, against eager PyTorch and Inductor on the CPU.

    python benchmarks/kernels_cpu.py [--threads 1] [--width 64] [--inductor] [kernel ...]

For each kernel and size: time of a call, results allocated, as a ratio to eager's and to that of Inductor's code. The three are
timed in turns, so that what else runs on the machine slows all of them; the median of the ratios is printed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

COLUMNS = 1000
ROWS = (1, 10, 100, 1000, 4000)
WIDTH = 16


class Text:
    """Lines of a kernel on rows of ``columns`` float32, in blocks of ``width``."""

    def __init__(self, columns: int, width: int) -> None:
        self.columns, self.width = columns, width
        self.block, self.mask = f"vector<{width}xf32>", f"vector<{width}xi1>"
        self.lines = list[str]()
        self.names = 0

    def op(self, text: str) -> str:
        """``%n = text``."""
        self.names += 1
        self.lines.append(f"  %v{self.names} = {text}")
        return f"%v{self.names}"

    def number(self, value: float | str, type: str = "f32") -> str:
        return self.op(f"arith.constant {value} : {type}")

    def splat(self, value: float | str) -> str:
        return self.op(f"arith.constant dense<{value}> : {self.block}")

    def spread(self, scalar: str) -> str:
        return self.op(f"tile.splat {scalar} : f32 to {self.block}")

    def binary(self, name: str, a: str, b: str, type: str = "") -> str:
        return self.op(f"arith.{name} {a}, {b} : {type or self.block}")

    def function(self, name: str, a: str) -> str:
        return self.op(f"math.{name} {a} : {self.block}")

    def load(self, pointer: str, at: str, mask: str | None, other: str) -> str:
        more = "" if mask is None else f", {mask}, {other}"
        return self.op(f"tile.load {pointer}[{at}] strides [1]{more} : !tile.ptr<f32> -> {self.block}")

    def store(self, value: str, pointer: str, at: str, mask: str | None) -> None:
        more = "" if mask is None else f", {mask}"
        self.lines.append(f"  tile.store {value}, {pointer}[{at}] strides [1]{more} : {self.block}, !tile.ptr<f32>")

    def along_row(self, body: Callable[[str, str | None, list[str]], list[str]], carried: Sequence[str] = ()) -> list[str]:
        """``body(place, mask, carried)`` on each block of a row; the last one has a mask, where it is not full."""
        whole = self.columns // self.width * self.width
        values = list(carried)
        if whole:
            values = self._loop(whole, body, values)
        if whole < self.columns:
            place, stop = self.number(whole, "index"), self.number(self.columns, "index")
            values = body(place, self.op(f"tile.mask {place}, {stop} {{dim = 0}} : {self.mask}"), values)
        return values

    def _loop(self, whole: int, body: Callable[..., list[str]], carried: list[str]) -> list[str]:
        start, stop, step = (self.number(value, "index") for value in (0, whole, self.width))
        self.names += 1
        stem, arguments = f"%l{self.names}", [f"%a{self.names}_{i}" for i in range(len(carried))]
        types = ", ".join([self.block] * len(carried))
        inits = ", ".join(f"{a} = {value}" for a, value in zip(arguments, carried, strict=True))
        given = f"{stem}{f':{len(carried)}' if len(carried) > 1 else ''} = " if carried else ""
        iter_args = f" iter_args({inits}) -> ({types})" if carried else ""
        self.lines.append(f"  {given}scf.for {stem}i = {start} to {stop} step {step}{iter_args} {{")
        results = body(f"{stem}i", None, arguments)
        if carried:
            self.lines.append(f"  scf.yield {', '.join(results)} : {types}")
        self.lines.append("  }")
        return [stem] if len(carried) == 1 else [f"{stem}#{i}" for i in range(len(carried))]

    def kernel(self, rows: int, pointers: Sequence[tuple[str, str, int]]) -> str:
        listed = ", ".join(
            f'%{name}: !tile.ptr<f32> {{tile.access = "{access}", tile.elements = {count} : i64}}'
            for name, access, count in pointers
        )
        body = "\n".join(self.lines)
        return f"tile.kernel @k({listed}) attributes {{grid = array<i64: {rows}>}} {{\n{body}\n  tile.return\n}}"


def _row(t: Text) -> Callable[[str], str]:
    """The place in a tensor of a place in this program's row."""
    program = t.op("tile.program_id {axis = 0} : index")
    start = t.binary("muli", program, t.number(t.columns, "index"), "index")
    return lambda place: t.binary("addi", start, place, "index")


def _sigmoid(t: Text, x: str) -> str:
    one = t.splat("1.0")
    minus = t.op(f"arith.negf {x} : {t.block}")
    return t.op(f"arith.divf {one}, {t.binary('addf', one, t.function('exp', minus))} : {t.block}")


def _gelu(t: Text, x: str) -> str:
    inner = t.function("erf", t.binary("mulf", x, t.splat("0.70710678118654757")))
    return t.binary("mulf", t.binary("mulf", x, t.splat("0.5")), t.binary("addf", inner, t.splat("1.0")))


def chain(rows: int, columns: int = COLUMNS, width: int = WIDTH) -> str:
    """gelu(x * sigmoid(x) + bias)"""
    t = Text(columns, width)
    row, zero = _row(t), t.number("0.0")

    def body(place: str, mask: str | None, _: list[str]) -> list[str]:
        at = row(place)
        x, bias = t.load("%x", at, mask, zero), t.load("%bias", place, mask, zero)
        t.store(_gelu(t, t.binary("addf", t.binary("mulf", x, _sigmoid(t, x)), bias)), "%y", at, mask)
        return []

    t.along_row(body)
    count = rows * columns
    return t.kernel(rows, [("x", "read", count), ("bias", "read", columns), ("y", "write", count)])


def softmax(rows: int, columns: int = COLUMNS, width: int = WIDTH) -> str:
    """Of each row: its maximum, exponentials and their sum, quotients."""
    t = Text(columns, width)
    row, zero, lowest = _row(t), t.number("0.0"), t.number("0xFF800000")
    top = t.along_row(
        lambda place, mask, carried: [t.binary("maximumf", carried[0], t.load("%x", row(place), mask, lowest))],
        [t.spread(lowest)],
    )
    largest = t.spread(t.op(f'tile.reduce "max" {top[0]} {{dims = [0]}} : {t.block} -> f32'))

    def exponentials(place: str, mask: str | None, carried: list[str]) -> list[str]:
        at = row(place)
        e = t.function("exp", t.binary("subf", t.load("%x", at, mask, lowest), largest))
        t.store(e, "%y", at, mask)
        return [t.binary("addf", carried[0], e)]

    total = t.along_row(exponentials, [t.splat("0.0")])
    total_of_all = t.op(f'tile.reduce "add" {total[0]} {{dims = [0]}} : {t.block} -> f32')
    inverse = t.spread(t.binary("divf", t.number("1.0"), total_of_all, "f32"))

    def quotients(place: str, mask: str | None, _: list[str]) -> list[str]:
        at = row(place)
        t.store(t.binary("mulf", t.load("%y", at, mask, zero), inverse), "%y", at, mask)
        return []

    t.along_row(quotients)
    return t.kernel(rows, [("x", "read", rows * columns), ("y", "write", rows * columns)])


def layernorm(rows: int, columns: int = COLUMNS, width: int = WIDTH) -> str:
    """gelu(layer_norm(x) * weight + bias) + x: mean, variance about it, result."""
    t = Text(columns, width)
    row, zero = _row(t), t.number("0.0")
    none, count = t.splat("0.0"), t.number(f"{columns}.0")

    def mean_of(sums: list[str]) -> str:
        return t.binary("divf", t.op(f'tile.reduce "add" {sums[0]} {{dims = [0]}} : {t.block} -> f32'), count, "f32")

    sums = t.along_row(
        lambda place, mask, carried: [t.binary("addf", carried[0], t.load("%x", row(place), mask, zero))], [none]
    )
    mean = t.spread(mean_of(sums))

    def squares(place: str, mask: str | None, carried: list[str]) -> list[str]:
        away = t.binary("subf", t.load("%x", row(place), mask, zero), mean)
        if mask is not None:
            away = t.op(f"tile.select {mask}, {away}, {none} : {t.block}")
        return [t.binary("addf", carried[0], t.binary("mulf", away, away))]

    variance = mean_of(t.along_row(squares, [none]))
    scale = t.spread(t.op(f"math.rsqrt {t.binary('addf', variance, t.number('1.0e-05'), 'f32')} : f32"))

    def result(place: str, mask: str | None, _: list[str]) -> list[str]:
        at = row(place)
        x, weight, bias = (t.load(p, i, mask, zero) for p, i in (("%x", at), ("%weight", place), ("%bias", place)))
        normal = t.binary("mulf", t.binary("subf", x, mean), scale)
        y = _gelu(t, t.binary("addf", t.binary("mulf", normal, weight), bias))
        t.store(t.binary("addf", y, x), "%y", at, mask)
        return []

    t.along_row(result)
    all_of_it = rows * columns
    pointers = [("x", "read", all_of_it), ("weight", "read", columns), ("bias", "read", columns), ("y", "write", all_of_it)]
    return t.kernel(rows, pointers)


def eager_chain(x: Tensor, bias: Tensor) -> Tensor:
    return gelu(x * torch.sigmoid(x) + bias)


def eager_softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def eager_layernorm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return gelu(layer_norm(x, weight.shape, weight, bias)) + x


KERNELS: dict[str, tuple[Callable[..., str], Callable[..., Tensor], int]] = {
    "chain": (chain, eager_chain, 1),
    "softmax": (softmax, eager_softmax, 0),
    "layernorm": (layernorm, eager_layernorm, 2),
}
"""Name -> text of the kernel, what it computes, and how many arguments of a row's size it takes besides x."""


def arguments(name: str, rows: int, columns: int = COLUMNS) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(rows, columns)] + [(columns,)] * KERNELS[name][2]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def launch_text(name: str, rows: int, columns: int = COLUMNS, width: int = WIDTH) -> str:
    """A module with the kernel and a function that launches it."""
    types = [f"tensor<{'x'.join(map(str, x.shape))}xf32>" for x in arguments(name, rows, columns)]
    names = [f"%a{i}" for i in range(len(types))]
    parameters = ", ".join(
        f'{name}: {type} {{fx.kind = "input", fx.name = "{name[1:]}"}}' for name, type in zip(names, types, strict=True)
    )
    launch = f"%r = tile.launch @k({', '.join(names)}) : ({', '.join(types)}) -> {types[0]}"
    function = f"func.func @main({parameters}) -> {types[0]} {{\n  {launch}\n  fx.output(%r) : ({types[0]}) -> ()\n}}"
    return f"{KERNELS[name][0](rows, columns, width)}\n{function}\n"


def compiled(name: str, rows: int, width: int = WIDTH) -> Callable[..., Any]:
    from xdsl.parser import Parser

    from fxc.codegen.cpu.launch import compile_launch
    from fxc.dialects.tile import LaunchOp
    from fxc.program.program import new_context

    module = Parser(new_context(), launch_text(name, rows, width=width)).parse_module()
    launch = next(op for op in module.walk() if isinstance(op, LaunchOp))
    run = compile_launch(launch, None)
    assert run is not None
    return run


def inductor_call(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> Callable[[], Any]:
    """The code that Inductor generated, called without Dynamo's guards."""
    import torch._inductor.codecache as codecache

    torch.compiler.reset()
    with torch.no_grad():
        torch.compile(function, dynamic=False)(*inputs)
    call = codecache.PyCodeCache.modules[-1].call
    for order in itertools.permutations(inputs):  # the code takes them in an order of its own
        try:
            call(list(order))
        except AssertionError:
            continue
        return lambda order=order: call(list(order))
    raise AssertionError("no order of the inputs fits")


def ratios(ours: Callable[[], Any], theirs: Sequence[Callable[[], Any]], elements: int) -> tuple[float, list[float]]:
    """Microseconds of ours, and the median ratio to each of theirs, run in turns."""
    inner, rounds = max(1, min(200, 200_000 // elements)), 60 if elements < 1e6 else 25
    times = [[0.0] * rounds for _ in range(1 + len(theirs))]
    for call in (ours, *theirs):
        call()
    for i in range(rounds):
        for row, call in zip(times, (ours, *theirs), strict=True):
            start = time.perf_counter()
            for _ in range(inner):
                call()
            row[i] = (time.perf_counter() - start) / inner * 1e6
    found = [statistics.median(a / b for a, b in zip(times[0], row, strict=True)) for row in times[1:]]
    return statistics.median(times[0]), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=list(KERNELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--width", type=int, default=64, help="lanes of a block: several registers hide what one waits for")
    parser.add_argument("--inductor", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    print(f"{'kernel':10} {'elements':>9} {'us':>9} {'/ eager':>8}" + (f" {'/ Inductor':>11}" if options.inductor else ""))
    for name in options.kernels:
        for rows in ROWS:
            inputs, function = arguments(name, rows), KERNELS[name][1]
            kernel = compiled(name, rows, options.width)
            torch.testing.assert_close(kernel(*inputs)[0], function(*inputs))
            others: list[Callable[[], Any]] = [lambda inputs=inputs, function=function: function(*inputs)]
            if options.inductor:
                others.append(inductor_call(function, inputs))
            us, found = ratios(lambda inputs=inputs, kernel=kernel: kernel(*inputs), others, rows * COLUMNS)
            print(
                f"{name:10} {rows * COLUMNS:9} {us:9.1f} {found[0]:8.2f}" + "".join(f" {r:11.2f}" for r in found[1:]),
                flush=True,
            )


if __name__ == "__main__":
    main()
