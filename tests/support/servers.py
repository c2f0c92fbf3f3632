"""Servers of tests that do not hide their own errors."""

import socketserver
import sys
from typing import Any


class KeepsErrors(socketserver.BaseServer):
    """A mixin: errors of the handlers are raised when the server is closed, but for OSError, as clients may break off.

    Without it, a script that fails looks to the client like a connection that broke off.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._errors: list[Exception] = []
        super().__init__(*args, **options)

    def handle_error(self, *_: object) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self._errors.append(error)

    def server_close(self) -> None:
        super().server_close()
        if self._errors:
            raise ExceptionGroup("the handlers of a test's server failed", self._errors)
