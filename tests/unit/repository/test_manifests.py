"""What manifests/ must be by itself; tests/preflight builds it, and runs launchers with what it grants."""

import itertools
import pathlib
import re

import pytest
import yaml

from tfsteps import spec
from tfsteps.engines.kfp.object_store import CONFIG_MAP, SECRET
from tfsteps.runs.identity import Identity
from tfsteps.systems import registry
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.permissions import OPT_IN, needed, optional
from tfsteps.systems.kubernetes.system import KubernetesSystem
from tfsteps.systems.kubernetes.tensorboard import manifests
from tfsteps.tensorboard.address import PORT

MANIFESTS = pathlib.Path(__file__).parents[3] / "manifests"
FILES = sorted(file for file in (MANIFESTS / "base").glob("*.yaml") if file.name != "kustomization.yaml")
OVERLAYS = sorted((MANIFESTS / "overlays").glob("*/kustomization.yaml"))
ROLES = [file for file in FILES if file.name.endswith("-role.yaml")]


def test_the_base_lists_its_files():
    listed = yaml.safe_load((MANIFESTS / "base/kustomization.yaml").read_text())["resources"]
    assert listed == [file.name for file in sorted(FILES, key=lambda file: file.stem)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_one_object_a_file(file):
    (item,) = yaml.safe_load_all(file.read_text())
    name, kind = item["metadata"]["name"], item["kind"]
    assert file.stem == f"{name.removeprefix('tfsteps-')}-{'role-binding' if kind == 'RoleBinding' else kind.lower()}"
    assert "namespace" not in item["metadata"], "overlays say where"


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda file: file.parent.name)
@pytest.mark.parametrize("file", ROLES, ids=lambda file: file.stem)
def test_the_golden_overlays_grant_what_the_base_does(file, overlay):
    """Only kubectl builds an overlay, in tests/preflight: here a golden file that is out of date is found at once."""
    role = yaml.safe_load(file.read_text())
    golden = MANIFESTS.parent / f"tests/golden/manifests/{overlay.parent.name}.yaml"
    built = [item for item in yaml.safe_load_all(golden.read_text()) if item["kind"] == "Role"]
    assert role["rules"] in [item["rules"] for item in built if item["metadata"]["name"] == role["metadata"]["name"]]


@pytest.mark.parametrize("file", ROLES, ids=lambda file: file.stem)
def test_a_role_is_narrow_and_bound(file):
    role = yaml.safe_load(file.read_text())
    for rule in role["rules"]:
        assert "*" not in [*rule["verbs"], *rule["apiGroups"], *rule["resources"]]
        assert "secrets" not in rule["resources"]
    binding = yaml.safe_load(file.with_name(f"{file.stem}-binding.yaml").read_text())
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": role["metadata"]["name"],
    }


def test_the_launcher_may_do_what_it_cannot_do_without():
    rules = yaml.safe_load((MANIFESTS / "base/launcher-role.yaml").read_text())["rules"]
    granted = set(
        itertools.chain(*(itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"]) for rule in rules))
    )
    fields = {"name": "a", "image": "i", "roles": {"worker": {}}}
    jobs = [spec.from_plain({**fields, **more}, "test", {}) for more in ({}, {"gang": {}}, {"code": "."})]
    needed_permissions = [
        permission for job in jobs for permission in needed(TFJob.resource, job, TFJob().permissions(job))
    ]
    permissions = {(permission.verb, permission.group, permission.plural) for permission in needed_permissions}
    assert permissions - granted == set()
    more = spec.from_plain({**fields, "on_evicted": "1h"}, "test", {})
    extra = {(permission.verb, permission.group, permission.plural) for permission in optional(more)}
    assert granted - permissions == extra - permissions, "what it does without"


def test_of_secrets_one_may_be_read_where_artifacts_are_stored():
    """By name, and in a component of its own: what base grants reads none."""
    rules = yaml.safe_load((MANIFESTS / "artifacts/artifacts-role.yaml").read_text())["rules"]
    granted = [(rule["resources"], rule["resourceNames"], rule["verbs"]) for rule in rules]
    assert granted == [(["configmaps"], [CONFIG_MAP], ["get"]), (["secrets"], [SECRET], ["get"])]
    binding = yaml.safe_load((MANIFESTS / "artifacts/artifacts-role-binding.yaml").read_text())
    assert binding["roleRef"]["name"] == binding["metadata"]["name"] == "tfsteps-artifacts"
    using = [
        file.parent.name
        for file in OVERLAYS
        if "../../artifacts" in yaml.safe_load(file.read_text()).get("components", [])
    ]
    assert using == ["kubeflow-pipelines", "user-namespace"]


@pytest.mark.parametrize("file", OVERLAYS, ids=lambda file: file.parent.name)
def test_an_overlay_binds_one_account_of_its_namespace(file):
    overlay = yaml.safe_load(file.read_text())
    assert overlay["resources"][0] == "../../base"
    (patch,) = overlay["patches"]
    assert patch["target"]["kind"] == "RoleBinding"
    bound = [file.stem for file in FILES if file.name.endswith("-binding.yaml")]
    for component in overlay["components"]:
        bound += [path.stem for path in (file.parent / component).glob("*-role-binding.yaml")]
    offered = re.findall(r"(?m)^# - (\.\./\.\./optional/\S+)", file.read_text())
    assert {path.rpartition("/")[2] for path in offered} == {*OPT_IN}
    bound += [path.stem for component in offered for path in (file.parent / component).glob("*-role-binding.yaml")]
    named = re.compile(patch["target"].get("name", ".*"))
    assert all(named.fullmatch(f"tfsteps-{name.removesuffix('-role-binding')}") for name in bound)
    set_ = {step["path"]: step["value"] for step in yaml.safe_load(patch["patch"])}
    assert set_["/subjects/0/namespace"] == overlay["namespace"]
    assert set_["/subjects/0/name"]


def selected(file, labels):
    """Tell whether a NetworkPolicy selects pods with these labels."""
    selector = yaml.safe_load((MANIFESTS / file).read_text())["spec"]["podSelector"]
    (expression,) = selector["matchExpressions"]
    assert expression["operator"] == "Exists"
    return expression["key"] in labels


LAUNCHERS, BOARDS = (f"network-policies/{name}-networkpolicy.yaml" for name in ("launcher", "tensorboard"))


@pytest.mark.parametrize("system", registry.on_kubernetes())
def test_no_network_policy_selects_replicas_which_connect_to_each_other(system):
    for kind in registry.kinds_of(system):
        job = spec.from_plain(
            {"name": "a", "image": "i", "command": ["x"], "roles": {"worker": {"replicas": 2}}}, "t", registry.options()
        )
        who = Identity(run="r", task="t", pipeline="p")
        rendered = kind.render(job, who, KubernetesSystem(kind).output_paths(job, who, None), "ml")
        keys = set(re.findall(r"tfsteps\.dev/[\w-]+", str([rendered.manifest, *rendered.dependents])))
        assert "tfsteps.dev/attempt" in keys
        assert not selected(LAUNCHERS, keys)
        assert not selected(BOARDS, keys)


def test_network_policies_select_launchers_of_argo_and_tensorboards():
    templates = yaml.safe_load((MANIFESTS / "argo-templates/workflow-template.yaml").read_text())["spec"]["templates"]
    steps = [template["metadata"]["labels"] for template in templates if "container" in template]
    assert steps
    assert all(selected(LAUNCHERS, labels) for labels in steps)
    assert not any(selected(BOARDS, labels) for labels in steps)
    assert selected(BOARDS, [manifests.NAME])
    (rule,) = yaml.safe_load((MANIFESTS / BOARDS).read_text())["spec"]["ingress"]
    assert rule == {"ports": [{"protocol": "TCP", "port": PORT}]}
    assert "ingress" not in yaml.safe_load((MANIFESTS / LAUNCHERS).read_text())["spec"]


@pytest.mark.parametrize("file", OVERLAYS, ids=lambda file: file.parent.name)
def test_each_overlay_has_the_network_policies(file):
    assert "../../network-policies" in yaml.safe_load(file.read_text())["components"]
    listed = yaml.safe_load((MANIFESTS / "network-policies/kustomization.yaml").read_text())["resources"]
    assert [f"network-policies/{name}" for name in listed] == [LAUNCHERS, BOARDS]
