"""Requests to one server over warm connections: retried while it cannot answer, given up once the caller stops."""

import contextlib
import copy
import email.utils
import random
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

import urllib3
from urllib3.exceptions import HTTPError

from tfsteps import __version__
from tfsteps.kube import answers, connections
from tfsteps.kube.access import Access, AccessError
from tfsteps.kube.answers import Check, ShapeError
from tfsteps.kube.errors import ApiError, Stopped, UnexpectedAnswerError

PATIENCE_SECONDS = 600.0
"""How long a request is retried while the server cannot be reached, asks to wait, or something else answers."""

READ_SECONDS = 30.0
"""How long an answer is waited for."""

_CONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0
_SLICE_SECONDS = 0.1
_T = TypeVar("_T")


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


class HttpClient:
    """What the clients of the Kubernetes API and of HAI Platform have in common. Safe to use from several threads.

    Attributes:
        access: Where and as whom.
        stopping: Once set, no request is retried.
        patience: Seconds that a request is retried.
        known: Whether the server has accepted the credentials before: a refusal that follows may pass.
    """

    def __init__(self, access: Access, patience: float, read_seconds: float) -> None:
        """Connect at the first request."""
        self.access = access
        self.stopping = StopFlag()
        self.patience = patience
        self.known = False
        self._read_seconds = read_seconds
        self._clock_offset: float | None = None  # the server's clock minus our monotonic one
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

    def retry(self, send: Callable[[], _T], *, allowed: bool = False) -> _T:
        """Return what `send` returns, calling it again while the server cannot answer.

        Args:
            send: Sends one request.
            allowed: It was allowed before: a 403 is waited out.

        Raises:
            ApiError: The server refused, or could not answer for `patience` seconds.
            Stopped: `stopping` was set meanwhile.
        """
        for pause in self._pauses():
            try:
                return send()
            except ApiError as error:
                error.transient |= allowed and error.status == 403
                if not error.unavailable or pause is None:
                    raise
                wait = max(pause, error.retry_after)
            if self.stopping.wait(wait):
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
            content: The body; None = there is none.
            headers: Without those that every request has.
            read_seconds: Longest silence; None = what this client waits for every answer.
            preload: Whether the body is read before this returns.

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
                self._with_agent(headers),
                timeout=timeout,
                preload_content=preload,
                redirect=False,
            )

    def accepted(self, headers: Mapping[str, str]) -> None:
        """Note that a request was answered as it should be, and when."""
        self.known = True
        with contextlib.suppress(ValueError):  # a Date that is none, or absent
            date = email.utils.parsedate_to_datetime(headers.get("Date", ""))
            self._clock_offset = date.timestamp() - time.monotonic()

    def server_time(self) -> float | None:
        """Return what the server's clock shows now, in seconds since the epoch; None if no answer had a date.

        To compare with the time stamps of objects: our own clock may differ by hours.
        """
        return None if self._clock_offset is None else time.monotonic() + self._clock_offset

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        """Raise an ApiError that names the server for whatever keeps a request from being sent and answered."""
        try:
            yield
        except AccessError as error:
            raise ApiError(str(error), 401) from error
        except (HTTPError, OSError, ValueError) as error:  # a ValueError: a token that no header can hold
            raise ApiError(f"{self.access.name} cannot be reached: {error}") from error

    def _target(self, path: str, query: Mapping[str, str]) -> str:
        return self._base.path.rstrip("/") + path + (f"?{urllib.parse.urlencode(query)}" if query else "")

    @staticmethod
    def _with_agent(headers: Mapping[str, str]) -> dict[str, str]:
        return {"User-Agent": f"tfsteps/{__version__}", **headers}

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
