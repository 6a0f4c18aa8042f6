"""Find the line of a model in a stack, or in an error of PyTorch, and the reason of the error."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from traceback import FrameSummary

import torch

_PACKAGE = os.path.dirname(torch.__file__)
_PYTHON = sysconfig.get_path("stdlib")
_MODULES = os.path.join(_PACKAGE, "nn", "modules")
_FXC = os.path.dirname(os.path.dirname(__file__))
_CONTEXT = "Developer debug context:"


def user_line(stack: Sequence[FrameSummary]) -> str | None:
    """The innermost line of a model in ``stack``: of user code, or else of a module of PyTorch."""
    own = [
        frame for frame in stack if not frame.filename.startswith((_PACKAGE, _FXC, "<")) and not _is_of_python(frame.filename)
    ]
    modules = [frame for frame in stack if frame.filename.startswith(_MODULES) and not frame.filename.endswith("module.py")]
    for frame in (own or modules)[-1:]:
        return f"{frame.line}  ({os.path.basename(frame.filename)}:{frame.lineno})"
    return None


def _is_of_python(filename: str) -> bool:
    """Whether a file is of the standard library; packages that are installed below it are not."""
    return os.path.dirname(filename) == _PYTHON


def place_of_error(error: BaseException) -> str | None:
    """The line of a model at which ``error`` was raised, or, of an error of Dynamo, the one that it cannot trace."""
    stack: Sequence[FrameSummary] | None = getattr(error, "real_stack", None)
    return user_line(stack or traceback.extract_tb(error.__traceback__))


def reason_of(error: BaseException) -> str:
    """The first line of ``error``; of an error of Dynamo with the operator or the exception that it is about."""
    inner: BaseException | None = getattr(error, "inner_exception", None)  # of a backend that Dynamo called
    if inner is not None:
        return reason_of(inner)
    lines = str(error).strip().splitlines() or [""]
    found = [line.partition(_CONTEXT)[2].strip() for line in lines if _CONTEXT in line]
    return ": ".join([lines[0], *filter(None, found)])
