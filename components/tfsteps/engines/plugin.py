"""The declaration of a pipeline engine by a package; docs/contribute/engine.md shows an example."""

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tfsteps.engines.authoring import Authoring
from tfsteps.engines.base import StepTask
from tfsteps.systems.pipeline import FindPipeline

if TYPE_CHECKING:
    from tfsteps.engines.engine_objects import EngineObjects, NodeNames
    from tfsteps.engines.schedules import KeepSchedules, OpenSchedules
    from tfsteps.engines.submission import Rerun, Submission
    from tfsteps.systems.manifest.draft import Imported

ENTRY_POINTS = "tfsteps.engines"
"""Group of the entry points of packages that add an engine. Each refers to an `EnginePlugin`."""


RunEnd = Literal["succeeded", "failed", "cancelled", "unreported"]
"""How a run ended; unreported = the engine's objects say more than the state."""


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


class ImportStep(Protocol):
    """A step of a pipeline that creates an object, which may be a job."""

    name: str
    """Its name, for messages."""

    manifest: str
    """The object, or several, as YAML."""


class ImportReader(msgspec.Struct, frozen=True, kw_only=True):
    """How `tfsteps import` finds jobs in a pipeline of an engine whose steps create objects.

    Attributes:
        title: What it reads, for messages: `a ToyRun`.
        recognizes: Tells whether a YAML document is one.
        steps: Given one, yields the steps that create objects; `NotUnderstoodError` if that is not known.
        other_steps: Given one and these steps, returns the names of all others, which are left out.
        with_step: Given a job and the step that creates it, returns the job with what the step says about it.
    """

    title: str
    recognizes: Callable[[Any], bool]
    steps: Callable[[Mapping[str, Any]], Iterator[ImportStep]]
    other_steps: Callable[[Mapping[str, Any], Sequence[Any]], list[str]]
    with_step: "Callable[[Imported, Any], Imported]"


class ImportWriter(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine's pipeline is written for a job that was imported.

    Attributes:
        write: Given the job as plain data of a job file and the name of its job system, which is empty for none in
            particular, returns a pipeline with one step `train`. Lines that begin with `#` are written before it.
        suffix: End of the file's name: `.py` = a program; other texts can follow one another as YAML documents.
    """

    write: Callable[[Mapping[str, Any], str], str]
    suffix: str


class SubmitOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option of `tfsteps submit` that one engine has, as metadata of a field of its `submit_options`.

    Attributes:
        help: Its line in `tfsteps submit --help`, after the name of the engine.
        metavar: What stands for its value there; empty = its type.
        show_default: The default there, if the value of the field does not say it.
        scheduled: Whether it is for schedules only, so that it is refused for a single run.
        instead: What to do on another engine, as the end of a sentence.
    """

    help: str
    metavar: str = ""
    show_default: str = ""
    scheduled: bool = False
    instead: str = "leave it out"


class EnginePlugin(msgspec.Struct, frozen=True, kw_only=True):
    """One engine. Functions import what is expensive when they are called: the launchers' pods load plugins, too.

    Attributes:
        name: Its name in `--engine`.
        title: Its name in messages.
        authoring: Returns the object that finds, compiles and checks its pipelines.
        submit: Runs or schedules a pipeline and returns the exit code. `CommandError` or `SpecError` if it cannot.
        submit_options: Returns the type of `Submission.options`, a struct with one field for each option of `tfsteps
            submit` that only some engines have: `Annotated[TYPE, SubmitOption(...)]` with a default. TYPE is str, int,
            float, a bool that is False, an `enum.StrEnum`, one of them or None, or `tuple[str, ...]`, which can be
            repeated. A `msgspec.Meta` limits the value, and its description says how. The field `max_tries` is the
            option `--max-tries`; engines without this field refuse it. None = it has no such options.
        step: How it starts steps; None = with the command line of another engine.
        find_pipeline: Given a cluster and a pod in it, returns the pipeline that the pod is a step of, None if it is of
            another engine; None = its steps are no pods.
        objects: Returns the description of its objects on a cluster, one for each run. The janitor ends the jobs of
            runs that have ended by it, and `show`, `runs` and `clear` display the runs; None = it has no objects.
            Engines that compile to Argo Workflows share that of Argo.
        run_ends: The states of a run that it hands to an exit handler, in any case, and what each means; empty = it
            hands over none. It is not known what another state means.
        run_state_source: Where an exit handler has that state from, as a sentence without a full stop, for messages.
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
        import_reader: Finds the jobs that the steps of its pipelines create, for `tfsteps import`; None = it has none.
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
    submit_options: Callable[[], type[msgspec.Struct]] | None = None
    step: StepCommand | None = None
    find_pipeline: FindPipeline | None = None
    objects: "Callable[[], EngineObjects] | None" = None
    run_ends: Mapping[str, RunEnd] = {}
    run_state_source: str = ""
    node_names: "Callable[[], NodeNames] | None" = None
    fire_times: "Callable[[Submission, float], Iterator[int]] | None" = None
    schedules: "OpenSchedules | None" = None
    schedule_objects: str = ""
    is_configured: Callable[[str], bool] | None = None
    keep_schedules: "KeepSchedules | None" = None
    import_writer: ImportWriter | None = None
    import_reader: ImportReader | None = None
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
    """Return what `target` is. LaunchError for that of another package, if it cannot be loaded."""
    module, _, name = target.partition(":")
    try:
        return attrgetter(name)(importlib.import_module(module))
    except Exception as error:
        if module.startswith("tfsteps."):
            raise  # a defect, or an SDK that is not installed, which has a message of its own
        from tfsteps.systems.base import LaunchError  # noqa: PLC0415  programs of steps load plug-ins first

        wrong = f"{target} of an engine cannot be loaded: {error!r}"
        raise LaunchError(f"{wrong}. Correct or uninstall its package", retryable=False) from error
