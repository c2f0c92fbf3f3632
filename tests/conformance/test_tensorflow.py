"""Real TensorFlow on a real cluster, each job system with the topologies that its TF_CONFIG must serve."""

import ast
import re

import pytest

from tests.conformance.control_channel import WAIT_FOR_RELEASE, release
from tests.conformance.environment import Environment
from tests.conformance.systems import SYSTEMS
from tests.conformance.verdicts import SHARED
from tests.support.notebook import executed
from tfsteps.kube import access
from tfsteps.kube.client import Api
from tfsteps.runs.events import ReplicaState, State

pytestmark = [pytest.mark.cluster, pytest.mark.tensorflow]

_EVALUATOR = "import sys, evaluator; print('imported', flush=True); sys.exit(evaluator.main())"
_MIRRORED = ("kubeflow", "t9k", "tfjob-v1alpha1")
_ENV = {"TF_CPP_MIN_LOG_LEVEL": 2, "RESUME": 1}
_WSUM_TWO_REPLICAS = "done wsum 6.175067902"  # of mwms.py after 3 epochs of 20 steps, as on any machine


@pytest.fixture(params=SYSTEMS, ids=lambda system: system.name)
def environment(request, kubeconfig, build, tmp_path):
    with Environment(request.param, Api(access.find()), build("train"), tmp_path / "environment") as environment:
        yield environment


def launch(environment, **job):
    fields = {"volumes": SHARED, "output_dir": "/shared/tfsteps-conformance/{run_id}", "env": _ENV, **job}
    return environment.launch(fields, run=environment.namespace)


def test_the_notebook_of_the_documentation(kubeconfig, build, tmp_path, monkeypatch):
    with Environment(SYSTEMS[0], Api(access.find()), build("train"), tmp_path / "environment") as environment:
        place = {"on": "kubernetes", "namespace": environment.namespace, "image": environment.image}
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        cells, live = executed(monkeypatch, tmp_path, **place)
    assert ast.literal_eval(cells["fast"]["text/plain"])["replicas"] == 2
    assert any("running" in page for page in live["slow"])
    assert "input args --rate" in cells["compare"]["text/html"]


@pytest.mark.parametrize(
    "environment", [row for row in SYSTEMS if row.name in _MIRRORED], indirect=True, ids=lambda row: row.name
)
def test_multi_worker_mirrored(environment):
    """On the systems whose kinds are of TensorFlow; on each, the case "two workers train" shows TF_CONFIG."""
    launcher = launch(environment, command=["python", "mwms.py"], roles={"worker": {"replicas": 2}})
    launcher.ends(0, State.SUCCEEDED)
    done = [who for who, line in launcher.lines() if _WSUM_TWO_REPLICAS in line]
    assert sorted(done) == ["worker-0", "worker-1"]


def test_parameter_servers_with_an_evaluator_that_the_operator_lists_in_the_cluster(environment):
    roles = {"chief": {}, "ps": {}, "worker": {}, "evaluator": {"command": ["python", "-c", _EVALUATOR]}}
    roles["chief"] = {
        "command": ["sh", "-c", f"{WAIT_FOR_RELEASE}; exec python ps.py"]
    }  # it does not wait for an evaluator
    env = {**_ENV, "JOIN": 1, "STEP_SLEEP": 0.1, "EVAL_IDLE": 120}
    launcher = launch(environment, command=["python", "ps.py"], roles=roles, env=env)
    launcher.until_said("imported")
    release(environment, launcher, "chief-0")
    launcher.ends(0, State.SUCCEEDED)
    log = "\n".join(f"{who} {line}" for who, line in launcher.lines())
    assert re.search(r"chief-0 .*done wsum", log), log
    assert re.search(r"evaluator-0 .*eval step 20 ", log), log
    states = {replica.name: replica.state for replica in launcher.status.replicas}
    assert states["chief-0"] is ReplicaState.SUCCEEDED, states
    assert {states[name] for name in ("ps-0", "worker-0")} == {ReplicaState.STOPPED}, states
