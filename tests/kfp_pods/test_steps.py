"""Each step in a pod of Kubeflow Pipelines: its outputs, what takes its pod away, and what is left then."""

import time

import pytest

from tests.kfp_pods.backend import ASLEEP, Step, job
from tests.preflight.conftest import HELD
from tests.support.waiting import until
from tfsteps.cluster.logs import PODS
from tfsteps.systems.kubernetes.host import WORKFLOWS

pytestmark = pytest.mark.cluster
SECONDS = 5.0
"""Within which a terminated run leaves no job."""


def test_what_a_training_publishes_and_that_another_run_trains_again(backend):
    run = backend.run("publishes")
    ended = backend.finish(Step(run, "train", "train", job("publishes", "echo hello")))
    assert ended.code == 0, ended.said
    [(name, uid)] = backend.jobs("publishes").items()
    made = ended.parameter("job")
    assert (made["name"], made["uid"], made["state"], made["run"]) == (name, uid, "succeeded", run.id)
    assert ended.parameter("digest") == ""
    assert ended.published["artifacts"]["model"]["artifacts"][0]["metadata"]["path"].endswith("/model")
    assert ended.published["files"]["logs"]
    assert ended.published["files"]["report"]
    again = backend.finish(Step(backend.run("publishes-again"), "train", "train", job("publishes", "echo hello")))
    assert again.parameter("job")["uid"] != uid
    assert len(backend.jobs("publishes")) == 2


def test_an_evicted_training_is_adopted_by_the_pod_of_the_same_name(backend):
    step = Step(backend.run("evicted"), "train", "train", job("evicted", HELD), lingers=0.11)
    pod, uid = backend.start(step)
    backend.until_said(pod, "[worker-0] up")
    before = backend.jobs("evicted")
    backend.evict(pod)
    ended = backend.go_on(step, "evicted")
    assert ended.code == 0, ended.said
    assert backend.api.get(PODS, backend.namespace, pod)["metadata"]["uid"] != uid
    assert backend.jobs("evicted") == before
    assert ended.parameter("job")["uid"] in before.values()
    assert "[worker-0] up" in ended.said


@pytest.mark.parametrize("told", [True, False], ids=["run terminated", "this step alone"])
def test_a_training_that_is_terminated_has_a_tenth_of_a_second(told, backend):
    name = f"ends-{'told' if told else 'alone'}"
    run = backend.run(name)
    pod, _ = backend.start(Step(run, "train", "train", job(name, ASLEEP), lingers=0.1))
    backend.until_said(pod, "[worker-0] up")
    [made] = backend.jobs(name)
    if told:
        backend.api.patch(WORKFLOWS, backend.namespace, name, {"spec": {"activeDeadlineSeconds": 0}})
    asked = backend.signal(pod)
    assert backend.ended(pod).code == 128 + 15, "the parent did not live to see how the step ended"
    gone = until(lambda: backend.deleted.get(made))
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
        assert "exit 10" in ended.said
    assert len(backend.jobs("retried")) == 2


def test_launch_and_wait_whose_pod_is_taken_away(backend):
    run = backend.run("apart")
    launched = backend.finish(Step(run, "launch", "launch", job("apart", HELD)))
    assert launched.code == 0, launched.said
    before = backend.jobs("apart")
    made = launched.parameter("job")
    assert before == {made["name"]: made["uid"]}
    waiting = Step(run, "wait", "wait", {"job": made}, lingers=0.11)
    pod, _ = backend.start(waiting)
    backend.until_said(pod, "[worker-0] up")
    backend.evict(pod)
    ended = backend.go_on(waiting, "apart")
    assert ended.code == 0, ended.said
    assert backend.jobs("apart") == before
    assert (ended.parameter("job")["uid"], ended.parameter("job")["state"]) == (made["uid"], "succeeded")
    assert "[worker-0] up" in ended.said, "the log is read from its beginning"
    assert ended.published["files"]["logs"]


def test_waiting_for_a_job_that_is_gone_or_failed(backend):
    run = backend.run("gone")
    made = backend.finish(Step(run, "launch", "launch", job("gone", ASLEEP))).parameter("job")
    pod, _ = backend.start(Step(run, "wait", "wait", {"job": made}))
    backend.until_said(pod, "[worker-0] up")
    backend.cluster.kubectl("delete", "tfjobs", "-n", backend.namespace, made["name"])
    late = backend.finish(Step(run, "wait-2", "wait", {"job": made}))
    for ended in (backend.ended(pod), late):
        assert "exit 13" in ended.said
        assert "lost" in ended.said
    failed = backend.finish(Step(run, "launch-3", "launch", job("gone", "exit 3"))).parameter("job")
    assert "exit 10" in backend.finish(Step(run, "wait-3", "wait", {"job": failed})).said


def test_terminating_a_run_ends_the_job_that_it_waits_for(backend):
    run = backend.run("waited")
    made = backend.finish(Step(run, "launch", "launch", job("waited", ASLEEP))).parameter("job")
    pod, _ = backend.start(Step(run, "wait", "wait", {"job": made}))
    backend.until_said(pod, "[worker-0] up")
    asked = time.time()
    backend.api.patch(WORKFLOWS, backend.namespace, run.name, {"spec": {"activeDeadlineSeconds": 0}})
    assert "exit 12" in backend.ended(pod).said
    assert backend.jobs("waited") == {}
    assert until(lambda: backend.deleted.get(made["name"])) - asked < SECONDS


def test_cleanup_after_a_launcher_was_killed(backend):
    run = backend.run("killed")
    pods = {}
    for name in ("inside", "beside"):
        node = "inner.train" if name == "inside" else "train"
        pods[name], _ = backend.start(Step(run, node, "train", job(name, ASLEEP)))
    for pod in pods.values():
        backend.until_said(pod, "[worker-0] up")
    backend.signal(pods["inside"], 9, "tfsteps.train.launcher")
    assert backend.ended(pods["inside"]).code == 1
    [inside] = backend.jobs("inside")
    first = backend.finish(Step(run, "inner.cleanup", "cleanup", {}))
    assert first.code == 0, first.said
    assert first.parameter("removed") == [inside]
    assert backend.jobs("inside") == {}
    assert len(backend.jobs("beside")) == 1, "another scope of the same run"
    again = backend.finish(Step(run, "inner.cleanup-2", "cleanup", {}))
    assert (again.code, again.parameter("removed")) == (0, [])
    backend.api.patch(WORKFLOWS, backend.namespace, run.name, {"spec": {"activeDeadlineSeconds": 0}})
    assert "exit 12" in backend.ended(pods["beside"]).said


def test_cleanup_of_a_whole_run_and_of_what_has_ended(backend):
    run, other = backend.run("whole"), backend.run("other")
    for each in (run, other):
        made = backend.finish(Step(each, "for-loop-1.iteration-item(0:0).launch", "launch", job(each.name, "echo up")))
        assert backend.finish(Step(each, "wait", "wait", {"job": made.parameter("job")})).code == 0
    [name] = backend.jobs("whole")
    kept = backend.finish(Step(run, "cleanup", "cleanup", {"scope": "run"}))
    assert kept.parameter("removed") == [], "its pods are gone already, and the job stays"
    removed = backend.finish(Step(run, "cleanup-2", "cleanup", {"scope": "run", "on_end": "delete"}))
    assert removed.parameter("removed") == [name]
    assert backend.jobs("whole") == {}
    assert len(backend.jobs("other")) == 1


def test_the_gate_in_a_pod(backend):
    given = {"metric": "loss", "threshold": 0.5, "metrics": {"loss": 0.25}, "direction": "at_most"}
    ended = backend.finish(Step(backend.run("gate"), "evaluate-gate", "evaluate_gate", given))
    assert ended.published["parameterValues"] == {"decision": "pass", "value": 0.25}
