"""Argo Workflows, as an engine."""

from tfsteps.engines.argo import ARGUMENT
from tfsteps.engines.plugin import EnginePlugin, ImportWriter, StepCommand, constant, deferred

PLUGIN = EnginePlugin(
    name="argo",
    title="Argo Workflows",
    general=True,
    step=StepCommand(
        usage=f"{ARGUMENT} COMPONENT NAME=VALUE ...",
        recognizes=lambda arguments: ARGUMENT in arguments[:1],
        task=deferred("tfsteps.engines.argo.task:ArgoTask.from_arguments"),
    ),
    find_pipeline=deferred("tfsteps.engines.argo.pipeline:find_pipeline"),
    objects=constant("tfsteps.engines.argo.workflow_objects:WORKFLOW_OBJECTS"),
    authoring=constant("tfsteps.engines.argo.authoring:AUTHORING"),
    submit=deferred("tfsteps.engines.argo.submit:submit"),
    fire_times=deferred("tfsteps.engines.argo.submit:fire_times"),
    schedules=deferred("tfsteps.engines.argo.schedules:open_schedules"),
    schedule_objects="CronWorkflows, CronJobs and ConfigMaps that `tfsteps submit` created",
    keep_schedules=deferred("tfsteps.engines.argo.rule_runs:keep_schedules"),
    import_writer=ImportWriter(write=deferred("tfsteps.engines.argo.import_writer:workflow"), suffix=".yaml"),
    notation="manifests of Argo Workflows",
    definition="assign a hera.workflows.Workflow to a name",
    sdk="hera",
    requirement="tfsteps[argo]",
)
