"""Argo Workflows, as an engine."""

from tfsteps.engines.argo import ARGUMENT
from tfsteps.engines.plugin import EnginePlugin, ImportReader, ImportWriter, StepCommand, constant, deferred

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
    run_ends={"succeeded": "succeeded", "failed": "failed", "error": "failed"},
    run_state_source="Write `{{workflow.status}}` in an exit handler",
    authoring=constant("tfsteps.engines.argo.authoring:AUTHORING"),
    submit=deferred("tfsteps.engines.argo.submit:submit"),
    submit_options=constant("tfsteps.engines.argo.submit_options:ArgoSubmitOptions"),
    fire_times=deferred("tfsteps.engines.argo.submit:fire_times"),
    schedules=deferred("tfsteps.engines.argo.schedules:open_schedules"),
    schedule_objects="CronWorkflows, CronJobs and ConfigMaps that `tfsteps submit` created",
    keep_schedules=deferred("tfsteps.engines.argo.rule_runs:keep_schedules"),
    import_writer=ImportWriter(write=deferred("tfsteps.engines.argo.import_writer:workflow"), suffix=".yaml"),
    import_reader=ImportReader(
        title="an Argo Workflow",
        recognizes=deferred("tfsteps.engines.argo.import_reader:is_workflow"),
        steps=deferred("tfsteps.engines.argo.import_reader:resource_steps"),
        other_steps=deferred("tfsteps.engines.argo.import_reader:other_templates"),
        with_step=deferred("tfsteps.engines.argo.import_reader:with_conditions"),
    ),
    notation="manifests of Argo Workflows",
    definition="assign a hera.workflows.Workflow to a name",
    sdk="hera",
    requirement="tfsteps[argo]",
)
