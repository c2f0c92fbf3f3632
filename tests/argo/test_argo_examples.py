"""What Argo's own examples and tests take is taken; what its validation refuses is found, bar what it cannot know."""

import re

import pytest
import yaml

from tests.cluster.build import module_folder
from tests.cluster.platforms import PLATFORMS
from tfsteps.engines.argo.lint import lint_messages

pytestmark = pytest.mark.cluster  # needs Argo's Go module, as the cluster does

NONE = ("there is no manifest", "Workflow without a name: metadata.name: it is missing")  # Kubernetes refuses both
# Of other manifests, of metrics, and of when a variable is known.
NOT_FOUND = {
    "dagTargetMissingInputParam",
    "invalidContainerSetDependencyNotFound",
    "invalidRealtimeMetricGauge",
    "nestedTemplateRefWithError",
    "undefinedTemplateRef",
    "unsuppliedArgValue",  # a warning: the value may come at submission
    "workflowStatusNotOnExit",
    "workflowWithoutParameterizedArtifacts",  # of the outputs that templates make known by a globalName
}


@pytest.fixture(scope="module", params=PLATFORMS.values(), ids=PLATFORMS)
def argo(request):
    return module_folder("argo", request.param)


def test_examples(argo):
    files = sorted((argo / "examples").rglob("*.yaml"))
    assert len(files) > 200
    messages = {file.name: lint_messages(file.read_text()) for file in files}
    assert {name: lines for name, lines in messages.items() if lines and not lines[0].startswith(NONE)} == {}


def refused(argo):
    """Yield name and text of the manifests that Argo's validation tests expect an error of."""
    for file in sorted((argo / "workflow/validate").glob("*_test.go")):
        code = file.read_text()
        texts = dict(re.findall(r"^(?:var|const)\s+(\w+)\s*=\s*`(.*?)`", code, re.DOTALL | re.MULTILINE))
        calls = re.findall(r"err :?= validate(?:WorkflowTemplate)?\((?:[\w.()]+, )?(\w+)[^)]*\)\n(.*)", code)
        errors = {name for name, check in calls if re.search(r"(?<!No)Error(Contains)?\(", check)}
        taken = {name for name, check in calls if "NoError(" in check}
        yield from ((name, texts[name]) for name in sorted(errors - taken) if name in texts)


def test_refused(argo):
    detected, missed = set(), set()
    for name, text in refused(argo):
        try:
            manifest = yaml.safe_load(text)
            named = {**manifest, "metadata": {"name": "a"}}  # many of them have none, which is not their point
            (detected if lint_messages(yaml.safe_dump(named)) else missed).add(name)
        except yaml.YAMLError:
            detected.add(name)
    assert missed == NOT_FOUND & (missed | detected)  # Argo 3.7 tests less than Argo 4.0 does
    assert len(detected) > 45
