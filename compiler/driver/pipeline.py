"""A resolved pipeline: pass instances, passes anchored on ops, and named stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from fxc.driver.named_pipeline import NamedPipeline
from fxc.driver.pass_options import make_pass, spec_of
from fxc.driver.pipeline_text import AnchorSpec, PassSpec, Spec, to_text
from fxc.driver.registry import PassRegistry
from fxc.errors import PipelineError, nearest


@dataclass(frozen=True)
class Anchored:
    """``steps`` run on each ``op_name`` op directly in the enclosing op, one at a time, isolated from the others."""

    op_name: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class NamedSteps:
    """A named pipeline: ``steps`` run as if they were written in its position.

    ``needs``: a name of operations; the steps do not run on a module that holds none.
    """

    name: str
    steps: tuple[Step, ...]
    needs: str | None = None


Step = ModulePass | Anchored | NamedSteps
Pipeline = tuple[Step, ...]


def resolve(specs: Sequence[Spec], registry: PassRegistry, named: Mapping[str, NamedPipeline]) -> Pipeline:
    """The passes of ``specs``, which may name pipelines of ``named``. Imports the files of these passes only."""
    return tuple(_resolve_one(spec, registry, named) for spec in specs)


def _resolve_one(spec: Spec, registry: PassRegistry, named: Mapping[str, NamedPipeline]) -> Step:
    if isinstance(spec, AnchorSpec):
        if "." not in spec.op_name:
            raise PipelineError(f"{spec.op_name}(...) does not name an op", hint="nest as in func.func(cse,dce)")
        return Anchored(spec.op_name, resolve(spec.items, registry, named))
    if spec.name in named:
        pipeline = named[spec.name]
        return NamedSteps(spec.name, resolve(pipeline.specs(spec.name, spec.options), registry, named), pipeline.needs)
    if spec.name not in registry:
        names = [*registry.names(), *named]
        raise PipelineError(
            f"there is no pass or pipeline {spec.name}",
            hint=nearest(spec.name, names) or "fxc-opt --list-passes prints all of them",
        )
    return make_pass(registry.get(spec.name), spec)


def pipeline_text(pipeline: Sequence[Step]) -> str:
    """The canonical text of ``pipeline``, with named stages expanded; parses to the same passes."""
    return to_text(tuple(_specs(pipeline)))


def _specs(pipeline: Sequence[Step]) -> Iterator[PassSpec | AnchorSpec]:
    for step in pipeline:
        if isinstance(step, NamedSteps):
            yield from _specs(step.steps)
        elif isinstance(step, Anchored):
            yield AnchorSpec(step.op_name, tuple(_specs(step.steps)))
        else:
            yield spec_of(step)


def steps_from(name: str, pipeline: Sequence[Step]) -> Pipeline:
    """The steps from the first unanchored pass ``name`` on, with named stages expanded; empty if there is none."""
    steps = tuple(_written_out(pipeline))
    numbers = [number for number, step in enumerate(steps) if isinstance(step, ModulePass) and step.name == name]
    return steps[numbers[0] :] if numbers else ()


def _written_out(pipeline: Sequence[Step]) -> Iterator[Step]:
    for step in pipeline:
        if isinstance(step, NamedSteps):
            yield from _written_out(step.steps)
        else:
            yield step


def passes_in(pipeline: Sequence[Step]) -> Iterator[ModulePass]:
    """All passes of ``pipeline``, including those of stages and anchored passes."""
    for step in pipeline:
        if isinstance(step, ModulePass):
            yield step
        else:
            yield from passes_in(step.steps)


def anchors(pipeline: Sequence[Step]) -> Iterator[str]:
    """The names of all ops that a step of ``pipeline`` is anchored on."""
    for step in pipeline:
        if isinstance(step, Anchored):
            yield step.op_name
        if isinstance(step, (Anchored, NamedSteps)):
            yield from anchors(step.steps)
