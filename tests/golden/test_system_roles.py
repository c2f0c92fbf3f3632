"""manifests/systems and manifests/optional: what launchers must be allowed to do beside manifests/base."""

import pathlib

import pytest
import yaml

from tfsteps.systems import registry, roles
from tfsteps.systems.kubernetes.permissions import OPT_IN

HERE = pathlib.Path(__file__).parents[2] / "manifests/systems"
OTHERS = [name for name in registry.on_kubernetes() if name != "kubeflow"]  # that one is in manifests/base
SET_BY_THE_OVERLAY = ("set-by-the-overlay", "set-by-the-overlay")
_KUSTOMIZATION = """# For `--system {name}`, beside manifests/base. In an overlay: `components: [../../systems/{name}]`.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
- {name}-role.yaml
- {name}-role-binding.yaml
"""
_OPT_IN_KUSTOMIZATION = """# Optional, beside manifests/base. In an overlay: `components: [../../optional/{name}]`.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
- {name}-role.yaml
- {name}-role-binding.yaml
"""
_BASE = {
    (group, plural): set(rule["verbs"])
    for rule in yaml.safe_load((HERE.parent / "base/launcher-role.yaml").read_text())["rules"]
    for group in rule["apiGroups"]
    for plural in rule["resources"]
}


def dumped(item):
    return "# Written by `make golden`.\n" + yaml.safe_dump(item, sort_keys=False, width=120)


def beside_base(rules):
    """Return the rules that grant more than manifests/base does."""
    for rule in rules:
        [group], [plural] = rule["apiGroups"], rule["resources"]
        if set(rule["verbs"]) - _BASE.get((group, plural), set()):
            yield rule


@pytest.mark.parametrize("name", OTHERS)
def test_the_role_of_a_system(name, golden):
    role = roles.role(f"tfsteps-{name}", list(beside_base(roles.rules(roles.permissions(name)))))
    golden(HERE / name / "kustomization.yaml", _KUSTOMIZATION.format(name=name))
    golden(HERE / name / f"{name}-role.yaml", dumped(role))
    golden(
        HERE / name / f"{name}-role-binding.yaml",
        dumped(roles.role_binding(role["metadata"]["name"], *SET_BY_THE_OVERLAY)),
    )


@pytest.mark.parametrize("name", OPT_IN)
def test_the_role_of_what_an_operator_adds(name, golden):
    role = roles.role(f"tfsteps-{name}", roles.rules(OPT_IN[name]))
    folder = HERE.parent / "optional" / name
    golden(folder / "kustomization.yaml", _OPT_IN_KUSTOMIZATION.format(name=name))
    golden(folder / f"{name}-role.yaml", dumped(role))
    golden(folder / f"{name}-role-binding.yaml", dumped(roles.role_binding(f"tfsteps-{name}", *SET_BY_THE_OVERLAY)))


def test_there_is_one_for_each_system():
    assert sorted(folder.name for folder in HERE.iterdir()) == sorted(OTHERS)
