"""Which Workflows are over, and which of their steps have a pod: whether somebody may still come for a job."""

import functools
import re
from collections.abc import Mapping
from typing import Any

from tfsteps.engines.argo.workflow import WORKFLOWS, step_of
from tfsteps.janitor.rules import NAME, Owner, end_of, owner_of
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.systems.kubernetes.cleanup.retention import retention_policy

_LABEL = "workflows.argoproj.io/workflow"
_UP = "status.phase!=Succeeded,status.phase!=Failed"
_LONGEST_LABEL = 63
_Workflow = tuple[str, str, str]  # namespace, name, uid: who may write objects in one namespace may write any uid


class Workflows:
    """What is known of the Workflows of a namespace, or of all. It is asked for once, when it is needed, and kept."""

    def __init__(self, api: Api, namespace: str, name: str = "") -> None:
        """Ask nothing yet; `namespace` empty = all; `name` = only the Workflow of that name will be asked for."""
        self._api, self._namespace = api, namespace
        self._selector = f"{_LABEL}={name}" if 0 < len(name) <= _LONGEST_LABEL else _LABEL
        self._ends: dict[_Workflow, str] = {}

    def left(self, item: Mapping[str, Any]) -> str:
        """Return why nobody will come for a job any more, as the end of a sentence; empty = somebody may."""
        owner = owner_of(item)
        return self.over(item["metadata"]["namespace"], owner, retention_policy(item).launcher) if owner else ""

    def over(self, namespace: str, owner: Owner, node: str) -> str:
        """Return why nobody will come for what a node of a Workflow launched; empty = somebody may.

        ValueError for names that are none of Kubernetes.
        """
        if not (re.match(NAME, namespace) and re.match(NAME, owner.name)):
            raise ValueError(f"{namespace}/{owner.name} is no name of an object")
        workflow = namespace, owner.name, owner.uid
        if (workflow, node) in self._steps:
            return ""
        end = self._end(workflow)
        return f"its Workflow {owner.name} {end} and {node or 'its launcher'} has no pod" if end else ""

    @functools.cached_property
    def _steps(self) -> set[tuple[_Workflow, str]]:
        """The steps that have a pod, by Workflow and node."""
        found = set()
        for pod in self._api.iterate(PODS, self._namespace, labelSelector=self._selector, fieldSelector=_UP):
            if owner := owner_of(pod):
                found.add((_key(pod, owner), step_of(pod)))
        return found

    def _end(self, workflow: _Workflow) -> str:
        """Return how a Workflow ends or has ended; empty = it goes on."""
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


def _key(item: Mapping[str, Any], owner: Owner) -> _Workflow:
    return item["metadata"]["namespace"], owner.name, owner.uid
