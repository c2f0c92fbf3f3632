"""A task of cube-studio, as a step: a node of the Workflow that it makes, or the pod of a task that is run alone."""

import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsteps.engines.argo.interface import interfaces
from tfsteps.engines.argo.task import FOLDER, ArgoTask
from tfsteps.platforms.cube_studio import inputs
from tfsteps.runs.identity import Identity
from tfsteps.spec import SpecError
from tfsteps.spec.problems import RefusedError
from tfsteps.spec.short_forms import expand_volume
from tfsteps.spec.step_inputs import merged


class CubeStudioTask(ArgoTask):
    """A task whose inputs are cube-studio's variables, overridden by the job, overridden by the other arguments."""

    def __init__(
        self, argv: Sequence[str], variables: Mapping[str, str] = os.environ, folder: pathlib.Path = FOLDER
    ) -> None:
        """Keep the command line; `parameters` reads it."""
        super().__init__(interfaces()["train"], {}, variables, folder)
        self._argv = argv

    @property
    def parameters(self) -> dict[str, Any]:
        """The inputs of the step `train`. SpecError with every problem of the arguments, or of the variables."""
        fields, problems = inputs.parse(self._argv)
        if problems:
            raise SpecError(problems, "arguments")
        self.identity()
        defaults = inputs.job_fields(self._environment)
        job = fields.pop("spec", {})
        spec = merged(defaults, job)
        if folder := fields.pop("working_dir", ""):
            spec["working_dir"] = folder
        if isinstance(volumes := job.get("volumes"), list):
            used = {_mount(volume) for volume in volumes}
            kept = (volume for volume in defaults.get("volumes", []) if _mount(volume) not in used)
            spec["volumes"] = [*volumes, *kept]
        if not any(_requests_gpus(part) for part in _with_resources(spec)):
            spec["env"] = {"NVIDIA_VISIBLE_DEVICES": "none", **spec.get("env", {})}
        spec["labels"] = {**spec.get("labels", {}), **inputs.labels(self._environment)}
        return {**fields, "spec": spec}

    def identity(self) -> Identity:
        """Return the run and task that cube-studio names, with attempt 0. SpecError if it names none."""
        return inputs.identity(self._environment)


def _mount(volume: Any) -> str:
    """Return where a volume is mounted; empty = a wrong volume, which is refused later."""
    try:
        fields, _ = expand_volume(volume)
    except RefusedError:
        return ""
    return str(fields.get("mount", "")).rstrip("/") if isinstance(fields, dict) else ""


def _with_resources(spec: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the job and its roles."""
    yield spec
    yield from roles.values() if isinstance(roles := spec.get("roles"), dict) else ()


def _requests_gpus(part: Any) -> bool:
    """Tell whether a job or role may use GPUs: all but a missing number and 0 do."""
    resources = part.get("resources") if isinstance(part, dict) else None
    if not isinstance(resources, dict):
        return False
    return any(resources.get(field) not in (None, 0, "0", False) for field in ("gpu", "gpu_fraction", "all_gpus"))
