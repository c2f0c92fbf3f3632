"""What the `launch` component runs: creates or adopts the job, and leaves it to a `wait` step."""

import pathlib
from collections.abc import Sequence

from tfsteps import job_task, program
from tfsteps.engines.task import Task
from tfsteps.exits import Exit, exit_code
from tfsteps.job_task import JobOutput, Wanted
from tfsteps.lifecycle import begin
from tfsteps.program import Ending
from tfsteps.records import Status
from tfsteps.stopping import ignore_termination


def main(argv: Sequence[str] | None = None) -> int:
    """Launch the job that `argv` describes and return the exit code; None = the process's own arguments."""
    return program.run(_launch, argv, failed="The job could not be launched")


def _launch(task: Task) -> Ending:
    wanted = job_task.wanted(task)
    printer = job_task.printer(wanted.job)
    status = _begun(wanted)
    ignore_termination()
    job_task.warn(printer, status.warnings)
    task.write({"job": JobOutput.of(status, wanted.job).plain()}, {})
    if status.state.terminal:
        return Ending(f"{status.job or wanted.job.name} {status.state}: {status.message}", exit_code(status))
    return Ending(f"{status.job} was launched.", Exit.SUCCEEDED)


def _begun(wanted: Wanted) -> Status:
    here = pathlib.Path.cwd()
    if wanted.system.outlives_launcher:
        return begin(wanted.job, wanted.identity, wanted.system, here=here)
    from tfsteps import background  # noqa: PLC0415  start-up is measured, and pods have no use for it

    url = job_task.tensorboard_url()
    return background.start(wanted.job, wanted.identity, wanted.system, here=here, tensorboard_url=url)


if __name__ == "__main__":
    program.leave(main())
