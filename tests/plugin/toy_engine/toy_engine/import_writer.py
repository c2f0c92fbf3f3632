"""Writes an imported job as a pipeline, for `tfsteps import --as toy`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from toy_engine.pipeline import Pipeline, Step


def pipeline(job: Mapping[str, Any], system: str) -> str:
    """Return a pipeline with one step `train`."""
    inputs = {"spec": job, **({"system": system} if system else {})}
    step = Step(name="train", program="train", inputs=inputs)
    return msgspec.yaml.encode(Pipeline(toy=str(job["name"]), steps=[step])).decode()
