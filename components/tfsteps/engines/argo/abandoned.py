"""Which jobs are abandoned: their Workflow has ended, and the step that launched or follows them has no pod."""

import functools
import re
from collections.abc import Mapping
from typing import Any

from tfsteps.engines.argo.workflow import POD_LABEL, WORKFLOWS, end_of, step_of
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.kube.metadata import NAME, Owner, metadata_of
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_LONGEST_LABEL = 63
_Workflow = tuple[str, str, str]  # namespace, name, uid: an object in another namespace may contain any uid


class Workflows:
    """The Workflows of a namespace, or of all namespaces. Each request is sent once, when its result is needed."""

    def __init__(self, api: Api, namespace: str, name: str = "") -> None:
        """Send no request yet; `namespace` empty = all; `name` = only jobs of the Workflow of that name matter."""
        self._api, self._namespace = api, namespace
        self._selector = f"{POD_LABEL}={name}" if 0 < len(name) <= _LONGEST_LABEL else POD_LABEL
        self._ends: dict[_Workflow, str] = {}

    def why_abandoned(self, item: Mapping[str, Any]) -> str:
        """Return why no launcher will adopt a job, as the end of a sentence; empty = one may."""
        owner = owner_of(item)
        if not owner:
            return ""
        namespace = item["metadata"]["namespace"]
        return self.why_step_ended(namespace, owner.name, owner.uid, retention_policy(item).launcher)

    def why_step_ended(self, namespace: str, name: str, uid: str, step: str) -> str:
        """Return why a step of a Workflow will have no launcher, as the end of a sentence; empty = it may have one.

        ValueError if `namespace` or `name` cannot be the name of an object.
        """
        if not (re.match(NAME, namespace) and re.match(NAME, name)):
            raise ValueError(f"{namespace}/{name} is no name of an object")
        workflow = namespace, name, uid
        if (workflow, step) in self._steps:
            return ""
        end = self._end(workflow)
        return f"its Workflow {name} {end} and {step or 'its launcher'} has no pod" if end else ""

    @functools.cached_property
    def _steps(self) -> set[tuple[_Workflow, str]]:
        """The steps that have a pod, by Workflow and node."""
        steps = set()
        for pod in self._api.iterate(PODS, self._namespace, labelSelector=self._selector, fieldSelector=_UNFINISHED):
            if owner := owner_of(pod):
                steps.add(((pod["metadata"]["namespace"], owner.name, owner.uid), step_of(pod)))
        return steps

    def _end(self, workflow: _Workflow) -> str:
        """Return how a Workflow ends or has ended; empty = it continues."""
        namespace, name, uid = workflow
        if workflow not in self._ends:
            try:
                item = self._api.get(WORKFLOWS, namespace, name)
            except ApiError as error:
                if not error.missing:
                    raise
                item = None
            self._ends[workflow] = end_of(item, uid)
        return self._ends[workflow]


def owner_of(item: Mapping[str, Any]) -> Owner | None:
    """Return the Workflow that owns an object; None = no Workflow owns it. ValueError for invalid metadata."""
    owners = metadata_of(item).owner_references or []
    workflows = [owner for owner in owners if (owner.api_version, owner.kind) == (WORKFLOWS.api, WORKFLOWS.kind)]
    return next((owner for owner in workflows if re.match(NAME, owner.name)), None)
