"""Platform settings are read as a whole, or refused with every problem."""

import pathlib
import re

import pytest

from tfsteps.settings.parse import load, parse
from tfsteps.settings.types import Settings
from tfsteps.spec import SpecError
from tfsteps.systems import registry

BAD = [
    ("defaults: {keepfor: 3h}", "defaults.keepfor", "Write `keep_for`"),
    ("defaults: {keep_for: soon}", "defaults.keep_for", "is not a duration"),
    ("defaults: {env: {TF_CONFIG: x}}", "defaults.env.TF_CONFIG", "is set by tfsteps"),
    ("defaults: {volumes: ['a(pvc):/a', 'b(pvc):/a']}", "defaults.volumes[1].mount", "is already used"),
    ("required: {node_selector: {'a b': c}}", "required.node_selector.a b", "is not a label key"),
    ("required: {resources: {cpu: 1}}", "required.resources", "is not a known field"),
    ("required: {systems: {t9: {}}}", "required.systems.t9", "is not a job system"),
    ("limits: {gpu: many}", "limits.gpu", "is not a whole number. Allowed: a whole number from 0 to 128. "),
    ("limits: {gpu: '2'}", "limits.gpu", "Write `2`."),
    (
        "tuning: {headroom: '0.4'}",
        "tuning.headroom",
        "is text, and not a number. Allowed: a number from 0 to 10. Write",
    ),
    ("tuning: {headroom: much}", "tuning.headroom", "Write something like 0.4."),
    ("defaults: {resources: {gpu: 1}}", "defaults.resources.gpu", "Allowed: cpu, memory, limits. Remove it."),
    ("image_registry: registry.example/ml/", "image_registry", "is not allowed here"),
    ("gpu: {vendors: {ascend: Ascend}}", "gpu.vendors.ascend", "domain/name"),
    ("gpu: {fraction: {resource: a.b/c}}", "gpu.fraction.per_gpu", "is missing"),
    ("projects: {a: {namespaces: [x]}, b: {namespaces: [x]}}", "projects.b.namespaces[0]", "belongs to project a"),
    (
        "required: {node_selector: {a: b}}\nprojects: {p: {required: {node_selector: {a: c}}}}",
        "projects.p.required.node_selector.a",
        "contradicts",
    ),
    ("limits: {cpu: 4}\ndefaults: {resources: {cpu: 8}}", "defaults.resources.cpu", "is above the limit"),
    (
        "limits: {memory: 4Gi}\ndefaults: {resources: {limits: {memory: 8Gi}}}",
        "defaults.resources.limits.memory",
        "4.0 GiB",
    ),
    (
        "projects: {p: {limits: {cpu: 1}}}\ndefaults: {resources: {cpu: 2}}",
        "defaults.resources.cpu",
        "Lower it, or raise `limits.cpu`",
    ),
    (
        "limits: {cpu: 1}\nprojects: {p: {defaults: {resources: {cpu: 2}}}}",
        "projects.p.defaults.resources.cpu",
        "1 cores",
    ),
    ("clusters: {in-cluster: {}}", "clusters.in-cluster", "is the name of the cluster of the step"),
    ("defaults: {cluster: far}", "defaults.cluster", "is not a cluster of the settings"),
    ("clusters: {a: {}}\nprojects: {p: {required: {cluster: b}}}", "projects.p.required.cluster", "in-cluster, a"),
    ("clusters: {a: {kubeconfig: secret}}", "clusters.a.kubeconfig", ""),
    ("projects: {p: {clusters: {b: {}}}}\nrequired: {cluster: b}", "required.cluster", "is not a cluster"),
]


@pytest.mark.parametrize(("text", "path", "message"), BAD)
def test_a_wrong_setting_is_one_problem_with_its_line(text, path, message):
    with pytest.raises(SpecError) as caught:
        parse(text, "settings.yaml", registry.options())
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"settings.yaml:{len(text.splitlines())}: {path}: ")
    assert message in line


WHOLE = [  # a text that is refused as a whole, and what is said of the settings
    ("- a", "is empty, or not a settings file. Start with `defaults:`, `required:` or `limits:`."),
    ("a: " + "[" * 200, "is nested more than 100 levels deep."),
    ("#" * (1 << 20) + "\n", "is longer than 1 MiB. Check that this is the settings file."),
    ("defaults: {}\n---\nlimits: {}", "contains more than one document. Keep one document:"),
    (
        "apiVersion: v1\nkind: ConfigMap",
        "is a Kubernetes object, not a settings file. Give the text that the ConfigMap",
    ),
    ("apiVersion: v1\n---\na: 1", "is a Kubernetes object, not a settings file."),
]


@pytest.mark.parametrize(("text", "message"), WHOLE)
def test_a_text_that_is_refused_as_a_whole_is_named_settings(text, message):
    with pytest.raises(SpecError) as caught:
        parse(text, "my job file.yaml")
    assert f": settings: {message}" in str(caught.value)
    assert "job" not in str(caught.value).removeprefix("my job file.yaml")


def test_a_field_of_a_manifest_is_no_field_of_a_job_file():
    with pytest.raises(SpecError) as caught:
        parse("apiVersion: v1", "settings.yaml")
    assert str(caught.value).endswith("is not a known field. Remove it: this file is not a Kubernetes object.")


def test_an_empty_text_is_no_settings():
    assert parse("\n", "x") == Settings()


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path):
    with pytest.raises(SpecError, match=r"none\.yaml: settings: cannot be read: No such file or directory\. Give"):
        load(str(tmp_path / "none.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"contact: \xff")
    with pytest.raises(SpecError, match=r"settings: is not UTF-8 \(byte 9\)\. Save the file as UTF-8\."):
        load(str(tmp_path / "latin.yaml"))


def test_a_project_may_name_the_clusters_of_the_platform():
    settings = parse(
        "clusters: {a: {}}\nprojects: {p: {namespaces: [n], clusters: {b: {}}, defaults: {cluster: a}}}", "x"
    )
    assert list(settings.clusters_of("n")) == ["a", "b"]
    assert list(settings.clusters_of("other")) == ["a"]


@pytest.mark.parametrize("page", ["settings.md", "clusters.md"])
def test_the_example_of_a_page_is_valid(page):
    page = (pathlib.Path(__file__).parents[3] / "docs/operate" / page).read_text()
    [example] = re.findall(r'```yaml title="settings.yaml"\n(.*?)```', page, re.DOTALL)
    assert list(parse(example, "settings.yaml", registry.options()).projects) == ["vision"]
