"""Result types and gradients of an operation, inferred with PyTorch's fake tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import UnsupportedOperatorException
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import DictionaryAttr, TupleType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from fxc.bridge.memory import memory_of
from fxc.bridge.static_world import Answer, NoFake, StaticWorld, evaluate
from fxc.bridge.tensors import FakeWorld, as_leaf
from fxc.bridge.values import is_sequence
from fxc.dialects.attributes.types import NUMBERS, Dim, IntType, is_tensor, sizes, strides
from fxc.dialects.attributes.values import str_attr
from fxc.dialects.semantics import CannotInfer
from fxc.dialects.torch_ops.base import TorchOp, drops_nothing
from fxc.dialects.torch_ops.schema import is_mkl_or_onednn
from fxc.errors import FxcError
from fxc.interpret.torch_level import ReferenceInterpreter, ResultCountError
from fxc.semantics.any_sizes import other_answers
from fxc.semantics.refusals import is_untold
from fxc.semantics.same_at_sizes import same_types

_LENGTH = 64
"""Sizes with so many characters are renamed; PyTorch is fast with shorter ones, and simplifies more."""


class TypeInference:
    """Runs operations on fake values of their operand types. A world is reused while operations leave no guards in it.

    Passes infer the types of a module many times, so results are cached by ``question_key``.
    """

    def __init__(self) -> None:
        self._answers = dict[Hashable, Sequence[Attribute]]()
        self._interpreter = ReferenceInterpreter({})
        self._symbols: DictionaryAttr | None = None
        self._world, self._static = FakeWorld(), StaticWorld()

    def infer(self, op: Operation, symbols: DictionaryAttr | None) -> Sequence[Attribute]:
        """Return the result types of ``op``.

        If a result depends on a guess (a hint, or an unknown number), worlds with other guesses must return the same.
        """
        key = question_key(op, symbols)
        if (types := self._answers.get(key)) is None:
            types = self._with_names(op, symbols) if symbols and _has_long_sizes(op) else None
            types = types or self._evaluate(lambda world: self._inferred(op, world, symbols), symbols)
            self._answers[key] = types
        return types

    def _with_names(self, op: Operation, symbols: DictionaryAttr) -> Sequence[Attribute] | None:
        """Return the result types of ``op`` if they follow from those for any values of parts of its sizes."""
        from fxc.semantics.named_sizes import NamedSizes

        try:
            named = NamedSizes(op, symbols)
            key = question_key(named.op, named.symbols)
            if (types := self._answers.get(key)) is None:
                types = self._inferred(named.op, FakeWorld(named.symbols), named.symbols)
                self._answers[key] = types
            return [named.original(type) for type in types]
        except (VerifyException, FxcError):
            return None

    def remember(self, op: TorchOp, symbols: DictionaryAttr) -> None:
        """Take the result types of ``op`` as what ``infer`` returns, if they are tensors whose sizes depend on no data."""
        if set(op.FLAGS).isdisjoint("dy") and all(is_tensor(type) and "" not in sizes(type) for type in op.result_types):
            self._answers[question_key(op, symbols)] = op.result_types

    def _inferred(self, op: Operation, world: FakeWorld, symbols: DictionaryAttr | None) -> Sequence[Attribute]:
        seen = list[tuple[FakeWorld, Sequence[Attribute]]]()

        def ask(each: FakeWorld) -> Sequence[Attribute]:
            seen.append((each, self._types(op, each)))
            return seen[-1][1]

        types = ask(world)
        if not (world.has_guesses or world.has_guards):
            return types
        try:
            for other, _ in other_answers(ask, world, symbols):
                types = [_agreed(op, a, b) for a, b in zip(types, other, strict=True)]
        except VerifyException as error:
            if not world.oblivious:
                types = self._inferred(op, type(world)(symbols, oblivious=True), symbols)
                if all(same_types(types, found, each.numbers) for each, found in seen):
                    return types  # an oblivious world may order strides by a condition that no size satisfies
            raise CannotInfer(f"the result types of {op.name} hang on sizes or numbers that are not known") from error
        return types

    def requires_grad(self, op: Operation, operands: Sequence[bool], symbols: DictionaryAttr | None) -> Sequence[bool]:
        """Return which results require grad if these operands do and grad mode is on."""

        def run(world: FakeWorld) -> Sequence[Any]:
            with quiet(), world.active(), torch.enable_grad():
                fakes = [_with_grad(world.fake(v.type), flag) for v, flag in zip(op.operands, operands, strict=True)]
                env = dict(zip(op.operands, fakes, strict=True))
                return self._interpreter.op(op, env)

        try:
            results = self._evaluate(run, symbols)
        except Exception as error:
            raise CannotInfer(f"whether {op.name} has a derivative is unknown: {error}") from error
        return [_requires_grad(result) for result in results]

    def aliases(self, op: Operation, symbols: DictionaryAttr | None) -> Sequence[tuple[int, int]]:
        """Return the pairs (result, operand) that share memory. CannotInfer if that depends on the hint of a symbol."""

        def shared(operands: list[Any], results: Sequence[Any]) -> list[tuple[int, int]]:
            memory = [_memory(value) for value in operands]
            return [(i, j) for i, r in enumerate(results) for j, m in enumerate(memory) if m & _memory(r)]

        return self._pairs(op, symbols, shared)

    def returned(self, op: Operation, symbols: DictionaryAttr | None) -> Sequence[tuple[int, int]]:
        """Return the pairs (leaf of the results, operand) that are one tensor. CannotInfer as ``aliases``."""

        def same(operands: list[Any], results: Sequence[Any]) -> list[tuple[int, int]]:
            return [(i, j) for i, r in enumerate(tree_leaves(list(results))) for j, each in enumerate(operands) if r is each]

        return self._pairs(op, symbols, same)

    def _pairs(
        self, op: Operation, symbols: DictionaryAttr | None, find: Callable[[list[Any], Sequence[Any]], list[tuple[int, int]]]
    ) -> Sequence[tuple[int, int]]:
        """Return what ``find`` finds among the operands and results of ``op``."""

        def run(world: FakeWorld) -> tuple[list[tuple[int, int]], bool]:
            with quiet(), world.active(), torch.no_grad():
                operands = [world.fake(value.type) for value in op.operands]
                results = self._interpreter.op(op, dict(zip(op.operands, operands, strict=True)))
                return find(operands, results), world.has_guards

        try:
            pairs, is_guess = self._evaluate(run, symbols)
        except Exception as error:
            raise CannotInfer(f"whether {op.name} returns a view is unknown: {error}") from error
        if is_guess:
            raise CannotInfer(f"whether {op.name} returns a view hangs on sizes that are not known")
        return pairs

    def _evaluate(self, question: Callable[[FakeWorld], Answer], symbols: DictionaryAttr | None) -> Answer:
        return evaluate(question, symbols, self._plain, self._fresh)

    def _plain(self) -> StaticWorld:
        """Return a world without guesses, as ``_fresh``."""
        if not self._static.is_unmarked:
            self._static = StaticWorld()
        return self._static

    def _fresh(self, symbols: DictionaryAttr | None) -> FakeWorld:
        """Return a world without guards: the cached one, unless an operation left guards or guesses in it."""
        if symbols != self._symbols or not self._world.is_unmarked:
            self._symbols, self._world = symbols, FakeWorld(symbols)
        return self._world

    def _types(self, op: Operation, world: FakeWorld) -> list[Attribute]:
        try:
            env = {operand: world.fake(operand.type) for operand in op.operands}
            with quiet(), world.active(), torch.no_grad(), _symbolic_rules(world):
                results = self._interpreter.op(op, env)
            if isinstance(op, TorchOp) and drops_nothing(op):  # PyTorch's decomposition copies
                results = [env[op.operands[0]]]
        except VerifyException:
            raise
        except Exception as error:
            if isinstance(error, ResultCountError) and not world.is_symbolic:
                raise VerifyException(str(error)) from error
            if isinstance(error, FxcError) or is_untold(error):
                has_no_rule = isinstance(error, NotImplementedError | UnsupportedOperatorException)
                untold = NoFake if has_no_rule and is_mkl_or_onednn(op) else CannotInfer
                raise untold(f"the result types of {op.name} cannot be told: {error}") from error
            raise VerifyException(f"{op.name} cannot take these operands: {error}") from error
        return [world.known_type_of(result) for result in results]


@contextmanager
def _symbolic_rules(world: FakeWorld) -> Generator[None, None, None]:
    """With symbolic sizes, use PyTorch's Python decompositions instead of code that requires numbers, such as for ``pad``."""
    if not world.is_symbolic:
        yield
        return
    from torch._dispatch.python import enable_python_dispatcher

    with enable_python_dispatcher():
        yield


@contextmanager
def quiet() -> Generator[None, None, None]:
    """Suppress the stack traces that PyTorch logs when a fake tensor rejects a call: a failed query is no error."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _has_long_sizes(op: Operation) -> bool:
    """Whether an operand of ``op`` has a size or stride that takes PyTorch long."""
    found = list[Dim]()
    for type in op.operand_types:
        if is_tensor(type):
            found += [*sizes(type), *(strides(type) or ())]
        elif isinstance(type, IntType):
            found.append(type.expression.data)
        else:
            return False
    return isinstance(op, TorchOp) and not op.regions and any(isinstance(dim, str) and len(dim) >= _LENGTH for dim in found)


def _agreed(op: Operation, a: Attribute, b: Attribute) -> Attribute:
    if a == b:
        return a
    if type(a) is type(b) and isinstance(a, NUMBERS):
        return type(a)(str_attr(""))
    raise CannotInfer(f"the result types of {op.name} hang on sizes or numbers that are not known")


def _memory(value: Any) -> set[int]:
    """Return the addresses of the storages of the tensors in ``value``."""
    return {memory_of(leaf) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)}


def _with_grad(value: Any, flag: bool) -> Any:
    """Make tensors require grad, as non-leaves, so that an operation may write to them."""
    if is_sequence(value):
        return type(value)(_with_grad(element, flag) for element in value)
    if flag and isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return as_leaf(value).clone()
    return value


def _requires_grad(value: Any) -> bool:
    if is_sequence(value):
        return any(map(_requires_grad, value))
    return isinstance(value, torch.Tensor) and value.requires_grad


def call_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """Return a cache key: calls with equal keys have equal results of PyTorch queries.

    It has the operator, its constants, equalities of operands, all types, its regions, and the symbols of the module.
    """
    return question_key(op, symbols), tuple(result.type for result in op.results)


def question_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """``call_key`` without result types, for queries that infer them."""
    order = list(dict.fromkeys(op.operands))
    return (
        op.name,
        tuple(sorted(op.properties.items())),
        tuple((order.index(value), value.type) for value in op.operands),
        tuple(isinstance(result.type, TupleType) for result in op.results),
        tuple(map(str, op.regions)),
        symbols,
    )
