"""`tfsteps submit` and `validate --on kubernetes` check jobs against a namespace's settings before anything is sent."""

import functools
import pathlib

import pytest

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tests.wire.test_submit_argo import Store
from tests.wire.test_submit_kfp import Backend
from tfsteps.cli.commands import files
from tfsteps.engines.argo import objects
from tfsteps.kube import client
from tfsteps.settings.find import VARIABLE

COMPILED = pathlib.Path(__file__).parents[2] / "pipelines" / "compiled"
FILES = {"argo": COMPILED / "mnist.argo.yaml", "kfp": COMPILED / "mnist.yaml"}
MAP = "/api/v1/namespaces/{}/configmaps/tfsteps"
NAMESPACES = {"argo": "ml", "kfp": "kubeflow"}
REFUSED = "roles: 4 has too many replicas"
JOB = "{name: a, image: acme/a:1, command: [train], roles: {worker: {replicas: 4}}}"


class Cluster(Store):
    """A cluster with platform settings, or another answer to the request for them."""

    def __init__(self, settings):
        super().__init__()
        self.settings = settings

    def __call__(self, asked):
        if asked.path in map(MAP.format, NAMESPACES.values()):
            text = self.settings
            config = {"metadata": {"name": "tfsteps"}, "data": {"settings.yaml": text}}
            return Answer(body=config) if isinstance(text, str) else text
        return super().__call__(asked)


@pytest.fixture
def submit(tmp_path, monkeypatch):
    """Return what submits a pipeline: the exit code, what was printed, and what was created."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)

    def submitted(engine, settings, *options, context=True):
        cluster, backend = Cluster(settings), Backend()
        with serve(cluster) as kubernetes, serve(backend) as api:
            write_kubeconfig(tmp_path / "kubeconfig", kubernetes, monkeypatch)
            if engine == "kfp":
                options += (
                    "--host",
                    f"http://127.0.0.1:{api.server_port}",
                    *(["--context", "test"] if context else []),
                )
            file = tmp_path / FILES[engine].name  # submit refuses images without a registry
            file.write_text(FILES[engine].read_text().replace(" tfsteps/", " registry.example/tfsteps/"))
            code, out, err = tfsteps("submit", file, *options)
            asked = len(api.asked) if engine == "kfp" else sum(item.method != "GET" for item in kubernetes.asked)
        return code, out, err, asked, [*cluster.plurals, *backend.created]

    return submitted


@pytest.mark.parametrize("engine", FILES)
def test_a_job_over_a_limit_is_refused_and_nothing_is_sent(engine, submit):
    code, out, err, asked, created = submit(engine, "contact: team ml\nlimits: {replicas: 3}")
    assert (code, out, asked, created) == (2, "", 0, []), err
    assert f"task train: {REFUSED}" in err
    where = f"ConfigMap {NAMESPACES[engine]}/tfsteps"
    assert f"Allowed: at most 3. Correct it, or ask team ml to change `limits.replicas` in {where}" in err


@pytest.mark.parametrize("engine", FILES)
@pytest.mark.parametrize(("workers", "code"), [(1, 0), (2, 2)])
def test_the_inputs_of_the_run_count(engine, workers, code, submit):
    submitted = submit(engine, "limits: {replicas: 3}", "-p", f"workers={workers}")
    assert (submitted[0], bool(submitted[-1])) == (code, not code), submitted


@pytest.mark.parametrize("engine", FILES)
def test_a_schedule_is_refused(engine, submit):
    code, _, err, asked, created = submit(engine, "limits: {replicas: 3}", "--every", "6h")
    assert (code, REFUSED in err, asked, created) == (2, True, 0, []), err


@pytest.mark.parametrize("engine", FILES)
def test_settings_that_nobody_may_read_refuse_nothing(engine, submit):
    code, _, err, _, created = submit(engine, refusal(403, "Forbidden"))
    assert (code, bool(created)) == (0, True), err
    assert "its jobs are not checked, only by their launchers" in err
    assert f"can grant `get` for ConfigMap {NAMESPACES[engine]}/tfsteps" in err


@pytest.mark.parametrize("answer", [refusal(503), Answer(body=b"<html>log in</html>")])
def test_settings_that_are_not_known_stop_a_submission_to_argo(answer, submit, monkeypatch):
    monkeypatch.setattr(objects, "Api", functools.partial(client.Api, patience=0.3))
    code, out, err, asked, created = submit("argo", answer)
    assert (code, out, asked, created) == (13, "", 0, []), err
    assert "whether the platform has settings for namespace ml is not known" in err


@pytest.mark.parametrize("answer", [refusal(503), Answer(body=b"<html>log in</html>")])
def test_kubeflow_is_asked_where_kubernetes_does_not_answer(answer, submit):
    code, _, err, _, created = submit("kfp", answer)
    assert (code, created) == (0, ["runs"]), err
    assert "its jobs are not checked against platform settings, only by their launchers: whether the platform" in err


def test_a_host_without_a_context_names_no_cluster(submit):
    code, _, err, _, created = submit("kfp", "limits: {replicas: 3}", context=False)
    assert (code, created) == (0, ["runs"]), err
    assert "only by their launchers: the cluster of the API is not known; add --context NAME" in err


@pytest.mark.parametrize("engine", FILES)
def test_a_file_counts_and_a_dry_run_asks_no_cluster(engine, submit, tmp_path, monkeypatch):
    assert submit(engine, refusal(403), "--dry-run")[0] == 0
    (tmp_path / "settings.yaml").write_text("limits: {replicas: 3}")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "settings.yaml"))
    for options in (("--dry-run",), ()):
        code, out, err, asked, created = submit(engine, refusal(403), *options, context=False)
        assert (code, out, REFUSED in err, asked, created) == (2, "", True, 0, []), err


@pytest.mark.parametrize("engine", FILES)
@pytest.mark.parametrize(("limit", "code"), [(3, 2), (4, 0)])
def test_lint_reads_the_settings_of_a_namespace(engine, limit, code, tmp_path, monkeypatch):
    with serve(Cluster(f"limits: {{replicas: {limit}}}")) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        result = tfsteps("lint", FILES[engine], "--on", "kubernetes", "-n", "ml")
        assert (result[0], REFUSED in result[2]) == (code, code == 2), result
        asked = len(server.asked)
        assert (tfsteps("lint", FILES[engine])[0], len(server.asked)) == (0, asked)


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        ("limits: {replicas: 3}", 2, "ConfigMap ml/tfsteps"),
        ("limits: {replicas: 4}", 0, ""),
        (refusal(404, "NotFound"), 0, ""),
        (refusal(403, "Forbidden"), 0, "is not known, and none are applied"),
        (refusal(503), 13, "whether the platform has settings for namespace ml is not known"),
        (Answer(body=b"<html>log in</html>"), 13, "whether the platform has settings for namespace ml is not known"),
    ],
)
def test_validate_reads_the_settings_of_a_namespace(answer, code, message, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "COMMAND_PATIENCE_SECONDS", 0.3)
    (tmp_path / "job.yaml").write_text(JOB)
    with serve(Cluster(answer)) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        got = tfsteps("validate", tmp_path / "job.yaml", "--on", "kubernetes")
    assert (got[0], message in got[2]) == (code, True), got
    assert [item.method for item in server.asked] == ["GET"] * len(server.asked)


@pytest.mark.parametrize("options", [("-n", "ml"), ("--context", "far", "--system", "kubeflow")])
def test_validate_refuses_a_namespace_that_it_would_not_ask(options, tmp_path):
    (tmp_path / "job.yaml").write_text(JOB)
    code, out, err = tfsteps("validate", tmp_path / "job.yaml", *options)
    assert (code, out) == (2, ""), err
    assert "add --on kubernetes" in err
