"""Requests to the API server: one warm connection pool, errors by kind, waits while the server cannot answer."""

import contextlib
import copy
import random
import socket
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import msgspec

from tfsteps import __version__
from tfsteps.cluster.access import Access
from tfsteps.cluster.lean_urllib3 import HTTPError, ReadTimeoutError, urllib3

PATIENCE_SECONDS = 600.0
"""How long a request is tried again while the API server cannot be reached or asks to wait."""

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
_PART = 1 << 16
_PAGE = "250"  # objects
_SLICE_SECONDS = 0.1
_KEEPALIVE = [  # a peer that vanished without a word is noticed within a minute, at no cost to the API server
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]
_UNAVAILABLE = {429, 500, 502, 503, 504}


class Resource(msgspec.Struct, frozen=True):
    """One kind of object: its API (`v1`, `kubeflow.org/v1`), its plural, and its kind."""

    api: str
    plural: str
    kind: str

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of all objects in a namespace, of one, or of its subresource; no namespace = all of them."""
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        parts = [root, *(["namespaces", namespace] if namespace else []), self.plural, name, subresource]
        return "/".join(part for part in parts if part)


class ApiError(Exception):
    """The API server refused, or could not be reached.

    Attributes:
        status: The HTTP status; 0 = there was no answer.
        reason: The Status object's reason: NotFound, AlreadyExists, Forbidden, ...; empty = none.
        retry_after: Seconds that it asks us to wait; 0 = it does not.
    """

    def __init__(self, message: str, status: int = 0, reason: str = "", retry_after: float = 0.0) -> None:
        """Keep what programs decide by beside the message."""
        self.status, self.reason, self.retry_after = status, reason, retry_after
        super().__init__(message)

    @property
    def unavailable(self) -> bool:
        """Whether the same request may be answered later."""
        return self.status == 0 or self.status in _UNAVAILABLE

    @property
    def missing(self) -> bool:
        """Whether the object is not there; False where the cluster does not even know its kind."""
        return self.status == 404 and self.reason == "NotFound"


class SilentError(ApiError):
    """Nothing came for as long as we were willing to listen."""


class Stopped(Exception):  # noqa: N818  not an error
    """The wait for an answer was given up because the caller stops."""


class Stopping:
    """A flag that can be waited for, and set in a signal handler: an Event's lock may be held when the signal comes."""

    def __init__(self) -> None:
        """Begin unset."""
        self._set = False

    def set(self) -> None:
        """Set it for good."""
        self._set = True

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._set

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most `seconds`; tell whether it is."""
        end = time.monotonic() + seconds
        while not self._set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))
        return self._set


class Api:
    """A client of one cluster. Safe to use from several threads.

    Attributes:
        access: Where and as whom.
        stopping: Once set, no request is tried again.
    """

    def __init__(self, access: Access, patience: float = PATIENCE_SECONDS, read_seconds: float = _READ_SECONDS) -> None:
        """Connect at the first request; each is tried again for `patience` seconds, and waits so long for an answer."""
        self.access = access
        self._read_seconds = read_seconds
        self.stopping = Stopping()
        self._patience = patience
        self._base = urllib.parse.urlsplit(access.server)
        host, port = self._base.hostname or "", self._base.port
        self._pool = (
            urllib3.HTTPSConnectionPool(
                host, port, maxsize=4, retries=False, socket_options=_KEEPALIVE, ssl_context=access.tls
            )
            if access.tls
            else urllib3.HTTPConnectionPool(host, port, maxsize=4, retries=False, socket_options=_KEEPALIVE)
        )

    def again(self) -> "Api":
        """Return a client with the same connections that is not stopping: for what is left to do at the end."""
        other = copy.copy(self)
        other.stopping = Stopping()
        return other

    # --- one call a verb

    def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        """Return one object. ApiError 404 if it is not there."""
        return self.request("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str, **selectors: str) -> dict[str, Any]:
        """Return the list object of what `labelSelector` and `fieldSelector` select."""
        return self.request("GET", resource.path(namespace), selectors)

    def each(self, resource: Resource, namespace: str, **selectors: str) -> Iterator[dict[str, Any]]:
        """Yield what `labelSelector` and `fieldSelector` select, page by page, so that memory stays flat."""
        more = ""
        while True:
            page = {"limit": _PAGE, **({"continue": more} if more else {})}
            found = self.list(resource, namespace, **selectors, **page)
            yield from found.get("items") or []
            more = found.get("metadata", {}).get("continue", "")
            if not more:
                return

    def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create an object and return it; unknown fields are refused. ApiError 409 if it exists."""
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        return self.request("POST", resource.path(namespace), query, body)

    def patch(self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `body` into an object and return it."""
        return self.request("PATCH", resource.path(namespace, name), {}, body)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
    ) -> None:
        """Delete the object of this name and uid; nothing if it is gone, or another one by now."""
        body = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        try:
            self.request("DELETE", resource.path(namespace, name), {}, body)
        except ApiError as error:
            another = error.status == 409 and "precondition" in str(error).lower()
            if error.status != 404 and not another:
                raise

    # --- requests

    def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send one request and return the object that comes back, waiting while the server cannot answer.

        Raises:
            ApiError: It refused, or could not answer for as long as our patience lasts.
            Stopped: `stopping` was set meanwhile.
        """
        for pause in self._pauses():
            try:
                return self.once(method, path, query, body)
            except ApiError as error:
                if not error.unavailable or pause is None:
                    raise
                wait = max(pause, error.retry_after)
            if self.stopping.wait(wait):
                raise Stopped
        raise AssertionError

    def once(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send one request, once, and return the object that comes back. ApiError for anything else."""
        with self.open(method, path, query, None if body is None else msgspec.json.encode(body)) as response:
            return dict(msgspec.json.decode(response.read()))

    def open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        *,
        read_seconds: float | None = None,
    ) -> "Response":
        """Send one request, once, and return the answer with its body unread.

        Args:
            method: GET, POST, ...
            path: From the server's root.
            query: Of the URL.
            content: The body.
            read_seconds: Longest silence; None = what this client waits for every answer.

        Raises:
            ApiError: Any answer that is not a success, or none.
        """
        quiet = self._read_seconds if read_seconds is None else read_seconds
        response = self._send(method, path, query or {}, content, quiet, refused=False)
        if response.status == 401:
            response.drain_conn()
            response = self._send(method, path, query or {}, content, quiet, refused=True)
        if response.status >= 300:
            raise _refusal(response, method, path)
        return Response(response)

    def _send(
        self, method: str, path: str, query: Mapping[str, str], content: bytes | None, read: float, *, refused: bool
    ) -> urllib3.BaseHTTPResponse:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "User-Agent": f"tfsteps/{__version__}", "Content-Type": kind}
        try:
            if token := self.access.token(refused):
                headers["Authorization"] = f"Bearer {token}"
            url = self._base.path.rstrip("/") + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
            timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=read)
            return self._pool.urlopen(
                method, url, content, headers, timeout=timeout, preload_content=False, redirect=False
            )
        except (HTTPError, OSError) as error:
            raise ApiError(f"{self.access.name} cannot be reached: {error}") from error

    def _pauses(self) -> Iterator[float | None]:
        """Yield how long to wait before each further try, None before the last."""
        end = time.monotonic() + self._patience
        pause = _FIRST_PAUSE
        while time.monotonic() + pause < end:
            yield pause * random.uniform(0.5, 1.5)  # noqa: S311  spreads launchers, no secret
            pause = min(pause * 2, _LONGEST_PAUSE)
        yield None


class Response:
    """An answer whose body is read as it comes. A context manager; left early, its connection is closed.

    Attributes:
        rest: What came after the end of the last line that `lines` yielded.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        """Take over the answer."""
        self.rest = b""
        self._response = response
        self._whole = False

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the connection back if the body was read to its end."""
        if self._whole:
            self._response.release_conn()
        else:
            self._response.close()

    def read(self) -> bytes:
        """Return the whole body. ApiError if it breaks off."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """Yield the body as it comes. ApiError if it breaks off, or nothing comes for the time that was given."""
        try:
            while part := self._response.read1(_PART):
                yield part
        except ReadTimeoutError as error:
            raise SilentError("the answer stopped coming") from error
        except (HTTPError, OSError, ValueError) as error:  # a ValueError: closed by another thread
            raise ApiError(f"the answer broke off: {error}") from error
        self._whole = True

    def lines(self, longest: int) -> Iterator[bytes]:
        """Yield each whole line without its end as it comes, one longer than `longest` bytes in pieces."""
        rest = bytearray()
        for part in self.parts():
            *whole, tail = part.split(b"\n")
            for line in whole:
                yield bytes(rest + line)
                rest.clear()
            rest += tail
            while len(rest) > longest:
                yield bytes(rest[:longest])
                del rest[:longest]
        self.rest = bytes(rest)

    def close(self) -> None:
        """Break off, from any thread: who reads meets an ApiError or the end."""
        sock = getattr(self._response.connection, "sock", None)
        if sock:
            with contextlib.suppress(OSError):  # SSLSocket's own would hand what has come undecrypted to who reads
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _refusal(response: urllib3.BaseHTTPResponse, method: str, path: str) -> ApiError:
    """Return the error that an answer stands for; what stands before the server may answer with no Status object."""
    text = b""
    with contextlib.suppress(HTTPError, OSError):
        text = response.read()
    try:
        status = msgspec.json.decode(text, type=_Status)
    except (msgspec.DecodeError, msgspec.ValidationError):
        status = _Status(
            message=f"{method} {path}: HTTP {response.status} {text[:200].decode(errors='replace')}".strip()
        )
    retry_after = response.headers.get("Retry-After", "")
    return ApiError(
        status.message, response.status, status.reason, float(retry_after) if retry_after.isdigit() else 0.0
    )


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
