"""Which pods are a job's: for each kind of job, each who may control a pod, and each who asks."""

import copy
import json
import pathlib

import pytest

from tests.unit.janitor.api_server import FakeApiServer
from tests.unit.systems.kubernetes.follow.test_following import Reader
from tests.unit.systems.kubernetes.follow.test_tracker import W0, W1, Scenario
from tests.unit.systems.kubernetes.objects import STATUSES, controller, pod, tfjob
from tests.wire.scripted import refusal, serve
from tfsteps import spec
from tfsteps.answer import YES
from tfsteps.janitor.sweep import Sweep
from tfsteps.kube.client import Api
from tfsteps.kube.threads import Inbox
from tfsteps.kube.watch import Changed, Deleted, Listed
from tfsteps.runs.events import State, Verdict
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.finalizer import Finalizer
from tfsteps.systems.kubernetes.follow import following
from tfsteps.systems.kubernetes.follow.following import OwnPods, PodFollower
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.ownership import OwnerIndex
from tfsteps.systems.kubernetes.query.runs import ClusterRuns
from tfsteps.systems.pipeline import Origin

KINDS = {f"{kind.name} of {kind.resource.api}": kind for kind in registry.kinds()}
JOBS, JOBSETS, PODS = ("batch/v1", "jobs"), ("jobset.x-k8s.io/v1alpha2", "jobsets"), ("v1", "pods")
BETWEEN = {  # from the job to the pods: what a job of the kind owns, and what controls its pods
    "jobset": [JOBS],
    "trainjob": [JOBSETS, JOBS],
    "tfjob-v1alpha1": [JOBS],
}
ENDED = {
    "kubeflow": {"conditions": [{"type": "Succeeded", "status": "True"}]},
    "jobs": {"conditions": [{"type": "Complete", "status": "True"}]},
    "jobset": {"conditions": [{"type": "Completed", "status": "True"}]},
    "trainjob": {"conditions": [{"type": "Complete", "status": "True"}]},
    "t9k": {"phase": "Succeeded"},
    "tfjob-v1alpha1": {"state": "Succeeded"},
}
SPEC = spec.from_plain({"name": "mnist", "image": "i:1", "command": ["true"], "roles": {"worker": {"replicas": 2}}})
REPLICASET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}


def job_of(kind, uid="new"):
    """Return an ended job object of a kind, whose deadline has passed."""
    paths = OutputPaths(output="/o", model="/m", logs="/l", base_dir=pathlib.Path())
    item = json.loads(json.dumps(kind.render(SPEC, Identity(run="r", task="t"), paths, "ns").manifest))
    item["metadata"] |= {"uid": uid, "creationTimestamp": "2020-01-01T00:00:00Z"}
    item["metadata"]["annotations"] = {"tfsteps.dev/deadline": "60"}
    return {**item, "status": ENDED[kind.name]}


def owned_by(item, resource, uid):
    """Return an object of `resource` that another object controls, as the operators make them."""
    meta = item["metadata"]
    reference = controller(item["kind"], meta["uid"], item["apiVersion"], meta["name"])
    name = meta["name"] if resource == JOBSETS else f"{meta['name']}-worker-0"
    labels = {"jobset.sigs.k8s.io/jobset-name": meta["name"], "tf_job_name": meta["name"]}
    about = {"name": name, "namespace": "ns", "uid": uid, "labels": labels, "ownerReferences": [reference]}
    kind = "JobSet" if resource == JOBSETS else "Job"
    return {"apiVersion": resource[0], "kind": kind, "metadata": about, "spec": {}}


def pod_of(kind, job, owners, uid="p"):
    """Return a pod with all labels of a replica of any kind of job, which was started again often."""
    name = job["metadata"]["name"]
    labels = job["metadata"]["labels"] | {
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
        "tfsteps.dev/job": name,
        "tfsteps.dev/role": "worker",
        "batch.kubernetes.io/job-completion-index": "0",
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/jobset-uid": job["metadata"]["uid"],
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "tf_job_name": name,
        "job_type": "MASTER",
        "task_index": "0",
    }
    meta = {"name": f"{name}-worker-0", "namespace": "ns", "uid": uid, "labels": labels, "ownerReferences": owners}
    status = copy.deepcopy(STATUSES["running"])
    for container in status["containerStatuses"]:
        container |= {"name": kind.container, "restartCount": 50}
    return {"kind": "Pod", "metadata": meta, "spec": {}, "status": status}


def chain(kind, job):
    """Return what there is between a job and its pods, by resource, and the reference to what controls the pods."""
    objects, last = {}, job
    for number, resource in enumerate(BETWEEN.get(kind.name, ())):
        last = owned_by(last, resource, f"{job['metadata']['uid']}-{number}")
        objects.setdefault(resource, []).append(last)
    meta = last["metadata"]
    return objects, controller(last["kind"], meta["uid"], last["apiVersion"], meta["name"])


def case(name, kind):
    """Return the objects between a job and its pods, and the owners of a pod with its labels."""
    own_objects, right = chain(kind, job_of(kind))
    old, wrong = chain(kind, job_of(kind, "old"))
    owners = {
        "its job": [right],
        "nobody": [],
        "a ReplicaSet": [REPLICASET],
        "a ReplicaSet, and its job owns it": [{key: right[key] for key in right if key != "controller"}, REPLICASET],
        "an owner that does not control it": [{**right, "controller": False}],
        "an earlier job": [wrong],
        "an earlier job that is gone": [wrong],
    }[name]
    return {
        key: [*own_objects[key], *old[key]] for key in own_objects
    } if name == "an earlier job" else own_objects, owners


OTHERS = [
    "nobody",
    "a ReplicaSet",
    "a ReplicaSet, and its job owns it",
    "an owner that does not control it",
    "an earlier job",
    "an earlier job that is gone",
]


# --- who asks


def launcher(kind, job, api, pods, monkeypatch):
    """Return how many pods a launcher follows; it reads their logs, and deletes them at the end."""
    monkeypatch.setattr(following, "ContainerLog", Reader)
    monkeypatch.setattr(Reader, "events", [], raising=False)
    handle = KubernetesJob(api, kind, job, SPEC, None)
    follower = PodFollower(handle._api, handle._urgent, kind, handle._tracker, Inbox())
    for item in pods:
        list(follower.saw(Listed([item]), 1.0))
        list(follower.saw(Changed(item), 1.0))
    followed = len(handle._tracker.pods)
    assert (len(set(Reader.events)), handle._tracker.restarts) == (followed, 50 * followed)
    handle.remove("pods")
    return followed


def reader(kind, _job, api, _pods, _monkeypatch):
    """Return how many pods commands show."""
    (seen,) = ClusterRuns(api, [kind], "ns", lambda *_: Origin("", "")).jobs()
    return len(seen.pods)


def janitor(kind, _job, api, _pods, _monkeypatch):
    """Return how many pods a pass deletes."""
    return Sweep(api, [kind], "", print).run().due


def finalizer(kind, _job, api, _pods, _monkeypatch):
    """Return how many jobs had a pod that was deleted."""
    return len(Finalizer(api, kind, "ns").clean_up("r", lambda _: YES, None))


WHO = {entry.__name__: entry for entry in (launcher, reader, janitor, finalizer)}


def server_of(kind, objects, owners):
    """Return a server with a job, what is between it and its pods, and one pod with these owners."""
    job, mine = job_of(kind), (kind.resource.api, kind.resource.plural)
    return FakeApiServer({**objects, mine: [job, *objects.get(mine, ())], PODS: [pod_of(kind, job, owners)]})


@pytest.mark.parametrize("name", ["its job", *OTHERS])
@pytest.mark.parametrize("who", WHO.values(), ids=WHO)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_pod_is_a_jobs_if_the_job_or_what_it_owns_controls_it(who, kind, name, monkeypatch):
    fake = server_of(kind, *case(name, kind))
    with serve(fake.answer) as server:
        taken = who(kind, job_of(kind), Api(server.access(), patience=0), fake.objects[PODS], monkeypatch)
    assert (taken, fake.deleted) == ((1, [] if who is reader else ["p"]) if name == "its job" else (0, []))


# --- what is not known


INDIRECT = {name: kind for name, kind in KINDS.items() if kind.name in BETWEEN}


class Refusing:
    """A server that may refuse the lists of what is between jobs and pods."""

    def __init__(self, fake):
        self.fake, self.refuses = fake, True

    def answer(self, asked):
        between = asked.path.endswith(("/jobs", "/jobsets")) and "tfsteps.dev/run-id" not in str(asked.query)
        return refusal(403, "Forbidden", "not for you") if between and self.refuses else self.fake.answer(asked)


@pytest.mark.parametrize("kind", INDIRECT.values(), ids=INDIRECT)
def test_a_pod_whose_controller_is_not_known_is_followed_once_it_is(kind):
    fake = server_of(kind, *case("its job", kind))
    (item,), refusing = fake.objects[PODS], Refusing(fake)
    with serve(refusing.answer) as server:
        index = OwnerIndex(Api(server.access(), patience=0), "ns", job_of(kind)["metadata"]["name"])
        own_objects = OwnPods(kind, index)
        assert own_objects.among(Listed([item]), job_of(kind)) == Listed([])
        assert own_objects.among(Changed(item), job_of(kind)) is None
        assert "may not be this job's, and is not followed: Job " in own_objects.warning.message
        assert "not for you" in own_objects.warning.message
        asked, refusing.refuses = len(server.asked), False
        assert list(own_objects.decided(job_of(kind))) == []
        assert len(server.asked) == asked, "the refused request is not sent again at once"
        index._pause_until = 0.0
        assert list(own_objects.decided(job_of(kind))) == [Changed(item)]
        assert own_objects.warning is None
        assert own_objects.among(Deleted(item), job_of(kind)) == Deleted(item)


@pytest.mark.parametrize("kind", INDIRECT.values(), ids=INDIRECT)
def test_a_pod_whose_controller_is_not_known_is_not_reported_as_missing(kind, monkeypatch):
    monkeypatch.setattr(type(kind), "verdict", lambda *_: Verdict(State.FAILED))
    with serve(Refusing(server_of(kind, *case("its job", kind))).answer) as server:
        (seen,) = ClusterRuns(Api(server.access(), patience=0), [kind], "ns", lambda *_: Origin("", "")).jobs()
    assert "No pod is left" not in seen.status.message
    assert "is left out; it may be of job" in seen.status.message


@pytest.mark.parametrize("kind", INDIRECT.values(), ids=INDIRECT)
def test_a_pod_whose_controller_is_not_known_is_left_and_reported(kind):
    fake, lines = server_of(kind, *case("its job", kind)), []
    with serve(Refusing(fake).answer) as server:
        api = Api(server.access(), patience=0)
        (seen,) = ClusterRuns(api, [kind], "ns", lambda *_: Origin("", ""), lines.append).jobs()
        assert (seen.pods, len(lines)) == ([], 1)
        assert "is left out; it may be of job" in lines.pop()
        assert Sweep(api, [kind], "", lines.append).run().failures == 1
        assert "is its job's is not known" in lines[0]
        with pytest.raises(LaunchError, match="not for you"):
            Finalizer(api, kind, "ns").clean_up("r", lambda _: YES, None)
    assert fake.deleted == []


def test_objects_between_are_looked_up_once_for_all_jobs():
    kind, objects, pods, jobs = KINDS["jobset of jobset.x-k8s.io/v1alpha2"], {JOBS: []}, [], []
    for number in range(5):
        job = job_of(kind, f"uid-{number}")
        between, owner = chain(kind, job)
        objects[JOBS] += between[JOBS]
        pods.append(pod_of(kind, job, [owner]))
        jobs.append(job)
    with serve(FakeApiServer(objects).answer) as server:
        index = OwnerIndex(Api(server.access(), patience=0), "")
        for job in jobs:
            owners = index.owners(kind, job, pods)
            assert [owners.control(item["metadata"]).value for item in pods].count("yes") == 1
        assert len(server.asked) == 1


# --- a name that is used again, and pods that change hands


def of(uid, name="worker-0", owner="u1"):
    item = pod("running", name, uid)
    item["metadata"]["ownerReferences"] = [controller(uid=owner)]
    return item


def events(*seen):
    """Return what a tracker makes of these events of the watch on the pods."""
    own_objects, scenario = OwnPods(TFJob(), OwnerIndex(None, "ns", "job")), Scenario()
    for item in seen:
        if passed := own_objects.among(item, tfjob()):
            scenario.pods(passed)
    return scenario


NEW, OLD = [of("p0"), of("p1", "worker-1")], [of("old-0", owner="u0"), of("old-1", "worker-1", "u0")]
ORDERS = {
    "the old first": [Listed(OLD), *map(Changed, NEW)],
    "listed together": [Listed([*OLD, *NEW])],
    "the new listed first": [Listed([*NEW, *OLD])],
    "they end one after another": [Listed(OLD), *map(Changed, NEW), *map(Deleted, OLD)],
}


@pytest.mark.parametrize("seen", ORDERS.values(), ids=ORDERS)
def test_pods_of_the_job_that_had_the_name_before_are_no_restarts(seen):
    scenario = events(*seen)
    assert scenario.tracker.restarts == 0
    assert scenario.tracker.pods.keys() == {"p0", "p1"}, "what is removed with the job"
    assert [scenario.replica(item) for item in (W0, W1)] == [[("running", 0)]] * 2


def test_a_pod_that_its_job_adopts_is_followed_and_one_that_it_loses_is_not():
    orphan = of("p0")
    orphan["metadata"]["ownerReferences"] = []
    assert events(Changed(orphan), Changed(of("p0"))).tracker.pods.keys() == {"p0"}
    assert events(Changed(of("p0")), Changed(orphan)).tracker.pods.keys() == set()
