"""Shared code of all step programs: runs the step, writes the termination message, and returns the exit code."""

import contextlib
import pathlib
import sys
from collections.abc import Callable, Sequence

import msgspec

from tfsteps.engines.base import StepTask
from tfsteps.engines.registry import step_task
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.signals import Terminated, raise_on_sigterm
from tfsteps.os_errors import next_step
from tfsteps.spec import Problem, SpecError
from tfsteps.systems.base import LaunchError
from tfsteps.text import streams
from tfsteps.text.tracebacks import unexpected

_TERMINATION_LOG = pathlib.Path("/dev/termination-log")
_MESSAGE_BYTES = 4096  # Kubernetes drops the rest of a termination message
_PROBLEMS_BYTES = 3800  # leaves room for the text before and after the problems
_CUT = " ..."


def note_key(metric: str) -> str:
    """Return the key under which the metadata of the artifact `metrics` says what is not known of a metric."""
    return f"{metric}_note"


class StepResult(msgspec.Struct, frozen=True):
    """How a step ended.

    Attributes:
        sentence: One sentence for people.
        code: The exit code.
        meaning: Meaning of the code for this step; empty = `ExitCode.meaning`.
        stored: `name: address` of each file that was uploaded for a failed step.
    """

    sentence: str
    code: ExitCode
    meaning: str = ""
    stored: Sequence[str] = ()

    @property
    def message(self) -> str:
        """The sentence on one line; if the step failed, also the meaning of its exit code and the uploaded files.

        At most 4096 bytes.
        """
        code = f"Step exit code {self.code:d}: {self.meaning or self.code.meaning}."
        rest = "" if self.code is ExitCode.SUCCEEDED else "".join(f" {part}" for part in (code, *self.stored))
        return _cut(" ".join(self.sentence.split()), _MESSAGE_BYTES - len(rest.encode())) + rest


def run(
    step: Callable[[StepTask], StepResult],
    argv: Sequence[str] | None,
    *,
    failed: str,
    creates: str = "",
    read: Callable[[Sequence[str]], StepTask] = step_task,
) -> int:
    """Run a step, print its result, write it as the container's termination message, and return the exit code.

    Args:
        step: The step; it takes the task and returns the result.
        argv: The command line; None = the arguments of this process.
        failed: Start of the message if the platform refuses a request: `The job could not be launched`.
        creates: What the step creates: `job`; empty = nothing.
        read: Returns the task of a command line; ValueError if it describes none.
    """
    streams.ensure()
    result = _result(step, sys.argv[1:] if argv is None else argv, failed, creates, read)
    if _TERMINATION_LOG.is_file():
        with contextlib.suppress(OSError):
            _TERMINATION_LOG.write_text(result.message, "utf-8")
    Printer().say(result.message)
    return result.code


def _result(
    step: Callable[[StepTask], StepResult],
    argv: Sequence[str],
    failed: str,
    creates: str,
    read: Callable[[Sequence[str]], StepTask],
) -> StepResult:
    refused = "Nothing was created" if creates else failed
    try:
        task = read(argv)
    except (ValueError, LaunchError) as error:  # LaunchError: an engine of another package cannot be loaded
        return StepResult(f"{refused}: {error}.", ExitCode.USAGE)
    try:
        with raise_on_sigterm():
            return step(task)
    except SpecError as error:
        sys.stderr.write(f"{error}\n")
        return StepResult(f"{refused}: {_listed(error.problems)}", ExitCode.USAGE)
    except LaunchError as error:
        what = "The job was launched, but its launcher did not follow it to its end" if error.created else failed
        return StepResult(f"{what}: {error}.", ExitCode.PLATFORM if error.retryable else ExitCode.USAGE)
    except (Terminated, Exception) as error:  # noqa: BLE001  after which it is not known what was created
        why = "it got SIGTERM" if isinstance(error, Terminated) else unexpected(error)
        if isinstance(error, OSError):  # such as outputs that cannot be written
            why = f"{error}; {next_step(error)}"
        rest = f" If there is a {creates}, it is left as it is, and a retry of this step finds it." if creates else ""
        return StepResult(f"The step cannot go on: {why}.{rest}", ExitCode.PLATFORM)


def _listed(problems: Sequence[Problem]) -> str:
    """Return the problems on one line, as many as fit in the message; the log has all of them."""
    numbered = [f"({i}) {problem}" if problems[1:] else str(problem) for i, problem in enumerate(problems, 1)]
    kept = len(numbered)
    while kept > 1 and len(" ".join(numbered[:kept]).encode(errors="backslashreplace")) > _PROBLEMS_BYTES:
        kept -= 1
    rest = f" ... and {len(numbered) - kept} more." if kept < len(numbered) else ""
    return _cut(" ".join(numbered[:kept]), _PROBLEMS_BYTES) + rest


def _cut(text: str, size: int) -> str:
    """Return `text` as at most `size` bytes of UTF-8, cut between two characters; surrogates are escaped."""
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= size:
        return encoded.decode()
    return encoded[: size - len(_CUT)].decode(errors="ignore") + _CUT
