"""`tfsteps debug`: what a run is doing, or why it failed; with `--hold`, a job whose replicas sleep for a shell."""

import collections
import functools
import math
import pathlib
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import msgspec
import typer

from tfsteps.api.job_input import read_file
from tfsteps.api.plan import Plan, choose, launch_plan, make_plan
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import Section
from tfsteps.backends.find import Selection
from tfsteps.backends.open import located, open_backend
from tfsteps.cli.commands.rerun import recorded, recorded_input
from tfsteps.cli.place_options import AllNamespaces, Context, From, Namespace, OnOption
from tfsteps.cli.run_options import AttemptNumber, RunId, Task
from tfsteps.console.errors import CommandError
from tfsteps.console.outputs import REPLICA_COLUMNS, headline, print_table, replica_row, results, verdict
from tfsteps.console.text import clean, duration
from tfsteps.launcher.failure import exit_code
from tfsteps.launcher.printer import Printer
from tfsteps.masking import masked_words
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.location import Location
from tfsteps.runs.log_file import LogReader
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord
from tfsteps.runs.status import ReplicaStatus, Status
from tfsteps.spec import Deadlines, RoleName, TrainingJob
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.render.command_wrapper import shell_beside

_TAIL_LINES = 40  # of a step: a traceback of the SDK's executor has about 15
_LONGER = 60  # seconds that held replicas sleep after `total`: where nothing enforces it, they free their nodes then
_GONE = {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED}


def debug(
    run: RunId,
    *,
    task: Task = None,
    attempt: AttemptNumber = None,
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="ROLES", help="Launch RUN, or a job file, again with these roles held: names with commas, or `all`."
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --hold, the job system by its name.", show_default="what --on says"),
    ] = None,
    on: OnOption = None,
    context: Context = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    from_: From = "",
) -> None:
    """Show all that helps to find out why a run fails or makes no progress.

    Prints its replicas with their hosts, its changes of state, the cause of its failure, and commands for a closer
    look; on a cluster also the events of the job and its pods, the newest last.

    With --hold it launches a job as a new run, that of a job file or of a run, and holds the replicas of these roles:
    each is set up as usual and then sleeps instead of running its program. The command that opens a shell in each is
    printed. Of the deadlines, only `total` is enforced. Ctrl-C ends the job.
    """
    if hold is not None:
        if attempt is not None or all_namespaces:
            raise CommandError("--attempt and --all-namespaces choose a run, --hold makes one; leave them out")
        if run == "-" or pathlib.Path(run).is_file() or run.endswith((".yaml", ".yml", ".json")):
            if task or from_:
                raise CommandError("--task and --from choose a run, and this is a job file; leave them out")
            job_input = read_file(run)
        else:
            selection = Selection(run, task)
            job_input = recorded_input(*recorded(selection, located(selection, on, context, namespace, records=from_)))
        name, where = choose(on, system, context, namespace)
        plan = functools.partial(make_plan, job_input, name, where, None, None)
        launch_held(*held_plan(plan, hold), where)
    if system is not None:
        raise CommandError(f"--system {system} says where to launch a job; add --hold, or leave it out")
    selection = Selection(run, task, attempt)
    with open_backend(
        located(selection, on, context, namespace, everywhere=all_namespaces, records=from_), gone=True
    ) as backend:
        target = backend.find(run)
        jobs, steps = selection.parts(target)
        for job in jobs:
            _print(backend.explain(job), backend.sections(job), backend.commands(job))
    for step in steps:
        if target.pipeline and (task or step.state is not State.SUCCEEDED):
            _print_step(target.pipeline, step)


def _print(status: Status, sections: Iterator[Section], commands: Sequence[str]) -> None:
    print("\n".join(headline(status)) + "\n")
    now = time.time()
    print_table(REPLICA_COLUMNS, [replica_row(replica, now) for replica in status.replicas], spare=("CPU", "MEMORY"))
    for title, rows in sections:
        if rows:
            print(f"\n{title}")
            print("\n".join("  " + "  ".join(filter(None, map(clean, row))) for row in rows))
    print("\n" + "\n".join(results(status)))
    print("\nlook further\n" + "\n".join(f"  {command}" for command in commands) + "\n")


def _print_step(pipeline: PipelineRecord, step: StepRecord) -> None:
    """Print a step of a pipeline on this machine that launched no job."""
    log = pipeline.log_of(step)
    facts = {
        "run": pipeline.run,
        "step": step.name + (f", try {step.number}" if step.number else ""),
        "pipeline": pipeline.pipeline,
        "state": f"{step.state}, {duration((step.ended or time.time()) - step.started)}",
        "why": step.why,
        "outputs": step.outputs,
        "log": str(log or ""),
    }
    print("\n".join(f"{name:<12} {clean(value)}" for name, value in facts.items() if value))
    if log:
        with LogReader(log) as lines:
            last = collections.deque(lines.read(), maxlen=_TAIL_LINES)
        print("\nlast lines\n" + "\n".join(f"  {clean(text)}" for _, _, text in last))
    print(f"\nlook further\n  {shlex.join(['tfsteps', 'logs', pipeline.run, '--task', step.name])}\n")


# --- a job whose replicas sleep in place of their programs, for a shell beside them


def held_plan(plan: Callable[..., Plan], roles: str, total: float | None = None) -> tuple[Plan, dict[RoleName, str]]:
    """Return the plan of a job with some of its roles held, and the command lines that these would run.

    Args:
        plan: Given `change`, returns the plan of a job; as `make_plan`, whose errors it raises.
        roles: Names of roles with commas between, or `all`.
        total: Seconds after which the job is ended; None = its own deadline `total`.

    Raises:
        CommandError: It has no such role.
    """
    programs: dict[RoleName, str] = {}

    def change(job: TrainingJob, on: str) -> TrainingJob:
        programs.update((name, program(job, name)) for name in chosen(job, roles))
        return held(job, list(programs), on, total)

    return plan(change=change), programs


def launch_held(plan: Plan, programs: dict[RoleName, str], location: BackendLocation) -> None:
    """Launch a job of `held_plan`, print how to get a shell in each held replica, and follow it to its end.

    Raises:
        LaunchError: It could not be launched.
        Exit: It has ended, with the exit code of its end.
    """
    printer = Printer()
    printer.say(f"run {plan.identity.run}")
    for warning in plan.warnings:
        printer.say(f"warning: {warning}")
    shells = Shells(printer, programs, location, code=plan.job.code is not None)
    status = launch_plan(plan, [printer, shells])
    printer.say(verdict(status))
    raise typer.Exit(exit_code(status))


def chosen(job: TrainingJob, text: str) -> list[RoleName]:
    """Return the roles that `text` names: `all`, or names with commas between. CommandError for an unknown one."""
    roles = [name for name, _ in job.roles.items()]
    names = [word.strip() for word in text.split(",")]
    if names == ["all"]:
        return roles
    if unknown := [name for name in names if name not in roles]:
        known = ", ".join(roles)
        raise CommandError(f"--hold {text}: the job has no role {unknown[0]!r}; name some of {known}, or `all`")
    return [role for role in roles if role in names]


def program(job: TrainingJob, name: RoleName) -> str:
    """Return the command line that a role's replicas would run, without its secrets; empty = that of the image."""
    return shlex.join(masked_words(job.resolved_roles()[name].program))


def held(job: TrainingJob, roles: Sequence[RoleName], system: str, total: float | None = None) -> TrainingJob:
    """Return a job whose `roles` sleep until they are stopped; of its deadlines only `total` is kept, or replaced.

    With `total`, nothing of it is left on a cluster after its end: ended pods that slept help nobody.
    """
    job = msgspec.structs.replace(job, deadlines=Deadlines(total=total or job.deadlines.total), tensorboard=None)
    if total and system in registry.on_kubernetes():
        job = msgspec.structs.replace(job, on_end="delete")
    # a trap: the first process of a container ignores SIGTERM by default, so a plain sleep is killed late
    seconds = math.ceil(job.deadlines.total) + _LONGER
    sleep = ("sh", "-c", f"exec 2>/dev/null; trap 'kill $!; exit 143' TERM INT; sleep {seconds} & wait $!")
    if native := registry.held(system, job, dict.fromkeys(roles, sleep)):
        return native
    sleeping = {
        name: msgspec.structs.replace(role, command=sleep, args=()) for name, role in job.roles.items() if name in roles
    }
    return msgspec.structs.replace(job, roles=msgspec.structs.replace(job.roles, **sleeping))


class Shells:
    """An observer that prints how to get a shell in each held replica, as soon as it is up."""

    def __init__(
        self, printer: Printer, programs: dict[RoleName, str], location: BackendLocation, *, code: bool = False
    ) -> None:
        """Print to `printer`; `programs` has what the held roles would run; `code` = the job ships its code."""
        self._code = code
        self._printer = printer
        self._programs = programs
        self._location = location
        self._printed: set[str] = set()
        self._complete = False

    def changed(self, status: Status) -> None:
        """Print the shells of replicas that have come up, and once all are up how to end the job."""
        replicas = [replica for replica in status.replicas if replica.role in self._programs]
        for replica in replicas:
            where = replica.incarnations[-1].place if replica.incarnations and replica.state not in _GONE else ""
            if where and where not in self._printed and self._reachable(replica):
                self._printed.add(where)
                self._printer.say(f"{replica.name} is held; a shell beside it:  {self._shell(status, replica, where)}")
        if not self._complete and len(self._printed) >= len(replicas):
            self._complete = True
            for name, text in self._programs.items():
                self._printer.say(f"{name}: its program is  {text or 'what its image starts'}")
            self._printer.say("all that is held is up; Ctrl-C ends the job")

    def lines(self, _lines: object) -> None:
        """The printer shows it."""

    def partial(self, _line: object) -> None:
        """The printer shows it."""

    def _reachable(self, replica: ReplicaStatus) -> bool:
        """Return whether a shell can be opened: beside a process at once, in a container when it runs."""
        return self._location.on != Location.KUBERNETES or replica.state is ReplicaState.RUNNING

    def _shell(self, status: Status, replica: ReplicaStatus, where: str) -> str:
        first = where.split(maxsplit=1)[0]
        if self._location.on == Location.KUBERNETES:
            kind = registry.kinds_of(status.system)[0]
            shell = shell_beside(kind.shell, code=self._code)
            return self._location.kubectl(status.namespace, "exec", "-it", first, "-c", kind.container, "--", *shell)
        if first == "pid":
            return f"tfsteps shell {shlex.quote(status.identity.run)} {replica.name}"
        return where  # on another machine, without a known way to get a shell
