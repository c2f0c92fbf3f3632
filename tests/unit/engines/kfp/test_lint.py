"""Each trap is compiled by the real SDK, and found."""

import pytest
import yaml
from kfp import compiler, dsl, kubernetes

from tfsteps.engines.kfp.component import container_spec, launcher_component
from tfsteps.engines.kfp.lint import problems, warnings

IMAGE = "registry.example/steps:1.2"
WHOLE = ["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]


def compiled(thing, folder):
    file = folder / "compiled.yaml"
    compiler.Compiler().compile(thing, str(file))
    return file.read_text()


def container(*arguments, image=IMAGE, command=("python", "step.py")):
    return dsl.ContainerSpec(image=image, command=list(command), args=list(arguments))


@dsl.container_component
def good(text: str, count: int = 1):
    return container(*WHOLE)


@dsl.container_component
def required(text: str):
    return container("--text", text)


@dsl.container_component
def defaulted(count: int = 1):
    return container("--count", count)


@dsl.container_component
def given(count: int = 1):
    return container(dsl.IfPresentPlaceholder(input_name="count", then=["--count", count]))


@dsl.container_component
def concat(text: str):
    return container("--text", dsl.ConcatPlaceholder(["a-", text]))


@dsl.container_component
def embedded(text: str):
    return container(f"--text={text}")


@dsl.container_component
def run_in_text():
    return container(f"--run=tf-{dsl.PIPELINE_JOB_ID_PLACEHOLDER}")


@dsl.container_component
def run_alone():
    return container("--run", dsl.PIPELINE_JOB_ID_PLACEHOLDER)


@dsl.container_component
def metadata(model: dsl.Input[dsl.Model]):
    return container("--job", model.metadata["job"])


@dsl.container_component
def latest():
    return container(*WHOLE, image="registry.example:5000/steps:latest")


@dsl.container_component
def untagged():
    return container(*WHOLE, image="registry.example:5000/steps")


@dsl.container_component
def by_digest():
    return container(*WHOLE, image=f"steps@sha256:{'0' * 64}")


@dsl.container_component
def talkative_launcher(text: str):
    return container(*WHOLE, "--text", text, command=("python", "-m", "tfsteps.steps.train.launcher"))


@dsl.container_component
def cached_launcher(text: str):
    return container_spec("tfsteps.steps.train.launcher")


@launcher_component
def launcher(text: str):
    return container_spec("tfsteps.steps.wait.launcher")


@pytest.mark.parametrize(
    "component", [good, required, embedded, by_digest, launcher], ids=lambda component: component.name
)
def test_no_trap(component, tmp_path):
    assert problems(compiled(component, tmp_path)) == []


@pytest.mark.parametrize(
    ("component", "says"),
    [
        (defaulted, "'count' is an optional input"),
        (given, "reaches the program as it is"),
        (concat, "reaches the program as it is"),
        (run_in_text, "{{$.pipeline_job_uuid}} in"),
        (run_alone, "{{$.pipeline_job_uuid}} in"),
        (metadata, "placeholders of metadata never are"),
        (latest, "name a version or a digest"),
        (untagged, "name a version or a digest"),
        (talkative_launcher, "give it no other argument"),
        (cached_launcher, "a launcher taken from the cache"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_trap_of_a_component(component, says, tmp_path):
    found = problems(compiled(component, tmp_path))
    assert any(says in problem for problem in found), found
    assert all(problem.startswith(("comp-", "task ")) for problem in found), "each says where it is"


def constant(value):
    @dsl.pipeline(name="constant")
    def pipeline():
        good(text=value)

    return pipeline


def test_the_whole_of_an_input_may_be_a_placeholder(tmp_path):
    assert problems(compiled(constant(dsl.PIPELINE_JOB_ID_PLACEHOLDER), tmp_path)) == []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (f"tf-{dsl.PIPELINE_JOB_ID_PLACEHOLDER}", "{{$.pipeline_job_uuid}} in"),
        (dsl.PIPELINE_TASK_ID_PLACEHOLDER, "the same for all tasks"),
    ],
)
def test_trap_of_an_input(value, says, tmp_path):
    [problem] = problems(compiled(constant(value), tmp_path))
    assert problem.startswith("task good: ")
    assert says in problem


def test_placeholder_within_a_list_or_dict(tmp_path):
    @dsl.container_component
    def nested(env: dict, args: list):
        return container(*WHOLE)

    @dsl.pipeline(name="nested")
    def pipeline():
        nested(env={"RUN": dsl.PIPELINE_JOB_ID_PLACEHOLDER}, args=["--run", dsl.PIPELINE_JOB_NAME_PLACEHOLDER])

    found = problems(compiled(pipeline, tmp_path))
    assert len(found) == 2, found


def test_an_output_within_a_list_or_dict(tmp_path):
    @dsl.container_component
    def nested(env: dict, args: list, text: str):
        return container(*WHOLE)

    @dsl.pipeline(name="nested")
    def pipeline(rate: float):
        nested(env={"RATE": rate}, args=["--rate", rate], text=f"rate {rate}")

    found = problems(compiled(pipeline, tmp_path))
    assert [each.partition(":")[0] for each in found] == ["task nested"] * 2
    assert all("within a list or mapping" in each for each in found), found


def test_placeholder_in_a_variable(tmp_path):
    @dsl.pipeline(name="variable")
    def pipeline():
        good(text="").set_env_variable("RUN", dsl.PIPELINE_JOB_ID_PLACEHOLDER)

    [problem] = problems(compiled(pipeline, tmp_path))
    assert problem.startswith("comp-good: {{$.pipeline_job_uuid}}")


def test_placeholder_in_platform_settings(tmp_path):
    @dsl.pipeline(name="label")
    def pipeline():
        kubernetes.add_pod_label(good(text=""), "run", dsl.PIPELINE_JOB_ID_PLACEHOLDER)

    [problem] = problems(compiled(pipeline, tmp_path))
    assert problem.startswith("platform settings: {{$.pipeline_job_uuid}}")


@pytest.mark.parametrize("cached", [True, False])
def test_a_finalizer_of_the_authors_own_may_be_cached(cached, tmp_path):
    @dsl.pipeline(name="finalizer")
    def inner(text: str):
        work = good(text=text)
        good(text="end", count=1).after(work).ignore_upstream_failure().set_caching_options(cached)

    @dsl.pipeline(name="outer")
    def outer(text: str):
        inner(text=text)

    text = compiled(outer, tmp_path)
    assert problems(text) == []
    assert [warning.partition(": ")[0] for warning in warnings(text)] == (["task finalizer/good-2"] if cached else [])


def test_the_claims_of_kfp_are_made_without_a_container(tmp_path):
    @dsl.pipeline(name="claims")
    def claims():
        claim = kubernetes.CreatePVC(pvc_name_suffix="-data", access_modes=["ReadWriteOnce"], size="1Gi")
        work = good(text="")
        kubernetes.mount_pvc(work, pvc_name=claim.outputs["name"], mount_path="/data")
        kubernetes.DeletePVC(pvc_name=claim.outputs["name"]).after(work)

    text = compiled(claims, tmp_path)
    assert problems(text) == []
    assert warnings(text) == []


def test_a_graph_that_contains_itself():
    task = {"componentRef": {"name": "comp-a"}}
    graph = {"dag": {"tasks": {"a": task}}}
    with pytest.raises(ValueError, match="the graph comp-a contains itself"):
        problems(yaml.safe_dump({"root": graph, "components": {"comp-a": graph}}))
