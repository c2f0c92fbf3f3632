"""The graph of a run as lines of a tree."""

import itertools
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from tfsteps.console.text import clean, duration
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.graph import Node, NodeKind

_MANY = 8  # nodes of one kind or role, from which on they are counted in one line
_SHOWN = 5  # of those that are counted: the ones that failed or were restarted
_DULL = {"", "running", "succeeded", ReplicaState.STOPPED}
_GUIDES = {True: ("├─ ", "└─ ", "│  "), False: ("|- ", "`- ", "|  ")}
_NAMELESS = {NodeKind.REPLICA}  # their names say what they are


class TreeLine(msgspec.Struct, frozen=True):
    """One line of the tree.

    Attributes:
        guide: The lines that lead to it.
        text: Kind and name, or what continues the line above.
        state: Printed after the text; empty = none.
        rest: Printed after the state.
    """

    guide: str
    text: str
    state: str = ""
    rest: str = ""

    def __str__(self) -> str:
        """Return the whole line."""
        return f"{self.guide}{self.text}{f': {self.state}' if self.state else ''}{self.rest}"


def tree(root: Node, *, width: int | None = None, any_character: bool = True, replicas: bool = True) -> list[TreeLine]:
    """Return the lines below the root, in the order of the tree.

    Many replicas of a role are one line that counts their states, and so are many Services; those that failed or were
    restarted have lines below it. Attempts before a task's last one are one line each.

    Args:
        root: The run.
        width: Of the terminal, in characters: longer lines are continued below. None = no limit.
        any_character: False = only ASCII guides.
        replicas: False = without replicas, Services and volumes.
    """
    return list(_below(root, "", _Style(width, any_character, replicas, time.time())))


class _Style(msgspec.Struct, frozen=True):
    width: int | None
    any_character: bool
    replicas: bool
    now: float


def _below(node: Node, indent: str, style: _Style) -> Iterator[TreeLine]:
    branch, last_branch, trunk = _GUIDES[style.any_character]
    children = [*_children(node, style), *_links(node)]
    for position, child in enumerate(children, 1):
        is_last = position == len(children)
        below = indent + ("   " if is_last else trunk)
        yield from _lines(child, indent + (last_branch if is_last else branch), below, style)
        yield from _below(child, below, style)


def _lines(node: Node, guide: str, below: str, style: _Style) -> Iterator[TreeLine]:
    """Yield the line of a node, and what does not fit into it."""
    head, facts = _head(node), _facts(node, style.now)
    message = f" ({clean(node.message)})" if node.message else ""
    room = None if style.width is None else max(20, style.width - len(guide))
    length = len(head) + (len(node.state) + 2 if node.state else 0)
    if room is None or length + len(facts) + len(message) <= room:
        yield TreeLine(guide, head, node.state, facts + message)
        return
    tail = len(node.state) + 2 if node.state else 0
    if len(head) + tail > room:
        head = f"{head[: max(1, room - tail - 1)]}…" if style.any_character else head[: max(1, room - tail)]
        length = len(head) + tail
    fits = length + len(facts) <= room
    yield TreeLine(guide, head, node.state, facts if fits else "")
    wide = room - 2
    for text in ("" if fits else facts.removeprefix(", "), message.strip()):
        yield from (
            TreeLine(f"{below}  ", part)
            for part in textwrap.wrap(text, wide, break_long_words=False, break_on_hyphens=False)
        )


def _head(node: Node) -> str:
    kind = "" if node.kind in _NAMELESS else "TensorBoard " if node.kind is NodeKind.TENSORBOARD else f"{node.kind} "
    return f"{kind}{clean(node.name)}".strip()


def _facts(node: Node, now: float) -> str:
    """Return what follows the state, with a comma before each."""
    facts = []
    if node.started is not None and (node.ended is not None or not _is_over(node.state)):
        facts.append(duration((node.ended if node.ended is not None else now) - node.started))
    if node.host:
        facts.append(f"on {node.host}")
    if node.restarts:
        facts.append(f"{node.restarts} restart{'s' * (node.restarts > 1)}")
    if node.detail:
        facts.append(node.detail)
    text = clean(", ".join(facts))
    if not text:
        return ""
    return f", {text}" if node.state else f": {text}"


def _is_over(state: str) -> bool:
    return state in {*(item for item in State if item.terminal), "error", "gone", "stopped", "skipped", "omitted"}


def _children(node: Node, style: _Style) -> Iterator[Node]:
    for child in node.children:
        if child.kind is NodeKind.TASK:
            yield from _attempts(child)
        elif child.kind not in (NodeKind.REPLICA, NodeKind.SERVICE, NodeKind.VOLUME):
            yield child
    if style.replicas:
        replicas = [child for child in node.children if child.kind is NodeKind.REPLICA]
        for role, group in itertools.groupby(replicas, key=lambda child: child.name.rpartition("-")[0]):
            yield from _grouped(role, list(group))
        for kind in (NodeKind.SERVICE, NodeKind.VOLUME):
            yield from _grouped(kind.value, [child for child in node.children if child.kind is kind])


def _attempts(task: Node) -> Iterator[Node]:
    """Yield a task as one node for each attempt: the last one with all below it."""
    for attempt in task.children:
        is_last = attempt is task.children[-1]
        job = next(attempt.below(NodeKind.JOB), None)
        name = f"{task.name}, attempt {attempt.name}"
        if is_last:
            yield msgspec.structs.replace(attempt, kind=NodeKind.TASK, name=name)
        else:
            detail = f"job {job.name}" if job else ""
            yield msgspec.structs.replace(attempt, kind=NodeKind.TASK, name=name, detail=detail, children=(), links={})


def _grouped(name: str, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield the nodes, or if they are many, one node that counts their states and has the interesting ones below."""
    if len(nodes) <= _MANY:
        yield from nodes
        return
    states = Counter(node.state for node in nodes if node.state)
    interesting = [node for node in nodes if node.state not in _DULL or node.restarts]
    worst = sorted(interesting, key=lambda node: node.state != "failed")[:_SHOWN]
    more = Counter(node.state for node in interesting if node not in worst)
    rest = [Node(kind=NodeKind.REPLICA, name=f"and {count} more", state=state) for state, count in more.items()]
    yield Node(
        kind=NodeKind.REPLICA,
        name=f"{name} x{len(nodes)}",
        state=", ".join(f"{count} {state}" for state, count in states.most_common()),
        restarts=sum(node.restarts for node in nodes),
        children=(*worst, *rest),
    )


def _links(node: Node) -> Iterator[Node]:
    names = {"pipeline": "page"}
    for name, address in node.links.items():
        yield Node(kind=NodeKind.REPLICA, name=names.get(name, name), detail=address)
