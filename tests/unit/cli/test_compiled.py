"""Macros in inputs of a submission, which the program may get as they are."""

import pytest

from tfsteps.cli.compiled import macro_warnings
from tfsteps.engines import registry

KFP, ARGO, LOCAL = "kfp", "argo", "local"


@pytest.mark.parametrize(
    ("value", "engines"),
    [
        ("[[ScheduledTime]]", {KFP, ARGO, LOCAL}),
        ("runs/[[ScheduledTime.2006-01-02]]/x", {KFP, ARGO, LOCAL}),
        ("[[CurrentTime]]", {KFP, ARGO, LOCAL}),
        ("[[RunUUID]]-[[Index]]", {KFP, ARGO, LOCAL}),
        ("{{$.pipeline_job_schedule_time_utc}}", {KFP, ARGO, LOCAL}),
        ("{{$.scheduledTime.strftime('%Y')}}", {KFP, ARGO, LOCAL}),
        ("{{ workflow.scheduledTime }}", {KFP, LOCAL}),
        ("[[1, 2], [3, 4]]", set()),
        ('{"a": {"b": "$"}}', set()),
        ("{{mustache}}", set()),
        ("", set()),
    ],
)
def test_a_macro_is_warned_of_where_the_engine_does_not_replace_it(value, engines):
    warned = {name for name in registry.NAMES if macro_warnings({"day": value}, registry.plugin(name))}
    assert warned == engines


def test_the_warning_names_the_input_the_macro_and_the_way():
    (warning,) = macro_warnings({"rows": "3", "day": "a [[Index]] b"}, registry.plugin(ARGO))
    assert warning.startswith("--param day: the program may get [[Index]] as it is: ")
    assert "'{{workflow.scheduledTime}}' is the time" in warning
