"""How long Argo keeps a run: what `tfsteps submit` puts into a Workflow by the platform settings of its namespace."""

import pytest
import yaml

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_submit_argo import Store, workflow  # noqa: F401  a fixture

SETTINGS = "runs: {keep_succeeded: 3h, keep_failed: 3d, delete_pods: success}"
TTL = {"secondsAfterSuccess": 10_800, "secondsAfterFailure": 259_200}
POD_GC = {"strategy": "OnPodSuccess"}


@pytest.fixture
def submit(tmp_path, monkeypatch, workflow):  # noqa: F811
    """Return a function that submits to a cluster with an answer for the ConfigMap: exit code, spec, errors."""

    def run(answer, *options, spec=()):
        monkeypatch.delenv("TFSTEPS_SETTINGS", raising=False)
        manifest = yaml.safe_load(workflow.read_text())
        manifest["spec"] |= dict(spec)
        workflow.write_text(yaml.safe_dump(manifest))
        store = Store()

        def script(asked):
            settings = asked.path.endswith("/configmaps/tfsteps")
            return answer if settings and asked.method == "GET" else store(asked)

        with serve(script) as server:
            write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
            code, _, errors = tfsteps("submit", workflow, "-n", "ml", *options)
        return code, [item.get("spec", item) for item in store.objects.values()], errors

    return run


def config_map(text):
    return Answer(body={"kind": "ConfigMap", "metadata": {"name": "tfsteps"}, "data": {"settings.yaml": text}})


def test_a_workflow_gets_what_the_settings_say(submit):
    code, (spec,), _ = submit(config_map(SETTINGS))
    assert (code, spec["ttlStrategy"], spec["podGC"]) == (0, TTL, POD_GC)


def test_the_runs_of_a_cron_workflow_get_it_as_well(submit):
    code, (spec,), _ = submit(config_map(SETTINGS), "--every", "6h")
    assert (code, spec["workflowSpec"]["ttlStrategy"], spec["workflowSpec"]["podGC"]) == (0, TTL, POD_GC)
    assert "ttlStrategy" not in spec


@pytest.mark.parametrize("scheduler", ["cronjob", "janitor"])
def test_the_runs_of_other_schedulers_get_it_as_well(scheduler, submit):
    code, stored, _ = submit(
        config_map(SETTINGS), "--every", "6h", "--scheduler", scheduler, "--image", "own/tfsteps:1"
    )
    [text] = [part for item in stored for part in (item.get("data") or {}).values() if "entrypoint" in part]
    spec = yaml.safe_load(text)["spec"]
    assert (code, spec["ttlStrategy"], spec["podGC"]) == (0, TTL, POD_GC)


def test_what_a_workflow_says_itself_stays(submit):
    retention = {"ttlStrategy": {"secondsAfterCompletion": 60}}
    _, (spec,), _ = submit(config_map(SETTINGS), spec=retention)
    assert (spec["ttlStrategy"], spec["podGC"]) == (retention["ttlStrategy"], POD_GC)


def test_a_project_counts_before_the_platform(submit):
    project = "\nprojects: {ml: {namespaces: [ml], runs: {keep_failed: 1h}}}"
    _, (spec,), _ = submit(config_map(SETTINGS + project))
    assert spec["ttlStrategy"] == {"secondsAfterSuccess": 10_800, "secondsAfterFailure": 3600}


@pytest.mark.parametrize("answer", [refusal(404, "NotFound"), config_map("contact: me")])
def test_without_settings_argo_decides(submit, answer):
    code, (spec,), errors = submit(answer)
    assert (code, errors) == (0, "")
    assert {"ttlStrategy", "podGC"}.isdisjoint(spec)


def test_settings_that_may_not_be_read_are_a_warning(submit):
    code, (spec,), errors = submit(refusal(403, "Forbidden"))
    assert (code, "ttlStrategy" in spec) == (0, False)
    assert "whether the platform has settings for namespace ml is not known" in errors


def test_a_workflow_that_sets_all_of_it_is_submitted_without_a_warning(submit):
    retention = {"ttlStrategy": {"secondsAfterCompletion": 60}, "podGC": {"strategy": "OnPodSuccess"}}
    assert submit(refusal(403, "Forbidden"), spec=retention)[::2] == (0, "")


@pytest.mark.parametrize("answer", [config_map("runs: {keep_failed: soon}"), config_map("runs: {delete_pods: all}")])
def test_wrong_settings_submit_nothing(submit, answer):
    code, specs, errors = submit(answer)
    assert (code, specs) == (2, [])
    assert "ConfigMap ml/tfsteps, settings.yaml:1: runs." in errors
