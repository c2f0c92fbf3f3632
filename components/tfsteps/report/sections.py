"""The parts of the page that are text and numbers, and sentences about ends that look like failures."""

import shlex
from collections.abc import Sequence

from tfsteps.masking import hidden
from tfsteps.report import charts
from tfsteps.report.curves import Charts
from tfsteps.report.formats import cpu_seconds, duration, icon, moment, natural, peak_memory, plural, size
from tfsteps.report.html import Html, join, tag
from tfsteps.report.logs import plain
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.output_paths import filled
from tfsteps.runs.status import ABANDONED, CLOCK_SECONDS, ReplicaStatus, Status
from tfsteps.runs.store import AttemptFolder

_COLOURS = {State.SUCCEEDED: "#1a7f4b", State.CANCELLED: "#b25e09", State.RUNNING: "#2563c9"}
_RED = "#c62f35"
_ADVICE = {
    "platform": "The same job may succeed when it is run again.",
    "user": "Retrying will not help: fix the program or the job file first.",
}
_PEER_LOST = "PeerLost"  # the reason of a replica that failed because another one did
_NAMED = 5  # replicas in a sentence


def colour(state: State) -> str:
    """Return the colour of a state, for the icon of the page."""
    return _COLOURS.get(state, _RED if state.terminal else "#68737f")


def section(anchor: str, heading: str, content: Html) -> Html:
    """Return one part of the page under its heading."""
    label = f"{anchor}-heading"
    return tag("section", tag("h2", heading, id=label), content, id=f"section-{anchor}", aria_labelledby=label)


def contents(parts: Sequence[tuple[str, str, Html | None]]) -> tuple[Html, Html]:
    """Return links to the parts, and the parts: anchor, heading and content; those without one are left out."""
    present = [(anchor, heading, content) for anchor, heading, content in parts if content]
    links = [tag("a", heading, href=f"#section-{anchor}") for anchor, heading, _ in present]
    return tag("nav", *links, aria_label="Contents"), tag("main", *[section(*part) for part in present])


def headline(status: Status, name: str) -> Html:
    """Return the final state, the identity of the job, and the most important numbers."""
    identity = status.identity
    about = [
        ("Run", identity.run),
        ("Task", identity.task),
        ("Attempt", str(identity.attempt)),
        ("Pipeline", identity.pipeline),
        ("Job system", status.system),
        ("Namespace", status.namespace),
        ("Job", status.job),
        ("Created", moment(status.created)),
        ("Last record" if abandoned(status) else "Ended", moment(status.ended)),
    ]
    cpu, memory = cpu_seconds(status.replicas), peak_memory(status.replicas)
    restarts = sum(replica.restarts for replica in status.replicas)
    wait = status.started - status.created if status.started is not None else None
    length = status.ended - status.created if status.ended is not None else None
    failed = sum(replica.state == "failed" for replica in status.replicas)
    numbers = [  # label, value, remark
        *[(metric, charts.label(value), "metric") for metric, value in status.metrics.items()],
        ("Duration", duration(length), "until the last record" if abandoned(status) else ""),
        ("Start-up time", duration(wait), "until all started" if wait is not None else "not all started"),
        ("Replicas", str(len(status.replicas)), f"{failed} failed" if failed else ""),
        ("Restarts", str(restarts), "of all replicas" if restarts else ""),
        ("CPU time", duration(cpu), ""),
        ("Peak memory", size(memory), "of one replica" if memory is not None else ""),
    ]
    reason = f" ({status.reason})" if status.reason else ""
    return tag(
        "header",
        tag("p", "tfsteps run report", class_="kind"),
        tag("p", icon(status.state), status.state.capitalize(), class_="verdict", role="status"),
        tag("h1", name or status.job),
        tag("p", f"{status.message}{reason}" if status.message else status.reason or None, class_="message"),
        definitions([(term, text) for term, text in about if text], "about"),
        tag("ul", *[tile(*number) for number in numbers], class_="tiles"),
        class_=f"is-{status.state}",
    )


def tile(label: str, value: str, remark: str) -> Html:
    """Return one of the numbers at the top of a page."""
    return tag(
        "li",
        tag("span", label, class_="what"),
        tag("b", value),
        tag("span", remark, class_="quiet") if remark else None,
        class_="metric" if remark == "metric" else None,
    )


def definitions(items: Sequence[tuple[str, str]], kind: str) -> Html:
    """Return a list of terms and texts; `kind` is its class."""
    pairs = [tag("div", tag("dt", term), tag("dd", text)) for term, text in items]
    return tag("dl", *pairs, class_=kind)


def failure(status: Status) -> Html | None:
    """Return why the job failed; None if it did not fail."""
    summary = status.failure
    if summary is None:
        return None
    code = f"{summary.exit_code}" + (f", {summary.meaning}" if summary.meaning else "")
    findings = [
        ("First to fail", summary.replica),
        ("Exit code", code if summary.exit_code is not None else summary.meaning),
        ("Exception", plain(summary.exception)),
        ("Raised at", summary.frame),
        ("What helps", plain(summary.hint)),
        ("What to do", _ADVICE.get(summary.fault, summary.fault)),
    ]
    link = tag("a", f"Open the log of {summary.replica}", href=f"#{summary.replica}") if summary.replica else None
    lines = "\n".join(plain(line) for line in summary.tail)
    tail = tag("pre", lines, tabindex=0, role="region", aria_label="Last log lines") if summary.tail else None
    heading = tag("p", f"Last {plural(len(summary.tail), 'log line')}:", class_="note") if summary.tail else None
    return tag(
        "div",
        tag("p", plain(summary.summary), class_="summary"),
        definitions([(term, text) for term, text in findings if text], "facts"),
        heading,
        tail,
        tag("p", link) if link else None,
        class_="failure",
    )


def warnings(status: Status, hidden: int) -> Html | None:
    """Return the warnings of the status, and the number of `hidden` replicas; None if there are no warnings."""
    left_out = [f"{plural(hidden, 'replica')} not shown; failed and restarted replicas come first."] if hidden else []
    items = [tag("li", text) for text in status.warnings + left_out]
    return tag("ul", *items, class_="warnings") if items else None


def curves(scalar_charts: Charts | None, logs: str) -> Html:
    """Return all charts, or a sentence that says why there are none; None = the event files could not be read."""
    if scalar_charts is None:
        unread = f"The event files at {logs} could not be read when this report was written."
        return tag("p", unread if logs else "Event files were not kept: the job has no `output_dir`.", class_="note")
    if not scalar_charts.charts:
        none = f"The event files below {logs} contain no scalars of this attempt."
        trouble = _trouble(scalar_charts)
        return tag("div", *trouble) if scalar_charts.trouble else tag("div", tag("p", none, class_="note"), *trouble)
    runs = {curve.run for chart in scalar_charts.charts for curve in chart.curves}
    return figures(scalar_charts, sorted(runs, key=natural))


def _trouble(scalar_charts: Charts) -> list[Html]:
    sentences = [f"Not all values are shown: {text}." for text in scalar_charts.trouble]
    if scalar_charts.left_out:
        left_out = plural(scalar_charts.left_out, "event file")
        sentences.append(f"{left_out} not shown: of an earlier attempt or another job, or it is not known of which.")
    return [tag("p", sentence, class_="note") for sentence in sentences]


def figures(scalar_charts: Charts, runs: Sequence[str]) -> Html:
    """Return all charts and notes on what is left out; `runs` are the runs of all charts, which fix their colours."""
    notes = []
    if scalar_charts.more:
        names = ", ".join(scalar_charts.more[:20]) + (", …" if len(scalar_charts.more) > 20 else "")
        notes.append(tag("p", f"{plural(len(scalar_charts.more), 'more tag')} not shown: {names}.", class_="note"))
    notes += _trouble(scalar_charts)
    if scalar_charts.cut:
        notes.append(tag("p", "The curves show only the first part of the event files.", class_="note"))
    drawn = [charts.figure(chart, place, runs) for place, chart in enumerate(scalar_charts.charts)]
    csv = tag(
        "p",
        tag("button", "Download CSV", type="button", class_="csv"),
        " The points as they are drawn; the event files have all values.",
        class_="note",
        hidden=True,
    )
    return tag("div", tag("div", *drawn, class_="charts"), *notes, csv)


def outputs(status: Status, attempt: AttemptFolder) -> Html:
    """Return a table of the metrics and of the paths and addresses of all outputs."""
    url = hidden(status.tensorboard_url)
    safe = url.startswith(("http://", "https://"))
    places: list[tuple[str, str]] = [
        ("Model", hidden(filled(status.model))),
        ("Event files", hidden(status.logs)),
        ("Output folder", hidden(status.output)),
        ("Whole log", str(attempt.log)),
        ("TensorBoard", tag("a", url, href=url, rel="noreferrer") if safe else url),
    ]
    rows = [tag("tr", tag("th", label, scope="row"), tag("td", tag("code", place))) for label, place in places if place]
    metrics = [
        tag("tr", tag("th", metric, scope="row"), tag("td", tag("code", f"{value:.7g}")))
        for metric, value in status.metrics.items()
    ]
    return tag("div", tag("table", tag("tbody", *metrics, *rows)), class_="scroll")


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
    be, pronoun = ("was", "it is") if len(names) == 1 else ("were", "they are")
    return f"{listed(names)} {be} stopped because {cause}. This is not a failure: {pronoun} shown as stopped."


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
