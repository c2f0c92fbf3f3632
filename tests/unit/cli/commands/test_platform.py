"""`tfsteps platform`."""

import pytest

from tests.unit.cli.command import refused, said, tfsteps

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
    assert said("platform", "check", "settings.yaml") == ["settings.yaml: the settings are fine; projects: vision"]


@pytest.mark.usefixtures("files")
def test_each_field_of_a_job_is_shown_with_where_it_is_from():
    rows = [line.split() for line in said("platform", "check", "settings.yaml", "job.yaml", "-n", "vision")]
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
    assert said("validate", "job.yaml", "--system", "local", "--set", "resources.gpu=3"), "no platform, no settings"


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
