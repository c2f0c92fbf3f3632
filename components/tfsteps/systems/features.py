"""The features that a job can use, and the fields for them. Each job system's `capabilities.py` says how it reacts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tfsteps.spec import EnvSource, Role, TrainingJob, format_bytes
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


def job_and_roles(job: TrainingJob) -> Iterator[tuple[Path, Role | TrainingJob]]:
    """Yield the job, then each role: fields of replicas can be set in both."""
    yield (), job
    for name, role in job.roles.items():
        yield ("roles", name), role


def fields(*names: str, of_job: bool = True, of_roles: bool = True) -> Uses:
    """Return a function that finds which of these fields are set, in the job and in its roles.

    Args:
        names: Dotted below the job or a role, such as `resources.gpu`.
        of_job: Look at the job's own fields.
        of_roles: Look at the fields of roles; a field that roles do not have is skipped.
    """

    def find(job: TrainingJob) -> Iterator[Use]:
        for path, part in job_and_roles(job):
            if of_roles if path else of_job:
                yield from (use for name in names for use in _set_field(path, part, name.split(".")))

    return find


def restarts(policy: str) -> Uses:
    """Return a function that finds the fields that set this restart policy for the roles: the job's or the role's."""
    return lambda job: {
        Use(("roles", name, "restart") if role.restart else ("restart",), shown(policy)): name
        for name, role in job.roles.items()
        if (role.restart or job.restart) == policy
    }


def env_sources(job: TrainingJob) -> list[Use]:
    """Return the variables whose value comes from the cluster."""
    return [
        Use((*path, "env", name))
        for path, part in job_and_roles(job)
        for name, value in part.env.items()
        if isinstance(value, EnvSource)
    ]


def _personal(job: TrainingJob) -> list[Use]:
    return [
        Use((*path, "volumes", i, "personal"))
        for path, part in job_and_roles(job)
        for i, volume in enumerate(part.volumes)
        if volume.personal
    ]


def no_commands(job: TrainingJob) -> list[Use]:
    """Return the roles whose program is the entrypoint of their image."""
    return [Use(("roles", name, "command")) for name, role in job.resolved_roles().items() if not role.command]


def _role(name: str) -> Uses:
    return lambda job: [Use(("roles", name))] if getattr(job.roles, name) else []


def _success(value: str) -> Uses:
    return lambda job: [Use(("success",), shown(value))] if job.success == value else []


_UNSET = TrainingJob(name="", roles=Roles())


def _set_field(path: Path, part: Any, names: Sequence[str]) -> Iterator[Use]:
    """Yield the field if its value is not the default."""
    name, *below = names
    value = getattr(part, name, None)
    if below and value is not None:
        yield from _set_field((*path, name), value, below)
    elif value not in (None, getattr(_UNSET if isinstance(part, TrainingJob) else type(part)(), name, None)):
        yield Use((*path, name), _text(name, value))


def _text(name: str, value: object) -> str:
    """Return a value for a message; empty for lists, mappings and durations."""
    if isinstance(value, int) and name in ("memory", "shared_memory"):
        return format_bytes(value)
    return shown(value) if isinstance(value, str | int) else ""


class Feature(msgspec.Struct, frozen=True):
    """A feature that a job can use.

    Attributes:
        title: The user's name for it.
        job: Fields of a job file that use it, as an example; empty = every job, or a command, uses it.
        uses: Finds the fields that use it.
        refusal: The problem with such a field if a job system refuses it; the reason follows.
    """

    title: str
    job: Mapping[str, Any] = {}
    uses: Uses = lambda _job: ()
    refusal: str = "is not supported"


_WORKERS = {"worker": {"replicas": 2}}

FEATURES: Mapping[str, Feature] = {
    "chief": Feature("a chief", {"roles": {"chief": {}, **_WORKERS}}, _role("chief")),
    "worker": Feature("several workers", {"roles": _WORKERS}, _role("worker")),
    "ps": Feature("parameter servers", {"roles": {"chief": {}, "ps": {"replicas": 2}, **_WORKERS}}, _role("ps")),
    "evaluator": Feature(
        "an evaluator beside the cluster", {"roles": {"chief": {}, **_WORKERS, "evaluator": {}}}, _role("evaluator")
    ),
    "entrypoint": Feature("the image's own program", {"command": []}, no_commands, refusal="is missing"),
    "code": Feature("the program's files, without an image of their own", {"code": "."}, fields("code")),
    "role_templates": Feature(
        "roles with an image, command, variables and resources of their own",
        {
            "roles": {
                "chief": {"image": "acme/lead:1", "command": ["python", "lead.py"], "resources": {"cpu": 2}},
                "worker": {"env": {"BATCH": "8"}},
            }
        },
        fields("image", "command", "env", "resources", of_job=False),
    ),
    "restart_never": Feature("`restart: never`", {"restart": "never"}, restarts("never")),
    "restart_on_failure": Feature("`restart: on_failure`", {"restart": "on_failure"}, restarts("on_failure")),
    "restart_always": Feature("`restart: always`", {"restart": "always"}, restarts("always")),
    "restart_exit_code": Feature("`restart: exit_code`", {"restart": "exit_code"}, restarts("exit_code")),
    "backoff_limit": Feature(
        "a limit of restarts", {"restart": "exit_code", "backoff_limit": 5}, fields("backoff_limit", of_roles=False)
    ),
    "role_backoff_limit": Feature(
        "a limit of restarts for one role",
        {"roles": {"chief": {}, "worker": {"backoff_limit": 7}}, "restart": "on_failure"},
        fields("backoff_limit", of_job=False),
    ),
    "success_chief": Feature(
        "the chief, or worker 0, decides", {"roles": _WORKERS, "success": "chief"}, _success("chief")
    ),
    "success_all_workers": Feature(
        "all workers must succeed", {"roles": _WORKERS, "success": "all_workers"}, _success("all_workers")
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
        fields("volumes"),
    ),
    "pod_settings": Feature(
        "annotations, a ServiceAccount and how images are pulled",
        {"annotations": {"note": "x"}, "service_account": "trainer", "image_pull_secrets": ["hub"]},
        fields("annotations", "service_account", "image_pull_secrets", "image_pull_policy"),
    ),
    "cpu": Feature("CPUs", {"resources": {"cpu": 2}}, fields("resources.cpu", "resources.limits.cpu")),
    "memory": Feature(
        "memory", {"resources": {"memory": "2Gi"}}, fields("resources.memory", "resources.limits.memory")
    ),
    "shared_memory": Feature(
        "a size of /dev/shm",
        {"resources": {"memory": "2Gi", "shared_memory": "1Gi"}},
        fields("resources.shared_memory"),
    ),
    "placement": Feature(
        "node selectors and tolerations",
        {"node_selector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
        fields("node_selector", "tolerations"),
    ),
    "pod_patch": Feature("a patch of the pods", {"pod": {"spec": {"hostNetwork": True}}}, fields("pod")),
    "gpu": Feature("GPUs", {"resources": {"gpu": 2}}, fields("resources.gpu")),
    "gpu_type": Feature("a model of GPU", {"resources": {"gpu": 1, "gpu_type": "T4"}}, fields("resources.gpu_type")),
    "platform_gpu": Feature(
        "GPUs as the platform's settings call them: a fraction, a vendor",
        {"resources": {"gpu_fraction": 0.5}},
        fields("resources.gpu_fraction", "resources.gpu_vendor"),
    ),
    "all_gpus": Feature("all GPUs of the node", {"resources": {"all_gpus": True}}, fields("resources.all_gpus")),
    "personal": Feature(
        "the folder of the job's creator",
        {"volumes": [{"pvc": "data", "mount": "/data", "personal": True}]},
        _personal,
        refusal="is not known",
    ),
    "queue": Feature("a queue", {"queue": "research"}, fields("queue")),
    "cluster": Feature("another cluster than that of the step", {"cluster": "far"}, fields("cluster")),
    "priority": Feature("a priority from 0 to 100", {"queue": "research", "priority": 50}, fields("priority")),
    "gang": Feature(
        "all replicas start together, or none", {"roles": _WORKERS, "gang": {"timeout": "2m"}}, fields("gang")
    ),
    "deadlines": Feature(
        "deadlines", {"deadlines": {"queue": "30m", "running": "2h", "total": "1d"}}, fields("deadlines")
    ),
    "keep_for": Feature("removal some time after the end", {"keep_for": "1h"}, fields("keep_for")),
    "on_end": Feature("what is left at the end", {"on_end": "delete"}, fields("on_end")),
    "on_evicted": Feature("kept for a retry when its launcher is evicted", {"on_evicted": "30m"}, fields("on_evicted")),
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
        fields("tensorboard"),
    ),
    "adopt": Feature("another launcher goes on with a running job"),
    "labels": Feature("run, task and attempt on everything", {"labels": {"team": "vision"}}, fields("labels")),
}
