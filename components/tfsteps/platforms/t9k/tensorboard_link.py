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


def spec_problems(job: TrainingJob, options: T9kOptions) -> list[Problem]:
    """Return why a TensorBoard would have nothing to show."""
    folder = _output_dir(job)
    if not job.tensorboard or _elsewhere(options) or _claim(job, folder) or _bucket(options, folder):
        return []
    if folder.startswith("s3://"):
        wrong = "needs the name of the Secret for the event files at s3://"
        fix = "Add `systems: {t9k: {tensorboard_s3: {secret: NAME}}}`"
    else:
        wrong = "has nothing to read: `output_dir` is on no claim that is mounted"
        fix = "Mount one with `volumes: [{pvc: ..., mount: ...}]`, or set `systems.t9k.tensorboard_file_sets`"
    return [Problem(path=("tensorboard",), wrong=wrong, fix=fix)]


def spec(job: TrainingJob, options: T9kOptions, places: OutputPaths) -> dict[str, Any]:
    """Return `spec.tensorboardSpec`; T9k gives the object the job's name."""
    tensorboard, logs = job.tensorboard, places.tensorboard(job)
    images = [tensorboard and tensorboard.image, job.image, *(role.image for _, role in job.roles.items())]
    result: dict[str, Any] = {"image": next(image for image in images if image)}
    if options.tensorboard_file_sets:
        result["trainingLogFilesets"] = list(options.tensorboard_file_sets)
    if log_dir := _log_dir(job, options, logs):
        result["logDir"] = log_dir
    if options.tensorboard_queue:
        result["scheduler"] = {"t9kScheduler": {"queue": options.tensorboard_queue}}
    if options.tensorboard_resources:
        result["resources"] = options.tensorboard_resources
    return result


def _log_dir(job: TrainingJob, options: T9kOptions, logs: str) -> dict[str, Any]:
    """Return `logDir`: what the options name, else where the event files are."""
    s3, result = options.tensorboard_s3, dict[str, Any]()
    if not _elsewhere(options) and (claim := _claim(job, logs)):
        below = posixpath.relpath(logs, claim.mount)
        result["pvc"] = [{"name": claim.pvc, "subPath": [posixpath.join(claim.sub_path or "", below)]}]
    if s3 and (uris := s3.uris or _bucket(options, logs)):
        result["s3"] = {**({"secretRef": {"name": s3.secret}} if s3.secret else {}), "uri": list(uris)}
    if options.tensorboard_urls:
        result["http"] = {"url": list(options.tensorboard_urls)}
    return result


def _elsewhere(options: T9kOptions) -> bool:
    """Tell whether the options name locations to read."""
    s3 = options.tensorboard_s3
    return bool(options.tensorboard_file_sets or options.tensorboard_urls or (s3 and s3.uris))


def _bucket(options: T9kOptions, folder: str) -> tuple[str, ...]:
    """Return the folder of the event files if it is in object storage that T9k may read; empty = it is not."""
    named = bool(options.tensorboard_s3) and not _elsewhere(options)
    return (folder,) if named and folder.startswith("s3://") else ()


def _output_dir(job: TrainingJob) -> str:
    """Return the output folder, as far as it is known before the run."""
    lasting = (volume.mount for volume in job.volumes if (volume.pvc or volume.nfs) and not volume.read_only)
    return job.output_dir or next(lasting, "")


def _claim(job: TrainingJob, path: str) -> Volume | None:
    """Return the job's volume that contains `path`, if it is a claim."""
    over = [volume for volume in job.volumes if f"{path}/".startswith(f"{volume.mount.rstrip('/')}/")]
    nearest = max(over, key=lambda volume: len(volume.mount), default=None)
    return nearest if nearest and nearest.pvc else None
