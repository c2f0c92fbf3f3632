"""Services, volumes and TensorBoards of a job, for the graph of its run."""

import pytest

from tests.unit.cli.jobs_on_cluster import tfjob
from tfsteps.backends.kubernetes import graph
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob

JOB = "{name: m, image: i:1, command: [x], roles: {chief: {}, worker: {replicas: 2}}, volumes: [%s]}"


@pytest.mark.parametrize(
    ("volume", "detail"),
    [
        ("{pvc: data, mount: /data}", "claim data at /data"),
        ("{config_map: settings, mount: /etc/m}", "ConfigMap settings at /etc/m"),
        ("{secret: hub, mount: /hub}", "Secret hub at /hub"),
        ("{nfs: {server: nas, path: /x}, mount: /nas}", "NFS export /x at /nas"),
        ("{host_path: /ssd, mount: /ssd}", "path of the node /ssd at /ssd"),
        ("{empty_dir: 1Gi, mount: /scratch}", "empty directory at /scratch"),
    ],
)
def test_a_volume_says_what_it_is_and_where_and_is_listed_once_for_all_roles(volume, detail):
    assert [node.detail for node in graph.volumes(TFJob(), tfjob("r", job=JOB % volume))] == [detail]


def service(title, **owner):
    return {"metadata": {"name": title, "ownerReferences": [owner]}, "spec": {"ports": [{"port": 80}, {"port": 81}]}}


def test_the_services_of_a_trainjob_are_owned_by_its_jobset():
    item = {"metadata": {"name": "m", "uid": "u"}}
    listed = [
        service("of the JobSet", kind="JobSet", name="m", uid="j"),
        service("of another JobSet", kind="JobSet", name="n", uid="k"),
        service("of the job", kind="TrainJob", name="m", uid="u"),
        {"metadata": {"name": "of nobody"}},
    ]
    for system, names in (("trainjob", ["of the JobSet", "of the job"]), ("jobset", ["of the job"])):
        nodes = graph.services(registry.kinds_of(system)[0], item, listed)
        assert [(node.name, node.detail) for node in nodes] == [(name, "port 80, 81") for name in names]


def serving(name, restarts=0, **labels):
    """Return a running pod of the TensorBoard `t`."""
    state = {"name": "tensorboard", "state": {"running": {}}, "restartCount": restarts}
    meta = {"name": name, "uid": name, "labels": {"tfsteps.dev/tensorboard": "t", **labels}}
    return {"metadata": meta, "spec": {"nodeName": name}, "status": {"phase": "Running", "containerStatuses": [state]}}


@pytest.mark.parametrize(
    ("pods", "host", "restarts"),
    [
        ([serving("t-first"), serving("t-second", restarts=2)], "t-second", 3),
        ([serving("t-watching"), serving("t-deployed", app="t")], "t-deployed", 0),
        ([serving("t-watching", app="another")], "t-watching", 0),
    ],
)
def test_a_tensorboard_runs_where_its_serving_pod_is(pods, host, restarts):
    owned, kubeflows = service("t-owned", kind="Job", uid="u"), service("t", kind="Tensorboard", uid="v")
    job = {"metadata": {"name": "t", "uid": "u"}}
    (board,) = graph.tensorboards([job], pods, [owned, kubeflows, service("another", kind="Job", uid="w")])
    assert (board.host, board.restarts) == (host, restarts)
    assert [node.name for node in board.children] == ["t-owned", "t"]


@pytest.mark.parametrize(
    ("label", "containers", "chosen"),
    [
        ("workflows.argoproj.io/workflow", ["wait", "main"], "main"),
        ("workflows.argoproj.io/workflow", ["one", "two"], "one"),  # a container set has no `main`
        ("team", ["wait", "main"], "wait"),
        ("workflows.argoproj.io/workflow", [], ""),
    ],
)
def test_the_container_of_a_pod_is_one_that_it_has(label, containers, chosen):
    item = {"metadata": {"labels": {label: "a"}}, "spec": {"containers": [{"name": name} for name in containers]}}
    assert graph._container(item) == chosen
