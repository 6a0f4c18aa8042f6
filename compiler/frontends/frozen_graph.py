"""Inference graphs of ``torch.compile`` with frozen weights. Dynamo passes the weights with every call and may change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch.fx import GraphModule
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr

from fxc.dialects.attributes.values import str_attr
from fxc.program.program import Program

Make = Callable[[Program], Callable[..., Any]]


class FrozenGraph:
    """A graph as a function of its inputs, ``imported`` and compiled for the weights among them on first use.

    ``weights``: their input indices. ``make`` compiles a program whose state has these weights, to a function of the other
    inputs. Weights that were written since, or have other memory (``weight.data = ...``), are compiled again, and so are those
    of another model that shares the graph. At most ``most`` compiled models are cached, the latest.
    """

    def __init__(
        self, graph: GraphModule, imported: Callable[[GraphModule], Program], weights: Sequence[int], make: Make, most: int
    ) -> None:
        self._graph, self._imported, self._weights, self._make, self._most = graph, imported, tuple(weights), make, most
        self._others = [i for i, _ in enumerate(_placeholders(graph)) if i not in set(weights)]
        self._made = dict[tuple[int, ...], _Made]()
        self._lock = Lock()

    def __call__(self, *inputs: Any) -> Any:
        weights = [inputs[i] for i in self._weights]
        return self._function(weights)(*[inputs[i] for i in self._others])

    def _function(self, weights: list[torch.Tensor]) -> Callable[..., Any]:
        key, marks = tuple(map(id, weights)), tuple(map(_version_and_address, weights))
        found = self._made.get(key)
        if found is None or found.marks != marks:
            with self._lock:
                found = self._made.get(key)
                if found is None or found.marks != marks:
                    found = _Made(marks, self._make(self._program(weights)), weights, [weight.detach() for weight in weights])
                    self._made.pop(key, None)
                    self._made[key] = found
                if len(self._made) > self._most:
                    del self._made[next(iter(self._made))]
        return found.function

    def _program(self, weights: list[torch.Tensor]) -> Program:
        program, names = self._imported(self._graph), [str(node.target) for node in _placeholders(self._graph)]
        attributes = list(program.main.arg_attrs or ())
        for i, weight in zip(self._weights, weights, strict=True):
            mark = {"fx.kind": str_attr("parameter"), "fx.name": str_attr(names[i])}
            attributes[i] = DictionaryAttr({**attributes[i].data, **mark})
            program.state[names[i]] = weight
        program.main.properties["arg_attrs"] = ArrayAttr(attributes)
        return program


def _placeholders(graph: GraphModule) -> list[Any]:
    return graph.graph.find_nodes(op="placeholder")


@dataclass(frozen=True)
class _Made:
    """``function``, compiled for ``weights`` at the versions ``marks``.

    Holds the weights and their ``memory``, so that no other tensors reuse their ids or addresses.
    """

    marks: tuple[tuple[int, int], ...]
    function: Callable[..., Any]
    weights: Sequence[torch.Tensor]
    memory: Sequence[torch.Tensor]


def _version_and_address(weight: torch.Tensor) -> tuple[int, int]:
    """The version of ``weight``, -1 for tensors of inference mode, which have none, and its address."""
    version = -1 if weight.is_inference() else weight._version
    return version, weight.data_ptr() if weight.layout is torch.strided else 0
