"""What `tfsteps debug` shows of a job on a cluster."""

import datetime as dt
import functools
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tfsteps.backends.base import Section
from tfsteps.backends.place import Place
from tfsteps.console.text import local_time
from tfsteps.runs.events import ReplicaState
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns
from tfsteps.systems.kubernetes.render.command_wrapper import has_code, shell_beside

_EVENTS = 30  # the newest are the ones that matter


def sections(runs: ClusterRuns, job: ClusterJob) -> Iterator[Section]:
    """Yield the conditions of the job object, the pods that wait, and the newest events."""
    conditions = job.item.get("status", {}).get("conditions") or []
    rows = [(condition.get("lastTransitionTime", ""), condition) for condition in conditions]
    yield "conditions", [[_local(at), f"{item['type']}={item['status']}", *_why(item)] for at, item in rows]
    waiting = [job_pod for job_pod in job.pods if job_pod.pod.state is ReplicaState.PENDING and job_pod.pod.message]
    yield "waiting", [[str(job_pod.replica), job_pod.pod.reason, job_pod.pod.message] for job_pod in waiting]
    events = runs.events(job)[-_EVENTS:]
    yield "events", [[_local(at), event["type"], _object(event), *_why(event)] for at, event in events]


def commands(job: ClusterJob, place: Place) -> list[str]:
    """Return a shell in a replica that runs, or what is known of one that does not; and what is known of the job."""
    status, container = job.status, job.kind.container
    kubectl = functools.partial(place.kubectl, status.namespace)
    running = [job_pod for job_pod in job.pods if job_pod.pod.state is ReplicaState.RUNNING]
    lines = [kubectl("describe", job.kind.resource.plural, status.job)]
    if running:
        shell = shell_beside(job.kind.shell, code=has_code(running[0].item))
        lines.insert(0, kubectl("exec", "-it", running[0].pod.name, "-c", container, "--", *shell))
    elif job.pods:
        lines.insert(0, kubectl("describe", "pod", job.pods[0].pod.name))
    if restarted := [job_pod for job_pod in job.pods if job_pod.pod.restarts]:
        lines.append(kubectl("logs", "--previous", restarted[0].pod.name, "-c", container))
    follow = [] if status.state.terminal else ["--follow"]
    return [*lines, shlex.join(["tfsteps", "logs", status.identity.run, *follow]) + place.options]


def _why(item: Mapping[str, Any]) -> tuple[str, str]:
    return item.get("reason") or "", item.get("message") or ""


def _object(event: Mapping[str, Any]) -> str:
    about, count = event["involvedObject"], event.get("count") or 1
    return f"{about['kind'].lower()}/{about['name']}" + (f" (x{count})" if count > 1 else "")


def _local(stamp: str) -> str:
    return local_time(dt.datetime.fromisoformat(stamp).timestamp()) if stamp else ""
