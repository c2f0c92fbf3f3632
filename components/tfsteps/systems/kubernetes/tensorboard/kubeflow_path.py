"""The log directory of a TensorBoard as Kubeflow's `Tensorboard` resource takes it. Pure.

Source: `kubeflow/kubeflow:components/tensorboard-controller/controllers/tensorboard_controller.go`.
"""

from tfsteps.spec import is_uri
from tfsteps.systems.kubernetes.tensorboard.request import NoStorageError, TensorBoardRequest

_SCHEMES = ("s3://", "gs://")


def logs_path(request: TensorBoardRequest) -> str:
    """Return `spec.logspath`: `pvc://CLAIM/FOLDER`, or a URI.

    Raises:
        NoStorageError: The resource takes one folder only, on a claim or at `s3://` or `gs://`.
    """
    folders = [*request.settings.log_dirs.values()]
    if len(folders) > 1:
        raise NoStorageError("`via: kubeflow` shows one run at a time; show the runs one by one")
    (folder,) = folders
    if is_uri(folder):
        if folder.startswith(_SCHEMES):
            return folder
        raise NoStorageError(f"{folder}: `via: kubeflow` reads s3:// and gs://; remove `via`")
    volume, mount = (request.mount.volume, request.mount.mount) if request.mount else ({}, {})
    claim = volume.get("persistentVolumeClaim")
    if not claim:
        raise NoStorageError(f"{folder} is on no claim, and `via: kubeflow` reads claims only; remove `via`")
    below = folder.removeprefix(str(mount["mountPath"]).rstrip("/")).strip("/")
    parts = [claim["claimName"], str(mount.get("subPath", "")).strip("/"), below]
    return "pvc://" + "/".join(part for part in parts if part)
