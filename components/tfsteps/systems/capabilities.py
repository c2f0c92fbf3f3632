"""What each job system can do of what a job may ask for; docs/systems/features.md is generated from here, and tested.

A feature that is `native` or `done` has a case in the conformance suite, one that is `refused` is refused by the checks
of the job, before anything is created.
"""

import enum
from collections.abc import Mapping
from typing import Any

import msgspec


class Level(enum.StrEnum):
    """Who sees to a feature."""

    NATIVE = "native"
    DONE = "done by tfsteps"
    REFUSED = "refused"
    UNUSED = "no effect"


class Capability(msgspec.Struct, frozen=True):
    """How one job system has one feature.

    Attributes:
        level: Who sees to it.
        note: Native: the system's own word for it. Done: how. Refused: because of what. Unused: why; the job is run
            without, and a warning says so.
    """

    level: Level
    note: str


def native(note: str) -> Capability:
    """Return a capability that the job system has itself."""
    return Capability(Level.NATIVE, note)


def done(note: str) -> Capability:
    """Return a capability that the job system has not, and tfsteps brings."""
    return Capability(Level.DONE, note)


def refused(because: str) -> Capability:
    """Return a capability that is not supported; the job is refused with this reason."""
    return Capability(Level.REFUSED, because)


def unused(because: str) -> Capability:
    """Return a capability that is not supported; the job is run without, and a warning says so."""
    return Capability(Level.UNUSED, because)


class Feature(msgspec.Struct, frozen=True):
    """Something that a job may ask for.

    Attributes:
        title: What it is, as a user calls it.
        job: Fields of a job file that ask for it; empty = no field does, every job has it, or a command.
    """

    title: str
    job: Mapping[str, Any] = {}


_WORKERS = {"worker": {"replicas": 2}}

FEATURES: Mapping[str, Feature] = {
    "chief": Feature("a chief", {"roles": {"chief": {}, **_WORKERS}}),
    "worker": Feature("several workers", {"roles": _WORKERS}),
    "ps": Feature("parameter servers", {"roles": {"chief": {}, "ps": {"replicas": 2}, **_WORKERS}}),
    "evaluator": Feature("an evaluator beside the cluster", {"roles": {"chief": {}, **_WORKERS, "evaluator": {}}}),
    "role_templates": Feature(
        "roles with an image, command, variables and resources of their own",
        {
            "roles": {
                "chief": {"image": "acme/lead:1", "command": ["python", "lead.py"], "resources": {"cpu": 2}},
                "worker": {"env": {"BATCH": "8"}},
            }
        },
    ),
    "restart_never": Feature("`restart: never`", {"restart": "never"}),
    "restart_on_failure": Feature("`restart: on_failure`", {"restart": "on_failure"}),
    "restart_always": Feature("`restart: always`", {"restart": "always"}),
    "restart_exit_code": Feature("`restart: exit_code`", {"restart": "exit_code"}),
    "backoff_limit": Feature("a limit of restarts", {"restart": "on_failure", "backoff_limit": 5}),
    "role_backoff_limit": Feature(
        "a limit of restarts for one role",
        {"roles": {"chief": {}, "worker": {"backoff_limit": 7}}, "restart": "on_failure"},
    ),
    "success_chief": Feature("the chief, or worker 0, decides", {"roles": _WORKERS, "success": "chief"}),
    "success_all_workers": Feature("all workers must succeed", {"roles": _WORKERS, "success": "all_workers"}),
    "tf_config": Feature("TF_CONFIG"),
    "env_sources": Feature(
        "variables from Secrets, ConfigMaps and pod fields",
        {
            "env": {
                "TOKEN": {"secret": "hub", "key": "token"},
                "MODE": {"config_map": "settings", "key": "mode"},
                "NODE": {"field": "spec.nodeName"},
            }
        },
    ),
    "volumes": Feature(
        "volumes", {"volumes": [{"pvc": "data", "mount": "/data"}, {"empty_dir": "1Gi", "mount": "/scratch"}]}
    ),
    "shared_memory": Feature("a size of /dev/shm", {"resources": {"memory": "2Gi", "shared_memory": "1Gi"}}),
    "placement": Feature(
        "node selectors and tolerations",
        {"node_selector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    ),
    "pod_patch": Feature("a patch of the pods", {"pod": {"spec": {"hostNetwork": True}}}),
    "gpu": Feature("GPUs", {"resources": {"gpu": 2}}),
    "gpu_type": Feature("a model of GPU", {"resources": {"gpu": 1, "gpu_type": "T4"}}),
    "queue": Feature("a queue", {"queue": "research"}),
    "priority": Feature("a priority from 0 to 100", {"queue": "research", "priority": 50}),
    "gang": Feature("all replicas start together, or none", {"roles": _WORKERS, "gang": {"timeout": "2m"}}),
    "deadlines": Feature("deadlines", {"deadlines": {"queue": "30m", "running": "2h", "total": "1d"}}),
    "keep_for": Feature("removal some time after the end", {"keep_for": "1h"}),
    "on_end": Feature("what is left at the end", {"on_end": "delete"}),
    "on_evicted": Feature("kept for a retry when its launcher is evicted", {"on_evicted": "30m"}),
    "pause": Feature("`tfsteps pause` and `resume`"),
    "created_suspended": Feature("created suspended"),
    "hold": Feature("`tfsteps debug --hold`"),
    "live_logs": Feature("live logs of every replica"),
    "tensorboard": Feature(
        "a TensorBoard",
        {
            "tensorboard": {"keep_for": "1d"},
            "output_dir": "/data/runs/{run_id}",
            "volumes": [{"pvc": "data", "mount": "/data"}],
        },
    ),
    "adopt": Feature("another launcher goes on with a running job"),
    "labels": Feature("run, task and attempt on everything", {"labels": {"team": "vision"}}),
}
