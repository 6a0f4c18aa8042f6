"""Find the line of a model in a stack."""

from __future__ import annotations

import os
from collections.abc import Sequence
from traceback import FrameSummary

import torch

_PACKAGE = os.path.dirname(torch.__file__)
_MODULES = os.path.join(_PACKAGE, "nn", "modules")
_FXC = os.path.dirname(os.path.dirname(__file__))


def user_line(stack: Sequence[FrameSummary]) -> str | None:
    """The innermost line of a model in ``stack``: of user code, or of a module of PyTorch."""
    for frame in reversed(stack):
        machinery = frame.filename.startswith((_PACKAGE, _FXC, "<")) and not frame.filename.startswith(_MODULES)
        if not machinery and not frame.filename.endswith(os.path.join("nn", "modules", "module.py")):
            return f"{frame.line}  ({os.path.basename(frame.filename)}:{frame.lineno})"
    return None
