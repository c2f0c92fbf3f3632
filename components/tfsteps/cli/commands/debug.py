"""`tfsteps debug`: everything that helps to find out what a run is doing, or why it failed."""

import collections
import datetime as dt
import functools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsteps.cli.backends.base import find_jobs
from tfsteps.cli.backends.find import find_attempts, find_run, read
from tfsteps.cli.backends.kubernetes import ClusterBackend
from tfsteps.cli.backends.place import AllNamespaces, Context, Namespace, On, Place, cluster, located
from tfsteps.cli.commands.hold import launch_held
from tfsteps.cli.commands.plan import choose
from tfsteps.cli.commands.runs import AttemptNumber, RunId, Task
from tfsteps.cli.errors import CommandError
from tfsteps.console.outputs import REPLICA_COLUMNS, headline, print_table, replica_row, results
from tfsteps.console.text import clean, local_time
from tfsteps.runs.events import ReplicaState
from tfsteps.runs.log_file import read_log
from tfsteps.runs.status import Status
from tfsteps.runs.store import Attempt

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.query.runs import Job, Runs

_TAIL_LINES = 20
_EVENTS = 30  # the newest are the ones that matter
_Section = tuple[str, Sequence[Sequence[str]]]


def debug(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="ROLES", help="RUN is a job file: launch it with these roles held, names with commas or `all`."
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --hold, the job system by its name.", show_default="what --on says"),
    ] = None,
    on: Annotated[
        On | None,
        typer.Option(
            help="Runs launched from this machine, those on a cluster, or those on HAI Platform.",
            show_default="local; hai for a run that its launcher on this machine left there",
        ),
    ] = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Show all that helps to find out why a run fails or does not go on.

    Its replicas and where they are, its changes of state, on a cluster the events of the job and its pods, the newest
    last; why it failed if it did; and commands to look further.

    With --hold it launches a job file instead, the replicas of the roles held: each is set up as ever and then sleeps
    in place of its program. It prints how to get a shell beside each; of the deadlines only `total` holds, and Ctrl-C
    ends the job.
    """
    if hold is not None:
        if task or attempt is not None or all_namespaces:
            raise CommandError("--task, --attempt and --all-namespaces choose a run, --hold makes one; leave them out")
        name, where = choose(on, system, context, namespace)
        launch_held(run, hold, name, where)
    if system is not None:
        raise CommandError(f"--system {system} says where to launch a job; add --hold, or leave it out")
    _show(run, task, attempt, located(run, task, on, context, namespace, everywhere=all_namespaces))


def _show(run: str, task: str | None, attempt: int | None, place: Place) -> None:
    if place.on is On.KUBERNETES:
        with cluster(place) as runs:
            there = ClusterBackend(runs)
            for job in find_jobs(there, place, run, task, attempt):
                _print(there.explained(job), _of_cluster(runs, job), _kubectl(job, place))
        return
    if place.on is On.HAI:
        from tfsteps.cli.backends.hai import hai  # noqa: PLC0415  local runs need no HTTP

        with hai() as platform:
            for task_there in find_jobs(platform, place, run, task, attempt):
                _print(platform.explained(task_there), platform.sections(task_there), platform.commands(task_there))
        return
    for each in find_attempts(find_run(run), task, attempt):
        if (status := read(each)) is None:
            raise CommandError(f"{each.folder} has no status that can be read; look at {each.log}")
        _print(status, _of_folder(each, status), _shell(each, status))


def _print(status: Status, sections: Iterator[_Section], commands: Sequence[str]) -> None:
    print("\n".join(headline(status)) + "\n")
    now = dt.datetime.now(dt.UTC).timestamp()
    print_table(REPLICA_COLUMNS, [replica_row(replica, now) for replica in status.replicas], spare=("CPU", "MEMORY"))
    for title, rows in sections:
        if rows:
            print(f"\n{title}")
            print("\n".join("  " + "  ".join(filter(None, map(clean, row))) for row in rows))
    print("\n" + "\n".join(results(status)))
    print("\nlook further\n" + "\n".join(f"  {command}" for command in commands) + "\n")


# --- on this machine


def _of_folder(attempt: Attempt, status: Status) -> Iterator[_Section]:
    yield "changes", [[local_time(each.at), each.state, each.reason, each.message] for each in status.transitions]
    if status.failure is None and attempt.log.exists():  # else the lines of the one that failed are shown
        with attempt.log.open("rb") as file:
            lines = collections.deque(read_log(file), maxlen=_TAIL_LINES)
        yield "last lines", [[f"[{replica}]", text.decode(errors="replace")] for _, replica, text in lines]


def _shell(attempt: Attempt, status: Status) -> list[str]:
    follow = "" if status.state.terminal else " --follow"
    places = [
        replica.incarnations[-1].place.split() for replica in status.replicas if replica.state is ReplicaState.RUNNING
    ]
    pids = [place[1] for place in places if place[:1] == ["pid"]]
    return [
        f"tfsteps logs {shlex.quote(status.identity.run)}{follow}",
        f"less {shlex.quote(str(attempt.log))}",
        *(f"tr '\\0' '\\n' < /proc/{pid}/environ  # what the first replica was told" for pid in pids[:1]),
    ]


# --- on a cluster


def _of_cluster(runs: "Runs", job: "Job") -> Iterator[_Section]:
    conditions = job.item.get("status", {}).get("conditions") or []
    yield (
        "conditions",
        [
            [_local(each.get("lastTransitionTime", "")), f"{each['type']}={each['status']}", *_why(each)]
            for each in conditions
        ],
    )
    stuck = [each for each in job.pods if each.pod.state is ReplicaState.PENDING and each.pod.message]
    yield "waiting", [[str(each.replica), each.pod.reason, each.pod.message] for each in stuck]
    events = runs.events(job)[-_EVENTS:]
    yield "events", [[_local(at), each["type"], _object(each), *_why(each)] for at, each in events]


def _why(each: Mapping[str, Any]) -> tuple[str, str]:
    return each.get("reason") or "", each.get("message") or ""


def _object(event: Mapping[str, Any]) -> str:
    about = event["involvedObject"]
    times = f" (x{event['count']})" if event.get("count", 1) and event.get("count", 1) > 1 else ""
    return f"{about['kind'].lower()}/{about['name']}{times}"


def _kubectl(job: "Job", place: Place) -> list[str]:
    """Return a shell in a replica that runs, or what is known of one that does not, and of the job."""
    who = job.status
    kubectl = functools.partial(place.kubectl, who.namespace)
    up = [each for each in job.pods if each.pod.state is ReplicaState.RUNNING]
    commands = [kubectl("describe", job.kind.resource.plural, who.job)]
    if up:
        commands.insert(0, kubectl("exec", "-it", up[0].pod.name, "-c", job.kind.container, "--", *job.kind.shell))
    elif job.pods:
        commands.insert(0, kubectl("describe", "pod", job.pods[0].pod.name))
    if restarted := [each for each in job.pods if each.pod.restarts]:
        commands.append(kubectl("logs", "--previous", restarted[0].pod.name, "-c", job.kind.container))
    follow = [] if who.state.terminal else ["--follow"]
    return [*commands, shlex.join(["tfsteps", "logs", who.identity.run, *follow]) + place.options]


def _local(stamp: str) -> str:
    return local_time(dt.datetime.fromisoformat(stamp).timestamp()) if stamp else ""
