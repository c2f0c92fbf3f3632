"""Every pipeline that README and docs show compiles, and lint finds nothing in it."""

import pytest

from tests.support.doc_examples import examples
from tests.support.kfp_compiler import compiled_component
from tfsteps.engines.argo.lint import lint_messages as argo_problems
from tfsteps.engines.kfp.lint import lint_messages, warnings


def test_the_pages_with_examples():
    assert {example.page for example in examples()} >= {"README.md", "docs/guides/kubeflow.md", "docs/guides/argo.md"}


@pytest.mark.parametrize("example", examples(), ids=str)
def test_an_example(example, tmp_path):
    assert example.pipelines() or example.workflows()
    for pipeline in example.pipelines():
        text = compiled_component(pipeline, tmp_path)
        assert lint_messages(text) == []
        assert warnings(text) == []
    for workflow in example.workflows():
        assert argo_problems(workflow.to_yaml()) == []
