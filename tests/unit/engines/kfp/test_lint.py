"""Each trap is compiled by the real SDK, and found."""

import pytest
import yaml
from kfp import compiler, dsl, kubernetes

from tfsteps.engines.kfp.component import container_spec, launcher_component
from tfsteps.engines.kfp.lint import lint_messages, warnings
from tfsteps.kfp import train, train_and_finalize

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
def with_count(count: int = 1):
    return container(dsl.IfPresentPlaceholder(input_name="count", then=["--count", count]))


@dsl.container_component
def given_within(count: int = 1):
    return container(dsl.IfPresentPlaceholder(input_name="count", then=[dsl.ConcatPlaceholder(["n=", count])]))


@dsl.container_component
def given_in_command(count: int = 1):
    condition = dsl.IfPresentPlaceholder(input_name="count", then=["--count", count])
    return dsl.ContainerSpec(image="steps:1", command=["run", condition])


@dsl.container_component
def given_output(file: dsl.OutputPath(str), count: int = 1):
    return container(dsl.IfPresentPlaceholder(input_name="count", then=["--file", file]))


@dsl.container_component
def given_artifact(model: dsl.Input[dsl.Model] = None):
    return container(dsl.IfPresentPlaceholder(input_name="model", then=["--model"]))


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
    "component", [good, required, defaulted, embedded, by_digest, launcher], ids=lambda component: component.name
)
def test_no_trap(component, tmp_path):
    assert lint_messages(compiled(component, tmp_path)) == []


@pytest.mark.parametrize(
    ("component", "says"),
    [
        (given_within, "reaches the program as it is"),
        (given_output, "reaches the program as it is"),
        (given_artifact, "takes every artifact for left out"),
        (concat, "reaches the program as it is"),
        (run_in_text, "{{$.pipeline_job_uuid}} in"),
        (run_alone, "{{$.pipeline_job_uuid}} in"),
        (metadata, "placeholders of metadata never are"),
        (talkative_launcher, "give it no other argument"),
        (cached_launcher, "a training step taken from the cache"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_trap_of_a_component(component, says, tmp_path):
    messages = lint_messages(compiled(component, tmp_path))
    assert any(says in problem for problem in messages), messages
    assert all(problem.startswith(("comp-", "task ")) for problem in messages), "each says where it is"


def constant(value):
    @dsl.pipeline(name="constant")
    def pipeline():
        good(text=value)

    return pipeline


def test_the_whole_of_an_input_may_be_a_placeholder(tmp_path):
    assert lint_messages(compiled(constant(dsl.PIPELINE_JOB_ID_PLACEHOLDER), tmp_path)) == []


def test_trap_of_an_input(tmp_path):
    [problem] = lint_messages(compiled(constant(f"tf-{dsl.PIPELINE_JOB_ID_PLACEHOLDER}"), tmp_path))
    assert problem.startswith("task good: {{$.pipeline_job_uuid}} in")


def test_the_id_of_a_task_is_accepted_with_a_warning(tmp_path):
    text = compiled(constant(dsl.PIPELINE_TASK_ID_PLACEHOLDER), tmp_path)
    assert lint_messages(text) == []
    assert any("the same for all tasks" in warning for warning in warnings(text))


@pytest.mark.parametrize("component", [latest, untagged], ids=lambda component: component.name)
def test_an_image_that_is_not_pinned_is_accepted_with_a_warning(component, tmp_path):
    text = compiled(component, tmp_path)
    assert lint_messages(text) == []
    assert any("name a version or a digest" in warning for warning in warnings(text))


def test_placeholder_within_a_list_or_dict(tmp_path):
    @dsl.container_component
    def nested(env: dict, args: list):
        return container(*WHOLE)

    @dsl.pipeline(name="nested")
    def pipeline():
        nested(env={"RUN": dsl.PIPELINE_JOB_ID_PLACEHOLDER}, args=["--run", dsl.PIPELINE_JOB_NAME_PLACEHOLDER])

    messages = lint_messages(compiled(pipeline, tmp_path))
    assert len(messages) == 2, messages


@dsl.component(base_image="python:3.11")
def produce() -> str:
    return "x"


@dsl.pipeline(name="inputs")
def of_the_pipeline(rate: float = 0.1, epochs: int = 3):
    args = ["--rate", rate, f"--epochs={epochs}"]
    train(name="a", image="a:1", command=["a"], args=args, env={"RATE": rate}, workers=2)


@dsl.pipeline(name="finalized")
def of_two_steps(rate: float = 0.1, epochs: int = 3, name: str = "a"):
    args = ["--rate", rate, f"--epochs={epochs}"]
    train_and_finalize(name=f"{name}-{epochs}", image="a:1", command=["a"], args=args, env={"RATE": rate}, workers=2)


@dsl.pipeline(name="claim")
def of_a_claim(claim: str):
    train(name="a", image="a:1", workers=2, spec={"volumes": [{"pvc": claim, "mount": "/data"}]})


@dsl.pipeline(name="loop")
def of_a_loop():
    with dsl.ParallelFor([0.1, 0.2]) as rate:
        train(name="a", image="a:1", command=["a"], args=["--rate", rate], workers=2)


@dsl.pipeline(name="output")
def of_a_task():
    producer = produce()
    train(name=f"a-{producer.output}", image="a:1", command=["a"], env={"DATA": f"/data/{producer.output}"}, workers=2)


@dsl.pipeline(name="condition")
def of_a_condition(rate: float = 0.1):
    with dsl.If(rate > 0):
        train(name="a", image="a:1", command=["a"], args=["--rate", rate], workers=2)


@pytest.mark.parametrize(
    ("pipeline", "risky"),
    [
        (of_the_pipeline, ""),
        (of_two_steps, "name"),
        (of_a_claim, "claim"),
        (of_a_loop, ""),
        (of_a_task, "produce-Output"),
        (of_a_condition, ""),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_an_input_within_a_list_a_mapping_or_text(pipeline, risky, tmp_path):
    text = compiled(pipeline, tmp_path)
    assert lint_messages(text) == []
    messages = [warning for warning in warnings(text) if "breaks the JSON" in warning]
    assert [risky] * len(messages) == [warning.split(": ")[1].partition(" within")[0] for warning in messages]
    assert bool(messages) == bool(risky)


@pytest.mark.parametrize(
    ("bucket", "breaks"), [("gs://b", False), ('say "b"', True), ("C:\\new", True), ("a\nb", True)]
)
def test_an_argument_of_a_run_within_a_list(bucket, breaks, tmp_path):
    @dsl.pipeline(name="bucket")
    def pipeline(bucket: str):
        train(name="a", image="a:1", command=["a"], args=["--bucket", bucket], workers=2)

    messages = lint_messages(compiled(pipeline, tmp_path), {"bucket": bucket})
    assert ["the JSON breaks" in problem for problem in messages] == [True] * breaks


def test_a_number_within_a_mapping_arrives_as_text(tmp_path):
    @dsl.pipeline(name="numbers")
    def pipeline(count: int, fast: bool, name: str):
        roles = {"worker": {"replicas": count}}
        train(name="a", image="a:1", spec={"roles": roles, "labels": {"team": name}, "deadlines": {"total": count}})

    [problem] = lint_messages(compiled(pipeline, tmp_path))
    assert problem.startswith("task train: roles.worker.replicas: 'count' arrives as text")


@pytest.mark.parametrize(
    ("with_count", "where"), [({"args": ["--epochs 3"]}, "args[0]"), ({"spec": {"rolls": {}}}, "spec.rolls"), ({}, "")]
)
def test_what_is_known_of_a_mapping_with_an_input_is_checked(with_count, where, tmp_path):
    @dsl.pipeline(name="known")
    def pipeline(rate: float):
        spec = {"env": {"RATE": rate}, "args": ["--rate", rate]}
        train(
            name="a",
            image="a:1",
            command=["a"],
            workers=2,
            **{**with_count, "spec": {**spec, **with_count.get("spec", {})}},
        )

    messages = [problem.split(": ")[1] for problem in lint_messages(compiled(pipeline, tmp_path))]
    assert messages == [where] * bool(where)


def test_an_inner_pipeline_gets_no_constants_with_inputs(tmp_path):
    @dsl.pipeline(name="inner")
    def inner(text: str):
        good(text=text)

    @dsl.pipeline(name="outer")
    def outer(rate: float):
        inner(text=f"rate {rate}")

    [problem] = lint_messages(compiled(outer, tmp_path))
    assert "'rate' within a constant" in problem


@pytest.mark.parametrize(("inputs", "count"), [({}, 1), ({"count": 2}, 0)])
def test_an_optional_input_as_an_argument_must_not_be_left_out(inputs, count, tmp_path):
    @dsl.pipeline(name="left-out")
    def pipeline():
        defaulted(**inputs)

    messages = lint_messages(compiled(pipeline, tmp_path))
    assert ["it leaves out the input 'count'" in problem for problem in messages] == [True] * count


@pytest.mark.parametrize("component", [with_count, given_in_command], ids=lambda component: component.name)
def test_a_condition_needs_a_new_back_end(component, tmp_path):
    text = compiled(component, tmp_path)
    assert lint_messages(text) == []
    assert [warning.partition(" reaches")[0] for warning in warnings(text)] == [f"task {component.name}: IfPresent"]


def test_placeholder_in_a_variable(tmp_path):
    @dsl.pipeline(name="variable")
    def pipeline():
        good(text="").set_env_variable("RUN", dsl.PIPELINE_JOB_ID_PLACEHOLDER)

    [problem] = lint_messages(compiled(pipeline, tmp_path))
    assert problem.startswith("comp-good: {{$.pipeline_job_uuid}}")


def test_placeholder_in_platform_settings(tmp_path):
    @dsl.pipeline(name="label")
    def pipeline():
        kubernetes.add_pod_label(good(text=""), "run", dsl.PIPELINE_JOB_ID_PLACEHOLDER)

    [problem] = lint_messages(compiled(pipeline, tmp_path))
    assert problem.startswith("platform settings: {{$.pipeline_job_uuid}}")


@pytest.mark.parametrize("handed_on", [True, False])
def test_a_claim_that_is_not_handed_on_to_a_group(handed_on, tmp_path):
    @dsl.pipeline(name="mount")
    def pipeline(claim: str = "data"):
        with dsl.If(claim == "data"):
            kubernetes.mount_pvc(good(text=""), pvc_name=claim, mount_path="/data")

    text = compiled(pipeline, tmp_path)
    if not handed_on:  # as kfp before 2.16.1 writes it
        spec, settings = text.split("---\n")
        text = f"{spec}---\n{settings.replace('pipelinechannel--claim', 'claim')}"
    start = "task condition-1/good: pvcMount takes the input 'claim', which"
    assert [problem.startswith(start) for problem in lint_messages(text)] == [True] * (not handed_on)


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
    assert lint_messages(text) == []
    assert [warning.partition(": ")[0] for warning in warnings(text)] == (["task finalizer/good-2"] if cached else [])


def test_the_claims_of_kfp_are_made_without_a_container(tmp_path):
    @dsl.pipeline(name="claims")
    def claims():
        claim = kubernetes.CreatePVC(pvc_name_suffix="-data", access_modes=["ReadWriteOnce"], size="1Gi")
        work = good(text="")
        kubernetes.mount_pvc(work, pvc_name=claim.outputs["name"], mount_path="/data")
        kubernetes.DeletePVC(pvc_name=claim.outputs["name"]).after(work)

    text = compiled(claims, tmp_path)
    assert lint_messages(text) == []
    assert warnings(text) == []


def test_a_graph_that_contains_itself():
    task = {"componentRef": {"name": "comp-a"}}
    graph = {"dag": {"tasks": {"a": task}}}
    with pytest.raises(ValueError, match="the graph comp-a contains itself"):
        lint_messages(yaml.safe_dump({"root": graph, "components": {"comp-a": graph}}))
