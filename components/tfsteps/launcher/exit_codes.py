"""The exit codes of launchers and of the `tfsteps` command."""

import enum


class ExitCode(enum.IntEnum):
    """The exit codes of a step."""

    SUCCEEDED = 0
    USAGE = 2  # bad job description or command line: no job was started
    FAILED = 10  # the job failed
    DEADLINE = 11  # one of its deadlines passed
    CANCELLED = 12  # a user or the engine stopped it
    PLATFORM = 13  # not the job's fault: safe to retry

    @property
    def meaning(self) -> str:
        """The meaning of the code, for messages: an engine may show another code, as Kubeflow Pipelines shows 1."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.SUCCEEDED: "succeeded",
    ExitCode.USAGE: "a retry fails again until the inputs or the cluster are corrected",
    ExitCode.FAILED: "the job failed",
    ExitCode.DEADLINE: "a deadline of the job passed",
    ExitCode.CANCELLED: "the job was cancelled",
    ExitCode.PLATFORM: "the platform's fault, not the job's; a retry is safe",
}
