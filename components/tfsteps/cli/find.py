"""From what a user typed to the run, tasks and attempts that are meant."""

import difflib

import msgspec

from tfsteps import records
from tfsteps.cli.errors import CommandError, warn
from tfsteps.records import Attempt, Status

LATEST = "latest"
_SHOWN = 3  # suggestions in a message


def find_run(text: str) -> str:
    """Return the id of the run called `text`: an id, the beginning of one, or `latest`.

    Raises:
        CommandError: There is no such run, or more than one; names the nearest.
    """
    known = records.runs()
    if not known:
        raise CommandError(
            f"run {text!r} is unknown: there are no runs in {records.home()}; start one with `tfsteps run`"
        )
    if text == LATEST and LATEST not in known:
        return known[-1]
    if text and records.attempts(text):
        return text
    begun = [run for run in known if text and run.startswith(text)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise CommandError(f"run {text!r} is ambiguous: {_some(begun)}; write more of the id")
    near = difflib.get_close_matches(text, known, n=_SHOWN, cutoff=0.3) or known[: -_SHOWN - 1 : -1]
    raise CommandError(f"run {text!r} is unknown; nearest: {_some(near)}; `tfsteps runs` lists all")


def find_attempts(run: str, task: str | None = None, attempt: int | None = None) -> list[Attempt]:
    """Return the attempt `attempt` of each task of a run, None = the newest; or of the one task `task`.

    Raises:
        CommandError: Nothing was found; names what is there.
    """
    every = records.attempts(run, task)
    if not every:
        there = sorted({status.identity.task for each in records.attempts(run) if (status := read(each))})
        raise CommandError(f"run {run}: task {task!r} is unknown; it has {_some(there) or 'none'}")
    if attempt is None:
        return list({each.folder.parent: each for each in every}.values())
    found = [each for each in every if each.folder.name == str(attempt)]
    if not found:
        there = sorted({each.folder.name for each in every}, key=int)
        raise CommandError(f"run {run}: attempt {attempt} is unknown; there is {', '.join(there)}")
    return found


def read(attempt: Attempt) -> Status | None:
    """Return the status; None, with a warning, for one that cannot be read."""
    try:
        return attempt.status()
    except (OSError, msgspec.MsgspecError) as error:
        warn(f"{attempt.folder / 'status.json'} cannot be read: {error}")
        return None


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
