"""`tfsteps check`: what a tiny job shows of a place."""

from tests.unit.cli.command import refused, tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.wire.scripted import Answer, serve
from tfsteps.cli.commands import check


def test_this_machine():
    code, out, err = tfsteps("check")
    assert code == 0, err
    assert "local: works (" in out


def test_a_job_that_fails(monkeypatch):
    monkeypatch.setattr(check, "_PROGRAM", "raise SystemExit(3)")
    code, out, err = tfsteps("check")
    assert code == 10
    assert "local: fails: local failed" in out
    assert "tfsteps logs check-" in err


def test_workers_that_do_not_reach_each_other(monkeypatch):
    monkeypatch.setattr(check, "_PROGRAM", check._PROGRAM.replace("server = ", "index == 0 and time.sleep(60) or "))
    code, out, _ = tfsteps("check", "--timeout", "10s")
    assert code == 10
    assert "local: fails: " in out


def test_places_that_contradict():
    assert "--system jobs is on kubernetes, not on local; write --on kubernetes" in refused("check", "--system", "jobs")
    assert "job system 'x' is unknown" in refused("check", "--system", "x")


def groups(*versions):
    listed = [{"name": version.partition("/")[0], "versions": [{"groupVersion": version}]} for version in versions]
    return Answer(body={"kind": "APIGroupList", "groups": listed})


def test_a_cluster_that_serves_or_permits_nothing(tmp_path, monkeypatch):
    resources = Answer(body={"kind": "APIResourceList", "resources": [{"name": "jobs"}]})
    denied = Answer(body={"kind": "SelfSubjectAccessReview", "status": {"allowed": False, "denied": True}})
    who = Answer(status=404, body={"kind": "Status", "code": 404})
    monkeypatch.setattr("tfsteps.image.REGISTRY", "docker.io")  # else it is refused before a cluster is asked
    with serve([groups("batch/v1"), resources, denied, *[who] * 3]) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        code, out, err = tfsteps("check", "--on", "kubernetes")
    assert code == 13
    assert "kubeflow: not served: the cluster has no tfjobs of kubeflow.org/v1" in out
    assert "jobs: not permitted in namespace " in out
    assert "no job system could be checked on kubernetes" in err
