"""Runs one case of the matrix with real launchers against the real cluster, and looks at everything it left."""

import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import msgspec

from tests.faults.cases import Case
from tests.faults.driver import Said, Task
from tests.faults.fixture import IMAGE, JOBS, Fixture
from tests.faults.proxy import Proxy
from tfsteps.runs.log_file import read_log

_ROOT = pathlib.Path(__file__).parents[2]
_LIMIT_SECONDS = 150.0
_SETTLE_SECONDS = 60.0  # for the garbage collector to take the pods of a deleted job
_PROGRAM = """
trap 'exit 143' TERM
i=0
while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep 0.05; done
"""


@dataclass
class Outcome:
    """What a case came to.

    Attributes:
        code: The last launcher's exit code.
        report: Its last words.
        seconds: That it all took.
        problems: Each thing that is not as it must be.
    """

    code: int
    report: Said
    seconds: float
    problems: list[str] = field(default_factory=list)


class CaseRun:
    """One case being run."""

    def __init__(
        self,
        case: Case,
        fixture: Fixture,
        *,
        package: str = "",
        limit: float = _LIMIT_SECONDS,
        settle: float = _SETTLE_SECONDS,
    ) -> None:
        """Get ready.

        Args:
            case: What happens.
            fixture: Where.
            package: The folder of another tfsteps than this tree's.
            limit: Seconds after which a launcher is killed.
            settle: Seconds that what is to go may take.
        """
        self.case, self.fixture = case, fixture
        self.package, self.limit, self.settle = package, limit, settle
        self.homes: list[pathlib.Path] = []
        self.launcher: subprocess.Popen | None = None

    def run(self) -> Outcome:
        began = time.monotonic()
        sibling = self.fixture.sibling()
        if self.case.in_step:
            self.fixture.step(self.case.name)
        with Proxy(
            self.fixture.access, self.fixture.certificate, self.case.fresh_rules(), self.case.seed, self._cue
        ) as proxy:
            code, report = self._launch(proxy)
            unmet = [rule for rule in proxy.rules if not rule.met]
            first = code
            if self.case.again is not None:
                proxy.rules.clear()
                code, report = self._launch(proxy)
        outcome = Outcome(code, report, time.monotonic() - began)
        if self.case.again not in (None, first):
            outcome.problems.append(f"the first launcher's exit code is {first}, not {self.case.again}")
        outcome.problems += [f"no request met the fault at {rule.request!r}" for rule in unmet]
        outcome.problems += self._wrong(outcome)
        if self.fixture.sibling() != sibling:
            outcome.problems.append("the sibling was touched")
        self._remove()
        return outcome

    # --- the launcher

    def _launch(self, proxy: Proxy) -> tuple[int, Said]:
        home = self.fixture.folder / f"{self.case.name}-{0 if self.case.same_files else len(self.homes)}"
        self.homes.append(home)
        env = {**os.environ, "TFSTEPS_HOME": str(home), "PYTHONPATH": self.package}
        pod_files = ""
        if self.case.in_step:
            pod_files = str(self.fixture.pod_files)
            env |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(proxy.port)}
            env |= {"POD_NAME": self.case.name}
        else:
            env |= {"KUBECONFIG": str(self.fixture.kubeconfig(proxy.port, self.case.name))}
        task = Task(
            run=self.fixture.run,
            task=self.case.name,
            namespace=self.fixture.namespace,
            job=self._job(),
            pod_files=pod_files,
        )
        command = [sys.executable, "-m", "tests.faults.driver", msgspec.json.encode(task).decode()]
        self.launcher = subprocess.Popen(command, cwd=_ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = self.launcher.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            out, err = self.launcher.communicate()
            err += b"it did not end in time"
        report = msgspec.json.decode(out, type=Said) if out else Said(message=err.decode()[-600:])
        return self.launcher.returncode, report

    def _job(self) -> dict:
        return {
            "name": "fault",
            "image": IMAGE,
            "image_pull_policy": "Never",
            "command": ["sh", "-c", _PROGRAM.format(lines=self.case.lines)],
            "roles": {"worker": {}},
            **self.case.job,
        }

    def _cue(self) -> bool:
        match self.case.first:
            case "shut down":
                self.fixture.shut_down(self.case.name)
            case "evict":
                self.fixture.evict(self.case.name)
        if self.case.signal:
            self.launcher.send_signal(signal.Signals[f"SIG{self.case.signal}"])
        if self.case.signal == "KILL":
            self.launcher.wait()
        return self.case.signal != "KILL"

    # --- what it left

    def _wrong(self, outcome: Outcome):
        want = self.case.expected
        if outcome.code != want.code:
            yield f"exit code {outcome.code}, not {want.code}: {outcome.report}"
        notes = [line for home in self.homes for line in self._log(home) if line.startswith("(")]
        words = f"{outcome.report.message} {outcome.report.warnings} {notes}"
        if want.because not in words:
            yield f"{want.because!r} was not said, but {words}"
        seen = self.fixture.uids[self.case.name]
        self._settled(lambda: len(seen) >= want.jobs)  # the watch that keeps them may be late
        if (there := len(seen)) != want.jobs:
            yield f"{there} jobs were there, not {want.jobs}"
        yield from self._left(self.fixture.jobs, want.job_left, "the job")
        if want.pods_left is not None:
            yield from self._left(self.fixture.pods, want.pods_left, "pods")
        yield from self._lines(want.lines)

    def _left(self, look, expected: bool, what: str):
        self._settled(lambda: expected or not look(self.case.name))
        if bool(look(self.case.name)) is not expected:
            yield f"{what}: {'gone' if expected else 'left behind'}"

    def _settled(self, condition) -> None:
        """Give what comes by itself its time."""
        end = time.monotonic() + self.settle
        while not condition() and time.monotonic() < end:
            time.sleep(0.25)

    def _lines(self, expected: str):
        printed = [f"line {i + 1}" for i in range(self.case.lines)]
        logs = [[line for line in self._log(home) if not line.startswith("(")] for home in self.homes]
        for log in logs:
            if log != printed[: len(log)]:
                first = next((i for i, (line, want) in enumerate(zip(log, printed, strict=False)) if line != want), -1)
                yield f"lines were lost or doubled from {first} of {len(log)} on: {log[max(0, first - 3) :][:30]}"
        most = max(map(len, logs))
        if expected == "all" and most < len(printed):
            yield f"{most} of {len(printed)} lines"
        if expected == "none" and most:
            yield f"{most} lines where none can be"

    def _log(self, home: pathlib.Path):
        for file in home.glob("runs/*/*/0/log"):
            with file.open("rb") as lines:
                yield from (text.decode() for _, _, text in read_log(lines))

    def _remove(self) -> None:
        for job in self.fixture.jobs(self.case.name):
            self.fixture.remove(JOBS, job)
        if self.case.in_step:
            self.fixture.remove_step(self.case.name)
