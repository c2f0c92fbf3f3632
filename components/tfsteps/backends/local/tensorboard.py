"""TensorBoard on this machine, over event files that this machine sees."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from tfsteps.backends.base import EventFolder
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.runs.output_paths import filled
from tfsteps.runs.status import Status
from tfsteps.spec import is_uri
from tfsteps.tensorboard.process import TensorBoardError, TensorBoardProcess


@contextlib.contextmanager
def opened(statuses: Sequence[Status], port: int) -> Iterator[str]:
    """Yield the address of a TensorBoard over the event files of some attempts. CommandError if it does not start."""
    several = len({status.identity.run for status in statuses}) > 1
    log_dirs = {}
    for status in statuses:
        identity = status.identity
        if not status.logs:
            raise CommandError(f"run {identity.run}: task {identity.task} has no event files that outlive its replicas")
        if not filled(status.logs):
            say(f"run {identity.run}: task {identity.task} has no event files so far: nothing is in {status.logs}")
        log_dirs[f"{identity.run}/{identity.task}" if several else identity.task] = status.logs
    only = next(iter(log_dirs.values()))
    with _served(log_dirs if len(log_dirs) > 1 else only, port) as url:
        yield url


@contextlib.contextmanager
def opened_folder(folder: EventFolder, port: int) -> Iterator[str]:
    """Yield the address of a TensorBoard over a folder or URI. CommandError if it does not start."""
    if folder.claim:
        raise CommandError(f"--claim {folder.claim} is on a cluster; add --on kubernetes")
    if not is_uri(folder.log_dir) and not pathlib.Path(folder.log_dir).is_dir():
        raise CommandError(
            f"--log-dir {folder.log_dir} is not a folder of this machine; correct it, or add --on kubernetes"
        )
    with _served(folder.log_dir, port) as url:
        yield url


@contextlib.contextmanager
def _served(log_dirs: Mapping[str, str] | str, port: int) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        try:
            tensorboard = stack.enter_context(TensorBoardProcess(log_dirs, port))
        except (TensorBoardError, OSError) as error:
            raise CommandError(str(error)) from error
        yield tensorboard.url
