"""`tfsteps role` prints what `kubectl apply` takes, for each job system on Kubernetes."""

import pytest
import yaml

from tests.unit.cli.command import tfsteps
from tfsteps.systems import registry


@pytest.mark.parametrize("system", registry.on_kubernetes())
def test_a_role_grants_the_job_its_pods_and_their_logs(system):
    code, out, _ = tfsteps("role", system, "--service-account", "trainer", "--namespace", "ml")
    role, binding = yaml.safe_load_all(out)
    granted = {(rule["apiGroups"][0], rule["resources"][0]): rule["verbs"] for rule in role["rules"]}
    kind = registry.kinds_of(system)[0].resource
    assert code == 0
    assert {"create", "delete", "get", "list", "patch", "watch"} <= set(
        granted[kind.api.partition("/")[0], kind.plural]
    )
    assert {"delete", "list", "watch"} <= set(granted["", "pods"])
    assert granted["", "pods/log"] == ["get"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "trainer", "namespace": "ml"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_a_system_that_is_not_on_kubernetes_has_no_role():
    code, _, err = tfsteps("role", "hai")
    assert (code, "job system 'hai' is not one on Kubernetes: use one of" in err) == (2, True)


@pytest.mark.parametrize("option", ["--namespace", "--service-account"])
def test_what_is_no_name_is_refused(option):
    code, out, err = tfsteps("role", "jobs", option, "Team A")
    assert (code, out) == (2, "")
    assert f"{option} 'Team A' is not a name" in err


def test_creating_more_than_jobs_is_granted_by_name():
    plain, more = (
        {
            (rule["apiGroups"][0], rule["resources"][0], verb)
            for rule in next(yaml.safe_load_all(tfsteps("role", "jobset", *options)[1]))["rules"]
            for verb in rule["verbs"]
        }
        for options in ([], ["--with", "readers", "--with", "tensorboard"])
    )
    assert plain < more
    assert {("", "pods", "create"), ("", "services", "create"), ("batch", "jobs", "patch")} <= more - plain


def test_permissions_of_another_name_are_refused():
    code, out, err = tfsteps("role", "jobset", "--with", "secrets")
    assert (code, out) == (2, "")
    assert "--with 'secrets' is not known: use readers or tensorboard" in err
