"""What commands need of the platform, with `--on toybox`."""

import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from tfsteps.backends.base import NO_LABELS
from tfsteps.backends.platform import PlatformBackend
from tfsteps.console.errors import CommandError
from tfsteps.runs.events import Event
from toybox import platform
from toybox.platform import ToyboxJob


@contextlib.contextmanager
def toybox() -> Iterator["ToyboxBackend"]:
    """Yield the backend of the toybox that is configured."""
    if (box := platform.home()) is None:
        raise CommandError("there is no toybox; set TOYBOX to its folder")
    yield ToyboxBackend(box)


class ToyboxBackend(PlatformBackend[ToyboxJob]):
    """The jobs of one toybox."""

    name = "toybox"

    def __init__(self, box: pathlib.Path) -> None:
        """Store the folder."""
        self._box = box

    @property
    def where(self) -> str:
        return f"in toybox {self._box}"

    def jobs(self, run: str = "", labels: Mapping[str, str] = NO_LABELS) -> Sequence[ToyboxJob]:
        jobs = platform.jobs(self._box, run)
        return [job for job in jobs if labels.items() <= job.status.identity.labels().items()]

    def refreshed(self, job: ToyboxJob) -> ToyboxJob:
        return platform.look(job.folder)

    def request_stop(self, job: ToyboxJob) -> None:
        platform.stop(job.folder)

    def past_events(self, job: ToyboxJob) -> Sequence[Event]:
        return platform.past_events(job.folder)

    def events(self, job: ToyboxJob) -> Iterator[Event]:
        return platform.follow(job.folder)
