"""The steps of tfsteps as one WorkflowTemplate or ClusterWorkflowTemplate, for Workflows written in YAML."""

from typing import Any

from hera.workflows import ClusterWorkflowTemplate, Parameter, WorkflowTemplate
from hera.workflows.models import Parameter as ModelParameter

from tfsteps.engines.argo.interface import interfaces
from tfsteps.engines.argo.launchers import ENTRYPOINT, NAME
from tfsteps.engines.argo.step import argo_step


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
