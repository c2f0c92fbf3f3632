"""Maps a job's roles to the replica types of a TfJob, and computes the names of its objects. Pure.

A TfJob has MASTER, WORKER and PS, and its MASTER decides how the job ends. Without a chief, worker 0 decides, so it is
the MASTER, and the WORKERs start at worker 1. A TfJob has no type for an evaluator: tfsteps creates a Kubernetes Job.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tfsteps.runs.identity import short_hash
from tfsteps.spec import RoleName, TrainingJob

Api = Literal["tensorflow.org", "kubeflow.org"]
Type = Literal["MASTER", "WORKER", "PS"]
CUT = 40  # the operator cuts the job's name to this many characters in other names
_NAME = 63  # limit of the names of a Job, a Service and a pod's host
_RUNTIME_ID = 4  # characters, as the operator's own ids have; the job's name makes other names unique
_SUFFIX = len("-12345")  # of the names of a Job's pods


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
