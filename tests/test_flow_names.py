"""``fxc-opt -p NAME`` replays from a file what an entry point runs: the IR after every pass is the same text."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import fxc
from fxc.api import pipeline_for
from fxc.driver.pipeline import pipeline_text
from fxc.options import Options
from fxc.pipelines import FLOWS, parse_pipeline
from fxc.tools.fxc_opt import run

KINDS = {"": {"target": "host"}, "-aten": {"target": None}, "-frozen": {"target": "host", "freeze": True}}


class Twice(nn.Module):
    """Computes one value twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp() @ x.T + x.exp().sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_has_a_name(name: str, kind: str) -> None:
    if kind == "-frozen" and FLOWS[name].frozen is None:
        pytest.skip("it has no frozen weights")
    text = pipeline_for(FLOWS[name], Options(**KINDS[kind]))
    assert pipeline_text(parse_pipeline(name + kind)) == pipeline_text(parse_pipeline(text))


def test_a_flow_takes_streams() -> None:
    text = pipeline_for(FLOWS["inference"], Options(target="cuda:sm_90", streams=3))
    assert pipeline_text(parse_pipeline("inference{streams=3}")) == pipeline_text(parse_pipeline(text))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "-aten"])
def test_fxc_opt_replays_inference(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), Twice(), nn.Softmax(-1)
    ).eval()
    inputs: Any = (torch.randn(2, 3, 6, 6),)
    compiled = fxc.compile(model, inputs, options={**KINDS[kind], "cache_plans": False, "print_ir": True})
    expected = capfd.readouterr().err
    target = [] if kind == "-aten" else ["--target=host"]
    text = fxc.capture(model, inputs).text(debuginfo=True)
    code, out, err = run(["-", "-p", f"inference{kind}", "--print-ir-after-change", *target], text)
    assert code == 0
    assert out.strip() == str(compiled.ir).strip()
    assert len(re.findall("IR Dump After", err)) >= 3
    assert err == expected


def test_an_unknown_target_is_one_error() -> None:
    code, _, err = run(["-", "-p", "cse", "--target=cpu:avx1024"], "")
    assert code == 1 and "there is no target cpu:avx1024" in err and "hint" in err
