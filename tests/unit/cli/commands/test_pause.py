"""`tfsteps pause` and `tfsteps resume`, over HTTP to a server that has some jobs."""

import re

import pytest

from tests.unit.cli.command import output_lines, refused, tfsteps, unread
from tests.unit.cli.jobs_on_cluster import JOB, kubeconfig, pod_of, tfjob
from tests.unit.cli.statuses import saved
from tests.wire.scripted import Answer, refusal
from tfsteps.backends import waiting
from tfsteps.backends.kubernetes import backend as kubernetes_pause
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.render.pod_template import merged

K = ("--on", "kubernetes")
RUNNING = ("Running", "True", 3)
QUEUED = JOB.replace("{name", "{queue: research, name", 1)


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """Return a function that serves some objects; a TFJob that is suspended there loses its pods, as they run."""
    with kubeconfig(monkeypatch, tmp_path) as (server, there):

        def answer(asked):
            name = asked.path.rpartition("/")[2]
            selected = [item for item in there.jobs if item["metadata"]["name"] == name]
            if asked.method == "PATCH" and selected:
                if asked.body["metadata"]["uid"] != selected[0]["metadata"]["uid"]:
                    return refusal(409, "Conflict")
                there.jobs[there.jobs.index(selected[0])] = merged(selected[0], asked.body)
                if asked.body["spec"]["runPolicy"]["suspend"]:
                    labels = selected[0]["metadata"]["labels"].items()
                    there.pods = [pod for pod in there.pods if not labels <= pod["metadata"]["labels"].items()]
            if asked.method == "GET" and selected:
                return Answer(body=selected[0])
            return there.answer(asked)

        def have(*items):
            there.jobs = [item for item in items if item.get("kind") == "TFJob"]
            there.pods = [item for item in items if item.get("kind") != "TFJob"]
            return server

        server.script = answer
        server.there = there
        yield have


def patches(server):
    return [(asked.path.rpartition("/")[2], asked.body["spec"]) for asked in server.asked if asked.method == "PATCH"]


def replicas(job):
    return [pod_of(job, name, "Running") for name in ("chief-0", "worker-0", "worker-1")]


def test_pause_and_resume(cluster):
    job = tfjob("busy", RUNNING)
    server = cluster(job, *replicas(job))
    back = "`tfsteps resume busy --task mnist --on kubernetes` starts it again"
    assert output_lines("pause", "busy", *K) == [f"mnist is paused; {back}"]
    name = job["metadata"]["name"]
    assert patches(server) == [(name, {"runPolicy": {"suspend": True}})]
    assert "is paused already" in refused("pause", "busy", *K)
    message = "`tfsteps show busy --on kubernetes` tells when its replicas have started"
    assert output_lines("resume", "busy", *K) == [f"mnist is resumed; {message}"]
    assert patches(server)[1:] == [(name, {"runPolicy": {"suspend": False}})]


def test_pause_waits_until_no_replica_runs(cluster, monkeypatch):
    job = tfjob("busy", RUNNING)
    chief, first, second = replicas(job)
    second = pod_of(job, "worker-1", "Succeeded", 0, ended=5)
    server = cluster(job, chief, first, second)
    answer, left = server.script, [[chief, first, second], [chief, second], [second]]

    def slowly(asked):
        if asked.path.endswith("/pods") and patches(server):
            server.there.pods = left.pop(0)
        return answer(asked)

    server.script = slowly
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(kubernetes_pause, "_HINT_SECONDS", 0.0)
    lines = output_lines("pause", "busy", *K)
    assert lines[:3] == [
        "pausing mnist: waiting for chief-0, worker-0",
        "still waiting; is the training operator running? Ctrl-C ends the wait alone",
        "pausing mnist: waiting for chief-0",
    ]
    assert lines[3].startswith("mnist is paused"), "what has ended by itself stays"
    assert not left


@pytest.mark.parametrize(("command", "suspended"), [("pause", False), ("resume", True)])
def test_a_pod_that_has_ended_and_is_being_deleted_is_waited_for(cluster, monkeypatch, command, suspended):
    """The training operator fails a resumed job for it; a pause that was interrupted leaves it to the resume."""
    job = merged(tfjob("busy", RUNNING), {"spec": {"runPolicy": {"suspend": suspended}}})
    deleted = pod_of(job, "worker-0", "Failed", 143, ended=5)
    deleted["metadata"]["deletionTimestamp"] = "2026-11-25T12:05:14Z"
    server = cluster(job, deleted)
    answer, lists, patched_after = server.script, [], []

    def slowly(asked):
        if asked.method == "PATCH":
            patched_after.append(len(lists))
        elif asked.path.endswith("/pods") and (suspended or patches(server)):
            lists.append(asked)
            server.there.pods = [deleted] if len(lists) < 4 else []
        return answer(asked)

    server.script = slowly
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.0)
    lines = output_lines(command, "busy", *K)
    assert lines[0] == f"{command.removesuffix('e')}ing mnist: waiting for worker-0"
    assert lines[-1].startswith(f"mnist is {command}d")
    assert len(lists) == 4
    assert patched_after == [4 if suspended else 0]


@pytest.mark.parametrize(
    ("job", "command", "because"),
    [
        (tfjob("r", ("Succeeded", "True", 30)), "pause", "has ended: mnist succeeded after 30s"),
        (tfjob("r", ("Failed", "True", 30)), "resume", "has ended: mnist failed after 30s: Failed"),
        (tfjob("r", RUNNING), "resume", "is not paused: it is unknown"),
        (
            tfjob("r", RUNNING, job=QUEUED),
            "pause",
            "is controlled by its queue research, which would revert the change",
        ),
        (tfjob("r", RUNNING, job=QUEUED), "resume", "is controlled by its queue research"),
    ],
)
def test_an_impossible_pause_is_reported_and_changes_nothing(cluster, job, command, because):
    server = cluster(job)
    assert re.match(f"error: run r: task mnist {because}", refused(command, "r", *K))
    assert not patches(server)


def test_a_job_system_that_cannot(cluster, monkeypatch):
    monkeypatch.setattr(TFJob, "pause", lambda *_, **__: [])
    server = cluster(tfjob("r", RUNNING))
    again = "`tfsteps stop r` ends it, and `tfsteps run --run-id r` makes another attempt"
    because = f"cannot be paused: the training operator has nothing for it; {again}"
    assert refused("pause", "r", *K) == f"error: run r: task mnist {because}\n"
    assert not patches(server)


def test_of_several_tasks_those_that_can(cluster):
    ended, busy = tfjob("r", ("Succeeded", "True", 30)), tfjob("r", RUNNING, task="other", created=1)
    server = cluster(ended, busy)
    lines = output_lines("pause", "r", *K)
    assert lines[0].startswith("task mnist has ended: mnist succeeded after 30s")
    assert lines[1].startswith("other is paused; ")
    assert [name for name, _ in patches(server)] == [busy["metadata"]["name"]]
    assert "error: run r: task mnist has ended" in refused("pause", "r", "--task", "mnist", *K)


def test_a_refusal_of_the_cluster_is_the_answer(cluster):
    server = cluster(tfjob("r", RUNNING))
    answer = server.script
    no = refusal(403, "Forbidden", 'tfjobs.kubeflow.org "x" is forbidden: you cannot patch it')
    server.script = lambda asked: no if asked.method == "PATCH" else answer(asked)
    assert refused("pause", "r", *K) == 'error: tfjobs.kubeflow.org "x" is forbidden: you cannot patch it\n'


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_an_unknown_run(cluster, command):
    cluster(tfjob("busy", RUNNING))
    assert "error: run 'bsy' is unknown; nearest: busy" in refused(command, "bsy", *K)
    code, _, err = tfsteps(command, "busy", "--namespace", "x")
    assert (code, "add --on kubernetes" in err) == (ExitCode.USAGE, True)


class Platform:
    """A job system that pauses by itself, as hai does; it has two jobs of a run `far`."""

    def __init__(self):
        self.paused = []

    def pause(self, run):
        assert run == "far"
        paused, self.paused = self.paused, ["a", "b"]
        return [name for name in self.paused if name not in paused]

    def resume(self, run):
        assert run == "far"
        paused, self.paused = self.paused, []
        return paused


def test_a_platform_that_is_no_cluster_pauses_by_itself(monkeypatch):
    platform = Platform()
    monkeypatch.setattr(registry, "get", lambda name: {"hai": platform}[name])
    _, lock = saved(run="far", system="hai", hold=True)
    with lock:
        assert output_lines("pause", "far") == ["a, b paused"]
        assert refused("pause", "far") == "error: run far: nothing of it runs on hai\n"
        assert output_lines("resume", "far") == ["a, b resumed"]
        assert refused("resume", "far") == "error: run far: nothing of it is paused on hai\n"
        assert "hai pauses and resumes whole runs; leave it out" in refused("pause", "far", "--task", "mnist")


def test_local_runs_are_not_paused(tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path))
    for namespace, why in (("", "local runs cannot be paused; "), ("ml", "its jobs are on a cluster; add --on kube")):
        saved(run=f"r{namespace}", namespace=namespace, system="jobset" if namespace else "local")
        assert refused("pause", f"r{namespace}").startswith(f"error: run r{namespace}: {why}")


def test_pause_suspends_all_jobs_though_nobody_reads_what_it_prints(cluster):
    ended = tfjob("busy", ("Succeeded", "True", 30), task="earlier")
    server = cluster(ended, tfjob("busy", RUNNING))
    assert unread("pause", "busy", *K) == 141
    assert [body for _, body in patches(server)] == [{"runPolicy": {"suspend": True}}]
