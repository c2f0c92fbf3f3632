"""Code that a Job stores on a claim before the job is created: what is asked, what is refused, and what is left."""

import base64
import functools
import os
import pathlib
import threading

import msgspec
import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access, client
from tfsteps.runs import code_archive
from tfsteps.runs.identity import Identity
from tfsteps.systems import kubeflow
from tfsteps.systems.base import LaunchError, StoppedError
from tfsteps.systems.kubernetes import code_claim
from tfsteps.systems.kubernetes.preflight import findings

WHO = Identity(run="r", task="t")
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def ended(condition):
    return {"conditions": [{"type": condition, "status": "True"}]}


def container(**state):
    return {"containerStatuses": [{"name": "store", "state": state}]}


class Cluster:
    """An API server that keeps what is created, and deletes what an object owns with it.

    Attributes:
        objects: What there is, by kind, without pods.
        log: What was created and deleted, in order.
        job: Status of the Job that stores; None = running until its second read, then complete.
        pod: Status of its pod.
        claim: What is answered about the claim.
        answers: What is answered instead: by method and plural, one after another, None = as usual; the last for ever.
    """

    def __init__(self, job=None, pod=None, claim=None, **answers):
        self.job, self.pod, self.answers = job, pod or {}, answers
        self.claim = claim or Answer(body={"status": {"phase": "Bound", "accessModes": ["ReadWriteMany"]}})
        self.objects, self.log, self.reads, self.waits = {}, [], 0, threading.Event()

    def __call__(self, asked):
        rest = asked.path.partition("/namespaces/ns/")[2].split("/")
        plural, name = rest[0], rest[1] if rest[1:] else ""
        if instead := self.answers.get(f"{asked.method}_{plural}"):
            answer = instead.pop(0) if len(instead) > 1 else instead[0]
            if answer:
                return answer
        if plural == "persistentvolumeclaims":
            return self.claim
        if asked.method == "POST":
            meta = {"namespace": "ns", "uid": f"uid-of-{asked.body['metadata']['name']}", **asked.body["metadata"]}
            self.objects.setdefault(plural, {})[meta["name"]] = {**asked.body, "metadata": meta}
            self.log.append(f"create {plural}")
            return Answer(201, self.objects[plural][meta["name"]])
        if plural in ("pods", "events"):
            pod = {"metadata": {"name": "p"}, "status": self.pod}
            items = [pod] if plural == "pods" else [{"message": "Multi-Attach"}]
            return Answer(body={"items": items})
        if not name:
            return Answer(body={"items": []})
        if name not in self.objects.get(plural, {}):
            return refusal(404, "NotFound")
        if asked.method == "DELETE":
            self.log.append(f"delete {plural}")
            item = self.objects[plural].pop(name)
            uid = item["metadata"]["uid"]
            assert asked.body["preconditions"] == {"uid": uid}
            for config_map in [*self.objects.get("configmaps", {}).values()]:
                if [owner["uid"] for owner in config_map["metadata"].get("ownerReferences", [])] == [uid]:
                    del self.objects["configmaps"][config_map["metadata"]["name"]]
            return Answer(body={})
        item = self.objects[plural][name]
        if plural == "jobs":
            self.reads += 1
            self.waits.set()
            if self.reads == 1 and self.objects.get("configmaps"):
                self.archive = b"".join(
                    base64.b64decode(part["binaryData"]["part"]) for part in self.objects["configmaps"].values()
                )
            item = {**item, "status": (ended("Complete") if self.reads > 1 else {}) if self.job is None else self.job}
        return Answer(body=item)

    @property
    def left(self):
        return [name for names in self.objects.values() for name in names]


@pytest.fixture
def job(tmp_path):
    """A job whose code takes two ConfigMaps."""
    (tmp_path / "weights").write_bytes(os.urandom(900 << 10))
    plain = {"name": "job", "image": "trainer:1", "command": ["true"], "roles": {"worker": {"replicas": 2}}}
    source = spec.CodeSource(digest=code_archive.pack(tmp_path).digest, bucket="pvc://code/team")
    return msgspec.structs.replace(spec.from_plain(plain), code=source)


@pytest.fixture
def start(job, monkeypatch):
    """Start the job on a cluster; return what was started. With `stop`, ask it to end when it waits."""
    monkeypatch.setattr(findings, "findings", lambda *_: [])
    monkeypatch.setattr(code_claim, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(client, "Api", functools.partial(client.Api, patience=0.3))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def start(cluster, job=job, *, stop=False):
        with serve(cluster) as server:
            monkeypatch.setattr(access, "find", lambda _context: server.access())
            launcher = kubeflow.PLUGIN.system()
            if stop:
                threading.Thread(target=lambda: cluster.waits.wait(30) and launcher.give_up(), daemon=True).start()
            return launcher.start(job, WHO, launcher.output_paths(job, WHO, pathlib.Path()))

    return start


def test_code_is_stored_before_the_job_is_created(start, job):
    cluster = Cluster()
    assert start(cluster).is_new
    assert cluster.archive == code_archive.read(job.code.digest)
    assert cluster.log == ["create jobs", *["create configmaps"] * 2, "delete jobs", "create tfjobs"]
    assert len(cluster.left) == 1, "the TFJob alone"


LOST = {"metadata": {}, "status": {"phase": "Lost"}}
READ_ONLY = {"metadata": {}, "status": {"phase": "Bound", "accessModes": ["ReadOnlyMany"]}}
ONE_POD = {"metadata": {}, "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"]}}


@pytest.mark.parametrize(
    ("claim", "wrong"),
    [
        (refusal(404, "NotFound", about="code"), "claim ns/code is missing: create it, or correct code.bucket"),
        (Answer(body=LOST), "claim ns/code of code.bucket has lost its volume"),
        (Answer(body=READ_ONLY), r"is read-only \(ReadOnlyMany\): name a claim"),
        (Answer(body=ONE_POD), "is ReadWriteOncePod, and the job has 2 replicas that mount it"),
    ],
    ids=["missing", "lost", "read-only", "one pod"],
)
def test_a_claim_that_cannot_take_it(claim, wrong, start):
    cluster = Cluster(claim=claim)
    with pytest.raises(LaunchError, match=wrong):
        start(cluster)
    assert cluster.log == []


def test_a_claim_that_may_not_be_read_is_not_refused(start):
    assert start(Cluster(claim=refusal(403, "Forbidden"))).is_new


@pytest.mark.parametrize(
    ("modes", "replicas", "warned"),
    [(["ReadWriteOnce"], 2, True), (["ReadWriteOnce"], 1, False), (["ReadWriteOnce", "ReadWriteMany"], 2, False)],
)
def test_a_claim_of_one_node_is_a_warning(start, job, capsys, *, modes, replicas, warned):
    cluster = Cluster(claim=Answer(body={"status": {"phase": "Bound", "accessModes": modes}}))
    roles = spec.from_plain({"name": "j", "roles": {"worker": {"replicas": replicas}}}).roles
    assert start(cluster, msgspec.structs.replace(job, roles=roles)).is_new
    warning = "warning: claim ns/code of code.bucket is ReadWriteOnce, and the job has 2 replicas: those on other nodes"
    assert (warning in capsys.readouterr().err) is warned


FULL = {"exitCode": 1, "message": "[Errno 28] No space left on device\n"}
FAILURES = {
    "its program fails": (
        Cluster(ended("Failed"), container(terminated=FULL)),
        r"the code was not stored on claim ns/code: \[Errno 28\] No space left on device; free or enlarge the claim",
    ),
    "its pod is gone": (Cluster(ended("Failed")), "not stored on claim ns/code: it has no pod, or no node, yet; free"),
    "the image is not there": (
        Cluster({}, container(waiting={"reason": "ImagePullBackOff", "message": "no trainer:1"})),
        r"within 0 s: ImagePullBackOff: no trainer:1; Multi-Attach; free",
    ),
    "no node takes it": (
        Cluster({}, {"conditions": [UNSCHEDULABLE]}),
        r"not stored on claim ns/code within 1 s: Unschedulable: 0/1 nodes; Multi-Attach; free",
    ),
    "a quota refuses the Job": (
        Cluster(POST_jobs=[refusal(403, "Forbidden", "exceeded quota: a")]),
        "the TFJob was not created.*exceeded quota: a",
    ),
    "a quota refuses a part": (
        Cluster(POST_configmaps=[None, refusal(403, "Forbidden", "exceeded quota: b")]),
        "the TFJob was not created.*exceeded quota: b",
    ),
    "the server does not answer about it": (
        Cluster(GET_jobs=[refusal(503)]),
        "the TFJob was not created",
    ),
    "another deletes it": (
        Cluster(GET_jobs=[refusal(404, "NotFound")]),
        "the TFJob was not created",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_code_that_is_not_stored_creates_no_job_and_leaves_nothing(name, start, monkeypatch):
    cluster, wrong = FAILURES[name]
    monkeypatch.setattr(code_claim, "_WAIT_SECONDS", 0.6)
    with pytest.raises(LaunchError, match=wrong):
        start(cluster)
    assert ("create tfjobs" in cluster.log, cluster.left) == (False, [])


def test_a_stop_while_it_is_stored_leaves_nothing(start):
    cluster = Cluster({})
    with pytest.raises(StoppedError, match="Stopped before the job was created"):
        start(cluster, stop=True)
    assert ("create tfjobs" in cluster.log, cluster.left) == (False, [])


@pytest.mark.parametrize(
    ("bucket", "requests"),
    [
        (None, ["GET tfjobs", "POST tfjobs", "POST configmaps", "PATCH tfjobs"]),
        (
            "pvc://code/team",
            [
                "GET tfjobs",
                "GET persistentvolumeclaims",
                "POST jobs",
                "POST configmaps",
                "GET pods",
                "DELETE jobs",
                "POST tfjobs",
            ],
        ),
    ],
)
def test_which_requests_start_a_job_with_code(start, job, tmp_path, bucket, requests):
    small = tmp_path / "small"
    small.mkdir()
    (small / "train.py").write_text("print(1)")
    source = spec.CodeSource(digest=code_archive.pack(small).digest, bucket=bucket)
    cluster, asked = Cluster({}, {"phase": "Succeeded"}), []

    def noted(request):
        asked.append(f"{request.method} {request.path.partition('/ns/')[2].partition('/')[0]}")
        return cluster(request)

    assert start(noted, msgspec.structs.replace(job, code=source)).is_new
    assert asked == requests


def test_how_often_the_cluster_is_asked(start, monkeypatch):
    monkeypatch.setattr(code_claim, "_POLL_SECONDS", 0.25)
    cluster, requests = Cluster({}), []

    def counted(asked):
        requests.append((asked.method, asked.path.partition("/ns/")[2].partition("/")[0], asked.at))
        begun = next((at for method, kind, at in requests if (method, kind) == ("GET", "pods")), asked.at)
        cluster.pod = {"phase": "Succeeded" if asked.at > begun + 3 else "Running"}
        return cluster(asked)

    assert start(counted).is_new
    asked = [(method, kind) for method, kind, _ in requests]
    assert asked.count(("POST", "configmaps")) == 2
    assert ("GET", "jobs") not in asked, "the pod tells enough"
    assert asked.count(("GET", "pods")) <= 8, "of a pod that runs for three seconds"


def test_what_is_on_the_claim_is_used_by_a_machine_that_has_not_packed_it(start, job):
    cluster = Cluster()
    elsewhere = msgspec.structs.replace(job.code, digest="0" * 64)
    assert start(cluster, msgspec.structs.replace(job, code=elsewhere)).is_new
    assert cluster.log == ["create jobs", "delete jobs", "create tfjobs"]


def test_code_larger_than_the_parts_is_refused(start, monkeypatch):
    monkeypatch.setattr(code_claim, "MOST_PARTS", 1)
    cluster = Cluster()
    with pytest.raises(LaunchError, match=r"a claim takes at most 700 KiB; the largest files: weights \(900 KiB\)"):
        start(cluster)
    assert cluster.log == []
