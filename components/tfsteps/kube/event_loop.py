"""Runs many coroutines on a few threads. A coroutine that waits for bytes or for a time uses no thread.

A thousand logs are followed by a thousand coroutines, nearly all of which wait. With asyncio, each read would have to
go to a thread and back, because the code that takes the lines may block.
"""

import contextlib
import heapq
import itertools
import queue
import resource
import selectors
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator

from tfsteps.kube import threads

_WORKERS = 8  # more would wait for each other: Python runs one thread at a time
_OPEN_FILES = 1 << 16
_Timer = tuple[float, int, Callable[[], object]]


class _SocketWait(Awaitable[bool]):
    """What a coroutine waits for: bytes of `sock`, or, if `sock` is None, a wake-up; at most until `due`.

    The awaited value is True if that happened, and False after `due`.
    """

    def __init__(self, seconds: float, sock: socket.socket | None = None) -> None:
        self.due = time.monotonic() + seconds
        self.sock = sock

    def __await__(self) -> Generator["_SocketWait", bool | None, bool]:
        return bool((yield self))


def pause(seconds: float) -> Awaitable[bool]:
    """Wait until the task's `wake` is called, or was called since the last wait; at most `seconds`."""
    return _SocketWait(seconds)


def readable(sock: socket.socket, seconds: float) -> Awaitable[bool]:
    """Wait until `sock` is readable, closed or broken; False after `seconds`."""
    return _SocketWait(seconds, sock)


class Task:
    """A running coroutine. Its steps run in several threads, one after another."""

    def __init__(
        self, loop: "EventLoop", coroutine: Coroutine[_SocketWait, bool | None, None], failed: Callable[[str], object]
    ) -> None:
        """Keep the arguments of `EventLoop.run`."""
        self.loop, self.coroutine, self.failed = loop, coroutine, failed
        self.waits: _SocketWait | None = None  # None: it runs or is about to run
        self.woken = False
        self.timer: float | None = None  # when its entry in the loop's timers is due

    def wake(self) -> None:
        """End the task's `pause`, or the next one if it is not in a pause."""
        self.loop.wake(self)


class EventLoop:
    """Waits for sockets and times in one thread, and runs the tasks in up to eight others.

    All are daemon threads, started on demand.
    """

    def __init__(self) -> None:
        """Create a loop without tasks."""
        _allow_open_files()
        self._lock = threading.Lock()
        self._ready: queue.SimpleQueue[tuple[Task, bool | None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)  # idle workers
        self._workers = 0
        self._tasks: set[Task] = set()
        self._posted: list[Task | _Timer] = []  # for the waiting thread, not taken yet
        self._timers: list[_Timer] = []
        self._numbers = itertools.count()
        self._calls: socket.socket | None = None  # wakes the waiting thread; None before it is started
        self._closed = False

    def run(self, coroutine: Coroutine[_SocketWait, bool | None, None], failed: Callable[[str], object]) -> Task:
        """Run a coroutine that awaits only `pause` and `readable`. On an error, call `failed` with its text."""
        task = Task(self, coroutine, failed)
        with self._lock:
            self._tasks.add(task)
        self.resume(task, value=None)
        return task

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Call a function after `seconds`. It must not block or raise."""
        self._post((time.monotonic() + seconds, next(self._numbers), function))

    def close(self) -> None:
        """End all threads. Waiting tasks are closed now, running tasks at their next wait."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting = [task for task in self._tasks if task.waits]
            for task in waiting:
                task.waits = None
            # each worker may run a task that blocks
            extra = bool(waiting) and not self._idle.acquire(blocking=False)
            self._workers += extra
        for task in waiting:
            self._ready.put((task, None))
        for _ in range(self._workers):
            self._ready.put(None)
        if extra:
            with contextlib.suppress(RuntimeError):  # no more threads: then they are closed after what runs
                threads.start("last worker", self._work, self._failed)
        self._call()

    # --- for tasks, in any thread

    def resume(self, task: Task, *, value: bool | None) -> None:
        """Let a worker continue a task."""
        self._ready.put((task, value))
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            more = self._workers < _WORKERS and not self._closed
            self._workers += more
            number = self._workers
        if more:
            threads.start(f"worker {number}", self._work, self._failed)

    def wake(self, task: Task) -> None:
        """End a task's pause, or the next one."""
        with self._lock:
            task.woken = not (pausing := task.waits is not None and task.waits.sock is None)
            if pausing:
                task.waits = None
        if pausing:
            self.resume(task, value=True)

    # --- workers

    def _work(self) -> None:
        while work := self._ready.get():
            task, value = work
            while (wait := self._step(task, value=value)) and self._has_come(task, wait):
                value = True
            self._idle.release()

    def _step(self, task: Task, *, value: bool | None) -> _SocketWait | None:
        """Run a task until it waits; None if it has ended."""
        try:
            if not self._closed:
                return task.coroutine.send(value)
            task.coroutine.close()
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001  any error: other code waits for this task
            task.failed(f"{type(error).__name__}: {error}")
        with self._lock:
            self._tasks.discard(task)
        return None

    def _has_come(self, task: Task, wait: _SocketWait) -> bool:
        """Tell whether a task continues at once; else it is resumed when its wait ends."""
        with self._lock:
            if self._closed or (task.woken and wait.sock is None):
                task.woken = False
                return True
            task.waits = wait
        self._post(task)
        return False

    # --- the thread that waits

    def _post(self, entry: "Task | _Timer") -> None:
        with self._lock:
            self._posted.append(entry)
            first = len(self._posted) == 1
            if not self._calls and not self._closed:
                called, self._calls = socket.socketpair()
                threads.start("event loop", lambda: self._wait(called), self._failed)
        if first:
            self._call()

    def _call(self) -> None:
        with contextlib.suppress(OSError):  # closed
            if self._calls:
                self._calls.send(b"!")

    def _failed(self, why: str) -> None:
        with self._lock:
            tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.failed(why)

    def _wait(self, called: socket.socket) -> None:
        assert self._calls
        with called, self._calls, selectors.DefaultSelector() as selector:
            selector.register(called, selectors.EVENT_READ)
            while not self._closed:
                with self._lock:
                    entries, self._posted = self._posted, []
                    waits = {entry: entry.waits for entry in entries if isinstance(entry, Task)}
                for entry in entries:
                    if not isinstance(entry, Task):
                        heapq.heappush(self._timers, entry)
                for task, wait in waits.items():
                    if wait and wait.sock:
                        selector.register(wait.sock, selectors.EVENT_READ, task)
                    if wait:  # else it was woken meanwhile
                        self._set_timer(selector, task, wait.due)
                left = max(self._timers[0][0] - time.monotonic(), 0.0) if self._timers else None
                for key, _ in selector.select(left):
                    if key.data:
                        selector.unregister(key.fileobj)
                        self._end_wait(key.data, value=True)
                    else:
                        called.recv(1 << 10)
                while self._timers and self._timers[0][0] <= time.monotonic():
                    heapq.heappop(self._timers)[2]()

    def _set_timer(self, selector: selectors.BaseSelector, task: Task, due: float) -> None:
        """Keep one timer for a task, due when its wait ends or earlier."""
        if task.timer is None or due < task.timer:
            task.timer = due
            heapq.heappush(self._timers, (due, next(self._numbers), lambda: self._time_is_over(selector, task, due)))

    def _time_is_over(self, selector: selectors.BaseSelector, task: Task, due: float) -> None:
        if task.timer != due:
            return  # an earlier timer exists, or it has fired
        task.timer = None
        wait = task.waits
        if wait and wait.due > time.monotonic():
            self._set_timer(selector, task, wait.due)
        elif wait:
            if wait.sock and wait.sock in selector.get_map():
                selector.unregister(wait.sock)
            self._end_wait(task, value=False)

    def _end_wait(self, task: Task, *, value: bool) -> None:
        with self._lock:
            waited, task.waits = task.waits is not None, None
        if waited:
            self.resume(task, value=value)


def _allow_open_files() -> None:
    """Raise the limit of open files: each wait needs a connection, and the usual limit is 1024.

    Not above `_OPEN_FILES`: children inherit the limit, and some programs close every file number below it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
