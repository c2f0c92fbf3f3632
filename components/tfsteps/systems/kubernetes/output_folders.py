"""The output folders of jobs on a cluster: where they are, and their creation before a job where that is possible."""

import contextlib
import os
import pathlib
import stat

from tfsteps.runs.identity import Identity, label_value
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import TrainingJob, is_uri

NOWHERE = "/tmp/tfsteps"  # noqa: S108
"""Output folder of jobs without a shared volume: in each replica's own file system, and lost with it."""

_ROOT = 0


def output_paths(job: TrainingJob, identity: Identity, base_dir: pathlib.Path) -> OutputPaths:
    """Return the folders of an attempt, as its replicas see them.

    A task's folder is named as its label: an Argo node may be called `train(0:rate:0.1)` or `main[0].train`, and
    TensorFlow reads such brackets as patterns.
    """
    folder = output_template(job).format(name=job.name, run_id=identity.run, task=label_value(identity.task))
    return OutputPaths.below(folder, job, base_dir, kept=bool(job.output_dir or lasting_folder(job)))


def output_template(job: TrainingJob) -> str:
    """Return the job's `output_dir`, with its fields; by default a folder on its first lasting volume."""
    return job.output_dir or f"{lasting_folder(job) or NOWHERE}/{{run_id}}/{{task}}"


def lasting_folder(job: TrainingJob) -> str:
    """Return a folder, with its braces doubled, on the first claim or NFS export that all replicas may write to."""
    writable = (volume.mount for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only)
    mount = next(writable, "").rstrip("/").replace("{", "{{").replace("}", "}}")
    return f"{mount}/tfsteps" if mount else ""


def make_folders(job: TrainingJob, places: OutputPaths) -> None:
    """Create the folders of `places` on volumes of the job that this process mounts at the same path.

    A new folder has the write permissions of its parent. If that is not possible, the program creates the folder.
    """
    mounts = [volume.mount.rstrip("/") for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only]
    for folder in (places.output, places.model, places.logs):
        if places.kept and not is_uri(folder):
            with contextlib.suppress(OSError):
                if any(f"{folder}/".startswith(f"{mount}/") and os.path.ismount(mount) for mount in mounts):
                    _make(pathlib.Path(folder))


def _make(folder: pathlib.Path) -> None:
    """Create a folder and its parents. OSError if that fails, or if the parent's owner could not write to it."""
    if folder.is_dir():
        return
    _make(folder.parent)
    above = folder.parent.stat()
    if not above.st_mode & stat.S_IWOTH and above.st_uid not in (os.geteuid(), _ROOT):
        raise PermissionError("its owner could not write to a folder of ours")
    folder.mkdir()
    try:
        os.chown(folder, -1, above.st_gid)
        folder.chmod(above.st_mode & (0o777 | stat.S_ISGID))  # without the sticky bit: a program may replace a folder
    except OSError:
        folder.rmdir()
        raise
