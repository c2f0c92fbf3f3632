"""One pass over the jobs of a namespace or of a cluster: a few lists, and a deletion for each thing that is due.

A pass over another cluster deletes the jobs there whose Workflow on this cluster has ended or is gone: nothing there
can tell that.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.engines.engine_objects import AbandonedRuns
from tfsteps.engines.registry import EngineRuns, owner_of
from tfsteps.janitor.rules import FOR_EVER, DefaultRetention, Due, Reason, due
from tfsteps.kube.answers import CUT
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import PODS, Resource, metadata_of
from tfsteps.runs.demo import mark_of
from tfsteps.runs.events import ReplicaName, replicas_of
from tfsteps.runs.identity import ATTEMPT, MANAGED_BY, RUN_ID, TASK
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.cleanup.retention import home_of, owned_by_run
from tfsteps.systems.kubernetes.dependents import apply
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.job_pods import JOB_PODS
from tfsteps.systems.kubernetes.ownership import OwnerIndex, Owners

_LABELS = (RUN_ID, TASK, ATTEMPT)
_OURS = ",".join([*(f"{key}={value}" for key, value in MANAGED_BY.items()), *_LABELS])
_KEPT = ("namespace", "name", "uid", "labels", "creationTimestamp", "deletionTimestamp", "ownerReferences")
_Item = Mapping[str, Any]

_PATIENCE_SECONDS = 5.0  # a cluster that does not answer must not delay the jobs of this one
_LONGEST_SECONDS = 60.0  # for one cluster; the next pass continues


class Count(msgspec.Struct):
    """What a pass did.

    Attributes:
        jobs: How many were looked at.
        due: How many of those, or of their pods, were to be deleted or stopped.
        failures: How many actions failed; each was reported.
        demos: How many jobs were kept although something was due, because they are demos.
        served: How many kinds of job the cluster serves.
        what: What was looked at.
        act: What is done with it.
        deletions: How many objects this pass has deleted or stopped, by kind and reason.
        undeleted: The uids of the jobs that were due and could not be deleted or stopped.
    """

    jobs: int = 0
    due: int = 0
    failures: int = 0
    demos: int = 0
    served: int = 0
    what: str = "jobs"
    act: str = "deletions"
    deletions: dict[tuple[str, Reason], int] = msgspec.field(default_factory=dict)
    undeleted: set[str] = msgspec.field(default_factory=set)

    def deleted(self, kind: str, reason: Reason) -> None:
        """Count a deletion."""
        self.deletions[kind, reason] = self.deletions.get((kind, reason), 0) + 1

    def __str__(self) -> str:
        """Return it as people read it."""
        failed = f", {self.failures} failed" if self.failures else ""
        kept = f", {self.demos} kept as demos" if self.demos else ""
        return f"{self.jobs} {self.what} looked at, {self.due} {self.act} due{kept}{failed}"


class PlatformSweep(Protocol):
    """What `tfsteps.systems.plugin.Platform.sweep` is: makes ready to clean up the jobs of a platform."""

    def __call__(
        self, api: Api, namespace: str, say: Callable[[str], object], *, dry_run: bool
    ) -> Callable[[], Count] | None:
        """Return what makes one pass and counts what it did; None = this process has no address of the platform.

        Failures are reported and counted, and left to the next pass.

        Args:
            api: The cluster, whose Workflows may have left jobs; its `stopping` ends a pass by `Stopped`.
            namespace: Only jobs of its Workflows are judged by their Workflow; empty = those of every namespace.
            say: Receives a line for each action, and for each failure.
            dry_run: Only report what is due.

        Raises:
            AccessError: The address or a credential cannot be used.
        """


class Sweep:
    """One pass. What is asked of the cluster more than once is kept until its end.

    Each due job is read again before it is deleted.

    Ages are computed by the API server's clock, not by this process's. Each deletion names the uid of an object that
    was read a moment ago. So a second pass at the same time is harmless: that the object is gone is no failure.
    """

    _UNSEEN: frozenset[int] = frozenset({404})  # the statuses of lists of kinds that are not looked at

    def __init__(
        self,
        api: Api,
        kinds: Sequence[JobKind],
        namespace: str,
        say: Callable[[str], object],
        *,
        default: DefaultRetention = FOR_EVER,
        dry_run: bool = False,
    ) -> None:
        """Get ready.

        Args:
            api: The cluster.
            kinds: Of the jobs to look at.
            namespace: Where; empty = everywhere.
            say: Receives a line for each action, and for each failure.
            default: The retention of ended jobs without `keep_for`.
            dry_run: Only report what is due.
        """
        self.count = Count()
        self._api, self._kinds, self._namespace = api, kinds, namespace
        self._say, self._default, self._dry_run = say, default, dry_run
        self._has_clock = True
        self._runs: AbandonedRuns = EngineRuns(api, namespace)
        self._owner_index = OwnerIndex(api, namespace)

    def run(self) -> Count:
        """Do all that is due, and report each action in a line; failures are reported, and left to the next pass."""
        for kind in self._kinds:
            try:
                listed = self._api.iterate(kind.resource, self._namespace, labelSelector=_OURS)
                for item in kind.group_objects(item for item in listed if self._is_sound(kind.resource, item)):
                    self._look(kind, item)
                self.count.served += 1
            except ApiError as error:
                if error.status not in self._UNSEEN:
                    self._failed(f"{kind.resource.plural} cannot be listed", error)
        return self.count

    def _is_sound(self, resource: Resource, item: Any) -> bool:
        """Tell whether an object is valid; report it if not. An object that cannot be read is not deleted."""
        try:
            where = metadata_of(item).namespace
            if CUT in item:
                raise ValueError(f"values were {item[CUT]}")  # noqa: TRY301
            if self._namespace not in ("", where):
                raise ValueError(f"it is of namespace {where}, which was not asked for")  # noqa: TRY301
        except ValueError as error:
            self._failed(f"{_name(resource, item)} is not understood", error)
            return False
        return True

    # --- one job

    def _look(self, kind: JobKind, item: _Item) -> None:
        """Do what is due for a job, if it still is due when it is read again: the list may be minutes old."""
        self.count.jobs += 1
        try:
            if self._due(kind, item, self._runs, lambda: bool(self._own(kind, item, self._all_pods))):
                self.count.undeleted.add(item["metadata"]["uid"])
                self._confirm(kind, item)
                self.count.undeleted.remove(item["metadata"]["uid"])
        except ApiError as error:
            self._failed(_name(kind.resource, item), error)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  a job object may have any content
            self._failed(f"{_name(kind.resource, item)} is not understood", error)

    def _due(self, kind: JobKind, item: _Item, runs: AbandonedRuns, has_pods: Callable[[], bool]) -> Due | None:
        why = functools.partial(runs.why_abandoned, owned_by_run(item))
        action = due(kind, item, self._now(), why_abandoned=why, has_pods=has_pods, default=self._default)
        if action and mark_of(item):
            self.count.demos += 1
            return None
        return action

    def _now(self) -> float:
        """Return the API server's time; -inf if it is not known, by which no time has passed."""
        now = self._api.server_time()
        if now is None and self._has_clock:
            self._has_clock = False
            self._failed("ages of jobs are not known", ValueError("the API server's answers have no header Date"))
        return -math.inf if now is None else now

    def _confirm(self, kind: JobKind, listed: _Item) -> None:
        """Do what is due for a job as it is now."""
        meta = listed["metadata"]
        selectors = kind.watch_selector(meta["name"])
        selectors["labelSelector"] = ",".join([_OURS, *filter(None, [selectors.get("labelSelector")])])
        candidates = self._api.iterate(kind.resource, meta["namespace"], **selectors)
        sound = [item for item in candidates if self._is_sound(kind.resource, item)]
        item = next((item for item in kind.group_objects(sound) if item["metadata"]["uid"] == meta["uid"]), None)
        if item is None:
            return
        runs = self._current_runs(listed)
        pods = functools.cache(lambda: self._pods(kind, item))
        if now := self._due(kind, item, runs, lambda: bool(pods())):
            self._do(kind, item, now, pods)

    def _current_runs(self, listed: _Item) -> AbandonedRuns:
        """Return the run of a job as it is now."""
        owner = owner_of(owned_by_run(listed))
        return EngineRuns(self._api, listed["metadata"]["namespace"], owner.name if owner else "")

    def _do(self, kind: JobKind, item: _Item, action: Due, pods: Callable[[], list[_Item]]) -> None:
        if action.what == "job":
            self._delete(kind.resource, item, action)
            return
        if not self._dry_run:  # else the pods of parameter servers would come back
            apply(self._api, kind.stop_stragglers(item), item["metadata"]["namespace"], item["metadata"]["uid"])
        for pod in pods():
            self._delete(PODS, pod, action, of=f"{_name(kind.resource, item)}: ")

    def _delete(self, resource: Resource, item: _Item, action: Due, *, of: str = "") -> None:
        """Delete an object and report it; `of` names the job whose pod it is. Another janitor may be faster."""
        self.count.due += 1
        if self._dry_run:
            done = "would be deleted"
        elif self._delete_once(resource, item["metadata"]):
            self.count.deleted(resource.kind, action.reason)
            done = "deleted"
        else:
            done = "is already gone or was changed"
        self._say(f"{_name(resource, item)} {done}: {of}{action.why}")

    def _delete_once(self, resource: Resource, meta: Mapping[str, Any]) -> bool:
        """Tell whether this request deleted the object; after a conflict the next pass reads the object again."""
        try:
            return self._api.delete(resource, meta["namespace"], meta["name"], meta["uid"])
        except ApiError as error:
            if error.status != 409:
                raise
            return False

    def _failed(self, what: str, error: Exception) -> None:
        self.count.failures += 1
        self._say(f"{what}: {error}")

    # --- pods

    @functools.cached_property
    def _all_pods(self) -> dict[tuple[str, ...], list[_Item]]:
        """The metadata of all jobs' pods, by what they and their job are labelled with."""
        pods: dict[tuple[str, ...], list[_Item]] = {}
        for pod in self._api.iterate(JOB_PODS, self._namespace, labelSelector=_OURS):
            if self._is_sound(PODS, pod):
                metadata = {key: pod["metadata"][key] for key in _KEPT if key in pod["metadata"]}
                pods.setdefault(_key(pod), []).append({"metadata": metadata})
        return pods

    def _pods(self, kind: JobKind, item: _Item) -> list[_Item]:
        """Return the pods of a job as they are now."""
        meta = item["metadata"]
        selector = f"{_OURS},{kind.selector(meta['name'])}"
        listed = self._api.iterate(JOB_PODS, meta["namespace"], labelSelector=selector)
        return self._own(kind, item, {_key(item): [pod for pod in listed if self._is_sound(PODS, pod)]})

    def _own(self, kind: JobKind, item: _Item, pods: Mapping[tuple[str, ...], list[_Item]]) -> list[_Item]:
        """Return the replicas of a job that are not being deleted: of its labels, and owned by it."""
        candidates = [pod for pod in pods.get(_key(item), []) if "deletionTimestamp" not in pod["metadata"]]
        if not candidates:
            return []
        owners, replicas = self._owner_index.owners(kind, item, candidates), replicas_of(kind.roles(item).items())
        return [pod for pod in candidates if self._is_replica(kind, pod, owners, replicas)]

    def _is_replica(self, kind: JobKind, pod: _Item, owners: Owners, replicas: Sequence[ReplicaName]) -> bool:
        meta = pod["metadata"]
        try:
            control = owners.control(meta)
            if control.unknown:
                self._failed(f"whether {_name(PODS, pod)} is its job's is not known", ValueError(control.why))
            return control.yes and bool(kind.replica(meta, replicas))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self._failed(f"{_name(PODS, pod)} is not understood", error)
            return False


def _key(item: _Item) -> tuple[str, ...]:
    meta = item["metadata"]
    return (meta["namespace"], *((meta.get("labels") or {}).get(label, "") for label in _LABELS))


def _name(resource: Resource, item: Any) -> str:
    meta = item.get("metadata") if isinstance(item, dict) else None
    namespace, name = (meta.get(key, "?") for key in ("namespace", "name")) if isinstance(meta, dict) else "??"
    return f"{resource.kind} {namespace}/{name}"


def sweep_others(home: Api, namespace: str, say: Callable[[str], object], *, dry_run: bool) -> Iterator[Count]:
    """Make a pass over each cluster that the settings of a namespace name, and yield what it did.

    Failures are reported and counted. A cluster that does not answer, or not in time, is left to the next pass.

    Args:
        home: This cluster, whose Workflows launched the jobs.
        namespace: The namespace of the Workflows and of the settings.
        say: Receives a line for each action, and for each failure.
        dry_run: Only report what is due.
    """
    clusters = JobCluster(namespace=namespace, patience=_PATIENCE_SECONDS, home=home)
    clusters.stopping = home.stopping
    try:
        names = clusters.defined(registry.options())
    except (LaunchError, SpecError) as error:
        say(f"The other clusters are not known: {error}")
        yield Count(failures=1)
        return
    if clusters.warning:
        say(f"The other clusters are not known: {clusters.warning}")
        yield Count(failures=1)
    try:
        uid = home.namespace_uid(namespace) if names else ""
        why = "this account may not `get` it"
    except ApiError as error:
        uid, why = "", str(error)
    if names and not uid:
        say(f"Other clusters are skipped: the uid of namespace {namespace}, which its jobs name, is not known: {why}")
        yield Count(failures=1)
        return
    for name in names:
        count = Count(failures=1, what=f"jobs of this cluster on cluster {name}")
        try:
            sweep = _OtherCluster(clusters.other(name), _HomeRuns(home, namespace, uid), name, say, dry_run=dry_run)
            count = sweep.count
            sweep.run()
        except (LaunchError, _SkippedError) as error:
            say(f"Cluster {name} is skipped until the next pass: {error}")
        yield count


class _SkippedError(Exception):
    """The pass over a cluster ends early; it was counted."""


class _HomeRuns:
    """The runs of this cluster, for jobs on others. An `AbandonedRuns`."""

    def __init__(self, home: Api, namespace: str, uid: str) -> None:
        self._home, self._namespace, self._uid = home, namespace, uid
        self._runs = EngineRuns(home, namespace)

    def again(self) -> "_HomeRuns":
        """Return the same, with nothing of what it has read."""
        return _HomeRuns(self._home, self._namespace, self._uid)

    def owns(self, item: Mapping[str, Any]) -> Answer:
        """Tell whether a job was launched from this namespace of this cluster."""
        home = home_of(item)
        if home is None or home.namespace != self._namespace or home.namespace_uid not in ("", self._uid):
            return NO
        return YES if home.namespace_uid else unknown("it does not say from which cluster it was launched")

    def why_abandoned(self, item: Mapping[str, Any]) -> str:
        """Return it as for a job that is here, and is owned by what its annotation names."""
        home = home_of(item)
        if home is None or not home.owner or not self.owns(item).yes:
            return ""
        meta = {**item["metadata"], "namespace": home.namespace, "ownerReferences": [home.owner]}
        return self._runs.why_abandoned({**item, "metadata": meta})

    def why_step_ended(self, namespace: str, name: str, uid: str, step: str) -> str:
        return self._runs.why_step_ended(namespace, name, uid, step)


class _OtherCluster(Sweep):
    """A pass over the jobs on another cluster that were launched from a namespace of this one.

    Only their owner matters, which is on this cluster. Their times are the matter of a janitor there.
    """

    _UNSEEN = frozenset({403, 404})  # the account of launchers may see the kinds that they create

    def __init__(
        self,
        api: Api,
        runs: _HomeRuns,
        name: str,
        say: Callable[[str], object],
        *,
        dry_run: bool,
    ) -> None:
        super().__init__(
            api, registry.kinds(), api.access.namespace, lambda line: say(f"Cluster {name}: {line}"), dry_run=dry_run
        )
        self.count.what = f"jobs of this cluster on cluster {name}"
        self._give_up = time.monotonic() + _LONGEST_SECONDS
        self._runs: _HomeRuns = runs
        self._unclaimed = 0

    def run(self) -> Count:
        count = super().run()
        if self._unclaimed:
            self._say(f"{self._unclaimed} jobs may be of this cluster: they do not name it, and end by their deadlines")
        if not count.served:
            self._failed(
                "its jobs are not known", ValueError("it serves no supported job kind that this account may list")
            )
        return count

    def _look(self, kind: JobKind, item: Mapping[str, Any]) -> None:
        if time.monotonic() > self._give_up:
            self.count.failures += 1
            raise _SkippedError(f"the pass over it took longer than {_LONGEST_SECONDS:.0f} s")
        owns = self._runs.owns(item)
        self._unclaimed += owns.unknown
        if owns.yes:
            super()._look(kind, item)

    def _now(self) -> float:
        return -math.inf  # nothing is due because of its age

    def _current_runs(self, _listed: Mapping[str, Any]) -> AbandonedRuns:
        return self._runs.again()

    def _failed(self, what: str, error: Exception) -> None:
        super()._failed(what, error)
        if isinstance(error, ApiError) and error.unavailable:
            raise _SkippedError(str(error))
