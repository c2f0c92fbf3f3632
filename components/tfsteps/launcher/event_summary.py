"""The summary of a job's event files: its metrics, and the curves of its report.

`python -m tfsteps.launcher.event_summary FOLDER METRICS` prints that as one line of JSON. A launcher that does not
mount the volume of the event files has the job system run it where that volume is.
"""

import json
import os
import sys
from collections.abc import Mapping

import msgspec

from tfsteps.launcher import metrics
from tfsteps.report import curves
from tfsteps.runs.status import Status
from tfsteps.runs.store import Attempt
from tfsteps.spec import TrainingJob, is_uri
from tfsteps.systems.base import Handle, LaunchError

_LONGEST = 4 << 20  # characters; a node keeps 10 MiB of a container's output


class EventSummary(msgspec.Struct, kw_only=True):
    """The summary of a job's event files.

    Attributes:
        metrics: The last value of each metric that has one.
        missing: A sentence for each metric that has none.
        charts: The curves, thinned out.
    """

    metrics: dict[str, float]
    missing: list[str]
    charts: curves.Charts

    @classmethod
    def of(cls, folder: str, tags: Mapping[str, str]) -> "EventSummary":
        """Read the event files below `folder`; `wanted` holds the tag of each metric by its name."""
        values, missing = metrics.collect(folder, tags)
        return cls(metrics=values, missing=missing, charts=curves.gather(folder, tuple(tags.values())))

    def printed(self) -> str:
        """Return one line of JSON, without the curves if it would be too long for a container's output."""
        text = json.dumps(msgspec.to_builtins(self))
        if len(text) > _LONGEST:
            text = json.dumps(msgspec.to_builtins(msgspec.structs.replace(self, charts=curves.Charts(cut=True))))
        return text


def set_metrics(status: Status, job: TrainingJob, handle: Handle) -> None:
    """Set the metrics of an ended job, and store the curves that this launcher cannot read for its report.

    A warning is added for each metric without a value.
    """
    tags, logs = job.outputs.metrics, status.logs
    try:
        unseen = logs and not is_uri(logs) and not os.path.isdir(logs)  # noqa: PTH112
        program = ["-m", "tfsteps.launcher.event_summary", logs, json.dumps(tags)]
        plain = handle.read_folder(logs, program) if unseen else None
        if plain is None:
            status.metrics, missing = metrics.collect(logs, tags)
        else:
            summary = msgspec.convert(plain, EventSummary)
            status.metrics, missing = summary.metrics, summary.missing
            curves.save(summary.charts, Attempt.of(status.identity).curves)
    except (LaunchError, msgspec.ValidationError) as error:
        problem = f"No value of {', '.join(tags)}" if tags else "The report has no curves"
        missing = [f"{problem}: the event files at {logs} could not be read: {error}."]
    except OSError as error:
        missing = [f"The curves could not be kept: {error}."]
    status.warnings += missing


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.stderr.write("expected two arguments: python -m tfsteps.launcher.event_summary FOLDER METRICS\n")
        sys.exit(2)
    sys.stdout.write(EventSummary.of(sys.argv[1], json.loads(sys.argv[2])).printed() + "\n")
