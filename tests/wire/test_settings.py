"""Where a launcher finds platform settings, and what it does if they cannot be read."""

import contextlib
import functools
import pathlib

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube import access, client
from tfsteps.runs.identity import Identity
from tfsteps.settings.find import VARIABLE
from tfsteps.systems import kubeflow, registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.system import SPEC_HASH

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "command": ["true"], "roles": {"worker": {}}})
MAP = "/api/v1/namespaces/ns/configmaps/tfsteps"


def config_map(text):
    data = {"TFSTEPS_RECORDS": "none"} if text is None else {"settings.yaml": text}
    return Answer(body={"kind": "ConfigMap", "metadata": {"name": "tfsteps", "namespace": "ns"}, "data": data})


@pytest.fixture
def launcher(monkeypatch):
    """Return a launcher whose API server gives an answer to the request for the ConfigMap."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)

    def make(answer):
        def script(asked):
            assert (asked.method, asked.path) == ("GET", MAP)
            return answer

        server = stack.enter_context(serve(script))
        monkeypatch.setattr(access, "find", lambda _context: server.access())
        monkeypatch.setattr(client, "Api", functools.partial(client.Api, patience=0.3))
        return kubeflow.PLUGIN.system()

    with contextlib.ExitStack() as stack:
        yield make


def test_the_settings_of_the_namespace_are_applied(launcher):
    job = launcher(config_map("defaults: {keep_for: 3h}")).with_settings(JOB, registry.options())
    assert job.keep_for == 3 * 3600


@pytest.mark.parametrize("answer", [refusal(404, "NotFound"), config_map(None), config_map(" ")])
def test_without_settings_a_job_stays(answer, launcher):
    asked = launcher(answer)
    assert asked.with_settings(JOB, registry.options()) is JOB
    assert not any("settings" in warning for warning in asked.warnings(JOB))


def test_settings_that_nobody_may_read_are_a_warning(launcher):
    asked = launcher(refusal(403, "Forbidden"))
    assert asked.with_settings(JOB, registry.options()) is JOB
    [warning] = [text for text in asked.warnings(JOB) if "settings" in text]
    assert "is not known, and none are applied" in warning
    assert "can grant `get` for ConfigMap ns/tfsteps" in warning


@pytest.mark.parametrize(
    "answer", [refusal(503), refusal(500), Answer(body=b"<html>log in</html>"), Answer(404, b"default backend - 404")]
)
def test_settings_that_are_not_known_start_no_job(answer, launcher):
    with pytest.raises(LaunchError, match="whether the platform has settings for namespace ns is not known") as caught:
        launcher(answer).with_settings(JOB, registry.options())
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limits: {replicas: none}", "ConfigMap ns/tfsteps, settings.yaml:1: limits.replicas: "),
        ("limits: {cpu: 1}", "ask the platform's operator to change `limits.cpu` in ConfigMap ns/tfsteps"),
    ],
)
def test_wrong_settings_and_refused_jobs_start_nothing(text, message, launcher):
    with pytest.raises(spec.SpecError) as caught:
        launcher(config_map(text)).with_settings(JOB, registry.options())
    assert message in str(caught.value)


def test_a_file_counts_in_place_of_the_namespace(launcher, monkeypatch, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("defaults: {queue: mine}")
    monkeypatch.setenv(VARIABLE, str(file))
    job = launcher(config_map("defaults: {keep_for: 3h}")).with_settings(JOB, registry.options())
    assert (job.queue, job.keep_for) == ("mine", None)


def test_a_job_is_recognized_after_its_settings_have_changed(launcher):
    """A restarted launcher adopts the job of the first, although the operator has changed the settings since."""
    marks = set()
    for text in ("defaults: {keep_for: 3h}", "defaults: {queue: other, keep_for: 1h}", ""):
        system = launcher(config_map(text))
        job = system.with_settings(JOB, registry.options())
        who = Identity(run="r", task="t")
        rendered = system._rendered(job, who, system.output_paths(job, who, pathlib.Path()), "ns")
        marks.add(rendered.annotations[SPEC_HASH])
    assert len(marks) == 1
