"""The protocol of backends: what commands need of the place where runs live."""

import contextlib
import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol

import msgspec

from tfsteps.backends.find import FoundRun, JobT, Selection
from tfsteps.backends.records import Record
from tfsteps.launcher.recorder import Observer
from tfsteps.runs.graph import Surroundings
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.runs.status import Status

NO_LABELS: Mapping[str, str] = {}

Section = tuple[str, Sequence[Sequence[str]]]
"""A title of `tfsteps debug` and the rows below it; without rows nothing is shown."""


class LogLine(NamedTuple):
    """A line of a log.

    Attributes:
        stamp: When it was printed: UTC, `2026-11-21T08:00:01.500000Z`; text order is time order.
        task: The task of its job.
        source: `worker-1`, or `worker-1/init-data` for an init container or a sidecar; empty = a step without a job.
        incarnation: Number of the incarnation, or of the try of the step, that printed it, from 0.
        text: Its bytes without the line end.
    """

    stamp: str
    task: str
    source: str
    incarnation: int
    text: bytes


MOST_LINES = 1_000_000_000
"""Of `LogOptions.tail` and `around`. Python and the API server count so far."""


class LogOptions(msgspec.Struct, frozen=True):
    """Which log lines are printed, and how.

    Attributes:
        accepts: Tells whether to print the lines of a source: `worker-1`, or its container `worker-1/init-data`.
        timestamps: Begin each line with its local time.
        tail: Begin with this many of the last lines; None = with the first line.
        follow: Continue until the jobs have ended.
        since: Only lines printed at this time or later, in seconds since the epoch; None = whenever.
        grep: Only lines in which this expression is found; None = all.
        around: With `grep`: also this many lines of the same source before and after each line found.
        receive: Called with each chosen line, in place of printing it; None = lines are printed.
        name_tasks: Lines name their task; otherwise only if they are of several.
    """

    accepts: Callable[[str], bool]
    timestamps: bool = False
    tail: int | None = None
    follow: bool = False
    since: float | None = None
    grep: re.Pattern[str] | None = None
    around: int = 0
    receive: Callable[[LogLine], None] | None = None
    name_tasks: bool = False


class EventFolder(msgspec.Struct, frozen=True):
    """Event files that need no run.

    Attributes:
        log_dir: A folder or URI, as a pod with the claim sees it, or as this machine does.
        claim: A PersistentVolumeClaim with the folder; empty = none.
        mount: Path at which the claim is mounted.
        image: Image of TensorBoard on a cluster; empty = the image of tfsteps.
    """

    log_dir: str
    claim: str = ""
    mount: str = ""
    image: str = ""


class RunBackend(Protocol[JobT]):
    """Where runs live: this machine, a cluster, or a platform. Jobs passed in are those that `jobs` or `find` returned.

    All methods raise CommandError for what the backend cannot do, and ApiError if a server does not answer.
    """

    @property
    def where(self) -> str:
        """For messages: `in namespace ml of minikube`, `in the records at s3://ml/runs`."""

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> Sequence[JobT]:
        """Return the jobs of the run with this id, the oldest first; empty = of all runs.

        Args:
            run: Id of the run.
            labels: Only jobs with all of these labels, those of the job file and those that tfsteps sets.
        """

    def pipelines(self, jobs: Sequence[JobT]) -> Sequence[PipelineRecord]:
        """Return the pipelines of this machine; on a cluster those that failed without a job; else none.

        Args:
            jobs: Those of all runs.
        """

    def find(self, text: str) -> FoundRun[JobT]:
        """Return the run that a user calls `text`. CommandError if there is none; it names the nearest."""

    def recorded(self, job: JobT) -> bytes:
        """Return the job with its defaults, as JSON, as its place or this machine keeps it; empty = neither does."""

    def record(self, job: JobT) -> Record | None:
        """Return what a launcher recorded of a job, where this machine has it; None = it was launched elsewhere."""

    def reports(self, jobs: Sequence[JobT], most: int) -> list[pathlib.Path | None]:
        """Return the report of each job, on this machine; None = there is none.

        Args:
            jobs: Of any runs.
            most: So many of the first are copied to this machine, if reports are stored elsewhere.
        """

    def explain(self, job: JobT) -> Status:
        """Return the status of a job, with a failure summary if it failed."""

    def surroundings(self, run: str, jobs: Sequence[JobT]) -> Surroundings:
        """Return what exists of the run with this id beside these jobs of it, as far as it can be read."""

    def follow(self, jobs: Sequence[JobT], selection: Selection, observers: Sequence[Observer]) -> list[Status]:
        """Report every change to `observers` until all jobs have ended; return their last statuses, explained.

        Jobs that `selection` chooses and that start meanwhile may be followed too.
        """

    def now(self) -> float:
        """Return the time, in seconds since the epoch: by the server's clock, or this machine's if there is none."""

    def containers(self, job: JobT) -> Collection[str]:
        """Return the sources of a job's log beside its replicas: `worker-1/init-data`."""

    def print_log(self, jobs: Sequence[JobT], selection: Selection, options: LogOptions) -> int:
        """Print the log lines of jobs of one run; with `follow` maybe also of those that start meanwhile.

        Returns:
            Number of lines printed.
        """

    def shell(self, job: JobT, replica: str | None, command: Sequence[str]) -> NoReturn:
        """Replace this process by a command in a replica, whose exit code becomes that of this process.

        Args:
            job: Of which job.
            replica: Name of the replica; None = the one that decides how the job ends.
            command: Program and arguments; empty = an interactive shell.
        """

    def stop(self, jobs: Sequence[JobT], *, now: bool) -> None:
        """Stop the jobs that have not ended, and wait until their replicas are gone.

        All are asked to stop before anything is printed, since standard output may be closed.

        Args:
            jobs: Of one run.
            now: Kill the replicas, without a grace period.
        """

    def set_paused(self, jobs: Sequence[JobT], selection: Selection, *, paused: bool) -> None:
        """Pause the jobs that can be paused, or resume them. CommandError if there is none, before any change."""

    def tensorboard(self, jobs: Sequence[JobT], port: int) -> contextlib.AbstractContextManager[str]:
        """Return a context manager that yields the address of a TensorBoard over the jobs' event files.

        Args:
            jobs: Of one run or of several.
            port: Port on 127.0.0.1; 0 = any that is free.
        """

    def tensorboard_at(self, folder: EventFolder, port: int) -> contextlib.AbstractContextManager[str]:
        """Return a context manager that yields the address of a TensorBoard over a folder of event files."""

    def sections(self, job: JobT) -> Iterator[Section]:
        """Yield what `tfsteps debug` shows of a job beside its status."""

    def commands(self, job: JobT) -> list[str]:
        """Return command lines that show more of a job."""
