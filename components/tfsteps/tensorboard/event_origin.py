"""Which attempt of a task wrote an event file: several attempts, and other jobs, may write to one folder."""

import re
from collections.abc import Mapping

import msgspec

from tfsteps.tensorboard.event_files import FilePath

UNKNOWN = -1
"""The number of an attempt that is not known."""

_NAME = re.compile(r"events\.out\.tfevents\.([0-9]+)\.(.+)")  # the second and the host of its creation


class EventOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What tells the event files of an attempt from the others in the folder. No clock of another machine is trusted.

    Attributes:
        attempt: Number of the attempt.
        earlier: Whether what earlier attempts wrote counts too.
        job: uid of the attempt's job; empty = not known.
        hosts: Host names that only replicas of one attempt have, without what follows `-`: the attempt by host name.
            Writers put the host into the file's name. Empty = the host names of replicas do not tell.
        since: When the job was created, in seconds since the epoch: an older file of these hosts is of an earlier job
            of the same name. 0 = not known.
        before: The event files that existed before the job was started, by path below the folder, with the attempt that
            wrote them. None = the folder was not read then.
    """

    attempt: int
    earlier: bool = False
    job: str = ""
    hosts: Mapping[str, int] = {}
    since: float = 0.0
    before: Mapping[str, int] | None = None

    def attempt_of(self, file: FilePath) -> int:
        """Return the number of the attempt that wrote a file; `UNKNOWN` = it is of another job, or not known."""
        if match := _NAME.match(file.name):
            created, host = int(match[1]), match[2]
            for name, attempt in self.hosts.items():
                if re.match(rf"{re.escape(name)}(?![a-z0-9])", host):
                    return UNKNOWN if attempt == self.attempt and created < self.since else attempt
        return UNKNOWN if self.before is None else self.before.get(file.shown, self.attempt)

    def counts(self, file: FilePath) -> bool:
        """Return whether the values of a file are values of this attempt."""
        return self.earlier or self.attempt_of(file) == self.attempt

    def predates(self, file: FilePath) -> bool:
        """Return whether a file is known to be older than this attempt."""
        return self.attempt_of(file) not in (self.attempt, UNKNOWN) or file.shown in (self.before or ())
