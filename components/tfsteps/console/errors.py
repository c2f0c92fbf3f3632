"""The error of a command, raised by whatever carries it out."""

from tfsteps.launcher.exit_codes import ExitCode


class CommandError(Exception):
    """A command that cannot be carried out.

    Attributes:
        code: Exit code of the process.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        """Store the message, which names the object, the value and the next step, and the exit code."""
        self.code = code
        super().__init__(message)
