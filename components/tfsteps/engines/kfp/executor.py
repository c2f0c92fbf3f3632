"""The task that Kubeflow Pipelines passes to a step (`--executor_input {{$}}`), and its output file. Needs no kfp."""

import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import typed_json
from tfsteps.engines.base import check_depth
from tfsteps.engines.kfp import ARGUMENT
from tfsteps.json_errors import NOT_READABLE
from tfsteps.runs.identity import Identity, new_run_id
from tfsteps.whole_file import write_whole

RUN_ID = "TFSTEPS_RUN_ID"
_MOUNTS = re.compile(r"^(gs|minio|s3|oci)://")
_CONTENT_TYPES = {"report": "text/html; charset=utf-8"}
_STORED = ("gs://", "minio://", "s3://")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LOCAL_RUN = re.compile(r"(.+)-\d{4}(?:-\d\d){5}-\d{6}")  # the folder that kfp.local makes for a run


class ExecutorArtifact(msgspec.Struct, kw_only=True, rename="camel"):
    """An input or output artifact.

    Attributes:
        name: Its name in the back end.
        uri: Where it is stored. It must not be changed: another bucket fails the task.
        metadata: Metadata from its producer.
        custom_path: Its path, if the back end sets one; empty = derived from `uri`.
    """

    name: str = ""
    uri: str = ""
    metadata: dict[str, Any] = {}
    custom_path: str = ""

    @property
    def path(self) -> pathlib.Path:
        scheme = {"gs": "gcs"}
        return pathlib.Path(
            self.custom_path or _MOUNTS.sub(lambda match: f"/{scheme.get(match[1], match[1])}/", self.uri)
        )


class _Artifacts(msgspec.Struct):
    artifacts: list[ExecutorArtifact] = []

    @property
    def first(self) -> ExecutorArtifact | None:
        return self.artifacts[0] if self.artifacts else None


class _ExecutorInputs(msgspec.Struct, rename="camel"):
    parameter_values: dict[str, Any] = {}
    artifacts: dict[str, _Artifacts] = {}


class _OutputFile(msgspec.Struct, rename="camel"):
    output_file: str


class _ExecutorOutputs(msgspec.Struct, rename="camel"):
    output_file: str
    parameters: dict[str, _OutputFile] = {}
    artifacts: dict[str, _Artifacts] = {}


class ExecutorInput(msgspec.Struct):
    """One task as the back end describes it to its container."""

    outputs: _ExecutorOutputs
    inputs: _ExecutorInputs = msgspec.field(default_factory=_ExecutorInputs)

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> "ExecutorInput":
        """Read a command line that holds `--executor_input` and its JSON.

        Raises:
            ValueError: It does not, or the JSON is not what the back end writes.
        """
        if ARGUMENT not in arguments[:-1]:
            raise ValueError(f"expected {ARGUMENT} and the JSON that Kubeflow Pipelines puts for {{{{$}}}}")
        text = arguments[list(arguments).index(ARGUMENT) + 1]
        try:
            task = typed_json.decode(text, cls)
            check_depth(task.inputs.parameter_values)
        except NOT_READABLE as error:
            raise ValueError(f"{ARGUMENT} is not what Kubeflow Pipelines writes: {error}") from error
        return task

    @property
    def parameters(self) -> dict[str, Any]:
        """The input parameters that were given or have a default.

        JSON's one kind of number comes back as kfp.local's floats (`{"a": 1.0}`) or the back end's integers: always
        integers here where the value is whole.
        """
        values = self.inputs.parameter_values.items()
        return {name: whole_numbers(value) for name, value in values if value is not None}

    def pod_settings(self) -> dict[str, Any]:
        """Return the input `task_config` as part of a job. SpecError if a job description does not support it."""
        from tfsteps.engines.kfp.task_config import partial_job  # noqa: PLC0415  start-up is measured

        return partial_job(self.parameters.get("task_config"))

    def artifact(self, name: str) -> ExecutorArtifact | None:
        return self.inputs.artifacts.get(name, _Artifacts()).first

    def output(self, name: str) -> ExecutorArtifact | None:
        return self.outputs.artifacts.get(name, _Artifacts()).first

    def make_folders(self) -> None:
        """Create the folders of the output files, as the back end does. OSError if the disk does not take them."""
        artifacts = [artifact.path for listed in self.outputs.artifacts.values() for artifact in listed.artifacts]
        parameters = [pathlib.Path(file.output_file) for file in self.outputs.parameters.values()]
        for path in (*artifacts, *parameters, pathlib.Path(self.outputs.output_file)):
            path.parent.mkdir(parents=True, exist_ok=True)

    def preserve(self, names: Sequence[str]) -> tuple[list[str], str]:
        """Upload output artifacts: the back end does not upload those of a step that fails.

        Where the back end has no object store, as `kfp.local`, nothing is uploaded: the files stay where they are.
        """
        written = {name: item for name in names if (item := self.output(name)) and item.path.is_file()}
        if not written or not all(item.uri.startswith(_STORED) for item in written.values()):
            return [], ""
        from tfsteps.engines.kfp.object_store import Upload, upload  # noqa: PLC0415  start-up is measured

        kinds = {name: _CONTENT_TYPES.get(name, "text/plain; charset=utf-8") for name in written}
        uris, missing = upload([Upload(item.path, item.uri, kinds[name]) for name, item in written.items()])
        return [f"{name}: {item.uri}" for name, item in written.items() if item.uri in uris], missing

    def identity(self, environment: Mapping[str, str] = os.environ) -> Identity:
        """Return the identity of this task, with attempt 0.

        The run is $TFSTEPS_RUN_ID, else the parameter `run_id`, else what the output path says. The task comes from
        that path: it is the same for retries and re-created pods, and different for siblings and loop iterations.
        """
        pipeline, run, task = _identity_from_path(pathlib.PurePath(self.outputs.output_file).parent.parts)
        configured = environment.get(RUN_ID) or self.inputs.parameter_values.get("run_id")
        return Identity.checked(run=configured or run or new_run_id(), task=task, pipeline=pipeline)

    def write(self, parameters: Mapping[str, Any], metadata: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the task's outputs as a whole: every parameter, and for each output artifact its metadata.

        A declared parameter that is left out fails the task on the back end. With kfp.local, which keeps artifacts as
        files, an artifact that has none gets those of the folder in its metadata: its path is a link to them. OSError
        if the disk does not take it.
        """
        artifacts = {
            name: {"artifacts": [{"name": item.name, "uri": item.uri, "metadata": metadata.get(name, {})}]}
            for name, listed in self.outputs.artifacts.items()
            for item in listed.artifacts
        }
        for name, values in metadata.items():
            item, folder = self.output(name), pathlib.Path(values.get("path") or "")
            is_file = item is not None and pathlib.PurePath(item.uri).is_absolute()  # no URI
            if item and is_file and not os.path.lexists(item.path) and folder.is_absolute() and folder.is_dir():
                item.path.symlink_to(folder)
        file = pathlib.Path(self.outputs.output_file)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, msgspec.json.encode({"parameterValues": parameters, "artifacts": artifacts}))


def _identity_from_path(folders: tuple[str, ...]) -> tuple[str, str, str]:
    """Return (pipeline, run, task) from the folders of the output file; what is not known is empty, never the task.

    The back end makes `.../<pipeline>/<run id>/<task>/<uuid>`, kfp.local `.../<pipeline>-<time>/<task>`, with more
    folders for loop iterations and nested pipelines.
    """
    if len(folders) >= 4 and _UUID.fullmatch(folders[-1]):
        return folders[-4], folders[-3], folders[-1]
    for depth in range(len(folders) - 2, -1, -1):
        if match := _LOCAL_RUN.fullmatch(folders[depth]):
            return match[1], folders[depth], "/".join(folders[depth + 1 :])
    return "", "", folders[-1] if folders else ""


def whole_numbers(value: Any) -> Any:
    """Return a JSON value whose numbers are integers where they are whole; lists and mappings are copied."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: whole_numbers(item) for key, item in value.items()}
        case list():
            return [whole_numbers(item) for item in value]
        case _:
            return value
