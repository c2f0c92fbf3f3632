"""The program of the `cleanup` component: a finalizer."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from tfsteps.engines.base import StepTask
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.spec import Problem, SpecError
from tfsteps.steps import job_step, program
from tfsteps.steps.job_step import SOURCE
from tfsteps.steps.program import StepResult
from tfsteps.systems.base import LaunchError, OnEnd, Scope, clean_up_all
from tfsteps.text import streams

_T = TypeVar("_T")


def main(argv: Sequence[str] | None = None) -> int:
    """Clean up as `argv` says and return the exit code; None = the arguments of this process."""
    return program.run(_clean_up, argv, failed="Not everything was cleaned up")


def _clean_up(task: StepTask) -> StepResult:
    inputs = task.parameters
    scope: Scope = _one_of(get_args(Scope), inputs, "scope") or "siblings"
    on_end: OnEnd | None = _one_of(get_args(OnEnd), inputs, "on_end")

    def clean_up(cluster: str) -> list[str]:
        system = job_step.find_finalizer(inputs.get("system") or "auto", cluster)
        return system.clean_up(task.identity(), scope, on_end)

    clusters, unknown = job_step.clusters_to_clean_up(inputs.get("cluster") or "", task.identity().run)
    parts = [functools.partial(clean_up, cluster) for cluster in clusters]
    try:
        removed = clean_up_all([*parts, *(functools.partial(_fail, error) for error in unknown)])
    except LaunchError as error:
        task.write({"removed": [*error.removed]}, {})
        done = f"Removed: {', '.join(error.removed) or 'nothing'}"
        raise LaunchError(f"{error}. {done}", retryable=error.retryable) from error
    task.write({"removed": removed}, {})
    message = f"Cleaned up: {', '.join(removed)}." if removed else "There was nothing to clean up."
    return StepResult(message, ExitCode.SUCCEEDED)


def _fail(error: LaunchError) -> list[str]:
    raise error


def _one_of(allowed: tuple[_T, ...], inputs: Mapping[str, Any], name: str) -> _T | None:
    """Return the input `name`, None if it is empty. SpecError if it is not among `allowed`."""
    value = inputs.get(name) or None
    if value is None or value in allowed:
        return value
    words = ", ".join(map(str, allowed))
    wrong = Problem(path=(name,), value=str(value), wrong="is unknown", allowed=words, fix="Write one of them")
    raise SpecError([wrong], SOURCE)


if __name__ == "__main__":
    streams.flush_and_exit(main())
