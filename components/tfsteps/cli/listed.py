"""Commands for the completion of their parameters, without the modules that they run."""

import contextlib
import enum
import importlib
import inspect
import json
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

FILE = pathlib.Path(__file__).with_name("parameters.json")
"""The parameters of all commands, written by `make golden` from the commands themselves."""

_TYPES: dict[str, Any] = {"flag": bool, "list": list[str], "text": str}


def described(command: Callable[..., Any]) -> list[dict[str, Any]]:
    """Return what a completion needs of each parameter of a command, in their order, as `FILE` holds it."""
    signature = inspect.signature(command, eval_str=True).parameters.values()
    return [_described(parameter) for parameter in signature if parameter.annotation is not typer.Context]


def _described(parameter: inspect.Parameter) -> dict[str, Any]:
    kind, declared = parameter.annotation.__origin__, parameter.annotation.__metadata__[0]
    completion = declared.autocompletion
    enums: list[Any] = [member for member in (kind, *get_args(kind)) if isinstance(member, enum.EnumMeta)]
    described = {
        "name": parameter.name,
        "argument": isinstance(declared, type(typer.Argument())),
        "type": "flag" if "bool" in str(kind) else "list" if "list[" in str(kind) else "text",
        "spellings": [word for word in (declared.default, *(declared.param_decls or ())) if word is not ...],
        "help": declared.help,
        "choices": [str(choice.value) for choices in enums for choice in choices],
        "completion": f"{completion.__module__}:{completion.__name__}" if completion else "",
    }
    return {name: value for name, value in described.items() if value}


def listed(name: str) -> Callable[..., None]:
    """Return a function that does nothing and has the parameters of a command, as `FILE` has them."""

    def command(**_values: object) -> None:
        pass

    parameters = [_parameter(**described) for described in json.loads(FILE.read_text("utf-8"))[name]]
    if name == "submit":
        parameters += _outside_parameters()
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _outside_parameters() -> list[inspect.Parameter]:
    """Return the options of `submit` that engines of other packages have; none if one of them cannot be loaded."""
    from importlib.metadata import entry_points  # noqa: PLC0415  other completions do not need it

    with contextlib.suppress(Exception):  # a traceback would garble the command line that is being typed
        if entry_points(group="tfsteps.engines"):
            from tfsteps.cli.engine_options import outside_parameters  # noqa: PLC0415  few have such packages

            return [_parameter(**_described(parameter)) for parameter in outside_parameters()]
    return []


def _parameter(
    *,
    name: str,
    type: str,  # noqa: A002  the file's name
    help: str = "",  # noqa: A002  the file's name
    argument: bool = False,
    spellings: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    completion: str = "",
) -> inspect.Parameter:
    def complete(ctx: typer.Context, incomplete: str) -> Any:
        if not completion:
            return [choice for choice in choices if choice.startswith(incomplete)]
        module, function = completion.split(":")
        call = getattr(importlib.import_module(module), function)  # a package of values is loaded for these alone
        values = {"ctx": ctx, "incomplete": incomplete}
        return call(**{word: values[word] for word in inspect.signature(call).parameters})

    attributes: dict[str, Any] = {"help": help, "autocompletion": complete if completion or choices else None}
    declared = typer.Argument(**attributes) if argument else typer.Option(*spellings, **attributes)
    annotation: Any = Annotated[_TYPES[type] | None, declared]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
