"""Messages between agents and coordinator, one JSON object per line, and reports of both to the launcher.

Any program in the cluster can connect to the port of rank 0; only ranks of this run of the task are accepted.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import random
import resource
import selectors
import socket
import time
from typing import Any

MARK = "::tfsteps::"
"""Prefix of an agent's report to the launcher in its log: JSON up to the end of the line."""

_PORTS = (20000, 32000)  # below the kernel's ephemeral ports
_LONGEST = 4096  # bytes of a line from a rank; its messages have less than 300
_GREETING_SECONDS = 10.0  # limit from the connection to a complete greeting
_UNGREETED = 256  # connections without a greeting, beside one for each rank; above this the oldest is closed
_SHARE = 0.5  # share of this process's file descriptors for such connections; the rank's agent needs the others
_SEND_SECONDS = 5.0  # timeout if a rank does not read
_ACCEPT_PAUSE_SECONDS = 0.05


def say(**what: Any) -> None:
    """Report to the launcher, on a separate line, because HAI cuts a long unfinished line of the program.

    The line break before the report ends such a line; the launcher drops a line with only a carriage return.
    """
    os.write(1, f"\r\n{MARK}{json.dumps(what)}\n".encode())


class JsonConnection:
    """A connection that carries JSON objects, one per line.

    Attributes:
        connection: The socket.
    """

    def __init__(self, connection: socket.socket, longest: int) -> None:
        """Use this connection; a received line of more than `longest` bytes is an error."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connection = connection
        self._longest = longest
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send an object; if the peer has closed the connection, do nothing: `receive` reports it."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]]:
        """Return the received objects; wait for data as long as the socket's timeout.

        Raises:
            ConnectionError: The connection is closed, or a line is not a JSON object or too long.
        """
        try:
            data = self.connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            raise ConnectionError("the connection is closed")
        *lines, self._rest = (self._rest + data).split(b"\n")
        if any(len(line) > self._longest for line in (*lines, self._rest)):
            raise ConnectionError(f"a line is longer than {self._longest} bytes")
        return [_parsed(line) for line in lines]


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):  # RecursionError: deeply nested lists
        message = None
    if not isinstance(message, dict):
        raise ConnectionError("a line is not a JSON object")
    return message


def replicas(plan: dict[str, Any]) -> list[tuple[str, int]]:
    """Return role and index of each rank."""
    return [(name, i) for name, role in plan["roles"].items() for i in range(role["replicas"])]


def whose() -> list[str]:
    """Return the ids of this task, which distinguish it from a task whose rank 0 had the same address."""
    return [os.environ.get("CHAIN_ID", ""), os.environ.get("MARSV2_TASK_ID", "")]


def secret() -> str:
    """Return the secret that the ranks of this task share."""
    return os.environ["TFSTEPS_SECRET"]


def address(host: str, port: int) -> str:
    """Return `host:port` in TensorFlow's format."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port() -> int:
    """Return an unused port. TensorFlow binds it on every interface about a second later."""
    while True:
        port = random.randrange(*_PORTS)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port


class Listener:
    """Accepts the connections of the ranks, and receives and sends messages.

    The first message of a connection is its greeting: `rank`, `secret`, `task`, `address`. Connections with a
    wrong, late or missing greeting are closed, and so is a connection that sends an unexpected message.
    """

    def __init__(self, port: int, ranks: int) -> None:
        """Listen on every interface."""
        self._server = socket.socket()
        self._server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._server.bind(("", port))
        self._server.listen(1024)
        self._server.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._ranks = ranks
        self._most = min(_UNGREETED + ranks, int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * _SHARE))
        self._ungreeted: dict[JsonConnection, float] = {}  # time limit of each greeting, the oldest connection first
        self._rank_of: dict[JsonConnection, int] = {}
        self._lines: dict[int, JsonConnection] = {}

    def receive(self, seconds: float) -> list[tuple[int, dict[str, Any]]]:
        """Wait at most `seconds` for messages; return each with its rank, including greetings.

        A new greeting of a rank replaces its earlier connection, which may be broken without notice to this side.
        Agents greet again only until they have received a welcome.
        """
        received = []
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._accept()
            elif key.data in self._ungreeted or key.data in self._rank_of:  # not closed a moment ago
                received += self._read(key.data)
        now = time.monotonic()
        for line in [line for line, until in self._ungreeted.items() if until < now]:
            self._close(line)
        return received

    def send(self, rank: int, **message: Any) -> None:
        """Send a message to a rank; nothing if it is not connected."""
        if rank in self._lines:
            self._lines[rank].send(**message)

    def _accept(self) -> None:
        try:
            connection, _ = self._server.accept()
        except OSError:  # no free file descriptor, or the peer has closed the connection; avoid a busy loop
            time.sleep(_ACCEPT_PAUSE_SECONDS)
            return
        connection.settimeout(_SEND_SECONDS)
        line = JsonConnection(connection, _LONGEST)
        self._ungreeted[line] = time.monotonic() + _GREETING_SECONDS
        self._selector.register(connection, selectors.EVENT_READ, line)
        if len(self._ungreeted) > self._most:
            self._close(next(iter(self._ungreeted)))

    def _read(self, line: JsonConnection) -> list[tuple[int, dict[str, Any]]]:
        try:
            messages = line.receive()
        except ConnectionError:
            self._close(line)
            return []
        received = []
        for message in messages:
            if not (self._greeted(line, message) if line in self._ungreeted else _is_end(message)):
                self._close(line)
                break
            received.append((self._rank_of[line], message))
        return received

    def _greeted(self, line: JsonConnection, message: dict[str, Any]) -> bool:
        """Register a rank, and send it a welcome."""
        rank, rank_secret = message.get("rank"), str(message.get("secret")).encode(errors="replace")
        if not hmac.compare_digest(rank_secret, secret().encode()) or message.get("task") != whose():
            return False
        if not (type(rank) is int and 0 <= rank < self._ranks and isinstance(message.get("address"), str)):
            return False
        if rank in self._lines:
            self._close(self._lines[rank])
        del self._ungreeted[line]
        self._rank_of[line], self._lines[rank] = rank, line
        line.send(welcome=True)
        return True

    def _close(self, line: JsonConnection) -> None:
        self._ungreeted.pop(line, None)
        self._lines.pop(self._rank_of.pop(line, -1), None)
        self._selector.unregister(line.connection)
        line.connection.close()


def _is_end(message: dict[str, Any]) -> bool:
    """Return whether a message reports the end of a program, the only message of a rank after its greeting."""
    return type(message.get("ended")) is int and isinstance(message.get("stopped"), bool)
