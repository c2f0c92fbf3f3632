"""What a cluster has of runs beside their jobs: the objects of engines, launchers, Services, volumes and TensorBoards.

Also the pipelines that failed without a job, or whose jobs are gone. The functions above `surroundings` are pure: they
return what belongs to a job or to its run as nodes of the run's graph.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from tfsteps.backends.pipeline_link import pipeline_links
from tfsteps.backends.records import recorded_launcher
from tfsteps.console.messages import warn
from tfsteps.engines import registry
from tfsteps.engines.engine_objects import EngineObjects, Step
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.demo import mark_of
from tfsteps.runs.events import State
from tfsteps.runs.graph import Node, NodeKind, Surroundings
from tfsteps.runs.identity import RUN_ID, STEP, label_value
from tfsteps.runs.pipeline_record import PipelineRecord
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy
from tfsteps.systems.kubernetes.follow.pods import pod
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, JobKind, true_conditions
from tfsteps.systems.kubernetes.permissions import JOBS, SERVICES
from tfsteps.systems.kubernetes.query.runs import ClusterJob
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.tensorboard.manifests import COMPONENT
from tfsteps.systems.kubernetes.times import by_age, seconds

_LABEL_LENGTH = 63
_ENDED = {"succeeded", "failed", "skipped", "omitted"}
_Item = Mapping[str, Any]
_LAUNCHERS = {"train", "launch"}
UNKNOWN = "unknown"
_SOURCES = {
    "persistentVolumeClaim": ("claim", "claimName"),
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "hostPath": ("path of the node", "path"),
    "nfs": ("NFS export", "path"),
    "emptyDir": ("empty directory", "medium"),
}


def volumes(kind: JobKind, item: _Item) -> list[Node]:
    """Return the volumes that the program's container of any role mounts, each with what it is and where it is."""
    mounted: dict[str, str] = {}
    for role in kind.roles(item).values():
        spec = role.template.get("spec") or {}
        sources = {volume["name"]: _source(volume) for volume in spec.get("volumes") or []}
        for container in spec.get("containers") or []:
            for mount in container.get("volumeMounts") or [] if container["name"] == kind.container else ():
                mounted[f"{sources.get(mount['name'], mount['name'])} at {mount['mountPath']}"] = mount["name"]
    return [Node(kind=NodeKind.VOLUME, name=name, detail=detail) for detail, name in mounted.items()]


def _source(volume: _Item) -> str:
    for field, (what, name) in _SOURCES.items():
        if field in volume:
            return " ".join(filter(None, (what, str((volume[field] or {}).get(name) or ""))))
    return next((key for key in volume if key != "name"), "volume")


def services(kind: JobKind, item: _Item, listed: Iterable[_Item]) -> list[Node]:
    """Return the Services among `listed` that a job, or an object of its name that it owns, owns."""
    uids = {entry["metadata"].get("uid") for entry in (item, *item.get(DEPENDENTS, ()))} - {None}
    name = item["metadata"]["name"]  # an object between the job and its pods that no label selects has the job's name
    through = {(between.resource.kind, name) for between in kind.between if not between.label}
    return [_service(entry) for entry in listed if _owned(entry, uids, through)]


def _owned(service: _Item, uids: Container[str], through: Container[tuple[str, str]] = ()) -> bool:
    """Tell whether an object with one of these uids, or one of `through` by kind and name, owns a Service."""
    owners = service["metadata"].get("ownerReferences") or []
    return any(owner.get("uid") in uids or (owner.get("kind"), owner.get("name")) in through for owner in owners)


def _service(item: _Item) -> Node:
    return Node(kind=NodeKind.SERVICE, name=item["metadata"]["name"], detail=_ports(item))


def _ports(service: _Item) -> str:
    ports = [str(port.get("port")) for port in (service.get("spec") or {}).get("ports") or []]
    return f"port {', '.join(ports)}" if ports else ""


def tensorboards(jobs: Iterable[_Item], pods: Iterable[_Item], listed: Sequence[_Item]) -> Iterator[Node]:
    """Yield the TensorBoards of a run, by their Jobs and the pods that serve, each with its Service among `listed`."""
    by_name: dict[str, list[_Item]] = {}
    for item in pods:
        if name := (item["metadata"].get("labels") or {}).get(manifests.NAME):
            by_name.setdefault(name, []).append(item)
    for job in jobs:
        meta = job["metadata"]
        conditions = true_conditions(job)
        serving = _serving(by_name.get(meta["name"], []), meta["name"])
        nodes = [pod_node(item, NodeKind.POD, manifests.CONTAINER) for item in by_age(serving)]
        ended = "failed" if "Failed" in conditions else "succeeded" if "Complete" in conditions else ""
        last = nodes[-1] if nodes else None
        yield Node(
            kind=NodeKind.TENSORBOARD,
            name=meta["name"],
            state=ended or (last.state if last else "pending"),
            started=seconds(meta.get("creationTimestamp")),
            ended=seconds((conditions.get("Complete") or conditions.get("Failed") or {}).get("lastTransitionTime")),
            place=last.name if last else "",
            host=last.host if last else "",
            restarts=sum(node.restarts for node in nodes) + max(0, len(nodes) - 1),
            message=(conditions.get("Failed") or {}).get("message")
            or (last.message if last else "" if ended else "it has no pod yet"),
            children=tuple(
                _service(entry)
                for entry in listed
                if _owned(entry, {meta["uid"]}) or entry["metadata"]["name"] == meta["name"]  # Kubeflow's own
            ),
        )


def _serving(pods: Sequence[_Item], name: str) -> Sequence[_Item]:
    """Return those of Kubeflow if there are any: beside them, the pod of the Job only watches the event files."""
    return [item for item in pods if item["metadata"]["labels"].get("app") == name] or pods


def pod_node(item: _Item, kind: NodeKind, container: str) -> Node:
    """Return a pod as a node; `container` is the name of its main container."""
    seen = pod(item, container)
    code = f"exit code {seen.exit_code}" if seen.exit_code else ""
    deleting = "it is being deleted" if seen.deleting else ""
    return Node(
        kind=kind,
        name=seen.name,
        state=seen.state.value,
        started=seen.started or seen.created,
        ended=seen.finished,
        place=seen.name if kind is not NodeKind.POD else "",
        host=seen.node,
        restarts=seen.restarts,
        message=", ".join(filter(None, (code, seen.reason, seen.message, deleting))),
    )


def other_pods(pods: Sequence[_Item], known: frozenset[str]) -> list[Node]:
    """Return the pods of a run that are nothing else in its graph, such as the reader of a volume.

    Args:
        pods: All pods with the label of the run.
        known: The uids of replicas and launchers.
    """
    rest = [
        item
        for item in pods
        if item["metadata"]["uid"] not in known and manifests.NAME not in (item["metadata"].get("labels") or {})
    ]
    return [pod_node(item, NodeKind.POD, _container(item)) for item in by_age(rest)]


def _container(item: _Item) -> str:
    """Return the name of a pod's container that runs its program: of a step, as its engine says; else the first."""
    labels = item["metadata"].get("labels") or {}
    of_step = {objects.container for objects in registry.engine_objects() if objects.pod_label in labels}
    names = [str(container["name"]) for container in (item.get("spec") or {}).get("containers") or []]
    return next((name for name in names if name in of_step), next(iter(names), ""))


def surroundings(api: Api, run: str, jobs: Sequence[ClusterJob], namespace: str) -> Surroundings:
    """Return what exists of a run beside its jobs. What may not be read is a note, not an error.

    Args:
        api: The cluster.
        run: Its id.
        jobs: Its jobs.
        namespace: Where to look if it has none; empty = everywhere.
    """
    reader = _OptionalReader(api)
    spaces = _by_namespace(jobs) or {
        str(item["metadata"]["namespace"]): [] for item in _run_pods(reader, run, namespace)
    }
    graphs = [_in_namespace(reader, run, space, namespace_jobs) for space, namespace_jobs in spaces.items()]
    return Surroundings(
        pipelines=[node for around in graphs for node in around.pipelines],
        launchers={identity: node for around in graphs for identity, node in around.launchers.items()},
        parts={identity: nodes for around in graphs for identity, nodes in around.parts.items()},
        others=[node for around in graphs for node in around.others],
        notes=list(dict.fromkeys(reader.notes)),
    )


def _by_namespace(jobs: Iterable[ClusterJob]) -> dict[str, list[ClusterJob]]:
    spaces: dict[str, list[ClusterJob]] = {}
    for job in jobs:
        spaces.setdefault(job.status.namespace, []).append(job)
    return spaces


class _OptionalReader:
    """Sends requests whose failure leaves something out.

    Attributes:
        notes: What could not be read.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.notes: list[str] = []

    def items(self, what: str, resource: Resource, namespace: str, **selectors: str) -> list[dict[str, Any]]:
        """Return the selected objects; none if they cannot be listed."""
        try:
            return list(self.api.iterate(resource, namespace, **selectors))
        except ApiError as error:
            self.notes.append(f"{what} cannot be read: {error}")
            return []


def _in_namespace(reader: _OptionalReader, run: str, namespace: str, jobs: Sequence[ClusterJob]) -> Surroundings:
    run_pods = _run_pods(reader, run, namespace)
    component = ",".join(f"{key}={value}" for key, value in COMPONENT.items())
    boards = reader.items("TensorBoards", JOBS, namespace, labelSelector=f"{_run_label(run)},{component}")
    listed = reader.items("Services", SERVICES, namespace)
    references = list(filter(None, map(_reference, jobs))) or _references_of(run_pods)
    run_objects = _run_objects(reader, namespace, references)
    launchers = {job.status.identity: node for job in jobs if (node := _launcher(job, run_objects))}
    step_pods = [item for run_object in run_objects.values() for item in run_object.pods]
    known = {item["metadata"]["uid"] for item in step_pods} | {pod.pod.uid for job in jobs for pod in job.pods}
    return Surroundings(
        pipelines=[node for run_object in run_objects.values() for node in _pipeline(run, namespace, run_object, jobs)],
        launchers=launchers,
        parts={
            job.status.identity: [*services(job.kind, job.item, listed), *volumes(job.kind, job.item)] for job in jobs
        },
        others=[*tensorboards(boards, run_pods, listed), *other_pods(run_pods, frozenset(known))],
    )


def _run_label(run: str) -> str:
    return f"{RUN_ID}={label_value(run)}"


def _run_pods(reader: _OptionalReader, run: str, namespace: str) -> list[dict[str, Any]]:
    return reader.items("The pods of the run", PODS, namespace, labelSelector=_run_label(run))


# --- the objects of runs and the launchers


class _EngineRun(msgspec.Struct, frozen=True):
    """An object of the run, such as a Workflow, with jobs of it.

    Attributes:
        objects: The description of its kind.
        name: Its name.
        item: The object; None = it is gone, or may not be read.
        missing: Why `item` is None: `gone`, or a note.
        steps: Its steps with a pod, by path.
        pods: The pods of its steps that still exist.
        pods_known: Whether the pods could be listed.
    """

    objects: EngineObjects
    name: str
    item: _Item | None
    missing: str
    steps: Mapping[str, Step]
    pods: Sequence[_Item]
    pods_known: bool


class _ObjectReference(msgspec.Struct, frozen=True):
    """What a job tells of the object of its run; `uid` empty = any object of that name."""

    objects: EngineObjects
    name: str
    uid: str = ""


def _reference(job: ClusterJob) -> _ObjectReference | None:
    """Return the object of the run of a job; None = it has none. A job that is kept for a retry has another owner."""
    policy, owners = retention_policy(job.item), job.item["metadata"].get("ownerReferences") or []
    kinds = registry.engine_objects()
    for objects in kinds:
        if reference := objects.reference_in(owners):
            return _ObjectReference(objects, str(reference["name"]), str(reference["uid"]))
    named = ((objects, objects.run_name(policy.launcher)) for objects in kinds if policy.kept_until is not None)
    return next((_ObjectReference(objects, name) for objects, name in named if name), None)


def _references_of(pods: Iterable[_Item]) -> list[_ObjectReference]:
    """Return the objects of the run of these pods, of steps that have no job."""
    labels = [item["metadata"].get("labels") or {} for item in pods]
    kinds = registry.engine_objects()
    named = [(objects, of_pod.get(objects.pod_label)) for of_pod in labels for objects in kinds]
    return [_ObjectReference(objects, name) for objects, name in named if name]


def _run_objects(
    reader: _OptionalReader, namespace: str, references: Iterable[_ObjectReference]
) -> dict[str, _EngineRun]:
    by_name: dict[str, _ObjectReference] = {}
    for reference in references:
        if reference.uid or reference.name not in by_name:
            by_name[reference.name] = reference
    return {name: _run_object(reader, namespace, reference) for name, reference in by_name.items()}


def _run_object(reader: _OptionalReader, namespace: str, reference: _ObjectReference) -> _EngineRun:
    """Read the object of a run and the pods of its steps."""
    before, objects, name, uid = len(reader.notes), reference.objects, reference.name, reference.uid
    kind = objects.resource.kind
    # a list, because the Role of launchers, which notebooks may share, has no `get`
    listed = reader.items(f"{kind} {name}", objects.resource, namespace, fieldSelector=f"metadata.name={name}")
    unread = len(reader.notes) > before
    item = next((item for item in listed if uid in ("", item["metadata"]["uid"])), None)
    if item is None and not unread:
        reader.notes.append(f"{kind} {name} is gone, with its pods.")
    elif item is not None and (unreadable := objects.unreadable_steps(item)):
        reader.notes.append(unreadable)
    before = len(reader.notes)
    selector = f"{objects.pod_label}={name}" if len(name) <= _LABEL_LENGTH else objects.pod_label
    pods = reader.items("The launchers' pods", PODS, namespace, labelSelector=selector)
    return _EngineRun(
        objects=objects,
        name=name,
        item=item,
        missing="" if item is not None else "not readable" if unread else "gone",
        steps={step.path: step for step in objects.steps(item)} if item is not None else {},
        pods=by_age([pod for pod in pods if objects.step_of(pod)]),
        pods_known=len(reader.notes) == before,
    )


def _pipeline(run: str, namespace: str, run_object: _EngineRun, jobs: Iterable[ClusterJob]) -> list[Node]:
    launched = {retention_policy(job.item).launcher for job in jobs}
    node = (
        Node(kind=NodeKind.PIPELINE, name=run_object.name, state="gone" if run_object.missing == "gone" else "")
        if run_object.item is None
        else registry.pipeline_node(run_object.objects, run_object.item, launched)
    )
    return [msgspec.structs.replace(node, links=pipeline_links(run, namespace, run_object.name))]


def _launcher(job: ClusterJob, run_objects: Mapping[str, _EngineRun]) -> Node | None:
    """Return the launcher of a job: its pod, or what became of it; None = nothing is known of it."""
    reference = _reference(job)
    run_object = run_objects.get(reference.name) if reference else None
    if run_object is None:
        return recorded_launcher(job.status)
    policy = retention_policy(job.item)
    step = run_object.steps.get(policy.launcher)
    pods = [item for item in run_object.pods if run_object.objects.step_of(item) == policy.launcher]
    if pods:
        node = pod_node(pods[-1], NodeKind.LAUNCHER, _container(pods[-1]))
        return msgspec.structs.replace(node, restarts=step.node.restarts if step else len(pods) - 1)
    if step:
        return _without_pod(step.node, pods_known=run_object.pods_known)
    gone = run_object.pods_known and not policy.reported  # Argo may delete the pods of ended steps
    message = f"step {policy.launcher} has no pod" if run_object.pods_known else f"step {policy.launcher}"
    return Node(kind=NodeKind.LAUNCHER, name="", state="gone" if gone else "", message=message)


def _without_pod(step: Node, *, pods_known: bool) -> Node:
    """Return a launcher that has no pod, after its step: Argo or a user may delete the pods of ended steps."""
    node = msgspec.structs.replace(step, kind=NodeKind.LAUNCHER, name=step.place)
    if not pods_known or step.state in (_ENDED | {"pending"}):
        return node
    why = f"its pod {step.place} was deleted"
    more = f": {step.message}" if step.message not in ("", "pod deleted") else ""
    return msgspec.structs.replace(node, name="", state="gone", message=why + more)


def failed_pipelines(api: Api, namespace: str, jobs: Iterable[ClusterJob]) -> list[PipelineRecord]:
    """Return the runs with a launcher that failed and without a job, the oldest first.

    The templates for Argo label the pods of launchers. Under Kubeflow Pipelines a launcher labels its own, if it may:
    without a step once it has a job, which may be deleted since, as by `tfsteps stop`.

    Args:
        api: The cluster.
        namespace: Where to look; empty = everywhere.
        jobs: All that exist there.
    """
    known = {label_value(job.status.identity.run) for job in jobs} | {job.run_object for job in jobs}
    records = [record for objects in registry.engine_objects() for record in _failed(api, namespace, objects, known)]
    return sorted(records, key=lambda record: record.created)


def _failed(api: Api, namespace: str, objects: EngineObjects, known: AbstractSet[str]) -> Iterator[PipelineRecord]:
    """Yield the failed runs with such an object, except those whose run label or name is `known`."""
    runs: dict[tuple[str, str], list[_Item]] = {}
    try:
        for pod in api.iterate(PODS, namespace, labelSelector=f"{RUN_ID},{objects.pod_label}"):
            labels = pod["metadata"].get("labels") or {}
            run, name = labels.get(RUN_ID, ""), labels.get(objects.pod_label, "")
            if labels.get(STEP, "launch") in _LAUNCHERS and known.isdisjoint((run, name)):
                runs.setdefault((run, name), []).append(pod)
    except ApiError as error:
        if error.status not in (403, 404):
            raise
    for (run, name), pods in runs.items():
        if record := _record(run, name, by_age(pods), objects):
            yield record


def _record(run: str, run_object: str, pods: Sequence[_Item], objects: EngineObjects) -> PipelineRecord | None:
    """Return how a run ended by its launchers' pods; None = one may still run, or none failed."""
    newest = {objects.step_of(pod): pod for pod in pods}
    nodes = [pod_node(pod, NodeKind.LAUNCHER, _container(pod)) for pod in newest.values()]
    failed = next((node for node in nodes if node.state == "failed"), None)
    if failed is None or any(node.state not in ("failed", "succeeded") for node in nodes):
        return None
    created = min(node.started or 0.0 for node in nodes)
    return PipelineRecord(
        run=run,
        pipeline=objects.pipeline_name(run_object),
        state=State.FAILED,
        message=_last_words(newest.values(), failed),
        created=created,
        ended=max(node.ended or created for node in nodes),
        run_object=run_object,
        engine=registry.engine_of(objects, objects.step_of(pods[-1])),
        demo=mark_of(pods[-1]),
    )


def _last_words(pods: Iterable[_Item], failed: Node) -> str:
    """Return what the launcher that failed wrote as its termination message; else what its pod shows."""
    item = next(pod for pod in pods if pod["metadata"]["name"] == failed.name)
    for container in (item.get("status") or {}).get("containerStatuses") or []:
        ended = (container.get("state") or {}).get("terminated") or {}
        if container["name"] == _container(item) and (text := str(ended.get("message") or "").strip()):
            return text.splitlines()[-1]
    return failed.message


def triggers(api: Api, namespace: str) -> dict[str, str]:
    """Return manual, scheduled or `UNKNOWN` by the name of a run's object; what was not found is not known either.

    Args:
        api: The cluster.
        namespace: Where to look; empty = everywhere. Runs of one name that differ are not known.
    """
    run_triggers: dict[str, set[str]] = {}
    for objects in registry.engine_objects():
        try:
            for item in api.iterate(objects.resource, namespace):
                run_triggers.setdefault(item["metadata"]["name"], set()).add(objects.trigger_of(item) or UNKNOWN)
        except ApiError as error:
            if error.status not in (403, 404):
                raise
            if error.status == 403:
                warn(f"what started the runs is not known, without the permission to list {objects.resource.plural}")
    return {name: values.pop() if len(values) == 1 else UNKNOWN for name, values in run_triggers.items()}
