"""Checks of a compiled pipeline against its cluster, before it is sent.

The jobs that its steps launch are checked against platform settings, and whether the objects exist that its pods refer
to; else a step stays Pending.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tfsteps.console.errors import CommandError
from tfsteps.console.messages import warn
from tfsteps.engines.authoring import Compiled, LintError, overlaps, places
from tfsteps.engines.training_job import training_job
from tfsteps.settings.find import VARIABLE
from tfsteps.spec import Problem, SpecError, TrainingJob
from tfsteps.spec.parse import to_plain
from tfsteps.systems import registry
from tfsteps.systems.base import HasSettings

if TYPE_CHECKING:
    from tfsteps.kube.client import Api
    from tfsteps.systems.kubernetes.job_cluster import JobCluster
    from tfsteps.systems.kubernetes.preflight.references import Reference

JOB_STEPS = ("train", "launch")
"""The steps that launch a job."""

_UNKNOWN = "tfsteps-unknown"  # in place of a text that only a run knows: it is valid in most fields
_AUTO = "auto"


def check_settings(compiled: Compiled, values: Mapping[str, str], cluster: "JobCluster", *, ask: bool = True) -> None:
    """Raise LintError if platform settings refuse a job of a pipeline; arguments and other errors as `refusals`."""
    if refused := list(refusals(compiled, values, cluster, ask=ask)):
        raise LintError(compiled.source, refused)


def refusals(
    compiled: Compiled, values: Mapping[str, str], cluster: "JobCluster", *, ask: bool = True
) -> Iterator[str]:
    """Yield why platform settings refuse jobs of a pipeline: a sentence for each problem, as a launcher reports it.

    A warning names each job that cannot be checked. Its launcher checks it.

    Args:
        compiled: The pipeline, which its engine accepts.
        values: Inputs of the pipeline by name, as text; others have their defaults.
        cluster: The cluster of the launchers, and the namespace of the settings.
        ask: Whether the cluster may be asked for settings; otherwise only a file that TFSTEPS_SETTINGS names counts.

    Raises:
        SpecError: The settings are wrong.
        LaunchError: Whether there are settings is not known.
    """
    if not ask and not os.environ.get(VARIABLE, "").strip():
        return
    try:
        paths = compiled.authoring.task_paths(compiled.documents)
    except CommandError as error:  # a template that is only on the cluster
        warn(f"{compiled.source}: its jobs are not checked against platform settings, only by their launchers: {error}")
        return
    for path in paths:
        try:
            job, reason = _job(compiled, path, values)
        except SpecError as error:
            yield from (f"task {path}: {problem}" for problem in error.problems)
            continue
        if job or reason:
            lookup = cluster.read_settings(registry.options())
            if lookup.warning:
                warn(f"{compiled.source}: its jobs are not checked, only by their launchers: {lookup.warning}")
                return
            if job:
                yield from (f"task {path}: {problem}" for problem in _refused(job, cluster))
            elif lookup.settings:
                later = f"task {path} is not checked against {lookup.source}, only by its launcher"
                warn(f"{compiled.source}: {later}: {reason}")


def _refused(job: TrainingJob, cluster: "JobCluster") -> list[Problem]:
    """Return why settings refuse a job, except for fields that only a run knows."""
    try:
        cluster.with_settings(job, registry.options())
    except SpecError as error:
        unclear = list(places(to_plain(job), mark=_UNKNOWN))
        return [problem for problem in error.problems if not overlaps(problem.path, unclear)]
    return []


def _job(compiled: Compiled, path: str, values: Mapping[str, str]) -> tuple[TrainingJob | None, str]:
    """Return the job that a task launches on Kubernetes, and if it is not known, why; neither = it launches none.

    Texts that only a run knows are `_UNKNOWN`. SpecError if the job is certainly not valid.
    """

    def task(supplied: Mapping[str, str]) -> Any:
        return compiled.authoring.task(compiled.documents, path, {**values, **supplied}, _UNKNOWN)

    step_task = task({})
    if step_task.step not in JOB_STEPS or not _has_settings(step_task.inputs.get("system") or _AUTO):
        return None, ""
    if not step_task.missing:
        return training_job(step_task.inputs, step_task.settings, path), ""
    lacking = dict.fromkeys(name for names in step_task.missing.values() for name in names)
    reason = f"only a run knows {', '.join(lacking)} in {', '.join(step_task.missing)}"
    try:
        step_task = task(dict.fromkeys(lacking, _UNKNOWN))
        return (None, reason) if step_task.missing else (training_job(step_task.inputs, step_task.settings, path), "")
    except (CommandError, SpecError):  # no text can be in its place, such as in that of a number
        return None, reason


def _has_settings(system: str) -> bool:
    """Tell whether a job system has platform settings; `auto` chooses one that has, and an unknown one is not known."""
    known = system != _AUTO and registry.exists(system)
    return not known or isinstance(registry.get(system), HasSettings)


def missing_objects(api: "Api", namespace: str, references: "Iterable[Reference]") -> Iterator[str]:
    """Yield a warning for each object that does not exist in a namespace. Objects that cannot be read are skipped.

    This is not an error: a step of the pipeline may create the object, and pods wait until it exists.

    Raises:
        ApiError: The cluster does not answer.
    """
    from tfsteps.kube.errors import ApiError  # noqa: PLC0415  most checks send no request
    from tfsteps.systems.kubernetes.preflight.references import ACCOUNTS  # noqa: PLC0415

    for resource, name in dict.fromkeys((reference.resource, reference.name) for reference in references):
        try:
            api.get(resource, namespace, name, once=True)
        except ApiError as error:
            if error.missing:
                effect = "pods that run as it are refused" if resource == ACCOUNTS else "steps that use it stay Pending"
                where = f"{resource.kind} {namespace}/{name} is missing on {api.access.name}"
                yield f"{where}: {effect} until it is created; create it, or correct its name"
            elif error.unavailable:
                raise
