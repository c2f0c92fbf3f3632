"""The interface of a pipeline for a job system whose job one of its steps launches. The engines implement it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from tfsteps.answer import Answer
from tfsteps.runs.events import State

if TYPE_CHECKING:
    from tfsteps.kube.client import Api


class PipelineContext(Protocol):
    """The run of a pipeline, for the pod of one of its steps."""

    owner: Mapping[str, Any]
    """OwnerReference to the engine's object of the run: its deletion deletes the job."""

    step: str
    """The step whose pods launch or follow the job, the same over its retries and unique in the run."""

    terminating: Answer
    """Whether the run is ending: then its jobs must end, too."""

    recreates_pod: Answer
    """Whether the engine creates another pod for the step if this one is evicted or deleted."""

    pending: Answer
    """Whether the engine has not seen this pod run yet: it may create another if this one is lost now."""

    container: str
    """The container of this pod that runs the step's program; empty = the default one, or the first. May be missing."""

    failure: str
    """Why the run is no longer watched, by a fault of tfsteps; empty = it is watched."""

    @property
    def warnings(self) -> list[str]:
        """Warnings about missing permissions to read the run, as far as they are known by now."""

    def ends(self) -> Answer:
        """Return `terminating`; for a finalizer, which asks before the run was observed. May send requests."""

    def hooked_succeeded(self) -> Answer:
        """Return whether the steps have succeeded whose end this pod's step, an exit handler, follows.

        May send requests. May be missing.
        """

    def cleans_up_after(self, step: str, *, detached: bool) -> Answer:
        """Return whether this pod's step, a finalizer, cleans up the jobs of another step of its run.

        Args:
            step: The step that launches or follows the job.
            detached: The job was left running on purpose, for a `wait` step that has not begun.
        """


FindPipeline = Callable[["Api", Mapping[str, Any]], PipelineContext | None]
"""Given a cluster and a pod in it, returns the pipeline that the pod is a step of; None = it is of none."""


@runtime_checkable
class PipelineMember(Protocol):
    """A job system whose jobs belong to the pipeline that launches them."""

    def join_pipeline(self, find: FindPipeline) -> None:
        """Use `find` to find the pipeline, when it is first needed."""


class Origin(msgspec.Struct, frozen=True):
    """The origin of a job, by the names that users know. Empty = none.

    Attributes:
        run_object: The name of the engine's object of the run.
        task: The task's name in the pipeline, if the replicas' variables have another.
    """

    run_object: str = ""
    task: str = ""


FindOrigin = Callable[[Sequence[Mapping[str, Any]], str], Origin]
"""Given the ownerReferences of a job and the step that launched it, returns its origin."""


def next_attempt(last: int, state: State, pipeline: PipelineContext | None, *, reported: bool) -> int:
    """Return the attempt that a launcher makes, or continues.

    It continues the last one until a launcher has reported its end. In a pipeline a success is reported again: the
    engine repeats such a step only because it lost the pod.

    Args:
        last: The number of the task's last attempt.
        state: The state of its job.
        pipeline: The launcher's pipeline; None = no pipeline.
        reported: Whether a launcher has reported the end of that job.
    """
    repeated = state is State.SUCCEEDED and pipeline is not None
    return last + 1 if state.terminal and reported and not repeated else last
