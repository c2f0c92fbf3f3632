"""`tfsteps submit`: a pipeline to an engine, now or by a schedule."""

import importlib
import pathlib
from typing import Annotated

import typer

from tfsteps.backends.errors import CommandError
from tfsteps.cli.commands.compile import PipelineName
from tfsteps.cli.compiled import Engine, obtain
from tfsteps.cli.schedule_options import CronText, Interval, ScheduleFile, Timezone, chosen
from tfsteps.cli.submitters import macros
from tfsteps.cli.submitters.submission import Scheduler, Submission, parse_parameters
from tfsteps.console.messages import warn
from tfsteps.image import IMAGE


def submit(
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE", help="A program (.py), or what `tfsteps compile` made of one; `-` reads it."
        ),
    ],
    *,
    engine: Annotated[
        Engine | None, typer.Option(help="The engine that runs it.", show_default="what it is compiled for")
    ] = None,
    name: PipelineName = None,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=VALUE", help="An input of the pipeline. Repeatable."),
    ] = None,
    run_name: Annotated[
        str, typer.Option("--name", help="Name of the run or the schedule.", show_default="after the pipeline")
    ] = "",
    schedule: ScheduleFile = None,
    cron: CronText = None,
    every: Interval = None,
    timezone: Timezone = None,
    scheduler: Annotated[
        Scheduler, typer.Option(help="Argo: what starts the runs of a schedule.")
    ] = Scheduler.CRONWORKFLOW,
    context: Annotated[
        str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default="current")
    ] = "",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the runs.", show_default="the context's"),
    ] = "",
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="ServiceAccount of the runs; of a CronJob, that which submits them.")
    ] = "",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="CronJob: image of the pod that submits the runs; it contains tfsteps.")
    ] = IMAGE,
    host: Annotated[
        str, typer.Option(metavar="URL", help="Kubeflow: its API.", show_default="$KF_PIPELINES_ENDPOINT")
    ] = "",
    experiment: Annotated[str, typer.Option(metavar="NAME", help="Kubeflow: experiment of the runs.")] = "Default",
    server_timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Kubeflow: CRON_SCHEDULE_TIMEZONE of its server.")
    ] = "UTC",
    installed: Annotated[
        list[str] | None,
        typer.Option(metavar="IMAGE", help="Local: an image whose programs are installed here. Repeatable."),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Local: a TensorBoard for the jobs.")] = False,
    keep_tensorboard: Annotated[
        bool, typer.Option("--keep-tensorboard", help="Local: a TensorBoard that stays up at the end, until Ctrl-C.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be created, and create nothing.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the run's end; exits 10 if it failed.")] = False,
) -> None:
    """Submit a pipeline: run it now, or by a schedule.

    First, it is compiled and checked as `tfsteps compile` and `tfsteps lint` do; for a local run only by the rules that
    hold on this machine, too. With a schedule the next runs are printed. Local runs always wait.
    """
    when = chosen(schedule, cron, every, timezone)
    compiled = obtain(pipeline, name)
    chosen_engine = engine or compiled.engine
    if chosen_engine is not compiled.engine and (chosen_engine, compiled.engine) != (Engine.LOCAL, Engine.KFP):
        if chosen_engine is Engine.LOCAL:
            raise CommandError(
                f"{compiled.source} is for {compiled.engine}, and such programs cannot run on this machine: "
                "--engine local runs pipelines of Kubeflow Pipelines only; leave it out to submit to Argo"
            )
        raise CommandError(f"{compiled.source} is for {compiled.engine}, not {chosen_engine}; leave --engine out")
    if (tensorboard or keep_tensorboard) and chosen_engine is not Engine.LOCAL:
        option = "--tensorboard" if tensorboard else "--keep-tensorboard"
        raise CommandError(f"{option} is for local runs; on a cluster, add a `tensorboard` step to the pipeline")
    if wait and when:
        raise CommandError("--wait is for one run, a schedule never ends; leave it out")
    parameters = parse_parameters(params or [])
    compiled.check(chosen_engine, parameters)
    for warning in macros.warnings(parameters, chosen_engine):
        warn(warning)
    submission = Submission(
        compiled=compiled,
        parameters=parameters,
        name=run_name,
        when=when,
        scheduler=scheduler,
        context=context,
        namespace=namespace,
        service_account=service_account,
        image=image,
        host=host,
        experiment=experiment,
        server_timezone=server_timezone,
        installed=tuple(installed or ()),
        folder=pathlib.Path(pipeline).absolute().parent if pipeline.endswith(".py") else pathlib.Path.cwd(),
        tensorboard=tensorboard,
        keep_tensorboard=keep_tensorboard,
        dry_run=dry_run,
        wait=wait,
    )
    raise typer.Exit(_submit(chosen_engine, submission))


def _submit(engine: Engine, submission: Submission) -> int:
    """Submit to the engine, and import no other."""
    submitter = importlib.import_module(f"tfsteps.cli.submitters.{engine}")
    code: int = submitter.submit(submission)
    return code
