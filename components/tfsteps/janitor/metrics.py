"""What the janitor has done and whether it still works: in the Prometheus text format, served by HTTP in threads."""

import contextlib
import http.server
import socket
import socketserver
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfsteps.janitor.rules import Reason
from tfsteps.janitor.sweep import Count

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "tfsteps_janitor_"
_PERIODS, _GRACE_SECONDS = 5, 300.0
_Samples = list[tuple[str, float]]  # labels with braces, empty = none; and the value
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_CLIENT_SECONDS = 10.0  # how long one read or write may take
_CLIENTS = 16  # at the same time; each has a thread


class JanitorMetrics:
    """The counters and gauges of one janitor since its start."""

    def __init__(self, kinds: Iterable[str], period: float) -> None:
        """Start at zero.

        Args:
            kinds: The kinds of objects that the janitor deletes: a counter exists for each from the start.
            period: Seconds between passes.
        """
        self._lock = threading.Lock()
        self._limit = _PERIODS * period + _GRACE_SECONDS
        self._deletions = {(kind, reason): 0 for kind in kinds for reason in Reason}
        self._passes = self._errors = self._jobs = 0
        self._seconds = self._finished_at = 0.0
        self._orphans: dict[str, float] = {}  # by uid: when its deletion failed first, by the monotonic clock
        self._alive_at = time.monotonic()

    def finish_pass(self, counts: Sequence[Count], seconds: float, at: float) -> None:
        """Add a pass that has ended.

        Args:
            counts: What it did.
            seconds: How long it took.
            at: When it ended, in seconds since the epoch.
        """
        now = time.monotonic()
        with self._lock:
            self._passes += 1
            self._seconds, self._finished_at, self._alive_at = seconds, at, now
            self._jobs = sum(count.jobs for count in counts)
            self._errors += sum(count.failures for count in counts)
            for count in counts:
                for key, number in count.deletions.items():
                    self._deletions[key] = self._deletions.get(key, 0) + number
            undeleted = set().union(*(count.undeleted for count in counts))
            self._orphans = {uid: self._orphans.get(uid, now) for uid in undeleted}

    def stalled(self) -> str:
        """Return since when no pass has ended, as a sentence; empty = the janitor works."""
        with self._lock:
            seconds = time.monotonic() - self._alive_at
        if seconds <= self._limit:
            return ""
        return f"no pass has ended for {seconds:.0f} s; the limit is {self._limit:.0f} s"

    def text(self) -> str:
        """Return all metrics in the Prometheus text format, version 0.0.4."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        orphan = max((time.monotonic() - since for since in self._orphans.values()), default=0.0)
        deletions: _Samples = [
            (_labels(kind=kind, reason=reason), number) for (kind, reason), number in sorted(self._deletions.items())
        ]
        yield from _metric("passes_total", "counter", "Passes that have ended.", [("", self._passes)])
        yield from _metric("jobs", "gauge", "Jobs looked at in the last pass.", [("", self._jobs)])
        yield from _metric("deletions_total", "counter", "Objects deleted, and jobs of platforms stopped.", deletions)
        yield from _metric(
            "errors_total", "counter", "Objects and lists that a pass could not handle.", [("", self._errors)]
        )
        yield from _metric(
            "last_pass_timestamp_seconds",
            "gauge",
            "When the last pass ended, in seconds since the epoch; 0 = none has.",
            [("", self._finished_at)],
        )
        yield from _metric("pass_seconds", "gauge", "Duration of the last pass.", [("", self._seconds)])
        yield from _metric(
            "oldest_orphan_seconds",
            "gauge",
            "Seconds since the first failed deletion of the job whose deletion has failed for longest; 0 = none.",
            [("", orphan)],
        )


def _metric(name: str, kind: str, meaning: str, samples: _Samples) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {meaning}"
    yield f"# TYPE {_PREFIX}{name} {kind}"
    for labels, value in samples:
        yield f"{_PREFIX}{name}{labels} {value!r}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


class _MetricsHandler(http.server.BaseHTTPRequestHandler):
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
        super().__init__(("", port), _MetricsHandler)

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
