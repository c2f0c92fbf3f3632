"""The command line: every command under its name, and its errors. A command is imported when it is called."""

import contextlib
import enum
import importlib
import math
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

import tfsteps
from tfsteps.cli.listed import listed
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.os_errors import next_step
from tfsteps.text.streams import STDOUT

_SIGPIPE = 141  # what a shell reports for a program that wrote to a closed pipe


class _CommandEntry(NamedTuple):
    """What is known of a command before it is imported.

    Attributes:
        module: Of `tfsteps.cli.commands`.
        summary: For the list of commands.
        examples: Command lines, for the end of its help.
        cls: Its class of typer's kind in `module`; empty = typer's own.
        function: Its function in `module`; empty = the one of the command's name.
    """

    module: str
    summary: str
    examples: tuple[str, ...]
    cls: str = ""
    function: str = ""


_GROUPS: dict[str, dict[str, _CommandEntry]] = {
    "Run a job": {
        "run": _CommandEntry(
            "run",
            "Run a job to its end, from a job file or a command line.",
            ("tfsteps run job.yaml", "tfsteps run --workers 2 -- python train.py --epochs 5"),
            cls="RunCommand",
        ),
        "attach": _CommandEntry(
            "attach", "Follow a job to its end, its log from the start.", ("tfsteps attach latest",)
        ),
        "rerun": _CommandEntry(
            "rerun",
            "Run a job, or a pipeline of this machine, again, as a new run.",
            ("tfsteps rerun latest --set env.LR=0.3", "tfsteps rerun nightly -p epochs=5"),
        ),
        "stop": _CommandEntry("stop", "Stop a run and wait until it has ended.", ("tfsteps stop latest",)),
        "pause": _CommandEntry(
            "stop",
            "Stop the replicas but keep the job, and wait until they are gone.",
            ("tfsteps pause mnist --on kubernetes",),
        ),
        "resume": _CommandEntry(
            "stop",
            "Start the replicas of a job again that is paused, or was created suspended.",
            ("tfsteps resume mnist --on kubernetes",),
        ),
        "requeue": _CommandEntry(
            "stop",
            "Interrupt a run of a platform: it gives its nodes back, and waits in the queue again.",
            ("tfsteps requeue mnist --on hai",),
        ),
        "change": _CommandEntry(
            "stop",
            "Change the priority or the queue of a run of a platform that has not ended.",
            ("tfsteps change mnist --priority HIGH --on hai", "tfsteps change mnist --queue a100 --on hai"),
        ),
    },
    "Look at runs": {
        "runs": _CommandEntry(
            "runs",
            "List all runs, the newest first.",
            (
                "tfsteps runs --state failed --since 1d",
                "tfsteps runs --metric accuracy --sort accuracy",
                "tfsteps runs --open",
            ),
        ),
        "show": _CommandEntry("show", "Show what a run consists of, and its status.", ("tfsteps show latest",)),
        "logs": _CommandEntry(
            "logs",
            "Print the log of a run.",
            ("tfsteps logs latest worker-1 --follow", "tfsteps logs latest --grep 'loss: nan' -C 3"),
        ),
        "report": _CommandEntry("report", "Write the report of a run again.", ("tfsteps report latest --open",)),
        "compare": _CommandEntry(
            "compare",
            "Compare the newest attempts of runs.",
            ("tfsteps compare mnist-k7c2 mnist-p4xq --html compared.html",),
        ),
        "tune": _CommandEntry(
            "tune",
            "Recommend CPU and memory from what earlier runs used.",
            ("tfsteps tune mnist", "tfsteps tune mnist train -f job.yaml --diff"),
        ),
        "tensorboard": _CommandEntry(
            "tensorboard",
            "Show the event files of runs in TensorBoard until Ctrl-C.",
            ("tfsteps tensorboard latest --open",),
        ),
        "debug": _CommandEntry(
            "debug",
            "Show all that helps to find out why a run fails or makes no progress.",
            ("tfsteps debug latest", "tfsteps debug job.yaml --hold worker"),
        ),
        "shell": _CommandEntry(
            "shell",
            "Open a shell in a replica, or run a command there.",
            ("tfsteps shell latest worker-1 -- env",),
            cls="ShellCommand",
        ),
    },
    "Write job files": {
        "init": _CommandEntry(
            "files",
            "Write a first job that runs at once.",
            ("tfsteps init mnist", "tfsteps init mnist --template keras", "tfsteps init --dockerfile mnist"),
        ),
        "import": _CommandEntry(
            "import_",
            "Convert a TFJob, JobSet, TrainJob or other job into a job file.",
            ("tfsteps import tfjob.yaml -o job.yaml", "tfsteps import tfjob/mnist -n team"),
            function="import_",
        ),
        "validate": _CommandEntry("files", "Check job files.", ("tfsteps validate jobs/*.yaml --system kubeflow",)),
        "schema": _CommandEntry(
            "files", "Print the JSON schema of job files.", ("tfsteps schema --output job.schema.json",)
        ),
    },
    "Pipelines": {
        "compile": _CommandEntry(
            "compile",
            "Compile a pipeline for Kubeflow Pipelines or Argo Workflows.",
            ("tfsteps compile pipeline.py -o pipeline.yaml",),
        ),
        "lint": _CommandEntry("compile", "Check compiled pipelines.", ("tfsteps lint pipeline.yaml",)),
        "submit": _CommandEntry(
            "submit",
            "Submit a pipeline: run it now, or by a schedule.",
            (
                "tfsteps submit pipeline.py --engine local",
                "tfsteps submit pipeline.py --host https://kubeflow.example/pipeline -p epochs=5 --wait",
            ),
        ),
        "task": _CommandEntry(
            "task",
            "Run or debug one task of a pipeline by itself; print its log, or remove it.",
            (
                "tfsteps task run pipeline.py train -p prepare.file=data.npz",
                "tfsteps task debug pipeline.py train --on kubernetes --for 1h",
                "tfsteps task logs pipeline.py train -f",
                "tfsteps task clear pipeline.py train",
            ),
        ),
        "platform": _CommandEntry(
            "platform",
            "Check platform settings, and show what a job gets by them.",
            ("tfsteps platform check settings.yaml job.yaml -n team",),
        ),
        "schedules": _CommandEntry(
            "schedules",
            "List the schedules of pipelines; show, pause, resume, run or delete one.",
            ("tfsteps schedules", "tfsteps schedules show nightly", "tfsteps schedules pause nightly -n team"),
        ),
        "check": _CommandEntry(
            "check",
            "Run a tiny job on each job system, and say what works.",
            ("tfsteps check", "tfsteps check --on kubernetes -n team"),
        ),
        "role": _CommandEntry(
            "platform",
            "Print the Role and RoleBinding that launchers of a job system need.",
            ("tfsteps role jobset -n team | kubectl apply -f -",),
        ),
    },
    "Remove runs": {
        "rm": _CommandEntry(
            "rm", "Remove runs of this machine: their folders, logs and reports.", ("tfsteps rm mnist-k7c2",)
        ),
        "clear": _CommandEntry(
            "clear",
            "Remove everything of a run, ended or not: jobs, pods, TensorBoards.",
            ("tfsteps clear mnist-k7c2 --on kubernetes",),
        ),
        "prune": _CommandEntry(
            "rm",
            "Remove old runs of this machine that have ended.",
            ("tfsteps prune --older-than 30d --keep 20 --dry-run",),
        ),
    },
}
"""The commands by the parts of the help."""
_COMMANDS = {name: command for commands in _GROUPS.values() for name, command in commands.items()}
_PLAIN: Mapping[str, Any] = {
    "rich_markup_mode": None,  # plain help: quick, stable, and the same in docs/reference/cli.md
    "pretty_exceptions_enable": False,
}


_NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}
_typers_own = {kind: kind.process_value for kind in (TyperArgument, TyperOption)}


def _process_value(parameter: Any, ctx: Any, value: Any) -> Any:
    """Return the value of a parameter, converted by typer's own `process_value` only if it has to be.

    That loads pydantic, also for text and for options that are not given: 0.12 s of CPU, more than typer itself.
    """
    described = getattr(parameter, "type_descriptor", None)  # None = a typer without pydantic
    several = parameter.multiple or parameter.nargs != 1
    kind, parser = (described.annotation, described.parameter_info.parser) if described else (None, None)
    if value is None and described and not parameter.required:
        value = () if several else None
    elif several and value and get_args(kind) == (str,) and not parser and {*map(type, value)} == {str}:
        value = [*value]
    elif kind is str and not several and isinstance(value, str):
        value = parser(value) if parser else str(value)
    elif kind and kind in _NUMBERS and not several and isinstance(value, str):
        value = _number(parameter, ctx, kind, value)
    elif isinstance(kind, enum.EnumMeta) and not several and isinstance(value, str):
        value = _choice(parameter, ctx, kind, value)
    elif several or not isinstance(kind, type) or not isinstance(value, kind):
        return _typers_own[type(parameter)](parameter, ctx, value)
    return parameter.callback(ctx, parameter, value) if parameter.callback else value


def _number(parameter: Any, ctx: Any, kind: type[int | float], text: str) -> int | float:
    """Return the number that an option or argument is set to. BadParameter with what is allowed, for anything else."""
    described = parameter.type_descriptor.parameter_info
    least = -math.inf if described.min is None else described.min
    most = math.inf if described.max is None else described.max
    with contextlib.suppress(ValueError):
        number = kind(text)
        if math.isfinite(number) and least <= number <= most:
            return number
    word = _NUMBERS[kind]
    if described.max is not None:
        word = f"{word} from {least} to {most}"
    elif described.min is not None:
        word = f"{word} from {least} up"
    raise typer.BadParameter(f"{text!r} is not {word}; write one, or leave the option out", ctx=ctx, param=parameter)


def _choice(parameter: Any, ctx: Any, kind: enum.EnumMeta, text: str) -> Any:
    """Return the choice that an option or argument is set to. BadParameter with the choices, for anything else."""
    choices = {str(member.value): member for member in kind}  # type: ignore[var-annotated]
    if text in choices:
        return choices[text]
    wrong = f"{text!r} is not one of {', '.join(choices)}; write one, or leave the option out"
    raise typer.BadParameter(wrong, ctx=ctx, param=parameter)


for _kind in _typers_own:
    _kind.process_value = _process_value  # type: ignore[assignment, method-assign]


class _LazyCommands(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    _imported: ClassVar[dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            listed = _COMMANDS[name]
            module = importlib.import_module(f"tfsteps.cli.commands.{listed.module}")
            lines = "\n".join(f"  {example}" for example in listed.examples)
            alone = typer.Typer(add_completion=False, **_PLAIN)
            cls: type[TyperCommand] | None = getattr(module, listed.cls) if listed.cls else None
            alone.command(name, cls=cls, epilog=f"Examples:\n\n\b\n{lines}")(getattr(module, listed.function or name))
            self._imported[name] = get_command(alone)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turn an error of a command into a message and the exit code of this process.

    Raises:
        typer.Exit: In place of each error that has a message for users.
    """
    try:
        yield
        sys.stdout.flush()  # inside `try`, so that a failure is reported
    except CommandError as error:
        say(f"error: {error}")
        raise typer.Exit(error.code) from error
    except UnicodeEncodeError as error:  # of a file name; printed text is escaped
        say(f"error: {error.object!r} cannot name a file in this locale; set LC_ALL=C.UTF-8")
        raise typer.Exit(ExitCode.USAGE) from error
    except BrokenPipeError as error:
        raise typer.Exit(_SIGPIPE) from error
    except OSError as error:  # a full disk under standard output, a run folder of another user
        named = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        what = f"{STDOUT} cannot be written: {error.strerror}" if error.filename == STDOUT else named
        try:
            pathlib.Path.cwd()
        except FileNotFoundError:
            what = what if error.filename else "the current folder was removed"
        say(f"error: {what}; {next_step(error)}")
        raise typer.Exit(ExitCode.PLATFORM) from error
    except typer.Exit:  # of a command that has said all
        raise
    except Exception as error:
        if end := _of_job(error):
            raise end from error
        raise
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # keep the interpreter from reporting it when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_job(error: Exception) -> typer.Exit | None:
    """Return the end of the process for an error about a job, whose message is printed; None for any other error."""
    from tfsteps.spec import SpecError  # noqa: PLC0415  a command that ends well needs neither
    from tfsteps.systems.base import LaunchError  # noqa: PLC0415

    if isinstance(error, SpecError):
        say(str(error))
        return typer.Exit(ExitCode.USAGE)
    if isinstance(error, LaunchError):
        say(f"error: {error}")
        return typer.Exit(ExitCode.PLATFORM if error.retryable else ExitCode.USAGE)
    return None


class _BeforeDashes(TyperCommand):
    """For the completion of a command that takes another after `--`, of which tfsteps completes nothing."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before `--`."""
        if "--" in args:
            args, self.params = args[: args.index("--")], []
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the options that the shell may complete."""
        return super().shell_complete(ctx, incomplete) if self.params else []


class _CommandGroup(TyperGroup):
    """The group of all commands; it prints errors as messages instead of tracebacks."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  of typer
        """Return the names of all commands."""
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  of typer
        """Write the commands by their groups."""
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, command.summary) for name, command in commands.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; for a completion one that has only its parameters, so that its modules are not imported."""
        if ctx.resilient_parsing and cmd_name in _COMMANDS and isinstance(self.commands, _LazyCommands):
            alone = typer.Typer(add_completion=False, **_PLAIN)
            alone.command(cmd_name, cls=_BeforeDashes if _COMMANDS[cmd_name].cls else None)(listed(cmd_name))
            return get_command(alone)
        return super().get_command(ctx, cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands, or the options before one, that the shell may complete; no command is imported."""
        self.commands = {name: TyperCommand(name, short_help=command.summary) for name, command in _COMMANDS.items()}
        return super().shell_complete(ctx, incomplete)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before a command. `--help` and `--version` print here, and their output may be closed."""
        with reported():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command and turn its errors into a message and an exit code."""
        with reported():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_CommandGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    **_PLAIN,
)


def _version(value: bool) -> None:
    if value:
        print(f"tfsteps {tfsteps.__version__}")
        raise typer.Exit


@app.callback()
def tfsteps_command(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Distributed TensorFlow jobs, here and on clusters: run them, watch them, stop them.

    Run folders live in $TFSTEPS_HOME, by default ~/.local/state/tfsteps.
    """
