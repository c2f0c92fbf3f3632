"""`tfsteps run`: one job from its file to its summary."""

import shlex
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tfsteps.api.job_input import COMMAND_LINE, JobOptions, read, split_command
from tfsteps.api.plan import choose, make_plan
from tfsteps.cli.place_options import Context, Namespace, Overrides, on_option
from tfsteps.cli.planned_job import Display, TensorBoardChoice, print_job_file, print_plan, run_plan, start_detached
from tfsteps.cli.run_options import Demo, Picture, demo_mark
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import OutputFormat
from tfsteps.runs import demo as demos
from tfsteps.runs.location import Location
from tfsteps.spec.fields import MOST_REPLICAS

Detach = Annotated[
    bool,
    typer.Option(
        "--detach", help="Return when the job has started; `tfsteps attach` follows it. Closing the terminal is safe."
    ),
]
SystemName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The job system by its name.", show_default="local; on a cluster what fits it"),
]
RunDryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be started, and start nothing.")]
RunOutput = Annotated[OutputFormat, typer.Option(help="json: the outputs as one object; log lines go to stderr.")]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="Plain log lines, each with its time.")]
_COMMAND = "tfsteps.command"
_UsageError: Any = typer.BadParameter.__base__  # of click, or of the copy of it that newer versions of typer have


class RunCommand(TyperCommand):
    """A command that takes another command line after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what follows `--`, and parse the rest."""
        if "--" in args:
            position = args.index("--")
            ctx.meta[_COMMAND] = args[position + 1 :]
            args = args[:position]
        try:
            return super().parse_args(ctx, [*args])  # which empties the list
        except _UsageError as error:
            options, words = split_command(args)
            if _COMMAND in ctx.meta or not words:
                raise
            line = shlex.join(["tfsteps", "run", *options, "--", *words])
            raise CommandError(f"a command follows `--`; write `{line}`") from error

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


def run(
    ctx: typer.Context,
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="The job file, YAML or JSON; `-` reads standard input.")
    ] = None,
    *,
    overrides: Overrides = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_REPLICAS, metavar="N", help="With `-- COMMAND`: this many workers.", show_default="1"
        ),
    ] = None,
    ps: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_REPLICAS, metavar="N", help="With `-- COMMAND`: this many parameter servers."),
    ] = None,
    chief: Annotated[bool, typer.Option("--chief", help="With `-- COMMAND`: a chief.")] = False,
    name: Annotated[
        str | None, typer.Option(help="With `-- COMMAND`: the job's name.", show_default="the program's")
    ] = None,
    image: Annotated[str | None, typer.Option(help="With `-- COMMAND`: the container image, on a cluster.")] = None,
    code: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="With `-- COMMAND`: ship this folder to the replicas, which start in it. The image needs no program.",
        ),
    ] = None,
    code_bucket: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="With --code: store the folder at s3://, gs://, http(s):// or pvc://CLAIM/FOLDER, where replicas read "
            "it, in place of a ConfigMap, which takes 700 KiB.",
        ),
    ] = None,
    on: Annotated[
        str | None, on_option("Processes of this machine, jobs of a cluster, or jobs of a platform.", "local")
    ] = None,
    system: SystemName = None,
    context: Context = "",
    namespace: Namespace = "",
    run_id: Annotated[str | None, typer.Option(help="Id of the run. Left out: a new one, printed first.")] = None,
    task: Annotated[str | None, typer.Option(help="Name of the task within the run. Left out: the job's.")] = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="Follow the task's job if it is already running without a launcher, or report its end if it has ended "
            "without one. On a cluster or platform.",
        ),
    ] = False,
    demo: Demo = False,
    picture: Picture = "",
    detach: Detach = False,
    dry_run: RunDryRun = False,
    output: RunOutput = OutputFormat.TEXT,
    tensorboard: Annotated[
        bool | None,
        typer.Option(help="A TensorBoard for the job. Left out: if the job file has `tensorboard:`."),
    ] = None,
    keep_tensorboard: Annotated[
        bool,
        typer.Option("--keep-tensorboard", help="Keep it up until Ctrl-C, or for the job's `keep_for`."),
    ] = False,
    timestamps: Timestamps = False,
) -> None:
    """Run a job to its end: the one in a job file, or the same command in several workers.

    Prints the run's id, its log as it is written, then where the model, metrics and report are. Run it again with the
    same --run-id for another attempt, which shares the output folder.
    """
    chosen, location = choose(on, system, context, namespace)
    if adopt and (location.on == Location.LOCAL or run_id is None):
        raise CommandError(
            "--adopt needs the --run-id of the job, and --on with a cluster or platform; "
            "a local job ends with its launcher"
        )
    if (mark := demo_mark(demo, picture)) and location.on != Location.LOCAL:
        raise CommandError(
            "--demo marks runs of this machine; leave it out, and label the job: "
            f"`kubectl label tfjob JOB {demos.DEMO}=true`"
        )
    if keep_tensorboard and location.on == Location.KUBERNETES:
        raise CommandError("--keep-tensorboard: on a cluster it stays up by itself; write --tensorboard")
    tensorboard_choice = TensorBoardChoice(tensorboard, keep_tensorboard)
    options = JobOptions(workers, ps, chief, name, image, code, code_bucket)
    source = read(job, ctx.meta.get(_COMMAND), options, overrides or ())
    plan = make_plan(
        source,
        chosen,
        location,
        run_id,
        task,
        adopt=adopt,
        dry_run=dry_run,
        change=lambda job, _system: tensorboard_choice.change(job, location.on),
    )
    if dry_run:
        if source.source == COMMAND_LINE and output is OutputFormat.TEXT:
            print_job_file(plan)
        print_plan(plan, as_json=output is OutputFormat.JSON)
        return
    display = Display(output, timestamps)
    if mark:
        demos.write(plan.identity.run, mark)
    try:
        ended = (
            start_detached(plan, location, display, tensorboard_choice)
            if detach
            else run_plan(plan, location.on, display, tensorboard_choice)
        )
    finally:
        if mark:
            demos.forget_unstarted(plan.identity.run)
    raise typer.Exit(ended)
