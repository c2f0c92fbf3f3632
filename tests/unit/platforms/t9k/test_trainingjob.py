"""TensorFlowTrainingJob: what it says about its job, and what of a job file only it knows."""

import json
import os
import subprocess

import pytest

from tfsteps import spec
from tfsteps.platforms.t9k.trainingjob import PAUSED, TensorFlowTrainingJob
from tfsteps.runs.events import ReplicaName, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry

KIND = TensorFlowTrainingJob()
CLAIM = {"pvc": "data", "mount": "/data"}


def item(phase="", *conditions, backoff=0, limit=None, queue="", paused=None, annotations=(), tasks=()):
    """Return a job object; a condition that is only a word is True."""
    listed = [{"type": entry, "status": "True"} if isinstance(entry, str) else entry for entry in conditions]
    status = {"phase": phase, "conditions": listed, "backoffCount": backoff, "tasks": list(tasks)}
    return {
        "metadata": {"name": "job", "annotations": dict(annotations)},
        "spec": {
            "replicaSpecs": [],
            "runPolicy": {} if limit is None else {"backoffLimit": limit},
            **({"scheduler": {"t9kScheduler": {"queue": queue}}} if queue else {}),
            **({} if paused is None else {"runMode": {"pause": {"enabled": paused}}}),
        },
        "status": {key: value for key, value in status.items() if value},
    }


def condition(kind, status="True", reason="", message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def failed_after(seconds):
    """Return a job that failed so many seconds after its creation; its `activeDeadlineSeconds` are 60."""
    ended = {
        **condition("Failed", reason="Why"),
        "lastTransitionTime": f"2026-11-25T06:{seconds // 60:02}:{seconds % 60:02}Z",
    }
    failed = item("Failed", ended)
    failed["metadata"]["creationTimestamp"] = "2026-11-25T06:00:00Z"
    failed["spec"]["runPolicy"] = {"activeDeadlineSeconds": 60}
    return failed


NOT_FAILED, NOT_COMPLETED = condition("Failed", "False"), condition("Completed", "False")
UP = {"type": "worker", "replicas": [{"name": "job-worker-0", "phase": "Pending", "containers": [{"name": "t"}]}]}
OLD_UP = {"type": "worker", "replicaStatus": UP["replicas"]}
WAITING = {"type": "worker", "replicas": [{"name": "job-worker-0", "phase": "Pending"}]}
OURS = {PAUSED: "true"}
CASES = {
    "no status at all": (item(), State.PENDING, ""),
    "pending": (item("Pending", "Initialized"), State.PENDING, "Created"),
    "running": (item("Running", "Initialized", "Running", NOT_FAILED), State.RUNNING, ""),
    "succeeded, Failed is listed with False": (item("Succeeded", "Completed", NOT_FAILED), State.SUCCEEDED, ""),
    "succeeded, its condition not there yet": (item("Succeeded"), State.SUCCEEDED, ""),
    "failed, Completed is listed with False": (item("Failed", "Failed", NOT_COMPLETED), State.FAILED, ""),
    "failed, and the conditions say both": (item("Failed", "Completed", "Failed"), State.FAILED, ""),
    "running, though Completed is there already: the phase decides": (
        item("Running", "Completed"),
        State.RUNNING,
        "",
    ),
    "running, though Failed is there already": (item("Running", "Failed"), State.RUNNING, ""),
    "no phase, Completed": (item("", "Completed"), State.SUCCEEDED, ""),
    "no phase, Completed, Failed is listed with False": (item("", "Completed", NOT_FAILED), State.SUCCEEDED, ""),
    "no phase, Failed": (item("", "Failed", "Completed"), State.FAILED, ""),
    "unknown": (item("Unknown"), State.UNKNOWN, "Unknown"),
    "unknown, and Completed": (item("Unknown", "Completed"), State.SUCCEEDED, ""),
    "resuming": (item("Resuming", condition("Paused", "False")), State.PENDING, "Created"),
    "paused by tfsteps": (item("Paused", "Paused", annotations=OURS), State.SUSPENDED, "Paused"),
    "to be paused by tfsteps, still running": (
        item("Running", paused=True, annotations=OURS),
        State.SUSPENDED,
        "Paused",
    ),
    "paused by somebody": (item("Paused", "Paused", paused=True), State.SUSPENDED, "Paused"),
    "paused, in a queue, not by tfsteps": (
        item("Paused", "Paused", paused=True, queue="q"),
        State.SUSPENDED,
        "PausedByPlatform",
    ),
    "paused by the platform, which says why": (
        item("Paused", condition("Paused", reason="MaxDurationExceeded"), paused=True, queue="q"),
        State.SUSPENDED,
        "MaxDurationExceeded",
    ),
    "ended while it was to be paused": (item("Succeeded", "Completed", paused=True), State.SUCCEEDED, ""),
    "in a queue, nobody has looked at it": (item(queue="q"), State.QUEUED, "Queued"),
    "in a queue, its pods wait for a node": (item("Pending", queue="q", tasks=[WAITING]), State.QUEUED, "Queued"),
    "out of the queue, an image is pulled": (item("Pending", queue="q", tasks=[UP]), State.PENDING, "Created"),
    "the same with the list's older name": (item("Pending", queue="q", tasks=[OLD_UP]), State.PENDING, "Created"),
    "in a queue, and it runs": (item("Running", queue="q", tasks=[UP]), State.RUNNING, ""),
    "restarts used up": (item("Failed", "Failed", backoff=2, limit=2), State.FAILED, "BackoffLimitExceeded"),
    "failed with restarts left": (
        item("Failed", condition("Failed", reason="Why"), backoff=1, limit=2),
        State.FAILED,
        "Why",
    ),
    "failed without any restart allowed": (item("Failed", "Failed", limit=0), State.FAILED, ""),
    "over time, with another reason": (failed_after(60), State.FAILED, "DeadlineExceeded"),
    "in time, with that reason": (failed_after(59), State.FAILED, "Why"),
    "over time, its restarts used up": (
        item("Failed", condition("Failed", reason="DeadlineExceeded"), backoff=2, limit=2),
        State.FAILED,
        "DeadlineExceeded",
    ),
}


@pytest.mark.parametrize(("manifest", "state", "reason"), CASES.values(), ids=CASES)
def test_verdict(manifest, state, reason):
    verdict = KIND.verdict(manifest)
    assert (verdict.state, verdict.reason) == (state, reason)


# --- render


def job(**fields):
    base = {"name": "mnist", "image": "acme/mnist:1", "command": ["python", "t.py"], "roles": {"worker": {}}}
    return spec.from_plain({**base, **fields}, "test", registry.options())


def rendered(**fields):
    return whole(**fields).manifest


def whole(**fields):
    paths = OutputPaths(output="/data/out", model="/data/out/model", logs="/data/out/logs", base_dir=None)
    return KIND.render(job(**fields), Identity(run="r", task="t"), paths, "ns")


def t9k(**options):
    return {"systems": {"t9k": options}}


@pytest.mark.parametrize(
    ("restart", "policy"),
    [("never", "Never"), ("on_failure", "OnFailure"), ("always", "Always"), ("exit_code", "ExitCode")],
)
def test_restart_policies_are_always_set(restart, policy):
    assert [item["restartPolicy"] for item in rendered(restart=restart)["spec"]["replicaSpecs"]] == [policy]


def test_the_limit_and_the_clean_up_are_always_set():
    assert rendered()["spec"]["runPolicy"] == {
        "activeDeadlineSeconds": 604_800,
        "backoffLimit": 0,
        "cleanUpPolicy": "Unfinished",
    }
    assert rendered(restart="always", **t9k(clean_up="none"))["spec"]["runPolicy"]["cleanUpPolicy"] == "None"


def test_a_queue_and_its_priority():
    assert "scheduler" not in rendered()["spec"]
    scheduler = rendered(queue="research", priority=50)["spec"]["scheduler"]
    assert scheduler == {"t9kScheduler": {"queue": "research", "priority": 50}}


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, None),
        ({"debug": True}, {"debug": {"enabled": True}}),
        (
            {"debug": True, "debug_skip_init_containers": True},
            {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True}]}},
        ),
        (
            {"debug": True, "debug_commands": {"worker": ["sshd"]}},
            {
                "debug": {
                    "enabled": True,
                    "replicaSpecs": [{"type": "worker", "skipInitContainer": False, "command": ["sshd"]}],
                }
            },
        ),
        (
            {"debug": True, "debug_skip_init_containers": {"worker": True}},
            {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True}]}},
        ),
        ({"suspend": True}, {"pause": {"enabled": True}}),
        (
            {"resume_args": {"worker": ["--resume"]}},
            {
                "pause": {
                    "enabled": False,
                    "resumeSpecs": [{"type": "worker", "skipInitContainer": False, "args": ["--resume"]}],
                }
            },
        ),
    ],
)
def test_run_modes(options, mode):
    assert rendered(**t9k(**options))["spec"].get("runMode") == mode


def test_init_containers_are_left_out_by_role():
    options = {
        "debug": True,
        "debug_commands": {"worker": ["sshd"], "ps": []},
        "debug_skip_init_containers": {"worker": True},
    }
    mode = rendered(roles=ROLES, **t9k(**options, resume_skip_init_containers={"ps": True}))["spec"]["runMode"]
    assert mode["debug"]["replicaSpecs"] == [
        {"type": "worker", "skipInitContainer": True, "command": ["sshd"]},
        {"type": "ps", "skipInitContainer": False},
    ]
    resumed = {spec["type"]: spec["skipInitContainer"] for spec in mode["pause"]["resumeSpecs"]}
    assert resumed == {"chief": False, "worker": False, "ps": True}


ROLES = {
    "chief": {"command": ["lead"]},
    "worker": {"replicas": 2, "command": ["fit"], "args": ["--x"]},
    "ps": {"command": ["serve"]},
}


def test_after_a_pause_each_role_runs_what_it_ran():
    specs = rendered(roles=ROLES)["spec"]
    assert [replicaspec["type"] for replicaspec in specs["replicaSpecs"]] == list(ROLES)
    resumed = specs["runMode"]["pause"]
    assert not resumed["enabled"]
    ran = {item["type"]: item["template"]["spec"]["containers"][0] for item in specs["replicaSpecs"]}
    for item in resumed["resumeSpecs"]:
        assert (item["command"], item["args"]) == (ran[item["type"]]["command"], ran[item["type"]].get("args", []))
    assert [resumespec["type"] for resumespec in resumed["resumeSpecs"]] == list(ROLES)
    options = t9k(resume_args={"worker": ["--resume"]})
    _, worker, ps = rendered(roles=ROLES, **options)["spec"]["runMode"]["pause"]["resumeSpecs"]
    assert (worker["command"][-1], worker["args"], ps["command"]) == ("fit", ["--resume"], ["serve"])


CLUSTERS = [
    {"chief": ["a:1"], "evaluator": ["e:1"], "ps": ["p:1"]},
    {"evaluator": ["e:1", "e:2"], "ps": ["p:1"]},
    {"ps": ["p:1"], "evaluator": ["e:1"]},
    {"ps": ["p:1"]},
]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
def test_the_evaluator_is_taken_out_of_the_platforms_tf_config(cluster, separators):
    roles = {
        name: {"command": ["sh", "-c", 'printf %s "$TF_CONFIG"']} for name in ("chief", "worker", "ps", "evaluator")
    }
    *_, last = rendered(roles=roles)["spec"]["replicaSpecs"]
    command = last["template"]["spec"]["containers"][0]["command"]
    reported = {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
    env = {**os.environ, "TF_CONFIG": json.dumps(reported, separators=separators)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    cluster = {name: hosts for name, hosts in cluster.items() if name != "evaluator"}
    assert json.loads(done.stdout) == {**reported, "cluster": cluster}


def test_a_job_that_is_created_paused_is_recognized_as_our_own():
    manifest = rendered(**t9k(suspend=True))
    assert KIND.verdict(manifest).message.startswith("Paused by tfsteps")


def test_pause_and_resume():
    (pause,), (resume,) = KIND.pause(item(), paused=True), KIND.pause(item(), paused=False)
    assert pause.patch["spec"] == {"runMode": {"pause": {"enabled": True}}}
    assert resume.patch["spec"] == {"runMode": {"pause": {"enabled": False}}}
    assert (pause.patch["metadata"], resume.patch["metadata"]) == (
        {"annotations": {PAUSED: "true"}},
        {"annotations": {PAUSED: None}},
    )


def test_a_gang_in_a_queue_is_the_platforms_own_and_else_a_pod_group_of_ours():
    gang, roles = {"timeout": "2m"}, {"worker": {"replicas": 2}}
    assert whole(roles=roles, gang=gang, queue="q").dependents == ()
    gang_of_ours = whole(roles=roles, gang=gang)
    assert gang_of_ours.dependents[0]["spec"] == {"minMember": 2, "scheduleTimeoutSeconds": 120}
    assert gang_of_ours.manifest["spec"]["runMode"]["pause"]["enabled"]
    assert gang_of_ours.unsuspend_patch == {"spec": {"runMode": {"pause": {"enabled": False}}}}
    assert whole(roles=roles, gang=gang, **t9k(suspend=True)).unsuspend_patch == {}


@pytest.mark.parametrize(
    ("fields", "board"),
    [
        ({"volumes": [CLAIM]}, {"logDir": {"pvc": [{"name": "data", "subPath": ["out/logs"]}]}}),
        (
            {"volumes": [{**CLAIM, "sub_path": "team"}]},
            {"logDir": {"pvc": [{"name": "data", "subPath": ["team/out/logs"]}]}},
        ),
        (
            t9k(tensorboard_file_sets=["t9k://minio/s3/bucket/logs"], tensorboard_queue="cpu"),
            {
                "trainingLogFilesets": ["t9k://minio/s3/bucket/logs"],
                "scheduler": {"t9kScheduler": {"queue": "cpu"}},
            },
        ),
        (
            t9k(tensorboard_s3={"secret": "keys", "uris": ["s3://a/b"]}, tensorboard_urls=["http://files/logs"]),
            {
                "logDir": {
                    "s3": {"secretRef": {"name": "keys"}, "uri": ["s3://a/b"]},
                    "http": {"url": ["http://files/logs"]},
                }
            },
        ),
    ],
)
def test_a_tensorboard(fields, board):
    assert KIND.spec_problems(job(tensorboard={}, **fields)) == []
    assert rendered(tensorboard={}, **fields)["spec"]["tensorboardSpec"] == {"image": "acme/mnist:1", **board}


def test_a_tensorboard_reads_the_jobs_bucket_with_a_secret():
    fields = {"output_dir": "s3://runs/{run_id}", **t9k(tensorboard_s3={"secret": "keys"})}
    described = job(tensorboard={}, **fields)
    assert KIND.spec_problems(described) == []
    paths = OutputPaths(output="s3://runs/r", model="s3://runs/r/model", logs="s3://runs/r/logs", base_dir=None)
    manifest = KIND.render(described, Identity(run="r", task="t"), paths, "ns").manifest
    assert manifest["spec"]["tensorboardSpec"]["logDir"] == {
        "s3": {"secretRef": {"name": "keys"}, "uri": [paths.tensorboard(described)]}
    }


@pytest.mark.parametrize("index", [0, 3, 12])
def test_replicas_get_their_index_from_the_name_of_their_pod(index):
    (role,) = rendered(roles={"worker": {"replicas": 13}})["spec"]["replicaSpecs"]
    command = role["template"]["spec"]["containers"][0]["command"]
    assert command[-2:] == ["python", "t.py"]
    ran = subprocess.run(
        [*command[:-2], "sh", "-c", "echo $TFSTEPS_INDEX $1", "sh", "two words"],
        env={"TFSTEPS_POD": f"mnist-worker-{index}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout == f"{index} two words\n"


# --- problems and warnings

REFUSED = {
    "a role's own limit": (
        {"restart": "on_failure", "roles": {"worker": {"backoff_limit": 1}}},
        "roles.worker.backoff_limit",
    ),
    "all workers decide": ({"success": "all_workers"}, "success"),
    "a priority without a queue": ({"priority": 5}, "priority"),
    "some of a gang in a queue": (
        {"queue": "q", "gang": {"min_available": 1}, "roles": {"worker": {"replicas": 2}}},
        "gang.min_available",
    ),
    "a TensorBoard with nothing to read": ({"tensorboard": {}}, "tensorboard"),
    "a TensorBoard, its folder not on the claim": (
        {"tensorboard": {}, "volumes": [CLAIM], "output_dir": "/elsewhere"},
        "tensorboard",
    ),
    "a TensorBoard of a bucket without a Secret": ({"tensorboard": {}, "output_dir": "s3://b/{run_id}"}, "tensorboard"),
    "an evaluator beside ps, and an entrypoint that is not known": (
        {"command": [], "roles": {**{name: {"command": ["a"]} for name in ROLES}, "evaluator": {}}},
        "roles.evaluator.command",
    ),
    "no image": ({"image": None}, "roles.worker.image"),
    "init containers of a role that is not there": (
        t9k(debug_skip_init_containers={"ps": True}),
        "systems.t9k.debug_skip_init_containers.ps",
    ),
    "debug for a role that is not there": (t9k(debug_commands={"ps": []}), "systems.t9k.debug_commands.ps"),
}


@pytest.mark.parametrize(("fields", "path"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(fields, path):
    assert [spec.dotted(problem.path) for problem in KIND.spec_problems(job(**fields))] == [path]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"restart": "exit_code"}, "130, 137, 138 and 143 only"),
        ({"command": [], "roles": {"worker": {"replicas": 2}}}, "TFSTEPS_INDEX is not set in worker"),
        ({"command": [], "roles": {"chief": {"command": ["a"]}, "worker": {}}}, "the first role's command in worker"),
        ({"tensorboard": {"idle": "1h"}, "volumes": [CLAIM]}, "idle` has no effect"),
        ({"queue": "q", "gang": {"timeout": "1m"}}, "gang.timeout"),
    ],
)
def test_what_is_different(fields, words):
    (warning,) = KIND.warnings(job(**fields))
    assert words in warning


# --- pods


@pytest.mark.parametrize(
    ("reported", "name", "note"),
    [
        ({"ready": True, "dependent": {"name": "job"}}, "job", ""),
        ({"ready": False, "reason": "QuotaExceeded", "note": "no room"}, "job", "QuotaExceeded: no room"),
    ],
)
def test_the_status_contains_the_tensorboard(reported, name, note):
    manifest = KIND.tensorboard_link({**item("Running"), "status": {"tensorboard": reported}})
    assert (manifest.resource.kind, manifest.name, manifest.note) == ("TensorBoard", name, note)
    assert KIND.tensorboard_link(item("Running")) is None


@pytest.mark.parametrize(
    ("name", "role", "replica"),
    [
        ("job-worker-1", "worker", ReplicaName("worker", 1)),
        ("job-worker-2", "worker", None),  # no replica of the job
        ("job-ps-0", "ps", ReplicaName("ps", 0)),
        ("job-ps-0", "", None),
    ],
)
def test_whose_pod_it_is(name, role, replica):
    every = [ReplicaName("worker", 0), ReplicaName("worker", 1), ReplicaName("ps", 0)]
    assert KIND.replica({"name": name, "labels": {"tfsteps.dev/role": role}}, every) == replica


def test_the_roles_of_a_job_come_back():
    roles = {"chief": {}, "worker": {"replicas": 3}, "ps": {"replicas": 2}, "evaluator": {}}
    manifest = KIND.roles(rendered(roles=roles))
    assert {name: role.replicas for name, role in manifest.items()} == {
        "chief": 1,
        "worker": 3,
        "ps": 2,
        "evaluator": 1,
    }


def test_no_name_is_too_long():
    manifest = rendered(name="n" * 63, roles={"evaluator": {}, "worker": {"replicas": 1000}})
    assert max(len(f"{manifest['metadata']['name']}-{entry}") for entry in ("worker-999", "evaluator-0")) == 63
