"""Which TensorBoard a job, or its object, asks for: log directory, storage, credentials and life time. Pure."""

import pathlib
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.runs.identity import PREFIX, RUN_ID, Identity, short_hash
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.spec import Resources, TensorBoard, TrainingJob, is_uri
from tfsteps.systems.kubernetes.output_folders import Mount, find_mount, output_paths, output_template, user_of
from tfsteps.systems.kubernetes.render.pod_template import CONTAINER, pod_template

SETTINGS = f"{PREFIX}tensorboard"
"""Annotation of a job object: the `Settings` of its TensorBoard as JSON."""

URL = f"{PREFIX}tensorboard-url"
"""Annotation of a job object: the address of its TensorBoard."""

KUBEFLOW = "kubeflow"
"""The value of `via` for a `Tensorboard` resource of Kubeflow."""

IDLE_SECONDS, KEEP_SECONDS = 3600.0, 86400.0

_SOURCES = ("persistentVolumeClaim", "nfs", "csi", "azureFile", "cephfs", "glusterfs", "iscsi", "rbd", "flexVolume")
_CREDENTIALS = ("AWS_", "S3_", "GOOGLE_", "GCS_", "STORAGE_EMULATOR_HOST")
_KEY_FILES = ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")


class TensorBoardSettings(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a job says about its TensorBoard.

    Attributes:
        log_dirs: Folders or URIs of event files, as the replicas see them, by the name that they get in TensorBoard. A
            single one has an empty name.
        image: The image; empty = the image of tfsteps.
        idle: Seconds without a request and without new event data after which it exits.
        keep_for: Seconds after the last event data after which it exits.
        total: Seconds from the job's creation to its last deadline; 0 = not known.
        via: What serves it: `job` or `kubeflow`, as in a job file.
    """

    log_dirs: Mapping[str, str]
    image: str = ""
    idle: float = IDLE_SECONDS
    keep_for: float = KEEP_SECONDS
    total: float = 0.0
    via: str = "job"

    @property
    def arguments(self) -> list[str]:
        """The log directories as arguments of `tfsteps.tensorboard.service`."""
        return [f"{name}={folder}" if name else folder for name, folder in self.log_dirs.items()]


class TensorBoardRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A TensorBoard to start. Requests of one run with equal storage and log directory have one name.

    Attributes:
        namespace: Its namespace.
        labels: The labels of its run.
        job_labels: Labels of the job file of the job that started it; without those with a prefix, which controllers
            may act upon. They are not on its pod, which a Service of somebody else could select by them.
        settings: Log directory, image and life time.
        mount: The volume with the log directory; None = it is a URI.
        pod: Fields of the pod's spec that give access to the storage.
        env: Variables of the container with credentials, and with the address of an object store.
        env_from: Sources of more variables.
        volumes: Volumes with credentials.
        mounts: Mounts of these.
    """

    namespace: str
    labels: Mapping[str, str]
    job_labels: Mapping[str, str] = {}
    settings: TensorBoardSettings
    mount: Mount | None = None
    pod: Mapping[str, Any] = {}
    env: Sequence[Mapping[str, Any]] = ()
    env_from: Sequence[Mapping[str, Any]] = ()
    volumes: Sequence[Mapping[str, Any]] = ()
    mounts: Sequence[Mapping[str, Any]] = ()

    @property
    def name(self) -> str:
        """The name of its objects."""
        volume = {key: value for key, value in (self.mount.volume if self.mount else {}).items() if key != "name"}
        sub_path = str(self.mount.mount.get("subPath", "")) if self.mount else ""
        storage = msgspec.json.encode(volume, order="deterministic").decode()
        other = [self.settings.via] if self.settings.via != "job" else []
        return f"tensorboard-{short_hash(self.labels[RUN_ID], storage, sub_path, *self.settings.arguments, *other)}"

    @property
    def port(self) -> str:
        """The name of its Service's port."""
        return f"http-{self.name}" if self.settings.via == KUBEFLOW else "http"


class NoStorageError(Exception):
    """The log directory is on no storage that another pod can read; the message says what to do."""


def settings_of(job: TrainingJob, identity: Identity, paths: OutputPaths) -> TensorBoardSettings:
    """Return the settings of a job's TensorBoard; the defaults if the job has none."""
    wish = job.tensorboard or TensorBoard()
    whole_run = "" if wish.log_dir else run_folder(job, identity)
    return TensorBoardSettings(
        log_dirs={"": whole_run or paths.tensorboard(job)},
        image=wish.image or "",
        idle=IDLE_SECONDS if wish.idle is None else wish.idle,
        keep_for=KEEP_SECONDS if wish.keep_for is None else wish.keep_for,
        total=job.deadlines.total,
        via=wish.via,
    )


def run_folder(job: TrainingJob, identity: Identity) -> str:
    """Return the folder or URI with the output of the whole run; empty = the output folder has no `{run_id}`."""
    folder = ""
    values = {"name": job.name, "run_id": identity.run}
    seen = False
    for literal, field, _, _ in string.Formatter().parse(output_template(job)):
        head, slash, _ = literal.partition("/")
        if seen:
            return f"{folder}{head}" if slash or field is None else ""
        if field not in (None, "run_id", "name"):
            return ""
        folder += literal + (values[field] if field else "")
        seen = field == "run_id"
    return folder if seen else ""


def request_of(
    item: Mapping[str, Any], specs: Iterable[Mapping[str, Any]], container: str, settings: TensorBoardSettings
) -> TensorBoardRequest:
    """Return the request for the TensorBoard of a job object.

    Args:
        item: The job object.
        specs: Specs of its replicas' pods.
        container: Name of the container that trains.
        settings: The settings of the TensorBoard.

    Raises:
        NoStorageError: No other pod can read the log directory.
    """
    specs = list(specs)
    mount = None
    for folder in settings.log_dirs.values():
        folder_mount = None if is_uri(folder) else find_mount(specs, folder, _SOURCES)
        if not (folder_mount or is_uri(folder)):
            wrong = f"{folder} is on no claim or other volume that a second pod can mount"
            raise NoStorageError(f"{wrong}; use a path on a claim or NFS export, or a URI")
        if mount and folder_mount and mount.volume != folder_mount.volume:
            raise NoStorageError(f"{folder} is on another volume than the other runs; show it by itself")
        mount = folder_mount or mount
    spec = mount.spec if mount else specs[0]
    trainer = next((item for item in spec["containers"] if item["name"] == container), spec["containers"][0])
    meta = item["metadata"]
    every = meta.get("labels") or {}
    labels = {key: text for key, text in every.items() if key in (RUN_ID, f"{PREFIX}pipeline")}
    job_labels = {key: text for key, text in every.items() if "/" not in key}
    pod = {key: spec[key] for key in ("nodeSelector", "tolerations", "imagePullSecrets") if key in spec}
    groups = {
        key: value
        for key, value in (spec.get("securityContext") or {}).items()
        if key in ("fsGroup", "fsGroupChangePolicy", "supplementalGroups")
    }
    user = {key: value for key, value in user_of(spec, trainer).items() if value != 0}  # never root
    if groups or user:
        pod["securityContext"] = {**groups, **user}
    request = TensorBoardRequest(
        namespace=meta["namespace"], labels=labels, job_labels=job_labels, settings=settings, mount=mount, pod=pod
    )
    return request if mount else _with_credentials(request, spec, trainer)


def _with_credentials(
    request: TensorBoardRequest, spec: Mapping[str, Any], trainer: Mapping[str, Any]
) -> TensorBoardRequest:
    """Return the request with what the training container uses to reach its object store."""
    env = [variable for variable in trainer.get("env") or [] if variable["name"].startswith(_CREDENTIALS)]
    files = [variable.get("value", "") for variable in env if variable["name"] in _KEY_FILES]
    mounts = [
        mount
        for mount in trainer.get("volumeMounts") or []
        if any(f"{file}/".startswith(f"{mount['mountPath'].rstrip('/')}/") for file in files)
    ]
    names = {mount["name"] for mount in mounts}
    account = {key: spec[key] for key in ("serviceAccountName",) if key in spec}
    return msgspec.structs.replace(
        request,
        pod={**request.pod, **account},
        env=env,
        env_from=trainer.get("envFrom") or [],
        volumes=[volume for volume in spec.get("volumes") or [] if volume["name"] in names],
        mounts=mounts,
    )


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
    paths = output_paths(job, identity, pathlib.Path())
    settings = settings_of(job, identity, paths)
    if log_dir:
        settings = msgspec.structs.replace(settings, log_dirs={"": paths.output})
    specs = [
        pod_template(
            job,
            name,
            msgspec.structs.replace(role, resources=Resources()),  # it needs no accelerator, and no node that has one
            identity,
            paths,
            gpu_label="",
            more_env=[],
        )["spec"]
        for name, role in job.resolved_roles().items()
    ]
    item = {"metadata": {"namespace": namespace, "labels": {**job.labels, **identity.labels()}}}
    return request_of(item, specs, CONTAINER, settings)
