"""Requests to one server over kept connections: retried while it is unavailable, until the caller stops."""

import contextlib
import copy
import email.utils
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from tfsteps import __version__
from tfsteps.kube import answers, backoff, connections
from tfsteps.kube.answers import Check, ShapeError
from tfsteps.kube.backoff import StopFlag
from tfsteps.kube.credentials import Access, AccessError
from tfsteps.kube.errors import ApiError, Stopped, UnexpectedAnswerError
from tfsteps.masking import sent

AGENT = {"User-Agent": f"tfsteps/{__version__}"}

PATIENCE_SECONDS = 600.0
"""How long a request is retried while the server is unreachable, asks to wait, or another program answers."""

READ_SECONDS = 30.0
"""The read timeout of an answer."""

SETTLE_SECONDS = 5.0
"""How long a refusal, or the absence of something that should exist, is asked again before it is believed."""

_CONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
_SETTLE_PAUSES = 0.2, 2.0
_T = TypeVar("_T")


class HttpClient:
    """Base class of the clients of the Kubernetes API and of platforms. Safe to use from several threads.

    Attributes:
        access: The address and the credentials.
        stopping: Once set, no request is retried.
        patience: Seconds that a request is retried.
        known: Whether the server has accepted the credentials before: a later refusal may be temporary.
    """

    def __init__(self, access: Access, patience: float, read_seconds: float) -> None:
        """Connect at the first request."""
        self.access = msgspec.structs.replace(access, token=lambda refused: sent(access.token(refused)))
        self.stopping = StopFlag()
        self.patience = patience
        self.known = False
        self._read_seconds = read_seconds
        self._clock_offset: float | None = None  # the server's clock minus the local monotonic clock
        self._base = urllib.parse.urlsplit(access.server)
        self._pool = connections.pool(access)

    def copy(self, patience: float | None = None) -> Self:
        """Return a client with the same connections whose `stopping` is not set, for the requests at the end.

        `patience`, in seconds, replaces this client's and also limits the read timeout; None = keep both.
        """
        other = copy.copy(self)
        other.stopping = StopFlag()
        if patience is not None:
            other.patience = patience
            other._read_seconds = min(self._read_seconds, patience / 2)  # noqa: SLF001  a copy of ours
        return other

    def connect(self) -> None:
        """Open a connection for the next request. If that fails, the request opens one itself."""
        with contextlib.suppress(HTTPError, OSError, ValueError):
            connections.give_back(self._pool, connections.take(self._pool, _CONNECT_SECONDS))

    def retry(self, send: Callable[[], _T], *, allowed: bool = False) -> _T:
        """Return what `send` returns; call it again while the server is unavailable.

        Args:
            send: Sends one request.
            allowed: It was allowed before: retry a 403.

        Raises:
            ApiError: The server refused, or was unavailable for `patience` seconds.
            Stopped: `stopping` was set during the wait.
        """
        end = time.monotonic() + self.patience
        for pause in backoff.pauses(_FIRST_PAUSE, _LONGEST_PAUSE):
            last = time.monotonic() + pause >= end
            try:
                return send()
            except ApiError as error:
                error.transient |= allowed and error.status == 403
                if not error.unavailable or last:
                    raise
                wait = max(backoff.spread(pause), error.retry_after)
            if self.stopping.wait(wait):
                raise Stopped
        raise AssertionError

    def settled(self, send: Callable[[], _T]) -> _T:
        """Return what `send` returns, as `retry` does; a 403 or 404 is raised only if it lasts for SETTLE_SECONDS.

        A server that restarts refuses all credentials, and lacks custom resources, for some seconds.
        """
        end = time.monotonic() + SETTLE_SECONDS
        for pause in backoff.pauses(*_SETTLE_PAUSES):
            try:
                return self.retry(send)
            except ApiError as error:
                if error.status not in (403, 404) or time.monotonic() + pause > end:
                    raise
            if self.stopping.wait(pause):
                raise Stopped
        raise AssertionError

    def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        content: bytes | None,
        headers: Mapping[str, str],
        *,
        read_seconds: float | None = None,
        preload: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request, once, and return any answer.

        Args:
            method: GET, POST, ...
            path: From the server's root.
            query: Of the URL.
            content: The body; None = no body.
            headers: Headers beside the common ones.
            read_seconds: Read timeout; None = the client's.
            preload: Read the body before returning.

        Raises:
            ApiError: There was no answer.
        """
        read = self._read_seconds if read_seconds is None else read_seconds
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=read)
        with self.unreachable():
            return self._pool.urlopen(
                method,
                self._target(path, query),
                content,
                {**AGENT, **headers},
                timeout=timeout,
                preload_content=preload,
                redirect=False,
            )

    def accepted(self, headers: Mapping[str, str]) -> None:
        """Note that a request succeeded, and the server's time."""
        self.known = True
        with contextlib.suppress(ValueError):  # Date is invalid or missing
            date = email.utils.parsedate_to_datetime(headers.get("Date", ""))
            self._clock_offset = date.timestamp() - time.monotonic()

    def server_time(self) -> float | None:
        """Return the time of the server's clock, in seconds since the epoch; None = no answer had a date.

        Compare it with the time stamps of objects: the local clock may differ by hours.
        """
        return None if self._clock_offset is None else time.monotonic() + self._clock_offset

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """Turn errors of a request that gets no answer into an ApiError that names the server."""
        try:
            yield
        except AccessError as error:
            raise ApiError(str(error), 401) from error
        except (HTTPError, OSError, ValueError) as error:  # ValueError: a token that a header cannot hold
            raise ApiError(f"{self.access.name} cannot be reached: {error}") from error

    def _target(self, path: str, query: Mapping[str, str]) -> str:
        return self._base.path.rstrip("/") + path + (f"?{urllib.parse.urlencode(query)}" if query else "")


def checked(request: str, content: bytes | str, check: Check | None, shape: Any = None) -> dict[str, Any]:
    """Return `content` as a JSON object. UnexpectedAnswerError if it is not one, or if `check` refuses it.

    `shape` limits the fields of listed and watched objects; None = all.
    """
    try:
        answer = answers.decode(content, shape)
        if check:
            check(answer)
    except ShapeError as error:
        raise UnexpectedAnswerError(request, error, content) from error
    return answer
