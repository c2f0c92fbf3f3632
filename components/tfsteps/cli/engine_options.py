"""The options of `tfsteps submit` that single engines declare: `EnginePlugin.submit_options`."""

import enum
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
import typer

from tfsteps import typed_json
from tfsteps.console.errors import CommandError
from tfsteps.engines import registry
from tfsteps.engines.plugin import EnginePlugin, SubmitOption

_VALUES = (str, int, float, bool)
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PREFIX = "engine_"  # of the parameters: a field may be named as one of the command's own


class _EngineOption(NamedTuple):
    """An option of one or several engines, which read it with the same type.

    Attributes:
        engines: Their names.
        kind: The type of its value on the command line.
        parameter: Of the command.
        declared: What the first of them says about it.
    """

    engines: list[str]
    kind: Any
    parameter: inspect.Parameter
    declared: SubmitOption


def with_engine_options(before: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the last parameter of a command, `**values`, becomes the options of all engines.

    Args:
        before: The option that they precede in the help.

    Raises:
        CommandError: The declaration of a package cannot be an option.
        LaunchError: It cannot be loaded.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        *parameters, _values = signature.parameters.values()
        options = _engine_options({"--help", *(word for parameter in parameters for word in spellings(parameter))})
        position = [parameter.name for parameter in parameters].index(before)
        parameters[position:position] = [option.parameter for option in options.values()]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def spellings(parameter: inspect.Parameter) -> list[str]:
    """Return how a parameter of a command is written on the command line; empty = it is an argument."""
    declared = parameter.annotation.__metadata__[0]
    if isinstance(declared, type(typer.Argument())):
        return []
    words = [word for word in (declared.default, *(declared.param_decls or ())) if isinstance(word, str)]
    return words or [_spelling(parameter.name)]


def outside_parameters() -> Iterator[inspect.Parameter]:
    """Yield the options that only engines of other packages have. Errors as of `with_engine_options`."""
    for option in _engine_options(set()).values():
        if not {*option.engines} & {*registry.NAMES}:
            yield option.parameter


def options_of(engine: EnginePlugin, values: Mapping[str, Any], *, scheduled: bool) -> Any:
    """Return the options of an engine, an instance of its `submit_options`; None if it has none.

    Args:
        engine: The engine.
        values: The values of the options of all engines by their parameters; None, and an empty list, is not set.
        scheduled: Whether the submission has a schedule.

    Raises:
        CommandError: An option is set that only other engines have, or that is for a schedule, or to a wrong value.
    """
    chosen = {name.removeprefix(_PREFIX): value for name, value in values.items() if value is not None and value != []}
    options, known = _engine_options(set()), _fields(engine)
    for name in chosen:
        if name not in known:
            wrong = f"{_spelling(name)} is for --engine {' or '.join(options[name].engines)}, not for {engine.title}"
            raise CommandError(f"{wrong}; {options[name].declared.instead}")
        if _declared(known[name][0]).scheduled and not scheduled:
            fix = "add --cron, --every or --schedule, or leave it out"
            raise CommandError(f"{_spelling(name)} is for a schedule; {fix}")
    typed = {name: _converted(name, value, known[name][0]) for name, value in chosen.items()}
    try:
        return engine.submit_options()(**typed) if engine.submit_options else None
    except (TypeError, ValueError) as error:  # of its `__post_init__`
        raise CommandError(f"the options of {engine.title}: {error}") from error


def _engine_options(taken: set[str]) -> dict[str, _EngineOption]:
    """Return the options of all engines by their fields; `taken` are the spellings of the command's own."""
    options: dict[str, _EngineOption] = {}
    for engine in registry.plugins().values():
        for name, (annotation, default) in _fields(engine).items():
            option = _option(engine, name, annotation, default)
            other = options.setdefault(name, option)
            owner = f"engine {other.engines[0]}, with another type" if other.kind != option.kind else ""
            if owner := "`tfsteps submit` itself" if _spelling(name) in taken else owner:
                raise _wrong(engine, name, f"is one of {owner}; rename it there")
            if other is not option:
                other.engines.append(engine.name)
    return options


def _fields(engine: EnginePlugin) -> Mapping[str, tuple[Any, Any]]:
    """Return the annotation and the default of each option of an engine by its field."""
    if engine.submit_options is None:
        return {}
    struct = engine.submit_options()
    try:
        hints = get_type_hints(struct, include_extras=True)
        return {field.name: (hints[field.name], field.default) for field in msgspec.structs.fields(struct)}
    except (TypeError, NameError) as error:
        wrong = f"engine {engine.name}: {struct!r} does not declare options: {error}"
        raise CommandError(f"{wrong}; write a msgspec.Struct there, or uninstall it") from error


def _option(engine: EnginePlugin, name: str, annotation: Any, default: Any) -> _EngineOption:
    if not _NAME.fullmatch(name):
        raise _wrong(engine, name, f"has the name {name!r}; write lower-case words with one '_' between them")
    declared, kind, bare = _declared(annotation), _value(_bare(annotation)), _bare(annotation)
    no_default = default is msgspec.NODEFAULT or (default is None and type(None) not in get_args(bare))
    if declared is None or kind is None or no_default:
        raise _wrong(engine, name, f"has no SubmitOption, no default, or the type {bare}; correct it there")
    if kind is bool and default:
        raise _wrong(engine, name, "is a flag whose default is True, so it has no effect; turn its meaning round there")
    shown = ", ".join(default) if isinstance(default, tuple) else str(default or "")
    option = typer.Option(
        _spelling(name),  # a flag has no `--no-` form
        help=f"{engine.name}: {declared.help}",
        metavar=declared.metavar or ("TEXT" if kind == list[str] else None),
        show_default=declared.show_default or shown or False,
    )
    optional: Any = Annotated.__class_getitem__((kind | None, option))  # type: ignore[attr-defined]
    parameter = inspect.Parameter(f"{_PREFIX}{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=optional)
    return _EngineOption([engine.name], kind, parameter, declared)


def _converted(name: str, value: Any, annotation: Any) -> Any:
    """Return the value of an option as its engine has it. CommandError if it is beyond the limits of its type."""
    try:
        return typed_json.convert(tuple(value) if isinstance(value, list) else value, annotation)
    except msgspec.ValidationError as error:
        limits = [item.description for item in get_args(annotation)[1:] if isinstance(item, msgspec.Meta)]
        limit = next(filter(None, limits), str(error))
        wrong = f"{_spelling(name)} {value!r} is not allowed. Allowed: {limit}"
        raise CommandError(f"{wrong}. Write another, or leave the option out") from error


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _declared(annotation: Any) -> Any:
    """Return the SubmitOption of a field; None = it has none."""
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((item for item in metadata if isinstance(item, SubmitOption)), None)


def _value(kind: Any) -> Any:
    """Return the type of an option's value for the command line; None = it cannot be an option."""
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [part for part in get_args(kind) if part is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == tuple[str, ...]:
        return list[str]
    named = kind in _VALUES or (isinstance(kind, type) and issubclass(kind, enum.StrEnum))
    return kind if named else None


def _wrong(engine: EnginePlugin, name: str, problem: str) -> CommandError:
    return CommandError(f"engine {engine.name}: its option {_spelling(name)} {problem}, or uninstall it")


def _spelling(name: str) -> str:
    return f"--{name.replace('_', '-')}"
