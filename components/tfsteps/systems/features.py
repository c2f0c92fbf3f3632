"""The features that a job can use, and the fields for them. Each job system's `capabilities.py` says how it reacts."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tfsteps.spec import EnvSource, TrainingJob, format_bytes
from tfsteps.spec.problems import Path, shown
from tfsteps.spec.types import Roles


class Use(NamedTuple):
    """One field of a job that uses a feature.

    Attributes:
        path: The field.
        value: Its value for messages; empty = too long or not helpful.
    """

    path: Path
    value: str = ""


Uses = Callable[[TrainingJob], Iterable[Use]]
"""Returns the fields of a job that use a feature, in the order of the job."""


_UNSET = TrainingJob(name="", roles=Roles())


class FieldUses(msgspec.Struct, frozen=True):
    """Finds the fields of a job and its roles that are set: a `Uses` made of data.

    Attributes:
        names: Dotted below the job or a role, such as `resources.gpu`.
        of_job: Look at the job's own fields.
        of_roles: Look at the fields of roles; a field that roles do not have is skipped.
        equal: Find the fields with this value; None = those whose value is not the default.
    """

    names: Sequence[str]
    of_job: bool = True
    of_roles: bool = True
    equal: str | None = None

    def __call__(self, job: TrainingJob) -> Iterator[Use]:
        """Yield the fields, the job's first."""
        for path, part in job.parts():
            for name in self.names if (self.of_roles if path else self.of_job) else ():
                keys = name.split(".")
                value: Any = part
                unset: Any = None
                for key in keys:
                    unset = getattr(_UNSET if isinstance(value, TrainingJob) else type(value)(), key, None)
                    value = getattr(value, key, None)
                if (value == self.equal) if self.equal else (value is not None and value != unset):
                    yield Use((*path, *keys), _text(keys[-1], value))


def _restarts(policy: str, job: TrainingJob) -> Iterable[Use]:
    """Return the fields that set this restart policy for the roles: the job's or the role's."""
    return {
        Use(("roles", name, "restart") if role.restart else ("restart",), shown(policy)): name
        for name, role in job.roles.items()
        if (role.restart or job.restart) == policy
    }


def env_sources(job: TrainingJob) -> list[Use]:
    """Return the variables whose value comes from the cluster."""
    return [
        Use((*path, "env", name))
        for path, part in job.parts()
        for name, value in part.env.items()
        if isinstance(value, EnvSource)
    ]


def _personal(job: TrainingJob) -> list[Use]:
    return [
        Use((*path, "volumes", i, "personal"))
        for path, part in job.parts()
        for i, volume in enumerate(part.volumes)
        if volume.personal
    ]


def no_commands(job: TrainingJob) -> list[Use]:
    """Return the roles whose program is the entrypoint of their image."""
    return [Use(("roles", name, "command")) for name, role in job.resolved_roles().items() if not role.command]


def _text(name: str, value: object) -> str:
    """Return a value for a message; empty for lists, mappings and durations."""
    if isinstance(value, int) and name in ("memory", "shared_memory"):
        return format_bytes(value)
    return shown(value) if isinstance(value, str | int) else ""


class Feature(msgspec.Struct, frozen=True):
    """A feature that a job can use.

    Attributes:
        title: The user's name for it.
        job: FieldUses of a job file that use it, as an example; empty = every job, or a command, uses it.
        uses: Finds the fields that use it.
        refusal: The problem with such a field if a job system refuses it; the reason follows.
    """

    title: str
    job: Mapping[str, Any] = {}
    uses: Uses = lambda _job: ()
    refusal: str = "is not supported"


_WORKERS = {"worker": {"replicas": 2}}

FEATURES: Mapping[str, Feature] = {
    "chief": Feature("a chief", {"roles": {"chief": {}, **_WORKERS}}, FieldUses(["roles.chief"], of_roles=False)),
    "worker": Feature("several workers", {"roles": _WORKERS}, FieldUses(["roles.worker"], of_roles=False)),
    "ps": Feature(
        "parameter servers",
        {"roles": {"chief": {}, "ps": {"replicas": 2}, **_WORKERS}},
        FieldUses(["roles.ps"], of_roles=False),
    ),
    "evaluator": Feature(
        "an evaluator beside the cluster",
        {"roles": {"chief": {}, **_WORKERS, "evaluator": {}}},
        FieldUses(["roles.evaluator"], of_roles=False),
    ),
    "entrypoint": Feature("the image's own program", {"command": []}, no_commands, refusal="is missing"),
    "code": Feature("the program's files, without an image of their own", {"code": "."}, FieldUses(["code"])),
    "role_templates": Feature(
        "roles with an image, command, variables and resources of their own",
        {
            "roles": {
                "chief": {"image": "acme/lead:1", "command": ["python", "lead.py"], "resources": {"cpu": 2}},
                "worker": {"env": {"BATCH": "8"}},
            }
        },
        FieldUses(["image", "command", "env", "resources"], of_job=False),
    ),
    "restart_never": Feature("`restart: never`", {"restart": "never"}, functools.partial(_restarts, "never")),
    "restart_on_failure": Feature(
        "`restart: on_failure`", {"restart": "on_failure"}, functools.partial(_restarts, "on_failure")
    ),
    "restart_always": Feature("`restart: always`", {"restart": "always"}, functools.partial(_restarts, "always")),
    "restart_exit_code": Feature(
        "`restart: exit_code`", {"restart": "exit_code"}, functools.partial(_restarts, "exit_code")
    ),
    "backoff_limit": Feature(
        "a limit of restarts",
        {"restart": "exit_code", "backoff_limit": 5},
        FieldUses(["backoff_limit"], of_roles=False),
    ),
    "role_backoff_limit": Feature(
        "a limit of restarts for one role",
        {"roles": {"chief": {}, "worker": {"backoff_limit": 7}}, "restart": "on_failure"},
        FieldUses(["backoff_limit"], of_job=False),
    ),
    "success_chief": Feature(
        "the chief, or worker 0, decides",
        {"roles": _WORKERS, "success": "chief"},
        FieldUses(["success"], equal="chief"),
    ),
    "success_all_workers": Feature(
        "all workers must succeed",
        {"roles": _WORKERS, "success": "all_workers"},
        FieldUses(["success"], equal="all_workers"),
    ),
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
        env_sources,
    ),
    "volumes": Feature(
        "volumes",
        {"volumes": [{"pvc": "data", "mount": "/data"}, {"empty_dir": "1Gi", "mount": "/scratch"}]},
        FieldUses(["volumes"]),
    ),
    "pod_settings": Feature(
        "annotations, a ServiceAccount and how images are pulled",
        {"annotations": {"note": "x"}, "service_account": "trainer", "image_pull_secrets": ["hub"]},
        FieldUses(["annotations", "service_account", "image_pull_secrets", "image_pull_policy"]),
    ),
    "cpu": Feature("CPUs", {"resources": {"cpu": 2}}, FieldUses(["resources.cpu", "resources.limits.cpu"])),
    "memory": Feature(
        "memory", {"resources": {"memory": "2Gi"}}, FieldUses(["resources.memory", "resources.limits.memory"])
    ),
    "shared_memory": Feature(
        "a size of /dev/shm",
        {"resources": {"memory": "2Gi", "shared_memory": "1Gi"}},
        FieldUses(["resources.shared_memory"]),
    ),
    "placement": Feature(
        "node selectors and tolerations",
        {"node_selector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        FieldUses(["node_selector", "tolerations"]),
    ),
    "pod_patch": Feature("a patch of the pods", {"pod": {"spec": {"hostNetwork": True}}}, FieldUses(["pod"])),
    "gpu": Feature("GPUs", {"resources": {"gpu": 2}}, FieldUses(["resources.gpu"])),
    "gpu_type": Feature(
        "a model of GPU", {"resources": {"gpu": 1, "gpu_type": "T4"}}, FieldUses(["resources.gpu_type"])
    ),
    "platform_gpu": Feature(
        "GPUs as the platform's settings call them: a fraction, a vendor",
        {"resources": {"gpu_fraction": 0.5}},
        FieldUses(["resources.gpu_fraction", "resources.gpu_vendor"]),
    ),
    "all_gpus": Feature("all GPUs of the node", {"resources": {"all_gpus": True}}, FieldUses(["resources.all_gpus"])),
    "personal": Feature(
        "the folder of the job's creator",
        {"volumes": [{"pvc": "data", "mount": "/data", "personal": True}]},
        _personal,
        refusal="is not known",
    ),
    "queue": Feature("a queue", {"queue": "research"}, FieldUses(["queue"])),
    "cluster": Feature("another cluster than that of the step", {"cluster": "far"}, FieldUses(["cluster"])),
    "priority": Feature("a priority from 0 to 100", {"queue": "research", "priority": 50}, FieldUses(["priority"])),
    "gang": Feature(
        "all replicas start together, or none", {"roles": _WORKERS, "gang": {"timeout": "2m"}}, FieldUses(["gang"])
    ),
    "deadlines": Feature(
        "deadlines", {"deadlines": {"queue": "30m", "running": "2h", "total": "1d"}}, FieldUses(["deadlines"])
    ),
    "keep_for": Feature("removal some time after the end", {"keep_for": "1h"}, FieldUses(["keep_for"])),
    "on_end": Feature("what is left at the end", {"on_end": "delete"}, FieldUses(["on_end"])),
    "on_evicted": Feature(
        "kept for a retry when its launcher is evicted", {"on_evicted": "30m"}, FieldUses(["on_evicted"])
    ),
    "pause": Feature("`tfsteps pause` and `resume`"),
    "created_suspended": Feature("created suspended"),
    "hold": Feature("`tfsteps debug --hold`"),
    "live_logs": Feature("live logs of every replica"),
    "usage": Feature("CPU and memory of every replica over time"),
    "tensorboard": Feature(
        "a TensorBoard",
        {
            "tensorboard": {"keep_for": "1d"},
            "output_dir": "/data/runs/{run_id}",
            "volumes": [{"pvc": "data", "mount": "/data"}],
        },
        FieldUses(["tensorboard"]),
    ),
    "adopt": Feature("another launcher goes on with a running job"),
    "labels": Feature("run, task and attempt on everything", {"labels": {"team": "vision"}}, FieldUses(["labels"])),
}
