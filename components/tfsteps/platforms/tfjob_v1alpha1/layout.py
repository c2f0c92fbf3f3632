"""Maps a job's roles to the replica types of a TfJob, and computes the names of its objects. Pure.

A TfJob has MASTER, WORKER and PS, and its MASTER decides how the job ends. Without a chief, worker 0 decides, so it is
the MASTER, and the WORKERs start at worker 1. A TfJob has no type for an evaluator: tfsteps creates a Kubernetes Job.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from tfsteps.platforms.tfjob_v1alpha1.options import TfJobOptions, keeps_operators_tf_config
from tfsteps.runs.identity import short_hash
from tfsteps.spec import Problem, RoleName, TrainingJob, is_uri
from tfsteps.systems.kubernetes.render.command_wrapper import unexpanded

Api = Literal["tensorflow.org", "kubeflow.org"]
Type = Literal["MASTER", "WORKER", "PS"]
CUT = 40  # the operator cuts the job's name to this many characters in other names
_NAME = 63  # limit of the names of a Job, a Service and a pod's host
_RUNTIME_ID = 4  # characters, as the operator's own ids have; the job's name makes other names unique
_SUFFIX = len("-12345")  # of the names of a Job's pods
_PATH = ("systems", "tfjob-v1alpha1")
_JOB_LIMIT = 6  # restarts of one replica: the default of a Kubernetes Job, which the operator does not change


class Part(msgspec.Struct, frozen=True):
    """The replicas of one type.

    Attributes:
        type: The type.
        role: The role of the replicas.
        replicas: The number of replicas.
        first: Index in the role of the type's task 0.
    """

    type: Type
    role: RoleName
    replicas: int
    first: int = 0


def parts(job: TrainingJob, api: Api) -> list[Part]:
    """Return the parts of the TfJob of `job`; the evaluator is not one of them."""
    chief, worker, ps = job.roles.chief, job.roles.worker, job.roles.ps
    result = [Part("MASTER", "chief", 1)] if chief else []
    if worker and (chief or api == "kubeflow.org"):  # in kubeflow.org the TfJob can name WORKER 0 as decisive
        result.append(Part("WORKER", "worker", worker.replicas))
    elif worker:
        rest = [Part("WORKER", "worker", worker.replicas - 1, first=1)] if worker.replicas > 1 else []
        result += [Part("MASTER", "worker", 1), *rest]
    return [*result, Part("PS", "ps", ps.replicas)] if ps else result


def decisive_type(job: TrainingJob, api: Api) -> Type:
    """Return the type of the decisive replica, which has index 0."""
    return "WORKER" if api == "kubeflow.org" and not job.roles.chief else "MASTER"


def runtime_id(name: str) -> str:
    """Return the RuntimeId of the job `name`. tfsteps sets it to know the names of all objects in advance."""
    return short_hash(name)[:_RUNTIME_ID]


def name_limit(job: TrainingJob, api: Api) -> int:
    """Return the maximum length of the job's name, so that no derived name is cut."""
    tails = [f"-{part.type}-{'x' * _RUNTIME_ID}-{part.replicas - 1}" for part in parts(job, api)]
    return min(CUT, _NAME - _SUFFIX - max(map(len, [*tails, "-evaluator"])))


def hosts(job: TrainingJob, api: Api, name: str, port: int, *, by_type: bool) -> Mapping[str, list[str]]:
    """Return `host:port` of each replica in TF_CONFIG's cluster.

    Args:
        job: The job. Its only replica is at localhost.
        api: The group of its API.
        name: The TfJob's name.
        port: The replicas' port.
        by_type: Whether the cluster's tasks have the operator's names, such as `master`; else those of the roles.
    """
    addresses: dict[str, list[str]] = {}
    for part in parts(job, api):
        stem = f"{name}-{part.type.lower()}-{runtime_id(name)}"
        names = ["localhost"] if job.replicas == 1 else [f"{stem}-{i}" for i in range(part.replicas)]
        addresses.setdefault(part.type.lower() if by_type else part.role, []).extend(f"{host}:{port}" for host in names)
    return addresses


def spec_problems(job: TrainingJob, options: TfJobOptions) -> list[Problem]:
    """Return a problem for each value and combination that a TfJob cannot have."""
    shifted = {"TFSTEPS_INDEX"} if any(part.first for part in parts(job, options.api)) else set()
    by_shell = unexpanded(job, shifted if keeps_operators_tf_config(job) else {"TF_CONFIG", "TFSTEPS_INDEX"})
    return [*_default_ps(job, options), *_tensorboard(job, options), *_scheduler(options), *by_shell]


def warnings(job: TrainingJob, options: TfJobOptions) -> list[str]:
    """Return a sentence for each field with another effect in a TfJob."""
    sentences = []
    if options.default_ps and job.volumes:
        sentences.append(
            "`default_ps`: the operator's own program has no access to the job's volumes and saves nothing there."
        )
    kept = keeps_operators_tf_config(job)
    if kept and options.tf_config is None:
        sentences.append(
            "TF_CONFIG is the operator's, with a `master`: TensorFlow 2 refuses it, and no role has a `command`."
        )
    if options.default_ps and not kept:
        sentences.append(
            "`default_ps`: the operator's servers call the chief `master`; a program of TensorFlow 1 needs "
            "`systems.tfjob-v1alpha1.tf_config: operator`."
        )
    bare = [part.role for part in parts(job, options.api) if part.first and not job.resolved_roles()[part.role].command]
    if kept and bare:
        sentences.append(f"TFSTEPS_INDEX is not set in {bare[0]} 1 and higher: that takes a `command`.")
    if job.resolved_roles()[job.decisive_replica[0]].restart == "on_failure":
        sentences.append(
            "`restart: on_failure`: exit codes 1 to 127 of the replica that decides end the job: the operator's choice."
        )
    if any(role.restart == "exit_code" and name != "evaluator" for name, role in job.resolved_roles().items()):
        sentences.append(
            "`restart: exit_code`: exit codes 1 to 127 are final only for the decisive replica; others restart."
        )
    if job.effective_backoff_limit > _JOB_LIMIT:
        sentences.append(f"`backoff_limit`: a replica is restarted at most {_JOB_LIMIT} times.")
    if job.tensorboard and job.tensorboard.life_time:
        sentences.append(f"{job.tensorboard.life_time} has no effect: TensorBoard exists as long as the TfJob.")
    return sentences


def _default_ps(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    path = (*_PATH, "default_ps")
    if options.default_ps and options.api == "kubeflow.org":
        fix = "Remove it, or write `api: tensorflow.org`"
        wrong = "is not supported by tf-operator 0.1.0: PS requires a template"
        yield Problem(path=path, value="true", wrong=wrong, fix=fix)
    if options.default_ps and not job.roles.ps:
        yield Problem(path=path, value="true", wrong="requires the role `ps`", fix="Add `ps: {}`, or remove it")


def _tensorboard(job: TrainingJob, options: TfJobOptions) -> Iterator[Problem]:
    if not job.tensorboard:
        return
    if options.api == "kubeflow.org":
        fix = "Remove it, or write `systems.tfjob-v1alpha1.api: tensorflow.org`"
        yield Problem(path=("tensorboard",), wrong="is not supported by tf-operator 0.1.0", fix=fix)
    elif not (is_uri(job.output_dir or "") or any(not volume.empty_dir for volume in job.volumes) or _patched(job)):
        wrong = "has no event files to read: they are lost with the replicas' pods"
        fix = "Mount a claim with `volumes: [{pvc: ..., mount: ...}]`, or set `output_dir` to a gs:// address"
        yield Problem(path=("tensorboard",), wrong=wrong, fix=fix)


def _patched(job: TrainingJob) -> bool:
    """Tell whether a pod patch gives the decisive replica volumes, such as an `azureFile`."""
    patches = (job.pod, job.resolved_roles()[job.decisive_replica[0]].pod)
    return any((patch.get("spec") or {}).get("volumes") for patch in patches)


def _scheduler(options: TfJobOptions) -> Iterator[Problem]:
    if options.scheduler_name and options.api == "tensorflow.org":
        fix = "Write `pod: {spec: {schedulerName: ...}}`, or `api: kubeflow.org`"
        path, wrong = (*_PATH, "scheduler_name"), "is supported only with kubeflow.org"
        yield Problem(path=path, value=options.scheduler_name, wrong=wrong, fix=fix)
