"""How a job's roles become a TfJob's replica types, and the names that follow from it. Pure.

A TfJob has MASTER, WORKER and PS, and its MASTER decides. Without a chief, worker 0 decides: it is the MASTER then, and
the WORKERs are the workers from 1 on. An evaluator has no type; it is a Kubernetes Job of ours beside the TfJob.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tfsteps.runs.identity import short_hash
from tfsteps.spec import RoleName, TrainingJob

Api = Literal["tensorflow.org", "kubeflow.org"]
Type = Literal["MASTER", "WORKER", "PS"]
CUT = 40  # characters of the job's name that the operator keeps in the names it makes
_NAME = 63  # of a Job, a Service and a pod's host
_RUNTIME_ID = 4  # characters, as the operator's own; the job's name is what makes the others' names unique
_SUFFIX = len("-12345")  # of a Job's pods


class Part(msgspec.Struct, frozen=True):
    """The replicas of one type.

    Attributes:
        type: Theirs.
        role: Whose they are.
        replicas: How many.
        first: Index in the role of the type's task 0.
    """

    type: Type
    role: RoleName
    replicas: int
    first: int = 0


def parts(job: TrainingJob, api: Api) -> list[Part]:
    """Return what a TfJob of `job` consists of; the evaluator is no part of it."""
    chief, worker, ps = job.roles.chief, job.roles.worker, job.roles.ps
    result = [Part("MASTER", "chief", 1)] if chief else []
    if worker and (chief or api == "kubeflow.org"):  # there the job says that WORKER 0 decides
        result.append(Part("WORKER", "worker", worker.replicas))
    elif worker:
        rest = [Part("WORKER", "worker", worker.replicas - 1, first=1)] if worker.replicas > 1 else []
        result += [Part("MASTER", "worker", 1), *rest]
    return [*result, Part("PS", "ps", ps.replicas)] if ps else result


def decisive_type(job: TrainingJob, api: Api) -> Type:
    """Return the type whose replica 0 decides."""
    return "WORKER" if api == "kubeflow.org" and not job.roles.chief else "MASTER"


def runtime_id(name: str) -> str:
    """Return the RuntimeId of the job called `name`: set by us, all names that the operator makes are known."""
    return short_hash(name)[:_RUNTIME_ID]


def name_limit(job: TrainingJob, api: Api) -> int:
    """Return how long the job's name may be, so that no name is cut."""
    tails = [f"-{part.type}-{'x' * _RUNTIME_ID}-{part.replicas - 1}" for part in parts(job, api)]
    return min(CUT, _NAME - _SUFFIX - max(map(len, [*tails, "-evaluator"])))


def hosts(job: TrainingJob, api: Api, name: str, port: int) -> Mapping[RoleName, list[str]]:
    """Return `host:port` of each replica in TF_CONFIG's cluster, by role and index."""
    addresses: dict[RoleName, list[str]] = {}
    for part in parts(job, api):
        stem = f"{name}-{part.type.lower()}-{runtime_id(name)}"
        addresses.setdefault(part.role, []).extend(f"{stem}-{i}:{port}" for i in range(part.replicas))
    return addresses
