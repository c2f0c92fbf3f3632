"""The graph of a job: its replicas, and which of them communicate under its strategy."""

import math
from collections.abc import Sequence

import msgspec

from tfsteps.report.formats import icon, outcome
from tfsteps.report.html import Html, number, tag
from tfsteps.runs.status import ReplicaStatus
from tfsteps.spec import Strategy

_ROW = 6  # nodes in a row of a group of at most _FEW nodes
_DENSE_ROW = 8
_FEW = 12
_PAD, _TITLE = 24.0, 26.0
_APART = 76.0  # between groups
_MOST_EDGES = 36  # more edges are drawn as a single line
_CHECKPOINTS = 116.0


class ReplicaBox(msgspec.Struct, frozen=True):
    """The box of a replica: its upper left corner, width and height in pixels."""

    replica: ReplicaStatus
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Horizontal centre."""
        return self.x + self.width / 2

    @property
    def centre(self) -> float:
        """Vertical centre."""
        return self.y + self.height / 2


class Group(msgspec.Struct, frozen=True):
    """Replicas of the same kind, in rows within a frame."""

    title: str
    nodes: list[ReplicaBox]
    x: float
    y: float
    width: float
    height: float
    rows: int

    @property
    def centre(self) -> float:
        """Vertical centre."""
        return self.y + self.height / 2


def graph(replicas: Sequence[ReplicaStatus], strategy: Strategy, decisive_replica: str, blamed: str) -> Html:
    """Return the graph of a job as SVG; a sentence if there are no replicas.

    Args:
        replicas: The replicas to show.
        strategy: The strategy of the job.
        decisive_replica: Name of the replica that decides how the job ends; empty = none.
        blamed: Name of the replica that failed first; empty = none.
    """
    if not replicas:
        return tag("p", "No replica was recorded.", class_="note")
    by_role = {role: [r for r in replicas if r.role in role] for role in (("chief", "worker"), ("ps",), ("evaluator",))}
    training, serving, evaluating = by_role.values()
    groups: list[Group] = []  # trainers, if there are any, are the last
    edges: list[Html] = []
    if serving and training:
        servers = _group("Parameter servers", serving, 0, 0)
        trainers = _group("Training", training, 0, servers.height + _APART, title_below=True)
        servers = _centred(servers, trainers.width)
        groups, edges = [servers, trainers], _to_servers(trainers, servers)
    elif serving:
        groups = [_group("Parameter servers", serving, 0, 0)]
    elif training:
        mirrored = strategy == "multi_worker_mirrored" and len(training) > 1
        groups = [_group("Training, gradients by all-reduce" if mirrored else "Training", training, 0, 0)]
        edges = [_ring(groups[0])] if mirrored else []
    if evaluating and training:
        trainers, right = groups[-1], max(group.x + group.width for group in groups)
        x = right + 2 * 36 + _CHECKPOINTS
        evaluators = _group("Evaluator", evaluating, x, 0)
        evaluators = _group("Evaluator", evaluating, x, trainers.centre - evaluators.height / 2)
        edges += _through_checkpoints(trainers, evaluators)
        groups.append(evaluators)
    elif evaluating:
        x = max([group.x + group.width + _APART for group in groups], default=0.0)
        groups.append(_group("Evaluator", evaluating, x, 0))
    return _drawing(groups, edges, decisive_replica, blamed)


# --- layout


def _group(title: str, replicas: Sequence[ReplicaStatus], x: float, y: float, *, title_below: bool = False) -> Group:
    """Place `replicas` in rows. Every second row goes from right to left, so that consecutive replicas are adjacent."""
    few = len(replicas) <= _FEW
    width, height, gap = (138.0, 48.0, 24.0) if few else (120.0, 42.0, 14.0)
    most = _ROW if few else _DENSE_ROW
    rows = math.ceil(len(replicas) / most) or 1
    columns = math.ceil(len(replicas) / rows) or 1
    left, top = x + _PAD, y + (_PAD if title_below else _PAD + _TITLE - 8)
    nodes = []
    for place, replica in enumerate(replicas):
        row, column = divmod(place, columns)
        column = columns - 1 - column if row % 2 else column
        nodes.append(ReplicaBox(replica, left + column * (width + gap), top + row * (height + gap), width, height))
    inner = columns * (width + gap) - gap
    return Group(
        title,
        nodes,
        x,
        y,
        max(inner, 7.2 * len(title)) + 2 * _PAD,
        rows * (height + gap) - gap + 2 * _PAD + _TITLE - 8,
        rows,
    )


def _centred(group: Group, width: float) -> Group:
    """Return `group` centred within `width`, if it is narrower."""
    shift = max(0.0, (width - group.width) / 2)
    nodes = [msgspec.structs.replace(node, x=node.x + shift) for node in group.nodes]
    return msgspec.structs.replace(group, x=group.x + shift, nodes=nodes)


# --- edges


def _ring(group: Group) -> Html:
    """Return a line through all nodes in order, and back along the lower and left edge of the frame."""
    first, last = group.nodes[0], group.nodes[-1]
    spots = [(node.middle, node.centre) for node in group.nodes]
    below, left = last.y + last.height + 12, group.x + 11
    back = f"V{number(below - 8)}q0 8 -8 8H{number(left + 8)}q-8 0 -8 -8"
    back += f"V{number(first.centre + 8)}q0 -8 8 -8H{number(first.x - 1)}"
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in spots) + back
    return tag("path", d=path, class_="edge ring", marker_end="url(#arrow)")


def _to_servers(trainers: Group, servers: Group) -> list[Html]:
    """Return the edges between trainers and parameter servers."""
    single = trainers.rows == servers.rows == 1
    if single and len(trainers.nodes) * len(servers.nodes) <= _MOST_EDGES:
        return [_curve(server, trainer) for server in servers.nodes for trainer in trainers.nodes]
    x = servers.x + servers.width / 2
    top, bottom = servers.y + servers.height, trainers.y
    return [
        tag("path", d=f"M{number(x)} {number(top)}V{number(bottom)}", class_="edge trunk"),
        tag("text", "variables and gradients, all to all", x=x + 14, y=(top + bottom) / 2 + 4, class_="edge-label"),
    ]


def _curve(server: ReplicaBox, trainer: ReplicaBox) -> Html:
    top, bottom = server.y + server.height, trainer.y
    half = (top + bottom) / 2
    spots = [(server.middle, top), (server.middle, half), (trainer.middle, half), (trainer.middle, bottom)]
    start, *rest = [f"{number(x)} {number(y)}" for x, y in spots]
    d = f"M{start}C{' '.join(rest)}"
    return tag("path", d=d, class_="edge")


def _through_checkpoints(trainers: Group, evaluators: Group) -> list[Html]:
    """Return the edges from the trainers to the evaluator, which reads the checkpoints that they save."""
    y = trainers.centre
    start, end = trainers.x + trainers.width, evaluators.x
    x = end - 36 - _CHECKPOINTS
    return [
        tag("path", d=f"M{number(start)} {number(y)}H{number(x - 2)}", class_="edge loose", marker_end="url(#arrow)"),
        tag("rect", x=x, y=y - 17, width=_CHECKPOINTS, height=34, rx=17, class_="store"),
        tag("text", "checkpoints", x=x + _CHECKPOINTS / 2, y=y + 4.5, text_anchor="middle", class_="edge-label"),
        tag(
            "path",
            d=f"M{number(x + _CHECKPOINTS)} {number(y)}H{number(end - 2)}",
            class_="edge loose",
            marker_end="url(#arrow)",
        ),
    ]


# --- drawing


def _drawing(groups: Sequence[Group], edges: Sequence[Html], decisive_replica: str, blamed: str) -> Html:
    top = min(group.y for group in groups) - 2
    width = max(group.x + group.width for group in groups) + 4
    height = max(group.y + group.height for group in groups) - top + 2
    arrow = tag(
        "marker",
        tag("path", d="M0 0L7 3.5L0 7z"),
        id="arrow",
        viewBox="0 0 7 7",
        refX=6,
        refY=3.5,
        markerWidth=7,
        markerHeight=7,
        markerUnits="userSpaceOnUse",
        orient="auto",
    )
    titles = []
    for group in groups:
        below = bool(group.nodes) and group.nodes[0].y - group.y < _PAD + 1
        y = group.y + group.height - 14 if below else group.y + 24
        titles.append(tag("text", group.title, x=group.x + _PAD, y=y, class_="title"))
    svg = tag(
        "svg",
        tag("defs", arrow),
        *[tag("rect", x=g.x, y=g.y, width=g.width, height=g.height, rx=14, class_="frame") for g in groups],
        *edges,
        *titles,
        *[_node(node, decisive_replica, blamed) for group in groups for node in group.nodes],
        viewBox=f"-2 {number(top)} {number(width)} {number(height)}",
        style=f"max-width:{number(width)}px;min-width:{number(0.62 * width)}px",
        role="group",
        aria_label="Graph of the replicas",
    )
    shown = any(node.replica.name == decisive_replica for group in groups for node in group.nodes)
    note = f"The dot marks {decisive_replica}, which decides how the job ends." if shown else ""
    return tag("div", svg, tag("p", note, class_="note"), class_="graph")


def _node(node: ReplicaBox, decisive_replica: str, blamed: str) -> Html:
    replica = node.replica
    size = 16 if node.width > 120 else 14
    text = node.x + size + 18
    decides = replica.name == decisive_replica
    description = f"{replica.name}: {outcome(replica)}." + (" It decides how the job ends." if decides else "")
    kind = " blamed" if replica.name == blamed else ""
    code = replica.incarnations[-1].exit_code if replica.incarnations else None
    state = f"failed, exit {code}" if replica.state == "failed" and code is not None else replica.state.value
    return tag(
        "a",
        tag("title", f"{description} Click to open the log."),
        tag("rect", x=node.x, y=node.y, width=node.width, height=node.height, rx=10),
        icon(replica.state, x=node.x + 10, y=node.centre - size / 2, width=size, height=size),
        tag("text", replica.name, x=text, y=node.centre - 4, class_="name"),
        tag("text", "failed first" if kind else state, x=text, y=node.centre + 12, class_="state"),
        tag("circle", cx=node.x + node.width - 12, cy=node.y + node.height - 12, r=3.5, class_="decides")
        if decides
        else None,
        href=f"#{replica.name}",
        class_=f"node is-{replica.state}{kind}",
        aria_label=f"{description} Open the log.",
    )
