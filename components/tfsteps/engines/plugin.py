"""The declaration of a pipeline engine by a package; docs/contribute/engine.md shows an example."""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from tfsteps.engines.authoring import Authoring
from tfsteps.engines.base import StepTask
from tfsteps.systems.pipeline import FindPipeline

if TYPE_CHECKING:
    from tfsteps.engines.engine_objects import EngineObjects, NodeNames
    from tfsteps.engines.schedules import KeepSchedules, OpenSchedules
    from tfsteps.engines.submission import Rerun, Submission

ENTRY_POINTS = "tfsteps.engines"
"""Group of the entry points of packages that add an engine. Each refers to an `EnginePlugin`."""


class StepCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine starts the program of a step.

    Attributes:
        usage: Its command line, for messages.
        recognizes: Tells whether a command line is from this engine.
        task: Returns the task that a command line of this engine describes; ValueError if it is not complete.
    """

    usage: str
    recognizes: Callable[[Sequence[str]], bool]
    task: Callable[[Sequence[str]], StepTask]


class ImportWriter(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine's pipeline is written for a job that was imported.

    Attributes:
        write: Given the job as plain data of a job file and the name of its job system, which is empty for none in
            particular, returns a pipeline with one step `train`. Lines that begin with `#` are written before it.
        suffix: End of the file's name: `.py` = a program; other texts can follow one another as YAML documents.
    """

    write: Callable[[Mapping[str, Any], str], str]
    suffix: str


class EnginePlugin(msgspec.Struct, frozen=True, kw_only=True):
    """One engine. Functions import what is expensive when they are called: the launchers' pods load plugins, too.

    Attributes:
        name: Its name in `--engine`.
        title: Its name in messages.
        authoring: Returns the object that finds, compiles and checks its pipelines.
        submit: Runs or schedules a pipeline and returns the exit code. `CommandError` or `SpecError` if it cannot.
        step: How it starts steps; None = with the command line of another engine.
        find_pipeline: Given a cluster and a pod in it, returns the pipeline that the pod is a step of, None if it is of
            another engine; None = its steps are no pods.
        objects: Returns the description of its objects on a cluster, one for each run. The janitor ends the jobs of
            runs that have ended by it, and `show`, `runs` and `clear` display the runs; None = it has no objects.
            Engines that compile to Argo Workflows share that of Argo.
        node_names: Returns how it names the steps in these objects; None = as the objects do.
        fire_times: Given a submission with a schedule and the time, yields when runs start, in seconds since the epoch.
            `SpecError` if the engine cannot express the schedule; None = it has no schedules.
        schedules: Yields the schedules of a place, for `tfsteps schedules`; None = they cannot be listed.
        schedule_objects: What these schedules are, for the help of that command: `CronJobs`.
        is_configured: Given `--host`, empty = not set, tells whether it or the environment names an API of this engine:
            then `tfsteps schedules` means this engine if none is named; None = only if it is `general`.
        keep_schedules: Makes one pass over the schedules whose rules the janitor keeps; None = it has none. See
            `tfsteps.engines.schedules.KeepSchedules`.
        import_writer: Writes a pipeline with one job, for `tfsteps import --as`; None = it cannot.
        rerun: Runs the recorded pipeline of an earlier run again and returns the exit code; None = it cannot.
        general: What it recognizes may be of another engine, which is asked first: so are Workflows.
        runs: Names of other engines whose compiled pipelines it runs.
        on_cluster: Whether its steps run in containers, whose images are checked; False = on this machine.
        notation: What its compiled pipelines are, for messages; empty = it only runs those of `runs`.
        definition: How a program defines a pipeline, for messages: the end of a sentence; empty = programs cannot.
        sdk: Top-level module that such programs import; empty = none.
        requirement: What to install if `sdk` is missing.
    """

    name: str
    title: str
    authoring: Callable[[], Authoring]
    submit: "Callable[[Submission], int]"
    step: StepCommand | None = None
    find_pipeline: FindPipeline | None = None
    objects: "Callable[[], EngineObjects] | None" = None
    node_names: "Callable[[], NodeNames] | None" = None
    fire_times: "Callable[[Submission, float], Iterator[int]] | None" = None
    schedules: "OpenSchedules | None" = None
    schedule_objects: str = ""
    is_configured: Callable[[str], bool] | None = None
    keep_schedules: "KeepSchedules | None" = None
    import_writer: ImportWriter | None = None
    rerun: "Callable[[Rerun], int] | None" = None
    general: bool = False
    runs: Collection[str] = ()
    on_cluster: bool = True
    notation: str = ""
    definition: str = ""
    sdk: str = ""
    requirement: str = ""

    def can_run(self, engine: str) -> bool:
        """Tell whether it runs the pipelines that are compiled for an engine."""
        return engine in (self.name, *self.runs)


def deferred(target: str) -> Callable[..., Any]:
    """Return a function that calls `target`, written `module:name`, and imports the module only then."""

    def call(*args: Any) -> Any:
        return _loaded(target)(*args)

    return call


def constant(target: str) -> Callable[[], Any]:
    """Return a function that returns `target`, written `module:name`, and imports the module only then."""
    return lambda: _loaded(target)


def _loaded(target: str) -> Any:
    module, _, name = target.partition(":")
    return attrgetter(name)(importlib.import_module(module))
