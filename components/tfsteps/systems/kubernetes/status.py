"""From a job object and its pods to the status of an attempt, for those who did not follow it. Pure."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from tfsteps.cluster.watch import Listed
from tfsteps.identity import PREFIX, Identity
from tfsteps.records import ReplicaStatus, Span, Status
from tfsteps.systems.base import JobChanged, Replica, ReplicaState, State
from tfsteps.systems.kubernetes.kind import PARTS, Kind, RoleSpec, replicas_of
from tfsteps.systems.kubernetes.pods import Pod, pod
from tfsteps.systems.kubernetes.tracker import Tracker


class JobPod(msgspec.Struct, frozen=True):
    """A pod of a job.

    Attributes:
        replica: Whose.
        pod: What it says.
        created: When it was made, in seconds since the epoch.
        ended: When its container ended for good; None = it has not.
        item: The object.
    """

    replica: Replica
    pod: Pod
    created: float
    ended: float | None
    item: Mapping[str, Any]


def job_pods(kind: Kind, job: Mapping[str, Any], items: Iterable[Mapping[str, Any]]) -> list[JobPod]:
    """Return the pods among `items` that are replicas of a job object, by replica, the newest of each last."""
    found, replicas = [], replicas_of(kind.roles(job))
    for item in items:
        replica = kind.replica(item["metadata"], replicas)
        if replica is not None:
            seen = pod(item, kind.container)
            created = _seconds(item["metadata"]["creationTimestamp"]) or 0.0
            found.append(JobPod(replica, seen, created, _ended(item, kind.container) if seen.ended else None, item))
    return sorted(found, key=attrgetter("replica", "created"))


def status(kind: Kind, item: Mapping[str, Any], pods: Sequence[JobPod], now: float) -> Status:
    """Return how a job stands. Without a digest, for that takes the log.

    Args:
        kind: Of the job.
        item: The job object.
        pods: Its pods, as `job_pods` gives them.
        now: Seconds since the epoch.
    """
    meta, roles = item["metadata"], kind.roles(item)
    created = _seconds(meta["creationTimestamp"]) or now
    change = _state(kind, item, pods, created, now)
    env = _env(kind, roles)
    names = replicas_of(roles)
    replicas = [_replica(name, [each for each in pods if each.replica == name], change.state) for name in names]
    starts = [replica.spans[0].started for replica in replicas if replica.spans]
    return Status(
        identity=_identity(meta.get("labels") or {}, env),
        job=meta["name"],
        uid=meta["uid"],
        namespace=meta["namespace"],
        system=kind.name,
        deciding="chief-0" if "chief" in roles else "worker-0",
        state=change.state,
        reason=change.reason,
        message=change.message,
        created=created,
        started=max(starts) if len(starts) == len(names) else None,
        ended=job_ended(item) or now if change.state.terminal else None,
        output=env.get("TFSTEPS_OUTPUT_DIR", ""),
        logs=env.get("TFSTEPS_LOG_DIR", ""),
        model=env.get("TFSTEPS_MODEL_DIR", ""),
        replicas=replicas,
    )


def _state(kind: Kind, item: Mapping[str, Any], pods: Sequence[JobPod], created: float, now: float) -> JobChanged:
    """Return what a launcher would say that sees the job and its pods now."""
    tracker = Tracker(kind, item, replicas_of(kind.roles(item)), created)
    events = [
        *tracker.seen_pod(Listed([dict(each.item) for each in pods]), now),
        *tracker.job(Listed([dict(item), *item.get(PARTS, ())]), now),
    ]
    said = [event for event in events if isinstance(event, JobChanged)]
    return tracker.final or said[-1]


def _identity(labels: Mapping[str, str], env: Mapping[str, str]) -> Identity:
    """Return whose job it is: as the replicas are told it, for a label may hold a cut and hashed text."""
    attempt = labels.get(f"{PREFIX}attempt", "")
    return Identity(
        run=env.get("TFSTEPS_RUN_ID") or labels.get(f"{PREFIX}run-id", ""),
        task=env.get("TFSTEPS_TASK") or labels.get(f"{PREFIX}task", ""),
        attempt=int(attempt) if attempt.isdigit() else 0,
        pipeline=labels.get(f"{PREFIX}pipeline", ""),
    )


def _env(kind: Kind, roles: Mapping[Any, RoleSpec]) -> dict[str, str]:
    """Return the variables that all replicas share, unescaped."""
    for role in roles.values():
        for container in role.template["spec"]["containers"]:
            if container["name"] == kind.container:
                return {each["name"]: each.get("value", "").replace("$$(", "$(") for each in container.get("env") or []}
    return {}


def _replica(name: Replica, pods: Sequence[JobPod], state: State) -> ReplicaStatus:
    """Return a replica with one incarnation for each of its pods that started."""
    replica = ReplicaStatus(role=name.role, index=name.index)
    if not pods:  # cleaned up, or not made yet
        replica.state = ReplicaState.STOPPED if state.terminal else ReplicaState.PENDING
        return replica
    replica.state = pods[-1].pod.state
    replica.restarts = pods[-1].pod.restarts + len(pods) - 1
    replica.spans = [_span(each) for each in pods if each.pod.started is not None or each is pods[-1]]
    return replica


def _span(each: JobPod) -> Span:
    seen = each.pod
    return Span(
        started=seen.started or each.created,
        ended=each.ended,
        state=seen.state,
        exit_code=seen.exit_code,
        reason=seen.reason,
        place=f"{seen.name} on {seen.node}" if seen.node else seen.name,
    )


# --- times


def _ended(item: Mapping[str, Any], container: str) -> float | None:
    """Return when a pod's container ended; None where the kubelet did not say it."""
    listed = item.get("status", {}).get("containerStatuses") or []
    ends = [each.get("state", {}).get("terminated", {}) for each in listed if each["name"] == container]
    return _seconds(ends[0].get("finishedAt")) if ends else None


def job_ended(item: Mapping[str, Any]) -> float | None:
    """Return when an ended job ended: what it says, or when it went into its last condition."""
    said = item.get("status", {})
    conditions = [each for each in said.get("conditions") or [] if each.get("status") == "True"]
    times = [said.get("completionTime"), *(each.get("lastTransitionTime") for each in conditions)]
    return max((at for text in times if (at := _seconds(text))), default=None)


def _seconds(text: str | None) -> float | None:
    return dt.datetime.fromisoformat(text).timestamp() if text else None
