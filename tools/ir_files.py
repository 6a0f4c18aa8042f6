"""Read the IR files of command lines."""

from __future__ import annotations

import sys
from pathlib import Path

from fxc.errors import InputError, ParseError


def read_text(file: str) -> str:
    """The text of a file, or of stdin for "-"."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"{file} is not UTF-8 text: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
