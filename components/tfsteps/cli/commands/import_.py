"""`tfsteps import`: jobs of other systems' notations, from files or a cluster, as job files."""

import pathlib
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tfsteps import spec
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.cli.output_files import write_new
from tfsteps.cli.place_options import Context, Namespace
from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import read_text
from tfsteps.console.messages import say
from tfsteps.console.text import shell_path
from tfsteps.engines import registry as engines
from tfsteps.imports import read, write
from tfsteps.imports.gang import group_names
from tfsteps.imports.read import ImportedPipeline, read_pipelines
from tfsteps.imports.write import one_line
from tfsteps.kube.errors import ApiError
from tfsteps.kube.resource import Resource
from tfsteps.runs.location import Location
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.render.gang import POD_GROUPS
from tfsteps.systems.manifest.draft import Imported
from tfsteps.systems.manifest.fields import NotUnderstoodError
from tfsteps.systems.manifest.pod import job_name

_JOB = "job"
_WRITERS = {name: engine.import_writer for name, engine in engines.plugins().items() if engine.import_writer}
_TARGETS = (_JOB, *_WRITERS)
_FORBIDDEN = 403
_NOT_FOUND = 404  # also of a kind that the cluster does not serve
_LONGEST = 4 << 20  # bytes of a file: more is no manifest
_EXPECTED = "a manifest, or KIND/NAME of a job on a cluster, such as tfjob/mnist"


def import_(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Manifests, YAML or JSON; `-` reads standard input, KIND/NAME such as tfjob/mnist the cluster.",
        ),
    ] = None,
    *,
    command: Annotated[
        str,
        typer.Option(metavar="LINE", help="In place of files: a command line of another launcher, such as hai-cli."),
    ] = "",
    as_: Annotated[
        str,
        typer.Option(
            "--as", metavar=f"<{'|'.join(_TARGETS)}>", help="What to write: a job file, or a pipeline with one step."
        ),
    ] = _JOB,
    output: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write; for several jobs a folder. Left out: standard output.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The job's name.", show_default="the manifest's")] = "",
    context: Context = "",
    namespace: Namespace = "",
) -> None:
    """Convert a job of another notation into a job file.

    Reads TFJob, JobSet and TrainJob of TensorFlow programs, the jobs of platforms, and Argo Workflows whose templates
    create one, also by the TFJob launcher of Kubeflow Pipelines 1. A pipeline that cube-studio exported becomes an Argo
    Workflow. Fields without a counterpart are listed on standard error, each with the reason. Exits 2 if a job or
    pipeline is not understood, or what is written has to be corrected before it can run.
    """
    if as_ not in _TARGETS:
        raise CommandError(f"--as {as_} is unknown: use one of {', '.join(_TARGETS)}")
    if bool(files) == bool(command):
        raise CommandError("give manifests, or one --command LINE; `tfsteps import --help` shows both")
    if name and name != job_name(name):
        allowed = "1 to 63 lower-case letters, digits and '-', a letter first, no '-' last"
        raise CommandError(
            f"--name {name!r} is not a job's name; allowed: {allowed}; write {job_name(name) or 'mnist'}"
        )
    jobs, pipelines = ([_of_line(command, name)], []) if command else _of_files(files or (), name, context, namespace)
    count = len(jobs) + len(pipelines)
    if name and (pipelines or count > 1):
        raise CommandError(f"--name {name} is for one job, and there are {count} jobs and pipelines; leave it out")
    if pipelines and as_ != _JOB:
        raise CommandError(f"--as {as_} is for jobs, and {pipelines[0].source} becomes a pipeline; leave it out")
    writer = _WRITERS.get(as_)
    suffix = writer.suffix if writer else ".yaml"
    if suffix == ".py" and output is None and count > 1:
        raise CommandError(
            f"{count} jobs become {count} programs, which standard output cannot hold; add --output FOLDER"
        )
    names = [*(str(job.job["name"]) for job in jobs), *(pipeline.name for pipeline in pipelines)]
    sources = [f"the job file of {job.source}" for job in jobs]
    sources += [f"{pipeline.source} for {engines.plugin(pipeline.engine).title}" for pipeline in pipelines]
    texts = [write.pipeline(job, writer) if writer else write.job_file(job) for job in jobs]
    texts += [pipeline.text for pipeline in pipelines]
    targets = _write(names, sources, texts, output, suffix)
    for pipeline, target in zip(pipelines, targets[len(jobs) :], strict=True):
        _check(pipeline, target)
    for job, target in zip(jobs, targets[: len(jobs)], strict=True):
        for note in job.notes:
            say(one_line(f"{job.source}: {note}"))
        spec.parse(write.job_file(job), target, registry.options())


def _of_files(
    files: Sequence[str], name: str, context: str, namespace: str
) -> tuple[list[Imported], list[ImportedPipeline]]:
    """Return the jobs and pipelines of files and objects of a cluster; print a note for each other document."""
    jobs: list[Imported] = []
    pipelines: list[ImportedPipeline] = []
    for file in files:
        text = read_text(file, _EXPECTED, _LONGEST) if _is_file(file) else _from_cluster(file, context, namespace)
        try:
            if in_file := read_pipelines(text):
                pipelines += in_file
                continue
            imported, notes = read.read_text(text, name)
        except NotUnderstoodError as error:
            if file.endswith(".py"):
                raise CommandError(
                    f"{file} is a Python program: compile its pipeline, for Kubeflow Pipelines 1 with "
                    f"`dsl-compile --py {file} --output pipeline.yaml`, and import what that writes"
                ) from error
            raise CommandError(f"{file}: {error}") from error
        jobs += imported
        for note in notes:
            say(one_line(f"{file}: {note}"))
    return jobs, pipelines


def _of_line(line: str, name: str) -> Imported:
    try:
        return read.read_line(line, name)
    except NotUnderstoodError as error:
        raise CommandError(f"--command: {error}") from error


def _check(pipeline: ImportedPipeline, target: str) -> None:
    """Print what a pipeline does not have. CommandError if its engine would refuse it."""
    authoring = engines.plugin(pipeline.engine).authoring()
    for note in [*pipeline.notes, *authoring.missing_arguments(pipeline.text)]:
        say(one_line(f"{pipeline.source}: {note}"))
    if problems := authoring.lint_messages(pipeline.text):
        raise CommandError("\n".join(f"{target}: {problem}" for problem in problems))


def _is_file(text: str) -> bool:
    """Tell whether an argument is a file's name, not KIND/NAME: an existing file always is."""
    kind, slash, name = text.partition("/")
    return text == "-" or not slash or "/" in name or pathlib.Path(text).exists() or not _kinds(kind)


def _kinds(word: str) -> list[Resource]:
    """Return the kinds that a word means: `tfjob`, `tfjobs`, `tfjobs.kubeflow.org`; empty = none is imported."""
    name, _, group = word.lower().partition(".")
    return [
        resource
        for resource in (kind.resource for kind in registry.kinds())
        if name in (resource.kind.lower(), resource.plural)
        and group in ("", resource.api.partition("/")[0])
        and read.readable({"apiVersion": resource.api, "kind": resource.kind})
    ]


def _from_cluster(text: str, context: str, namespace: str) -> str:
    """Return KIND/NAME and its PodGroups as JSON: of the first of the kinds of this name that has such an object."""
    from tfsteps.backends.kubernetes.backend import cluster  # noqa: PLC0415  files need no HTTP

    word, _, name = text.partition("/")
    with cluster(BackendLocation(Location.KUBERNETES, context, namespace)) as runs:
        for resource in _kinds(word):
            try:
                item = runs.api.get(resource, runs.namespace, name)
            except ApiError as error:
                if error.status != _NOT_FOUND:  # what may be there is not known to be missing
                    raise
                continue
            items = [item]
            for group in group_names(item):
                try:
                    items.append(runs.api.get(POD_GROUPS, runs.namespace, group))
                except ApiError as error:
                    if error.status not in (_NOT_FOUND, _FORBIDDEN):
                        raise
                    say(f"{text}: PodGroup {group} of its pods: {error}")
            return msgspec.json.encode({"kind": "List", "items": items}).decode()
        raise CommandError(f"there is no {word} {name} {runs.where}; `kubectl get {word}` lists them")


def _write(
    names: Sequence[str], sources: Sequence[str], texts: Sequence[str], output: pathlib.Path | None, suffix: str
) -> list[str]:
    """Write the files of jobs and pipelines; return where each went, for messages.

    Args:
        names: Of the jobs and pipelines, for files in a folder.
        sources: What each text is, for messages about standard output.
        texts: The contents.
        output: File or folder; None = standard output.
        suffix: The end of the files' names.

    Raises:
        CommandError: A file exists or cannot be written, has a name for other contents, or is that of two jobs.
    """
    if output is None:
        print("---\n".join(texts), end="")
        return list(sources)
    paths = [output]
    if len(names) > 1 or output.is_dir():
        paths = [output / f"{name}{suffix}" for name in names]
    elif (output.suffix == ".py") != (suffix == ".py"):
        written = "a Python program" if suffix == ".py" else "YAML"
        fix = f"write --output {shell_path(output.with_suffix(suffix))}, or choose another --as"
        raise CommandError(f"--output {str(output)!r} would get {written}, and a name for that ends in {suffix}; {fix}")
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise CommandError(f"two jobs would be written to {str(twice[0])!r}; import one at a time, with --name")
    contents = {path: text.encode() for path, text in zip(paths, texts, strict=True)}
    write_new(contents, "choose another file")
    print(*paths, sep="\n")
    return [str(path) for path in paths]
