"""The suites: folders of tests, or of some folders the tests that are marked `tensorflow`, and the others."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO

HERE = pathlib.Path(__file__).resolve().parents[1]
OUT = HERE.parent / "build/side_by_side"
NO_TESTS = 5  # pytest's exit code where the arguments choose none
_ALONE, _DISRUPTIVE, _TENSORFLOW = "alone", "disruptive", "tensorflow"

CORES = {
    "conformance": 1.0,
    "hai": 0.2,
    "argo": 0.4,
    "kfp_pods": 0.2,
    "pipelines": 0.6,
    "local-tensorflow": 0.6,
    "conformance-tensorflow": 0.6,
    "local": 0.5,
    "hai-tensorflow": 0.6,
    "job_crds": 0.5,
    "kubernetes_cli": 0.3,
    "preflight": 0.15,
    "gang": 0.1,
    "schedule": 0.15,
    "tensorboard": 0.4,
    "faults": 0.45,
    "janitor": 0.2,
    "unknown": 1.0,
    "unit": 0,
    "soak": 0.5,
    "wire": 0.15,
    "golden": 0,
    "plugin": 0.8,
    "browser": 0.4,
    "conformance-disruptive": 0.2,
    "operate-disruptive": 0.2,
}
"""How much of a core each suite keeps busy: its own processes, and its pods, which no run can measure. A suite that is
not here is taken for half a core. With 0 it runs from the start, at a lower priority, on what the others leave of the
cores: its tests wait for nothing. A folder whose `-tensorflow` is here runs as two suites: real TensorFlow keeps cores
busy while the other tests wait."""

_WORKERS = {"unit": 4}
"""The processes of a suite of many short tests: one of them waits for 40 % of its time."""

_LOW_PRIORITY = ["nice", "-n", "15"]

FIRST_GUESS = HERE / "side_by_side/seconds.json"
"""What is expected where no run has measured it; written by `--save-seconds`."""

_WITHOUT_CLUSTER = {
    "browser",
    "golden",
    "hai",
    "hai-tensorflow",
    "local",
    "local-tensorflow",
    "plugin",
    "soak",
    "unit",
    "unknown",
    "wire",
}
_NEEDS_CLUSTER = re.compile(r"^pytestmark = .*\bmark\.cluster\b", re.MULTILINE)
_BUSY = 0.5
"""The share of a core from which on a suite without a cluster is left for the end."""


@dataclass
class Suite:
    """A run of pytest.

    Attributes:
        name: Its folder, and what its files are called.
        tests: The folder, or the node id of one test.
        options: Of pytest, after the tests.
        seconds: How long it is expected to take.
        cores: What share of a core it is expected to use; 0 = what the others leave.
        workers: How many processes share its tests.
        measured_as: What its seconds are kept as; its tests that need no cluster take less than all.
        process: None before it starts.
        code: Exit code; None before it has ended.
        took: Seconds from start to end.
        cpu: Seconds of processor time of its own processes, without pods.
    """

    name: str
    tests: str
    options: list[str]
    seconds: float = 60
    cores: float = 0.5
    workers: int = 1
    measured_as: str = ""
    process: "subprocess.Popen[bytes] | None" = None
    code: int | None = None
    began: float = 0.0
    took: float = 0.0
    cpu: float = 0.0
    _log: IO[bytes] | None = field(default=None, repr=False)

    @property
    def disruptive(self) -> bool:
        return self.name.endswith(f"-{_DISRUPTIVE}")

    @property
    def cluster(self) -> bool:
        return self.name not in _WITHOUT_CLUSTER

    @property
    def rank(self) -> tuple[int, float]:
        """What is to start first if it may comes first."""
        left = not self.cluster and self.cores >= _BUSY
        return 0 if self.disruptive else 2 if left else 1, -self.seconds

    @property
    def output(self) -> pathlib.Path:
        return OUT / f"{self.name}.txt"

    @property
    def junit(self) -> pathlib.Path:
        return OUT / f"{self.name}.xml"

    @property
    def fixtures(self) -> pathlib.Path:
        return OUT / f"{self.name}.fixtures.json"

    @property
    def failed(self) -> bool:
        return self.code not in (None, 0, NO_TESTS)

    @property
    def measured(self) -> bool:
        """Whether its seconds are those of all its tests: none failed, and no argument chose some of them."""
        return self.code in (0, NO_TESTS) and len(self.options) == 2

    @property
    def outcome(self) -> str:
        if self.code == NO_TESTS:
            return "has none of these tests"
        return f"FAILED, exit code {self.code}," if self.code else "passed"

    def start(self) -> None:
        """Start it. In a session of its own, so that Ctrl-C reaches it by us alone, once."""
        kept = ["-o", f"cache_dir={OUT / 'cache' / self.name}", f"--junitxml={self.junit}", "-o", "junit_family=xunit1"]
        # conftest.py writes the durations of fixtures there.
        environment = {**os.environ, "TFSTEPS_DURATIONS": str(self.fixtures)}
        workers = ["-p", "xdist", "-n", str(self.workers), "--dist", "worksteal"] if self.workers > 1 else []
        priority = [] if self.cores else _LOW_PRIORITY
        command = [*priority, sys.executable, "-m", "pytest", *kept, *workers, self.tests, *self.options]
        self.output.parent.mkdir(exist_ok=True)
        self._log = self.output.open("wb")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            cwd=HERE.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ended(self) -> bool:
        """Tell whether it has ended by now."""
        assert self.process
        if self.code is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.took, self.cpu = time.monotonic() - self.began, usage.ru_utime + usage.ru_stime
                assert self._log
                self._log.close()
        return self.code is not None

    def stop(self, number: signal.Signals) -> None:
        """Send a signal: SIGINT to pytest, which ends its tests and cleans up; any other to all its processes."""
        if self.process and not self.ended():
            with contextlib.suppress(ProcessLookupError):
                (os.kill if number is signal.SIGINT else os.killpg)(self.process.pid, number)

    def progress(self) -> str:
        """Return its name and how many of its tests are done and have failed, as pytest has printed it."""
        text = self.output.read_text(errors="replace")
        pattern = r"^(?:collected |\d+ workers \[)(\d+) items?(?:.* (\d+) selected)?"
        counts = re.findall(pattern, text, re.MULTILINE)
        if not counts:
            return self.name
        marks = "".join(re.findall(r"^(?:\S+\.py )?([.FEsxX]+)(?: +\[ *\d+%\])?$", text, re.MULTILINE))
        failed = sum(marks.count(mark) for mark in "FE")
        return f"{self.name} {len(marks)}/{counts[0][1] or counts[0][0]}" + (f" ({failed} failed)" if failed else "")


def suites(
    folder: pathlib.Path, expected: Mapping[str, float], *, cluster: bool, arguments: list[str]
) -> tuple[list[Suite], list[Suite]]:
    """Return the suites of a folder: those that run side by side, and those of the tests marked `alone`.

    Args:
        folder: The folder of the tests.
        expected: Seconds of suites, by `Suite.measured_as`; what is not there is taken for a minute.
        cluster: Also the tests that need a cluster; without them, a suite whose files all need one is left out: pytest
            would take half a minute to find that it has no tests.
        arguments: Further ones of pytest.
    """
    without = "" if cluster else "not cluster and "
    together, alone = [], []
    texts: dict[str, str] = {}
    for file in sorted(folder.glob("*/**/test_*.py")):
        text, name = file.read_text("utf-8"), file.relative_to(folder).parts[0]
        if cluster or not _NEEDS_CLUSTER.search(text):
            texts[name] = texts.get(name, "") + text
    for name, text in texts.items():
        marks = set(re.findall(r"^[^\"'\n]*\bmark\.(\w+)", text, re.MULTILINE))  # not those in strings

        def suite(suffix: str, marks: str, name: str = name) -> Suite:
            full = name + suffix
            options = ["-m", without + marks, *arguments]
            variant = Suite(
                full, str(folder / name), options, cores=CORES.get(full, 0.5), workers=_WORKERS.get(full, 1)
            )
            variant.measured_as = full if cluster or not variant.cluster else f"{full} without a cluster"
            variant.seconds = expected.get(variant.measured_as, 60)
            return variant

        others = f"not {_ALONE} and not {_DISRUPTIVE}"
        if f"{name}-{_TENSORFLOW}" in CORES and _TENSORFLOW in marks:
            together.append(suite(f"-{_TENSORFLOW}", f"{others} and {_TENSORFLOW}"))
            others += f" and not {_TENSORFLOW}"
        together.append(suite("", others))
        if _DISRUPTIVE in marks:
            together.append(suite(f"-{_DISRUPTIVE}", _DISRUPTIVE))
        if _ALONE in marks:
            alone.append(suite(f"-{_ALONE}", _ALONE))
    return together, alone


def expected_seconds() -> dict[str, float]:
    """Return the seconds of each suite in its last whole run here; without one, those of another machine."""
    expected: dict[str, float] = json.loads(FIRST_GUESS.read_text()) if FIRST_GUESS.exists() else {}
    with contextlib.suppress(OSError, ValueError, KeyError):
        expected |= json.loads((OUT / "durations.json").read_text())["expected"]
    return expected


def folder_of(name: str) -> str:
    """Return the folder that a suite is, or is a part of."""
    for part in (_ALONE, _DISRUPTIVE, _TENSORFLOW):
        name = name.removesuffix(f"-{part}")
    return name
