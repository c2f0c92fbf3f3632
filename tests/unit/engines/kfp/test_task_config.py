"""What authors set on a task reaches the job, in the words of a job description that the parser takes."""

import pytest

from tfsteps import spec
from tfsteps.engines.kfp.task_config import partial_job
from tfsteps.spec import SpecError
from tfsteps.spec.step_inputs import plain_job

JOB = {"name": "mnist", "image": "mnist:1", "roles": {"worker": {}}}
PVC = {"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}}


@pytest.mark.parametrize(
    ("config", "partial"),
    [
        (None, {}),
        ({}, {}),
        ({"resources": None, "nodeSelector": None, "tolerations": None, "env": None, "volumes": None}, {}),
        ({"resources": {"limits": {"cpu": "2"}}}, {"resources": {"cpu": "2", "limits": {"cpu": "2"}}}),
        (
            {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
            {"resources": {"memory": "1Gi", "limits": {"memory": "2Gi"}}},
        ),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, {"resources": {"gpu": 1}}),
        ({"resources": {"limits": {"amd.com/gpu": "2"}}}, {"resources": {"gpu": 2, "gpu_resource": "amd.com/gpu"}}),
        ({"nodeSelector": {"disk": "ssd"}}, {"node_selector": {"disk": "ssd"}}),
        (
            {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]},
            {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "seconds": 30}]},
        ),
        ({"env": [{"name": "A", "value": "1"}, {"name": "B"}]}, {"env": {"A": "1", "B": ""}}),
        (
            {"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]},
            {"env": {"T": {"secret": "hub", "key": "token"}}},
        ),
        (
            {"env": [{"name": "C", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "c"}}}]},
            {"env": {"C": {"config_map": "conf", "key": "c"}}},
        ),
        (
            {"env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            {"env": {"NODE": {"field": "spec.nodeName"}}},
        ),
        ({"env": [{"name": "TFSTEPS_RUN_ID", "value": "for the launcher"}]}, {}),
        (
            {
                "volumes": [PVC],
                "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "a", "readOnly": True}],
            },
            {"volumes": [{"mount": "/data", "pvc": "datasets", "sub_path": "a", "read_only": True}]},
        ),
        (
            {
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
            },
            {"volumes": [{"mount": "/dev/shm", "empty_dir": "1Gi", "in_memory": True}]},
        ),
        ({"volumes": [PVC], "volumeMounts": []}, {}),
        ({"affinity": {"nodeAffinity": {}}}, {"pod": {"spec": {"affinity": {"nodeAffinity": {}}}}}),
    ],
)
def test_partial_job(config, partial):
    assert partial_job(config) == partial
    spec.from_plain({**JOB, **partial}, "inputs")  # SpecError for a word that is not one


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]}, "task_config.env.A"),
        (
            {"volumes": [{"name": "d", "csi": {}}], "volumeMounts": [{"name": "d", "mountPath": "/d"}]},
            "task_config.volumes.d",
        ),
        (
            {"volumes": [{"name": "d", "emptyDir": {}}], "volumeMounts": [{"name": "d", "mountPath": "/d"}]},
            "task_config.volumes.d",
        ),
    ],
)
def test_task_settings_without_a_field_in_the_job_file(config, field):
    with pytest.raises(SpecError, match=field):
        partial_job(config)


@pytest.mark.parametrize(
    "config",
    [
        [1],
        "x",
        {"resources": [1]},
        {"resources": {"limits": {"cpu": {"a": 1}}}},
        {"env": {"a": 1}},
        {"env": [1]},
        {"env": [{"name": None}]},
        {"env": [{"value": "x"}]},
        {"env": [{"name": "A", "valueFrom": "x"}]},
        {"volumes": "x"},
        {"volumes": [None]},
        {"volumeMounts": [{"name": "a"}]},
        {"nodeSelector": [1]},
        {"tolerations": {"a": 1}},
        {"affinity": 5},
        {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
    ],
)
def test_what_the_driver_does_not_write_is_a_problem_of_the_input(config):
    with pytest.raises(SpecError, match="task_config"):
        partial_job(config)


@pytest.mark.parametrize("count", ["many", "1k", "9" * 5000, 1.5])
def test_an_odd_number_of_gpus_is_a_problem_of_the_job(count):
    partial = partial_job({"resources": {"limits": {"nvidia.com/gpu": count}}})
    with pytest.raises(SpecError, match=r"resources\.gpu"):
        spec.from_plain(plain_job({"spec": {"name": "a", "roles": {"worker": {}}}}, partial))


def test_a_toleration_of_no_time_at_all_is_not_one_for_ever():
    toleration = {"key": "gpu", "operator": "Exists", "tolerationSeconds": 0}
    assert partial_job({"tolerations": [toleration]})["tolerations"][0]["seconds"] == 0


MOUNTED = {"volumes": [PVC], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}


def test_a_claim_of_the_task_is_mounted_beside_those_of_spec():
    output = {"mount": "/out", "pvc": "out"}
    job = plain_job({"spec": {**JOB, "volumes": [output]}}, partial_job(MOUNTED))
    assert [volume.pvc for volume in spec.from_plain(job, "inputs").volumes] == ["out", "datasets"]


def test_a_claim_of_the_task_where_spec_mounts_another():
    other = {"mount": "/data", "pvc": "other"}
    with pytest.raises(
        SpecError, match=r"inputs: task_config\.volumes\./data: is set on the task, and `spec` has a different value"
    ):
        plain_job({"spec": {**JOB, "volumes": [other]}}, partial_job(MOUNTED))


TOKEN = {"name": "hai", "secret": {"secretName": "hai-token"}}
CREDENTIALS = {"name": "bucket", "secret": {"secretName": "bucket"}}


def test_what_is_the_launchers_own_does_not_reach_the_replicas():
    variables = [
        {"name": "TFSTEPS_HAI_SERVER", "value": "http://hai"},
        {"name": "TFSTEPS_HAI_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hai", "key": "token"}}},
        {"name": "TFSTEPS_HAI_TOKEN_FILE", "value": "/data/hai/token"},
        {"name": "EPOCHS", "value": "3"},
    ]
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "hai", "mountPath": "/data/hai/"},
        {"name": "bucket", "mountPath": "/bucket"},
    ]
    partial = partial_job({"env": variables, "volumes": [PVC, TOKEN, CREDENTIALS], "volumeMounts": mounts})
    assert partial["env"] == {"EPOCHS": "3"}
    kept = [{"mount": "/data", "pvc": "datasets"}, {"mount": "/bucket", "secret": "bucket"}]
    assert partial["volumes"] == kept


def test_a_claim_that_holds_the_token_too_reaches_the_replicas():
    variables = [{"name": "TFSTEPS_HAI_TOKEN_FILE", "value": "/data/token"}]
    partial = partial_job({"env": variables, **MOUNTED})
    assert partial == {"volumes": [{"mount": "/data", "pvc": "datasets"}]}
