"""What manifests/janitor must be by itself; tests/janitor builds it, and runs the janitor with what it grants."""

import pathlib
import re

import yaml

from tfsteps.image import IMAGE
from tfsteps.janitor.__main__ import main
from tfsteps.janitor.metrics import JanitorMetrics
from tfsteps.janitor.options import VARIABLES, parse
from tfsteps.janitor.rules import DEFAULT, Reason
from tfsteps.systems import registry

MANIFESTS = pathlib.Path(__file__).parents[3] / "manifests/janitor"
FILES = sorted(file.name for file in (MANIFESTS / "base").glob("*.yaml") if file.name != "kustomization.yaml")


def load(path):
    (item,) = yaml.safe_load_all((MANIFESTS / path).read_text())
    return item


def test_the_base_lists_its_files():
    assert sorted(load("base/kustomization.yaml")["resources"]) == FILES


def test_one_object_a_file_and_no_namespace():
    for file in FILES:
        item = load(f"base/{file}")
        assert item["metadata"] == {"name": "tfsteps-janitor"}
        assert file.replace("-", "").removesuffix(".yaml") == f"janitor{item['kind'].lower()}"


def container():
    (container,) = load("base/janitor-deployment.yaml")["spec"]["template"]["spec"]["containers"]
    return container


def test_the_security_context_is_strict():
    spec = load("base/janitor-deployment.yaml")["spec"]["template"]["spec"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "volumes"} & spec.keys()


def test_probes_and_metrics_use_the_port_that_is_served(monkeypatch):
    for variable in container()["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    chosen = parse(container()["args"])
    assert container()["ports"] == [{"name": "metrics", "containerPort": chosen.metrics_port}]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container()[probe]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert {variable["name"] for variable in container()["env"]} < set(VARIABLES.values())
    assert chosen.default == DEFAULT, "nothing changes for who does not set it"


def test_the_network_policy_lets_metrics_in_and_nothing_else():
    policy = load("base/janitor-networkpolicy.yaml")["spec"]
    pod = load("base/janitor-deployment.yaml")["spec"]["template"]["metadata"]
    assert policy["podSelector"]["matchLabels"] == pod["labels"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": container()["ports"][0]["name"]}]}]


def test_the_monitoring_component():
    kustomization = load("monitoring/kustomization.yaml")
    assert kustomization["kind"] == "Component"
    monitor, rules = (load(f"monitoring/{name}") for name in kustomization["resources"])
    assert {monitor["apiVersion"], rules["apiVersion"]} == {"monitoring.coreos.com/v1"}
    assert (monitor["kind"], rules["kind"]) == ("PodMonitor", "PrometheusRule")
    pod = load("base/janitor-deployment.yaml")["spec"]["template"]["metadata"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("metrics", "/metrics")


def test_the_component_of_schedules_grants_what_its_pass_needs():
    kustomization = load("schedules/kustomization.yaml")
    assert kustomization["kind"] == "Component"
    roles, deployment = kustomization["patches"]
    assert [patch["target"]["name"] for patch in (roles, deployment)] == ["tfsteps-janitor"] * 2
    rules = [change["value"] for change in yaml.safe_load(roles["patch"])]
    granted = {(*rule["apiGroups"], *rule["resources"]): rule["verbs"] for rule in rules}
    assert granted == {
        ("", "configmaps"): ["list", "patch"],
        ("argoproj.io", "workflows"): ["list", "create", "patch", "delete"],  # the Role of all janitors has get
    }
    (added,) = yaml.safe_load(deployment["patch"])
    assert parse([*container()["args"], added["value"]]).schedules


def test_alerts_use_metrics_that_exist_and_are_documented():
    (group,) = load("monitoring/janitor-prometheusrule.yaml")["spec"]["groups"]
    served = set(re.findall(r"^# TYPE (\w+)", JanitorMetrics([], 60).text(), re.MULTILINE))
    page = (MANIFESTS.parents[1] / "docs/operate/janitor.md").read_text()
    for rule in group["rules"]:
        used = set(re.findall(r"tfsteps_janitor_\w+", rule["expr"]))
        assert used
        assert used <= served
        assert f"`{rule['alert']}`" in page
        assert rule["annotations"].keys() == {"summary", "description"}
    assert all(f"`{name}" in page for name in served)
    assert all(f"`{reason}`" in page for reason in Reason)
    assert all(f"`{variable}`" in page for variable in VARIABLES.values())


def test_the_role_is_narrow_and_covers_every_kind_of_job():
    rules = load("base/janitor-role.yaml")["rules"]
    granted = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    jobs = {(kind.resource.api.partition("/")[0], kind.resource.plural) for kind in registry.kinds()}
    assert granted == jobs | {("", "pods"), ("argoproj.io", "workflows")}
    assert all("*" not in rule["verbs"] for rule in rules)


def test_it_runs_this_version_with_arguments_that_it_understands(monkeypatch, capsys, tmp_path):
    assert container()["image"] == IMAGE
    assert container()["command"] == ["python", "-m", "tfsteps.janitor"]
    (patch,) = [
        item for item in load("cluster/kustomization.yaml")["patches"] if item["target"]["kind"] == "Deployment"
    ]
    (added,) = yaml.safe_load(patch["patch"])
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main([*container()["args"], added["value"]]) == 2
    assert "cannot start: there is no kubeconfig" in capsys.readouterr().out


def test_the_component_for_other_clusters_grants_what_its_option_reads():
    """By name; `namespaces` in a Role is the namespace of the Role alone."""
    of_role, of_deployment = load("clusters/kustomization.yaml")["patches"]
    assert (of_role["target"]["kind"], of_deployment["target"]["kind"]) == ("Role", "Deployment")
    rules = [operation["value"] for operation in yaml.safe_load(of_role["patch"])]
    assert [(rule["resources"], rule.get("resourceNames"), rule["verbs"]) for rule in rules] == [
        (["secrets"], ["tfsteps-clusters"], ["get"]),
        (["configmaps"], ["tfsteps"], ["get"]),
        (["namespaces"], None, ["get"]),
    ]
    (added,) = yaml.safe_load(of_deployment["patch"])
    assert parse([*container()["args"], added["value"]]).clusters
