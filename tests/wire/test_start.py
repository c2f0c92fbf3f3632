"""A start that is asked to end, and one that meets an earlier job of its name that is being deleted."""

import pathlib
import time

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError, StoppedError
from tfsteps.systems.kubernetes import system
from tfsteps.systems.kubernetes.dependents import UNFINISHED
from tfsteps.systems.kubernetes.preflight import findings
from tfsteps.systems.kubernetes.system import SPEC_HASH, KubernetesSystem

PLAIN = {"name": "job", "image": "trainer:1", "command": ["true"]}
JOB = spec.from_plain({**PLAIN, "roles": {"worker": {}}})
TWO = spec.from_plain({**PLAIN, "roles": {"worker": {"replicas": 2}}})
WHO = Identity(run="r", task="t")
EACH_CLIENT = {"kubeflow": JOB} | {
    f"tfjob-v1alpha1, {api}": spec.from_plain(
        {**PLAIN, "roles": {"worker": {}}, "systems": {"tfjob-v1alpha1": {"api": api}}}, "t", registry.options()
    )
    for api in ("tensorflow.org", "kubeflow.org")
}


class Stopping:
    """A server whose launcher is asked to stop while a request fails: the one with the number `at` of its method.

    Attributes:
        job: The job object; None = there is none.
        answers: What is answered to the next requests instead, by method.
        late: Whether a POST that fails creates the job all the same.
        spec: What is launched: on tfjob-v1alpha1 if it names that system, else on kubeflow.
        repeated: Whether each failing request brings a signal, not the first alone.
    """

    def __init__(self, monkeypatch, job=None, *, late=False, **answers):
        monkeypatch.setattr(findings, "findings", lambda *_: [])
        monkeypatch.setattr(system, "_URGENT_PAUSE", 0.05)
        monkeypatch.setattr(system, "_LATE_SECONDS", 0.4)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        self.job, self.late, self.answers, self.asked = job, late, answers, []
        self.repeated, self.spec = False, JOB

    def __call__(self, asked):
        self.asked.append(asked.method)
        if asked.method == "POST" and (self.late or not self.answers.get("POST")):
            self.job = {**asked.body, "metadata": {**asked.body["metadata"], "uid": "ours", "namespace": "ns"}}
        if self.answers.get(asked.method):
            if not self.launcher.cluster.stopping.is_set() or self.repeated:
                self.launcher.give_up()
            return self.answers[asked.method].pop(0)
        return Answer(body=self.job) if self.job else refusal(404, "NotFound")

    def start(self, monkeypatch, job=None):
        with serve(self) as server:
            monkeypatch.setattr(access, "find", lambda _context: server.access())
            self.launcher = registry.get(next(iter(self.spec.systems), "kubeflow"))
            paths = self.launcher.output_paths(self.spec, WHO, pathlib.Path())
            if job:
                rendered = self.launcher._rendered(self.spec, WHO, paths, "ns").manifest
                self.job = {**rendered, "metadata": {**rendered["metadata"], **job}}
            return self.launcher.start(self.spec, WHO, paths)


FAILED = {"503": refusal(503), "429": refusal(429), "500": refusal(500), "reset": "reset"}


@pytest.mark.parametrize("failed", FAILED.values(), ids=FAILED)
def test_a_predecessors_job_is_not_withdrawn(failed, monkeypatch):
    """What becomes of it is decided as for each job that was adopted."""
    server = Stopping(monkeypatch, GET=[failed])
    started = server.start(monkeypatch, {"uid": "theirs", "namespace": "ns"})
    assert (started.uid, started.is_new) == ("theirs", False)
    assert set(server.asked) == {"GET"}


@pytest.mark.parametrize("failed", FAILED.values(), ids=FAILED)
def test_a_job_that_an_unanswered_request_has_created_is_found(failed, monkeypatch):
    started = Stopping(monkeypatch, late=True, POST=[failed]).start(monkeypatch)
    assert (started.uid, started.is_new) == ("ours", True)


@pytest.mark.parametrize("job", EACH_CLIENT.values(), ids=EACH_CLIENT)
def test_a_stop_before_the_request_to_create_it(job, monkeypatch):
    server = Stopping(monkeypatch, GET=[refusal(503)])
    server.spec = job
    with pytest.raises(StoppedError, match="Stopped before the job was created"):
        server.start(monkeypatch)
    assert server.asked == ["GET"] * 3, "an absence is believed when it is told twice"


@pytest.mark.parametrize("job", [None, {"uid": "theirs", "namespace": "ns"}], ids=["new", "adopted"])
def test_a_stop_while_the_own_pod_cannot_be_read(job, monkeypatch):
    monkeypatch.setattr(access, "in_cluster", lambda: True)
    monkeypatch.setenv("POD_NAME", "step")
    server = Stopping(monkeypatch, GET=[refusal(429)])
    if job:
        assert server.start(monkeypatch, job).uid == "theirs"
    else:
        with pytest.raises(StoppedError, match="Stopped before the job was created"):
            server.start(monkeypatch)
    assert set(server.asked) == {"GET"}


def test_a_stop_while_a_job_that_is_there_is_once_not_found(monkeypatch):
    server = Stopping(monkeypatch, GET=[refusal(503), refusal(404, "NotFound")])
    assert server.start(monkeypatch, {"uid": "theirs", "namespace": "ns"}).uid == "theirs"


UNKNOWN = {
    "the request to create it may come late": {"POST": [refusal(503)]},
    "nobody answers": {"GET": [refusal(503)] * 99},
    "refused": {"GET": [refusal(503), *[refusal(403, "Forbidden")] * 99]},
}


@pytest.mark.parametrize("answers", UNKNOWN.values(), ids=UNKNOWN)
def test_a_stop_that_leaves_it_unknown_whether_there_is_a_job(answers, monkeypatch):
    server = Stopping(monkeypatch, **{method: list(rest) for method, rest in answers.items()})
    begun = time.monotonic()
    with pytest.raises(
        LaunchError, match=r"whether TFJob .* was created is not known .*: kubectl delete tfjobs"
    ) as caught:
        server.start(monkeypatch)
    assert caught.value.retryable
    assert time.monotonic() - begun < 60, "a server that does not answer is asked for minutes"
    assert "DELETE" not in server.asked


def test_a_second_signal_ends_the_questions(monkeypatch):
    monkeypatch.setattr(system, "_LATE_SECONDS", 500)
    server = Stopping(monkeypatch, GET=[refusal(503)] * 2)
    server.repeated = True
    with pytest.raises(LaunchError, match="not known"):
        server.start(monkeypatch)


# --- a name that is used again


class Cluster:
    """A server with an earlier object of the job's name, which goes after it was asked for `asked` times."""

    def __init__(self, kind, asked, monkeypatch):
        monkeypatch.setattr(findings, "findings", lambda *_: [])
        monkeypatch.setattr(system, "_DELETION_PAUSE", 0.01)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        self.kind, self.left, self.created = kind, asked, []
        self.monkeypatch = monkeypatch

    def start(self):
        with serve(self.answer) as server:
            self.monkeypatch.setattr(access, "find", lambda _context: server.access())
            launcher = KubernetesSystem(self.kind)
            paths = launcher.output_paths(JOB, WHO, pathlib.Path())
            rendered = launcher._rendered(JOB, WHO, paths, "ns")
            self.old = {**rendered.manifest["metadata"], "uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z"}
            self.old |= {"finalizers": ["example.org/held"], "annotations": dict(self.old["annotations"])}
            self.old["annotations"].pop(UNFINISHED, None)
            return launcher.start(JOB, WHO, paths)

    def answer(self, asked):
        if asked.method == "POST":
            self.created.append(asked.body["metadata"]["name"])
            return Answer(201, {**asked.body, "metadata": {**asked.body["metadata"], "uid": "new", "namespace": "ns"}})
        if asked.method != "GET":
            return Answer(body={})
        self.left -= 1
        owner = {
            "apiVersion": self.kind.resource.api,
            "kind": self.kind.resource.kind,
            "metadata": self.old,
            "spec": {},
        }
        return Answer(body=owner) if self.left >= 0 else refusal(404, "NotFound")


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.resource.api)
def test_a_job_that_is_being_deleted_is_not_adopted(kind, monkeypatch):
    cluster = Cluster(kind, 3, monkeypatch)
    started = cluster.start()
    assert (started.uid, started.is_new) == ("new", True)
    assert cluster.created[0] == started.name
    assert started.name == cluster.old["name"]


def test_a_deletion_that_does_not_end(monkeypatch):
    monkeypatch.setattr(system, "_DELETION_SECONDS", 0.1)
    cluster = Cluster(registry.kinds_of("kubeflow")[0], 10**9, monkeypatch)
    with pytest.raises(LaunchError) as caught:
        cluster.start()
    assert caught.value.retryable
    assert cluster.created == []
    name = cluster.old["name"]
    for part in (f"TFJob ns/{name} is being deleted since 2026-01-01T00:00:00Z", "finalizers", "(example.org/held)"):
        assert part in str(caught.value)


def test_a_deletion_of_a_job_of_another_spec_is_waited_for_too(monkeypatch):
    cluster = Cluster(registry.kinds_of("kubeflow")[0], 3, monkeypatch)
    answer = cluster.answer

    def other(asked):
        cluster.old["annotations"] = {SPEC_HASH: "other"}
        return answer(asked)

    cluster.answer = other
    assert cluster.start().uid == "new"


# --- what is said of a job that could not be started


class Refusing:
    """A server without the job that answers some requests otherwise, by the method and the plural: the last for ever.

    Attributes:
        unanswered: Whether it creates the job all the same.
    """

    def __init__(self, answers, *, unanswered=False):
        self.answers = {(method, plural): list(rest) for (method, plural), rest in answers.items()}
        self.unanswered, self.job = unanswered, None

    def __call__(self, asked):
        plural = next(name for name in ("tfjobs", "jobs", "services") if f"/{name}" in asked.path)
        refused = self.answers.get((asked.method, plural))
        if asked.method == "POST" and plural != "services" and (self.unanswered or not refused):
            self.job = {**asked.body, "metadata": {**asked.body["metadata"], "uid": "ours", "namespace": "ns"}}
        if refused:
            return refused.pop(0) if refused[1:] else refused[0]
        if asked.method == "DELETE":
            return Answer(body={})
        return Answer(body=self.job) if self.job else refusal(404, "NotFound")

    def start(self, monkeypatch, kind="kubeflow"):
        monkeypatch.setattr(findings, "findings", lambda *_: [])
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with serve(self) as server:
            monkeypatch.setattr(access, "find", lambda _context: server.access())
            launcher = KubernetesSystem(registry.kinds_of(kind)[0])
            launcher._api.patience = 0.5
            return launcher.start(TWO, WHO, launcher.output_paths(TWO, WHO, pathlib.Path()))


OVER = Answer(403, {"kind": "Status", "reason": "Forbidden", "message": "exceeded quota: jobs"})
INVALID = {("POST", "services"): [refusal(422, "Invalid")]}
SAID = {
    "the job cannot be read": (
        "kubeflow",
        {("GET", "tfjobs"): [refusal(500)]},
        "whether the TFJob exists is not known",
    ),
    "no answer": ("kubeflow", {("POST", "tfjobs"): [refusal(503)]}, "whether the TFJob exists is not known"),
    "refused": ("kubeflow", {("POST", "tfjobs"): [OVER]}, "the TFJob was not created"),
    "a part is refused": ("jobs", INVALID, "the Job is deleted again"),
    "so is the deletion": ("jobs", INVALID | {("DELETE", "jobs"): [OVER]}, "whether the Job exists is not known"),
}


@pytest.mark.parametrize(("kind", "answers", "message"), SAID.values(), ids=SAID)
def test_what_is_said_of_a_job_that_could_not_be_started(kind, answers, message, monkeypatch):
    with pytest.raises(LaunchError, match=f"^{message}"):
        Refusing(answers).start(monkeypatch, kind)


def test_a_quota_that_an_unanswered_creation_has_used_up(monkeypatch):
    """The object of the first request is there, and is what the second is refused for."""
    server = Refusing({("POST", "tfjobs"): [refusal(503), OVER]}, unanswered=True)
    assert server.start(monkeypatch).uid == "ours"
