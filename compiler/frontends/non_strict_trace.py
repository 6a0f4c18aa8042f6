"""Non-strict ``torch.export`` of plain models without importing Dynamo.

Importing Dynamo takes longer than most models take to trace.

A model is plain if it is on the CPU, takes tensors of static sizes and constants, calls PyTorch's operators only, assigns no
attribute, and runs outside of autocast with a constant grad mode. For any other model, and on any failure, ``traced`` returns
None without side effects, and the caller falls back to torch.export, which also reports the error.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from traceback import FrameSummary, StackSummary
from types import FrameType
from typing import Any

import torch
from torch._C import DispatchKey, _TorchDispatchModeKey
from torch._dispatch.python import enable_python_dispatcher
from torch._export import utils as export_utils
from torch._export.utils import _compiling_state_context, _rename_without_collisions
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node, proxy
from torch.fx import config as fx_config
from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode, ProxyTorchDispatchMode
from torch.fx.node import _side_effectful_need_to_be_preserved_pre_dispatch as SWITCHES
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.utils.stateless import _reparametrize_module
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils._pytree import TreeSpec, tree_flatten, tree_flatten_with_path, tree_leaves, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from fxc.bridge import autograd_functions
from fxc.bridge.modules import modules_of
from fxc.bridge.operators import is_overload
from fxc.bridge.static_world import StaticFakeMode, without_dynamo
from fxc.bridge.values import is_dict, is_sequence
from fxc.errors import FxcError
from fxc.frontends.check_call import checked_results
from fxc.frontends.eager_calls import EagerCalls
from fxc.frontends.host_results import FORMATS
from fxc.frontends.python_state import PythonState
from fxc.frontends.replaced_tensors import replacements_refused
from fxc.frontends.unrecorded import hidden_calls_refused, is_unrecorded, replaces_memory, state_read

_export_utils: Any = export_utils
_LIFT, _DETACH = torch.ops.aten.lift_fresh_copy.default, torch.ops.aten.detach_.default
_CONVERSIONS = (torch.ops.aten.to.device, torch.ops.aten.to.dtype, torch.ops.aten.to.dtype_layout)
_CONSTANTS = frozenset[Any]({bool, int, float, str, type(None)})
_PREFIX = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}


@dataclass(frozen=True)
class Traced:
    """The parts of an ExportedProgram that a program needs. ``tensors``: parameters, buffers and constants by name."""

    graph: Graph
    inputs: Sequence[InputSpec]
    tensors: dict[str, torch.Tensor]
    in_spec: TreeSpec
    out_spec: TreeSpec


class _NotPlain(FxcError):
    """A model that only torch.export can trace."""


def traced(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Traced | None:
    """The graph of ``module(*args, **kwargs)``, equal to that of torch.export; None where torch.export has to trace it."""
    given = args, dict(kwargs or {})
    before = PythonState(module)
    had_dynamo = "torch._dynamo" in sys.modules
    try:
        _check(module, given)
        if before.type_tests or before.by_class or before.clocks or before.compiled:
            return None
        found = _Trace(module, *given).run()
        if any(is_overload(f := node.target) and f._schema.is_mutable and f is not _DETACH for node in found.graph.nodes):
            _check_memory(_tensors(module, given))
    except Exception:  # torch.export reports the error, if there is one
        return None
    finally:
        changed = before.put_back()
    return None if changed or (not had_dynamo and "torch._dynamo" in sys.modules) else found


def _check(module: torch.nn.Module, given: Any) -> None:
    """_NotPlain for a model or state that recording operators cannot trace."""
    hooks: Any = torch.nn.modules.module
    root: Any = module
    modules: list[Any] = [each for _, each in root.named_modules(remove_duplicate=False)]
    is_plain = (
        len({id(each) for each in modules}) == len(modules)
        and not any(isinstance(each, (GraphModule, torch.jit.ScriptModule)) or hasattr(each, "_orig_mod") for each in modules)
        and not any(each._forward_hooks for each in modules)
        and not (hooks._global_forward_hooks or hooks._global_forward_pre_hooks)
        and all(isinstance(tensor, torch.Tensor) and tensor.is_cpu for tensor in _tensors(module, given))
        and not (_get_current_dispatch_mode_stack() or _get_current_function_mode_stack())
        and TracingContext.try_get() is None
        and not any(torch.is_autocast_enabled(kind) for kind in torch._C._autocast_supported_devices())
        and not torch.is_inference_mode_enabled()
        and not fx_config.do_not_emit_stack_traces
        and not getattr(proxy, "_STACK_TRACE_ANCHORS", None)
    )
    if not is_plain:
        raise _NotPlain("not a plain model")


def _tensors(module: torch.nn.Module, given: Any) -> list[Any]:
    """The parameters, buffers and inputs but for constants."""
    state = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    return [*state.values(), *(leaf for leaf in tree_leaves(given) if type(leaf) not in _CONSTANTS)]


def _check_memory(tensors: Sequence[torch.Tensor]) -> None:
    """_NotPlain if some share memory."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors if tensor.numel()]
    if len(set(storages)) != len(storages):
        raise _NotPlain("a write to memory that tensors share")


class _Trace:
    """One trace: fake tensors for the tensors of ``module`` and those given, a placeholder for each, and a call with them."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.mode = StaticFakeMode()
        self.recorder = _Recorder(module, self.mode)
        self.inputs = list[InputSpec]()
        self.placeholders = list[Node]()

    def run(self) -> Traced:
        parameters = dict(self.module.named_parameters(remove_duplicate=False))
        tensors = {**parameters, **dict(self.module.named_buffers(remove_duplicate=False))}
        fakes = dict[int, torch.Tensor]()
        for name, tensor in tensors.items():
            if id(tensor) not in fakes:
                fakes[id(tensor)] = self.mode.fake(tensor)
            fake, is_parameter = fakes[id(tensor)], name in parameters
            persistent = None if is_parameter else self.is_persistent(name)
            self.add_input(fake, InputKind.PARAMETER if is_parameter else InputKind.BUFFER, name, persistent)
        first = len(self.placeholders)
        args, kwargs = tree_map_only(torch.Tensor, self.mode.fake, (self.args, self.kwargs))
        for leaf in tree_leaves((args, kwargs)):
            self.add_input(leaf, InputKind.USER_INPUT, None, None)
        self.recorder.first_input = next(iter(self.placeholders[first:]), None)
        result = self.call(args, kwargs, {name: fakes[id(tensor)] for name, tensor in tensors.items()})
        leaves, out_spec = tree_flatten(result)
        self.recorder.graph.output(tuple(self.recorder.argument(leaf) for leaf in leaves))
        for node in reversed(list(self.recorder.graph.nodes)):
            if node.target is torch.ops.aten.detach.default and not node.users:
                self.recorder.graph.erase_node(node)
        self.assert_converted()
        constants = {f"lifted_tensor_{i}": constant for i, constant in enumerate(self.recorder.constants)}
        lifted = [InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name), name) for name in constants]
        self.inputs[first:first] = lifted
        self.placeholders[first:first] = [node for node, _ in constants.values()]
        self.rename()
        tensors |= {name: tensor for name, (_, tensor) in constants.items()}
        return Traced(self.recorder.graph, self.inputs, tensors, tree_flatten((self.args, self.kwargs))[1], out_spec)

    def is_persistent(self, name: str) -> bool:
        path, _, attribute = name.rpartition(".")
        return attribute not in self.module.get_submodule(path)._non_persistent_buffers_set

    def add_input(self, value: Any, kind: InputKind, target: str | None, persistent: bool | None) -> None:
        node = self.recorder.graph.placeholder(f"arg{len(self.inputs)}_1")
        if type(value) in _CONSTANTS:
            node.meta["val"], spec = value, ConstantArgument(node.name, value)
        else:
            self.recorder.track(node, value)
            spec = TensorArgument(node.name)
        self.placeholders.append(node)
        self.inputs.append(InputSpec(kind, spec, target, persistent))

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], fakes: dict[str, torch.Tensor]) -> Any:
        module: Any = self.module
        gradients = torch.is_grad_enabled()
        with ExitStack() as stack:
            stack.enter_context(_reparametrize_module(module, fakes, tie_weights=True, strict=True, stack_weights=True))
            stack.enter_context(replacements_refused(module))
            stack.callback(torch._C._set_grad_enabled, gradients)
            for backend in (torch.backends.mkldnn, torch.backends.nnpack, torch.backends.cudnn):  # as in torch.export
                stack.callback(backend.set_flags, *backend.set_flags(False))
            stack.enter_context(without_dynamo())
            stack.enter_context(autograd_functions.recorded())  # entering it fails here, because there is no PyTorch tracer
            stack.enter_context(_compiling_state_context())
            stack.enter_context(self.mode)
            stack.enter_context(enable_python_dispatcher())
            stack.enter_context(self.recorder.calls())
            stack.enter_context(_Switches(self.recorder))
            stack.enter_context(EagerCalls())
            stack.enter_context(hidden_calls_refused())
            reads = stack.enter_context(state_read())
            stack.enter_context(self.recorder)
            dynamo = sys.modules.get("torch._dynamo")
            result = (module if dynamo is None else dynamo.disable(module.__call__))(*args, **kwargs)
        result = checked_results(module, result)
        if reads or not self.recorder.is_whole:
            raise _NotPlain("something was not recorded")
        return result

    def assert_converted(self) -> None:
        """Insert the assertion of tensor metadata that torch.export emits before each conversion."""
        graph = self.recorder.graph
        for node in [node for node in graph.nodes if node.target in _CONVERSIONS]:
            source: Any = node.args[0]
            with graph.inserting_before(node):
                facts = {name: getattr(source.meta["val"], name) for name in ("dtype", "device", "layout")}
                check = graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (source,), facts)
            check.meta.update({name: fact for name, fact in node.meta.items() if name != "val"}, val=None)

    def rename(self) -> None:
        """Rename placeholders as torch.export does, and other nodes that collide with them."""
        names, available, used = dict[str, str](), defaultdict[str, int](int), set[str]()
        bound = _export_utils._bind_signature_to_inputs(self.module, self.args, self.kwargs)
        paths = [path for path, _ in tree_flatten_with_path(bound)[0]]
        first = len(self.placeholders) - len(paths)
        wanted = ["_".join(map(_key, path)) for path in paths]
        wanted += [_PREFIX[spec.kind] + _identifier(str(spec.target).removeprefix("self_")) for spec in self.inputs[:first]]
        for node, name in zip((*self.placeholders[first:], *self.placeholders[:first]), wanted, strict=True):
            _rename_without_collisions(names, available, used, node.name, name, is_placeholder=True)
        for node in self.recorder.graph.nodes:
            if node.op != "placeholder":
                _rename_without_collisions(names, available, used, node.name, node.name)
        for node in self.recorder.graph.nodes:
            node.name = names[node.name]
            node.target = node.name if node.op == "placeholder" else node.target
        for spec, node in zip(self.inputs, self.placeholders, strict=True):
            spec.arg.name = node.name


def _identifier(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text).lower()


def _key(key: Any) -> str:
    """A step of a path in a nesting, as part of a name."""
    if hasattr(key, "key"):
        return _identifier(str(key.key))
    return (str(key.idx) if hasattr(key, "idx") else key.name).lower()


class _Switches(PreDispatchTorchFunctionMode):
    """Detects calls that the trace cannot record: of switches and functorch, assignments to ``data``, formatting of tensors."""

    def __init__(self, recorder: _Recorder) -> None:
        self.recorder = recorder  # no PyTorch tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_switch = func in SWITCHES
        if (
            is_switch
            or is_unrecorded(func, kwargs)
            or func in FORMATS
            or str(getattr(func, "__module__", "")).startswith("torch._functorch")
        ):
            self.recorder.is_whole = False  # an exception here would leave the switch half done
        if is_switch and func is not torch._C._set_grad_enabled:
            return None  # torch.autocast has already switched it
        return func(*args, **(kwargs or {}))


class _Recorder(ProxyTorchDispatchMode):
    """Records operators before dispatch. PyTorch accepts only modes of this base class there.

    ``nodes``: tensor -> node, with weak references, as PyTorch copies results that have other references. ``is_whole``: whether
    everything was recorded, even if the model caught the error. ``constants``: the tensors that the model makes of Python
    values, each with its placeholder, which stands before ``first_input``.
    """

    def __init__(self, module: torch.nn.Module, mode: StaticFakeMode) -> None:
        TorchDispatchMode.__init__(self, DispatchKey.PreDispatch)
        self.mode = mode
        self._mode_key = _TorchDispatchModeKey.PROXY
        self.enter_stack = []
        self.graph = Graph()
        self.nodes: MutableMapping[torch.Tensor, Node] = WeakTensorKeyDictionary()
        self.is_whole, self.gradients = True, torch.is_grad_enabled()
        self.first_input: Node | None = None
        self.constants = list[tuple[Node, torch.Tensor]]()
        self.paths = {id(each): path for path, each in modules_of(module)}
        self.counts = defaultdict[str, int](int)
        self.stack = list[tuple[str, tuple[str, str]] | None]()
        self.traces = dict[tuple[Any, ...], str]()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    @contextmanager
    def calls(self) -> Generator[None, None, None]:
        """Track the calls of modules."""
        thread = threading.get_ident()

        def enter(module: torch.nn.Module, args: Any) -> None:
            if threading.get_ident() == thread:
                self.stack.append(self.call_of(module))

        def leave(module: torch.nn.Module, args: Any, result: Any) -> None:
            if threading.get_ident() == thread:
                self.stack.pop()

        handles = register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def call_of(self, module: torch.nn.Module) -> tuple[str, tuple[str, str]] | None:
        path = self.paths.get(id(module))
        if path is None:
            return None
        number = self.counts[path]
        self.counts[path] += 1
        cls = type(module)
        return f"L__self__{path}{f'@{number}' if number else ''}", (path, f"{cls.__module__}.{cls.__qualname__}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return func(*args)
        try:
            return self.record(func, args, kwargs or {})
        except BaseException:
            self.is_whole = False
            raise

    def record(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.ops.aten.lift_fresh.default:
            return self.lifted(*args)
        if not is_overload(func) or func.namespace != "aten" or func is _LIFT or replaces_memory(func):
            raise _NotPlain(f"{func}")
        if torch.is_grad_enabled() != self.gradients:
            raise _NotPlain(f"{func} in a backward, or a hook")
        is_made = func is _DETACH and self.argument(args[0]).target is _LIFT
        if torch.Tag.data_dependent_output in func.tags or (torch.Tag.inplace_view in func.tags and not is_made):
            raise _NotPlain(f"{func}")
        node = self.node(func, self.argument(args), self.argument(kwargs), func.overloadpacket.__name__)
        result = func(*args, **kwargs)
        self.track(node, result)
        return result

    def lifted(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a tensor that the model makes of Python values, as ``torch.tensor`` does."""
        is_plain = type(tensor) is torch.Tensor and tensor.is_cpu and tensor.layout is torch.strided
        if not is_plain or self.first_input is None:
            raise _NotPlain("a constant that is no plain tensor")
        with self.graph.inserting_before(self.first_input):
            constant = self.graph.placeholder(f"lifted{len(self.constants)}")
        fake, copy = (self.mode.made(tensor.shape, tensor.stride(), tensor.dtype) for _ in range(2))
        self.track(constant, fake)
        self.constants.append((constant, tensor))
        self.track(self.node(_LIFT, (constant,), {}, "lift_fresh_copy"), copy)
        return copy

    def node(self, func: Any, args: Any, kwargs: Any, name: str) -> Node:
        node = self.graph.create_node("call_function", func, args, kwargs, self.graph._target_to_str(name))
        node.meta["nn_module_stack"] = dict(call for call in self.stack if call is not None)
        if trace := self.trace():
            node.meta["stack_trace"] = trace
        return node

    def trace(self) -> str:
        """The active calls of ``forward``, outermost first."""
        frame: FrameType | None = sys._getframe(1)
        frames = list[tuple[str, int]]()
        while frame is not None:
            if frame.f_code.co_name == "forward":
                frames.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        known = tuple(reversed(frames))
        if known not in self.traces:
            summaries = [FrameSummary(file, line, "forward") for file, line in known]
            self.traces[known] = "".join(StackSummary.from_list(summaries).format()).strip()
        return self.traces[known]

    def track(self, node: Node, value: Any) -> None:
        """Map ``value`` to ``node``, and its elements to new getitem nodes."""
        node.meta["val"] = tree_map_only(torch.Tensor, self.mode.snapshot, value)
        if isinstance(value, torch.Tensor):
            if type(value) is not FakeTensor:
                raise _NotPlain("a tensor that is not fake")
            self.nodes[value] = node
        elif is_sequence(value):
            for place, element in enumerate(value):
                self.track(self.node(operator.getitem, (node, place), {}, "getitem"), element)
        else:
            raise _NotPlain("a result that is no tensor")

    def argument(self, value: Any) -> Any:
        """``value`` with tensors replaced by nodes."""
        if isinstance(value, torch.Tensor):
            if (node := self.nodes.get(value)) is None:
                raise _NotPlain("a tensor that is no input")
            return node
        if is_sequence(value):
            return type(value)(map(self.argument, value)) if type(value) in (tuple, list) else tuple(map(self.argument, value))
        if is_dict(value):
            return {name: self.argument(each) for name, each in value.items()}
        return value
