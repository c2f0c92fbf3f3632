"""Shared code of the steps that run jobs: reads the job from a task's inputs, and writes the task's outputs."""

import contextlib
import datetime as dt
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from tfsteps.engines.base import TENSORBOARD_URL, StepTask
from tfsteps.engines.registry import find_pipeline
from tfsteps.engines.training_job import training_job
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.printer import Printer
from tfsteps.runs import log_file
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.runs.usage import UsageSummary
from tfsteps.spec import Problem, RoleName, SpecError, TrainingJob, format_duration
from tfsteps.spec.step_inputs import with_step_variables
from tfsteps.spec.types import OWN_CLUSTER
from tfsteps.steps.program import StepResult, note_key
from tfsteps.systems import registry
from tfsteps.systems.base import HasSettings, JobNote, LaunchError, OnCluster, System

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.job_cluster import JobCluster

SOURCE = "inputs"
"""Where messages locate a problem of a task's inputs."""

_LABEL_SECONDS = 2.0  # a failed step ends at once
_IN_POD = "KUBERNETES_SERVICE_HOST"
_URL_CHARACTERS = ":/?#[]@!$&'*+,;=%~"  # all that a URL may contain, but no parentheses: they end a link in Markdown


class JobOutput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The output `job`: the state of the job, and all that another step needs to find it.

    Attributes:
        name: The job object's name in its system.
        uid: The job object's uid in its system.
        system: The job system's name.
        namespace: The job's namespace; empty if the system has no namespaces.
        cluster: The name of the job's cluster; empty = that of the step.
        state: The job's state; empty = not read since the job was created.
        run: The run that the job belongs to.
        task: The task that created the job.
        attempt: The attempt at that task, from 0.
        pipeline: The pipeline's name; empty = not known.
        created: When the job was created, in seconds since the epoch.
        started: When the last replica started, ISO 8601; empty = not yet, or not known.
        ended: When the job ended, ISO 8601; empty = not yet.
        output: The output folder, as the replicas see it.
        model: The model's folder.
        logs: The folder of the event files.
        metrics: The metrics by name.
        metric_notes: By metric: a sentence that says why it is not set, or what is not known of its value.
        usage: Mean and peak of CPU and memory by role, as in `UsageSummary`; empty = not ended, or not sampled.
        spec: The whole job with its defaults, as JSON text, because some engines change numbers and nulls. Empty = the
            job has ended; no step needs it.
    """

    name: str
    uid: str
    system: str
    namespace: str
    state: str
    run: str
    task: str
    attempt: int
    pipeline: str
    created: float
    started: str
    ended: str
    output: str
    model: str
    logs: str
    metrics: dict[str, float] = {}
    metric_notes: dict[str, str] = {}
    usage: dict[RoleName, UsageSummary] = {}
    cluster: str = ""
    spec: str = ""

    @classmethod
    def of(cls, status: Status, job: TrainingJob | None = None) -> "JobOutput":
        """Return the output for a status. Pass `job` if another step waits for the end of the job."""
        identity = status.identity
        return cls(
            name=status.job,
            uid=status.uid,
            system=status.system,
            namespace=status.namespace,
            cluster=status.cluster,
            state=status.state,
            run=identity.run,
            task=identity.task,
            attempt=identity.attempt,
            pipeline=identity.pipeline,
            created=status.created,
            started=_iso(status.started),
            ended=_iso(status.ended),
            output=status.output,
            model=status.model,
            logs=status.logs,
            metrics=status.metrics,
            metric_notes=status.metric_notes,
            usage=status.usage,
            spec=msgspec.json.encode(job).decode() if job else "",
        )

    @property
    def identity(self) -> Identity:
        """Run, task, attempt and pipeline of the job."""
        return Identity(run=self.run, task=self.task, attempt=self.attempt, pipeline=self.pipeline)

    def plain(self) -> dict[str, Any]:
        """Return the value of the output parameter."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class LaunchRequest(msgspec.Struct, frozen=True):
    """The job that a task asks for, the job system, and the attempt."""

    job: TrainingJob
    system: System
    identity: Identity


def launch_request(task: StepTask) -> LaunchRequest:
    """Return the launch request of a task.

    Raises:
        SpecError: The inputs do not describe a valid job.
        LaunchError: The number of the attempt cannot be determined.
    """
    inputs = task.parameters
    job = with_step_variables(training_job(inputs, task.pod_settings(), SOURCE), os.environ)
    identity = task.identity()
    system = find_system(inputs.get("system") or "auto", task=identity, job=job)
    if isinstance(system, HasSettings):
        job = system.with_settings(job, registry.options())
    attempt = system.attempt(identity.run, identity.task)
    return LaunchRequest(job, system, msgspec.structs.replace(identity, attempt=attempt))


@contextlib.contextmanager
def label_pod_on_failure(task: StepTask, step: str) -> Iterator[None]:
    """Label the launcher's pod with its run and `step` if it fails without a job: the run is listed by its pod then.

    The templates for Argo label pods before they start; Kubeflow Pipelines has none. If the pod cannot be labelled, for
    example without the permission, nothing else changes.
    """
    try:
        yield
    except (SpecError, LaunchError) as error:
        if _IN_POD in os.environ and not (isinstance(error, LaunchError) and error.created):
            _label_pod(task, step)
        raise


def _label_pod(task: StepTask, step: str) -> None:
    from tfsteps.kube import access, client  # noqa: PLC0415  a job system may need neither
    from tfsteps.systems.launcher_pod import LauncherPod  # noqa: PLC0415

    with contextlib.suppress(Exception):  # whatever it is: the step reports its own failure
        api = client.Api(access.find(), _LABEL_SECONDS, _LABEL_SECONDS)
        pod = LauncherPod.find(api, find_pipeline)
        if sending := pod.label(api, task.identity(), step):
            sending.join(_LABEL_SECONDS)


def find_system(
    name: str,
    where: Mapping[str, str] = {},
    *,
    task: Identity | None = None,
    job: TrainingJob | None = None,
) -> System:
    """Return the job system called `name`; `auto` = in a pod one that the cluster serves and permits, else local.

    Args:
        name: Its name, or `auto`.
        where: `context` and `namespace`; empty = the configured one.
        task: With `auto`, the task whose earlier jobs are continued; None = do not look for any.
        job: With `auto`, the job, which may be for another cluster; None = ask the cluster that `where` says.

    Raises:
        SpecError: There is no job system of this name, or no cluster as the job names it; or `where` names a cluster,
            and the system is not on Kubernetes.
        LaunchError: None can be chosen.
    """
    if name == "auto" and _IN_POD in os.environ:
        from tfsteps.systems.kubernetes.job_cluster import JobCluster  # noqa: PLC0415  most steps set the job system

        cluster = JobCluster(where.get("context", ""), where.get("namespace", ""))
        if job:
            cluster.with_settings(job, registry.options())
        system = registry.get(_discovered_system(cluster, task), find_pipeline, **where)
        if isinstance(system, OnCluster):
            system.cluster = cluster
        return system
    name = "local" if name == "auto" else name
    if name not in registry.plugins():
        allowed = ", ".join(registry.plugins())
        unknown = Problem(path=("system",), value=name, wrong="is not a job system", allowed=allowed, fix="Name one")
        raise SpecError([unknown], SOURCE)
    if where and name not in (on_kubernetes := registry.on_kubernetes()):
        wrong = f"names a cluster, and the job system {name} has none"
        fix = f"Remove it, or set `system` to one of {', '.join(on_kubernetes)}"
        fields = {"context": "cluster", "namespace": "namespace"}
        problems = [Problem(path=(fields[key],), value=value, wrong=wrong, fix=fix) for key, value in where.items()]
        raise SpecError(problems, SOURCE)
    return registry.get(name, find_pipeline, **where)


def clusters_to_clean_up(name: str, run: str) -> tuple[list[str], list[LaunchError]]:
    """Return the clusters that a finalizer cleans up, and why others are not known; empty text = that of the step.

    Args:
        name: The finalizer's input; empty = that of the step, the one on which the platform settings put jobs that name
            none, and those that are named on pods of the run's launchers.
        run: The run.
    """
    if name or _IN_POD not in os.environ:
        return ["" if name == OWN_CLUSTER else name], []
    from tfsteps.systems.kubernetes.job_cluster import JobCluster  # noqa: PLC0415

    cluster = JobCluster()
    names, unknown = {""}, list[LaunchError]()
    try:
        names.add(cluster.default(registry.options()))
    except SpecError as error:
        unknown.append(LaunchError(f"the cluster of jobs that name none is not known: {error}", retryable=False))
    except LaunchError as error:
        unknown.append(error)
    try:
        names |= cluster.labelled(run)
    except LaunchError as error:
        unknown.append(error)
    return sorted(names), unknown


def find_finalizer(name: str, cluster: str = "") -> System:
    """Return the job system to clean up; `auto` in a pod = every system of the cluster that this pod has access to.

    Args:
        name: Its name, or `auto`.
        cluster: The cluster, as the field `cluster` of a job; empty = that of this process.

    Raises:
        SpecError: There is no job system of this name.
    """
    where = {"context": cluster} if cluster else {}
    if name != "auto" or _IN_POD not in os.environ:
        return find_system(name, where)
    from tfsteps.systems.kubernetes.job_cluster import JobCluster  # noqa: PLC0415
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415

    chosen = _discovered_system(JobCluster(cluster))
    first, *rest = registry.kinds_of(chosen)  # the kind that a launcher with the system `auto` creates
    also = [*rest, *(kind for kind in registry.kinds() if kind.name != first.name)]
    system = KubernetesSystem(first, cluster, also=also)
    system.join_pipeline(find_pipeline)
    return system


def _discovered_system(cluster: "JobCluster", task: Identity | None = None) -> str:
    """Return the name of a job system that a cluster serves and permits; print the name and the reason."""
    from tfsteps.kube.errors import ApiError  # noqa: PLC0415  most steps set the job system
    from tfsteps.systems.kubernetes.preflight import discovery  # noqa: PLC0415

    try:
        labels = task.selector() if task else None
        choice = discovery.choose(cluster.api, cluster.namespace, registry.discoverable(), labels)
    except LaunchError as error:
        raise LaunchError(f"no job system was chosen: {error}", retryable=error.retryable) from error
    except ApiError as error:
        what = f"no job system was chosen: {error} in the input `system`"
        raise LaunchError(what, retryable=error.unavailable) from error
    Printer().say(f"job system {choice.sentence('the input `system`')}")
    return choice.system


def tensorboard_url() -> str:
    """Return the address of the TensorBoard for this job's event files; empty = there is none."""
    return os.environ.get(TENSORBOARD_URL, "")


def write_link(task: StepTask, url: str, run: str) -> None:
    """Write the output `tensorboard_link`, if the task declares it. OSError if it cannot be written.

    Args:
        task: The task.
        url: Address of the TensorBoard; empty = there is none.
        run: The run.
    """
    if output := task.output("tensorboard_link"):
        later = f"`tfsteps tensorboard {run}` shows the curves, also after the end of the TensorBoard."
        first = f"[Open TensorBoard]({quote(url, safe=_URL_CHARACTERS)})" if url else "No TensorBoard is running."
        output.path.parent.mkdir(parents=True, exist_ok=True)
        output.path.write_text(f"{first}\n\n{later}\n", encoding="utf-8")


def printer(job: TrainingJob) -> Printer:
    """Return the printer of the job's lines and states; its title is the job's name, as a cluster's task is a UUID."""
    return Printer(title=job.name)


def warn(say: Printer, warnings: Sequence[str], known: Sequence[str] = ()) -> None:
    """Print those of `warnings` that are not `known`."""
    for warning in warnings:
        if warning not in known:
            say.say(f"warning: {warning}")


def end(task: StepTask, job: TrainingJob, system: System, status: Status) -> StepResult:
    """Write every output of a task after its job has ended, then note on the job that its end was reported.

    If the job failed, upload the report and the log where the engine does not.
    OSError if the outputs cannot be written.
    """
    attempt = AttemptFolder.of(status.identity)
    for source, name, copy in (
        (attempt.log, "logs", log_file.copy),
        (attempt.report, "report", shutil.copyfile),
    ):
        if source.exists() and (output := task.output(name)):
            output.path.parent.mkdir(parents=True, exist_ok=True)
            copy(source, output.path)
    write_link(task, status.tensorboard_url, status.identity.run)
    parameters = {
        "job": JobOutput.of(status).plain(),
        "tensorboard_url": status.tensorboard_url,
        "failure": status.failure.summary if status.failure else "",
        "fault": status.failure.fault if status.failure else "",
    }
    metadata: dict[str, dict[str, Any]] = {
        "model": {"path": status.model},
        "logs": {"path": status.logs},
        "metrics": {**{note_key(name): note for name, note in status.metric_notes.items()}, **status.metrics},
    }
    task.write(parameters, metadata)
    if status.uid:
        try:
            system.note(job, status.job, status.uid, JobNote.REPORTED)
        except LaunchError as error:
            Printer().say(f"warning: a retry of this step will report the same end again: {error}")
    return StepResult(_sentence(status), exit_code(status), stored=_preserved(task, status))


def _preserved(task: StepTask, status: Status) -> list[str]:
    """Upload report and log of a job that failed, and return their addresses; a stop may leave no time for uploads."""
    if status.state in (State.SUCCEEDED, State.CANCELLED):
        return []
    stored, missing = task.preserve(["report", "logs"])
    if missing:
        Printer().say(f"warning: {len(stored)} of 2 files (report, logs) were uploaded: {missing}")
    return stored


def _iso(seconds: float | None) -> str:
    return "" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")


def _sentence(status: Status) -> str:
    # of an adopted job, the times are by the clocks of two machines
    duration = f" after {format_duration(max(0.0, status.ended - status.created))}" if status.ended else ""
    reason = status.failure.summary if status.failure else status.message
    return f"{status.job} {status.state}{duration}" + (f": {reason}" if reason else ".")
