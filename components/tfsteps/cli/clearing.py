"""What `tfsteps clear` removes in each place: on a cluster, on HAI, and of this machine's records."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from tfsteps.backends.kubernetes.backend import cluster
from tfsteps.backends.place import On, Place
from tfsteps.backends.waiting import POLL_SECONDS
from tfsteps.console.messages import say
from tfsteps.engines.argo.workflow import WORKFLOWS, end_of
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.platforms.hai.backend import HaiBackend, hai
from tfsteps.platforms.hai.runs import HaiRun, stop_task
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.clear import RunObject, RunObjects

_GONE_SECONDS = 120.0  # for controllers and grace periods of pods


class Clearing(Protocol):
    """What a run has in one place."""

    def lines(self) -> list[str]:
        """Return a line for each thing that `clear` removes; empty = there is nothing."""

    def warnings(self) -> list[str]:
        """Return why something may come back or remain."""

    def clear(self) -> list[str]:
        """Remove everything and wait until it is gone; return why something is left, empty = nothing is."""


@contextlib.contextmanager
def clearing(place: Place, run: str) -> Iterator[Clearing]:
    """Yield what a run has on a cluster or HAI. CommandError if that place cannot be asked."""
    if place.on is On.HAI:
        with hai() as backend:
            yield _HaiClearing(backend, run)
        return
    with cluster(place) as runs:
        yield _ClusterClearing(runs.api, runs.namespace, run, place)


class _ClusterClearing:
    """The objects of a run in a namespace."""

    def __init__(self, api: Api, namespace: str, run: str, place: Place) -> None:
        self._api, self._place = api, place
        self._objects = RunObjects(api, registry.kinds(), namespace, run)
        self._items = self._objects.list()

    def lines(self) -> list[str]:
        return [str(item) for item in self._items]

    def warnings(self) -> list[str]:
        warnings = []
        if self._objects.unseen:
            warnings.append(f"not looked for, without the permission to list them: {', '.join(self._objects.unseen)}")
        owners = {
            (item.namespace, owner["name"], owner["uid"])
            for item in self._items
            for owner in item.owners
            if (owner["apiVersion"], owner["kind"]) == (WORKFLOWS.api, WORKFLOWS.kind)
        }
        return [*warnings, *(text for owner in sorted(owners) if (text := self._workflow(*owner)))]

    def _workflow(self, namespace: str, name: str, uid: str) -> str:
        """Return a warning about a Workflow that may still run; empty = it has ended."""
        try:
            if end_of(self._api.get(WORKFLOWS, namespace, name), uid):
                return ""
            runs = "still runs, and would start its next step"
        except ApiError as error:
            if error.missing:
                return ""
            runs = f"may still run ({error})"
        patch = """{"spec":{"shutdown":"Stop"}}"""
        stop = self._place.kubectl(namespace, "patch", "workflow", name, "--type", "merge", "--patch", patch)
        return f"Workflow {namespace}/{name} {runs}; stop it first: {stop}"

    def clear(self) -> list[str]:
        tried: set[str] = set()
        errors: list[str] = []
        give_up, waiting = time.monotonic() + _GONE_SECONDS, ""
        while items := self._objects.list():
            for item in items:
                if not item.deleting and item.uid not in tried:
                    tried.add(item.uid)
                    errors += self._deleted(item)
            left = [item for item in items if item.deleting or item.uid in tried]
            if errors or time.monotonic() > give_up:
                return [*errors, *([] if errors else [f"{item} is still being deleted" for item in left])]
            now = f"waiting for {left[0]}" + (f" and {len(left) - 1} more" if left[1:] else "")
            if now != waiting and tried and all(item.deleting for item in items):
                say(now)
                waiting = now
            time.sleep(POLL_SECONDS)
        return errors

    def _deleted(self, item: RunObject) -> list[str]:
        try:
            self._objects.delete(item)
        except ApiError as error:
            return [f"{item} could not be deleted: {error}"]
        return []


class _HaiClearing:
    """The tasks of a run on HAI, which keeps its own record of ended tasks."""

    def __init__(self, backend: HaiBackend, run: str) -> None:
        self._backend = backend
        jobs: Sequence[HaiRun] = backend.jobs(run) if run else []
        self._jobs = [job for job in jobs if not job.status.state.terminal]
        self._ended = len(jobs) - len(self._jobs)

    def lines(self) -> list[str]:
        return [f"task {job.status.job} on HAI" for job in self._jobs]

    def warnings(self) -> list[str]:
        workflows = sorted({job.workflow for job in self._jobs if job.workflow})
        warnings = [
            f"Workflow {name} may still run, and would start its next step; stop it first" for name in workflows
        ]
        if self._ended:
            warnings.append(f"HAI keeps its own record of {self._ended} ended tasks; it cannot be removed")
        return warnings

    def clear(self) -> list[str]:
        errors = []
        stopped = []
        for job in self._jobs:
            try:
                stop_task(self._backend.runs.client, job.task)
                stopped.append(job)
            except ApiError as error:
                errors.append(f"task {job.status.job} could not be stopped: {error}")
        give_up = time.monotonic() + _GONE_SECONDS
        for job in stopped:
            while not self._backend.runs.refreshed(job).status.state.terminal:
                if time.monotonic() > give_up:
                    errors.append(f"task {job.status.job} is still being stopped")
                    break
                time.sleep(POLL_SECONDS)
        return errors
