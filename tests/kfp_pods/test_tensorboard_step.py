"""The tensorboard step in a pod of Kubeflow Pipelines: event files on S3 and on a claim, and one TensorBoard a run."""

import json
import os

import pytest

from tests.kfp_pods.backend import Step, job
from tests.support.event_writer import ScalarWriter, by_shell
from tests.support.s3 import served_bucket
from tests.tensorboard.conftest import tensorboard_image
from tfsteps.kube.resource import Resource
from tfsteps.systems.kubernetes.follow.tensorboard import proxy_path
from tfsteps.systems.kubernetes.permissions import JOBS

__all__ = ["tensorboard_image"]

pytestmark = pytest.mark.cluster
SECRETS = Resource("v1", "secrets", "Secret")
CLAIM = {"volumes": [{"pvc": "training", "mount": "/data"}], "output_dir": "/data/runs/{run_id}"}


def tensorboards(backend, run):
    selector = f"app.kubernetes.io/component=tensorboard,tfsteps.dev/run-id={run.id}"
    return [
        item["metadata"]["name"] for item in backend.api.list(JOBS, backend.namespace, labelSelector=selector)["items"]
    ]


def answer(backend, name, path):
    """Return what a TensorBoard answers, which is reached through the API server."""
    with backend.api.forward("GET", proxy_path(backend.namespace, name) + path, None, {}) as response:
        assert response.status == 200, response.data
        return json.loads(response.data)


@pytest.mark.skipif("TFSTEPS_LAUNCHER_IMAGE" in os.environ, reason="pods of another machine do not reach this one")
def test_event_files_on_s3(backend, tensorboard_image, tmp_path):
    run = backend.run("board-s3")
    with ScalarWriter(tmp_path / "train") as writer:
        writer.scalar("loss", 0.5, step=7)
    (file,) = tmp_path.glob("train/*")
    secret = {"metadata": {"name": "s3"}, "stringData": {"id": "a", "key": "b"}}
    backend.api.create(SECRETS, backend.namespace, secret)
    with served_bucket("training") as (bucket, endpoint):
        bucket.upload_file(str(file), f"runs/{run.id}/train/{file.name}")
        env = {
            "AWS_ACCESS_KEY_ID": {"secret": "s3", "key": "id"},
            "AWS_SECRET_ACCESS_KEY": {"secret": "s3", "key": "key"},
            "AWS_REGION": "us-east-1",
            "S3_ENDPOINT": endpoint,
            "S3_USE_HTTPS": "0",
        }
        inputs = {"log_dir": "s3://training/runs/{run_id}", "env": env, "image": tensorboard_image}
        ended = backend.finish(Step(run, "tensorboard", "tensorboard", inputs))
        assert ended.code == 0, ended.output
        (name,) = tensorboards(backend, run)
        assert ended.parameter("tensorboard_url") == f"http://{name}.{backend.namespace}.svc/"
        assert ended.published["files"]["tensorboard_link"]
        assert answer(backend, name, "data/runs") == ["train"]
        (point,) = answer(backend, name, "data/plugin/scalars/scalars?run=train&tag=loss")
        assert point[1:] == [7, 0.5]


@pytest.mark.usefixtures("claim")
def test_it_is_that_of_the_train_step_with_the_same_spec(backend, tensorboard_image):
    run = backend.run("board-shared")
    inputs = job("shared", by_shell("loss", 0.5), tensorboard={"image": tensorboard_image}, **CLAIM)
    trained = backend.finish(Step(run, "train", "train", inputs))
    assert trained.code == 0, trained.output
    ended = backend.finish(Step(run, "tensorboard", "tensorboard", {"spec": inputs["spec"]}))
    assert ended.code == 0, ended.output
    (name,) = tensorboards(backend, run)
    assert answer(backend, name, "data/runs") == ["logs"]
    assert trained.parameter("tensorboard_url") == ended.parameter("tensorboard_url")


def test_a_log_directory_that_no_pod_can_read(backend):
    ended = backend.finish(Step(backend.run("board-nowhere"), "tensorboard", "tensorboard", {"log_dir": "/tmp/logs"}))
    assert ended.code == 1
    assert "log_dir: cannot be served: /tmp/logs is on no claim" in ended.output
    assert ended.published is None
