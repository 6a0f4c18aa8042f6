"""Derivatives of single operations, traced from PyTorch's autograd at the operand types.

One trace records the operation on fake tensors under autograd, and then its gradients. Nodes before the gradient computation
are the forward; nodes after are the backward. No formula is written down here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.bridge import autograd_functions
from fxc.bridge.functional_rules import FUNCTIONAL
from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.operators import is_overload, is_random
from fxc.bridge.tensors import FakeWorld, as_leaf
from fxc.dialects.attributes.types import BoolType, Dim, FloatType, is_tensor, sizes
from fxc.dialects.autodiff import is_differentiable
from fxc.dialects.fx import OutputOp
from fxc.dialects.semantics import CannotInfer, Jvp, Vjp
from fxc.dialects.text.syntax import op_text
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.base import counts_in_storage
from fxc.errors import FxcError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.any_sizes import traced_for_any_sizes
from fxc.semantics.equal_outputs import read_first_of_equal
from fxc.semantics.inference import call_key
from fxc.semantics.same_at_sizes import same_programs, same_results
from fxc.semantics.trace import current_graph, first_line, record

_DETACH, _ALIAS = torch.ops.aten.detach.default, torch.ops.aten.alias.default


_WRONG = frozenset(["torch.aten.rrelu_with_noise_functional.default"])
"""Operators whose derivative in PyTorch reads the argument that the non-functional variant fills."""

_WHOLE: Mapping[str, torch._ops.OpOverload] = {"torch.aten.cumprod.default": torch.ops.aten.cumprod_backward.default}
"""Operator -> its backward operator, of gradient, operand, dimension and result, if that chooses between formulas by values.

A trace would record only one formula: the fast one of ``cumprod`` has no derivative at zeros.
"""


class Differentiator:
    """Computes derivatives of operations, with a cache."""

    def __init__(self, interpreter: ReferenceInterpreter) -> None:
        self.interpreter = interpreter
        self._vjps = dict[Any, Vjp]()
        self._jvps = dict[Any, Jvp]()

    def vjp(
        self,
        op: Operation,
        needs: Sequence[bool],
        cotangents: Mapping[int, Attribute],
        symbols: DictionaryAttr | None,
        twice: bool = False,
    ) -> Vjp:
        key = (call_key(op, symbols), tuple(needs), tuple(cotangents.items()), twice)
        if key not in self._vjps:
            trace = partial(self._trace_vjp, op, needs, cotangents, twice)
            self._vjps[key] = _with_sizes_of_operands(op, _explained(op, trace, symbols, partial(_agree, op)))
        return self._vjps[key]

    def jvp(self, op: Operation, needs: Sequence[bool], symbols: DictionaryAttr | None) -> Jvp:
        key = (call_key(op, symbols), tuple(needs))
        if key not in self._jvps:
            self._jvps[key] = _explained(op, partial(self._trace_jvp, op, needs), symbols, same_programs)
        return self._jvps[key]

    def _trace_vjp(
        self, op: Operation, needs: Sequence[bool], cotangents: Mapping[int, Attribute], twice: bool, world: FakeWorld
    ) -> Vjp:
        operands = _distinct(op)
        wanted = [i for i, value in enumerate(operands) if _needed(op, needs, value)]
        if wanted and cotangents and (backward := _WHOLE.get(op.name)) and "dim" in op.properties:
            return _whole(op, backward, cotangents[0], world)
        names, used = list[str](), list[int]()

        def run(*values: Any) -> tuple[list[Any], list[Any]]:
            own = [as_leaf(v.detach()) if i in wanted else v for i, v in enumerate(values[: len(operands)])]
            given = dict(zip(cotangents, values[len(operands) :], strict=True))
            if twice:
                given = {i: as_leaf(value.detach()) for i, value in given.items()}
            with torch.enable_grad():
                results = tree_leaves(list(self.interpreter.op(op, dict(zip(operands, own, strict=True)))))
                names[:] = [node.name for node in current_graph().nodes]
                used[:] = [i for i in given if isinstance(results[i], torch.Tensor) and results[i].requires_grad]
                gradients: Sequence[Any] = [None] * len(wanted)
                if used:
                    outputs = [results[i] for i in used]
                    inputs, grads = [own[i] for i in wanted], [given[i] for i in used]
                    gradients = torch.autograd.grad(outputs, inputs, grads, allow_unused=True, create_graph=twice)
            return results, list(gradients)

        fakes = [world.fake(value.type) for value in operands] + [world.fake(type) for type in cotangents.values()]
        joint = record(run, fakes, world)
        if any(map(_is_mutable, joint.graph.nodes)):  # autograd writes to tensors that it has just made
            joint = record(dispatch_functionalize(run, FunctionalTensorMode()), fakes, world, FUNCTIONAL)
        if not used:
            return Vjp(None, None, (), (), (), (), ())
        read_first_of_equal(joint)
        return _Split(op, operands, joint, set(names), world).vjp(list(cotangents), used, wanted)

    def _trace_jvp(self, op: Operation, needs: Sequence[bool], world: FakeWorld) -> Jvp:
        operands = _distinct(op)
        wanted = [i for i, value in enumerate(operands) if _needed(op, needs, value)]
        kept = list[int]()

        def run(*values: Any) -> list[Any]:
            primals, tangents = values[: len(operands)], values[len(operands) :]

            def call(*active: Any) -> list[Any]:
                env = dict(zip(operands, primals, strict=True))
                env.update((operands[i], value) for i, value in zip(wanted, active, strict=True))
                results = tree_leaves(list(self.interpreter.op(op, env)))
                kept[:] = [i for i, r in enumerate(results) if isinstance(r, torch.Tensor) and _is_floating(r)]
                return [r for r in results if isinstance(r, torch.Tensor)]

            derived: Any = torch.func.jvp(call, tuple(primals[i] for i in wanted), tuple(tangents))
            results, moved = derived
            return [*results, *(t for r, t in zip(results, moved, strict=True) if _is_floating(r))]

        fakes = [world.fake(value.type) for value in operands] + [world.fake(operands[i].type) for i in wanted]
        graph = record(run, fakes, world)
        if any(map(_is_mutable, graph.graph.nodes)):
            graph = record(torch.func.functionalize(run), fakes, world, FUNCTIONAL)
        nodes = list(graph.graph.nodes)
        graph = _extract(graph, [node for node in nodes if node.op == "placeholder"], nodes[-1].args[0])
        function, declarations = _function(graph, world)
        return Jvp(function, tuple(list(op.operands).index(operands[i]) for i in wanted), tuple(kept), tuple(declarations))


def _with_sizes_of_operands(op: Operation, vjp: Vjp) -> Vjp:
    """Return ``vjp``; VerifyException if a gradient has the sizes of its operand only for some values of symbols."""
    for position, type in zip(vjp.gradients, vjp.backward.function_type.outputs if vjp.backward else (), strict=True):
        if _sizes(type) != _sizes(op.operands[position].type):
            raise VerifyException(f"{op.name} cannot be differentiated: its gradient has the sizes of its operand only at some")
    return vjp


def _sizes(type: Attribute) -> Sequence[Dim] | None:
    return sizes(type) if is_tensor(type) else None


class _Split:
    """One joint trace, split. The backward may read only operands and results of the operation, and views of them."""

    def __init__(
        self, op: Operation, operands: list[SSAValue], joint: GraphModule, forward: set[str], world: FakeWorld
    ) -> None:
        self.op, self.operands, self.joint, self.world = op, operands, joint, world
        nodes = list(joint.graph.nodes)
        self.placeholders = [node for node in nodes if node.op == "placeholder"]
        self.inputs = self.placeholders[: len(operands)]
        for node in nodes:
            if node.target is _DETACH and node.args[0] in self.placeholders:
                node.replace_all_uses_with(node.args[0])  # it made the operand a leaf; detaches of the operation stay
        outputs: Any = nodes[-1].args[0]
        self.outputs: list[Any] = list(outputs[0])
        self.results: list[Any] = [_source(value) for value in outputs[0]]
        self.gradients: list[Any] = [_source(value) for value in outputs[1]]
        of_gradients = set(self.placeholders[len(operands) :])  # their sizes, which are recorded where they are first known
        for node in nodes:
            if not of_gradients.isdisjoint(node.all_input_nodes):
                of_gradients.add(node)
        self.forward = [
            node for node in nodes if node.name in forward and node.op != "placeholder" and node not in of_gradients
        ]

    def vjp(self, given: list[int], used: list[int], wanted: list[int]) -> Vjp:
        positions = [list(self.op.operands).index(self.operands[i]) for i in wanted]
        found = [(p, g) for p, g in zip(positions, self.gradients, strict=True) if isinstance(g, Node)]
        if not found:
            return Vjp(None, None, (), (), (), (), ())
        boundary = self.boundary([g for _, g in found])
        if not self.can_remain(boundary):
            if self.op.name == f"torch.higher_order.{autograd_functions.NAME}":  # its regions have derivatives already
                raise VerifyException(f"{self.op.name} saves what it neither takes nor gives")
            forward = _extract(self.joint, self.inputs, self.outputs, lambda node: node)
            function, declarations = _function(forward, self.world)
            return Vjp(function, None, (), (), (), (), tuple(declarations))
        cotangents = [self.placeholders[len(self.inputs) + given.index(i)] for i in used]
        taken = _read([g for _, g in found], stop=set(self.inputs) | {r for r in self.results if isinstance(r, Node)})
        saved_results = [
            i for i, r in enumerate(self.results) if r in taken and r not in self.inputs and r not in self.results[:i]
        ]
        saved_inputs = [i for i, node in enumerate(self.inputs) if node in taken]
        arguments = [*cotangents, *(self.inputs[i] for i in saved_inputs), *(self.results[i] for i in saved_results)]
        backward = _extract(self.joint, arguments, [g for _, g in found])
        function, declarations = _function(backward, self.world)
        return Vjp(
            None,
            function,
            tuple(used),
            tuple(list(self.op.operands).index(self.operands[i]) for i in saved_inputs),
            tuple(saved_results),
            tuple(p for p, _ in found),
            tuple(declarations),
        )

    def boundary(self, gradients: list[Node]) -> list[Node]:
        """Return the forward nodes that the backward reads, except operands and results."""
        stop = {*self.forward, *self.placeholders}
        read = _read(gradients, stop=stop)
        return [node for node in self.forward if node in read and node not in self.results]

    def can_remain(self, boundary: list[Node]) -> bool:
        """Whether the backward can be computed from operands and results, so that the operation itself can remain.

        Views of operands and results, and numbers, are recomputed. If autograd differentiates the operation as a whole, with a
        formula, other intermediate values are recomputed, too.
        """
        whole = isinstance(self.op, TorchOp) and any(
            is_overload(node.target) and _name(node.target) == self.op.operator for node in self.forward
        )
        whole = whole or self.op.name.startswith("torch.higher_order.")
        available = {*self.inputs, *(r for r in self.results if isinstance(r, Node))}
        cheap = set(available)
        for node in self.forward:
            again = _is_free(node) or (whole and not is_random(node.target) and not self.is_own(node))
            if node in available or (again and all(source in cheap for source in map(_source, node.all_input_nodes))):
                cheap.add(node)
        return all(node in cheap for node in boundary)

    def is_own(self, node: Node) -> bool:
        return isinstance(node.target, torch._ops.HigherOrderOperator) or (
            is_overload(node.target) and f"torch.{_name(node.target)}" == self.op.name
        )


def _whole(op: Operation, backward: torch._ops.OpOverload, cotangent: Attribute, world: FakeWorld) -> Vjp:
    """Return a derivative that is one call of ``backward``."""
    graph, dim = Graph(), op.properties["dim"]
    assert isinstance(dim, IntegerAttr)

    def call(target: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Node:
        node = graph.call_function(target, args, kwargs)
        with torch.no_grad():
            node.meta["val"] = target(*(arg.meta["val"] if isinstance(arg, Node) else arg for arg in args), **kwargs)
        return node

    def as_operand(node: Node) -> Node:
        dtype = value.meta["val"].dtype
        return node if node.meta["val"].dtype == dtype else call(torch.ops.aten._to_copy.default, node, dtype=dtype)

    grad, value, output = (graph.placeholder(name) for name in ("grad", "input", "output"))
    for node, type in zip((grad, value, output), (cotangent, op.operand_types[0], op.result_types[0]), strict=True):
        node.meta["val"] = world.fake(type)
    graph.output([as_operand(call(backward, as_operand(grad), value, dim.value.data, output))])
    function, declarations = _function(GraphModule(torch.nn.Module(), graph), world)
    return Vjp(None, function, (0,), (0,), (0,), (0,), tuple(declarations))


def _distinct(op: Operation) -> list[SSAValue]:
    return list(dict.fromkeys(op.operands))


def _needed(op: Operation, needs: Sequence[bool], value: SSAValue) -> bool:
    needed = any(need for operand, need in zip(op.operands, needs, strict=True) if operand is value)
    return needed and is_differentiable(value.type)


def _agree(op: Operation, first: Vjp, second: Vjp, numbers: Mapping[str, int]) -> bool:
    """Whether two derivatives of ``op`` are equal for these values of symbols.

    For a function that replaces ``op``, it suffices that it computes the same results.
    """
    if same_programs(first, second, numbers):
        return True
    return first.forward is not None and same_results(first.forward, _alone(op), numbers)


def _alone(op: Operation) -> func.FuncOp:
    """Return a function that contains only ``op``."""
    operands = _distinct(op)
    block = Block(arg_types=[value.type for value in operands])
    copy = op.clone(dict(zip(operands, block.args, strict=True)))
    block.add_ops([copy, func.ReturnOp(*copy.results)])
    return func.FuncOp("alone", FunctionType.from_lists(block.arg_types, copy.result_types), Region(block), "private")


def _explained(
    op: Operation,
    trace: Callable[[FakeWorld], Any],
    symbols: DictionaryAttr | None,
    agree: Callable[[Any, Any, Mapping[str, int]], bool],
) -> Any:
    """Return the result of ``trace``; VerifyException if PyTorch cannot differentiate the operation, or not for any sizes."""
    if op.name in _WRONG:
        raise VerifyException(f"{op.name} cannot be differentiated: its derivative reads noise that is not sampled yet")
    if isinstance(op, TorchOp) and counts_in_storage(op):  # the types of tensors do not include the storage offset
        raise VerifyException(f"{op.name} cannot be differentiated: it is unknown where its operand starts in its storage")
    for value in op.operands:
        if isinstance(value.type, (FloatType, BoolType)) and not value.type.expression.data:
            raise VerifyException(f"{op.name} cannot be differentiated at a number that is not known before it runs")
    try:
        return traced_for_any_sizes(trace, FakeWorld(symbols), symbols, agree)
    except CannotInfer as error:
        raise VerifyException(f"{op.name} cannot be differentiated: {error}") from error
    except VerifyException:
        raise
    except FxcError as error:
        raise VerifyException(f"{op.name} cannot be differentiated: {error.message}") from error
    except Exception as error:
        raise VerifyException(f"{op_text(op, 80)} cannot be differentiated: {first_line(error)}") from error


def _is_floating(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _name(target: torch._ops.OpOverload) -> str:
    return f"{target._schema.name.replace('::', '.')}.{target._overloadname}"


def _source(value: Any) -> Any:
    """Return ``value``, or the node that it is a detached alias of."""
    while isinstance(value, Node) and value.target in (_DETACH, _ALIAS):
        value = value.args[0]
    return value


def _read(values: Iterable[Any], stop: set[Node], source: Callable[[Any], Any] = _source) -> set[Node]:
    """Return the nodes that ``values`` are computed from, up to and including ``stop``."""
    found, waiting = set[Node](), [source(value) for value in values if isinstance(value, Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            if node not in stop:
                waiting += map(source, node.all_input_nodes)
    return found


def _is_mutable(node: Node) -> bool:
    return is_overload(node.target) and node.target._schema.is_mutable


def _is_free(node: Node) -> bool:
    """Whether recomputing ``node`` is free: a view, an element of a tuple, a number, or a submodule."""
    if node.op == "get_attr":
        return True
    if is_overload(node.target):
        returns = node.target._schema.returns
        if all(str(r.type) in ("int", "float", "bool", "SymInt") for r in returns):
            return True
        return not _is_mutable(node) and (
            all(r.alias_info is not None for r in returns) or node.target is torch.ops.aten._unsafe_view.default
        )
    return not isinstance(node.target, torch._ops.HigherOrderOperator)


def _extract(
    root: GraphModule, inputs: Sequence[Node], outputs: Sequence[Any], source: Callable[[Any], Any] | None = None
) -> GraphModule:
    """Return the subgraph that computes ``outputs`` from ``inputs``. A value in both is passed through.

    ``source``: maps a node to its replacement; by default, detached aliases are replaced by their source.
    """
    source = source or _source
    needed = _read(outputs, set(inputs), source)
    graph, copies = Graph(), dict[Node, Node]()
    for node in inputs:
        copy = graph.placeholder(node.name)
        copy.meta = dict(node.meta)
        copies[node] = copy
    for node in root.graph.nodes:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, lambda value: copies[source(value)])
    graph.output([copies[source(value)] if isinstance(value, Node) else value for value in outputs])
    return GraphModule(root, graph)


def _function(graph: GraphModule, world: FakeWorld) -> tuple[func.FuncOp, list[Operation]]:
    """Return a graph as a function, and the operators that the module must declare. Outputs that are not values are dropped."""
    importer = GraphImporter(world.type_of, constants_inline=True)
    graph.graph.eliminate_dead_code(lambda node: node.is_impure() or is_random(node.target))
    block = importer.block(graph, list(graph.graph.nodes), "", None)
    output = block.last_op
    assert isinstance(output, OutputOp)
    values = [*output.operands]
    block.erase_op(output)
    block.add_op(func.ReturnOp(*values))
    type = FunctionType.from_lists([argument.type for argument in block.args], [value.type for value in values])
    return func.FuncOp("derivative", type, Region(block), "private"), list(importer.operators.values())
