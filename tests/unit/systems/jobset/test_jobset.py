"""JobSet: how a job is rendered, and which state it shows."""

import json

import pytest

from tests.unit.systems.kubernetes.objects import condition
from tfsteps import spec
from tfsteps.runs.events import ReplicaName, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.jobset.jobset import JobSet
from tfsteps.systems.kubernetes.render.pod_template import INDEX

IDENTITY = Identity(run="run", task="task")
PLACES = OutputPaths(output="/o", model="/o/model", logs="/o/logs", base_dir=None)
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
KIND = JobSet()
SERVERS = {"chief": {}, "worker": {"replicas": 2}, "ps": {"replicas": 2}, "evaluator": {}}


def job(**fields):
    base = {"name": "mnist", "image": "acme/mnist:1", "command": ["train"], "roles": {"worker": {"replicas": 2}}}
    return spec.from_plain({**base, **fields}, "test", registry.options())


def rendered(**fields):
    described = job(**fields)
    assert KIND.spec_problems(described) == []
    return KIND.render(described, IDENTITY, PLACES, "ns")


def manifest(**fields):
    return rendered(**fields).manifest


def jobs_of(item):
    return {item["name"]: item["template"]["spec"] for item in item["spec"]["replicatedJobs"]}


# --- verdict


def condition_of(kind, reason, status="True", at="2026-11-25T06:45:39Z"):
    return {**condition(kind, status, reason), "lastTransitionTime": at}


DEADLINE = {"name": "worker", "template": {"spec": {"activeDeadlineSeconds": 60}}}
NO_DEADLINE = {"name": "ps", "template": {"spec": {}}}
LATE = "2026-11-25T06:45:40Z"


def jobset(*conditions, labels=None, suspend=None, policy=None, **status):
    return {
        "metadata": {"name": "job", "labels": labels or {}, "creationTimestamp": "2026-11-25T06:44:40Z"},
        "spec": {"suspend": suspend, "failurePolicy": policy, "replicatedJobs": [DEADLINE, NO_DEADLINE]},
        "status": {"conditions": list(conditions), **status},
    }


COUNTS = [{"name": "worker", "ready": 0, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0}]
ON_LIMIT = {"maxRestarts": 0, "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}]}
ON_CODE = {"maxRestarts": 2, "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]}
COMPLETED, FAILED = condition_of("Completed", "AllJobsCompleted"), condition_of("Failed", "FailedJobs")
BY_RULE, RESTARTED = (
    condition_of("Failed", "FailJobSetFailurePolicyAction"),
    condition_of("Failed", "ReachedMaxRestarts"),
)
VERDICTS = {
    "nobody has looked at it": (jobset(), State.PENDING, ""),
    "its Jobs are counted": (jobset(replicatedJobsStatus=COUNTS), State.PENDING, "Created"),
    "suspended before anybody looked": (jobset(suspend=True), State.SUSPENDED, ""),
    "restarts all": (
        jobset(condition_of("RestartingJobSet", "DefaultFailurePolicy")),
        State.RESTARTING,
        "DefaultFailurePolicy",
    ),
    "restarted all": (jobset(condition_of("RestartingJobSet", "JobsReady", "False")), State.PENDING, ""),
    "suspended while it restarts": (
        jobset(condition_of("RestartingJobSet", "DefaultFailurePolicy"), suspend=True),
        State.SUSPENDED,
        "",
    ),
    "suspended": (jobset(condition_of("Suspended", "SuspendedJobs"), suspend=True), State.SUSPENDED, "SuspendedJobs"),
    "in a queue": (jobset(condition_of("Suspended", "SuspendedJobs"), labels=QUEUE), State.QUEUED, "SuspendedJobs"),
    "resumed": (
        jobset(condition_of("Suspended", "ResumeJobs", "False"), replicatedJobsStatus=COUNTS),
        State.PENDING,
        "Created",
    ),
    "completed": (jobset(COMPLETED, terminalState="Completed"), State.SUCCEEDED, "AllJobsCompleted"),
    "completed, then suspended": (jobset(COMPLETED, suspend=True), State.SUCCEEDED, "AllJobsCompleted"),
    "completed, by the scalar alone": (jobset(terminalState="Completed"), State.SUCCEEDED, ""),
    "failed": (jobset(FAILED, terminalState="Failed"), State.FAILED, "FailedJobs"),
    "failed, by the scalar alone": (jobset(terminalState="Failed"), State.FAILED, ""),
    "both": (jobset(COMPLETED, FAILED), State.FAILED, "FailedJobs"),
    "failed after its deadline": (
        jobset(condition_of("Failed", "FailedJobs", at=LATE)),
        State.FAILED,
        "DeadlineExceeded",
    ),
    "failed after its deadline, when no restart was allowed": (
        jobset(condition_of("Failed", "ReachedMaxRestarts", at=LATE), policy=ON_LIMIT),
        State.FAILED,
        "DeadlineExceeded",
    ),
    "failed by the rule about the limit, after its deadline": (
        jobset(condition_of("Failed", "FailJobSetFailurePolicyAction", at=LATE), policy=ON_LIMIT),
        State.FAILED,
        "BackoffLimitExceeded",
    ),
    "failed is over": (jobset(condition_of("Failed", "FailedJobs", "False")), State.PENDING, ""),
    "failed by the rule about the limit": (jobset(BY_RULE, policy=ON_LIMIT), State.FAILED, "BackoffLimitExceeded"),
    "failed by another rule": (jobset(BY_RULE, policy=ON_CODE), State.FAILED, "FailJobSetFailurePolicyAction"),
    "no rule applied, and no restart is allowed": (jobset(RESTARTED, policy=ON_LIMIT), State.FAILED, "FailedJobs"),
    "restarted as often as allowed": (jobset(RESTARTED, policy=ON_CODE), State.FAILED, "BackoffLimitExceeded"),
}


@pytest.mark.parametrize(("item", "state", "reason"), VERDICTS.values(), ids=VERDICTS)
def test_verdict(item, state, reason):
    outcome = KIND.verdict(item)
    assert (outcome.state, outcome.reason) == (state, reason)


def test_the_controllers_message_is_passed_on():
    words = "jobset failed due to one or more job failures (first failed job: mnist-worker-0)"
    assert KIND.verdict(jobset(condition("Failed", reason="FailedJobs", message=words))).message == words


# --- who decides, and what restarts


@pytest.mark.parametrize(
    ("fields", "targets", "alone"),
    [
        ({}, ["worker"], ["worker"]),
        ({"roles": SERVERS}, ["chief"], []),
        ({"success": "all_workers"}, ["worker"], []),
        ({"roles": SERVERS, "success": "all_workers"}, ["chief", "worker"], []),
        ({"roles": {"worker": {}}}, ["worker"], []),
    ],
)
def test_who_decides(fields, targets, alone):
    item = manifest(**fields)
    assert item["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": targets}
    index_0 = {"rules": [{"succeededIndexes": "0"}]}
    assert [
        name for name, replicated_job in jobs_of(item).items() if replicated_job.get("successPolicy") == index_0
    ] == alone


@pytest.mark.parametrize(
    ("fields", "pods", "limit", "permanent"),
    [
        ({}, "Never", 0, False),
        ({"restart": "on_failure", "roles": {"worker": {"restart": "never"}}}, "Never", 0, False),
        ({"restart": "on_failure"}, "OnFailure", 4, False),  # a Job gives up when it reaches this, and 3 are allowed
        ({"restart": "on_failure", "backoff_limit": 0}, "OnFailure", 1, False),
        ({"restart": "exit_code", "backoff_limit": 2}, "Never", 2, True),
        ({"restart": "exit_code", "roles": {"worker": {"backoff_limit": 7}}}, "Never", 7, True),
    ],
)
def test_restarts(fields, pods, limit, permanent):
    [worker] = jobs_of(manifest(**fields)).values()
    assert (worker["template"]["spec"]["restartPolicy"], worker["backoffLimit"]) == (pods, limit)
    codes = [rule["onExitCodes"]["values"] for rule in worker.get("podFailurePolicy", {}).get("rules", [])]
    assert codes == ([list(range(1, 128))] if permanent else [])


TOGETHER = {"systems": {"jobset": {"restart_together": True}}}
ON_DEADLINE = {"name": "DeadlineExceeded", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}


@pytest.mark.parametrize(
    ("fields", "rules", "pods"),
    [
        (
            {"restart": "on_failure"},
            [{**ON_DEADLINE, "targetReplicatedJobs": ["worker"]}],
            {"worker": ("Never", 0)},
        ),
        (
            {"restart": "exit_code"},
            [
                {**ON_DEADLINE, "targetReplicatedJobs": ["worker"]},
                {
                    "name": "PodFailurePolicy",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                    "targetReplicatedJobs": ["worker"],
                },
            ],
            {"worker": ("Never", 0)},
        ),
        (
            {"restart": "on_failure", "roles": {"chief": {}, "worker": {}, "evaluator": {"backoff_limit": 5}}},
            [
                {**ON_DEADLINE, "targetReplicatedJobs": ["chief", "worker", "evaluator"]},
                {"name": "RestartedAlone", "action": "FailJobSet", "targetReplicatedJobs": ["evaluator"]},
            ],
            {"chief": ("Never", 0), "worker": ("Never", 0), "evaluator": ("OnFailure", 6)},
        ),
    ],
)
def test_restarts_of_all_replicas_together(fields, rules, pods):
    item = manifest(**fields, **TOGETHER, backoff_limit=2)
    strategy = {"maxRestarts": 2, "restartStrategy": "BlockingRecreate"}
    assert item["spec"]["failurePolicy"] == {**strategy, "rules": rules}
    specs = jobs_of(item)
    assert {
        name: (replicated_job["template"]["spec"]["restartPolicy"], replicated_job["backoffLimit"])
        for name, replicated_job in specs.items()
    } == pods
    assert ("podFailurePolicy" in specs["worker"]) == (fields["restart"] == "exit_code")


def test_restarts_together_count_once():
    two_workers = job(restart="on_failure", backoff_limit=3, **TOGETHER)
    assert KIND.restart_limit(two_workers) == 3 + 3 * 2
    assert KIND.restart_limit(job(restart="on_failure", backoff_limit=3)) == 3
    assert manifest(restart="on_failure", **TOGETHER)["spec"]["failurePolicy"]["maxRestarts"] == 3


@pytest.mark.parametrize(
    ("fields", "path", "fix"),
    [
        ({}, ("systems", "jobset", "restart_together"), "Write `restart: on_failure`"),
        (
            {"restart": "on_failure", "roles": {"worker": {"backoff_limit": 2}}},
            ("roles", "worker", "backoff_limit"),
            "Write `backoff_limit` at the top of the job",
        ),
    ],
)
def test_what_contradicts_restarts_together(fields, path, fix):
    [problem] = KIND.spec_problems(job(**fields, **TOGETHER))
    assert problem.path == path
    assert problem.fix.startswith(fix)


def test_always_is_refused_once_for_the_job_and_once_for_each_role_that_sets_it():
    roles = {"chief": {}, "worker": {}, "evaluator": {"restart": "always"}}
    assert [problem.path for problem in KIND.spec_problems(job(roles=roles, restart="always"))] == [
        ("restart",),
        ("roles", "evaluator", "restart"),
    ]


# --- names and hosts


def test_tf_config_names_the_hosts_of_every_role_but_the_evaluator():
    item = manifest(roles=SERVERS)
    name = item["metadata"]["name"]
    for role, replicated_job in jobs_of(item).items():
        env = {entry["name"]: entry for entry in replicated_job["template"]["spec"]["containers"][0]["env"]}
        assert list(env).index("TFSTEPS_INDEX") < list(env).index("TF_CONFIG")
        config = json.loads(env["TF_CONFIG"]["value"].replace("$(TFSTEPS_INDEX)", "0"))
        assert config["task"] == {"type": role, "index": 0}
        assert {role: len(hosts) for role, hosts in config["cluster"].items()} == {"chief": 1, "worker": 2, "ps": 2}
        assert config["cluster"]["ps"][1] == f"{name}-ps-0-1.{name}.ns.svc:2222"


@pytest.mark.parametrize("replicas", [1, 11, 1001])
def test_names_of_pods_fit(replicas):
    item = manifest(name="n" * 63, roles={"chief": {}, "worker": {"replicas": replicas}})
    pods = [f"{item['metadata']['name']}-worker-0-{replicas - 1}-abcde", f"{item['metadata']['name']}-chief-0-0-abcde"]
    assert max(map(len, pods)) == 63


def test_roles_and_replicas_are_found_again():
    roles = KIND.roles(manifest(roles=SERVERS))
    assert {name: role.replicas for name, role in roles.items()} == {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}
    labels = roles["worker"].template["metadata"]["labels"]
    assert KIND.replica({"labels": {**labels, INDEX: "1"}}, []) == ReplicaName("worker", 1)
    assert KIND.replica({"labels": labels}, []) is None
    assert KIND.replica({"labels": {INDEX: "1"}}, []) is None
    assert KIND.replica({}, []) is None


def test_its_jobs_have_no_labels_by_which_another_system_would_take_them_for_its_own():
    assert all("metadata" not in replicatedjob["template"] for replicatedjob in manifest()["spec"]["replicatedJobs"])


# --- queue and gang


def test_a_gang_is_there_before_its_pods_are():
    whole = rendered(gang={"min_available": 2})
    assert whole.manifest["spec"]["suspend"] is True
    assert whole.unsuspend_patch == {"spec": {"suspend": False}}
    [group] = whole.dependents
    name = whole.name
    [worker] = jobs_of(whole.manifest).values()
    assert (
        worker["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"] == name
    )
    assert worker["template"]["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


@pytest.mark.parametrize("held", [{"queue": "team"}, {"systems": {"jobset": {"suspend": True}}}])
def test_a_gang_in_a_queue_waits_for_the_queue(held):
    whole = rendered(gang={}, **held)
    assert whole.manifest["spec"]["suspend"] is True
    assert whole.unsuspend_patch == {}


def test_pause():
    [change] = KIND.pause(jobset(), paused=True)
    assert (change.name, change.patch) == ("job", {"spec": {"suspend": True}})
