"""What a job gets by platform settings, from where, and why it is refused."""

import pytest
import yaml
from hypothesis import given, settings

from tests.unit.spec.jobs import jobs
from tfsteps import spec
from tfsteps.settings.apply import apply
from tfsteps.settings.parse import parse
from tfsteps.spec.parse import to_plain
from tfsteps.spec.step_inputs import with_data

JOB = "name: a\nimage: mnist:1\ncommand: [python]\n"
SIDECARS = "[{name: tensorflow, tty: true}, {name: x, image: x, resources: {limits: {cpu: 99}}}]"
AFFINITY = {"nodeAffinity": {"required": [{"key": "org", "values": ["a", "b"]}]}}


def applied(document, job="roles: {worker: {}}", namespace="ns", **environment):
    layers = parse(yaml.safe_dump(document), "settings.yaml").layers(namespace)
    return apply(spec.parse(JOB + job), layers, environment, "settings.yaml")


def got(document, job="roles: {worker: {}}", namespace="ns", **environment):
    """Return what a job has that it did not have before, or lost."""
    result = applied(document, job, namespace, **environment)
    before, after = to_plain(spec.parse(JOB + job)), to_plain(result.job)
    return {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def refused(document, job, namespace="ns", **environment):
    with pytest.raises(spec.SpecError) as caught:
        applied(document, job, namespace, **environment)
    return str(caught.value)


DEFAULTS = [
    ({"keep_for": "3h"}, "roles: {worker: {}}", {"keep_for": "3h"}),
    ({"keep_for": "3h"}, "keep_for: 1d\nroles: {worker: {}}", {}),
    ({"image_pull_secrets": ["hub"]}, "image_pull_secrets: [own, hub]\nroles: {worker: {}}", {}),
    ({"image_pull_secrets": ["hub"]}, "image_pull_secrets: [own]\nroles: {worker: {}}",
     {"image_pull_secrets": ["own", "hub"]}),
    ({"node_selector": {"disk": "ssd", "a": "b"}}, "node_selector: {disk: hdd}\nroles: {worker: {}}",
     {"node_selector": {"disk": "hdd", "a": "b"}}),
    ({"env": {"A": {"secret": "s", "key": "k"}}}, "env: {A: {config_map: c, key: k}}\nroles: {worker: {}}", {}),
    ({"volumes": ["w(storage):/mnt"]}, "volumes: [{pvc: own, mount: /mnt}]\nroles: {worker: {}}", {}),
    ({"volumes": ["w(storage):/mnt"]}, "roles: {worker: {volumes: [{pvc: own, mount: /mnt/}]}, ps: {}, chief: {}}", {}),
    ({"volumes": ["w(storage):/mnt"]}, "volumes: [{pvc: own, mount: /x}]\nroles: {worker: {}}",
     {"volumes": [{"pvc": "own", "mount": "/x"}, {"pvc": "w", "mount": "/mnt"}]}),
    ({"resources": {"cpu": 1, "memory": "2Gi", "limits": {"cpu": 2}}}, "resources: {cpu: 4}\nroles: {worker: {}}",
     {"resources": {"cpu": 4, "memory": "2Gi"}}),
    ({"resources": {"cpu": 1, "limits": {"cpu": 2}}}, "roles: {worker: {resources: {gpu: 1}}, ps: {}, chief: {}}",
     {"resources": {"cpu": 1, "limits": {"cpu": 2}},
      "roles": {"worker": {"resources": {"cpu": 1, "limits": {"cpu": 2}, "gpu": 1}}, "ps": {}, "chief": {}}}),
    ({"pod": {"spec": {"affinity": AFFINITY}}}, "roles: {worker: {}}", {"pod": {"spec": {"affinity": AFFINITY}}}),
    ({"systems": {"t9k": {"debug": True}}}, "systems: {t9k: {debug: false}}\nroles: {worker: {}}", {}),
]  # fmt: skip


@pytest.mark.parametrize(("defaults", "job", "more"), DEFAULTS)
def test_a_default_counts_unless_the_job_sets_the_field(defaults, job, more):
    assert got({"defaults": defaults}, job) == more


REQUIRED = [
    ("roles: {worker: {}}", {"node_selector": {"train": "true"}}),
    ('node_selector: {train: "true"}\nroles: {worker: {}}', {}),
    ("roles: {worker: {node_selector: {a: b}}}",
     {"node_selector": {"train": "true"}, "roles": {"worker": {"node_selector": {"a": "b", "train": "true"}}}}),
]  # fmt: skip


@pytest.mark.parametrize(("job", "more"), REQUIRED)
def test_what_is_required_is_set(job, more):
    assert got({"required": {"node_selector": {"train": "true"}}}, job) == more


@pytest.mark.parametrize(
    ("job", "path"),
    [
        ("node_selector: {train: 'false'}\nroles: {worker: {}}", "node_selector.train"),
        ("roles: {worker: {node_selector: {train: 'false'}}}", "roles.worker.node_selector.train"),
        ("pod: {spec: {nodeSelector: {train: 'false'}}}\nroles: {worker: {}}", "pod.spec.nodeSelector.train"),
        ("roles: {worker: {pod: {spec: {nodeSelector: {train: x}}}}}", "roles.worker.pod.spec.nodeSelector.train"),
        ("pod: {spec: {nodeName: mine}}\nroles: {worker: {}}", "pod.spec.nodeName"),
    ],
)
def test_what_is_required_cannot_be_overridden(job, path):
    document = {"contact": "#ml", "required": {"node_selector": {"train": "true"}}}
    message = refused(document, job)
    assert message.startswith(f"a: {path}: ")
    assert "ask #ml to change `required.node_selector" in message
    assert message.endswith("in settings.yaml.")


@pytest.mark.parametrize("where", ["service_account: own", "pod: {spec: {serviceAccountName: own}}"])
def test_a_required_account_cannot_be_overridden(where):
    message = refused({"required": {"service_account": "trainer"}}, f"{where}\nroles: {{worker: {{}}}}")
    assert "'own' is not what the platform requires. Allowed: 'trainer'." in message


def test_a_required_affinity_cannot_be_overridden():
    document = {"required": {"pod": {"spec": {"affinity": AFFINITY}}}}
    other = "pod: {spec: {affinity: {nodeAffinity: {required: []}}}}\nroles: {worker: {}}"
    assert "`required.pod.spec.affinity.nodeAffinity.required`" in refused(document, other)
    beside = got(document, "pod: {spec: {affinity: {podAffinity: {x: y}}}}\nroles: {worker: {}}")
    assert beside["pod"]["spec"]["affinity"] == {**AFFINITY, "podAffinity": {"x": "y"}}


def test_replicas_get_nodes_by_their_gpus():
    kinds = {kind: {"node_selector": {kind: "true"}} for kind in ("cpu", "gpu", "gpu_fraction")}
    fraction = {"resource": "example.com/share", "per_gpu": 10}
    job = "roles: {chief: {resources: {gpu: 1}}, worker: {resources: {gpu: 0.5}}, evaluator: {}}"
    roles = applied({"kinds": kinds, "gpu": {"fraction": fraction}}, job).job.roles
    assert roles.chief.node_selector == {"gpu": "true"}
    assert roles.worker.node_selector == {"gpu_fraction": "true"}
    assert (roles.worker.resources.gpu, roles.worker.resources.gpu_resource) == (5, "example.com/share")
    assert roles.evaluator.node_selector == {"cpu": "true"}
    other = "node_selector: {gpu: 'false'}\nroles: {worker: {resources: {gpu: 1}}}"
    assert "`kinds.gpu.node_selector.gpu`" in refused({"kinds": kinds}, other)


GPU = {
    "resource": "example.com/gpu",
    "vendors": {"ascend": "huawei.com/Ascend910"},
    "type_label": "gpu-type",
    "types": {"V100": {"gpu": "v100", "memory": "32"}},
}
GPUS = [
    ("1", {"gpu": 1, "gpu_resource": "example.com/gpu"}, {}),
    ("2(T4)", {"gpu": 2, "gpu_resource": "example.com/gpu"}, {"gpu-type": "T4"}),
    ("2(v100)", {"gpu": 2, "gpu_resource": "example.com/gpu"}, {"gpu": "v100", "memory": "32"}),
    ("2(Ascend)", {"gpu": 2, "gpu_resource": "huawei.com/Ascend910"}, {}),
    ('"2(ascend,910B)"', {"gpu": 2, "gpu_resource": "huawei.com/Ascend910"}, {"gpu-type": "910B"}),
    ('"2(amd.com/gpu,MI300)"', {"gpu": 2, "gpu_resource": "amd.com/gpu"}, {"gpu-type": "MI300"}),
]


@pytest.mark.parametrize(("gpu", "resources", "selector"), GPUS)
@pytest.mark.parametrize("of_role", [False, True])
def test_vendors_and_types_become_resources_and_node_labels(gpu, resources, selector, of_role):
    fields = f"{{resources: {{gpu: {gpu}}}}}"
    job = f"roles: {{worker: {fields}}}" if of_role else f"resources: {{gpu: {gpu}}}\nroles: {{worker: {{}}}}"
    role = applied({"gpu": GPU}, job).job.resolved_roles()["worker"]
    assert to_plain(role.resources) == resources
    assert role.node_selector == selector


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        ('"2(amd,MI300)"', "'amd' is not a vendor of the platform. Allowed: ascend."),
        ("2(H100)", "'H100' is not a type of the platform's GPUs. Allowed: T4."),
        ("0.33", "is no whole number of units. Allowed: multiples of 1/10."),
    ],
)
def test_what_the_platform_does_not_have_is_refused(gpu, message):
    fraction = {"resource": "example.com/share", "per_gpu": 10}
    document = {"gpu": {"vendors": {"ascend": "a.b/c"}, "types": {"T4": {"t": "4"}}, "fraction": fraction}}
    assert message in refused(document, f"resources: {{gpu: {gpu}}}\nroles: {{worker: {{}}}}")


@pytest.mark.parametrize(
    ("job", "path", "setting"),
    [
        ("resources: {cpu: 9, memory: 1Gi}\nroles: {worker: {}}", "resources.cpu", "limits.cpu"),
        ("resources: {cpu: 1~9, memory: 1Gi}\nroles: {worker: {}}", "resources.cpu", "limits.cpu"),
        ("resources: {memory: 1Gi}\nroles: {worker: {}}", "resources.cpu: has no limit", "limits.cpu"),
        ("roles: {worker: {resources: {cpu: 1, memory: 9Gi}}}", "roles.worker.resources.memory", "limits.memory"),
        ("roles: {worker: {resources: {cpu: 1, memory: 1Gi, gpu: 3}}}", "roles.worker.resources.gpu", "limits.gpu"),
        ("resources: {cpu: 1, memory: 1Gi, gpu: -1}\nroles: {worker: {}}", "resources.gpu: all", "limits.gpu"),
        ("resources: {cpu: 1, memory: 1Gi}\nroles: {worker: {replicas: 5}}", "roles: 5", "limits.replicas"),
        (f"resources: {{cpu: 1, memory: 1Gi}}\npod: {{spec: {{containers: {SIDECARS}}}}}\nroles: {{worker: {{}}}}",
         "pod.spec.containers[1].resources", "limits"),
    ],
)  # fmt: skip
def test_a_job_above_a_limit_is_refused(job, path, setting):
    message = refused({"limits": {"cpu": 8, "memory": "8Gi", "gpu": 2, "replicas": 4}}, job)
    assert message.startswith(f"a: {path}")
    assert f"ask the platform's operator to change `{setting}`" in message


def test_a_default_is_below_the_limit():
    document = {"limits": {"cpu": 8, "memory": "8Gi"}, "defaults": {"resources": {"cpu": 1, "memory": "1Gi"}}}
    assert got(document) == {"resources": {"cpu": 1, "memory": "1Gi"}}


PROJECT = {
    "defaults": {"keep_for": "3h", "queue": "shared"},
    "limits": {"gpu": 8},
    "contact": "#ml",
    "projects": {
        "vision": {
            "namespaces": ["vision"],
            "contact": "ada",
            "defaults": {"keep_for": "1d"},
            "required": {"labels": {"org": "vision"}},
            "limits": {"gpu": 2},
        }
    },
}


def test_a_project_is_between_the_platform_and_the_job():
    assert got(PROJECT) == {"keep_for": "3h", "queue": "shared"}
    result = applied(PROJECT, "queue: own\nroles: {worker: {}}", "vision")
    assert (result.job.keep_for, result.job.queue, result.job.labels) == (86400, "own", {"org": "vision"})
    assert result.origins == {
        ("keep_for",): "projects.vision.defaults.keep_for",
        ("labels", "org"): "projects.vision.required.labels.org",
    }
    many = "roles: {worker: {resources: {gpu: 3}}}"
    applied(PROJECT, many)
    assert "ask ada to change `projects.vision.limits.gpu`" in refused(PROJECT, many, "vision")


@pytest.mark.parametrize(
    ("image", "result"),
    [
        ("mnist:1", "r.example/ml/mnist:1"),
        ("acme/mnist", "r.example/ml/acme/mnist"),
        ("ghcr.io/acme/mnist:1", None),
        ("localhost/mnist", None),
        ("host:5000/mnist", None),
    ],
)
def test_images_without_a_registry_get_the_platforms(image, result):
    job = f"roles: {{worker: {{image: '{image}'}}}}"
    role = applied({"image_registry": "r.example/ml"}, job).job.roles.worker
    assert role.image == (result or image)


def test_a_personal_folder_is_that_of_the_creator():
    job = "volumes: ['w(pvc):/mnt', {pvc: w, mount: /x, sub_path: s, personal: true}]\nroles: {worker: {}}"
    mine = [
        {"mount": "/mnt/alice", "pvc": "w", "sub_path": "alice"},
        {"mount": "/x/alice", "pvc": "w", "sub_path": "s/alice"},
    ]
    assert got({}, job, TFSTEPS_CREATOR="alice", KFJ_CREATOR="bob")["volumes"] == mine
    assert got({}, job, KFJ_CREATOR="alice")["volumes"] == mine
    assert got({}, job) == {}, "not known: job systems refuse it"
    assert "'../bob' cannot be the name of a folder" in refused({}, job, KFJ_CREATOR="../bob")
    assert got({"defaults": {"volumes": ["w(pvc):/mnt"]}}, TFSTEPS_CREATOR="alice") == {"volumes": mine[:1]}


def test_a_job_that_is_wrong_with_what_it_got_is_refused_with_the_setting():
    message = refused(
        {"defaults": {"resources": {"memory": "1Gi"}}},
        "resources: {shared_memory: 2Gi}\nroles: {ps: {}, chief: {}, worker: {}}",
    )
    assert "is above the memory limit" in message


def test_the_input_data_of_a_step_stays():
    job = with_data(spec.parse(JOB + "roles: {worker: {}}"), "/data")
    layers = parse("defaults: {keep_for: 3h}", "x").layers("ns")
    assert apply(job, layers).job.env == {"TFSTEPS_DATA": "/data"}


@settings(max_examples=20, deadline=None)
@given(jobs)
def test_settings_change_nothing_but_what_they_set(job):
    layers = parse("defaults: {keep_for: 3h}", "x").layers("ns")
    result = apply(job, layers)
    assert to_plain(result.job) | {"keep_for": None} == to_plain(job) | {"keep_for": None}
    assert apply(job, []).job is job
    assert apply(result.job, layers).job == result.job, "settings are applied once, however often"
