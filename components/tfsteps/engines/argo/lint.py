"""Finds, in an Argo manifest, what Argo refuses, drops without a message, or fails at run time."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfsteps.engines.argo import launchers
from tfsteps.engines.argo.cron import cron_problem, zone_problem
from tfsteps.engines.argo.references import Workflow
from tfsteps.engines.argo.schema import kinds, violations
from tfsteps.spec.problems import shown
from tfsteps.spec.spelling import nearest
from tfsteps.yaml_reader import documents

API = "argoproj.io/"
_LIST = "List"
_CHOICES = {
    "retryPolicy": ("Always", "OnFailure", "OnError", "OnTransientError"),
    "concurrencyPolicy": ("Allow", "Forbid", "Replace"),
}
_GC = ("OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
_CRON_NAME = 52  # characters: Argo appends the time to it

_Node = Mapping[str, Any]


def lint_messages(compiled: str) -> list[str]:
    """Return a sentence for each problem of Argo manifests: which manifest, where in it, and what is wrong.

    Args:
        compiled: Manifests, YAML or JSON. Manifests of other kinds are ignored; it is a problem if there is none of
            Argo.

    Raises:
        YamlError: It is neither YAML nor JSON.
    """
    if not any(map(_is_argos, manifests(documents(compiled)))):
        return [f"there is no manifest with apiVersion: {API}v1alpha1 in it"]
    checked = _checked(compiled)
    others = _others(checked)
    return [f"{_name(manifest)}: {sentence}" for manifest in checked for sentence in _manifest(manifest, others)]


def warnings(compiled: str) -> list[str]:
    """Return a sentence for each thing that fails on some versions of Argo, and for each input that must still be set.

    Args:
        compiled: As for `problems`. Manifests with unknown fields or other types have no warnings.

    Raises:
        YamlError: It is neither YAML nor JSON.
    """
    return [*cautions(compiled), *missing_arguments(compiled)]


def cautions(compiled: str) -> list[str]:
    """Return the warnings that are not about inputs to be set; arguments and errors as for `warnings`."""
    argos = [manifest for manifest in manifests(documents(compiled)) if _is_argos(manifest)]
    others = _others([manifest for manifest in argos if _is_known(manifest)])
    return [f"{_name(manifest)}: {sentence}" for manifest in argos for sentence in _cautions(manifest, others)]


def _cautions(manifest: _Node, others: Mapping[str, _Node]) -> Iterator[str]:
    if not _is_known(manifest):
        yield "this kind is not checked"
    elif _is_shaped(manifest):
        if manifest["spec"].get("schedule"):
            yield "spec.schedule: Argo 4 has no such field, and starts nothing; write schedules: [...]"
        yield from _workflow(manifest, others).cautions()


def missing_arguments(compiled: str) -> list[str]:
    """Return the warnings about inputs that must be set at submission; arguments and errors as for `warnings`."""
    checked = [manifest for manifest in _checked(compiled) if _is_shaped(manifest)]
    others = _others(checked)
    return [
        f"{_name(manifest)}: {sentence}" for manifest in checked for sentence in _workflow(manifest, others).warnings()
    ]


def manifests(read: Iterable[Any]) -> Iterator[Any]:
    """Yield the manifests of a file, those in a `kind: List` too."""
    for document in read:
        if isinstance(document, dict) and document.get("kind") == _LIST and isinstance(document.get("items"), list):
            yield from manifests(document["items"])
        else:
            yield document


def _checked(compiled: str) -> list[Any]:
    return [manifest for manifest in manifests(documents(compiled)) if _is_argos(manifest) and _is_known(manifest)]


def _is_known(manifest: _Node) -> bool:
    """Tell whether the kind of a manifest is checked, or a misspelled one of those; Argo ignores any other."""
    kind = manifest.get("kind")
    return not isinstance(kind, str) or kind in kinds() or nearest(kind, kinds()) is not None


def _is_shaped(manifest: _Node) -> bool:
    return manifest.get("kind") in kinds() and not any(violations(manifest))


def _others(checked: list[Any]) -> dict[str, _Node]:
    """Return the specs of the known WorkflowTemplates, by name: the shipped one, and those in the same file."""
    templates = [manifest for manifest in checked if "Template" in str(manifest.get("kind")) and _is_shaped(manifest)]
    named = {template["metadata"].get("name", ""): template["spec"] for template in templates}
    return {launchers.NAME: launchers.shipped(), **named}


def _workflow(manifest: _Node, others: Mapping[str, _Node]) -> Workflow:
    kind, spec = manifest["kind"], manifest["spec"]
    spec = spec["workflowSpec"] if kind == "CronWorkflow" else spec
    return Workflow(spec, template="Template" in kind, others=others)


def _is_argos(manifest: Any) -> bool:
    return isinstance(manifest, dict) and str(manifest.get("apiVersion", "")).startswith(API)


def _name(manifest: _Node) -> str:
    meta = manifest.get("metadata") or {}
    return f"{manifest.get('kind', 'no kind')} {meta.get('name') or meta.get('generateName') or 'without a name'}"


def _manifest(manifest: _Node, others: Mapping[str, _Node]) -> Iterator[str]:
    kind = manifest.get("kind")
    if kind not in kinds():
        yield f"kind: {shown(kind)} is not one of {', '.join(kinds())}"
        return
    type_problems = list(violations(manifest))
    yield from type_problems
    if type_problems:  # the next checks rely on the types
        return
    spec = manifest["spec"]
    yield from _metadata(kind, manifest["metadata"])
    if kind == "CronWorkflow":
        yield from _schedules(spec)
        spec = spec["workflowSpec"]
    yield from _workflow(manifest, others).lint_messages()
    yield from _choices(spec, "spec")


def _metadata(kind: str, meta: _Node) -> Iterator[str]:
    if not meta.get("name") and not meta.get("generateName"):
        yield "metadata.name: it is missing"
    if kind == "ClusterWorkflowTemplate" and meta.get("namespace"):
        yield "metadata.namespace: a ClusterWorkflowTemplate is in no namespace"
    if kind == "CronWorkflow" and len(meta.get("name") or "") > _CRON_NAME:
        yield f"metadata.name: longer than {_CRON_NAME} characters, which leaves no room for the time of a run"


def _schedules(spec: _Node) -> Iterator[str]:
    schedules = spec.get("schedules") or ([spec["schedule"]] if spec.get("schedule") else [])
    if not schedules:
        yield "spec.schedules: it is missing"
    for i, schedule in enumerate(schedules):
        if problem := cron_problem(schedule):
            yield f"spec.schedules[{i}]: {shown(schedule)} {problem}"
    if problem := zone_problem(spec.get("timezone") or ""):
        yield f"spec.timezone: {shown(spec['timezone'])} {problem}"
    yield from _choices({key: value for key, value in spec.items() if key != "workflowSpec"}, "spec")


def _choices(node: Any, path: str) -> Iterator[str]:
    """Check, at any depth, the fields that allow only a few values; Argo's schema describes them as text."""
    if isinstance(node, list):
        for i, item in enumerate(node):
            yield from _choices(item, f"{path}[{i}]")
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        allowed = _GC if key == "strategy" and path.endswith("podGC") else _CHOICES.get(key, ())
        if allowed and isinstance(value, str) and value not in allowed:
            yield f"{path}.{key}: {shown(value)} is not one of {', '.join(allowed)}"
        yield from _choices(value, f"{path}.{key}")
