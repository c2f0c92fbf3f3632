"""TCP ports for the replicas of one job."""

import contextlib
import errno
import os
import pathlib
import socket
import struct
from collections.abc import Collection, Iterator

from tfsteps.systems.local import sessions

_TABLES = (pathlib.Path("/proc/net/tcp"), pathlib.Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # before an IPv4 address in the table of IPv6
_SERVING = {"0A", _ESTABLISHED}  # LISTEN

# sock_diag(7): all TCP listeners of an address family.
_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _DUMP, _DONE, _TCP_LISTEN = 4, 20, 0x301, 3, 10
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, sender
_REQUEST = struct.Struct("=BBxxI48x")  # family, protocol, states
_SOURCE_PORT = struct.Struct("!4xH")  # of an answer's body


def free_ports(count: int) -> list[int]:
    """Return `count` different unused ports.

    All are bound at once, so that they differ, and on every interface, as TensorFlow binds them. Another program may
    still take one before the replica does: then the supervisor restarts the cluster.

    Raises:
        OSError: There are not so many; the message says what is used up.
    """
    with contextlib.ExitStack() as stack:
        free = []
        try:
            for _ in range(count):
                sock = stack.enter_context(socket.socket())
                sock.bind(("", 0))
                free.append(sock.getsockname()[1])
        except OSError as error:
            limit = "net.ipv4.ip_local_port_range" if error.errno == errno.EADDRINUSE else "`ulimit -n`"
            raise OSError(
                error.errno, f"{error.strerror}: {len(free)} of {count} ports were free; raise {limit}"
            ) from error
        return free


def visible() -> bool:
    """Return whether connections can be seen here at all."""
    return any(table.exists() for table in _TABLES)


def serving(ports: Collection[int], *, reached: bool) -> set[int]:
    """Return those of `ports` on which a process of this machine listens.

    The kernel reports the listeners; a test connection is no alternative, because a program may accept it as a peer.

    Args:
        ports: Which ports to look for.
        reached: Also return those that have been reached, for a program that accepts its peers and stops listening.
            Takes milliseconds: the kernel lists its whole table of connections.
    """
    if not reached:
        with contextlib.suppress(OSError):  # a sandbox may have no sock_diag
            return {port for family in (socket.AF_INET, socket.AF_INET6) for port in _listeners(family)} & set(ports)
    return set(_connections()) & set(ports)


def connected(leaders: Collection[int]) -> bool:
    """Return whether processes of two of these sessions have a connection to each other, on whatever ports."""
    owner: dict[str, int] = {}
    for leader in leaders:
        for pid in sessions.members(leader):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        owner[os.readlink(fd)] = leader  # noqa: PTH115  `socket:[4711]` is no path
    ends = {
        (row[1].removeprefix(_MAPPED), row[2].removeprefix(_MAPPED)): owner[f"socket:[{row[9]}]"]
        for row in _rows()
        if row[3] == _ESTABLISHED and f"socket:[{row[9]}]" in owner
    }
    return any(ends.get((there, here), leader) != leader for (here, there), leader in ends.items())


def _listeners(family: int) -> Iterator[int]:
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << _TCP_LISTEN)
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _DUMP, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(header + request)
        while True:
            rest = kernel.recv(1 << 16)
            while rest:
                length, kind, *_ = _HEADER.unpack_from(rest)
                if kind == _DONE:
                    return
                if kind != _SOCK_DIAG_BY_FAMILY:
                    raise OSError("sock_diag refused")
                yield _SOURCE_PORT.unpack_from(rest, _HEADER.size)[0]
                rest = rest[length + -length % 4 :]


def _connections() -> Iterator[int]:
    return (int(row[1].rpartition(":")[2], 16) for row in _rows() if row[3] in _SERVING)


def _rows() -> Iterator[list[str]]:
    """Yield the sockets of this network namespace: local and remote address second and third, state, ..., inode."""
    for table in _TABLES:
        if table.exists():
            yield from (line.split() for line in table.read_text().splitlines()[1:])
