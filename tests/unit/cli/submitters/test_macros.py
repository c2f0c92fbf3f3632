"""Macros in inputs of a submission, which the program may get as they are."""

import pytest

from tfsteps.cli.compiled import Engine
from tfsteps.cli.submitters import macros

KFP, ARGO, LOCAL = Engine.KFP, Engine.ARGO, Engine.LOCAL


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
    assert {engine for engine in Engine if macros.warnings({"day": value}, engine)} == engines


def test_the_warning_names_the_input_the_macro_and_the_way():
    (warning,) = macros.warnings({"rows": "3", "day": "a [[Index]] b"}, ARGO)
    assert warning.startswith("--param day: the program may get [[Index]] as it is: ")
    assert "'{{workflow.scheduledTime}}' is the time" in warning
