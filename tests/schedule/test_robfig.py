"""Our fire times are those of the cron libraries that the schedulers are built on, asked themselves."""

import calendar
import json
import pathlib
import random
import shutil
import subprocess
import zoneinfo

import pytest

from tfsteps.schedule.cron import Cron
from tfsteps.schedule.fires import next_fire

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not shutil.which("go"), reason="no Go: it builds the libraries")]

SOURCE = pathlib.Path(__file__).with_name("robfig")
ZONES = [
    "UTC",
    "Europe/Berlin",
    "Europe/London",  # its winter is UTC itself
    "America/New_York",
    "America/Havana",  # changes at midnight: a day begins at 1:00
    "Africa/Cairo",  # the same
    "Atlantic/Azores",
    "America/St_Johns",  # -03:30
    "Asia/Kolkata",
    "Asia/Beirut",
    "Australia/Lord_Howe",  # changes by half an hour
    "Pacific/Apia",
    "Africa/Casablanca",  # summer is the standard
]
YEAR = 2026
DAYS = [
    f"{YEAR}-{month:02}-{day:02}" for month, day in [(3, 6), (3, 28), (4, 3), (4, 23), (10, 24), (10, 30), (12, 30)]
]
CASES = 1500
FIRES = 12


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Return a function that takes questions and returns the libraries' answers."""
    program = tmp_path_factory.mktemp("robfig") / "robfig"
    subprocess.run(["go", "build", "-o", program, "."], cwd=SOURCE, check=True)

    def asked(questions):
        lines = "\n".join(json.dumps(question) for question in questions)
        done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return asked


def field(choice, low, high):
    """Return a random field of an expression."""
    kind = choice.randrange(7)
    first = choice.randint(low, high)
    last = choice.randint(first, high)
    texts = ["*", "*", str(first), f"{first}-{last}", f"*/{choice.randint(1, 7)}", f"{first}/{choice.randint(1, 9)}"]
    return texts[kind] if kind < 6 else f"{first}-{last}/{choice.randint(1, 4)},{choice.randint(low, high)}"


def cases():
    """Return random expressions, zones, and instants shortly before a change of clocks."""
    choice = random.Random(5)
    for _ in range(CASES):
        hour = choice.choice([field(choice, 0, 23), str(choice.randint(0, 4))])
        fields = field(choice, 0, 59), hour, field(choice, 1, 31), field(choice, 1, 12), field(choice, 0, 6)
        year, month, day = map(int, choice.choice(DAYS).split("-"))
        after = calendar.timegm((year, month, day, choice.randint(0, 23), choice.randint(0, 59), choice.randint(0, 59)))
        yield " ".join(fields), choice.choice(ZONES), after


def ours(cron, zone, after, *, adjusts_midnight):
    """Return our fire times."""
    fires = []
    while len(fires) < FIRES and (at := next_fire(cron, after, zone, adjusts_midnight=adjusts_midnight)) is not None:
        fires.append(at)
        after = at
    return fires


@pytest.mark.parametrize("version", [1, 3])
def test_start_times_equal_those_of_the_libraries(ask, version):
    parsed = [(text, zone, after, Cron.parse(text)) for text, zone, after in cases()]
    questions = [
        {"Version": version, "Cron": cron.text() if version == 3 else cron.with_seconds(), "Zone": zone, "After": after,
         "Count": FIRES}
        for _, zone, after, cron in parsed
    ]  # fmt: skip
    wrong = []
    for (text, zone, after, cron), answer in zip(parsed, ask(questions), strict=True):
        expected = ours(cron, zoneinfo.ZoneInfo(zone), after, adjusts_midnight=version == 3)
        if answer["Error"] or answer["Fires"] != expected:
            wrong.append((text, zone, after, answer, expected))
    assert wrong == []


def test_what_an_author_writes_means_the_same_to_the_library(ask):
    triples = [(text, zone, after) for text, zone, after in cases()]
    raw = ask(
        {"Version": 3, "Cron": text, "Zone": zone, "After": after, "Count": FIRES} for text, zone, after in triples
    )
    written = ask(
        {"Version": 3, "Cron": Cron.parse(text).text(), "Zone": zone, "After": after, "Count": FIRES}
        for text, zone, after in triples
    )
    assert all(not answer["Error"] for answer in raw)
    assert raw == written


def test_five_fields_given_to_kubeflow_would_have_meant_something_else(ask):
    question = {"Version": 1, "Zone": "UTC", "After": calendar.timegm((YEAR, 3, 1, 0, 0, 0)), "Count": 3}
    five, six = ask([{**question, "Cron": "0 9 * * 1"}, {**question, "Cron": Cron.parse("0 9 * * 1").with_seconds()}])
    assert five["Fires"][1] - five["Fires"][0] == 3600, "every hour, nine minutes past, in January"
    assert six["Fires"][1] - six["Fires"][0] == 7 * 86400
