"""Compiled pipelines: reads them from files or compiles programs, detects their engine, and checks them."""

import contextlib
import importlib.util
import pathlib
import sys
import traceback
import types
import warnings as python_warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tfsteps import image
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.console.errors import CommandError
from tfsteps.console.inputs import read_text
from tfsteps.console.messages import warn
from tfsteps.console.text import shell_path
from tfsteps.engines import registry
from tfsteps.engines.authoring import Compiled, LintError
from tfsteps.engines.cluster_checks import refusals
from tfsteps.engines.plugin import EnginePlugin
from tfsteps.kube.backoff import COMMAND_PATIENCE_SECONDS
from tfsteps.runs.location import Location
from tfsteps.spec import SpecError
from tfsteps.systems.kubernetes.job_cluster import JobCluster
from tfsteps.yaml_reader import YamlError
from tfsteps.yaml_reader import documents as read_documents

_T = TypeVar("_T")
_MODULE = "tfsteps_pipeline"  # name of a program's module if another module has the program's own name
_SHAPE = (AttributeError, KeyError, TypeError, ValueError)  # of rules, for a text that is no compiled pipeline


def check(compiled: Compiled, engine: EnginePlugin | None = None, parameters: Mapping[str, str] | None = None) -> None:
    """Print the warnings. Raise LintError with everything that the engine refuses, except missing inputs.

    Args:
        compiled: The pipeline.
        engine: The engine that runs it; None = the one that it is compiled for.
        parameters: Arguments that replace those of a manifest, by name; None = it is not submitted now: the missing
            ones are warned of, too.
    """
    engine = engine or registry.plugin(compiled.engine)
    missing = compiled.authoring.missing_arguments(compiled.text) if parameters is None else []
    for warning in [*warnings(compiled, engine), *missing]:
        warn(f"{compiled.source}: {warning}")
    filled = engine.authoring().with_arguments(compiled.documents, parameters or {})
    if wrong := lint_messages(engine, compiled.text if filled is None else filled):
        raise LintError(compiled.source, wrong)


def lint_messages(engine: EnginePlugin, text: str) -> list[str]:
    """Return a sentence for everything in a compiled pipeline that fails on the engine although it compiles."""
    try:
        return engine.authoring().lint_messages(text)
    except _SHAPE as error:
        return [f"does not have the shape of a compiled pipeline ({type(error).__name__}: {error}); compile it again"]


def warnings(compiled: Compiled, engine: EnginePlugin | None = None) -> list[str]:
    """Return a sentence for everything that may be a mistake, or fails only on some versions of the engine.

    Warnings about images are about clusters: an engine of this machine has none. `engine` is as for `check`.
    """
    engine = engine or registry.plugin(compiled.engine)
    on_cluster = image.unqualified(compiled.documents) if engine.on_cluster else []
    try:
        return [*engine.authoring().warnings(compiled.text), *on_cluster]
    except _SHAPE:
        return []  # `lint_messages` reports that it does not have the shape of a compiled pipeline


def settings_refusals(compiled: Compiled, location: BackendLocation) -> list[str]:
    """Return a sentence for everything for which platform settings refuse a job of a valid pipeline.

    They are those that TFSTEPS_SETTINGS names, else those of a cluster, if the place is one. Errors as `refusals`.
    """
    named = next((namespace for namespace, _ in compiled.authoring.references(compiled.documents)), "")
    cluster = JobCluster(location.context, location.namespace or named, COMMAND_PATIENCE_SECONDS)
    return list(refusals(compiled, {}, cluster, ask=location.on == Location.KUBERNETES))


def shaped(compiled: Compiled, read: Callable[[], _T]) -> _T:
    """Return what `read` reads of a compiled pipeline. CommandError if it does not have the shape of one."""
    try:
        return read()
    except SpecError:
        raise
    except _SHAPE as error:
        wrong = f"does not have the shape of a compiled pipeline ({type(error).__name__}: {error})"
        raise CommandError(f"{compiled.source} {wrong}; compile it again, and check it by `tfsteps lint`") from error


def macro_warnings(parameters: Mapping[str, str], engine: EnginePlugin) -> list[str]:
    """Return a sentence for each input, as text, with a macro that the program may get as it is on this engine."""
    if not parameters:
        return []
    authoring = engine.authoring()
    replaced = authoring.macros if authoring.replaces_macros else ()
    macros = [macro for other in registry.plugins().values() for macro in other.authoring().macros]
    left = {
        name: [match[0] for macro in macros if macro not in replaced and (match := macro.search(value))]
        for name, value in parameters.items()
    }
    return [
        f"--param {name}: the program may get {texts[0]} as it is: {authoring.macro_fix}"
        for name, texts in left.items()
        if texts
    ]


def load_or_compile(file: str, name: str | None) -> Compiled:
    """Return the compiled pipeline in `file`; if `file` is a program, compile its pipeline `name`.

    Raises:
        CommandError: `file` is neither.
    """
    if pathlib.Path(file).suffix == ".py":
        return compile_program(file, name)
    if name:
        raise CommandError(f"--pipeline {name} requires a program; {file!r} is already compiled")
    return read(file)


def read(file: str) -> Compiled:
    """Return the compiled pipeline in `file`, `-` for standard input. CommandError if there is none."""
    if (path := pathlib.Path(file)).suffix == ".py":
        command = f"tfsteps compile {shell_path(file)} --output {shell_path(path.with_suffix('.yaml'))}"
        raise CommandError(f"{file} is a program; compile it with `{command}`, which makes the same checks")
    text = read_text(file, "a compiled pipeline, such as `tfsteps compile` writes")
    return parse_compiled("stdin" if file == "-" else file, text)


def parse_compiled(source: str, text: str, pipeline: Any = None) -> Compiled:
    """Return the compiled pipeline in `text`. CommandError if `text` is not a compiled pipeline."""
    try:
        documents = [document for document in read_documents(text) if document is not None]
    except YamlError as error:
        raise CommandError(f"{source}, line {error.line}: {error.wrong}; compile it again") from error
    if documents and all(isinstance(document, dict) for document in documents):
        for engine in registry.most_specific_first():
            authoring = engine.authoring()
            if authoring.reads(documents):
                return Compiled(source, text, authoring.expanded(documents), engine.name, authoring, pipeline)
    kinds = ", or ".join(engine.notation for engine in registry.plugins().values() if engine.notation)
    raise CommandError(f"{source} is not {kinds}; `tfsteps compile PIPELINE.py` writes one")


# --- programs


def compile_program(file: str, name: str | None) -> Compiled:
    """Compile the pipeline `name` of the program in `file`; None = its only pipeline.

    Raises:
        CommandError: The program cannot be read, fails, or has no such pipeline.
    """
    module = _run(pathlib.Path(file))
    engines = registry.plugins().values()
    pipelines = {name: pair for engine in engines for name, pair in engine.authoring().pipelines(module).items()}
    pipeline, compiled_text = pipelines[_choose(file, pipelines, name)]
    try:
        text = compiled_text()
    except Exception as error:  # of the SDK, which refuses what the program gave it
        raise CommandError(_failure(pathlib.Path(file), module, error)) from error
    return parse_compiled(file, text, pipeline)


def _choose(file: str, pipelines: Mapping[str, Any], name: str | None) -> str:
    if not pipelines:
        ways = ", or ".join(engine.definition for engine in registry.plugins().values() if engine.definition)
        raise CommandError(f"{file!r} defines no pipeline at its top level; {ways}")
    chosen = name or (pathlib.Path(file).stem.replace("-", "_") if len(pipelines) > 1 else next(iter(pipelines)))
    if chosen not in pipelines:
        wrong = f"has no pipeline {name!r}" if name else "has several pipelines"
        raise CommandError(f"{file!r} {wrong}; choose with --pipeline: {', '.join(pipelines)}")
    return chosen


def _run(file: pathlib.Path) -> types.ModuleType:
    """Import a program, with its folder first in `sys.path`, as when it is run."""
    if file.suffix != ".py":
        raise CommandError(f"{str(file)!r} is no Python program; give a file whose name ends in .py")
    name = file.stem if file.stem.isidentifier() and not _taken(file.stem) else _MODULE
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.absolute().parent))
    try:
        # stdout is for the compiled pipeline
        with contextlib.redirect_stdout(sys.stderr), python_warnings.catch_warnings():
            for engine in registry.plugins().values():
                engine.authoring().ignore_warnings()
            spec.loader.exec_module(module)
    except FileNotFoundError as error:
        if file.exists():
            raise CommandError(_failure(file, module, error)) from error
        raise CommandError(f"{str(file)!r} does not exist; give a program that defines a pipeline") from error
    except (Exception, SystemExit) as error:
        raise CommandError(_failure(file, module, error)) from error
    return module


def _taken(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def _failure(file: pathlib.Path, module: types.ModuleType, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == module.__file__]
    line = frames[-1].lineno if frames else None
    if isinstance(error, SyntaxError) and error.filename == module.__file__:
        line = error.lineno
    where = f", line {line}" if line else ""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    engines = registry.plugins().values()
    fixes = [engine.authoring().program_fix(error) for engine in engines]
    installs = [f"install {engine.requirement}" for engine in engines if missing and engine.sdk == missing]
    fix = next(filter(None, [*fixes, *installs]), "correct the program")
    return f"{file}{where}: {type(error).__name__}: {str(error).rstrip('.')}; {fix}"
