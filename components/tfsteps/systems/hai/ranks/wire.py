"""What agents and coordinator say to each other, JSON objects one a line, and what they tell the launcher."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
from typing import Any

MARK = "::tfsteps::"
"""Begins what an agent tells the launcher by its log: JSON up to the end of the line."""

_PORTS = (20000, 32000)  # below those that the kernel gives to outgoing connections


def say(**what: Any) -> None:
    """Tell the launcher something."""
    os.write(1, f"{MARK}{json.dumps(what)}\n".encode())


class Line:
    """A connection that carries JSON objects, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over the connection."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.connection = connection
        self._rest = b""

    def send(self, **message: Any) -> None:
        """Send an object; nothing if the other side is gone, which `receive` will tell."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]]:
        """Return the objects that have come, when there is something to read.

        Raises:
            ConnectionError: The other side is gone.
            ValueError: It sends something else.
        """
        try:
            data = self.connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            raise ConnectionError("the other side is gone")
        *whole, self._rest = (self._rest + data).split(b"\n")
        messages = [json.loads(each) for each in whole]
        if not all(isinstance(each, dict) for each in messages):
            raise ValueError("not an object")
        return messages


def replicas(plan: dict[str, Any]) -> list[tuple[str, int]]:
    """Return role and index of each rank."""
    return [(name, i) for name, role in plan["roles"].items() for i in range(role["replicas"])]


def whose() -> list[str]:
    """Return what tells this run of this task from another one whose rank 0 had the same address."""
    return [os.environ.get("CHAIN_ID", ""), os.environ.get("MARSV2_TASK_ID", "")]


def address(host: str, port: int) -> str:
    """Return `host:port` as TensorFlow takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port() -> int:
    """Return a port that nobody uses. TensorFlow binds it on every interface, a second later."""
    while True:
        port = random.randrange(*_PORTS)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
