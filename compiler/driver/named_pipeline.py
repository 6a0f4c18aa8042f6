"""Named pipelines: steps and the options that ``name{option=value}`` sets in them; and flows that combine them. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fxc.driver.pipeline_text import AnchorSpec, PassSpec, Spec, Word, parse
from fxc.errors import PipelineError, nearest

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
