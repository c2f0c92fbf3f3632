"""What the live view shows of one attempt: a headline, and the table of its replicas."""

import re
import time
from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.text import Text

from tfsteps.console.outputs import REPLICA_COLUMNS, replica_row
from tfsteps.console.tables import state_style, table
from tfsteps.console.text import clean, duration
from tfsteps.console.usage import Usage, usage
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import Attempt
from tfsteps.spec import is_uri
from tfsteps.tensorboard.event_files import Scalar, ScalarReader

_SPARE = ("PLACE", "CPU", "MEMORY", "RESTARTS", "ELAPSED", "EXIT")
_MAX_SCALARS = 4
_DULL = (ReplicaState.RUNNING, ReplicaState.SUCCEEDED, ReplicaState.STOPPED)


class LiveTable:
    """The table of one attempt. `refresh` reads files and processes, `lines` draws without reading.

    Attributes:
        status: The newest one reported. The launcher may change it while it is drawn; the next drawing corrects that.
    """

    def __init__(self, status: Status) -> None:
        """Show `status`."""
        self.status = status
        self._reader: ScalarReader | None = None
        self._scalars: dict[str, Scalar] = {}
        self._usage: dict[int, Usage] = {}
        self._here = False  # whether the process ids of replicas mean processes of this machine

    def refresh(self) -> None:
        """Read the new scalars, and what the running replicas use."""
        if not self._reader and self.status.logs and not is_uri(self.status.logs):
            origin = Attempt.of(self.status.identity).event_origin  # recorded when the job was started
            self._reader = ScalarReader(self.status.logs, origin.counts) if origin else None
        for scalar in self._reader.poll() if self._reader else []:
            self._scalars[scalar.name] = scalar
        self._here = self.status.on_this_machine and Attempt.of(self.status.identity).lives_here
        self._usage = usage({pid for replica in self.status.replicas if (pid := self._pid(replica)) is not None})

    def headline(self) -> Text:
        """Return one line: the task, its state, how long it runs, the step and the newest scalars."""
        status = self.status
        line = Text(no_wrap=True).append(clean(status.identity.task), "bold")
        if status.identity.attempt:
            line.append(f" (attempt {status.identity.attempt})", "dim")
        line.append(f"  {status.state}", state_style(status.state))
        line.append(f"  {duration(round((status.ended or time.time()) - status.created))}")
        if self._scalars:
            line.append(f"  step {max(scalar.step for scalar in self._scalars.values())}")
        for scalar in sorted(self._scalars.values(), key=_rank)[:_MAX_SCALARS]:
            line.append(f"  {clean(scalar.name)} ", "dim").append(f"{scalar.value:.4g}")
        if status.message:
            line.append(f"  {clean(status.message)}", "dim")
        return line

    def lines(self, width: int, height: int) -> list[Text]:
        """Return the headline and as much of the table as fits; never more than `height` lines of `width` cells.

        If there is no room for all replicas, those that failed or restarted are shown, and the rest is counted.
        """
        headline = self.headline()
        headline.truncate(width, overflow="ellipsis")
        replicas = list(self.status.replicas)
        room = height - 2  # the headline and the column titles
        if len(replicas) > room:
            room -= 1  # the count of the rest
        if room < 1 or not replicas:
            return [headline][:height]
        shown = _interesting(replicas, room, self.status.decisive_replica)
        drawn = [headline, *table(REPLICA_COLUMNS, [self._row(replica) for replica in shown], width, _SPARE)]
        if len(shown) < len(replicas):
            hidden = Counter(replica.state.value for replica in replicas if replica not in shown)
            rest = Text(f"and {sum(hidden.values())} more: {', '.join(f'{n} {s}' for s, n in hidden.items())}", "dim")
            rest.truncate(width, overflow="ellipsis")
            drawn.append(rest)
        return drawn

    def _pid(self, replica: ReplicaStatus) -> int | None:
        """Return the process id of a replica that is up on this machine, also before it has joined the others."""
        if not replica.incarnations or replica.incarnations[-1].ended is not None:
            return None
        kind, _, rest = replica.incarnations[-1].place.partition(" ")
        pid = re.match("[0-9]{1,7}", rest) if self._here and kind == "pid" else None
        return int(pid[0]) if pid else None

    def _row(self, replica: ReplicaStatus) -> list[str]:
        if used := self._usage.get(self._pid(replica) or 0):
            incarnation = msgspec.structs.replace(replica.incarnations[-1], **used._asdict())
            replica = msgspec.structs.replace(replica, incarnations=[incarnation])
        return replica_row(replica, time.time())


def _interesting(replicas: Sequence[ReplicaStatus], room: int, decisive_replica: str) -> list[ReplicaStatus]:
    """Return the `room` replicas that matter most, in the order of `replicas`."""

    def dullness(at: int) -> tuple[bool, bool, bool, int]:
        replica = replicas[at]
        return replica.state in _DULL, replica.restarts == 0, replica.name != decisive_replica, at

    return [replicas[at] for at in sorted(sorted(range(len(replicas)), key=dullness)[:room])]


def _rank(scalar: Scalar) -> tuple[bool, bool, str]:
    """Order scalars: the loss first, then accuracies, then all others."""
    tag = scalar.tag.lower()
    return "loss" not in tag, "acc" not in tag, scalar.name
