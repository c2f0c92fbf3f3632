"""The engine `toy`: a pipeline is a list of steps, which run one after another: here, or as pods of a ToyRun."""

from collections.abc import Sequence

from tfsteps.engines.plugin import EnginePlugin, ImportReader, ImportWriter, StepCommand, constant, deferred

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
    submit_options=constant("toy_engine.submit_options:ToyOptions"),
    find_pipeline=deferred("toy_engine.cluster:find_pipeline"),
    objects=constant("toy_engine.cluster:OBJECTS"),
    node_names=constant("toy_engine.cluster:NODE_NAMES"),
    run_ends={"done": "succeeded", "broken": "failed"},
    import_writer=ImportWriter(write=deferred("toy_engine.import_writer:pipeline"), suffix=".yaml"),
    import_reader=ImportReader(
        title="a toy pipeline",
        recognizes=deferred("toy_engine.import_reader:is_pipeline"),
        steps=deferred("toy_engine.import_reader:apply_steps"),
        other_steps=deferred("toy_engine.import_reader:other_steps"),
        with_step=deferred("toy_engine.import_reader:with_step"),
    ),
    on_cluster=False,
    notation="a toy pipeline",
    definition="assign a toy_engine.pipeline.Pipeline to a name",
    sdk="toy_engine",
    requirement="toy-engine",
)
