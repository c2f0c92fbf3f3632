"""Finds the jobs that steps of toy pipelines create from a manifest, `program: apply`, for `tfsteps import`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.systems.manifest.draft import Imported
from tfsteps.systems.manifest.fields import NotUnderstoodError
from toy_engine.pipeline import Pipeline


class ApplyStep(msgspec.Struct, frozen=True):
    """A step that creates an object: its name, and the object as YAML."""

    name: str
    manifest: str


def is_pipeline(document: Any) -> bool:
    """Tell whether a document is a toy pipeline."""
    return isinstance(document, dict) and document.keys() == {"toy", "steps"}


def apply_steps(document: Mapping[str, Any]) -> Iterator[ApplyStep]:
    """Yield the steps that create an object."""
    try:
        pipeline = msgspec.convert(document, Pipeline)
    except msgspec.ValidationError as error:
        raise NotUnderstoodError(f"is not a toy pipeline: {error}") from error
    for step in pipeline.steps:
        if step.program == "apply":
            yield ApplyStep(step.name, str(step.inputs.get("manifest", "")))


def other_steps(document: Mapping[str, Any], creating: Sequence[ApplyStep]) -> list[str]:
    """Return the names of the other steps."""
    names = {step.name for step in creating}
    return [step["name"] for step in document["steps"] if step["name"] not in names]


def with_step(job: Imported, step: ApplyStep) -> Imported:
    """Return a job that names the step it is from."""
    return msgspec.structs.replace(job, source=f"{job.source} of step {step.name}")
