"""The formats of ``fxc-opt --emit``. An emitter is a function ``(module, EmitOptions) -> str``, imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from fxc.errors import FxcError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

EMITTERS: Mapping[str, str] = MappingProxyType(
    {
        "mlir": "fxc.tools.emitters:emit_mlir",
        "fx": "fxc.tools.emit_fx:emit_fx",
        "table": "fxc.tools.emit_fx:emit_table",
        "triton": "fxc.tools.emit_kernels:emit_triton",
        "llvm": "fxc.tools.emit_kernels:emit_llvm",
        "dot": "fxc.tools.emit_dot:emit_dot",
        "svg": "fxc.report.svg:emit_svg",
    }
)
"""Name -> ``module:function``. A new emitter is a new line."""


@dataclass(frozen=True)
class EmitOptions:
    """Print options of IR text. Emitters of other formats ignore options that do not apply to them."""

    debuginfo: bool = False
    generic: bool = False


def emit(name: str, module: ModuleOp, options: EmitOptions) -> str:
    """The text of ``module`` in the format ``name``, a key of ``EMITTERS``. FxcError for any exception of the emitter."""
    path, function = EMITTERS[name].split(":")
    try:
        return getattr(importlib.import_module(path), function)(module, options)
    except (FxcError, RecursionError):
        raise
    except Exception as error:  # a bug of the emitter also becomes one message
        text = (str(error).strip().splitlines() or [""])[0]
        message = f"the module cannot be written as {name}: {type(error).__name__}: {text}"
        raise FxcError(message, hint="--traceback shows where") from error


def emit_mlir(module: ModuleOp, options: EmitOptions) -> str:
    from fxc.dialects.text.syntax import print_module

    return print_module(module, debuginfo=options.debuginfo, generic=options.generic)
