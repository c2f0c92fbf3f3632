"""Here or on a cluster: the options that say so, and the jobs that are found there."""

import contextlib
import enum
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tfsteps import systems
from tfsteps.cli.errors import CommandError
from tfsteps.cli.find import choose_attempts, match_run
from tfsteps.exits import Exit

if TYPE_CHECKING:
    from tfsteps.systems.kubernetes.runs import Job, Runs

_WORKFLOW = ("argoproj.io/v1alpha1", "Workflow")
_PATIENCE_SECONDS = 5.0  # somebody is waiting at the terminal


class On(enum.StrEnum):
    """What `--on` takes."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


AUTO = "auto"
"""In place of a job system's name: the one that fits the cluster."""

DEFAULT_SYSTEMS = {On.LOCAL: "local", On.KUBERNETES: AUTO}

OnOption = Annotated[On, typer.Option("--on", help="Runs launched from this machine, or those on a cluster.")]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="Context of the kubeconfig, for --on kubernetes.", show_default="current")
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace, for --on kubernetes.", show_default="the context's"
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all of them.")]


class Place(msgspec.Struct, frozen=True):
    """Where a command is to look, as its options say.

    Attributes:
        on: Here or on a cluster.
        context: Of the kubeconfig; empty = its current one.
        namespace: Empty = the context's.
        everywhere: In all namespaces.
    """

    on: On = On.LOCAL
    context: str = ""
    namespace: str = ""
    everywhere: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict one another."""
        if self.everywhere and self.namespace:
            raise CommandError(f"--all-namespaces and --namespace {self.namespace} cannot both hold; leave one out")
        if self.on is On.LOCAL and (self.context or self.namespace or self.everywhere):
            raise CommandError("--context, --namespace and --all-namespaces are about a cluster; add --on kubernetes")

    @property
    def options(self) -> str:
        """The options that lead here again, a blank before each; empty for this machine."""
        if self.on is On.LOCAL:
            return ""
        named = {"--context": self.context, "--namespace": self.namespace}
        every = [" --all-namespaces"] if self.everywhere else []
        return "".join([f" --on {self.on}", *(f" {name} {value}" for name, value in named.items() if value), *every])

    def kubectl(self, namespace: str, *words: str) -> str:
        """Return a command line of kubectl's about what is in `namespace` here, for a terminal."""
        context = ["--context", self.context] if self.context else []
        return shlex.join(["kubectl", *context, "--namespace", namespace, *words])


@contextlib.contextmanager
def cluster(place: Place) -> Iterator["Runs"]:
    """Yield what has been launched on the cluster of `place`; what the cluster refuses ends the command."""
    from tfsteps.cluster import access, api  # noqa: PLC0415  local runs need no HTTP
    from tfsteps.cluster.errors import ApiError  # noqa: PLC0415
    from tfsteps.systems.kubernetes.runs import Runs  # noqa: PLC0415

    try:
        found = access.find(place.context)
        client = api.Api(found, patience=_PATIENCE_SECONDS)
        yield Runs(client, systems.kinds(), "" if place.everywhere else place.namespace or found.namespace)
    except access.AccessError as error:
        raise CommandError(str(error)) from error
    except ApiError as error:
        raise CommandError(str(error), Exit.PLATFORM if error.unavailable else Exit.USAGE) from error


def find_jobs(runs: "Runs", place: Place, run: str, task: str | None = None, attempt: int | None = None) -> list["Job"]:
    """Return the jobs of a run on a cluster: the attempt `attempt` of each task, None = the newest; or of one task.

    Raises:
        CommandError: There is no such run, task or attempt; names the nearest.
        ApiError: The cluster does not say.
    """
    jobs = jobs_of(runs, place, run)
    return choose_attempts(jobs[0].status.identity.run, jobs, lambda job: job.status.identity, task, attempt)


def jobs_of(runs: "Runs", place: Place, run: str) -> list["Job"]:
    """Return all jobs on a cluster of the run called `run`: its id, the beginning of one, or its Workflow's name.

    Raises:
        CommandError: There is no such run; names the nearest.
        ApiError: The cluster does not say.
    """
    every = runs.jobs()
    known = list(dict.fromkeys(job.status.identity.run for job in every))
    named: dict[str, list[str]] = {}
    for job in every:
        ids = named.setdefault(workflow_of(job), [])
        ids += [id_ for id_ in [job.status.identity.run] if id_ not in ids]
    named.pop("", None)
    ids = named.get(run, []) if run not in known else []
    if len(ids) > 1:  # Workflows of one name in several namespaces, or steps with run ids of their own
        raise CommandError(f"Workflow {run!r} has several runs: {', '.join(ids)}; write the id of one")
    name = ids[0] if ids else match_run(run, known, runs.where, place.options, named)
    return [job for job in every if job.status.identity.run == name]


def workflow_of(job: "Job") -> str:
    """Return the name of the Workflow that a job belongs to; empty = it belongs to none."""
    owners = job.item["metadata"].get("ownerReferences") or []
    ours = (str(each["name"]) for each in owners if (each["apiVersion"], each["kind"]) == _WORKFLOW)
    return next(ours, "")
