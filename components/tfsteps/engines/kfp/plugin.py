"""Kubeflow Pipelines, as an engine."""

from tfsteps.engines.kfp import ARGUMENT
from tfsteps.engines.plugin import EnginePlugin, ImportWriter, StepCommand, constant, deferred

PLUGIN = EnginePlugin(
    name="kfp",
    title="Kubeflow Pipelines",
    step=StepCommand(
        usage=f"{ARGUMENT} JSON",
        recognizes=lambda arguments: ARGUMENT in arguments,
        task=deferred("tfsteps.engines.kfp.executor:ExecutorInput.from_arguments"),
    ),
    find_pipeline=deferred("tfsteps.engines.kfp.pipeline:find_pipeline"),
    objects=constant("tfsteps.engines.argo.workflow_objects:WORKFLOW_OBJECTS"),
    run_ends={
        "succeeded": "succeeded",
        "complete": "succeeded",
        "cached": "succeeded",
        "failed": "failed",
        "canceled": "cancelled",
        "cancelled": "cancelled",
        "running": "unreported",  # a launcher was killed, the run was terminated, or a condition skipped a step
    },
    run_state_source="Kubeflow Pipelines sets it in an exit task",
    node_names=constant("tfsteps.engines.kfp.pipeline:NODE_NAMES"),
    authoring=constant("tfsteps.engines.kfp.authoring:AUTHORING"),
    submit=deferred("tfsteps.engines.kfp.submit:submit"),
    submit_options=constant("tfsteps.engines.kfp.submit_options:KubeflowSubmitOptions"),
    fire_times=deferred("tfsteps.engines.kfp.submit:fire_times"),
    schedules=deferred("tfsteps.engines.kfp.schedules:open_schedules"),
    schedule_objects="recurring runs",
    import_writer=ImportWriter(write=deferred("tfsteps.engines.kfp.import_writer:program"), suffix=".py"),
    is_configured=deferred("tfsteps.engines.kfp.client:is_configured"),
    notation="a pipeline of Kubeflow Pipelines",
    definition="decorate a function with @dsl.pipeline",
    sdk="kfp",
    requirement="tfsteps[kfp]",
)
