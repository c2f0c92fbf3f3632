"""Cleans up the jobs of a run on a cluster, selected by labels. Needs to list and delete the job objects."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tfsteps.answer import Answer
from tfsteps.kube.answers import MALFORMED
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.runs.events import State
from tfsteps.runs.identity import ATTEMPT, MANAGED_BY, RUN_ID, label_value
from tfsteps.systems.base import REPORT_SECONDS, LaunchError, OnEnd, clean_up_all
from tfsteps.systems.kubernetes.cleanup.retention import RetentionPolicy, retention_policy
from tfsteps.systems.kubernetes.dependents import apply
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.job_pods import JOB_PODS
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.permissions import how_to_grant


class Finalizer:
    """The jobs of one kind in one namespace."""

    def __init__(self, api: Api, kind: JobKind, namespace: str, *, optional: bool = False) -> None:
        """Keep the arguments; no request is sent. An `optional` kind that may not be listed has no jobs."""
        self._api, self._kind, self._namespace = api, kind, namespace
        self._optional = optional

    def clean_up(self, run: str, selects: Callable[[RetentionPolicy], Answer], on_end: OnEnd | None) -> list[str]:
        """Clean up, unfinished jobs first, and return the names of the jobs of which something was removed.

        Args:
            run: The run.
            selects: Returns whether to clean up a job, by its annotations.
            on_end: The policy for ended jobs; None = each job's own.

        Raises:
            LaunchError: A permission is missing, the API server does not answer, or a job was left because it is not
                known whether to clean it up, or which pods are its own. The others are cleaned up all the same.
        """
        try:
            jobs = sorted(self._jobs(run), key=self._has_ended)
        except ApiError as error:
            raise self._failure("what is left", error) from error
        return clean_up_all(functools.partial(self._clean_up, item, selects, on_end) for item in jobs)

    def _clean_up(
        self, item: Mapping[str, Any], selects: Callable[[RetentionPolicy], Answer], on_end: OnEnd | None
    ) -> list[str]:
        name = item["metadata"]["name"]
        left = f"{self._kind.resource.kind} {self._namespace}/{name} was left"
        try:
            answer = selects(retention_policy(item))
            if answer.unknown:
                raise LaunchError(f"{left}: whether its step has ended is not known ({answer.why})", retryable=True)
            return [name] if answer.yes and self._remove(item, on_end) else []
        except ApiError as error:
            raise self._failure(f"what is left of {self._kind.resource.kind} {name}", error) from error
        except MALFORMED as error:  # somebody else may have written it
            raise LaunchError(f"{left}: it is not understood ({error!r})", retryable=False) from error

    def _has_ended(self, item: Mapping[str, Any]) -> bool:
        try:
            return self._kind.verdict(item).state.terminal
        except MALFORMED:  # `_clean_up` reports it
            return True

    def _failure(self, what: str, error: ApiError) -> LaunchError:
        """Return the error of a clean-up. After it, requests are not retried for long: there may be many jobs."""
        cluster = f" of {self._api.access.name}" if self._api.access.cluster else ""
        where = f"in namespace {self._namespace}{cluster}"
        if error.unavailable:
            self._api.patience = min(self._api.patience, REPORT_SECONDS)
        if error.status == 403:
            needed = f"{self._kind.resource.plural}.{self._kind.resource.api.partition('/')[0]}"
            needs = f"this step needs to list and delete {needed} and pods {where}: {self._how_to_grant}"
            return LaunchError(f"{needs} ({error})", retryable=False)
        return LaunchError(f"{what} {where} is not known: {error}", retryable=error.unavailable)

    @functools.cached_property
    def _how_to_grant(self) -> str:
        return how_to_grant(self._api, self._kind.name, self._namespace)

    def _jobs(self, run: str) -> list[Mapping[str, Any]]:
        """Return the jobs of a run that are not being deleted; empty if the kind is not served.

        Its TensorBoards, which have no attempt, are left to their life time.
        """
        labels = {**MANAGED_BY, RUN_ID: label_value(run)}
        selector = ",".join([*(f"{key}={value}" for key, value in labels.items()), ATTEMPT])
        try:
            listed = functools.partial(self._listed, selector)
            items = self._kind.group_objects(listed() if self._optional else self._api.settled(listed))
        except ApiError as error:
            if error.status == 404 or (self._optional and not error.unavailable):
                return []
            raise
        return [item for item in items if "deletionTimestamp" not in item["metadata"]]

    def _listed(self, selector: str) -> list[Mapping[str, Any]]:
        return list(self._api.iterate(self._kind.resource, self._namespace, labelSelector=selector))

    def _remove(self, item: Mapping[str, Any], on_end: OnEnd | None) -> bool:
        """Apply the policy to one job; tell whether something was removed."""
        meta, state = item["metadata"], self._kind.verdict(item).state
        policy = on_end or retention_policy(item).on_end or ("delete_pods" if state is State.SUCCEEDED else "keep")
        if policy == "delete" or not state.terminal:
            self._api.delete(self._kind.resource, self._namespace, meta["name"], meta["uid"])
            return True
        apply(self._api, self._kind.stop_stragglers(item), self._namespace, meta["uid"])
        return policy == "delete_pods" and self._remove_pods(item)

    def _remove_pods(self, job: Mapping[str, Any]) -> bool:
        name = job["metadata"]["name"]
        listed = list(self._api.iterate(JOB_PODS, self._namespace, labelSelector=self._kind.selector(name)))
        owners = OwnerIndex(self._api, self._namespace, name).owners(self._kind, job, listed)
        pods = [item["metadata"] for item in listed if "deletionTimestamp" not in item["metadata"]]
        answers = [(pod, owners.control(pod)) for pod in pods]
        job_pods = [pod for pod, answer in answers if answer.yes]
        for pod in job_pods:
            self._api.delete(PODS, self._namespace, pod["name"], pod["uid"])
        unknown = [f"pod {pod['name']}: {answer.why}" for pod, answer in answers if answer.unknown]
        if unknown:
            what = f"whether pods are of {self._kind.resource.kind} {self._namespace}/{name} is not known"
            raise LaunchError(f"{what} ({'; '.join(unknown)})", retryable=True, removed=[name] if job_pods else [])
        return bool(job_pods)
