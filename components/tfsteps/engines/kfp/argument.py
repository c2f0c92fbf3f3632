"""The one argument that a step is started with. A module of its own: who writes pipelines imports no more than this."""

ARGUMENT = "--executor_input"
