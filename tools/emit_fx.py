"""``--emit=fx`` and ``--emit=table``: a module as Python code or a table of FX nodes. Needs PyTorch, but no weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from fxc.dialects.attributes.types import SYMBOLS
from fxc.dialects.fx import TensorDeclOp
from fxc.program.execute import arguments
from fxc.program.program import Program
from fxc.tools.emitters import EmitOptions
from fxc.tools.write_python import PYTHON_IMPORTS

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from fxc.program.program import Program

COLUMNS = ("opcode", "name", "target", "args", "kwargs")


def emit_fx(module: ModuleOp, options: EmitOptions) -> str:
    return python_text(Program(module))


def emit_table(module: ModuleOp, options: EmitOptions) -> str:
    return table_text(Program(module))


def python_text(program: Program) -> str:
    """The graph and its submodules as Python."""
    code = graph_module(program).print_readable(print_output=False).strip()
    imports = [line for line in PYTHON_IMPORTS if f"{line.split()[-1]}." in code]
    return "\n".join([*imports, "", "", code]) + "\n"


def table_text(program: Program) -> str:
    """The nodes of the graph in the columns of ``Graph.print_tabular``; parameters are placeholders, as captured."""
    nodes = graph_module(program, lifted=True).graph.nodes
    return table(COLUMNS, [[node.op, node.name, node.target, node.args, node.kwargs] for node in nodes])


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns two spaces apart, a line of dashes under the header."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (list(header), *texts)) for column in range(len(header))]
    lines = [list(header), ["-" * width for width in widths], *texts]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in lines
    )


def graph_module(program: Program, lifted: bool = False) -> GraphModule:
    """The FX graph of ``program``. Tensors without a value are meta tensors, which is enough to show code."""
    from fxc.api import to_fx

    state = {**fake_tensors(program), **program.state}
    return to_fx(Program(program.module, state, program.live, program.context), lifted=lifted)


def fake_tensors(program: Program) -> dict[str, Any]:
    """A tensor without data for each tensor that the program names."""
    import torch

    from fxc.bridge.values import torch_dtype
    from fxc.interpret.example_values import Seeded

    maker = Seeded(program.module.attributes.get(SYMBOLS))
    named: dict[str, Any] = {op.sym.data: op.type for op in program.module.ops if isinstance(op, TensorDeclOp)}
    named |= {argument.name: argument.type for argument in arguments(program) if argument.is_state}
    return {
        name: torch.empty(maker.sizes(type), dtype=torch_dtype(type.element_type), device="meta")
        for name, type in named.items()
    }
