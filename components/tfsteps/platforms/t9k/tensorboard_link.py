"""The TensorBoard that T9k runs beside a job. Pure."""

import posixpath
from collections.abc import Mapping
from typing import Any

from tfsteps.kube.resource import Resource
from tfsteps.platforms.t9k.options import T9kOptions
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Problem, TrainingJob
from tfsteps.spec.pod import Volume
from tfsteps.systems.kubernetes.tensorboard_link import TensorBoardLink

BOARDS = Resource("tensorstack.dev/v1beta1", "tensorboards", "TensorBoard")


def of_job(item: Mapping[str, Any]) -> TensorBoardLink | None:
    """Return the TensorBoard in a job's status; None = none, or not yet."""
    status = (item.get("status") or {}).get("tensorboard")
    if not status:
        return None
    note = "" if status.get("ready") else f"{status.get('reason', '')}: {status.get('note', '')}".strip(": ")
    name = (status.get("dependent") or {}).get("name") or item["metadata"]["name"]
    return TensorBoardLink(resource=BOARDS, name=name, note=note)


def problems(job: TrainingJob, options: T9kOptions) -> list[Problem]:
    """Return why a TensorBoard would have nothing to show."""
    if not job.tensorboard or options.tensorboard_file_sets or _claim(job, _output_dir(job)):
        return []
    wrong = "has nothing to read: `output_dir` is on no claim that is mounted"
    fix = "Mount one with `volumes: [{pvc: ..., mount: ...}]`, or set `systems.t9k.tensorboard_file_sets`"
    return [Problem(path=("tensorboard",), wrong=wrong, fix=fix)]


def spec(job: TrainingJob, options: T9kOptions, places: OutputPaths) -> dict[str, Any]:
    """Return `spec.tensorboardSpec`; T9k gives the object the job's name."""
    tensorboard, logs = job.tensorboard, places.tensorboard(job)
    images = [tensorboard and tensorboard.image, job.image, *(role.image for _, role in job.roles.items())]
    result: dict[str, Any] = {"image": next(image for image in images if image)}
    claim = _claim(job, logs)
    if options.tensorboard_file_sets:
        result["trainingLogFilesets"] = list(options.tensorboard_file_sets)
    elif claim:
        below = posixpath.relpath(logs, claim.mount)
        result["logDir"] = {"pvc": [{"name": claim.pvc, "subPath": [posixpath.join(claim.sub_path or "", below)]}]}
    if options.tensorboard_queue:
        result["scheduler"] = {"t9kScheduler": {"queue": options.tensorboard_queue}}
    if options.tensorboard_resources:
        result["resources"] = options.tensorboard_resources
    return result


def _output_dir(job: TrainingJob) -> str:
    """Return the output folder, as far as it is known before the run."""
    lasting = (volume.mount for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only)
    return job.output_dir or next(lasting, "")


def _claim(job: TrainingJob, path: str) -> Volume | None:
    """Return the job's volume that contains `path`, if it is a claim."""
    over = [volume for volume in job.volumes if f"{path}/".startswith(f"{volume.mount.rstrip('/')}/")]
    nearest = max(over, key=lambda volume: len(volume.mount), default=None)
    return nearest if nearest and nearest.pvc else None
