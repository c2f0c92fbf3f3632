"""A queue, bounded by bytes, between the threads that read a cluster and the main loop."""

import collections
import queue
import threading
from typing import Any

_LIMIT = 2 << 20  # bytes; a line of 1 MiB is one item, and two fit
_EVENT = 1 << 12  # bytes that one watch event counts for: about the size of a pod


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
