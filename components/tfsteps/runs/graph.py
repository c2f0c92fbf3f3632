"""The graph of a run: pipeline, steps, tasks, attempts and jobs, and what each of them consists of. Pure.

It is in this package because all who know a part of it import it: job systems, engines, and the command line.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import ReplicaStatus, Status

Links = Mapping[Identity, Mapping[str, str]]
"""Addresses and paths of jobs by their names: `report`, `log`."""


class NodeKind(enum.StrEnum):
    """What a node of the graph is."""

    RUN = "run"
    PIPELINE = "pipeline"
    STEP = "step"
    TASK = "task"
    ATTEMPT = "attempt"
    LAUNCHER = "launcher"
    JOB = "job"
    REPLICA = "replica"
    POD = "pod"
    SERVICE = "service"
    VOLUME = "volume"
    TENSORBOARD = "tensorboard"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a run, and the objects below it.

    Attributes:
        kind: What it is.
        name: Its name, unique among the objects of its kind below one parent.
        state: Of jobs a `State`, of replicas a `ReplicaState`, of the engine's objects their phase in lower case; empty
            = it has none.
        started: When it was created or started, in seconds since the epoch; None = not yet, or not known.
        ended: When it ended, in seconds since the epoch; None = it has not, or not known.
        place: Its pod, or its process on this machine, `pid 4711`; empty = none, or not known.
        host: The node that it runs on; empty = none, or not known.
        restarts: How often it was restarted.
        message: Why it failed or waits, in one sentence; empty = nothing is known.
        detail: What else identifies it: `claim training at /data`; empty = nothing.
        links: Addresses and paths by their names: `tensorboard`, `report`, `log`, `pipeline`.
        children: The objects below it.
    """

    kind: NodeKind
    name: str
    state: str = ""
    started: float | None = None
    ended: float | None = None
    place: str = ""
    host: str = ""
    restarts: int = 0
    message: str = ""
    detail: str = ""
    links: Mapping[str, str] = {}
    children: tuple["Node", ...] = ()

    def below(self, kind: NodeKind) -> Iterator["Node"]:
        """Yield all nodes of a kind below this one, in the order of the tree."""
        for child in self.children:
            if child.kind is kind:
                yield child
            yield from child.below(kind)


class Surroundings(msgspec.Struct, frozen=True):
    """What exists of a run beside its jobs and their replicas.

    Attributes:
        pipelines: The engine's objects of the run, with their steps that launch no job; usually one or none.
        launchers: The launcher of each job, by the job's identity.
        parts: Services and volumes of each job, by the job's identity.
        others: What belongs to the run as a whole: its TensorBoards, pods of no job.
        notes: What could not be read, each in one sentence.
    """

    pipelines: Sequence[Node] = ()
    launchers: Mapping[Identity, Node] = {}
    parts: Mapping[Identity, Sequence[Node]] = {}
    others: Sequence[Node] = ()
    notes: Sequence[str] = ()


def graph(
    run: str,
    statuses: Iterable[Status],
    around: Surroundings,
    links: Mapping[Identity, Mapping[str, str]] | None = None,
) -> Node:
    """Return the graph of a run; its root is the run.

    Args:
        run: Its id.
        statuses: Of all attempts to show.
        around: What exists beside them.
        links: Addresses and paths of each job, by its identity, beside those in its status.
    """
    tasks: dict[str, list[Status]] = {}
    for status in sorted(statuses, key=lambda status: (status.created, status.identity.attempt)):
        tasks.setdefault(status.identity.task, []).append(status)
    nodes = tuple(_task(name, attempts, around, links or {}) for name, attempts in tasks.items())
    match around.pipelines:
        case [pipeline]:
            steps = sorted([*pipeline.children, *nodes], key=lambda node: (node.started is None, node.started or 0.0))
            nodes = (msgspec.structs.replace(pipeline, children=tuple(steps)),)
        case several:  # a run id that groups Workflows
            nodes = (*several, *nodes)
    state, started, ended = _whole(nodes)
    return Node(
        kind=NodeKind.RUN, name=run, state=state, started=started, ended=ended, children=(*nodes, *around.others)
    )


def _task(name: str, attempts: Sequence[Status], around: Surroundings, links: Links) -> Node:
    nodes = tuple(_attempt(status, around, links.get(status.identity, {})) for status in attempts)
    newest = nodes[-1]
    return Node(
        kind=NodeKind.TASK,
        name=name,
        state=newest.state,
        started=nodes[0].started,
        ended=newest.ended,
        children=nodes,
    )


def _attempt(status: Status, around: Surroundings, links: Mapping[str, str]) -> Node:
    launcher = around.launchers.get(status.identity)
    tensorboard = {"tensorboard": status.tensorboard_url} if status.tensorboard_url else {}
    job = Node(
        kind=NodeKind.JOB,
        name=status.job,
        state=status.state.value,
        started=status.created,
        ended=status.ended,
        detail=f"on {status.system}" + (f", namespace {status.namespace}" if status.namespace else ""),
        children=(*map(_replica, status.replicas), *around.parts.get(status.identity, ())),
    )
    return Node(
        kind=NodeKind.ATTEMPT,
        name=str(status.identity.attempt),
        state=status.state.value,
        started=status.created,
        ended=status.ended,
        message=status.failure.summary if status.failure else status.message,
        links={**tensorboard, **links},
        children=(*([launcher] if launcher else []), job),
    )


def _replica(replica: ReplicaStatus) -> Node:
    node = Node(kind=NodeKind.REPLICA, name=replica.name, state=replica.state.value, restarts=replica.restarts)
    if not replica.incarnations:
        return node
    last = replica.incarnations[-1]
    place, _, host = last.place.partition(" on ")
    code = "" if last.exit_code in (None, 0) else f"exit code {last.exit_code}"
    return msgspec.structs.replace(
        node,
        started=last.started,
        ended=last.ended,
        place=place,
        host=host,
        message=", ".join(filter(None, (code, last.reason))),
    )


def _whole(nodes: Sequence[Node]) -> tuple[str, float | None, float | None]:
    """Return state, start and end of what consists of `nodes`: the worst state, unless something still runs."""
    states = {node.state for node in nodes if node.state}
    running = [state for state in _UNFINISHED if state in states]
    ended = [state for state in _ENDED if state in states]
    started = min((node.started for node in nodes if node.started is not None), default=None)
    ends = [node.ended for node in nodes]
    last = max((end for end in ends if end is not None), default=None) if ends and None not in ends else None
    return next(iter([*running, *ended]), ""), started, last


_UNFINISHED = [State.RUNNING, State.RESTARTING, State.PENDING, State.QUEUED, State.SUSPENDED]
_ENDED = [State.FAILED, "error", State.LOST, State.CANCELLED, State.UNKNOWN, State.SUCCEEDED]
