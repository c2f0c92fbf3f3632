"""Requests to the API server: one warm connection pool, errors by kind, waits while the server cannot answer."""

import contextlib
import copy
import email.utils
import random
import re
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from tfsteps import __version__
from tfsteps.kube import answers, connections
from tfsteps.kube.access import Access, AccessError
from tfsteps.kube.answers import Check, ShapeError
from tfsteps.kube.errors import ApiError, Stopped, UnexpectedAnswerError
from tfsteps.kube.response import Response, is_good, refusal
from tfsteps.kube.stream import Stream

PATIENCE_SECONDS = 600.0
"""How long a request is tried again while the API server cannot be reached, asks to wait, or something else answers."""

_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
_PAGE = "250"  # objects
_SLICE_SECONDS = 0.1
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111 has several in one header


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


class StopFlag:
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
        patience: Seconds that a request is tried again.
    """

    def __init__(self, access: Access, patience: float = PATIENCE_SECONDS, read_seconds: float = _READ_SECONDS) -> None:
        """Connect at the first request; each is tried again for `patience` seconds, and waits so long for an answer."""
        self.access = access
        self._read_seconds = read_seconds
        self.stopping = StopFlag()
        self._ahead: float | None = None  # the server's clock minus our monotonic one
        self.patience = patience
        self._accepted = False
        self._warned: set[str] = set()
        self._base = urllib.parse.urlsplit(access.server)
        self._pool = connections.pool(access)

    def copy(self, patience: float | None = None) -> Self:
        """Return a client with the same connections that is not stopping: for what is left to do at the end.

        With `patience` in seconds it takes no longer than about that, in place of this client's.
        """
        other = copy.copy(self)
        other.stopping = StopFlag()
        if patience is not None:
            other.patience = patience
            other._read_seconds = min(self._read_seconds, patience / 2)  # noqa: SLF001  a copy of ours
        return other

    def connect(self) -> None:
        """Open a connection, so that the next request finds it there. If that fails, the request opens one itself."""
        with contextlib.suppress(HTTPError, OSError, ValueError):
            connections.give_back(self._pool, connections.take(self._pool, _CONNECT_SECONDS))

    # --- one call a verb

    def get(
        self, resource: Resource, namespace: str, name: str, *, once: bool = False, allowed: bool = False
    ) -> dict[str, Any]:
        """Return one object. ApiError 404 if it is not there. Was it `allowed` before, a 403 is waited out."""
        path, check = resource.path(namespace, name), answers.an_object(resource, name)
        return self.send("GET", path, check=check) if once else self.request("GET", path, check=check, allowed=allowed)

    def gone(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Tell whether the object of this name and uid is gone for certain. Asked once; ApiError if it is not known."""
        try:
            item = self.get(resource, namespace, name, once=True)
        except ApiError as error:
            if error.missing and error.about == name:
                return True
            raise
        return bool(item["metadata"]["uid"] != uid)

    def list(self, resource: Resource, namespace: str, *, once: bool = False, **selectors: str) -> dict[str, Any]:
        """Return the list object of what `labelSelector` and `fieldSelector` select."""
        send = self.send if once else self.request
        return send("GET", resource.path(namespace), selectors, check=answers.a_list(resource))

    def iterate(self, resource: Resource, namespace: str, **selectors: str) -> Iterator[dict[str, Any]]:
        """Yield what `labelSelector` and `fieldSelector` select, page by page, so that memory stays flat."""
        more = ""
        while True:
            page = {"limit": _PAGE, **({"continue": more} if more else {})}
            found = self.list(resource, namespace, once=False, **selectors, **page)
            yield from found["items"] or []
            more = found["metadata"].get("continue", "")
            if not more:
                return

    def create(
        self,
        resource: Resource,
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        once: bool = False,
    ) -> dict[str, Any]:
        """Create an object and return it; unknown fields are refused. ApiError 409 if it exists.

        What the API server warns of is printed to standard error, each warning once.
        """
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        check = answers.an_object(resource, body.get("metadata", {}).get("name", ""), stored=not dry_run)
        send = self.send if once else self.request
        return send("POST", resource.path(namespace), query, body, check)

    def review(self, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the status of a review, which is answered at once and not stored. Asked once."""
        body = {"apiVersion": resource.api, "kind": resource.kind, "spec": spec}
        status: Mapping[str, Any] = self.send("POST", resource.path(""), {}, body, answers.a_review(resource))["status"]
        return status

    def patch(self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `body` into an object and return it."""
        return self.request("PATCH", resource.path(namespace, name), {}, body, answers.an_object(resource, name))

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        *,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete the object of this name and uid; nothing if it is gone, or another one by now."""
        body = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        try:
            check = answers.a_deletion(resource, name)
            self.request("DELETE", resource.path(namespace, name), {}, {**body, **grace}, check)
        except ApiError as error:
            another = error.status == 409 and "precondition" in str(error).lower()
            if not error.missing and not another:
                raise

    # --- requests

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        check: Check | None = None,
        *,
        allowed: bool = False,
    ) -> dict[str, Any]:
        """Send one request and return the object that comes back, waiting while the server cannot answer.

        Args:
            method: GET, POST, ...
            path: From the server's root.
            query: Of the URL.
            body: Sent as JSON.
            check: Raises a ShapeError if the answer is not what was asked for; None = any JSON object is.
            allowed: It was allowed before: a 403 is waited out.

        Raises:
            ApiError: It refused, or could not answer for as long as our patience lasts.
            Stopped: `stopping` was set meanwhile.
        """
        for pause in self._pauses():
            try:
                return self.send(method, path, query, body, check)
            except ApiError as error:
                error.transient |= allowed and error.status == 403
                if not error.unavailable or pause is None:
                    raise
                wait = max(pause, error.retry_after)
            if self.stopping.wait(wait):
                raise Stopped
        raise AssertionError

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        check: Check | None = None,
    ) -> dict[str, Any]:
        """Send one request, once, and return the object that comes back. ApiError for anything else."""
        with self.open(method, path, query, None if body is None else msgspec.json.encode(body)) as response:
            content = response.read()
            if method == "POST":
                self._show_warnings(response.headers)
        return checked(f"{method} {path}", content, check)

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
        if not is_good(response.status, response.headers):
            text = b""
            with contextlib.suppress(HTTPError, OSError):
                text = response.read()
            raise self.refused(f"{method} {path}", response.status, response.headers, text)
        self.accepted(response.headers)
        return Response(response)

    def begin(self, path: str, query: Mapping[str, str], *, refused: bool = False) -> Stream:
        """Send a GET request, whose answer is waited for without a thread; `Stream.answer` does all of that.

        Args:
            path: From the server's root.
            query: Of the URL.
            refused: It was answered with 401: a new token is needed.

        Raises:
            ApiError: It could not be sent.
        """
        with self._unreachable():
            target, headers = self._head("GET", path, query, refused=refused)
            return Stream(self._pool, target, {"Host": self._base.netloc.rpartition("@")[2], **headers})

    def refused(self, request: str, status: int, headers: Mapping[str, str], text: bytes) -> ApiError:
        """Return the error that an answer stands for, and note whether it knows us."""
        error = refusal(request, status, headers, text)
        error.transient = error.status == 401 and self._accepted
        self._accepted |= error.reason not in {"", "Unauthorized"}
        return error

    def accepted(self, headers: Mapping[str, str]) -> None:
        """Note that a request was answered as it should be, and when."""
        self._accepted = True
        with contextlib.suppress(ValueError):  # a Date that is none, or absent
            told = email.utils.parsedate_to_datetime(headers.get("Date", ""))
            self._ahead = told.timestamp() - time.monotonic()

    def _show_warnings(self, headers: Mapping[str, str]) -> None:
        for quoted in _WARNING.findall(headers.get("Warning", "")):
            warning = "".join(filter(str.isprintable, re.sub(r"\\(.)", r"\1", quoted)))
            if warning not in self._warned:
                self._warned.add(warning)
                with contextlib.suppress(OSError):
                    sys.stderr.write(f"warning: {warning}\n")

    def server_time(self) -> float | None:
        """Return what the server's clock shows now, in seconds since the epoch; None where it never told.

        To compare with the time stamps of objects: our own clock may differ by hours.
        """
        return None if self._ahead is None else time.monotonic() + self._ahead

    def _send(
        self, method: str, path: str, query: Mapping[str, str], content: bytes | None, read: float, *, refused: bool
    ) -> urllib3.BaseHTTPResponse:
        with self._unreachable():
            url, headers = self._head(method, path, query, refused=refused)
            timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=read)
            return self._pool.urlopen(
                method, url, content, headers, timeout=timeout, preload_content=False, redirect=False
            )

    def _head(
        self, method: str, path: str, query: Mapping[str, str], *, refused: bool
    ) -> tuple[str, Mapping[str, str]]:
        """Return a request's target and headers."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "User-Agent": f"tfsteps/{__version__}", "Content-Type": kind}
        if token := self.access.token(refused):
            headers["Authorization"] = f"Bearer {token}"
        return self._base.path.rstrip("/") + path + (f"?{urllib.parse.urlencode(query)}" if query else ""), headers

    @contextlib.contextmanager
    def _unreachable(self) -> Iterator[None]:
        try:
            yield
        except AccessError as error:
            raise ApiError(str(error), 401) from error
        except (HTTPError, OSError, ValueError) as error:  # a ValueError: a token that no header can hold
            raise ApiError(f"{self.access.name} cannot be reached: {error}") from error

    def _pauses(self) -> Iterator[float | None]:
        """Yield how long to wait before each further try, None before the last."""
        end = time.monotonic() + self.patience
        pause = _FIRST_PAUSE
        while time.monotonic() + pause < end:
            yield pause * random.uniform(0.5, 1.5)  # noqa: S311  spreads launchers, no secret
            pause = min(pause * 2, _LONGEST_PAUSE)
        yield None


def checked(request: str, content: bytes | str, check: Check | None) -> dict[str, Any]:
    """Return the JSON object that `content` is. UnexpectedAnswerError if it is none, or `check` does not take it."""
    try:
        answer = answers.decode(content)
        if check:
            check(answer)
    except ShapeError as error:
        raise UnexpectedAnswerError(request, error, content) from error
    return answer
