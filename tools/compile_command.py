"""``fxc compile``: from a model to a folder with the IR of each stage, the kernels and the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fxc.tools.capture_commands import SOURCE_HELP, capture_options
from fxc.tools.command_line import complete_pipeline, complete_target, progress, write_output
from fxc.tools.emitters import EMITTERS, EmitOptions, emit
from fxc.tools.sources import check_source

HELP = f"""Compile a model, and write every step to a folder.

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
  fxc compile examples/models/mlp.py:small -o build/mlp --target=cuda:sm_90 --device=cuda
  fxc compile examples/models/mlp.py:small --target=host --emit=llvm
  fxc compile examples/models/gpt2.py:small -o build/gpt2 --target=host --remarks
  fxc compile model.py -o build/model --target=interpret    kernels for the interpreter, which checks each memory access
  fxc compile model.py -o build/model -p lower-to-torch,canonicalize,cse,dce
"""


class _TargetOption(click.Option):
    """An option whose help lists the machines. Only that help imports them."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from fxc.dialects.target import target_names

        self.help = f"Generate kernels for this machine: {target_names()}."
        return super().get_help_record(ctx)


def pipeline_options(function: Any) -> Any:
    """The options of both commands that run the passes of a compilation."""
    passes = click.option(
        "-p", "--pipeline", metavar="TEXT", shell_complete=complete_pipeline, help="Passes to run, instead of the default."
    )
    return passes(click.option("--target", cls=_TargetOption, metavar="NAME", shell_complete=complete_target)(function))


@click.command("compile", help=HELP)
@capture_options
@click.option(
    "-o", "output", metavar="DIR", type=click.Path(file_okay=False), help="Write the compiled program to this folder."
)
@click.option("--emit", "emitted", type=click.Choice(list(EMITTERS)), help="Print the result in this format.")
@pipeline_options
@click.option("--device", metavar="NAME", help="Compile for tensors on this device, which this machine need not have.")
@click.option("--check-numerics", is_flag=True, help="Run the program before and after every pass and compare the numbers.")
@click.option("--remarks", is_flag=True, help="Print which operations were not fused or compiled, why, and their source lines.")
def compile_command(
    source: str,
    route: str,
    dynamic_shapes: tuple[str, ...],
    train: bool,
    output: str | None,
    emitted: str | None,
    pipeline: str | None,
    target: str | None,
    device: str | None,
    check_numerics: bool,
    remarks: bool,
) -> None:
    if output is None and emitted is None:
        raise click.UsageError("nothing to write: give -o DIR, --emit=FORMAT, or both")
    check_source(source)
    with progress("loading PyTorch"):
        from fxc.tools.compile_program import Request, compile_program

    request = Request(source, route, dynamic_shapes, train, pipeline, target, check_numerics, remarks, device)
    program = compile_program(request, None if output is None else Path(output))
    if emitted is not None:
        write_output(None, emit(emitted, program.module, EmitOptions()))
