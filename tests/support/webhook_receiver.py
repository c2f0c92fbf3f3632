"""A real HTTP server that receives notifications, and answers as a test tells it."""

import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.servers import KeepsErrors
from tests.support.waiting import LONGEST

PATH = "/services/T000/B000/very-secret-token"


@dataclass
class Request:
    headers: dict[str, str]
    body: dict[str, Any]
    path: str


@dataclass
class Receiver:
    """Attributes: `answers` are (status, headers) for the next requests, then 200; `requests` is what came."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    before_answer: Callable[[], object] = lambda: None
    _arrived: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def events(self) -> list[str]:
        return [request.headers["Tfsteps-Event"] for request in self.requests]

    def wait(self) -> None:
        """Wait until a request has come."""
        assert self._arrived.wait(LONGEST)

    def hold(self) -> None:
        """Answer no request until `release`."""
        self.before_answer = lambda: self._released.wait(LONGEST)

    def release(self) -> None:
        self._released.set()


@contextlib.contextmanager
def receiver(tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> Iterator[Receiver]:
    """Serve on an address of this machine for the length of the block; `tls` = as https."""
    state = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.requests.append(Request(dict(self.headers), json.loads(body), self.path))
            state._arrived.set()
            state.before_answer()
            status, headers = state.answers.pop(0) if state.answers else (200, {})
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_):
            pass

    class Server(KeepsErrors, http.server.ThreadingHTTPServer):
        daemon_threads = True

    with Server((address, 0), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        state.url = f"{'https' if tls else 'http'}://{address}:{server.server_port}{PATH}"
        try:
            yield state
        finally:
            state.release()
            server.shutdown()
            thread.join()
