"""Cases that need nothing but a job: what it does, and what must be said and left of it."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.case import Case
from tests.conformance.control_channel import held, release, succeeded
from tests.conformance.environment import Environment, Launcher
from tests.support.shell import printing
from tests.support.waiting import until
from tfsteps.runs.events import ReplicaState, State

SHARED = [{"host_path": "/tmp", "mount": "/shared"}]  # the node's: it outlives recreated pods
_WORKER = {"worker": {}}
_WORKERS = {"worker": {"replicas": 2}}
_WSUM = "done wsum 6.147475360"  # what two replicas of the stand-in arrive at

# Each incarnation takes some seconds: as soon as the second one has ended, a kubelet removes the log of the first.
_FAILS_ONCE = {"FAIL_AT": 20, "FAIL_TASK": "worker-0", "RESUME": 1, "STEP_SLEEP": 0.2}


def sh(script: str) -> dict[str, Any]:
    """Return fields of a job that runs a shell script in every replica."""
    return {"command": ["sh", "-c", printing(script)]}


def standin(**env: object) -> dict[str, Any]:
    """Return fields of a job that runs the stand-in trainer."""
    return {"command": ["python", "standin.py"], "env": env}


@dataclass(frozen=True, kw_only=True)
class JobCase:
    """A job and its outcome.

    Attributes:
        job: Fields of the job file.
        needs: Features that it shows.
        ends: Exit code, state and reason; a reason of None may be any.
        says: What the digest's summary says, a pattern.
        blames: The digest's replica and its exit code.
        fault: The digest's.
        prints: What replicas must have printed, patterns.
        restarts: Of all replicas together.
        stopped: Replicas that the job ended without.
        last: The replica whose end ends the job, where others must have ended by themselves before.
        left: Of job objects and pods when the launcher has ended.
        unlike: As in `Case`.
        shared: As in `Case`.
    """

    job: Mapping[str, Any]
    needs: frozenset[str] = frozenset()
    ends: tuple[int, State, str | None] = (0, State.SUCCEEDED, None)
    says: str = ""
    blames: tuple[str, int | None] | None = None
    fault: str = ""
    prints: list[str] = field(default_factory=list)
    restarts: int = 0
    stopped: list[str] = field(default_factory=list)
    last: str = ""
    left: tuple[int, int] | None = None
    unlike: frozenset[str] = frozenset()
    shared: bool = False

    @property
    def before_last(self) -> list[str]:
        """The replicas that end by themselves before the last one."""
        sizes = {role: fields.get("replicas", 1) for role, fields in self.job["roles"].items()}
        every = [f"{role}-{i}" for role, size in sizes.items() for i in range(size)]
        return [name for name in every if name not in (self.last, *self.stopped)]


def _features(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ENDS_BY_EXIT_CODE = frozenset({"tfjob-v1alpha1"})  # codes 1 to 127 of the decisive replica, restarted or not

JOB_CASES = {
    "two workers train": JobCase(
        needs=_features("tf_config worker restart_never success_chief on_end"),
        job={"roles": _WORKERS, **standin()},
        prints=[rf"worker-0 .*{_WSUM}", r"worker-1 .*replicas 2 from step 0"],
        last="worker-0",
        left=(1, 0),
    ),
    "the chief decides": JobCase(
        needs=_features("chief worker success_chief"),
        job={"roles": {"chief": {}, **_WORKER}, **sh('[ $TFSTEPS_ROLE = chief ] || exec sleep 600; echo "chief"')},
        prints=["chief-0 chief"],
        stopped=["worker-0"],
        left=(1, 0),
    ),
    "worker 0 decides, and nothing is to be left": JobCase(
        needs=_features("success_chief worker on_end"),
        job={"roles": _WORKERS, "on_end": "delete", **sh("[ $TFSTEPS_INDEX = 0 ] || exec sleep 600; echo gone")},
        prints=["worker-0 gone"],
        stopped=["worker-1"],
        left=(0, 0),
    ),
    "all workers must succeed, and one does not": JobCase(
        needs=_features("success_all_workers"),
        job={"roles": _WORKERS, "success": "all_workers", **sh("sleep $((TFSTEPS_INDEX * 3)); exit $TFSTEPS_INDEX")},
        ends=(10, State.FAILED, None),
        blames=("worker-1", 1),
        last="worker-1",
        left=(1, 2),
    ),
    "a program fails": JobCase(
        needs=_features("restart_never live_logs"),
        job={"roles": _WORKER, "command": ["python", "-c", "def step():\n  raise ValueError('no data')\nstep()"]},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 1),
        says="worker-0 failed with exit code 1: ValueError: no data",
        fault="user",
        prints=["worker-0 Traceback"],
        left=(1, 1),
    ),
    "a command is not there": JobCase(
        job={"roles": _WORKER, "command": ["sh", "-c", "no-such-program"]},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 127),
        says="the command was not found",
        shared=True,
    ),
    "a container is restarted": JobCase(
        needs=_features("restart_on_failure volumes backoff_limit"),
        job={
            "roles": _WORKER,
            "restart": "on_failure",
            "volumes": SHARED,  # a restart may be a new pod
            "output_dir": "/shared/tfsteps-conformance/{run_id}",
            **standin(**_FAILS_ONCE, FAIL_CODE=7),
        },
        prints=["injected failure", "replicas 1 from step 20", "done wsum"],
        restarts=1,
        left=(1, 0),
        unlike=_ENDS_BY_EXIT_CODE,
    ),
    "a retryable exit code is retried": JobCase(
        needs=_features("restart_exit_code volumes"),
        job={
            "roles": _WORKER,
            "restart": "exit_code",
            "volumes": SHARED,
            "output_dir": "/shared/tfsteps-conformance/{run_id}",
            **standin(**_FAILS_ONCE, FAIL_CODE=130),
        },
        prints=["injected failure", "replicas 1 from step 20", "done wsum"],
        restarts=1,
        left=(1, 0),
    ),
    "a permanent exit code is not": JobCase(
        needs=_features("restart_exit_code"),
        job={"roles": _WORKER, "restart": "exit_code", **sh("exit 9")},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 9),
    ),
    "the backoff limit is used up": JobCase(
        needs=_features("backoff_limit restart_on_failure"),
        job={"roles": _WORKER, "restart": "on_failure", "backoff_limit": 1, **sh("echo try; exit 7")},
        ends=(10, State.FAILED, "BackoffLimitExceeded"),
        blames=("worker-0", 7),
        prints=["worker-0 try"],
        restarts=2,
        unlike=_ENDS_BY_EXIT_CODE,
    ),
    "the backoff limit is used up by exit codes that are retried": JobCase(
        needs=_features("backoff_limit restart_exit_code"),
        job={"roles": _WORKER, "restart": "exit_code", "backoff_limit": 1, **sh("echo try; exit 130")},
        ends=(10, State.FAILED, "BackoffLimitExceeded"),
        blames=("worker-0", 130),
        prints=["worker-0 try"],
    ),
    "an image's own program": JobCase(
        needs=_features("entrypoint"),
        job={"roles": _WORKER, "env": {"STEPS": 3}},
        prints=["worker-0 .*done wsum"],
    ),
    "an image cannot be pulled": JobCase(
        needs=_features("deadlines"),
        job={"roles": _WORKER, "image": "registry.invalid/none:1", "deadlines": {"pending": "90s"}, **sh("true")},
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says=r"(ErrImagePull|ImagePullBackOff).*registry.invalid/none:1",
        left=(0, 0),
        shared=True,
    ),
    "no node has room": JobCase(
        needs=_features("deadlines cpu"),
        job={"roles": _WORKER, "resources": {"cpu": 900}, "deadlines": {"pending": "20s"}, **sh("true")},
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says=r"worker-0.*Insufficient cpu",
        left=(0, 0),
    ),
    "too much memory is used": JobCase(
        needs=_features("memory"),
        job={"roles": _WORKER, "resources": {"memory": "64Mi"}, **standin(MEMORY=500)},
        ends=(10, State.FAILED, None),
        blames=("worker-0", 137),
        says="more than its memory limit",
        fault="user",
    ),
    "the running deadline passes": JobCase(
        needs=_features("deadlines"),
        job={"roles": _WORKER, "deadlines": {"running": "3s"}, **standin(HANG=1, IGNORE_SIGTERM=1)},
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says="running",
        left=(0, 0),
    ),
    "the evaluator is in no cluster, and parameter servers are ended with the chief": JobCase(
        needs=_features("evaluator chief ps worker"),
        job={
            "roles": {"chief": {}, **_WORKER, "ps": {}, "evaluator": {}},
            **sh("sleep 2; echo $TFSTEPS_ROLE $TF_CONFIG; [ $TFSTEPS_ROLE = ps ] && exec sleep 600; true"),
        },
        prints=[r'evaluator-0 evaluator (?!.*"evaluator": ?\[).*"type": ?"evaluator"', r'chief-0 chief .*"ps": ?\['],
        stopped=["ps-0"],
        last="chief-0",
        left=(1, 0),
    ),
    "roles have commands, variables and resources of their own": JobCase(
        needs=_features("role_templates chief"),
        job={
            "roles": {
                "chief": {"command": ["sh", "-c", "sleep 2; echo lead $WHAT"], "env": {"WHAT": "chiefly"}},
                "worker": {"resources": {"memory": "48Mi"}},
            },
            **sh("echo plain $WHAT"),
            "env": {"WHAT": "commonly"},
        },
        prints=["chief-0 lead chiefly", "worker-0 plain commonly"],
        last="chief-0",
    ),
    "one role's limit is used up": JobCase(
        needs=_features("role_backoff_limit chief restart_on_failure"),
        job={
            "roles": {"chief": {}, "worker": {"backoff_limit": 0}},
            "restart": "on_failure",
            **sh("[ $TFSTEPS_ROLE = chief ] && exec sleep 600; sleep 1; exit 7"),
        },
        ends=(10, State.FAILED, "BackoffLimitExceeded"),
        blames=("worker-0", 7),
    ),
    "a program that ends is started again": JobCase(
        needs=_features("restart_always backoff_limit"),
        job={"roles": _WORKER, "restart": "always", "backoff_limit": 1, **sh("echo again; sleep 1")},
        ends=(10, State.FAILED, "BackoffLimitExceeded"),
        prints=["worker-0 again"],
    ),
    "pods are patched, and tell where they run": JobCase(
        needs=_features("pod_patch env_sources labels placement pod_settings"),
        job={
            "roles": _WORKER,
            "node_selector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"operator": "Exists"}],
            "pod": {"metadata": {"labels": {"patched": "yes"}}},
            "labels": {"team": "vision"},
            "annotations": {"note": "quick"},
            "env": {
                "PATCHED": {"field": "metadata.labels['patched']"},
                "TEAM": {"field": "metadata.labels['team']"},
                "NOTE": {"field": "metadata.annotations['note']"},
            },
            **sh("echo patched $PATCHED $TEAM $NOTE"),
        },
        prints=["worker-0 patched yes vision quick"],
    ),
    "pods are placed, have their shared memory, and are to be left": JobCase(
        needs=_features("placement shared_memory on_end"),
        job={
            "roles": _WORKER,
            "node_selector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "resources": {"shared_memory": "32Mi"},
            "on_end": "keep",
            **sh("df -k /dev/shm"),
        },
        prints=["32768"],
        left=(1, 1),
    ),
    "there is no such GPU": JobCase(
        needs=_features("gpu gpu_type deadlines"),
        job={
            "roles": _WORKER,
            "resources": {"gpu": 1, "gpu_type": "T4"},
            "deadlines": {"pending": "20s"},
            **sh("true"),
        },
        ends=(11, State.FAILED, "DeadlineExceeded"),
        says=r"worker-0.*(node affinity|Insufficient nvidia.com/gpu)",
        left=(0, 0),
    ),
}


def _ended(environment: Environment) -> int:
    """Return how many pods have succeeded."""
    return sum(pod["status"].get("phase") == "Succeeded" for pod in environment.pods())


def _check(case: JobCase, environment: Environment) -> None:
    job = held(case.job, case.last) if case.last else case.job
    launcher = environment.launch(job, run=environment.namespace)
    if case.last:
        until(lambda: succeeded(launcher, case.before_last))
        if case.left:  # Kubernetes deletes a failed Job's pods that the kubelet has not reported as ended
            until(lambda: _ended(environment) >= len(case.before_last))
        release(environment, launcher, case.last)
    check(case, launcher)
    if case.left:
        until(lambda: (len(environment.jobs()), len(environment.pods())) == case.left)


def check(case: JobCase, launcher: Launcher) -> None:
    """Compare how a job ended, and what was said of it, with its case."""
    launcher.ends(*case.ends)
    printed = "\n".join(f"{who} {line}" for who, line in launcher.lines())
    for pattern in case.prints:
        assert re.search(pattern, printed), printed
    if case.ends[1] is State.FAILED:
        assert re.search(case.says, launcher.failure.summary), launcher.failure
        assert case.fault in launcher.failure.fault, launcher.failure
        assert case.blames in (None, (launcher.failure.replica, launcher.failure.exit_code)), launcher.failure
    else:
        stopped = [replica.name for replica in launcher.status.replicas if replica.state is ReplicaState.STOPPED]
        assert stopped == case.stopped, launcher.status
        assert sum(replica.restarts for replica in launcher.status.replicas) == case.restarts, launcher.status


CASES = [
    Case(name, functools.partial(_check, case), case.needs, unlike=case.unlike, shared=case.shared)
    for name, case in JOB_CASES.items()
]
