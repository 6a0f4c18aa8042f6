"""Options and arguments that are none: one error, before anything is captured."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fxc
from fxc.errors import PipelineError

X = torch.ones(3)


@pytest.mark.parametrize(
    "options",
    [
        {"memory_budget": "64XB"},
        {"memory_budget": "-5MiB"},
        {"memory_budget": ""},
        {"memory_budget": float("inf")},
        {"memory_budget": "1e400"},
        {"offload": "x"},
    ],
)
def test_memory_options_that_are_no_sizes(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PipelineError, match="a budget is a fraction from 0 to 1, or bytes"):
        fxc.compile(torch.sin, (X,), options=options)
    ((name, value),) = options.items()
    monkeypatch.setenv(f"FXC_{name.upper()}", str(value))
    with pytest.raises(PipelineError, match=r"a budget is a fraction|it takes"):
        fxc.compile(torch.sin, (X,))


def test_wrong_kinds_of_arguments() -> None:
    with pytest.raises(PipelineError, match="fxc has no option 5"):
        fxc.compile(torch.sin, (X,), options={5: 3})  # type: ignore[dict-item]
    for pipeline in (None, torch.nn.ReLU(), ["cse"]):
        with pytest.raises(PipelineError, match=r'a text is expected\n.*"cse,dce"'):
            fxc.run_passes(fxc.capture(torch.sin, (X,)), pipeline)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="FXC_CACHE_SIZE is '9"):
        fxc.Options.from_env({"FXC_CACHE_SIZE": "9" * 5000})
