"""The TensorBoard that a job description asks for, without a job object. Pure."""

import pathlib

import msgspec

from tfsteps.runs.identity import Identity
from tfsteps.spec import Resources, TrainingJob
from tfsteps.systems.kubernetes.output_folders import output_paths
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER, pod_template
from tfsteps.systems.kubernetes.tensorboard.request import TensorBoardRequest, request_of, settings_of


def request_for(job: TrainingJob, identity: Identity, namespace: str, log_dir: str = "") -> TensorBoardRequest:
    """Return the request that a launcher of `job` would make; both then have one TensorBoard.

    Args:
        job: The job, or one that has only what gives access to the storage: volumes, env, ServiceAccount, placement.
        identity: The run is in the labels; task and attempt have no effect if the output folder has `{run_id}`.
        namespace: The namespace.
        log_dir: Folder or URI of the event files, with the fields `{name}`, `{run_id}` and `{task}`. Empty = the folder
            of the run.

    Raises:
        NoStorageError: No pod can read the log directory.
    """
    places = output_paths(job, identity, pathlib.Path())
    settings = settings_of(job, identity, places)
    if log_dir:
        settings = msgspec.structs.replace(settings, log_dirs={"": places.output})
    specs = [
        pod_template(
            job,
            name,
            msgspec.structs.replace(role, resources=Resources()),  # it needs no accelerator, and no node that has one
            identity,
            places,
            gpu_label="",
            more_env=[],
        )["spec"]
        for name, role in job.resolved_roles().items()
    ]
    item = {"metadata": {"namespace": namespace, "labels": {**job.labels, **identity.labels()}}}
    return request_of(item, specs, CONTAINER, settings)
