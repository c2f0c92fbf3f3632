"""`tfsteps submit`: a pipeline to an engine, now or by a schedule."""

import datetime as dt
import itertools
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from tfsteps import schedule
from tfsteps.cli.commands.compile import PipelineName
from tfsteps.cli.compiled import check, load_or_compile, macro_warnings
from tfsteps.cli.engine_options import options_of, with_engine_options
from tfsteps.cli.place_options import complete_engine
from tfsteps.cli.run_options import Demo, Picture, demo_mark
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say, warn
from tfsteps.console.text import columns
from tfsteps.engines import registry
from tfsteps.engines.authoring import Compiled
from tfsteps.engines.plugin import EnginePlugin
from tfsteps.engines.submission import Submission
from tfsteps.image import unqualified
from tfsteps.schedule import Schedule

_SHOWN = 10

ScheduleFile = Annotated[
    str | None,
    typer.Option("--schedule", metavar="FILE", help="Run it on the schedule in this YAML or JSON file."),
]
CronText = Annotated[
    str | None, typer.Option("--cron", metavar="CRON", help="Run it on a cron expression of five fields.")
]
Interval = Annotated[
    str | None, typer.Option("--every", metavar="DURATION", help="Run it at this interval: 90m, 6h, 1d.")
]
Timezone = Annotated[str | None, typer.Option(metavar="ZONE", help="IANA time zone of --cron.", show_default="UTC")]


@with_engine_options(before="dry_run")
def submit(
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE", help="A program (.py), or what `tfsteps compile` made of one; `-` reads it."
        ),
    ],
    *,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar=f"<{'|'.join(registry.plugins())}>",
            help="The engine that runs it.",
            show_default="what it is compiled for",
            autocompletion=complete_engine,
        ),
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
    context: Annotated[
        str, typer.Option(metavar="NAME", help="Context of the kubeconfig.", show_default="current")
    ] = "",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the runs.", show_default="the context's"),
    ] = "",
    service_account: Annotated[
        str, typer.Option(metavar="NAME", help="ServiceAccount of the runs, or of the pod that submits them.")
    ] = "",
    host: Annotated[
        str, typer.Option(metavar="URL", help="Address of the engine's API.", show_default="from the environment")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be created, and create nothing.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Remove earlier manual runs of this pipeline first, running ones too; never those of a schedule.",
        ),
    ] = False,
    demo: Demo = False,
    picture: Picture = "",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Update a schedule that exists, without a question.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the run's end; exits 10 if it failed.")] = False,
    **engine_options: Any,
) -> None:
    """Submit a pipeline: run it now, or by a schedule.

    First, it is compiled and checked as `tfsteps compile` and `tfsteps lint` do; for a local run only by the rules that
    hold on this machine, too. With a schedule the next runs are printed. Local runs always wait.

    A schedule that was submitted before is updated, after its difference is shown: with --yes, or if you agree.
    """
    when = _chosen_schedule(schedule, cron, every, timezone)
    compiled = load_or_compile(pipeline, name)
    chosen_engine = _chosen(engine, compiled)
    options = options_of(chosen_engine, engine_options, scheduled=when is not None)
    if wait and when:
        raise CommandError("--wait is for one run, a schedule never ends; leave it out")
    if replace and when:
        raise CommandError("--replace is for a manual run; a schedule that exists is updated; leave it out")
    if replace and not chosen_engine.on_cluster:
        raise CommandError(
            "--replace is for runs on a cluster; `tfsteps stop` and `tfsteps rm` remove those of this machine"
        )
    if chosen_engine.on_cluster and not dry_run and (wrong := unqualified(compiled.documents)):
        raise CommandError(f"{compiled.source}: {wrong[0]}")
    parameters = parse_parameters(params or [])
    check(compiled, chosen_engine, parameters)
    for warning in macro_warnings(parameters, chosen_engine):
        warn(warning)
    submission = Submission(
        compiled=compiled,
        parameters=parameters,
        name=run_name,
        when=when,
        context=context,
        namespace=namespace,
        service_account=service_account,
        host=host,
        folder=pathlib.Path(pipeline).absolute().parent if pipeline.endswith(".py") else pathlib.Path.cwd(),
        dry_run=dry_run,
        wait=wait,
        yes=yes,
        replace=replace,
        demo=demo_mark(demo, picture),
        options=options,
    )
    if when:
        if chosen_engine.fire_times is None:
            raise CommandError(
                f"runs of {chosen_engine.title} cannot be scheduled; submit the pipeline to another engine, or use "
                "cron(8) and `tfsteps submit`"
            )
        _print_fires(when, chosen_engine.fire_times(submission, time.time()))
    raise typer.Exit(chosen_engine.submit(submission))


def _chosen(name: str | None, compiled: Compiled) -> EnginePlugin:
    """Return the engine that runs a pipeline. CommandError if that is not the named one."""
    engines = registry.plugins()
    if name is not None and name not in engines:
        raise CommandError(f"engine {name!r} is unknown: use one of {', '.join(engines)}")
    engine = engines[name or compiled.engine]
    if engine.can_run(compiled.engine):
        return engine
    if engine.runs:
        others = ", ".join(engines[other].title if other in engines else other for other in engine.runs)
        raise CommandError(
            f"{compiled.source} is for {compiled.engine}, and such programs cannot run on {engine.title}: "
            f"--engine {engine.name} runs pipelines of {others} only; leave it out to submit to "
            f"{engines[compiled.engine].title}"
        )
    raise CommandError(f"{compiled.source} is for {compiled.engine}, not {engine.name}; leave --engine out")


def parse_parameters(options: Sequence[str]) -> dict[str, str]:
    """Return the inputs that `--param` options set. CommandError for one without a value, or given twice."""
    parameters: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise CommandError(f"--param {option!r} has no value; write --param NAME=VALUE")
        if name in parameters:
            raise CommandError(f"--param {name} is given twice; leave one out")
        parameters[name] = value
    return parameters


# --- schedules


def _chosen_schedule(file: str | None, cron: str | None, every: str | None, timezone: str | None) -> Schedule | None:
    """Return the schedule of the options; None if none of them is set.

    Raises:
        SpecError: The schedule is not valid.
        CommandError: The options contradict one another, or the file cannot be read.
    """
    options = {"--schedule": file, "--cron": cron, "--every": every}
    used = [option for option, value in options.items() if value is not None]
    if len(used) > 1:
        raise CommandError(f"{' and '.join(used)} cannot be combined; keep one of them")
    if timezone is not None and cron is None:
        raise CommandError("--timezone requires --cron; add --cron, or write `timezone:` in the schedule file")
    if file is not None:
        try:
            return schedule.load(file)
        except OSError as error:
            raise CommandError(f"schedule {file!r} cannot be read: {error}; give a YAML or JSON file") from error
    plain: dict[str, Any] = {"cron": cron} if cron is not None else {"interval": every} if every is not None else {}
    if timezone is not None:
        plain["timezone"] = timezone
        used.append("--timezone")
    return schedule.from_plain(plain, " ".join(used)) if plain else None


def _print_fires(when: Schedule, fires: Iterator[int]) -> None:
    """Print the start times of the next runs to standard error, in the schedule's time zone and in UTC."""
    times = list(itertools.islice(fires, _SHOWN))
    if not times:
        say("no run will ever start: the schedule's `end` has passed, or no run is due before it")
        return
    say("next runs:" if when.cron else "next runs if the schedule is created now:")
    zones = [when.zone] if when.timezone == "UTC" else [when.zone, dt.UTC]
    rows = [[_shown(at, zone) for zone in zones] for at in times]
    for line in columns(rows):
        say(f"  {line}")


def _shown(at: int, zone: dt.tzinfo) -> str:
    return dt.datetime.fromtimestamp(at, zone).strftime("%a %Y-%m-%d %H:%M:%S %Z")
