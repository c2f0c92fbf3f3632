"""The program of the `evaluate_gate` component: compares a metric with a threshold."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfsteps.engines.base import StepTask
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.spec import Problem, SpecError
from tfsteps.steps import program
from tfsteps.steps.program import StepResult, note_key
from tfsteps.text import streams

_SOURCE = "inputs"
_DIRECTIONS = ("at_least", "at_most")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare the metric that `argv` names and return the exit code; None = the arguments of this process."""
    return program.run(_compare, argv, failed="The metric could not be compared")


def _compare(task: StepTask) -> StepResult:
    inputs = task.parameters
    metric, direction = inputs.get("metric") or "", inputs.get("direction") or _DIRECTIONS[0]
    if direction not in _DIRECTIONS:
        raise _wrong("direction", direction, "is unknown", "Write one of them", ", ".join(_DIRECTIONS))
    threshold = _number("threshold", inputs.get("threshold"))
    metrics, note = _metrics(task, inputs, metric)
    value = _value(metrics, metric, note)
    passed = value >= threshold if direction == _DIRECTIONS[0] else value <= threshold
    decision = "pass" if passed else "fail"
    task.write({"decision": decision, "value": value}, {})
    relation = f"{'' if passed else 'not '}{direction.replace('_', ' ')}"
    sentence = f"{metric} = {value:g} is {relation} {threshold:g}: {decision}. {note}".rstrip()
    code = ExitCode.FAILED if inputs.get("required") and not passed else ExitCode.SUCCEEDED
    return StepResult(sentence, code, "the required metric did not pass")


def _metrics(task: StepTask, inputs: Mapping[str, Any], metric: str) -> tuple[dict[str, Any], str]:
    """Return the metrics of the inputs `job`, `artifact` and `metrics`, and what is not known of `metric`.

    A later input overrides an earlier one.
    """
    job = _mapping("job", inputs.get("job"))
    artifact = task.artifact("artifact")
    metadata = artifact.metadata if artifact else {}
    metrics: dict[str, Any] = {}
    note = ""
    for values, remark in (
        (
            _mapping("job.metrics", job.get("metrics")),
            _mapping("job.metric_notes", job.get("metric_notes")).get(metric),
        ),
        (metadata, metadata.get(note_key(metric))),
        (_mapping("metrics", inputs.get("metrics")), None),
    ):
        metrics |= values
        note = remark or ("" if metric in values else note)
    return metrics, note


def _mapping(name: str, value: Any) -> dict[str, Any]:
    """Return an input, or a field of one, empty if it is not set. SpecError if it is not a mapping."""
    if value and not isinstance(value, dict):
        fix = f"Connect `{name.partition('.')[0]}` with an output of a train or wait step"
        raise _wrong(name, value, "is not a mapping", fix)
    return value or {}


def _value(metrics: Mapping[str, Any], metric: str, note: str) -> float:
    if not metric:
        raise _wrong("metric", "", "is missing", "Name the metric to compare")
    if metric not in metrics:
        known = (
            ", ".join(sorted(metrics)) or "none: connect `metrics`, `artifact` or `job` with outputs of a train step"
        )
        wrong = f"is not among the metrics{f' ({note})' if note else ''}"
        raise _wrong("metric", metric, wrong, "Name one of them, or let the job write it", known)
    return _number(f"metrics.{metric}", metrics[metric])


def _number(name: str, value: Any) -> float:
    with contextlib.suppress(OverflowError):  # of an integer that is too large
        if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
            return float(value)
    fix = "Write a number" if name == "threshold" else "Look for the cause in the job's log and curves"
    raise _wrong(name, "NaN" if value is None else value, "is not a number", fix)


def _wrong(field: str, value: object, wrong: str, fix: str, allowed: str = "") -> SpecError:
    path = tuple(field.split(".", 1))
    return SpecError([Problem(path=path, value=str(value), wrong=wrong, fix=fix, allowed=allowed)], _SOURCE)


if __name__ == "__main__":
    streams.flush_and_exit(main())
