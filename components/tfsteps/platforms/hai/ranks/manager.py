"""Sends reports to the task's manager, in the platform's format."""

from __future__ import annotations

import os
import pickle
import socket
import threading
import time
from typing import Any

_PORT = 7000
_ANSWER_SECONDS = 2.0
_PAUSE_SECONDS = 0.5
_PROTOCOL = 2  # of pickle: the manager's Python may be older than that of the ranks


class Manager:
    """Delivers reports in its own thread, and retries until the manager answers, because it starts after the ranks."""

    def __init__(self) -> None:
        """Start without reports; the first report starts the thread."""
        self._pending: dict[str, dict[str, Any]] = {}  # by source, in order
        self._changed = threading.Condition()
        self._started = False

    def report(self, source: str, **fields: Any) -> None:
        """Deliver a report as soon as possible; it replaces an undelivered report of the same source."""
        with self._changed:
            self._pending[source] = {"source": source, **fields}
            self._changed.notify_all()
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until all reports are delivered; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending)
                reports = list(self._pending.values())
            for report in reports:
                if not _answered(report):
                    time.sleep(_PAUSE_SECONDS)
                    break
                with self._changed:
                    if self._pending[report["source"]] is report:
                        del self._pending[report["source"]]
                    self._changed.notify_all()


def _answered(report: dict[str, Any]) -> bool:
    """Send a report; return whether the manager has answered. The content of the answer is not used."""
    user, task = os.environ.get("MARSV2_USER", "").replace("_", "-"), os.environ.get("MARSV2_TASK_ID", "")
    body = pickle.dumps(report, _PROTOCOL)
    try:
        with socket.create_connection((f"{user}-{task}-manager-0", _PORT), _ANSWER_SECONDS) as connection:
            connection.sendall(str(len(body) + 8).rjust(8).encode() + body)
            return bool(connection.recv(1024))
    except OSError:
        return False
