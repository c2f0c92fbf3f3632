"""Containers of a replica beside its program's: their lines, and their ends, belong to the replica."""

import contextlib
import io
import pathlib
import re
import time

import pytest

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, serve
from tests.wire.test_job import JOB, events, listed
from tfsteps.backends.find import ReplicaFilter
from tfsteps.kube.client import Api
from tfsteps.launcher.failure import failure_summary
from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Recorder
from tfsteps.report import logs as report
from tfsteps.runs.events import JobChanged, LogLines, ReplicaName
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import following
from tfsteps.systems.kubernetes.follow.job import KubernetesJob

STARTED = {"startedAt": "2026-01-01T00:00:01Z"}
ENDED = {**STARTED, "finishedAt": "2026-01-01T00:00:02Z"}
WAITING = {"name": "tensorflow", "state": {"waiting": {"reason": "PodInitializing"}}}


def ended(name, code, reason="", **more):
    reason = reason or ("Error" if code else "Completed")
    return {"name": name, "state": {"terminated": {**ENDED, "exitCode": code, "reason": reason, **more}}}


def up(name):
    return {"name": name, "state": {"running": STARTED}}


def replica(phase, inits, containers, **spec):
    item = pod({"phase": phase, "initContainerStatuses": inits, "containerStatuses": containers})
    item["spec"] = {"restartPolicy": "Never", **spec}
    return item


def follow(item, end, logs):
    """Return what a launcher makes of a job with one pod: its status, what it prints, its run folder.

    `logs` has what each container printed; a log that is followed stays open in the end.
    """

    def script(asked):
        if asked.path.endswith("/log"):
            text = b"".join(
                b"2026-01-01T00:00:01.%09dZ %b\n" % (number, line)
                for number, line in enumerate(logs.get(asked.query["container"], []))
            )
            return Answer(parts=[text, "hang"]) if asked.query.get("follow") == "true" and text else Answer(body=text)
        watched = "watch" in asked.query
        if asked.path.endswith("/tfjobs"):
            return events(1.0, ("MODIFIED", tfjob(end))) if watched else listed(tfjob("Running"))
        return events() if watched else listed(item)

    attempt = AttemptFolder.of(Identity(run="r", task="t"))
    attempt.folder.mkdir(parents=True)
    status = Status(
        identity=Identity(run="r", task="t"),
        job="job",
        system="kubeflow",
        replicas=[ReplicaStatus(role="worker", index=0)],
    )
    out, seen = io.StringIO(), []
    with serve(script) as server, contextlib.closing(LogWriter(attempt.log)) as book:
        recorder = Recorder(status, attempt, book, [Printer(out)])
        for event in KubernetesJob(Api(server.access()), TFJob(), tfjob(), JOB, None).events():
            seen.append(event)
            recorder.apply(event)
    assert isinstance(seen[-1], JobChanged)
    status.failure = failure_summary(status, recorder.logbook.tails.last_lines, str(seen[-1].replica or ""))
    return status, out.getvalue().splitlines(), attempt, seen


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))


INIT = "init-data"
SPEC = {"initContainers": [{"name": INIT}]}
LOGS = {INIT: [b"downloading", b"Traceback (most recent call last):", b"OSError: no such bucket"]}


def test_a_failed_init_container_explains_the_failure():
    item = replica("Failed", [ended(INIT, 3)], [WAITING], **SPEC)
    status, printed, attempt, _ = follow(item, "Failed", LOGS)
    assert [line for line in printed if line.startswith("[")] == [
        f"[worker-0/{INIT}] {line.decode()}" for line in LOGS[INIT]
    ]
    assert "worker-0: init container init-data failed with exit code 3 (Error)." in status.message
    (incarnation,) = status.replicas[0].incarnations
    assert (incarnation.exit_code, incarnation.reason, incarnation.container) == (3, "InitContainerFailed", INIT)
    assert status.failure.tail == [line.decode() for line in LOGS[INIT]]
    assert status.failure.exception == "OSError: no such bucket"
    assert status.failure.exit_code == 3
    lines = report.tails(attempt.log, ["worker-0"])["worker-0"].lines
    assert [line.text for line in lines] == [f"[{INIT}] {line.decode()}" for line in LOGS[INIT]]


def test_an_init_container_that_fails_repeatedly_explains_why_the_job_does_not_start(tmp_path):
    crashing = {"name": INIT, "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    crashing["lastState"] = {"terminated": {**ENDED, "exitCode": 1, "reason": "OOMKilled"}}
    item = replica("Pending", [crashing], [WAITING], **SPEC, restartPolicy="OnFailure")
    *_, seen = follow(item, "Failed", {})
    waiting = [event for event in seen if isinstance(event, JobChanged) and event.message]
    assert waiting[0].reason == "OOMKilled"
    assert waiting[0].message == "worker-0: init container init-data failed with exit code 1 (OOMKilled)"


def test_a_sidecar_that_fails_a_pod_whose_program_succeeded_is_named():
    item = replica("Failed", [], [ended("tensorflow", 0), ended("uploader", 7, message="a\nno space left\n")])
    status, *_ = follow(item, "Failed", {"uploader": [b"bye"]})
    assert "worker-0: container uploader failed with exit code 7 (Error): no space left." in status.message
    assert (status.failure.exit_code, status.failure.tail) == (7, ["bye"])


def test_the_programs_last_lines_are_not_displaced_by_its_sidecar(tmp_path):
    chatty = [b"GET /healthz %d" % number for number in range(500)]
    item = replica("Failed", [], [ended("tensorflow", 1), ended("istio-proxy", 0)])
    status, *_ = follow(item, "Failed", {"tensorflow": [b"ValueError: x"], "istio-proxy": chatty})
    assert status.failure.tail == ["ValueError: x"]
    assert status.message == "worker-0 failed with exit code 1."


SIDECARS = {
    "injected": (replica("Running", [], [ended("tensorflow", 0), up("istio-proxy")]), "istio-proxy"),
    "native": (
        replica(
            "Running",
            [up("proxy")],
            [ended("tensorflow", 0)],
            initContainers=[{"name": "proxy", "restartPolicy": "Always"}],
        ),
        "proxy",
    ),
}


@pytest.mark.parametrize(("item", "name"), SIDECARS.values(), ids=SIDECARS)
def test_a_sidecar_that_goes_on_does_not_hold_up_the_end(item, name, tmp_path, monkeypatch):
    monkeypatch.setattr(following, "DRAIN_SECONDS", 60.0)
    begun = time.monotonic()
    _, printed, _, seen = follow(item, "Succeeded", {"tensorflow": [b"done"], name: [b"proxied"]})
    assert time.monotonic() - begun < 45
    assert {"[worker-0] done", f"[worker-0/{name}] proxied"} <= set(printed)
    assert not [line for line in printed if "incomplete" in line]
    assert {(line.container, line.sidecar) for line in seen if isinstance(line, LogLines)} == {
        ("", False),
        (name, True),
    }


def test_a_missing_image_of_a_sidecar_is_reported(tmp_path):
    missing = {"name": "proxy", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    *_, seen = follow(replica("Pending", [], [up("tensorflow"), missing]), "Failed", {})
    assert any("no such image" in event.message for event in seen if isinstance(event, JobChanged))


def test_lines_of_a_replica_are_chosen_with_those_of_its_other_containers():
    sources = ["worker-1", "worker-1/init-data", "worker-11", "ps-1/init-data"]
    assert [source for source in sources if ReplicaFilter(["worker-1"]).matches(source)] == sources[:2]
    assert [source for source in sources if ReplicaFilter(["worker"]).matches(source)] == sources[:3]


def test_the_log_file_names_the_container():
    path = pathlib.Path(AttemptFolder.of(Identity(run="r", task="t")).folder)
    path.mkdir(parents=True)
    with contextlib.closing(LogWriter(path / "log")) as book:
        book.write(LogLines(0.0, ReplicaName("worker", 0), [b"text"], container="init-data"))
    assert re.fullmatch(rb"\S+ worker-0/init-data text\n", (path / "log").read_bytes())
