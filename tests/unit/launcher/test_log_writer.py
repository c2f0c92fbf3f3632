"""Blocks of log lines on their way into the log file and onto standard output."""

import io
import resource

import pytest

from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import LogLines, ReplicaName, one_line

W0, W1 = ReplicaName("worker", 0), ReplicaName("worker", 1)


def test_every_line_of_a_block_is_printed_with_its_replica():
    out = io.StringIO()
    printer = Printer(out)
    printer.lines(LogLines(0, W1, [b"one", b"", b"\xff two"]))
    printer.lines(LogLines(0, W1, []))  # bytes of a line that has not ended
    assert out.getvalue() == "[worker-1] one\n[worker-1] \n[worker-1] \\xff two\n"


def test_the_last_lines_of_each_replica_are_at_hand(tmp_path):
    logbook = LogWriter(tmp_path / "log")
    for block in range(10):
        logbook.write(LogLines(0, W0, [b"%d" % (block * 10 + i) for i in range(10)]))
    logbook.write(LogLines(0, W1, [b"%d" % i for i in range(100)]))
    logbook.write(one_line(0, W1, b"last"))
    logbook.close()
    assert logbook.tails.last_lines("worker-0", 0) == [str(i) for i in range(60, 100)]
    assert logbook.tails.last_lines("worker-1", 0) == [*map(str, range(61, 100)), "last"]


def test_lines_of_another_incarnation_are_not_those_of_this_one(tmp_path):
    logbook = LogWriter(tmp_path / "log")
    for number in range(3):
        logbook.write(LogLines(0, W0, [b"of %d" % number], incarnation=number))
    logbook.close()
    assert [logbook.tails.last_lines("worker-0", number) for number in range(4)] == [[], ["of 1"], ["of 2"], []]


@pytest.fixture
def disk(tmp_path):
    """A log on a disk of 10 KB; call it with the size that it is to have from then on."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def sized(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    sized(10_000)
    yield sized
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_lines_and_tears_none(disk, tmp_path):
    logbook = LogWriter(tmp_path / "log")
    logbook.write(LogLines(0, W0, [b"%04d" % i for i in range(1000)]))
    logbook.write(LogLines(0, W0, [b"lost"] * 7))
    disk(100_000)
    logbook.write(LogLines(0, W0, [b"room", b"again"]))
    logbook.close()
    texts = [line.rpartition(b" ")[2] for line in (tmp_path / "log").read_bytes().splitlines()]
    whole = texts.index(b"room") - 1
    assert texts[:whole] == [b"%04d" % i for i in range(whole)]
    assert texts[-2:] == [b"room", b"again"]
    assert logbook.lost == 1000 - whole + 7
    assert logbook.error.startswith("File too large")
