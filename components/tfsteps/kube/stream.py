"""One GET request whose answer may take days. It is read as it arrives, and no thread waits for it."""

import contextlib
import http.client
import io
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Self

import urllib3

from tfsteps.kube import connections
from tfsteps.kube.errors import ApiError, SilentError
from tfsteps.kube.event_loop import pause, readable

_SECONDS = 5.0  # to connect, and to send
_PART = 1 << 16
_MANY_PARTS = 64  # after which other tasks run
_GATHER_SECONDS = 0.01  # lines that follow each other fast come one a TLS record: each would cost a wake-up
_FAST_SECONDS = 0.05
_HEAD_END = b"\r\n\r\n"
_LONGEST_HEAD = 1 << 16
_LONGEST_SIZE = 1 << 10  # bytes of the line with a chunk's size
_HEX = b"0123456789abcdefABCDEF"


class Stream:
    """A request on its own connection. A context manager; an early exit closes the connection.

    Attributes:
        status: Of the answer; 0 = not received yet.
        headers: Of the answer.
    """

    def __init__(self, pool: urllib3.HTTPConnectionPool, target: str, headers: Mapping[str, str]) -> None:
        """Send the request with `headers`. OSError, ValueError or an error of urllib3 if that fails."""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._pool = pool
        self._silence = 0.0
        self._buffer = b""  # bytes received and not parsed yet
        self._failure: OSError | None = None
        self._body: _Chunks | _Length | _UntilClosed | None = None
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        request = "\r\n".join([*lines, "", ""]).encode("latin-1")
        if request.count(b"\n") + request.count(b"\r") != 2 * len(lines) + 2 or b"\0" in request:
            raise ValueError("a header of the request has a line break")
        self._connection = connections.take(pool, _SECONDS)
        try:
            self._sock: socket.socket = self._connection.sock
            self._below = connections.below(self._sock)
            self._sock.settimeout(_SECONDS)
            self._sock.sendall(request)
            self._below.setblocking(False)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Return the connection to the pool if the whole answer was read."""
        if self._body and self._body.ended and self._body.keeps:
            self._sock.settimeout(_SECONDS)
            connections.give_back(self._pool, self._connection)
        else:
            self._connection.close()

    async def begin(self, seconds: float) -> None:
        """Wait for status and headers.

        Args:
            seconds: Read timeout, for the headers and for each part of the body.

        Raises:
            ApiError: The connection broke.
            SilentError: No data for `seconds`.
        """
        self._silence = seconds
        while self._body is None:
            came = await self._next()
            self._buffer += came
            end = self._buffer.find(_HEAD_END) + len(_HEAD_END)
            if end >= len(_HEAD_END):
                head, self._buffer = self._buffer[:end], self._buffer[end:]
                with _broken():
                    response = http.client.HTTPResponse(_Head(head), method="GET")  # type: ignore[arg-type] # no more
                    response.begin()
                self.status, self.headers = response.status, urllib3.HTTPHeaderDict(response.headers.items())
                if response.chunked:
                    self._body = _Chunks()
                elif response.length is not None:
                    self._body = _Length(response.length)
                else:
                    self._body = _UntilClosed()
                self._body.keeps &= not response.will_close
                with contextlib.suppress(OSError):  # the next read reports it
                    # for a TLS session ticket OpenSSL allocates 16 KiB, which it frees at the next write; sends nothing
                    self._sock.send(b"")
            elif not came or len(self._buffer) > _LONGEST_HEAD:
                raise ApiError("the answer broke off: it has no end of its headers")

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. ApiError if it breaks off, SilentError after the read timeout."""
        assert self._body, "it has begun"
        number, last = 0, 0.0
        while not self._body.ended:
            came, self._buffer = self._buffer or await self._next(), b""
            fast, last = time.monotonic() - last < _FAST_SECONDS, time.monotonic()
            with _broken():
                part = self._body.feed(came)
            if part:
                yield part
            number += 1
            if fast and len(came) < _PART and not self._body.ended:
                await pause(_GATHER_SECONDS)
            elif not number % _MANY_PARTS:
                await pause(0)

    def close(self) -> None:
        """Break the connection, from any thread: the reader gets an ApiError or the end."""
        with contextlib.suppress(OSError):  # SSLSocket.shutdown would give undecrypted data to the reader
            socket.socket.shutdown(self._below, socket.SHUT_RDWR)

    async def _next(self) -> bytes:
        """Wait for bytes, and return all that are there, about 64 KiB at most; empty = the connection ended."""
        while (came := self._received()) is None:
            if not await readable(self._below, self._silence):
                raise SilentError("the answer stopped coming")
        return came

    def _received(self) -> bytes | None:
        """Return what has been received; None = nothing yet. TLS gives one record at a time."""
        came = bytearray()
        try:
            while not self._failure and len(came) < _PART:
                part = self._sock.recv(_PART)  # urllib3's TLS returns 0 at the end
                if not part:
                    return bytes(came)
                came += part
        except (BlockingIOError, ssl.SSLWantReadError):
            return bytes(came) or None
        except OSError as error:
            self._failure = error  # raised when the bytes before it have been taken
        if self._failure and not came:
            raise ApiError(f"the answer broke off: {self._failure}") from self._failure
        return bytes(came)


@contextlib.contextmanager
def _broken() -> Iterator[None]:
    try:
        yield
    except (ValueError, http.client.HTTPException) as error:
        raise ApiError(f"the answer broke off: {error}") from error


class _Head(io.BytesIO):
    """The complete status line and headers, in place of the socket that `HTTPResponse` expects."""

    def makefile(self, _mode: str) -> Self:
        return self


class _Length:
    """A body with a Content-Length."""

    keeps: bool = True  # whether the connection can be used again

    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def ended(self) -> bool:
        return not self._left

    def feed(self, came: bytes) -> bytes:
        if not came:
            raise ValueError(f"{self._left} bytes are missing")
        part = came[: self._left]
        self.keeps &= len(part) == len(came)
        self._left -= len(part)
        return part


class _UntilClosed:
    """A body that ends with the connection."""

    keeps: bool = False
    ended: bool = False

    def feed(self, came: bytes) -> bytes:
        self.ended = not came
        return came


class _Chunks:
    """A body in chunks (RFC 9112, section 7.1)."""

    keeps: bool = True

    def __init__(self) -> None:
        self.ended = False
        self._buffer = bytearray()
        self._left = 0  # bytes of the chunk
        self._behind = False  # between a chunk and the size of the next
        self._trailer = False

    def feed(self, came: bytes) -> bytes:
        """Take the next bytes; return the data of the chunks. ValueError if they are not chunks."""
        if not came:
            raise ValueError("its last chunk is missing")
        self._buffer += came
        parts = []
        while not self.ended and self._buffer:
            if self._left:
                parts.append(bytes(self._buffer[: self._left]))
                del self._buffer[: self._left]
                self._left -= len(parts[-1])
                self._behind = not self._left
            elif (end := self._buffer.find(b"\n")) >= 0:
                self._line(bytes(self._buffer[:end]).rstrip(b"\r"))
                del self._buffer[: end + 1]
            elif len(self._buffer) > _LONGEST_SIZE:
                raise ValueError("a chunk has no size")
            else:
                break
        self.keeps &= not (self.ended and self._buffer)
        return b"".join(parts)

    def _line(self, line: bytes) -> None:
        if self._trailer:
            self.ended = not line
        elif self._behind:
            if line:
                raise ValueError("a chunk is longer than its size")
            self._behind = False
        else:
            size = line.partition(b";")[0].strip()
            if not size or size.strip(_HEX):
                raise ValueError(f"a chunk has the size {size[:20]!r}")
            self._left = int(size, 16)
            self._trailer = not self._left
