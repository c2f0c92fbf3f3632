"""Every Workflow that README and docs show runs under the real Argo to the end that its page promises."""

import pytest
import yaml

from tests.argo.environment import WORKFLOWS
from tests.cluster import images
from tests.pipelines.conftest import claim
from tests.support.doc_examples import examples
from tests.support.event_writer import ScalarWriter
from tfsteps.argo import lint_messages
from tfsteps.image import IMAGE
from tfsteps.kube.resource import Resource

__all__ = ["claim"]

pytestmark = pytest.mark.cluster

PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass")
TRAINED = "ghcr.io/acme/mnist:1.4"
# What the image of the examples runs: a replica that ends at once, and writes the metric and the model of its job.
TRAIN = """
test "$TFSTEPS_ROLE-$TFSTEPS_INDEX" = worker-0 || exit 0
mkdir -p "$TFSTEPS_LOG_DIR" "$TFSTEPS_MODEL_DIR"
cp /events/* "$TFSTEPS_LOG_DIR"
echo "$@" > "$TFSTEPS_MODEL_DIR/arguments"
"""
RUN = {
    "mnist-": (["fit", "gate", "more"], ["--lr", "--start-from"]),
    "notified-": (["fit"], []),
    "stays-": (["fit"], []),
}
"""The Workflows that run, by the beginning of their names: the steps that succeed, and what the trainings that wrote to
the claim were called with, each up to its first blank."""
CANNOT_RUN: dict[str, str] = {}
"""Those that cannot run on the cluster of the tests, and why."""

EXAMPLES = [pytest.param(entry, id=str(entry)) for entry in examples() if "Workflow(" in entry.code]


def name_of(workflow):
    return workflow.name or workflow.generate_name


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The image that the examples name, on the node."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "train.sh").write_text(TRAIN)
    with ScalarWriter(folder) as writer:
        writer.scalar("eval/accuracy", 0.97, 1)
    programs = {"train.sh": folder / "train.sh", f"events/{writer.path.name}": writer.path}
    images.load_programs(TRAINED, programs, ["sh", "/train.sh"], entrypoint=True)


@pytest.fixture(scope="module")
def launchers(environment):
    """The PriorityClass that an example names."""
    item = {"metadata": {"name": "launchers"}, "value": 1000}
    environment.cluster.api.create(PRIORITY_CLASSES, "", item)
    yield
    environment.cluster.api.request("DELETE", PRIORITY_CLASSES.path("", "launchers"))


def test_every_example_runs_or_says_why_not():
    names = [name_of(workflow) for example in EXAMPLES for workflow in example.values[0].workflows()]
    assert sorted(names) == sorted([*RUN, *CANNOT_RUN])


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.usefixtures("trained", "launchers")
def test_an_example_runs_to_its_end(example, environment, claim):
    for workflow in example.workflows():
        if name_of(workflow) in CANNOT_RUN:
            continue
        before = set(claim.rglob("arguments"))
        text = workflow.to_yaml().replace(IMAGE, environment.image)
        assert lint_messages(text) == []
        name = environment.create(WORKFLOWS, yaml.safe_load(text))["metadata"]["name"]
        assert environment.ended(name) == "Succeeded", environment.why(name)
        steps, called = RUN[name_of(workflow)]
        phases = {node: details["phase"] for node, details in environment.nodes(name).items()}
        assert {phases.get(step) for step in steps} == {"Succeeded"}, environment.why(name)
        written = sorted(set(claim.rglob("arguments")) - before, key=lambda file: file.stat().st_mtime)
        assert [file.read_text().partition(" ")[0].strip() for file in written] == called
