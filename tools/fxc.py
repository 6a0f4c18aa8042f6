"""fxc: capture, run, translate and explain, one sub-command each. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from fxc.errors import nearest
from fxc.tools import capture_commands, compile_command, lookup_commands, report_command, run_command, translate_command
from fxc.tools.command_line import complain, exit_code, run_in_process

HELP = """Compile PyTorch models through MLIR text, and inspect every step.

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

Exit codes: 0, 1 with one message on stderr, 2 for a wrong command line.
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


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        found = list[str]()
        for name in ("fxc", "xdsl", "torch"):
            try:
                found.append(f"{name} {version(name)}")
            except PackageNotFoundError:
                found.append(f"{name} (not installed)")
        print(f"{found[0]} ({', '.join(found[1:])}, Python {sys.version.split()[0]})")
        context.exit()


@click.group("fxc", cls=Commands, help=HELP, context_settings={"max_content_width": 110, "help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version.")
@click.option("--traceback", is_flag=True, help="Print Python's traceback with an error.")
def command(traceback: bool) -> None:
    pass


for _command in (
    capture_commands.import_command,
    run_command.run_command,
    compile_command.compile_command,
    translate_command.translate_command,
    report_command.report_command,
    lookup_commands.passes_command,
    lookup_commands.ops_command,
):
    command.add_command(_command)


@command.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      eval "$(fxc completion bash)"                       for this shell; in ~/.bashrc for every shell
      fxc completion zsh > ~/.zfunc/_fxc
      fxc completion fish > ~/.config/fish/completions/fxc.fish
    """
    completer = get_completion_class(shell)
    assert completer is not None
    parts = completer(command, {}, "fxc", "_FXC_COMPLETE")
    print(parts.source_template % parts.source_vars())


def main() -> None:
    """The entry point of the console script."""
    sys.exit(_main(None))


def run(argv: Sequence[str], stdin_text: str = "") -> tuple[int, str, str]:
    """Run fxc inside this process: exit code, stdout, stderr."""
    return run_in_process(_main, argv, stdin_text)


def _main(argv: list[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    with_traceback = "--traceback" in words[:1]
    try:
        return exit_code(command, argv, "fxc")
    except Exception as error:  # other exceptions are bugs, and also become one message
        complain(error, with_traceback)
        return 1
