"""`tfsteps check`: a tiny job on each job system of a place shows what works there."""

import pathlib
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from tfsteps import spec
from tfsteps.api.job_input import JobInput
from tfsteps.api.plan import launch_plan, make_plan
from tfsteps.backends.backend_location import BackendLocation, on_of
from tfsteps.cli.place_options import Context, Namespace, on_option
from tfsteps.console.errors import CommandError
from tfsteps.console.messages import say
from tfsteps.console.outputs import verdict
from tfsteps.console.text import duration
from tfsteps.image import IMAGE, unqualified
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.launcher.printer import Printer
from tfsteps.runs import store
from tfsteps.runs.events import LogLines, State
from tfsteps.runs.identity import new_run_id
from tfsteps.runs.location import Location
from tfsteps.runs.status import Status
from tfsteps.spec import SpecError
from tfsteps.systems import registry
from tfsteps.systems.base import LaunchError

# Every worker listens at its own address of TF_CONFIG, reaches all of them, and waits until all have reached it.
_PROGRAM = """
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
hosts, index = config["cluster"]["worker"], config["task"]["index"]
addresses = [(host.rpartition(":")[0], int(host.rpartition(":")[2])) for host in hosts]
server = socket.create_server(("", addresses[index][1]))
for address in addresses:
    while True:
        try:
            socket.create_connection(address, 5).close()
            break
        except OSError as error:
            print("worker", index, "waits for", *address, error, flush=True)
            time.sleep(1)
for _ in addresses:
    server.accept()
print("worker", index, "of", len(hosts), "was reached by all", flush=True)
"""
_WORKERS = 2


class _Quiet(Printer):
    """Prints the job's states alone."""

    def lines(self, lines: LogLines) -> None:
        """Print nothing."""


def check(
    *,
    on: Annotated[str, on_option("What to check: this machine, a cluster, or a platform.")] = Location.LOCAL,
    system: Annotated[
        str | None, typer.Option(metavar="NAME", help="One job system.", show_default="all that the place serves")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Image of the replicas; it needs Python.",
            show_default="on a cluster that of launchers",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Limit for each job.")] = "5m",
    context: Context = "",
    namespace: Namespace = "",
) -> None:
    """Run a tiny job on each job system, and say what works.

    Two workers reach each other at the addresses of TF_CONFIG; TensorFlow is not used. The jobs are deleted at the end.
    Exits 0 if all that the place serves and permits works, 10 if a job failed, 13 if something is not known.
    """
    if system is not None and system not in registry.plugins():
        raise CommandError(f"job system {system!r} is unknown: use one of {', '.join(registry.plugins())}")
    if system is not None and (its := on_of(registry.location(system))) != on:
        raise CommandError(f"--system {system} is on {its}, not on {on}; write --on {its}")
    image = image or (IMAGE if on == Location.KUBERNETES else None)
    if wrong := unqualified({"image": image}):
        raise CommandError(f"{wrong[0]}; or give --image")
    location = BackendLocation(on, context, namespace)
    run, codes = new_run_id("check"), []
    for name, why_not in _systems(location, system):
        if why_not:
            print(f"{name}: {why_not}", flush=True)
        else:
            codes.append(_checked(name, location, run, _job(name, image, timeout)))
    if not codes:
        raise CommandError(f"no job system could be checked on {on}", ExitCode.PLATFORM)
    if worst := max(codes):
        if store.attempts(run):
            say(f"`tfsteps show {run}` and `tfsteps logs {run}` have more")
        raise typer.Exit(worst)


def _systems(location: BackendLocation, only: str | None) -> Iterator[tuple[str, str]]:
    """Yield the job systems of a place, each with the reason why it cannot be checked; empty = it can."""
    if location.on != Location.KUBERNETES:
        yield location.on, ""
        return
    from tfsteps.backends.kubernetes.backend import cluster  # noqa: PLC0415  other places need no client
    from tfsteps.systems.kubernetes import permissions  # noqa: PLC0415
    from tfsteps.systems.kubernetes.permissions import Permission  # noqa: PLC0415
    from tfsteps.systems.kubernetes.preflight import discovery  # noqa: PLC0415

    with cluster(location) as runs:
        namespace = location.namespace or runs.api.access.namespace
        named = {only: registry.kinds_of(only)[0].resource} if only else registry.discoverable()
        served = discovery.served(runs.api, named)
        for name, resource in named.items():
            if name not in served:
                yield name, f"not served: the cluster has no {resource.plural} of {resource.api}"
            elif permissions.permitted(runs.api, namespace, Permission("create", resource)).no:
                fix = permissions.how_to_grant(runs.api, name, namespace)
                yield name, f"not permitted in namespace {namespace}; {fix}"
            else:
                yield name, ""


def _job(name: str, image: str | None, timeout: str) -> JobInput:
    fields = {
        "name": "check",
        "command": ["python3", "-c", _PROGRAM],
        "roles": {"worker": {"replicas": _WORKERS}},
        "deadlines": {"total": timeout},
        "on_end": "delete",
        "image": image,
    }
    plain = {field: value for field, value in fields.items() if value is not None}
    origins: dict[spec.Path, str] = {("deadlines", "total"): "--timeout", ("image",): "--image"}
    job = spec.from_plain(plain, f"the job for {name}", registry.options(), (), origins)
    return JobInput(job, f"the job for {name}", pathlib.Path.cwd())


def _checked(name: str, location: BackendLocation, run: str, job: JobInput) -> ExitCode:
    """Run the job on one system, print the result, and return its code."""
    began = time.monotonic()
    try:
        status: Status = launch_plan(make_plan(job, name, location, run, name), [_Quiet()])
    except (SpecError, LaunchError, CommandError) as error:
        no_answer = isinstance(error, CommandError) and error.code == ExitCode.PLATFORM
        unknown = error.retryable if isinstance(error, LaunchError) else no_answer
        print(f"{name}: {'not known' if unknown else 'fails'}: {error}", flush=True)
        return ExitCode.PLATFORM if unknown else ExitCode.FAILED
    if status.state is State.SUCCEEDED:
        print(f"{name}: works ({duration(time.monotonic() - began)})", flush=True)
        return ExitCode.SUCCEEDED
    unknown = status.state in (State.LOST, State.UNKNOWN)
    print(f"{name}: {'not known' if unknown else 'fails'}: {verdict(status)}", flush=True)
    return ExitCode.PLATFORM if unknown else ExitCode.FAILED
