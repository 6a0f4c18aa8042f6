"""FX to IR to text to IR to FX: the graph that comes back is the one that went in, for every model and capture route."""

from __future__ import annotations

import pytest
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils._pytree import tree_structure

import fxc
from fxc.dialects.verify.verifier import verify
from fxc.program.program import Program
from tests.graph_equality import assert_same_graph
from tests.models.captures import EXPORTING, capture_of, case_name, cases, kept, model_of

CASES = cases()
OTHER_FORMS = [
    (name, train, route)
    for name, train, route in CASES
    if not train and (route in ("symbolic_trace", "export_dynamic") or name in ("cond", "mlp"))
]


def read_back(program: Program, text: str) -> Program:
    parsed = Program.parse(text, program.state)
    verify(parsed.module)
    parsed.live = program.live
    return parsed


@pytest.mark.slow
@pytest.mark.share(24)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_graph_comes_back_from_text(case: tuple[str, bool, str]) -> None:
    captured = capture_of(*case)
    program = fxc.import_fx(captured)
    verify(program.module)

    text = program.text(debuginfo=True)
    parsed = read_back(program, text)
    assert parsed.text(debuginfo=True) == text
    graph = fxc.to_fx(parsed, lifted=True)
    assert_same_graph(captured.graph, graph.graph)
    assert_same_state(captured, graph, parsed)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("case", OTHER_FORMS, ids=case_name)
def test_other_forms_of_text(case: tuple[str, bool, str]) -> None:
    """Names need no locations, and MLIR's generic form says the same."""
    captured = capture_of(*case)
    program = fxc.import_fx(captured)
    for generic in (False, True):
        text = program.text(generic=generic)
        parsed = read_back(program, text)
        assert parsed.text(generic=generic) == text
        if not generic or case[0] != "cond":  # in the generic form a region's names are made unique
            assert_same_graph(captured.graph, fxc.to_fx(parsed, lifted=True).graph, traces=False)


def assert_same_state(captured: GraphModule | ExportedProgram, graph: GraphModule, program: Program) -> None:
    """The same tensors under the same names, as parameters or buffers, persistent or not, as they were."""
    if isinstance(captured, ExportedProgram):
        for name, tensor in {**captured.state_dict, **captured.constants}.items():
            if name in program.state:
                assert program.state[name] is tensor
        assert captured.state_dict.keys() <= program.state.keys() | dict(captured.constants).keys()
        return
    assert identities(graph.named_parameters(remove_duplicate=False)) == identities(
        captured.named_parameters(remove_duplicate=False)
    )
    assert identities(graph.named_buffers(remove_duplicate=False)) == identities(captured.named_buffers(remove_duplicate=False))
    assert graph.state_dict().keys() == captured.state_dict().keys()


def identities(named: object) -> dict[str, int]:
    return {name: id(tensor) for name, tensor in named}  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", [c for c in cases(EXPORTING) if not c[1]], ids=case_name)
def test_imported_graph_runs_as_the_model(case: tuple[str, bool, str]) -> None:
    name, train, _ = case
    model, inputs = model_of(name, train)
    graph = fxc.to_fx(fxc.import_fx(capture_of(*case)))
    with torch.no_grad(), kept(model):
        expected, actual = model(*inputs), graph(*inputs)
    assert tree_structure(actual) == tree_structure(expected)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
