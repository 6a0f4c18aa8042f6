"""Errors and the time limit of lowering one group."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from xdsl.ir import Operation

from fxc.dialects.text.diagnostics import OpPassFailedException


@contextmanager
def one_group(op: Operation) -> Generator[None, None, None]:
    """Lower one group or product, ``op``, in the ``with`` block. Exceptions, also of the time limit, name ``op``."""
    watch = _watch.get()
    try:
        if watch is None:
            yield
        else:
            with watch.running():
                yield
    except _OutOfTime as error:
        message = f"the time limit of {error.seconds} s for one group is over"
        raise OpPassFailedException(message, op) from error
    except Exception as error:
        at_fault = getattr(error, "op", None)
        if op.is_ancestor(at_fault) if isinstance(at_fault, Operation) else hasattr(error, "op"):
            raise
        raise OpPassFailedException(f"{type(error).__name__}: {error}", op) from error


@contextmanager
def time_limit(seconds: float) -> Generator[None, None, None]:
    """Interrupt a pass that works on one group for more than ``seconds`` in the ``with`` block, once native code returns."""
    with _Watch(seconds) as watch:
        token = _watch.set(watch)
        try:
            yield
        finally:
            _watch.reset(token)


class _OutOfTime(BaseException):
    """Raised by ``_Watch`` in the lowering thread. It is a BaseException, so that no ``except Exception`` catches it."""

    seconds = 0.0


class _Watch:
    """A thread that interrupts the thread that created it."""

    def __init__(self, seconds: float) -> None:
        self.exception = type("_OutOfTime", (_OutOfTime,), {"seconds": seconds})
        self.seconds, self.thread = seconds, threading.get_ident()
        self.deadline: float | None = None
        # one of C is either held in the block or not, wherever the exception is raised; Condition's own __enter__ is Python
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.is_over = self.is_sent = False

    def __enter__(self) -> _Watch:
        threading.Thread(target=self._wait, name="fxc-time-limit", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.is_over = True
            self.changed.notify()

    @contextmanager
    def running(self) -> Generator[None, None, None]:
        """Measure the time of one group, without the time of nested groups."""
        with self.lock:
            outer, start = self.deadline, monotonic()
            self.deadline = start + self.seconds
        try:
            yield
        finally:
            with self.lock:
                self.deadline = None if outer is None else outer + monotonic() - start
                if self.is_sent:
                    self._receive()

    def _receive(self) -> None:
        """End an interruption, raised or pending: one more exception takes the place of what is pending, and is caught.

        NULL in its place would leave ``async_exc`` of the interpreter set: CPython 3.11 would loop forever in the first call
        that a debugger or a profiler traces, and take the slow path at each call and jump.
        """
        try:
            _interrupt(self.thread, self.exception)
            while True:
                pass
        except self.exception:
            self.is_sent = False

    def _wait(self) -> None:
        with self.lock:
            while not self.is_over:
                left = self.seconds if self.deadline is None else self.deadline - monotonic()
                if left <= 0:
                    self.deadline, self.is_sent = None, True
                    _interrupt(self.thread, self.exception)
                else:
                    self.changed.wait(left)


def _interrupt(thread: int, exception: type[BaseException]) -> None:
    """Raise ``exception`` in ``thread`` at its next Python bytecode, instead of one that is pending."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))


_watch: ContextVar[_Watch | None] = ContextVar("fxc_time_limit", default=None)
