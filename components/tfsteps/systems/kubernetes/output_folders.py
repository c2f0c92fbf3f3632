"""The folders of an attempt, made before its job where the launcher mounts the job's volume, too."""

import contextlib
import os
import pathlib
import stat

from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import TrainingJob, is_uri

_ROOT = 0


def make_folders(job: TrainingJob, places: OutputPaths) -> None:
    """Make the folders of `places` that are on a volume of the job which this process mounts at the same path.

    Whoever may write to the folder above may write to the new one. Where that cannot be had it is left to the program.
    """
    mounts = [volume.mount.rstrip("/") for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only]
    for folder in (places.output, places.model, places.logs):
        if places.kept and not is_uri(folder):
            with contextlib.suppress(OSError):
                if any(f"{folder}/".startswith(f"{mount}/") and os.path.ismount(mount) for mount in mounts):
                    _make(pathlib.Path(folder))


def _make(folder: pathlib.Path) -> None:
    """Make a folder, and those above it. OSError if one cannot be made, or would shut somebody out."""
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
