"""Every pod that tfsteps makes can pull its image: it has the pull secrets of the job, the settings or the Workflow."""

import pathlib
import re

import pytest

import tfsteps
from tfsteps import spec
from tfsteps.engines.argo import cronjob
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.schedule.types import Schedule
from tfsteps.settings.apply import apply
from tfsteps.settings.parse import parse
from tfsteps.systems import registry
from tfsteps.systems.kubernetes import code_claim
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.systems.kubernetes.tensorboard.request import request_for

WHO = Identity(run="r", task="t")
PLACES = OutputPaths(output="/d/r", model="/d/r/model", logs="/d/r/logs", base_dir=None)
USERS, PLATFORMS = {"name": "own"}, {"name": "hub"}
MAKERS = {  # each module that makes a pod, and why its pods have the pull secrets
    "engines/argo/step.py": "a fragment: Argo adds the pull secrets of the Workflow",
    "platforms/tfjob_v1alpha1/tfjob.py": "a template without a container",
    "engines/argo/cronjob.py": "tested here",
    "systems/kubernetes/cleanup/keeper.py": "its Job is suspended: it has no pod",
    "systems/kubernetes/code_claim.py": "tested here",
    "systems/kubernetes/follow/volume_reader.py": "runs the launcher's image: tests/wire/test_volume_reader.py",
    "systems/kubernetes/render/pod_template.py": "tested here",
    "systems/kubernetes/tensorboard/manifests.py": "tested here",
    "systems/trainjob/reader.py": "reads a pod",
    "systems/trainjob/trainjob.py": "tested here; a runtime, whose pods a TrainJob overrides",
}


@pytest.fixture
def job():
    """Return a job with a pull secret of its own, and one of the platform."""
    plain = {"name": "a", "image": "a:1", "command": ["t"], "roles": {"chief": {}, "worker": {}, "evaluator": {}}}
    more = {"image_pull_secrets": ["own"], "volumes": [{"pvc": "data", "mount": "/d"}], "tensorboard": {}}
    code = {"code": {"folder": ".", "digest": "0" * 64, "bucket": "pvc://data/code"}}
    layers = parse("defaults: {image_pull_secrets: [hub]}", "settings.yaml").layers("ns")
    return apply(spec.from_plain({**plain, **more, **code}), layers, {}, "settings.yaml").job


def pods(value):
    """Yield the specs of the pods within an object."""
    if isinstance(value, dict):
        if value.get("containers"):
            yield value
        for part in value.values():
            yield from pods(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from pods(part)


def secrets_of(value):
    secrets = [pod.get("imagePullSecrets") for pod in pods(value)]
    assert secrets, "there is no pod"
    return secrets


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.resource.api)
def test_the_pods_of_each_job_system(kind, job):
    rendered = kind.render(job, WHO, PLACES, "ns")
    everything = [rendered.manifest, *rendered.dependents]
    for secrets in secrets_of(everything):
        assert secrets == [USERS, PLATFORMS]


def test_the_tensorboard(job):
    request = request_for(job, WHO, "ns")
    assert secrets_of(manifests.job(request, "", 0.0)) == [[USERS, PLATFORMS]]


def test_the_job_that_stores_code(job):
    template = registry.kinds()[0].render(job, WHO, PLACES, "ns").manifest
    manifest = code_claim.manifest_of(job.code, "n", "tf:2", next(pods(template)), 1)
    assert secrets_of(manifest) == [[USERS, PLATFORMS]]


def test_the_job_that_starts_the_runs_of_a_schedule():
    workflow = {"metadata": {}, "spec": {"imagePullSecrets": [USERS]}}
    manifest = cronjob.objects(Schedule(interval=3600.0), workflow, "nightly", namespace="ns")
    assert secrets_of(manifest) == [[USERS]]


def test_there_is_no_other_module_that_makes_pods():
    package = pathlib.Path(tfsteps.__file__).parent
    files = {str(file.relative_to(package)): file.read_text() for file in package.rglob("*.py")}
    makers = {name for name, text in files.items() if re.search(r'"containers": \[', text)}
    assert makers == MAKERS.keys(), "add a test that its pods have the pull secrets"
