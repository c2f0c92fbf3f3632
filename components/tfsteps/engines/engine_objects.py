"""What commands and the janitor need to know of the objects that an engine has on a cluster, one for each run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tfsteps.runs.graph import Node

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.kube.resource import Owner, Resource

Object = Mapping[str, Any]
"""An object of the Kubernetes API as plain data."""


class Step(msgspec.Struct, frozen=True):
    """One step of a run that has a pod.

    Attributes:
        path: The name of its node in the run, the same over its tries.
        template: The name of its template.
        node: Its newest try, with the name of the pod as its place; earlier tries count as restarts.
    """

    path: str
    template: str
    node: Node


class NodeNames(msgspec.Struct, frozen=True):
    """How an engine names the steps of its runs.

    Attributes:
        task_name: Given the path of a step, returns the name that users know; empty = it is no step of this engine.
        is_internal: Tells by the template whether a step is the engine's own; it is shown only if it has not succeeded.
    """

    task_name: Callable[[str], str]
    is_internal: Callable[[str], bool]


class AbandonedRuns(Protocol):
    """The runs of a namespace, or of all: which of them have ended, and which of their steps have a pod."""

    def why_abandoned(self, item: Object) -> str:
        """Return why no launcher will adopt a job, as the end of a sentence; empty = one may, or it has no such run.

        Raises:
            ApiError: The cluster does not answer: then nothing is known.
        """

    def why_step_ended(self, namespace: str, name: str, uid: str, step: str) -> str:
        """Return why a step of a run will have no launcher, as the end of a sentence; empty = it may have one.

        Raises:
            ApiError: As above.
            ValueError: `namespace` or `name` cannot be the name of an object.
        """


class EngineObjects(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of such objects. All functions are pure except `abandoned`; `item` is an object of this kind.

    Attributes:
        resource: The kind.
        pod_label: Label of the pods of steps: the name of their object.
        container: The name of the container in such a pod that runs the program of the step; empty = its first.
        owner_of: Given an object of any kind, such as a job, returns the object of this kind that owns it; None = none
            does. ValueError for invalid metadata.
        reference_in: Given ownerReferences, returns the one to an object of this kind; None = there is none.
        run_name: Given the path of a step, returns the name of its object; empty = it is a step of no such object.
        pipeline_name: Given the name of an object, returns it without what was generated.
        step_of: Given a pod, returns the path of its step; empty = it is a pod of none.
        steps: Given `item`, returns the steps with a pod, in the order of their first try; empty = it does not say.
        unreadable_steps: Given `item`, returns why its steps cannot be read, as a sentence; empty = they can, or there
            are none yet.
        pipeline_node: Given `item`, the paths of the steps that launch or follow jobs, and the names of steps, returns
            the node of the run's graph, with the steps that launch no job.
        end_of: Given the object that has the name now, None = there is none, and a uid, returns how the object with
            this uid ends or has ended, as the end of a sentence; empty = it continues.
        trigger_of: Given `item`, returns what started it, manual or scheduled; empty = it does not say.
        stop_patch: JSON merge patch of an object that makes its run start no further step.
        abandoned: Given a cluster, a namespace, empty = all, and the name of a run, empty = any, returns which jobs of
            such runs are abandoned.
    """

    resource: "Resource"
    pod_label: str
    owner_of: "Callable[[Object], Owner | None]"
    reference_in: Callable[[Sequence[Object]], Object | None]
    run_name: Callable[[str], str]
    pipeline_name: Callable[[str], str]
    step_of: Callable[[Object], str]
    steps: Callable[[Object], list[Step]]
    unreadable_steps: Callable[[Object], str]
    pipeline_node: Callable[[Object, Collection[str], NodeNames], Node]
    end_of: Callable[[Object | None, str], str]
    trigger_of: Callable[[Object], str]
    stop_patch: str
    abandoned: "Callable[[Api, str, str], AbandonedRuns]"
    container: str = ""
