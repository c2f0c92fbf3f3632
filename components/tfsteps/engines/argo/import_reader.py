"""Finds the job objects that resource templates of an Argo Workflow create, with what decides their success. Pure."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps import yaml_reader
from tfsteps.spec import dotted
from tfsteps.spec.problems import shown
from tfsteps.systems.manifest.draft import Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError

_KINDS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_REPLICAS = re.compile(r"status\.replicaStatuses\.(\w+)\.(succeeded|failed)\s*(==?|>=?)\s*([0-9]{1,9})")
_OWN_VERDICT = re.compile(r"status\.(state|phase|terminalState|conditions)\b[^,]*\b(Succe\w+|Completed?|Done)\b[^,]*")
_LAUNCHER = "/launch_tfjob.py"
_BUILT_IN = {"workflow.name": "workflow", "workflow.uid": "uid", "workflow.namespace": "default"}


class ResourceStep(msgspec.Struct, frozen=True):
    """A template that creates an object.

    Attributes:
        name: Of the template.
        manifest: The text of the object, its parameters filled in.
        success: Its successCondition; empty = none.
        failure: Its failureCondition; empty = none.
        notes: Sentences about the rest of the template.
        deletes: Whether it deletes the object at the end.
    """

    name: str
    manifest: str
    success: str
    failure: str
    notes: list[str]
    deletes: bool = False


def is_workflow(document: Any) -> bool:
    """Tell whether a document is a Workflow of Argo's, or a template or schedule of one."""
    api = str(document.get("apiVersion")) if isinstance(document, dict) else ""
    return api.startswith("argoproj.io/") and document.get("kind") in _KINDS


def resource_steps(document: Mapping[str, Any]) -> Iterator[ResourceStep]:
    """Yield the templates that create an object.

    Raises:
        NotUnderstoodError: A manifest contains a parameter that has no value.
    """
    workflow = Fields(document)
    path = ("spec", "workflowSpec") if document["kind"] == "CronWorkflow" else ("spec",)
    shared = _values("workflow.parameters", workflow.mappings(*path, "arguments", "parameters"))
    of_entrypoint = {key.replace("workflow.", "inputs.", 1): value for key, value in shared.items()}
    entrypoint = workflow.take(str, *path, "entrypoint")
    templates = workflow.mappings(*path, "templates")
    calls: dict[str, list[dict[str, str]]] = {}
    for template in _body(document).get("templates") or []:
        known = {**shared, **(of_entrypoint if template.get("name") == entrypoint else {})}
        for called, parameters in _calls(template):
            calls.setdefault(called, []).append({key: _known(value, known) for key, value in parameters.items()})
    for template in templates:
        launcher, resource = _launcher_arguments(template), template.inside("resource")
        if not launcher and resource.take(str, "action") not in ("create", "apply"):
            continue
        name = template.take(str, "name") or ""
        inputs = _values("inputs.parameters", template.mappings("inputs", "parameters"))
        inputs, notes = _called(inputs, calls.get(name, []))
        if launcher:
            values = {**_BUILT_IN, **of_entrypoint, **shared, **inputs}
            yield _launched(name, {key: _filled(value, name, values) for key, value in launcher.items()}, notes)
            continue
        text = resource.take(str, "manifest") or ""
        values = {**_BUILT_IN, **shared, **inputs}
        texts = (text, *(resource.take(str, f"{end}Condition") or "" for end in ("success", "failure")))
        resource.take(bool, "setOwnerReference")  # a launcher does so
        template.take(list, "outputs", "parameters")
        notes += [
            f"{dotted(field)} of the template is not part of a job: write it on the step"
            for field, _ in template.left()
        ]
        manifest, success, failure = (_filled(part, name, values) for part in texts)
        yield ResourceStep(name, manifest, success, failure, notes)


def other_templates(document: Mapping[str, Any], steps: Iterable[ResourceStep]) -> list[str]:
    """Return the names of the templates of a Workflow that create no job."""
    names = [str(template.get("name")) for template in _body(document).get("templates") or []]
    return [name for name in names if name not in {step.name for step in steps}]


def _body(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Workflow's spec, whose templates `Fields` has found to be mappings."""
    spec: Mapping[str, Any] = document.get("spec") or {}
    return spec.get("workflowSpec") or {} if document["kind"] == "CronWorkflow" else spec


def _calls(value: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the template and the parameters of each step or task below a value."""
    if isinstance(value, list):
        for item in value:
            yield from _calls(item)
    elif isinstance(value, Mapping):
        if isinstance(called := value.get("template"), str):
            arguments = value.get("arguments")
            parameters = arguments.get("parameters") if isinstance(arguments, Mapping) else None
            items = parameters if isinstance(parameters, list) else []
            pairs = [item for item in items if isinstance(item, Mapping) and "value" in item]
            yield called, {str(item.get("name")): str(item["value"]) for item in pairs}
        for item in value.values():
            yield from _calls(item)


def _known(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the parameters of a step's own template, as far as they have a value."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def _called(defaults: Mapping[str, str], calls: Sequence[Mapping[str, str]]) -> tuple[dict[str, str], list[str]]:
    """Return the values of a template's parameters, and a note for each that differs between the steps that call it."""
    values, notes = dict(defaults), []
    for parameter in dict.fromkeys(key for call in calls for key in call):
        key = f"inputs.parameters.{parameter}"
        passed = list(dict.fromkeys(call.get(parameter, defaults.get(key, "")) for call in calls))
        known = [value for value in passed if not _PLACEHOLDER.search(value)]
        if known and (len(passed) == 1 or key not in values):
            values[key] = known[0]
        if key in values and passed != [values[key]]:
            texts = ", ".join(shown(value) for value in passed)
            notes.append(f"the steps set parameter {parameter} to {texts}: here it is {shown(values[key])}")
    return values, notes


def with_conditions(job: Imported, step: ResourceStep) -> Imported:
    """Return a job with the success that its step has waited for, and notes for what else the step has had."""
    fields, comments, notes = dict(job.job), dict(job.comments), [*job.notes, *step.notes]
    parts = [_REPLICAS.fullmatch(part.strip()) for part in step.success.split(",")]
    replicas = {
        {"chief": "chief", "master": "chief"}.get(part[1].lower(), part[1].lower()): int(part[4]) + (part[3] == ">")
        for part in parts
        if part and all(parts) and part[2] == "succeeded"
    }
    decides = "chief" if "chief" in fields["roles"] else "worker"
    workers = fields["roles"].get("worker", {}).get("replicas", 1)
    decisive = replicas == {decides: 1} and (decides == "chief" or workers == 1)
    if (
        replicas.get("worker") == workers
        and set(replicas) <= {"chief", "worker"}
        and (workers > 1 or len(replicas) > 1)
    ):
        fields["success"] = "all_workers"
    elif not decisive and step.success and not _OWN_VERDICT.fullmatch(step.success.strip()):
        fields["success"] = "chief"
        comments["success",] = f"was successCondition: {step.success}: no job file can say that"
    if step.deletes:
        fields["on_end"] = "delete"
    if step.failure:
        notes.append(f"failureCondition {step.failure}: the job fails by its operator's verdict, after its restarts")
    return msgspec.structs.replace(
        job, source=f"{job.source} of template {step.name}", job=fields, comments=comments, notes=notes
    )


def _launcher_arguments(template: Fields) -> dict[str, str]:
    """Return the arguments of the TFJob launcher of Kubeflow Pipelines 1 by name; empty = another template."""
    container = template.inside("container")
    words = [str(word) for field in ("command", "args") for word in container.take(list, field) or []]
    if not any(word.endswith(_LAUNCHER) for word in words):
        return {}
    return {name.removeprefix("--"): value for name, value in itertools.pairwise(words) if name.startswith("--")}


def _launched(name: str, arguments: Mapping[str, str], notes: Sequence[str]) -> ResourceStep:
    """Return the step of a launcher: the TFJob that its arguments describe."""
    roles = {"PS": "psSpec", "Chief": "chiefSpec", "Worker": "workerSpec", "Evaluator": "evaluatorSpec"}
    specs = {role: _plain(arguments.get(field, "")) for role, field in roles.items()}
    minutes = _number(arguments, "tfjobTimeoutMinutes")
    deadlines = [
        seconds
        for seconds in (_number(arguments, "activeDeadlineSeconds"), None if minutes is None else minutes * 60)
        if seconds is not None
    ]
    policy = {
        "cleanPodPolicy": arguments.get("cleanPodPolicy"),
        "ttlSecondsAfterFinished": _number(arguments, "ttlSecondsAfterFinished"),
        "backoffLimit": _number(arguments, "backoffLimit"),
        "activeDeadlineSeconds": min(deadlines, default=None),
    }
    manifest = {
        "apiVersion": f"kubeflow.org/{arguments.get('version', 'v1')}",
        "kind": "TFJob",
        "metadata": {"name": arguments.get("name", name), "namespace": arguments.get("namespace")},
        "spec": {"runPolicy": policy, "tfReplicaSpecs": {role: spec for role, spec in specs.items() if spec}},
    }
    known = {*roles.values(), *policy, "name", "namespace", "version", "tfjobTimeoutMinutes", "deleteAfterDone"}
    notes = [
        *notes,
        *(
            f"--{key} {value} of the launcher: a job file has no field for it"
            for key, value in arguments.items()
            if key not in known
        ),
        "the launcher succeeded also if the TFJob failed; `train` fails then",
        "the launcher wrote cleanPodPolicy, backoffLimit and the deadline where no operator reads them: now they count",
    ]
    deletes = arguments.get("deleteAfterDone", "True").lower() in ("true", "1", "yes", "y", "t", "on")
    return ResourceStep(name, json.dumps(manifest), "", "", notes, deletes)


def _plain(text: str) -> Any:
    try:
        (value,) = yaml_reader.documents(text) or [None]
    except (yaml_reader.YamlError, ValueError) as error:
        raise NotUnderstoodError(f"an argument of the launcher is not JSON: {error}") from error
    return value


def _number(arguments: Mapping[str, str], name: str) -> int | None:
    """Return a number; None = missing, or -1, which means so."""
    text = arguments.get(name, "-1")
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise NotUnderstoodError(f"--{name} {text} of the launcher is not a whole number")
    return int(text) if int(text) >= 0 else None


def _values(prefix: str, parameters: list[Fields]) -> dict[str, str]:
    """Return the values of parameters that have one, by the names of their placeholders."""
    values = {}
    for parameter in parameters:
        name = parameter.take(str, "name") or ""
        candidates = [parameter.take(object, key) for key in ("value", "default")]
        if present := [value for value in candidates if value is not None]:
            values[f"{prefix}.{name}"] = str(present[0])
    return values


def _filled(text: str, name: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its parameters; a value may itself be a placeholder of the Workflow."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            wrong = f"template {name}: {match[0]} has no value in this file"
            raise NotUnderstoodError(f"{wrong}; give the parameter a value or a default, and import it again")
        return values[match[1]]

    for _ in range(3):  # inputs of a template that are parameters of the Workflow
        text = _PLACEHOLDER.sub(value, text)
    return text
