"""Options of local runs, and what the job system can do."""

import os
from collections.abc import Mapping
from typing import Literal

import msgspec

from tfsteps.spec import Duration, TrainingJob
from tfsteps.systems.capabilities import Capability, done, refused, unused
from tfsteps.systems.features import FieldUses, Use, env_sources


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of local runs.

    Attributes:
        grace: Seconds between SIGTERM and SIGKILL. TensorFlow swallows SIGTERM under MultiWorkerMirroredStrategy.
        finish: Seconds that evaluators and mirrored workers get to end by themselves once the decisive replica has
            succeeded; parameter servers never do, and are ended at once.
        started: When a replica is no longer pending: `port` = it listens on its port of TF_CONFIG, so that
            `deadlines.pending` ends a job in which a peer never joins; `spawn` = its process runs. Empty = `port` where
            the job names a `strategy` whose replicas wait for each other, parameter_server or multi_worker_mirrored.
    """

    grace: Duration = 10.0
    finish: Duration = 30.0
    started: Literal["port", "spawn"] | None = None


_NO_POD = unused("replicas are processes of this machine, not pods")
_ALL_GPUS = unused("processes see all GPUs of this machine")
_NO_RESUME = "Stop the run, and run it again with its --run-id"


def _unresolved(job: TrainingJob) -> list[Use]:
    """Return the variables with a source in the cluster for which this process has no variable of the same name."""
    return [use for use in env_sources(job) if use.path[-1] not in os.environ]


CAPABILITIES: Mapping[str, Capability] = {
    "chief": done("a process"),
    "worker": done("a process each"),
    "ps": done("a process each, ended with the chief"),
    "evaluator": done("a process, outside TF_CONFIG's cluster"),
    "entrypoint": refused("a local run has no image", "Add `command: [python, train.py]`"),
    "code": done("a copy of the files in the folder of the run"),
    "role_templates": done("commands, variables and limits of memory; images are not used"),
    "restart_never": done("by the supervisor"),
    "restart_on_failure": done("by the supervisor"),
    "restart_always": done("by the supervisor"),
    "restart_exit_code": done("by the supervisor: codes from 128 on"),
    "backoff_limit": done("by the supervisor"),
    "role_backoff_limit": done("by the supervisor"),
    "success_chief": done("by the supervisor"),
    "success_all_workers": done("by the supervisor"),
    "tf_config": done("ports of 127.0.0.1"),
    "env_sources": unused(
        "a local run takes them from variables of the same name, which are not set here", uses=_unresolved
    ),
    "volumes": _NO_POD,
    "pod_settings": unused(
        _NO_POD.note,
        uses=FieldUses(["image", "annotations", "service_account", "image_pull_secrets", "image_pull_policy"]),
    ),
    "cpu": unused("processes share the CPUs of this machine"),
    "memory": done("the limit of each process"),
    "shared_memory": _NO_POD,
    "placement": _NO_POD,
    "pod_patch": _NO_POD,
    "gpu": _ALL_GPUS,
    "gpu_type": _ALL_GPUS,
    "platform_gpu": _ALL_GPUS,
    "all_gpus": _ALL_GPUS,
    "personal": _NO_POD,
    "queue": _NO_POD,
    "cluster": _NO_POD,
    "priority": _NO_POD,
    "gang": done("all processes are started at once"),
    "deadlines": done("by the launcher"),
    "keep_for": _NO_POD,
    "on_end": _NO_POD,
    "on_evicted": _NO_POD,
    "pause": refused("processes end with their launcher", _NO_RESUME),
    "created_suspended": refused("processes start at once", "Run it when it is to start"),
    "hold": done("the command is replaced by a sleep"),
    "live_logs": done("from the processes"),
    "usage": done("from the processes"),
    "tensorboard": done("a TensorBoard process of the run"),
    "adopt": refused("processes end with their launcher", _NO_RESUME),
    "labels": _NO_POD,
}
