"""Kernels and operators that write over an input that nothing uses later."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.effects import RESHAPED_IN_PLACE, aliases, is_pure, may_keep
from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp, stream_of
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile.kernel import INIT
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.passes._statistics import count
from fxc.passes.plan._buffers import Buffers
from fxc.passes.plan._in_place import allow, writes_over


def overwrite_dying_inputs(block: Block) -> None:
    """Let launches of ``block`` write over an input of the same type that is released right behind, where their kernel may."""
    buffers, known = Buffers(), _Kernels()
    for op in buffers.walk(block):
        if isinstance(op, LaunchOp) and isinstance(op.next_op, FreeOp) and (kernel := op.kernel()) is not None:
            for place, out in enumerate(list(op.outs)):
                _overwrite(op, kernel, place, out, buffers, known)


def update_dying_operands(block: Block) -> None:
    """Let operators of ``block`` that allocate a result of the type of their first operand update that, where nothing else has
    its memory and it is released right behind."""
    for op in list(block.ops):
        if isinstance(op, TorchOp) and isinstance(op.next_op, FreeOp) and (variant := in_place_variant(op)) is not None:
            source = op.operands[0]
            if _ends_with(source, op):
                _update(op, variant, source)
                count("operators in place")


def _ends_with(source: SSAValue, op: TorchOp) -> bool:
    """Whether ``source`` is memory of its own, of no arena, of which there is no view and that nothing but ``op`` uses last."""
    release = op.next_op
    if not isinstance(release, FreeOp) or source not in release.values or [*op.operands].count(source) != 1:
        return False
    others = [use.operation for use in source.uses if use.operation not in (op, release)]
    users = [*others, *([source.owner] if isinstance(source.owner, TorchOp) else [])]
    return _is_fresh(source) and all(stream_of(each) == stream_of(op) and not _hands_on(each, source) for each in users)


def _is_fresh(value: SSAValue) -> bool:
    """Whether ``value`` is memory that the op which made it took for it alone."""
    made = value.owner
    if isinstance(made, AllocOp):
        return made.arena is None
    return isinstance(made, TorchOp) and is_pure(made) and all(made.results[index] is not value for index, _ in aliases(made))


def _hands_on(op: Operation, source: SSAValue) -> bool:
    """Whether ``op`` gives ``source`` another name, or may keep it."""
    named = (operand is source and op.results[index].first_use is not None for index, operand in aliases(op))
    return isinstance(op, FreeOp) or bool(op.regions) or op.has_trait(IsTerminator) or may_keep(op) or any(named)


def in_place_variant(op: TorchOp) -> type[TorchOp] | None:
    """``add_`` of ``add``: what computes the same into its first argument, of the type of the result; None if nothing does."""
    namespace, name, overload = op.operator.split(".")
    if namespace != "aten" or f"{name}_" in RESHAPED_IN_PLACE or len(op.results) != 1 or not is_pure(op) or any(aliases(op)):
        return None
    cls = op_class(f"torch.{namespace}.{name}_.{overload}")
    if cls is None or not issubclass(cls, TorchOp) or not cls.SCHEMA.arguments or not cls.SCHEMA.arguments[0].writes:
        return None
    source = op.bound()[op.SCHEMA.arguments[0].name]
    if not isinstance(source, SSAValue) or source.type != op.results[0].type:
        return None
    rest = cls.SCHEMA.arguments[1:]
    same = rest == op.SCHEMA.arguments[1:] and cls.SCHEMA.arguments[0].name == op.SCHEMA.arguments[0].name
    return cls if same and not any(argument.writes for argument in rest) else None


class _Kernels:
    """What is known of pairs of pointers: each is looked at once."""

    def __init__(self) -> None:
        self._known = dict[tuple[SSAValue, SSAValue], bool]()

    def may(self, kernel: KernelOp, read: int, written: int) -> bool:
        source, target = kernel.inputs()[read], kernel.outputs()[written]
        if (source, target) not in self._known:
            fresh = INIT not in kernel.argument_attributes(target)
            self._known[source, target] = fresh and writes_over(kernel, source, target)
        return self._known[source, target]


def _overwrite(op: LaunchOp, kernel: KernelOp, place: int, out: SSAValue, buffers: Buffers, known: _Kernels) -> None:
    if not isinstance(out.owner, AllocOp) or out.owner.arena is not None or out in buffers.used or out in op.inputs:
        return
    for index, source in enumerate(op.inputs[: len(kernel.inputs())]):
        if source.type == out.type and _dies(source, op, buffers) and known.may(kernel, index, place):
            allow(kernel, kernel.inputs()[index], kernel.outputs()[place])
            _merge(op, out, source)
            count("launches in place")
            return


def _dies(source: SSAValue, op: LaunchOp, buffers: Buffers) -> bool:
    """Whether ``source`` is a whole buffer that nothing else uses, on no stream, released right behind ``op``."""
    release, found = op.next_op, buffers.of.get(source, [])
    if not isinstance(release, FreeOp) or len(found) != 1 or found[0].op.buffer is not source or found[0].op.arena is not None:
        return False
    alone = found[0].names == {source} and not found[0].is_seen and buffers.is_over(found[0], stream_of(op))
    return alone and source in release.values and [*op.operands].count(source) == 1


def _merge(op: LaunchOp, out: SSAValue, source: SSAValue) -> None:
    """``source`` takes the place of ``out``; it is released when ``out`` was."""
    allocation = out.owner
    assert isinstance(allocation, Operation)
    _keep(source, op)
    out.replace_all_uses_with(source)
    Rewriter.erase_op(allocation)


def _update(op: TorchOp, variant: type[TorchOp], source: SSAValue) -> None:
    """``source`` takes the place of the result of ``op``; it is released when that was."""
    _keep(source, op)
    arguments = variant.divide(op.bound())
    call = variant.build_call(*arguments, op.result_types, attributes=op.attributes, location=op.location)
    Rewriter.replace_op(op, call, [source], safe_erase=False)


def _keep(source: SSAValue, op: Operation) -> None:
    """Drop the release of ``source`` right behind ``op``."""
    release = op.next_op
    assert isinstance(release, FreeOp)
    rest = [value for value in release.values if value is not source]
    if rest:
        release.operands = rest
    else:
        Rewriter.erase_op(release)
