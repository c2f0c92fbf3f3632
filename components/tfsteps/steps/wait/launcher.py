"""The program of the `wait` component: finds the job of a `launch` step, and follows it to its end."""

import pathlib
from collections.abc import Sequence

from tfsteps import typed_json
from tfsteps.engines.base import StepTask
from tfsteps.json_errors import NOT_READABLE
from tfsteps.launcher.lifecycle import first_status, resume
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import ignore_termination
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import Problem, SpecError, TrainingJob
from tfsteps.steps import job_step, program
from tfsteps.steps.job_step import SOURCE, JobOutput
from tfsteps.steps.program import StepResult
from tfsteps.systems.base import JobNote, LaunchError, System
from tfsteps.text import streams


def main(argv: Sequence[str] | None = None) -> int:
    """Wait for the job that `argv` names and return the exit code; None = the arguments of this process."""
    return program.run(_wait, argv, failed="The job could not be waited for")


def _wait(task: StepTask) -> StepResult:
    launched, job = _launched(task)
    printer = job_step.printer(job)
    places = {"namespace": launched.namespace, "context": launched.cluster}
    where = {option: value for option, value in places.items() if value}
    system = job_step.find_system(launched.system, where)
    status = _ended(launched, job, system, printer)
    ignore_termination()
    job_step.warn(printer, status.warnings)
    return job_step.end(task, job, system, status)


def _launched(task: StepTask) -> tuple[JobOutput, TrainingJob]:
    """Return the input `job`, and the job itself. SpecError if it is not the output of a launch step."""
    try:
        launched = typed_json.convert(task.parameters.get("job"), JobOutput)
        if not launched.spec:
            raise _not_launched("is the output of a train or wait step, and its job has ended")
        return launched, typed_json.decode(launched.spec, TrainingJob)
    except NOT_READABLE as error:  # a ValidationError is one
        raise _not_launched(f"is not the output of a launch step ({error})") from error


def _not_launched(wrong: str) -> SpecError:
    fix = "Connect it with the output `job` of a launch step"
    return SpecError([Problem(path=("job",), wrong=wrong, fix=fix)], SOURCE)


def _ended(launched: JobOutput, job: TrainingJob, system: System, printer: Printer) -> Status:
    if not system.outlives_launcher:
        from tfsteps.launcher import background  # noqa: PLC0415  pods start faster without it

        return background.follow(AttemptFolder.of(launched.identity), [printer])
    identity = launched.identity
    paths = system.output_paths(job, identity, pathlib.Path.cwd())
    first = first_status(job, identity, system, paths, job_step.tensorboard_url())
    first.job, first.uid, first.namespace = launched.name, launched.uid, launched.namespace
    first.created = launched.created
    try:
        system.note(job, first.job, first.uid, JobNote.FOLLOWED)
    except LaunchError as error:
        first.warnings.append(f"A finalizer after the launch step may stop this job: {error}")
    return resume(job, first, system, observers=[printer])


if __name__ == "__main__":
    streams.flush_and_exit(main())
