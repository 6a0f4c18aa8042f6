"""Each pass alone, over the zoo in train mode: results, statistics and gradients stay eager's.

The IR is verified. Its text depends on nothing but the IR that the pass was given: not on the run, on the process, on what
else is in memory. A pass that says so changes nothing when it runs again.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

import fxc
from fxc.errors import PassError
from fxc.passes import available
from fxc.program.program import Program
from tests.models.captures import capture_of, example_inputs, model_of
from tests.models.steps import gradients, values
from tests.models.zoo import ZOO
from tests.pass_contracts import is_idempotent

ROOT = Path(__file__).parents[2]
VERIFIED = fxc.Options(verify_each=True)

STARTS = {
    "captured": "",
    "called": "convert-fx-to-torch",
    "lowered": "lower-to-torch",
    "differentiated": "lower-to-torch,create-autodiff-subgraphs,differentiate",
}
"""What a pass finds: Python calls, calls of functions of operators, operators, subgraphs with their derivatives."""

MODELS = {
    "captured": ["bert", "moe", "resnet"],
    "called": ["bert", "llama"],
    "lowered": sorted(ZOO),
    "differentiated": ["cond", "mlp"],
}

PREPARED = {
    "differentiate": "create-autodiff-subgraphs",
    "inline-autodiff-subgraphs": "create-autodiff-subgraphs,differentiate",
}
"""What must have run where nothing is differentiated yet."""

CASES = [(start, name) for start, names in MODELS.items() for name in names]

REFUSED = {("captured", "resnet", "check-inplace"): "stem.1 writes its arguments in place"}
"""What a pass does not take, and says so."""


SPECS = {
    "join-products": "join-products{gain=0.0}",
    "pack-weights": "pack-weights{gain=0.0}",
    "choose-products": "choose-products{gain=0.0}",
    "choose-convolutions": "choose-convolutions{gain=0.0}",
}
"""Passes whose result is to differ from run to run, by what is measured. Their own tests have them."""

NAMES = [name for name in available() if name not in ("lower-random", "move-to-device")]  # other numbers; other machines

WITHOUT_GRADIENTS = {"convert-to-plan", "freeze-parameters", "fold-batch-norm", "fold-affine"}
"""Passes for programs that autograd does not look into."""


@functools.cache
def started(start: str, name: str) -> Program:
    _, inputs = model_of(name, True)
    traced = start in ("captured", "called") and ZOO[name].symbolic_trace
    captured = capture_of(name, True, "symbolic_trace" if traced else "export")
    args = example_inputs(name, inputs, captured) if isinstance(captured, GraphModule) else None
    return reread(fxc.run_passes(fxc.import_fx(captured, args), STARTS[start]))


@functools.cache
def prepared(start: str, name: str, pipeline: str) -> Program:
    """The program that a pass is given, as its text says it."""
    return reread(fxc.run_passes(started(start, name), pipeline)) if pipeline else started(start, name)


def reread(program: Program) -> Program:
    return Program.parse(str(program), program.state, allow=program.live)


@functools.cache
def text(start: str, name: str, pass_name: str, *, after: bool) -> str:
    """The IR before or after a pass."""
    program = before(start, name, pass_name)
    return str(fxc.run_passes(program, SPECS.get(pass_name, pass_name)) if after else program)


@functools.cache
def of_eager(name: str, differentiated: bool) -> dict[str, Any]:
    model, inputs = model_of(name, True)
    return gradients(model, model, inputs) if differentiated else values(model, model, inputs)


def before(start: str, name: str, pass_name: str) -> Program:
    return prepared(start, name, PREPARED.get(pass_name, "") if start == "lowered" else "")


def assert_eagers(program: Program, name: str, *, differentiated: bool = True) -> None:
    model, inputs = model_of(name, True)
    step = gradients if differentiated else values
    torch.testing.assert_close(step(fxc.to_fx(program), model, inputs), of_eager(name, differentiated))


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize(("start", "name"), CASES)
def test_without_a_pass(start: str, name: str) -> None:
    for pipeline in {"", *PREPARED.values()} if start == "lowered" else {""}:
        assert_eagers(prepared(start, name, pipeline), name)


@pytest.mark.share(16)
@pytest.mark.parametrize("pass_name", NAMES)
@pytest.mark.parametrize(("start", "name"), CASES)
def test_a_pass(start: str, name: str, pass_name: str) -> None:
    given = before(start, name, pass_name)
    if (start, name, pass_name) in REFUSED:
        with pytest.raises(PassError, match=REFUSED[start, name, pass_name]):
            fxc.run_passes(given, pass_name)
        return
    spec = SPECS.get(pass_name, pass_name)
    program = fxc.run_passes(given, spec, options=VERIFIED)
    after = str(program)
    assert text(start, name, pass_name, after=True) == after
    if is_idempotent(pass_name):
        assert str(fxc.run_passes(program, spec)) == after
    if text(start, name, pass_name, after=False) != after:
        assert_eagers(program, name, differentiated=pass_name not in WITHOUT_GRADIENTS)


OTHER_PROCESS_CASES = [("differentiated", "cond"), ("lowered", "cond"), ("lowered", "mlp")]
OTHER_PROCESS = """
import json, sys
from pathlib import Path
import fxc
from fxc.program.program import Program
cases = json.loads(sys.stdin.read())
found = []
for text, names in cases:
    program = Program.parse(text)
    found.append([str(fxc.run_passes(program, spec)) for spec in names])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_another_process_gives_the_same_text() -> None:
    """One with other hashes, that reads programs as text and runs the passes in another order.

    Each pass, on the first program that it changes, or on the last.
    """
    texts = dict[str, list[tuple[str, str]]]()
    for pass_name in sorted(available(), reverse=True):
        for case in OTHER_PROCESS_CASES:
            given, after = (text(*case, pass_name, after=after) for after in (False, True))
            if given != after or case == OTHER_PROCESS_CASES[-1]:
                texts.setdefault(given, []).append((pass_name, after))
                break
    cases = json.dumps([(given, [SPECS.get(name, name) for name, _ in expected]) for given, expected in texts.items()])
    environment = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    command = [sys.executable, "-c", OTHER_PROCESS]
    run = subprocess.run(command, input=cases, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    for expected, found in zip(texts.values(), json.loads(run.stdout), strict=True):
        for (pass_name, after), other in zip(expected, found, strict=True):
            assert other == after, pass_name
