"""Pod logs at the wire: each line once and in order, whatever the connection does."""

import contextlib
import threading

import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cluster import logs
from tfsteps.cluster.api import Api
from tfsteps.cluster.logs import ContainerLog


def line(second, text, fraction="000000000", zone="Z"):
    return f"2026-11-21T08:00:{second:02d}.{fraction}{zone} {text}\n".encode()


class Reading:
    """What a reader said."""

    def __init__(self):
        self.lines = []
        self.closed = []

    def put(self, at, text):
        self.lines.append((at, text))

    @property
    def texts(self):
        return [text for _, text in self.lines]


@contextlib.contextmanager
def reading(script, **how):
    """Read a scripted pod's log; yields (server, reading, reader)."""
    found = Reading()
    with serve(script) as server:
        api = Api(server.access())
        log = ContainerLog(api, "ns", "p", "tensorflow", put=found.put, closed=found.closed.append, **how)
        try:
            yield server, found, log
        finally:
            api.stopping.set()


def test_lines_come_with_their_time():
    whole = Answer(parts=[line(1, "one"), line(2, "two", "500000000")])
    with reading([whole]) as (server, found, log):
        log.tell(0, ended=True)
        until(lambda: found.closed)
        assert found.texts == [b"one", b"two"]
        assert found.lines[1][0] - found.lines[0][0] == 1.5
        assert found.closed == [""]
    assert server.asked[0].query == {"container": "tensorflow", "timestamps": "true", "follow": "true"}


SHARED = [line(i // 7, f"line {i}", f"{i % 7 // 3:09d}") for i in range(50)]  # stamps that several lines share
LATE = [  # two writers' lines, each line with a time of its own
    line(1, "out", "900000000"),
    line(3, "out again"),
    line(2, "err", "950000000"),
    line(3, "err again", "000000001"),
    line(3, "more", "000000003"),
    line(3, "err once more", "000000002"),
    line(3, "last", "000000004"),
]


@pytest.mark.parametrize(
    ("lines", "cuts"),
    [(SHARED, [5, 9, 10, 23, 31, 49]), (LATE, []), *((LATE, [cut]) for cut in range(1, 8)), (LATE, range(1, 8))],
    ids=[*("shared", "late, never"), *(f"late, after {cut}" for cut in range(1, 8)), "late, after each"],
)
def test_after_a_cut_no_line_is_lost_or_doubled(lines, cuts):
    cuts = iter(cuts)

    def script(asked):
        cut = next(cuts, None)
        start = asked.query.get("sinceTime", "")[:19].encode()  # in seconds, as the kubelet takes it
        parts = [b"".join(each for each in lines[:cut] if each[:19] >= start)]
        return Answer(parts=parts if cut is None else [*parts, "reset"])

    with reading(script) as (_, found, log):
        log.tell(0, ended=True)
        until(lambda: found.closed)
        assert found.texts == [each[len(line(1, "")) - 1 : -1] for each in lines]


def test_a_line_that_was_cut_comes_whole():
    cut = Answer(parts=[line(1, "one"), line(2, "a long line")[:-5], "reset"])
    whole = Answer(parts=[line(1, "one"), line(2, "a long line")])
    with reading([cut, whole]) as (_, found, log):
        log.tell(0, ended=True)
        until(lambda: found.closed)
        assert found.texts == [b"one", b"a long line"]


def lives(*, told):
    """Answer as the kubelet does for a container that was restarted after its first line; the second life waits."""
    asked_before = []

    def script(asked):
        if asked.query.get("previous"):
            lines = [line(1, "first life"), line(2, "its last word")]
            return Answer(parts=lines[-1:] if "tailLines" in asked.query else lines)
        asked_before.append(asked)
        if len(asked_before) == 1 and told:
            return Answer(parts=[line(1, "first life"), "reset"])
        until(told.is_set) if told else None
        return Answer(parts=[line(5, "second life")])

    return script


def test_a_restart_brings_the_rest_of_the_earlier_incarnation_first():
    told = threading.Event()
    with reading(lives(told=told)) as (_, found, log):
        until(lambda: found.texts)
        log.tell(1, ended=True)
        told.set()
        until(lambda: found.closed)
        assert found.texts == [b"first life", b"its last word", b"second life"]


def test_a_restart_that_is_told_of_late_brings_all_of_the_earlier_incarnation():
    with reading(lives(told=None)) as (_, found, log):
        until(lambda: found.texts)
        log.tell(1, ended=True)
        until(lambda: found.closed)
        assert found.texts == [b"second life", b"first life", b"its last word"]


def test_the_end_of_the_stream_is_not_the_end_of_the_container():
    parts = [Answer(parts=[line(1, "one")]), Answer(parts=[line(1, "one"), line(2, "two")])]
    with reading(parts) as (_, found, log):
        until(lambda: len(found.texts) == 2)
        assert not found.closed
        log.tell(0, ended=True)
        until(lambda: found.closed)


def test_a_container_that_is_not_ready_is_asked_again():
    with reading([refusal(400, "BadRequest", "waiting to start"), Answer(parts=[line(1, "one")])]) as (_, found, _log):
        until(lambda: found.texts == [b"one"])


@pytest.mark.parametrize(
    ("answers", "lost"),
    [
        ([refusal(404)], "the pod was deleted before its log could be read"),
        ([Answer(parts=[line(1, "one")]), refusal(404)], ""),
        ([refusal(403, "Forbidden", "you may not read logs")], "you may not read logs"),
    ],
)
def test_what_was_lost_is_said_once(answers, lost):
    with reading(answers) as (_, found, _log):
        until(lambda: found.closed)
        assert found.closed == [lost]


def test_any_bytes_and_any_length():
    odd, long = b"\xff\xfe\x00 odd", b"x" * (3 << 20)
    stamp = b"2026-11-21T08:00:01.5+02:00 "
    with reading([Answer(parts=[stamp + odd + b"\n" + stamp + long + b"\n"])]) as (_, found, log):
        log.tell(0, ended=True)
        until(lambda: found.closed)
        assert found.texts[0] == odd
        assert b"".join(found.texts[1:]) == long
        assert max(len(text) for text in found.texts) <= (1 << 20) + (1 << 17)


WHOLE = [line(1, "one"), line(2, "two"), line(3, "three")]


@pytest.mark.parametrize(
    "first",
    [
        Answer(parts=[WHOLE[0]]),
        Answer(parts=[WHOLE[0], WHOLE[1][:-2]]),
        Answer(parts=[WHOLE[0][:5]]),
        Answer(parts=[b""]),
        Answer(parts=[WHOLE[0], "hang"]),
        Answer(parts=[WHOLE[0], WHOLE[1][:-2], "hang"]),
        "hang",
    ],
    ids=["after a line", "in a line", "in a time stamp", "empty", "silent", "silent in a line", "no answer"],
)
def test_an_answer_that_was_cut_after_the_end_of_the_container_is_not_believed(first, monkeypatch):
    monkeypatch.setattr(logs, "_END_SECONDS", 0.3)
    rest = [first, Answer(parts=[b"".join(WHOLE)])]
    with reading(rest) as (server, found, log):
        until(lambda: server.asked)
        log.tell(0, ended=True)
        until(lambda: found.closed)
        assert found.texts == [b"one", b"two", b"three"]
        assert found.closed == [""]


def test_a_last_line_without_an_end():
    with reading([Answer(parts=[line(1, "one"), line(2, "two")[:-1]])]) as (_, found, log):
        log.tell(0, ended=True)
        until(lambda: found.closed)
        assert found.texts == [b"one", b"two"]


def test_a_last_line_without_an_end_before_a_restart():
    def script(asked):
        if asked.query.get("previous"):
            return Answer(parts=[line(1, "one")[:-1]])
        return Answer(parts=[line(2, "two")])

    with reading(script, restarts=1) as (_, found, log):
        log.tell(1, ended=True)
        until(lambda: found.closed)
    assert found.texts == [b"one", b"two"]
