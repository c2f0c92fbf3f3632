"""This machine, as an engine: it runs pipelines of Kubeflow Pipelines, each step a process."""

from tfsteps.engines.plugin import EnginePlugin, constant, deferred

PLUGIN = EnginePlugin(
    name="local",
    title="this machine",
    authoring=constant("tfsteps.engines.local.authoring:AUTHORING"),
    submit=deferred("tfsteps.engines.local.submit:submit"),
    rerun=deferred("tfsteps.engines.local.submit:rerun"),
    runs=["kfp"],
    on_cluster=False,
)
