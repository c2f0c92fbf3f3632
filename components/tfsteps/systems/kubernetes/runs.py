"""The jobs of all runs on a cluster, found by their labels: whoever started them, and from wherever."""

import datetime as dt
import functools
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from tfsteps.cluster.api import Api, ApiError, Resource
from tfsteps.cluster.logs import PODS, Position, read_log
from tfsteps.cluster.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.identity import MANAGED_BY, PREFIX, label_value
from tfsteps.records import Status
from tfsteps.systems.base import State
from tfsteps.systems.kubernetes.kind import Kind
from tfsteps.systems.kubernetes.status import JobPod, job_pods, status
from tfsteps.systems.kubernetes.tracker import STOPPED

_EVENTS = Resource("v1", "events", "Event")
_LABELS = [f"{PREFIX}{name}" for name in ("run-id", "task", "attempt")]
_QUEUE = 2000
News = queue.Queue[Any]


class Job(msgspec.Struct, frozen=True):
    """One job on the cluster, as it was when it was looked at."""

    kind: Kind
    item: Mapping[str, Any]
    pods: Sequence[JobPod]
    status: Status

    def deleted(self, *, stopped: bool = False) -> "Job":
        """Return the same job, now that its object is gone: `stopped`, or as it says itself."""
        if self.status.state.terminal:
            return self
        stopped = stopped or STOPPED in (self.item["metadata"].get("annotations") or {})
        state, reason = (State.CANCELLED, "Stopped") if stopped else (State.LOST, "Deleted")
        message = "" if stopped else "The job was deleted by somebody, or its time to live was over."
        gone = msgspec.structs.replace(self.status, state=state, reason=reason, message=message, ended=time.time())
        return msgspec.structs.replace(self, status=gone)


class Runs:
    """What has been launched on one cluster.

    Attributes:
        api: The cluster.
        namespace: Where to look; empty = everywhere.
    """

    def __init__(self, api: Api, kinds: Sequence[Kind], namespace: str) -> None:
        """Look for jobs of `kinds`; nothing is asked yet."""
        self.api = api
        self.namespace = namespace
        self._kinds = kinds

    @property
    def where(self) -> str:
        """For messages: `in namespace ml of minikube`."""
        return f"in {f'namespace {self.namespace}' if self.namespace else 'any namespace'} of {self.api.access.name}"

    def jobs(self, run: str = "") -> list[Job]:
        """Return the jobs of a run, or of all of them if it is empty, the oldest first.

        Raises:
            ApiError: They cannot be listed; 404 if the cluster knows none of their kinds.
        """
        found, unknown = [], None
        for kind in self._kinds:
            try:
                listed = self.api.list(kind.resource, self.namespace, labelSelector=_selector(run))
            except ApiError as error:
                if error.status != 404:
                    raise
                unknown = ApiError(f"{self.api.access.name} has no {kind.resource.plural}: install their operator", 404)
            else:
                found += [(kind, item) for item in listed.get("items") or []]
        if unknown and not found:
            raise unknown
        pods = self.api.list(PODS, self.namespace, labelSelector=_selector(run)) if found else {}
        return _jobs(found, pods.get("items") or [])

    def follow(self, run: str, news: News | None = None) -> Iterator[Any]:
        """Yield the jobs of a run whenever one of them changes, and what others put into `news`, for ever.

        Raises:
            ApiError: They cannot be watched.
        """
        news = queue.Queue(_QUEUE) if news is None else news
        items: dict[Resource, dict[str, Mapping[str, Any]]] = {}
        for resource in [PODS, *(kind.resource for kind in self._kinds)]:

            def put(seen: Seen, resource: Resource = resource) -> None:
                news.put((resource, seen))

            Watch(self.api, resource, self.namespace, put, labelSelector=_selector(run))
        while True:
            match news.get():
                case Resource() as resource, (Listed() | Changed() | Deleted() | Refused()) as seen:
                    _take(items.setdefault(resource, {}), seen)
                    if len(items) > len(self._kinds):  # all are listed
                        found = [(kind, item) for kind in self._kinds for item in items[kind.resource].values()]
                        yield _jobs(found, items[PODS].values())
                case other:
                    yield other

    def events(self, job: Job) -> list[tuple[str, dict[str, Any]]]:
        """Return the events of a job and all its pods, also of those that are gone, by time, the newest last."""
        name, namespace = job.status.job, job.status.namespace
        listed = self.api.list(_EVENTS, namespace)["items"]
        about = [each for each in listed if f"{each['involvedObject'].get('name')}-".startswith(f"{name}-")]
        return sorted(((_event_time(each), each) for each in about), key=itemgetter(0))

    def log(
        self, job: Job, each: JobPod, position: Position | None = None, *, tail: int | None = None
    ) -> Iterator[tuple[float, bytes]]:
        """Yield what a replica has printed so far, of its last restart too; nothing of what is gone.

        Args:
            job: Which.
            each: One of its pods.
            position: Where to go on from; it is moved on. None = the beginning.
            tail: The last lines only, as many as this; None = all.
        """
        if each.pod.started is None:
            return
        read = functools.partial(read_log, self.api, job.status.namespace, each.pod.name, job.kind.container)
        position = position or Position()
        for previous in (True, False) if each.pod.restarts else (False,):
            try:
                yield from read(position, tail=tail, previous=previous)
            except ApiError as error:
                if error.status not in (400, 404):  # 400: there is no container yet, or not any more
                    raise

    def stop(self, job: Job, *, now: bool = False) -> None:
        """Delete a job and with it its pods, unless another object has its name by now.

        Args:
            job: Which.
            now: Without the pods' grace period.
        """
        resource, who = job.kind.resource, job.status
        note = {"uid": who.uid, "annotations": {STOPPED: dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}}
        try:
            self.api.patch(resource, who.namespace, who.job, {"metadata": note})  # its launcher is to know why
        except ApiError as error:
            if error.status not in (403, 404, 409):
                raise
        self.api.delete(resource, who.namespace, who.job, who.uid)
        for each in job.pods if now else ():
            self._kill(who.namespace, each)

    def _kill(self, namespace: str, each: JobPod) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": each.pod.uid}}
        try:
            self.api.request("DELETE", PODS.path(namespace, each.pod.name), {}, body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def left(self, job: Job) -> list[JobPod]:
        """Return the pods of a job that are still there."""
        uids = {each.pod.uid for each in job.pods}
        selector = ",".join(f"{label}={job.item['metadata']['labels'][label]}" for label in _LABELS)
        listed = self.api.list(PODS, job.status.namespace, labelSelector=selector)
        return [each for each in job_pods(job.kind, listed.get("items") or []) if each.pod.uid in uids]


def _event_time(event: Mapping[str, Any]) -> str:
    """Return when an event was seen last, as the API writes times; they sort by it."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return str(next((at for at in times if at), event["metadata"]["creationTimestamp"]))


def _selector(run: str) -> str:
    labels = {**MANAGED_BY, **({_LABELS[0]: label_value(run)} if run else {})}
    return ",".join([*(f"{key}={value}" for key, value in labels.items()), *_LABELS[bool(run) :]])


def _jobs(found: Sequence[tuple[Kind, Mapping[str, Any]]], pods: Any) -> list[Job]:
    """Join jobs and pods by what both are labelled with."""
    now = time.time()
    by_owner: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for item in pods:
        by_owner.setdefault(_key(item), []).append(item)
    jobs = []
    for kind, item in found:
        own = job_pods(kind, by_owner.get(_key(item), []))
        jobs.append(Job(kind, item, own, status(kind, item, own, now)))
    return sorted(jobs, key=lambda job: (job.status.created, job.status.identity.attempt))


def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
    meta = item["metadata"]
    return (meta["namespace"], *(meta["labels"].get(label, "") for label in _LABELS))


def _take(items: dict[str, Mapping[str, Any]], seen: Seen) -> None:
    match seen:
        case Listed(items=listed):
            items.clear()
            items.update({item["metadata"]["uid"]: item for item in listed})
        case Changed(item=item):
            items[item["metadata"]["uid"]] = item
        case Deleted(item=item):
            items.pop(item["metadata"]["uid"], None)
        case Refused(status=404):  # a cluster without this kind
            items.clear()
        case Refused(error=error, status=code):
            raise ApiError(error, code)
