"""Runs on a cluster: a ToyRun for each, whose controller creates a pod for each try of a step."""

import datetime as dt
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.engines.engine_objects import EngineObjects, NodeNames, Step
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Owner, Resource, metadata_of
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.runs.graph import Node, NodeKind
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy

TOY_RUNS = Resource("toy.example/v1", "toyruns", "ToyRun")
RUN, STEP = "toy.example/run", "toy.example/step"
"""The label of a step's pod with the name of its ToyRun, and the annotation with the name of the step."""

CONTAINER = "program"
"""The container of a step's pod that runs its program. The first one is the controller's."""

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_Object = Mapping[str, Any]


def step_of(pod: _Object) -> str:
    """Return the path of a pod's step, `RUN/STEP`; empty = it is a pod of none."""
    meta = pod["metadata"]
    step = (meta.get("annotations") or {}).get(STEP)
    return f"{meta['labels'][RUN]}/{step}" if step else ""


def reference_in(owners: Sequence[_Object]) -> _Object | None:
    """Return the ownerReference to a ToyRun; None = there is none."""
    kind = (TOY_RUNS.api, TOY_RUNS.kind)
    return next((owner for owner in owners if (owner["apiVersion"], owner["kind"]) == kind), None)


def owner_of(item: _Object) -> Owner | None:
    """Return the ToyRun that owns an object; None = none does. ValueError for invalid metadata."""
    kind = (TOY_RUNS.api, TOY_RUNS.kind)
    owners = metadata_of(item).owner_references or []
    return next((owner for owner in owners if (owner.api_version, owner.kind) == kind), None)


def end_of(run: _Object | None, uid: str) -> str:
    """Return how the ToyRun with this uid ends or has ended; empty = it continues."""
    if run is None or run["metadata"]["uid"] != uid:
        return "is gone"
    phase = (run.get("status") or {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return f"has ended ({phase})"
    return "is being stopped" if run["spec"].get("stop") or run["metadata"].get("deletionTimestamp") else ""


class ToyContext:
    """A ToyRun as a `PipelineContext`, which describes the attributes."""

    container = CONTAINER
    pending = NO  # the controller creates another pod for each one that is lost
    recreates_pod = YES

    def __init__(self, api: Api, pod: _Object, owner: _Object) -> None:
        """Watch the ToyRun that `owner`, an ownerReference of the launcher's pod, refers to."""
        self.owner = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")} | {"blockOwnerDeletion": False}
        self.step, self.failure = step_of(pod), ""
        self.terminating = unknown("the ToyRun was not read yet")
        self.warnings: list[str] = []
        namespace, name, uid = pod["metadata"]["namespace"], owner["name"], owner["uid"]
        self._read = functools.partial(_read, api, namespace, name)
        selector = f"metadata.name={name}"
        Watch(api, TOY_RUNS, namespace, self._on_event, sought=(name, uid), fieldSelector=selector)

    def ends(self) -> Answer:
        """Return whether the run is ending; read it if the watch has not reported it yet."""
        if self.terminating.unknown:
            try:
                self._update(self._read())
            except ApiError as error:
                return unknown(error)
        return self.terminating

    def cleans_up_after(self, step: str, *, detached: bool) -> Answer:
        """Return whether another step of the run has ended: they run one after another, and none is a `wait`."""
        return known(step != self.step and step.startswith(f"{self.owner['name']}/"))

    def _on_event(self, seen: Seen) -> None:
        """Record the state of the run. The watch confirms an absence before it reports it."""
        match seen:
            case Listed(items=items):
                self._update(next(iter(items), None))
            case Changed(item=item):
                self._update(item)
            case Deleted(item={"metadata": {"uid": uid}}) if uid == self.owner["uid"]:
                self._update(None)
            case Refused(error=error, status=0):
                self.failure = error
            case Refused(error=error):
                self.warnings = [f"The ToyRun cannot be watched ({error}): SIGTERM alone tells that it is ending."]

    def _update(self, run: _Object | None) -> None:
        self.terminating = known(bool(end_of(run, self.owner["uid"])))


def find_pipeline(api: Api, pod: _Object) -> ToyContext | None:
    """Return the ToyRun that a pod is a step of; None = it is a pod of none."""
    owner = reference_in(pod["metadata"].get("ownerReferences") or [])
    return ToyContext(api, pod, owner) if owner else None


class ToyRuns:
    """The ToyRuns of a namespace, or of all. An `AbandonedRuns`. Each request is sent once."""

    def __init__(self, api: Api, _namespace: str, _name: str = "") -> None:
        """Send no request yet."""
        self._read = functools.cache(functools.partial(_read, api))
        self._steps = functools.cache(functools.partial(_unfinished, api))

    def why_abandoned(self, item: _Object) -> str:
        if (owner := owner_of(item)) is None:
            return ""
        step = retention_policy(item).launcher
        return self.why_step_ended(item["metadata"]["namespace"], owner.name, owner.uid, step)

    def why_step_ended(self, namespace: str, name: str, uid: str, step: str) -> str:
        if step in self._steps(namespace, name, uid):
            return ""
        end = end_of(self._read(namespace, name), uid)
        return f"its ToyRun {name} {end} and {step or 'its launcher'} has no unfinished pod" if end else ""


def _read(api: Api, namespace: str, name: str) -> _Object | None:
    """Return a ToyRun; None = there is none. ApiError if that is not known."""
    try:
        return api.get(TOY_RUNS, namespace, name)
    except ApiError as error:
        if error.missing:
            return None
        raise


def _unfinished(api: Api, namespace: str, name: str, uid: str) -> set[str]:
    """Return the paths of the steps of a ToyRun that have an unfinished pod."""
    pods = api.iterate(PODS, namespace, labelSelector=f"{RUN}={name}", fieldSelector=_UNFINISHED)
    return {step_of(pod) for pod in pods if (owner := owner_of(pod)) and owner.uid == uid}


def steps(run: _Object) -> list[Step]:
    """Return the steps with a pod, which the controller lists in the status in their order."""
    return [_step(run["metadata"]["name"], item) for item in (run.get("status") or {}).get("steps") or []]


def _step(run: str, item: _Object) -> Step:
    started = dt.datetime.fromisoformat(item["started"]).timestamp()
    state, name, pod = item["phase"].lower(), item["name"], item["pod"]
    return Step(f"{run}/{name}", name, Node(kind=NodeKind.STEP, name=name, state=state, started=started, place=pod))


def pipeline_node(run: _Object, launched: Collection[str], names: NodeNames) -> Node:
    """Return a ToyRun as a node, with its steps that launch no job."""
    state = str((run.get("status") or {}).get("phase") or "Pending").lower()
    children = tuple(step.node for step in steps(run) if step.path not in launched)
    return Node(kind=NodeKind.PIPELINE, name=run["metadata"]["name"], state=state, children=children)


NODE_NAMES = NodeNames(task_name=lambda step: step.partition("/")[2], is_internal=lambda _template: False)

OBJECTS = EngineObjects(
    resource=TOY_RUNS,
    pod_label=RUN,
    owner_of=owner_of,
    reference_in=reference_in,
    run_name=lambda step: step.partition("/")[0] if "/" in step else "",
    pipeline_name=lambda name: name,
    step_of=step_of,
    steps=steps,
    unreadable_steps=lambda _run: "",
    pipeline_node=pipeline_node,
    end_of=end_of,
    trigger_of=lambda _run: "manual",
    stop_patch='{"spec":{"stop":true}}',
    abandoned=ToyRuns,
    container=CONTAINER,
)
