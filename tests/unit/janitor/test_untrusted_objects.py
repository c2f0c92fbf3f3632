"""What others may do to the janitor: forged references, broken objects, lists that are old by the time they are read.

Whoever may write objects in one namespace must not make it delete anything in another, nor keep it from its work.
"""

import copy
import datetime as dt
import json
import pathlib
import random

import pytest

from tests.unit.janitor.api_server import FakeApiServer
from tests.unit.janitor.test_sweep import NODE, OWNER
from tests.unit.systems.kubernetes.objects import condition
from tfsteps import spec
from tfsteps.janitor.rules import FOR_EVER, DefaultRetention
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER

JOBS, PODS, FLOWS = ("kubeflow.org/v1", "tfjobs"), ("v1", "pods"), ("argoproj.io/v1alpha1", "workflows")
PLACES = OutputPaths(output="/o", model="/m", logs="/l", base_dir=pathlib.Path())


def job(name, *, kind=None, namespace="b", owner=OWNER, state="", **meta):
    """Return a job object as a launcher makes it."""
    described = {"name": name, "image": "i:1", "command": ["true"], "roles": {"worker": {"replicas": 2}}}
    item = (
        (kind or TFJob()).render(spec.from_plain(described), Identity(run="r", task=name), PLACES, namespace).manifest
    )
    item = {key: item[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    item["metadata"] |= {"uid": f"uid-{namespace}-{name}", "creationTimestamp": dt.datetime.now(dt.UTC).isoformat()}
    item["metadata"]["annotations"] = {LAUNCHER: NODE, "tfsteps.dev/deadline": "604800"}
    item["metadata"] |= {"ownerReferences": [owner] if owner else [], **meta}
    if state:
        item["status"] = {"conditions": [condition(state)]}
    return json.loads(json.dumps(item))


def workflow(namespace="b", phase="Running", **meta):
    return {
        "apiVersion": FLOWS[0],
        "kind": "Workflow",
        "metadata": {"name": "wf", "namespace": namespace, "uid": "w", **meta},
        "spec": {},
        "status": {"phase": phase},
    }


def pod(of, uid, index=0, **meta):
    """Return a replica's pod of a TFJob."""
    name = of["metadata"]["name"]
    kinds = {"replica-type": "worker", "replica-index": str(index), "job-name": name}
    labels = {**of["metadata"]["labels"], **{f"training.kubeflow.org/{key}": text for key, text in kinds.items()}}
    owner = {"apiVersion": JOBS[0], "kind": "TFJob", "name": name, "uid": of["metadata"]["uid"], "controller": True}
    metadata = {"namespace": of["metadata"]["namespace"], "name": f"{name}-{uid}", "uid": uid, "labels": labels}
    metadata |= {"creationTimestamp": dt.datetime.now(dt.UTC).isoformat(), "ownerReferences": [owner], **meta}
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}


def launcher(namespace="b", owner=OWNER):
    noted = {"workflows.argoproj.io/node-name": NODE}
    labels = {"workflows.argoproj.io/workflow": owner["name"]}
    meta = {"name": "step", "namespace": namespace, "uid": f"step-{namespace}", "annotations": noted, "labels": labels}
    return {"kind": "Pod", "metadata": {**meta, "ownerReferences": [owner]}, "status": {"phase": "Running"}}


FORGED = {
    "the victim's Workflow by another name": {"name": "bogus"},
    "the victim's Workflow in a namespace that has none": {},
    "a version that is not the one": {"apiVersion": "argoproj.io/v9"},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_reference_that_is_forged_in_one_namespace_deletes_nothing_in_another(forged):
    jobs = [job("x", namespace="a", owner={**OWNER, **forged}), job("x", namespace="b")]
    fake = FakeApiServer({JOBS: jobs, PODS: [], FLOWS: [workflow("b")]})
    _, count = fake.sweep([TFJob()])
    assert "uid-b-x" not in fake.deleted
    assert count.failures == 0
    assert ("uid-a-x" in fake.deleted) == ("apiVersion" not in forged)


def test_a_launcher_that_is_forged_in_one_namespace_keeps_nothing_in_another():
    fake = FakeApiServer({JOBS: [job("x")], PODS: [launcher("a")], FLOWS: [workflow("b", "Failed")]})
    fake.sweep([TFJob()])
    assert fake.deleted == ["uid-b-x"]


def test_pods_of_a_running_job_are_not_deleted_for_another_with_the_same_labels():
    done, busy = job("x", state="Succeeded"), job("y", state="Running")
    busy["metadata"]["labels"] = done["metadata"]["labels"]
    theirs = [pod(busy, "y0"), pod(done, "y1", ownerReferences=pod(busy, "y")["metadata"]["ownerReferences"])]
    nobodys = pod(done, "z0", ownerReferences=[], creationTimestamp="2026-01-01T00:00:00Z")
    fake = FakeApiServer(
        {JOBS: [done, busy], PODS: [*theirs, nobodys, pod(done, "x0"), launcher()], FLOWS: [workflow("b", "Failed")]}
    )
    fake.objects[PODS][-1]["metadata"]["annotations"] = {"workflows.argoproj.io/node-name": "wf.busy"}
    busy["metadata"]["annotations"][LAUNCHER] = "wf.busy"
    fake.sweep([TFJob()])
    assert fake.deleted == ["x0"]


# --- what changed after it was listed


def goes(fake):
    fake.objects[JOBS].clear()


def is_replaced(fake):
    fake.objects[JOBS][0]["metadata"]["uid"] = "new"


def is_being_deleted(fake):
    fake.objects[JOBS][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def is_not_ours_any_more(fake):
    del fake.objects[JOBS][0]["metadata"]["labels"]["app.kubernetes.io/managed-by"]


def has_a_launcher_again(fake):
    fake.objects[PODS].append(launcher())


def goes_on_for_its_workflow_is_retried(fake):
    fake.objects[FLOWS][0] = workflow("b", "Running")


CHANGES = [
    goes,
    is_replaced,
    is_being_deleted,
    is_not_ours_any_more,
    has_a_launcher_again,
    goes_on_for_its_workflow_is_retried,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_job_that_is_not_as_it_was_listed(change):
    fake = FakeApiServer({JOBS: [job("x")], PODS: [], FLOWS: [workflow("b", "Failed")]})

    def before(_number, asked):
        if asked.query.get("fieldSelector", "").startswith("metadata.name"):
            fake.before = lambda *_: None
            change(fake)

    fake.before = before
    _, count = fake.sweep([TFJob()])
    assert (fake.deleted, count.failures) == ([], 0)


def test_what_is_of_another_namespace_than_was_asked_for_is_not_touched():
    class Careless(FakeApiServer):
        def answer(self, asked):
            return super().answer(
                type(asked)(**{**{k: getattr(asked, k) for k in asked.__struct_fields__}, **_any(asked)})
            )

    def _any(asked):
        return {"path": asked.path.replace("/namespaces/a", "")} if asked.method == "GET" else {}

    fake = Careless({JOBS: [job("x")], PODS: [], FLOWS: [workflow("b", "Failed")]})
    lines, count = fake.sweep([TFJob()], "a")
    assert fake.deleted == []
    assert count.failures == 1
    assert "it is of namespace b, which was not asked for" in lines[0]


# --- objects that are no jobs


def test_a_tensorboard_is_no_job():
    """Its Jobs and Services have all labels of a job but the attempt, and are managed elsewhere."""
    kind = next(kind for kind in registry.kinds() if kind.resource.plural == "jobs")
    real = job("x", kind=kind, owner={**OWNER, "uid": "gone"})
    board = copy.deepcopy(real)
    board["metadata"] |= {"name": "x-tensorboard", "uid": "board"}
    board["metadata"]["labels"] |= {"app.kubernetes.io/component": "tensorboard"}
    del board["metadata"]["labels"]["tfsteps.dev/attempt"]
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    board["status"] = {"conditions": [done], "completionTime": "2026-01-01T00:00:00Z"}
    fake = FakeApiServer({("batch/v1", "jobs"): [real, board], ("v1", "services"): [board], PODS: [], FLOWS: []})
    _, count = fake.sweep([kind], default=DefaultRetention(succeeded=0, failed=0))
    assert (count.jobs, fake.deleted) == (1, [real["metadata"]["uid"]])
    lists = [asked for asked in fake.asked if "labelSelector" in asked.query and "workflow" not in str(asked.query)]
    assert all("tfsteps.dev/attempt" in asked.query["labelSelector"].split(",") for asked in lists)
    assert not [asked for asked in fake.asked if "services" in asked.path]


# --- nonsense

NONSENSE = [
    None,
    5,
    -1,
    1e308,
    True,
    "",
    "x",
    "-inf",
    "nan",
    "0001-01-01",
    "../x",
    [],
    [5],
    [[]],
    {},
    {"a": 5},
    {"": None},
]
KINDS = registry.kinds()


def broken(item, chance):
    """Return an object with nonsense in one to three places below its metadata, spec or status."""
    item = copy.deepcopy(item)
    for _ in range(chance.randint(1, 3)):
        here, key = item, chance.choice(["metadata", "metadata", "metadata", "spec", "status"])
        while chance.random() < 0.8 and isinstance(here.get(key), dict) and here[key]:
            here, key = here[key], chance.choice(sorted(here[key]))
            while isinstance(here[key], list) and here[key] and isinstance(here[key][0], dict):
                here, key = here[key][0], chance.choice(sorted(here[key][0]))
        if (here is item and key == "metadata") or (here is item["metadata"] and key in ("name", "namespace", "uid")):
            continue  # a list with such an object is not an API server's, and refused whole
        here[key] = copy.deepcopy(chance.choice(NONSENSE))
        if key in ("name", "namespace") or (key == "uid" and here is item.get("metadata")):
            here[key] = chance.choice([None, 5, [], {}, ""])  # another valid one is another object
        if key == "uid" and here[key] in ("x", "-inf", "nan", "0001-01-01", "../x"):
            here[key] = ""  # who says that a Workflow of another uid owns the job says that this one is gone
    return item


@pytest.mark.parametrize("default", [FOR_EVER, DefaultRetention(succeeded=0, failed=0)], ids=["forever", "0s"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.api)
def test_nonsense_deletes_nothing_and_stops_nothing(kind, default):
    chance = random.Random(14)
    here = (kind.resource.api, kind.resource.plural)
    sane = [job(f"sane{number}", kind=kind) for number in range(3)]
    due = [job(f"due{number}", kind=kind, owner={**OWNER, "uid": "gone"}) for number in range(3)]
    mad = [broken(job(f"mad{number}", kind=kind), chance) for number in range(400)]
    fake = FakeApiServer(
        {here: [due[0], *mad[:200], sane[0], due[1], *mad[200:], *sane[1:], due[2]], FLOWS: [workflow()]}
    )
    fake.objects[PODS] = [launcher("a", {**OWNER, "name": "no name"})]
    lines, count = fake.sweep([kind], default=default)
    assert sorted(fake.deleted) == sorted(item["metadata"]["uid"] for item in due)
    assert count.served == 1
    assert count.failures == len([line for line in lines if "deleted" not in line])


def test_nonsense_in_pods_deletes_no_others():
    chance = random.Random(15)
    done = job("x", state="Succeeded", owner={**OWNER, "uid": "gone"})
    pods = [broken(pod(done, f"p{number}"), chance) for number in range(300)]
    fake = FakeApiServer({JOBS: [done], PODS: [pod(done, "first"), *pods, pod(done, "last")], FLOWS: [workflow()]})
    fake.sweep([TFJob()])
    assert {"first", "last"} <= set(fake.deleted)
    uid = done["metadata"]["uid"]
    for item in pods:
        meta = item["metadata"]
        if isinstance(meta, dict) and meta.get("uid") in fake.deleted:
            assert [owner["uid"] for owner in meta["ownerReferences"]] == [uid]
