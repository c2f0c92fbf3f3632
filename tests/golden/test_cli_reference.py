"""docs/reference/cli.md says what `tfsteps --help` says."""

import pathlib

import typer
from typer.main import get_command

from tests.support.markdown import entry, table
from tfsteps.cli.app import app
from tfsteps.launcher.exit_codes import ExitCode

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
EXITS = {
    ExitCode.SUCCEEDED: "the job succeeded, or the command did what was asked",
    ExitCode.USAGE: "the job file or the command line is wrong: no job was started",
    ExitCode.FAILED: "the job failed, or a step of a pipeline on this machine",
    ExitCode.DEADLINE: "one of the job's deadlines passed",
    ExitCode.CANCELLED: "the job was cancelled",
    ExitCode.PLATFORM: "not the job's fault: safe to try again",
}
SIGNALS = [(130, "Ctrl-C in a command other than `run`"), (141, "nobody reads the output any more")]


def test_cli_reference(golden):
    golden(PAGE, page())


def page():
    """Return the reference: exit codes, then every command."""
    assert set(EXITS) == set(ExitCode)
    group = get_command(app)
    top = typer.Context(group, info_name="tfsteps")
    exits = table(["exit code", "meaning"], [(str(int(code)), text) for code, text in [*EXITS.items(), *SIGNALS]])
    commands = [section(typer.Context(command, top, info_name=name)) for name, command in group.commands.items()]
    return (
        "\n\n".join(
            [
                "# The `tfsteps` command",
                "<!-- Written by `make golden` from the command itself. -->",
                group.help,
                exits,
                *commands,
            ]
        )
        + "\n"
    )


def section(context):
    """Return one command's part."""
    command = context.command
    usage = command.get_usage(context).removeprefix("Usage: ")
    rows = [param.get_help_record(context) for param in command.get_params(context)]
    examples = "\n".join(line.strip() for line in command.epilog.partition("\b\n")[2].splitlines())
    parts = [f"## {context.info_name}", f"```\n{usage}\n```", command.help, f"```sh\n{examples}\n```"]
    parts.append("\n".join(entry(f"**`{name}`**", text) for name, text in rows if "--help" not in name))
    return "\n\n".join(parts).rstrip()
