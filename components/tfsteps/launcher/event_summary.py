"""The summary of a job's event files: its metrics, and the curves of its report.

`python -m tfsteps.launcher.event_summary FOLDER METRICS ORIGIN MODEL` prints that as one line of JSON. A launcher that
does not mount the volume of the event files, or has no access to their bucket, has the job system run it there.
"""

import json
import math
import os
import sys
from collections.abc import Mapping

import msgspec

from tfsteps.launcher import metrics
from tfsteps.launcher.earlier_files import EarlierFiles, written
from tfsteps.report import curves
from tfsteps.runs.status import Status
from tfsteps.runs.store import AttemptFolder
from tfsteps.spec import TrainingJob, is_uri
from tfsteps.systems.base import Handle, LaunchError
from tfsteps.tensorboard.event_curves import EventCurves
from tfsteps.tensorboard.event_origin import EventOrigin

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
            return cls(metrics={}, notes=metrics.none_of(tags, why).notes, charts=charts)
        if recorded and not tags and not read.cut:
            tags = metrics.recorded_tags(read)
        found = metrics.collect(read, tags, origin)
        if not (is_uri(folder) or os.path.isdir(folder)):  # noqa: PTH112
            found = metrics.none_of(tags, f"the folder of the event files, {folder}, does not exist")
        files = written(model)
        newest = None if files is None else max((changed for _, changed, _ in files.values()), default=0) / 1e9
        charts = curves.gather(read, tuple(tags.values()))
        return cls(metrics=found.values, notes=found.notes, charts=charts, model_written=newest)

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
        status.metric_notes = metrics.none_of(
            tags, "the event files are lost with the replicas: set `output_dir`"
        ).notes
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
                else msgspec.convert(plain, EventSummary)
            )
        except (LaunchError, msgspec.ValidationError) as error:
            why = f"the event files at {logs} could not be read: {error}"
            summary = EventSummary(
                metrics={}, notes=metrics.none_of(tags, why).notes, charts=curves.Charts(trouble=[why])
            )
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
    if before.model is not None and now is not None:
        older = bool(now) and all(before.model.get(path) == file for path, file in now.items())
    elif model_written is not None and origin.since:
        older = 0 < model_written < origin.since
    else:
        if attempt:
            status.warnings.append(f"Whether attempt {attempt} wrote the model at {status.model} is not known.")
        return
    if older:
        status.warnings.append(
            f"There is no output `model`: attempt {attempt} wrote none, and what is in {status.model} was there before "
            "(`outputs.earlier_attempts` counts it)."
        )
        status.model = ""


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.stderr.write("expected: python -m tfsteps.launcher.event_summary FOLDER METRICS ORIGIN MODEL\n")
        sys.exit(2)
    _folder, _tags, _origin, _model = sys.argv[1:]
    _about = msgspec.json.decode(_origin, type=EventOrigin)
    sys.stdout.write(EventSummary.of(_folder, json.loads(_tags), _about, _model).printed() + "\n")
