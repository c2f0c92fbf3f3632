"""All tests, the suites side by side: `python tests/side_by_side.py [--cluster] [arguments of pytest]`.

Each suite is a pytest process of its own: a folder here, or of some folders the tests that are marked `tensorflow`, and
the others. Most suites on a cluster wait for it, so more of them run at once than there are cores: as many as
their share of a core allows, the longest first. Tests marked `disruptive` harm what others use on the cluster, and
wait for all suites that need one; those that need none, and keep a core busy, are left to run beside them. Tests marked
`alone` come last, one after another.

In build/side_by_side are the output of each suite, its JUnit file, and durations.json: seconds of suites, tests and
fixtures.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET  # of files that pytest has just written
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent / "build/side_by_side"
PROGRESS_SECONDS = 30.0
STOP_SECONDS = 60.0  # for fixtures that remove what they made
ALONE, DISRUPTIVE, TENSORFLOW = "alone", "disruptive", "tensorflow"
NO_TESTS = 5  # pytest's exit code where the arguments choose none
SHOWN = 400  # lines of a failed suite

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

WITHOUT_CLUSTER = {
    "browser",
    "golden",
    "hai",
    "hai-tensorflow",
    "local",
    "local-tensorflow",
    "plugin",
    "soak",
    "unit",
    "wire",
}
BUSY = 0.5
"""The share of a core from which on a suite without a cluster is left for the end."""


@dataclass
class Suite:
    """One pytest process.

    Attributes:
        name: Its folder, and what its files are called.
        arguments: Of pytest.
        seconds: How long it is expected to take.
        cores: What share of a core it is expected to use.
        process: None before it starts.
        code: Exit code; None before it has ended.
        took: Seconds from start to end.
        cpu: Seconds of processor time of its own processes, without pods.
    """

    name: str
    arguments: list[str]
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
        return self.name.endswith(f"-{DISRUPTIVE}")

    @property
    def cluster(self) -> bool:
        return self.name not in WITHOUT_CLUSTER

    @property
    def rank(self) -> tuple[int, float]:
        """What is to start first if it may comes first."""
        left = not self.cluster and self.cores >= BUSY
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

    def start(self) -> None:
        """Start it. In a session of its own, so that Ctrl-C reaches it by us alone, once."""
        kept = ["-o", f"cache_dir={OUT / 'cache' / self.name}", f"--junitxml={self.junit}", "-o", "junit_family=xunit1"]
        # conftest.py writes the durations of fixtures there.
        environment = {**os.environ, "TFSTEPS_DURATIONS": str(self.fixtures)}
        command = [sys.executable, "-m", "pytest", *kept, *self.arguments]
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


class Run:
    """All suites of a run."""

    def __init__(self, together: list[Suite], alone: list[Suite], cores: float) -> None:
        self._waiting = sorted(together, key=lambda suite: suite.rank)
        self._alone = alone
        self._cores = cores
        self._signals: list[str] = []
        self._began = self._said = time.monotonic()
        self.running: list[Suite] = []
        self.done: list[Suite] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: self._signals.append(signal.Signals(number).name))

    def to_end(self) -> bool:
        """Run all. False if a signal came, after which all have ended, too."""
        while (self._waiting or self._alone or self.running) and not self._signals:
            self._start()
            time.sleep(0.05)
            for suite in [each for each in self.running if each.ended()]:
                self.running.remove(suite)
                self.done.append(suite)
                self._say(f"{suite.name} {_outcome(suite)} after {suite.took:.0f} s")
            if time.monotonic() - self._said >= PROGRESS_SECONDS:
                self._said = time.monotonic()
                self._say(self._progress())
        if self._signals:
            self._stop()
        return not self._signals

    def _start(self) -> None:
        """Start the suites that find room, by rank; when all have ended, those that want to be alone."""
        if not self._waiting and not self.running and self._alone:
            suite = self._alone.pop(0)
            suite.start()
            self.running.append(suite)
            return
        for suite in list(self._waiting):
            busy = sum(each.cores for each in self.running)
            if self._may_start(suite) and (not self.running or busy + suite.cores <= self._cores):
                self._waiting.remove(suite)
                suite.start()
                self.running.append(suite)

    def _may_start(self, suite: Suite) -> bool:
        others = [*self.running, *(each for each in self._waiting if not each.disruptive)]
        return not suite.disruptive or not any(each.cluster for each in others)

    def _stop(self) -> None:
        """End all that run: pytest cleans up for a minute; a second signal, or what is left then, is killed."""
        self._say(f"{self._signals[0]}: ending {', '.join(suite.name for suite in self.running) or 'nothing'}")
        limit = time.monotonic() + STOP_SECONDS
        for suite in self.running:
            suite.stop(signal.SIGINT)
        while self._any_runs() and time.monotonic() < limit and len(self._signals) == 1:
            time.sleep(0.05)
        for suite in self.running:
            suite.stop(signal.SIGKILL)
        while self._any_runs():
            time.sleep(0.01)

    def _any_runs(self) -> bool:
        return bool([suite for suite in self.running if not suite.ended()])  # each is asked

    def _progress(self) -> str:
        failed = sum(suite.failed for suite in self.done)
        waits = len(self._waiting) + len(self._alone)
        counts = f"{len(self.done)} done, {failed} of them failed; {waits} to come"
        return f"{', '.join(suite.progress() for suite in self.running)}; {counts}"

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s  {text}", flush=True)


def _outcome(suite: Suite) -> str:
    if suite.code == NO_TESTS:
        return "has none of these tests"
    return f"FAILED, exit code {suite.code}," if suite.code else "passed"


# --- which suites


def suites(folder: pathlib.Path, *, cluster: bool, arguments: list[str]) -> tuple[list[Suite], list[Suite]]:
    """Return the suites of a folder: those that run side by side, and those of the tests marked `alone`."""
    without = "" if cluster else "not cluster and "
    together, alone = [], []
    for name in sorted({file.relative_to(folder).parts[0] for file in folder.glob("*/**/test_*.py")}):

        def suite(suffix: str, marks: str, name: str = name) -> Suite:
            known = SUITES.get(name + suffix, (60, 0.5))
            return Suite(name + suffix, ["-m", without + marks, str(folder / name), *arguments], *known)

        others = f"not {ALONE} and not {DISRUPTIVE}"
        if f"{name}-{TENSORFLOW}" in SUITES:
            together.append(suite(f"-{TENSORFLOW}", f"{others} and {TENSORFLOW}"))
            others += f" and not {TENSORFLOW}"
        together.append(suite("", others))
        text = "".join(file.read_text("utf-8") for file in (folder / name).rglob("test_*.py"))
        if f"mark.{DISRUPTIVE}" in text:
            together.append(suite(f"-{DISRUPTIVE}", DISRUPTIVE))
        if f"mark.{ALONE}" in text:
            alone.append(suite(f"-{ALONE}", ALONE))
    return together, alone


def _folder_of(name: str) -> str:
    """Return the folder that a suite is, or is a part of."""
    for part in (ALONE, DISRUPTIVE, TENSORFLOW):
        name = name.removesuffix(f"-{part}")
    return name


# --- what is left of it


def _tests(done: list[Suite]) -> list[dict[str, object]]:
    """Return the seconds of each test with its fixtures, the longest first."""
    rows = []
    for suite in done:
        with contextlib.suppress(OSError, ET.ParseError):
            for case in ET.parse(suite.junit).iter("testcase"):
                name = f"{case.get('classname')}::{case.get('name')}"
                rows.append({"suite": suite.name, "test": name, "seconds": float(case.get("time") or 0)})
    return _longest_first(rows)


def _fixtures(done: list[Suite]) -> list[dict[str, object]]:
    """Return how often each fixture was set up, and the seconds of that in all, the longest first."""
    rows = []
    for suite in done:
        with contextlib.suppress(OSError, ValueError):
            rows += [{"suite": suite.name, **row} for row in json.loads(suite.fixtures.read_text())]
    return _longest_first(rows)


def _longest_first(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: -float(str(row["seconds"])))


def busy_seconds() -> float:
    """Return the processor time that this machine has used since it started, of all processes; 0 if it cannot tell."""
    try:
        user, nice, system, _idle, _wait, *rest = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    except (OSError, ValueError):
        return 0.0
    return sum(map(int, (user, nice, system, *rest))) / os.sysconf("SC_CLK_TCK")


def _failure(suite: Suite) -> Iterator[str]:
    """Yield what a failed suite printed about its failures; of one that broke off, its last lines."""
    lines = suite.output.read_text(errors="replace").splitlines()
    heads = [at for at, line in enumerate(lines) if re.fullmatch(r"=+ (FAILURES|ERRORS) =+", line)]
    shown = lines[heads[0] :] if heads else lines
    if len(shown) > SHOWN:
        yield f"... {len(shown) - SHOWN} lines more in {suite.output}"
    yield from shown[-SHOWN:]


def report(run: Run, seconds: float, busy: float) -> None:
    """Print the failures, and how long each suite took; write the durations of all suites, tests and fixtures.

    Args:
        run: What has ended.
        seconds: How long it took.
        busy: Seconds of processor time that all processes of the machine took meanwhile.
    """
    done = sorted(run.done, key=lambda suite: -suite.took)
    tests, fixtures = _tests(done), _fixtures(done)
    rows = [{"suite": each.name, "seconds": round(each.took, 1), "cpu": round(each.cpu, 1)} for each in done]
    durations = {"seconds": seconds, "busy": busy, "suites": rows, "tests": tests, "fixtures": fixtures}
    (OUT / "durations.json").write_text(json.dumps(durations, indent=1))
    for suite in run.done:
        if suite.failed:
            print(f"\n##### {suite.name}: exit code {suite.code}", *_failure(suite), sep="\n")
    print(
        f"\nCI times by suite\n{'suite':24}{'seconds':>8}{'expected':>9}{'CPU s':>7}{'cores':>7}  (CPU: without pods)"
    )
    for suite in done:
        print(
            f"{suite.name:24}{suite.took:8.0f}{suite.seconds:9.0f}{suite.cpu:7.0f}{suite.cores:7.2f}  {_outcome(suite)}"
        )
    print("the longest tests:", *(f"{row['seconds']:8.1f} s  {row['test']}" for row in tests[:10]), sep="\n")
    print(
        "the longest fixtures:",
        *(f"{row['seconds']:8.1f} s  {row['fixture']} of {row['suite']}, {row['times']} times" for row in fixtures[:5]),
        sep="\n",
    )
    failed = ", ".join(suite.name for suite in run.done if suite.failed)
    print(f"\nthe machine was busy for {busy:.0f} of {seconds * (os.cpu_count() or 1):.0f} s of its cores")
    print(f"{len(run.done)} suites in {seconds:.0f} s; failed: {failed or 'none'}")


def main() -> int:
    """Return 0 if all passed, 1 if any failed, 130 after a signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", action="store_true", help="also the tests on the cluster of KUBECONFIG")
    parser.add_argument("--cores", type=float, default=float(os.cpu_count() or 1), help="how much to run at once")
    parser.add_argument("--suite", action="append", help="just this suite; may be given again")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE, help=argparse.SUPPRESS)
    options, arguments = parser.parse_known_args()
    OUT.mkdir(parents=True, exist_ok=True)
    with OUT.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            parser.error(f"another run writes to {OUT}; wait for its end, or use another clone")
        return _run(options, arguments)


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    shutil.rmtree(OUT)
    OUT.mkdir()
    together, alone = suites(options.folder.resolve(), cluster=options.cluster, arguments=arguments)
    if options.suite:
        together, alone = (
            [each for each in part if {each.name, _folder_of(each.name)} & set(options.suite)]
            for part in (together, alone)
        )
    run, began, busy = Run(together, alone, options.cores), time.monotonic(), busy_seconds()
    if not run.to_end():
        return 130
    report(run, time.monotonic() - began, busy_seconds() - busy)
    return 1 if any(suite.failed for suite in run.done) else 0


if __name__ == "__main__":
    sys.exit(main())
