"""What belongs to a job or to its run beside the replicas, as nodes of the run's graph. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfsteps.runs.graph import Node, NodeKind
from tfsteps.systems.kubernetes.follow.pods import pod
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, JobKind, true_conditions
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.times import by_age, seconds

_SOURCES = {
    "persistentVolumeClaim": ("claim", "claimName"),
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "hostPath": ("path of the node", "path"),
    "nfs": ("NFS export", "path"),
    "emptyDir": ("empty directory", "medium"),
}
_Item = Mapping[str, Any]


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
            message=(conditions.get("Failed") or {}).get("message") or (last.message if last else "it has no pod yet"),
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
    return [pod_node(item, NodeKind.POD, _main(item)) for item in by_age(rest)]


def _main(item: _Item) -> str:
    """Return the name of a pod's main container: of Argo's, else its first."""
    names = [str(container["name"]) for container in (item.get("spec") or {}).get("containers") or []]
    return "main" if "main" in names else next(iter(names), "")
