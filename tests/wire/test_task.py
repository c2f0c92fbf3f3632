"""`tfsteps task --on kubernetes`: the job of one task in the cluster, and what its next run and `clear` remove."""

import copy
import datetime as dt
import json

import pytest

from tests.unit.cli.command import tfsteps
from tests.unit.cli.jobs_on_cluster import pod_of, tfjob, write_kubeconfig
from tests.unit.runs.test_record_store import attempt_of
from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.runs.identity import MANAGED_BY, RUN_ID, TASK, Identity
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.cleanup.retention import JOB as ANNOTATION

WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: nightly-}
spec:
  entrypoint: main
  arguments: {parameters: [{name: epochs, value: 2}]}
  templates:
    - name: main
      dag:
        tasks:
          - {name: prepare, template: prepare}
          - name: train
            depends: prepare
            templateRef: {name: tfsteps, template: train}
            arguments:
              parameters:
                - {name: name, value: mnist}
                - {name: image, value: "acme/mnist:1"}
                - {name: command, value: '["python", "train.py"]'}
                - {name: workers, value: 2}
                - {name: env, value: '{"EPOCHS": "{{workflow.parameters.epochs}}"}'}
                - {name: data, value: "{{tasks.prepare.outputs.parameters.file}}"}
    - {name: prepare, container: {image: "a:1", command: ["true"]}}
"""
RUN, DEBUG = "run-nightly-train", "debug-nightly-train"
ON = ("--on", "kubernetes", "--system", "kubeflow", "--detach")


JOB = {"name": "mnist", "image": "acme/mnist:1", "command": ["python", "train.py"], "roles": {"worker": {}}}


class Namespace:
    """The objects of a namespace, by their collection."""

    def __init__(self):
        self.by_kind = {"tfjobs": [], "jobs": [], "services": [], "pods": [], "workflows": []}
        self.created = []
        self.api_of_tfjobs = "kubeflow.org/v1"

    def answer(self, asked):
        *_, parent, name = asked.path.split("/")
        if "/tfjobs" in asked.path and f"/{self.api_of_tfjobs}/" not in asked.path:
            return refusal(404, "NotFound")
        if asked.method == "POST" and name == "tfjobs":
            return Answer(body=asked.body if asked.query.get("dryRun") else self._create(asked.body))
        if name in self.by_kind:
            if asked.query.get("watch"):
                return Answer(parts=["hang"])
            selector = dict(part.split("=") for part in asked.query.get("labelSelector", "").split(",") if "=" in part)
            items = [item for item in self.by_kind[name] if selector.items() <= item["metadata"]["labels"].items()]
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})
        items = [item for item in self.by_kind.get(parent, []) if item["metadata"]["name"] == name]
        if not items:
            return refusal(404, "NotFound")
        if asked.method == "DELETE":
            self.by_kind[parent].remove(items[0])
            pods = self.by_kind["pods"]
            pods[:] = [
                pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] != items[0]["metadata"]["uid"]
            ]
        return Answer(body=items[0])

    def _create(self, body):
        item = copy.deepcopy(body)
        item["metadata"] |= {"uid": f"uid-{len(self.created)}", "creationTimestamp": "2026-11-21T07:00:00Z"}
        self.by_kind["tfjobs"].append(item)
        self.by_kind["pods"].append(pod_of(item, "worker-0", "Running"))
        self.created.append(item)
        return item

    def hold(self, kind, status):
        """Have one job, of the task by itself and of a kind, as another machine has launched it."""
        job = spec.from_plain({**JOB, "output_dir": "/d"}, "job", registry.options())
        paths = OutputPaths(output="/d", model="/d/model", logs="/d/logs", base_dir=None)
        item = kind.render(job, Identity(run=RUN, task="train"), paths, "ml").manifest
        item["metadata"] |= {"uid": "u", "creationTimestamp": "2026-11-21T07:00:00Z", "namespace": "ml"}
        self.by_kind = {**{key: [] for key in self.by_kind}, kind.resource.plural: [{**item, "status": status}]}
        self.api_of_tfjobs = kind.resource.api

    def names(self, kind):
        return [item["metadata"]["name"] for item in self.by_kind[kind]]


@pytest.fixture
def there(tmp_path, monkeypatch):
    namespace = Namespace()
    (tmp_path / "nightly.yaml").write_text(WORKFLOW)
    monkeypatch.chdir(tmp_path)
    with serve(namespace.answer) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        yield namespace


def task(action, *args, code=0):
    """Return both outputs of `tfsteps task` about the task `train`."""
    result, out, err = tfsteps("task", action, "nightly.yaml", "train", *args)
    assert result == code, (out, err)
    return out + err


def ended(item):
    item["status"] = {
        "conditions": [{"type": "Succeeded", "status": "True", "lastTransitionTime": "2026-11-21T07:01:00Z"}]
    }


def test_the_job_of_the_task_with_its_stable_id(there):
    task("run", *ON, "-p", "prepare.file=/d", "-p", "epochs=7")
    (job,) = there.created
    assert {job["metadata"]["labels"][key] for key in (RUN_ID, TASK)} == {RUN, "train"}
    container = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert (env["EPOCHS"], env["TFSTEPS_DATA"]) == ("7", "/d")
    assert container["image"] == "acme/mnist:1"


def test_a_detached_job_says_that_it_has_no_tensorboard(there):
    asked = ("--set", "tensorboard={}", "--set", "output_dir=s3://ml/{run_id}")
    output = task("run", *ON, "-p", "prepare.file=/d", *asked)
    assert "tensorboard: none while no launcher follows the job; `tfsteps attach run-nightly-train --on" in output
    there.by_kind["tfjobs"].clear()
    assert "TensorBoard" not in task("run", *ON, "-p", "prepare.file=/d")


def test_a_held_job_ends_by_the_clock_of_the_cluster(there):
    task("debug", *ON, "-p", "prepare.file=/d", "--for", "90m")
    (job,) = there.created
    assert job["metadata"]["labels"][RUN_ID] == DEBUG
    assert job["spec"]["runPolicy"]["activeDeadlineSeconds"] == 5400
    container = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert "sleep 5460 &" in str(container), "it ends by itself where nothing enforces the deadline"


def test_clear_without_a_terminal_names_the_command_of_the_task(there):
    there.hold(registry.kinds()[0], {})
    output = task("clear", *ON[:2], "-n", "ml", code=2)
    assert "add --yes: `tfsteps task clear nightly.yaml train --on kubernetes --namespace ml --yes`" in output


def test_a_job_on_each_system_is_replaced_only_if_asked(there):
    for kind in registry.kinds():
        for status, why in [({}, "has a job already, which is "), ({"phase": 7, "conditions": "x"}, "is not known: ")]:
            there.hold(kind, status)
            output = task("run", *ON[:2], "--system", kind.name, "-p", "prepare.file=/d", code=2)
            assert "--replace" in output, (kind.name, output)
            assert why in output or (status and "has a job already, which is " in output), (kind.name, output)
    assert not there.created


def test_a_held_job_may_end_at_a_time_of_day(there):
    task("debug", *ON, "-p", "prepare.file=/d", "--for", "23:30")
    (job,) = there.created
    end = dt.datetime.now().astimezone() + dt.timedelta(seconds=job["spec"]["runPolicy"]["activeDeadlineSeconds"])
    assert abs(end - end.replace(hour=23, minute=30, second=0)) < dt.timedelta(minutes=2)
    assert "write one such as 30m, 2h or 23:30" in task("debug", *ON, "-p", "prepare.file=/d", "--for", "24:30", code=2)


def test_a_job_that_runs_is_replaced_only_if_asked(there):
    task("run", *ON, "-p", "prepare.file=/d")
    (first,) = there.names("tfjobs")
    assert "--replace stops and removes it first" in task("run", *ON, "-p", "prepare.file=/d", code=2)
    assert there.names("tfjobs") == [first]
    task("run", *ON, "-p", "prepare.file=/d", "--replace")
    (second,) = there.names("tfjobs")
    assert second != first
    assert there.names("pods") == [f"{second}-worker-0"]


def test_a_job_that_has_ended_is_replaced_with_its_pods(there):
    task("run", *ON, "-p", "prepare.file=/d")
    (first,) = there.created
    ended(first)
    out = task("run", *ON, "-p", "prepare.file=/d")
    assert f"TFJob ml/{first['metadata']['name']}" in out
    (second,) = there.names("tfjobs")
    assert second != first["metadata"]["name"]
    assert there.names("pods") == [f"{second}-worker-0"]


def test_clear_removes_both_runs_of_the_task_and_no_other(there):
    others = [
        tfjob(run, ("Running", "True", 1), task=name)
        # the last one has our id, as a pipeline `nightly-x` with a task `y` has that of `nightly` with `x-y`
        for run, name in (
            ("run-nightly-train-2", "train-2"),
            ("w-uid", "train"),
            ("run-nightly", "train"),
            (RUN, "rain"),
        )
    ]
    there.by_kind["tfjobs"] += others
    there.by_kind["jobs"].append(
        {
            "metadata": {
                "name": "board",
                "namespace": "ml",
                "uid": "b",
                "labels": {**MANAGED_BY, RUN_ID: RUN},
            }
        }
    )
    task("run", *ON, "-p", "prepare.file=/d")
    task("debug", *ON, "-p", "prepare.file=/d")
    out = task("clear", "--on", "kubernetes", "--yes")
    assert f"run {RUN} cleared" in out
    assert f"run {DEBUG} cleared" in out
    assert there.names("tfjobs") == [item["metadata"]["name"] for item in others]
    assert (there.names("jobs"), there.names("pods")) == (["board"], []), "it may be of the other task"
    there.by_kind["tfjobs"].clear()
    task("clear", "--on", "kubernetes", "--yes")
    assert there.names("jobs") == []


def test_the_task_of_a_run_on_the_cluster(there):
    job = tfjob("w-uid", ("Running", "True", 1), task="train")
    job["metadata"].setdefault("annotations", {})[ANNOTATION] = json.dumps(JOB)
    there.by_kind["tfjobs"].append(job)
    code, out, err = tfsteps("task", "run", "w-uid", "train", "--on", "kubernetes", "--detach")
    assert code == 0, (out, err)
    (job,) = there.created
    assert job["metadata"]["labels"][RUN_ID] == "run-w-uid-train"
    assert len(there.names("tfjobs")) == 2
    code, _, err = tfsteps("task", "run", "w-uid", "prepare", "--on", "kubernetes", "--detach")
    assert (code, "task 'prepare' is unknown; it has train" in err) == (2, True)


def test_a_rerun_of_one_task_is_a_new_run_of_its_job_alone(there):
    jobs = [tfjob("w-uid", ("Succeeded", "True", 1), task=name) for name in ("train", "train-2")]
    for job in jobs:
        job["metadata"].setdefault("annotations", {})[ANNOTATION] = json.dumps(
            {**JOB, "env": {"NAME": job["metadata"]["name"]}}
        )
    there.by_kind["tfjobs"] += jobs
    code, _, err = tfsteps("rerun", "w-uid", "--on", "kubernetes", "--detach")
    assert (code, "run w-uid has several tasks: train, train-2; choose one by --task" in err) == (2, True)
    code, out, err = tfsteps("rerun", "w-uid", "--task", "train-2", "--on", "kubernetes", "--detach")
    assert code == 0, (out, err)
    (job,) = there.created
    assert job["metadata"]["labels"][TASK] == "train-2"
    assert job["metadata"]["labels"][RUN_ID] != "w-uid"
    assert jobs[1]["metadata"]["name"] in str(job["spec"])


def test_the_log_of_a_job_that_is_gone_is_that_of_its_launcher_here(there, tmp_path, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    assert "`tfsteps task run nightly.yaml train --on kubernetes` runs it" in task("logs", *ON[:2], code=2)
    attempt = attempt_of(DEBUG, task="train", log=b"2026-01-01T00:00:00.000000Z worker-0 held\n")
    status = attempt.status()
    status.uid, status.location, status.namespace, status.created = "gone", Location.KUBERNETES, "ml", 9e9
    attempt.write(status)
    out = task("logs", *ON[:2])
    assert "[worker-0] held" in out
    assert "x is not in namespace ml of test; these are the lines that its launcher saved" in out
    assert "has no run of its own here" in task("logs", *ON[:2], "-n", "other", code=2)
    status.context = "elsewhere"
    attempt.write(status)
    assert "has no run of its own here" in task("logs", *ON[:2], "--context", "test", code=2)


def test_values_that_only_a_run_has_are_all_named(there):
    err = task("run", *ON, code=2)
    assert "`data` needs prepare.file; add -p prepare.file=VALUE" in err
    assert there.created == []
