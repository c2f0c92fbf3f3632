"""From the platform's answers to lines."""

from tfsteps.systems.hai.logs import NOTHING_YET, RankLog

_AT = "[2026-01-02 03:04:05.000001] "


def answer(data, seen=1):
    return {"data": data, "last_seen": {"id": 1, "offset": seen, "timestamp": "t", "mtime": 0.0}}


def test_nothing_yet_is_no_line():
    log = RankLog()
    assert list(log.read({"data": NOTHING_YET, "last_seen": None})) == []
    assert log.last_seen is None


def test_lines_lose_their_time_and_what_was_read_is_handed_back():
    log = RankLog()
    assert list(log.read(answer(f"{_AT}a\n{_AT}\n{_AT}b\r\n", 7))) == [b"a", b"", b"b"]
    assert log.last_seen["offset"] == 7


def test_a_line_that_is_still_being_written_comes_whole_and_once():
    log = RankLog()
    assert list(log.read(answer(f"{_AT}a\n{_AT}b", 7))) == [b"a"]
    assert log.last_seen is None  # the platform would go on behind the unfinished line
    assert list(log.read(answer(f"{_AT}a\n{_AT}bcd\n{_AT}e\n", 9))) == [b"bcd", b"e"]
    assert log.last_seen["offset"] == 9
    assert list(log.read(answer("", 9))) == []


def test_what_has_come_of_an_unfinished_line_is_known():
    log = RankLog()
    for data, rest in [(f"{_AT}a\n{_AT} 10%\r 20%", b" 10%\r 20%"), (f"{_AT}50%::tfsteps::{{", b"50%"), ("", b"")]:
        list(log.read(answer(data)))
        assert log.rest == rest
    list(log.read(answer(f"{_AT}a"), whole=True))
    assert log.rest == b""


def test_at_the_end_an_unfinished_line_is_one():
    assert list(RankLog().read(answer(f"{_AT}a\n{_AT}b"), whole=True)) == [b"a", b"b"]


def test_the_gap_between_the_tasks_of_a_chain_is_no_line():
    assert list(RankLog().read(answer(f"{_AT}a\n\n{_AT}b\n"))) == [b"a", b"b"]


def test_what_an_agent_tells_is_no_line_and_what_stands_before_it_is_one():
    found = list(RankLog().read(answer(f'{_AT}50%::tfsteps::{{"event": "ended", "code": 3}}\n')))
    assert found == [b"50%", {"event": "ended", "code": 3}]


def test_somebody_elses_mark_is_text():
    assert list(RankLog().read(answer(f"{_AT}a ::tfsteps:: b\n"))) == [b"a ::tfsteps:: b"]
