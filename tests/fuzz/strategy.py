"""The strategy of hypothesis for whole programs."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace

import torch
from hypothesis import strategies as st

from tests.fuzz.builder import Builder, Skip
from tests.fuzz.check import MODES
from tests.fuzz.inputs import draw_inputs
from tests.fuzz.operators_compute import POINTWISE, REDUCTIONS
from tests.fuzz.operators_indexing import FACTORIES, GATHERS, SCATTERS, WRITES
from tests.fuzz.operators_layers import LAYERS
from tests.fuzz.operators_views import COPIES, VIEWS
from tests.fuzz.pipelines import pipelines
from tests.fuzz.programs import Program

FAMILIES = [
    VIEWS, POINTWISE, LAYERS, REDUCTIONS, COPIES, VIEWS, POINTWISE, SCATTERS, WRITES, GATHERS, LAYERS, FACTORIES, WRITES,
]  # fmt: skip
MOST_STEPS = 8


@st.composite
def step(draw: st.DrawFn, b: Builder) -> bool:
    """One step more, where there is one; whether that was not the last. A span of its own, which shrinking can leave out."""
    if b.steps and draw(st.integers(0, 19)) == 0:
        return False
    b.taken = []
    with suppress(Skip):
        draw(st.sampled_from(draw(st.sampled_from(FAMILIES))))(b)
    return True


@st.composite
def programs(draw: st.DrawFn, mode: str, device: str = "cpu") -> Program:
    route = draw(st.sampled_from(MODES[mode])) if MODES[mode] else draw(pipelines())
    b = Builder(draw, route, generic=mode.startswith("dynamic"))
    gradients = mode == "training" or (mode in ("compile", "dynamic", "dynamic_shapes") and draw(st.booleans()))
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(gradients))
        draw_inputs(b, gradients)
        for _ in range(2 * MOST_STEPS):
            if len(b.steps) == MOST_STEPS or not draw(step(b)):
                break
        return replace(b.finished(), device=device)
