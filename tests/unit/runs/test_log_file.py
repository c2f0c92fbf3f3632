"""Logs whose middle was dropped: bounded on disk, and read as one."""

import contextlib
import io
import os
import re
import resource
import signal
import subprocess
import sys
import tracemalloc

import pytest

from tests.support.processes import started
from tests.unit.cli.command import output_lines
from tests.unit.cli.statuses import saved, status
from tfsteps.launcher import background
from tfsteps.launcher.log_writer import LogWriter
from tfsteps.launcher.printer import Printer
from tfsteps.launcher.recorder import Recorder
from tfsteps.report import logs
from tfsteps.runs import log_file
from tfsteps.runs.events import JobChanged, LogLines, ReplicaName, State
from tfsteps.runs.log_file import GAP, LogReader, segments

W0, W1 = ReplicaName("worker", 0), ReplicaName("worker", 1)
KIB, MIB = 1 << 10, 1 << 20
LIMIT = 16 * KIB


def write(book, start, end, replica=W0, block=10):
    """Write the numbers from `start` to `end` as lines, some at a time."""
    for first in range(start, end, block):
        book.write(LogLines(1.0, replica, [b"%06d" % i for i in range(first, min(first + block, end))]))


def read(reader):
    """Return the texts of the new lines, and the number of dropped lines where there is a gap."""
    return [
        int(re.match(rb"\(log incomplete: (\d+) lines", text)[1]) if source == GAP else text.decode()
        for _, source, text in reader.read()
    ]


def read_all(path):
    with LogReader(path) as reader:
        return read(reader)


def size(path):
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def check(lines, count):
    """Check that the lines are the first and the last of `count` numbers, and that the gap has the right number."""
    (gap,) = [position for position, line in enumerate(lines) if isinstance(line, int)]
    assert lines[:gap] == [f"{i:06}" for i in range(gap)]
    last = lines[gap + 1 :]
    assert last == [f"{i:06}" for i in range(count - len(last), count)]
    assert lines[gap] + len(lines) - 1 == count
    return gap, len(last)


@pytest.mark.parametrize("block", [1, 7, 100, 5000])
def test_the_first_and_the_last_lines_are_kept_in_bounded_space(tmp_path, block):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        for start in range(0, 20_000, 5000):
            write(book, start, start + 5000, block=block)
            assert size(path) <= LIMIT
    first, last = check(read_all(path), 20_000)
    line = len(b"1970-01-01T00:00:01.000000Z worker-0 000000\n")
    assert first == LIMIT // 2 // line
    assert LIMIT * 3 // 8 - 5 * line <= last * line <= LIMIT // 2
    assert book.lost == 0
    (warning,) = book.warnings
    assert warning.startswith(f"{20_000 - first - last} lines (")
    assert warning.endswith(
        "were dropped from the middle of the log: it reached its limit of 16.0 KiB (TFSTEPS_LOG_LIMIT)."
    )


@pytest.mark.parametrize("limit", [0, MIB])
def test_a_log_below_its_limit_is_one_file(tmp_path, limit):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, limit)) as book:
        write(book, 0, 5000)
    assert read_all(path) == [f"{i:06}" for i in range(5000)]
    assert [file.name for file in tmp_path.iterdir()] == ["log"]
    assert book.warnings == []


def test_no_gap_is_shown_before_a_line_is_dropped(tmp_path):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        write(book, 0, 300)
    assert segments(path)
    assert read_all(path) == [f"{i:06}" for i in range(300)]
    assert book.warnings == []


def test_a_reader_that_follows_sees_every_line_that_it_can_in_time(tmp_path):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        book.write(LogLines(1.0, W0, [b"%06d" % 0]))
        with LogReader(path) as reader:
            lines = read(reader)
            for start in range(1, 3000, 40):
                write(book, start, start + 40)
                lines += read(reader)
            assert lines == [f"{i:06}" for i in range(3001)]
            write(book, 3001, 9000)  # more than the ring holds
            lines += read(reader)
            write(book, 9000, 9010)
            lines += read(reader)
    check(lines, 9010)


def test_a_reader_that_pauses_in_the_first_part_sees_the_gap(tmp_path):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        write(book, 0, 10)
        with LogReader(path) as reader:
            some = reader.read()
            assert next(some)[2] == b"000000"
            write(book, 10, 5000)
            lines = [f"{0:06}", *(line[2].decode() if line[1] != GAP else GAP for line in some)]
    assert lines.count(GAP) == 1
    assert lines[:10] == [f"{i:06}" for i in range(10)]
    assert lines[-1] == "004999"


def test_a_reader_of_a_log_of_an_earlier_launcher_does_not_read_the_new_one(tmp_path):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        write(book, 0, 5000)
    with LogReader(path) as reader:
        before = read(reader)
        with contextlib.closing(LogWriter(path, LIMIT)) as book:
            write(book, 0, 9000)
        assert read(reader) == []
    check(read_all(path), 9000)
    assert read_all(tmp_path / "log.1") == before
    LogWriter(path, LIMIT).close()
    assert read_all(path) == []
    check(read_all(tmp_path / "log.1"), 9000)
    assert size(path) <= 2 * LIMIT


def test_lines_of_one_mebibyte_are_whole_and_take_little_memory(tmp_path):
    path, limit = tmp_path / "log", 16 * MIB
    with contextlib.closing(LogWriter(path, limit)) as book:
        tracemalloc.start()
        for number in range(100):
            book.write(LogLines(1.0, W0, [bytes([65 + number % 26]) * MIB]))
            assert size(path) <= limit
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    texts = []
    with LogReader(path) as reader:
        for _, source, text in reader.read():
            texts.append(int(text.split()[2]) if source == GAP else (text[:1], len(text), len(set(text))))
    kept = [text for text in texts if isinstance(text, tuple)]
    assert all(text[1:] == (MIB, 1) for text in kept)
    assert [text[0][0] - 65 for text in kept] == [i % 26 for i in [*range(7), *range(100 - len(kept) + 7, 100)]]
    assert len(kept) >= 10
    assert texts[7] == 100 - len(kept)
    assert peak < 8 * MIB


def test_a_line_longer_than_a_segment_is_kept_whole(tmp_path):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        for letter in b"abcdef":
            book.write(LogLines(1.0, W0, [b"short", bytes([letter]) * 3 * KIB, b"short"]))
        book.write(LogLines(1.0, W0, [b"g" * 2 * LIMIT]))
        assert size(path) <= 3 * LIMIT
        write(book, 0, 1000)
    assert size(path) <= LIMIT
    assert book.lost == 0
    lines = read_all(path)
    assert lines[:2] == ["short", "a" * 3 * KIB]
    assert lines[-1] == "000999"


def test_the_log_of_a_killed_launcher_can_be_read(tmp_path):
    code = (
        "import pathlib, sys\n"
        "from tests.unit.runs.test_log_file import *\n"
        "book = LogWriter(pathlib.Path(sys.argv[1]), LIMIT)\n"
        "number = 0\n"
        "while True:\n"
        "    write(book, number, number + 100); number += 100; print(number, flush=True)\n"
    )
    path = tmp_path / "log"
    with started([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as launcher:
        while int(launcher.stdout.readline()) < 3000:
            pass
        launcher.send_signal(signal.SIGKILL)
    lines = read_all(path)
    gap = next(line for line in lines if isinstance(line, int))
    check(lines, gap + len(lines) - 1)
    assert size(path) <= LIMIT


def test_a_concurrent_reader_has_each_line_once_or_a_gap(tmp_path):
    path = tmp_path / "log"
    code = (
        "import pathlib, sys\n"
        "from tests.unit.runs.test_log_file import *\n"
        "book = LogWriter(pathlib.Path(sys.argv[1]), LIMIT)\n"
        "print(flush=True)\n"
        "write(book, 0, 200_000, block=50)\n"
    )
    with started([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as launcher:
        launcher.stdout.readline()
        with LogReader(path) as reader:
            lines = []
            while launcher.poll() is None:
                lines += read(reader)
            lines += read(reader)
    expected = 0
    for line in lines:
        if isinstance(line, int):
            assert line > 0
            expected += line
        else:
            assert int(line) == expected
            expected += 1
    assert expected == 200_000


def test_a_folder_that_vanishes_loses_lines_and_no_more(tmp_path):
    path = tmp_path / "sub" / "log"
    path.parent.mkdir()
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        write(book, 0, 150)
        path.parent.rename(tmp_path / "moved")  # no new file can be created
        write(book, 150, 1000)
        (tmp_path / "moved").rename(path.parent)
        write(book, 1000, 1010)
    lines = read_all(path)
    assert lines[-1] == "001009"
    assert book.lost == 1010 - len(lines)
    assert "No such file" in book.error


def test_a_full_disk_begins_no_second_segment(tmp_path):
    path = tmp_path / "log"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        write(book, 0, 180)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            write(book, 180, 580, block=200)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert book.lost == 400
        assert len(book._segments) == 1, "memory stays flat"
        write(book, 580, 740)
    assert read_all(path) == [f"{i:06}" for i in [*range(180), *range(580, 740)]]
    assert book.lost == 400


def dropped(state=State.SUCCEEDED, **more):
    """Save a run with a log whose middle was dropped."""
    attempt, lock = saved(hold=True, **more)
    with contextlib.closing(LogWriter(attempt.log, LIMIT)) as book:
        write(book, 0, 5000, W0)
        write(book, 5000, 5010, W1)
        recorder = Recorder(status(**more), attempt, book, [])
        recorder.end(JobChanged(at=2.0, state=state))
    return attempt, lock


def test_logs_shows_one_line_at_the_gap_whatever_replica_is_chosen():
    dropped()[1].close()
    lines = output_lines("logs", "latest")
    gap = [line for line in lines if line.startswith("[log] (log incomplete: ")]
    assert len(gap) == 1
    assert lines[-1] == "[worker-1] 005009"
    assert output_lines("logs", "latest", "worker-1") == [*gap, *lines[-10:]]
    assert output_lines("logs", "latest", "--tail", 3) == lines[-3:]
    (warning,) = [line for line in output_lines("show", "latest") if line.startswith("warning")]
    assert "lines (" in warning
    assert gap[0].split()[3] in warning


@pytest.mark.parametrize("saved_lines", [0, 3])
def test_logs_reports_lines_that_a_full_disk_lost(saved_lines):
    attempt, lock = saved(hold=True)
    with contextlib.closing(LogWriter(attempt.log)) as book:
        write(book, 0, saved_lines, W0)
        book.lost, book.error = 86, "No space left on device"
        Recorder(status(), attempt, book, []).end(JobChanged(at=2.0, state=State.SUCCEEDED))
    lock.close()
    lines = output_lines("logs", "latest")
    assert len(lines) == saved_lines + 1
    assert lines[-1] == "[log] (log incomplete: 86 log lines could not be saved: No space left on device)"
    assert output_lines("logs", "latest", "worker-1", "--follow", "--grep", "none") == lines[-1:]


def test_logs_follows_across_the_gap():
    attempt, lock = dropped()
    lock.close()
    assert output_lines("logs", "latest", "--follow") == output_lines("logs", "latest")
    assert "less" in " ".join(output_lines("debug", "latest"))
    assert [str(segment.path) for segment in segments(attempt.log)][-1] in " ".join(output_lines("debug", "latest"))


def test_a_report_shows_the_gap_in_the_log_of_each_replica():
    attempt, lock = dropped()
    lock.close()
    tails = logs.tails(attempt.log, ["worker-0", "worker-1"])
    assert tails["worker-0"].lines[-1].text == "004999"
    assert tails["worker-1"].lines[0].text.startswith("(log incomplete: ")
    assert tails["worker-1"].lines[-1].text == "005009"


def test_a_report_reads_the_end_across_segments(tmp_path, monkeypatch):
    path = tmp_path / "log"
    with contextlib.closing(LogWriter(path, LIMIT)) as book:
        write(book, 0, 5000)
    monkeypatch.setattr(logs, "_READ", 4 * KIB)
    monkeypatch.setattr(logs, "_BLOCK", 64)
    tail = logs.tails(path, ["worker-0"])["worker-0"]
    texts = [int(line.text) for line in tail.lines]
    assert texts == list(range(texts[0], 5000))
    assert 4 * KIB // 44 - 2 <= len(texts) <= 4 * KIB // 44 + 3
    assert tail.earlier


def test_a_copy_is_one_file(tmp_path):
    attempt, lock = dropped()
    lock.close()
    log_file.copy(attempt.log, tmp_path / "copy")
    text = (tmp_path / "copy").read_bytes()
    assert text.count(b"(log incomplete: ") == 1
    kept = [line for line in read_all(attempt.log) if isinstance(line, str)]
    assert [line.split(b" ")[-1].decode() for line in text.splitlines() if b"incomplete" not in line] == kept


def test_a_step_that_follows_a_launcher_prints_the_gap():
    attempt, lock = dropped()
    lock.close()
    out = io.StringIO()
    background.follow(attempt, [Printer(out)])
    lines = out.getvalue().splitlines()
    assert sum(line.startswith("[worker-0] (log incomplete: ") for line in lines) == 1
    assert lines[-1] == "[worker-1] 005009"


def test_the_last_lines_for_a_failure_summary_are_complete(tmp_path):
    book = LogWriter(tmp_path / "log", LIMIT)
    book.write(LogLines(1.0, W0, [b"Traceback (most recent call last):", b"ValueError: no data"]))
    write(book, 0, 5000, W1)
    book.close()
    assert book.tails.last_lines("worker-0", 0) == ["Traceback (most recent call last):", "ValueError: no data"]


def test_the_end_of_a_killed_launcher_is_the_time_of_its_last_segment(monkeypatch):
    attempt, lock = saved(hold=True, system="local", created=100.0)
    with contextlib.closing(LogWriter(attempt.log, LIMIT)) as book:
        write(book, 0, 5000)
    for file in attempt.folder.iterdir():
        os.utime(file, (200, 200))
    os.utime(segments(attempt.log)[-1].path, (300, 300))
    lock.close()
    assert attempt.status().ended == 300.0
