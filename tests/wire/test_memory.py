"""What a launcher holds in memory, and writes to its disk, whatever comes."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from tests.support.processes import started
from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, serve
from tests.wire.test_job import events, listed
from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.recorder import Recorder
from tfsteps.runs.events import JobChanged, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder

MIB = 1 << 20
LINES = 30
LAUNCHER = """
import json, pathlib, sys
from tfsteps import spec
from tfsteps.kube.credentials import Access
from tfsteps.kube.client import Api
from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import LogLines
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
api = Api(Access(sys.argv[1], "ns", None, lambda _refused: "", "the test's cluster"))
logbook, printer = LogWriter(pathlib.Path(sys.argv[2])), Printer()
job = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}})
for event in KubernetesJob(api, TFJob(), json.loads(sys.argv[3]), job, None).events():
    if isinstance(event, LogLines):
        logbook.write(event)
        printer.lines(event)
status = pathlib.Path("/proc/self/status").read_text()
figures = dict(line.split(":") for line in status.splitlines())
print(*(figures[name].split()[0] for name in ("VmHWM", "RssAnon")), file=sys.stderr)
"""


def test_lines_of_one_mebibyte_and_a_slow_reader_take_little_memory(tmp_path):
    def script(asked):
        if asked.path.endswith("/log"):
            if "tailLines" in asked.query:
                return Answer(parts=[line(number) for number in range(LINES - int(asked.query["tailLines"]), LINES)])
            first = int(asked.query.get("sinceTime", "2026-01-01T00:00:00Z")[14:19].replace(":", ""), 10)
            first = first // 100 * 60 + first % 100
            return Answer(parts=(line(number) for number in range(first, LINES)))
        if asked.path.endswith("/tfjobs"):
            return events(0.5, ("MODIFIED", tfjob("Failed"))) if "watch" in asked.query else listed(tfjob("Running"))
        return events() if "watch" in asked.query else listed(pod("out of memory"))

    def line(number):
        return b"2026-01-01T00:%02d:%02d.500000000Z " % divmod(number, 60) + bytes([128 + number]) * MIB + b"\n"

    log = tmp_path / "log"
    with serve(script) as server:
        command = [sys.executable, "-c", LAUNCHER, server.access().server, str(log), json.dumps(tfjob())]
        with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as launcher:
            printed = 0
            while part := launcher.stdout.read(1 << 16):  # as slow as this is, the server is faster
                printed += len(part)
            error_output = launcher.stderr.read()
            assert error_output.replace(b" ", b"").strip().isdigit(), error_output.decode()
            peak = int(error_output.split()[0])
    assert launcher.returncode == 0
    assert printed > LINES * 4 * MIB
    assert log.stat().st_size > LINES * MIB
    assert peak < 64 << 10, "KiB"


@pytest.mark.alone  # threads that wait for a core get memory areas of their own
def test_a_job_that_prints_little_takes_19_mib_of_its_own(tmp_path):
    """With the pages of Python and OpenSSL about 29: how many of these are mapped depends on the machine's cache."""
    pods = [pod("running", f"worker-{index}", f"p{index}") for index in range(4)]

    def script(asked):
        if asked.path.endswith("/log"):
            return Answer(parts=[b"2026-01-01T00:00:00.000000000Z hello\n"])
        if asked.path.endswith("/tfjobs"):
            return events(0.5, ("MODIFIED", tfjob("Failed"))) if "watch" in asked.query else listed(tfjob("Running"))
        return events() if "watch" in asked.query else listed(*pods)

    with serve(script) as server:
        command = [sys.executable, "-c", LAUNCHER, server.access().server, str(tmp_path / "log"), json.dumps(tfjob())]
        # The first run compiles the modules, for the others: in an installation this was done before.
        compiled = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        compiled["PYTHONPYCACHEPREFIX"] = str(tmp_path / "compiled")
        runs = [subprocess.run(command, check=True, capture_output=True, text=True, env=compiled) for _ in range(4)]
    assert min(int(done.stderr.split()[1]) for done in runs) < 19 << 10, "KiB"


def test_thousands_of_messages_write_little(tmp_path):
    status = Status(identity=Identity(run="r", task="t"), job="j", system="kubeflow")
    attempt = AttemptFolder(tmp_path)
    attempt.claim().close()
    written = []
    attempt.write = lambda status, *, last: written.append(len(msgspec.json.encode(status)))
    logbook = LogWriter(attempt.log)
    recorder = Recorder(status, attempt, logbook, [])
    for number in range(12_000):
        message = f"0/{number} nodes are available: insufficient nvidia.com/gpu"
        recorder.apply(JobChanged(at=number, state=State.PENDING, reason="Unschedulable", message=message))
    logbook.close()
    assert recorder.status.message == message
    assert sum(written) < 20 * MIB
    transitions = recorder.status.transitions
    assert [transitions[0].at, transitions[-1].at] == [0, 11_999]
    assert len(transitions) < 1000
