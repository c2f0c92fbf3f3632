"""Run folders as full disks, crashes and editors leave them: the commands show what is whole, and never a traceback."""

import datetime as dt
import io
import random
import re

import pytest

from tests.support.log_lines import log_line
from tests.unit.cli.command import output_lines, tfsteps
from tests.unit.cli.statuses import saved
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.log_file import GAP, NOT_SAVED, read_log

LINES = [("worker-0", b"a"), ("worker-1", b"b b"), ("worker-0", b"\xff\x00")]
COMMANDS = (
    ("logs", "r1"),
    ("logs", "r1", "--timestamps"),
    ("logs", "r1", "worker-0", "--tail", "1"),
    ("show", "r1"),
    ("show", "r1", "--output", "json"),
    ("runs",),
    ("runs", "--output", "json"),
    ("report", "r1"),
    ("debug", "r1"),
    ("stop", "r1"),
)
VALUES = (b"-1", b"1e400", b"1e300", b"-1e17", b"null", b'""', b"[]", b"{}", b"99999999999999999999", b"1.5")
STRANGE = ("²".encode(), b"\xed\xa0\x80", "\u202e".encode(), b"\x1b]0;x\x07", b"\\ud800", b"\n", b"/../", b"pid x")


def ran(*command):
    """Run a command that may refuse; any exception fails the test."""
    code, _, err = tfsteps(*command)
    assert code in (0, 2, 13), (code, err)
    assert "Traceback" not in err
    return code


def test_torn_lines_are_counted_and_the_others_are_shown():
    attempt = saved(*LINES[:2], state=State.SUCCEEDED)
    line = log_line(1_750_000_000.0, "worker-0", b"torn")
    with attempt.log.open("ab") as file:
        for cut in range(len(line) - 5):
            file.write(line[:cut] + b"\n")
        file.write(bytes(10) + b"\n2026-02-31T00:00:00.000000Z worker-0 x\n" + log_line(2e9, "worker-1", b"after"))
    code, out, err = tfsteps("logs", "r1", "--timestamps")
    assert (code, err) == (0, "")
    assert [text.split("] ")[1] for text in out.splitlines()] == [
        "a",
        "b b",
        "(log incomplete: 39 damaged lines)",
        "after",
    ]


def test_a_log_of_damaged_lines_is_not_an_empty_one():
    saved(*LINES[:1], state=State.SUCCEEDED).log.write_bytes(b"\xff garbage\n")
    assert output_lines("logs", "r1") == ["[log] (log incomplete: 1 damaged line)"]


def garbled(data, dice):
    """Return `data` as it may be after a crash."""
    for _ in range(dice.randint(1, 4)):
        place, length = dice.randrange(len(data) + 1), dice.randint(0, 40)
        match dice.randrange(6):
            case 0:
                data = data[:place]
            case 1:
                data = data[:place] + data[place + length :]
            case 2:
                data = data[:place] + dice.randbytes(length) + data[place + length :]
            case 3:
                data = data[:place] + bytes(length) + data[place + length :]
            case 4:
                numbers = list(re.finditer(rb"(?<=:)[0-9.]+", data))
                if numbers:
                    number = dice.choice(numbers)
                    data = data[: number.start()] + dice.choice(VALUES) + data[number.end() :]
            case 5:
                data = data[:place] + dice.choice(STRANGE) + data[place:]
    return data


@pytest.mark.parametrize("seed", range(20))
def test_no_garbled_record_gives_a_traceback(seed):
    dice = random.Random(seed)
    state = dice.choice(list(State))
    attempt = saved(*LINES, state=state, message="m", warnings=["w"], uid="u", namespace=dice.choice(["", "n"]))
    (attempt.folder / "job.json").write_text('{"name": "m", "command": ["x"], "roles": {"worker": {}}}')
    for name in dice.sample(["status.json", "log", "job.json"], dice.randint(1, 3)):
        file = attempt.folder / name
        file.write_bytes(garbled(file.read_bytes(), dice))
    if not dice.randrange(4):
        (attempt.folder.parent / dice.choice(["²", "007", "-1", "x"])).mkdir()
    for command in COMMANDS:
        ran(*command)


def test_any_log_can_be_read():
    dice = random.Random(7)
    log = b"".join(log_line(1_750_000_000.0 + n, "worker-0", dice.randbytes(9).replace(b"\n", b"")) for n in range(20))
    for _ in range(2000):
        for stamp, replica, _text in read_log(io.BytesIO(garbled(log, dice))):
            assert dt.datetime.fromisoformat(stamp).astimezone()
            assert replica == GAP or int(replica.rpartition("-")[2]) >= 0


RECORDS = ("status.json", "job.json", "usage.jsonl", "curves.json", "pipeline.json")
HOSTILE = {
    "deep": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "a long number": b'{"at":' + b"9" * 6000 + b"}\n",
    "no UTF-8": b'{"note": "\xff"}\n',
    "another shape": b"[1]\n",
    "numbers that overflow": b'{"at":1e308,"window":1e9,"period":1e9,"replica":"w-0","cpu":1e9,"memory":1e18}\n',
    "a time that no calendar has": b'{"at":1e300,"window":1,"replica":"worker-0","cpu":1}\n',
    "an odd name": b'{"at":1,"window":1,"replica":"","cpu":1}\n{"at":2,"window":0,"period":0,"replica":"-","cpu":0}\n',
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("record", RECORDS)
def test_a_hostile_record_costs_itself_alone(record, content):
    attempt = saved(*LINES, state=State.FAILED, run="r1")
    saved(state=State.SUCCEEDED, run="r2")
    (attempt.folder / "job.json").write_text('{"name": "m", "command": ["x"], "roles": {"worker": {}}}')
    folder = attempt.folder.parents[1] if record == "pipeline.json" else attempt.folder
    (folder / record).write_bytes(content)
    for command in (*COMMANDS, ("compare", "r1", "r2"), ("prune", "--older-than", "1d", "--dry-run"), ("rerun", "r1")):
        ran(*command)
    assert "r2" in tfsteps("runs")[1]


def test_runs_that_cannot_be_read_are_not_no_runs(tmp_path, monkeypatch):
    file = saved(run="r1").folder / "status.json"
    for damage in (lambda: file.write_bytes(b""), lambda: (file.unlink(), file.symlink_to("nowhere"))):
        damage()
        err = tfsteps("runs")[2]
        assert f"{file} cannot be read" in err
        assert "except 1 that cannot be read" in err
    assert store.next_attempt("r1", file.parents[1].name) == 1
    home = tmp_path / "file"
    home.write_text("")
    monkeypatch.setenv("TFSTEPS_HOME", str(home))
    code, _, err = tfsteps("runs")
    assert (code, "Not a directory" in err) == (13, True)


@pytest.mark.parametrize("at", [-1e300, 1e300, 253402300800.0])
def test_lost_lines_of_a_job_that_ended_at_no_time_are_told(at):
    saved(*LINES[:1], state=State.SUCCEEDED, ended=at, warnings=[f"3 log lines {NOT_SAVED}"])
    assert output_lines("logs", "r1")[1] == f"[log] (log incomplete: 3 log lines {NOT_SAVED})"


def test_where_the_jobs_of_an_unreadable_status_are_is_not_known_so_clear_removes_nothing():
    """It may name a job on a cluster, and is the only record of that."""
    attempt = saved(state=State.SUCCEEDED)
    (attempt.folder / "status.json").write_text("{}")
    for more in (["--yes"], ["--dry-run"]):
        code, _, err = tfsteps("clear", "r1", *more)
        assert code == 13
        assert "where its jobs are is not known; say so by --on, or remove only the records by `tfsteps rm r1`" in err
    assert store.runs() == ["r1"]
    assert ran("clear", "r1", "--on", "local", "--yes") == 0
    assert store.runs() == []
