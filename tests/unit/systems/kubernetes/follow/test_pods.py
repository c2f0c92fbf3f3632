"""What a pod's status says about its replica, on statuses recorded from real pods."""

import copy
import json

import pytest

from benchmarks.replicas import POD
from tests.unit.systems.kubernetes.objects import STATUSES
from tests.unit.systems.kubernetes.objects import pod as item
from tfsteps.kube import answers
from tfsteps.kube.answers import ShapeError
from tfsteps.runs.events import ReplicaState
from tfsteps.systems.kubernetes.follow import pods
from tfsteps.systems.kubernetes.job_pods import JOB_PODS

P, R, S, F, AGAIN = (
    ReplicaState.PENDING,
    ReplicaState.RUNNING,
    ReplicaState.SUCCEEDED,
    ReplicaState.FAILED,
    ReplicaState.RESTARTING,
)

# what had happened: (state, reason, exit code, restarts, whether it ended for good)
EXPECTED = {
    "unschedulable": (P, "Unschedulable", None, 0, False),
    "image missing": (P, "ImagePullBackOff", None, 0, False),
    "secret missing": (P, "CreateContainerConfigError", None, 0, False),
    "init container runs": (P, "", None, 0, False),
    "image of an init container missing": (P, "ImagePullBackOff", None, 0, False),
    "running": (R, "", None, 0, False),
    "evicted by the API, still running": (R, "EvictionByEvictionAPI", None, 0, False),
    "evicted by the API": (F, "EvictionByEvictionAPI", 143, 0, True),
    "evicted by the kubelet": (F, "Evicted", 137, 0, True),
    "out of memory": (F, "OOMKilled", 137, 0, True),
    "command missing": (F, "StartError", 128, 0, True),
    "succeeded": (S, "", 0, 0, True),
    "about to restart": (F, "", 3, 3, False),
    "crash loop": (AGAIN, "", 3, 3, False),
}


def kept(whole):
    """Return the fields of a pod that a launcher keeps."""
    [item] = decoded(items=[whole])["items"]
    return item


def decoded(**answer):
    return answers.decode(json.dumps(answer), JOB_PODS.shape)


def pod(whole, container):
    """Parse a pod as a launcher does: a field that is not kept is missed by a test."""
    return pods.pod(kept(whole), container)


def test_all_fields_that_are_read_are_kept():
    whole = item(
        {
            "phase": "Failed",
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T09:30:10Z"}],
            "initContainerStatuses": [{"name": "beside", "restartCount": 2, "state": {"running": {}}}],
            "containerStatuses": [{"name": "tensorflow", "state": {}, "lastState": {"terminated": {"exitCode": 1}}}],
        }
    )
    whole["spec"] = {
        "restartPolicy": "Never",
        "initContainers": [{"name": "beside", "restartPolicy": "Always"}],
    }
    whole["metadata"] |= {
        "creationTimestamp": "2026-11-21T09:29:00Z",
        "deletionTimestamp": "2026-11-21T09:30:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    seen = pod(whole, "tensorflow")
    assert seen == pods.pod(whole, "tensorflow")
    assert (seen.created, seen.finished, seen.killed) == (1795253340.0, 1795253410.0, True)
    assert [(part.name, part.restarts, part.sidecar) for part in seen.containers] == [
        ("beside", 2, True),
        ("", 0, False),
    ]
    running = item("running")
    running["status"] = {
        **running["status"],
        "containerStatuses": [
            {"name": name, "state": {"terminated": {"exitCode": 1}}} for name in ("tensorflow", "istio-proxy")
        ],
    }
    running["spec"] = {"restartPolicy": "Never"}
    assert [part.ended for part in pod(running, "tensorflow").containers] == [True, True]


def test_what_is_large_is_not_kept():
    whole = item("running") | {"spec": POD["spec"]}
    whole["status"] = {**POD["status"], **whole["status"]}
    whole["metadata"] |= {"managedFields": [{"manager": "kubelet"}], "annotations": {"a": "b"}, "resourceVersion": "7"}
    less = kept(whole)
    assert less["metadata"] == {key: value for key, value in whole["metadata"].items() if key != "managedFields"}
    assert less["spec"]["containers"] == [
        {key: POD["spec"]["containers"][0][key] for key in ("name", "resources")},
    ]
    assert len(json.dumps(less)) < 0.3 * len(json.dumps(whole))


def test_an_event_has_the_kept_fields_and_errors_and_bookmarks_are_whole():
    whole = item("running") | {"spec": POD["spec"]}
    assert decoded(type="MODIFIED", object=whole)["object"] == kept(whole)
    for answer in (
        {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old", "reason": "Expired"}},
        {"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}},
    ):
        assert decoded(**answer) == answer


def test_pods_of_an_odd_form_are_whole():
    """A check refuses what is no pod; one odd pod does not hide the others."""
    odd = item("running") | {"spec": {"containers": "none"}}
    assert decoded(items=[odd, item("succeeded")]) == {"items": [odd, item("succeeded")]}
    assert decoded(items=None, kind="PodList") == {"items": None, "kind": "PodList"}
    with pytest.raises(ShapeError):
        answers.decode("<html>", JOB_PODS.shape)


def test_every_recorded_status_has_a_row():
    assert EXPECTED.keys() == STATUSES.keys()


@pytest.mark.parametrize(("status", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_recorded(status, expected):
    pod_status = pod(item(status), "tensorflow")
    assert (
        pod_status.state,
        pod_status.reason,
        pod_status.exit_code,
        pod_status.restarts,
        pod_status.ended,
    ) == expected


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("unschedulable", "Insufficient cpu"),
        ("image missing", "pulling image"),
        ("secret missing", 'secret "gone" not found'),
        ("evicted by the kubelet", "ephemeral local storage"),
        ("command missing", "no such file"),
        ("out of memory", "more memory than its limit"),
    ],
)
def test_the_message_names_the_problem(status, word):
    assert word in pod(item(status), "tensorflow").message


TAKEN = {  # a pod's reason and message, as kubelets of 1.30 to 1.34 write them
    "Terminated": "Pod was terminated in response to imminent node shutdown.",
    "Preempting": "Preempted in order to admit critical pod",
    "OutOfcpu": "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 0, capacity: 2000",
    "UnexpectedAdmissionError": "Pod was rejected: Allocate failed due to device plugin",
}


@pytest.mark.parametrize(("reason", "message"), TAKEN.items(), ids=TAKEN)
def test_a_pod_that_its_node_ended_or_did_not_take_did_not_fail_by_itself(reason, message):
    status = {"phase": "Failed", "reason": reason, "message": message}
    pod_status = pod(item(status), "tensorflow")
    assert (pod_status.state, pod_status.reason, pod_status.message) == (
        F,
        "TerminationByKubelet",
        f"{reason}: {message}",
    )
    ended = copy.deepcopy(STATUSES["evicted by the API"])
    pod_status = pod(item({**ended, "reason": reason, "message": message}), "tensorflow")
    assert (pod_status.reason, pod_status.exit_code) == ("TerminationByKubelet", 143)


def test_before_any_status():
    pod_status = pod(item({}), "tensorflow")
    assert (pod_status.state, pod_status.started, pod_status.exit_code, pod_status.node) == (P, None, None, "")


def test_other_containers_do_not_count():
    status = copy.deepcopy(STATUSES["running"])
    status["containerStatuses"].insert(0, {**STATUSES["crash loop"]["containerStatuses"][0], "name": "istio-proxy"})
    pod_status = pod(item(status), "tensorflow")
    assert (pod_status.state, pod_status.restarts, pod_status.exit_code) == (R, 0, None)


def test_running_again_after_a_kill_for_memory():
    status = copy.deepcopy(STATUSES["running"])
    (container,) = status["containerStatuses"]
    (killed,) = STATUSES["out of memory"]["containerStatuses"]
    container["restartCount"], container["lastState"] = 1, killed["state"]
    pod_status = pod(item(status), "tensorflow")
    assert (pod_status.state, pod_status.reason, pod_status.exit_code, pod_status.restarts) == (R, "OOMKilled", None, 1)


def test_when_and_where():
    one = item("running")
    one["spec"], one["metadata"]["deletionTimestamp"] = {"nodeName": "node1"}, "2026-11-21T09:30:24Z"
    pod_status = pod(one, "tensorflow")
    assert (pod_status.node, pod_status.deleting, pod_status.started) == ("node1", True, 1795253371.0)


def test_the_start_time_is_known_during_and_after_the_run():
    assert pod(item("running"), "tensorflow").started == pod(item("evicted by the API"), "tensorflow").started
    assert pod(item("image missing"), "tensorflow").started is None


def test_a_pull_that_fails_has_one_message_whether_the_kubelet_tries_or_pauses():
    pull_error = 'failed to pull and unpack image "docker.io/nothere:1": no such host'
    paused = f'Back-off pulling image "nothere:1": ErrImagePull: {pull_error}'
    messages = set()
    for reason, message in (("ErrImagePull", pull_error), ("ImagePullBackOff", paused)):
        status = copy.deepcopy(STATUSES["image missing"])
        status["containerStatuses"][0]["state"]["waiting"] = {"reason": reason, "message": message}
        messages.add(pod(item(status), "tensorflow").message)
    assert messages == {pull_error}


def test_the_memory_limit_is_that_of_the_container_that_ended():
    limited = item("out of memory")
    limited["spec"] = {"containers": [{"name": "tensorflow", "resources": {"limits": {"memory": "1Gi"}}}]}
    assert pod(limited, "tensorflow").memory_limit == 2**30
    limited["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1e9"  # a form that tfsteps does not write
    assert pod(limited, "tensorflow").memory_limit is None
    assert pod(item("out of memory"), "tensorflow").memory_limit is None


def test_the_image_is_that_of_the_present_incarnation():
    image_id = "docker.io/acme/mnist@sha256:0a1b"
    running = copy.deepcopy(STATUSES["running"])
    running["containerStatuses"][0] |= {"imageID": image_id, "image": "acme/mnist:1.4"}
    assert pod(item(running), "tensorflow").image == image_id
    running["containerStatuses"][0] |= {
        "restartCount": 1,
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T09:29:47Z"}},
    }
    seen = pod(item(running), "tensorflow")
    assert seen.image == image_id
    assert seen.earlier.image == "", "a restart may have pulled another image"
    assert pod(item(STATUSES["unschedulable"]), "tensorflow").image == ""
