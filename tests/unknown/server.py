"""An HTTP server of asyncio that numbers the requests it gets, and lets one of them meet a fault.

The numbers are by actor and kind of request, so that they are the same in each run of a scenario.
"""

import asyncio
import contextlib
import http
import json
import socket
import time
import urllib.parse
from dataclasses import dataclass, field

_LINGER_NONE = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # close sends RST
_LONGEST_BODY = 1 << 20


@dataclass(frozen=True, order=True)
class Point:
    """One request of a scenario: who sends it, what it is, and which of this kind it is, from 1."""

    actor: str
    kind: str
    number: int

    def __str__(self):
        return f"{self.actor}: {self.kind} #{self.number}"


@dataclass
class Request:
    """What came.

    Attributes:
        point: Its number.
        query: Of the URL.
        body: JSON; None = no body.
        at: When it came, by the monotonic clock.
    """

    method: str
    path: str
    query: dict
    body: dict | None
    actor: str
    at: float = field(default_factory=time.monotonic)
    point: Point | None = None


@dataclass
class Answer:
    """What to answer; the parts of `stream` come in place of a body, until it ends or the client goes."""

    status: int = 200
    body: object = None
    headers: dict = field(default_factory=dict)
    stream: object = None


class Connection:
    """One connection of a client, and what may be done to it."""

    def __init__(self, server, reader, writer):
        self.server, self.reader, self.writer = server, reader, writer

    async def serve(self):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while not self.server.away and (request := await self._read()):
                if not await self.server.handle(self, request):
                    return
        if self.server.away:
            self.reset()

    async def _read(self):
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines if line)}
        data = await self.reader.readexactly(int(headers.get("content-length", 0)))
        url = urllib.parse.urlsplit(target)
        body = json.loads(data) if data else None
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        path = urllib.parse.unquote(url.path)
        return Request(method, path, query, body, self.server.actor(headers, body))

    async def send(self, answer):
        """Send an answer; tell whether the connection may carry another."""
        headers = {"Content-Type": "application/json", "Date": _date(), **answer.headers}
        if answer.stream is None:
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            headers["Content-Length"] = str(len(body))
            self.writer.write(_head(answer.status, headers) + body)
            await self.writer.drain()
            return True
        self.writer.write(_head(answer.status, {**headers, "Transfer-Encoding": "chunked"}))
        gone = asyncio.ensure_future(self._gone())
        parts = asyncio.ensure_future(self._send_parts(answer.stream))
        _, waiting = await asyncio.wait([gone, parts], return_when=asyncio.FIRST_COMPLETED)
        answer.stream.close()
        for item in waiting:
            item.cancel()
        self.writer.close()
        return False

    async def _send_parts(self, stream):
        with contextlib.suppress(OSError):
            while part := await stream.next():
                self.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await self.writer.drain()
            self.writer.write(b"0\r\n\r\n")
            await self.writer.drain()

    async def _gone(self):
        """Return when the client has gone."""
        with contextlib.suppress(OSError):
            await self.reader.read(1)

    def reset(self):
        """Close it with a TCP reset."""
        if sock := self.writer.get_extra_info("socket"):  # else it is closed
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
        self.writer.transport.abort()

    async def hang(self):
        """Wait until the client gives up."""
        await self._gone()
        self.writer.close()


class Server:
    """The requests that came, and the answers that `answer` returns.

    Attributes:
        requests: All, in order.
        point: The request that is to meet `fault`; None = none.
        met: Whether it has come.
        away: Nobody answers: every connection is reset.
        refused: How many were.
    """

    def __init__(self, fault=None, point=None):
        self.requests: list[Request] = []
        self.fault, self.point, self.met = fault, point, False
        self.away = False
        self.refused = 0
        self._connections = set()
        self._counts: dict[tuple[str, str], int] = {}

    async def start(self, tls=None):
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=tls, limit=_LONGEST_BODY)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self):
        self._listener.close()
        for connection in list(self._connections):
            connection.writer.transport.abort()
        await asyncio.sleep(0)

    async def _connected(self, reader, writer):
        connection = Connection(self, reader, writer)
        self.refused += self.away
        self._connections.add(connection)
        try:
            await connection.serve()
        finally:
            self._connections.discard(connection)
            writer.close()

    async def handle(self, connection, request):
        """Answer a request, or let it meet the fault; tell whether the connection may carry another one."""
        key = request.actor, self.kind(request)
        self._counts[key] = self._counts.get(key, 0) + 1
        request.point = Point(*key, self._counts[key])
        self.requests.append(request)
        if request.point == self.point and not self.met:
            self.met = True
            return await self.fault.harm(self, connection, request)
        return await connection.send(await self.answer(request))

    def go_away(self, seconds):
        """Reset all connections, and all that come within `seconds`."""
        self.away = True
        asyncio.get_running_loop().call_later(seconds, self._come_back)
        for connection in list(self._connections):
            connection.reset()

    def _come_back(self):
        self.away = False

    # --- of each kind of server

    def actor(self, headers, body):
        """Return who sent a request."""
        raise NotImplementedError

    def kind(self, request):
        """Return what kind of request it is: verb and resource."""
        raise NotImplementedError

    async def answer(self, request):
        """Return the Answer to a request, and do what it asks for."""
        raise NotImplementedError

    def refusal(self, request, status):
        """Return the Answer of a server that refuses a request with a status."""
        raise NotImplementedError


def _head(status, headers):
    lines = [
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _date():
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
