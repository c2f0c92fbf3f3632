"""The first jobs of a user of Kubeflow 26.03: steps run as `default-editor`, and no manifest of ours is applied."""

import contextlib
import itertools
import re

import pytest

from tests.preflight.conftest import ACCOUNTS, namespace_of
from tests.preflight.stage import Stage
from tests.support.shell import printing
from tests.unit.cli.command import tfsteps
from tfsteps.kube.resource import Resource
from tfsteps.systems import registry, roles
from tfsteps.systems.kubernetes.permissions import needed

pytestmark = pytest.mark.cluster

ACCOUNT = "default-editor"
ROLES = Resource("rbac.authorization.k8s.io/v1", "roles", "Role")
BINDINGS = Resource("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding")
READ, WRITE = ["get", "list", "watch"], ["create", "delete", "deletecollection", "patch", "update"]
KUBEFLOW_EDIT = [  # what ClusterRole kubeflow-edit of 26.03 aggregates, as far as launchers could use it
    # kubeflow-kubernetes-edit
    (READ, [""], ["pods/attach", "pods/exec", "secrets"]),
    (WRITE, [""], ["pods", "pods/attach", "pods/exec"]),
    (WRITE, [""], ["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"]),
    (WRITE, ["batch"], ["cronjobs", "jobs"]),
    # kubeflow-kubernetes-view
    (READ, [""], ["configmaps", "persistentvolumeclaims", "pods", "serviceaccounts", "services"]),
    (READ, [""], ["events", "limitranges", "pods/log", "pods/status", "resourcequotas"]),
    (READ, ["batch"], ["cronjobs", "jobs", "jobs/status"]),
    # kubeflow-trainer-edit; nothing grants jobsets
    (READ, ["trainer.kubeflow.org"], ["trainingruntimes"]),
    (["create", "delete", "patch", *READ], ["trainer.kubeflow.org"], ["trainjobs"]),
    # aggregate-to-kubeflow-pipelines-edit
    (["*"], ["argoproj.io"], ["workflows", "workflowtaskresults"]),
]


@pytest.fixture
def stage(cluster, tmp_path):
    with namespace_of(cluster) as namespace:
        rules = [
            {"verbs": verbs, "apiGroups": groups, "resources": plurals} for verbs, groups, plurals in KUBEFLOW_EDIT
        ]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "kubeflow-edit"}
        subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
        metadata = {"metadata": {"name": "kubeflow-edit"}}
        cluster.api.create(ACCOUNTS, namespace, {"metadata": {"name": ACCOUNT}})
        cluster.api.create(ROLES, namespace, {**metadata, "rules": rules})
        cluster.api.create(BINDINGS, namespace, {**metadata, "roleRef": reference, "subjects": [subject]})
        with contextlib.closing(Stage(cluster, namespace, tmp_path, ACCOUNT)) as stage:
            yield stage


def launched(stage, name, system):
    stage.pod(name, stage.workflow(name))
    return stage.launch(name, printing("echo up"), system, roles={"worker": {}}).ends()


def test_the_first_jobs_of_a_profile(stage):
    """The first runs; the message of the second names the system, the permission, and a command that gives it."""
    code, output = launched(stage, "first", "auto")
    assert code == 0, output
    assert "job system jobs: the cluster serves jobs.batch" in output
    assert "not permitted to create" in output
    assert "jobsets.jobset.x-k8s.io (`tfsteps role jobset` prints a Role for it)" in output
    assert "[worker-0] up" in output

    code, output = launched(stage, "second", "jobset")
    assert code == 2, output
    refusal = f"job system jobset: in namespace {stage.namespace} this launcher may not: get jobsets.jobset.x-k8s.io"
    assert f"nothing was created: {refusal}, create jobsets.jobset.x-k8s.io, " in output

    role, apply = re.search(r"grant it: `tfsteps (role .*) \| kubectl (apply .*)`", output).groups()
    code, printed, _ = tfsteps(*role.split())
    assert code == 0
    stage.cluster.kubectl(*apply.split(), stdin=printed)

    code, output = launched(stage, "third", "auto")
    assert code == 0, output
    assert "job system jobset: the cluster serves jobsets.jobset.x-k8s.io" in output
    refused = [request for request in stage.launchers[-1].requests() if request[0] in (401, 403)]
    others = [request for request in refused if request[1] != "list" or request[3] == "jobsets"]
    assert not others, "it looks for jobs of the task on what the cluster serves beyond 26.03, and needs no answer"


@pytest.mark.parametrize(
    ("system", "lacking"),
    [
        ("jobs", set()),
        ("trainjob", {"list jobsets.jobset.x-k8s.io"}),
        (
            "jobset",
            {f"{verb} jobsets.jobset.x-k8s.io" for verb in ("create", "delete", "get", "list", "patch", "watch")},
        ),
    ],
)
def test_what_a_profile_lacks_is_what_the_page_of_permissions_says(system, lacking):
    [kind, *_] = registry.kinds_of(system)
    job = roles.example_job(system, None)
    granted = {(verb, *rule) for verbs, *rules in KUBEFLOW_EDIT for verb in verbs for rule in itertools.product(*rules)}
    required = needed(kind.resource, job, kind.permissions(job))
    assert {str(item) for item in required if (item.verb, item.group, item.plural) not in granted} == lacking
