"""From the platform's answers to lines: rotated files, answers that end anywhere, and lines that are cut."""

import random

import pytest

from tests.hai import long_logs, pods
from tests.hai.printing import BEGUN, NOTE, Chain, Rank, wrong
from tfsteps.platforms.hai import logs
from tfsteps.platforms.hai.logs import NOTHING_YET, RankLog, event_time, gaps

_AT = "[2026-01-02 03:04:05.000001] "
_WORDS = [
    b"step 1 ",
    "\u635f\u5931 ".encode(),
    b"\xff\xfe\xb0",
    b"[",
    b"[2026-01-02 03:04:05.000001] ",
    b"\r",
    b"loss=0.1 ",
]


def line(rng):
    """Return a line of 0 to 10,000 bytes, mostly a short one."""
    length = rng.choice((0, 20, 80, 80, 80, 300, 300, 2000, 5000, 10000)) * rng.random()
    text = b""
    while len(text) < length:
        text += rng.choice(_WORDS)
    return b"%06x %b\n" % (rng.randrange(1 << 24), text) if rng.random() < 0.95 else b"\n"


@pytest.mark.parametrize("seed", range(30))
def test_each_line_comes_once_and_in_order_whatever_the_pieces_files_and_questions(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    size = rng.choice((60_000, 120_000, 400_000))
    monkeypatch.setattr(logs, "_FILE_BYTES", size // 2)
    with Chain(tmp_path) as chain:
        rank, log, entries, lines = Rank(chain.folder(), 0, size=size), RankLog(), [], []
        files, overwritten = 1, False
        rank.print(BEGUN)
        for _ in range(rng.choice((300, 1500))):
            rank.now += rng.choice((0.000001, 0.000001, 0.001, 0.1))
            rank.print(line(rng))
            while rank.waiting > 8000 or (rank.waiting and rng.random() < 0.5):
                rank.write(rng.randrange(1, 6000))
            if rng.random() < 0.05:
                entries += log.read(chain.ask())
                overwritten = overwritten or rank.files - files >= pods.FILES
                files = rank.files
            if rng.random() < 0.003:
                rank.stop()
                lines += rank.lines
                chain.again()
                rank = Rank(chain.folder(), 0, size=size, now=rank.now + 5)
                rank.print(BEGUN)
                files = 1
        if rng.random() < 0.5:
            rank.write()
        rank.stop()
        while more := log.read(chain.ask(), whole=True):
            entries += more
        assert wrong([*lines, *rank.lines], entries, gaps=overwritten) == ""


def test_an_hour_at_the_limit_begins_without_a_loss_and_with_small_answers(tmp_path):
    outcome = long_logs.run(tmp_path, seconds=90, ranks=2)
    assert outcome.files > 4  # rotated
    assert (outcome.lost, outcome.doubled, outcome.gaps) == (0, 0, 0)
    assert outcome.largest < 1.1 * pods.RATE  # what was new
    assert outcome.asked < 1.1 * 2 * 90


@pytest.fixture
def chain(tmp_path):
    with Chain(tmp_path) as chain:
        yield chain


def printed(rank, *texts):
    for text in texts:
        rank.now += 0.01
        rank.print(text)


def texts(entries):
    return [text for _, text in entries]


def test_nothing_yet_is_no_line(chain):
    log = RankLog()
    assert chain.ask()(None)["data"] == NOTHING_YET
    assert log.read(chain.ask()) == []
    assert log.last_seen is None


def test_a_line_that_is_still_being_written_comes_whole_and_once_and_is_known_before(chain):
    rank, log = Rank(chain.folder(), 0), RankLog()
    printed(rank, b"a\n", b" 10%\r 20%\n", b"c\n")
    rank.write(2 * len(pods.stamped(b"")) + len("a\n 10%"))
    assert texts(log.read(chain.ask())) == [b"a"]
    assert log.rest == b" 10%"
    rank.write()
    assert texts(log.read(chain.ask())) == [b" 10%\r 20%", b"c"]
    assert texts(log.read(chain.ask())) == []


def test_at_the_end_an_unfinished_line_is_one_but_not_what_is_left_of_a_time_stamp(chain):
    rank, log = Rank(chain.folder(), 0), RankLog()
    printed(rank, b"a\n", b"b")
    rank.write()
    assert texts(log.read(chain.ask(), whole=True)) == [b"a", b"b"]
    assert log.read(chain.ask(), whole=True) == []
    chain.again()
    rank, log = Rank(chain.folder(), 0, now=rank.now + 5), RankLog()
    printed(rank, b"c\n", b"d")
    rank.write(len(pods.stamped(b"c\n")) + 10)
    assert texts(log.read(chain.ask(), whole=True)) == [b"a", b"b", b"c"]


def test_lines_that_were_overwritten_are_a_gap_and_what_follows_comes(chain):
    rank, log = Rank(chain.folder(), 0, size=5_000), RankLog()
    printed(rank, BEGUN, b"first\n", b"second\n")
    rank.write()
    log.read(chain.ask())
    for number in range(1000):
        printed(rank, b"%d\n" % number)
        rank.write()
    note, *rest = texts(log.read(chain.ask()))
    assert NOTE.fullmatch(note.decode())
    assert b"HAI overwrote earlier lines" in note
    assert rest == [b"%d" % number for number in range(1000 - len(rest), 1000)]
    assert len(rest) > 300
    assert log.incomplete
    assert gaps(["worker-1"]) == ["Log lines may be missing, as the lines `(log incomplete: ...)` say: worker-1."]
    printed(rank, b"more\n")
    rank.write()
    assert texts(log.read(chain.ask())) == [b"more"]


def test_a_log_whose_beginning_was_overwritten_is_marked_as_incomplete(chain, monkeypatch):
    monkeypatch.setattr(logs, "_FILE_BYTES", 2_500)
    rank, log = Rank(chain.folder(), 0, size=5_000), RankLog()
    printed(rank, BEGUN)
    for number in range(1000):
        printed(rank, b"%d\n" % number)
        rank.write(60 if number < 999 else None)
    note, *_, last = texts(log.read(chain.ask()))
    assert NOTE.fullmatch(note.decode())
    assert last == b"999"


def test_a_line_cut_over_two_files_is_joined_and_only_the_newer_file_is_asked_for_again(chain):
    rank, log = Rank(chain.folder(), 0, size=2_000_000), RankLog()
    printed(rank, BEGUN)
    while rank.files == 1:
        for number in range(100):
            printed(rank, b"%d %b\n" % (number, b"x" * 1000))
        rank.write(rank.waiting - 500)
        log.read(chain.ask())
        chain.sizes.clear() if rank.files == 1 else None
    printed(rank, b"a\n", b"b\n")
    rank.write()
    lines = log.read(chain.ask())
    assert lines
    assert max(chain.sizes) < 250_000


@pytest.mark.parametrize("text", [b"x" * 10_000, "\u635f\u5931".encode("gbk") * 30], ids=["cut", "not_utf-8"])
def test_answers_are_small_also_where_lines_do_not_have_the_length_that_is_shown(chain, text):
    rank, log, lines = Rank(chain.folder(), 0), RankLog(), []
    printed(rank, BEGUN)
    for number in range(4_000_000 // len(text)):
        printed(rank, b"%d %b\n" % (number, text))
        if rank.waiting > 52_000:
            rank.write(51_200)
            lines += texts(log.read(chain.ask()))
            assert chain.sizes[-1] < 2.5 * 51_200
    assert [int(line.split()[0]) for line in lines[1:]] == [*range(len(lines) - 1)]
    assert len(lines) > 100


def test_a_clock_that_is_set_back_costs_no_line(chain):
    rank, log = Rank(chain.folder(), 0), RankLog()
    printed(rank, BEGUN, b"a\n", b"b\n")
    rank.write()
    log.read(chain.ask())
    rank.now -= 3600
    for text in (b"c\n", b"d\n", b"e\n"):
        printed(rank, text)
        rank.write()
        assert texts(log.read(chain.ask())) == [text[:-1]]
    assert log.read(chain.ask(), whole=True) == []


def test_the_time_of_a_line_is_that_of_its_stamp_in_utc(chain):
    rank, log = Rank(chain.folder(), 0, now=1_800_000_000.25), RankLog()
    rank.print(b"a\n")
    rank.write()
    assert log.read(chain.ask(), whole=True) == [(b"2027-01-15T08:00:00.250000Z", b"a")]


def test_an_event_that_is_read_late_has_the_time_of_its_line():
    expected = 1_800_000_000.0
    stamp = b"2027-01-15T08:00:00.000000Z"
    assert event_time(stamp, expected + 3600) == expected
    assert event_time(stamp, expected + 5) == expected + 5  # two clocks
    assert event_time(b"", expected) == expected


def read(*lines):
    seen = {"id": 1, "offset": 0, "timestamp": "2026-01-02T03:04:05.000001", "mtime": 1767294245.0}
    begun, *rest = texts(
        RankLog().read(lambda _: {"data": f"{_AT}{BEGUN.decode()}{''.join(lines)}", "last_seen": seen})
    )
    assert begun == {"event": "begun"}
    return rest


def test_a_report_of_an_agent_is_no_line_and_the_text_before_it_is_one():
    ended = {"event": "ended", "code": 3}
    mark = '::tfsteps::{"event": "ended", "code": 3}\n'
    assert read(f"{_AT}50%{mark}") == [b"50%", ended]
    assert read(f"{_AT}50%\r\n", f"{_AT}{mark}") == [b"50%", ended]
    assert read(f"{_AT}\n", f"{_AT}\r\n", f"{_AT}{mark}") == [b"", ended]  # the agent began on a new line
    assert read(f"{_AT}\r\n", f"{_AT}a\n") == [b"", b"a"]


def test_a_mark_that_somebody_else_wrote_or_that_was_cut_is_text():
    assert read(f"{_AT}a ::tfsteps:: b\n") == [b"a ::tfsteps:: b"]
    cut = f'::tfsteps::{{"event": "{"x" * 5000}'[:4067] + pods.CUT
    assert read(f"{_AT}{cut}\n") == [cut.encode()]


def test_the_gap_between_the_tasks_of_a_chain_is_no_line():
    assert read(f"{_AT}a\n\n{_AT}b\n") == [b"a", b"b"]


def stamped(*lines):
    return "".join(f"[2026-01-02 03:04:0{second}.000001] {text}\n" for second, text in lines)


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ([(1, "start"), (2, "retry"), (2, "retry"), (2, "retry"), (3, "end")], ["retry", "retry", "end"]),
        ([(2, "retry"), (2, "retry"), (3, "end")], [f"(log incomplete: {logs._GAP})", "end"]),
        ([(2, "retry"), (3, "end")], ["end"]),
    ],
    ids=["whole", "doubtful", "only"],
)
def test_equal_lines_with_one_time_stamp_are_read_or_said_to_be_missing(then, expected):
    log, first = RankLog(), stamped((1, "start"))
    seen = {"id": 1, "timestamp": "2026-01-02T03:04:02.000001", "offset": len(first)}
    log.read(lambda _: {"data": first + stamped((2, "retry")), "last_seen": seen})
    entries = log.read(lambda asked: {"data": stamped((9, "of another file")) if asked else stamped(*then)})
    assert [text.decode() for _, text in entries if isinstance(text, bytes)] == expected
