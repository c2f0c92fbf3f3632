"""A queue between the threads that read a cluster and the one that looks at it, bounded by bytes."""

import collections
import queue
import threading
from typing import Any

_LIMIT = 2 << 20  # bytes; a line of 1 MiB is one item, and may be in it with another one
_EVENT = 1 << 12  # bytes that something that a watch has seen counts for, as a pod without long lists does


class Inbox:
    """Holds what was seen until it is looked at. While it is full, who puts something in waits."""

    def __init__(self) -> None:
        """Begin empty."""
        self._items: collections.deque[tuple[Any, int]] = collections.deque()
        self._bytes = 0
        lock = threading.Lock()
        self._filled, self._freed = threading.Condition(lock), threading.Condition(lock)

    def put(self, item: Any, size: int = _EVENT) -> None:
        """Put in an item of `size` bytes; one that is larger than the whole queue waits until that is empty."""
        with self._freed:
            while self._items and self._bytes + size > _LIMIT:
                self._freed.wait()
            self._items.append((item, size))
            self._bytes += size
            self._filled.notify()
            self._freed.notify()  # one at a time: of many that wait, there is room for few

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
        """Tell whether there is nothing in it."""
        return not self._items
