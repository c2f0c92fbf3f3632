"""Compiled pipelines: reads them from files or compiles programs, detects their engine, and checks them."""

import contextlib
import enum
import importlib.util
import pathlib
import shlex
import sys
import traceback
import types
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec

from tfsteps import image
from tfsteps.backends.errors import CommandError
from tfsteps.cli import pipelines_1
from tfsteps.console.messages import warn
from tfsteps.engines.authoring import authoring
from tfsteps.spec.problems import Problem, SpecError
from tfsteps.text.streams import read_input
from tfsteps.yaml_reader import YamlError
from tfsteps.yaml_reader import documents as read_documents

_MODULE = "tfsteps_pipeline"  # name of a program's module if another module has the program's own name
_KINDS = "a pipeline of Kubeflow Pipelines, or manifests of Argo Workflows"


class Engine(enum.StrEnum):
    """The values of `--engine`."""

    KFP = "kfp"
    ARGO = "argo"
    LOCAL = "local"


class Compiled(msgspec.Struct, frozen=True):
    """A compiled pipeline.

    Attributes:
        source: Name of the pipeline in messages.
        text: The compiled text.
        documents: The YAML documents in the text.
        engine: The engine of the pipeline: kfp or argo.
        pipeline: The pipeline object of the program, for local runs; None if the pipeline was read from a file.
    """

    source: str
    text: str
    documents: list[dict[str, Any]]
    engine: Engine
    pipeline: Any = None

    @property
    def name(self) -> str:
        """The pipeline's or the manifest's name."""
        return authoring(self.engine).title(self.documents[0])

    def check(self, engine: Engine | None = None, parameters: Mapping[str, str] | None = None) -> None:
        """Print the warnings. Raise SpecError with everything that the engine refuses, except missing inputs.

        Args:
            engine: The engine that runs it; None = the engine of the pipeline. LOCAL has no warnings, which are about
                clusters.
            parameters: Arguments that replace those of a manifest, by name; None = it is not submitted now: the missing
                ones are warned of, too.
        """
        engine = engine or self.engine
        missing = self.missing_arguments() if parameters is None else []
        for warning in [*self.warnings(engine), *missing]:
            warn(f"{self.source}: {warning}")
        filled = authoring(engine).with_arguments(self.documents, parameters or {})
        if problems := self.problems(engine, filled):
            raise LintError(self.source, problems)

    def problems(self, engine: Engine | None = None, text: str | None = None) -> list[str]:
        """Return a sentence for everything that compiles but fails on the engine.

        Args:
            engine: The engine that runs it; None = the engine of the pipeline.
            text: The pipeline with its arguments; None = the compiled text.
        """
        try:
            return authoring(engine or self.engine).problems(self.text if text is None else text)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return [
                f"does not have the shape of a compiled pipeline ({type(error).__name__}: {error}); compile it again"
            ]

    def warnings(self, engine: Engine | None = None) -> list[str]:
        """Return a sentence for everything that may be a mistake, or fails only on some versions of the engine."""
        on_cluster = [] if engine is Engine.LOCAL else image.warnings(self.documents)
        try:
            return [*authoring(engine or self.engine).warnings(self.text), *on_cluster]
        except (AttributeError, KeyError, TypeError, ValueError):
            return []  # `problems` reports that it does not have the shape of a compiled pipeline

    def missing_arguments(self) -> list[str]:
        """Return a sentence for each argument that must be set at submission."""
        return authoring(self.engine).missing_arguments(self.text)


class LintError(SpecError):
    """The problems of a lint, as sentences that contain the place and the fix."""

    def __init__(self, source: str, sentences: list[str]) -> None:
        """Store each sentence as a problem."""
        super().__init__([Problem(path=(), wrong=sentence, fix="") for sentence in sentences], source)

    def _lines(self) -> list[str]:
        return [f"{self.source}: {problem.wrong}" for problem in self.problems]


def obtain(file: str, name: str | None) -> Compiled:
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
        target = shlex.quote(str(path.with_suffix(".yaml")))
        command = f"tfsteps compile {shlex.quote(file)} --output {target}"
        raise CommandError(f"{file} is a program; compile it with `{command}`, which makes the same checks")
    try:
        text = read_input() if file == "-" else pathlib.Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{file!r} cannot be read: {error}; give a compiled pipeline, such as `tfsteps compile` writes"
        ) from error
    return understood("stdin" if file == "-" else file, text)


def understood(source: str, text: str, pipeline: Any = None) -> Compiled:
    """Return the compiled pipeline in `text`. CommandError if `text` is not a compiled pipeline."""
    try:
        documents = [document for document in read_documents(text) if document is not None]
    except YamlError as error:
        raise CommandError(f"{source}, line {error.line}: {error.wrong}; compile it again") from error
    if documents and all(isinstance(document, dict) for document in documents):
        for engine in Engine:
            if authoring(engine).reads(documents):
                return Compiled(source, text, authoring(engine).expanded(documents), engine, pipeline)
    raise CommandError(f"{source} is not {_KINDS}; `tfsteps compile PIPELINE.py` writes one")


# --- programs


def compile_program(file: str, name: str | None) -> Compiled:
    """Compile the pipeline `name` of the program in `file`; None = its only pipeline.

    Raises:
        CommandError: The program cannot be read, fails, or has no such pipeline.
    """
    module = _run(pathlib.Path(file))
    pipelines = {name: pair for engine in Engine for name, pair in authoring(engine).pipelines(module).items()}
    pipeline, compiled_text = pipelines[_choose(file, pipelines, name)]
    return understood(file, compiled_text(), pipeline)


def _choose(file: str, pipelines: Mapping[str, Any], name: str | None) -> str:
    if not pipelines:
        raise CommandError(
            f"{file!r} defines no pipeline at its top level; decorate a function with @dsl.pipeline, "
            "or assign a hera.workflows.Workflow to a name"
        )
    chosen = name or (pathlib.Path(file).stem.replace("-", "_") if len(pipelines) > 1 else next(iter(pipelines)))
    if chosen not in pipelines:
        wrong = f"has no pipeline {name!r}" if name else "has several pipelines"
        raise CommandError(f"{file!r} {wrong}; choose with --pipeline: {', '.join(pipelines)}")
    return chosen


def _run(file: pathlib.Path) -> types.ModuleType:
    """Import a program, with its folder first in `sys.path`, as when it is run."""
    name = file.stem if file.stem.isidentifier() and not _taken(file.stem) else _MODULE
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.absolute().parent))
    try:
        # stdout is for the compiled pipeline; kfp's plans for its own defaults are nothing that an author acts on
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The default base_image", FutureWarning)
            warnings.filterwarnings("ignore", module=r"kfp(\.|$)")
            spec.loader.exec_module(module)
    except FileNotFoundError as error:
        if file.exists():
            raise CommandError(_failure(file, error)) from error
        raise CommandError(f"{str(file)!r} does not exist; give a program that defines a pipeline") from error
    except (Exception, SystemExit) as error:
        raise CommandError(_failure(file, error)) from error
    return module


def _taken(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def _failure(file: pathlib.Path, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(file.name)]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    where = f", line {line}" if line else ""
    extra = {"kfp": "kfp", "hera": "argo"}.get(getattr(error, "name", None) or "")
    install = f"install tfsteps[{extra}]" if isinstance(error, ModuleNotFoundError) and extra else ""
    fix = pipelines_1.fix(error) or install or "correct the program"
    return f"{file}{where}: {type(error).__name__}: {str(error).rstrip('.')}; {fix}"
