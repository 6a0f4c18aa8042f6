"""Programs with less in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tests.fuzz.programs import Input, Program, Step

WITHOUT_GRADIENTS = "with torch.no_grad(): "
NAME = re.compile(r"\b[xv]\d+\b")


def reductions(program: Program) -> Iterator[Program]:
    """``program`` with a result, a step or an input fewer, the largest reductions first."""
    for result in program.results if len(program.results) > 1 else ():
        yield without_dead(replace(program, results=(result,)))
    steps = program.steps
    for i in reversed(range(len(steps))):
        target, operands = target_of(steps[i]), NAME.findall(steps[i].code.partition(" = ")[2] or steps[i].code)
        rest = (*steps[:i], *steps[i + 1 :])
        for simpler in simpler_forms(steps[i].code):
            yield replace(program, steps=(*steps[:i], Step(steps[i].operator, simpler), *steps[i + 1 :]))
        if target is None:
            yield without_dead(replace(program, steps=rest))
        for operand in dict.fromkeys(operands) if target else ():
            renamed = tuple(Step(step.operator, re.sub(rf"\b{target}\b", operand, step.code)) for step in rest)
            results = dict.fromkeys(operand if name == target else name for name in program.results)
            yield without_dead(replace(program, steps=renamed, results=tuple(results)))
        if target in program.results and len(program.results) > 1:
            yield without_dead(replace(program, results=tuple(name for name in program.results if name != target)))
    for item in program.inputs:
        for simpler in simpler_inputs(item):
            yield replace(program, inputs=tuple(simpler if other is item else other for other in program.inputs))
    if len(program.sizes) > 1:
        yield from (replace(program, sizes=(pair,)) for pair in program.sizes)


def simpler_forms(code: str) -> Iterator[str]:
    """``code`` with gradients enabled, or with a checkpoint less."""
    if code.startswith(WITHOUT_GRADIENTS):
        yield code.removeprefix(WITHOUT_GRADIENTS)
    if found := re.fullmatch(r"(v\d+ = )torch\.utils\.checkpoint\.checkpoint\(lambda: (.*), use_reentrant=False\)", code):
        yield found[1] + found[2]


def simpler_inputs(item: Input) -> Iterator[Input]:
    """``item`` of a plainer layout or dtype, or smaller."""
    if item.layout != "contiguous":
        yield replace(item, layout="contiguous")
    if item.requires_grad:
        yield replace(item, requires_grad=False)
    if not item.is_leaf:
        yield replace(item, is_leaf=True)
    if item.dtype != "float32":
        yield replace(item, dtype="float32")
    for dim, size in enumerate(item.shape):
        rest = item.shape[:dim], item.shape[dim + 1 :]
        if item.layout == "contiguous":
            yield replace(item, shape=rest[0] + rest[1])
        if isinstance(size, int):
            yield from (
                replace(item, shape=(*rest[0], less, *rest[1])) for less in (1, 2, 3, size // 2, size - 1) if less < size > 1
            )


def target_of(step: Step) -> str | None:
    """The name that a step gives, None for a write."""
    found = re.match(r"(v\d+) = ", step.code.removeprefix(WITHOUT_GRADIENTS))
    return found[1] if found else None


def without_dead(program: Program) -> Program:
    """Without the steps and the inputs that no result or write needs. One input stays."""
    needed, kept = set(program.results), list[Step]()
    for step in reversed(program.steps):
        target = target_of(step)
        if target is None or target in needed:
            needed.update(NAME.findall(step.code))
            kept.append(step)
    inputs = tuple(item for item in program.inputs if item.name in needed) or program.inputs[:1]
    return replace(program, steps=tuple(reversed(kept)), inputs=inputs)
