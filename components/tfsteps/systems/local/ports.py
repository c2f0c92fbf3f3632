"""TCP ports for the replicas of one job, and which replicas have joined the others by them."""

import contextlib
import errno
import os
import pathlib
import socket
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

from tfsteps.runs.events import ReplicaName, ReplicaState
from tfsteps.runs.survivors import session_members
from tfsteps.spec import TrainingJob
from tfsteps.systems.local.options import LocalOptions
from tfsteps.systems.local.process import Command, ReplicaProcess

_TABLES = (pathlib.Path("/proc/net/tcp"), pathlib.Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
_MAPPED = "0000000000000000FFFF0000"  # before an IPv4 address in the table of IPv6
_SERVING = {"0A", _ESTABLISHED}  # LISTEN

# sock_diag(7): all TCP listeners of an address family.
_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _DUMP, _DONE, _TCP_LISTEN = 4, 20, 0x301, 3, 10
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, sender
_REQUEST = struct.Struct("=BBxxI48x")  # family, protocol, states
_SOURCE_PORT = struct.Struct("!4xH")  # of an answer's body
_JOINING = ("parameter_server", "multi_worker_mirrored")  # strategies whose replicas wait for each other at the start
_JOIN_SECONDS = 10.0  # the import of TensorFlow takes seconds
_NAMED = 3
_REACHED_LOOKS = 10  # at each tenth check, connections are listed too, for replicas that no longer listen
_OFTEN_SECONDS, _RARE_SECONDS = 60.0, 5.0  # how long each look checks whether any replica has joined; the pause later
_FEWEST_LOOKS = 8  # without a joined replica, before that is reported: a short program may do without


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
        for pid in session_members(leader):
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


class Joins:
    """Watches the TF_CONFIG ports of one job's replicas."""

    def __init__(self, job: TrainingJob, options: LocalOptions) -> None:
        """Start with no replica seen."""
        self._by_port = options.started == "port" or (options.started is None and job.strategy in _JOINING)
        self._pending = job.deadlines.pending
        self._looks = self._apart = 0
        self._seen = False
        self._began = self._due = time.monotonic()

    def started(
        self, waiting: Iterable[ReplicaProcess], commands: Mapping[ReplicaName, Command]
    ) -> list[ReplicaProcess]:
        """Return those of `waiting` that are no longer pending: they listen, or need not."""
        watched = _ports(commands) if self._by_port else {}
        expected = {process: watched[process.replica] for process in waiting if process.replica in watched}
        open_ports = self._open(expected.values())
        return [process for process in waiting if process not in expected or expected[process] in open_ports]

    def missing(self, running: Iterable[ReplicaProcess]) -> str:
        """Return which replicas have run for a while without joining the others; empty = none."""
        patience = min(_JOIN_SECONDS, (self._pending or _JOIN_SECONDS) / 2)
        late = [
            f"{replica.replica} runs (pid {replica.pid}) but does not listen on its TF_CONFIG port"
            for replica in running
            if replica.state is ReplicaState.PENDING and time.time() - replica.started > patience
        ]
        rest = f"; {len(late) - _NAMED} more do not" if late[_NAMED:] else ""
        return f"{'; '.join(late[:_NAMED])}{rest}; its peers wait for that" if late else ""

    def look(self, running: Iterable[ReplicaProcess], commands: Mapping[ReplicaName, Command]) -> None:
        """Look whether any replica listens, or is connected to another, if that is due and was not seen before."""
        expected = _ports(commands)
        if self._seen or not expected or time.monotonic() < self._due:
            return
        often = time.monotonic() - self._began < _OFTEN_SECONDS
        self._due = time.monotonic() + (0.0 if often else _RARE_SECONDS)
        self._seen = bool(self._open(expected.values()))
        if not self._seen and self._looks % _REACHED_LOOKS == 0:
            self._seen = connected({replica.pid for replica in running})
        self._apart += 1

    @property
    def apart(self) -> str:
        """A warning that the replicas of a job that has succeeded did not train together; empty = not known."""
        if self._seen or self._apart < _FEWEST_LOOKS or not visible():
            return ""
        return (
            "Not distributed: no replica opened its port in TF_CONFIG or connected to another one, so each of them "
            "trained alone, and the results are those of one. See docs/get-started/keras.md."
        )

    def _open(self, candidates: Iterable[int]) -> set[int]:
        ports = set(candidates)
        self._looks += 1
        return serving(ports, reached=self._looks % _REACHED_LOOKS == 0) if ports else set()


def _ports(commands: Mapping[ReplicaName, Command]) -> dict[ReplicaName, int]:
    """Return the port of each replica in TF_CONFIG's cluster; empty if there are no two."""
    ports = {replica: command.port for replica, command in commands.items() if command.port}
    return ports if len(ports) > 1 else {}
