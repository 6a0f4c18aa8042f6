"""Check the arguments of a capture, and the results of the captured model."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves
from xdsl.ir import Attribute

from fxc.bridge.instances import with_instances
from fxc.bridge.values import SYMBOLIC_NUMBERS, attribute_of, is_dict, is_sequence, tree_of
from fxc.dialects.attributes.values import SSA, FunctionAttr
from fxc.errors import TORCH_COMPILE, CaptureError, InputError, nearest
from fxc.frontends.captured_model import Model, tensors_of
from fxc.frontends.python_state import variables_of
from fxc.frontends.unrecorded import Unrecorded, is_new_leaf
from fxc.program.program import Program


def check_call(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> None:
    """InputError if ``model`` is no model, inputs are not a tuple and a dictionary, or ``dynamic_shapes`` do not fit them."""
    if not is_sequence(args):
        raise InputError(f"args is a {type(args).__name__}, but a tuple of inputs is expected", hint="one input is (x,)")
    if not isinstance(cast(object, kwargs), Mapping):
        message = f"kwargs is a {type(kwargs).__name__}, but a dictionary of inputs by name is expected"
        raise InputError(message, hint='one input is {"x": x}')
    check_model(model)
    if not dynamic_shapes:
        return
    if not (is_dict(dynamic_shapes) or is_sequence(dynamic_shapes)):
        found = f"dynamic_shapes is {dynamic_shapes!r}, but a tuple or a dictionary with an entry for each input is expected"
        raise InputError(found, hint="a free batch is ({0: torch.export.Dim.AUTO},)")
    try:
        signature = model_signature(model)
        inputs = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return  # the capture reports a call that does not fit; some builtin functions have no signature
    shapes = dynamic_shapes if is_dict(dynamic_shapes) else dict(zip(inputs, dynamic_shapes, strict=False))
    is_open = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    for name in () if is_open else shapes.keys() - signature.parameters.keys():
        hint = nearest(str(name), inputs) or f"inputs: {', '.join(inputs)}"
        raise InputError(f"dynamic_shapes names {name!r}, which is no input of the model", hint=hint)
    for name in inputs.keys() & shapes.keys():
        _check_dimensions(name, inputs[name], shapes[name])


def check_model(model: Any) -> None:
    """InputError if ``model`` is neither a module nor a function."""
    if not callable(model):
        raise InputError(f"the model is {model!r}, which cannot be called", hint="give a torch.nn.Module or a function")
    if isinstance(model, type) and issubclass(model, torch.nn.Module):
        raise InputError(f"the model is the class {model.__qualname__}", hint=f"give an instance: {model.__qualname__}(...)")
    if any(map(is_lazy, tensors_of(cast(Any, model)))):
        message = "the model has parameters without a shape, which a lazy module makes in its first call"
        raise InputError(message, hint="call the model once before")
    if isinstance(model, torch.export.ExportedProgram):
        raise InputError("the model is an ExportedProgram, which cannot be called", hint="give its module: exported.module()")
    if isinstance(model, torch.jit.ScriptModule):
        hint = "give the torch.nn.Module that it was made of"
        raise InputError("the model is a ScriptModule, whose operators TorchScript runs", hint=hint)


def refuse_subclasses(model: Model, inputs: Any) -> None:
    """CaptureError for tensors of classes whose Python code sees their operators, or which hold others: a trace has neither."""
    given = (value for value in tree_leaves(inputs) if isinstance(value, torch.Tensor))
    for where, tensors in (("the model has a weight", tensors_of(model)), ("an input is a tensor", given)):
        for tensor in tensors:
            kind = type(tensor)
            holds = is_traceable_wrapper_subclass(tensor)
            if holds or (kind is not torch.Tensor and kind.__torch_function__ is not torch._C._disabled_torch_function_impl):
                reason = "which holds other tensors" if holds else "whose __torch_function__ its operators call"
                message = f"{where} of the class {kind.__name__}, {reason}"
                hint = f"use {TORCH_COMPILE}" + ", or convert it with .as_subclass(torch.Tensor)" * (not holds)
                raise CaptureError(message, hint=hint) from TypeError(kind)


def require_data(program: Program, failure: str) -> None:
    """CaptureError if ``program`` holds the fake tensors of a capture, or nested tensors that it made."""
    message, hint = "", f"use {TORCH_COMPILE}"
    if any(value.is_nested for value in program.state.values()):
        message = "a nested tensor that the model makes became a constant"
    if any(isinstance(value, (FakeTensor, FunctionalTensor)) for value in program.state.values()):
        message = "a fake tensor became a constant, as where a backward runs the forward again (a reentrant checkpoint)"
        hint = f"give checkpoint use_reentrant=False, or {hint}"
    if message:
        raise CaptureError(f"{failure}: {message}", hint=hint) from NotImplementedError(message)


def misfit(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """How these inputs differ from the parameters of ``model``; None if they fit."""
    try:
        signature = model_signature(model)
    except ValueError:
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"the parameters are {signature}: {error}"
    return None


def model_signature(model: Any) -> inspect.Signature:
    """ValueError for builtin functions that have none."""
    return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)


def keywords_in_order(model: Any, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The keywords that ``model`` takes as one dictionary, whose order it may use."""
    try:
        parameters = model_signature(model).parameters.values()
    except ValueError:
        return ()
    named = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    return tuple([key for key in kwargs if key not in named])


def _check_dimensions(name: str, value: Any, shapes: Any) -> None:
    if isinstance(value, torch.Tensor):
        for dimension in shapes if is_dict(shapes) else ():
            if dimension not in range(value.dim()):
                raise InputError(
                    f"dynamic_shapes names dimension {dimension!r} of {name}, which has {value.dim()} dimensions",
                    hint="dimensions count from 0",
                )
    elif is_dict(value) and is_dict(shapes):
        for key in value.keys() & shapes.keys():
            _check_dimensions(f"{name}[{key!r}]", value[key], shapes[key])
    elif is_sequence(value) and is_sequence(shapes):
        for index, (inner, shape) in enumerate(zip(value, shapes, strict=False)):
            _check_dimensions(f"{name}[{index}]", inner, shape)


@contextmanager
def results_checked(module: torch.nn.Module, training: bool) -> Generator[None, None, None]:
    """``checked_results`` of each call of ``module`` in this context.

    Unrecorded if in ``training`` it switches grad mode, or returns a leaf that it has made and that requires a gradient.
    """
    gradients = torch.is_grad_enabled()

    def check(module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
        if training and torch.is_grad_enabled() != gradients:
            raise Unrecorded("that the model switches grad mode for what follows its call is not recorded")
        given = {id(each) for each in tree_leaves((args, kwargs))}
        returned = (each for each in tree_leaves(result) if isinstance(each, torch.Tensor) and id(each) not in given)
        if training and any(map(is_new_leaf, returned)):
            raise Unrecorded("that a tensor which the model makes and returns requires a gradient is not recorded")
        return checked_results(module, result)

    handle = module.register_forward_hook(check, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def checked_results(model: Any, result: Any) -> Any:
    """``result`` with objects of user classes as containers of PyTorch's pytree.

    CaptureError if it has an object that is neither a value of a program nor a container, or that ``model`` holds.
    """
    result = flattenable(model, result)
    for leaf in tree_leaves(result):
        try:
            if (is_dict(leaf) or is_sequence(leaf)) and not isinstance(leaf, torch.Size):
                raise CaptureError("a subclass of list, tuple or dict that PyTorch's pytree takes for a value")
            tree_of(leaf, _attribute_of)  # a torch.Size or a slice has elements, and is no container of the pytree
        except CaptureError:
            raise CaptureError(
                f"the model returns a {type(leaf).__qualname__}, and programs return tensors, numbers and strings in tuples,"
                " lists, dicts and objects of classes",
                hint=f"return these, make the object in each call, or use {TORCH_COMPILE}",
            ) from None
    return result


def flattenable(model: Any, result: Any) -> Any:
    """``result`` with objects of user classes as containers of PyTorch's pytree, if ``model`` holds none of them."""
    try:
        return result if isinstance(result, torch.Tensor) else with_instances(result, held_by(model))
    except CaptureError:
        return result


def held_by(model: Any) -> Set[int]:
    """The identities of objects that modules of ``model``, globals and closures hold."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    functions = [inspect.unwrap(getattr(each, "__func__", each)) for each in ([each.forward for each in modules] or [model])]
    variables = [variables_of(each) for each in functions if hasattr(each, "__code__")]
    return {id(value) for holder in (*map(vars, modules), *variables) for value in holder.values()}


def _attribute_of(value: Any) -> Attribute:
    if isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS)):
        return SSA
    if isinstance(attribute := attribute_of(value), FunctionAttr):
        raise CaptureError("a function, which a graph can call, and cannot return")
    return attribute
