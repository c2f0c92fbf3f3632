"""What the `evaluate_gate` component runs: one comparison."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tfsteps.engines.base import StepTask
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.spec import Problem, SpecError
from tfsteps.steps import program
from tfsteps.steps.program import StepResult

_SOURCE = "inputs"
_DIRECTIONS = ("at_least", "at_most")


def main(argv: Sequence[str] | None = None) -> int:
    """Judge the metric that `argv` names and return the exit code; None = the process's own arguments."""
    return program.run(_judge, argv, failed="The metric could not be judged")


def _judge(task: StepTask) -> StepResult:
    inputs = task.parameters
    metric, direction = inputs.get("metric") or "", inputs.get("direction") or _DIRECTIONS[0]
    if direction not in _DIRECTIONS:
        raise _wrong("direction", direction, "is unknown", "Write one of them", ", ".join(_DIRECTIONS))
    threshold = _number("threshold", inputs.get("threshold"))
    value = _value(_metrics(task, inputs), metric)
    passed = value >= threshold if direction == _DIRECTIONS[0] else value <= threshold
    decision = "pass" if passed else "fail"
    task.write({"decision": decision, "value": value}, {})
    sentence = (
        f"{metric} = {value:g} is {'' if passed else 'not '}{direction.replace('_', ' ')} {threshold:g}: {decision}."
    )
    code = ExitCode.FAILED if inputs.get("required") and not passed else ExitCode.SUCCEEDED
    return StepResult(sentence, code, "the required metric did not pass")


def _metrics(task: StepTask, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return every metric that is known: of the output `job`, of the artifact, and as given, the later ones first."""
    job = inputs.get("job") or {}
    artifact = task.artifact("artifact")
    return {**(job.get("metrics") or {}), **(artifact.metadata if artifact else {}), **(inputs.get("metrics") or {})}


def _value(metrics: Mapping[str, Any], metric: str) -> float:
    if not metric:
        raise _wrong("metric", "", "is missing", "Name the metric to judge")
    if metric not in metrics:
        known = (
            ", ".join(sorted(metrics)) or "none: connect `metrics`, `artifact` or `job` with what a train step wrote"
        )
        raise _wrong("metric", metric, "is not among the metrics", "Name one of them, or let the job write it", known)
    return _number(f"metrics.{metric}", metrics[metric])


def _number(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
        return float(value)
    fix = "Give a number" if name == "threshold" else "Look at the job's log and curves for why it is none"
    raise _wrong(name, "NaN" if value is None else value, "is not a number", fix)


def _wrong(field: str, value: object, wrong: str, fix: str, allowed: str = "") -> SpecError:
    path = tuple(field.split(".", 1))
    return SpecError([Problem(path=path, value=str(value), wrong=wrong, fix=fix, allowed=allowed)], _SOURCE)


if __name__ == "__main__":
    program.leave(main())
