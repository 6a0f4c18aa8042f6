"""Pipeline text and pass options: what is accepted, what is refused and how, and round trips."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from fxc.driver.pipeline import Anchored, NamedPipeline, NamedSteps, OnDemand, Slot, pipeline_text, resolve
from fxc.driver.pipeline_text import AnchorSpec, PassSpec, parse, to_text
from fxc.driver.registry import PassRegistry
from fxc.errors import PipelineError
from fxc.pipelines import NAMED, parse_pipeline


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class TryPass(ModulePass):
    __test__ = False
    name = "try"

    text: str = ""
    scale: float = 1.0
    max_rounds: int = 1
    sizes: tuple[int, ...] = ()
    loud: bool = False
    limit: int | None = 3
    ratio: float | None = field(default=None, metadata={"maximum": 2})
    share: int = field(default=4, metadata={"minimum": 1, "maximum": 64})
    mode: Literal["fast", "exact"] = "fast"
    colour: Colour = Colour.RED

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise AssertionError


@dataclass(frozen=True)
class NeedsPass(ModulePass):
    name = "needs"

    path: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise AssertionError


REGISTRY = PassRegistry().with_pass(TryPass).with_pass(NeedsPass)


def one(text: str) -> ModulePass:
    [step] = parse_pipeline(text, REGISTRY)
    assert isinstance(step, ModulePass)
    return step


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("try", TryPass()),
        ("try{}", TryPass()),
        ("try{scale=2}", TryPass(scale=2.0)),
        ("try{scale=1e-05}", TryPass(scale=1e-05)),
        ("try{scale=-inf}", TryPass(scale=float("-inf"))),
        ("try{max-rounds=2}", TryPass(max_rounds=2)),
        ("try{max_rounds=2}", TryPass(max_rounds=2)),
        ("try{sizes=1}", TryPass(sizes=(1,))),
        ("try{sizes=1, 2 ,3  loud}", TryPass(sizes=(1, 2, 3), loud=True)),
        ("try{loud=false}", TryPass()),
        ("try{limit=none}", TryPass(limit=None)),
        ("try{ratio=2}", TryPass(ratio=2.0)),
        ("try{ratio=none share=64}", TryPass(share=64)),
        ("try{mode=exact colour=blue}", TryPass(mode="exact", colour=Colour.BLUE)),
        ('try{text="a, b} \\"c\\" \\\\ ="}', TryPass(text='a, b} "c" \\ =')),
        ("try{text=true}", TryPass(text="true")),
        ("try{text=models/a.safetensors}", TryPass(text="models/a.safetensors")),
        (" try { text = x } ", TryPass(text="x")),
    ],
)
def test_options_and_round_trip(text: str, expected: TryPass) -> None:
    assert one(text) == expected
    canonical = pipeline_text([expected])
    assert parse_pipeline(canonical, REGISTRY) == (expected,)
    assert pipeline_text(parse_pipeline(canonical, REGISTRY)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "try", "try,needs{path=x}", "func.func(try,try{loud=true}),try", "a.b(c.d(try),try)", "func.func()"],
)
def test_nesting_round_trip(text: str) -> None:
    canonical = pipeline_text(parse_pipeline(text, REGISTRY))
    assert canonical == f"builtin.module({text})"
    assert pipeline_text(parse_pipeline(canonical, REGISTRY)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tri", "there is no pass or pipeline tri\n  hint: did you mean try?"),
        ("try{maxrounds=1}", "no option maxrounds; it accepts: text: str = .*\n  hint: did you mean max-rounds"),
        ("try{max-rounds=1.5}", "option max-rounds of pass try is int, got 1.5"),
        ("try{max-rounds}", "option max-rounds of pass try is int, got nothing"),
        ("try{max-rounds=1,2}", "is int, got 1,2"),
        ("try{share=-1}", r"option share of pass try is int \(1 to 64\), got -1"),
        ("try{share=65}", r"option share of pass try is int \(1 to 64\), got 65"),
        ("try{ratio=nan}", r"option ratio of pass try is float or none \(at most 2\), got nan"),
        ("try{loud=yes}", "is bool, got yes"),
        ("try{colour=green}", r"is one of red\|blue, got green"),
        ('try{limit="3"}', 'is int or none, got "3"'),
        ("try{loud loud}", "option loud is given twice"),
        ("needs", "pass needs needs option path"),
        ("try(needs)", r"try\(...\) does not name an op"),
        ("try,,try", "expected the name of a pass or of an op at column 5, found ','"),
        ("func.func(try", r"expected ',' or '\)' at column 14, found the end"),
        ("try)", r"expected ',' or the end at column 4"),
        ('try{text="x}', "expected a closing quote at column 10"),
        ("try{text=}", "expected a value at column 10"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        parse_pipeline(text, REGISTRY)


def test_named_pipelines_nest_and_print_written_out() -> None:
    named = {
        "inner": NamedPipeline((PassSpec("try"), PassSpec.of("needs", path="a b"))),
        "outer": NamedPipeline((PassSpec("inner"), PassSpec("try"))),
    }
    pipeline = resolve(parse("outer,func.func(inner)"), REGISTRY, named)
    inner = NamedSteps("inner", (TryPass(), NeedsPass("a b")))
    assert pipeline == (NamedSteps("outer", (inner, TryPass())), Anchored("func.func", (inner,)))
    assert pipeline_text(pipeline) == (
        'builtin.module(try,needs{path="a b"},try,func.func(try,needs{path="a b"}))'
    )  # fmt: skip


WITH_OPTIONS = {
    "flow": NamedPipeline(
        (
            PassSpec.of("try", loud=True),
            Slot("middle"),
            AnchorSpec("func.func", (PassSpec("try"),)),
            OnDemand("needed", PassSpec("needs")),
            Slot("last"),
        ),
        options={"rounds": (("try", "max-rounds"),), "needed": (("needs", "path"),)},
    )
}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("flow", "try{loud=true},func.func(try)"),
        ("flow{rounds=3}", "try{loud=true max-rounds=3},func.func(try{max-rounds=3})"),
        ("flow{needed=x}", "try{loud=true},func.func(try),needs{path=x}"),
        ("flow{needed=false}", "try{loud=true},func.func(try)"),
        ("flow{middle=try,try}", "try{loud=true},try,try,func.func(try)"),
        ('flow{last="try{scale=2.0},needs{path=x}" rounds=2}', "try{loud=true max-rounds=2},func.func(try{max-rounds=2}),"
         "try{scale=2.0},needs{path=x}"),
    ],
)  # fmt: skip
def test_options_and_slots_of_a_pipeline(text: str, written: str) -> None:
    pipeline = resolve(parse(text), REGISTRY, WITH_OPTIONS)
    expected = parse_pipeline(written, REGISTRY)
    assert pipeline_text(pipeline) == pipeline_text(expected)


def test_an_option_that_a_pipeline_does_not_have() -> None:
    with pytest.raises(
        PipelineError, match="pipeline flow has no option round; it accepts: rounds, needed, middle, last"
    ) as caught:
        resolve(parse("flow{round=3}"), REGISTRY, WITH_OPTIONS)
    assert "rounds" in str(caught.value.hint)
    with pytest.raises(PipelineError, match="option max-rounds of pass try is int, got many"):
        resolve(parse("flow{rounds=many}"), REGISTRY, WITH_OPTIONS)


def test_shipped_pipelines_are_well_formed_and_shadow_no_pass() -> None:
    for name, pipeline in NAMED.items():
        specs = pipeline.specs(name)
        assert parse(to_text(specs)) == specs
        assert name not in PassRegistry()
        for owner, option in (pair for pairs in pipeline.options.values() for pair in pairs):
            known = NAMED[owner].options if owner in NAMED else PassRegistry().get(owner).__dataclass_fields__
            assert option.replace("-", "_") in known, f"{owner} has no option {option}"


def test_two_passes_of_one_name_are_refused() -> None:
    with pytest.raises(PipelineError, match="there is already a pass try"):
        REGISTRY.with_pass(TryPass)
