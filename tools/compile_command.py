"""``fxc compile``: from a model to a folder with the IR of each stage, the kernels and the plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from fxc.driver.pipeline_text import PassSpec, Spec, parse, to_text
from fxc.errors import PlanFileError
from fxc.passes.rewriting.remarks import remarking
from fxc.pipelines import INFERENCE, NAMED, TRAINING
from fxc.tools.capture_commands import SOURCE_HELP, capture_options, capture_source
from fxc.tools.command_line import progress, say, write_output, writing
from fxc.tools.completions import complete_pipeline
from fxc.tools.emitters import EMITTERS, EmitOptions, emit

if TYPE_CHECKING:
    from fxc.driver.named_pipeline import Flow
    from fxc.options import Options
    from fxc.program.program import Program
    from fxc.runtime.signature import Signature

HELP = f"""Compile a model, and leave every step in a folder.

\b
The folder holds
  01-captured.mlir, 02-torch.mlir, ...  the IR as captured, and after each stage of the pipeline; fxc run runs each of them
  weights.safetensors                 the weights of all of them
  plan.zip                            the compiled program: fxc.ExecutionPlan.load runs it
  graph.py                            the resulting FX graph as Python
  kernels.ll, or kernels/             with --target: LLVM IR for a CPU; for a GPU Triton source, and binaries if Triton is there

{SOURCE_HELP}
\b
Examples:
  fxc compile examples/models/mlp.py:small -o build/mlp
  fxc compile examples/models/mlp.py:small -o build/mlp --target=cuda:sm_90
  fxc compile examples/models/mlp.py:small --target=host --emit=llvm
  fxc compile examples/models/gpt2.py:small -o build/gpt2 --target=host --remarks
  fxc compile model.py -o build/model --target=interpret    kernels for the interpreter that checks each access of memory
  fxc compile model.py -o build/model -p lower-to-torch,canonicalize,cse,dce
"""

STAGES: Mapping[str, str] = MappingProxyType(
    {
        "lower-to-torch": "torch",
        "torchscript": "fused",
        "convert-fusion-to-linalg": "linalg",
        "schedule": "scheduled",
        "tile": "tile",
        "lower-to-plan": "plan",
    }
)
"""What the IR after a pass, or a named pipeline, is called. Others have the name of the pass."""

CAPTURED = "captured"

EXPLAINED = ("fuse", "convert-to-plan")
"""The passes whose remarks ``--remarks`` prints."""


@dataclass(frozen=True)
class Stage:
    """``pipeline``: the passes that lead from the stage before to this one; none to the first."""

    name: str
    pipeline: tuple[Spec, ...] = ()


def stages_of(pipeline: str) -> list[Stage]:
    """The stages that a program goes through, from its capture on. A named pipeline is one, or is made of several."""
    return [Stage(CAPTURED), *(stage for spec in parse(pipeline) for stage in _stages(spec))]


def _stages(spec: Spec) -> Iterator[Stage]:
    """What no name of a stage belongs to, within a named pipeline that has some, is a part of the next stage."""
    inner = NAMED[spec.name].specs(spec.name, spec.options) if isinstance(spec, PassSpec) and spec.name in NAMED else ()
    if _name(spec) in STAGES.values() or not any(_name(each) in STAGES.values() for each in inner):
        yield Stage(_name(spec), (spec,))
        return
    passes = list[Spec]()
    for each in inner:
        passes.append(each)
        if _name(each) in STAGES.values():
            yield Stage(_name(each), tuple(passes))
            passes = []
    if passes:
        yield Stage(_name(passes[-1]), tuple(passes))


def _name(spec: Spec) -> str:
    return STAGES.get(spec.name, spec.name) if isinstance(spec, PassSpec) else spec.op_name


@click.command("compile", help=HELP)
@capture_options
@click.option("-o", "output", metavar="DIR", type=click.Path(file_okay=False), help="The folder.")
@click.option("--emit", "emitted", type=click.Choice(list(EMITTERS)), help="Print the result in this form.")
@click.option(
    "-p", "--pipeline", metavar="TEXT", shell_complete=complete_pipeline, help="Passes to run, instead of the default."
)
@click.option(
    "--target", metavar="NAME", help="Make kernels for a machine: host, cpu:avx2, cuda:sm_90, rocm:gfx942, interpret."
)
@click.option("--check-numerics", is_flag=True, help="Run before and after every pass and compare the numbers.")
@click.option("--remarks", is_flag=True, help="Print what could not be put into one kernel, and why, with your lines.")
def compile_command(
    source: str,
    route: str,
    dynamic_shapes: tuple[str, ...],
    train: bool,
    output: str | None,
    emitted: str | None,
    pipeline: str | None,
    target: str | None,
    check_numerics: bool,
    remarks: bool,
) -> None:
    if output is None and emitted is None:
        raise click.UsageError("nothing is to be written: give -o DIR, --emit=FORMAT, or both")
    from fxc.api import lowering, pipeline_for, with_machine
    from fxc.driver.timing import Timer
    from fxc.options import Options

    options = Options.from_env()
    options = replace(
        options,
        pipeline=pipeline or options.pipeline,
        target=target or options.target,
        check_numerics=check_numerics or options.check_numerics,
    )
    flow = TRAINING if train else INFERENCE
    _refuse_wrong_names(options, flow)  # before a model is captured
    program, args = capture_source(source, route, dynamic_shapes, train)
    options = with_machine(options, flow, program)
    program.group_limit = options.group_limit
    stages = stages_of(pipeline_for(flow, options))
    signature = _specialized(program, args, options, train)
    folder = None if output is None else Path(output)
    if folder is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    digits = len(str(len(stages)))
    for number, stage in enumerate(stages, 1):
        shown = progress(f"stage {number} of {len(stages)}: {stage.name}")
        with shown, remarking(EXPLAINED if remarks else (), sys.stderr.write):
            lowering(to_text(stage.pipeline), options, Timer(), lambda _: None).run(program)
        if folder is not None:
            _write(folder / f"{number:0{digits}}-{stage.name}.mlir", program.text(debuginfo=stage.name == CAPTURED))
    if folder is not None:
        _write_results(program, folder, options, signature, train)
    if emitted is not None:
        write_output(None, emit(emitted, program.module, EmitOptions()))


def _refuse_wrong_names(options: Options, flow: Flow) -> None:
    """PipelineError for a pass, an option of one or a machine that there is not."""
    from fxc.api import pipeline_for
    from fxc.codegen.contract import target_named
    from fxc.options import AUTO
    from fxc.pipelines import parse_pipeline

    parse_pipeline(pipeline_for(flow, options))
    if options.target not in (None, AUTO):
        target_named(options.target)


def _specialized(program: Program, args: tuple[Any, ...], options: Options, train: bool) -> Signature:
    """The signature of ``program``, which is told what ``fxc.compile`` tells it of a call with ``args``."""
    from fxc.program.program_signature import signature_of, with_constants
    from fxc.program.specialization import mark_gradients

    signature = with_constants(signature_of(program), args, {})
    if train:
        mark_gradients(program, signature, args, {})
    return signature


def _write(path: Path, text: str) -> None:
    write_output(path, text)
    say(f"wrote {path}")


def _write_results(program: Program, folder: Path, options: Options, signature: Signature, train: bool) -> None:
    from fxc.artifact import plan_file
    from fxc.program.program import SHARED_WEIGHTS
    from fxc.program.weights import save_state
    from fxc.tools.emit_fx import python_text
    from fxc.tools.kernel_files import write_kernels

    if program.state:
        with writing(folder / SHARED_WEIGHTS), progress("writing the weights"):
            save_state(program.state, folder / SHARED_WEIGHTS)
        say(f"wrote {folder / SHARED_WEIGHTS}")
    _write(folder / "graph.py", python_text(program))
    if options.target is not None:
        write_kernels(program, folder)
    try:
        with progress("writing the plan"):
            plan_file.write(folder / "plan.zip", plan_file.Contents(program, signature, train))
        say(f"wrote {folder / 'plan.zip'}")
    except PlanFileError as error:
        say(f"no plan: {error.message}")
