"""``torch.compile(model, backend="fxc")``: Dynamo's graph through AOTAutograd, each graph through the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule


def fxc_backend(graph: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The backend: ``options`` are fields of ``fxc.Options``. Forward, backward and inference graphs run the same pipeline."""
    from fxc.api import compile_graph, run_options

    chosen = run_options(options)

    def compile_boxed(aot_graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(compile_graph(aot_graph, chosen))

    return aot_autograd(fw_compiler=compile_boxed)(graph, inputs)  # type: ignore[no-any-return]
