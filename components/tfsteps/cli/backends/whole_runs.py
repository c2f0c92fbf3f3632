"""Job systems that pause and resume whole runs by themselves, such as HAI."""

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from tfsteps.cli.errors import CommandError
from tfsteps.systems import registry


@runtime_checkable
class Pausable(Protocol):
    """A job system, not of a cluster, that can pause the jobs of a run."""

    def pause(self, run: str) -> list[str]:
        """Pause them, and return the names of those that were not paused yet."""

    def resume(self, run: str) -> list[str]:
        """Resume those that are paused, and return their names."""


def pause_run(run: str, systems: Collection[str], task: str | None, *, paused: bool) -> None:
    """Pause or resume a run on each of the `systems` that can.

    Args:
        run: Its id.
        systems: Names of the job systems of its jobs.
        task: The one that the user asked for; None = the whole run.
        paused: Pause it; False = resume it.

    Raises:
        CommandError: None of them can, one can only do so with the whole run, or nothing was to be changed.
    """
    known = {name: registry.get(name) for name in sorted(systems) if name in registry.available()}
    pausable = {name: system for name, system in known.items() if isinstance(system, Pausable)}
    if not pausable:
        raise CommandError(f"run {run}: local runs cannot be paused; `tfsteps stop {run}` ends them")
    for name, system in pausable.items():
        if task is not None:
            raise CommandError(f"--task {task}: {name} pauses and resumes whole runs; leave it out")
        changed = system.pause(run) if paused else system.resume(run)
        if not changed:
            raise CommandError(f"run {run}: nothing of it {'runs' if paused else 'is paused'} on {name}")
        print(f"{', '.join(changed)} {'paused' if paused else 'resumed'}")
