"""What `tfsteps run` is about to do, checked as far as it can be before anything is created."""

import json
import pathlib
import sys
from typing import Any

import msgspec
import yaml

from tfsteps import records, spec, systems
from tfsteps.cli.errors import CommandError, warn
from tfsteps.cli.find import LATEST
from tfsteps.cli.outputs import print_json
from tfsteps.cli.where import DEFAULT_SYSTEMS, On, Place, cluster
from tfsteps.identity import Identity, new_run_id
from tfsteps.spec import SpecError, TrainingJob
from tfsteps.systems.base import Places, System


class Plan(msgspec.Struct, frozen=True):
    """What is about to be run, and where; `here` is the folder that its relative paths start from."""

    job: TrainingJob
    identity: Identity
    system: System
    here: pathlib.Path
    places: Places


def read_job(file: str) -> TrainingJob:
    """Return the job in `file`, `-` for standard input.

    Raises:
        SpecError: It is wrong.
        CommandError: It cannot be read.
    """
    try:
        if file == "-":
            return spec.parse(sys.stdin.read(), "stdin", systems.options())
        return spec.load(file, systems.options())
    except FileNotFoundError as error:
        raise CommandError(f"job file {file!r} does not exist; `tfsteps init` writes one to start from") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"job file {file!r} cannot be read: {error}; give the path of a YAML or JSON file"
        ) from error


def find_system(name: str, **where: str) -> System:
    """Return the job system called `name`, on the cluster that `where` says. CommandError for an unknown one."""
    known = systems.available()
    if name not in known:
        raise CommandError(f"job system {name!r} is unknown: use one of {', '.join(known)}")
    return systems.get(name, **where)


def check(job: TrainingJob, system: System, source: str) -> None:
    """Raise SpecError for a job that cannot run on `system`."""
    if problems := system.problems(job):
        raise SpecError(problems, source)


def choose(on: On | None, system: str | None, context: str, namespace: str) -> tuple[str, Place]:
    """Return the name of the job system that the options mean, and its place.

    Raises:
        CommandError: They contradict one another.
    """
    meant = On.KUBERNETES if system in systems.on_kubernetes() else On.LOCAL
    if on is not None and system is not None and on is not meant:
        raise CommandError(f"--system {system} is not --on {on}; leave one out")
    on = on or meant
    return system or DEFAULT_SYSTEMS[on], Place(on, context, namespace)


def make_plan(
    file: str,
    name: str,
    place: Place,
    run_id: str | None,
    task: str | None,
    *,
    adopt: bool = False,
    dry_run: bool = False,
) -> Plan:
    """Return what is to be run. A dry run asks no cluster for anything; `adopt` takes over a job that runs on one.

    Raises:
        SpecError: The job is wrong, or this system cannot run it.
        CommandError: Something else is wrong, or the task is running already.
    """
    where = {"context": place.context, "namespace": place.namespace} if place.on is On.KUBERNETES else {}
    system = find_system(name, **where)
    job = read_job(file)
    check(job, system, "stdin" if file == "-" else file)
    run = new_run_id() if run_id is None else _named("--run-id", run_id)
    task = job.name if task is None else _named("--task", task)
    attempt = _next_attempt(run, task, Place() if dry_run else place, adopt=adopt)
    identity = Identity(run=run, task=task, attempt=attempt)
    here = pathlib.Path.cwd() if file == "-" else pathlib.Path(file).absolute().parent
    return Plan(job, identity, system, here, system.places(job, identity, here))


def _named(option: str, text: str) -> str:
    if not text.strip() or not text.isprintable() or text == LATEST:
        raise CommandError(f"{option} {text!r} cannot be used: give some printable text other than `{LATEST}`")
    return text


def _next_attempt(run: str, task: str, place: Place, *, adopt: bool) -> int:
    """Return the attempt's number: one more than any known here or to the cluster, or that of the running job."""
    if any(earlier.alive() for earlier in records.attempts(run, task)):
        raise _running_already(run, task, "")
    number = records.next_attempt(run, task)
    if place.on is On.LOCAL:
        return number
    with cluster(place) as runs:
        earlier = [job.status for job in runs.jobs(run) if job.status.identity.task == task]
    if running := [status for status in earlier if not status.state.terminal]:
        if adopt:
            return running[-1].identity.attempt
        raise _running_already(run, task, place.options, "; if its launcher is gone, --adopt goes on with it")
    return max([number, *(status.identity.attempt + 1 for status in earlier)])


def _running_already(run: str, task: str, options: str, more: str = "") -> CommandError:
    stop = f"`tfsteps stop {run} --task {task}{options}` stops it"
    return CommandError(f"run {run}: task {task} is running already; {stop}, another --task runs beside it{more}")


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print what would be started: objects as kubectl takes them, or what a local run comes down to."""
    objects = json.loads(msgspec.json.encode(plan.system.plan(plan.job, plan.identity, plan.places)))
    if all("apiVersion" in item for item in objects):
        for warning in plan.system.warnings(plan.job):
            warn(warning)
        documents = objects
    else:
        documents = [_described(plan, objects)]
    if not as_json:
        print(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True), end="")
    elif len(documents) == 1:
        print_json(documents[0])
    else:
        print_json({"apiVersion": "v1", "kind": "List", "items": documents})


def _described(plan: Plan, objects: list[Any]) -> dict[str, Any]:
    return {
        "run": plan.identity.run,
        "task": plan.identity.task,
        "attempt": plan.identity.attempt,
        "system": plan.system.name,
        "output": plan.places.output,
        "model": plan.places.model,
        "logs": plan.places.logs,
        "warnings": plan.system.warnings(plan.job),
        "objects": objects,
    }
