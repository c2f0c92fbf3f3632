"""The clean-up of several clusters."""

import json

from tfsteps.steps import job_step
from tfsteps.steps.cleanup import launcher
from tfsteps.systems.base import LaunchError


class Finalizer:
    """A job system on one of the clusters; the step's own does not answer, but has removed a job."""

    def __init__(self, cluster):
        self.cluster = cluster

    def clean_up(self, *_):
        if not self.cluster:
            raise LaunchError("what is left in namespace ns is not known: HTTP 503", retryable=True, removed=["here"])
        return [f"job-on-{self.cluster}"]


def test_clusters_that_are_not_known_do_not_keep_the_jobs_of_the_others(tmp_path, monkeypatch, capsys):
    unknown = LaunchError("the cluster of jobs that name none is not known: it is wrong", retryable=False)
    monkeypatch.setattr(job_step, "clusters_to_clean_up", lambda *_: (["far"], [unknown]))
    monkeypatch.setattr(job_step, "find_finalizer", lambda _, cluster: Finalizer(cluster))
    task = {"inputs": {"parameterValues": {}}, "outputs": {"outputFile": str(tmp_path / "outputs.json")}}
    assert launcher.main(["--executor_input", json.dumps(task)]) == 2
    assert f"{unknown}. Removed: job-on-far." in capsys.readouterr().out


def test_a_cluster_that_does_not_answer_does_not_keep_the_jobs_of_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(job_step, "clusters_to_clean_up", lambda *_: (["", "far"], []))
    monkeypatch.setattr(job_step, "find_finalizer", lambda _, cluster: Finalizer(cluster))
    outputs = tmp_path / "executor_output.json"
    task = {"inputs": {"parameterValues": {}}, "outputs": {"outputFile": str(outputs)}}
    assert launcher.main(["--executor_input", json.dumps(task)]) == 13
    assert "namespace ns is not known: HTTP 503. Removed: here, job-on-far." in capsys.readouterr().out
    assert json.loads(outputs.read_text())["parameterValues"]["removed"] == ["here", "job-on-far"]
