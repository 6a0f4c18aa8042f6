"""Pipelines: resolved ones, of pass instances, passes anchored on ops and stages; named ones, and flows that combine them.

A named pipeline is data: steps, and the options that ``name{option=value}`` sets in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from xdsl.passes import ModulePass

from fxc.driver.pass_options import make_pass, spec_of
from fxc.driver.pipeline_text import AnchorSpec, PassSpec, Spec, Word, parse, to_text
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


Setting = tuple[tuple[str, tuple[Word, ...]], ...]


@dataclass(frozen=True)
class Slot:
    """A position for passes of the user: ``name{slot=my-pass}``, quoted if they have options."""

    name: str

    def __str__(self) -> str:
        return f"[{self.name}]"


@dataclass(frozen=True)
class OnDemand:
    """A pass that runs only where the option ``name`` of the pipeline is given, and is not ``false``."""

    name: str
    spec: PassSpec

    def __str__(self) -> str:
        return f"[{self.name}: {self.spec}]"


@dataclass(frozen=True)
class NamedPipeline:
    """``steps`` in order. ``options``: option of the pipeline -> the passes that have it, each with its name of the option.

    ``needs``: a name of operations; the steps do not run on a module that holds none.
    """

    steps: tuple[Spec | Slot | OnDemand, ...]
    options: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=lambda: MappingProxyType({}))
    needs: str | None = None

    def specs(self, name: str, given: Setting = ()) -> tuple[Spec, ...]:
        """The passes of ``name{given}``. PipelineError for an option that the pipeline does not have."""
        known = self.option_names()
        for option, _ in given:
            if option not in known:
                accepted = f"it accepts: {', '.join(known)}" if known else "it takes none"
                hint = nearest(option, known) or "write its passes out to set theirs"
                raise PipelineError(f"pipeline {name} has no option {option}; {accepted}", hint=hint)
        values = dict(given)
        return tuple(spec for step in self.steps for spec in self._filled(step, values))

    def option_names(self) -> list[str]:
        """The names that may appear in the braces."""
        return list(dict.fromkeys((*self.options, *(step.name for step in self.steps if isinstance(step, (Slot, OnDemand))))))

    def _filled(self, step: Spec | Slot | OnDemand, values: Mapping[str, tuple[Word, ...]]) -> tuple[Spec, ...]:
        if isinstance(step, Slot):
            return parse(",".join(word.text for word in values.get(step.name, ())))
        if isinstance(step, OnDemand):
            wanted = [word.text for word in values.get(step.name, ())] not in ([], ["false"])
            return self._filled(step.spec, values) if wanted else ()
        if isinstance(step, AnchorSpec):
            return (replace(step, items=tuple(item for inner in step.items for item in self._filled(inner, values))),)
        owned = [(option, key) for option, owners in self.options.items() for owner, key in owners if owner == step.name]
        mine = {key: values[option] for option, key in owned if option in values}
        return (PassSpec(step.name, tuple((dict(step.options) | mine).items())),)

    def __len__(self) -> int:
        return sum(not isinstance(step, (Slot, OnDemand)) for step in self.steps)

    def __str__(self) -> str:
        return ",".join(map(str, self.steps))


@dataclass(frozen=True)
class Flow:
    """Pipeline text of a compilation: ``prepare``, then either ``operators`` (calls of PyTorch) or ``kernels``.

    ``frozen`` runs between them where weights are frozen; None if that is not supported. ``plan``: the pipeline that makes a
    host program of kernels; None if there is none.
    """

    prepare: str
    operators: str
    kernels: str
    frozen: str | None = None
    plan: PassSpec | None = None

    def text(self, *, kernels: bool, freeze: bool, streams: int = 1) -> str:
        """The whole text; a host program uses up to ``streams`` streams. PipelineError for ``freeze`` without ``frozen``."""
        if freeze and self.frozen is None:
            raise PipelineError("this pipeline cannot freeze weights", hint="fxc.compile freezes them, without training=True")
        parts = [self.prepare, self.frozen if freeze else None, self.kernels if kernels else self.operators]
        if kernels and self.plan is not None:
            more = (("streams", (Word(str(streams)),)),) if streams != 1 else ()
            parts.append(str(replace(self.plan, options=self.plan.options + more)))
        return ",".join(part for part in parts if part)
