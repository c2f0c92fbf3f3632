"""What the output folders of a job held before the job was started: that is not its output."""

import contextlib
import os
import pathlib
from collections.abc import Mapping

import msgspec

from tfsteps.runs.location import Location
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob, is_uri
from tfsteps.systems.base import Handle
from tfsteps.tensorboard.event_files import UNKNOWN_ATTEMPT, EventOrigin, FilePath, event_files

Written = Mapping[str, tuple[int, int, int]]
"""Files by path: size in bytes, time of the last change in nanoseconds, inode. No clock is read, only compared."""


class EarlierFiles(msgspec.Struct, frozen=True):
    """The files in the output folders before a job was started; None = the folder could not be read.

    Attributes:
        events: The event files by path below the folder, with the attempt that wrote them.
        model: The files of the model.
    """

    events: Mapping[str, int] | None = None
    model: Written | None = None

    @classmethod
    def of(cls, status: Status, job: TrainingJob) -> "EarlierFiles":
        """Look into the folders of an attempt that is about to be started, as far as this process sees them."""
        events, logs, attempt = None, status.logs, status.identity.attempt
        with contextlib.suppress(OSError):  # then it is not known
            files: list[FilePath] | None = None
            failed: list[OSError] = []
            if _seen(logs, here=status.on_this_machine):
                files = list(event_files(logs, failed.append))
            elif is_uri(logs) and status.location != Location.KUBERNETES and (job.outputs.metrics or job.tensorboard):
                # on a cluster, a pod with the job's credentials reads it
                from tfsteps.tensorboard.object_store import files_below  # noqa: PLC0415  most jobs have none

                files = list(files_below(logs))
            if files is not None and all(isinstance(error, FileNotFoundError) for error in failed):
                last = msgspec.structs.replace(status.identity, attempt=attempt - 1)
                earlier = AttemptFolder.of(last).event_origin if files and attempt else None
                events = {file.shown: earlier.attempt_of(file) if earlier else UNKNOWN_ATTEMPT for file in files}
        return cls(events, written(status.model, here=status.on_this_machine))

    def of_job(self, handle: Handle) -> "EarlierFiles":
        """Return what is known of the time before a job: nothing if it was adopted, as some files may be its own."""
        return self if handle.is_new else EarlierFiles()


def origin_of(status: Status, job: TrainingJob, handle: Handle, before: EarlierFiles) -> EventOrigin:
    """Return what tells the event files of a job that was just created or adopted."""
    recorded = AttemptFolder.of(status.identity).event_origin
    if recorded and recorded.job == handle.uid:  # an earlier launcher of this job, which saw the folder before
        return recorded
    return EventOrigin(
        attempt=status.identity.attempt,
        earlier=job.outputs.earlier_attempts,
        job=handle.uid,
        hosts=status.identity.names_of_attempts(handle.hosts) if handle.hosts else {},
        since=handle.created if handle.hosts else 0.0,
        before=before.events,
    )


def written(folder: str, *, here: bool = False) -> Written | None:
    """Return the files below a folder; None = this process does not see the folder, or not all of it.

    Args:
        folder: The folder, which need not exist; a URI is not seen.
        here: The replicas run on this machine, and see the same folders.
    """
    if not _seen(folder, here=here):
        return None
    failed: list[OSError] = []
    files = {}
    try:
        for parent, _, names in os.walk(folder, onerror=failed.append):
            for path in (os.path.join(parent, name) for name in names):  # noqa: PTH118
                stat = os.lstat(path)
                files[path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
    except OSError:
        return None
    return None if any(not isinstance(error, FileNotFoundError) for error in failed) else files


def _seen(folder: str, *, here: bool) -> bool:
    """Tell whether a folder exists here, or would be seen if it did: it is on a volume that is mounted here."""
    if not folder or is_uri(folder):
        return False
    path = pathlib.Path(folder)
    return here or path.is_dir() or any(os.path.ismount(parent) for parent in path.parents if parent != parent.parent)
