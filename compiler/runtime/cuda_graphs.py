"""Run host programs as CUDA graphs: the GPU work of a call is recorded once and replayed.

A recording reads and writes fixed addresses, so each set of addresses of inputs and weights has a recording. Inputs whose
addresses keep changing are copied to fixed tensors. Results are copied out of the memory pool that all recordings of a
program share. A program that waits for the GPU, as ``torch.cond`` does for its condition, cannot be recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol, cast

import torch
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from fxc.errors import FallbackWarning, PipelineError
from fxc.runtime.host_program import HostProgram

Key = tuple[Any, ...]

RECORDINGS = 8
"""The maximum number of address sets with a recording."""


class GraphDriver(Protocol):
    """The accelerator functions that recording uses.

    ``new_pool``: memory for recordings that never run concurrently. ``new_graph``: an empty graph with a method ``replay()``.
    ``recording``: a context that captures work into a graph without running it. ``aside``: a context that runs work on a
    separate stream and restores the random generators. ``waits``: whether ``run`` waits for the accelerator. ``mark``: an event
    after all work so far; ``wait``: later work starts after the event.
    """

    def is_available(self) -> bool: ...

    def new_pool(self) -> Any: ...

    def new_graph(self) -> Any: ...

    def recording(self, graph: Any, pool: Any) -> AbstractContextManager[Any]: ...

    def aside(self) -> AbstractContextManager[Any]: ...

    def waits(self, run: Callable[[], Any]) -> bool: ...

    def mark(self) -> Any: ...

    def wait(self, event: Any) -> None: ...


class CudaDriver:
    """PyTorch's CUDA; also ROCm, which has the same API."""

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
        with cast(Any, torch.random).fork_rng(), torch.cuda.stream(stream):
            yield
        outer.wait_stream(stream)

    def waits(self, run: Callable[[], Any]) -> bool:
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            run()
        except RuntimeError as error:
            if "synchronizing CUDA operation" not in str(error):
                raise
            return True
        finally:
            torch.cuda.set_sync_debug_mode(before)
        return False

    def mark(self) -> Any:
        return torch.cuda.current_stream().record_event()

    def wait(self, event: Any) -> None:
        torch.cuda.current_stream().wait_event(event)


@dataclass(frozen=True)
class _Recording:
    graph: Any
    results: Any


class CudaGraphs:
    """Record and replay ``program.main``. PipelineError if there is no accelerator, or if recording fails.

    A program that returns its inputs, or views of them, runs without recording, with a FallbackWarning: a replay would return
    those of the first call. So does one that waits for the accelerator.
    """

    def __init__(self, program: HostProgram, driver: GraphDriver | None = None) -> None:
        self.program, self.driver = program, driver or CudaDriver()
        if not self.driver.is_available():
            raise PipelineError("cuda_graphs is on, but there is no accelerator here", hint="leave the option out")
        self._main = program.main
        self.update_weights()
        self._pool = self.driver.new_pool()
        self._recordings = dict[Key, _Recording]()
        self._copies: tuple[Key, list[Any], _Recording] | None = None
        self._used: Any = None
        self._lock = Lock()
        self.records = True

    def update_weights(self) -> None:
        """Update the weights to the current tensors of the program."""
        self._weights = tuple(self.program.tensors())

    def __call__(self, *inputs: Any) -> Any:
        if not self.records:
            return self._main(*inputs)
        with self._lock:
            if self._used is not None:
                self.driver.wait(self._used)  # the last call may have been on another stream, by another thread
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
        """Copy inputs, whose addresses keep changing, to fixed tensors, and replay."""
        key = _addresses(self._weights)
        if self._copies is None or self._copies[0] != key:
            copies = tree_map_only(torch.Tensor, torch.clone, list(inputs))
            recording = self._record(copies)
            assert recording is not None  # earlier calls were recorded
            self._copies = (key, copies, recording)
        _, copies, recording = self._copies
        for copy, value in zip(copies, inputs, strict=True):
            if isinstance(copy, torch.Tensor):
                copy.copy_(value)
        return self._replayed(recording)

    def _record(self, inputs: Sequence[Any]) -> _Recording | None:
        """Record a call on these tensors. If it cannot be replayed, turn recording off and return None."""
        if self._waits(inputs):
            return self._give_up("the program waits for the GPU, as torch.cond, item and nonzero do")
        graph = self.driver.new_graph()
        try:
            with self.driver.recording(graph, self._pool):
                results = self._main(*inputs)
        except RuntimeError as error:
            raise PipelineError(f"the program cannot be recorded: {error}", hint="leave out cuda_graphs") from error
        if _storages(results) & _storages((inputs, self._weights)):
            return self._give_up("the program returns tensors that share memory with its inputs")
        return _Recording(graph, results)

    def _give_up(self, reason: str) -> None:
        self.records = False
        warnings.warn(f"cuda_graphs is on, but {reason}: it runs without a recording", FallbackWarning, stacklevel=2)

    def _waits(self, inputs: Sequence[Any]) -> bool:
        """Run once to load libraries and kernels, and undo all writes. Return whether the program waits for the GPU.

        The first time, it runs again to find that out. Meanwhile, other threads that wait for the GPU get an error.
        """
        with self.driver.aside(), ExitStack() as stack:
            for weight in self.program.written_weights:
                stack.callback(weight.copy_, weight.clone())
            copies = tree_map_only(torch.Tensor, torch.clone, list(inputs))
            self._main(*copies)
            return not self._recordings and self.driver.waits(lambda: self._main(*copies))

    def _replayed(self, recording: _Recording) -> Any:
        recording.graph.replay()
        leaves, nesting = tree_flatten(recording.results)
        made = dict[int, torch.Tensor]()
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and id(leaf) not in made:
                made[id(leaf)] = leaf.clone()
        return tree_unflatten([made.get(id(leaf), leaf) for leaf in leaves], nesting)


def _addresses(values: Sequence[Any]) -> Key:
    """Return the addresses of tensors, and types and values of other arguments."""
    return tuple([value.data_ptr() if isinstance(value, torch.Tensor) else (type(value), value) for value in values])


def _storages(nest: Any) -> set[int]:
    return {leaf.untyped_storage()._cdata for leaf in tree_flatten(nest)[0] if isinstance(leaf, torch.Tensor)}


class StreamDriver(Protocol):
    """The functions of an accelerator that streams use, as in ``torch.cuda``."""

    def Stream(self) -> Any: ...

    def Event(self) -> Any: ...

    def current_stream(self) -> Any: ...

    def stream(self, stream: Any) -> AbstractContextManager[Any]: ...


class Streams:
    """Streams by number, created on first use; 0 is the caller's current stream."""

    def __init__(self, driver: StreamDriver = torch.cuda) -> None:
        self.driver = driver
        self._made = dict[int, Any]()

    def on(self, number: int) -> AbstractContextManager[Any]:
        """Return a context whose work runs on stream ``number``."""
        return nullcontext() if number == 0 else self.driver.stream(self._stream(number))

    def record(self, number: int) -> Any:
        """Return an event at the current position of stream ``number``."""
        event = self.driver.Event()
        event.record(self._stream(number))
        return event

    def wait(self, event: Any, number: int) -> None:
        """Make later work on stream ``number`` start after ``event``."""
        self._stream(number).wait_event(event)

    def record_use(self, tensor: torch.Tensor, number: int) -> None:
        """Mark ``tensor`` as used by stream ``number``: its memory is not reused before the work of that stream is done."""
        tensor.record_stream(self._stream(number))

    def _stream(self, number: int) -> Any:
        if number == 0:
            return self.driver.current_stream()
        if number not in self._made:
            self._made.setdefault(number, self.driver.Stream())
        return self._made[number]
