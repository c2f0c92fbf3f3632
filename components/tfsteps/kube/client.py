"""Requests to the API server: one connection pool, typed errors, retries while the server is unavailable."""

import contextlib
import functools
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from tfsteps.kube import answers
from tfsteps.kube.answers import Check
from tfsteps.kube.connections import Response, is_good, refusal
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError, TooLongError, UnexpectedAnswerError
from tfsteps.kube.http_client import AGENT, PATIENCE_SECONDS, READ_SECONDS, HttpClient, checked
from tfsteps.kube.resource import NAMESPACES, Resource
from tfsteps.kube.stream import Stream

_PAGE, _FIRST_PAGE = 600, 100  # objects: the more the smaller they are
_PAGE_BYTES = 16 << 20  # of pages of several objects: one namespace may be full of large objects
_GOAL = 8  # a part of that: each pod of a TFJob has the addresses of all replicas, 39 MB for a thousand pods
_FEWER = 8
# Of generated names, as the API server makes them: they are also values of labels [source: apiserver, `names`].
_SUFFIX_LETTERS, _SUFFIX_LENGTH, _LONGEST_NAME = "bcdfghjklmnpqrstvwxz2456789", 5, 63
_Items = list[dict[str, Any]]
_Page = tuple[dict[str, Any], int]  # a list, and its length in bytes
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 9111 has several in one header


class Api(HttpClient):
    """A client of one cluster. Safe to use from several threads."""

    def __init__(self, access: Access, patience: float = PATIENCE_SECONDS, read_seconds: float = READ_SECONDS) -> None:
        """Connect at the first request.

        Args:
            access: The cluster and the credentials.
            patience: Seconds that a request is retried.
            read_seconds: Seconds to wait for an answer.
        """
        super().__init__(access, patience, read_seconds)
        self._warned: set[str] = set()

    def without_retries(self, read_seconds: float) -> "Api":
        """Return a client of the same cluster with its own connections, which sends each request once."""
        return Api(self.access, patience=0, read_seconds=read_seconds)

    # --- one call a verb

    def get(
        self, resource: Resource, namespace: str, name: str, *, once: bool = False, allowed: bool = False
    ) -> dict[str, Any]:
        """Return one object. ApiError 404 if it does not exist. With `allowed` (it was allowed before), retry a 403."""
        path, check = resource.path(namespace, name), answers.an_object(resource, name)
        return self.send("GET", path, check=check) if once else self.request("GET", path, check=check, allowed=allowed)

    def namespace_uid(self, namespace: str) -> str:
        """Return the uid of a namespace: no namespace of another cluster has the same, whatever its name.

        Empty = it may not be read, or there is none. ApiError if that is not known.
        """
        try:
            return str(self.get(NAMESPACES, "", namespace)["metadata"]["uid"])
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            return ""

    def gone(self, resource: Resource, namespace: str, name: str, uid: str) -> bool:
        """Tell whether the object of this name and uid is certainly gone. Sent once; ApiError if that is not known."""
        try:
            item = self.get(resource, namespace, name, once=True)
        except ApiError as error:
            if error.missing and error.about == name:
                return True
            raise
        return bool(item["metadata"]["uid"] != uid)

    def list(self, resource: Resource, namespace: str, *, once: bool = False, **selectors: str) -> dict[str, Any]:
        """Return the list of the objects that `labelSelector` and `fieldSelector` select."""
        send = self.send if once else self.request
        return send("GET", resource.path(namespace), selectors, check=answers.a_list(resource))

    def iterate(self, resource: Resource, namespace: str, **selectors: str) -> Iterator[dict[str, Any]]:
        """Yield the objects that `labelSelector` and `fieldSelector` select, page by page, to limit memory.

        UnexpectedAnswerError if a page refers to itself as the next one.
        """
        for page in self._pages(resource, namespace, selectors, self.retry):
            yield from page["items"] or []

    def listed(self, resource: Resource, namespace: str, **selectors: str) -> tuple[_Items, str]:
        """Return the objects that the selectors select, and the resourceVersion of the list. Each request is sent once.

        Objects of a `shape` come page by page, others at once, because an API server may have them in its cache.
        """
        if resource.shape:
            pages = self._pages(resource, namespace, selectors, lambda send: send())
        else:
            pages = iter([self.list(resource, namespace, once=True, **selectors)])
        items, version = _Items(), ""
        for page in pages:
            items += page["items"] or []
            version = page["metadata"]["resourceVersion"]
        return items, version

    def _pages(
        self,
        resource: Resource,
        namespace: str,
        selectors: Mapping[str, str],
        retry: Callable[[Callable[[], _Page]], _Page],
    ) -> Iterator[dict[str, Any]]:
        more, size = "", min(_FIRST_PAGE, _PAGE)
        while True:
            query = {**selectors, "limit": str(size), **({"continue": more} if more else {})}
            try:
                page, length = retry(functools.partial(self._page, resource, namespace, query, one=size == 1))
            except TooLongError:
                size = max(size // _FEWER, 1)
                continue
            yield page
            before, more = more, page["metadata"].get("continue", "")
            if not more:
                return
            if more == before:
                raise UnexpectedAnswerError(f"GET {resource.path(namespace)}", "its next page is the same page")
            size = max(1, min(_PAGE, len(page["items"] or [0]) * _PAGE_BYTES // _GOAL // length))

    def _page(self, resource: Resource, namespace: str, query: Mapping[str, str], *, one: bool) -> _Page:
        path = resource.path(namespace)
        with self.open("GET", path, query) as response:
            content = response.read(None if one else _PAGE_BYTES)
        return checked(f"GET {path}", content, answers.a_list(resource), resource.shape), len(content)

    def create(
        self,
        resource: Resource,
        namespace: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        once: bool = False,
    ) -> dict[str, Any]:
        """Create an object and return it; the server refuses unknown fields. ApiError 409 if it exists.

        An object with `generateName` gets its name here, because a request without an answer is sent again: the server
        would create a second object. Warnings of the API server are printed to standard error, each once.
        """
        query = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        metadata, sent = body.get("metadata", {}), 0
        if generated := not metadata.get("name") and metadata.get("generateName"):
            suffix = "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))
            metadata = {**metadata, "name": f"{generated[: _LONGEST_NAME - _SUFFIX_LENGTH]}{suffix}"}
            body = {**body, "metadata": metadata}
        check = answers.an_object(resource, metadata.get("name", ""), stored=not dry_run)

        def send() -> dict[str, Any]:
            nonlocal sent
            sent += 1
            return self.send("POST", resource.path(namespace), query, body, check)

        try:
            return send() if once else self.retry(send)
        except ApiError as error:
            if not generated or error.status != 409 or sent == 1:
                raise
            return self.get(resource, namespace, metadata["name"])  # created by the request without an answer

    def review(self, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the status of a review, which the server answers at once and does not store. Sent once.

        Args:
            resource: Its kind.
            spec: What is asked; empty = the kind has no spec.
        """
        body = {"apiVersion": resource.api, "kind": resource.kind, **({"spec": spec} if spec else {})}
        status: Mapping[str, Any] = self.send("POST", resource.path(""), {}, body, answers.a_review(resource))["status"]
        return status

    def patch(
        self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Merge `body` into an object and return it."""
        query = {"dryRun": "All"} if dry_run else {}
        return self.request("PATCH", resource.path(namespace, name), query, body, answers.an_object(resource, name))

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        propagation: Literal["Background", "Foreground", "Orphan"] = "Background",
        *,
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete the object of this name and uid; return False if it is already gone or was replaced.

        A 404 is believed only if a GET confirms it.
        """
        body = {"propagationPolicy": propagation, "preconditions": {"uid": uid}}
        grace = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        send = functools.partial(self._delete, resource, namespace, name, uid, {**body, **grace})
        return self.retry(send)

    def _delete(self, resource: Resource, namespace: str, name: str, uid: str, body: Mapping[str, Any]) -> bool:
        try:
            self.send("DELETE", resource.path(namespace, name), {}, body, answers.a_deletion(resource, name))
        except ApiError as error:
            if error.status == 409 and "precondition" in str(error).lower():
                return False
            if not error.missing:
                raise
            if not self.gone(resource, namespace, name, uid):
                raise ApiError(
                    f"{resource.kind} {namespace}/{name} is there, but its deletion did not find it"
                ) from error
            return False
        return True

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
        """Send one request and return the object in the answer; retry while the server is unavailable.

        Args:
            method: GET, POST, ...
            path: From the server's root.
            query: Of the URL.
            body: Sent as JSON.
            check: Raises a ShapeError if the answer is not the expected object; None = accept any JSON object.
            allowed: It was allowed before: retry a 403.

        Raises:
            ApiError: The server refused, or was unavailable for `patience` seconds.
            Stopped: `stopping` was set during the wait.
        """
        return self.retry(functools.partial(self.send, method, path, query, body, check), allowed=allowed)

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        check: Check | None = None,
    ) -> dict[str, Any]:
        """Send one request, once, and return the object in the answer."""
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
        """Send one request, once, and return the answer without reading its body.

        Args:
            method: GET, POST, ...
            path: From the server's root.
            query: Of the URL.
            content: The body.
            read_seconds: Read timeout; None = the client's.

        Raises:
            ApiError: The answer is not a success, or there is none.
        """
        for refused in (False, True):
            headers = self._headers(method, refused=refused)
            response = self.exchange(method, path, query or {}, content, headers, read_seconds=read_seconds)
            if response.status != 401 or refused:
                break
            response.drain_conn()
        if not is_good(response.status, response.headers):
            text = b""
            with contextlib.suppress(HTTPError, OSError):
                text = response.read()
            raise self.refused(f"{method} {path}", response.status, response.headers, text)
        self.accepted(response.headers)
        return Response(response)

    @contextlib.contextmanager
    def forward(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Send a request of another program with this client's credentials, once, and yield any answer, unread.

        Args:
            method: GET, POST, ...
            target: Path and query, as the other program sent them.
            content: The body; None = no body.
            headers: Of the request, without credentials.

        Raises:
            ApiError: There was no answer.
        """
        token = self.access.token(False)
        credentials = {"Authorization": f"Bearer {token}"} if token else {}
        response = self.exchange(method, target, {}, content, {**headers, **credentials})
        try:
            yield response
        finally:
            response.close()

    def begin(self, path: str, query: Mapping[str, str], *, refused: bool = False) -> Stream:
        """Send a GET request and return a `Stream`, which waits for the answer without a thread.

        Args:
            path: From the server's root.
            query: Of the URL.
            refused: The last answer was 401: fetch a new token.

        Raises:
            ApiError: The request could not be sent.
        """
        headers = {"Host": self._base.netloc.rpartition("@")[2], **AGENT, **self._headers("GET", refused=refused)}
        with self.unreachable():
            return Stream(self._pool, self._target(path, query), headers)

    def refused(self, request: str, status: int, headers: Mapping[str, str], text: bytes) -> ApiError:
        """Return the error for an answer, and note whether the server accepts the credentials."""
        error = refusal(request, status, headers, text)
        error.transient = error.status == 401 and self.known
        self.known |= error.reason not in {"", "Unauthorized"}
        return error

    def _show_warnings(self, headers: Mapping[str, str]) -> None:
        for quoted in _WARNING.findall(headers.get("Warning", "")):
            warning = "".join(filter(str.isprintable, re.sub(r"\\(.)", r"\1", quoted)))
            if warning not in self._warned:
                self._warned.add(warning)
                with contextlib.suppress(OSError):
                    sys.stderr.write(f"warning: {warning}\n")

    def _headers(self, method: str, *, refused: bool) -> Mapping[str, str]:
        """Return the headers of a request. ApiError if there is no token."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        with self.unreachable():
            token = self.access.token(refused)
        return {
            "Accept": "application/json",
            "Content-Type": kind,
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
