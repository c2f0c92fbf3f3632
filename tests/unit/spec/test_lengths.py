"""Arguments and variables that Linux starts no program with."""

import pytest

from tfsteps import spec

MOST = 131_071
BASE = {"name": "a", "command": ["python"], "roles": {"worker": {}}}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"args": ["a", "x" * (MOST + 1)]}, "args[1]"),
        ({"command": ["python", "ä" * MOST]}, "command[1]"),
        ({"env": {"A": "x" * (MOST - 1)}}, "env.A"),
        ({"roles": {"worker": {"args": ["x" * (MOST + 1)]}}}, "roles.worker.args[0]"),
    ],
)
def test_too_long(fields, field):
    with pytest.raises(spec.SpecError, match="Allowed: at most 131,071") as raised:
        spec.from_plain({**BASE, **fields}, "job")
    assert f"{field}: has 13" in str(raised.value) or f"{field}: has 26" in str(raised.value)


def test_just_short_enough():
    spec.from_plain({**BASE, "args": ["x" * MOST], "env": {"A": "x" * (MOST - 2)}}, "job")
