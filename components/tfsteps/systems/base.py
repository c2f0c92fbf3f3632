"""The protocol between `launch` and a job system."""

import enum
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from tfsteps.runs.events import Event
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Options, Problem, TrainingJob

Scope = Literal["siblings", "run"]
OnEnd = Literal["keep", "delete_pods", "delete"]


class Cause(enum.StrEnum):
    """Why a job is being stopped."""

    CANCELLED = "cancelled"  # the user or the engine stops it, or the launcher's pod ends
    INTERRUPTED = "interrupted"  # a person pressed Ctrl-C or ran `tfsteps stop`: no pod ends so
    DEADLINE = "deadline"  # a deadline of tfsteps passed, or the same failure came again
    LAUNCHER = "launcher"  # the launcher failed; nothing may be left running

    @property
    def requested(self) -> bool:
        """Whether a signal asks for it."""
        return self in (Cause.CANCELLED, Cause.INTERRUPTED)


class Handle(Protocol):
    """A job that was created or adopted."""

    name: str
    uid: str
    namespace: str
    created: float
    """When the job was created, in seconds since the epoch."""

    hosts: str
    """What the host names of its replicas begin with, before `-`, and no other job's; empty = they do not tell."""

    is_new: bool
    """This launcher has certainly created it. An adopted job may have written files before this launcher began."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings for the user since the start."""

    @property
    def tensorboard_url(self) -> str:
        """Address of the TensorBoard that the job system runs for the job; empty = there is none, or not yet."""

    @property
    def age(self) -> float:
        """Age of the job in seconds when following began, by the job system's clock; 0 = new or not known."""

    def events(self) -> Iterator[Event]:
        """Yield events in order. The last is a JobChanged to a terminal state."""

    def stop(self, cause: Cause) -> None:
        """Begin to end the job and return at once; `events()` continues. Safe in a signal handler; may be repeated."""

    def read_folder(self, folder: str, program: Sequence[str]) -> Any:
        """Run a program that reads a folder of the ended job where it can be read, and return the JSON that it prints.

        None if no other place can read more of that folder than this process. `stop` ends the program.

        Args:
            folder: A folder of the job that this process does not see, or a URI.
            program: Arguments of a Python interpreter that has tfsteps.

        Raises:
            LaunchError: The program could not run; the message says why, and what to do.
        """

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove the pods or processes of the ended job, or all of the job. Does nothing if nothing is left.

        Raises:
            LaunchError: Something could not be removed.
        """


class JobNote(enum.StrEnum):
    """What a launcher records on a job for later steps."""

    DETACHED = "detached"  # it is left running for a `wait` step
    FOLLOWED = "followed"  # this step follows it from now on, instead of the step that launched it
    REPORTED = "reported"  # its end was reported: the next launcher of the task makes a new attempt if it failed


REPORT_SECONDS = 15.0
"""How long an annotation at the end is retried: the step has written its outputs and waits only for this."""


class System(Protocol):
    """One job system."""

    name: str
    outlives_launcher: bool
    """Whether jobs continue after the process that started them ends."""

    @property
    def location(self) -> str:
        """Where its jobs live, and so which `--on` finds them: a `Location`, or its name if it has a platform."""

    def attempt(self, run: str, task: str) -> int:
        """Return the number of the attempt that a launcher of this task makes now.

        Raises:
            LaunchError: The job system does not answer.
        """

    def spec_problems(self, job: TrainingJob) -> list[Problem]:
        """Return why `job` cannot run on this system, without creating anything."""

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each field of `job` that has no effect on this system."""

    def output_paths(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders of an attempt, as its replicas see them; relative paths start from `base_dir`."""

    def plan(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> list[dict[str, object]]:
        """Return what `start` would create, as plain objects. Creates nothing."""

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> Handle:
        """Create the job, or adopt the one that an earlier launcher of this attempt created.

        Raises:
            LaunchError: The job could not be created, and nothing is left of it; or the message says that it may run.
            StoppedError: `give_up` was called before or during the call, and the job system did not answer.
        """

    def note(self, job: TrainingJob, name: str, uid: str, note: JobNote) -> None:
        """Record a note on a job. Does nothing if the job is gone, or if the system needs no notes.

        Args:
            job: What was started.
            name: The handle's name.
            uid: Its uid.
            note: The note.

        Raises:
            LaunchError: The note could not be recorded.
        """

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> Handle:
        """Return a job that `start` created in another process, to follow it. Creates nothing.

        Only for systems whose jobs outlive their launcher. If the job is gone or was replaced, `events()` reports
        `lost`.

        Args:
            job: What was started.
            name: The handle's name.
            uid: Its uid.
            created: When it was created, in seconds since the epoch.

        Raises:
            LaunchError: The job system cannot be reached.
        """

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Clean up the jobs of a run, and return the names of the jobs of which something was removed.

        Unfinished jobs are stopped and removed. The clean-up policy is applied to ended jobs. Objects that are gone or
        being deleted are skipped: a second call removes nothing.

        Args:
            identity: The finalizer's.
            scope: siblings = the jobs of the steps that the finalizer belongs to: those below the node of its hook or
                exit handler, else the ended steps beside it. run = all jobs of the run.
            on_end: The policy; None = each job's own.

        Raises:
            LaunchError: The jobs cannot be listed, or one cannot be removed. The others are cleaned up all the same:
                `removed` has their names.
        """

    def give_up(self) -> None:
        """End a running or later `start` soon if the system does not answer. Safe in a signal handler."""


@runtime_checkable
class HasSettings(Protocol):
    """A job system whose platform has settings."""

    def with_settings(self, job: TrainingJob, options: Options) -> TrainingJob:
        """Return the job with the platform's settings.

        Args:
            job: What is to be started, as its author wrote it.
            options: The job systems that a job may name.

        Raises:
            SpecError: The settings are wrong, or refuse the job.
            LaunchError: Whether there are settings is not known.
        """


@runtime_checkable
class OnCluster(Protocol):
    """A job system whose jobs are objects on a Kubernetes cluster."""

    cluster: Any
    """The `tfsteps.systems.kubernetes.job_cluster.JobCluster` of the jobs, which systems may share."""


class StoppedError(Exception):
    """A `start` was stopped. The message says whether the job may have been created."""


class LaunchError(Exception):
    """A job system refused or failed; the message says what to do.

    Attributes:
        retryable: True: a fault of the platform; a retry may succeed. False: the caller must change something.
        created: Whether the job was created or adopted before the error: it may continue.
        removed: Of a clean-up, the names of the jobs of which something was removed.
    """

    def __init__(self, message: str, *, retryable: bool, removed: Sequence[str] = ()) -> None:
        """Keep the arguments beside the message."""
        self.retryable = retryable
        self.removed = removed
        self.created = False  # `lifecycle` sets it
        super().__init__(message)


def clean_up_all(clean_ups: Iterable[Callable[[], Sequence[str]]]) -> list[str]:
    """Call functions that each clean up a part, and return the names of the jobs of which something was removed.

    Raises:
        LaunchError: Some of them failed; the message has all errors, and `removed` what all functions removed. It is
            retryable if all errors are.
    """
    removed: list[str] = []
    errors: list[LaunchError] = []
    for clean_up in clean_ups:
        try:
            removed += clean_up()
        except LaunchError as error:
            removed += error.removed
            errors.append(error)
    if errors:
        retryable = all(error.retryable for error in errors)
        raise LaunchError("; ".join(map(str, errors)), retryable=retryable, removed=removed) from errors[0]
    return removed
