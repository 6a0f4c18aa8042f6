"""Why ops that read each other are in different groups: one remark for each pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.fusion.fuse.candidates import Groups
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of
from fxc.passes.rewriting.remarks import remark

GRADIENT = "gradient: autograd does not differentiate ops in a group"
OPERATOR = "operator: groups do not take it with these operands"
LAST = "concatenation: it is the last of its group"
EFFECTS = "effects: a group moves past no write, random operator or other side effect"


def explain(groups: Groups, found: Sequence[Sequence[Operation]]) -> None:
    """Write a remark on each rejected merge of ``groups``; ``found`` are the final groups."""
    home = {op: number for number, members in enumerate(found) for op in members}
    said = set[tuple[Operation, Operation]]()
    for (i, j), rule in sorted(groups.refused.items()):
        a, b = groups.ops[i], groups.ops[j]
        place = home.get(b, b)
        b = next((reader for reader in _readers(a) if home.get(reader, reader) == place), b)
        if home.get(a, a) != place and (a, b) not in said:
            said.add((a, b))
            remark("fuse", rule, a, b)
    for op in groups.ops:
        if (rule := groups.exclusion(op)) is not None:
            remark("fuse", rule, op)
    for members in found:
        for op in members:
            for producer, rule in _excluded(groups, op, set(members)):
                if (producer, op) not in said:
                    remark("fuse", rule, producer, op)


def _excluded(groups: Groups, op: Operation, members: set[Operation]) -> Iterator[tuple[Operation, str]]:
    """The producers of operands of ``op`` that no group could contain, with the reason."""
    for producer in dict.fromkeys(value.owner for value in op.operands):
        if not isinstance(producer, TorchOp) or producer in members or is_constant(producer):
            continue
        if needs_gradient(producer):
            yield producer, GRADIENT
        elif producer not in groups.index and producer.parent is op.parent and groups.is_member(producer):
            yield producer, EFFECTS
        elif role_of(producer) is Role.CONCATENATION:
            yield producer, LAST
        elif producer not in groups.mergeable:
            yield producer, OPERATOR


def _readers(op: Operation) -> Iterator[Operation]:
    return (use.operation for result in op.results for use in result.uses)
