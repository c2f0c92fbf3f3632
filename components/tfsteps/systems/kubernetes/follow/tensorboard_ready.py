"""Whether the TensorBoard of a run serves, and if not, why."""

from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.logs import PODS
from tfsteps.systems.kubernetes.follow.pods import pod
from tfsteps.systems.kubernetes.job_kind import true_conditions
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.times import by_age

START_SECONDS = 300.0
"""How long a start is waited for: enough for an image of 1 GB, and for a node that is added."""


def waits_for(api: Api, namespace: str, name: str) -> str:
    """Return what the pod of a TensorBoard waits for, or the refusal of this request; empty = the pod is ready."""
    try:
        items = by_age(api.list(PODS, namespace, labelSelector=f"{manifests.NAME}={name}")["items"] or [])
    except ApiError as error:
        return str(error)
    if not items:
        return "it has no pod yet; a quota may be exhausted (`kubectl describe job` shows it)"
    if "Ready" in true_conditions(items[-1]):
        return ""
    state = pod(items[-1], manifests.CONTAINER)
    return ": ".join(filter(None, (f"pod {state.name} is {state.state}", state.reason, state.message)))
