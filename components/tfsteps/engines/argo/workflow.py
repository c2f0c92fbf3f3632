"""The state of a Workflow and its pods: is it ending, which steps have ended, which pods are re-created. Pure.

Source: Argo Workflows 3.7, `workflow/controller/operator.go` (`podReconciliation`, `processNodeRetries`).
"""

import base64
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.engines.argo.node_names import without_try
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.client import Resource

WORKFLOWS = Resource("argoproj.io/v1alpha1", "workflows", "Workflow")
POD_LABEL = "workflows.argoproj.io/workflow"
"""Label of the pods of a Workflow: its name."""

_NODE_NAME, _NODE_ID = "workflows.argoproj.io/node-name", "workflows.argoproj.io/node-id"
_NO_NODES = "the Workflow object does not contain the state of this step"
_ENDED = {"Succeeded", "Failed", "Error", "Skipped", "Omitted"}
_TRY = re.compile(r"\((\d+)\)$")


def name_in(owners: Sequence[Mapping[str, Any]]) -> str:
    """Return the name of the Workflow among the owners of an object; empty = no Workflow owns it."""
    reference = reference_in(owners)
    return str(reference["name"]) if reference else ""


def reference_in(owners: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the ownerReference to a Workflow among the owners of an object; None = no Workflow owns it."""
    return next((owner for owner in owners if _is_workflow(owner)), None)


def controller(pod: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the ownerReference of a pod to its Workflow; None = it is not a pod of a Workflow."""
    owners: Sequence[Mapping[str, Any]] = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if _is_workflow(owner) and owner.get("controller")), None)


def _is_workflow(owner: Mapping[str, Any]) -> bool:
    return (owner["apiVersion"], owner["kind"]) == (
        WORKFLOWS.api,
        WORKFLOWS.kind,
    )  # other APIs have a kind of that name, too


def step_of(pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's node in its Workflow, without the number of the try; empty = it has no node."""
    return without_try(node_name(pod))


def node_name(pod: Mapping[str, Any]) -> str:
    """Return the name of a pod's node; empty = it has none."""
    return _annotation(pod, _NODE_NAME)


def node_id(pod: Mapping[str, Any]) -> str:
    """Return the id of a pod's node; empty = it has none."""
    return _annotation(pod, _NODE_ID)


def _annotation(pod: Mapping[str, Any], name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def terminating(workflow: Mapping[str, Any]) -> bool:
    """Tell whether a Workflow is being stopped, terminated (Kubeflow Pipelines sets a deadline of 0) or deleted."""
    spec = workflow.get("spec") or {}
    return bool(
        spec.get("shutdown") or spec.get("activeDeadlineSeconds") == 0 or workflow["metadata"].get("deletionTimestamp")
    )


def end_of(workflow: Mapping[str, Any] | None, uid: str) -> str:
    """Return how the Workflow with this uid ends or has ended; empty = it continues.

    `workflow` is the object that has its name now; None = there is none.
    """
    if workflow is None or workflow["metadata"]["uid"] != uid:
        return "is gone"
    phase = (workflow.get("status") or {}).get("phase", "")
    if phase in ("Succeeded", "Failed", "Error"):
        return f"has ended ({phase})"
    return "is being stopped" if terminating(workflow) else ""


def nodes(workflow: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the nodes of a Workflow by id; empty if Argo stores them in its database, or there are none yet."""
    status = workflow.get("status") or {}
    if not (packed := status.get("compressedNodes")):
        return status.get("nodes") or {}
    try:
        text = gzip.decompress(base64.b64decode(packed))
        return dict(msgspec.json.decode(text, type=dict[str, dict[str, Any]]))
    except (ValueError, OSError, EOFError, zlib.error, *NOT_READABLE):
        return {}


def has_ended(workflow: Mapping[str, Any], step: str) -> Answer:
    """Return whether a step will have no further pod.

    Args:
        workflow: Its Workflow.
        step: The name of its node, without the number of the try.
    """
    all_nodes = nodes(workflow)
    if not all_nodes:
        return unknown(_NO_NODES)
    return known(any(node.get("name") == step and node.get("phase") in _ENDED for node in all_nodes.values()))


def is_pending(workflow: Mapping[str, Any], node_id: str) -> Answer:
    """Return whether the controller has not seen this node's pod run yet: it may create a lost pod again."""
    phase = nodes(workflow).get(node_id, {}).get("phase")
    return known(phase == "Pending") if phase else unknown(_NO_NODES)


def retries_lost_pod(workflow: Mapping[str, Any], node_id: str, node_name: str) -> Answer:
    """Return whether Argo creates another pod for a step whose pod is evicted or deleted.

    It does so with the policy Always, while tries are left. What an expression of that strategy decides is not known.
    Depending on timing, Argo sees such a pod as failed with the launcher's exit code, as Error, or, while its node is
    Pending, creates it again; the other policies, or none, cover only some of these cases.

    Args:
        workflow: The step's Workflow.
        node_id: The id of the pod's node.
        node_name: Its name; with a retryStrategy, the number of the try is appended.
    """
    tries = _TRY.search(node_name)
    if not tries:
        return NO
    strategy = next(_strategies(workflow, nodes(workflow).get(node_id, {})), None)
    if strategy is None:  # there is one
        return unknown("the Workflow does not contain the retryStrategy of this step")
    policy = strategy.get("retryPolicy") or ("Always" if strategy.get("expression") else "OnFailure")
    limit = str(strategy.get("limit", ""))
    if policy != "Always" or (limit.isdigit() and int(tries[1]) >= int(limit)):
        return NO
    if strategy.get("expression") or (limit and not limit.isdigit()):
        return unknown("the retryStrategy of this step has an expression")
    return YES


def _strategies(workflow: Mapping[str, Any], node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the retryStrategies that may apply to a node's template, the most likely first."""
    spec, status = workflow.get("spec") or {}, workflow.get("status") or {}
    stored = status.get("storedWorkflowTemplateSpec") or {}
    name = (node.get("templateRef") or {}).get("template") or node.get("templateName")
    templates = [*(spec.get("templates") or []), *(stored.get("templates") or [])]
    for template in [*templates, *(status.get("storedTemplates") or {}).values()]:
        if template.get("name") == name and template.get("retryStrategy"):
            yield template["retryStrategy"]
    for workflow_spec in (spec, stored):
        if strategy := (workflow_spec.get("templateDefaults") or {}).get("retryStrategy"):
            yield strategy
