"""Threads whose failure is always reported, and the queue, bounded by bytes, between them and the main loop."""

import collections
import queue
import threading
from collections.abc import Callable
from typing import Any

_LIMIT = 2 << 20  # bytes; a line of 1 MiB is one item, and two fit
_EVENT = 1 << 12  # bytes that one watch event counts for: about the size of a pod


def start(name: str, target: Callable[[], object], failed: Callable[[str], object]) -> threading.Thread:
    """Run `target` in a daemon thread and return the thread. If `target` raises, call `failed` with the error's text.

    `failed` runs in the same thread. Without it, code that waits for the thread's results would wait forever: Python
    only prints the traceback.
    """

    def run() -> None:
        try:
            target()
        except Exception as error:  # noqa: BLE001  any error: other code waits for this thread
            failed(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class Inbox:
    """A queue of items. While it is full, `put` blocks."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._items: collections.deque[tuple[Any, int]] = collections.deque()
        self._bytes = 0
        lock = threading.Lock()
        self._filled, self._freed = threading.Condition(lock), threading.Condition(lock)

    def put(self, item: Any, size: int = _EVENT) -> None:
        """Add an item of `size` bytes; an item larger than the limit waits until the queue is empty."""
        with self._freed:
            while self._items and self._bytes + size > _LIMIT:
                self._freed.wait()
            self._items.append((item, size))
            self._bytes += size
            self._filled.notify()
            self._freed.notify()  # one at a time: there is room for few of the waiting threads

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the next item and return it. queue.Empty after `timeout` seconds; None = no limit."""
        with self._filled:
            if not self._filled.wait_for(lambda: self._items, timeout):
                raise queue.Empty
            item, size = self._items.popleft()
            self._bytes -= size
            self._freed.notify()
            return item

    def empty(self) -> bool:
        """Tell whether the queue is empty."""
        return not self._items
