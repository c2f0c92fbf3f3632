"""The log directory as Kubeflow's Tensorboard resource takes it."""

import pytest

from tests.unit.systems.kubernetes.tensorboard.test_tensorboard import job_of, request
from tfsteps.systems.kubernetes.tensorboard.manifests import logs_path
from tfsteps.systems.kubernetes.tensorboard.request import NoStorageError

VIA = {"tensorboard": {"via": "kubeflow"}}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "pvc://data/r1"),
        ({"output_dir": "/data/a/b/{run_id}"}, "pvc://data/a/b/r1"),
        ({"volumes": [{"pvc": "data", "mount": "/data", "sub_path": "team"}]}, "pvc://data/team/r1"),
        ({"output_dir": "s3://bucket/{run_id}/{task}"}, "s3://bucket/r1"),
    ],
)
def test_path(fields, path):
    assert logs_path(request(job_of(**VIA, **fields))) == path


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"volumes": [{"nfs": {"server": "host", "path": "/export"}, "mount": "/data"}]}, "/data/r1 is on no claim"),
        ({"output_dir": "hdfs://host/{run_id}"}, "hdfs://host/r1: `via: kubeflow` reads s3:// and gs://"),
    ],
)
def test_what_it_cannot_read(fields, problem):
    with pytest.raises(NoStorageError, match=problem):
        logs_path(request(job_of(**VIA, **fields)))
