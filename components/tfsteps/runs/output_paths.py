"""The output folders of a job."""

import pathlib
from typing import Self

import msgspec

from tfsteps.spec import TrainingJob, is_uri


def join(folder: str, below: str = "") -> str:
    """Return the folder `below` a path or URI, without trailing slashes; the `://` of a URI is kept."""
    relative = pathlib.PurePosixPath(below)
    if not is_uri(folder):
        return str(folder / relative)
    scheme, _, rest = folder.partition("://")
    return "/".join([f"{scheme}://{rest.rstrip('/')}", *relative.parts])


def filled(folder: str) -> str:
    """Return a folder that is not empty, else the empty string. One on a cluster or of a URI counts as not empty."""
    if is_uri(folder):
        return folder
    path = pathlib.Path(folder)
    return folder if folder and (not path.parent.exists() or (path.is_dir() and any(path.iterdir()))) else ""


class OutputPaths(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one attempt, as the replicas see them: paths, or URIs such as `gs://bucket/folder`.

    Attributes:
        output: The output folder, shared by all replicas and all attempts of the task.
        model: The folder of the model.
        logs: The folder of the event files.
        base_dir: The folder of the job file; programs of local jobs start there.
        kept: Whether the files outlive the replicas; False = the files of a replica are lost with its pod.
    """

    output: str
    model: str
    logs: str
    base_dir: pathlib.Path
    kept: bool = True

    @classmethod
    def below(cls, output: str, job: TrainingJob, base_dir: pathlib.Path, *, kept: bool = True) -> Self:
        """Return the folders of a job below its output folder, the path or URI `output`."""
        model, logs = join(output, job.outputs.model), join(output, job.outputs.logs)
        return cls(output=join(output), model=model, logs=logs, base_dir=base_dir, kept=kept)

    def tensorboard(self, job: TrainingJob) -> str:
        """Return the log directory of the job's TensorBoard."""
        log_dir = job.tensorboard.log_dir if job.tensorboard else None
        return join(self.output, log_dir) if log_dir else self.logs
