"""A namespace of a real cluster, the launchers that a case starts for it, and what is in it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tests.cluster import paths
from tests.conformance import service_account
from tests.conformance.systems import System
from tests.support.waiting import until
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import PODS, Resource
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity, new_run_id
from tfsteps.runs.log_file import read_log
from tfsteps.runs.status import FailureSummary, Status
from tfsteps.runs.store import AttemptFolder, quote
from tfsteps.systems.kubernetes.dependents import apply

_ROOT = pathlib.Path(__file__).parents[2]
_NAMESPACES = Resource("v1", "namespaces", "Namespace")
_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
_INSTALLING = threading.Lock()  # cases run side by side
_installed: set[str] = set()
_LONGEST = 400.0  # seconds: no case takes longer, however busy the machine is


@dataclass
class Launcher:
    """A launcher, as a process of its own."""

    process: subprocess.Popen[bytes]
    attempt: AttemptFolder
    output: pathlib.Path

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self.process.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the launcher still runs; it said: {self.text()[-2000:]}") from None

    def ends(self, code: int, state: State, reason: str | None = None) -> None:
        """Wait for its end, and compare exit code, state and reason."""
        assert self.wait() == code, self.text()[-3000:]
        assert self.status.state is state, self.status
        assert reason is None or self.status.reason == reason, self.status

    def until(self, *states: State) -> None:
        """Wait until the job is in one of `states`."""
        until(lambda: self.process.poll() is not None or (self.started() and self.status.state in states))
        assert self.process.poll() is None, f"the launcher has ended: {self.text()[-3000:]}"

    def until_said(self, pattern: str) -> None:
        """Wait until a replica has printed a line that matches."""
        until(lambda: self.started() and any(re.search(pattern, line) for _, line in self.lines()))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        self.process.send_signal(number)

    def text(self) -> str:
        """Return what it printed."""
        return self.output.read_text(errors="replace")

    def started(self) -> bool:
        """Tell whether it has recorded a status."""
        return (self.attempt.folder / "status.json").exists()

    @property
    def status(self) -> Status:
        """The status that it has recorded last."""
        return self.attempt.status()

    @property
    def failure(self) -> FailureSummary:
        """Why the job failed."""
        failure_summary = self.status.failure
        assert failure_summary, self.status
        return failure_summary

    @property
    def states(self) -> list[State]:
        """The states that the job went through."""
        return [transition.state for transition in self.status.transitions]

    def raw_lines(self, replica: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield (replica, line) of the saved log, of one replica if it is named."""
        with self.attempt.log.open("rb") as file:
            for _, who, line in read_log(file):
                if replica in ("", who):
                    yield who, line

    def lines(self, replica: str = "") -> list[tuple[str, str]]:
        """Return (replica, line) of the saved log as text."""
        return [(who, line.decode(errors="replace")) for who, line in self.raw_lines(replica)]


@dataclass
class Environment:
    """One case's namespace.

    Attributes:
        system: The job system under test.
        api: The cluster, as its administrator.
        image: The stand-in trainer.
        folder: For the launchers' files.
        namespace: Its name.
    """

    system: System
    api: Api
    image: str
    folder: pathlib.Path
    namespace: str = field(default_factory=lambda: f"conformance-{new_run_id()}")
    _launchers: list[Launcher] = field(default_factory=list)
    _kubeconfig: pathlib.Path = pathlib.Path()

    def __enter__(self) -> Self:
        """Make the namespace, with the ServiceAccounts that pods and launchers need."""
        with _INSTALLING:
            if self.system.name not in _installed:
                self.system.install()
                _installed.add(self.system.name)
        self.folder.mkdir(parents=True)
        self.api.create(_NAMESPACES, "", {"metadata": {"name": self.namespace}})
        until(lambda: self._exists(_ACCOUNTS, "default"))
        self._kubeconfig = service_account.kubeconfig(
            self.api, self.namespace, self.system.name, self.folder / "kubeconfig"
        )
        return self

    def __exit__(self, _kind: object = None, error: BaseException | None = None, _trace: object = None) -> None:
        """End what still runs, and delete the namespace with all that is in it; of a failure, note what was there.

        On the cluster of `make cluster`, which is thrown away, the namespace stays: its deletion asks for all kinds of
        objects, 130 requests, which was 60 % of those of all cases.
        """
        if error:
            error.add_note(self._seen())
        for launcher in self._launchers:
            if launcher.process.poll() is None:
                launcher.process.kill()
                launcher.process.wait()
        if os.environ["KUBECONFIG"] == str(paths.KUBECONFIG):
            for resource in (self.system.resource, PODS):
                self.api.request("DELETE", resource.path(self.namespace), {}, {"propagationPolicy": "Background"})
        else:
            self.api.request("DELETE", _NAMESPACES.path("", self.namespace))
        # the node of `make cluster` is this machine, and other processes have runs there
        shutil.rmtree(f"/tmp/tfsteps-conformance/{self.namespace}", ignore_errors=True)

    def _seen(self) -> str:
        """Return what the launchers said, the job objects and the pods."""
        outputs = [f"launcher, {launcher.process.poll()}: {launcher.text()[-3000:]}" for launcher in self._launchers]
        jobs = [f"job: {json.dumps({part: job.get(part) for part in ('metadata', 'status')})}" for job in self.jobs()]
        pods = [f"pod {pod['metadata']['name']}: {json.dumps(pod['status'])}" for pod in self.pods(leaving=True)]
        return "\n".join([*outputs, *jobs, *pods])

    # --- launchers

    def launch(
        self, job: Mapping[str, Any], *, run: str = "run", task: str = "task", home: str = "home", attempt: int = 0
    ) -> Launcher:
        """Start a launcher for a job whose image and total deadline need not be given.

        Another `home` stands for another machine: the launcher there knows nothing of this one's runs.
        """
        name = f"{quote(task)[:50]}-{home}-{attempt}"
        file, output_file = self.folder / f"{name}.json", self.folder / f"{name}.txt"
        file.write_text(json.dumps({"name": "case", "image": self.image, "deadlines": {"total": "5m"}, **job}))
        who = [self.system.name, self.namespace, run, task, str(attempt)]
        with output_file.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.conformance.launcher", file, *who],
                cwd=_ROOT,
                env={**os.environ, "TFSTEPS_HOME": str(self.folder / home), "KUBECONFIG": str(self._kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        folder = AttemptFolder.of(Identity(run=run, task=task, attempt=attempt)).folder.parts[-4:]
        launcher = Launcher(process, AttemptFolder(self.folder.joinpath(home, *folder)), output_file)
        self._launchers.append(launcher)
        return launcher

    # --- what is in the namespace

    def jobs(self) -> list[Mapping[str, Any]]:
        """Return the job objects."""
        return list(self.system.kind.group_objects(self.api.list(self.system.resource, self.namespace)["items"]))

    def job(self) -> Mapping[str, Any]:
        """Wait until there is one job object, and return it."""
        return until(self.jobs)[0]

    def pods(self, *, leaving: bool = False) -> list[dict[str, Any]]:
        """Return the pods, those that are being deleted only if asked for."""
        items = self.api.list(PODS, self.namespace)["items"]
        return [pod for pod in items if leaving or "deletionTimestamp" not in pod["metadata"]]

    def gone(self) -> bool:
        """Tell whether neither a job object nor a pod is left."""
        return not self.jobs() and not self.pods()

    def pause(self, *, paused: bool) -> None:
        """Pause the only job from outside, or resume it."""
        job = self.job()
        changes = self.system.kind.pause(job, paused=paused)
        assert changes
        apply(self.api, changes, self.namespace, job["metadata"]["uid"])

    def delete(self, job: Mapping[str, Any]) -> None:
        """Delete a job object."""
        self.api.delete(self.system.resource, self.namespace, job["metadata"]["name"], job["metadata"]["uid"])

    def _exists(self, resource: Resource, name: str) -> bool:
        with contextlib.suppress(ApiError):
            return bool(self.api.get(resource, self.namespace, name))
        return False
