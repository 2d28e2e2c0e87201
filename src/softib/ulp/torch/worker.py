"""The thread of a process group: it runs collectives in order, and single messages between them."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from softib.errors import PeerError
from softib.ulp.torch.collectives import Steps
from softib.ulp.torch.rendezvous import Request, Wire

__all__ = ["Task", "Worker"]

SPINS = 200
"""Number of polls without an event after which the thread sleeps for ``NAP_S``."""
NAP_S = 50e-6
PROBE_S = 1.0
"""After this time in seconds without an event, the worker probes the ranks for which it waits."""


def _result_of(settled: torch.futures.Future) -> object:
    """Return the result, or raise the error. As a callback of torch.futures.Future.then, this passes the error also to
    C++, where DDP waits; an error from ``set_exception`` is visible only in Python."""
    result, error = settled.value()
    if error is not None:
        raise error
    return result


@dataclass(eq=False)
class Task:
    """One operation. The worker's thread calls ``begin`` to start it; ``future`` receives ``result`` or the error. The
    thread calls ``note`` with True at the start and False at the end."""

    begin: Callable[[], Steps]
    result: object
    what: str
    note: Callable[[bool], None] | None = None
    settled: torch.futures.Future = field(default_factory=torch.futures.Future)
    future: torch.futures.Future = field(init=False)
    steps: Steps | None = None
    waits: list[Request] = field(default_factory=list)
    deadline_s: float = 0.0
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.future = self.settled.then(_result_of)

    def settle(self, error: Exception | None = None) -> bool:
        """End the task with ``error``, or with its result if there is none. Return True."""
        self.error = error
        if self.note is not None and self.steps is not None:
            self.note(False)
        self.settled.set_result((self.result, error))
        return True


class Worker:
    """Runs tasks until :meth:`close`. ``timeout_s``: time limit of a task from its start."""

    def __init__(self, wire: Wire, timeout_s: float, name: str):
        self.wire, self.timeout_s = wire, timeout_s
        self._queue: deque[Task] = deque()
        self._single: list[Task] = []
        self._new: deque[tuple[Task, bool]] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread that still runs when Python exits crashes the process

    def submit(self, task: Task, ordered: bool = True) -> Task:
        """Queue ``task``. Tasks with ``ordered`` run one after another."""
        with self._wake:
            if self._closing:
                raise PeerError("the process group is closed")
            self._new.append((task, ordered))
            self._wake.notify()
        return task

    def close(self) -> None:
        """End running tasks with an error, which their waiters get."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=10)
            atexit.unregister(self.close)

    # -- the thread --

    def _run(self) -> None:
        reason: Exception = PeerError("the process group was closed")
        try:
            self._work()
        except Exception as error:  # a device error must not leave callers waiting for a dead thread
            reason = error
            with self._wake:
                self._closing = True
        for task in (*self._queue, *self._single, *(task for task, _ in self._new)):
            task.settle(reason)

    def _work(self) -> None:
        idle, probe_s = 0, time.monotonic() + PROBE_S
        while self._take_new():
            happened = self.wire.progress() if self._queue or self._single else 0
            while self._queue and self._advance(self._queue[0]):
                self._queue.popleft()
                happened += 1
            self._single = [task for task in self._single if not self._advance(task)]
            idle = 0 if happened else idle + 1
            if idle > SPINS:
                time.sleep(NAP_S)
            if not idle or time.monotonic() > probe_s:
                probe_s = time.monotonic() + PROBE_S
                if idle:
                    self.wire.probe()

    def _take_new(self) -> bool:
        """Take new tasks from the queue; sleep if there are none. Return False if the thread must end."""
        if not self._new and (self._queue or self._single) and not self._closing:
            return True
        with self._wake:
            while not (self._new or self._queue or self._single or self._closing):
                self._wake.wait()
            while self._new:
                task, ordered = self._new.popleft()
                (self._queue if ordered else self._single).append(task)
            return not self._closing

    def _advance(self, task: Task) -> bool:
        """Continue ``task``; return True when it has ended."""
        try:
            if task.steps is None:
                task.deadline_s = time.monotonic() + self.timeout_s
                if task.note is not None:
                    task.note(True)
                task.steps = task.begin()
                task.waits = next(task.steps)
            while all(request.done for request in task.waits):
                for request in task.waits:
                    if request.error is not None:
                        raise request.error
                task.waits = next(task.steps)
        except StopIteration:
            return task.settle()
        except Exception as error:
            return task.settle(error)
        if time.monotonic() > task.deadline_s:
            missing = next(request.what for request in task.waits if not request.done)
            message = f"{task.what}: no end after {self.timeout_s:g} s; waits for a {missing}"
            return task.settle(PeerError(message))
        return False
