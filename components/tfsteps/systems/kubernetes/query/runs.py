"""The jobs of all runs on a cluster, selected by their labels, whoever started them."""

import datetime as dt
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.log_lines import Lines, Position
from tfsteps.kube.logs import read_log
from tfsteps.kube.resource import EVENTS, PODS, Resource
from tfsteps.kube.threads import Inbox
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Seen, Watch
from tfsteps.runs.demo import Mark, check_changeable, mark_of
from tfsteps.runs.events import State
from tfsteps.runs.identity import CLUSTER, MANAGED_BY, PREFIX, RUN_ID, label_value
from tfsteps.runs.status import Status
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy
from tfsteps.systems.kubernetes.follow.job_object import STOPPED
from tfsteps.systems.kubernetes.follow.pods import Container
from tfsteps.systems.kubernetes.follow.warning_events import concerns, event_time
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.job_pods import JOB_PODS
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.query.status import JobPod, job_pods, status
from tfsteps.systems.pipeline import FindOrigin

_LABELS = [f"{PREFIX}{name}" for name in ("run-id", "task", "attempt")]
_UNSEEN = {403, 404}  # a kind that we may not list, or that the cluster does not serve


class ClusterJob(msgspec.Struct, frozen=True):
    """A snapshot of one job on the cluster.

    Attributes:
        kind: Of the job object.
        item: The job object.
        pods: Its pods.
        status: The status by both.
        run_object: The name of the object of its run, such as a Workflow; empty = none.
    """

    kind: JobKind
    item: Mapping[str, Any]
    pods: Sequence[JobPod]
    status: Status
    run_object: str

    @property
    def demo(self) -> Mark | None:
        return mark_of(self.item)

    @property
    def without_pods(self) -> list[str]:
        """The replicas that have no pod any more; empty until the job has ended."""
        if not self.status.state.terminal:
            return []
        with_pods = {str(job_pod.replica) for job_pod in self.pods}
        return [replica.name for replica in self.status.replicas if replica.name not in with_pods]

    def check_changeable(self) -> None:
        """Raise DemoError if it must not be deleted or changed."""
        check_changeable(self.kind.resource, self.item)

    def deleted(self, *, stopped: bool = False) -> "ClusterJob":
        """Return the same job after its object was deleted: as `stopped`, or by its annotations."""
        if self.status.state.terminal:
            return self
        stopped = stopped or STOPPED in (self.item["metadata"].get("annotations") or {})
        state, reason = (State.CANCELLED, "Stopped") if stopped else (State.LOST, "Deleted")
        message = "" if stopped else "The job object was deleted; by whom is not known."
        gone = msgspec.structs.replace(self.status, state=state, reason=reason, message=message, ended=time.time())
        return msgspec.structs.replace(self, status=gone)


class ClusterRuns:
    """The jobs of all runs on one cluster.

    Attributes:
        api: The cluster.
        namespace: Where to look; empty = everywhere.
        not_understood: The job objects that the last `jobs` left out, since their content is not what their kind has:
            `JobSet ml/mnist-abc`. Whether they have ended is not known.
    """

    def __init__(
        self,
        api: Api,
        kinds: Sequence[JobKind],
        namespace: str,
        find_origin: FindOrigin,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Keep the arguments; no request is sent.

        Args:
            api: The cluster.
            kinds: The kinds of jobs to list.
            namespace: Where to look; empty = everywhere.
            find_origin: Returns the task and the Workflow of a job.
            warn: Takes a sentence about each job that is not understood, and each pod that may be a job's; each once.
        """
        self.api = api
        self.namespace = namespace
        self._kinds = kinds
        self._find_origin = find_origin
        self._warn = functools.cache(warn)
        self._owner_index = OwnerIndex(api, namespace)
        self.not_understood: list[str] = []

    @property
    def where(self) -> str:
        """For messages: `in namespace ml of minikube`."""
        return f"in {f'namespace {self.namespace}' if self.namespace else 'any namespace'} of {self.api.access.name}"

    def jobs(self, run: str = "", labels: Mapping[str, str] | None = None) -> list[ClusterJob]:
        """Return the jobs of a run, or of all runs if it is empty, the oldest first; only those with all `labels`.

        Kinds that the cluster does not serve, or that we may not list, are skipped. Without the permission, a cluster
        answers 403 even if it does not serve the kind.

        Raises:
            ApiError: None of their kinds can be listed.
        """
        job_items, unseen = [], []
        for kind in self._kinds:
            try:
                listed = self.api.list(kind.resource, self.namespace, labelSelector=_selector(run, labels))
            except ApiError as error:
                if error.status not in _UNSEEN:
                    raise
                unseen.append(error)
            else:
                job_items += [(kind, item) for item in kind.group_objects(listed["items"] or [])]
        if len(unseen) == len(self._kinds):
            raise self._blind(unseen)
        pods = self.api.iterate(PODS, self.namespace, labelSelector=_selector(run)) if job_items else ()
        return self._joined(job_items, pods)

    def other_clusters(self, run: str) -> list[str]:
        """Return the other clusters on which launchers of a run have launched jobs, as far as their pods say so."""
        labelled = self.api.list(PODS, self.namespace, labelSelector=f"{RUN_ID}={label_value(run)},{CLUSTER}")["items"]
        return sorted({pod["metadata"]["labels"][CLUSTER] for pod in labelled or []})

    def _joined(
        self, job_items: Sequence[tuple[JobKind, Mapping[str, Any]]], pods: Iterable[Mapping[str, Any]]
    ) -> list[ClusterJob]:
        """Return the jobs with their pods: both have the same labels."""
        now = time.time()
        by_labels: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
        for pod in pods:
            by_labels.setdefault(_key(pod), []).append(pod)
        jobs = []
        self.not_understood = []
        for kind, item in job_items:
            try:
                jobs.append(self._job(kind, item, by_labels.get(_key(item), []), now))
            except (*MALFORMED, ArithmeticError) as error:  # somebody else may have written it
                name = f"{kind.resource.kind} {item['metadata']['namespace']}/{item['metadata']['name']}"
                self._warn(f"{name} is not understood, and left out: {error!r}")
                self.not_understood.append(name)
        return sorted(jobs, key=lambda job: (job.status.created, job.status.identity.attempt))

    def _job(self, kind: JobKind, item: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], now: float) -> ClusterJob:
        """Return a job. One of MALFORMED, or an ArithmeticError, if the object has another shape."""
        own_pods, undecided = self._pods(kind, item, pods)
        origin = self._find_origin(item["metadata"].get("ownerReferences") or [], retention_policy(item).launcher)
        job_status = status(kind, item, own_pods, now, origin.task, undecided=undecided)
        return ClusterJob(kind, item, own_pods, job_status, origin.run_object)

    def _pods(
        self, kind: JobKind, item: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]
    ) -> tuple[list[JobPod], str]:
        """Return the pods among `pods` that are certainly a job's, and a sentence about one that may be, or nothing."""
        owners, undecided = self._owner_index.owners(kind, item, pods), ""
        for pod in pods:
            if (answer := owners.control(pod["metadata"])).unknown:
                name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                undecided = f"Pod {name} is left out; it may be of job {item['metadata']['name']}: {answer.why}"
                self._warn(undecided)
        return job_pods(kind, item, pods, owners), undecided and f"{undecided}."

    def _blind(self, errors: Sequence[ApiError]) -> ApiError:
        """Return the one error that says why no kind of job can be seen."""
        forbidden = next((error for error in errors if error.status == 403), None)
        return forbidden or ApiError(f"{self.api.access.name} serves no supported job kind: install an operator", 404)

    def follow(self, run: str, inbox: Inbox | None = None) -> Iterator[Any]:
        """Yield the jobs of a run after each change, and the items that other code puts into `inbox`, for ever.

        Raises:
            ApiError: They cannot be watched.
        """
        inbox = Inbox() if inbox is None else inbox
        items: dict[Resource, dict[str, Mapping[str, Any]]] = {}
        for resource in [PODS, *(kind.resource for kind in self._kinds)]:

            def put(seen: Seen, resource: Resource = resource) -> None:
                inbox.put((resource, seen))

            selector = _selector(run)
            Watch(self.api, resource, self.namespace, put, believe_first_refusal=True, labelSelector=selector)
        while True:
            match inbox.get():
                case Resource() as resource, (Listed() | Changed() | Deleted() | Refused()) as seen:
                    _take(items.setdefault(resource, {}), seen)
                    if len(items) > len(self._kinds):  # all are listed
                        grouped = [(kind, kind.group_objects(items[kind.resource].values())) for kind in self._kinds]
                        job_items = [(kind, item) for kind, listed in grouped for item in listed]
                        yield self._joined(job_items, items[PODS].values())
                case other:
                    yield other

    def events(self, job: ClusterJob) -> list[tuple[str, dict[str, Any]]]:
        """Return the events of a job and all its pods, including deleted pods, by time, the newest last."""
        name, namespace = job.status.job, job.status.namespace
        about = [event for event in self.api.list(EVENTS, namespace)["items"] or [] if concerns(event, name)]
        return sorted(((event_time(event), event) for event in about), key=itemgetter(0))

    def log(
        self,
        job: ClusterJob,
        job_pod: JobPod,
        position: Position | None = None,
        *,
        tail: int | None = None,
        previous: bool = True,
        current: bool = True,
        container: Container | None = None,
        since: float | None = None,
        rest: bool = True,
    ) -> Iterator[Lines]:
        """Yield the log of a replica so far, from before its last restart too; logs that are gone are skipped.

        Args:
            job: Which.
            job_pod: One of its pods.
            position: Where to start; it is advanced. None = the beginning.
            tail: The last lines only, as many as this; None = all.
            previous: What its container printed before its last restart, if there was one.
            current: What it has printed since then; while it waits for its next start, before that.
            container: Which of its containers; None = the program's.
            since: Only from this second on, in seconds since the epoch; None = all.
            rest: Take an unfinished last line of what it has printed since as a line.
        """
        container = container or next((candidate for candidate in job_pod.pod.containers if not candidate.name), None)
        if container is None:
            return
        name = container.name or job.kind.container
        read = functools.partial(read_log, self.api, job.status.namespace, job_pod.pod.name, name)
        position = position or Position()
        position.restarts = container.restarts
        for earlier in [True] * bool(previous and container.restarts) + [False] * current:
            try:
                start = Position(container.restarts - 1) if earlier else position
                yield from read(start, tail=tail, previous=earlier, since=since, rest=earlier or rest)
            except ApiError as error:
                if error.status not in (400, 404):  # 400: there is no container yet, or not any more
                    raise

    def stop(self, job: ClusterJob, *, now: bool = False) -> None:
        """Delete a job and its pods, unless it was replaced by another object of its name.

        Args:
            job: Which.
            now: Without the pods' grace period.

        Raises:
            DemoError: It is a demo: with its object, its record would be gone.
        """
        job.check_changeable()
        resource, who = job.kind.resource, job.status
        note = {"uid": who.uid, "annotations": {STOPPED: dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}}
        try:
            self.api.patch(resource, who.namespace, who.job, {"metadata": note})  # for its launcher
        except ApiError as error:
            if error.status not in (403, 404, 409):
                raise
        self.api.delete(resource, who.namespace, who.job, who.uid)
        for job_pod in job.pods if now else ():
            self.api.delete(PODS, who.namespace, job_pod.pod.name, job_pod.pod.uid, grace_seconds=0)

    def left(self, job: ClusterJob) -> list[JobPod]:
        """Return the pods of a job that still exist."""
        uids = {job_pod.pod.uid for job_pod in job.pods}
        selector = ",".join(f"{label}={job.item['metadata']['labels'][label]}" for label in (*MANAGED_BY, *_LABELS))
        listed = list(self.api.iterate(JOB_PODS, job.status.namespace, labelSelector=selector))
        own_pods, _ = self._pods(job.kind, job.item, listed)
        return [job_pod for job_pod in own_pods if job_pod.pod.uid in uids]


def _selector(run: str, more: Mapping[str, str] | None = None) -> str:
    labels = {**MANAGED_BY, **({_LABELS[0]: label_value(run)} if run else {})}
    terms = [*labels.items(), *(more or {}).items()]  # a label may occur twice: then both values are required
    return ",".join([*(f"{key}={value}" for key, value in terms), *_LABELS[bool(run) :]])


def _key(item: Mapping[str, Any]) -> tuple[str, ...]:
    meta = item["metadata"]
    return (meta["namespace"], *((meta.get("labels") or {}).get(label, "") for label in _LABELS))


def _take(items: dict[str, Mapping[str, Any]], seen: Seen) -> None:
    match seen:
        case Listed(items=listed):
            items.clear()
            items.update({item["metadata"]["uid"]: item for item in listed})
        case Changed(item=item):
            items[item["metadata"]["uid"]] = item
        case Deleted(item=item):
            items.pop(item["metadata"]["uid"], None)
        case Refused(status=code, retryable=False) if code in _UNSEEN:  # from the first request: no objects
            items.clear()
        case Refused(error=error, status=code, retryable=retryable):
            raise ApiError(error, 0 if retryable else code)
