"""Threads that cannot end unseen."""

import threading
from collections.abc import Callable


def start(name: str, target: Callable[[], object], failed: Callable[[str], object]) -> threading.Thread:
    """Run `target` in a daemon thread and return that; what `target` raises is handed to `failed`, in that thread.

    Whoever waits for what the thread reports would wait for ever otherwise: Python prints the traceback and goes on.
    """

    def run() -> None:
        try:
            target()
        except Exception as error:  # noqa: BLE001  whatever it is, somebody waits for this thread
            failed(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
