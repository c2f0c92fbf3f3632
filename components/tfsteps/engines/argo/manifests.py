"""Our steps as one WorkflowTemplate or ClusterWorkflowTemplate, for those who write their Workflows as YAML."""

from typing import Any

from hera.workflows import ClusterWorkflowTemplate, Parameter, WorkflowTemplate
from hera.workflows.models import Parameter as ModelParameter

from tfsteps.engines.argo.interface import interfaces
from tfsteps.engines.argo.launchers import ENTRYPOINT, NAME
from tfsteps.engines.argo.step import argo_step


def workflow_template(
    *, cluster: bool = False, name: str = NAME, service_account_name: str | None = None, **settings: Any
) -> WorkflowTemplate | ClusterWorkflowTemplate:
    """Return a template of all steps: others refer to each by `templateRef`; submitted as it is, it is one `train`.

    Submitted, it removes at its end what its job left.

    Args:
        cluster: Whether it is for all namespaces.
        name: The object's.
        service_account_name: That a submitted one runs as; None = the namespace's default.
        **settings: What `using` of a step takes, for all of them.
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
    return template


def _argument(declared: ModelParameter) -> Parameter:
    return Parameter(name=declared.name, value=declared.default, description=declared.description)
