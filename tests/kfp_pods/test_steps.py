"""Each step in a pod of Kubeflow Pipelines: its outputs, what takes its pod away, and what is left then."""

import json
import os
import time

import pytest
import yaml

from tests.cluster.paths import NODE_IP
from tests.kfp_pods.backend import ASLEEP, Step, job
from tests.preflight.conftest import HELD, exists, release
from tests.support.event_writer import by_shell
from tests.support.s3 import served_bucket
from tests.support.waiting import until
from tests.unit.cli.command import output_lines
from tfsteps.engines.argo.workflow import WORKFLOWS
from tfsteps.engines.kfp.object_store import CONFIG_MAP, SECRET
from tfsteps.kube.resource import PODS, Resource

SECRETS, CONFIG_MAPS = Resource("v1", "secrets", "Secret"), Resource("v1", "configmaps", "ConfigMap")
pytestmark = pytest.mark.cluster
SECONDS = 5.0
"""Within which a terminated run leaves no job."""


def test_what_a_training_publishes(backend):
    run = backend.run("publishes")
    ended = backend.finish(Step(run, "train", "train", job("publishes", "echo hello")))
    assert ended.code == 0, ended.output
    [(name, uid)] = backend.jobs("publishes").items()
    created_job = ended.parameter("job")
    assert (created_job["name"], created_job["uid"], created_job["state"], created_job["run"]) == (
        name,
        uid,
        "succeeded",
        run.id,
    )
    assert ended.parameter("failure") == ""
    model = ended.published["artifacts"]["model"]["artifacts"][0]
    assert model["metadata"]["path"] == "", "without output_dir and a claim it is lost with its pod"
    assert ended.published["files"]["logs"]
    assert ended.published["files"]["report"]


def test_a_run_whose_training_has_wrong_inputs_is_listed(backend):
    run = backend.run("wrong")
    ended = backend.finish(Step(run, "train", "train", {**job("wrong", "true"), "workers": -1}))
    assert "exit 2" in ended.output
    assert backend.jobs("wrong") == {}
    where = ("--on", "kubernetes", "--namespace", backend.namespace, "--output", "json")
    (row,) = [row for row in json.loads("".join(output_lines("runs", *where))) if row["run"] == run.id]
    assert row["state"] == "failed"
    assert "-1" in row["message"], row


@pytest.mark.usefixtures("claim")
def test_a_training_whose_launcher_can_mount_nothing_publishes_metrics(backend):
    """As `train_and_finalize` of docs/guides/kubeflow.md: what is set on its tasks does not reach them."""
    fields = {"volumes": [{"pvc": "training", "mount": "/data"}]}
    inputs = job("measured", by_shell("accuracy", 0.5, 0.75), **fields) | {"metric_tags": {"acc": "accuracy"}}
    ended = backend.finish(Step(backend.run("measured"), "train", "train", inputs))
    assert ended.code == 0, ended.output
    (metrics,) = ended.published["artifacts"]["metrics"]["artifacts"]
    assert metrics["metadata"]["acc"] == 0.75, ended.output


@pytest.mark.alone  # as below
def test_an_evicted_training_that_no_pod_follows_takes_its_job_along(backend):
    """Observed on 2.15, 4 of 4: a running node becomes `Error: pod deleted`."""
    step = Step(backend.run("orphan"), "train", "train", job("orphan", ASLEEP), lingers=0.11)
    pod, _ = backend.start(step)
    backend.until_said(pod, "[worker-0] up")
    [uid] = backend.jobs("orphan")
    asked = time.time()
    backend.evict(pod)
    gone = until(lambda: backend.deleted.get(uid))
    assert backend.jobs("orphan") == {}
    assert gone - asked < SECONDS


def test_an_evicted_training_that_another_try_may_follow_keeps_its_job_for_it(backend):
    """With `set_retry`, whose policy is OnFailure, Argo decides by timing."""
    step = Step(backend.run("maybe"), "train", "train", job("maybe", ASLEEP), lingers=2.0)
    pod, _ = backend.start(step, 0)
    backend.until_said(pod, "[worker-0] up")
    [uid] = backend.jobs("maybe")
    backend.evict(pod)
    until(lambda: [owner["kind"] for owner in backend.owners(uid)] == ["Job"])


@pytest.mark.alone  # a tenth of a second is what a busy machine may take for the signal alone
@pytest.mark.parametrize("signalled", [True, False], ids=["run terminated", "this step alone"])
def test_a_training_that_is_terminated_has_a_tenth_of_a_second(signalled, backend):
    name = f"ends-{'told' if signalled else 'alone'}"
    run = backend.run(name)
    pod, _ = backend.start(Step(run, "train", "train", job(name, ASLEEP), lingers=0.1))
    backend.until_said(pod, "[worker-0] up")
    [uid] = backend.jobs(name)

    def terminate(when):
        """Observed on 2.15: the signal comes 0.11 s after the Workflow was changed."""
        time.sleep(max(0.0, when - 0.11 - time.time()))
        backend.api.patch(WORKFLOWS, backend.namespace, name, {"spec": {"activeDeadlineSeconds": 0}})

    asked = backend.signal(pod, before=terminate if signalled else None)
    assert backend.ended(pod).code == 128 + 15, "the parent did not live to see how the step ended"
    gone = until(lambda: backend.deleted.get(uid))
    assert backend.jobs(name) == {}
    took = gone - asked
    print(f"job gone {took:.3f} s after SIGTERM")
    assert took < SECONDS


def test_a_task_with_retries_makes_a_new_job_for_each(backend):
    run = backend.run("retried")
    step = Step(run, "train", "train", job("retried", "exit 3"))
    for attempt in (0, 1):
        ended = backend.finish(step, attempt)
        assert ended.code == 1
        assert "exit 10" in ended.output
    assert len(backend.jobs("retried")) == 2


def test_a_retry_of_the_run_trains_again(backend):
    """Observed on 2.15: it starts the same node again, `(0)`, with the same executor input."""
    step = Step(backend.run("again"), "train", "train", job("again", "exit 3"))
    for count in (1, 2):
        ended = backend.finish(step, 0)
        assert "exit 10" in ended.output
        assert len(backend.jobs("again")) == count
        backend.remove(step, 0)


def test_a_failure_that_nobody_has_reported_is_reported_and_not_tried_again(backend):
    step = Step(backend.run("unreported"), "train", "train", job("unreported", f"{HELD}; exit 3"))
    pod, _ = backend.start(step, 0)
    backend.until_said(pod, "[worker-0] up")
    backend.signal(pod, 9, "tfsteps.steps.train.launcher")
    assert backend.ended(pod).code == 1
    [uid] = backend.jobs("unreported")
    release(backend.cluster, backend.namespace, uid)
    until(lambda: backend.failed(uid))
    ended = backend.finish(step, 1)
    assert "exit 10" in ended.output
    assert "worker-0 failed" in ended.output
    assert list(backend.jobs("unreported")) == [uid]
    backend.start(step, 2)
    until(lambda: len(backend.jobs("unreported")) == 2)  # the failure was reported


def test_launch_and_wait_whose_pod_is_taken_away(backend):
    run = backend.run("apart", waits=True)
    launched = backend.finish(Step(run, "launch", "launch", job("apart", HELD)))
    assert launched.code == 0, launched.output
    before = backend.jobs("apart")
    created_job = launched.parameter("job")
    assert before == {created_job["name"]: created_job["uid"]}
    hook = backend.finish(Step(run, "launch.onExit.cleanup", "cleanup", {}))
    assert hook.parameter("removed") == [], "a wait step will come for it"
    waiting = Step(run, "wait", "wait", {"job": created_job}, lingers=0.11)
    pod, _ = backend.start(waiting, phase="Pending")
    backend.until_said(pod, "[worker-0] up")
    backend.evict(pod)
    ended = backend.go_on(waiting, "apart")
    assert ended.code == 0, ended.output
    assert backend.jobs("apart") == before
    assert (ended.parameter("job")["uid"], ended.parameter("job")["state"]) == (created_job["uid"], "succeeded")
    assert "[worker-0] up" in ended.output, "the log is read from its beginning"
    assert ended.published["files"]["logs"]


def test_the_next_try_of_a_lost_pod_follows_the_same_job(backend):
    """Observed on 2.17: a pod that is deleted or evicted while it runs is made again as the next try."""
    step = Step(backend.run("tries", tries=True), "train", "train", job("tries", HELD), lingers=0.11)
    pod, _ = backend.start(step, 0)
    backend.until_said(pod, "[worker-0] up")
    before = backend.jobs("tries")
    backend.evict(pod)
    until(lambda: not exists(backend.api, PODS, backend.namespace, pod))
    ended = backend.go_on(step, "tries", 1)
    assert ended.code == 0, ended.output
    assert backend.jobs("tries") == before
    (job_name,) = before
    assert [owner["kind"] for owner in backend.owners(job_name)] == ["Workflow"]


def test_a_finalizer_after_a_wait_step_is_for_the_job_that_it_followed(backend):
    run = backend.run("followed")
    created_job = backend.finish(Step(run, "launch", "launch", job("followed", ASLEEP))).parameter("job")
    pod, _ = backend.start(Step(run, "wait", "wait", {"job": created_job}))
    backend.until_said(pod, "[worker-0] up")
    assert backend.finish(Step(run, "launch.onExit.cleanup", "cleanup", {})).parameter("removed") == []
    backend.signal(pod, 9, "tfsteps.steps.wait.launcher")
    assert backend.ended(pod).code == 1
    assert backend.finish(Step(run, "wait.onExit.cleanup", "cleanup", {})).parameter("removed") == [created_job["name"]]


def test_waiting_for_a_job_that_is_gone_or_failed(backend):
    run = backend.run("gone")
    created_job = backend.finish(Step(run, "launch", "launch", job("gone", ASLEEP))).parameter("job")
    pod, _ = backend.start(Step(run, "wait", "wait", {"job": created_job}))
    backend.until_said(pod, "[worker-0] up")
    backend.cluster.kubectl("delete", "tfjobs", "-n", backend.namespace, created_job["name"])
    late = backend.finish(Step(run, "wait-2", "wait", {"job": created_job}))
    for ended in (backend.ended(pod), late):
        assert "exit 13" in ended.output
        assert "lost" in ended.output
    failed = backend.finish(Step(run, "launch-3", "launch", job("gone", "exit 3"))).parameter("job")
    assert "exit 10" in backend.finish(Step(run, "wait-3", "wait", {"job": failed})).output


def test_terminating_a_run_ends_the_job_that_it_waits_for(backend):
    run = backend.run("waited")
    created_job = backend.finish(Step(run, "launch", "launch", job("waited", ASLEEP))).parameter("job")
    pod, _ = backend.start(Step(run, "wait", "wait", {"job": created_job}))
    backend.until_said(pod, "[worker-0] up")
    asked = time.time()
    backend.api.patch(WORKFLOWS, backend.namespace, run.name, {"spec": {"activeDeadlineSeconds": 0}})
    assert until(lambda: backend.deleted.get(created_job["name"])) - asked < SECONDS


def test_cleanup_after_a_launcher_was_killed(backend):
    """Observed on 2.15: a finalizer is an exit hook of each task that it is `after`, an exit task of its handler."""
    run = backend.run("killed")
    nodes = {"inside": "handler-1.for-loop-1.iteration-item(0:0).train", "next": "train", "beside": "train-2"}
    pods = {name: backend.start(Step(run, node, "train", job(name, ASLEEP)))[0] for name, node in nodes.items()}
    for pod in pods.values():
        backend.until_said(pod, "[worker-0] up")
    for name in ("inside", "next"):
        backend.signal(pods[name], 9, "tfsteps.steps.train.launcher")
        assert backend.ended(pods[name]).code == 1
        [job_name] = backend.jobs(name)
        hook = {"inside": "handler-1.onExit.cleanup", "next": "train.onExit.cleanup"}[name]
        first = backend.finish(Step(run, hook, "cleanup", {}))
        assert first.code == 0, first.output
        assert first.parameter("removed") == [job_name]
        assert backend.jobs(name) == {}
        again = backend.finish(Step(run, f"{hook}-2", "cleanup", {}))
        assert (again.code, again.parameter("removed")) == (0, [])
    assert len(backend.jobs("beside")) == 1, "another task of the same run"
    backend.api.patch(WORKFLOWS, backend.namespace, run.name, {"spec": {"activeDeadlineSeconds": 0}})
    until(lambda: backend.jobs("beside") == {})


def test_cleanup_of_a_whole_run_and_of_what_has_ended(backend):
    run, other = backend.run("whole"), backend.run("other")
    for item in (run, other):
        created_job = backend.finish(
            Step(item, "for-loop-1.iteration-item(0:0).launch", "launch", job(item.name, "echo up"))
        )
        assert backend.finish(Step(item, "wait", "wait", {"job": created_job.parameter("job")})).code == 0
    [name] = backend.jobs("whole")
    kept = backend.finish(Step(run, "cleanup", "cleanup", {"scope": "run"}))
    assert kept.parameter("removed") == [], "its pods are gone already, and the job stays"
    removed = backend.finish(Step(run, "cleanup-2", "cleanup", {"scope": "run", "on_end": "delete"}))
    assert removed.parameter("removed") == [name]
    assert backend.jobs("whole") == {}
    assert len(backend.jobs("other")) == 1


def test_the_janitor_ends_what_was_launched_in_a_terminated_run_and_is_waited_for_by_no_step(backend):
    run = backend.run("detached")
    for name in ("detached", "kept"):
        kept = run if name == "detached" else backend.run("kept")
        launching = Step(kept, "launch", "launch", job(name, ASLEEP))
        assert backend.finish(launching).code == 0
        backend.remove(launching, None)  # the back end's pod is over then: its sidecar `wait` ends, too
    terminated = {"spec": {"activeDeadlineSeconds": 0}, "status": {"phase": "Failed"}}
    backend.api.patch(WORKFLOWS, backend.namespace, run.name, terminated)
    assert len(backend.jobs("detached")) == 1
    backend.cluster.kubectl("scale", "-n", backend.namespace, "deployment/tfsteps-janitor", "--replicas=1")
    until(lambda: backend.jobs("detached") == {})
    backend.cluster.kubectl("scale", "-n", backend.namespace, "deployment/tfsteps-janitor", "--replicas=0")
    assert len(backend.jobs("kept")) == 1, "its run goes on"


def test_the_gate_in_a_pod(backend):
    inputs = {"metric": "loss", "threshold": 0.5, "metrics": {"loss": 0.25}, "direction": "at_most"}
    ended = backend.finish(Step(backend.run("gate"), "evaluate-gate", "evaluate_gate", inputs))
    assert ended.published["parameterValues"] == {"decision": "pass", "value": 0.25}


def test_the_notification_step_in_a_pod_without_a_webhook(backend):
    status = {"state": "RUNNING", "error": {}, "pipelineTaskName": "exit-handler-1"}
    ended = backend.finish(Step(backend.run("told"), "exit-handler-1.onExit.notify", "notify", {"status": status}))
    assert (ended.code, ended.parameter("delivered")) == (0, False)
    assert "`unknown` was not sent: the variable TFSTEPS_WEBHOOK_URL is not set" in ended.output


@pytest.fixture
def bucket(backend):
    """Serve S3 to the pods of this machine as the store of the namespace's pipelines; return its one bucket."""
    ref = {"secretName": SECRET, "accessKeyKey": "accesskey", "secretKeyKey": "secretkey"}
    with served_bucket("mlpipeline") as (bucket, endpoint):
        default = {"endpoint": endpoint, "region": "minio", "disableSSL": True, "credentials": {"secretRef": ref}}
        providers = yaml.safe_dump({"minio": {"default": default}})
        manifests = {
            SECRETS: {"metadata": {"name": SECRET}, "stringData": {"accesskey": "a", "secretkey": "b"}},
            CONFIG_MAPS: {"metadata": {"name": CONFIG_MAP}, "data": {"providers": providers}},
        }
        items = {kind: backend.api.create(kind, backend.namespace, item) for kind, item in manifests.items()}
        yield bucket
        for resource, item in items.items():
            backend.api.delete(resource, backend.namespace, item["metadata"]["name"], item["metadata"]["uid"])


@pytest.mark.skipif("TFSTEPS_LAUNCHER_IMAGE" in os.environ, reason="pods of another machine do not reach this one")
def test_a_training_that_failed_stores_its_report_and_log(backend, bucket, monkeypatch):
    monkeypatch.setenv("NO_PROXY", NODE_IP)
    step = Step(backend.run("stores"), "train", "train", job("stores", "echo a line; exit 3"))
    ended = backend.finish(step)
    uris = {name: item["artifacts"][0]["uri"] for name, item in step.executor_input()["outputs"]["artifacts"].items()}
    assert f"the job failed. report: {uris['report']} logs: {uris['logs']}\n" in ended.output
    assert ended.published is None, "the back end publishes nothing of it"
    stored = {f"minio://mlpipeline/{item.key}": item.get()["Body"].read() for item in bucket.objects.all()}
    assert stored.keys() == {uris["report"], uris["logs"]}
    assert b"a line" in stored[uris["logs"]]
