"""Runs a real local job in a test, looks at everything it says, and does harm on cue."""

import os
import pathlib
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from tfsteps import spec
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs.events import LogLines, PartialLine, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Incarnation, ReplicaStatus, Status
from tfsteps.systems import registry

PROGRAMS = pathlib.Path(__file__).parents[1] / "programs"


@dataclass
class Watcher:
    """An observer that keeps what it sees, and acts once on the first line or state that matches."""

    cues: list[tuple[str, Callable[[Status], None]]] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    partials: list[bytes] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    status: Status | None = None

    def changed(self, status: Status) -> None:
        self.status = status
        if not self.states or self.states[-1] is not status.state:
            self.states.append(status.state)
        if status.message:
            self.messages.append(status.message)
        self._act(f"state {status.state}")

    def lines(self, lines: LogLines) -> None:
        for item in lines.texts:
            text = f"[{lines.replica}] {item.decode(errors='backslashreplace')}"
            self.printed.append(text)
            self._act(text)

    def partial(self, line: PartialLine) -> None:
        self.partials.append(line.text)

    def _act(self, text: str) -> None:
        for cue in [cue for cue in self.cues if re.search(cue[0], text)]:
            self.cues.remove(cue)
            assert self.status
            cue[1](self.status)


@dataclass
class Result:
    status: Status
    watcher: Watcher

    def replica(self, name: str) -> ReplicaStatus:
        return next(r for r in self.status.replicas if r.name == name)

    def ends(self, name: str) -> list[tuple[str, int | None]]:
        return [(incarnation.state.value, incarnation.exit_code) for incarnation in self.replica(name).incarnations]

    def printed(self, pattern: str) -> list[str]:
        return [line for line in self.watcher.printed if re.search(pattern, line)]


def run_job(text: str, *cues: tuple[str, Callable[[Status], None]], run: str = "test", attempt: int = 0) -> Result:
    """Run the job in `text` from the folder of programs; a cue is (pattern of a line or of `state <s>`, action)."""
    job = spec.parse(text, "test", registry.options())
    watcher = Watcher(list(cues))
    identity = Identity(run=run, task=job.name, attempt=attempt)
    status = launch(job, identity, registry.get("local"), base_dir=PROGRAMS, observers=[watcher])
    assert not watcher.cues, f"never seen: {watcher.cues}"
    return Result(status, watcher)


def kill(name: str, number: signal.Signals = signal.SIGKILL) -> Callable[[Status], None]:
    """Return an action that sends a signal to one replica's process."""
    return lambda status: os.kill(pid_of(status, name), number)


def pid_of(status: Status, name: str) -> int:
    """Return the process id of a running replica."""
    incarnation: Incarnation = next(r for r in status.replicas if r.name == name).incarnations[-1]
    return int(incarnation.place.split()[1])


def port_of(status: Status, name: str) -> int:
    """Return the port of a running replica."""
    return int(next(r for r in status.replicas if r.name == name).incarnations[-1].place.split()[3])


def alive(pid: int) -> bool:
    """Tell whether a process exists and is not a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
