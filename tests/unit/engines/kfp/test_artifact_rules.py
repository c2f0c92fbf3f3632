"""A component that opens the path of a model, which is nowhere on a cluster."""

import pytest
from kfp import dsl

from tfsteps.engines.kfp import lint
from tfsteps.engines.kfp.authoring import compiled_text
from tfsteps.kfp import train, train_and_finalize

FOUND = "input 'model': nothing is at model.path on a cluster"


@dsl.component(base_image="python:3.11")
def opens(model: dsl.Input[dsl.Model]):
    print(model.path)


@dsl.component(base_image="python:3.11")
def reads_metadata(model: dsl.Input[dsl.Model]):
    print(model.metadata["path"])


@dsl.container_component
def receives(model: dsl.Input[dsl.Model]):
    return dsl.ContainerSpec(image="python:3.11", command=["ls"], args=[model.path])


@pytest.mark.parametrize(("use", "is_found"), [(opens, True), (receives, True), (reads_metadata, False)])
@pytest.mark.parametrize("step", [train, train_and_finalize])
def test_the_path_of_a_model(use, is_found, step):
    @dsl.pipeline(name="p")
    def inner(model: dsl.Input[dsl.Model]):
        use(model=model)

    @dsl.pipeline(name="p")
    def p():
        trained = step(name="a", image="a:1", command=["a"], workers=1, spec={"keep_for": "1h"})
        use(model=trained.outputs["model"])
        inner(model=trained.outputs["model"])

    problems = [problem for problem in lint.lint_messages(compiled_text(p)) if FOUND in problem]
    assert len(problems) == (2 if is_found else 0), problems
    assert lint.local_lint_messages(compiled_text(p)) == [], "here it is a link to the folder of the model"
