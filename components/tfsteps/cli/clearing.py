"""What `tfsteps clear` removes of a run on a cluster, or on a platform."""

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.kubernetes.backend import cluster
from tfsteps.backends.open import open_platform
from tfsteps.backends.platform import PlatformClearing
from tfsteps.backends.waiting import GONE_SECONDS, POLL_SECONDS
from tfsteps.console.messages import say
from tfsteps.engines.engine_objects import EngineObjects
from tfsteps.engines.registry import engine_objects
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.runs.location import Location
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.clear import RunObject, RunObjects


class Clearing(Protocol):
    """What a run has in one place, for `tfsteps clear`."""

    def lines(self) -> list[str]:
        """Return a line for each thing that `clear` removes; empty = there is nothing."""

    def warnings(self) -> list[str]:
        """Return why something may come back or remain."""

    def clear(self) -> list[str]:
        """Remove everything and wait until it is gone; return why something is left, empty = nothing is."""


@contextlib.contextmanager
def clearing(location: BackendLocation, run: str, task: str = "", *, whole_run: bool = False) -> Iterator[Clearing]:
    """Yield what a run has on a cluster or a platform. CommandError if that place cannot be asked.

    Args:
        location: Where to look.
        run: Id of the run.
        task: Only of this task; empty = of all.
        whole_run: Whether the run is the task's own, and has no other.
    """
    if location.on == Location.KUBERNETES:
        with cluster(location) as runs:
            run_objects = RunObjects(
                runs.api,
                registry.kinds(),
                runs.namespace,
                run,
                task,
                of_engine=lambda owners: any(objects.reference_in(owners) for objects in engine_objects()),
                whole_run=whole_run,
            )
            yield _ClusterClearing(runs.api, run_objects, location)
    else:
        with open_platform(location.on) as backend:
            yield PlatformClearing(backend, run, task)


class _ClusterClearing:
    """The objects of a run in a namespace."""

    def __init__(self, api: Api, objects: RunObjects, location: BackendLocation) -> None:
        self._api, self._location = api, location
        self._objects = objects
        self._items = objects.list()

    def lines(self) -> list[str]:
        return [str(item) for item in self._items]

    def warnings(self) -> list[str]:
        warnings = []
        if self._objects.unseen:
            warnings.append(f"not looked for, without the permission to list them: {', '.join(self._objects.unseen)}")
        if self._objects.untold:
            left = ", ".join(map(str, self._objects.untold))
            warnings.append(f"left, since it does not name its task: {left}; without --task, `clear` removes it, too")
        for objects in engine_objects():
            references = [(item.namespace, objects.reference_in(item.owners)) for item in self._items]
            owners = {(namespace, owner["name"], owner["uid"]) for namespace, owner in references if owner}
            warnings += [text for owner in sorted(owners) if (text := self._running(objects, *owner))]
        return warnings

    def _running(self, objects: EngineObjects, namespace: str, name: str, uid: str) -> str:
        """Return a warning about a Workflow, or another engine's run, that may still run; empty = it has ended."""
        kind = objects.resource.kind
        try:
            if objects.end_of(self._api.get(objects.resource, namespace, name), uid):
                return ""
            runs = "still runs, and would start its next step"
        except ApiError as error:
            if error.missing:
                return ""
            runs = f"may still run ({error})"
        patch = "--type", "merge", "--patch", objects.stop_patch
        stop = self._location.kubectl(namespace, "patch", kind.lower(), name, *patch)
        return f"{kind} {namespace}/{name} {runs}; stop it first: {stop}"

    def clear(self) -> list[str]:
        tried: set[str] = set()
        errors: list[str] = []
        give_up, waiting = time.monotonic() + GONE_SECONDS, ""
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
