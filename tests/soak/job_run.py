"""Runs one job of the plan: its launchers, what happens to them, and the end of its Workflow."""

import json
import pathlib
import signal
import subprocess
import sys
import time

from tests.soak.environment import ROOT, Environment
from tests.soak.judge import JobRecord, Launch
from tests.soak.plan import TOTAL_SECONDS, PlannedJob
from tests.unit.cli.command import COMMAND
from tfsteps.engines.argo.workflow import WORKFLOWS

LIMIT_SECONDS = TOTAL_SECONDS + 120.0
"""After which a launcher hangs: the deadline, and the time to report it under faults."""
_WORDS = 400  # characters


class JobRun:
    """One job being run.

    Attributes:
        record: What has happened so far.
    """

    def __init__(self, plan: PlannedJob, environment: Environment) -> None:
        self.record = JobRecord(plan=plan)
        self._plan, self._environment = plan, environment
        self._file = environment.folder / f"{plan.run}.json"

    def run(self) -> None:
        """Run it to its end."""
        self._file.write_text(json.dumps(self._plan.job(*self._environment.images)))
        if self._plan.step:
            self._environment.fixture.step(self._plan.run)
        self._launch(self._plan.disturbance)
        if self._plan.disturbance == "KILL and adopt" and self.record.launches[0].signal:
            self._launch("")
        if self._plan.step:
            self._end_step(self._plan.ends_workflow)

    def _launch(self, disturbance: str) -> None:
        """Run a launcher to its end, disturb it, and record it."""
        adopts = bool(self.record.launches)
        log = self._environment.folder / f"{self._plan.run}-{len(self.record.launches)}.log"
        with log.open("wb") as out:
            launch = Launch(started=time.time())
            self.record.launches.append(launch)
            process = subprocess.Popen(
                self._command(adopts=adopts),
                cwd=ROOT,
                env=self._environment.environ(self._plan.run if self._plan.step else ""),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
            try:
                self._wait(process, launch, disturbance)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        launch.code, launch.last_words = process.returncode, _end_of(log)

    def _wait(self, process: "subprocess.Popen[bytes]", launch: Launch, disturbance: str) -> None:
        if disturbance:
            try:
                process.wait(self._plan.after)
            except subprocess.TimeoutExpired:
                self._disturb(process, launch, disturbance)
        try:
            process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            return
        launch.ended = time.time()

    def _disturb(self, process: "subprocess.Popen[bytes]", launch: Launch, disturbance: str) -> None:
        if disturbance == "shut down":
            self._end_workflow("shut down")
            return
        launch.signal, launch.signalled = "TERM" if disturbance == "TERM" else "KILL", time.time()
        process.send_signal(signal.Signals[f"SIG{launch.signal}"])

    def _command(self, *, adopts: bool) -> list[str | pathlib.Path]:
        plan, environment = self._plan, self._environment
        if plan.step:
            program = [sys.executable, "-m", "tests.soak.launcher", environment.fixture.pod_files]
            return [*program, self._file, plan.system, environment.namespace, plan.run]
        options = ["--system", plan.system, "--namespace", environment.namespace, "--run-id", plan.run]
        return [COMMAND, "run", self._file, *options, *(["--adopt"] if adopts else [])]

    # --- the Workflow

    def _end_step(self, how: str) -> None:
        """Remove the pod of the step, then end its Workflow unless it is being shut down."""
        fixture = self._environment.fixture
        fixture.remove_pod(self._plan.run)
        if self.record.released is None:
            self._end_workflow(how)

    def _end_workflow(self, how: str) -> None:
        fixture, name = self._environment.fixture, self._plan.run
        self.record.released, self.record.how = time.time(), "deleted" if how == "deleted" else "shut down"
        if how == "deleted":
            fixture.remove(WORKFLOWS, fixture.api.get(WORKFLOWS, fixture.namespace, name))
        else:
            fixture.shut_down(name)


def _end_of(log: pathlib.Path) -> str:
    return " ".join(log.read_text(errors="replace")[-_WORDS:].split())
