"""Shared parts of ``fxc`` and ``fxc-opt``: files, messages, progress, exit codes, completion, and running in process."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from fxc.errors import FxcError, InputError, ParseError


def complain(error: BaseException, with_traceback: bool = False) -> None:
    """Print one error message to stderr."""
    if with_traceback:
        traceback.print_exception(error, file=sys.stderr)
        return
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, FxcError):
        print(f"error: {error}{notes}", file=sys.stderr)
    else:
        text = str(error).strip().split("\n")[0]
        hint = "\n  hint: fxc --traceback ... shows where"
        print(f"error: {type(error).__name__}: {text}{notes}{hint}", file=sys.stderr)


def say(text: str) -> None:
    """Print a line for the user, to stderr."""
    print(text, file=sys.stderr)


def write_output(path: str | Path | None, text: str) -> None:
    """Write to the file, or to stdout without one. InputError where it cannot be written."""
    if path is None or str(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with writing(path):
        Path(path).write_text(text, encoding="utf-8")


@contextmanager
def writing(path: str | Path) -> Generator[None]:
    """Convert a failure to write ``path`` to an InputError."""
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    except SafetensorError as error:
        raise InputError(f"cannot write {path}: {error}") from error


@contextmanager
def progress(doing: str) -> Generator[None]:
    """Show on a terminal that a long step is running; prints nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


def run_in_process(main: Callable[[list[str]], int], argv: Sequence[str], stdin_text: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``main(argv)``."""
    out, err, stdin = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(stdin_text)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(argv))
    finally:
        sys.stdin = stdin
    return code, out.getvalue(), err.getvalue()


def exit_code(command: click.Command, argv: Sequence[str] | None, name: str) -> int:
    """The exit code of ``command``, shown to the user as ``name``. ``argv``: its arguments, by default those of the process."""
    try:
        return command.main(argv, prog_name=name, standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        print(f"error: {error.format_message()}", file=sys.stderr)
        return error.exit_code
    except click.Abort:
        return 130
    except BrokenPipeError:
        sys.stdout = None  # the reader of the pipe, such as head, has closed it; flush nothing at exit
        return 0


def read_text(file: str) -> str:
    """The text of a file, or of stdin for "-"."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"{file} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def complete_pipeline(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names that can follow an incomplete pipeline."""
    typed = re.split(r"(?<=[,(])", incomplete)
    before, last = "".join(typed[:-1]), typed[-1]
    return [before + name for name in pass_names() if name.startswith(last)]


def complete_pass(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in pass_names() if name.startswith(incomplete)]


def complete_op(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from fxc.tools.op_help import known_ops

    names = known_ops() if incomplete.startswith("torch.") else [name.removeprefix("torch.") for name in known_ops()]
    return [name for name in names if name.startswith(incomplete)]


def pass_names() -> list[str]:
    from fxc.driver.registry import PassRegistry
    from fxc.pipelines import NAMED

    return [*PassRegistry().names(), *NAMED]
