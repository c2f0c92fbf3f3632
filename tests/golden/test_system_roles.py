"""manifests/systems: what launchers must be allowed to do for each job system beside `kubeflow`, from its kinds."""

import pathlib

import pytest
import yaml

from tests.support.features import job_of
from tfsteps.systems import registry
from tfsteps.systems.features import FEATURES
from tfsteps.systems.kubernetes.preflight.permissions import needed

HERE = pathlib.Path(__file__).parents[2] / "manifests/systems"
OTHERS = [name for name in registry.on_kubernetes() if name != "kubeflow"]  # that one is in manifests/base
_KUSTOMIZATION = """# For `--system {name}`, beside manifests/base. In an overlay: `components: [../../systems/{name}]`.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
- {name}-role.yaml
- {name}-role-binding.yaml
"""


def dumped(item):
    return "# Written by `make golden`.\n" + yaml.safe_dump(item, sort_keys=False, width=120)


def role(name):
    """Return the Role: a rule for each kind of object, but for the pods, which manifests/base grants."""
    verbs = {}
    for kind in registry.kinds_of(name):
        for feature in (None, *FEATURES):
            job = job_of(name, feature)
            if kind.problems(job):
                continue
            for permission in needed(kind.resource, job, kind.permissions(job)):
                verbs.setdefault((permission.group, permission.plural), set()).add(permission.verb)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": f"tfsteps-{name}"},
        "rules": [
            {"apiGroups": [group], "resources": [plural], "verbs": sorted(verbs[group, plural])}
            for group, plural in verbs
            if verbs[group, plural] - _BASE.get((group, plural), set())
        ],
    }


_BASE = {
    (group, plural): set(rule["verbs"])
    for rule in yaml.safe_load((HERE.parent / "base/launcher-role.yaml").read_text())["rules"]
    for group in rule["apiGroups"]
    for plural in rule["resources"]
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_role_of_a_system(name, golden):
    binding = yaml.safe_load((HERE.parent / "base/launcher-role-binding.yaml").read_text())
    binding["metadata"]["name"] = binding["roleRef"]["name"] = f"tfsteps-{name}"
    golden(HERE / name / "kustomization.yaml", _KUSTOMIZATION.format(name=name))
    golden(HERE / name / f"{name}-role.yaml", dumped(role(name)))
    golden(HERE / name / f"{name}-role-binding.yaml", dumped(binding))


def test_there_is_one_for_each_system():
    assert sorted(folder.name for folder in HERE.iterdir()) == sorted(OTHERS)
