"""`tfsteps stop`: ends a running job through its launcher, or on a cluster by deleting it."""

import os
import signal
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from tfsteps.cli.backends.base import backend, find_jobs
from tfsteps.cli.backends.find import find_attempts, find_run, read
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, On, OnOption, located
from tfsteps.cli.commands.runs import RunId, Task
from tfsteps.cli.errors import CommandError
from tfsteps.cli.watch import POLL_SECONDS
from tfsteps.console.outputs import verdict
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import Status
from tfsteps.runs.store import ABANDONED, Attempt

_HINT_SECONDS = 15.0  # longer than the default grace period


def stop(
    run: RunId,
    *,
    task: Task = None,
    now: Annotated[bool, typer.Option("--now", help="Kill the replicas, without a grace period.")] = False,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Stop a run and wait until it has ended."""
    place = located(run, task, on, context, namespace, everywhere=all_namespaces)
    if place.on is not On.LOCAL:
        with backend(place) as there:
            there.stop(find_jobs(there, place, run, task), now=now)
        return
    name = find_run(run)
    attempts = find_attempts(name, task)
    running = [attempt for attempt in attempts if attempt.alive()]
    for attempt in running:
        _signal(attempt)
    printer = Printer()  # if standard output is closed, it discards what is printed: `--now` goes on to kill
    ended = [status for attempt in attempts if attempt not in running and (status := read(attempt))]
    for status in ended:
        printer.say(f"already ended: {verdict(status)}")
    for attempt in running:
        _wait(attempt, f"tfsteps stop {name} --now", printer, now=now)
    if left := [status for status in ended if status.reason == ABANDONED and status.system != On.LOCAL]:
        raise _left_elsewhere(name, left)


def _left_elsewhere(run: str, left: Sequence[Status]) -> CommandError:
    """Return an error that says where the jobs of killed launchers are to be stopped."""
    on = On.HAI if left[0].system == On.HAI else On.KUBERNETES
    where = f"--on {on}" + (f" --namespace {left[0].namespace}" if left[0].namespace else "")
    tasks = ", ".join(status.identity.task for status in left)
    return CommandError(f"run {run}: {tasks} may go on, its launcher was killed; `tfsteps stop {run} {where}` stops it")


def _signal(attempt: Attempt) -> None:
    """Ask the launcher to stop its job. Its process id holds as long as it holds the attempt."""
    status = read(attempt)
    if status is None or status.state.terminal or not attempt.alive():
        return  # a launcher whose job has ended is writing its report
    try:
        os.kill(status.launcher, signal.SIGTERM)
    except ProcessLookupError:  # it ended in between
        return
    except PermissionError as error:
        who = f"task {status.identity.task}: its launcher, pid {status.launcher}, is another user's"
        raise CommandError(f"{who}; stop it as that user") from error


def _wait(attempt: Attempt, harder: str, printer: Printer, *, now: bool) -> None:
    """Wait until the launcher has ended, telling whom it waits for."""
    asked = time.monotonic()
    hinted = now
    told = ""
    while attempt.alive():
        told = _tell(read(attempt), told, printer)
        time.sleep(POLL_SECONDS)
        if now:  # a second signal kills; sent once only, it could be merged with the first
            _signal(attempt)
        elif not hinted and time.monotonic() - asked > _HINT_SECONDS:
            printer.say(f"still waiting; `{harder}` kills it")
            hinted = True
    if status := read(attempt):
        printer.say(verdict(status))


def _tell(status: Status | None, told: str, printer: Printer) -> str:
    """Print which replicas are still up, if that changed; return what was printed last."""
    if status is None:
        return told
    up = [replica.name for replica in status.replicas if replica.state is ReplicaState.RUNNING]
    text = f"stopping {status.identity.task}: waiting for {', '.join(up) or 'the launcher'}"
    if text != told:
        printer.say(text)
    return text
