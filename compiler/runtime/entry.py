"""The entry of a host program: one function that checks its inputs and runs ``main``, written out for one signature.

What it lets through is proven: tensors of PyTorch's own classes with the dtype, sizes, strides and device that the program was
compiled for, and weights that are still as they were. All else goes another way, which explains or copes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import torch

from fxc.runtime import autocast
from fxc.runtime.host_program import PLAIN, HostProgram, Weight
from fxc.runtime.known_tensors import KnownTensors
from fxc.runtime.lazy import laziness_tests
from fxc.runtime.native_kernel import TensorSpec
from fxc.runtime.signature import Signature, TensorInput

Other = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def entry(
    program: HostProgram, signature: Signature, other: Other, counter: Any, is_same: Callable[[], bool] | None = None
) -> Callable[..., Any]:
    """What a call runs: ``program.main`` where the inputs fit, else ``other(args, kwargs)``.

    ``counter.hits`` is the number of calls that fitted. ``is_same``: whether the model still is what the program was made of.
    """
    writer = _Writer(program, signature)
    text = writer.text(["not is_same()"] if is_same is not None else [])
    names = writer.names() | {
        "main": program.main,
        "other": other,
        "is_same": is_same,
        "counter": counter,
        "leaves_of": signature.leaves,
        "grad_enabled": torch.is_grad_enabled,
        "set_grad_enabled": torch._C._set_grad_enabled,  # type: ignore[attr-defined]
    }
    exec(text, names)
    return names["call"]


def check(program: HostProgram, signature: Signature, places: Sequence[int]) -> Callable[[Sequence[Any]], bool]:
    """Whether ``program.main`` may be given a list of arguments: ``signature`` describes those at ``places``, which it uses."""
    writer = _Writer(program, signature)
    inputs = [f"x{i}" for i in range(len(places))]
    unpacked = "".join(f"{name}, " for name in inputs), "".join(f"args[{place}], " for place in places)
    text = f"def fit(args):\n    ({unpacked[0]}) = ({unpacked[1]})\n    return not autocast() and ({writer.fitting(inputs)})"
    names = writer.names()
    exec(text, names)
    return names["fit"]


class _Writer:
    def __init__(self, program: HostProgram, signature: Signature) -> None:
        self.program, self.signature = program, signature
        self.specs = [_spec(described) for described in signature.inputs]
        self.weights = tuple(weight.tensor for weight in program.weights)
        self.values: dict[str, Any] = {"plain": PLAIN, "strided": torch.strided, "weights": self.weights}
        self._numbers = count()

    def names(self) -> dict[str, Any]:
        """What the tests name."""
        return self.values | {"fits": self.signature.fits_leaves, "autocast": autocast.is_on}

    def text(self, refused: Sequence[str]) -> str:
        inputs = [f"x{i}" for i in range(len(self.signature.inputs))]
        refused = [f"not ({self.fitting(inputs)})", "autocast()", *refused]
        lines = [
            "def call(*args, **kwargs):",
            *self.unpacked(inputs),
            f"    if {' or '.join(refused)}:",
            "        return other(args, kwargs)",
            "    counter.hits += 1",
            *self.run(f"main({', '.join(inputs)})"),
        ]
        return "\n".join(lines)

    def unpacked(self, inputs: Sequence[str]) -> list[str]:
        """Statements that name the inputs."""
        target = f"{', '.join(inputs)}, = " if inputs else ""
        if self.signature.is_flat:
            lines = [f"    if kwargs or len(args) != {len(inputs)}:", "        return other(args, kwargs)"]
            return [*lines, f"    {target}args"] if inputs else lines
        lines = ["    leaves = leaves_of(args, kwargs)", "    if leaves is None:", "        return other(args, kwargs)"]
        return [*lines, f"    {target}leaves"]

    def fitting(self, inputs: Sequence[str]) -> str:
        """An expression that is true of what ``main`` may be given; of tensors like those of calls before, it is quick."""
        fitting = self.fitting_each(inputs)
        if not self.signature.asks_of_memory:
            return fitting
        self.values["fits_memory"] = self.signature.fits_memory
        return f"({fitting}) and fits_memory(({''.join(f'{name}, ' for name in inputs)}))"

    def fitting_each(self, inputs: Sequence[str]) -> str:
        """The same, of each input alone."""
        tests = " and ".join(self.tests(inputs))
        if not self.is_simple or not (inputs or self.weights):
            return tests
        self.values["known"], listed = KnownTensors(), ", ".join([*inputs, "*weights"])
        return f"known.check({listed}) or ({tests} and known.learn({listed}))"

    @property
    def is_simple(self) -> bool:
        """Whether the inputs are tensors of known sizes and strides, and nothing else is asked."""
        return not self.signature.autocast and None not in self.specs

    def tests(self, inputs: Sequence[str]) -> list[str]:
        """Expressions that are true of what ``main`` may be given."""
        found = ["True"]
        if not self.is_simple:
            found.append(f"fits(({''.join(f'{name}, ' for name in inputs)}))")
        for name, spec, described in zip(inputs, self.specs, self.signature.inputs, strict=True):
            if self.is_simple and spec is not None:
                found += self.as_specified(name, spec)
            elif isinstance(described, TensorInput):
                found += [f"type({name}) in plain", *laziness_tests(name, getattr(torch, described.dtype))]
        return [*found, *self.tests_of_weights()]

    def tests_of_weights(self) -> Iterator[str]:
        """An expression for all weights that are to be alike: text for each takes long to compile, and longer to run."""
        groups = defaultdict[Any, list[Weight]](list)
        for weight in self.program.weights:
            spec = weight.spec
            groups[spec.dtype, spec.known_sizes(), spec.known_strides(), spec.device].append(weight)
        for i, group in enumerate(groups.values()):
            self.values[f"weights{i}"] = tuple(weight.tensor for weight in group)
            yield f"all([{' and '.join(self.as_specified('w', group[0].spec))} for w in weights{i}])"

    def as_specified(self, name: str, spec: TensorSpec) -> list[str]:
        i = next(self._numbers)
        self.values |= {
            f"sizes{i}": torch.Size(spec.known_sizes()),
            f"dtype{i}": spec.dtype,
            f"strides{i}": spec.known_strides(),
        }
        self.values[f"device{i}"] = spec.device
        here = f"{name}.is_cpu" if spec.device.type == "cpu" else f"{name}.device == device{i}"
        lies_right = f"{name}.is_contiguous()" if spec.contiguous else f"{name}.stride() == strides{i}"
        tests = [f"type({name}) in plain", f"{name}.shape == sizes{i}", f"{name}.dtype is dtype{i}", here]
        return [*tests, f"{name}.layout is strided", lies_right, *laziness_tests(name, spec.dtype)]

    def run(self, call: str) -> list[str]:
        """Statements that return what ``main`` does, with grad mode off where that matters."""
        if not self.program.calls_library:
            return [f"    return {call}"]
        return [
            "    if not grad_enabled():",
            f"        return {call}",
            "    set_grad_enabled(False)",
            "    try:",
            f"        return {call}",
            "    finally:",
            "        set_grad_enabled(True)",
        ]


def _spec(described: Any) -> TensorSpec | None:
    """A tensor input of known sizes and strides; None for another input."""
    if (
        not isinstance(described, TensorInput)
        or described.layout != "strided"
        or described.moves
        or described.values is not None
    ):
        return None
    dims, steps = described.sizes, described.strides
    if not all(isinstance(dim, int) for dim in (*dims, *(steps or ()))) or (steps is not None and {0, 1} & set(dims)):
        return None  # the stride of one element, or none, may be any
    sizes = tuple(int(dim) for dim in dims)
    strides = tuple(int(step) for step in steps) if steps is not None else _contiguous(sizes)
    return TensorSpec(described.name, getattr(torch, described.dtype), sizes, strides, device=torch.device(described.device))


def _contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return torch.empty(sizes, device="meta").stride()
