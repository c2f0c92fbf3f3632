"""A job of this machine, or one elsewhere that a launcher on this machine records."""

import msgspec

from tfsteps.answer import Answer
from tfsteps.runs.demo import Mark, read
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder


class LocalAttempt(msgspec.Struct, frozen=True):
    """One attempt, as it was when it was looked at.

    Attributes:
        attempt: Its folder.
        alive: Whether its launcher was alive, just before the status was read.
        status: Its status.
    """

    attempt: AttemptFolder
    alive: Answer
    status: Status

    @property
    def running(self) -> bool:
        """Whether its launcher was certainly alive."""
        return self.alive.yes

    @property
    def workflow(self) -> str:
        return ""

    @property
    def demo(self) -> Mark | None:
        try:
            return read(self.attempt.folder.parents[1])
        except OSError:  # it may be one: no command changes it
            return Mark()
