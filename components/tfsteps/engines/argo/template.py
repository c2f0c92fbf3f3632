"""The container template of a step, from which Argo creates a launcher's pod."""

import json
from collections.abc import Sequence
from typing import Any

from hera.workflows import Artifact, Container, NoneArchiveStrategy, Parameter, RetryStrategy, Step, Steps
from hera.workflows.models import (
    Backoff,
    Capabilities,
    EmptyDirVolumeSource,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    ResourceRequirements,
    SeccompProfile,
    SecretKeySelector,
    SecurityContext,
    ValueFrom,
    Volume,
    VolumeMount,
)

from tfsteps.engines.argo.argument import ARGUMENT
from tfsteps.engines.argo.interface import Interface
from tfsteps.engines.argo.task import ARTIFACTS, FOLDER, NODE_NAME, RUN_ID, WORKFLOW
from tfsteps.image import IMAGE, LIMITS, REQUESTS
from tfsteps.runs.identity import RUN_ID as RUN_ID_LABEL
from tfsteps.runs.identity import STEP
from tfsteps.spec.notify import WEBHOOK_DEFAULT

# 13 = the platform's fault. -1 = no exit code: the pod was deleted, or evicted before it started. 137 and 143 = it was
# killed from outside, by a node that runs out of memory or shuts down. Error = Argo failed to run this pod. In all of
# these cases the job continues, and the next pod adopts it. There is no retry after the step's own deadline, or if the
# API server refuses to create a pod: pod security, a quota that requires limits, a missing ServiceAccount. Argo calls
# that Error; a launcher that reports a refusal of its own ends as Failed, with an exit code.
RETRY = (
    "(lastRetry.exitCode in ['13', '-1', '137', '143'] || lastRetry.status == 'Error') "
    "&& !(lastRetry.message matches '(its|specified) deadline') "
    "&& !(lastRetry.status == 'Error' && lastRetry.message matches ' is forbidden: | is invalid: ')"
)
RETRIES = 20
GRACE_PERIOD = 60
"""Seconds in which a launcher must stop its job when its pod is deleted; an evicted launcher exits at once."""

WEBHOOK_SECRET = "tfsteps-webhook"  # noqa: S105  a name
"""Secret whose key `url` is the URL of the namespace's webhook. It is optional, and the kubelet reads it: launchers
need no permission for Secrets."""

_SENDERS = ("train", "wait", "notify")
_USER = 65532  # the user of the launcher's image: Argo's executor shares a folder with it
_EXECUTOR = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
}
"""Security context and resources of Argo's own containers in a step's pod. Argo sets neither, which the pod security
standard `restricted` and ResourceQuotas refuse."""

_ANNOTATIONS = {
    "sidecar.istio.io/inject": "false",  # a sidecar would keep the pod running after the step
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",  # moving a launcher costs a retry of the step
    "karpenter.sh/do-not-disrupt": "true",
}
_LABELS = {"app.kubernetes.io/part-of": "tfsteps"}
"""Without `managed-by`, by which jobs and their pods are selected. A node's name, which the label of a task would need,
is no label value: Argo's expressions cannot hash it, and Kubernetes would refuse the pod."""

_NODE_ANNOTATION = "metadata.annotations['workflows.argoproj.io/node-name']"
_OPEN = NoneArchiveStrategy()  # not in a tar file: browsers show the report


def container(
    interface: Interface,
    *,
    name: str = "",
    image: str = IMAGE,
    artifacts: bool = False,
    retries: int = RETRIES,
    grace_period: int = GRACE_PERIOD,
    env: Sequence[Any] = (),
    **fields: Any,
) -> Container:
    """Return the template of a component.

    Args:
        interface: The component.
        name: Name of the template; empty = the component's name.
        image: Image of the launcher.
        artifacts: Whether logs and report are artifacts, which requires an artifact repository.
        retries: Number of retries after lost pods and platform faults, each after 5 seconds.
        grace_period: Seconds from SIGTERM to SIGKILL when the pod is deleted.
        env: Variables of the launcher, such as Hera's `SecretEnv`, beside those that tfsteps sets.
        **fields: Other fields of Hera's `Container`, which override the defaults.
    """
    files = [output for output in interface.outputs if output.artifact] if artifacts else []
    defaults: dict[str, Any] = {
        "command": ["python", "-m", f"tfsteps.steps.{interface.name}.launcher"],
        "args": [
            ARGUMENT,
            interface.name,
            *(f"{declared.name}={{{{inputs.parameters.{declared.name}}}}}" for declared in interface.inputs),
        ],
        "inputs": [
            Parameter(
                name=declared.name,
                description=_flat(declared.description),
                **({} if declared.required else {"default": _default(declared.default)}),
            )
            for declared in interface.inputs
        ],
        "outputs": [
            *(_parameter(output.name) for output in interface.outputs if not output.artifact),
            *(
                Artifact(name=output.name, path=str(FOLDER / "artifacts" / output.name), optional=True, archive=_OPEN)
                for output in files
            ),
        ],
        "env": [*_environment(interface.name, [output.name for output in files], env), *env],
        "resources": ResourceRequirements(requests=REQUESTS, limits=LIMITS),
        "retry_strategy": RetryStrategy(
            limit=retries, retry_policy="Always", expression=RETRY, backoff=Backoff(duration="5s")
        ),
        "pod_spec_patch": _pod_spec(grace_period),
        "annotations": _ANNOTATIONS,
        "labels": {**_LABELS, STEP: interface.name, RUN_ID_LABEL: "{{workflow.uid}}"},
        "security_context": SecurityContext(
            allow_privilege_escalation=False,
            capabilities=Capabilities(drop=["ALL"]),
            read_only_root_filesystem=True,
            run_as_non_root=True,
            seccomp_profile=SeccompProfile(type="RuntimeDefault"),
        ),
        "volumes": [Volume(name="tmp", empty_dir=EmptyDirVolumeSource())],
        "volume_mounts": [VolumeMount(name="tmp", mount_path="/tmp")],  # noqa: S108
    }
    return Container(name=name or interface.name.replace("_", "-"), image=image, **{**defaults, **fields})


def exit_handler(template: Container) -> Steps:
    """Return a template of one step that calls `template`, with the same inputs."""
    inputs = [Parameter.from_model(declared.as_input()) for declared in template.inputs]
    handler = Steps(name=f"{template.name}-on-exit", inputs=inputs)
    with handler:
        arguments = {declared.name: f"{{{{inputs.parameters.{declared.name}}}}}" for declared in inputs}
        Step(name=str(template.name), template=str(template.name), arguments=arguments)
    return handler


def _pod_spec(grace_period: int) -> str:
    """Return the patch that is merged into the pod, container by container, as JSON."""
    patch = {
        "terminationGracePeriodSeconds": grace_period,
        "initContainers": [{"name": "init", **_EXECUTOR}],
        "containers": [{"name": "wait", **_EXECUTOR}],
    }
    return json.dumps(patch)


def _parameter(name: str) -> Parameter:
    # With a default, Argo reports the step's own message, not that the step did not write the file.
    return Parameter(name=name, value_from=ValueFrom(path=str(FOLDER / "outputs" / name), default=""))


def _environment(step: str, artifacts: list[str], added: Sequence[Any]) -> list[EnvVar]:
    node = EnvVarSource(field_ref=ObjectFieldSelector(field_path=_NODE_ANNOTATION))
    webhook = EnvVarSource(secret_key_ref=SecretKeySelector(name=WEBHOOK_SECRET, key="url", optional=True))
    sends = step in _SENDERS and WEBHOOK_DEFAULT not in [getattr(variable, "name", "") for variable in added]
    return [
        EnvVar(name=RUN_ID, value="{{workflow.uid}}"),
        EnvVar(name=WORKFLOW, value="{{workflow.name}}"),
        EnvVar(name=NODE_NAME, value_from=node),
        *([EnvVar(name=ARTIFACTS, value=" ".join(artifacts))] if artifacts else []),
        *([EnvVar(name=WEBHOOK_DEFAULT, value_from=webhook)] if sends else []),
    ]


def _default(value: Any) -> str:
    """Return an input's default as text; empty = the input is optional."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _flat(text: str) -> str:
    return " ".join(text.split())
