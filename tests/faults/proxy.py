"""A TLS proxy before a real API server that does harm by rule: which request, which of them, what happens to it."""

import contextlib
import http.server
import random
import select
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field

import urllib3

from tfsteps.kube.credentials import Access

_DROPPED = {"host", "authorization", "connection", "transfer-encoding", "content-length", "accept-encoding"}
_PART = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # lingering for no time: close() sends RST


@dataclass
class Rule:
    """Which requests a fault meets.

    Attributes:
        request: A kind of request as `kind_of` names it, or `any`.
        fault: What happens.
        times: How many matching requests it meets.
        skip: How many it lets pass before.
        chance: Of each matching request to be met, by the proxy's seed.
    """

    request: str
    fault: "Fault"
    times: float = 1
    skip: int = 0
    chance: float = 1.0
    met: int = 0

    def meets(self, kind: str, dice: random.Random) -> bool:
        """Tell whether it is this request's turn, and count."""
        if self.request not in (kind, "any") or self.met >= self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if dice.random() >= self.chance:
            return False
        self.met += 1
        return True


def kind_of(method: str, path: str, query: dict[str, str]) -> str:
    """Return what a request is for: `create job`, `get job`, `list pods`, `watch job`, `log`, `delete pods`, ..."""
    plural, _, rest = path.partition("/namespaces/")[2].partition("/")[2].partition("/")
    noun = {"tfjobs": "job", "pods": "pods", "workflows": "workflow"}.get(plural)
    if noun is None or "dryRun" in query:
        return "preflight"
    if rest.endswith("/log"):
        return "log"
    if method == "GET" and not rest:
        return f"{'watch' if 'watch' in query else 'list'} {noun}"
    return f"{ {'POST': 'create', 'DELETE': 'delete', 'PATCH': 'patch'}.get(method, 'get') } {noun}"


@dataclass
class Proxy:
    """One listening port before one API server. A context manager.

    Attributes:
        access: The API server, and as whom it is asked.
        certificate: Ours: a file with key and certificate.
        rules: The first that meets a request decides.
        seed: Of everything random.
        cue: Called by the faults that give one; tells whether the client lives on.
        asked: The kinds of all requests so far.
    """

    access: Access
    certificate: str
    rules: list[Rule] = field(default_factory=list)
    seed: int = 0
    cue: Callable[[], bool] = lambda: True
    asked: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.dice = random.Random(self.seed)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(self.certificate)
        base = urllib.parse.urlsplit(self.access.server)
        self.upstream = urllib3.HTTPSConnectionPool(
            base.hostname, base.port, maxsize=8, retries=False, ssl_context=self.access.tls
        )
        self.away_until = 0.0  # nobody listens, and everything that was open is closed
        self.still_until = 0.0  # nothing moves, in either direction
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._open = set()
        self._kept = self._bound()  # never listens: while nobody does, the port is still nobody else's
        self.port = self._kept.getsockname()[1]
        self._listener = self._listen()

    def __enter__(self):
        threading.Thread(target=self._serve, name="proxy", daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closed.set()
        self._hang_up()

    def rule(self, kind: str) -> "Rule | None":
        """Note a request, and return the rule that meets it."""
        with self._lock:
            self.asked.append(kind)
            return next((rule for rule in self.rules if rule.meets(kind, self.dice)), None)

    def go_away(self, seconds: float) -> None:
        """Close everything and refuse connections for a while."""
        self.away_until = time.monotonic() + seconds
        self._hang_up()

    def stand_still(self, seconds: float) -> None:
        """Let nothing move for a while."""
        self.still_until = time.monotonic() + seconds

    def keep_still(self) -> None:
        """Wait while nothing may move."""
        while (rest := self.still_until - time.monotonic()) > 0 and not self.closed.wait(rest):
            pass

    @contextlib.contextmanager
    def opened(self, connection: socket.socket):
        """Keep a connection where `go_away` and the proxy's end find it."""
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def _hang_up(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    @staticmethod
    def _bound() -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", 0))
        return bound

    def _listen(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", self.port), backlog=64, reuse_port=True)

    def _serve(self) -> None:
        while not self.closed.is_set():
            if time.monotonic() < self.away_until:
                self._listener.close()
                self.closed.wait(self.away_until - time.monotonic())
                self._listener = self._listen()
            if select.select([self._listener], [], [], 0.05)[0]:
                threading.Thread(target=self._take, args=self._listener.accept(), daemon=True).start()
        self._listener.close()
        self._kept.close()

    def _take(self, connection: socket.socket, address: tuple[str, int]) -> None:
        with contextlib.suppress(OSError, urllib3.exceptions.HTTPError), connection:
            if time.monotonic() >= self.away_until:  # it may have come just before the listener was closed
                Exchange(connection, address, self)


class Exchange(http.server.BaseHTTPRequestHandler):
    """One connection of a client; the faults act on it, one request at a time."""

    protocol_version = "HTTP/1.1"
    server: Proxy

    def setup(self):
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def handle(self):
        with self.server.opened(self.connection):
            super().handle()

    def finish(self):
        super().finish()
        self.connection.close()

    def _any(self):
        url = urllib.parse.urlsplit(self.path)
        self.content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        rule = self.server.rule(kind_of(self.command, url.path, dict(urllib.parse.parse_qsl(url.query))))
        self.server.keep_still()
        (rule.fault if rule else forward)(self)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _any  # noqa: N815  as http.server calls them

    @contextlib.contextmanager
    def answer(self, **query: str):
        """Ask the API server, with `query` in the place of the request's own; yield its answer, the body unread."""
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _DROPPED}
        if token := self.server.access.token(False):
            headers["Authorization"] = f"Bearer {token}"
        path = self.path if not query else _with(self.path, query)
        response = self.server.upstream.urlopen(
            self.command, path, self.content, headers, preload_content=False, timeout=None
        )
        with self.server.opened(response.connection.sock):
            try:
                yield response
            finally:
                response.close()

    def begin(self, response: urllib3.BaseHTTPResponse) -> None:
        """Send the head of an answer whose body follows in chunks."""
        self.send_response(response.status)
        for name in ("Content-Type", "Retry-After"):
            if name in response.headers:
                self.send_header(name, response.headers[name])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send(self, part: bytes) -> None:
        """Send a part of the body; nothing = its end."""
        self.server.keep_still()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))

    def refuse(self, status: int, headers: dict[str, str]) -> None:
        """Answer with a Status object, as the API server refuses."""
        body = (
            b'{"kind":"Status","status":"Failure","message":"as the test wants it","reason":"Test","code":%d}' % status
        )
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def reset(self) -> None:
        """Break the connection off."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close_connection = True

    def log_message(self, *_):
        """Be quiet."""


def _with(path: str, query: dict[str, str]) -> str:
    url = urllib.parse.urlsplit(path)
    return f"{url.path}?{urllib.parse.urlencode({**dict(urllib.parse.parse_qsl(url.query)), **query})}"


Fault = Callable[[Exchange], None]


def forward(exchange: Exchange) -> None:
    """Pass a request on, and its answer back as it comes."""
    with exchange.answer() as response:
        exchange.begin(response)
        while part := response.read1(_PART):
            exchange.send(part)
        exchange.send(b"")
