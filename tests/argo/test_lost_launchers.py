"""What Argo and a launcher make of a lost launcher pod: retry policy, by way of loss, by phase; and of a kept job.

However Argo decides, no job is left that nobody comes for, and no two trainings of a step run side by side.
"""

import itertools
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from tests.argo.environment import JOBS, LONG, WORKFLOWS, job
from tests.preflight.conftest import HELD
from tests.support.waiting import until
from tfsteps.kube.client import Api
from tfsteps.kube.resource import PODS
from tfsteps.kube.watch import Changed, Deleted, Listed, Watch
from tfsteps.runs.identity import RUN_ID
from tfsteps.systems.kubernetes.cleanup.keeper import KEEPERS
from tfsteps.systems.kubernetes.cleanup.retention import KEPT_UNTIL

pytestmark = pytest.mark.cluster

POLICIES = ("none", "OnFailure", "OnError", "OnTransientError", "Always")
LOSSES = ("deleted", "evicted", "killed")
TRIES_AGAIN = ("OnFailure", "Always")
"""The policies that cover a launcher that was killed."""
PHASES = ("just started", "replica running")
SIDE_BY_SIDE = 15
DEPENDS = {"OnFailure", "OnError", "OnTransientError"}
"""The policies of which it depends on timing whether the pod is made again: the job is kept for it."""
CHANCE_SECONDS = 40
KEPT_SECONDS = {"kept-adopted": 150, "kept-forgotten": 40}  # the first is long enough for a retry on a busy machine
CELLS = [
    (policy, loss, phase)
    for (i, policy), (j, loss), (k, phase) in itertools.product(*map(enumerate, (POLICIES, LOSSES, PHASES)))
    if policy == "Always" or (k == 1 if loss == "killed" else (i + j + k) % 2)
]
"""All ways of the policy that steps have and lint demands. Of the others three each: a pod that is lost early and one
that is lost late, by turns deleted and evicted, and a launcher that is killed: the columns of docs/guides/argo.md."""


class Trainings:
    """All jobs of a namespace as they come and go: two of a run that are both there and not being deleted are noted."""

    def __init__(self, environment):
        self.jobs, self.overlaps, self.gone = {}, [], {}  # by run; runs; times by run
        self.api = Api(environment.cluster.api.access)
        Watch(self.api, JOBS, environment.namespace, self._saw)

    def _saw(self, seen):
        match seen:
            case Listed(items=items):
                for item in items:
                    self._note(item)
                there = {item["metadata"]["uid"] for item in items}
                for run, jobs in self.jobs.items():
                    for uid in jobs.keys() - there:  # deleted while the watch was interrupted
                        jobs[uid] = "gone"
                        self.gone.setdefault(run, time.monotonic())
            case Changed(item=item):
                self._note(item)
            case Deleted(item=item):
                self._note(item, gone=True)

    def _note(self, item, *, gone=False):
        meta, conditions = item["metadata"], (item.get("status") or {}).get("conditions") or []
        ended = {item["type"] for item in conditions if item["status"] == "True"} & {"Succeeded", "Failed"}
        of_run = self.jobs.setdefault(meta["labels"][RUN_ID], {})
        if gone := gone or "deletionTimestamp" in meta:  # it may wait for the grace period of its pods
            self.gone.setdefault(meta["labels"][RUN_ID], time.monotonic())
        of_run[meta["uid"]] = "gone" if gone else min(ended, default="runs")
        there = [state for state in of_run.values() if state in {"runs", "Succeeded"}]
        if "runs" in there and len(there) > 1:
            self.overlaps.append(meta["labels"][RUN_ID])

    def of(self, run):
        """Return what became of each job of a run, the oldest first."""
        return list(self.jobs.get(run, {}).values())


@dataclass
class Cell:
    """One Workflow and what is done to its launcher.

    Attributes:
        policy: Its retry policy.
        loss: What takes its launcher away.
        phase: When.
        outcome: What became of Workflow, tries and jobs; empty = not known yet.
        seconds: From the loss to the end of the Workflow, or of the job if that was later.
        since: When the launcher was lost, by the clock `monotonic`.
    """

    policy: str
    loss: str
    phase: str
    outcome: str = ""
    seconds: float = 0.0
    since: float = 0.0
    left: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.policy}-{self.loss}-{self.phase.split()[-1]}".lower()

    def run(self, environment, trainings):
        """Submit, lose the launcher, and see all of it to its end."""
        killed = self.loss == "killed"
        script = LONG if killed and self.policy not in TRIES_AGAIN else HELD  # a finalizer is to find it running
        keeping = {"on_evicted": f"{CHANCE_SECONDS}s"} if self.policy in DEPENDS else {}
        submit(environment, self.name, self.policy, script, finalizer=killed, **keeping)
        pod = running(environment, self.name, replica=self.phase == "replica running")
        self.since = time.monotonic()
        lose(environment, self.loss, pod)
        phase = released(environment, self.name)
        tries = sum(
            node["type"] == "Pod" and "fit" in node["displayName"] for node in environment.nodes(self.name).values()
        )
        left = {"Succeeded", "gone"} if phase == "Succeeded" else {"gone"}
        states = until(lambda: settled(trainings.of(environment.flows[self.name]["uid"]), left))
        self.seconds = round(time.monotonic() - self.since, 1)
        self.outcome = f"{phase}, {tries} tries"
        self.left = states

    def row(self):
        """Return it as a row of the table in docs/guides/argo.md."""
        jobs = ", ".join("deleted" if state == "gone" else state.lower() for state in self.left) or "never made"
        return f"| {self.policy} | {self.loss} | {self.phase} | {self.outcome} | {jobs} | {self.seconds:.0f} s |"


def settled(states, left):
    """Return the states of a run's jobs in a list once they are those that may be left; False until then."""
    return set(states) <= left and (states or ["never made"])


def submit(environment, name, policy, script=HELD, *, finalizer=False, deaf=False, **spec):
    """Submit a Workflow of one train step that has this retry policy. Lint would refuse it: it wants Always.

    The launcher of a `deaf` one gets no SIGTERM, as if that were lost.
    """
    inputs = job(script)
    inputs["spec"] |= spec
    flow = environment.one(name, on_exit=finalizer, inputs=inputs).to_dict()
    template = next(item for item in flow["spec"]["templates"] if item["name"] == "train")
    template.pop("retryStrategy", None)
    if deaf:
        container = template["container"]
        container["command"] = ["sh", "-c", 'trap "" TERM; exec "$@"', "sh", *container["command"]]
    if policy != "none":
        template["retryStrategy"] = {"limit": 3, "retryPolicy": policy, "backoff": {"duration": "1"}}
    environment.flows[name] = environment.create(WORKFLOWS, flow)["metadata"]


def running(environment, name, *, replica):
    """Return the name of a Workflow's launcher pod once it, or a replica of its job, runs."""

    def launcher():
        return next((pod for pod in environment.launchers(name) if pod["status"].get("phase") == "Running"), None)

    def node_runs():
        return any(node["type"] == "Pod" and node["phase"] == "Running" for node in environment.nodes(name).values())

    pod = until(launcher)
    if replica:
        until(lambda: replicas(environment, name))
        until(node_runs)  # until then Argo makes a pod again that is lost
    return pod["metadata"]["name"]


def replicas(environment, name):
    """Return the names of the pods of a Workflow's jobs that run."""
    selector = f"{RUN_ID}={environment.flows[name]['uid']},training.kubeflow.org/job-role"
    pods = environment.cluster.api.list(PODS, environment.namespace, labelSelector=selector)["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]


def released(environment, name):
    """Return a Workflow's phase once it has ended; what it trains meanwhile is released if a launcher follows it.

    A job that a lost launcher should have stopped is not: it would succeed before the launcher has its signal, or hide
    that it never got one.
    """

    def phase():
        for pod in replicas(environment, name) if followed(environment, name) else ():
            environment.cluster.kubectl(
                "exec", "-n", environment.namespace, pod, "--", "touch", "/tmp/released", whatever=True
            )
        time.sleep(0.5)  # some others ask as well
        current_phase = environment.status(name).get("phase")
        return current_phase in {"Succeeded", "Failed", "Error"} and current_phase

    return until(phase)


def followed(environment, name):
    """Tell whether a launcher of a Workflow runs that is not being deleted."""
    pods = environment.launchers(name)
    return any(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods)


def lose(environment, loss, pod):
    if loss == "deleted":
        environment.delete(PODS, pod)
    elif loss == "evicted":
        environment.evict(pod)
    else:
        environment.kill(pod)


@pytest.fixture(scope="module")
def trainings(environment):
    watched = Trainings(environment)
    yield watched
    watched.api.stopping.set()


def test_a_launcher_whose_sigterm_is_lost_stops_its_job_before_it_is_killed(environment, trainings):
    submit(environment, "deaf", "none", deaf=True)
    lose(environment, "deleted", running(environment, "deaf", replica=True))
    since = time.monotonic()
    until(lambda: trainings.of(environment.flows["deaf"]["uid"]) == ["gone"])
    assert time.monotonic() - since < 25, "the pod has 30 seconds"
    assert environment.ended("deaf") in {"Failed", "Error"}


# --- kept for a retry of the run


@pytest.fixture(scope="module")
def kept(environment, trainings):
    """Evict the launchers of two Workflows whose jobs are kept, and retry one; return when, and that one's job then."""
    for name, seconds in KEPT_SECONDS.items():
        submit(environment, name, "none", finalizer=True, on_evicted=f"{seconds}s", command=["sleep", "900"])
    pods = [running(environment, name, replica=True) for name in KEPT_SECONDS]
    for pod in pods:
        environment.evict(pod)
    since = time.monotonic()
    for name in KEPT_SECONDS:
        assert environment.ended(name) in {"Failed", "Error"}, environment.why(name)  # its finalizer has run
    (job_then,) = environment.jobs("kept-adopted")
    retry(environment, "kept-adopted")
    return since, job_then


def retry(environment, name):
    """Start the failed step of a Workflow again, as `argo retry` and Kubeflow Pipelines' Retry do.

    As people do, some seconds after its end: one that is retried within a second stands still with Argo 4.0.5, whose
    controller takes it for throttled.
    """
    time.sleep(5)
    nodes = environment.status(name)["nodes"]
    again = {"phase": "Running", "message": None, "finishedAt": None}
    changed = {key: again if node["type"] == "DAG" else None for key, node in nodes.items()}
    labels = {"workflows.argoproj.io/completed": None, "workflows.argoproj.io/phase": "Running"}
    patch = {"metadata": {"labels": labels}, "status": {**again, "nodes": changed, "conditions": None}}
    selector = f"workflows.argoproj.io/workflow={name}"
    for pod in environment.cluster.api.list(PODS, environment.namespace, labelSelector=selector)["items"]:
        environment.delete(PODS, pod["metadata"]["name"])
    environment.cluster.api.patch(WORKFLOWS, environment.namespace, name, patch)


# --- the table


@pytest.fixture(scope="module")
def table(environment, trainings, kept):
    """Run all cells, some side by side, and print the table."""
    cells = [Cell(*item) for item in CELLS]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = list(pool.map(lambda cell: attempt(lambda: cell.run(environment, trainings)), cells))
    print(*(cell.row() for cell in cells), sep="\n")
    return {cell.name: (cell, error) for cell, error in zip(cells, results, strict=True)}


def attempt(what):
    """Return the failure of `what()`; None = it went well."""
    try:
        what()
    except Exception as error:  # noqa: BLE001  the cell's own test reports it
        return error
    return None


@pytest.mark.parametrize("name", [Cell(*item).name for item in CELLS])
def test_a_lost_launcher(name, table, environment, trainings):
    cell, error = table[name]
    run = environment.flows[cell.name]["uid"]
    if error:
        there = [(meta["uid"], meta.get("ownerReferences")) for meta in environment.jobs(cell.name)]
        raise AssertionError(f"{trainings.jobs.get(run)}, there: {there}\n{environment.why(cell.name)}") from error
    assert run not in trainings.overlaps, "two trainings side by side"
    assert trainings.of(run).count("Succeeded") <= 1, "a second training after a success"
    if not cell.outcome.startswith("Succeeded"):
        assert set(trainings.of(run)) <= {"gone"}, f"nobody comes for a job that was left: {environment.why(cell.name)}"
    if cell.policy in DEPENDS and cell.loss != "killed" and cell.outcome.startswith("Succeeded"):
        kept = trainings.gone.get(run, math.inf) - cell.since
        assert kept > CHANCE_SECONDS - 3, "it is kept for the next pod, which comes later only on a busy machine"
    if cell.policy == "Always":
        assert cell.outcome.startswith("Succeeded"), environment.why(cell.name)
        assert trainings.of(run) == ["Succeeded"], "the next pod adopts the job"
        assert cell.loss != "killed" or cell.outcome == "Succeeded, 2 tries"


@pytest.mark.shows("on_evicted")  # on one job system: the code is the same for all
def test_a_retry_of_the_run_adopts_a_kept_job(environment, kept):
    since, before = kept
    assert [owner["kind"] for owner in before["ownerReferences"]] == [KEEPERS.kind]
    assert KEPT_UNTIL in before["annotations"]
    time.sleep(max(0.0, since + KEPT_SECONDS["kept-adopted"] + 5 - time.monotonic()))
    (after,) = environment.jobs("kept-adopted")
    assert (after["uid"], after.get("deletionTimestamp")) == (before["uid"], None), environment.why("kept-adopted")
    assert [owner["uid"] for owner in after["ownerReferences"]] == [environment.flows["kept-adopted"]["uid"]]
    assert KEPT_UNTIL not in after["annotations"]
    environment.patch("kept-adopted", {"shutdown": "Terminate"})
    until(lambda: not environment.jobs("kept-adopted"))


def test_a_kept_job_that_nobody_comes_for_is_deleted_by_kubernetes(environment, kept, trainings, record_property):
    until(lambda: not environment.jobs("kept-forgotten"))
    seconds = round(trainings.gone[environment.flows["kept-forgotten"]["uid"]] - kept[0], 1)
    record_property("seconds", seconds)
    kept_seconds = KEPT_SECONDS["kept-forgotten"]
    assert kept_seconds - 3 < seconds < kept_seconds + 10
    until(lambda: not environment.cluster.api.list(KEEPERS, environment.namespace)["items"])
