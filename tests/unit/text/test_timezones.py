"""Suggestions for names that are no time zones: the same zone, or none."""

import pytest

from tfsteps.text.timezones import fix


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("GMT+3", "Etc/GMT-3"),
        ("GMT-5", "Etc/GMT+5"),
        ("UTC+3", "Etc/GMT-3"),
        ("Etc/UTC-2", "Etc/GMT+2"),
        ("+03:00", "Etc/GMT-3"),
        ("gmt+0", "UTC"),
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("America/New York", "America/New_York"),
        ("Europe/Belin", "Europe/Berlin"),
    ],
)
def test_the_zone_that_was_meant(name, meant):
    assert fix(name) == f"Write `{meant}`"


@pytest.mark.parametrize(
    "name",
    ["IST", "PST", "CST", "Beijing", "Asia/Beijing", "Asia/Delhi", "+05:30", "GMT+25", "Louisville", "Etc/GMT+03", ""],
)
def test_no_zone_rather_than_another_one(name):
    assert fix(name).startswith("Write a name such as")


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "Etc/GMT-3", "EST"])
def test_a_zone(name):
    assert fix(name) == ""
