"""The suites: folders of tests, or of some folders the tests that are marked `tensorflow`, and the others."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import IO

HERE = pathlib.Path(__file__).resolve().parents[1]
OUT = HERE.parent / "build/side_by_side"
NO_TESTS = 5  # pytest's exit code where the arguments choose none
_ALONE, _DISRUPTIVE, _TENSORFLOW = "alone", "disruptive", "tensorflow"

SUITES = {
    "conformance": (900, 1.3),
    "hai": (600, 0.4),
    "argo": (560, 0.5),
    "kfp_pods": (400, 0.2),
    "pipelines": (400, 1.1),
    "local-tensorflow": (300, 0.9),
    "conformance-tensorflow": (300, 1.2),
    "local": (300, 0.8),
    "hai-tensorflow": (160, 0.6),
    "job_crds": (250, 0.6),
    "kubernetes_cli": (200, 0.3),
    "preflight": (190, 0.15),
    "gang": (180, 0.1),
    "schedule": (180, 0.15),
    "tensorboard": (170, 0.4),
    "faults": (150, 0.6),
    "janitor": (100, 0.2),
    "unknown": (90, 0.9),
    "unit": (90, 1.0),
    "soak": (10, 0.5),
    "wire": (60, 0.3),
    "golden": (30, 1.0),
    "plugin": (20, 0.8),
    "browser": (15, 0.8),
    "conformance-disruptive": (200, 0.2),
    "operate-disruptive": (90, 0.2),
}
"""Of each suite how many seconds it takes on two quiet cores, and how much of a core it keeps busy: its own processes,
and its pods. The end of a run says what they were; a suite that is not here is taken for (60, 0.5). A folder whose
`-tensorflow` is here runs as two suites: real TensorFlow keeps cores busy while the other tests wait."""

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
_BUSY = 0.5
"""The share of a core from which on a suite without a cluster is left for the end."""


@dataclass
class Suite:
    """One pytest process.

    Attributes:
        name: Its folder, and what its files are called.
        tests: The folder, or the node id of one test.
        options: Of pytest, after the tests.
        seconds: How long it is expected to take.
        cores: What share of a core it is expected to use.
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
    def outcome(self) -> str:
        if self.code == NO_TESTS:
            return "has none of these tests"
        return f"FAILED, exit code {self.code}," if self.code else "passed"

    def start(self) -> None:
        """Start it. In a session of its own, so that Ctrl-C reaches it by us alone, once."""
        kept = ["-o", f"cache_dir={OUT / 'cache' / self.name}", f"--junitxml={self.junit}", "-o", "junit_family=xunit1"]
        # conftest.py writes the durations of fixtures there.
        environment = {**os.environ, "TFSTEPS_DURATIONS": str(self.fixtures)}
        command = [sys.executable, "-m", "pytest", *kept, self.tests, *self.options]
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
        counts = re.findall(r"^collected (\d+) items?(?:.* (\d+) selected)?", text, re.MULTILINE)
        if not counts:
            return self.name
        marks = "".join(re.findall(r"^(?:\S+\.py )?([.FEsxX]+)(?: +\[ *\d+%\])?$", text, re.MULTILINE))
        failed = sum(marks.count(mark) for mark in "FE")
        return f"{self.name} {len(marks)}/{counts[0][1] or counts[0][0]}" + (f" ({failed} failed)" if failed else "")


def suites(folder: pathlib.Path, *, cluster: bool, arguments: list[str]) -> tuple[list[Suite], list[Suite]]:
    """Return the suites of a folder: those that run side by side, and those of the tests marked `alone`."""
    without = "" if cluster else "not cluster and "
    together, alone = [], []
    for name in sorted({file.relative_to(folder).parts[0] for file in folder.glob("*/**/test_*.py")}):

        def suite(suffix: str, marks: str, name: str = name) -> Suite:
            known = SUITES.get(name + suffix, (60, 0.5))
            return Suite(name + suffix, str(folder / name), ["-m", without + marks, *arguments], *known)

        others = f"not {_ALONE} and not {_DISRUPTIVE}"
        if f"{name}-{_TENSORFLOW}" in SUITES:
            together.append(suite(f"-{_TENSORFLOW}", f"{others} and {_TENSORFLOW}"))
            others += f" and not {_TENSORFLOW}"
        together.append(suite("", others))
        text = "".join(file.read_text("utf-8") for file in (folder / name).rglob("test_*.py"))
        if f"mark.{_DISRUPTIVE}" in text:
            together.append(suite(f"-{_DISRUPTIVE}", _DISRUPTIVE))
        if f"mark.{_ALONE}" in text:
            alone.append(suite(f"-{_ALONE}", _ALONE))
    return together, alone


def folder_of(name: str) -> str:
    """Return the folder that a suite is, or is a part of."""
    for part in (_ALONE, _DISRUPTIVE, _TENSORFLOW):
        name = name.removesuffix(f"-{part}")
    return name
