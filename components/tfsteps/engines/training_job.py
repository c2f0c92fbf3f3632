"""The job that the inputs of a step describe."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfsteps import spec
from tfsteps.engines.code_input import unpacked_code
from tfsteps.spec import TrainingJob
from tfsteps.spec.step_inputs import plain_job, with_data
from tfsteps.systems import registry


def training_job(
    inputs: Mapping[str, Any], settings: Mapping[str, Any], source: str, overrides: Sequence[str] = ()
) -> TrainingJob:
    """Return the job that the inputs of a `train` or `launch` step describe.

    Args:
        inputs: The inputs by name.
        settings: What the author set on the task, as a partial job.
        source: Where it comes from, for messages.
        overrides: Fields that are replaced, as `--set` takes them.

    Raises:
        SpecError: It is not a valid job.
    """
    plain = plain_job(inputs, settings) | unpacked_code(inputs)
    job = spec.from_plain(plain, source, registry.options(), overrides)
    return with_data(job, inputs.get("data") or "")  # after validation, which forbids TFSTEPS_ variables in a job
