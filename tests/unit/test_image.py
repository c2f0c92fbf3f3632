"""What the containers of steps ask for: a quota may demand it, and nobody else may be there to say it."""

import pytest
import yaml
from kfp import compiler, dsl

from tfsteps import image as images
from tfsteps import kfp as steps
from tfsteps.argo import train
from tfsteps.image import LIMITS, REQUESTS, unqualified


def executors(pipeline, folder):
    """Return the resources of each task's container, by the task."""
    compiler.Compiler().compile(pipeline, str(folder / "p.yaml"))
    compiled = yaml.safe_load((folder / "p.yaml").read_text())["deploymentSpec"]["executors"]
    return {name.removeprefix("exec-"): value["container"].get("resources") for name, value in compiled.items()}


def amounts(resources):
    names = {"cpu": "Cpu", "memory": "Memory"}
    kinds = (("requests", "Request"), ("limits", "Limit"))
    return {kind: {name: resources[f"resource{word}{end}"] for name, word in names.items()} for kind, end in kinds}


def test_steps_have_small_resources_that_their_author_can_set(tmp_path):
    @dsl.pipeline
    def pipeline():
        job = steps.launch(name="a", image="i", command=["x"], workers=1).outputs["job"]
        wait = steps.wait(job=job)
        steps.cleanup().set_memory_limit("1Gi").set_cpu_request("2").set_cpu_limit("2").after(wait)

    resources = executors(pipeline, tmp_path)
    assert amounts(resources["wait"]) == {"requests": REQUESTS, "limits": LIMITS}
    assert amounts(resources["cleanup"])["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert resources["launch"] is None, "what is set there is the replicas'"


@pytest.mark.parametrize("settings", [{}, {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}])
def test_steps_of_argo(settings):
    resources = train.using(**settings).template.resources
    amounts_of_kind = resources if isinstance(resources, dict) else resources.model_dump(exclude_none=True)
    plain = {
        kind: {name: str(getattr(value, "root", value)) for name, value in of.items()}
        for kind, of in amounts_of_kind.items()
    }
    assert plain == settings.get("resources", {"requests": REQUESTS, "limits": LIMITS})


@pytest.mark.parametrize(
    ("image", "count"),
    [
        ("tfsteps/launcher:0.1.0", 1),
        ("tfsteps/tensorboard@sha256:00", 1),
        ("docker.io/tfsteps/launcher:0.1.0", 0),
        ("registry.example/ml/tfsteps/launcher:0.1.0", 0),
        ("tfsteps/digits:0.1.0", 0),
    ],
)
def test_an_image_of_tfsteps_without_a_registry_is_named_once(image, count, monkeypatch):
    tree = [{"a": [{"image": image}, {"image": image}]}, {"image": {"image": 1}}]
    assert [sentence.split()[1] for sentence in unqualified(tree)] == [image] * count
    monkeypatch.setattr(images, "REGISTRY", "docker.io")
    assert unqualified(tree) == [], "the installer means that name"


def test_a_registry_with_a_scheme_is_refused():
    (wrong,) = unqualified([{"image": "https://images.example/ml/tfsteps/launcher:1"}] * 2)
    assert "https://images.example/ml/tfsteps/launcher:1 is not the name of an image but an address" in wrong
    assert "set TFSTEPS_REGISTRY=registry.example/ml" in wrong
