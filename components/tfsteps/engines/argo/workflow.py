"""The state of a Workflow and its pods: is it ending, which steps have ended, which pods are re-created. Pure.

Source: Argo Workflows 3.7 and 4.0, `workflow/controller/operator.go` (`podReconciliation`, `processNodeRetries`).
"""

import base64
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps import typed_json
from tfsteps.answer import NO, YES, Answer, known, unknown
from tfsteps.engines.argo.node_names import NodeTry, step_name, tries
from tfsteps.json_errors import NOT_READABLE
from tfsteps.kube.resource import Resource
from tfsteps.runs.identity import MANUAL, SCHEDULED, TRIGGER
from tfsteps.spec.step_inputs import merged

WORKFLOWS = Resource("argoproj.io/v1alpha1", "workflows", "Workflow")
POD_LABEL = "workflows.argoproj.io/workflow"
"""Label of the pods of a Workflow: its name."""

CONTAINER = "main"
"""The container of a step's program in its pod; the others are Argo's own."""

_NODE_NAME, _NODE_ID = "workflows.argoproj.io/node-name", "workflows.argoproj.io/node-id"
LOOPS = ("withItems", "withParam", "withSequence")
"""The fields of a task or step that make it a loop."""

_SCHEDULE_LABELS = {"workflows.argoproj.io/cron-workflow", "scheduledworkflows.kubeflow.org/scheduledWorkflowName"}
"""Labels of the Workflows that a schedule of Argo or Kubeflow Pipelines started."""

NO_NODES = "the Workflow object does not contain the state of this step"
_ENDED = {"Succeeded", "Failed", "Error", "Skipped", "Omitted"}


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
    """Return the name of the step that a pod is of, the same over its tries; empty = it has no node."""
    return step_name(node_name(pod))


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


def trigger_of(workflow: Mapping[str, Any]) -> str:
    """Return what certainly started a Workflow: `MANUAL` or `SCHEDULED`; empty = that is not clear.

    A manual run has no owner: one may have been added by whatever created it, such as the Job of a CronJob.
    """
    metadata = workflow["metadata"]
    labels, owners = metadata.get("labels") or {}, metadata.get("ownerReferences") or []
    trigger = labels.get(TRIGGER, "")
    if not _SCHEDULE_LABELS.isdisjoint(labels):
        return "" if trigger == MANUAL else SCHEDULED
    return trigger if (trigger == MANUAL and not owners) or trigger == SCHEDULED else ""


def nodes(workflow: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the nodes of a Workflow by id; empty if Argo stores them in its database, or there are none yet."""
    status = workflow.get("status") or {}
    if not (packed := status.get("compressedNodes")):
        return status.get("nodes") or {}
    try:
        text = gzip.decompress(base64.b64decode(packed))
        return dict(typed_json.decode(text, dict[str, dict[str, Any]]))
    except (ValueError, OSError, EOFError, zlib.error, *NOT_READABLE):
        return {}


def has_ended(workflow: Mapping[str, Any], step: str) -> Answer:
    """Return whether a step, or a group of steps, will have no further pod."""
    if not nodes(workflow):
        return unknown(NO_NODES)
    ended = [ended for name, _, ended in ended_steps(workflow) if name == step]
    return known(bool(ended) and all(ended))


def has_succeeded(workflow: Mapping[str, Any], node: str) -> Answer:
    """Return whether a node has ended well; unknown = it has not ended, or is not there.

    If it is not there by this name, its step counts, unless that has ended in different ways in tries above it.
    """
    there = {str(item.get("name", "")): item for name, item, _ in ended_steps(workflow) if name == step_name(node)}
    phases = {item.get("phase") for item in ([there[node]] if node in there else there.values())}
    if len(phases) == 1 and phases <= _ENDED:
        return known(phases == {"Succeeded"})
    return unknown(f"the Workflow object does not say how {node} has ended")


def ended_steps(workflow: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield the name of each step and group of steps, a node of it, and whether that has ended: no try of another."""
    for node in nodes(workflow).values():
        name = str(node.get("name", ""))
        if not any(item.node == name for item in tries(name)):
            yield step_name(name), node, node.get("phase") in _ENDED


def is_pending(workflow: Mapping[str, Any], node_id: str) -> Answer:
    """Return whether the controller has not seen this node's pod run yet: it may create a lost pod again."""
    phase = nodes(workflow).get(node_id, {}).get("phase")
    return known(phase == "Pending") if phase else unknown(NO_NODES)


def retries_lost_pod(workflow: Mapping[str, Any], node_name: str) -> Answer:
    """Return whether Argo creates another pod for a step whose pod is evicted or deleted.

    It does so while the pod's own node, or one above it, has tries left and the policy Always. With another policy that
    depends on timing: Argo sees such a pod as Error, or as failed with the launcher's exit code.

    Args:
        workflow: The step's Workflow.
        node_name: The name of the pod's node.
    """
    by_name = {str(node.get("name", "")): node for node in nodes(workflow).values()}
    answer = NO
    for item in tries(node_name):
        answer |= _retries(workflow, item, by_name.get(item.node))
    return answer


def _retries(workflow: Mapping[str, Any], current: NodeTry, node: Mapping[str, Any] | None) -> Answer:
    """Return whether Argo tries a node again that has ended because its pod, or one below it, was lost."""
    if node is None:
        return unknown(NO_NODES)
    strategy = _strategy(workflow, node)
    if not strategy:  # there is one
        return unknown("the Workflow does not contain the retryStrategy of this step")
    policy = strategy.get("retryPolicy") or ("Always" if strategy.get("expression") else "OnFailure")
    limit = str(strategy.get("limit", ""))
    if limit.isdigit() and current.number >= int(limit):
        return NO
    if strategy.get("expression") or (limit and not limit.isdigit()):
        return unknown("the retryStrategy of this step has an expression")
    return YES if policy == "Always" else unknown(f"with the retryPolicy {policy}, that depends on timing")


def _strategy(workflow: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the retryStrategy of a node's template, with the defaults of templates; empty = it is not there."""
    defaults: Mapping[str, Any] = {}
    for spec in _specs(workflow):
        defaults = defaults or (spec.get("templateDefaults") or {}).get("retryStrategy") or {}
    named = [template for template in templates(workflow) if template.get("name") == template_name(node)]
    strategy_of_template: Mapping[str, Any] = next(
        (template["retryStrategy"] for template in named if template.get("retryStrategy")), {}
    )
    strategy: Mapping[str, Any] = merged(defaults, strategy_of_template)
    return strategy


def template_name(node: Mapping[str, Any]) -> str:
    """Return the name of a node's template; empty = it has none."""
    return str((node.get("templateRef") or {}).get("template") or node.get("templateName") or "")


def templates(workflow: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the templates of a Workflow, its own before those that it refers to."""
    for spec in _specs(workflow):
        yield from spec.get("templates") or []
    yield from ((workflow.get("status") or {}).get("storedTemplates") or {}).values()


def entrypoint(workflow: Mapping[str, Any]) -> str:
    """Return the name of the template that a Workflow starts with; empty = it does not say."""
    return next((str(spec["entrypoint"]) for spec in _specs(workflow) if spec.get("entrypoint")), "")


def _specs(workflow: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    stored = (workflow.get("status") or {}).get("storedWorkflowTemplateSpec") or {}
    return workflow.get("spec") or {}, stored
