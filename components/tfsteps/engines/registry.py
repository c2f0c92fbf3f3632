"""The pipeline engines, by name: those of this package, and those that other packages add by an entry point."""

import functools
import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from tfsteps.engines.base import StepTask
from tfsteps.engines.plugin import ENTRY_POINTS, EnginePlugin, RunEnd
from tfsteps.runs.graph import Node
from tfsteps.systems.pipeline import Origin, PipelineContext

if TYPE_CHECKING:
    from tfsteps.engines.engine_objects import EngineObjects
    from tfsteps.kube.client import Api
    from tfsteps.kube.resource import Owner

NAMES = ("kfp", "argo", "local")
"""The engines of this package. Not entry points: a copy of the package without its metadata has them too."""


def plugin(name: str) -> EnginePlugin:
    """Return the plugin of the engine called `name`. KeyError for an unknown one."""
    return _built_in(name) if name in NAMES else plugins()[name]


@functools.cache
def plugins() -> Mapping[str, EnginePlugin]:
    """Return all engines by name: those of this package first.

    Raises:
        LaunchError: A package declares one that cannot be loaded, or whose name is taken.
    """
    from tfsteps.systems.plugin import load_plugins  # noqa: PLC0415  few steps need other packages

    outside = load_plugins(ENTRY_POINTS, EnginePlugin, "engine", NAMES, _problem)
    return {**{name: _built_in(name) for name in NAMES}, **outside}


def most_specific_first() -> list[EnginePlugin]:
    """Return all engines in the order in which they are asked whether a pod or a document is theirs."""
    return sorted(plugins().values(), key=lambda engine: engine.general)


def step_task(arguments: Sequence[str]) -> StepTask:
    """Return the task that the command line of a step describes.

    Raises:
        ValueError: No engine recognizes it, or it is not complete.
        LaunchError: As `plugins`.
    """
    step = step_engine(arguments).step
    assert step is not None
    return step.task(arguments)


def step_engine(arguments: Sequence[str]) -> EnginePlugin:
    """Return the engine whose command line of a step this is. Errors as of `step_task`."""
    for engine in _built_in_first():
        if engine.step and engine.step.recognizes(arguments):
            return engine
    raise ValueError(f"expected {' or '.join(f'`{engine.step.usage}`' for engine in _built_in_first() if engine.step)}")


def find_pipeline(api: "Api", pod: Mapping[str, Any]) -> PipelineContext | None:
    """Return the pipeline that a pod is a step of, whichever engine runs it; None = it is of none.

    The pod decides, not the command line: the `tfsteps` command may run in a pod of any engine.
    """
    searches = (engine.find_pipeline for engine in most_specific_first() if engine.find_pipeline)
    return next((pipeline for find in searches if (pipeline := find(api, pod))), None)


# --- the objects of runs on a cluster


def engine_objects() -> "list[EngineObjects]":
    """Return the descriptions of the objects that engines have on a cluster, one for each kind of object."""
    described = [engine.objects() for engine in most_specific_first() if engine.objects]
    return list({objects.resource: objects for objects in reversed(described)}.values())[::-1]


def engine_of(objects: "EngineObjects", step: str) -> str:
    """Return the name of the engine whose runs have such objects, and a step of this path."""
    engines = [engine for engine in most_specific_first() if engine.objects and engine.objects() == objects]
    named = (engine.name for engine in engines if engine.node_names and engine.node_names().task_name(step))
    return next(named, engines[-1].name)


def find_origin(owners: Sequence[Mapping[str, Any]], step: str) -> Origin:
    """Return where a job comes from that has these ownerReferences and was launched by this step."""
    references = (objects.reference_in(owners) for objects in engine_objects())
    name = next((str(reference["name"]) for reference in references if reference), "")
    return Origin(name, _task_name(step))


def pipeline_node(objects: "EngineObjects", item: Mapping[str, Any], launched: Collection[str]) -> Node:
    """Return the object of a run as a node of its graph, with its steps that launch no job.

    Args:
        objects: The description of its kind.
        item: The object.
        launched: The paths of the steps that launch or follow jobs.
    """
    from tfsteps.engines.engine_objects import NodeNames  # noqa: PLC0415  programs of steps do not need it

    names = [engine.node_names() for engine in most_specific_first() if engine.node_names]
    return objects.pipeline_node(
        item, launched, NodeNames(_task_name, lambda template: any(named.is_internal(template) for named in names))
    )


def owner_of(item: Mapping[str, Any]) -> "Owner | None":
    """Return the run's object that owns a job; None = no such object owns it. ValueError for invalid metadata."""
    return next((owner for objects in engine_objects() if (owner := objects.owner_of(item))), None)


class EngineRuns:
    """The runs of all engines in a namespace, for the janitor. An `AbandonedRuns`."""

    def __init__(self, api: "Api", namespace: str, name: str = "") -> None:
        """Send no request yet; `namespace` empty = all; `name` = only jobs of the run of that name matter."""
        self._runs = [objects.abandoned(api, namespace, name) for objects in engine_objects()]

    def why_abandoned(self, item: Mapping[str, Any]) -> str:
        return next((why for runs in self._runs if (why := runs.why_abandoned(item))), "")

    def why_step_ended(self, namespace: str, name: str, uid: str, step: str) -> str:
        """Return an answer only if the runs of all engines agree: the kind of the object with this uid is not known."""
        why = [runs.why_step_ended(namespace, name, uid, step) for runs in self._runs]
        return why[0] if why and all(why) else ""


# --- loading


def _task_name(step: str) -> str:
    names = (engine.node_names() for engine in most_specific_first() if engine.node_names)
    return next((task for named in names if (task := named.task_name(step))), "")


def _problem(engine: EnginePlugin) -> str:
    ends = get_args(RunEnd)
    wrong = [f"{state}: {end}" for state, end in engine.run_ends.items() if end not in ends]
    return f"its run_ends have {wrong[0]!r}, which is none of {', '.join(ends)}" if wrong else ""


def _built_in_first() -> Iterator[EnginePlugin]:
    """Yield all engines; those of other packages are loaded if none of this package is the right one."""
    yield from map(_built_in, NAMES)
    yield from (engine for name, engine in plugins().items() if name not in NAMES)


def _built_in(name: str) -> EnginePlugin:
    module = importlib.import_module(f"tfsteps.engines.{name}.plugin")
    declared: EnginePlugin = module.PLUGIN
    return declared
