"""Removes what the jobs of a run left on a cluster, found by their labels. Needs to list and delete the job objects."""

from collections.abc import Mapping
from typing import Any

from tfsteps.cluster.api import Api, ApiError
from tfsteps.cluster.logs import PODS
from tfsteps.identity import ATTEMPT, MANAGED_BY, RUN_ID, TASK, label_value
from tfsteps.systems.base import LaunchError, OnEnd, State
from tfsteps.systems.kubernetes.kind import PARTS, Kind
from tfsteps.systems.kubernetes.parts import apply
from tfsteps.systems.kubernetes.upkeep import upkeep


class Finalizer:
    """The jobs of one kind in one namespace."""

    def __init__(self, api: Api, kind: Kind, namespace: str) -> None:
        """Ask nothing yet."""
        self._api, self._kind, self._namespace = api, kind, namespace

    def clean_up(self, run: str, labels: Mapping[str, str], on_end: OnEnd | None) -> list[str]:
        """Remove what is left, and return the names of the jobs that something was removed of.

        Args:
            run: The run.
            labels: What the jobs have besides; empty = all of the run.
            on_end: The policy for those that have ended; None = each job's own.

        Raises:
            LaunchError: We may not, or the API server does not answer.
        """
        selected = {**MANAGED_BY, RUN_ID: label_value(run), **labels}
        try:
            return [item["metadata"]["name"] for item in self._jobs(selected) if self._remove(item, on_end)]
        except ApiError as error:
            where = f"in namespace {self._namespace}"
            if error.status == 403:
                what = f"{self._kind.resource.plural}.{self._kind.resource.api.partition('/')[0]}"
                needs = f"this step needs to list and delete {what} and pods {where}: bind a Role of manifests/base"
                raise LaunchError(f"{needs} to its ServiceAccount ({error})", retryable=False) from error
            raise LaunchError(f"what is left {where} is not known: {error}", retryable=error.unavailable) from error

    def _jobs(self, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the jobs with these labels that are not being deleted; none where the cluster has no such kind."""
        try:
            found = self._api.each(self._kind.resource, self._namespace, labelSelector=_selector(labels))
            items = list(self._kind.gather(found))
        except ApiError as error:
            if error.status == 404:
                return []
            raise
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def _remove(self, item: Mapping[str, Any], on_end: OnEnd | None) -> bool:
        """Remove what is to go of one job; tell whether there was anything."""
        meta, state = item["metadata"], self._kind.verdict(item).state
        policy = on_end or upkeep(item).on_end or ("delete_pods" if state is State.SUCCEEDED else "keep")
        if policy == "delete" or not state.terminal:
            self._api.delete(self._kind.resource, self._namespace, meta["name"], meta["uid"])
            return True
        apply(self._api, self._kind.conclude(item), self._namespace, meta["uid"])
        return policy == "delete_pods" and self._remove_pods(item)

    def _remove_pods(self, job: Mapping[str, Any]) -> bool:
        selector = self._kind.selector(job["metadata"]["name"])
        found = self._api.each(PODS, self._namespace, labelSelector=selector)
        pods = [item["metadata"] for item in found]
        own = [each for each in pods if "deletionTimestamp" not in each and self._is_of(each, job)]
        for each in own:
            self._api.delete(PODS, self._namespace, each["name"], each["uid"])
        return bool(own)

    def _is_of(self, pod: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
        """Tell whether a pod is this job's, and not of an earlier one that had its name."""
        owners = {owner["uid"]: owner["kind"] for owner in pod.get("ownerReferences") or []}
        if self._kind.resource.kind in owners.values():
            return any(part["metadata"]["uid"] in owners for part in (job, *job.get(PARTS, ())))
        theirs, own = pod.get("labels") or {}, job["metadata"]["labels"]  # its owner is one of the operator's making
        return all(theirs.get(key) == own.get(key) for key in (RUN_ID, TASK, ATTEMPT))


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
