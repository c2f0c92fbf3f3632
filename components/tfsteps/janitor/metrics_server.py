"""Serves /metrics and /healthz by HTTP, in threads of its own: no client can delay the passes."""

import contextlib
import http.server
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

from tfsteps.janitor.metrics import CONTENT_TYPE, JanitorMetrics

_CLIENT_SECONDS = 10.0  # how long one read or write may take
_CLIENTS = 16  # at the same time; each has a thread


class _Handler(http.server.BaseHTTPRequestHandler):
    server: "MetricsServer"
    timeout = _CLIENT_SECONDS

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(200, self.server.metrics.text(), CONTENT_TYPE)
            case "/healthz":
                stalled = self.server.metrics.stalled()
                self._answer(503 if stalled else 200, f"{stalled or 'ok'}\n")
            case _:
                self._answer(404, "not found; this server has /metrics and /healthz\n")

    def _answer(self, status: int, text: str, content_type: str = "text/plain; charset=utf-8") -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log no requests: a scrape each minute would hide the deletions."""


class MetricsServer(http.server.ThreadingHTTPServer):
    """The server; it accepts connections on all interfaces, by IPv6 too if the machine has it.

    Attributes:
        metrics: What it serves.
    """

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, metrics: JanitorMetrics, port: int) -> None:
        """Bind the port; 0 = a free one. OSError if that is not possible."""
        self.metrics = metrics
        self._free = threading.BoundedSemaphore(_CLIENTS)
        super().__init__(("", port), _Handler)

    def server_bind(self) -> None:
        """Bind to IPv4 and IPv6, without the DNS request of http.server for the machine's name."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; close the connection at once if too many clients are connected."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or are too slow."""


@contextlib.contextmanager
def serve(metrics: JanitorMetrics, port: int) -> Iterator[MetricsServer]:
    """Serve metrics within the block. OSError if the port cannot be bound."""
    with MetricsServer(metrics, port) as server:
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
