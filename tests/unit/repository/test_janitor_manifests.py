"""What manifests/janitor must be by itself; tests/janitor builds it, and runs the janitor with what it grants."""

import pathlib

import yaml

from tfsteps.image import IMAGE
from tfsteps.janitor.__main__ import main
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


def test_the_role_is_narrow_and_covers_every_kind_of_job():
    rules = load("base/janitor-role.yaml")["rules"]
    granted = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    jobs = {(kind.resource.api.partition("/")[0], kind.resource.plural) for kind in registry.kinds()}
    assert granted == jobs | {("", "pods"), ("argoproj.io", "workflows")}
    assert all("*" not in rule["verbs"] for rule in rules)


def test_it_runs_this_version_with_arguments_that_it_understands(monkeypatch, capsys, tmp_path):
    (container,) = load("base/janitor-deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert container["command"] == ["python", "-m", "tfsteps.janitor"]
    (patch,) = [
        each for each in load("cluster/kustomization.yaml")["patches"] if each["target"]["kind"] == "Deployment"
    ]
    (added,) = yaml.safe_load(patch["patch"])
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main([*container["args"], added["value"]]) == 2
    assert "cannot start: there is no kubeconfig" in capsys.readouterr().out
