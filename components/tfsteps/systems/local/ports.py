"""TCP ports for the replicas of one job."""

import pathlib
import socket
from collections.abc import Collection

_TABLES = (pathlib.Path("/proc/net/tcp"), pathlib.Path("/proc/net/tcp6"))
_SERVING = {"0A", "01"}  # LISTEN; ESTABLISHED, for who accepts its peers and stops listening


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that nobody uses.

    All are bound at once, so that they differ. On every interface, because that is what TensorFlow binds. Somebody else
    may still take one before the replica does: the supervisor starts the cluster anew then.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def serving(ports: Collection[int]) -> set[int]:
    """Return those of `ports` on which a process of this machine listens, or has been reached.

    Read from /proc, not by connecting: a program may take any connection for a peer.
    """
    open_ports = set()
    for table in _TABLES:
        if table.exists():
            rows = (line.split() for line in table.read_text().splitlines()[1:])
            open_ports |= {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] in _SERVING}
    return open_ports.intersection(ports)
