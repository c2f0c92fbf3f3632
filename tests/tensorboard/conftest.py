"""A namespace with a claim on a real cluster, the image of TensorBoard on its node, and jobs that ask for one."""

import contextlib
import subprocess

import pytest
import yaml

from tests.cluster import images
from tests.preflight.conftest import cluster, namespace_of
from tests.support.claims import claim_of
from tests.support.event_writer import ScalarWriter
from tests.support.tensorboard_image import provide
from tests.unit.cli.command import COMMAND
from tfsteps.systems.kubernetes.permissions import JOBS

__all__ = ["cluster"]

BUSYBOX = "registry.local/busybox:1"  # a TrainJob takes no pull policy


@pytest.fixture(scope="session")
def tensorboard_image(tmp_path_factory):
    """The name of the image, which is on the node."""
    return provide(tmp_path_factory.mktemp("tensorboard"))


@pytest.fixture(scope="session")
def busybox():
    images.load_programs(BUSYBOX, {}, ["sh"])
    return BUSYBOX


class Namespace:
    """A namespace with the claim `training`, mounted at /data in every replica."""

    def __init__(self, cluster, name, folder, image, busybox):
        self.cluster, self.name, self.folder = cluster, name, folder
        self._image, self._busybox = image, busybox

    def job(self, path, *, image="", until="$TFSTEPS_RUN_ID", code="", **settings):
        """Write a job file whose replica runs `code`, or until `end` is called for its run or for what `until` says."""
        code = code or f"until [ -e /data/{until}.end ]; do sleep 0.2; done"
        job = {
            "name": "quick",
            "image": self._busybox,
            "command": ["sh", "-c", code],
            "roles": {"worker": {}},
            "volumes": [{"pvc": "training", "mount": "/data"}],
            "output_dir": "/data/runs/{run_id}/{task}",
            "on_end": "keep",
            "tensorboard": {"image": image or self._image, **settings},
        }
        path.write_text(yaml.safe_dump(job))
        return str(path)

    def end(self, name):
        (self.folder / f"{name}.end").touch()

    def write(self, run, *steps, tag="loss", task="quick"):
        """Write event files as the replicas of a run's task would."""
        with ScalarWriter(self.folder / "runs" / run / task / "logs/train") as writer:
            for step in steps:
                writer.scalar(tag, step / 2, step)

    @contextlib.contextmanager
    def started(self, *args):
        """Start `tfsteps` in the background; it is killed if it outlives the block."""
        command = [COMMAND, *args, "--namespace", self.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def tfsteps(self, *args, seconds=120):
        command = [COMMAND, *args, "--namespace", self.name]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)

    def tensorboards(self, run):
        """Return the Jobs of a run's TensorBoards."""
        selector = f"app.kubernetes.io/component=tensorboard,tfsteps.dev/run-id={run}"
        return self.cluster.api.list(JOBS, self.name, labelSelector=selector)["items"]


@pytest.fixture(scope="module")
def namespace(cluster, tensorboard_image, busybox):
    with namespace_of(cluster) as name, claim_of(cluster, name) as folder:
        yield Namespace(cluster, name, folder, tensorboard_image, busybox)
