"""One pass over the jobs of a namespace or of a cluster: a few lists, and a deletion for each thing that is due."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.cluster.api import Api, ApiError, Resource
from tfsteps.cluster.logs import PODS
from tfsteps.identity import ATTEMPT, MANAGED_BY, RUN_ID, TASK
from tfsteps.janitor.rules import Due, due, end_of, owner_of
from tfsteps.systems.kubernetes.host import WORKFLOWS, step_of
from tfsteps.systems.kubernetes.kind import Kind, replicas_of
from tfsteps.systems.kubernetes.parts import apply
from tfsteps.systems.kubernetes.upkeep import upkeep

_LABELS = (RUN_ID, TASK, ATTEMPT)
_OURS = ",".join([*(f"{key}={value}" for key, value in MANAGED_BY.items()), *_LABELS])
_STEPS = {  # the pods of Workflows that are not over
    "labelSelector": "workflows.argoproj.io/workflow",
    "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
}
_Item = Mapping[str, Any]


class Count(msgspec.Struct):
    """What a pass did.

    Attributes:
        jobs: How many were looked at.
        due: How many objects were to be deleted.
        failures: How many things could not be done; each was said.
        served: How many kinds of job the cluster knows.
    """

    jobs: int = 0
    due: int = 0
    failures: int = 0
    served: int = 0

    def __str__(self) -> str:
        """Return it as people read it."""
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.jobs} jobs looked at, {self.due} deletions due{failed}"


class Sweep:
    """One pass. What is asked of the cluster more than once is kept until its end."""

    def __init__(
        self, api: Api, kinds: Sequence[Kind], namespace: str, say: Callable[[str], object], *, dry_run: bool = False
    ) -> None:
        """Get ready.

        Args:
            api: The cluster.
            kinds: Of the jobs to look at.
            namespace: Where; empty = everywhere.
            say: Takes a line for each thing that is done, or cannot be.
            dry_run: Only say what is due.
        """
        self.count = Count()
        self._api, self._kinds, self._namespace = api, kinds, namespace
        self._say, self._dry_run = say, dry_run
        self._ends: dict[str, str] = {}  # how a Workflow ends, by its uid

    def run(self) -> Count:
        """Do all that is due, and say each in a line; what fails is said, and left to the next pass."""
        for kind in self._kinds:
            try:
                for item in kind.gather(self._api.each(kind.resource, self._namespace, labelSelector=_OURS)):
                    self._look(kind, item)
                self.count.served += 1
            except ApiError as error:
                if error.status != 404:  # a cluster without this kind
                    self._failed(f"{kind.resource.plural} cannot be listed", error)
        return self.count

    # --- one job

    def _look(self, kind: Kind, item: _Item) -> None:
        self.count.jobs += 1
        try:
            found = due(
                kind,
                item,
                time.time(),
                left=functools.partial(self._left, item),
                has_pods=lambda: any(self._pods(kind, item)),
            )
            if found:
                self._do(kind, item, found)
        except ApiError as error:
            self._failed(_name(kind.resource, item), error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # Who may write job objects may write any nonsense; it must not keep us from the jobs of all others.
            self._failed(f"{_name(kind.resource, item)} is not understood", error)

    def _left(self, item: _Item) -> str:
        """Return why nobody will come for a job, as far as its Workflow tells; empty = somebody may."""
        owner = owner_of(item)
        node = upkeep(item).launcher
        if owner is None or (owner["uid"], node) in self._steps:
            return ""
        end = self._end(item["metadata"]["namespace"], owner)
        return f"its Workflow {owner['name']} {end} and {node or 'its launcher'} has no pod" if end else ""

    def _do(self, kind: Kind, item: _Item, found: Due) -> None:
        if found.what == "job":
            self._delete(kind.resource, item, found.why)
            return
        if not self._dry_run:  # else the pods of parameter servers would come back
            apply(self._api, kind.conclude(item), item["metadata"]["namespace"], item["metadata"]["uid"])
        for pod in self._pods(kind, item):
            self._delete(PODS, pod, f"{_name(kind.resource, item)}: {found.why}")

    def _delete(self, resource: Resource, item: _Item, why: str) -> None:
        self.count.due += 1
        meta = item["metadata"]
        if not self._dry_run:
            self._api.delete(resource, meta["namespace"], meta["name"], meta["uid"])
        done = "would be deleted" if self._dry_run else "deleted"
        self._say(f"{_name(resource, item)} {done}: {why}")

    def _failed(self, what: str, error: Exception) -> None:
        self.count.failures += 1
        self._say(f"{what}: {error}")

    # --- what is asked of the cluster

    @functools.cached_property
    def _steps(self) -> set[tuple[str, str]]:
        """The steps that have a pod: the uid of the Workflow, and the node."""
        found = set()
        for pod in self._api.each(PODS, self._namespace, **_STEPS):
            if owner := owner_of(pod):
                found.add((owner["uid"], step_of(pod)))
        return found

    def _end(self, namespace: str, owner: Mapping[str, str]) -> str:
        uid = owner["uid"]
        if uid not in self._ends:
            try:
                workflow = self._api.get(WORKFLOWS, namespace, owner["name"])
            except ApiError as error:
                if not error.missing:
                    raise
                workflow = None
            self._ends[uid] = end_of(workflow, uid)
        return self._ends[uid]

    @functools.cached_property
    def _all_pods(self) -> dict[tuple[str, ...], list[_Item]]:
        """The metadata of all jobs' pods that are not being deleted, by what they and their job are labelled with."""
        found: dict[tuple[str, ...], list[_Item]] = {}
        for pod in self._api.each(PODS, self._namespace, labelSelector=_OURS):
            meta = pod["metadata"]
            if "deletionTimestamp" not in meta:
                kept = {key: meta[key] for key in ("namespace", "name", "uid", "labels")}
                found.setdefault(_key(pod), []).append({"metadata": kept})
        return found

    def _pods(self, kind: Kind, item: _Item) -> list[_Item]:
        """Return the replicas of a job."""
        pods = self._all_pods.get(_key(item), [])
        replicas = replicas_of(kind.roles(item))
        return [pod for pod in pods if kind.replica(pod["metadata"], replicas)]


def _key(item: _Item) -> tuple[str, ...]:
    meta = item["metadata"]
    return (meta["namespace"], *(meta["labels"][label] for label in _LABELS))


def _name(resource: Resource, item: _Item) -> str:
    return f"{resource.kind} {item['metadata']['namespace']}/{item['metadata']['name']}"
