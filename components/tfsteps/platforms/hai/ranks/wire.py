"""Messages between agents and coordinator, one JSON object per line, and reports of both to the launcher."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from typing import Any

MARK = "::tfsteps::"
"""Prefix of an agent's report to the launcher in its log: JSON up to the end of the line."""

_PORTS = (20000, 32000)  # below the kernel's ephemeral ports


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
