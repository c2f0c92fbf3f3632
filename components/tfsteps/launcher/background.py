"""Launchers that outlive their step, for jobs that end with their launcher: one step launches, another follows."""

import contextlib
import datetime as dt
import functools
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import msgspec

from tfsteps import typed_json
from tfsteps.json_errors import NOT_READABLE
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.recorder import Observer
from tfsteps.launcher.signals import on_termination
from tfsteps.runs import store
from tfsteps.runs.events import LogLines, PartialLine, ReplicaName
from tfsteps.runs.identity import Identity
from tfsteps.runs.log_file import GAP, LogReader
from tfsteps.runs.status import ABANDONED, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import Problem, RoleName, SpecError, TrainingJob
from tfsteps.systems.base import LaunchError, System
from tfsteps.systems.local import pipeline_lock

_POLL_SECONDS = 0.05
_GUARD_SECONDS = 2.0


class _Begun(msgspec.Struct, tag=True):
    status: Status


class _Failed(msgspec.Struct, tag=True):
    message: str
    retryable: bool


class _Rejected(msgspec.Struct, tag=True):
    problems: list[Problem]
    source: str


def start(
    job: TrainingJob, identity: Identity, system: System, *, base_dir: pathlib.Path, tensorboard_url: str = ""
) -> Status:
    """Launch a job from a background process, and return its status once the job exists.

    That process does all that `launch` does. It ends with the job, or stops it when the pipeline is over. A job that an
    earlier call for this task left running is returned as it is.

    Raises:
        SpecError: The job cannot run on this system. Nothing was created.
        LaunchError: It could not be started.
    """
    for attempt in store.attempts(identity.run, identity.task):
        if attempt.alive().yes and (attempt.folder / "job.json").read_bytes() == msgspec.json.encode(job):
            return attempt.status()

    def run(ready: Observer) -> None:
        options: dict[str, Any] = {"base_dir": base_dir, "tensorboard_url": tensorboard_url}
        launch(job, identity, system, observers=[ready], **options)

    return spawn(run)


def spawn(run: Callable[[Observer], object]) -> Status:
    """Call `run` in a background process of its own session, and return the first status that its observer receives.

    The process outlives this one and its terminal. Its standard streams are /dev/null.

    Args:
        run: Launches a job, with the observer that is passed to it.

    Raises:
        SpecError: The job cannot run on its job system. Nothing was created.
        LaunchError: The launch failed before there was a status.
    """
    sys.stdout.flush()  # else the other process has the buffered text, too
    reader, writer = os.pipe()
    if not os.fork():
        os.close(reader)
        ready_pipe = _ReadyPipe(writer)
        _stay(functools.partial(run, ready_pipe), ready_pipe)
    os.close(writer)
    with open(reader, "rb") as answers:  # noqa: PTH123  a pipe
        answer = answers.read()
    try:
        result = typed_json.decode(answer, _Begun | _Failed | _Rejected)
    except NOT_READABLE as error:  # nothing, or cut: it was killed
        raise LaunchError("the launcher of the job ended before it reported the start", retryable=True) from error
    if isinstance(result, _Rejected):
        raise SpecError(result.problems, result.source)
    if isinstance(result, _Failed):
        raise LaunchError(result.message, retryable=result.retryable)
    return result.status


def follow(attempt: AttemptFolder, observers: Sequence[Observer] = (), *, passes_on: bool = True) -> Status:
    """Wait until an attempt with a launcher in another process has ended, and return its final status.

    Every line is shown, from the first.

    Args:
        attempt: The attempt.
        observers: Called with every change of the status and every log line.
        passes_on: SIGTERM, SIGINT and SIGHUP are passed on to the launcher, which stops the job; False = they have
            their usual effect on this process, and none on the launcher.

    Raises:
        LaunchError: There are no records of it on this machine, or its launcher is not on this machine.
    """
    if (launcher := attempt.launcher) and passes_on and attempt.alive().yes and launcher.elsewhere:
        raise LaunchError(f"its launcher is {launcher.name}: wait for it there", retryable=False)
    passing = on_termination(attempt.terminate) if passes_on else contextlib.nullcontext()
    try:
        with LogReader(attempt.log) as log, passing:
            return _watch(attempt, log, observers)
    except FileNotFoundError as error:
        where = f"there are no records of it in {store.home()}"
        raise LaunchError(f"{where}: wait on the machine where it was launched", retryable=False) from error


# --- the background process


class _ReadyPipe:
    """Reports once to the process that waits in `start`."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def send(self, answer: _Begun | _Failed | _Rejected) -> None:
        if self._pipe >= 0:
            pipe, self._pipe = self._pipe, -1
            with open(pipe, "wb") as file, contextlib.suppress(BrokenPipeError):  # noqa: PTH123
                file.write(msgspec.json.encode(answer))

    def changed(self, status: Status) -> None:
        self.send(_Begun(status))

    def lines(self, lines: LogLines) -> None:
        """Do nothing: lines are in the records."""

    def partial(self, line: PartialLine) -> None:
        """Do nothing."""


def _stay(run: Callable[[], object], ready_pipe: _ReadyPipe) -> NoReturn:
    """Run the launcher; never returns."""
    try:
        os.setsid()  # the step's process group is killed when the step has ended
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        pipeline_lock.at_end(lambda: os.kill(os.getpid(), signal.SIGTERM))
        run()
    except SpecError as error:
        ready_pipe.send(_Rejected(error.problems, error.source))
    except LaunchError as error:
        ready_pipe.send(_Failed(str(error), error.retryable))
    except BaseException as error:  # noqa: BLE001  whatever failed, this process must not continue as the step
        ready_pipe.send(_Failed(f"{type(error).__name__}: {error}", retryable=False))
    finally:
        os._exit(0)


# --- waiting


def _watch(attempt: AttemptFolder, log: LogReader, observers: Sequence[Observer]) -> Status:
    seen: Status | None = None
    while True:
        alive = attempt.alive().yes  # first: what it writes last is read below
        status = attempt.status() if alive else _settled(attempt)
        if status != seen:
            seen = status
            for observer in observers:
                observer.changed(status)
        for stamp, source, text in log.read():
            line = _line(stamp, status.decisive_replica if source == GAP else source, text)
            for observer in observers:
                observer.lines(line)
        if not alive:
            return status
        time.sleep(_POLL_SECONDS)


def _settled(attempt: AttemptFolder) -> Status:
    """Return the status after the launcher's end: of a killed one once its guard has ended the replicas, if it does."""
    give_up = time.monotonic() + _GUARD_SECONDS
    while True:
        settled = (
            attempt.replicas_ended.exists() or time.monotonic() > give_up
        )  # before the status, which depends on it
        status = attempt.status()
        if settled or status.outlives_launcher or status.reason != ABANDONED:
            return status
        time.sleep(_POLL_SECONDS)


def _line(stamp: str, source: str, text: bytes) -> LogLines:
    name, _, container = source.partition("/")
    role, _, index = name.rpartition("-")
    replica = ReplicaName(cast("RoleName", role), int(index))
    return LogLines(dt.datetime.fromisoformat(stamp).timestamp(), replica, [text], container=container)
