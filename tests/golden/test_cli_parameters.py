"""cli/parameters.json has the parameters of the commands, and a completion reads them as the commands declare them."""

import functools
import importlib
import json

import pytest
import typer
from typer.main import get_command

from tfsteps.cli import listed
from tfsteps.cli.app import _COMMANDS, app


def test_parameters_of_all_commands(golden):
    golden(listed.FILE, text())


def text():
    """Return the file: one line for each parameter."""
    commands = []
    for name, entry in _COMMANDS.items():
        module = importlib.import_module(f"tfsteps.cli.commands.{entry.module}")
        parameters = listed.described(getattr(module, entry.function or name))
        lines = ",\n".join(f"  {json.dumps(parameter)}" for parameter in parameters)
        commands.append(f" {json.dumps(name)}: [\n{lines}\n ]")
    return "{\n" + ",\n".join(commands) + "\n}\n"


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_listed_command_has_the_parameters_of_the_command(name):
    group = get_command(app)
    command = functools.partial(group.get_command, cmd_name=name)
    called, completed = (
        command(typer.Context(group, info_name="tfsteps", resilient_parsing=completes)) for completes in (False, True)
    )
    assert [offers(parameter, completed) for parameter in completed.params] == [
        offers(parameter, called) for parameter in called.params
    ]


def offers(parameter, command):
    """Return what a shell shows of a parameter, and offers for its value."""
    ctx = typer.Context(command, info_name=command.name, resilient_parsing=True)
    values = [(item.value, item.help) for item in parameter.shell_complete(ctx, "")]
    spellings = [*parameter.opts, *parameter.secondary_opts]
    kind = (parameter.param_type_name, parameter.nargs, parameter.multiple, getattr(parameter, "is_flag", False))
    return parameter.name, spellings, kind, getattr(parameter, "help", None), values
