"""Joint graphs of forward and backward: which operations each part needs, and which values the backward takes from the forward.

A joint graph is an entry function without mutation, except of arguments. ``dialects/autodiff`` documents its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, TupleType, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from fxc.dialects.attributes.types import NUMBERS, is_tensor, layout, strides
from fxc.dialects.attributes.values import leaves
from fxc.dialects.autodiff import FORWARD_RESULTS, HELD, OFFLOADED, PART, RECOMPUTED, SAVED, TANGENT, WRITTEN
from fxc.dialects.base.effects import has_side_effect, is_random, writes
from fxc.dialects.entry import ArgumentFacts, argument_attributes, find_entry
from fxc.dialects.fx import GetAttrOp, OutputOp
from fxc.dialects.plan.types import is_dense
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.written_arguments import MUTATES

_OF_OPERATIONS, _OF_ARGUMENTS = (SAVED, RECOMPUTED, PART, OFFLOADED), (TANGENT, WRITTEN, HELD)
_MARKS = (*_OF_OPERATIONS, *_OF_ARGUMENTS)


def check_marks(function: FuncOp) -> int:
    """The number of results of the forward. OpPassFailedException for a mark of ``function`` that no pass would obey."""
    if not isinstance(count := function.attributes.get(FORWARD_RESULTS), IntegerAttr):
        raise OpPassFailedException(f"{FORWARD_RESULTS} is {count}, but an integer is expected", function)
    for argument, attributes in zip(function.args, argument_attributes(function), strict=True):
        for name, value in attributes.data.items():
            if name in _OF_OPERATIONS:
                hint = f"remove {name}, as a primal that the backward reads is always saved"
                raise OpPassFailedException(f"the argument %{argument.name_hint} cannot be marked: {hint}", function)
            if name in _OF_ARGUMENTS:
                _check_unit(name, value, function)
    for op in function.body.walk():
        for name, value in op.attributes.items():
            if name in _OF_ARGUMENTS or (name.startswith("autodiff.") and _is_misspelled(name)):
                raise OpPassFailedException(f"{name} is no mark of an operation; {', '.join(_OF_OPERATIONS)} are", op)
            if name in _OF_OPERATIONS:
                if op.parent_op() is not function:
                    raise OpPassFailedException(f"{name} is in a region; mark the operation around it", op)
                _check_mark(name, value, op)
    return count.value.data


def _check_mark(name: str, value: Attribute, op: Operation) -> None:
    if name == RECOMPUTED:
        _check_unit(name, value, op)
    elif name == PART and value not in (StringAttr("forward"), StringAttr("backward")):
        raise OpPassFailedException(f'{PART} is {value}, but "forward" or "backward" is expected', op)
    elif name in (SAVED, OFFLOADED):
        indices = _indices(value)
        is_tuple = len(op.results) == 1 and isinstance(op.results[0].type, TupleType)
        if min(indices, default=0) < 0 or (not is_tuple and max(indices, default=-1) >= len(op.results)):
            message = f"{name} is {value}, but an array<i64> of indices of the {len(op.results)} results is expected"
            raise OpPassFailedException(message, op)
        if name == OFFLOADED and not set(indices) <= set(_indices(op.attributes.get(SAVED))):
            raise OpPassFailedException(f"{OFFLOADED} is {value}, but not all of these results are marked {SAVED}", op)


def _indices(value: Attribute | None) -> list[int]:
    """The numbers of an array<i64>; -1 for another attribute."""
    if isinstance(value, DenseArrayBase) and value.elt_type == i64:
        return [int(i) for i in value.get_values()]
    return [-1]


def _check_unit(name: str, value: Attribute, op: Operation) -> None:
    if not isinstance(value, UnitAttr):
        raise OpPassFailedException(f"{name} has no value, but here it is {value}; remove the value, or the mark", op)


def _is_misspelled(name: str) -> bool:
    """Whether ``name`` is nearly that of a mark. Other attributes of the dialect have other users."""
    return name not in _MARKS and any(name.startswith(mark[:-1]) or mark.startswith(name) for mark in _OF_OPERATIONS)


Leaf = SSAValue | Attribute
"""What a function returns at one place: a value, or a constant such as none."""


@dataclass(frozen=True)
class JointGraph:
    """The joint graph in ``function``.

    ``results``: what the forward returns. ``gradients``: what the backward returns. ``write_backs``: new values of arguments,
    which are no results of either. ``tangents``: the arguments that are gradients. ``written``: those that the forward or its
    caller overwrites. ``state``: tensors of the program that are not overwritten, which both parts have. Others are primals.
    ``held``: arguments that take no memory of the step, since their caller holds them. ``backward``: the operations that
    depend on a tangent or are marked so. ``forward``: those that the forward runs, for its results, for effects, or because
    they are marked so or saved. An operation in neither runs in the backward where that needs it.
    """

    function: FuncOp
    results: tuple[Leaf, ...]
    gradients: tuple[Leaf, ...]
    write_backs: tuple[WriteBack, ...]
    tangents: frozenset[SSAValue]
    state: frozenset[SSAValue]
    held: frozenset[SSAValue]
    written: frozenset[SSAValue]
    backward: frozenset[Operation]
    forward: frozenset[Operation]

    @property
    def block(self) -> Block:
        return self.function.body.block

    @property
    def primals(self) -> list[BlockArgument]:
        return [argument for argument in self.block.args if argument not in self.tangents and argument not in self.state]

    def demand(self) -> Demand:
        """What the backward needs, with the marks as they are."""
        needed = {leaf for leaf in self.gradients if isinstance(leaf, SSAValue)}
        needed |= {back.value for back in self.write_backs if back.in_backward}
        ops, saved, missing = list[Operation](), list[SSAValue](), list[SSAValue]()
        for op in reversed(list(self.block.ops)):
            if op is self.block.last_op or not ((op in self.backward and must_run(op)) or needed.intersection(op.results)):
                continue
            if op not in self.backward:
                marked = marked_results(op)
                saved += [value for value in reversed(op.results) if value in needed and value in marked]
                unsaved = [value for value in reversed(op.results) if value in needed and value not in marked]
                if not unsaved:
                    continue
                if not self._is_recomputed(op):
                    missing += unsaved
                    continue
            ops.append(op)
            needed.update(values_read(op))
        arguments = [argument for argument in self.primals if argument in needed]
        again = {op for op in ops if op not in self.backward}
        return Demand(at_first_use(ops[::-1], again), arguments, saved[::-1], missing[::-1])

    def _is_recomputed(self, op: Operation) -> bool:
        """Whether the backward may run ``op``, which does not depend on a tangent, to compute a result that is not saved."""
        if RECOMPUTED in op.attributes and may_repeat(op):
            return True
        return not must_run(op) and (_is_free(op) or (op not in self.forward and not _reads_sizes(op)))


@dataclass(frozen=True)
class WriteBack:
    """``value`` is the new value of ``argument``, which the backward writes, or else the forward."""

    value: SSAValue
    argument: BlockArgument
    in_backward: bool


@dataclass(frozen=True)
class Demand:
    """What the backward needs: the operations that it runs, and the values that it takes from the forward.

    ``arguments``: primals. ``saved``: results of operations that are marked. ``missing``: results that are not marked as saved,
    of operations that the backward may not run. All are in the order of the joint graph, but operations that run again stand
    just before the first that reads their results.
    """

    ops: list[Operation]
    arguments: list[BlockArgument]
    saved: list[SSAValue]
    missing: list[SSAValue]


def at_first_use(ops: Sequence[Operation], again: Set[Operation]) -> list[Operation]:
    """``ops`` in order, but those ``again`` just before the first that reads their results."""
    place, order = {op: number for number, op in enumerate(ops)}, dict[Operation, None]()
    for op in (*(op for op in ops if op not in again), *ops):
        waiting = [op]
        while waiting:
            owners = [value.owner for value in values_read(waiting[-1])]
            makers = {each for each in owners if isinstance(each, Operation) and each in again and each not in order}
            if makers and waiting[-1] not in order:
                waiting += sorted(makers, key=place.__getitem__, reverse=True)
            else:
                order.setdefault(waiting.pop())
    return list(order)


def is_joint(module: ModuleOp) -> bool:
    """Whether the entry of ``module`` is a joint graph."""
    function = find_entry(module)
    return function is not None and FORWARD_RESULTS in function.attributes


def joint_graph(module: ModuleOp) -> JointGraph:
    """The joint graph in the entry of ``module``. OpPassFailedException where there is none, or where its marks are wrong."""
    function = find_entry(module)
    if function is None or function.is_declaration or len(function.body.blocks) != 1:
        hint = "import a model with fxc import --joint"
        raise OpPassFailedException(f"the module has no entry function of one block; {hint}", module)
    if FORWARD_RESULTS not in function.attributes:
        hint = f"set {FORWARD_RESULTS} to the number of results of the forward, or import the model with fxc import --joint"
        raise OpPassFailedException(f"@{function.sym_name.data} is not a joint graph: {hint}", function)
    split, attributes = check_marks(function), argument_attributes(function)
    tangents = frozenset(arg for arg, each in zip(function.args, attributes, strict=True) if TANGENT in each.data)
    backward = _tangents_closure(function, tangents)
    results, write_backs = list[Leaf](), list[WriteBack]()
    for leaf, facts in returned(function):
        mark = facts.get(MUTATES)
        if isinstance(leaf, SSAValue) and isinstance(mark, IntegerAttr):
            in_backward = leaf in tangents or leaf.owner in backward or facts.get(PART) == StringAttr("backward")
            write_backs.append(WriteBack(leaf, function.args[mark.value.data], in_backward))
        else:
            results.append(leaf)
    if not 0 <= split <= len(results):
        message = f"{FORWARD_RESULTS} is {split}, but @{function.sym_name.data} returns {len(results)} values"
        raise OpPassFailedException(message, function)
    written = {arg for arg, each in zip(function.args, attributes, strict=True) if WRITTEN in each.data}
    written |= {back.argument for back in write_backs if not back.in_backward}
    written |= {value for op in function.body.block.ops if op not in backward for value in writes(op) or ()}
    roots = [leaf for leaf in results[:split] if isinstance(leaf, SSAValue)]
    roots += [back.value for back in write_backs if not back.in_backward]
    forward = _required_forward(function, roots, backward)
    kept = [(arg, each) for arg, each in zip(function.args, attributes, strict=True) if arg not in written]
    state = {arg for arg, each in kept if ArgumentFacts.of(each).is_state}
    _check(function, roots, tangents, backward)
    return JointGraph(
        function,
        tuple(results[:split]),
        tuple(results[split:]),
        tuple(write_backs),
        tangents,
        frozenset(state),
        frozenset(state | {arg for arg, each in kept if HELD in each.data}),
        frozenset(written),
        frozenset(backward),
        frozenset(forward),
    )


def returned(function: FuncOp) -> list[tuple[Leaf, Mapping[str, Attribute]]]:
    """What ``function`` returns, flat, each with the attributes of the result."""
    last = function.body.block.last_op
    assert last is not None
    found: list[Leaf] = list(leaves(last.trees()[0][0])) if isinstance(last, OutputOp) else list(last.operands)
    facts = iter(function.res_attrs or ())
    return [(leaf, next(facts, DictionaryAttr({})).data if isinstance(leaf, SSAValue) else {}) for leaf in found]


def values_read(op: Operation) -> list[SSAValue]:
    """The values that ``op`` and the operations in its regions read, without those that it defines."""
    if not op.regions:
        return list(op.operands)
    inner = {value for each in op.walk() for value in each.results}
    inner |= {arg for each in op.walk() for region in each.regions for block in region.blocks for arg in block.args}
    return [value for each in op.walk() for value in each.operands if value not in inner]


def must_run(op: Operation) -> bool:
    """Whether ``op`` runs even if its results are unused, and only once: it writes, has a side effect, or is random."""
    return has_side_effect(op) or writes(op) != []


def may_repeat(op: Operation) -> bool:
    """Whether ``op`` may be marked as recomputed. A random operator then runs with the saved state of the generator."""
    return not must_run(op) or (is_random(op) and isinstance(op, TorchOp) and writes(op) == [])


def is_number(value: SSAValue) -> bool:
    """Whether ``value`` is a number of the host, such as a size."""
    return isinstance(value.type, NUMBERS)


def can_be_saved(value: SSAValue) -> bool:
    return is_tensor(value.type) or is_number(value)


def can_be_offloaded(value: SSAValue) -> bool:
    """Whether a copy of ``value`` on another device has its strides."""
    is_strided = is_tensor(value.type) and layout(value.type) == "strided"
    return is_strided and is_tensor(value.type) and (strides(value.type) is None or is_dense(value.type))


def marked_results(op: Operation | Block, name: str = SAVED) -> list[SSAValue]:
    """The results of ``op`` that are marked as saved, or by the mark ``name``; none for the block of an argument."""
    mark = op.attributes.get(name) if isinstance(op, Operation) else None
    if (
        not isinstance(op, Operation)
        or not isinstance(mark, DenseArrayBase)
        or (len(op.results) == 1 and isinstance(op.results[0].type, TupleType))
    ):
        return []
    return [op.results[int(i)] for i in mark.get_values()]


def mark_saved(value: SSAValue) -> None:
    """Mark ``value``, the result of an operation, as saved for the backward."""
    op = value.owner
    assert isinstance(op, Operation)
    mark_results(op, [i for i, result in enumerate(op.results) if result is value])


def unmark_saved(value: SSAValue) -> None:
    """Remove the mark of ``value``, the result of an operation, as saved."""
    op = value.owner
    assert isinstance(op, Operation)
    rest = [op.results.index(each) for each in marked_results(op) if each is not value]
    del op.attributes[SAVED]
    if rest:
        mark_results(op, rest)


def mark_results(op: Operation, indices: Iterable[int], name: str = SAVED) -> None:
    """Mark results of ``op``, or elements if it returns a tuple, as saved, or by ``name``, beside those that are."""
    known = op.attributes.get(name)
    before = map(int, known.get_values()) if isinstance(known, DenseArrayBase) else ()
    op.attributes[name] = DenseArrayBase.from_list(i64, sorted({*before, *indices}))


def mark_recomputed(op: Operation) -> None:
    """Let the backward compute the results of ``op`` that are not saved."""
    op.attributes[RECOMPUTED] = UnitAttr()


def _tangents_closure(function: FuncOp, tangents: frozenset[SSAValue]) -> set[Operation]:
    found, values = set[Operation](), set[SSAValue](tangents)
    for op in function.body.block.ops:
        if op is function.body.block.last_op:
            break
        if op.attributes.get(PART) == StringAttr("backward") or not values.isdisjoint(values_read(op)):
            found.add(op)
            values.update(op.results)
    return found


def _required_forward(function: FuncOp, roots: list[SSAValue], backward: set[Operation]) -> set[Operation]:
    found, needed = set[Operation](), set(roots)
    for op in reversed(list(function.body.block.ops)):
        if op is function.body.block.last_op or op in backward:
            continue
        is_root = SAVED in op.attributes or op.attributes.get(PART) == StringAttr("forward") or must_run(op)
        if is_root or not needed.isdisjoint(op.results):
            found.add(op)
            needed.update(values_read(op))
    return found


def _check(function: FuncOp, roots: list[SSAValue], tangents: frozenset[SSAValue], backward: set[Operation]) -> None:
    """OpPassFailedException where the forward would have to run an operation of the backward."""
    for op in backward:
        if SAVED in op.attributes or op.attributes.get(PART) == StringAttr("forward"):
            why = f"is marked {PART}" if PART in op.attributes and SAVED in op.attributes else "depends on a gradient"
            raise OpPassFailedException(f"it {why}, so the forward can neither run it nor save its results", op)
    marked = any(op.attributes.get(PART) == StringAttr("backward") for op in backward)
    for value in roots:
        if value in tangents or value.owner in backward:
            why = f"depends on a gradient{f', or on an operation marked {PART}' if marked else ''}"
            message = f"the forward returns %{value.name_hint}, which {why}; {FORWARD_RESULTS} is too large"
            raise OpPassFailedException(message, function)


def _is_free(op: Operation) -> bool:
    """Whether ``op`` states its result, or computes with numbers only."""
    if is_constant(op) or isinstance(op, GetAttrOp):
        return True
    return bool(op.results) and all(map(is_number, [*op.operands, *op.results])) and not op.regions


def _reads_sizes(op: Operation) -> bool:
    """Whether ``op`` computes numbers from a tensor: such numbers are saved instead of the tensor."""
    return any(map(is_number, op.results)) and any(is_tensor(value.type) for value in op.operands)
