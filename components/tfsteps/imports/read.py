"""Finds the jobs in the documents of a text, and reads each by its kind; pipelines of platforms as Workflows. Pure."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from tfsteps import spec, yaml_reader
from tfsteps.engines import registry as engines
from tfsteps.engines.plugin import ImportReader, ImportStep
from tfsteps.imports.gang import left_over, pod_groups, with_gang
from tfsteps.spec.parse import to_plain
from tfsteps.spec.problems import shown
from tfsteps.systems import platforms, registry
from tfsteps.systems.kubernetes.cleanup.retention import JOB
from tfsteps.systems.manifest.draft import Imported
from tfsteps.systems.manifest.fields import Fields, NotUnderstoodError
from tfsteps.systems.plugin import load

Reader = Callable[[Fields, str, str, str], Imported]
"""Returns the job of a manifest; then come its name in messages, the job's name (empty = its own), its apiVersion."""

LineReader = Callable[[Sequence[str], str], Imported]
"""Returns the job of a command line, in words; then comes the job's name, empty = the line's own."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def _readers() -> Mapping[tuple[str, str], str]:
    """Return the names of the readers by apiVersion and kind."""
    return {key: name for plugin in registry.plugins().values() for key, name in plugin.readers.items()}


def _reader(document: Mapping[str, Any]) -> str:
    """Return the name of the reader of a document; empty = its kind cannot be imported. Kinds may have any case."""
    api, kind = document.get("apiVersion"), str(document.get("kind", "")).lower()
    if not kind and isinstance(document.get("version"), int):
        api = f"version {document['version']}"
    return next((name for key, name in _readers().items() if (key[0], key[1].lower()) == (api, kind)), "")


def _kinds() -> str:
    """Return the kinds that can be imported, for messages."""
    *kinds, last = dict.fromkeys(kind for _, kind in _readers() if kind)
    pipelines = "".join(f", or {reader.title} that creates one" for reader in _pipeline_readers())
    return f"{', '.join(kinds)} or {last}{pipelines}"


def _pipeline_readers() -> list[ImportReader]:
    """Return what finds the jobs in pipelines of engines."""
    return [engine.import_reader for engine in engines.most_specific_first() if engine.import_reader]


def read_text(text: str, name: str = "") -> tuple[list[Imported], list[str]]:
    """Return the jobs in a YAML or JSON text, and a note for each other document.

    Args:
        text: One or several documents; a List counts as its items.
        name: The job's name; empty = the manifest's.

    Raises:
        NotUnderstoodError: It is not YAML, has no job, or one that is not understood.
    """
    try:
        documents = yaml_reader.documents(text, unique=True)
        return _read_documents([item for document in documents for item in _items(document)], name)
    except yaml_reader.YamlError as error:
        if "{{" in (text.splitlines() or [""])[error.line - 1]:
            raise NotUnderstoodError(
                f"line {error.line} is of a template, not YAML: render it first, a chart of Helm with "
                "`helm template CHART | tfsteps import -`"
            ) from error
        raise NotUnderstoodError(f"line {error.line} {error.wrong}. {error.fix}") from error


def read_line(line: str, name: str = "") -> Imported:
    """Return the job that a command line of another launcher submits.

    Args:
        line: The command line, as typed into a shell; assignments of variables may precede it.
        name: The job's name; empty = the line's own.

    Raises:
        NotUnderstoodError: It is no such command line, or one that is not understood.
    """
    try:
        words = shlex.split(line.replace("\\\n", " "))  # a shell continues such a line
    except ValueError as error:
        raise NotUnderstoodError(f"the command line is not closed: {error}") from error
    readers, program = _line_readers(), _program(words)
    if program not in readers:
        raise NotUnderstoodError(f"a command line begins with {' or '.join(sorted(readers))}, not {program!r}")
    reader: LineReader = load(readers[program])
    return reader(words, name)


def _line_readers() -> Mapping[str, str]:
    """Return the names of the readers of command lines, by the program that a line begins with."""
    return {word: reader for plugin in registry.plugins().values() for word, reader in plugin.command_lines.items()}


def _program(words: Sequence[str]) -> str:
    return next((word for word in words if not _ASSIGNMENT.match(word)), "")


def _read_documents(documents: list[Any], name: str) -> tuple[list[Imported], list[str]]:
    jobs, notes = [], []
    groups = pod_groups(documents)
    for document in documents:
        if readable(document):
            jobs.append(read_manifest(document, name, groups))
        elif (reader := _pipeline_reader(document)) and (created := list(_created(reader, document, name))):
            jobs += [job for job, _ in created]
            if others := reader.other_steps(document, [step for _, step in created]):
                rest = f"{', '.join(others)}, and the order, conditions and loops of the steps"
                notes.append(f"{_what(document)}: only its jobs become job files. Left out: {rest}")
        elif not pod_groups([document]):
            notes.append(f"{_what(document)} is no job, and is left as it is")
    for group_name, group in groups.items():
        notes += left_over(group_name, group)
    if not jobs:
        if any(isinstance(document, dict) and "roles" in document and "kind" not in document for document in documents):
            raise NotUnderstoodError("is a job file already: run it with `tfsteps run`")
        if any(isinstance(document, str) and _program(document.split()) in _line_readers() for document in documents):
            raise NotUnderstoodError("is a command line, not a job: `tfsteps import --command 'LINE'` takes it")
        kinds = ", ".join(_what(document) for document in documents) or "nothing"
        raise NotUnderstoodError(f"has no job that can be imported, but {kinds}: write or name a {_kinds()}")
    return jobs, notes


def readable(document: Any) -> bool:
    """Tell whether a document is of a kind that can be imported."""
    return isinstance(document, dict) and bool(_reader(document))


def read_manifest(
    manifest: Mapping[str, Any], name: str = "", groups: Mapping[str, Fields] = MappingProxyType({})
) -> Imported:
    """Return the job of a manifest of a kind that can be imported.

    Args:
        manifest: The manifest.
        name: The job's name; empty = the manifest's.
        groups: The PodGroups beside it, by name.

    Raises:
        NotUnderstoodError: It is not understood.
    """
    fields = Fields(manifest)
    reader: Reader = load(_reader(manifest))
    api, kind = fields.take(str, "apiVersion") or "", fields.take(str, "kind") or "task"
    version = fields.take(int, "version") if not api else None
    source = f"{kind} {_name(manifest) or None} ({api or f'version {version}'})"
    if job := fields.take(str, "metadata", "annotations", JOB):
        return _own(job, source, name)
    try:
        return with_gang(reader(fields, source, name, api), groups)
    except NotUnderstoodError as error:
        raise NotUnderstoodError(f"{source}: {error}") from error


def _pipeline_reader(document: Any) -> ImportReader | None:
    """Return what finds the jobs in a document that is a pipeline; None = it is none."""
    return next((reader for reader in _pipeline_readers() if reader.recognizes(document)), None)


def _created(reader: ImportReader, document: Mapping[str, Any], name: str) -> Iterator[tuple[Imported, ImportStep]]:
    """Yield the jobs that the steps of a pipeline create, each with its step."""
    for step in reader.steps(document):
        try:
            documents = yaml_reader.documents(step.manifest)
        except yaml_reader.YamlError as error:
            raise NotUnderstoodError(f"manifest of step {step.name}: {error}. {error.fix}") from error
        for manifest in documents:
            if readable(manifest):
                yield reader.with_step(read_manifest(manifest, name), step), step


def _own(text: str, source: str, name: str) -> Imported:
    """Return the job of an object that tfsteps created: it has its job as JSON."""
    try:
        job = to_plain(spec.parse(text))
    except spec.SpecError as error:
        raise NotUnderstoodError(f"{source}: its annotation {JOB} is no job of this version of tfsteps") from error
    return Imported(source, "", {**job, "name": name or job["name"]}, {}, [])


def _items(document: Any) -> Iterator[Any]:
    if document is None:
        return
    if isinstance(document, dict) and str(document.get("kind")).endswith("List") and "items" in document:
        items = document["items"] or []
        for item in items if isinstance(items, list) else [items]:
            yield from _items(item)
    else:
        yield document


def _what(document: Any) -> str:
    if not isinstance(document, dict) or "kind" not in document:
        return shown(document)
    return " ".join(
        str(part) for part in (document["kind"], _name(document), f"({document.get('apiVersion')})") if part
    )


def _name(document: Mapping[str, Any]) -> Any:
    """Return the name of an object, for messages; empty = it has none."""
    metadata = document.get("metadata", document)
    return (metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, dict) else ""


class ImportedPipeline(msgspec.Struct, frozen=True):
    """A pipeline in the notation of an engine.

    Attributes:
        name: Its name.
        source: What it was, for messages: `pipeline mnist of PLATFORM`.
        engine: Name of the engine that it is for.
        text: The compiled pipeline.
        notes: Sentences about what it does not have, each with the reason.
    """

    name: str
    source: str
    engine: str
    text: str
    notes: list[str]


PipelineReader = Callable[[Any], list[ImportedPipeline]]
"""Returns the pipelines of a document; empty = it is of another kind. NotUnderstoodError for a wrong one."""


def read_pipelines(text: str) -> list[ImportedPipeline]:
    """Return the pipelines in a YAML or JSON text; empty = there are none. NotUnderstoodError as a `PipelineReader`."""
    try:
        documents = yaml_reader.documents(text)
    except yaml_reader.YamlError:
        return []  # who reads jobs reports it
    pipelines = []
    for reader in (platform.pipeline_reader for platform in platforms.plugins().values() if platform.pipeline_reader):
        read: PipelineReader = load(reader)
        pipelines += [pipeline for document in documents for pipeline in read(document)]
    return pipelines
