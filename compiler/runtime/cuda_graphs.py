"""Host programs as CUDA graphs: what a call starts on a GPU is recorded once, and started again as one piece.

A recording reads and writes fixed addresses. So there is one for each set of addresses that inputs and weights come at; what
comes at ever new ones is copied to tensors that stay. Results are copied out of the recording's own memory, which all
recordings of a program share.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from fxc.errors import PipelineError
from fxc.runtime.host_program import HostProgram

Key = tuple[Any, ...]

RECORDINGS = 8
"""So many sets of addresses have recordings of their own."""


class GraphDriver(Protocol):
    """What is asked of an accelerator.

    ``new_pool``: memory for recordings, which do not run at one time. ``new_graph``: an empty recording, whose ``replay()``
    starts what it holds. ``recording``: a region whose work goes into a graph and does not run. ``aside``: a region whose work
    runs on a stream of its own, and leaves the generators as they are. ``mark``: an event, what was started so far; ``wait``:
    what is started from here on comes after it.
    """

    def is_available(self) -> bool: ...

    def new_pool(self) -> Any: ...

    def new_graph(self) -> Any: ...

    def recording(self, graph: Any, pool: Any) -> AbstractContextManager[Any]: ...

    def aside(self) -> AbstractContextManager[Any]: ...

    def mark(self) -> Any: ...

    def wait(self, event: Any) -> None: ...


class CudaDriver:
    """PyTorch's CUDA, and ROCm under that name."""

    def is_available(self) -> bool:
        return torch.cuda.is_available()

    def new_pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    def new_graph(self) -> Any:
        return torch.cuda.CUDAGraph()

    def recording(self, graph: Any, pool: Any) -> AbstractContextManager[Any]:
        return torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local")

    @contextmanager
    def aside(self) -> Any:
        stream, outer = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(outer)
        with torch.random.fork_rng(), torch.cuda.stream(stream):
            yield
        outer.wait_stream(stream)

    def mark(self) -> Any:
        return torch.cuda.current_stream().record_event()

    def wait(self, event: Any) -> None:
        torch.cuda.current_stream().wait_event(event)


@dataclass(frozen=True)
class _Recording:
    graph: Any
    results: Any


class CudaGraphs:
    """``program.main`` as recordings. PipelineError where there is no accelerator to record.

    A program that returns its inputs or views of them is run, not recorded: results would be those of the first call.
    """

    def __init__(self, program: HostProgram, driver: GraphDriver | None = None) -> None:
        self.program, self.driver = program, driver or CudaDriver()
        if not self.driver.is_available():
            raise PipelineError("cuda_graphs is on, but there is no accelerator here", hint="leave the option out")
        self._main = program.main
        self.look_again()
        self._pool = self.driver.new_pool()
        self._recordings = dict[Key, _Recording]()
        self._copies: tuple[Key, list[Any], _Recording] | None = None
        self._used: Any = None
        self._lock = Lock()
        self.records = True

    def look_again(self) -> None:
        """Takes note of the tensors that the program has now."""
        self._weights = tuple(self.program.tensors())

    def __call__(self, *inputs: Any) -> Any:
        if not self.records:
            return self._main(*inputs)
        with self._lock:
            if self._used is not None:
                self.driver.wait(self._used)  # by another thread, on another stream
            try:
                return self._run(inputs)
            finally:
                self._used = self.driver.mark()

    def _run(self, inputs: Sequence[Any]) -> Any:
        key = _addresses((*inputs, *self._weights))
        recording = self._recordings.get(key)
        if recording is not None:
            return self._replayed(recording)
        if len(self._recordings) < RECORDINGS:
            recording = self._record(inputs)
            if recording is None:
                return self._main(*inputs)
            self._recordings[key] = recording
            return self._replayed(recording)
        return self._main(*inputs) if self.program.written_inputs else self._run_on_copies(inputs)

    def _run_on_copies(self, inputs: Sequence[Any]) -> Any:
        """Of inputs that come at new addresses again and again."""
        key = _addresses(self._weights)
        if self._copies is None or self._copies[0] != key:
            copies = tree_map_only(torch.Tensor, torch.clone, list(inputs))
            recording = self._record(copies)
            assert recording is not None  # others were recorded
            self._copies = (key, copies, recording)
        _, copies, recording = self._copies
        for copy, value in zip(copies, inputs, strict=True):
            if isinstance(copy, torch.Tensor):
                copy.copy_(value)
        return self._replayed(recording)

    def _record(self, inputs: Sequence[Any]) -> _Recording | None:
        """A recording on these very tensors; None, for good, where results share memory with them."""
        self._warm_up(inputs)
        graph = self.driver.new_graph()
        with self.driver.recording(graph, self._pool):
            results = self._main(*inputs)
        if _storages(results) & _storages((inputs, self._weights)):
            self.records = False
            return None
        return _Recording(graph, results)

    def _warm_up(self, inputs: Sequence[Any]) -> None:
        """Run once, so that libraries and kernels are loaded, and write nothing that stays."""
        with self.driver.aside(), ExitStack() as stack:
            for weight in self.program.written_weights:
                stack.callback(weight.copy_, weight.clone())
            self._main(*tree_map_only(torch.Tensor, torch.clone, list(inputs)))

    def _replayed(self, recording: _Recording) -> Any:
        recording.graph.replay()
        leaves, nesting = tree_flatten(recording.results)
        made = dict[int, torch.Tensor]()
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and id(leaf) not in made:
                made[id(leaf)] = leaf.clone()
        return tree_unflatten([made.get(id(leaf), leaf) for leaf in leaves], nesting)


def _addresses(values: Sequence[Any]) -> Key:
    """Where tensors lie, and what other values are."""
    return tuple([value.data_ptr() if isinstance(value, torch.Tensor) else (type(value), value) for value in values])


def _storages(nest: Any) -> set[int]:
    return {leaf.untyped_storage()._cdata for leaf in tree_flatten(nest)[0] if isinstance(leaf, torch.Tensor)}
