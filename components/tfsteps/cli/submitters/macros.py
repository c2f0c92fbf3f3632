"""Macros for the time and the name of a run, in inputs of a submission: each engine replaces others, or none."""

import re
from collections.abc import Mapping

from tfsteps.cli.compiled import Engine

_PIPELINES_1 = r"\[\[(?:ScheduledTime|CurrentTime|RunUUID|Index)[^\]]*\]\]"
_PLACEHOLDER = r"\{\{\s*\$[^{}]*\}\}"
_ARGO = r"\{\{\s*workflow\.[^{}]*\}\}"
_PATTERNS = {
    Engine.KFP: re.compile(f"{_PIPELINES_1}|{_PLACEHOLDER}|{_ARGO}"),
    Engine.ARGO: re.compile(f"{_PIPELINES_1}|{_PLACEHOLDER}"),
    Engine.LOCAL: re.compile(f"{_PIPELINES_1}|{_PLACEHOLDER}|{_ARGO}"),
}
_REASONS = {
    Engine.KFP: "Kubeflow Pipelines 2 does not replace it in the inputs of every run. In the pipeline, pass "
    "dsl.PIPELINE_JOB_SCHEDULE_TIME_UTC_PLACEHOLDER to the task, as the whole of an input; it needs version 2.16",
    Engine.ARGO: "Argo does not replace it. In runs of a CronWorkflow, '{{workflow.scheduledTime}}' is the time",
    Engine.LOCAL: "a local run does not replace it. Write the value",
}


def warnings(parameters: Mapping[str, str], engine: Engine) -> list[str]:
    """Return a sentence for each input with a macro that the program may get as it is.

    Args:
        parameters: The inputs by name, as text.
        engine: The engine that runs the pipeline.
    """
    return [
        f"--param {name}: the program may get {match[0]} as it is: {_REASONS[engine]}"
        for name, value in parameters.items()
        if (match := _PATTERNS[engine].search(value))
    ]
