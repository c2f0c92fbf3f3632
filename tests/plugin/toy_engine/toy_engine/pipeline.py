"""The notation of pipelines, which authors import."""

from typing import Any

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step.

    Attributes:
        name: Its name, unique in the pipeline.
        program: The component of tfsteps: train, cleanup and so on.
        inputs: The inputs of the component, by name.
        tries: How often it is started at most, until it succeeds.
        finalizer: Whether it runs even after a step has failed or the pipeline was stopped.
    """

    name: str
    program: str
    inputs: dict[str, Any] = {}
    tries: int = 1
    finalizer: bool = False


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pipeline.

    Attributes:
        toy: Its name.
        steps: Its steps, in their order.
    """

    toy: str
    steps: list[Step]
