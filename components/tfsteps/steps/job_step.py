"""What the steps that run jobs share: from a task to the job it asks for, and from a job to the task's outputs."""

import datetime as dt
import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import msgspec

from tfsteps import spec
from tfsteps.engines.base import TENSORBOARD_URL, StepTask
from tfsteps.engines.kfp.task_config import partial_job
from tfsteps.engines.registry import find_pipeline
from tfsteps.launcher.exit_codes import exit_code
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import Status
from tfsteps.runs.store import Attempt
from tfsteps.spec import Problem, SpecError, TrainingJob, format_duration
from tfsteps.spec.step_inputs import plain_job
from tfsteps.steps.program import StepResult
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError, Note, System

DATA = "TFSTEPS_DATA"
"""The variable in which every replica finds the input `data`."""

SOURCE = "inputs"
"""What problems of a task's inputs are said to be in."""

_IN_POD = "KUBERNETES_SERVICE_HOST"


class JobOutput(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The output `job`: all that another step needs to find the job again, and how it stands.

    Attributes:
        name: The job object's name in its system.
        uid: Its uid there.
        system: The job system's name.
        namespace: Its namespace; empty where there are none.
        state: Where it stands; empty = it was created, and nobody has looked since.
        run: The run that it belongs to.
        task: The task that created it.
        attempt: Of that task, from 0.
        pipeline: The pipeline's name; empty = not known.
        created: Seconds since the epoch.
        started: When all replicas had started, ISO 8601; empty = not yet, or not known.
        ended: When it had ended, ISO 8601; empty = not yet.
        output: The output folder, as the replicas see it.
        model: The model's folder.
        logs: The folder of the event files.
        metrics: By name.
        spec: The whole job as it was understood, as JSON in text: numbers and nulls do not survive every engine. Empty
            = the job has ended, and nobody needs it any more.
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
    spec: str = ""

    @classmethod
    def of(cls, status: Status, job: TrainingJob | None = None) -> "JobOutput":
        """Return what a status says; with the job for those who are to wait for its end."""
        who = status.identity
        return cls(
            name=status.job,
            uid=status.uid,
            system=status.system,
            namespace=status.namespace,
            state=status.state,
            run=who.run,
            task=who.task,
            attempt=who.attempt,
            pipeline=who.pipeline,
            created=status.created,
            started=_iso(status.started),
            ended=_iso(status.ended),
            output=status.output,
            model=status.model,
            logs=status.logs,
            metrics=status.metrics,
            spec=msgspec.json.encode(job).decode() if job else "",
        )

    @property
    def identity(self) -> Identity:
        """Whose job it is."""
        return Identity(run=self.run, task=self.task, attempt=self.attempt, pipeline=self.pipeline)

    def plain(self) -> dict[str, Any]:
        """Return it as an output parameter."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class LaunchRequest(msgspec.Struct, frozen=True):
    """What a task asks for: this job, on this system, as this attempt."""

    job: TrainingJob
    system: System
    identity: Identity


def launch_request(task: StepTask) -> LaunchRequest:
    """Return what a task asks for.

    Raises:
        SpecError: Its inputs do not make a job.
        LaunchError: The number of the attempt cannot be found out.
    """
    inputs = task.parameters
    job = spec.from_plain(plain_job(inputs, partial_job(inputs.get("task_config"))), SOURCE, registry.options())
    if data := inputs.get("data"):  # afterwards, for the names of our own variables are forbidden in a job
        job = msgspec.structs.replace(job, env={**job.env, DATA: data})
    system = find_system(inputs.get("system") or "auto")
    who = task.identity()
    return LaunchRequest(job, system, msgspec.structs.replace(who, attempt=system.attempt(who.run, who.task)))


def find_system(name: str, **where: str) -> System:
    """Return the job system called `name`; `auto` = the one that fits the cluster in a pod, else local.

    Raises:
        SpecError: It is unknown.
    """
    if name == "auto":
        name = _fitting() if _IN_POD in os.environ else "local"
    if name in registry.available():
        return registry.get(name, find_pipeline, **where)
    allowed = ", ".join(registry.available())
    unknown = Problem(path=("system",), value=name, wrong="is not a job system", allowed=allowed, fix="Name one")
    raise SpecError([unknown], SOURCE)


def find_finalizer(name: str) -> System:
    """Return the job system whose jobs are cleaned up; `auto` in a pod = every one of the cluster that we may look at.

    Raises:
        SpecError: It is unknown.
    """
    if name != "auto" or _IN_POD not in os.environ:
        return find_system(name)
    from tfsteps.systems.kubernetes.system import KubernetesSystem  # noqa: PLC0415

    first, *rest = registry.kinds_of(_fitting())  # the one that a launcher takes which names none
    system = KubernetesSystem(first, also=[*rest, *(kind for kind in registry.kinds() if kind.name != first.name)])
    system.join_pipeline(find_pipeline)
    return system


def _fitting() -> str:
    """Return the name of the job system that fits this pod's cluster, and print which and why."""
    from tfsteps.kube import access, client  # noqa: PLC0415  most steps name their system
    from tfsteps.systems.kubernetes.preflight import discovery  # noqa: PLC0415

    try:
        choice = discovery.choose(client.Api(access.find()), registry.discoverable())
    except access.AccessError as error:
        choice = discovery.Choice(discovery.DEFAULT, str(error))
    Printer().say(f"job system {choice.sentence('the input `system`')}")
    return choice.system


def tensorboard_url() -> str:
    """Return the address of the TensorBoard over this job's event files; empty = there is none."""
    return os.environ.get(TENSORBOARD_URL, "")


def printer(job: TrainingJob) -> Printer:
    """Return what prints the job's lines and states; on a cluster the task is a uuid, so it is called by its name."""
    return Printer(title=job.name)


def warn(say: Printer, warnings: Sequence[str], known: Sequence[str] = ()) -> None:
    """Print those of `warnings` that are not `known`."""
    for warning in warnings:
        if warning not in known:
            say.say(f"warning: {warning}")


def end(task: StepTask, job: TrainingJob, system: System, status: Status) -> StepResult:
    """Write every output of a task whose job has ended, well or not, and then note on the job that this was done.

    Of a job that failed, report and log are stored where the engine would not do that.
    OSError if the disk does not take the outputs.
    """
    attempt = Attempt.of(status.identity)
    for source, name in ((attempt.log, "logs"), (attempt.report, "report")):
        if source.exists() and (output := task.output(name)):
            _copy(source, output.path)
    parameters = {
        "job": JobOutput.of(status).plain(),
        "tensorboard_url": status.tensorboard_url,
        "failure": status.failure.summary if status.failure else "",
        "fault": status.failure.fault if status.failure else "",
    }
    metadata: dict[str, dict[str, Any]] = {
        "model": {"path": status.model},
        "logs": {"path": status.logs},
        "metrics": status.metrics,
    }
    task.write(parameters, metadata)
    if status.uid:
        try:
            system.note(job, status.job, status.uid, Note.REPORTED)
        except LaunchError as error:
            Printer().say(f"warning: a retry of this step will report the same end again: {error}")
    return StepResult(_sentence(status), exit_code(status), stored=_preserved(task, status))


def _preserved(task: StepTask, status: Status) -> list[str]:
    """Store report and log of a job that failed, and return where; of one that was stopped there may be no time to."""
    if status.state in (State.SUCCEEDED, State.CANCELLED):
        return []
    stored, missing = task.preserve(["report", "logs"])
    if missing:
        Printer().say(f"warning: {len(stored)} of 2 files (report, logs) were uploaded: {missing}")
    return stored


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _iso(seconds: float | None) -> str:
    return "" if seconds is None else dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")


def _sentence(status: Status) -> str:
    took = f" after {format_duration(status.ended - status.created)}" if status.ended else ""
    why = status.failure.summary if status.failure else status.message
    return f"{status.job} {status.state}{took}" + (f": {why}" if why else ".")
