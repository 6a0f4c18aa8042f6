"""fxc: capture, run, translate and explain, one sub-command each. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from fxc.errors import nearest
from fxc.tools import (
    capture_commands,
    compile_command,
    distributed_commands,
    lookup_commands,
    memory_command,
    report_command,
    run_command,
    translate_command,
)
from fxc.tools.command_line import EXIT_CODES, exit_code, run_in_process, version_option

HELP = f"""Compile PyTorch models through MLIR text, and inspect every step.

\b
A first tour:
  fxc import examples/models/mlp.py:small -o mlp.mlir   capture a model; weights go to mlp.safetensors
  fxc report mlp.mlir                                   what is in it
  fxc run mlp.mlir --compare examples/models/mlp.py:small
                                                        run it, and compare with PyTorch
  fxc-opt mlp.mlir -p simplify                          run passes, see the text
  fxc translate mlp.mlir --to=fx                        back to Python
  fxc passes dce, fxc ops aten.add                      what a pass or an operator does

An IR file is data: reading it runs nothing. A SOURCE names Python code, which is run.

{EXIT_CODES}
"""


class Commands(click.Group):
    """Lists commands in the order in which a new user needs them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            hint = nearest(args[0], self.commands) or f"commands: {', '.join(self.commands)}"
            ctx.fail(f"there is no command {args[0]!r}\n  hint: {hint}")
        return super().resolve_command(ctx, args)


@click.group("fxc", cls=Commands, help=HELP, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@version_option
@click.option("--traceback", is_flag=True, help="Print Python's traceback with an error.")
def command(traceback: bool) -> None:
    pass


for _command in (
    capture_commands.import_command,
    run_command.run_command,
    compile_command.compile_command,
    translate_command.translate_command,
    report_command.report_command,
    memory_command.memory_command,
    distributed_commands.timeline_command,
    distributed_commands.measure_links_command,
    lookup_commands.passes_command,
    lookup_commands.ops_command,
):
    command.add_command(_command)


@command.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.argument("program", type=click.Choice(["fxc", "fxc-opt"]), default="fxc")
def completion_command(shell: str, program: str) -> None:
    """Print the completion script of fxc or fxc-opt.

    \b
    Examples:
      eval "$(fxc completion bash)"                       for this shell; in ~/.bashrc for every shell
      eval "$(fxc completion bash fxc-opt)"
      fxc completion zsh > ~/.zfunc/_fxc
      fxc completion fish > ~/.config/fish/completions/fxc.fish
    """
    completer = get_completion_class(shell)
    assert completer is not None
    parts = completer(command, {}, program, f"_{program.replace('-', '_').upper()}_COMPLETE")
    print(parts.source_template % parts.source_vars())
    if shell == "bash":  # it would complete what follows the colon of cuda:sm_90 as a word
        print("COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}")


def main() -> None:
    """The entry point of the console script."""
    sys.exit(_main(None))


def run(argv: Sequence[str], stdin_text: str = "") -> tuple[int, str, str]:
    """Run fxc inside this process: exit code, stdout, stderr."""
    return run_in_process(_main, argv, stdin_text)


def _main(argv: list[str] | None) -> int:
    return exit_code(command, argv, "fxc")
