"""Starts a TensorBoard without a job object, and tells whether one serves, and if not, why."""

import time
from collections.abc import Callable

from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.kube.credentials import AccessError
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS
from tfsteps.runs.identity import Identity
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.follow.pods import pod
from tfsteps.systems.kubernetes.job_kind import true_conditions
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.tensorboard.from_job import request_for
from tfsteps.systems.kubernetes.tensorboard.request import TensorBoardRequest
from tfsteps.systems.kubernetes.tensorboard.start import start
from tfsteps.systems.kubernetes.times import by_age

START_SECONDS = 300.0
"""How long a start is waited for: enough for an image of 1 GB, and for a node that is added."""


_POLL_SECONDS = 1.0


def serve(job: TrainingJob, identity: Identity, log_dir: str, say: Callable[[str], None]) -> str:
    """Start the TensorBoard of a job description, wait until it serves, and return its address.

    Args:
        job: The job.
        identity: The run.
        log_dir: Folder or URI of the event files; empty = the folder of the run.
        say: Receives a line when the reason for waiting changes.

    Raises:
        NoStorageError: No pod can read the log directory.
        LaunchError: The cluster refuses it, a setting is not valid, or it does not start in time.
    """
    try:
        api = Api(access.find())
        request = request_for(job, identity, api.access.namespace, log_dir)
        url = start(api, request, job.deadlines.total)
    except (AccessError, ValueError) as error:
        raise LaunchError(str(error), retryable=False) from error
    except ApiError as error:
        raise LaunchError(str(error), retryable=error.unavailable) from error
    _await_ready(api, request, say)
    return url


def _await_ready(api: Api, request: TensorBoardRequest, say: Callable[[str], None]) -> None:
    began, printed = time.monotonic(), ""
    while reason := waits_for(api, request):
        waited = time.monotonic() - began
        if waited > START_SECONDS:
            wrong = f"TensorBoard {request.namespace}/{request.name} did not start within {waited:.0f} s: {reason}"
            raise LaunchError(f"{wrong}; Kubernetes goes on trying", retryable=True)
        if reason != printed:
            say(f"waiting for TensorBoard {request.namespace}/{request.name}: {reason}")
            printed = reason
        time.sleep(_POLL_SECONDS)


def waits_for(api: Api, request: TensorBoardRequest) -> str:
    """Return what the pod of a TensorBoard waits for, or the refusal of this request; empty = the pod is ready."""
    try:
        items = by_age(api.list(PODS, request.namespace, labelSelector=manifests.selector(request))["items"] or [])
    except ApiError as error:
        return str(error)
    if not items:
        return "it has no pod yet; a quota may be exhausted (`kubectl describe job` shows it)"
    if "Ready" in true_conditions(items[-1]):
        return ""
    state = pod(items[-1], manifests.CONTAINER)
    return ": ".join(filter(None, (f"pod {state.name} is {state.state}", state.reason, state.message)))
