"""`tfsteps clear` on a cluster: what it finds, checks and deletes, and what it says is left."""

import pytest
import yaml

from tests.unit.cli.command import output_lines, refused, tfsteps
from tests.unit.cli.jobs_on_cluster import pod_of, tfjob, write_kubeconfig
from tests.unit.cli.statuses import saved
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cli import clearing
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.identity import MANAGED_BY

CLEAR = ("clear", "--on", "kubernetes", "--yes")
LABELS = {**MANAGED_BY, "tfsteps.dev/run-id": "r1"}


def named(name, uid="", **meta):
    uid = uid or f"uid-{name}"
    return {"metadata": {"name": name, "namespace": "ml", "uid": uid, "labels": LABELS, **meta}}


class Objects:
    """The objects of a namespace by their collection; `stays` names those that a DELETE does not remove at once."""

    def __init__(self):
        job = tfjob("r1", ("Running", "True", 1))
        self.by_kind = {
            "tfjobs": [job, tfjob("r2", ("Running", "True", 1))],
            "jobs": [named("board")],
            "services": [named("board", "uid-service")],
            "pods": [pod_of(job, "worker-0", "Running")],
            "workflows": [],
        }
        self.forbidden, self.undeletable, self.stays = set(), set(), set()
        self.on_get = {}

    def answer(self, asked):
        *_, parent, name = asked.path.split("/")
        other_api = "/tfjobs" in asked.path and "/kubeflow.org/v1/" not in asked.path
        if name in self.by_kind and not other_api:
            if name in self.forbidden:
                return refusal(403, "Forbidden", "pods is forbidden")
            selector = dict(part.split("=") for part in asked.query.get("labelSelector", "").split(",") if "=" in part)
            items = [item for item in self.by_kind[name] if selector.items() <= item["metadata"]["labels"].items()]
            return Answer(body={"metadata": {"resourceVersion": "1"}, "items": items})
        items = [item for item in self.by_kind.get(parent, []) if item["metadata"]["name"] == name and not other_api]
        if not items or asked.method == "GET":
            return Answer(body=self.on_get.get(name, items[0])) if items else refusal(404, "NotFound")
        if name in self.undeletable:
            return refusal(403, "Forbidden", "no delete")
        assert asked.body["preconditions"] == {"uid": items[0]["metadata"]["uid"]}
        if name in self.stays:
            items[0]["metadata"]["deletionTimestamp"] = "2026-11-21T07:00:00Z"
        else:
            self.by_kind[parent].remove(items[0])
        return Answer(body={"status": "Success"})

    def names(self, kind):
        return [item["metadata"]["name"] for item in self.by_kind[kind]]


@pytest.fixture
def objects(tmp_path, monkeypatch):
    there = Objects()
    with serve(there.answer) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        there.server = server
        yield there


def deletions(objects):
    return [asked.path.rpartition("/")[2] for asked in objects.server.asked if asked.method == "DELETE"]


def test_everything_of_the_run_is_deleted_and_nothing_of_another(objects):
    job = objects.names("tfjobs")[0]
    lines = output_lines(*CLEAR, "r1")
    assert lines == [
        "run r1: to be removed",
        f"  TFJob ml/{job}",
        "  Job ml/board",
        "  Service ml/board",
        f"  Pod ml/{job}-worker-0",
        "run r1 cleared",
    ]
    assert (len(objects.names("tfjobs")), objects.names("jobs"), objects.names("pods")) == (1, [], [])
    assert output_lines(*CLEAR, "r1") == [
        f"run r1: nothing to clear with --on kubernetes or in {store.home()}",
    ]


def test_a_dry_run_deletes_nothing_and_no_terminal_needs_a_yes(objects):
    assert output_lines("clear", "r1", "--on", "kubernetes", "--dry-run")[0] == "run r1: would be removed"
    code, _, err = tfsteps("clear", "r1", "--on", "kubernetes")
    assert (code, err) == (
        2,
        "error: nothing was removed: without a terminal, add --yes: `tfsteps clear r1 --on kubernetes --yes`\n",
    )
    assert not deletions(objects)


@pytest.mark.parametrize(
    "changed",
    [{"uid": "another"}, {"labels": {**LABELS, "tfsteps.dev/run-id": "r2"}}, {"labels": {"tfsteps.dev/run-id": "r1"}}],
    ids=["another uid", "another run", "not of tfsteps"],
)
def test_an_object_that_has_changed_since_it_was_listed_is_not_deleted(objects, changed, monkeypatch):
    monkeypatch.setattr(clearing, "GONE_SECONDS", 0.5)
    objects.on_get["board"] = named("board", **{"uid": "uid-service", **changed})
    objects.by_kind |= {"tfjobs": [], "jobs": [], "pods": []}
    tfsteps(*CLEAR, "r1")
    assert not deletions(objects)


def test_what_the_server_lists_without_the_labels_is_left_alone(objects):
    objects.by_kind["pods"][0]["metadata"]["labels"] |= {"tfsteps.dev/run-id": "r2"}
    answer = objects.answer

    def careless(asked):
        asked.query.pop("labelSelector", None)
        return answer(asked)

    objects.server.script = careless
    output_lines(*CLEAR, "r1")
    assert (len(objects.names("tfjobs")), len(objects.names("pods"))) == (1, 1)


def test_what_cannot_be_deleted_is_named_and_the_records_are_kept(objects):
    saved(run="r1", state=State.SUCCEEDED)
    objects.undeletable = {"board"}
    code, out, err = tfsteps(*CLEAR, "r1")
    assert code == 13
    assert "cleared" not in out
    assert err.startswith("error: Job ml/board could not be deleted: ")
    assert "Service ml/board could not be deleted: " in err
    assert err.endswith("; the rest was removed; fix the cause and retry\n")
    assert objects.names("pods") == []
    assert store.runs() == ["r1"]


def test_an_object_that_stays_is_an_error(objects, monkeypatch):
    monkeypatch.setattr(clearing, "GONE_SECONDS", 1.0)
    job = objects.names("tfjobs")[0]
    objects.stays = {job}
    code, _, err = tfsteps(*CLEAR, "r1")
    assert code == 13
    assert f"error: TFJob ml/{job} is still being deleted; the rest was removed" in err


def test_kinds_that_may_not_be_listed_are_a_warning(objects):
    objects.forbidden = {"services"}
    code, out, err = tfsteps(*CLEAR, "r1")
    assert (code, out.splitlines()[-1]) == (0, "run r1 cleared")
    assert err == "warning: not looked for, without the permission to list them: services\n"


def test_no_permission_at_all_is_an_error(objects):
    objects.forbidden = {"tfjobs", "jobs", "services", "pods"}
    code, _, err = tfsteps(*CLEAR, "r1")
    assert (code, "forbidden" in err) == (2, True)


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_workflow_that_still_runs_is_a_warning_and_is_left_alone(objects, phase):
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "flow", "uid": "w1"}
    objects.by_kind["tfjobs"][0]["metadata"]["ownerReferences"] = [owner]
    objects.by_kind["workflows"] = [{**named("flow", "w1", labels={}), "status": {"phase": phase}}]
    launcher = named("launcher", ownerReferences=[{**owner, "controller": True}])
    objects.by_kind["pods"].append(launcher)
    code, out, err = tfsteps(*CLEAR, "r1")
    assert (code, "launcher" in out) == (0, False)
    warned = (
        "warning: Workflow ml/flow still runs, and would start its next step; stop it first: kubectl --namespace ml "
        """patch workflow flow --type merge --patch '{"spec":{"shutdown":"Stop"}}'\n"""
    )
    assert err == (warned if phase == "Running" else "")
    assert (objects.names("workflows"), objects.names("pods")) == (["flow"], ["launcher"])


def test_the_place_is_that_of_the_records(objects):
    saved(run="r1", system="kubeflow", namespace="ml")
    assert output_lines("clear", "r1", "--yes")[-1] == "run r1 cleared"
    assert objects.names("jobs") == []
    assert store.runs() == []


def test_the_context_is_that_of_the_records(objects, tmp_path):
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    config["contexts"].append({"name": "now", "context": {"cluster": "now", "namespace": "ml"}})
    config["clusters"].append({"name": "now", "cluster": {"server": "http://127.0.0.1:9"}})
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({**config, "current-context": "now"}))
    saved(run="r1", system="kubeflow", namespace="ml", context="test")
    assert output_lines("clear", "r1", "--yes")[-1] == "run r1 cleared"
    assert objects.names("jobs") == []


def test_without_the_context_of_the_records_they_are_kept(objects):
    saved(run="r1", system="kubeflow", namespace="ml", context="renamed")
    assert "has no context 'renamed'; it has: test" in refused("clear", "r1", "--yes")
    assert store.runs() == ["r1"]


def test_a_name_is_refused_with_the_id(objects):
    assert refused(*CLEAR, "mnist") == (
        "error: 'mnist' is a name, and what it means may change: write the id, such as r2\n"
    )
    assert refused(*CLEAR, "r").startswith("error: run 'r' is ambiguous: r1, r2; write more of the id")
    assert not deletions(objects)


def two_tasks(objects):
    """Give the run a second task; of `train` there are a TFJob, its pod and a Service."""
    train = tfjob("r1", ("Running", "True", 1), task="train")
    other = tfjob("r1", ("Running", "True", 1), task="train-2")
    labels = {**LABELS, "tfsteps.dev/task": "train"}
    objects.by_kind |= {
        "tfjobs": [train, other],
        "services": [named("of-train", labels=labels)],
        "pods": [pod_of(train, "worker-0", "Running"), pod_of(other, "worker-0", "Running")],
    }
    return train["metadata"]["name"], other["metadata"]["name"]


def test_of_one_task_all_is_deleted_and_nothing_of_another(objects):
    train, other = two_tasks(objects)
    saved(run="r1", task="train", state=State.SUCCEEDED)
    saved(run="r1", task="train-2", state=State.SUCCEEDED)
    code, out, err = tfsteps(*CLEAR, "r1", "--task", "train")
    assert code == 0, err
    assert out.splitlines()[:4] == [
        "run r1, task train: to be removed",
        f"  TFJob ml/{train}",
        "  Service ml/of-train",
        f"  Pod ml/{train}-worker-0",
    ]
    left = "left, since it does not name its task: Job ml/board; without --task, `clear` removes it, too"
    assert left in err
    assert (objects.names("tfjobs"), objects.names("pods")) == ([other], [f"{other}-worker-0"])
    assert (objects.names("jobs"), objects.names("services")) == (["board"], [])
    assert [attempt.status().identity.task for attempt in store.attempts("r1")] == ["train-2"]


def test_a_task_that_the_run_does_not_have_removes_nothing(objects):
    two_tasks(objects)
    code, out, _ = tfsteps(*CLEAR, "r1", "--task", "trai")
    assert (code, out.startswith("run r1, task trai: nothing to clear")) == (0, True)
    assert not deletions(objects)
    assert "--task '..' leads to another folder" in refused(*CLEAR, "r1", "--task", "..")


def test_an_object_that_changes_its_task_after_it_was_listed_is_not_deleted(objects, monkeypatch):
    monkeypatch.setattr(clearing, "GONE_SECONDS", 0.5)
    two_tasks(objects)
    objects.by_kind |= {"tfjobs": [], "pods": []}
    objects.on_get["of-train"] = named("of-train", labels={**LABELS, "tfsteps.dev/task": "train-2"})
    tfsteps(*CLEAR, "r1", "--task", "train")
    assert not deletions(objects)
