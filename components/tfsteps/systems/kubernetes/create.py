"""Creates the job object of a job, in the version of its API that the cluster has."""

from typing import TYPE_CHECKING, Any

from tfsteps.kube.errors import ApiError
from tfsteps.spec import TrainingJob
from tfsteps.systems.kubernetes.job_kind import JobKind, RenderedJob

if TYPE_CHECKING:
    from tfsteps.kube.client import Api


def create(
    api: "Api", kind: JobKind, job: TrainingJob, rendered: RenderedJob, *, dry_run: bool = False, once: bool = False
) -> dict[str, Any]:
    """Create the job object and return it; once more as an older version if the API server does not know a field.

    The request itself finds out the version: such a refusal comes before everything else and creates nothing. Whatever
    else is answered, or not answered, says nothing about the version.

    Args:
        api: The cluster.
        kind: Of the object.
        job: The job.
        rendered: What is rendered for it: the newest version.
        dry_run: Store nothing.
        once: Send each version once.

    Raises:
        ApiError: The API server refuses the object, or is unavailable.
        LaunchError: The cluster's version cannot express the job.
    """
    manifest = rendered.manifest
    while True:
        try:
            return api.create(kind.resource, rendered.namespace, manifest, dry_run=dry_run, once=once)
        except ApiError as error:
            older = kind.older(job, manifest, str(error)) if error.reason == "BadRequest" else None
            if older is None:
                raise
            manifest = older
