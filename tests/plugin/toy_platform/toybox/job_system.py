"""The job system: creates or adopts jobs of the platform, and follows them."""

import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tfsteps.runs.events import Event
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import TrainingJob
from tfsteps.systems.base import Cause, LaunchError, OnEnd, Scope
from tfsteps.systems.local import ports
from tfsteps.systems.local.job_system import LocalSystem
from toybox import platform


class ToyboxHandle:
    """A job of the platform."""

    namespace = hosts = tensorboard_url = ""
    warnings: Sequence[str] = ()
    age = 0.0
    is_new = False  # the platform does not tell who has created a job

    def __init__(self, folder: pathlib.Path) -> None:
        """Read its name."""
        request = platform.look(folder).request
        self.name, self.uid, self.created, self._folder = request.name, request.uid, request.created, folder

    def events(self) -> Iterator[Event]:
        """Yield events until the end."""
        return platform.follow(self._folder)

    def stop(self, cause: Cause) -> None:
        """Ask the platform to end it."""
        platform.stop(self._folder)

    def read_folder(self, folder: str, program: Sequence[str]) -> Any:
        """Return None: this process sees all folders."""

    def remove(self, what: Literal["pods", "job"]) -> None:
        """Do nothing: the platform keeps its records."""


class ToyboxSystem(LocalSystem):
    """Problems, warnings and folders are those of local runs."""

    name = "toybox"
    location = "toybox"
    outlives_launcher = True

    def __init__(self) -> None:
        """Find the platform."""
        if (box := platform.home()) is None:
            raise LaunchError("there is no toybox; set TOYBOX to its folder", retryable=False)
        self._box = box

    def start(self, job: TrainingJob, identity: Identity, paths: OutputPaths) -> ToyboxHandle:
        """Create the job, or adopt that of an earlier launcher."""
        for folder in (paths.output, paths.model, paths.logs):
            pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        commands = self.commands(job, identity, paths, ports.free_ports).values()
        processes = [platform.Process(item.replica, [*item.argv], {**item.env}, str(item.cwd)) for item in commands]
        name = identity.job_name(job.name, 63)
        platform.create(self._box, identity, name, processes, job.deadlines.total)
        return ToyboxHandle(self._box / name)

    def attach(self, job: TrainingJob, name: str, uid: str, created: float) -> ToyboxHandle:
        """Return the job of that name."""
        return ToyboxHandle(self._box / name)

    def clean_up(self, identity: Identity, scope: Scope, on_end: OnEnd | None) -> list[str]:
        """Stop the unfinished jobs of the run."""
        jobs = [job for job in platform.jobs(self._box, identity.run) if not job.status.state.terminal]
        for job in jobs:
            platform.stop(job.folder)
        while any(not platform.look(job.folder).status.state.terminal for job in jobs):
            time.sleep(0.1)
        return [job.status.job for job in jobs]
