"""Sentences about ends that look like failures: replicas that were stopped, and runs whose end nobody recorded."""

import shlex
from collections.abc import Sequence

from tfsteps.report.formats import duration, moment, plural
from tfsteps.report.html import Html, join, tag
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.lost_launcher import ABANDONED
from tfsteps.runs.status import CLOCK_SECONDS, ReplicaStatus, Status

_PEER_LOST = "PeerLost"  # the reason of a replica that failed because another one did
_NAMED = 5  # replicas in a sentence


def abandoned(status: Status) -> bool:
    """Return whether the launcher was killed, so that the end of the job is not recorded."""
    return status.state is State.LOST and status.reason == ABANDONED


def stopped(status: Status) -> str:
    """Return why replicas are `stopped`, in sentences; empty if none is."""
    names = [replica.name for replica in status.replicas if replica.state is ReplicaState.STOPPED]
    if not names:
        return ""
    decides = f": {status.decisive_replica} decides how it ends" if status.decisive_replica else ""
    cause = {
        State.SUCCEEDED: f"the job had succeeded{decides}",
        State.FAILED: "the job had failed",
        State.CANCELLED: "the job was cancelled",
        State.LOST: "their launcher was killed" if abandoned(status) else "the job was lost",
    }.get(status.state, "the job did not need them any more")
    be, each = ("was", "it is") if len(names) == 1 else ("were", "they are")
    return f"{listed(names)} {be} stopped because {cause}. This is not a failure: {each} shown as stopped."


def peer_lost(status: Status) -> str:
    """Return which replicas failed only because they lost another one, in a sentence; empty if none did."""
    names = [
        replica.name
        for replica in status.replicas
        if replica.state is ReplicaState.FAILED
        and replica.incarnations
        and replica.incarnations[-1].reason == _PEER_LOST
    ]
    first = status.failure.replica if status.failure else ""
    if not names or first in ("", *names):
        return ""
    return f"{listed(names)} failed because {first} was lost ({_PEER_LOST}): look at the log of {first}."


def lost(status: Status) -> Html | None:
    """Return what is known of a job whose launcher was killed; None if the end of the job is recorded."""
    if not abandoned(status) or status.ended is None:
        return None
    running, others = _at_the_end(status.replicas, status.ended)
    lasted = status.ended - status.created
    after = f"{duration(lasted)} after the creation" if lasted > -CLOCK_SECONDS else "before the creation"
    facts = [
        ("Last record", f"{moment(status.ended)}, {after}"),
        ("Running then", listed(running)),
        ("Before", listed(others)),
        ("Now", _now(status)),
        ("What to do", _advice(status)),
    ]
    pairs = [tag("div", tag("dt", term), tag("dd", fact)) for term, fact in facts if fact]
    sentence = "The end of this job is not recorded: its launcher was killed. Later times and states are not known."
    return tag("div", tag("p", sentence, class_="summary"), tag("dl", *pairs, class_="facts"), class_="failure")


def listed(names: Sequence[str]) -> str:
    """Return `worker-0, worker-1 and worker-2`, or `worker-0, …, worker-4 and 59 more`."""
    if len(names) > _NAMED + 1:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _at_the_end(replicas: Sequence[ReplicaStatus], at: float) -> tuple[list[str], list[str]]:
    """Return the replicas that ran at a time, and how many others there were by state."""
    running, counts = [], dict[str, int]()
    for replica in replicas:
        last = replica.incarnations[-1] if replica.incarnations else None
        if last and (last.ended is None or last.ended >= at):
            running.append(replica.name)
        else:
            state = replica.state.value if last else "never started"
            counts[state] = counts.get(state, 0) + 1
    return running, [f"{plural(count, 'replica')} {state}" for state, count in counts.items()]


def _now(status: Status) -> str:
    if not status.outlives_launcher:
        if any(replica.state is ReplicaState.UNKNOWN for replica in status.replicas):
            return "Not known here: the replicas were not seen to be stopped with the launcher."
        return "Nothing of the job is running: its replicas were stopped with the launcher."
    where = f" in namespace {status.namespace}" if status.namespace else ""
    return f"Not known here: the job may go on{where}."


def _advice(status: Status) -> str | Html:
    if not status.outlives_launcher:
        return "Run the job again: the records and outputs of this attempt are kept."
    identity = status.identity
    if not status.where:
        attach = shlex.join(["tfsteps", "attach", identity.run, "--task", identity.task])
        return join([tag("code", attach), " follows it to its end, if it goes on."])
    show = shlex.join(["tfsteps", "show", identity.run, *status.where])
    adopt = ["--system", status.system, "--run-id", identity.run, "--task", identity.task, "--adopt"]
    run = shlex.join(["tfsteps", "run", "job.yaml", *status.where, *adopt])
    return join([tag("code", show), " shows whether it goes on. ", tag("code", run), " follows it to its end."])
