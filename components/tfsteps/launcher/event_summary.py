"""The summary of a job's event files: its metrics, and the curves of its report.

`python -m tfsteps.launcher.event_summary FOLDER METRICS ORIGIN MODEL` prints that as one line of JSON. A launcher that
does not mount the volume of the event files, or has no access to their bucket, has the job system run it there.
"""

import datetime as dt
import difflib
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tfsteps import typed_json
from tfsteps.launcher.earlier_files import EarlierFiles, written
from tfsteps.report import curves
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob, is_uri
from tfsteps.systems.base import Handle, LaunchError
from tfsteps.tensorboard.event_curves import EventCurve, EventCurves
from tfsteps.tensorboard.event_files import UNKNOWN_ATTEMPT, EventOrigin, FilePath

_NAMED = 8
_KERAS = ["train", "validation"]  # the runs of its TensorBoard callback; its names of metrics mean the first

_EPOCH = "epoch_"  # with which that callback begins its tags
_RECORDED = ".tfsteps"  # ends the name of a file that `systems.local.startup.keras_history` writes


_LONGEST = 4 << 20  # characters; a node keeps 10 MiB of a container's output


class EventSummary(msgspec.Struct, kw_only=True):
    """The summary of a job's event files.

    Attributes:
        metrics: The last value of each metric that has one.
        notes: By metric: a sentence that says why it is not set, or what is not known of its value.
        charts: The curves, thinned out.
        model_written: When the newest file of the model was changed, in seconds since the epoch; 0 = there is no file.
            None = the folder was not seen.
    """

    metrics: dict[str, float]
    notes: dict[str, str]
    charts: curves.Charts
    model_written: float | None = None

    @classmethod
    def of(
        cls, folder: str, tags: Mapping[str, str], origin: EventOrigin, model: str = "", *, recorded: bool = False
    ) -> "EventSummary":
        """Read the event files below a folder or URI, and look at the model.

        Args:
            folder: The folder; one that cannot be read gives notes, no error.
            tags: The tag of each metric by its name.
            origin: What tells which files count.
            model: The folder of the model; empty = it is not looked at.
            recorded: Without tags: whether the metrics of Keras' `fit` that tfsteps itself recorded are meant.
        """
        try:
            read = EventCurves.read(folder, origin, math.inf if tags else curves.READ_BYTES)
        except OSError as error:
            why = f"the event files at {folder} could not be read: {error}"
            charts = curves.Charts(trouble=[why])
            return cls(metrics={}, notes=no_metrics(tags, why).notes, charts=charts)
        if recorded and not tags and not read.cut:
            tags = recorded_tags(read)
        collected = collect_metrics(read, tags, origin)
        if not (is_uri(folder) or os.path.isdir(folder)):  # noqa: PTH112
            collected = no_metrics(tags, f"the folder of the event files, {folder}, does not exist")
        files = written(model)
        newest = None if files is None else max((changed for _, changed, _ in files.values()), default=0) / 1e9
        charts = curves.gather(read, tuple(tags.values()))
        return cls(metrics=collected.values, notes=collected.notes, charts=charts, model_written=newest)

    def printed(self) -> str:
        """Return one line of JSON, without the curves if it would be too long for a container's output."""
        text = json.dumps(msgspec.to_builtins(self))
        if len(text) > _LONGEST:
            text = json.dumps(msgspec.to_builtins(msgspec.structs.replace(self, charts=curves.Charts(cut=True))))
        return text


def set_outputs(status: Status, job: TrainingJob, handle: Handle, origin: EventOrigin, before: EarlierFiles) -> None:
    """Set the metrics and the model of an ended job, and store its curves for the report.

    A warning is added for each metric without a value or with a doubtful one, and for the model of another attempt.
    """
    logs, tags, model_written = status.logs, job.outputs.metrics, None
    elsewhere = bool(logs) and (is_uri(logs) or not os.path.isdir(logs))  # noqa: PTH112
    if not logs:
        status.metric_notes = no_metrics(tags, "the event files are lost with the replicas: set `output_dir`").notes
        status.warnings += dict.fromkeys(status.metric_notes.values())
    elif not elsewhere or tags or job.tensorboard:
        # read where it is seen: by this process, or by a pod with the job's credentials
        model = "" if is_uri(status.model) else status.model
        about = json.dumps(msgspec.to_builtins(origin))
        program = ["-m", "tfsteps.launcher.event_summary", logs, json.dumps(tags), about, model]
        try:
            plain = handle.read_folder(logs, program) if elsewhere else None
            # The steps of a pipeline have the metrics that they name: on a cluster, where it runs next, none are
            # recorded.
            recorded = not status.identity.pipeline
            summary = (
                EventSummary.of(logs, tags, origin, model, recorded=recorded)
                if plain is None
                else typed_json.convert(plain, EventSummary)
            )
        except (LaunchError, msgspec.ValidationError) as error:
            why = f"the event files at {logs} could not be read: {error}"
            summary = EventSummary(metrics={}, notes=no_metrics(tags, why).notes, charts=curves.Charts(trouble=[why]))
        model_written = summary.model_written
        status.metrics, status.metric_notes = summary.metrics, summary.notes
        notes = list(dict.fromkeys(summary.notes.values()))
        more = [text for text in summary.charts.trouble if not any(text in note for note in notes)]
        lack = "Curves of the report are not whole" if summary.charts.charts else "The report has no curves"
        status.warnings += [*notes, *(f"{lack}: {text}." for text in more)]
        try:
            curves.save(summary.charts, AttemptFolder.of(status.identity).curves)
        except OSError as error:
            status.warnings.append(f"The curves could not be kept: {error}.")
    _judge_model(status, job, origin, before, model_written)


def _judge_model(
    status: Status, job: TrainingJob, origin: EventOrigin, before: EarlierFiles, model_written: float | None
) -> None:
    """Withdraw the output `model` if it is known to be of another attempt, and say so if that is not known."""
    if job.outputs.earlier_attempts or not status.model:
        return
    now, attempt = written(status.model, here=status.on_this_machine), origin.attempt
    unknown = f"Whether attempt {attempt} wrote the model at {status.model} is not known"
    if before.model is not None and now is not None:
        if now and all(before.model.get(path) == file for path, file in now.items()):
            status.warnings.append(
                f"There is no output `model`: attempt {attempt} wrote none, and what is in {status.model} was there "
                "before (`outputs.earlier_attempts` counts it)."
            )
            status.model = ""
    elif model_written is None or not origin.since:
        status.warnings += [f"{unknown}."] if attempt else []
    elif model_written > 0 and origin.predated_by(model_written):
        times = f"was last changed at {_utc(model_written)}, and the job was created at {_utc(origin.since)}"
        status.warnings.append(f"{unknown}: it {times}, by different clocks.")


class AttemptMetrics(NamedTuple):
    """The metrics of an attempt.

    Attributes:
        values: The last value of each metric that has one; finite.
        notes: By metric: a sentence that says why it is not set, or what is not known of its value.
    """

    values: dict[str, float]
    notes: dict[str, str]


def collect_metrics(curves: EventCurves, tags: Mapping[str, str], origin: EventOrigin) -> AttemptMetrics:
    """Return the last value of each requested metric: the one written last, by TensorBoard's rule.

    Args:
        curves: What the event files hold.
        tags: Tag by name of the metric: `<run>/<tag>`, or the tag alone if only one run has it.
        origin: Which attempt wrote which file.
    """
    if not curves.curves and curves.denied:
        return no_metrics(tags, f"this user may not read {curves.denied}")
    metrics = AttemptMetrics({}, {})
    for metric, tag in tags.items():
        matches = _matches(tag, curves.curves.values())
        last = matches[0].last if len(matches) == 1 else None
        if last is None or not matches[0].exact or not math.isfinite(last.value):
            metrics.notes[metric] = f"Metric {metric} is not set: {_why(tag, matches, curves, origin)}"
            continue
        metrics.values[metric] = last.value
        if doubts := list(_doubts(matches[0], last.file, curves, origin)):
            metrics.notes[metric] = f"Metric {metric}, {last.value:g} at step {last.step}: {'; '.join(doubts)}."
    return metrics


def recorded_tags(curves: EventCurves) -> dict[str, str]:
    """Return the tag of each metric of Keras' `fit` that tfsteps itself recorded, under Keras' name: `val_loss`.

    Of several models, the first.
    """
    tags = {}
    for curve in curves.curves.values():
        ours = all(curves.files[file].path.name.endswith(_RECORDED) for file in curve.files)
        if ours and curve.run in _KERAS and curve.tag.startswith(_EPOCH):
            name = curve.tag.removeprefix(_EPOCH)
            tags[name if curve.run == _KERAS[0] else f"val_{name}"] = curve.name
    return tags


def no_metrics(tags: Iterable[str], why: str) -> AttemptMetrics:
    """Return no values, and one sentence for all metrics."""
    sentence = f"No value of {', '.join(tags)}: {why}."
    return AttemptMetrics({}, dict.fromkeys(tags, sentence))


def _matches(tag: str, curves: Iterable[EventCurve]) -> list[EventCurve]:
    """Return the curves named exactly `tag`, else those with this tag in any run; of those of Keras, the training's."""
    curves = list(curves)
    if exact := [curve for curve in curves if curve.name == tag]:
        return exact
    matches = sorted((curve for curve in curves if curve.tag == tag), key=lambda curve: curve.run)
    return matches[:1] if [curve.run for curve in matches] == _KERAS else matches


def _doubts(curve: EventCurve, file: int, curves: EventCurves, origin: EventOrigin) -> Iterable[str]:
    """Yield what is not known of the last value of a curve, which the file at place `file` has."""
    if trouble := curves.trouble(curve.run, after=file):
        yield f"a later value may be missing, because {'; '.join(trouble)}"
    if rivals := curves.rivals(curve):
        yield f"{rivals[0]} and {rivals[1]} were written at the same time, and both have values of `{curve.name}`"
    if (attempt := origin.attempt_of(curves.files[file].path)) != origin.attempt:
        who = "another job, or an attempt that is not known," if attempt == UNKNOWN_ATTEMPT else f"attempt {attempt}"
        yield f"{who} wrote it, and attempt {origin.attempt} wrote none"


def _why(tag: str, matches: Sequence[EventCurve], curves: EventCurves, origin: EventOrigin) -> str:
    if len(matches) == 1:
        curve, last = matches[0], matches[0].last
        if last is None or not curve.exact:
            return f"a restart has rewound the last values of `{tag}`, and none were written since."
        return f"the last value of `{tag}` is {last.value}, at step {last.step}."
    if len({curve.name for curve in matches}) < len(matches):
        runs = _listed(f"`{curve.run}`" for curve in matches)
        return f"`{tag}` is a curve in each of the runs {runs}; give one of them another tag."
    if matches:
        names = _listed(f"`{curve.name}`" for curve in matches)
        return f"`{tag}` is in {len(matches)} runs; write one of {names}."
    return f"{_absent(tag, curves)}{_unread(curves, origin)}."


def _absent(tag: str, curves: EventCurves) -> str:
    names = {curve.name for curve in curves.curves.values()}
    if not names:
        return f"no scalar was found in the event files for `{tag}`"
    nearest = sorted(names, key=lambda name: (-_likeness(tag, name), name))
    return f"there is no `{tag}`, but {_listed(f'`{name}`' for name in nearest)}"


def _unread(curves: EventCurves, origin: EventOrigin) -> str:
    """Return which files may have the missing values; empty = none."""
    trouble = list(dict.fromkeys(text for file in curves.files for text in curves.trouble(file.path.run)))
    trouble += [f"this user may not read {curves.denied}"] if curves.denied else []
    text = f"; {_listed(trouble)}" if trouble else ""
    older = [file for file in curves.left_out if origin.predates(file)]
    other = [file for file in curves.left_out if not origin.predates(file)]
    if older:
        text += f"; {_shown(older)} existed before attempt {origin.attempt} (`outputs.earlier_attempts` counts them)"
    doubted = {file.shown: created for file in other if (created := origin.doubted(file)) is not None}
    if doubted:
        times = _listed(f"{name} was created at {_utc(created)}" for name, created in sorted(doubted.items()))
        text += f"; {times}, and the job at {_utc(origin.since)}: an earlier job of the same name may have written it, "
        text += f"or a node's clock is slow ({_MOUNT})"
    if unnamed := [file for file in other if file.shown not in doubted]:
        text += f"; whether attempt {origin.attempt} wrote {_shown(unnamed)} is not known: its name has no host name "
        text += f"of the job's replicas, and the launcher did not see the folder before the job was started; {_MOUNT}"
    return text


_MOUNT = "mount the volume in the launcher's pod too"


def _shown(files: Sequence[FilePath]) -> str:
    return _listed(sorted(file.shown for file in files))


def _utc(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _likeness(tag: str, name: str) -> float:
    return max(difflib.SequenceMatcher(None, tag, end).ratio() for end in (name, name.rpartition("/")[2]))


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.stderr.write("expected: python -m tfsteps.launcher.event_summary FOLDER METRICS ORIGIN MODEL\n")
        sys.exit(2)
    _folder, _tags, _origin, _model = sys.argv[1:]
    _about = typed_json.decode(_origin, EventOrigin)
    sys.stdout.write(EventSummary.of(_folder, json.loads(_tags), _about, _model).printed() + "\n")
