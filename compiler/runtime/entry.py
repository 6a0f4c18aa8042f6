"""Dispatch to a host program: one function, generated for a signature, that checks the inputs and runs ``main``.

The checks prove that inputs are plain PyTorch tensors with the dtype, sizes, strides and device that the program was compiled
for, and that weights are unchanged. Other calls go to a fallback, which runs them or raises an error that explains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fxc.runtime import autocast
from fxc.runtime.guards import CodeNames, KnownTensors, all_of, plain_tests, untransformed_tests
from fxc.runtime.host_program import HostProgram, Weight
from fxc.runtime.inputs import TensorInput
from fxc.runtime.lazy import is_legacy_batched
from fxc.runtime.native_kernel import spec_tests
from fxc.runtime.signature import Signature

Other = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def entry(
    program: HostProgram, signature: Signature, other: Other, counter: Any, is_same: Callable[[], bool] | None = None
) -> Callable[..., Any]:
    """Return the function that a call runs: ``program.main`` if the inputs fit, else ``other(args, kwargs)``.

    ``counter.hits`` counts the calls that fit. ``is_same``: whether the model is unchanged since compilation.
    """
    names = CodeNames(
        main=program.main,
        other=other,
        is_same=is_same,
        counter=counter,
        leaves_of=signature.leaves,
        grad_enabled=torch.is_grad_enabled,
        set_grad_enabled=torch._C._set_grad_enabled,
    )
    inputs, elsewhere = signature.names, "return other(args, kwargs)"
    if signature.is_flat:
        unpacked, given = [f"if kwargs or len(args) != {len(inputs)}: {elsewhere}"], "args"
    else:
        unpacked, given = ["leaves = leaves_of(args, kwargs)", f"if leaves is None: {elsewhere}"], "leaves"
    tests = [signature.context_guard(names).test, *_fitting(program, signature, names), *["is_same()"] * (is_same is not None)]
    lines = [
        *unpacked,
        *([f"{', '.join(inputs)}, = {given}"] if inputs else []),
        f"if not ({all_of(dict.fromkeys(tests))}): {elsewhere}",
        "counter.hits += 1",
        *_run(program, f"main([{', '.join(inputs)}])" if program.boxed else f"main({', '.join(inputs)})"),
    ]
    return names.function(["*args", "**kwargs"], lines)


def boxed_entry(program: HostProgram, signature: Signature, other: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """Return the function of a list of inputs that runs ``program``, which empties it, if they fit, else ``other(*inputs)``."""
    names = CodeNames(
        main=program.main,
        other=other,
        fits=check(program, signature, range(len(signature.inputs))),
        grad_enabled=torch.is_grad_enabled,
        set_grad_enabled=torch._C._set_grad_enabled,
    )
    is_same = signature.context_guard(names).test
    return names.function(["args"], [f"if not ({is_same} and fits(args)): return other(*args)", *_run(program, "main(args)")])


def check(program: HostProgram, signature: Signature, places: Sequence[int]) -> Callable[[Sequence[Any]], bool]:
    """Return a check whether ``program.main`` accepts a list of arguments. ``signature`` describes those at ``places``."""
    names = CodeNames()
    unpacked = [f"x{i} = args[{place}]" for i, place in enumerate(places)]
    return names.function(["args"], [*unpacked, f"return {all_of(_fitting(program, signature, names))}"])


def _fitting(program: HostProgram, signature: Signature, names: CodeNames) -> list[str]:
    """Return tests that ``main`` accepts the inputs. Tensors like those of earlier calls take a fast path."""
    tests = [guard.test for guard in signature.input_guards(names)]
    for name, spec in zip(signature.names, signature.inputs, strict=True):
        if isinstance(spec, TensorInput):
            tests += [*plain_tests(name, spec.torch_dtype), f"not {names.of(is_legacy_batched)}({name})"]
    tests += _weight_tests(program.weights, names)
    no_transform, *others = untransformed_tests(names)
    fits = all_of([no_transform, *tests])
    if tests and all(isinstance(spec, TensorInput) and spec.is_exact for spec in signature.inputs):
        known, weights = names.of(KnownTensors()), names.of(tuple(weight.tensor for weight in program.weights))
        listed = ", ".join([*signature.names, f"*{weights}"])
        fits = f"({known}.check({listed}) or ({fits} and {known}.learn({listed})))"
    memory = [guard.test for guard in signature.memory_guards(names)]
    no_autocast = f"not {names.of(autocast.is_on)}()"  # a program contains its casts
    return [no_autocast, *others, fits, *memory]


def _weight_tests(weights: Sequence[Weight], names: CodeNames) -> Iterator[str]:
    """Yield one test for each group of weights with equal specs: one per weight is slower to compile and to run."""
    groups = defaultdict[Any, list[Weight]](list)
    for weight in weights:
        spec = weight.spec
        groups[spec.dtype, spec.known_sizes(), spec.known_strides(), spec.device].append(weight)
    for group in groups.values():
        tensors = names.of(tuple(weight.tensor for weight in group))
        yield f"all([{all_of(spec_tests('w', names, group[0].spec))} for w in {tensors}])"


def _run(program: HostProgram, call: str) -> list[str]:
    """Return statements that call ``main``, with grad mode off if the program calls library operators."""
    if not program.calls_library:
        return [f"return {call}"]
    return [
        f"if not grad_enabled(): return {call}",
        f"try: set_grad_enabled(False); return {call}",  # an interrupt may be raised as soon as it returns
        "finally: set_grad_enabled(True)",
    ]
