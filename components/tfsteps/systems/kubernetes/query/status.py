"""Derives the status of an attempt from a job object and its pods, for commands that did not follow it. Pure."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from tfsteps.kube.watch import Listed
from tfsteps.runs.events import Event, JobChanged, ReplicaChanged, ReplicaName, replicas_of
from tfsteps.runs.identity import PREFIX, Identity
from tfsteps.runs.location import Location
from tfsteps.runs.status import Incarnations, ReplicaStatus, Status
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy
from tfsteps.systems.kubernetes.follow.pods import Pod, pod
from tfsteps.systems.kubernetes.follow.tracker import Tracker
from tfsteps.systems.kubernetes.job_kind import DEPENDENTS, JobKind, RoleSpec
from tfsteps.systems.kubernetes.output_folders import NOWHERE
from tfsteps.systems.kubernetes.ownership import Owners
from tfsteps.systems.kubernetes.tensorboard.request import URL
from tfsteps.systems.kubernetes.times import job_ended, seconds


class JobPod(msgspec.Struct, frozen=True):
    """A pod of a job.

    Attributes:
        replica: Its replica.
        pod: Its parsed state.
        created: When it was created, in seconds since the epoch.
        ended: When its container ended for good; None = it has not.
        item: The object.
    """

    replica: ReplicaName
    pod: Pod
    created: float
    ended: float | None
    item: Mapping[str, Any]


def job_pods(kind: JobKind, job: Mapping[str, Any], items: Iterable[Mapping[str, Any]], owners: Owners) -> list[JobPod]:
    """Return the pods among `items` that are replicas of a job object, by replica, the newest of each last.

    Args:
        kind: The job's.
        job: The job object.
        items: Pods.
        owners: What controls the job's pods.
    """
    result, replicas = [], replicas_of(kind.roles(job).items())
    for item in items:
        replica = kind.replica(item["metadata"], replicas)
        if replica is not None and owners.control(item["metadata"]).yes:
            seen = pod(item, kind.container)
            result.append(JobPod(replica, seen, seen.created or 0.0, seen.finished if seen.ended else None, item))
    return sorted(result, key=attrgetter("replica", "created"))


def status(
    kind: JobKind, item: Mapping[str, Any], pods: Sequence[JobPod], now: float, task: str = "", *, undecided: str = ""
) -> Status:
    """Return the status of a job, without a failure summary, which needs the log.

    Args:
        kind: Of the job.
        item: The job object.
        pods: Its pods, as `job_pods` gives them.
        now: Seconds since the epoch.
        task: The displayed name of its task; empty = as in the replicas' variables.
        undecided: As `Tracker` has it.
    """
    meta, roles = item["metadata"], kind.roles(item)
    created = seconds(meta["creationTimestamp"]) or now
    tracker = Tracker(kind, item, replicas_of(roles.items()), created)
    tracker.undecided = undecided
    events = _events(tracker, item, pods, now)
    change = [event for event in events if isinstance(event, JobChanged)][-1]
    env = _env(kind, roles)
    lost = env.get("TFSTEPS_OUTPUT_DIR", "").startswith(f"{NOWHERE}/")
    replicas = [ReplicaStatus(role=name.role, index=name.index) for name in replicas_of(roles.items())]
    incarnations = Incarnations(replicas)
    for event in events:
        if isinstance(event, ReplicaChanged):
            incarnations.apply(event)
    return Status(
        identity=_identity(item, env, task),
        job=meta["name"],
        uid=meta["uid"],
        namespace=meta["namespace"],
        system=kind.name,
        location=Location.KUBERNETES,
        decisive_replica="chief-0" if "chief" in roles else "worker-0",
        state=change.state,
        reason=change.reason,
        message=" ".join(filter(None, (change.message, _keeping(item)))),
        created=created,
        started=incarnations.started,
        ended=job_ended(item) or now if change.state.terminal else None,
        detached=retention_policy(item).detached,
        output="" if lost else env.get("TFSTEPS_OUTPUT_DIR", ""),
        logs="" if lost else env.get("TFSTEPS_LOG_DIR", ""),
        model="" if lost else env.get("TFSTEPS_MODEL_DIR", ""),
        tensorboard_url=(meta.get("annotations") or {}).get(URL, ""),
        replicas=replicas,
    )


def _keeping(item: Mapping[str, Any]) -> str:
    """Return until when a job waits for another launcher, as a sentence; empty = it is not kept."""
    policy = retention_policy(item)
    if policy.kept_until is None:
        return ""
    time = dt.datetime.fromtimestamp(policy.kept_until, dt.UTC).isoformat(timespec="seconds")
    what = "another try of the step" if policy.kept_for_try else "a retry of the run"
    return f"Its launcher was evicted; it is kept until {time} for {what}."


def _events(tracker: Tracker, item: Mapping[str, Any], pods: Sequence[JobPod], now: float) -> list[Event]:
    """Return the events that a launcher would report for the job and its pods now; the job's end comes last."""
    events = [
        *tracker.seen_pod(Listed([dict(job_pod.item) for job_pod in pods]), now),
        *tracker.job(Listed([dict(item), *item.get(DEPENDENTS, ())]), now),
    ]
    if tracker.final:
        events += [*tracker.stop_remaining(now, running=False), tracker.last()]
    return events


def _identity(item: Mapping[str, Any], env: Mapping[str, str], task: str) -> Identity:
    """Return the identity of a job, from the replicas' variables: a label may hold a shortened and hashed text."""
    labels = item["metadata"].get("labels") or {}
    attempt = labels.get(f"{PREFIX}attempt", "")
    return Identity(
        run=env.get("TFSTEPS_RUN_ID") or labels.get(f"{PREFIX}run-id", ""),
        task=task or env.get("TFSTEPS_TASK") or labels.get(f"{PREFIX}task", ""),
        attempt=int(attempt) if attempt.isdigit() else 0,
        pipeline=labels.get(f"{PREFIX}pipeline", ""),
    )


def _env(kind: JobKind, roles: Mapping[Any, RoleSpec]) -> dict[str, str]:
    """Return the variables that all replicas share, unescaped."""
    for role in roles.values():
        for container in role.template["spec"]["containers"]:
            if container["name"] == kind.container:
                return {
                    variable["name"]: variable.get("value", "").replace("$$(", "$(")
                    for variable in container.get("env") or []
                }
    return {}
