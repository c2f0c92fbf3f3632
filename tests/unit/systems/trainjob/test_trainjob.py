"""What a TrainJob is told of a job, what it says about it, and how a rank becomes a replica: by a real shell."""

import json
import subprocess

import pytest

from tests.unit.systems.kubernetes.objects import condition
from tfsteps import spec
from tfsteps.runs.events import ReplicaName, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.render.pod_template import INDEX
from tfsteps.systems.trainjob.overrides import overridden
from tfsteps.systems.trainjob.trainjob import TrainJob, runtimes

PLACES = OutputPaths(output="/o", model="/o/model", logs="/o/logs", base_dir=None)
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
KIND = TrainJob()
SERVERS = {"chief": {}, "worker": {"replicas": 2}, "ps": {}, "evaluator": {}}
REPLICAS = [
    ReplicaName("chief", 0),
    ReplicaName("worker", 0),
    ReplicaName("worker", 1),
    ReplicaName("ps", 0),
    ReplicaName("evaluator", 0),
]


def job(**fields):
    base = {"name": "mnist", "image": "acme/mnist:1", "command": ["train"], "roles": {"worker": {"replicas": 2}}}
    return spec.from_plain({**base, **fields}, "test", registry.options())


VERSIONS = ["2.0", "2.1", "2.2"]


def of(version, **fields):
    """Return the TrainJob for a version of Trainer."""
    item, described = manifest(**fields), job(**fields)
    lacks = {"2.0": ["runtimePatches", "podTemplateOverrides"], "2.1": ["runtimePatches"], "2.2": []}[version]
    for field in lacks:
        item = KIND.older(described, item, f'strict decoding error: unknown field "spec.{field}"')
    return item


def manifest(**fields):
    described = job(**fields)
    assert KIND.spec_problems(described) == []
    return KIND.render(described, Identity(run="run", task="task"), PLACES, "ns").manifest


# --- verdict


def trainjob(*conditions, labels=None, suspend=False):
    status = {"conditions": list(conditions)} if conditions else {}
    return {"metadata": {"name": "job", "labels": labels or {}}, "spec": {"suspend": suspend}, "status": status}


SUSPENDED, RESUMED = condition("Suspended", reason="Suspended"), condition("Suspended", "False", "Resumed")
COMPLETE, FAILED = condition("Complete", reason="AllJobsCompleted"), condition("Failed", reason="FailedJobs")
VERDICTS = {
    "it says nothing before its end": (trainjob(), State.PENDING, ""),
    "suspended before anybody looked": (trainjob(suspend=True), State.SUSPENDED, ""),
    "suspended": (trainjob(SUSPENDED, suspend=True), State.SUSPENDED, "Suspended"),
    "in a queue": (trainjob(SUSPENDED, suspend=True, labels=QUEUE), State.QUEUED, "Suspended"),
    "in a queue, and nobody has looked": (trainjob(suspend=True, labels=QUEUE), State.QUEUED, ""),
    "resumed": (trainjob(RESUMED), State.PENDING, "Created"),
    "a queue has let it in": (trainjob(RESUMED, labels=QUEUE), State.PENDING, "Created"),
    "complete": (trainjob(RESUMED, COMPLETE), State.SUCCEEDED, "AllJobsCompleted"),
    "failed": (trainjob(FAILED), State.FAILED, "FailedJobs"),
    "both": (trainjob(COMPLETE, FAILED), State.FAILED, "FailedJobs"),
    "complete, then suspended": (trainjob(COMPLETE, SUSPENDED, suspend=True), State.SUCCEEDED, "AllJobsCompleted"),
    "failed is over": (trainjob(condition("Failed", "False")), State.PENDING, "Created"),
}


@pytest.mark.parametrize(("item", "state", "reason"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(item, state, reason):
    outcome = KIND.verdict(item)
    assert (outcome.state, outcome.reason) == (state, reason)


# --- ranks


def run(item, rank, *, name="mnist-x"):
    """Run what the runtime would run for a rank, and return what the program sees."""
    runtime = next(entry for entry in runtimes() if entry["metadata"]["name"] == item["spec"]["runtimeRef"]["name"])
    [node] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    [container] = node["template"]["spec"]["template"]["spec"]["containers"]
    trainer = item["spec"]["trainer"]
    env = {entry["name"]: entry["value"] for entry in trainer["env"] if "value" in entry}
    env |= {"JOB_COMPLETION_INDEX": str(rank), "TFSTEPS_JOB": name, "TFSTEPS_NAMESPACE": "ns", "PATH": "/usr/bin:/bin"}
    command = [*container["command"], *trainer["args"]]
    return subprocess.run(command, check=False, env=env, capture_output=True, text=True)


SHOW = ["sh", "-c", 'echo "$TFSTEPS_ROLE $TFSTEPS_INDEX $TF_CONFIG"; echo "$PWD" "$@" >&2', "show"]


@pytest.mark.parametrize(("rank", "replica"), list(enumerate(REPLICAS)), ids=str)
def test_each_rank_is_its_replica(rank, replica):
    done = run(manifest(roles=SERVERS, command=SHOW, args=["two words", "", "$HOME"], working_dir="/tmp"), rank)
    role, index, config = done.stdout.split(" ", 2)
    assert (role, int(index)) == (replica.role, replica.index)
    assert done.stderr == "/tmp two words  $HOME\n"
    assert json.loads(config) == {
        "cluster": {
            "chief": ["mnist-x-node-0-0.mnist-x.ns.svc:2222"],
            "worker": [f"mnist-x-node-0-{i}.mnist-x.ns.svc:2222" for i in (1, 2)],
            "ps": ["mnist-x-node-0-3.mnist-x.ns.svc:2222"],
        },
        "task": {"type": replica.role, "index": replica.index},
        "environment": "cloud",
    }


def test_roles_have_commands_and_variables_of_their_own():
    item = manifest(
        roles={
            "chief": {"command": ["sh", "-c", "echo lead $SIZE"], "env": {"SIZE": "two words"}},
            "worker": {"replicas": 2, "args": ["echo work $SIZE"]},
            "evaluator": {"command": ["echo", "a;b"], "args": []},
        },
        command=["sh", "-c"],
        env={"SIZE": "1"},
    )
    assert [run(item, rank).stdout for rank in range(4)] == ["lead two words\n", "work 1\n", "work 1\n", "a;b\n"]


def test_a_roles_own_secret_is_read_by_the_kubelet():
    token = {"secret": "hub", "key": "token"}
    item = manifest(roles={"chief": {"env": {"TOKEN": token}}, "worker": {}})
    env = {entry["name"]: entry for entry in item["spec"]["trainer"]["env"]}
    assert env["TFSTEPS_CHIEF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert "TOKEN" not in env
    assert item["spec"]["trainer"]["args"] == ["env", "TOKEN=$(TFSTEPS_CHIEF_TOKEN)", "train", "train"]


def test_the_programs_exit_code_is_the_containers():
    assert run(manifest(command=["sh", "-c", "exit 7"]), 0).returncode == 7


def test_a_rank_without_a_role_reports_it():
    done = run(manifest(), 2)
    assert done.returncode == 2
    assert done.stderr == "rank 2 has no role: TFSTEPS_ROLES is 'worker=2'\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_roles_and_replicas_are_found_again(version):
    fields = {"roles": SERVERS, "volumes": [{"pvc": "data", "mount": "/data"}], "service_account": "trainer"}
    item = of(version, **fields)
    item["spec"].setdefault("runtimePatches", []).insert(0, {"manager": "kueue.x-k8s.io/manager"})
    roles = KIND.roles(item)
    assert {name: role.replicas for name, role in roles.items()} == {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
    pod = roles["ps"].template["spec"]
    assert pod["volumes"] == [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}}]
    assert pod["serviceAccountName"] == "trainer"
    assert pod["containers"][0]["image"] == "acme/mnist:1"


@pytest.mark.parametrize(
    ("labels", "replica"),
    [
        ({"jobset.sigs.k8s.io/replicatedjob-name": "node", INDEX: "0"}, ReplicaName("chief", 0)),
        ({"jobset.sigs.k8s.io/replicatedjob-name": "node", INDEX: "2"}, ReplicaName("worker", 1)),
        ({"jobset.sigs.k8s.io/replicatedjob-name": "node", INDEX: "4"}, ReplicaName("evaluator", 0)),
        ({"jobset.sigs.k8s.io/replicatedjob-name": "node", INDEX: "5"}, None),
        ({"jobset.sigs.k8s.io/replicatedjob-name": "dataset-initializer", INDEX: "0"}, None),
        ({"jobset.sigs.k8s.io/replicatedjob-name": "node"}, None),
        ({}, None),
    ],
)
def test_whose_pod_it_is(labels, replica):
    assert KIND.replica({"labels": labels}, REPLICAS) == replica


def test_pods_get_the_labels_that_trainer_does_not_hand_on():
    labels = KIND.pod_labels(manifest(queue="research", labels={"team": "vision"}), ReplicaName("worker", 1))
    assert labels == {
        "app.kubernetes.io/managed-by": "tfsteps",
        "tfsteps.dev/run-id": "run",
        "tfsteps.dev/task": "task",
        "tfsteps.dev/attempt": "0",
        "tfsteps.dev/role": "worker",
        "team": "vision",
    }


def test_names_of_pods_fit():
    item = manifest(name="n" * 63, roles={"chief": {}, "worker": {"replicas": 100}})
    assert len(f"{item['metadata']['name']}-node-0-100-abcde") == 63


def test_pause():
    [change] = KIND.pause(trainjob(), paused=False)
    assert (change.name, change.patch) == ("job", {"spec": {"suspend": False}})


# --- what it cannot be


REFUSED = {
    "roles.worker.image": {"roles": {"chief": {}, "worker": {"image": "acme/other:1"}}},
    "roles.worker.resources": {"roles": {"chief": {}, "worker": {"resources": {"cpu": 2}}}},
    "roles.worker.volumes": {"roles": {"chief": {}, "worker": {"volumes": [{"pvc": "data", "mount": "/data"}]}}},
    "roles.worker.working_dir": {"roles": {"chief": {}, "worker": {"working_dir": "/x"}}},
    "roles.worker.restart": {"roles": {"chief": {}, "worker": {"restart": "on_failure"}}},
    "roles.worker.node_selector": {"roles": {"chief": {}, "worker": {"node_selector": {"a": "b"}}}},
    "roles.worker.backoff_limit": {"roles": {"worker": {"backoff_limit": 2}}, "restart": "on_failure"},
    "roles.worker.command": {"command": []},
    "restart": {"restart": "always"},
    "success": {"success": "all_workers", "roles": SERVERS},
    "priority": {"priority": 5},
    "gang": {"gang": {}},
    "image_pull_policy": {"image_pull_policy": "Always"},
    "pod.spec.hostNetwork": {"pod": {"spec": {"hostNetwork": True}}},
    "pod.spec.containers.sidecar": {"pod": {"spec": {"containers": [{"name": "sidecar", "image": "x"}]}}},
    "pod.spec.containers.''": {"pod": {"spec": {"containers": [{"image": "x"}]}}},
    "pod.spec.containers.envFrom": {"pod": {"spec": {"containers": [{"name": "tensorflow", "envFrom": []}]}}},
    "pod.metadata.name": {"pod": {"metadata": {"name": "a"}}},
}


@pytest.mark.parametrize(("path", "fields"), REFUSED.items(), ids=REFUSED)
def test_refused(path, fields):
    [problem] = KIND.spec_problems(job(**fields))
    assert spec.dotted(problem.path) == path
    advice = problem.fix.startswith("Write `") or path == "roles.worker.command"
    assert "--system jobset" in problem.fix or advice


def test_what_all_roles_have_alike_is_the_jobs():
    need = {"resources": {"cpu": 2}, "image": "acme/both:1", "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    item = manifest(roles={"chief": need, "worker": need})
    assert item["spec"]["trainer"]["image"] == "acme/both:1"
    assert item["spec"]["trainer"]["resourcesPerNode"]["requests"] == {"cpu": "2"}
    assert overridden(item["spec"])["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


def test_another_runtime():
    item = manifest(systems={"trainjob": {"runtime": "ours"}})
    assert item["spec"]["runtimeRef"] == {"name": "ours"}
    assert KIND.roles(item)["worker"].partial, "the runtime may set resources"
    assert not KIND.roles(manifest())["worker"].partial


def test_a_missing_runtime_is_explained():
    refusal = (
        'ClusterTrainingRuntime.trainer.kubeflow.org "ours" not found: '
        "specified clusterTrainingRuntime must be created before the TrainJob is created"
    )
    message = KIND.explain_rejection(manifest(systems={"trainjob": {"runtime": "ours"}}), refusal)
    assert "no ClusterTrainingRuntime ours" in message
    assert "kubectl apply -k manifests/trainjob-runtimes" in message
    assert KIND.explain_rejection(manifest(), "exceeded quota") == ""


# --- versions of Trainer

SPEC = {
    "serviceAccountName": "trainer",
    "volumes": [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}}],
}
NODE = {"name": "node", "volumeMounts": [{"name": "volume-0", "mountPath": "/data"}]}
METADATA = {
    "labels": {
        "team": "vision",
        "app.kubernetes.io/managed-by": "tfsteps",
        "tfsteps.dev/run-id": "run",
        "tfsteps.dev/task": "task",
        "tfsteps.dev/attempt": "0",
    },
    "annotations": {"sidecar.istio.io/inject": "false", "note": "x"},
}
TEMPLATE = {"metadata": METADATA, "spec": {**SPEC, "containers": [NODE]}}
PATCH = {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": TEMPLATE}}}]}
FORMS = {
    "2.0": {
        "podSpecOverrides": [{"targetJobs": [{"name": "node"}], **SPEC, "containers": [NODE]}],
        "annotations": {"note": "x"},
    },
    "2.1": {"podTemplateOverrides": [{"targetJobs": [{"name": "node"}], **TEMPLATE}]},
    "2.2": {
        "runtimePatches": [{"manager": "tfsteps.dev/launcher", "trainingRuntimeSpec": {"template": {"spec": PATCH}}}]
    },
}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_each_version_of_trainer_gets(version):
    item = of(
        version,
        volumes=[{"pvc": "data", "mount": "/data"}],
        service_account="trainer",
        labels={"team": "vision"},
        annotations={"note": "x"},
    )
    common = {"runtimeRef", "trainer"}
    assert {key: value for key, value in item["spec"].items() if key not in common} == FORMS[version]
    assert item["metadata"]["annotations"] == {"note": "x"}


def test_trainer_2_0_gets_nothing_for_a_job_that_overrides_nothing():
    assert of("2.0")["spec"].keys() == {"runtimeRef", "trainer"}


SPOKEN = "strict decoding error: unknown field"


@pytest.mark.parametrize(
    "refusal",
    [
        "exceeded quota",
        f'{SPOKEN} "spec.trainer.nonsense"',
        f'{SPOKEN} "spec.podSpecOverrides"',
        f'{SPOKEN} "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.nonsense"',
    ],
)
def test_a_refusal_of_something_else_is_of_no_older_version(refusal):
    assert KIND.older(job(), manifest(), refusal) is None


@pytest.mark.parametrize(
    ("refusal", "names"),
    [
        (f'{SPOKEN} "spec.podSpecOverrides"', "runtimePatches, podTemplateOverrides, podSpecOverrides"),
        (f'{SPOKEN} "spec.runtimePatches[0].x.terminationGracePeriodSeconds"', "terminationGracePeriodSeconds"),
        (f'{SPOKEN} "spec.runtimePatches[0].x.tolerations[0].nonsense"', ""),
    ],
)
def test_a_field_that_trainer_lacks_is_explained(refusal, names):
    explained = KIND.explain_rejection(manifest(), refusal)
    assert (
        explained.startswith(f"its Kubeflow Trainer does not know {names}: upgrade Trainer") if names else not explained
    )
