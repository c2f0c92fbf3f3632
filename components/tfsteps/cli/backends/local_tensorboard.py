"""TensorBoard on this machine, over event files that this machine sees."""

import contextlib
from collections.abc import Iterator, Sequence

from tfsteps.cli.errors import CommandError
from tfsteps.runs.status import Status
from tfsteps.tensorboard.process import TensorBoard, TensorBoardError


@contextlib.contextmanager
def opened(statuses: Sequence[Status], port: int) -> Iterator[str]:
    """Yield the address of a TensorBoard over the event files of some attempts. CommandError if it does not start."""
    several = len({status.identity.run for status in statuses}) > 1
    log_dirs = {}
    for status in statuses:
        identity = status.identity
        if not status.logs:
            raise CommandError(f"run {identity.run}: task {identity.task} has no event files that outlive its replicas")
        log_dirs[f"{identity.run}/{identity.task}" if several else identity.task] = status.logs
    only = next(iter(log_dirs.values()))
    with contextlib.ExitStack() as stack:
        try:
            board = stack.enter_context(TensorBoard(log_dirs if len(log_dirs) > 1 else only, port))
        except (TensorBoardError, OSError) as error:
            raise CommandError(str(error)) from error
        yield board.url
