"""The engine `toy`: a pipeline is a list of steps, which run on this machine one after another."""

from collections.abc import Sequence

from tfsteps.engines.plugin import EnginePlugin, ImportWriter, StepCommand, constant, deferred

ARGUMENT = "--toy"
"""Precedes the file of a task on the command line of a step."""


def recognizes(arguments: Sequence[str]) -> bool:
    """Tell whether a command line is from this engine."""
    return list(arguments[:1]) == [ARGUMENT]


PLUGIN = EnginePlugin(
    name="toy",
    title="the toy engine",
    step=StepCommand(usage=f"{ARGUMENT} FILE", recognizes=recognizes, task=deferred("toy_engine.task:read")),
    authoring=constant("toy_engine.authoring:AUTHORING"),
    submit=deferred("toy_engine.submit:submit"),
    import_writer=ImportWriter(write=deferred("toy_engine.import_writer:pipeline"), suffix=".yaml"),
    on_cluster=False,
    notation="a toy pipeline",
    definition="assign a toy_engine.pipeline.Pipeline to a name",
    sdk="toy_engine",
    requirement="toy-engine",
)
