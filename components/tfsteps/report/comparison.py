"""Compares attempts of several runs: what was recorded of each, and the inputs that differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfsteps.masking import hidden
from tfsteps.report import curves
from tfsteps.report.curves import Charts
from tfsteps.report.description import Description
from tfsteps.report.formats import cpu_seconds, duration, moment, peak_memory, size
from tfsteps.runs.code import image_line, images_differ, short_images
from tfsteps.runs.inputs import flatten, read_inputs
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder

_FEWEST = 2
_IN_TABLE = 48  # characters of an input


class Compared(msgspec.Struct, frozen=True):
    """One attempt in a comparison.

    Attributes:
        status: Its status.
        inputs: Values of the job by dotted path, `roles.worker.replicas`, without secrets; None = not recorded on this
            machine.
        charts: Its curves; None = its event files are not on this machine.
        metric_tags: Tags of the metrics that the job names.
        notes: Sentences about what is not known or not shown.
    """

    status: Status
    inputs: Mapping[str, Any] | None = None
    charts: Charts | None = None
    metric_tags: Sequence[str] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of(
        cls, status: Status, attempt: AttemptFolder | None, notes: Sequence[str] = (), recorded: bytes = b""
    ) -> "Compared":
        """Read the records and the event files of an attempt.

        Args:
            status: Its status.
            attempt: Its folder; None = it was not launched from this machine.
            notes: Sentences to begin with.
            recorded: The job as JSON, where its place keeps it; empty = it does not.
        """
        if attempt is None:
            job = read_inputs(recorded)
            what = "metrics and curves" if job else "inputs, metrics and curves"
            unknown = f"It was not launched from this machine: its {what} are not known here."
            return cls(status, job and dict(flatten(job)), notes=[*notes, unknown])
        job = read_inputs(attempt.folder / "job.json")
        inputs = None if job is None else dict(flatten(job))
        tags = Description.read(attempt.folder / "job.json").metrics
        charts = curves.of_attempt(attempt, status, tags)
        return cls(
            status,
            inputs,
            charts,
            tags,
            [*notes, *dict.fromkeys(status.metric_notes.values()), *_unknown(status, inputs, charts)],
        )

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.status.identity.run

    @property
    def seconds(self) -> float | None:
        """From the creation to the end, in seconds; None = it has not ended."""
        return None if self.status.ended is None else self.status.ended - self.status.created

    @property
    def roles(self) -> dict[str, int]:
        """The number of replicas by role."""
        roles: dict[str, int] = {}
        for replica in self.status.replicas:
            roles[replica.role] = roles.get(replica.role, 0) + 1
        return roles


class Row(msgspec.Struct, frozen=True):
    """One line of a comparison: a value for each run, in their order; None = not known, or the run has none."""

    name: str
    values: Sequence[str | None]


def facts(runs: Sequence[Compared]) -> list[Row]:
    """Return what is known of each run beside its metrics and inputs; without rows that would be empty."""
    columns = [_facts(run) for run in runs]
    rows = [Row(name, [column[name] or None for column in columns]) for name in columns[0]]
    return [row for row in rows if any(row.values)]


def metrics(runs: Sequence[Compared]) -> list[Row]:
    """Return the last values of all metrics."""
    names = dict.fromkeys(name for run in runs for name in run.status.metrics)
    return [Row(name, [_number(run.status.metrics.get(name)) for run in runs]) for name in names]


def differences(runs: Sequence[Compared]) -> dict[str, list[Any]]:
    """Return the inputs that differ between the runs whose inputs are recorded: by path, a value for each run.

    A value is None if the run has none, or its inputs are not recorded. Secrets are hidden, and not compared.
    """
    recorded = [run.inputs for run in runs if run.inputs is not None]
    paths = dict.fromkeys(path for inputs in recorded for path in inputs)
    return {
        path: [(run.inputs or {}).get(path) for run in runs]
        for path in paths
        if len({msgspec.json.encode(inputs.get(path)) for inputs in recorded}) > 1
    }


def input_rows(runs: Sequence[Compared], longest: int) -> list[Row]:
    """Return `differences` as text, cut to `longest` characters around the first difference of a row."""
    return [Row(path, _cut(_texts(values), longest)) for path, values in differences(runs).items()]


def table_rows(runs: Sequence[Compared]) -> list[Row]:
    """Return facts, metrics and the inputs that differ, for a table; long inputs are cut."""
    return [
        *facts(runs),
        *(Row(f"metric {row.name}", row.values) for row in metrics(runs)),
        *(Row(f"input {row.name}", row.values) for row in input_rows(runs, _IN_TABLE)),
    ]


def notes(runs: Sequence[Compared]) -> list[str]:
    """Return what a table does not show: whether all inputs are the same, moved tags, what is not known of each run."""
    same = all_same(runs)
    return [*([same] if same else []), *moved_tags(runs), *(f"{run.run}: {note}" for run in runs for note in run.notes)]


def all_same(runs: Sequence[Compared]) -> str:
    """Return the sentence for runs without differing inputs; empty if inputs differ, or fewer than two are recorded."""
    if sum(run.inputs is not None for run in runs) < _FEWEST or differences(runs):
        return ""
    codes = {run.status.code for run in runs if run.status.code}
    if len(codes) > 1:
        return "All recorded inputs are the same; the code differs."
    return "All recorded inputs are the same."


def moved_tags(runs: Sequence[Compared]) -> list[str]:
    """Return a sentence for each role whose image has the same tag in the runs that know it, and different digests."""
    roles = dict.fromkeys(role for run in runs for role in run.status.images)
    sentences = []
    for role in roles:
        known = [(run, run.status.images[role], _tag(run, role)) for run in runs if role in run.status.images]
        tags = {tag for _, _, tag in known}
        if (
            len(known) > 1
            and len(tags) == 1
            and None not in tags
            and images_differ(image for _, images, _ in known for image in images)
        ):
            ran = "; ".join(f"{run.run} ran {short_images(images)}" for run, images, _ in known)
            sentences.append(f"The tag {tags.pop()} of {role} is not the same image in all runs: {ran}.")
    return sentences


def _tag(run: Compared, role: str) -> str | None:
    inputs = run.inputs or {}
    tag = inputs.get(f"roles.{role}.image") or inputs.get("image")
    return None if tag is None else str(tag)


def _facts(run: Compared) -> dict[str, str]:
    status = run.status
    cpu, memory = cpu_seconds(status.replicas), peak_memory(status.replicas)
    return {
        "task": status.identity.task,
        "attempt": str(status.identity.attempt),
        "pipeline": status.identity.pipeline,
        "system": status.system,
        "namespace": status.namespace,
        "created": moment(status.created),
        "state": status.state.value,
        "reason": status.reason,
        "duration": "" if run.seconds is None else duration(run.seconds),
        "replicas": ", ".join(f"{count} {role}" for role, count in run.roles.items()),
        "code": str(status.code or ""),
        "image": image_line(status.images),
        "restarts": str(sum(replica.restarts for replica in status.replicas)),
        "CPU time": "" if cpu is None else duration(cpu),
        "peak memory": "" if memory is None else size(memory),
    }


def _unknown(status: Status, inputs: Mapping[str, Any] | None, charts: Charts | None) -> Iterator[str]:
    if inputs is None:
        yield "Its inputs are not known: job.json is missing or damaged."
    if charts is None:
        where = (
            f"its event files at {hidden(status.logs)} are not on this machine"
            if status.logs
            else "it has no `output_dir`"
        )
        yield f"Its curves are not known: {where}."
    if charts and any(chart.more for chart in charts.charts):
        yield "Not all folders of its event files are shown."


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.6g}"


def _texts(values: Sequence[Any]) -> list[str | None]:
    """Return values as text; strings in quotes only if they would look like other values of the row."""
    plain = [value if isinstance(value, str) else _json(value) for value in values]
    texts = plain if len(set(plain)) == len({_json(value) for value in values}) else [*map(_json, values)]
    return [None if value is None else text.replace("\n", "\\n") for value, text in zip(values, texts, strict=True)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _cut(texts: Sequence[str | None], longest: int) -> list[str | None]:
    """Return texts cut to `longest` characters, so that the first difference is among them."""
    known = [text for text in texts if text is not None]
    if max(map(len, known), default=0) <= longest:
        return list(texts)
    columns = enumerate(zip(*known, strict=False))
    same = next((place for place, characters in columns if len(set(characters)) > 1), min(map(len, known)))
    start = max(0, same - longest // 3) if same > longest // 2 else 0
    return [None if text is None else _section(text, start, longest) for text in texts]


def _section(text: str, start: int, longest: int) -> str:
    end = start + longest - 2
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")
