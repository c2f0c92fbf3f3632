"""Stores the record of an attempt where the platform keeps records, beside the job, and never at its expense."""

import os
import threading
import time
from typing import TYPE_CHECKING

from tfsteps.runs.store import RECORDS, AttemptFolder

if TYPE_CHECKING:
    from tfsteps.runs.record_store import RecordStore

SECONDS = 10.0
"""How long the end of a step waits for its record to be stored."""

_IN_POD = "KUBERNETES_SERVICE_HOST"
_LONGEST_SECONDS = 60.0  # for the first record: the job runs meanwhile


class RecordKeeper:
    """Stores what is known of an attempt once its job is there, and all of it at the end.

    Requests are sent by a thread: a slow address delays nothing but the end of the step, and that by SECONDS at most.
    """

    def __init__(self, attempt: AttemptFolder) -> None:
        """Keep the attempt; nothing is done yet."""
        self._attempt = attempt
        self._thread: threading.Thread | None = None
        self._store: RecordStore | None = None
        self._problem = ""

    def begin(self) -> None:
        """Store the first record, unless no address is set. Called once the job and its records are there."""
        if RECORDS in os.environ or _IN_POD in os.environ:
            self._start(_LONGEST_SECONDS)

    def end(self) -> str:
        """Store the last record, and return why it is not stored; empty = it is, or no address is set."""
        if self._thread is None:
            return ""
        until = time.monotonic() + SECONDS
        self._thread.join(SECONDS)
        if self._thread.is_alive():
            return f"The record of the run may be incomplete: its address has not answered for {SECONDS:.0f} s."
        if self._store:
            self._start(until - time.monotonic())
            self._thread.join(max(0.0, until - time.monotonic()))
            if self._thread.is_alive():
                self._problem = f"{self._store.address}: no answer for {SECONDS:.0f} s"
        return self._problem and f"The record of the run is not stored: {self._problem}."

    def _start(self, seconds: float) -> None:
        self._thread = threading.Thread(target=self._put, args=(time.monotonic() + seconds,), daemon=True)
        self._thread.start()

    def _put(self, until: float) -> None:
        from tfsteps.runs.record_store import RecordError  # noqa: PLC0415  start-up is measured

        try:
            self._store = self._store or _find()
            if self._store:
                self._store.put(self._attempt, until)
            self._problem = ""
        except RecordError as error:
            self._problem = str(error)


def _find() -> "RecordStore | None":
    """Return where the environment, or else the pod's namespace, says that records are stored; None = nowhere."""
    from tfsteps.runs.record_store import RecordSettings, RecordStore  # noqa: PLC0415

    if RECORDS in os.environ:
        settings = RecordSettings.of(os.environ[RECORDS])
    else:
        from tfsteps.systems.kubernetes import record_settings  # noqa: PLC0415  of launchers in pods

        settings = record_settings.of_pod()
    return RecordStore(settings) if settings else None
