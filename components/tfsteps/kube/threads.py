"""Threads whose failure is always reported."""

import threading
from collections.abc import Callable


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
