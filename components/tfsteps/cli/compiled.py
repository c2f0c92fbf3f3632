"""Compiled pipelines: read from a file or made of a program, told apart by what is in them, and checked."""

import contextlib
import copy
import enum
import importlib.util
import pathlib
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import yaml

from tfsteps.cli.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.engines import manifests
from tfsteps.spec.problems import Problem, SpecError
from tfsteps.text.streams import read_input

_MODULE = "tfsteps_pipeline"  # a program keeps its own name only where nothing else of that name is imported
_KINDS = "a pipeline of Kubeflow Pipelines, or manifests of Argo Workflows"


class Engine(enum.StrEnum):
    """What `--engine` takes."""

    KFP = "kfp"
    ARGO = "argo"
    LOCAL = "local"


class Compiled(msgspec.Struct, frozen=True):
    """A compiled pipeline.

    Attributes:
        source: What messages call it.
        text: As it was read or written.
        documents: The YAML documents in it.
        engine: What it is for: kfp or argo.
        pipeline: What the program made it of, for local runs; None if it was read.
    """

    source: str
    text: str
    documents: list[dict[str, Any]]
    engine: Engine
    pipeline: Any = None

    @property
    def name(self) -> str:
        """The pipeline's or the manifest's name; without what Argo appends to one that is generated."""
        if self.engine is Engine.KFP:
            return str(self.documents[0].get("pipelineInfo", {}).get("name", "pipeline"))
        metadata = self.documents[0].get("metadata") or {}
        return str(metadata.get("name") or str(metadata.get("generateName", "workflow")).rstrip("-"))

    def check(self, engine: Engine | None = None, parameters: Mapping[str, str] | None = None) -> None:
        """Print the warnings. Raise SpecError with everything that its engine refuses, but inputs yet to be given.

        Args:
            engine: Who runs it; None = what it is compiled for. LOCAL has no warnings: they are about clusters.
            parameters: Arguments of a manifest that are given in place of its own, by name.
        """
        engine = engine or self.engine
        for each in self.warnings() if engine is not Engine.LOCAL else ():
            warn(f"{self.source}: {each}")
        if found := lint(engine, _given(self.documents, parameters or {}) if engine is Engine.ARGO else self.text):
            raise LintError(self.source, found)

    def problems(self) -> list[str]:
        """Return a sentence for everything that its engine would stumble over if it got it as it is."""
        return lint(self.engine, self.text)

    def warnings(self) -> list[str]:
        """Return a sentence for everything that may be meant, or fails on some versions of its engine only."""
        if self.engine is not Engine.KFP:
            return []
        from tfsteps.engines.kfp.lint import warnings  # noqa: PLC0415  one engine is enough

        try:
            return warnings(self.text)
        except (AttributeError, KeyError, TypeError, ValueError):
            return []  # `problems` says that it is not shaped as a compiler writes it


def lint(engine: Engine, text: str) -> list[str]:
    """Return a sentence for everything that `engine` would stumble over."""
    if engine is not Engine.ARGO:
        from tfsteps.engines.kfp import lint as of_kfp  # noqa: PLC0415  one engine is enough

        rules: Callable[[str], list[str]] = of_kfp.local_problems if engine is Engine.LOCAL else of_kfp.problems
    else:
        from tfsteps.engines.argo.lint import problems as of_argo  # noqa: PLC0415

        rules = of_argo
    try:
        return rules(text)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return [f"is not shaped as a compiler writes it ({type(error).__name__}: {error}); compile it again"]


def _given(documents: list[dict[str, Any]], parameters: Mapping[str, str]) -> str:
    """Return manifests as they are when every argument has been given, these among them."""
    filled = copy.deepcopy(documents)
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # not even of the right shape, as the lint will say
        for each in filled:
            spec = each.get("spec") or {}
            for parameter in ((spec.get("workflowSpec") or spec).get("arguments") or {}).get("parameters") or []:
                if parameter["name"] in parameters:
                    parameter.pop("valueFrom", None)
                    parameter["value"] = parameters[parameter["name"]]
                elif not {"value", "valueFrom", "default"} & set(parameter):
                    parameter["value"] = ""
    return yaml.safe_dump_all(filled)


class LintError(SpecError):
    """What a lint found: sentences that name the place and the fix themselves."""

    def __init__(self, source: str, sentences: list[str]) -> None:
        """Keep the sentences."""
        super().__init__([Problem(path=(), wrong=each, fix="") for each in sentences], source)

    def _lines(self) -> list[str]:
        return [f"{self.source}: {each.wrong}" for each in self.problems]


def obtain(file: str, name: str | None) -> Compiled:
    """Return the pipeline `name` of the program `file`, compiled, or the compiled one in it.

    Raises:
        CommandError: It is neither.
    """
    if pathlib.Path(file).suffix == ".py":
        return compile_program(file, name)
    if name:
        raise CommandError(f"--pipeline {name} chooses among those of a program; {file!r} is compiled already")
    return read(file)


def read(file: str) -> Compiled:
    """Return the compiled pipeline in `file`, `-` for standard input. CommandError if there is none."""
    try:
        text = read_input() if file == "-" else pathlib.Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"{file!r} cannot be read: {error}; give a compiled pipeline, as `tfsteps compile` writes them"
        ) from error
    return understood("stdin" if file == "-" else file, text)


def understood(source: str, text: str, pipeline: Any = None) -> Compiled:
    """Return `text` as the pipeline that it is. CommandError if it is none."""
    try:
        documents = [each for each in manifests.documents(text) if each is not None]
    except yaml.YAMLError as error:
        place = getattr(error, "problem_mark", None)
        where = f", line {place.line + 1}" if place else ""
        raise CommandError(
            f"{source}{where}: is not YAML: {getattr(error, 'problem', error)}; compile it again"
        ) from error
    if documents and all(isinstance(each, dict) for each in documents):
        if "pipelineInfo" in documents[0] or "deploymentSpec" in documents[0]:
            return Compiled(source, text, documents, Engine.KFP, pipeline)
        if all(str(each.get("apiVersion", "")).startswith("argoproj.io/") for each in documents):
            return Compiled(source, text, documents, Engine.ARGO, pipeline)
    raise CommandError(f"{source} is not {_KINDS}; `tfsteps compile PIPELINE.py` writes one")


# --- programs


def compile_program(file: str, name: str | None) -> Compiled:
    """Return the pipeline `name` of the program in `file`, compiled; None = its only one.

    Raises:
        CommandError: The program cannot be read, fails, or has no such pipeline.
    """
    module = _run(pathlib.Path(file))
    found = {**_kfp_pipelines(module), **_workflows(module)}
    return found[_choose(file, found, name)](file)


def _choose(file: str, found: Mapping[str, Any], name: str | None) -> str:
    if not found:
        raise CommandError(
            f"{file!r} defines no pipeline at its top level; decorate a function with @dsl.pipeline, "
            "or assign a hera.workflows.Workflow to a name"
        )
    wanted = name or (pathlib.Path(file).stem.replace("-", "_") if len(found) > 1 else next(iter(found)))
    if wanted not in found:
        why = f"has no pipeline {name!r}" if name else "has several pipelines"
        raise CommandError(f"{file!r} {why}; choose with --pipeline: {', '.join(found)}")
    return wanted


def _run(file: pathlib.Path) -> types.ModuleType:
    """Import a program, its own folder first on the path as if it were started."""
    name = file.stem if file.stem.isidentifier() and not _taken(file.stem) else _MODULE
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.absolute().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):  # ours is for the pipeline
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
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.endswith(file.name)]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    where = f", line {line}" if line else ""
    extra = {"kfp": "kfp", "hera": "argo"}.get(getattr(error, "name", None) or "")
    fix = f"install tfsteps[{extra}]" if isinstance(error, ImportError) and extra else "correct the program"
    return f"{file}{where}: {type(error).__name__}: {error}; {fix}"


def _kfp_pipelines(module: types.ModuleType) -> dict[str, Callable[[str], Compiled]]:
    """Return how to compile each pipeline of Kubeflow Pipelines that `module` defines, by the name it has there."""
    if "kfp" not in sys.modules:
        return {}
    from kfp.dsl.graph_component import GraphComponent  # noqa: PLC0415  the program has imported it

    def compiled(pipeline: Any) -> Callable[[str], Compiled]:
        return lambda source: understood(source, _kfp_text(pipeline), pipeline)

    named = {name: each for name, each in vars(module).items() if isinstance(each, GraphComponent)}
    return {name: compiled(each) for name, each in named.items() if each.pipeline_func.__module__ == module.__name__}


def _kfp_text(pipeline: Any) -> str:
    from kfp import compiler  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "pipeline.yaml")
        compiler.Compiler().compile(pipeline, str(file))
        return file.read_text("utf-8")


def _workflows(module: types.ModuleType) -> dict[str, Callable[[str], Compiled]]:
    """Return how to write each of Hera's Workflows, templates and crons that `module` has, by its name there."""
    if "hera.workflows" not in sys.modules:
        return {}
    from hera.workflows import Workflow  # noqa: PLC0415  the program has imported it

    def compiled(workflow: Any) -> Callable[[str], Compiled]:
        return lambda source: understood(source, workflow.to_yaml())

    return {name: compiled(each) for name, each in vars(module).items() if isinstance(each, Workflow)}
