"""Deletes jobs on other clusters whose Workflow on this cluster has ended or is gone: nothing there can tell that."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfsteps.answer import NO, YES, Answer, unknown
from tfsteps.engines.engine_objects import AbandonedRuns
from tfsteps.engines.registry import EngineRuns
from tfsteps.janitor.sweep import Count, Sweep
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.cleanup.retention import home_of
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.systems.kubernetes.job_kind import JobKind

_PATIENCE_SECONDS = 5.0  # a cluster that does not answer must not delay the jobs of this one
_LONGEST_SECONDS = 60.0  # for one cluster; the next pass continues


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
        say(
            f"Other clusters are left alone: the uid of namespace {namespace}, which its jobs name, is not known: {why}"
        )
        yield Count(failures=1)
        return
    for name in names:
        count = Count(failures=1, what=f"jobs of this cluster on cluster {name}")
        try:
            sweep = _OtherCluster(clusters.other(name), _HomeRuns(home, namespace, uid), name, say, dry_run=dry_run)
            count = sweep.count
            sweep.run()
        except (LaunchError, _LeftAloneError) as error:
            say(f"Cluster {name} is left alone until the next pass: {error}")
        yield count


class _LeftAloneError(Exception):
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
            self._say(f"{self._unclaimed} jobs may be of this cluster: they do not say so, and end by their deadlines")
        if not count.served:
            self._failed("its jobs are not known", ValueError("it serves no kind of job that this account may list"))
        return count

    def _look(self, kind: JobKind, item: Mapping[str, Any]) -> None:
        if time.monotonic() > self._give_up:
            self.count.failures += 1
            raise _LeftAloneError(f"the pass over it took longer than {_LONGEST_SECONDS:.0f} s")
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
            raise _LeftAloneError(str(error))
