"""Which replicas of a job have joined the others, by the kernel's tables of connections."""

import time
from collections.abc import Iterable, Mapping

from tfsteps.runs.events import ReplicaName, ReplicaState
from tfsteps.spec import TrainingJob
from tfsteps.systems.local import ports
from tfsteps.systems.local.options import LocalOptions
from tfsteps.systems.local.process import Command, ReplicaProcess

_JOINING = ("parameter_server", "multi_worker_mirrored")  # strategies whose replicas wait for each other at the start
_JOIN_SECONDS = 10.0  # the import of TensorFlow takes seconds
_NAMED = 3
_REACHED_LOOKS = 10  # at each tenth check, connections are listed too, for replicas that no longer listen
_OFTEN_SECONDS, _RARE_SECONDS = 60.0, 5.0  # how long each look checks whether any replica has joined; the pause later
_FEWEST_LOOKS = 8  # without a joined replica, before that is reported: a short program may do without


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
            self._seen = ports.connected({replica.pid for replica in running})
        self._apart += 1

    @property
    def apart(self) -> str:
        """A warning that the replicas of a job that has succeeded did not train together; empty = not known."""
        if self._seen or self._apart < _FEWEST_LOOKS or not ports.visible():
            return ""
        return (
            "Not distributed: no replica opened its port in TF_CONFIG or connected to another one, so each of them "
            "trained alone, and the results are those of one. See docs/get-started/keras.md."
        )

    def _open(self, candidates: Iterable[int]) -> set[int]:
        wanted = set(candidates)
        self._looks += 1
        return ports.serving(wanted, reached=self._looks % _REACHED_LOOKS == 0) if wanted else set()


def _ports(commands: Mapping[ReplicaName, Command]) -> dict[ReplicaName, int]:
    """Return the port of each replica in TF_CONFIG's cluster; empty if there are no two."""
    found = {replica: command.port for replica, command in commands.items() if command.port}
    return found if len(found) > 1 else {}
