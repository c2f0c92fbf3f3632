"""An HTTP server on loopback that answers as a test says, and keeps what it was asked.

What every API server puts into its answers (kind, apiVersion, uid, resourceVersion) is put in where a test leaves it
out. A test that wants another answer gives bytes.
"""

import contextlib
import http.server
import itertools
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterable

import msgspec
import trustme

from tests.support.servers import KeepsErrors
from tfsteps.kube.credentials import Access


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
        body: As JSON, completed, unless it is bytes.
        headers: Further headers.
        parts: Sent one after another, in chunks: events, completed, or bytes; a number is a pause in seconds; "hang"
            sends no more; "cut" ends the answer early; "reset" does so, too, and takes back what is not read yet.
    """

    status: int = 200
    body: object = None
    headers: dict[str, str] = {}
    parts: Iterable = ()


class Server(KeepsErrors, http.server.ThreadingHTTPServer):
    """Answers with what `script` returns for each request, over TLS if `tls` is True or the certificate's name.

    Attributes:
        authority: That of its certificate.
        ahead: Seconds by which its clock, that of the header `Date`, is ahead of ours.
    """

    daemon_threads = True

    def __init__(self, script, *, tls=False):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.ahead = 0.0
        self.asked: list[Asked] = []
        self.hanging = threading.Event()
        self.authority = trustme.CA() if tls else None  # a key takes a while
        self.trust = self._tls("127.0.0.1" if tls is True else tls) if tls else None

    def _tls(self, name):
        ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.authority.issue_cert(name).configure_cert(ours)
        self.authority.configure_trust(theirs)
        self.socket = ours.wrap_socket(self.socket, server_side=True)
        return theirs

    def access(self, token="t0ken"):
        tokens = token if callable(token) else lambda _refused: token
        server = f"{'https' if self.trust else 'http'}://127.0.0.1:{self.server_port}"
        return Access(server, "ns", self.trust, tokens, "the test's cluster")


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
        self._answer(self.server.script(asked), asked)

    do_GET = do_POST = do_DELETE = do_PATCH = _any  # noqa: N815  as http.server calls them

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.server.ahead if timestamp is None else timestamp)

    def _answer(self, answer, asked):
        if answer == "hang":
            self.server.hanging.wait(90)
        if answer in ("hang", "reset"):
            return self._reset()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.parts:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            return self._send_parts(answer.parts, asked)
        body = answer.body
        if not isinstance(body, bytes):
            body = json.dumps(completed(asked, body)).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def _send_parts(self, parts, asked):
        for part in parts:
            if isinstance(part, int | float):
                time.sleep(part)
            elif part == "hang":
                self.server.hanging.wait(90)
            elif part == "reset":
                return self._reset()
            elif part == "cut":
                self.close_connection = True
                return None
            else:
                data = part if isinstance(part, bytes) else json.dumps(_event(asked, part)).encode() + b"\n"
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


# --- what every API server says

_KINDS = {
    "clustertrainingruntimes": "ClusterTrainingRuntime",
    "configmaps": "ConfigMap",
    "cronjobs": "CronJob",
    "cronworkflows": "CronWorkflow",
    "events": "Event",
    "jobs": "Job",
    "jobsets": "JobSet",
    "limitranges": "LimitRange",
    "localqueues": "LocalQueue",
    "namespaces": "Namespace",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "podgroups": "PodGroup",
    "pods": "Pod",
    "priorityclasses": "PriorityClass",
    "resourcequotas": "ResourceQuota",
    "secrets": "Secret",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
    "serviceaccounts": "ServiceAccount",
    "services": "Service",
    "tensorboards": "TensorBoard",
    "tensorflowtrainingjobs": "TensorFlowTrainingJob",
    "tfjobs": "TFJob",
    "trainjobs": "TrainJob",
    "workflows": "Workflow",
}


def completed(asked, body):
    """Return an answer with what every API server says besides; what is there stays as it is."""
    if asked.method == "DELETE" and (not body or body == {"status": "Success"}):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if not isinstance(body, dict) or not asked.path.startswith("/api"):
        return body
    if body.get("kind") == "Status":
        return _status(asked, body)
    if "groups" in body or "resources" in body:
        return {"kind": "APIGroupList" if "groups" in body else "APIResourceList", **body}
    if typed := _typed(asked):
        return _list(asked, body, **typed) if "items" in body else _item(asked, body, **typed)
    return body


def _status(asked, body):
    _, _, named = _where(asked)
    return {"details": {"name": named[0]}, **body} if named and body.get("reason") == "NotFound" else body


def _list(asked, body, **typed):
    meta = {"resourceVersion": "1", **body.get("metadata", {})}
    items = [_item(asked, item) for item in body["items"] or []]
    return {**typed, "kind": f"{typed['kind']}List", **body, "metadata": meta, "items": items}


def _where(asked):
    """Return the API, the plural, and what follows it in the path that was asked for."""
    _, root, *parts = asked.path.split("/")
    size = 1 if root == "api" else 2
    rest = parts[size:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return "/".join(parts[:size]), rest[0] if rest else "", rest[1:]


def _typed(asked):
    api, plural, _ = _where(asked)
    kind = "TfJob" if api.startswith("tensorflow.org") else _KINDS.get(plural)
    return {"apiVersion": api, "kind": kind} if kind else None


def _item(asked, item, **typed):
    _, _, rest = _where(asked)
    name = next(iter(rest), ((asked.body or {}).get("metadata") or {}).get("name")) or "a"
    meta = {"name": name, "uid": "u", "resourceVersion": "1", **item.get("metadata", {})}
    return {**typed, **item, "metadata": meta}


def _event(asked, part):
    if part.get("type") in (None, "ERROR"):
        return part
    return {**part, "object": _item(asked, part["object"], **_typed(asked))}


@contextlib.contextmanager
def serve(script, *, tls=False):
    """Run a Server for the length of the block; an error of the script is raised at its end.

    `script` is a function, or a list of answers, the last for ever. An answer is an Answer, "reset" or "hang".
    """
    if isinstance(script, list):
        answers = itertools.chain(script, itertools.repeat(script[-1]) if script else ())
        server = Server(lambda _asked: next(answers), tls=tls)
    else:
        server = Server(script, tls=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.hanging.set()
        server.shutdown()
        server.server_close()


def refusal(status, reason="", message="no", about="", **headers):
    """Return an answer with a Status object, as the API server refuses; `about` an object of that name."""
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    if about:
        body["details"] = {"name": about}
    return Answer(status, body, headers)
