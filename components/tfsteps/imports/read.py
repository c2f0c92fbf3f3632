"""Finds the jobs in the documents of a text, and reads each by its kind. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfsteps import spec, yaml_reader
from tfsteps.imports.draft import Imported
from tfsteps.imports.fields import Fields, NotUnderstoodError
from tfsteps.imports.jobset import read_jobset, read_trainjob
from tfsteps.imports.t9k import read_t9k
from tfsteps.imports.tfjob import read_tfjob
from tfsteps.imports.tfjob_v1alpha1 import read_tfjob_v1alpha1
from tfsteps.imports.workflow import is_workflow, resource_steps, with_conditions
from tfsteps.spec.notation import to_plain
from tfsteps.spec.problems import shown
from tfsteps.systems.kubernetes.cleanup.retention import JOB

_Reader = Callable[[Fields, str, str, str], Imported]
_READERS: Mapping[tuple[str, str], tuple[_Reader, str]] = {
    **{
        (f"kubeflow.org/{version}", "tfjob"): (read_tfjob, version)
        for version in ("v1", "v1beta2", "v1beta1", "v1alpha2")
    },
    **{(f"{group}/v1alpha1", "tfjob"): (read_tfjob_v1alpha1, group) for group in ("tensorflow.org", "kubeflow.org")},
    ("batch.tensorstack.dev/v1beta1", "tensorflowtrainingjob"): (read_t9k, ""),
    ("jobset.x-k8s.io/v1alpha2", "jobset"): (read_jobset, ""),
    ("trainer.kubeflow.org/v1alpha1", "trainjob"): (read_trainjob, ""),
}
KINDS = "TFJob, TfJob, TensorFlowTrainingJob, JobSet or TrainJob, or an Argo Workflow that creates one"
"""The kinds that can be imported, for messages."""


def read_text(text: str, name: str = "") -> tuple[list[Imported], list[str]]:
    """Return the jobs in a YAML or JSON text, and a note for each other document.

    Args:
        text: One or several documents; a List counts as its items.
        name: The job's name; empty = the manifest's.

    Raises:
        NotUnderstoodError: It is not YAML, has no job, or one that is not understood.
    """
    try:
        return _read_documents([item for document in yaml_reader.documents(text) for item in _items(document)], name)
    except yaml_reader.YamlError as error:
        raise NotUnderstoodError(f"line {error.line} {error.wrong}. {error.fix}") from error


def _read_documents(documents: list[Any], name: str) -> tuple[list[Imported], list[str]]:
    jobs, notes = [], []
    for document in documents:
        if readable(document):
            jobs.append(read_manifest(document, name))
        elif is_workflow(document) and (created := list(_created(document, name))):
            jobs += created
        else:
            notes.append(f"{_what(document)} is no job, and is left as it is")
    if not jobs:
        found = ", ".join(_what(document) for document in documents) or "nothing"
        raise NotUnderstoodError(f"has no job that can be imported, but {found}: write or name a {KINDS}")
    return jobs, notes


def readable(document: Any) -> bool:
    """Tell whether a document is of a kind that can be imported."""
    return isinstance(document, dict) and _key(document) in _READERS


def read_manifest(manifest: Mapping[str, Any], name: str = "") -> Imported:
    """Return the job of a manifest of a kind that can be imported. NotUnderstoodError if it is not understood."""
    fields = Fields(manifest)
    reader, version = _READERS[_key(manifest)]
    api, kind = fields.take(str, "apiVersion"), fields.take(str, "kind")
    metadata = manifest.get("metadata")
    its_name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
    source = f"{kind} {its_name} ({api})"
    if job := fields.take(str, "metadata", "annotations", JOB):
        return _own(job, source, name)
    try:
        return reader(fields, source, name, version)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(f"{source}: {error}") from error


def _created(workflow: Mapping[str, Any], name: str) -> Iterator[Imported]:
    """Yield the jobs that a Workflow's resource templates create."""
    for step in resource_steps(workflow):
        try:
            documents = yaml_reader.documents(step.manifest)
        except yaml_reader.YamlError as error:
            raise NotUnderstoodError(f"manifest of template {step.name}: {error}. {error.fix}") from error
        for document in documents:
            if readable(document):
                yield with_conditions(read_manifest(document, name), step)


def _own(text: str, source: str, name: str) -> Imported:
    """Return the job of an object that tfsteps created: it has its job as JSON."""
    try:
        job = to_plain(spec.parse(text))
    except spec.SpecError as error:
        raise NotUnderstoodError(f"{source}: its annotation {JOB} is no job of this version of tfsteps") from error
    return Imported(source, "", {**job, "name": name or job["name"]}, {}, [])


def _key(document: Mapping[str, Any]) -> tuple[str, str]:
    return str(document.get("apiVersion")), str(document.get("kind")).lower()


def _items(document: Any) -> Iterator[Any]:
    if document is None:
        return
    items = document.get("items") if isinstance(document, dict) and str(document.get("kind")).endswith("List") else None
    yield from items if isinstance(items, list) else [document]


def _what(document: Any) -> str:
    if not isinstance(document, dict) or "kind" not in document:
        return shown(document)
    return f"{document['kind']} {(document.get('metadata') or {}).get('name', '')} ({document.get('apiVersion')})"
