"""Each difference that docs/guides/kubeflow.md lists: what the back end refuses or omits, compiled by the real SDK."""

# ruff: noqa: B006, PLR0917, SIM117, UP006, UP035, UP045  as authors of pipelines write, and kfp reads, signatures

from typing import List, Optional  # `List` of artifacts

import pytest
import yaml
from kfp import dsl, kubernetes

from tests.support.kfp_compiler import compiled
from tfsteps.engines.kfp.lint import lint_messages, local_lint_messages, warnings
from tfsteps.kfp import cleanup

WHOLE = ["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]


def container():
    return dsl.ContainerSpec(image="registry.example/steps:1.2", command=["python", "step.py"], args=WHOLE)


@dsl.container_component
def use(struct: dict = {}, items: list = [], count: int = 0, rate: float = 0.0, flag: bool = False, text: str = ""):
    return container()


@dsl.container_component
def need(text: str):
    return container()


@dsl.container_component
def make(items: dsl.OutputPath(list), text: dsl.OutputPath(str), model: dsl.Output[dsl.Model]):
    return container()


@dsl.container_component
def read(model: dsl.Input[dsl.Model]):
    return container()


def end(*, after):
    task = use(struct={}, items=[], count=0, rate=0.0, flag=False, text="")
    return task.after(*after).ignore_upstream_failure().set_caching_options(False)


# --- types


def untyped_items(settings: list = [{}]):
    with dsl.ParallelFor(settings) as item:
        use(struct=item)
        use(items=item)
        use(count=item)
        use(rate=item)
        use(flag=item)
        use(text=item)


def test_items_of_an_untyped_list_are_text(tmp_path):
    messages = lint_messages(compiled(untyped_items, tmp_path))
    types = ["STRUCT", "LIST", "NUMBER_INTEGER", "NUMBER_DOUBLE", "BOOLEAN"]
    assert len(messages) == len(types), "a STRING input takes every item"
    for type_ in types:
        assert any(
            f"is {type_} and receives an item of the loop for-loop-1, which is STRING" in item for item in messages
        )


def untyped_output():
    with dsl.ParallelFor(make().outputs["items"]) as item:
        with dsl.If(item == "a"):
            use(struct=item)


@dsl.pipeline(name="inner")
def inner_of_a_dict(struct: dict):
    use(struct=struct)


def untyped_in_an_inner_pipeline(settings: list = [{}]):
    with dsl.ParallelFor(settings) as item:
        inner_of_a_dict(struct=item)


@pytest.mark.parametrize(
    ("function", "task"),
    [(untyped_output, "for-loop-1/condition-2/use"), (untyped_in_an_inner_pipeline, "for-loop-1/inner")],
)
def test_items_that_go_through_other_graphs(function, task, tmp_path):
    [problem] = lint_messages(compiled(function, tmp_path))
    assert problem.startswith(f"task {task}: input 'struct' is STRUCT and receives an item of the loop for-loop-1")
    assert "declare it, such as list[dict]" in problem


def typed_items(settings: list[dict] = [{}], counts: list[int] = [1]):
    with dsl.ParallelFor(settings) as item:
        use(struct=item, text=item.name)
    with dsl.ParallelFor(counts) as count:
        use(count=count)
    with dsl.ParallelFor([{"a": 1}]) as constant:
        use(struct=constant, count=constant.a)
    with dsl.ParallelFor([1, 2]) as number:
        producer = make().after(use(count=number))
    use(items=dsl.Collected(producer.outputs["text"]))


def test_items_whose_type_is_known(tmp_path):
    assert lint_messages(compiled(typed_items, tmp_path)) == []


def test_a_constant_of_another_type(tmp_path):
    text = compiled(lambda: use(count=3), tmp_path)
    assert lint_messages(text) == []
    [problem] = lint_messages(text.replace("constant: 3.0", "constant: three"))
    assert problem.startswith("task use: input 'count' is NUMBER_INTEGER and receives a constant, which is STRING")


def test_a_constant_item_of_another_type(tmp_path):
    def loop():
        with dsl.ParallelFor([1, 2]) as number:
            use(count=number)

    text = compiled(loop, tmp_path)
    [problem] = lint_messages(text.replace("raw: '[1, 2]'", """raw: '[1, "2"]'"""))
    assert problem.startswith("task for-loop-2: item 1 of the loop is STRING, not NUMBER_INTEGER")


# --- inputs that are left out


def optional_in_a_condition(count: int = 1, text: Optional[str] = None):
    use(text=text)
    with dsl.If(count == 1):
        use(text=text)


def optional_for_a_required_input(text: Optional[str] = None):
    need(text=text)


@pytest.mark.parametrize(
    ("function", "task"), [(optional_in_a_condition, "condition-1"), (optional_for_a_required_input, "need")]
)
def test_an_optional_input_where_one_is_required(function, task, tmp_path):
    [problem] = lint_messages(compiled(function, tmp_path))
    assert problem.startswith(f"task {task}: ")
    assert "receives the optional 'text', which has no default: a run that leaves it out fails" in problem


def test_an_optional_input_of_an_inner_pipeline(tmp_path):
    @dsl.pipeline(name="inner")
    def inner(text: Optional[str] = None, other: Optional[str] = None):
        use(text=text)
        need(text=other)

    def outer(text: str = ""):
        inner(text=text)

    [problem] = lint_messages(compiled(outer, tmp_path))
    assert problem.startswith("task inner/need: input 'text' is required here and receives the optional 'other'")


def test_a_required_input_that_nobody_gives(tmp_path):
    spec = yaml.safe_load(compiled(lambda: need(text="a"), tmp_path))
    del spec["root"]["dag"]["tasks"]["need"]["inputs"]
    assert lint_messages(yaml.safe_dump(spec)) == ["task need: input 'text' is required and has no value; give it one"]


def test_an_optional_artifact_of_an_inner_pipeline(tmp_path):
    @dsl.container_component
    def maybe(model: dsl.Input[dsl.Model] = None):
        return container()

    @dsl.pipeline(name="inner")
    def inner(model: dsl.Input[dsl.Model] = None):
        maybe(model=model)

    [problem] = lint_messages(compiled(lambda: inner().set_caching_options(True), tmp_path))
    assert problem.startswith("task inner: the inner pipeline's optional artifact 'model' is left out")
    assert lint_messages(compiled(lambda: inner(model=make().outputs["model"]), tmp_path)) == []


# --- what the driver reads as text


def test_a_number_as_a_limit(tmp_path):
    def limits(gpus: int = 1, count: str = "1", cpu: str = "1"):
        use().set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(gpus).set_cpu_limit(cpu)
        use().set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(count)
        use().set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(1)

    [problem] = lint_messages(compiled(limits, tmp_path))
    assert problem.startswith("task use: the accelerator limit receives the pipeline's 'gpus', which is NUMBER_INTEGER")
    assert "no GPU is requested" in problem


def test_inputs_that_are_too_long_for_an_argument(tmp_path):
    [problem] = lint_messages(compiled(lambda: need(text="a" * 140_000), tmp_path))
    assert problem.startswith("task need: its constant inputs have 140,")


# --- graphs


def test_a_loop_over_artifacts(tmp_path):
    @dsl.pipeline(name="models")
    def models() -> List[dsl.Model]:
        with dsl.ParallelFor([1, 2]):
            producer = make()
        return dsl.Collected(producer.outputs["model"])

    def loop():
        with dsl.ParallelFor(models().output) as model:
            read(model=model)

    [problem] = lint_messages(compiled(loop, tmp_path))
    assert "a ParallelFor over artifacts is not implemented" in problem


@pytest.mark.parametrize("output", ["model", "text"])
def test_one_of(output, tmp_path):
    def branches(text: str = "a"):
        with dsl.If(text == "a"):
            one = make()
        with dsl.Else():
            other = make()
        chosen = dsl.OneOf(one.outputs[output], other.outputs[output])
        read(model=chosen) if output == "model" else need(text=chosen)

    text = compiled(branches, tmp_path)
    assert lint_messages(text) == []
    messages = warnings(text)
    assert len(messages) == (output == "model")
    assert all("before 2.17 always takes the last branch" in warning for warning in messages)


def test_two_finalizers_of_a_task(tmp_path):
    def pipeline():
        work = make()
        end(after=[work])
        end(after=[work])

    [problem] = lint_messages(compiled(pipeline, tmp_path))
    assert problem.startswith("task use: make has several finalizers (use, use-2), and the back end runs only use-2")


def test_a_task_after_a_finalizer(tmp_path):
    [problem] = lint_messages(compiled(lambda: use().after(end(after=[make()])), tmp_path))
    assert problem.startswith("task use: it runs after the finalizer use-2")


def test_a_finalizer_of_nothing(tmp_path):
    [problem] = lint_messages(compiled(lambda: end(after=[]), tmp_path))
    assert "never runs" in problem


def test_a_finalizer_of_several_tasks(tmp_path):
    text = compiled(lambda: end(after=[make(), make()]), tmp_path)
    assert lint_messages(text) == []
    [warning] = warnings(text)
    assert "a finalizer of several tasks (make, make-2) runs once after each of them" in warning


@pytest.mark.parametrize(("inputs", "count"), [({}, 0), ({"scope": "siblings"}, 0), ({"scope": "run"}, 1)])
def test_a_cleanup_of_several_tasks(tmp_path, inputs, count):
    def pipeline():
        tasks = [make(), make()]
        cleanup(**inputs).after(*tasks).ignore_upstream_failure()

    text = compiled(pipeline, tmp_path)
    assert lint_messages(text) == []
    assert len(warnings(text)) == count


def test_a_branch_without_tasks(tmp_path):
    def pipeline(flag: str = "a"):
        with dsl.If(flag == "b"):
            ...
        make()

    text = compiled(pipeline, tmp_path)
    for check in (lint_messages, local_lint_messages):
        [problem] = check(text)
        assert problem.startswith("task condition-1: it has no task")


def after_a_loop():
    with dsl.ParallelFor([1, 2]):
        work = make()
    end(after=[work])


def after_an_importer():
    end(after=[dsl.importer(artifact_uri="gs://bucket/model", artifact_class=dsl.Model)])


def after_a_claim():
    end(after=[kubernetes.CreatePVC(pvc_name="data", access_modes=["ReadWriteOnce"], size="1Gi")])


@pytest.mark.parametrize(
    ("function", "reason"),
    [(after_a_loop, "a loop"), (after_an_importer, "an importer"), (after_a_claim, "done by the driver")],
)
def test_a_finalizer_of_what_has_no_exit_hook(function, reason, tmp_path):
    [problem] = lint_messages(compiled(function, tmp_path))
    assert "the finalizer does not run after" in problem
    assert f"which is {reason} and has no exit hook" in problem


def test_an_exit_handler_around_a_loop(tmp_path):
    def pipeline():
        with dsl.ExitHandler(use().set_caching_options(False)):
            with dsl.ParallelFor([1, 2]):
                make()

    text = compiled(pipeline, tmp_path)
    assert lint_messages(text) == []
    assert warnings(text) == []


def test_the_time_of_the_run(tmp_path):
    text = compiled(lambda: need(text=dsl.PIPELINE_JOB_CREATE_TIME_UTC_PLACEHOLDER), tmp_path)
    assert lint_messages(text) == []
    [warning] = warnings(text)
    assert "stays as it is before Kubeflow Pipelines 2.16" in warning
