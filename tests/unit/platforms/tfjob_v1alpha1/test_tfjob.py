"""TfJob, v1alpha1: what it says about its job, which replica is of which type, and what is told to each."""

import json
import subprocess

import pytest

from tfsteps import spec
from tfsteps.platforms.tfjob_v1alpha1.tfjob import KINDS
from tfsteps.runs.events import ReplicaName, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes.system import KubernetesSystem

KIND, LATER = KINDS["tensorflow.org"], KINDS["kubeflow.org"]
PAUSED = {"tfsteps.dev/paused": "true"}


def item(phase="", state="", reason="", *, failed=(), annotations=(), restart="Never"):
    listed = [{"tf_replica_type": entry, "state": "Failed", "ReplicasStates": {"Failed": 1}} for entry in failed]
    return {
        "metadata": {"name": "job", "annotations": dict(annotations)},
        "spec": {"replicaSpecs": [{"tfReplicaType": "MASTER", "template": {"spec": {"restartPolicy": restart}}}]},
        "status": {"phase": phase, "state": state, "reason": reason, "replicaStatuses": listed},
    }


CASES = {
    "no status at all": ({"metadata": {}, "spec": {}}, State.PENDING, ""),
    "not looked at": (item(), State.PENDING, ""),
    "creating": (item("Creating", "Running"), State.PENDING, "Creating"),
    "running": (item("Running", "Running"), State.RUNNING, ""),
    "done, succeeded": (item("Done", "Succeeded"), State.SUCCEEDED, "Succeeded"),
    "cleaning up, succeeded": (item("CleanUp", "Succeeded"), State.SUCCEEDED, "Succeeded"),
    "succeeded before its phase says so": (item("Running", "Succeeded"), State.SUCCEEDED, "Succeeded"),
    "succeeded, and the operator was started again": (
        item("Failed", "Succeeded", "unexpected TfJob phase: Done"),
        State.SUCCEEDED,
        "Succeeded",
    ),
    "done, failed": (item("Done", "Failed"), State.FAILED, "MasterFailed"),
    "failed, and the operator was started again": (item("Failed", "Failed"), State.FAILED, "MasterFailed"),
    "set-up failed, with no state": (item("Failed", "", "invalid job spec"), State.FAILED, "SetupFailed"),
    "set-up failed, the state left over": (item("Failed", "Running", "x"), State.FAILED, "SetupFailed"),
    "a worker has failed for good": (item("Running", "Running", failed=["WORKER"]), State.RUNNING, "ReplicaFailed"),
    "the master between two tries": (item("Running", "Running", failed=["MASTER"]), State.RUNNING, ""),
    "paused": (item("Running", "Running", annotations=PAUSED), State.SUSPENDED, "Paused"),
    "ended while paused": (item("Done", "Succeeded", annotations=PAUSED), State.SUCCEEDED, "Succeeded"),
}


@pytest.mark.parametrize(("outcome", "state", "reason"), CASES.values(), ids=CASES)
def test_verdict(outcome, state, reason):
    verdict = KIND.verdict(outcome)
    assert (verdict.state, verdict.reason) == (state, reason)


def test_what_failed_is_named():
    assert KIND.verdict(item("Running", "Running", failed=["PS", "WORKER"])).message.startswith("PS and WORKER has")
    assert KIND.verdict(item("Failed", "", "invalid job spec")).message == "invalid job spec"
    assert "grpcServerFilePath" in KIND.verdict(item("Failed", "", "open : no such file or directory")).message


# --- render


def job(roles, **fields):
    base = {"name": "mnist", "image": "acme/mnist:1", "command": ["python", "t.py"], "roles": roles}
    return spec.from_plain({**base, **fields}, "test", registry.options())


def v1alpha1(**options):
    return {"systems": {"tfjob-v1alpha1": options}}


def whole(roles, kind=KIND, **fields):
    paths = OutputPaths(output="/data/out", model="/data/out/model", logs="/data/out/logs", base_dir=None)
    return kind.render(job(roles, **fields), Identity(run="r", task="t"), paths, "ns")


def rendered(roles, kind=KIND, **fields):
    return whole(roles, kind, **fields).manifest


CHIEF, WORKERS, PS = {"chief": {}}, {"worker": {"replicas": 2}}, {"ps": {"replicas": 2}}
ON_KUBEFLOW = v1alpha1(api="kubeflow.org")
TYPES = {
    "chief alone": (KIND, CHIEF, {}, ["MASTER 1"], "MASTER"),
    "worker alone": (KIND, {"worker": {}}, {}, ["MASTER 1"], "MASTER"),
    "chief and workers": (KIND, CHIEF | WORKERS, {}, ["MASTER 1", "WORKER 2"], "MASTER"),
    "workers: the first is the master": (KIND, WORKERS, {}, ["MASTER 1", "WORKER 1"], "MASTER"),
    "parameter servers": (KIND, CHIEF | WORKERS | PS, {}, ["MASTER 1", "WORKER 2", "PS 2"], "MASTER"),
    "workers, 0.1.0": (LATER, WORKERS, ON_KUBEFLOW, ["WORKER 2"], "WORKER"),
    "chief and workers, 0.1.0": (LATER, CHIEF | WORKERS, ON_KUBEFLOW, ["MASTER 1", "WORKER 2"], "MASTER"),
}


@pytest.mark.parametrize(("kind", "roles", "fields", "types", "decisive_replica"), TYPES.values(), ids=TYPES)
def test_types(kind, roles, fields, types, decisive_replica):
    manifest = rendered(roles, kind, **fields)
    assert [f"{item['tfReplicaType']} {item['replicas']}" for item in manifest["spec"]["replicaSpecs"]] == types
    assert manifest["spec"]["terminationPolicy"]["chief"] == {"replicaName": decisive_replica, "replicaIndex": 0}
    assert {name: role.replicas for name, role in kind.roles(manifest).items()} == {
        name: role.replicas for name, role in job(roles).roles.items()
    }


def test_the_key_is_spelled_as_the_operator_reads_it():
    manifest = rendered(CHIEF)
    assert (manifest["apiVersion"], manifest["kind"]) == ("tensorflow.org/v1alpha1", "TfJob")
    assert set(manifest["spec"]) == {"RuntimeId", "replicaSpecs", "terminationPolicy", "tfImage"}
    assert (LATER.resource.api, LATER.resource.kind) == ("kubeflow.org/v1alpha1", "TFJob")


def environment_of(manifest, kind, index):
    """Run the command of a replica as Kubernetes and the operator would start it; return what it is told."""
    part = next(replicaspec for replicaspec in manifest["spec"]["replicaSpecs"] if replicaspec["tfReplicaType"] == kind)
    container = part["template"]["spec"]["containers"][0]
    env = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    theirs = {"TFSTEPS_TASK_INDEX": str(index), "TF_CONFIG": "the operator's", "PATH": "/usr/bin:/bin"}
    command = [*container["command"][:-2], "sh", "-c", 'echo "$TFSTEPS_INDEX"; echo "$TF_CONFIG"']
    ran = subprocess.run(command, env={**env, **theirs}, capture_output=True, check=True, text=True)
    index, config = ran.stdout.splitlines()
    return int(index), json.loads(config)


def test_tf_config_is_what_tensorflow_2_wants():
    manifest = rendered(CHIEF | WORKERS | PS)
    stem = f"{manifest['metadata']['name']}-{{}}-{manifest['spec']['RuntimeId']}-{{}}:2222"
    index, config = environment_of(manifest, "WORKER", 1)
    assert index == 1
    assert config["task"] == {"type": "worker", "index": 1}
    assert config["cluster"] == {
        "chief": [stem.format("master", 0)],
        "worker": [stem.format("worker", 0), stem.format("worker", 1)],
        "ps": [stem.format("ps", 0), stem.format("ps", 1)],
    }
    assert environment_of(manifest, "MASTER", 0)[1]["task"] == {"type": "chief", "index": 0}


def test_a_single_replica_is_at_localhost():
    assert environment_of(rendered(CHIEF), "MASTER", 0)[1]["cluster"] == {"chief": ["localhost:2222"]}


def test_the_operators_tf_config_needs_neither_a_shell_nor_a_command():
    manifest = whole(CHIEF | WORKERS | {"evaluator": {}}, args=["--steps=1"], **v1alpha1(tf_config="operator"))
    for part in manifest.manifest["spec"]["replicaSpecs"]:
        (container,) = part["template"]["spec"]["containers"]
        assert (container["command"], container["args"]) == (["python", "t.py"], ["--steps=1"])
        assert "TFSTEPS_TF_CONFIG" not in {variable["name"] for variable in container["env"]}
        (index,) = [variable for variable in container["env"] if variable["name"] == "TFSTEPS_INDEX"]
        assert index["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.labels['task_index']"}}
    env = manifest.dependents[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    (config,) = [
        json.loads(variable["value"].replace("$(TFSTEPS_INDEX)", "0"))
        for variable in env
        if variable["name"] == "TF_CONFIG"
    ]
    assert set(config["cluster"]) == {"master", "worker"}
    bare = rendered(CHIEF | WORKERS | PS, command=[], **v1alpha1(default_ps=True))
    assert all("command" not in part["template"]["spec"]["containers"][0] for part in bare["spec"]["replicaSpecs"][:2])


def test_the_operators_tf_config_leaves_the_index_of_later_workers_to_a_shell():
    manifest = rendered(WORKERS, **v1alpha1(tf_config="operator"))
    (container,) = manifest["spec"]["replicaSpecs"][1]["template"]["spec"]["containers"]
    env = {"TFSTEPS_TASK_INDEX": "0", "TF_CONFIG": "the operator's", "PATH": "/usr/bin:/bin"}
    command = [*container["command"][:-2], "sh", "-c", 'echo "$TFSTEPS_INDEX $TF_CONFIG"']
    ran = subprocess.run(command, env=env, capture_output=True, check=True, text=True)
    assert ran.stdout == "1 the operator's\n"


def test_pods_get_the_labels_that_the_operator_does_not_copy():
    manifest = rendered(CHIEF | WORKERS | PS, **v1alpha1(default_ps=True))
    labels = KIND.pod_labels(manifest, ReplicaName("ps", 1))
    assert labels["tfsteps.dev/run-id"] == "r"
    assert labels["tfsteps.dev/role"] == "ps"
    for options in ({"default_ps": True}, {"api": "kubeflow.org"}):
        needed = KIND.permissions(job(CHIEF | WORKERS | PS, **v1alpha1(**options)))
        assert "patch pods" in {f"{permission.verb} {permission.plural}" for permission in needed}
    assert KIND.other_name(manifest) == manifest["spec"]["RuntimeId"]


def test_without_a_chief_the_master_is_worker_0_and_the_others_count_on():
    manifest = rendered({"worker": {"replicas": 3}}, **v1alpha1(tf_port=4444))
    stem = f"{manifest['metadata']['name']}-{{}}-{manifest['spec']['RuntimeId']}-{{}}:4444"
    hosts = [stem.format("master", 0), stem.format("worker", 0), stem.format("worker", 1)]
    for kind, task, index in [("MASTER", 0, 0), ("WORKER", 0, 1), ("WORKER", 1, 2)]:
        outcome, config = environment_of(manifest, kind, task)
        assert (outcome, config["task"]) == (index, {"type": "worker", "index": index})
        assert config["cluster"] == {"worker": hosts}


@pytest.mark.parametrize(
    ("kind", "labels", "replicas", "replica"),
    [
        (KIND, ("MASTER", "0", "worker"), WORKERS, ReplicaName("worker", 0)),
        (KIND, ("WORKER", "0", "worker"), WORKERS, ReplicaName("worker", 1)),
        (KIND, ("WORKER", "0", "worker"), CHIEF | WORKERS, ReplicaName("worker", 0)),
        (KIND, ("MASTER", "0", "chief"), CHIEF | WORKERS, ReplicaName("chief", 0)),
        (LATER, ("WORKER", "0", "worker"), WORKERS, ReplicaName("worker", 0)),
        (KIND, ("PS", "1", None), CHIEF | PS, ReplicaName("ps", 1)),  # the operator's own program
        (KIND, (None, None, "evaluator"), CHIEF | {"evaluator": {}}, ReplicaName("evaluator", 0)),
        (LATER, ("MASTER", "0", None), CHIEF, ReplicaName("chief", 0)),  # its operator copies no labels
        (LATER, ("WORKER", "1", None), WORKERS, ReplicaName("worker", 1)),
        (KIND, ("MASTER", "0", None), WORKERS, ReplicaName("worker", 0)),
        (KIND, ("OTHER", "0", None), CHIEF, None),
        (KIND, ("WORKER", "x", "worker"), CHIEF, None),
    ],
)
def test_whose_pod_it_is(kind, labels, replicas, replica):
    names = ("job_type", "task_index", "tfsteps.dev/role")
    training_job = {name: value for name, value in zip(names, labels, strict=True) if value is not None}
    every = [ReplicaName(name, i) for name, role in replicas.items() for i in range(role.get("replicas", 1))]
    assert kind.replica({"labels": training_job}, every) == replica


def test_an_evaluator_is_a_job_beside_the_tfjob():
    job_and_evaluator = whole(CHIEF | WORKERS | {"evaluator": {"image": "acme/eval:1"}})
    manifest = job_and_evaluator.manifest
    (part,) = job_and_evaluator.dependents
    assert part["kind"] == "Job"
    assert part["metadata"]["labels"]["tf_job_name"] == manifest["metadata"]["name"]
    pod = part["spec"]["template"]
    assert KIND.selector(manifest["metadata"]["name"]) == f"tf_job_name={pod['metadata']['labels']['tf_job_name']}"
    env = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    config = json.loads(env["TF_CONFIG"].replace("$(TFSTEPS_INDEX)", "0"))
    assert config["task"]["type"] == "evaluator"
    assert set(config["cluster"]) == {"chief", "worker"}
    assert KIND.roles(job_and_evaluator.observed())["evaluator"].template is pod
    assert KIND.roles(manifest)["evaluator"].replicas == 1
    permissions = {
        f"{permission.verb} {permission.plural}" for permission in KIND.permissions(job(CHIEF | {"evaluator": {}}))
    }
    assert {"create jobs", "patch jobs", "list jobs"} == permissions


def test_default_parameter_servers():
    manifest = rendered(CHIEF | WORKERS | PS, **v1alpha1(default_ps=True, tf_image="tf:2"))
    ps = manifest["spec"]["replicaSpecs"][2]
    assert ps == {"tfReplicaType": "PS", "replicas": 2, "tfPort": 2222}
    assert manifest["spec"]["tfImage"] == "tf:2"
    assert KIND.roles(manifest)["ps"].replicas == 2


def test_a_tensorboard_sees_the_volumes_of_the_job():
    manifest = rendered(CHIEF, tensorboard={"image": "tb:1"}, volumes=[{"pvc": "data", "mount": "/data"}])
    assert manifest["spec"]["tensorboard"] == {
        "logDir": "/data/out/logs",
        "serviceType": "ClusterIP",
        "volumes": [{"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}}],
        "volumeMounts": [{"name": "volume-0", "mountPath": "/data"}],
    }
    assert manifest["spec"]["tfImage"] == "tb:1"
    service = f"{manifest['metadata']['name']}-tensorboard-{manifest['spec']['RuntimeId']}"
    assert KIND.tensorboard_link(manifest).path == f"/api/v1/namespaces/ns/services/{service}:80/proxy/"
    assert KIND.tensorboard_link(rendered(CHIEF)) is None


@pytest.mark.parametrize(
    ("restart", "policy"), [("never", "Never"), ("exit_code", "OnFailure"), ("on_failure", "OnFailure")]
)
def test_restart_policies_of_a_job(restart, policy):
    (master,) = rendered(CHIEF, restart=restart)["spec"]["replicaSpecs"]
    assert master["template"]["spec"]["restartPolicy"] == policy


def test_no_name_is_cut():
    manifest = rendered(CHIEF | {"worker": {"replicas": 1000}}, name="n" * 63)
    name = manifest["metadata"]["name"]
    assert len(name) <= 40
    assert len(f"{name}-worker-{manifest['spec']['RuntimeId']}-999-12345") <= 63


# --- pause, end


def changed(changes):
    return [(change.resource.plural, change.name or change.selector, change.patch.get("spec")) for change in changes]


def test_a_pause_is_noted_before_the_pods_go_and_until_they_are_back():
    jobs, note = "tf_job_name=job", ("tfjobs", "job", None)
    assert changed(KIND.pause(item(), paused=True)) == [note, ("jobs", jobs, {"suspend": True})]
    assert changed(KIND.pause(item(), paused=False)) == [("jobs", jobs, {"suspend": False}), note]
    assert LATER.pause(item(), paused=True) == []


def kept(job):
    return {**job, "metadata": {**job["metadata"], "annotations": {"tfsteps.dev/on-end": "keep"}}}


@pytest.mark.parametrize(
    ("ended", "master"),
    [
        (kept(item("Done", "Succeeded")), None),
        (item("Done", "Succeeded"), {"backoffLimit": 0}),  # its pod is deleted, perhaps before its Job is complete
        (item("Done", "Failed"), {"backoffLimit": 0}),  # keeps the pod that failed, and makes no other
        (item("Done", "Failed", restart="OnFailure"), {"suspend": True}),  # it would be started again in place
    ],
)
def test_the_end(ended, master):
    others = ("jobs", "tf_job_name=job,job_type!=MASTER", {"suspend": True})
    masters = [("jobs", "tf_job_name=job,job_type=MASTER", master)] if master else []
    assert changed(KIND.stop_stragglers(ended)) == [*masters, others]


# --- problems and warnings

BOARD = {"tensorboard": {}}
REFUSED = {
    "no command: TF_CONFIG could not be corrected": ({"command": []}, "roles.chief.command"),
    "no command, and TF_CONFIG of tfsteps": (
        {
            "roles": CHIEF | PS,
            "strategy": "between_graph",
            "command": [],
            **v1alpha1(default_ps=True, tf_config="tfsteps"),
        },
        "roles.chief.command",
    ),
    "always": ({"restart": "always"}, "restart"),
    "a role's own limit": (
        {"restart": "exit_code", "roles": {"chief": {"backoff_limit": 2}}},
        "roles.chief.backoff_limit",
    ),
    "all workers decide": ({"roles": WORKERS, "success": "all_workers"}, "success"),
    "a queue": ({"queue": "q"}, "queue"),
    "a priority": ({"priority": 5}, "priority"),
    "a gang": ({"gang": {}}, "gang"),
    "a TensorBoard with nothing to read": (BOARD, "tensorboard"),
    "a TensorBoard in 0.1.0": ({**BOARD, **ON_KUBEFLOW}, "tensorboard"),
    "default parameter servers without any": (v1alpha1(default_ps=True), "systems.tfjob-v1alpha1.default_ps"),
    "default parameter servers in 0.1.0": (
        {"roles": CHIEF | WORKERS | PS, **v1alpha1(default_ps=True, api="kubeflow.org")},
        "systems.tfjob-v1alpha1.default_ps",
    ),
    "a scheduler's name elsewhere": (v1alpha1(scheduler_name="x"), "systems.tfjob-v1alpha1.scheduler_name"),
}


@pytest.mark.parametrize(("fields", "path"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(fields, path):
    training_job = job(**{"roles": CHIEF, **fields})
    assert [spec.dotted(problem.path) for problem in KIND.spec_problems(training_job)] == [path]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"restart": "exit_code"}, "only for the decisive replica"),
        ({"backoff_limit": 9, "roles": {**CHIEF, "worker": {"restart": "on_failure"}}}, "6 times"),
        (
            {
                "roles": CHIEF | WORKERS | PS,
                "volumes": [{"pvc": "a", "mount": "/a"}],
                **v1alpha1(default_ps=True, tf_config="operator"),
            },
            "no access to the job's volumes",
        ),
        (
            {"roles": CHIEF | WORKERS | PS, **v1alpha1(default_ps=True)},
            "needs `systems.tfjob-v1alpha1.tf_config: operator`",
        ),
        ({"roles": CHIEF | WORKERS | PS, "command": [], **v1alpha1(default_ps=True)}, "TF_CONFIG is the operator's"),
        ({"roles": WORKERS, "command": [], **v1alpha1(tf_config="operator")}, "TFSTEPS_INDEX is not set in worker 1"),
        ({"restart": "on_failure"}, "end the job: the operator's choice"),
        ({"tensorboard": {"idle": "1h"}, "output_dir": "gs://bucket/{run_id}"}, "idle` has no effect"),
    ],
)
def test_what_is_different(fields, words):
    training_job = job(**{"roles": CHIEF, **fields})
    assert KIND.spec_problems(training_job) == []
    (warning,) = KIND.warnings(training_job)
    assert words in warning


def test_workers_may_restart_on_failure():
    roles = {"chief": {"restart": "exit_code"}, **WORKERS}
    assert KIND.spec_problems(job(roles, restart="on_failure")) == []


def test_a_job_file_chooses_the_api():
    system = registry.get("tfjob-v1alpha1")
    paths = OutputPaths(output="/o", model="/o/m", logs="/o/l", base_dir=None)
    for api in KINDS:
        (plan,) = system.plan(job(CHIEF, **v1alpha1(api=api)), Identity(run="r", task="t"), paths)
        assert plan["apiVersion"] == f"{api}/v1alpha1"
    assert [kind.resource.api for kind in registry.kinds_of("tfjob-v1alpha1")] == [f"{api}/v1alpha1" for api in KINDS]


def test_an_api_that_cannot_be_cleaned_up_does_not_keep_the_jobs_of_the_other(monkeypatch):
    def clean_up(system, *_):
        if system._kind is KIND:
            raise LaunchError("this step needs to list and delete tfjobs", retryable=False)
        return ["later"]

    monkeypatch.setattr(KubernetesSystem, "clean_up", clean_up)
    with pytest.raises(LaunchError, match="needs to list and delete") as caught:
        registry.get("tfjob-v1alpha1").clean_up(Identity(run="r", task="t"), "run", None)
    assert caught.value.removed == ["later"]
