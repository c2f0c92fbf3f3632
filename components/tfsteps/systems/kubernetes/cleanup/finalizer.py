"""Cleans up the jobs of a run on a cluster, selected by labels. Needs to list and delete the job objects."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tfsteps.answer import Answer
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.runs.events import State
from tfsteps.runs.identity import ATTEMPT, MANAGED_BY, RUN_ID, label_value
from tfsteps.systems.base import LaunchError, OnEnd
from tfsteps.systems.kubernetes.cleanup.retention import RetentionPolicy, retention_policy
from tfsteps.systems.kubernetes.dependents import apply
from tfsteps.systems.kubernetes.job_kind import JobKind
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.permissions import how_to_grant


class Finalizer:
    """The jobs of one kind in one namespace.

    Attributes:
        left: A sentence for each job that was left because it is not known whether to clean it up.
    """

    def __init__(self, api: Api, kind: JobKind, namespace: str, *, optional: bool = False) -> None:
        """Keep the arguments; no request is sent. Of an `optional` kind, the first refusal is believed."""
        self._api, self._kind, self._namespace = api, kind, namespace
        self._optional = optional
        self.left: list[str] = []

    def clean_up(self, run: str, selects: Callable[[RetentionPolicy], Answer], on_end: OnEnd | None) -> list[str]:
        """Clean up, and return the names of the jobs of which something was removed.

        Args:
            run: The run.
            selects: Returns whether to clean up a job, by its annotations.
            on_end: The policy for ended jobs; None = each job's own.

        Raises:
            LaunchError: A permission is missing, or the API server does not answer.
        """
        try:
            jobs = [item for item in self._jobs(run) if self._is_selected(item, selects)]
            return [item["metadata"]["name"] for item in jobs if self._remove(item, on_end)]
        except ApiError as error:
            where = f"in namespace {self._namespace}"
            if error.status == 403:
                what = f"{self._kind.resource.plural}.{self._kind.resource.api.partition('/')[0]}"
                how = "" if self._optional else how_to_grant(self._api, self._kind.name, self._namespace)
                needs = f"this step needs to list and delete {what} and pods {where}: {how}"
                raise LaunchError(f"{needs} ({error})", retryable=False) from error
            raise LaunchError(f"what is left {where} is not known: {error}", retryable=error.unavailable) from error

    def _is_selected(self, item: Mapping[str, Any], selects: Callable[[RetentionPolicy], Answer]) -> bool:
        answer = selects(retention_policy(item))
        if answer.unknown:
            what = f"{self._kind.resource.kind} {self._namespace}/{item['metadata']['name']} was left"
            self.left.append(f"{what}: whether its step has ended is not known ({answer.why})")
        return answer.yes

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
            if error.status == 404:
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
        listed = list(self._api.iterate(PODS, self._namespace, labelSelector=self._kind.selector(name)))
        owners = OwnerIndex(self._api, self._namespace, name).owners(self._kind, job, listed)
        pods = [item["metadata"] for item in listed if "deletionTimestamp" not in item["metadata"]]
        answers = [(pod, owners.control(pod)) for pod in pods]
        job_pods = [pod for pod, answer in answers if answer.yes]
        for pod in job_pods:
            self._api.delete(PODS, self._namespace, pod["name"], pod["uid"])
        for pod, answer in answers:
            if answer.unknown:
                raise ApiError(f"pod {pod['name']} may be of {self._kind.resource.kind} {name}: {answer.why}")
        return bool(job_pods)
