"""The platform: `$TOYBOX` has a folder for each job, with what to run, its events and its process.

In place of this module, a real platform has a client of its API.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tfsteps.runs.events import Event, JobChanged, LogLines, ReplicaChanged, ReplicaName, ReplicaState, State, Tick
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status


class Process(msgspec.Struct):
    """What a replica runs."""

    replica: ReplicaName
    argv: list[str]
    env: dict[str, str]
    folder: str


class Request(msgspec.Struct):
    """What a job runs; `deadline` = seconds from its creation, None = none."""

    identity: Identity
    name: str
    uid: str
    created: float
    processes: list[Process]
    deadline: float | None


class Line(msgspec.Struct):
    """A line of `events`: a replica's output or end, or the end of the job."""

    at: float
    replica: ReplicaName | None = None
    text: str | None = None
    exit_code: int | None = None
    state: State | None = None


class ToyboxJob(msgspec.Struct, frozen=True):
    """A snapshot of one job."""

    folder: pathlib.Path
    request: Request
    status: Status
    run_object: str = ""
    demo: None = None  # the platform has no mark for them


def home() -> pathlib.Path | None:
    """Return the platform's folder; None = the variable is not set."""
    return pathlib.Path(os.environ["TOYBOX"]) if os.environ.get("TOYBOX") else None


def create(box: pathlib.Path, identity: Identity, name: str, processes: list[Process], deadline: float | None) -> Any:
    """Create a job, or return the one of this name that an earlier launcher of the attempt created."""
    folder = box / name
    with contextlib.suppress(FileExistsError):
        folder.mkdir(parents=True)
        request = Request(identity, name, uuid.uuid4().hex, time.time(), processes, deadline)
        (folder / "request.json").write_bytes(msgspec.json.encode(request))
        (folder / "events").touch()
        runner = subprocess.Popen(
            [sys.executable, "-m", "toybox.runner", folder],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        (folder / "pid").write_text(str(runner.pid))
    return look(folder).request


def jobs(box: pathlib.Path, run: str = "") -> list[ToyboxJob]:
    """Return the jobs of a run, or of all, the oldest first."""
    toy_jobs = [look(path.parent) for path in box.glob("*/pid")]
    return sorted(
        (job for job in toy_jobs if run in ("", job.request.identity.run)), key=lambda job: job.status.created
    )


def look(folder: pathlib.Path) -> ToyboxJob:
    """Return a job as it is now; `lost` if its process is gone without an end."""
    request = msgspec.json.decode((folder / "request.json").read_bytes(), type=Request)
    running = not (folder / "pid").exists() or alive(int((folder / "pid").read_text()))
    ends = [line for line in lines(folder) if line.state]
    lost = Line(time.time(), state=State.LOST) if not (ends or running) else None
    end = ends[0] if ends else lost
    return ToyboxJob(
        folder,
        request,
        Status(
            identity=request.identity,
            job=request.name,
            uid=request.uid,
            system="toybox",
            location="toybox",
            state=(end.state if end else None) or State.RUNNING,
            created=request.created,
            ended=end.at if end else None,
            replicas=[ReplicaStatus(role=p.replica.role, index=p.replica.index) for p in request.processes],
        ),
    )


def alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop(folder: pathlib.Path) -> None:
    """Ask a job to end."""
    if not look(folder).status.state.terminal:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)


def lines(folder: pathlib.Path) -> list[Line]:
    """Return all whole lines of the events so far."""
    text = (folder / "events").read_bytes()
    return [msgspec.json.decode(line, type=Line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


def as_events(line: Line) -> Sequence[Event]:
    """Return a line as events of tfsteps."""
    if line.state:
        return [JobChanged(at=line.at, state=line.state, replica=line.replica)]
    assert line.replica is not None
    if line.text is not None:
        return [LogLines(line.at, line.replica, [line.text.encode()])]
    ended = {None: ReplicaState.RUNNING, 0: ReplicaState.SUCCEEDED}.get(line.exit_code, ReplicaState.FAILED)
    return [ReplicaChanged(at=line.at, replica=line.replica, state=ended, exit_code=line.exit_code)]


def past_events(folder: pathlib.Path) -> list[Event]:
    """Return the events so far."""
    lost = look(folder).status.state is State.LOST
    events: list[Event] = [JobChanged(at=0, state=State.RUNNING)]
    for line in lines(folder):
        events += as_events(line)
    return [*events, JobChanged(at=time.time(), state=State.LOST)] if lost else events


def follow(folder: pathlib.Path) -> Iterator[Event]:
    """Yield the events until the end."""
    read = 0
    while True:
        events = past_events(folder)
        yield from events[read:]
        if isinstance(events[-1], JobChanged) and events[-1].state.terminal:
            return
        read = len(events)
        yield Tick(time.time())
        time.sleep(0.1)
