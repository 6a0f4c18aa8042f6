"""CUDA graphs and streams: the order of what a driver is asked to do, on a stand-in that records and replays on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fxc
from fxc.errors import FallbackWarning, PipelineError
from fxc.export.host import host_program
from fxc.runtime.cuda_graphs import RECORDINGS, CudaGraphs, Streams


class Graph(TorchDispatchMode):
    """Calls of operators with their very tensors, to be made again. Recording them leaves what is written as it was."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log, self.calls = log, list[Callable[[], Any]]()
        self.before = list[tuple[torch.Tensor, torch.Tensor]]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func._schema.is_mutable:
            [target] = [given["out"] if "out" in given else args[0]]
            self.before.append((target, target.clone()))
            self.calls.append(lambda: func(*args, **given))
            return func(*args, **given)
        result = func(*args, **given)
        if not func.is_view:
            self.calls.append(lambda: result.copy_(func(*args, **given)))
        return result

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for target, value in reversed(self.before):
            target.copy_(value)

    def replay(self) -> None:
        self.log.append("replay")
        for call in self.calls:
            call()


class StandIn:
    """A driver that says what it was asked for."""

    def __init__(self, available: bool = True, waiting: bool = False) -> None:
        self.log, self.available, self.waiting, self.graphs = list[str](), available, waiting, list[Graph]()

    def is_available(self) -> bool:
        return self.available

    def new_pool(self) -> Any:
        self.log.append("pool")
        return "pool"

    def new_graph(self) -> Graph:
        self.graphs.append(Graph(self.log))
        return self.graphs[-1]

    @contextlib.contextmanager
    def recording(self, graph: Graph, pool: Any) -> Iterator[None]:
        assert pool == "pool"
        self.log.append("record")
        with graph:
            yield
        self.log.append("end")

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        self.log.append("warm up")
        yield

    def waits(self, run: Callable[[], Any]) -> bool:
        run()
        return self.waiting

    def mark(self) -> str:
        self.log.append("mark")
        return "event 1"

    def wait(self, event: str) -> None:
        self.log.append(f"wait {event}")


PROGRAM = """
func.func @main(%x: tensor<3xf32> {fx.kind = "input", fx.name = "x"}, %w: tensor<3xf32> {fx.kind = "buffer", fx.name = "w"})
    -> !fx.value {
  %b = plan.alloc : tensor<3xf32>
  %r = torch.aten.add.out(%x, %w, out = %b) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %s = torch.aten.mul.Tensor(%b, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %after
  plan.free %b : tensor<3xf32>
  fx.output((%s, [%s])) : (tensor<3xf32>, tensor<3xf32>) -> ()
}
"""
WRITES = "%q = torch.aten.{op}.default(%{target}, %s) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>"


def graphs_of(after: str = "", output: str = "", driver: StandIn | None = None) -> tuple[CudaGraphs, StandIn, torch.Tensor]:
    weight, driver = torch.ones(3), driver or StandIn()
    text = PROGRAM.replace("%after", after)
    if output:
        text = text.replace("(%s, [%s])", output).replace("(tensor<3xf32>, tensor<3xf32>) -> ()", "(tensor<3xf32>) -> ()")
    return CudaGraphs(host_program(fxc.Program.parse(text, {"w": weight})), driver), driver, weight


def test_the_first_call_records_and_later_ones_replay() -> None:
    run, driver, weight = graphs_of()
    assert driver.log == ["pool"]
    x = torch.arange(3.0)
    logs = list[list[str]]()
    for _ in range(3):
        driver.log.clear()
        first, [second] = run(x)
        torch.testing.assert_close(first, (x + weight) ** 2)
        assert first is second, "one value stays one"
        logs.append(list(driver.log))
        x.add_(1)
    assert logs[0] == ["warm up", "record", "end", "replay", "mark"]
    assert logs[1:] == [["wait event 1", "replay", "mark"]] * 2 and len(driver.graphs) == 1


def test_results_are_the_callers() -> None:
    run, _, _ = graphs_of()
    x = torch.arange(3.0)
    first = run(x)[0]
    kept = first.clone()
    x.add_(1)
    run(x)
    assert torch.equal(first, kept)


def test_each_set_of_addresses_has_a_recording_up_to_a_limit() -> None:
    run, driver, weight = graphs_of()
    inputs = [torch.full((3,), float(i)) for i in range(RECORDINGS + 4)]
    for _ in range(2):
        for x in inputs:
            torch.testing.assert_close(run(x)[0], (x + weight) ** 2)
    assert len(driver.graphs) == RECORDINGS + 1, "and one on copies"


def test_weights_elsewhere_are_recorded_anew() -> None:
    run, _, weight = graphs_of()
    x = torch.arange(3.0)
    run(x)
    weight.data = torch.full((3,), 5.0)
    torch.testing.assert_close(run(x)[0], (x + 5) ** 2)
    for i in range(RECORDINGS):
        run(torch.full((3,), float(i)))
    others = [torch.full((3,), 7.0) for _ in range(3)]
    torch.testing.assert_close(run(others[0])[0], torch.full((3,), 144.0))
    weight.data = torch.zeros(3)
    torch.testing.assert_close(run(others[1])[0], torch.full((3,), 49.0))


@pytest.mark.parametrize("target", ["x", "w"])
def test_what_a_call_writes_it_writes_once(target: str) -> None:
    """Neither warming up nor recording leaves anything."""
    run, _, weight = graphs_of(WRITES.format(op="copy_", target=target))
    x = torch.full((3,), 2.0)
    run(x)
    assert x.tolist() + weight.tolist() == ([9.0] * 3 + [1.0] * 3 if target == "x" else [2.0] * 3 + [9.0] * 3)
    run(x)
    assert (x if target == "x" else weight).tolist() == [100.0 if target == "x" else 121.0] * 3


def test_inputs_that_are_written_are_never_copies() -> None:
    run, driver, _ = graphs_of(WRITES.format(op="copy_", target="x"))
    assert run.program.written_inputs == (0,) and not run.program.written_weights
    kept = [torch.full((3,), 2.0) for _ in range(RECORDINGS + 2)]
    for x in kept:
        run(x)
    torch.testing.assert_close(kept[-1], torch.full((3,), 9.0))
    assert len(driver.graphs) == RECORDINGS


def test_a_program_that_returns_its_inputs_is_run() -> None:
    run, driver, _ = graphs_of(output="(%x,)")
    with pytest.warns(FallbackWarning, match="returns tensors that share memory with its inputs: it runs without a recording"):
        assert run(x := torch.ones(3))[0] is x
    assert run(x := torch.zeros(3))[0] is x
    assert not run.records and "replay" not in driver.log


def test_a_recording_that_fails_is_an_error_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(graph: Graph, pool: Any) -> Any:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    run, driver, _ = graphs_of()
    monkeypatch.setattr(driver, "recording", fails)
    with pytest.raises(PipelineError, match=r"the program cannot be recorded: CUDA error.*\n.*leave out cuda_graphs"):
        run(torch.ones(3))


def test_a_program_that_waits_is_run() -> None:
    run, driver, weight = graphs_of(driver=StandIn(waiting=True))
    with pytest.warns(FallbackWarning, match="cuda_graphs is on, but the program waits for the GPU"):
        run(torch.ones(3))
    torch.testing.assert_close(run(x := torch.arange(3.0))[0], (x + weight) ** 2)
    assert not run.records and "record" not in driver.log and "replay" not in driver.log


def test_without_an_accelerator_it_is_an_error() -> None:
    with pytest.raises(PipelineError, match="cuda_graphs is on, but there is no accelerator"):
        graphs_of(driver=StandIn(available=False))
    if not torch.cuda.is_available():
        with pytest.raises(PipelineError, match="there is no accelerator"):
            fxc.compile(lambda a: a.relu() * 2 + 1, (torch.ones(3),), options={"target": "host", "cuda_graphs": True})


def test_graphs_need_a_host_program() -> None:
    with pytest.raises(PipelineError, match="cuda_graphs"):
        fxc.compile(lambda a: a.relu(), (torch.ones(3),), options={"cuda_graphs": True})


# streams


class Stream:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_event(self, event: Any) -> None:
        self.log.append(f"{self.name} waits for {event.name}")


class Event:
    def __init__(self, log: list[str]) -> None:
        self.log, self.name = log, "nothing"

    def record(self, stream: Stream) -> None:
        self.name = f"event of {stream.name}"
        self.log.append(f"record {stream.name}")


class StreamStandIn:
    def __init__(self) -> None:
        self.log, self.made = list[str](), 0

    def Stream(self) -> Stream:
        self.made += 1
        return Stream(f"stream {self.made}", self.log)

    def Event(self) -> Event:
        return Event(self.log)

    def current_stream(self) -> Stream:
        return Stream("current", self.log)

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.log.append(f"enter {stream.name}")
        yield
        self.log.append(f"leave {stream.name}")


STREAMS = """
func.func @main(%x: tensor<3xf32> {fx.kind = "input", fx.name = "x"}) -> !fx.value {
  %start = plan.record {stream = 0 : i64} : !plan.event
  plan.wait %start {stream = 1 : i64}
  %a = torch.aten.sin.default(%x) {plan.stream = 1 : i64} : (tensor<3xf32>) -> tensor<3xf32>
  %b = torch.aten.cos.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %end = plan.record {stream = 1 : i64} : !plan.event
  plan.wait %end {stream = 0 : i64}
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  fx.output(%c) : (tensor<3xf32>) -> ()
}
"""


def test_streams_and_events_are_in_the_program() -> None:
    host, driver = host_program(fxc.Program.parse(STREAMS)), StreamStandIn()
    assert "with streams.on(1): a = aten_sin(x)" in host.source and "streams.wait(end, 0)" in host.source
    host.main.__globals__["streams"] = Streams(driver)  # type: ignore[arg-type]
    x = torch.arange(3.0)
    torch.testing.assert_close(host.main(x), x.sin() + x.cos())
    expected = ["record current", "stream 1 waits for event of current", "enter stream 1", "leave stream 1"]
    assert driver.log == [*expected, "record stream 1", "current waits for event of stream 1"]
