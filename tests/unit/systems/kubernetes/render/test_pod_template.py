"""From a role to its pod template."""

import pathlib

import pytest

from tfsteps import spec
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems.kubernetes.render.pod_template import merged, pod_problems, pod_template

PLACES = OutputPaths(output="/out", model="/out/model", logs="/out/logs", base_dir=pathlib.Path())
TOTAL_SIZE = 1 << 30


def template(job=None, role=None, **more):
    """Render the worker's template of a job with one worker; returns (template, its container)."""
    plain = {"name": "j", "image": "i:1", "roles": {"worker": role or {}}, **(job or {})}
    parsed = spec.from_plain(plain)
    identity = Identity(run="r", task="t")
    pod = pod_template(
        parsed, "worker", parsed.resolved_roles()["worker"], identity, PLACES, gpu_label="gpu", more_env=[], **more
    )
    return pod, pod["spec"]["containers"][0]


def env(container):
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def test_the_least_job_gives_the_least_template():
    pod, container = template()
    assert set(pod["spec"]) == {"containers"}
    assert set(container) == {"name", "image", "env"}
    assert pod["metadata"]["labels"]["tfsteps.dev/role"] == "worker"


VOLUMES = {
    "claim": ({"pvc": "data"}, {"persistentVolumeClaim": {"claimName": "data"}}, {}),
    "claim, read only": (
        {"pvc": "data", "read_only": True},
        {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"readOnly": True},
    ),
    "folder of a claim": (
        {"pvc": "data", "sub_path": "a/b"},
        {"persistentVolumeClaim": {"claimName": "data"}},
        {"subPath": "a/b"},
    ),
    "secret": ({"secret": "s"}, {"secret": {"secretName": "s"}}, {}),
    "config map": ({"config_map": "c"}, {"configMap": {"name": "c"}}, {}),
    "host path": ({"host_path": "/mnt"}, {"hostPath": {"path": "/mnt"}}, {}),
    "nfs": ({"nfs": {"server": "n", "path": "/e"}}, {"nfs": {"server": "n", "path": "/e"}}, {}),
    "scratch": ({"empty_dir": "1Gi"}, {"emptyDir": {"sizeLimit": TOTAL_SIZE}}, {}),
    "scratch in memory": (
        {"empty_dir": "1Gi", "in_memory": True},
        {"emptyDir": {"sizeLimit": TOTAL_SIZE, "medium": "Memory"}},
        {},
    ),
}


@pytest.mark.parametrize(("value", "source", "mount"), VOLUMES.values(), ids=VOLUMES)
def test_volumes(value, source, mount):
    pod, container = template({"volumes": [{"mount": "/m", **value}]})
    assert pod["spec"]["volumes"] == [{"name": "volume-0", **source}]
    assert container["volumeMounts"] == [{"name": "volume-0", "mountPath": "/m", **mount}]


def test_the_roles_volumes_come_after_the_jobs():
    pod, container = template({"volumes": [{"pvc": "a", "mount": "/a"}]}, {"volumes": [{"pvc": "b", "mount": "/b"}]})
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]] == ["a", "b"]
    assert [volumemount["mountPath"] for volumemount in container["volumeMounts"]] == ["/a", "/b"]


def test_shared_memory_is_a_volume_in_memory():
    pod, container = template(role={"resources": {"shared_memory": "1Gi"}})
    assert pod["spec"]["volumes"] == [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": TOTAL_SIZE}}
    ]
    assert container["volumeMounts"] == [{"name": "shared-memory", "mountPath": "/dev/shm"}]


RESOURCES = {
    "nothing": ({}, None),
    "requests are limits": (
        {"cpu": 2, "memory": "1Gi"},
        {"requests": {"cpu": "2", "memory": str(TOTAL_SIZE)}, "limits": {"cpu": "2", "memory": str(TOTAL_SIZE)}},
    ),
    "parts of a core": ({"cpu": 0.5}, {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}),
    "limits of their own": ({"cpu": 1, "limits": {"cpu": 4}}, {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}),
    "GPUs are limits alone": ({"gpu": 2}, {"limits": {"nvidia.com/gpu": "2"}}),
}


@pytest.mark.parametrize(("value", "rendered"), RESOURCES.values(), ids=RESOURCES)
def test_resources(value, rendered):
    _, container = template(role={"resources": value})
    assert container.get("resources") == rendered


@pytest.mark.parametrize(
    ("resource", "field", "name"),
    [(None, None, "nvidia.com/gpu"), ("amd.com/gpu", None, "amd.com/gpu"), ("", None, "nvidia.com/gpu")]
    + [(resource, "huawei.com/Ascend910", "huawei.com/Ascend910") for resource in (None, "amd.com/gpu")],
)
def test_what_gpus_are_counted_as(resource, field, name, monkeypatch):
    monkeypatch.setenv("TFSTEPS_GPU_RESOURCE", resource) if resource is not None else None
    resources = {"gpu": 2, **({"gpu_resource": field} if field else {})}
    _, container = template({"resources": resources})
    assert container["resources"]["limits"] == {name: "2"}


BAD_NAMES = ["gpu", "amd.com/", "/gpu", "amd.com/gpu ", "AMD.com/gpu", "amd.com/g pu", "a/b/c"]


@pytest.mark.parametrize("resource", BAD_NAMES)
def test_a_name_for_gpus_that_is_none_is_one_problem_where_it_is_used(resource, monkeypatch):
    monkeypatch.setenv("TFSTEPS_GPU_RESOURCE", resource)
    job = {
        "name": "a",
        "image": "i",
        "resources": {"gpu": 1},
        "roles": {"worker": {}, "chief": {"resources": {"cpu": 1}}},
    }
    (problem,) = pod_problems(spec.from_plain(job))
    assert (spec.dotted(problem.path), repr(resource) in problem.wrong) == ("resources.gpu", True)
    assert [*pod_problems(spec.from_plain({**job, "resources": {"gpu": 1, "gpu_resource": "amd.com/gpu"}}))] == []
    assert [*pod_problems(spec.from_plain({**job, "resources": {}}))] == []
    with pytest.raises(spec.SpecError, match=r"resources\.gpu_resource"):
        spec.from_plain({**job, "resources": {"gpu": 1, "gpu_resource": resource}})


def test_the_type_of_gpu_chooses_nodes():
    pod, _ = template(
        {"node_selector": {"zone": "a"}}, {"resources": {"gpu": 1, "gpu_type": "T4"}, "node_selector": {"disk": "ssd"}}
    )
    assert pod["spec"]["nodeSelector"] == {"zone": "a", "disk": "ssd", "gpu": "T4"}


ENV = {
    "text": ("64", "64"),
    "empty text is kept": ("", ""),
    "a field of the pod": ({"field": "spec.nodeName"}, {"fieldRef": {"fieldPath": "spec.nodeName"}}),
    "a secret": ({"secret": "hub", "key": "token"}, {"secretKeyRef": {"name": "hub", "key": "token"}}),
    "a config map": ({"config_map": "c", "key": "k"}, {"configMapKeyRef": {"name": "c", "key": "k"}}),
}


@pytest.mark.parametrize(("value", "rendered"), ENV.values(), ids=ENV)
def test_env(value, rendered):
    _, container = template({"env": {"X": value}})
    assert env(container)["X"] == rendered


def test_the_roles_env_goes_before_the_jobs():
    _, container = template({"env": {"A": "job", "B": "job"}}, {"env": {"A": "role"}})
    assert (env(container)["A"], env(container)["B"]) == ("role", "job")
    assert [item["name"] for item in container["env"]].count("A") == 1


def test_our_own_env_is_not_expanded_by_kubernetes():
    job = spec.from_plain({"name": "j", "image": "i:1", "roles": {"worker": {}}})
    pod = pod_template(
        job,
        "worker",
        job.resolved_roles()["worker"],
        Identity(run="$(HOME)", task="t"),
        PLACES,
        gpu_label="",
        more_env=[],
    )
    assert env(pod["spec"]["containers"][0])["TFSTEPS_RUN_ID"] == "$$(HOME)"


TOLERATIONS = {
    "a key": ({"key": "gpu", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}),
    "all": ({"operator": "Exists"}, {"operator": "Exists"}),
    "a value": (
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
    ),
    "not at all is not for ever": (
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "seconds": 0},
        {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
    ),
}


@pytest.mark.parametrize(("value", "rendered"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_tolerations(value, rendered):
    pod, _ = template({"tolerations": [value]})
    assert pod["spec"]["tolerations"] == [rendered]


MERGES = {
    "key by key": ({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}}, {"a": 1, "b": {"c": 1, "d": 2}}),
    "named things by name": (
        {"x": [{"name": "a", "v": 1}, {"name": "b"}]},
        {"x": [{"name": "a", "w": 2}, {"name": "c"}]},
        {"x": [{"name": "a", "v": 1, "w": 2}, {"name": "b"}, {"name": "c"}]},
    ),
    "mounts by their path: one volume may have several": (
        {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/w"}]},
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/b", "subPath": "x"},
                {"name": "v", "mountPath": "/a", "readOnly": True},
            ]
        },
        {
            "volumeMounts": [
                {"name": "v", "mountPath": "/a", "readOnly": True},
                {"name": "w", "mountPath": "/w"},
                {"name": "v", "mountPath": "/b", "subPath": "x"},
            ]
        },
    ),
    "other lists as a whole": ({"x": [1, 2]}, {"x": [3]}, {"x": [3]}),
    "an empty list clears": ({"x": [{"name": "a"}]}, {"x": []}, {"x": []}),
    "falsy values count": ({"a": True, "b": 1, "c": "x"}, {"a": False, "b": 0, "c": ""}, {"a": False, "b": 0, "c": ""}),
    "tolerations have no names": ({"x": [{"key": "a"}]}, {"x": [{"key": "b"}]}, {"x": [{"key": "b"}]}),
}


@pytest.mark.parametrize(("under", "over", "result"), MERGES.values(), ids=MERGES)
def test_merge(under, over, result):
    kept = repr(under), repr(over)
    assert merged(under, over) == result
    assert kept == (repr(under), repr(over)), "neither was changed"


def test_patches_of_the_role_lie_over_those_of_the_job():
    """As from a pipeline's TaskConfig: the container is met by its name, what it does not say stays."""
    job = {
        "spec": {
            "priorityClassName": "low",
            "containers": [{"name": "tensorflow", "securityContext": {"runAsUser": 1}}],
        }
    }
    role = {"spec": {"priorityClassName": "high", "containers": [{"name": "sidecar", "image": "s:1"}]}}
    pod, container = template({"pod": job}, {"pod": role})
    assert pod["spec"]["priorityClassName"] == "high"
    assert [item["name"] for item in pod["spec"]["containers"]] == ["tensorflow", "sidecar"]
    assert (container["image"], container["securityContext"]) == ("i:1", {"runAsUser": 1})
