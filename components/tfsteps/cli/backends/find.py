"""From what a user typed to the run, tasks and attempts that are meant."""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from tfsteps.cli.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.runs import store
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.runs.store import Attempt, UnreadableError

LATEST = "latest"
_SHOWN = 3  # suggestions in a message
_T = TypeVar("_T")


def find_run(text: str) -> str:
    """Return the id of the run on this machine called `text`: an id, the beginning of one, or `latest`.

    Raises:
        CommandError: There is no such run, or more than one; names the nearest.
    """
    if text and text != LATEST and store.attempts(text):
        return text
    return match_run(text, store.runs(), f"in {store.home()}")


def match_run(text: str, known: Sequence[str], where: str, options: str = "", also: Collection[str] = ()) -> str:
    """Return the one of the runs `known` that is called `text`.

    Args:
        text: An id, the beginning of one, or `latest`.
        known: Ids, the newest last.
        where: Where they were looked for, for the message.
        options: Those that lead there; a blank before each.
        also: Other names that would have been understood, to be suggested.

    Raises:
        CommandError: There is no such run, or more than one; names the nearest.
    """
    if not known:
        raise CommandError(f"run {text!r} is unknown: there are no runs {where}; start one with `tfsteps run{options}`")
    if text in known:
        return text
    if text == LATEST:
        return known[-1]
    begun = [run for run in known if text and run.startswith(text)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise CommandError(f"run {text!r} is ambiguous: {_some(begun)}; write more of the id")
    near = difflib.get_close_matches(text, [*known, *also], n=_SHOWN, cutoff=0.3) or list(known[: -_SHOWN - 1 : -1])
    raise CommandError(f"run {text!r} is unknown; nearest: {_some(near)}; `tfsteps runs{options}` lists all")


def find_attempts(run: str, task: str | None = None, attempt: int | None = None) -> list[Attempt]:
    """Return the attempt `attempt` of each task of a run, None = the newest; or of the one task `task`.

    Raises:
        CommandError: Nothing was found; names what is there.
    """
    every = store.attempts(run, task)
    if not every and task is None:
        raise CommandError(f"run {run} has no jobs; `tfsteps show {run}` says how it ended")
    if not every:
        there = {status.identity.task for each in store.attempts(run) if (status := read(each))}
        raise _no_task(run, task, there)
    return _of_attempt(run, {(each.folder.parent, int(each.folder.name)): each for each in every}, attempt)


def choose_attempts(
    run: str, every: Sequence[_T], identity: Callable[[_T], Identity], task: str | None, attempt: int | None
) -> list[_T]:
    """Return those of a run's attempts that are meant, as `find_attempts` does."""
    of_task = [each for each in every if task in (None, identity(each).task)]
    if not of_task:
        raise _no_task(run, task, {identity(each).task for each in every})
    return _of_attempt(run, {(identity(each).task, identity(each).attempt): each for each in of_task}, attempt)


def _of_attempt(run: str, every: Mapping[tuple[Any, int], _T], attempt: int | None) -> list[_T]:
    """Return one attempt of each task, of `every` by task and number: the newest, or the one with that number."""
    if attempt is None:
        return list({task: every[task, number] for task, number in sorted(every)}.values())
    found = [each for (_, number), each in every.items() if number == attempt]
    if not found:
        there = sorted({number for _, number in every})
        raise CommandError(f"run {run}: attempt {attempt} is unknown; there is {', '.join(map(str, there))}")
    return found


def _no_task(run: str, task: str | None, there: Collection[str]) -> CommandError:
    return CommandError(f"run {run}: task {task!r} is unknown; it has {_some(sorted(there)) or 'none'}")


def read(attempt: Attempt) -> Status | None:
    """Return the status; None, with a warning, for one that cannot be read."""
    try:
        return attempt.status()
    except UnreadableError as error:
        warn(str(error))
    except OSError as error:
        warn(f"{attempt.folder / 'status.json'} cannot be read: {error}")
    return None


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
