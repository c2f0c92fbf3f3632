"""An HTTP server on loopback that answers as a test says, and keeps what it was asked."""

import contextlib
import http.server
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterable

import msgspec
import trustme

from tfsteps.cluster.access import Access


class Asked(msgspec.Struct):
    """One request: its method, path, query, body, bearer token, and when it came."""

    method: str
    path: str
    query: dict[str, str]
    body: dict | None
    token: str
    at: float


class Answer(msgspec.Struct):
    """What to answer.

    Attributes:
        status: HTTP status.
        body: As JSON, unless it is bytes.
        headers: Further headers.
        parts: Sent one after another, in chunks; a number is a pause in seconds, "reset" and "hang" say themselves.
    """

    status: int = 200
    body: object = None
    headers: dict[str, str] = {}
    parts: Iterable = ()


class Server(http.server.ThreadingHTTPServer):
    """Answers with what `script` returns for each request, over TLS if that is asked for."""

    daemon_threads = True

    def __init__(self, script, *, tls=False):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.asked: list[Asked] = []
        self.hanging = threading.Event()
        self.trust = self._tls() if tls else None

    def _tls(self):
        ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority = trustme.CA()
        authority.issue_cert("127.0.0.1").configure_cert(ours)
        authority.configure_trust(theirs)
        self.socket = ours.wrap_socket(self.socket, server_side=True)
        return theirs

    def access(self, token="t0ken"):
        tokens = token if callable(token) else lambda _refused: token
        server = f"{'https' if self.trust else 'http'}://127.0.0.1:{self.server_port}"
        return Access(server, "ns", self.trust, tokens, "the test's cluster")

    def handle_error(self, *_):
        """Clients break off; that is what is tested."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _any(self):
        url = urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        query = dict(urllib.parse.parse_qsl(url.query))
        asked = Asked(self.command, url.path, query, body, token, time.monotonic())
        self.server.asked.append(asked)
        self._answer(self.server.script(asked))

    do_GET = do_POST = do_DELETE = do_PATCH = _any  # noqa: N815  as http.server calls them

    def _answer(self, answer):
        if answer == "reset":
            return self._reset()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.parts:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            return self._send_parts(answer.parts)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def _send_parts(self, parts):
        for part in parts:
            if isinstance(part, int | float):
                time.sleep(part)
            elif part == "hang":
                self.server.hanging.wait(90)
            elif part == "reset":
                return self._reset()
            else:
                data = part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _reset(self):
        linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # close sends RST
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_):
        """Be quiet."""


@contextlib.contextmanager
def serve(script, *, tls=False):
    """Run a Server for the length of the block. `script` is a function, or a list of answers, the last for ever."""
    answers = list(script) if isinstance(script, list) else None

    def next_answer(asked):
        if answers is None:
            return script(asked)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    server = Server(next_answer, tls=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.hanging.set()
        server.shutdown()
        server.server_close()


def refusal(status, reason="", message="no", **headers):
    """Return an answer with a Status object, as the API server refuses."""
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return Answer(status, body, headers)
