"""Host programs as text, with what only the IR knows of their kernels."""

from __future__ import annotations

from fxc.codegen.cpu.python_entry import ENTRY
from fxc.dialects.target import CpuAttr, target_of
from fxc.program.program import Program
from fxc.runtime.host_program import HostProgram
from fxc.runtime.program_text import HostText, program_text


def host_text(program: Program, host: HostProgram) -> HostText | None:
    """``host``, which was made of ``program``, as text; None where it has no kernels of machine code, or where text cannot say
    it: what is computed once, modules, functions of the process."""
    target = target_of(program.module)
    text = None if host.code is None else program_text(host, program.state, host.code.names)
    return None if text is None else HostText(text, target.features.data if isinstance(target, CpuAttr) else "", ENTRY)
