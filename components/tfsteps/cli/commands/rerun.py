"""`tfsteps rerun`: runs the job of an earlier run again, as a new run."""

import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from tfsteps import spec, typed_json
from tfsteps.api.job_input import JobInput, set_by
from tfsteps.api.plan import choose, make_plan
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.find import Selection, run_id_problem
from tfsteps.backends.local.backend import LocalBackend
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands.attach import only
from tfsteps.cli.commands.run import Detach, RunDryRun, RunOutput, Timestamps
from tfsteps.cli.commands.submit import parse_parameters
from tfsteps.cli.compiled import parse_compiled
from tfsteps.cli.place_options import Context, From, Namespace, OnOption, Overrides
from tfsteps.cli.planned_job import Display, TensorBoardChoice, print_plan, run_plan, start_detached
from tfsteps.cli.run_options import RunId
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.console.outputs import OutputFormat
from tfsteps.console.text import clean
from tfsteps.engines import registry as engines
from tfsteps.engines.submission import Rerun
from tfsteps.json_errors import NOT_READABLE
from tfsteps.masking import masked_job
from tfsteps.runs.location import Location
from tfsteps.runs.pipeline_record import LocalSubmission, PipelineRecord
from tfsteps.runs.status import Status
from tfsteps.spec.overrides import differences
from tfsteps.spec.step_inputs import DATA, with_data
from tfsteps.systems import registry

_SHOWN = 100  # characters of a value


def rerun(
    run: RunId,
    *,
    overrides: Overrides = None,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="Change an input of the pipeline. Repeatable."),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Only the job of this task. Left out: the pipeline, or the only job.")
    ] = None,
    run_id: Annotated[str | None, typer.Option(help="Id of the new run. Left out: a new one, printed first.")] = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    from_: From = "",
    detach: Detach = False,
    dry_run: RunDryRun = False,
    output: RunOutput = OutputFormat.TEXT,
    timestamps: Timestamps = False,
) -> None:
    """Run a job, or a pipeline of this machine, again, as a new run.

    A job has the same job system, namespace and working folder; a pipeline runs as it was compiled, in the same folder,
    and with the same inputs. Prints the id of the new run and what differs.
    """
    location = located(Selection(run, task), on, context, namespace, records=from_)
    if pipeline := _pipeline(Selection(run, task), location):
        options = {"--set": overrides, "--detach": detach, "--dry-run": dry_run, "--timestamps": timestamps}
        if used := [name for name, value in {**options, "--output": output is OutputFormat.JSON}.items() if value]:
            raise CommandError(f"run {pipeline} is a pipeline, and {used[0]} is about one job; add --task NAME")
        if run_id == pipeline:
            raise CommandError(f"--run-id {run_id!r} is the run itself; give another one, or leave it out")
        if run_id is not None and (wrong := run_id_problem(run_id)):
            raise CommandError(f"--run-id {run_id!r} {wrong}")
        raise typer.Exit(_rerun_pipeline(pipeline, parse_parameters(params or []), run_id or ""))
    if params:
        raise CommandError("--param changes an input of a pipeline; for a job, write --set PATH=VALUE")
    status, old = recorded(Selection(run, task), location)
    new_input = recorded_input(status, old, overrides or [])
    system, location = choose(None, status.system, *_launched_from(status, context))
    if run_id == status.identity.run:
        raise CommandError(f"--run-id {run_id!r} is the run itself; give another one, or leave it out")
    plan = make_plan(new_input, system, location, run_id, status.identity.task, dry_run=dry_run)
    lines = _changes(msgspec.to_builtins(old), msgspec.to_builtins(plan.job))
    heading = f"again: run {status.identity.run}, {', '.join(lines) if lines else 'without changes'}"
    print(clean(heading), file=sys.stderr if output is OutputFormat.JSON or dry_run else sys.stdout, flush=True)
    if dry_run:
        print_plan(plan, as_json=output is OutputFormat.JSON)
        return
    display = Display(output, timestamps)
    choice = TensorBoardChoice()
    code = start_detached(plan, location, display, choice) if detach else run_plan(plan, location.on, display, choice)
    raise typer.Exit(code)


def _launched_from(status: Status, context: str) -> tuple[str, str]:
    """Return the context and the namespace that a job was launched from; of one on another cluster, the launcher's."""
    if status.location != Location.KUBERNETES:
        return "", ""
    if status.home is None:
        return context or status.context, status.namespace
    if not status.home.namespace:
        warn("the namespace that the job was launched from is not recorded: the settings of the context's are used")
    return status.home


def _pipeline(selection: Selection, location: BackendLocation) -> str:
    """Return the id of the run if it is a pipeline of this machine, and no task of it is selected; else empty."""
    if selection.task is not None or location.on != Location.LOCAL or location.records:
        return ""
    target = LocalBackend().find(selection.run)
    return target.id if target.pipeline else ""


def _rerun_pipeline(run: str, parameters: dict[str, str], run_id: str) -> int:
    """Run a pipeline of this machine again and return the exit code.

    Raises:
        CommandError: The pipeline was not recorded, its folder is gone, or no engine runs it again.
    """
    recorded, record = LocalSubmission.read(run), PipelineRecord.read(run)
    name = record.engine if record else ""
    if recorded is None:
        why = f"engine {name} has not recorded its pipeline" if name else "its pipeline is not recorded"
        raise CommandError(f"run {run}: {why}; submit it again, or rerun one job by --task NAME")
    if not pathlib.Path(recorded.folder).is_dir():
        raise CommandError(f"run {run}: its working folder {recorded.folder!r} does not exist any more; restore it")
    compiled = parse_compiled(f"run {run}", recorded.pipeline)
    if name and name not in engines.plugins():
        raise CommandError(f"run {run}: its engine {name!r} is not installed; install the package that adds it")
    for engine in engines.plugins().values():
        if name in ("", engine.name) and engine.rerun and not engine.on_cluster and engine.can_run(compiled.engine):
            asked = Rerun(run=run, recorded=recorded, compiled=compiled, parameters=parameters, run_id=run_id)
            return engine.rerun(asked)
    what = f"runs of engine {name}" if name else f"pipelines of {compiled.engine}"
    raise CommandError(f"run {run}: {what} cannot be rerun; submit it again")


def recorded(selection: Selection, location: BackendLocation) -> tuple[Status, spec.TrainingJob]:
    """Return the newest attempt of the selected task, and its job.

    Raises:
        CommandError: The job is not recorded anywhere, or there are several.
    """
    with open_backend(location, gone=True) as backend:
        job = only(selection.certain(backend.find(selection.run)))
        status: Status = job.status
        text, record = backend.recorded(job), backend.record(job)
    if record:  # it has what the objects of a cluster do not
        known = record.status
        status.base_dir, status.context, status.cluster = known.base_dir, known.context, known.cluster
        status.home_namespace = known.home_namespace
    elif namespace := _home_namespace(job):
        where = f"namespace {namespace} of another cluster, which is not recorded here"
        warn(f"the job was launched from {where}: it runs again by the settings of the cluster that this command uses")
    if not text:
        raise _unknown(status.identity.run, location, has_record=record is not None)
    try:
        return status, typed_json.decode(text, spec.TrainingJob)
    except NOT_READABLE as error:
        raise CommandError(f"run {status.identity.run}: its recorded job cannot be read: {error}") from error


def _home_namespace(job: Any) -> str:
    """Return the namespace that a job object was launched from, if that is on another cluster; else empty."""
    if (item := getattr(job, "item", None)) is None:  # no object of a cluster
        return ""
    from tfsteps.systems.kubernetes.cleanup.retention import home_of  # noqa: PLC0415  commands start faster without it

    home = home_of(item)
    return home.namespace if home else ""


def _unknown(run: str, location: BackendLocation, *, has_record: bool) -> CommandError:
    why = "its job file is recorded only on the machine that launched it; rerun it there"
    if has_record:
        why = "job.json is missing in its record, or cannot be read; restore it"
    return CommandError(f"run {run}: {why}, or write `tfsteps run FILE{location.options}`")


def recorded_input(status: Status, old: spec.TrainingJob, overrides: Sequence[str] = ()) -> JobInput:
    """Return the recorded job with fields replaced, in its working folder."""
    source = f"run {status.identity.run}"
    plain = msgspec.to_builtins(old)
    data = plain.get("env", {}).pop(DATA, "")  # of a step's input, which no job file may set
    job = with_data(spec.from_plain(plain, source, registry.options(), list(overrides)), data)
    folder = pathlib.Path(status.base_dir or pathlib.Path.cwd())
    if not folder.is_dir() and status.on_this_machine:
        raise CommandError(f"{source}: its working folder {str(folder)!r} does not exist any more; restore it")
    return JobInput(job, source, folder, set_by(list(overrides)))


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return `roles.worker.replicas 2 -> 4` for each field that differs; values that may be secrets are hidden."""
    before, after = masked_job(old), masked_job(new)
    return [f"{spec.dotted(path)} {_shown(path, before)} -> {_shown(path, after)}" for path in differences(old, new)]


def _shown(path: spec.Path, value: Any) -> str:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    text = "default" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
