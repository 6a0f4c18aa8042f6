"""``torch.compile(model, backend="fxc")``: Dynamo's graph through AOTAutograd, each graph through the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx import GraphModule

from fxc.backends.fx import to_fx
from fxc.frontends.fx import import_fx
from fxc.options import Options


def fxc_backend(graph: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The backend: ``options`` are fields of ``fxc.Options``. Forward, backward and inference graphs run the same pipeline."""
    from fxc.api import run_options

    chosen = run_options(options)

    def compile_graph(aot_graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(_compile(aot_graph, chosen).forward)

    return aot_autograd(fw_compiler=compile_graph)(graph, inputs)  # type: ignore[no-any-return]


def _compile(graph: GraphModule, options: Options) -> GraphModule:
    from fxc.api import run_pipeline_on

    program = import_fx(graph)
    run_pipeline_on(program, options.pipeline, options)
    return to_fx(program)
