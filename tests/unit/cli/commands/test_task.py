"""`tfsteps task`: which task is meant, the ids of its runs, and what is refused before anything starts."""

import msgspec
import pytest
import yaml

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.engines import registry
from tfsteps.runs import lock, store
from tfsteps.runs.events import State
from tfsteps.runs.identity import name_problem, task_run_id
from tfsteps.runs.lock import ProcessRef

COMMAND = '["sh", "-c", "true"]'


def call(name, template="train", /, **inputs):
    parameters = [{"name": key, "value": value} for key, value in inputs.items()]
    return {
        "name": name,
        "templateRef": {"name": "tfsteps", "template": template},
        "arguments": {"parameters": parameters},
    }


def job(name):
    return call(name, "train", name="quick", command=COMMAND, workers="1")


@pytest.fixture
def workflow(tmp_path, monkeypatch):
    """A Workflow with two tasks of one name, in different templates."""
    monkeypatch.chdir(tmp_path)
    inner = {"name": "inner", "dag": {"tasks": [job("fit")]}}
    tasks = [job("train"), job("fit"), {"name": "again", "template": "inner"}, call("gate", "evaluate-gate")]
    spec = {"entrypoint": "main", "templates": [{"name": "main", "dag": {"tasks": tasks}}, inner]}
    manifest = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "n"}, "spec": spec}
    (tmp_path / "n.yaml").write_text(yaml.safe_dump(manifest))
    return "n.yaml"


def planned(*args):
    (plan,) = yaml.safe_load_all("\n".join(output_lines("task", *args, "--dry-run")))
    return plan


def test_the_ids_say_what_the_runs_are(workflow):
    assert planned("run", workflow, "train")["run"] == "run-n-train"
    assert planned("debug", workflow, "train")["run"] == "debug-n-train"
    plan = planned("run", workflow, "again/fit")
    assert (plan["task"], plan["run"].startswith("run-n-again-fit-")) == ("again/fit", True)


def test_an_id_is_a_label_and_long_names_that_differ_at_their_ends_differ():
    assert task_run_id("run", "mnist", "train") == "run-mnist-train"
    ids = [task_run_id("debug", "p" * 200, "t" * 200 + end) for end in ("a", "b")]
    assert [len(name) for name in ids] == [63, 63]
    assert ids[0] != ids[1]
    assert task_run_id("run", "My pipeline/é", "a.b") != task_run_id("run", "My pipeline-é", "a.b")
    assert not any(map(name_problem, ids))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("trane", "task 'trane' is unknown; it has train, fit, again/fit, gate"),
        ("gate", "it launches no job of tfsteps: its step is evaluate_gate. Name a train or launch step"),
    ],
)
def test_a_task_that_cannot_be_run_is_named_with_what_can(workflow, name, says):
    assert says in refused("task", "run", workflow, name)


def test_a_pipeline_of_which_no_task_is_known_is_said_to_be_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = {"entrypoint": "main", "templates": [{"name": "main", "dag": {"tasks": []}}]}
    manifest = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "n"}, "spec": spec}
    (tmp_path / "n.yaml").write_text(yaml.safe_dump(manifest))
    assert "engine argo names no task of this pipeline that starts" in refused("task", "run", "n.yaml", "main")


def test_a_local_engine_of_another_package_is_named_if_it_runs_such_pipelines(workflow, monkeypatch):
    other = msgspec.structs.replace(registry.plugin("local"), name="other", runs=["argo"])
    known = {**registry.plugins(), "other": other}
    monkeypatch.setattr(registry, "plugins", lambda: known)
    assert "; `tfsteps submit --engine other` runs the whole pipeline here" in refused("task", "run", workflow, "gate")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("run", "--for", "1h"), "--for is for `task debug`"),
        (("run", "--hold", "all"), "--hold is for `task debug`"),
        (("logs", "--replace"), "--replace is for `task run or debug`"),
        (("run", "--yes"), "--yes is for `task clear`"),
        (
            ("debug", "--for", "soon"),
            "--for 'soon' is no duration and no time of day; write one such as 30m, 2h or 23:30",
        ),
        (("debug", "--hold", "ps"), "the job has no role 'ps'"),
        (("run", "-p", "x=1"), "--param x: the pipeline has no such input"),
        (("run", "-p", "train.worker=1"), "gets no such value; write train.workers"),
        (("run", "--set", "roles.worker.replicas=none"), "roles.worker.replicas: 'none'"),
        (("logs",), "has no run of its own here; `tfsteps task run n.yaml train` runs it"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(workflow, args, says):
    saved(run="run-n-train", task="other", state=State.SUCCEEDED) if args[0] != "logs" else None
    action, *options = args
    assert says in refused("task", action, workflow, "train", *options)
    assert store.runs() == ([] if action == "logs" else ["run-n-train"])


def test_a_file_that_is_no_pipeline(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("apiVersion: argoproj.io/v1alpha1\nkind: Workflow\n")
    assert "does not have the shape of a compiled pipeline" in refused("task", "run", file, "train")


def test_clear_means_the_whole_id_and_no_beginning_of_another(workflow):
    saved(run="run-n-train-2", task="train-2", state=State.SUCCEEDED)
    out = output_lines("task", "clear", workflow, "train", "--yes")
    assert [line.split(":")[1].strip()[:16] for line in out] == ["nothing to clear"] * 2
    assert store.runs() == ["run-n-train-2"]


def test_an_earlier_run_whose_end_is_not_known_is_not_removed(workflow, monkeypatch):
    monkeypatch.setattr(lock, "DISKS", set())
    attempt = saved(run="run-n-train", task="train", system="local", launcher=7)
    ref = msgspec.structs.replace(ProcessRef.current(), boot="another", host="gpu-2", pid=7)
    (attempt.folder / "lock").write_bytes(msgspec.json.encode(ref))
    for options in ((), ("--replace",)):
        code, _, err = tfsteps("task", "run", workflow, "train", *options)
        assert code != 0
        assert ("gpu-2" if options else "--replace stops and removes it first") in err
        assert store.runs() == ["run-n-train"]
        assert len(store.attempts("run-n-train")) == 1
