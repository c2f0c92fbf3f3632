"""What the `cleanup` component runs: a finalizer."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from tfsteps import job_task, program
from tfsteps.engines.task import Task
from tfsteps.exits import Exit
from tfsteps.job_task import SOURCE
from tfsteps.program import Ending
from tfsteps.spec import Problem, SpecError
from tfsteps.systems.base import OnEnd, Scope

_T = TypeVar("_T")


def main(argv: Sequence[str] | None = None) -> int:
    """Clean up as `argv` says and return the exit code; None = the process's own arguments."""
    return program.run(_clean_up, argv, failed="Not everything was cleaned up")


def _clean_up(task: Task) -> Ending:
    inputs = task.parameters
    scope: Scope = _one_of(get_args(Scope), inputs, "scope") or "siblings"
    on_end: OnEnd | None = _one_of(get_args(OnEnd), inputs, "on_end")
    system = job_task.find_finalizer(inputs.get("system") or "auto")
    removed = system.clean_up(task.identity(), scope, on_end)
    task.write({"removed": removed}, {})
    said = f"Cleaned up: {', '.join(removed)}." if removed else "There was nothing to clean up."
    return Ending(said, Exit.SUCCEEDED)


def _one_of(allowed: tuple[_T, ...], inputs: Mapping[str, Any], name: str) -> _T | None:
    """Return the input `name`, None if it is empty. SpecError if it is not among `allowed`."""
    value = inputs.get(name) or None
    if value is None or value in allowed:
        return value
    words = ", ".join(map(str, allowed))
    wrong = Problem(path=(name,), value=str(value), wrong="is unknown", allowed=words, fix="Write one of them")
    raise SpecError([wrong], SOURCE)


if __name__ == "__main__":
    program.leave(main())
