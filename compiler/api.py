"""The public functions: capture, passes, export, compile. Wiring only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import UnitAttr
from xdsl.passes import ModulePass

from fxc.artifact.cache import Ready
from fxc.codegen.contract import machine_of, require_kernels, target_named
from fxc.compilation.passes import CachedCompilation, LaterDerivatives, Passes
from fxc.compilation.rank_order import check_order
from fxc.dialects import dist
from fxc.dialects.plan import BOXED
from fxc.dialects.target import GpuAttr
from fxc.driver.gc_pause import collections_paused
from fxc.driver.pipeline import Flow
from fxc.driver.pipeline_text import PassSpec
from fxc.driver.timing import Timer
from fxc.errors import TORCH_COMPILE, CaptureError, InputError, PipelineError, nearest
from fxc.execution_plan import ExecutionPlan, Source, StepPlan
from fxc.export import graph_module
from fxc.export.joint_modules import modules_of as parts_of
from fxc.export.joint_modules import program_of
from fxc.export.plan_time_values import own_weights
from fxc.export.shared_state import (
    placed_state,
    refuse_later_starts,
    refuse_partial_sharing,
    refuse_shared_inputs,
    written_state,
)
from fxc.frontends.capture import capture, capture_somehow
from fxc.frontends.captured_model import Model, compile_lock, modules_of
from fxc.frontends.check_call import check_call, keywords_in_order
from fxc.frontends.distributed_capture import capture_local, has_dtensors, refuse_fsdp
from fxc.frontends.import_fx import import_fx
from fxc.frontends.in_parts import compiled_in_parts, in_modes, modes_of
from fxc.frontends.state_reads import StateReads
from fxc.numerics.call_check import watch_first_call
from fxc.options import AUTO, Options
from fxc.pipelines import AOT, INFERENCE, TRAINING, parse_pipeline
from fxc.program.program import Program, require_program
from fxc.program.program_signature import (
    mark_gradients,
    refuse_written_leaves,
    signature_of,
    with_constants,
    with_findings,
    with_writes,
)
from fxc.runtime import autocast
from fxc.runtime.cache import Compiled, PlanCache
from fxc.runtime.distributed_call import DistributedCall, DTensorPart, differentiable, local_of
from fxc.runtime.host_program import HostProgram, KernelCode
from fxc.runtime.live_model import LiveModel
from fxc.runtime.plan import Plan
from fxc.runtime.rank_store import RankStore
from fxc.runtime.signature import Signature

if TYPE_CHECKING:
    from torch.fx import GraphModule

__all__ = ["capture", "compile", "import_fx", "run_passes", "to_fx"]


def to_fx(program: Program, *, lifted: bool = False) -> GraphModule:
    """The entry function of ``program`` as an executable GraphModule.

    By default parameters, buffers and constants are attributes of the GraphModule, and it has the signature of the captured
    model, including the nesting of an exported program. With ``lifted=True`` they are placeholders, as in the imported graph,
    node for node. ``node.meta["val"]`` has fake tensors of the types of the IR, which ``import_fx`` reads. The graph checks no
    inputs: after passes it is for those of the types of the IR that do not share memory, and that begin at the start of their
    storage where the model uses ``as_strided`` with an offset. Raises TargetError for a callee that a graph may not name,
    WeightsError for a tensor without a value, InputError if ``program`` is no program.
    """
    require_program(program, "to_fx")
    later = program.later or LaterDerivatives(Options.from_env())
    return graph_module.to_fx(replace(program, later=later), lifted=lifted, for_users=True)


def run_passes(
    program: Program,
    pipeline: str,
    *,
    options: Options | Mapping[str, Any] | None = None,
    passes: Sequence[type[ModulePass] | str | Path] = (),
) -> Program:
    """A new program: ``program`` after ``pipeline`` (``"canonicalize,cse,dce"``). ``program`` is not changed.

    ``passes``: custom passes that the pipeline may name: classes, or Python files with one pass each. Raises
    PipelineError for an unknown pass or option, PassError where a pass fails, NumericsError where ``options.check_numerics``
    finds a pass that changes the results, InputError if ``program`` is no program.
    """
    require_program(program, "run_passes")
    if not isinstance(cast(object, pipeline), str):
        raise PipelineError(f"the pipeline is a {type(pipeline).__name__}, but a text is expected", hint='one is "cse,dce"')
    result = program.copy()
    chosen = run_options(options)
    Passes(pipeline, replace(chosen, passes=(*chosen.passes, *passes))).run(result)
    return result


def compile(
    model: Model,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    dynamic_shapes: Any = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Compiled:
    """Compile ``model`` for inputs like the example, ``args`` and ``kwargs``. Returns a callable with ``.ir`` and ``.plan``.

    The callable has the signature of ``model`` and accepts inputs with the dtypes, devices and sizes of the example
    (``dynamic_shapes``, as in torch.export, makes sizes dynamic). It shares the parameters of the model: training the model
    trains the callable. Later replacements (``load_state_dict(assign=True)``, another ``nn.Linear``) take effect at the next
    call. A call raises InputError where a replacement does not fit what was compiled, or where other state that the model
    reads has changed: attributes, contents of lists and dictionaries, globals and closure variables, submodules or hooks.
    Values computed in a call that the model stores in its attributes, a list or a dictionary are stored at each call.
    ``training``: whether results carry gradients. The current train or eval mode of the model is compiled in, and the first
    call in another one warns. So are the casts of the active torch.autocast; calls must use the same autocast state. A model
    that cannot be captured runs in PyTorch, with compiled parts and without a ``plan``, after a FallbackWarning. Raises
    CaptureError where that fails or options exclude it, InputError where ``args`` is not a tuple or list or ``dynamic_shapes``
    do not fit, PipelineError for an unknown option. A call raises InputError for inputs that do not fit, or captures the model
    again for them if ``options.recompile`` is set.
    """
    check_call(model, args, {} if kwargs is None else kwargs, dynamic_shapes)
    chosen = run_options(options)
    maker = _PlanMaker(model, training, dynamic_shapes, chosen, modes_of(model))
    args, kwargs = tuple(args), dict(kwargs or {})
    try:
        if not chosen.recompile:
            return Compiled(maker(args, kwargs))
        cache = PlanCache(chosen.cache_size, maker, gradients=training, fall_back=maker.in_parts)
        plan = cache.plan_for(args, kwargs)
        assert plan is not None, "the first call has a plan, or raises"
        return Compiled(plan, cache)
    except CaptureError as reason:
        if dynamic_shapes is not None and maker.needs_known_sizes(reason, args, kwargs):
            raise
        return compiled_in_parts(model, args, kwargs, maker.modes, training, chosen, reason)


@dataclass(frozen=True)
class _PlanMaker:
    """Make the plan of a call. A later call captures the model in the train or eval mode of the first call."""

    model: Model
    training: bool
    dynamic_shapes: Any
    options: Options
    modes: Mapping[str, bool]

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExecutionPlan:
        import torch
        from torch.utils._pytree import tree_map_only

        # a cache has separate plans for calls under no_grad
        training = self.training and (not self.options.recompile or torch.is_grad_enabled())
        if not (training and torch.is_inference_mode_enabled()):
            with compile_lock():
                return self._make(args, kwargs, training)
        with compile_lock(), torch.inference_mode(False):  # tensors made in inference mode cannot be trained outside of it
            args, kwargs = tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
            return self._make(args, kwargs, training)

    def needs_known_sizes(self, reason: CaptureError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the model is captured with the sizes of the example, and no operator is why it is not with free ones."""
        from torch._subclasses.fake_tensor import UnsupportedOperatorException

        if isinstance(reason.__cause__, UnsupportedOperatorException):
            return False
        try:
            capture_somehow(self.model, args, kwargs, dynamic_shapes=None, training=self.training)
        except CaptureError:
            return False
        return True

    def in_parts(self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: CaptureError, first: Plan) -> Compiled:
        """The model in parts, for calls that cannot be captured; the warning names a size that is out of its bounds."""
        if self.dynamic_shapes is not None:
            try:
                first.signature.check(args, kwargs)
            except InputError as error:
                cause, reason = reason, CaptureError(error.message, hint=error.hint)
                reason.__cause__ = cause
        return compiled_in_parts(self.model, args, kwargs, self.modes, self.training, self.options, reason)

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool) -> ExecutionPlan:
        flow, timer = TRAINING if training else INFERENCE, Timer()
        with timer.scope("capture"), in_modes(self.model, self.modes), collections_paused():
            refuse_fsdp(self.model)
            is_local = has_dtensors(self.model, args, kwargs)
            if is_local and (self.dynamic_shapes is not None or self.options.recompile):
                raise CaptureError("DTensors have static sizes, and one layout for a plan", hint=f"use {TORCH_COMPILE}")
            if is_local and training:
                return self._train(args, kwargs)
            if training:
                _refuse_memory_options(self.options)
            local = capture_local(self.model, args, kwargs) if is_local else None
            if local is None:
                program = capture_somehow(self.model, args, kwargs, dynamic_shapes=self.dynamic_shapes, training=training)
            else:
                program, (args, kwargs) = local.program, local.call.local_inputs()
            signature = replace(_signature_of_call(program, args, kwargs), ordered=keywords_in_order(self.model, kwargs))
            if training:
                mark_gradients(program, signature, args, kwargs)
        with autocast.off():  # passes query PyTorch for the semantics of operators
            options = with_machine(self.options, flow, program)
            passes = Passes(pipeline_for(flow, options) + ",bring-inputs" * options.move_inputs, options, timer)
            written, at_start = written_state(program) if options.freeze else None, placed_state(program)
            captured = replace(program.copy(), state={})
            plan = _plan_of(program, passes, signature, training, written)
        plan.source = Source(_title(self.model), captured, passes)
        if program.stored is not None:
            plan.store_in(program.stored)
        if training:
            refuse_written_leaves(program)
        if options.move_inputs and plan.host is None:
            raise PipelineError("move_inputs needs a host program, and this plan is a graph of operators", hint="name a target")
        if not options.freeze:
            modules = modules_of(self.model)
            python = StateReads(modules, self.model, program.assigned)
            state = program.state if local is None else {**local.call.state}
            plan.follow(LiveModel(modules, state, python, compile_lock, at_start, training))
        if local is not None:
            parts, results = ([*map(DTensorPart.of, specs)] for specs in (local.call.inputs, local.call.results))
            names, weights = [spec.name for spec in signature.inputs], local.weights()
            plan.call_through(lambda run: DistributedCall(run, names, parts, results, weights))
        return plan

    def _train(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExecutionPlan:
        """The plan of a step with DTensors: the forward and its backward, with gradients of the placements of eager mode."""
        from torch.utils._pytree import tree_unflatten

        from fxc.frontends.distributed_capture import capture_local_joint

        joint = capture_local_joint(self.model, args, kwargs)
        call, state, count = joint.call, {**joint.call.state}, len(joint.call.state)
        names, returned = call.names, call.returned
        taken = signature_of(joint.program).inputs[count : count + len(names)]
        inputs = tuple(replace(spec, name=name) for spec, name in zip(taken, names, strict=True))
        signature, captured = with_constants(Signature(inputs, call.nesting, {}), args, kwargs), joint.program.copy()
        gradients = [None if gradient is None else DTensorPart.of(*gradient) for gradient in joint.gradients]
        with autocast.off():
            options = with_machine(replace(self.options, check_numerics=False), AOT, joint.program)
            split = joint_pipeline(options)
            Passes(split, options).run(joint.program)
            forward, backward = parts_of(joint.graph, joint.program, len(call.results))
            run = compile_graph(program_of(forward, import_fx), options).flat()
            back = compile_graph(program_of(backward, import_fx), options, boxed=True).boxed()
        function = differentiable(run, back, joint.differentiated)

        def step(*local: Any) -> Any:
            weights = map(local_of, state.values(), gradients)
            return tree_unflatten(function(*weights, *local), returned)

        plan = StepPlan(captured, joint.graph, signature, step)
        both = f"{split},builtin.module({pipeline_for(AOT, options)})"
        plan.source = Source(_title(self.model), captured, Passes(both, options))
        python = StateReads(modules_of(self.model), self.model, joint.program.assigned)
        plan.follow(LiveModel(modules_of(self.model), state, python, compile_lock, frozenset(), True))
        parts, results = ([*map(DTensorPart.of, specs)] for specs in (call.inputs, call.results))
        plan.call_through(lambda run: DistributedCall(run, names, parts, results, {}, gradients[count:]))
        return plan


def _signature_of_call(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
    """The signature of a call of ``program``, captured at these inputs.

    CaptureError where the inputs share memory in a way that a signature cannot state.
    """
    refuse_partial_sharing(program)
    signature = with_writes(with_constants(signature_of(program), args, kwargs), program)
    refuse_shared_inputs(program, signature.leaves(args, kwargs))
    refuse_later_starts(program, signature.leaves(args, kwargs))
    return signature


def _title(model: Any) -> str:
    """The name of a function, or of the class of a module."""
    return getattr(model, "__name__", type(model).__name__)


def compile_graph(program: Program, options: Options, flow: Flow = AOT, *, boxed: bool = False) -> ExecutionPlan:
    """Compile a graph of AOTAutograd, given as a program. The program is changed.

    ``boxed``: for inputs in one list, which the function may empty to release each after its last use.
    """
    if boxed and not options.cuda_graphs:  # which copy the inputs
        program.main.attributes[BOXED] = UnitAttr()
    options = with_machine(options, flow, program)
    return _plan_of(program, Passes(pipeline_for(flow, options), options), signature_of(program))


def _plan_of(
    program: Program, passes: Passes, signature: Signature, training: bool = False, written: Set[str] | None = None
) -> ExecutionPlan:
    """The plan of ``program`` after ``passes``. Loads the result for an equal program from the cache. ``program`` is changed.

    ``signature``: of the program before the passes. With ``written`` the plan has copies of all weights but these.
    CollectiveError where other ranks have other collectives. If it is the passes that make them differ, as they may where
    shards are uneven, the collectives stay as captured.
    """
    store = RankStore.of_process()
    if store is None or not any(isinstance(op, dist.GroupOp) for op in program.module.ops):
        return _compiled(program, passes, signature, training, written, store)
    plain, captured = passes.without("distributed"), program.copy()
    plan = _compiled(program, passes, signature, training, written, store)
    wrong = check_order(plan.ir.module, store, captured.module)
    if wrong is not None and plain is not passes:
        plan = _compiled(captured.copy(), plain, signature, training, written, store)
        wrong = check_order(plan.ir.module, store, captured.module, as_captured=True)
    if wrong is not None:
        raise wrong
    return plan


def _compiled(
    program: Program, passes: Passes, signature: Signature, training: bool, written: Set[str] | None, store: RankStore | None
) -> ExecutionPlan:
    """``_plan_of``, whatever the collectives of other ranks are; one of the ranks in ``store`` compiles an equal program."""
    options, cached = passes.options, CachedCompilation.of(program, passes)
    may_run_as_it_is = not (options.freeze or options.strict or options.move_inputs)

    def export(program: Program, kernels: Mapping[str, KernelCode]) -> ExecutionPlan:
        if options.strict:
            require_kernels(program.module)
        if written is not None:
            own_weights(program, written)
        with passes.timer.scope("export"):
            return ExecutionPlan.of(program, with_findings(signature, program), training, kernels)

    def host_of(plan: ExecutionPlan) -> HostProgram | None:
        return plan.host if plan.signature.conditions == signature.conditions else None  # else cached code skips these checks

    with cached.once_among_ranks(store):
        if may_run_as_it_is and (ready := cached.ready()) is not None:
            plan = ExecutionPlan.ready(partial(_ready_program, ready, program), ready.host, signature, training)
        else:
            captured = program.copy() if options.check_numerics == "call" else None
            program.group_limit, program.later = options.group_limit, LaterDerivatives(options)
            program.watch = None if captured is None else watch_first_call
            plan = cached.compile(export, ExecutionPlan.kernel_codes, host_of)
            plan.ir = replace(program, key=None)  # users may edit the IR
            if captured is not None:
                plan.watch_first_call(watch_first_call(captured, program, boxed=BOXED in program.main.attributes))
    plan.times = MappingProxyType(passes.timer.stages())
    if options.cuda_graphs:
        plan.use_cuda_graphs()
    return plan


def _ready_program(ready: Ready, captured: Program) -> Program:
    return Program(ready.module(), captured.state, {}, captured.context)


def with_machine(options: Options, flow: Flow, program: Program) -> Options:
    """``options`` with ``auto`` resolved to a machine for a captured graph, if ``flow`` makes host programs."""
    if options.target != AUTO:
        return options

    return replace(options, target=None if options.pipeline or flow.plan is None else machine_of(program.module))


def pipeline_for(flow: Flow, options: Options) -> str:
    """The pipeline of ``options`` if set; else that of ``flow``, lowered to kernels if there is a target.

    PipelineError where the flow supports no frozen weights or streams and ``options`` request them.
    """
    kernels = options.target is not None
    if options.streams > 1:
        _refuse_idle_streams(flow, options)
    return options.pipeline or flow.text(kernels=kernels, freeze=options.freeze, streams=options.streams)


def _refuse_idle_streams(flow: Flow, options: Options) -> None:
    """PipelineError unless a host program for a GPU is made; only that has streams."""
    if options.pipeline:
        why, hint = "the option pipeline decides it", f"write lower-to-plan{{streams={options.streams}}} in it"
    elif flow.plan is None:
        why, hint = "training plans have no streams", "leave it out, or train by torch.compile(backend='fxc')"
    elif options.target is None or (options.target != AUTO and not isinstance(target_named(options.target), GpuAttr)):
        why, hint = f"the target is {options.target}, which is not a GPU", "name one: target='cuda'"
    else:
        return
    raise PipelineError(f"streams is {options.streams}, but {why}", hint=hint)


def _refuse_memory_options(options: Options) -> None:
    """PipelineError for what only the partition of a joint graph obeys: autograd saves what these plans need."""
    for name in ("memory_budget", "offload"):
        if (value := getattr(options, name)) != getattr(Options, name):
            message = (
                f"{name} is {value!r}, but fxc.compile(training=True) partitions no joint graph of a model without DTensors"
            )
            raise PipelineError(message, hint=f"leave it out, or train by {TORCH_COMPILE}, which obeys it")


def joint_pipeline(options: Options) -> str:
    """The text of the pipeline ``joint`` with ``options.memory_budget`` and ``options.offload``."""
    return str(PassSpec.of("joint", budget=options.memory_budget, offload=options.offload))


def run_options(options: Options | Mapping[str, Any] | None) -> Options:
    """``options`` merged over the environment.

    PipelineError for a field that Options does not have, and for a value of a wrong type.
    """
    chosen = options if isinstance(options, Options) else replace(Options.from_env(), **_named(options or {}))
    if (chosen.memory_budget, chosen.offload) != (Options.memory_budget, Options.offload):
        parse_pipeline(joint_pipeline(chosen))
    return chosen


def _named(options: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(cast(object, options), Mapping):
        message = f"options is a {type(options).__name__}, but a dictionary or fxc.Options is expected"
        raise PipelineError(message, hint='one option is {"target": "host"}')
    names = [field.name for field in fields(Options)]
    for name in options:
        if name not in names:
            raise PipelineError(f"fxc has no option {name!r}", hint=nearest(str(name), names) or f"options: {', '.join(names)}")
    return options
