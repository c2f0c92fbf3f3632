"""Creates the folders of an attempt before its job, if the launcher also mounts the job's volume."""

import contextlib
import os
import pathlib
import stat

from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import TrainingJob, is_uri

_ROOT = 0


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
