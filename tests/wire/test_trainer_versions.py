"""TrainJobs on API servers with each version of Kubeflow Trainer: which fields are sent, and what tells the version."""

import pathlib

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.system import SPEC_HASH

POD_2_0 = {"serviceAccountName", "nodeSelector", "tolerations", "volumes", "schedulingGates", "containers"}
POD_2_1 = {*POD_2_0, "affinity", "imagePullSecrets"}
POD_2_2 = {*POD_2_1, "securityContext"}
COMMON = {"runtimeRef", "trainer", "suspend", "managedBy", "initializer"}
METADATA = {"annotations", "labels"}
SPEC = {
    "2.0": {*COMMON, *METADATA, "podSpecOverrides"},
    "2.1": {*COMMON, *METADATA, "podTemplateOverrides"},
    "2.2": {*COMMON, "runtimePatches", "activeDeadlineSeconds"},
    "2.3": {*COMMON, "runtimePatches", "activeDeadlineSeconds"},
}
POD = {"2.0": POD_2_0, "2.1": POD_2_1, "2.2": POD_2_2, "2.3": {*POD_2_2, "terminationGracePeriodSeconds"}}
"""The fields of the CRDs of Trainer 2.0.0, 2.1.0, 2.2.1 and 2.3.0."""

FIELDS = {"2.0": "podSpecOverrides", "2.1": "podTemplateOverrides", "2.2": "runtimePatches", "2.3": "runtimePatches"}
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
WHO = Identity(run="r", task="t")
CLAIM = {"volumes": [{"pvc": "data", "mount": "/data"}]}


def pod_of(sent):
    """Return the path and the fields of the pods' spec that a TrainJob sets."""
    for patch in sent.get("runtimePatches", []):
        [node] = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        return "spec.runtimePatches[0].trainingRuntimeSpec...spec", node["template"]["spec"]["template"].get("spec", {})
    for entry in sent.get("podTemplateOverrides", []):
        return "spec.podTemplateOverrides[0].spec", entry.get("spec", {})
    for entry in sent.get("podSpecOverrides", []):
        return "spec.podSpecOverrides[0]", {key: value for key, value in entry.items() if key != "targetJobs"}
    return "", {}


class Cluster:
    """An API server with the CRD of a version of Trainer, which decodes strictly.

    Attributes:
        troubles: What is answered instead to the first "dry run", and to the first request for the "creation".
        job: The TrainJob; None = there is none.
        sent: The field for the pods in each request to create it.
    """

    def __init__(self, version, monkeypatch, **troubles):
        self.version, self.troubles, self.job, self.sent = version, troubles, None, []
        self.monkeypatch = monkeypatch

    def __call__(self, asked):
        if asked.path == REVIEW:
            return Answer(201, {"status": {"resourceRules": [EVERYTHING], "incomplete": False}})
        if asked.method == "POST":
            self.sent += FIELDS.values() & asked.body["spec"].keys()
            request = "dry run" if "dryRun" in asked.query else "creation"
            return self.troubles.pop(request, None) or self._create(asked)
        if asked.path.endswith(("quotas", "ranges")):
            return Answer(200, {"items": []})
        if asked.path.startswith(PATH):
            return Answer(200, self.job) if self.job else refusal(404, "NotFound")
        return Answer(200, {"data": {}})

    def _create(self, asked):
        sent = asked.body["spec"]
        where, pod = pod_of(sent)
        unknown = [f"spec.{key}" for key in sent if key not in SPEC[self.version]]
        unknown += [] if unknown else [f"{where}.{key}" for key in pod if key not in POD[self.version]]
        if unknown:
            fields = ", ".join(f'unknown field "{path}"' for path in unknown)
            begin = 'TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: '
            return refusal(400, "BadRequest", begin + fields)
        item = {**asked.body, "metadata": {**asked.body["metadata"], "uid": "u"}}
        if "dryRun" not in asked.query:
            self.job = item
        return Answer(201, item)

    def start(self, **fields):
        """Start a job on it as a launcher does."""
        self.monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with serve(self) as server:
            self.monkeypatch.setattr(access, "find", lambda _context: server.access())
            system = registry.get("trainjob")
            base = {"name": "a", "image": "i", "command": ["train"], "roles": {"worker": {"replicas": 2}}}
            job = spec.from_plain({**base, **fields}, "test", registry.options())
            assert system.spec_problems(job) == []
            return system.start(job, WHO, system.output_paths(job, WHO, pathlib.Path()))


@pytest.mark.parametrize("version", SPEC)
def test_a_job_with_a_volume_starts_on_each_version(version, monkeypatch):
    cluster = Cluster(version, monkeypatch)
    assert cluster.start(**CLAIM).is_new
    assert pod_of(cluster.job["spec"])[1]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data"}
    assert FIELDS[version] in cluster.job["spec"]


def test_the_hash_of_a_job_does_not_depend_on_the_version(monkeypatch):
    clusters = [Cluster(version, monkeypatch) for version in SPEC]
    for cluster in clusters:
        cluster.start(**CLAIM)
    assert len({cluster.job["metadata"]["annotations"][SPEC_HASH] for cluster in clusters}) == 1


def test_a_launcher_after_an_upgrade_of_trainer_adopts_the_job(monkeypatch):
    cluster = Cluster("2.0", monkeypatch)
    first = cluster.start(**CLAIM)
    cluster.version = "2.3"
    del cluster.job["spec"]["podSpecOverrides"]  # the API server drops fields that the CRD does not have
    again = cluster.start(**CLAIM)
    assert (again.uid, again.is_new) == (first.uid, False)


@pytest.mark.parametrize("trouble", [refusal(429), refusal(500), "reset"], ids=["429", "500", "reset"])
@pytest.mark.parametrize("phase", ["dry run", "creation"])
@pytest.mark.parametrize("version", ["2.0", "2.3"])
def test_what_is_not_answered_says_nothing_about_the_version(version, phase, trouble, monkeypatch):
    cluster = Cluster(version, monkeypatch, **{phase: trouble})
    cluster.start(**CLAIM)
    assert FIELDS[version] in cluster.job["spec"]


OF_A_PROXY = Answer(400, b'unknown field "spec.runtimePatches"')


@pytest.mark.parametrize("answer", [OF_A_PROXY, refusal(403, "Forbidden")], ids=["a proxy's", "403"])
def test_a_refusal_by_something_else_says_nothing_about_the_version(answer, monkeypatch):
    cluster = Cluster("2.3", monkeypatch, **{"dry run": answer})
    with pytest.raises(LaunchError, match="nothing was created"):
        cluster.start(**CLAIM)
    assert cluster.job is None
    assert cluster.sent == ["runtimePatches"]


AFFINITY = {"pod": {"spec": {"affinity": {"podAntiAffinity": {}}}}}
SECURITY = {"pod": {"spec": {"containers": [{"name": "tensorflow", "securityContext": {"runAsUser": 7}}]}}}
NEEDS = {
    "image_pull_secrets": ("2.1", {"image_pull_secrets": ["hub"]}, "image_pull_secrets"),
    "affinity": ("2.1", AFFINITY, "pod.spec.affinity"),
    "annotations": ("2.1", {"pod": {"metadata": {"annotations": {"a": "b"}}}}, "pod.metadata.annotations"),
    "securityContext": ("2.2", SECURITY, "pod.spec.containers.securityContext"),
    "grace period": ("2.3", {"pod": {"spec": {"terminationGracePeriodSeconds": 5}}}, "terminationGracePeriodSeconds"),
}


@pytest.mark.shows("pod_settings", "trainjob")
@pytest.mark.parametrize("version", SPEC)
@pytest.mark.parametrize(("since", "fields", "name"), NEEDS.values(), ids=NEEDS)
def test_what_a_version_cannot_set_is_refused_before_anything_is_created(since, fields, name, version, monkeypatch):
    cluster = Cluster(version, monkeypatch)
    if version >= since:
        assert cluster.start(**fields).is_new
        return
    with pytest.raises(
        LaunchError, match=f"nothing was created: .*Kubeflow Trainer.*[ .]{name}: upgrade Trainer"
    ) as caught:
        cluster.start(**fields)
    assert not caught.value.retryable
    assert cluster.job is None


def test_a_trainer_without_any_of_the_fields(monkeypatch):
    monkeypatch.setitem(SPEC, "9", {*COMMON})
    with pytest.raises(LaunchError, match="runtimePatches, podTemplateOverrides, podSpecOverrides"):
        Cluster("9", monkeypatch).start(**CLAIM)
