"""What `launch` sees of a job system: one small protocol, and the events that come out of it."""

import enum
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from tfsteps.runs.events import Event
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Problem, TrainingJob

Scope = Literal["siblings", "run"]
OnEnd = Literal["keep", "delete_pods", "delete"]


class Cause(enum.StrEnum):
    """Why a job is being stopped."""

    CANCELLED = "cancelled"  # the user or the engine wants it gone
    DEADLINE = "deadline"  # one of ours passed
    LAUNCHER = "launcher"  # the launcher itself fails; nothing may be left behind


class Handle(Protocol):
    """A job that was created or adopted."""

    name: str
    uid: str
    namespace: str
    created: float
    """When the job was created, in seconds since the epoch."""

    warnings: list[str]
    """What was found out since the start and people should know."""

    tensorboard_url: str
    """Of the job system's own TensorBoard, once the job has ended; empty = there is none."""

    @property
    def age(self) -> float:
        """Seconds that the job existed before it was followed, by the job system's own clock; 0 = new or not known."""

    def events(self) -> Iterator[Event]:
        """Yield what happens, in order, until a JobChanged to a terminal state, which is the last."""

    def stop(self, cause: Cause) -> None:
        """Begin to end the job and return at once; `events()` goes on. Safe in a signal handler, and again."""

    def read_folder(self, folder: str, program: Sequence[str]) -> Any:
        """Run a program that reads `folder` where the volumes of the ended job are, and return the JSON that it prints.

        None where no other place sees more of that folder than this process. `stop` ends it.

        Args:
            folder: Of the job's, which this process does not see.
            program: Arguments of a Python interpreter that has tfsteps.

        Raises:
            LaunchError: Why it could not be run, and what to do.
        """

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Remove what the ended job left: its pods or processes, or all of it. Does nothing where nothing is left.

        Raises:
            LaunchError: Something could not be removed.
        """


class Note(enum.StrEnum):
    """What a launcher leaves on a job for the steps that come after it."""

    DETACHED = "detached"  # it is left running for a `wait` step
    FOLLOWED = "followed"  # this step follows it from now on, in place of the one that launched it
    REPORTED = "reported"  # its end was reported: the next launcher of the task makes a new attempt if it failed


REPORT_SECONDS = 15.0
"""How long `Note.REPORTED` is tried: the step has written its outputs, and waits for nothing else."""


class System(Protocol):
    """One job system."""

    name: str
    outlives_launcher: bool
    """Whether jobs go on when the process that started them ends."""

    def attempt(self, run: str, task: str) -> int:
        """Return the number of the attempt that a launcher of this task is to make now.

        Raises:
            LaunchError: Whoever knows cannot be asked.
        """

    def problems(self, job: TrainingJob) -> list[Problem]:
        """Return what makes `job` impossible here, found before anything is created."""

    def warnings(self, job: TrainingJob) -> list[str]:
        """Return a sentence for each thing in `job` that has no effect here."""

    def places(self, job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
        """Return the folders of an attempt, as its replicas see them; relative paths of the job start from `here`."""

    def plan(self, job: TrainingJob, identity: Identity, places: OutputPaths) -> list[dict[str, object]]:
        """Return what `start` would create, as plain objects. Creates nothing."""

    def start(self, job: TrainingJob, identity: Identity, places: OutputPaths) -> Handle:
        """Create the job, or adopt the one that an earlier launcher of this attempt created.

        Raises:
            LaunchError: It could not be created; nothing is left of it.
            StoppedError: `give_up` was called meanwhile, or before, and the job system did not answer.
        """

    def note(self, job: TrainingJob, name: str, uid: str, note: Note) -> None:
        """Note on a job how its launcher leaves it; does nothing where the job is gone, or the system needs no notes.

        Args:
            job: What was started.
            name: The handle's name.
            uid: Its uid.
            note: What to note.

        Raises:
            LaunchError: It could not be noted.
        """

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> Handle:
        """Return the job that a `start` has created, so that it can be followed from another process. Creates nothing.

        Only where jobs outlive their launcher. A job that is gone, or another one of that name, is found out by
        `events()`, which says `lost` then.

        Args:
            job: What was started.
            name: The handle's name.
            uid: Its uid.
            created: When it was created, in seconds since the epoch.

        Raises:
            LaunchError: The job system cannot be reached.
        """

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Remove what the jobs of a run left, and return the names of those that something was removed of.

        Unfinished jobs are stopped and removed. To ended ones the clean-up policy is applied. What is gone already,
        or going, is left alone: done again, it removes nothing.

        Args:
            identity: The finalizer's own.
            scope: siblings = the jobs of the steps whose end the finalizer is for: below the node of its hook or exit
                handler, else of those beside it that have ended. run = all jobs of the run.
            on_end: The policy; None = each job's own.

        Raises:
            LaunchError: They cannot be looked for, or one of them not removed.
        """

    def give_up(self) -> None:
        """Make a `start` that is under way, or comes, end soon if it is not answered. Safe in a signal handler."""


class StoppedError(Exception):
    """A `start` was given up, and nothing is left of the job as far as could be seen; the message says how far."""


class LaunchError(Exception):
    """A job system could not do what was asked; the message says what to do.

    Attributes:
        retryable: True: the platform's fault, the same call may work later. False: the caller must change something.
        created: Whether the job had been created, or adopted, before: it may go on.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        """Keep `retryable` beside the message."""
        self.retryable = retryable
        self.created = False  # `lifecycle` knows
        super().__init__(message)
