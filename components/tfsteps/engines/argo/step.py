"""The steps of tfsteps for Hera: container templates, and calls that create a task or a step."""

import contextvars
import functools
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

from hera.workflows import (
    Artifact,
    ClusterWorkflowTemplate,
    Container,
    NoneArchiveStrategy,
    Parameter,
    RetryStrategy,
    Step,
    Steps,
    Task,
    Workflow,
    WorkflowTemplate,
)
from hera.workflows._context import _context
from hera.workflows.models import (
    Arguments,
    Backoff,
    Capabilities,
    EmptyDirVolumeSource,
    EnvVar,
    EnvVarSource,
    LifecycleHook,
    ObjectFieldSelector,
    ResourceRequirements,
    SeccompProfile,
    SecretKeySelector,
    SecurityContext,
    ValueFrom,
    Volume,
    VolumeMount,
)
from hera.workflows.models import Parameter as ModelParameter

from tfsteps.engines.argo import ARGUMENT
from tfsteps.engines.argo.inputs import UNKNOWN, input_problems
from tfsteps.engines.argo.interface import BadValueError, Interface, interfaces
from tfsteps.engines.argo.launchers import ENTRYPOINT, NAME
from tfsteps.engines.argo.task import ARTIFACTS, FOLDER, NODE_NAME, RUN_ID, WORKFLOW
from tfsteps.engines.code_input import CODE, with_packed_code
from tfsteps.image import IMAGE, LIMITS, REQUESTS
from tfsteps.runs.identity import RUN_ID as RUN_ID_LABEL
from tfsteps.runs.identity import STEP
from tfsteps.spec import SpecError
from tfsteps.spec.types import WEBHOOK_DEFAULT

_CALL = (
    "depends",
    "dependencies",
    "when",
    "with_items",
    "with_param",
    "with_sequence",
    "continue_on",
    "hooks",
    "on_exit",
)
"""Fields of Hera's tasks and steps that are not inputs; `depends` and `dependencies` are fields of tasks only."""
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


class ArgoStep:
    """A step of tfsteps, for Workflows that are written with Hera.

    Called within a `DAG`, `Steps` or `Steps.parallel()`, it creates a task or a step, and adds the template that this
    requires to the Workflow, once:

        with Workflow(generate_name="mnist-", entrypoint="main") as workflow, DAG(name="main"):
            fit = train("fit", image="ghcr.io/acme/mnist:1.4", workers=2)
            gate = evaluate_gate("gate", metrics=fit.get_parameter("metrics"), metric="accuracy", threshold=0.9)
            fit >> gate

    Inputs are those of the Kubeflow component of that name: given as Python values, as text, or as references to what
    Argo fills in, such as `{{inputs.parameters.lr}}` or Hera's own Parameters, also within lists and mappings. None and
    empty text count as left out. Everything that Hera's `Task` and `Step` take (`when`, `with_items`, `hooks`, ...) can
    be given as well.

    Attributes:
        interface: Its inputs and outputs.
    """

    def __init__(self, interface: Interface, settings: Mapping[str, Any] | None = None) -> None:
        """Keep the settings of the template, which is created when it is first used."""
        self.interface = interface
        self._settings = settings or {}
        self._equal_copy: Container | None = (
            None  # a Workflow's copy of the template, found to be equal: comparing takes time
        )
        self.__name__ = interface.name
        self.__doc__ = _doc(interface)
        self.__signature__ = _signature(interface)

    def using(self, **settings: Any) -> "ArgoStep":
        """Return the same step with another template.

        Args:
            **settings: `name` of the template, if the Workflow has the plain one too; `image` of the launcher;
                `artifacts=True` for logs and report as artifacts, which need an artifact repository; `retries` after
                lost pods and faults of the platform; `grace_period` in seconds; `env`, a list of variables that the
                launcher gets in addition; and every field of Hera's `Container`, such as `service_account_name`,
                `image_pull_policy` or `active_deadline_seconds`.
        """
        return ArgoStep(self.interface, {**self._settings, **settings})

    @functools.cached_property
    def template(self) -> Container:
        """The container template, for a Workflow's `templates`; it is not added to a Workflow."""
        # In a separate context: within `with DAG()`, Hera would add the template to that graph.
        template: Container = contextvars.Context().run(container_template, self.interface, **self._settings)
        return template

    def __call__(self, name: str = "", /, *, arguments: Mapping[str, Any] | None = None, **inputs: Any) -> Task | Step:
        """Create a task in a DAG, or a step in Steps.

        Args:
            name: Name of the task; empty = the input `name` if that is plain text, otherwise the template's name.
            arguments: Inputs, as Hera's own calls take them.
            **inputs: Inputs, and fields of Hera's `Task` or `Step`.

        Raises:
            SpecError: An input is unknown, missing or of another type.
            ValueError: The Workflow has another template of that name.
        """
        call = {key: inputs.pop(key) for key in _CALL if key in inputs}
        values = self.values({**(arguments or {}), **inputs})
        stem = values.get("name", "")
        name = name or (stem if stem and "{{" not in stem else "") or str(self.template.name)
        self._check_name()
        return self.template(name=name, arguments=values, **call)

    @functools.cached_property
    def exit_template(self) -> Steps:
        """The template that exit hooks refer to: it calls the step.

        After a Workflow's deadline, Argo fails the retries of an exit handler as if they were ordinary steps. It does
        not fail the steps that an exit handler calls.
        """
        handler: Steps = contextvars.Context().run(exit_handler, self.template)
        return handler

    def hook(self, **inputs: Any) -> LifecycleHook:
        """Return an exit hook that runs this step, and add its templates to the Workflow around this call."""
        if _context.pieces and isinstance(workflow := _context.pieces[0], Workflow):
            self.add_to(workflow)
        parameters = [ModelParameter(name=name, value=value) for name, value in self.values(inputs).items()]
        return LifecycleHook(
            template=self.exit_template.name, arguments=Arguments(parameters=parameters) if parameters else None
        )

    def on_exit(self, workflow: Workflow, **inputs: Any) -> None:
        """Run this step whenever `workflow` ends, also when it fails or is stopped; not when it is terminated.

        Raises:
            SpecError: An input is unknown, missing or of another type.
            ValueError: The Workflow has an exit handler, or another template of that name.
        """
        if workflow.on_exit or "exit" in (workflow.hooks or {}):
            raise ValueError(f"the Workflow has an exit handler; make {self.__name__} a step of that")
        self.add_to(workflow)
        workflow.hooks = {**(workflow.hooks or {}), "exit": self.hook(**inputs)}

    def add_to(self, workflow: Workflow) -> None:
        """Add the templates of an exit hook to a Workflow, once. ValueError if it has another template of that name."""
        if not self._known(workflow):
            workflow.templates.append(self.template)
        if self.exit_template.name not in [template.name for template in workflow.templates]:
            workflow.templates.append(self.exit_template)

    def values(self, inputs: Mapping[str, Any]) -> dict[str, str]:
        """Return inputs as text, as Argo passes them, without those that are left out.

        SpecError for wrong inputs, CodeError for code that cannot be packed.
        """
        texts, problems = {}, []
        known = {declared.name: declared for declared in self.interface.inputs}
        if CODE in known:
            inputs = with_packed_code(inputs)
        for name, value in inputs.items():
            plain = str(value) if isinstance(value, Parameter) else value
            if plain is None or plain == "":
                continue
            try:
                texts[name] = known[name].encode(plain) if name in known else UNKNOWN
            except BadValueError as error:
                problems.append(error.problem)
                texts[name] = UNKNOWN
        if problems := [*problems, *input_problems(self.interface, texts)]:
            raise SpecError(problems, self.__name__)
        return {name: texts[name] for name in known if name in texts}

    def _check_name(self) -> None:
        if _context.pieces and isinstance(workflow := _context.pieces[0], Workflow):
            self._known(workflow)

    def _known(self, workflow: Workflow) -> bool:
        """Tell whether a Workflow has the template."""
        for template in workflow.templates:
            if template.name == self.template.name:
                if template is not self._equal_copy and template != self.template:
                    raise ValueError(
                        f"the Workflow has another template {template.name!r}; name this one by using(name=)"
                    )
                self._equal_copy = template
                return True
        return False


def argo_step(name: str) -> ArgoStep:
    """Return the Argo step of a component."""
    return ArgoStep(interfaces()[name])


def _signature(interface: Interface) -> inspect.Signature:
    named = [inspect.Parameter("task_name", inspect.Parameter.POSITIONAL_ONLY, default="")]
    kinds = [
        inspect.Parameter(
            declared.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if declared.required else declared.default,
        )
        for declared in interface.inputs
    ]
    return inspect.Signature([*named, *kinds, inspect.Parameter("call", inspect.Parameter.VAR_KEYWORD)])


def _doc(interface: Interface) -> str:
    inputs = [f"    {declared.name}: {declared.description}" for declared in interface.inputs]
    outputs = [f"    {output.name}: {output.description}" for output in interface.outputs]
    return "\n".join([interface.description, "", "Args:", *inputs, "", "Outputs:", *outputs])


__all__ = ["ArgoStep", "argo_step"]


def container_template(
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


def workflow_template(
    *, cluster: bool = False, name: str = NAME, service_account_name: str | None = None, **settings: Any
) -> WorkflowTemplate | ClusterWorkflowTemplate:
    """Return a template of all steps, for `templateRef`; submitted by itself, it runs one `train` step.

    If it is submitted, it cleans up after its job at the end.

    Args:
        cluster: Whether it is a ClusterWorkflowTemplate, for all namespaces.
        name: The object's name.
        service_account_name: ServiceAccount if it is submitted; None = the namespace's default.
        **settings: The arguments of `using` of a step, for all steps.
    """
    kind = ClusterWorkflowTemplate if cluster else WorkflowTemplate
    steps = {component: argo_step(component).using(**settings) for component in interfaces()}
    template = kind(
        name=name,
        entrypoint=str(steps[ENTRYPOINT].template.name),
        service_account_name=service_account_name,
        labels={"app.kubernetes.io/part-of": "tfsteps"},
        arguments=[_argument(parameter) for parameter in steps[ENTRYPOINT].template._build_inputs().parameters],  # noqa: SLF001
        templates=[step.template for step in steps.values()],
    )
    steps["cleanup"].on_exit(template, scope="run")
    steps["notify"].add_to(template)
    return template


def _argument(declared: ModelParameter) -> Parameter:
    return Parameter(name=declared.name, value=declared.default, description=declared.description)
