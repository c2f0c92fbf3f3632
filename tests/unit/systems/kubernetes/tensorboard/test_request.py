"""The TensorBoard of a job description is that of the job's launcher."""

import pytest

from tests.unit.systems.kubernetes.tensorboard.test_tensorboard import WHO, job_of, request
from tfsteps.runs.identity import Identity
from tfsteps.systems.kubernetes.tensorboard.request import NoStorageError, request_for

STEP = Identity(run=WHO.run, task="tensorboard", pipeline=WHO.pipeline)


@pytest.mark.parametrize("fields", [{}, {"output_dir": None}, {"resources": {"gpu": 1, "gpu_type": "T4"}}])
def test_it_is_that_of_the_launcher(fields):
    job = job_of(**fields)
    assert request_for(job, STEP, "ml").name == request(job).name


def test_another_log_directory_is_another_one():
    tensorboard_request = request_for(job_of(output_dir="/data/old/{run_id}"), STEP, "ml", "/data/old/{run_id}")
    assert tensorboard_request.settings.log_dirs == {"": f"/data/old/{WHO.run}"}
    assert tensorboard_request.name != request(job_of()).name


def test_no_accelerator_is_asked_for():
    request = request_for(job_of(resources={"gpu": 1, "gpu_type": "T4"}, node_selector={"zone": "a"}), STEP, "ml")
    assert request.pod["nodeSelector"] == {"zone": "a"}


def test_a_folder_of_the_pod_is_refused():
    with pytest.raises(NoStorageError, match="/tmp/x is on no claim"):
        request_for(job_of(output_dir="/tmp/x"), STEP, "ml", "/tmp/x")
