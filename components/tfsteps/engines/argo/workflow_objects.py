"""Workflows as the objects of runs, for every engine that compiles to Argo Workflows."""

from tfsteps.engines.argo.abandoned import Workflows, owner_of
from tfsteps.engines.argo.node_names import pipeline_name, run_name
from tfsteps.engines.argo.steps import pipeline_node, steps, unreadable_steps
from tfsteps.engines.argo.workflow import POD_LABEL, WORKFLOWS, end_of, reference_in, step_of, trigger_of
from tfsteps.engines.engine_objects import EngineObjects

WORKFLOW_OBJECTS = EngineObjects(
    resource=WORKFLOWS,
    pod_label=POD_LABEL,
    owner_of=owner_of,
    reference_in=reference_in,
    run_name=run_name,
    pipeline_name=pipeline_name,
    step_of=step_of,
    steps=steps,
    unreadable_steps=unreadable_steps,
    pipeline_node=pipeline_node,
    end_of=end_of,
    trigger_of=trigger_of,
    stop_patch='{"spec":{"shutdown":"Stop"}}',
    abandoned=Workflows,
)
