"""The connections to a server, through a proxy if one is configured, and the answers that come over them."""

import contextlib
import email.utils
import socket
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

import msgspec
import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.credentials import Access
from tfsteps.kube.errors import ApiError, SilentError, TooLongError, UnexpectedAnswerError
from tfsteps.masking import hidden

_IDLE = 1024  # idle connections kept: a thousand logs that end at once are each looked at once more
_KEEPALIVE = [  # detects a dead peer within a minute, without a request to the API server
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]
_LONGEST_RETRY_AFTER = 60.0  # seconds: a server that asks for a day may be back in a minute
_SHOWN = 120  # characters of an answer that is not a Status
_PART = 1 << 16
_NOT_SERVED = b"404 page not found"


def pool(access: Access) -> urllib3.HTTPConnectionPool:
    """Return the connection pool of a cluster; connections are opened on demand."""
    options: dict[str, Any] = {"maxsize": _IDLE, "retries": False, "socket_options": _KEEPALIVE}
    if access.tls:
        options |= {"ssl_context": access.tls, "server_hostname": access.tls_name or None}
    if not access.proxy:
        return urllib3.connection_from_url(access.server, **options)
    proxy = urllib.parse.urlsplit(access.proxy)
    login = urllib.parse.unquote(f"{proxy.username}:{proxy.password or ''}") if proxy.username else None
    headers = urllib3.make_headers(proxy_basic_auth=login)
    manager = urllib3.ProxyManager(access.proxy, proxy_headers=headers, proxy_ssl_context=access.tls, **options)
    return manager.connection_from_url(access.server)


def take(connections: urllib3.HTTPConnectionPool, seconds: float) -> HTTPConnection:
    """Take an open connection from the pool, by private functions of urllib3. OSError or HTTPError if it fails.

    Args:
        connections: The pool, as `pool` returns it.
        seconds: Timeout for the server and for a proxy's answer.
    """
    connection = cast("HTTPConnection", connections._get_conn())  # noqa: SLF001
    try:
        if connection.is_closed:
            connection.timeout = seconds
            if connections.proxy:
                connections._prepare_proxy(connection)  # noqa: SLF001
            else:
                connection.connect()
    except BaseException:
        connection.close()
        raise
    return connection


def below(sock: Any) -> socket.socket:
    """Return the socket to wait on: for TLS through an https proxy, the socket of the proxy's TLS."""
    return cast("socket.socket", getattr(sock, "socket", sock))  # urllib3's SSLTransport wraps another socket


def give_back(connections: urllib3.HTTPConnectionPool, connection: HTTPConnection) -> None:
    """Keep an idle connection for the next request; close it if the pool is full."""
    if connections.pool and not connections.pool.full():
        connections._put_conn(connection)  # noqa: SLF001
    else:
        connection.close()


class Response:
    """An answer whose body is read as it arrives. A context manager; an early exit closes the connection.

    Attributes:
        rest: The bytes after the last line that `lines` yielded.
        headers: Of the answer; one that came several times has its values joined by commas.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        """Take over the answer."""
        self.rest = b""
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._whole = False

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Return the connection to the pool if the whole body was read."""
        if self._whole:
            self._response.release_conn()
        else:
            self._response.close()

    def read(self, most: int | None = None) -> bytes:
        """Return the whole body. ApiError if it breaks off; TooLongError after `most` bytes, None = no limit."""
        body = bytearray()
        for part in self.parts():
            body += part
            if most is not None and len(body) > most:
                raise TooLongError(f"the answer is longer than {most} bytes", 413)
        return bytes(body)

    def parts(self) -> Iterator[bytes]:
        """Yield the body as it arrives. ApiError if it breaks off; SilentError after the read timeout."""
        try:
            while part := self._response.read1(_PART):
                yield part
        except ReadTimeoutError as error:
            raise SilentError("the answer stopped coming") from error
        except (HTTPError, OSError, ValueError) as error:  # a ValueError: closed by another thread
            raise ApiError(f"the answer broke off: {error}") from error
        self._whole = True

    def lines(self, longest: int) -> Iterator[bytes]:
        """Yield each whole line without its line end; a line of more than `longest` bytes is split."""
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
        """Break the connection, from any thread: the reader gets an ApiError or the end."""
        sock = getattr(self._response.connection, "sock", None)
        if sock:
            with contextlib.suppress(OSError):  # SSLSocket.shutdown would give undecrypted data to the reader
                socket.socket.shutdown(below(sock), socket.SHUT_RDWR)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of Retry-After, a number or a date, at most 60; 0 = there is none."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    else:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            seconds = 0.0
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER)


def is_good(status: int, headers: Mapping[str, str]) -> bool:
    """Tell whether an answer is a success. A web page never is: the API server does not send web pages."""
    return status < 300 and not headers.get("Content-Type", "").startswith("text/html")


def refusal(request: str, status: int, headers: Mapping[str, str], text: bytes) -> ApiError:
    """Return the error for an answer. A proxy before the server may answer without a Status object.

    Its 404 says nothing of an object. For a kind that is not served, the API server itself answers without a Status
    object [source: net/http, `http.NotFound`].

    Args:
        request: Method and path.
        status: Of the answer.
        headers: Of the answer.
        text: Its body, as far as it was received.
    """
    try:
        answer = typed_json.decode(text, _ErrorStatus)
    except NOT_READABLE:
        answer = _ErrorStatus()
    if answer.kind != "Status":
        if status < 400:
            what = f"HTTP {status}, a redirection" if status >= 300 else "a web page"
            return UnexpectedAnswerError(request, what, text)
        if status == 404 and text.strip() != _NOT_SERVED:
            return UnexpectedAnswerError(request, "HTTP 404, not in the words of the API server", text)
        shown = hidden(text.decode(errors="replace"))[:_SHOWN]
        answer = _ErrorStatus(message=f"{request}: HTTP {status} {answer.message or shown}".strip())
    about = answer.details.name if answer.details else ""
    return ApiError(answer.message, status, answer.reason, retry_after(headers), about)


class _Details(msgspec.Struct):
    name: str = ""


class _ErrorStatus(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


typed_json.build(_ErrorStatus)  # here and not in a signal handler, which may have interrupted that
