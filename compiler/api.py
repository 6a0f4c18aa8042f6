"""The public functions: capture, passes, export, compile. Wiring only."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from fxc.backends.fx import to_fx
from fxc.errors import PipelineError, nearest
from fxc.frontends.capture import Model, capture
from fxc.frontends.fx import import_fx
from fxc.instrumentation import Instrumentation
from fxc.options import Options
from fxc.pass_registry import PassRegistry
from fxc.pipeline import Step, parse_pipeline
from fxc.print_ir import PrintIR
from fxc.program import Program
from fxc.runner import RunOptions, run_pipeline
from fxc.runtime.compiled import Compiled
from fxc.signature import signature_of
from fxc.timing import Timer

if TYPE_CHECKING:
    from torch.fx import GraphModule

__all__ = ["capture", "compile", "import_fx", "run_passes", "to_fx"]


def run_passes(
    program: Program,
    pipeline: str,
    *,
    options: Options | None = None,
    passes: Sequence[type] = (),
) -> Program:
    """A new program: ``program`` after ``pipeline`` (``"canonicalize,cse,dce"``); the given one is not changed.

    ``passes``: pass classes of your own that the pipeline may name. Raises PipelineError for an unknown pass or option,
    PassError where a pass fails, NumericsError where ``options.check_numerics`` finds a pass that changes the numbers.
    """
    result = program.copy()
    registry = PassRegistry()
    for extra in passes:
        registry = registry.with_pass(extra)
    run_pipeline_on(result, pipeline, options or Options.from_env(), registry)
    return result


def compile(
    model: Model,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    dynamic_shapes: Any = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Compiled:
    """Captures ``model`` at example inputs, runs the pipeline, and gives a callable with ``.ir`` and ``.plan``.

    The callable takes what ``model`` takes, of the dtypes, devices and sizes of the example (``dynamic_shapes``, as
    torch.export has it, frees sizes), and returns what it returns. Parameters stay the model's own: training the model
    trains the callable.
    ``training``: whether results carry gradients. The model's train or eval mode is baked in as it is now. Raises CaptureError
    where the model cannot be captured; calling raises InputError for inputs that do not fit.
    """
    chosen = run_options(options)
    captured = capture(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    signature = signature_of(captured)
    run_pipeline_on(captured, chosen.pipeline, chosen)
    return Compiled(captured, to_fx(captured), signature, training)


def compile_graph(graph: GraphModule, options: Options) -> GraphModule:
    """An FX graph after the pipeline that ``options`` name: what the torch.compile backend does to each graph."""
    program = import_fx(graph)
    run_pipeline_on(program, options.pipeline, options)
    return to_fx(program)


def run_options(options: Options | Mapping[str, Any] | None) -> Options:
    """``options`` over what the environment says. PipelineError for a field that Options does not have."""
    if isinstance(options, Options):
        return options
    names = [field.name for field in fields(Options)]
    for name in options or {}:
        if name not in names:
            raise PipelineError(f"fxc has no option {name!r}", hint=nearest(name, names) or f"options: {', '.join(names)}")
    return replace(Options.from_env(), **(options or {}))


def run_pipeline_on(program: Program, pipeline: str, options: Options, registry: PassRegistry | None = None) -> None:
    """Runs pipeline text over ``program`` in place, watched as ``options`` say."""
    steps: tuple[Step, ...] = tuple(parse_pipeline(pipeline, registry))
    timer = Timer()
    watchers = list[Instrumentation]()
    if options.print_ir:
        watchers.append(PrintIR(sys.stderr.write, after_change=True))
    if options.check_numerics:
        from fxc.semantics.check_numerics import CheckNumerics

        watchers.append(CheckNumerics(program))
    run_pipeline(
        program.context,
        program.module,
        steps,
        RunOptions(verify_each=options.verify_each, instrumentations=tuple(watchers), timer=timer),
    )
    if options.timing:
        for name, wall, share, cpu, _ in timer.rows():
            print(f"{name:40} {wall:9.1f} ms {share:6.1%} cpu {cpu:9.1f} ms", file=sys.stderr)
