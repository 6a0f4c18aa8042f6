"""Shared parts of ``fxc`` and ``fxc-opt``: files, messages, progress, exit codes, completion, and running in process."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click

from fxc.errors import WRITE_ELSEWHERE, FxcError, InputError, ParseError, nearest_file

PATIENCE = 0.5
"""Seconds before a step that still runs is shown."""

EXIT_CODES = "Exit codes: 0, 1 with one message on stderr, 2 for a wrong command line, 130 after Ctrl-C."


def complain(error: BaseException, with_traceback: bool = False) -> None:
    """Print one error message to stderr."""
    if with_traceback:
        traceback.print_exception(error, file=sys.stderr)
        return
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, FxcError):
        print_error(f"{error}{notes}")
    else:
        text = str(error).strip().split("\n")[0]
        print_error(f"{type(error).__name__}: {text}{notes}\n  hint: --traceback as the first argument shows where")


def is_terminal() -> bool:
    """Whether stderr is a terminal; a process may have none."""
    return bool(sys.stderr and sys.stderr.isatty())


def print_error(text: str) -> None:
    """Print an error to stderr: on a terminal in red, its hints dimmed, unless NO_COLOR is set."""
    text = f"error: {text}"
    if is_terminal() and not os.environ.get("NO_COLOR"):
        text = re.sub("^error:", click.style("error:", fg="red", bold=True), text)
        text = re.sub(r"^  hint: .*", lambda found: click.style(found.group(), dim=True), text, flags=re.MULTILINE)
    print(text, file=sys.stderr)


def say(text: str) -> None:
    """Print a line for the user, to stderr."""
    print(text, file=sys.stderr)


def write_output(path: str | Path | None, text: str) -> None:
    """Write to the file, or to stdout without one. InputError where it cannot be written."""
    if path is None or str(path) == "-":
        if cast(Any, sys.stdout) is None:
            raise InputError("stdout is closed", hint="-o FILE writes to a file")
        with writing("stdout"):
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
    except BrokenPipeError:  # the reader, such as head, has what it wants
        raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}", hint=WRITE_ELSEWHERE) from error
    except SafetensorError as error:
        raise InputError(f"cannot write {path}: {error}", hint=WRITE_ELSEWHERE) from error


def check_writable(path: str | Path | None) -> None:
    """InputError where the file ``path`` cannot be written, to call before long work. What is in the file stays."""
    if path is None or str(path) == "-":
        return
    with writing(path):
        is_new = not Path(path).exists()
        Path(path).open("ab").close()
    if is_new:
        Path(path).unlink()


@contextmanager
def progress(doing: str) -> Generator[None]:
    """Show on a terminal that a long step is running, and for how long; prints nothing elsewhere."""
    if not is_terminal():
        yield
        return
    with contextlib.ExitStack() as shown:
        timer = threading.Timer(PATIENCE, lambda: shown.enter_context(_spinner(doing)))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


@contextmanager
def _spinner(doing: str) -> Generator[None]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    # Rich would print what goes to stdout on its own console, which is stderr.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as shown:
        shown.add_task(doing, total=None)
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
    stdout: Any = sys.stdout
    try:
        code = command.main(argv, prog_name=name, standalone_mode=False) or 0
        if stdout is not None:
            with writing("stdout"):
                sys.stdout.flush()
        return code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.ClickException as error:
        print_error(error.format_message().replace("\n\t", " ") + _help_hint(error))
        return error.exit_code
    except click.Abort:
        return 130
    except (BrokenPipeError, SystemExit) as error:  # click raises the latter for the former, and replaces stdout
        if isinstance(error, SystemExit) and sys.stdout is stdout:
            raise  # by code of the user
        sys.stdout = None  # the reader of the pipe, such as head, has closed it; flush nothing at exit
        return 0
    except Exception as error:  # other exceptions are bugs, and also become one message
        complain(error, "--traceback" in (sys.argv[1:] if argv is None else argv))
        return 1


def _help_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    if context is None or "  hint: " in error.format_message():
        return ""
    return f"\n  hint: {context.command_path} --help shows the arguments and options"


def version_option(function: Any) -> Any:
    """Add ``--version``: the versions of fxc, xDSL, PyTorch and Python. Imports none of them."""
    option = click.option(
        "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
    )
    return option(function)


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


def read_text(file: str) -> str:
    """The text of a file, or of stdin for "-"."""
    if file == "-" and cast(Any, sys.stdin) is None:
        raise InputError("stdin is closed", hint="name a file")
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(
            f"{file} is not UTF-8 text: {error}", hint="give an IR file, such as fxc import SOURCE -o FILE writes"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}", hint=nearest_file(file)) from error


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


def complete_target(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from fxc.dialects.target import GPU, HOST, PRESETS

    return [name for name in (HOST, GPU, *PRESETS) if name.startswith(incomplete)]


def pass_names() -> list[str]:
    from fxc.driver.registry import PassRegistry
    from fxc.pipelines import NAMED

    return [*PassRegistry().names(), *NAMED]
