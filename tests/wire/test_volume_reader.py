"""Event files on a claim that the launcher does not mount: a pod reads them and prints a summary to its log."""

import itertools
import json
import re
import sys
import threading
import time
import types

import pytest

from tests.unit.systems.kubernetes.objects import pod, tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_job import events, listed
from tfsteps import spec
from tfsteps.engines.registry import find_pipeline
from tfsteps.kube.client import Api
from tfsteps.launcher.earlier_files import EarlierFiles, origin_of
from tfsteps.launcher.event_summary import EventSummary, set_outputs
from tfsteps.report import curves
from tfsteps.report.curves import Chart, Charts, Curve, Point
from tfsteps.runs.events import JobChanged, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder, make_private
from tfsteps.systems.base import Cause, LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.follow import volume_reader
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.launcher_pod import LauncherPod
from tfsteps.systems.stop_controller import _Stopping

JOB_FIELDS = {"name": "job", "image": "trainer:1", "roles": {"worker": {}}}
JOB = spec.from_plain({**JOB_FIELDS, "outputs": {"metrics": {"loss": "loss"}}})
LOGS = "/claim/tfsteps/r/t/logs"
LABELS = {"app.kubernetes.io/managed-by": "tfsteps", "tfsteps.dev/run-id": "r", "team": "a"}
LAUNCHER = {
    "metadata": {
        "name": "step",
        "namespace": "ns",
        "uid": "l",
        "annotations": {"kubectl.kubernetes.io/default-container": "main"},
    },
    "spec": {
        "containers": [
            {"name": "istio-proxy", "image": "istio:1"},
            {"name": "main", "image": "here/launcher:1", "imagePullPolicy": "Never"},
        ],
        "imagePullSecrets": [{"name": "regcred"}],
    },
}
REPLICA = {
    "nodeName": "node-1",
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "securityContext": {"fsGroup": 2000},
    "serviceAccountName": "trainer",
    "volumes": [
        {"name": "kube-api-access", "projected": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ],
    "containers": [
        {
            "name": "tensorflow",
            "securityContext": {"runAsUser": 1000, "privileged": False},
            "volumeMounts": [{"name": "data", "mountPath": "/claim", "subPath": "team"}],
        }
    ],
}
CHART = Chart(tag="loss", curves=[Curve(run=".", points=[Point(1, 0.5)], last=Point(2, float("nan")))])
SUMMARY = EventSummary(metrics={"loss": 0.5}, notes={}, charts=Charts(charts=[CHART]))
PRINTED = f"warning: of another stream\n{SUMMARY.printed()}\n".encode()
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "reader", "state": {"running": {}}}]}
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
}


def ended(code):
    end = {"exitCode": code, "reason": "Error" if code else "Completed"}
    status = {"containerStatuses": [{"name": "reader", "state": {"terminated": end}}]}
    return {"phase": "Failed" if code else "Succeeded", **status}


class Cluster:
    """An API server with a TFJob that succeeds, and what it does with the pod that reads.

    Attributes:
        asked: Requests about the reader's pod.
        body: What was created.
        there: Fields of the pod that is there in its place.
    """

    def __init__(self, *statuses, created=None, logs=(PRINTED,), there=None):
        self.there = there or {}
        self.statuses, self.created, self.logs = list(statuses), created, list(logs)
        self.asked, self.body = [], {}
        self.pods_seen = threading.Event()

    def script(self, asked):
        if "job-reader" in asked.path or asked.method == "POST":
            return self.reader(asked)
        if asked.path.endswith("/log"):
            return Answer(body=b"")
        watched = "watch" in asked.query
        if asked.path.endswith("/tfjobs"):
            over = watched and self.pods_seen.wait(60)
            return events(0.1, ("MODIFIED", self.job("Succeeded"))) if over else listed(self.job("Running"))
        if watched:
            self.pods_seen.set()
            return events()
        return listed({**pod("succeeded"), "spec": REPLICA})

    def job(self, state):
        item = tfjob(state)
        return {**item, "metadata": {**item["metadata"], "labels": LABELS}}

    def reader(self, asked):
        self.asked.append((asked.method, asked.path.rpartition("/pods")[2]))
        if asked.method == "POST":
            self.body = asked.body
            meta = {**asked.body["metadata"], "namespace": "ns", "uid": "r1"}
            return self.created or Answer(201, {**asked.body, "metadata": meta})
        if asked.path.endswith("/log"):
            return Answer(body=self.logs.pop(0) if len(self.logs) > 1 else self.logs[0])
        if asked.method == "DELETE":
            assert asked.body["preconditions"] == {"uid": "r1"}
            return Answer(body={})
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        meta = {**self.body["metadata"], "name": "job-reader", "uid": "r1"}
        return Answer(body={**self.body, "metadata": meta, "status": status, **self.there})

    def read(self, job=JOB, *, launcher=LAUNCHER, meanwhile=None):
        """Return the status of a job that has ended, with what the event files came to."""
        identity = Identity(run="r", task="t")
        status = Status(identity=identity, job="job", system="kubeflow", state=State.SUCCEEDED, logs=LOGS)
        make_private(AttemptFolder.of(identity).folder)
        with serve(self.script) as server:
            api = Api(server.access(), patience=5)
            host = LauncherPod.of(api, launcher, find_pipeline) if launcher else None
            handle = KubernetesJob(api.copy(), TFJob(), self.job("Running"), job, host)
            assert list(handle.events())[-1].state is State.SUCCEEDED
            if meanwhile:
                threading.Timer(*meanwhile(handle)).start()
            origin = origin_of(status, job, handle, EarlierFiles())
            set_outputs(status, job, handle, origin, EarlierFiles())
        return status


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(volume_reader, "_POLL_SECONDS", 0.02)


def verbs(cluster):
    return [(method, path) for (method, path), _ in itertools.groupby(cluster.asked)]


def test_metrics_and_curves_come_out_of_the_log_of_a_pod():
    cluster = Cluster(
        {"phase": "Pending"}, RUNNING, ended(0), logs=[b"", b"unable to retrieve container logs", PRINTED]
    )
    status = cluster.read()
    assert (status.metrics, status.warnings) == ({"loss": 0.5}, [])
    kept = curves.saved(AttemptFolder.of(status.identity).curves)
    assert repr(kept) == repr(SUMMARY.charts)
    pods = [("POST", ""), ("GET", "/job-reader"), ("GET", "/job-reader/log"), ("DELETE", "/job-reader")]
    assert verbs(cluster) == pods


def test_the_pod_is_the_jobs_and_may_do_nothing():
    cluster = Cluster(ended(0))
    cluster.read()
    meta, pod_spec = cluster.body["metadata"], cluster.body["spec"]
    (container,) = pod_spec["containers"]
    assert meta["labels"] == {key: value for key, value in LABELS.items() if key != "team"}
    assert meta["ownerReferences"] == [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job", "uid": "u1"}]
    assert TFJob().replica({**meta, "uid": "r1"}, []) is None
    assert (container["image"], container["imagePullPolicy"]) == ("here/launcher:1", "Never")
    assert pod_spec["imagePullSecrets"] == [{"name": "regcred"}]
    assert container["command"] == ["python"]
    assert container["args"][:4] == ["-m", "tfsteps.launcher.event_summary", LOGS, json.dumps({"loss": "loss"})]
    assert json.loads(container["args"][4])["hosts"] == {"job": 0}
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/claim", "subPath": "team", "readOnly": True}]
    assert pod_spec["volumes"] == REPLICA["volumes"][1:]
    assert (pod_spec["nodeSelector"], pod_spec["tolerations"]) == (REPLICA["nodeSelector"], REPLICA["tolerations"])
    assert "node-1" in json.dumps(pod_spec["affinity"])
    assert pod_spec["securityContext"] == {"fsGroup": 2000}
    secure = container["securityContext"]
    assert (secure["runAsUser"], secure["runAsNonRoot"], secure["readOnlyRootFilesystem"]) == (1000, True, True)
    assert "privileged" not in secure
    assert pod_spec["automountServiceAccountToken"] is False
    assert pod_spec["restartPolicy"] == "Never"
    assert pod_spec["activeDeadlineSeconds"] < 600
    assert {"requests", "limits"} == container["resources"].keys()


BUCKET = spec.from_plain(
    {
        **JOB_FIELDS,
        "output_dir": "gs://runs/{run_id}",
        "outputs": {"metrics": {"loss": "loss"}},
        "tensorboard": {"image": "tb:1"},
    }
)
KEYS = [{"name": "key", "mountPath": "/keys"}, {"name": "data", "mountPath": "/claim"}]
WITH_KEYS = {
    **REPLICA,
    "volumes": [*REPLICA["volumes"], {"name": "key", "secret": {"secretName": "gcs"}}],
    "containers": [
        {
            "name": "tensorflow",
            "env": [
                {"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/keys/key.json"},
                {"name": "TOKEN", "value": "no business of the reader"},
            ],
            "envFrom": [{"secretRef": {"name": "aws"}}],
            "volumeMounts": KEYS,
        }
    ],
}


@pytest.mark.parametrize("launcher", [LAUNCHER, None], ids=["in a pod", "outside of the cluster"])
def test_a_bucket_is_read_with_the_credentials_of_the_program(launcher, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "LOGS", "gs://runs/r/logs")
    monkeypatch.setattr(sys.modules[__name__], "REPLICA", WITH_KEYS)
    cluster = Cluster(ended(0))
    assert cluster.read(BUCKET, launcher=launcher).metrics == {"loss": 0.5}
    pod_spec = cluster.body["spec"]
    (container,) = pod_spec["containers"]
    assert container["image"] == "tb:1"
    assert container["args"][2] == "gs://runs/r/logs"
    assert [variable["name"] for variable in container["env"]] == ["HOME", "GOOGLE_APPLICATION_CREDENTIALS"]
    assert container["envFrom"] == [{"secretRef": {"name": "aws"}}]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/keys", "/tmp"]
    assert [volume["name"] for volume in pod_spec["volumes"]] == ["key", "tmp"]
    assert pod_spec["serviceAccountName"] == "trainer"
    assert pod_spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod_spec["imagePullSecrets"] == ([{"name": "regcred"}] if launcher else [])


def test_a_launcher_that_was_restarted_takes_over_the_pod_of_the_one_before():
    cluster = Cluster(ended(0), created=refusal(409, "AlreadyExists"))
    assert cluster.read().metrics == {"loss": 0.5}
    assert verbs(cluster)[-1] == ("DELETE", "/job-reader")


NAMED = {"name": "job-reader", "uid": "r2"}
OTHERS = {
    "of somebody else": {"metadata": NAMED, "spec": {"containers": [{"name": "web"}]}},
    "of an earlier job": {"metadata": {**NAMED, "ownerReferences": [{"uid": "earlier"}]}},
    "of another program": {"spec": {"containers": [{"name": "reader", "args": ["-c", "pass"]}]}},
}


@pytest.mark.parametrize("there", OTHERS.values(), ids=OTHERS)
def test_a_pod_of_its_name_that_is_another_is_neither_read_nor_deleted(there):
    cluster = Cluster(ended(0), created=refusal(409, "AlreadyExists"), there=there)
    status = cluster.read()
    assert status.metrics == {}
    assert "pod ns/job-reader exists and is not this job's; delete it" in " ".join(status.warnings)
    assert verbs(cluster) == [("POST", ""), ("GET", "/job-reader")]


def test_a_pod_that_has_replaced_it_is_not_read():
    cluster = Cluster(ended(0), there={"metadata": NAMED})
    status = cluster.read()
    assert status.metrics == {}
    assert "was deleted, and another pod has its name" in " ".join(status.warnings)


def test_the_text_of_a_tag_is_no_variable():
    cluster = Cluster(ended(0))
    cluster.read(spec.from_plain({**JOB_FIELDS, "outputs": {"metrics": {"loss": "$(HOME)/loss"}}}))
    assert cluster.body["spec"]["containers"][0]["args"][3] == '{"loss": "$$(HOME)/loss"}'


FORBIDDEN = refusal(403, "Forbidden", "pods is forbidden: User cannot create resource pods")
USED_UP = refusal(403, "Forbidden", 'pods "job-reader" is forbidden: exceeded quota: team')
FIX = "mount claim data at /claim in the launcher's pod too"
UNREAD = {
    "it may not create pods": (
        {"created": FORBIDDEN},
        (
            "pods is forbidden.*; grant the launcher the permissions 'readers' "
            f"\\(`tfsteps role SYSTEM --with readers`\\) or {FIX}"
        ),
    ),
    "a quota is used up": ({"created": USED_UP}, f"exceeded quota: team; {FIX}"),
    "it fails": ({"statuses": [ended(1)]}, "pod ns/job-reader failed with exit code 1"),
    "it never starts": (
        {"statuses": [UNSCHEDULABLE]},
        r"pod ns/job-reader did not start within \d+ s: Unschedulable, 0/1 nodes",
    ),
    "it does not end": ({"statuses": [RUNNING]}, r"pod ns/job-reader did not end within \d+ s"),
    "it prints nothing": ({"logs": [b"\n"]}, "the output of pod ns/job-reader is not understood"),
    "its log was cut": ({"logs": [PRINTED[:60]]}, "the output of pod ns/job-reader is not understood"),
}


@pytest.mark.parametrize(("answers", "why"), UNREAD.values(), ids=UNREAD)
def test_what_could_not_be_read_is_one_warning(answers, why, monkeypatch):
    monkeypatch.setattr(volume_reader, "_START_SECONDS", 0.3)
    monkeypatch.setattr(volume_reader, "_RUN_SECONDS", 0.1)
    cluster = Cluster(
        *answers.get("statuses", [ended(0)]), created=answers.get("created"), logs=answers.get("logs", [PRINTED])
    )
    status = cluster.read()
    (warning,) = status.warnings
    assert re.fullmatch(f"No value of loss: the event files at {LOGS} could not be read: .*{why}.*\\.", warning)
    assert status.metrics == {}
    assert (("DELETE", "/job-reader") in verbs(cluster)) is ("created" not in answers)


def test_a_launcher_outside_of_pods_has_no_image_to_run():
    cluster = Cluster(ended(0))
    (warning,) = cluster.read(launcher=None).warnings
    assert "this launcher is in no pod, or may not get its own; mount claim data" in warning
    assert cluster.asked == []


def test_sigterm_ends_the_wait_and_the_pod():
    cluster = Cluster(UNSCHEDULABLE)
    begun = time.monotonic()
    (warning,) = cluster.read(meanwhile=lambda handle: (0.3, handle.stop, [Cause.CANCELLED])).warnings
    assert "could not be read: this launcher received a stop signal." in warning
    assert time.monotonic() - begun < 20
    assert verbs(cluster)[-1] == ("DELETE", "/job-reader")


WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "wf", "uid": "w"}
ENDS = {
    "it succeeded": (State.SUCCEEDED, None, WORKFLOW, "TFJob"),
    "a deadline deleted it": (State.CANCELLED, Cause.DEADLINE, WORKFLOW, "Workflow"),
    "it restarted too often": (State.FAILED, Cause.DEADLINE, WORKFLOW, "Workflow"),
    "it is lost": (State.LOST, None, WORKFLOW, "Workflow"),
    "a deadline deleted it, and there is no Workflow": (State.CANCELLED, Cause.DEADLINE, None, "the job was deleted; "),
    "somebody stopped it": (State.CANCELLED, None, WORKFLOW, "the job was stopped"),
    "its Workflow ends": (State.CANCELLED, Cause.CANCELLED, WORKFLOW, "the job was stopped"),
}


@pytest.mark.parametrize(("state", "cause", "workflow", "outcome"), ENDS.values(), ids=ENDS)
def test_who_owns_the_pod_of_a_job_that_has_ended(state, cause, workflow, outcome):
    """The replicas' pods are gone: what to mount is in the job's template."""
    cluster = Cluster(ended(0))
    cluster.script = lambda asked: cluster.reader(asked) if "job-reader" in asked.path or asked.body else listed()
    item = cluster.job("Running")
    item["spec"] = {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": REPLICA}}}}
    with serve(cluster.script) as server:
        api = Api(server.access(), patience=0)
        host = LauncherPod.of(api, LAUNCHER)
        host.pipeline = types.SimpleNamespace(owner=workflow, warnings=[]) if workflow else None
        handle = KubernetesJob(api, TFJob(), item, JOB, host)
        handle._tracker.final = JobChanged(at=0, state=state)
        handle._stop._phase = _Stopping(cause) if cause else None
        try:
            handle.read_folder(LOGS, [])
            outcome_text = cluster.body["metadata"]["ownerReferences"][0]["kind"]
        except LaunchError as error:
            outcome_text = str(error)
    assert outcome_text.startswith(outcome)
