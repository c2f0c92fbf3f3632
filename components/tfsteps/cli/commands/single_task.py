"""One task of a pipeline, found in a program, a compiled file or a run: its job, and the ids of its own runs."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.api.job_input import JobInput, set_by
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.find import Selection
from tfsteps.backends.open import open_backend
from tfsteps.cli.commands.attach import only
from tfsteps.cli.commands.rerun import recorded, recorded_input
from tfsteps.cli.compiled import load_or_compile, shaped
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.engines import registry
from tfsteps.engines.authoring import Compiled, PipelineTask
from tfsteps.engines.cluster_checks import JOB_STEPS
from tfsteps.engines.training_job import training_job
from tfsteps.runs.identity import task_run_id
from tfsteps.spec.spelling import nearest

RUN, DEBUG = "run", "debug"
_FILES = (".py", ".yaml", ".yml", ".json")


class TaskJob(msgspec.Struct, frozen=True):
    """The job of one task.

    Attributes:
        source: The job.
        system: The job system that the task names; empty = none.
    """

    source: JobInput
    system: str = ""


class SingleTask(msgspec.Struct, frozen=True):
    """One task of a pipeline.

    Attributes:
        pipeline: Name of the pipeline.
        name: Name of the task, with those of the graphs around it if several tasks have the same.
        path: Its whole name in the compiled pipeline; empty = it is of a run.
        compiled: The compiled pipeline; None = it is of a run.
    """

    pipeline: str
    name: str
    path: str = ""
    compiled: Compiled | None = None

    def run_id(self, mode: str) -> str:
        """Return the id of its own runs; `mode` is RUN or DEBUG."""
        return task_run_id(mode, self.pipeline, self.name)


def is_file(pipeline: str) -> bool:
    """Tell whether an argument is a program or a compiled file; otherwise it is a run."""
    return pipeline == "-" or pipeline.endswith(_FILES) or pathlib.Path(pipeline).is_file()


def of_file(pipeline: str, program: str | None, task: str) -> SingleTask:
    """Return a task of the pipeline in a file; `program` names the pipeline if the file has several.

    Raises:
        CommandError: The file is no pipeline, or has no such task.
    """
    compiled = load_or_compile(pipeline, program)
    paths = shaped(compiled, lambda: compiled.authoring.task_paths(compiled.documents))
    if not paths:
        why = f"engine {compiled.engine} names no task of this pipeline that starts a container"
        raise CommandError(f"{compiled.source}: task {task!r} cannot be run by itself: {why}")
    leaves = [path.rpartition("/")[2] for path in paths]
    names = {path: leaf if leaves.count(leaf) == 1 else path for path, leaf in zip(paths, leaves, strict=True)}
    match = next((path for path in paths if task in (path, names[path])), None)
    if match is None:
        same = [path for path, leaf in zip(paths, leaves, strict=True) if leaf == task]
        guess = nearest(task, names.values())
        wrong = "is the name of several tasks" if same else "is unknown"
        fix = f"write {guess}" if guess else f"it has {', '.join(same or names.values())}"
        raise CommandError(f"{compiled.source}: task {task!r} {wrong}; {fix}")
    return SingleTask(compiled.name, names[match], match, compiled)


def job_of_file(
    task: SingleTask, run: str, values: Mapping[str, str], overrides: Sequence[str], *, here: bool
) -> TaskJob:
    """Return the job of a task of a file.

    Args:
        task: The task.
        run: Id of the run.
        values: Values of `--param`, by name.
        overrides: Fields of the job that are replaced.
        here: Whether it runs on this machine, where of the task's settings only plain variables matter.

    Raises:
        CommandError: The task launches no job, or values are unknown or missing; all of them are named.
        SpecError: The job is wrong.
    """
    compiled = task.compiled
    assert compiled
    source = f"{compiled.source}, task {task.name}"
    call = shaped(compiled, lambda: compiled.authoring.task(compiled.documents, task.path, values, run))
    if call.step not in JOB_STEPS:
        what = f"its step is {call.step}" if call.step else "it runs another program"
        engines = (engine for engine in registry.plugins().values() if not engine.on_cluster)
        name = next((engine.name for engine in engines if engine.can_run(compiled.engine)), "")
        whole = f"; `tfsteps submit --engine {name}` runs the whole pipeline here" if name else ""
        raise CommandError(f"{source}: it launches no job of tfsteps: {what}. Name a train or launch step{whole}")
    _check_values(source, call, values)
    for warning in call.warnings if not here else ():
        warn(f"{source}: {warning}")
    env = {name: value for name, value in call.settings.get("env", {}).items() if isinstance(value, str)}
    settings: Mapping[str, Any] = {"env": env} if here else call.settings
    job = training_job(call.inputs, settings, source, overrides)
    system = call.inputs.get("system") or ""
    program = pathlib.Path(compiled.source)
    folder = program.absolute().parent if program.suffix == ".py" else pathlib.Path.cwd()  # as of a whole local run
    return TaskJob(JobInput(job, source, folder, set_by(overrides)), "" if system == "auto" else system)


def _check_values(source: str, task: PipelineTask, values: Mapping[str, str]) -> None:
    names = sorted(task.names)
    for name in values:
        if "." in name and name not in names:
            guess = nearest(name, names)
            raise CommandError(
                f"--param {name}: {source} gets no such value; {f'write {guess}' if guess else _known(names)}"
            )
    if task.missing:
        lacking = ", ".join(f"`{name}` needs {' and '.join(values)}" for name, values in task.missing.items())
        options = " ".join(
            f"-p {name}=VALUE" for name in dict.fromkeys(n for names in task.missing.values() for n in names)
        )
        raise CommandError(f"{source}: only a run of the pipeline has values of its inputs: {lacking}; add {options}")


def _known(names: Sequence[str]) -> str:
    return f"it gets {', '.join(names)}"


def of_run(run: str, task: str, location: BackendLocation) -> SingleTask:
    """Return a task of a run. CommandError if there is no such run or task."""
    selection = Selection(run, task)
    with open_backend(location, gone=True) as backend:
        identity = only(selection.certain(backend.find(run))).status.identity
    return SingleTask(identity.pipeline or identity.run, identity.task)


def job_of_run(run: str, task: str, location: BackendLocation, overrides: Sequence[str]) -> TaskJob:
    """Return the job of a task of a run. CommandError if it is not recorded."""
    status, job = recorded(Selection(run, task), location)
    return TaskJob(recorded_input(status, job, overrides), status.system)
