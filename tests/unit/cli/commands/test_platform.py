"""`tfsteps platform` and `tfsteps role`."""

import pytest
import yaml

from tests.unit.cli.command import output_lines, refused, tfsteps
from tfsteps.systems import registry

SETTINGS = """
contact: "#ml"
defaults: {keep_for: 3h, volumes: ["w(storage):/mnt"]}
limits: {gpu: 2}
projects: {vision: {namespaces: [vision], defaults: {queue: vision}}}
"""
JOB = "name: a\nimage: mnist\ncommand: [python]\nroles: {worker: {replicas: 2}}\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    (tmp_path / "job.yaml").write_text(JOB)


@pytest.mark.usefixtures("files")
def test_settings_are_checked():
    assert output_lines("platform", "check", "settings.yaml") == [
        "settings.yaml: the settings are fine; projects: vision"
    ]


@pytest.mark.usefixtures("files")
def test_each_field_of_a_job_is_shown_with_where_it_is_from():
    rows = [line.split() for line in output_lines("platform", "check", "settings.yaml", "job.yaml", "-n", "vision")]
    origins = {row[0]: row[-1] for row in rows}
    assert origins == {
        "name": "job.yaml",
        "image": "job.yaml",
        "command": "job.yaml",
        "roles.worker.replicas": "job.yaml",
        "keep_for": "defaults.keep_for",
        "volumes[0]": "defaults.volumes",
        "queue": "projects.vision.defaults.queue",
    }


@pytest.mark.usefixtures("files")
def test_a_refusal_names_the_setting_and_who_can_change_it():
    error = refused("platform", "check", "settings.yaml", "job.yaml", "--set", "resources.gpu=3")
    assert "ask #ml to change `limits.gpu` in settings.yaml" in error


@pytest.mark.usefixtures("files")
def test_the_settings_may_be_standard_input():
    code, shown, _ = tfsteps("platform", "check", "-", "job.yaml", input=SETTINGS)
    assert (code, "defaults.keep_for" in shown) == (0, True)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["-", "-"], "FILE and JOB are both `-`"),
        (["settings.yaml", "--set", "resources.gpu=3"], "are about a job; add JOB"),
        (["settings.yaml", "-n", "vision"], "are about a job; add JOB"),
    ],
)
def test_arguments_without_effect_are_refused(arguments, wrong):
    assert wrong in refused("platform", "check", *arguments)


@pytest.mark.usefixtures("files")
def test_run_and_validate_apply_the_file_of_the_variable(monkeypatch):
    monkeypatch.setenv("TFSTEPS_SETTINGS", "settings.yaml")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    _, plan, _ = tfsteps("run", "job.yaml", "--system", "jobs", "--dry-run", "-n", "vision")
    assert "claimName: w" in plan
    assert "limits.gpu" in refused("validate", "job.yaml", "--system", "jobs", "--set", "resources.gpu=3")
    assert output_lines("validate", "job.yaml", "--system", "local", "--set", "resources.gpu=3"), (
        "no platform, no settings"
    )


@pytest.mark.parametrize(
    "content", [b"- a\n", b"a: [\n", b"\x00\xff\xfe", b"x" * (1 << 20) + b"x"], ids=lambda c: str(c[:4])
)
def test_what_is_no_settings_file_is_called_so(tmp_path, content):
    file = tmp_path / "s.yaml"
    file.write_bytes(content)
    err = refused("platform", "check", file)
    assert "settings: " in err
    assert "job" not in err.replace(str(file), "")


@pytest.mark.parametrize("command", [("platform", "check", "-"), ("validate", "-"), ("lint", "-"), ("import", "-")])
def test_standard_input_in_another_encoding(command):
    code, _, err = tfsteps(*command, input=SETTINGS.encode("utf-16"))
    assert (code, err) == (2, "error: '-' is not UTF-8 (byte 0); save it as UTF-8\n")


@pytest.mark.parametrize("system", registry.on_kubernetes())
def test_a_role_grants_the_job_its_pods_and_their_logs(system):
    code, out, _ = tfsteps("role", system, "--service-account", "trainer", "--namespace", "ml")
    role, binding = yaml.safe_load_all(out)
    granted = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in role["rules"]}
    kind = registry.kinds_of(system)[0].resource
    assert code == 0
    assert {"create", "delete", "get", "list", "patch", "watch"} <= set(
        granted[kind.api.partition("/")[0], kind.plural]
    )
    assert {"delete", "list", "watch"} <= set(granted["", "pods"])
    assert granted["", "pods/log"] == ["get"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "trainer", "namespace": "ml"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_a_system_that_is_not_on_kubernetes_has_no_role():
    code, _, err = tfsteps("role", "hai")
    assert (code, "job system 'hai' is not one on Kubernetes: use one of" in err) == (2, True)


@pytest.mark.parametrize("option", ["--namespace", "--service-account"])
def test_what_is_no_name_is_refused(option):
    code, out, err = tfsteps("role", "jobs", option, "Team A")
    assert (code, out) == (2, "")
    assert f"{option} 'Team A' is not a name" in err


def test_creating_more_than_jobs_is_granted_by_name():
    plain, more = (
        {
            (rule["apiGroups"][0], rule["resources"][0], verb)
            for rule in next(yaml.safe_load_all(tfsteps("role", "jobset", *options)[1]))["rules"]
            for verb in rule["verbs"]
        }
        for options in ([], ["--with", "readers", "--with", "tensorboard"])
    )
    assert plain < more
    assert {("", "pods", "create"), ("", "services", "create"), ("batch", "jobs", "patch")} <= more - plain


def test_permissions_of_another_name_are_refused():
    code, out, err = tfsteps("role", "jobset", "--with", "secrets")
    assert (code, out) == (2, "")
    assert "--with 'secrets' is not known: use readers or tensorboard" in err
