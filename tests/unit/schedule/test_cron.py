"""Cron expressions: what is read, what is refused, and how they are written for others."""

import pytest

from tfsteps.schedule.cron import Cron
from tfsteps.spec.problems import RefusedError

READ = {
    "0 9 * * 1-5": "0 9 * * 1-5",
    "*/15 * * * *": "*/15 * * * *",
    "0,30 0-23 1 1 *": "*/30 * 1 1 *",
    "5/20 * * * *": "5,25,45 * * * *",
    "0 0 1,15 * *": "0 0 1,15 * *",
    "0 0 */2 * mon": "0 0 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * 1",
    "0 0 1-31 * 1": "0 0 1-31 * 1",
    "0 0 */1 * 1": "0 0 * * 1",
    "0 0 ? * MON-FRI": "0 0 * * 1-5",
    "0 0 * JAN,jul sun": "0 0 * 1,7 0",
    "0 0 * * 7": "0 0 * * 0",
    "0 0 * * 5-7": "0 0 * * 0,5,6",
    "0 0 * * fri-sun": "0 0 * * 0,5,6",
    "0 0 * * 0-7": "0 0 * * 0-6",
    "  0  0\t* * *  ": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@Annually": "0 0 1 1 *",
}
REFUSED = {
    "0 0 9 * * 1": "Leave the seconds out: `0 9 * * 1`",
    "*/20 * * * * *": "runs start at whole minutes: `* * * * *`",
    "0 9 * *": "has 4 fields, not five",
    "": "has 0 fields",
    "60 * * * *": "the minute '60' is out of range",
    "* 24 * * *": "the hour '24' is out of range",
    "* * 0 * *": "the day of month '0' is out of range",
    "* * * 13 *": "the month '13' is out of range",
    "* * * * 8": "the day of week '8' is out of range",
    "30-10 * * * *": "the minute '30-10' ends before it begins",
    "*/0 * * * *": "has a step of 0",
    "*-5 * * * *": "cannot be read",
    "1,,2 * * * *": "the minute '' cannot be read",
    "a * * * *": "cannot be read",
    "-1 * * * *": "cannot be read",
    "* * L * *": "the day of month 'L' cannot be read",
    "* * * * 5#2": "cannot be read",
    "٣ * * * *": "cannot be read",
    "* * * * monday": "cannot be read",
    "@every 90m": "Write `interval: 90m`",
    "@reboot": "is not a macro",
}


@pytest.mark.parametrize("text", READ)
def test_read_and_written(text):
    cron = Cron.parse(text)
    assert cron.text() == READ[text]
    assert cron.with_seconds() == f"0 {READ[text]}"
    assert Cron.parse(cron.text()).text() == cron.text()


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    with pytest.raises(RefusedError) as caught:
        Cron.parse(text)
    message = f"{caught.value.wrong}. {caught.value.fix}"
    assert REFUSED[text] in message
    assert caught.value.fix[0].isupper()
