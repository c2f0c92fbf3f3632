"""Whole runs: job systems that pause and resume them by themselves, and the stop of a local pipeline."""

import signal
from collections.abc import Collection
from typing import Protocol, runtime_checkable

from tfsteps.backends.backend_location import BackendLocation, on_of
from tfsteps.backends.waiting import wait
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import pipeline_verdict
from tfsteps.launcher.printer import Printer
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.store import AttemptFolder, pipeline_folder
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
    known = {name: registry.get(name) for name in sorted(systems) if name in registry.plugins()}
    pausable = {name: system for name, system in known.items() if isinstance(system, Pausable)}
    if not pausable:
        location = BackendLocation(on_of(registry.location(min(systems))))
        kinds = " and ".join(sorted(systems))
        raise CommandError(
            f"run {run}: {kinds} runs cannot be paused; `tfsteps stop {run}{location.options}` ends them"
        )
    for name, system in pausable.items():
        if task is not None:
            raise CommandError(f"--task {task}: {name} pauses and resumes whole runs; leave it out")
        changed = system.pause(run) if paused else system.resume(run)
        if not changed:
            raise CommandError(f"run {run}: nothing of it {'runs' if paused else 'is paused'} on {name}")
        print(f"{', '.join(changed)} {'paused' if paused else 'resumed'}")


def stop_pipeline(pipeline: PipelineRecord, *, now: bool) -> None:
    """Stop a pipeline of this machine with all its steps, and wait for its end. CommandError if it cannot be signalled.

    Args:
        pipeline: Its record.
        now: Kill the replicas of its jobs, without a grace period.
    """
    process = AttemptFolder(pipeline_folder(pipeline.run))

    def send() -> None:
        launcher = process.launcher
        answer = launcher.send(signal.SIGTERM) if launcher else process.alive()
        if answer.unknown:
            raise CommandError(f"run {pipeline.run} was not stopped: {answer.why}; stop it where it runs")

    def waiting_for() -> str:
        current = PipelineRecord.read(pipeline.run)
        if current is None or not process.alive().yes:
            return ""
        if now:  # a second signal kills
            send()
        steps = [step.name for step in current.steps if not step.state.terminal]
        return f"stopping {pipeline.pipeline}: waiting for {', '.join(steps) or 'its process'}"

    send()
    printer = Printer()
    wait(waiting_for, printer.say, "" if now else f"still waiting; `tfsteps stop {pipeline.run} --now` kills it", 15.0)
    if ended := PipelineRecord.read(pipeline.run):
        printer.say(pipeline_verdict(ended))
