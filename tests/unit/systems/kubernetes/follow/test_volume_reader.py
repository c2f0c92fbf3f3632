"""Where a folder of a job is mounted, and which image a launcher's pod runs."""

import pytest

from tfsteps.systems.kubernetes.follow.volume_reader import volume_pod
from tfsteps.systems.kubernetes.output_folders import find_mount
from tfsteps.systems.launcher_pod import LauncherImage, _image

CLAIM = {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}}
EXPORT = {"name": "export", "nfs": {"server": "filer", "path": "/exports"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}


def spec(*mounts, **more):
    listed = [{"name": name, "mountPath": path} for name, path in mounts]
    return {"volumes": [CLAIM, EXPORT, SCRATCH], "containers": [{"name": "tensorflow", "volumeMounts": listed}], **more}


@pytest.mark.parametrize(
    ("specs", "where"),
    [
        ([], None),
        ([{"containers": [{"name": "tensorflow"}]}], None),
        ([spec(("claim", "/data"))], "claim data at /data"),
        ([spec(("claim", "/data/"))], "claim data at /data/"),
        ([spec(("claim", "/"))], "claim data at /"),
        ([spec(("claim", "/data/logs"))], "claim data at /data/logs"),
        ([spec(("claim", "/data/log"))], None),
        ([spec(("claim", "/data/logs/more"))], None),
        ([spec(("export", "/data"))], "NFS export filer:/exports at /data"),
        ([spec(("scratch", "/data"))], None),
        ([spec(("claim", "/data"), ("scratch", "/data/logs"))], None),
        ([spec(("scratch", "/data"), ("claim", "/data/logs"))], "claim data at /data/logs"),
        ([spec(), spec(("export", "/data"))], "NFS export filer:/exports at /data"),
    ],
)
def test_the_volume_of_a_folder(specs, where):
    result = find_mount(specs, "/data/logs")
    assert (str(result) if result else None) == where


def test_a_job_of_root_is_read_by_root():
    """What root wrote with a narrow umask nobody else can read; such a namespace does not enforce `restricted`."""
    mount = find_mount([spec(("claim", "/data"), securityContext={"runAsUser": 0})], "/data/logs")
    job = {"metadata": {"name": "job", "namespace": "ns"}}
    (container,) = volume_pod(job, {}, mount, LauncherImage("i", "Always", []), [])["spec"]["containers"]
    assert (container["securityContext"]["runAsUser"], container["securityContext"]["runAsNonRoot"]) == (0, False)


def launcher(*names, annotations=None, **spec):
    containers = [{"name": name, "image": f"{name}:1"} for name in names]
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize(
    ("pod", "image"),
    [
        ({"metadata": {}}, None),
        (launcher("wait", "main"), "main:1"),
        (launcher("launcher"), "launcher:1"),
        (launcher("mesh", "own", annotations={"kubectl.kubernetes.io/default-container": "own"}), "own:1"),
        (launcher("own", "main", annotations={"kubectl.kubernetes.io/default-container": "own"}), "main:1"),
    ],
)
def test_the_image_of_the_launchers_pod(pod, image):
    result = _image(pod, "main")
    assert (result and result.image) == image
