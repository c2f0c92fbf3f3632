"""The janitor of a step's cluster deletes on another one what has lost its Workflow here, and nothing else."""

import json

import pytest

from tests.unit.systems.kubernetes.objects import tfjob
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_another_cluster import OWNER, VERSION, Far, Home, kubeconfig
from tfsteps.janitor import options, sweep
from tfsteps.kube.client import Api
from tfsteps.runs.demo import DEMO
from tfsteps.runs.identity import MANAGED_BY
from tfsteps.systems.kubernetes.cleanup.retention import HOME, LAUNCHER

LABELS = {**MANAGED_BY, "tfsteps.dev/run-id": "r", "tfsteps.dev/task": "t", "tfsteps.dev/attempt": "0"}


class Here(Home):
    """The cluster of the janitor; `workflow` and `pods` are answers of its lists and objects."""

    def __init__(self, **secret):
        super().__init__(**secret)
        self.answer, self.pods = None, []

    def __call__(self, asked):
        if asked.path.endswith("/workflows/wf"):
            return self.answer or Answer(body=self.workflow)
        if asked.path.endswith("/pods"):
            return Answer(body={"metadata": VERSION, "items": self.pods})
        return super().__call__(asked)


class There(Far):
    """The other cluster, which permits one kind of job."""

    def __call__(self, asked):
        other = "/tfjobs" in asked.path and "/kubeflow.org/v1/" not in asked.path
        return refusal(403, "Forbidden") if other else super().__call__(asked)


class Clusters:
    """Two API servers, and a job on the other one."""

    def __init__(self, here, home, there, far):
        self.here, self.home, self.there, self.far = here, home, there, far
        self.lines = []
        self.api = Api(home.access(), patience=0.2)
        self.launched()

    def launched(self, namespace_uid="uid-of-ns", namespace="ns", owner=OWNER, **meta):
        """Replace the job by one that was launched from there."""
        home = {"namespace": namespace, "namespace_uid": namespace_uid, "owner": owner}
        noted = {HOME: json.dumps(home), LAUNCHER: "wf.fit"}
        item = tfjob("Running", uid="u1")
        metadata = {**item["metadata"], "namespace": "there", "labels": LABELS, "annotations": noted, **meta}
        self.far.jobs[:] = [{**item, "metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}}]

    def sweep(self, *, dry_run=False):
        return [*sweep.sweep_others(self.api, "ns", self.lines.append, dry_run=dry_run)]

    @property
    def kept(self):
        return not [asked for asked in self.there.asked if asked.method != "GET"]


@pytest.fixture
def clusters(monkeypatch):
    monkeypatch.setattr("tfsteps.kube.http_client.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(sweep, "_PATIENCE_SECONDS", 0.2)
    far, here = There(), Here()
    with serve(far, tls=True) as there, serve(here, tls=True) as home:
        here.secret["far"] = kubeconfig(there)
        yield Clusters(here, home, there, far)


GONE = refusal(404, "NotFound", about="wf")


@pytest.mark.parametrize("answer", [GONE, Answer(body={"metadata": {"name": "wf", "uid": "new"}, "spec": {}})])
def test_a_job_whose_workflow_is_gone_here_is_deleted_there(clusters, answer):
    clusters.here.answer = answer
    (count,) = clusters.sweep(dry_run=True)
    assert (clusters.kept, count.due) == (True, 1)
    (count,) = clusters.sweep()
    assert (count.jobs, count.due, count.failures, clusters.far.jobs) == (1, 1, 0, [])
    assert str(count) == "1 jobs of this cluster on cluster far looked at, 1 deletions due"
    assert clusters.lines[-1].startswith("Cluster far: TFJob there/")
    assert "its Workflow wf" in clusters.lines[-1]


@pytest.mark.parametrize(
    "launched",
    [
        {"namespace_uid": "another"},
        {"namespace": "another"},
        {"owner": {}},
        {"annotations": {}},
        {"annotations": {HOME: "{", LAUNCHER: "wf.fit"}},
        {"labels": {**LABELS, DEMO: "true"}},
    ],
)
def test_a_job_that_is_not_certainly_of_here_is_kept(clusters, launched):
    clusters.here.answer = GONE
    clusters.launched(**launched)
    (count,) = clusters.sweep()
    assert (clusters.kept, count.due, count.failures, clusters.lines) == (True, 0, 0, [])


def test_a_job_that_does_not_say_from_which_cluster_is_kept_and_reported(clusters):
    """Its launcher could not read its namespace, or named a hash of certificate authorities, as older versions did."""
    clusters.here.answer = GONE
    clusters.launched("")
    (count,) = clusters.sweep()
    assert (clusters.kept, count.due, count.failures) == (True, 0, 0)
    assert clusters.lines == [
        "Cluster far: 1 jobs may be of this cluster: they do not name it, and end by their deadlines"
    ]


@pytest.mark.parametrize(
    ("answer", "why"), [(refusal(403, "Forbidden"), "may not `get` it"), (refusal(400, "BadRequest"), "known: no")]
)
def test_a_janitor_that_does_not_know_its_own_namespace_leaves_other_clusters_alone(clusters, answer, why):
    clusters.here.answer, clusters.here.namespace = GONE, answer
    (count,) = clusters.sweep()
    assert (clusters.kept, count.failures) == (True, 1)
    assert "the uid of namespace ns, which its jobs name, is not known" in clusters.lines[-1]
    assert why in clusters.lines[-1]


def test_a_job_with_a_workflow_or_a_launcher_is_kept_whatever_its_age(clusters):
    clusters.far.jobs[0]["metadata"]["annotations"] |= {"tfsteps.dev/deadline": "1", "tfsteps.dev/keep-for": "1"}
    assert [count.due for count in clusters.sweep()] == [0]
    clusters.here.answer = GONE
    meta = {"name": "p", "namespace": "ns", "uid": "p", "annotations": {"workflows.argoproj.io/node-name": "wf.fit"}}
    clusters.here.pods = [{"metadata": {**meta, "ownerReferences": [{**OWNER, "controller": True}]}}]
    assert [count.due for count in clusters.sweep()] == [0]
    assert clusters.kept


@pytest.mark.parametrize("answer", [refusal(403, "Forbidden"), refusal(503), Answer(404, {})])
def test_a_workflow_that_is_not_known_keeps_the_job(clusters, answer):
    clusters.here.answer = answer
    (count,) = clusters.sweep()
    assert (clusters.kept, count.due, count.failures) == (True, 0, 1)
    assert clusters.lines


def test_a_cluster_that_does_not_answer_is_said_and_the_next_one_is_cleaned(clusters):
    clusters.here.answer = GONE
    clusters.here.settings = "clusters: {down: {}, none: {}, far: {namespace: there}}"
    config = clusters.here.secret["far"]
    clusters.here.secret["down"] = config.replace(clusters.there.access().server, "https://127.0.0.1:1")
    down, none, far = clusters.sweep()
    assert (down.failures, none.failures, far.failures, far.due, clusters.far.jobs) == (1, 1, 0, 1, [])
    assert any(line.startswith("Cluster down is skipped until the next pass: ") for line in clusters.lines)
    assert any("Cluster none is skipped" in line and "has no key 'none'" in line for line in clusters.lines)


def test_the_pass_over_a_cluster_ends_in_time(clusters, monkeypatch):
    clusters.here.answer = GONE
    monkeypatch.setattr(sweep, "_LONGEST_SECONDS", -1.0)
    (count,) = clusters.sweep()
    assert (clusters.kept, count.due, count.failures) == (True, 0, 1)


def test_settings_that_are_not_known_are_said(clusters):
    clusters.here.settings = "clusters: {far: []}"
    (count,) = clusters.sweep()
    assert (count.failures, "The other clusters are not known" in clusters.lines[0]) == (1, True)


def test_the_option_is_for_one_namespace(capsys):
    assert options.parse(["--clusters"]).clusters
    with pytest.raises(SystemExit):
        options.parse(["--clusters", "--all-namespaces"])
    assert "--clusters is for the settings of one namespace" in capsys.readouterr().err
