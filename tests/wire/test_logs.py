"""Pod logs at the wire: each line once and in order, whatever the connection does."""

import contextlib
import datetime as dt
import itertools
import json
import threading
import time

import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import log_lines, logs
from tfsteps.kube.client import Api
from tfsteps.kube.event_loop import EventLoop
from tfsteps.kube.logs import ContainerLog


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(logs, "_LONGEST_WITH_LINES", 0.05)
    monkeypatch.setattr(logs, "_NEWS_SECONDS", 0.05)


def line(second, text, fraction="000000000", zone="Z"):
    return f"2026-11-21T08:00:{second:02d}.{fraction}{zone} {text}\n".encode()


def seconds(stamp):
    return dt.datetime.fromisoformat(stamp.decode()).timestamp()


class Reading:
    """What a reader said."""

    def __init__(self):
        self.lines = []
        self.closed = []
        self.partials = []
        self.blocks = 0
        self.incomplete = False

    def put(self, lines):
        self.blocks += 1
        self.lines += zip(map(seconds, lines.stamps), lines.texts, strict=True)
        self.incomplete |= lines.incomplete

    @property
    def texts(self):
        return [text for _, text in self.lines]


@contextlib.contextmanager
def reading(script, *, tls=False, **how):
    """Read a scripted pod's log; yields (server, reading, reader)."""
    read = Reading()
    with serve(script, tls=tls) as server:
        api = Api(server.access())
        loop = EventLoop()
        log = ContainerLog(
            loop,
            api,
            "ns",
            "p",
            "tensorflow",
            put=read.put,
            closed=read.closed.append,
            partial=read.partials.append,
            **how,
        )
        try:
            yield server, read, log
        finally:
            api.stopping.set()
            loop.close()


def test_lines_come_with_their_time():
    whole = Answer(parts=[line(1, "one"), line(2, "two", "500000000")])
    with reading([whole]) as (server, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two"]
        assert read.lines[1][0] - read.lines[0][0] == 1.5
        assert read.closed == [""]
    assert server.asked[0].query == {"container": "tensorflow", "timestamps": "true", "follow": "true"}


def test_a_followed_log_that_has_ended_is_not_followed_again_before_the_watch_tells_why(monkeypatch):
    monkeypatch.setattr(logs, "_NEWS_SECONDS", 60.0)
    with reading(lambda _asked: Answer(parts=[line(1, "one")])) as (server, read, log):
        until(lambda: read.texts)
        time.sleep(0.5)
        log.tell(0, ended=True)
        until(lambda: read.closed)
    assert [asked.query["follow"] for asked in server.asked] == ["true", "false"]


@pytest.mark.parametrize(("second", "notes"), [(1, 1), (3, 0)], ids=["behind", "in step"])
def test_a_new_empty_file_is_a_gap_if_reading_was_behind_when_the_file_before_ended(second, notes):
    def script(asked):
        if asked.query["follow"] == "true":
            return Answer(parts=[line(1, "one"), 1.5, line(second, "two", "100000000")])
        return Answer(body=b"")

    with reading(script) as (_, read, log):
        until(lambda: read.texts[1:2])
        log.tell(0, ended=True)
        until(lambda: read.closed)
    assert read.texts[:2] == [b"one", b"two"]
    assert [b"and the node has begun a new log file" in text for text in read.texts[2:]] == [True] * notes
    assert read.incomplete == bool(notes)


def test_lines_that_come_fast_are_taken_together_though_each_has_its_own_tls_record():
    parts = [part for i in range(3000) for part in (line(i // 100, f"line {i}", f"{i % 100:09d}"), 0.0001)]
    with reading([Answer(parts=parts)], tls=True) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"line %d" % i for i in range(3000)]
        assert read.blocks < 300  # nearly 3000 if each record is taken as it comes


def pod_of_its_name(first, then, *, uid="another"):
    """Answer as for a pod whose log was read once, and then for another pod of its name, with another log."""
    read = []

    def script(asked):
        if not asked.path.endswith("/log"):
            return Answer(body=json.dumps({"metadata": {"uid": uid}}).encode())
        if asked.query.get("previous") == "true":
            return refusal(400, "BadRequest", "previous terminated container not found")
        read.append(asked)
        if len(read) == 1:
            return Answer(parts=first) if first else Answer(body=b"")
        return Answer(body=b"".join(then[-int(asked.query.get("tailLines", "9")) :]))

    return script


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "not reported yet"])
@pytest.mark.parametrize("then", [[], [line(9, "of another")], [line(1, "of another"), line(9, "more")]], ids=len)
@pytest.mark.parametrize("first", [[], [line(1, "one"), 1.1, line(1, "two", "100000000")]], ids=["silent", "lines"])
def test_the_log_of_another_pod_of_the_same_name_is_not_taken_for_its_own(first, then, ended):
    """The operator has recreated the pod, and the watch has not reported it yet."""
    with reading(pod_of_its_name(first, then), uid="own") as (server, read, log):
        until(lambda: server.asked)
        if first:
            until(lambda: read.texts[1:])
        if ended:
            log.tell(0, ended=True)
        if then or ended:
            until(lambda: read.closed)
        assert read.texts == [b"one", b"two"][: len(first)]
        assert not read.incomplete


def test_a_log_whose_last_line_is_gone_has_a_gap_if_the_pod_is_the_same():
    script = pod_of_its_name([line(1, "one")], [line(9, "later")], uid="own")
    with reading(script, uid="own") as (_, read, log):
        until(lambda: read.texts)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts[0::2] == [b"one", b"later"]
        assert b"the node had dropped the one before" in read.texts[1]


WHOLE = [line(1, "one"), line(2, "two"), line(3, "three")]
SHARED = [line(i // 7, f"line {i}", f"{i % 7 // 3:09d}") for i in range(50)]  # stamps that several lines share
OUT_OF_ORDER = [  # two writers' lines, each line with a time of its own
    line(1, "out", "900000000"),
    line(3, "out again"),
    line(2, "err", "950000000"),
    line(3, "err again", "000000001"),
    line(3, "more", "000000003"),
    line(3, "err once more", "000000002"),
    line(3, "last", "000000004"),
]


def node(lines, cuts=(), lost=0):
    """Answer as a kubelet whose log has these lines, up to each of `cuts` in turn, later without those `lost`."""
    cuts, begins = iter(cuts), itertools.chain([0], itertools.repeat(lost))

    def script(asked):
        if asked.query.get("previous") == "true":
            return refusal(400, "BadRequest", "previous terminated container not found")
        if "tailLines" in asked.query:
            return Answer(parts=lines[-int(asked.query["tailLines"]) :])
        cut, start = (
            next(cuts, None),
            asked.query.get("sinceTime", "")[:19].encode(),
        )  # in seconds, as the kubelet has it
        there = [item for item in lines[next(begins) : cut] if item[:19] >= start]
        return Answer(parts=[b"".join(there)] if cut is None else [b"".join(there), "reset"], body=b"")

    return script


@pytest.mark.parametrize(
    ("lines", "cuts"),
    [
        (SHARED, [5, 9, 10, 23, 31, 49]),
        (OUT_OF_ORDER, []),
        *((OUT_OF_ORDER, [cut]) for cut in range(1, 8)),
        (OUT_OF_ORDER, range(1, 8)),
    ],
    ids=[
        *("shared", "out of order, never"),
        *(f"out of order, after {cut}" for cut in range(1, 8)),
        "out of order, after each",
    ],
)
def test_after_a_cut_no_line_is_lost_or_doubled(lines, cuts):
    with reading(node(lines, cuts)) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [item[len(line(1, "")) - 1 : -1] for item in lines]


EQUAL = [line(1, "start"), *[line(1, "retry", "500000000")] * 6, line(2, "end")]
EQUAL_PAIRS = [line(1, "start"), *[line(1, "retry", "500000000"), line(1, "wait", "500000000")] * 3]


@pytest.mark.parametrize("lines", [EQUAL, EQUAL[:-1], EQUAL[1:-1], EQUAL_PAIRS], ids=["more", "last", "all", "pairs"])
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_equal_lines_with_one_time_come_after_a_cut(lines, cut):
    with reading(node(lines, [cut])) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [item[len(line(1, "")) - 1 : -1] for item in lines]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_equal_lines_with_one_time_that_a_node_dropped_are_reported(lost):
    with reading(node(EQUAL, [3], lost=lost)) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.incomplete == (len(read.texts) != len(EQUAL) or lost == 3)
        assert read.texts[-1] == b"end"


def test_a_line_that_was_cut_comes_whole():
    cut = Answer(parts=[line(1, "one"), line(2, "a long line")[:-5], "reset"])
    whole = Answer(parts=[line(1, "one"), line(2, "a long line")])
    with reading([cut, whole]) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"a long line"]


def lives(*, ended):
    """Answer as the kubelet does for a container that was restarted after its first line; the second life waits."""
    asked_before = []

    def script(asked):
        if asked.query.get("previous"):
            lines = [line(1, "first life"), line(2, "its last word")]
            return Answer(parts=lines[-1:] if "tailLines" in asked.query else lines)
        asked_before.append(asked)
        if len(asked_before) == 1 and ended:
            return Answer(parts=[line(1, "first life"), "cut"])
        until(ended.is_set) if ended else None
        return Answer(parts=[line(5, "second life")])

    return script


def test_a_restart_brings_the_rest_of_the_earlier_incarnation_first():
    ended = threading.Event()
    with reading(lives(ended=ended)) as (_, read, log):
        until(lambda: read.texts)
        log.tell(1, ended=True)
        ended.set()
        until(lambda: read.closed)
        assert read.texts == [b"first life", b"its last word", b"second life"]


def test_a_restart_reported_late_yields_the_whole_earlier_incarnation():
    with reading(lives(ended=None)) as (_, read, log):
        until(lambda: read.texts)
        log.tell(1, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"second life", b"first life", b"its last word"]


@pytest.mark.parametrize("pauses", [[60], [0.05] * 1200], ids=["silent", "prints"])
def test_a_restart_reported_late_is_read_before_the_next_one_deletes_its_log(monkeypatch, pauses):
    """A kubelet keeps one earlier log: it deletes the first with the end of the second incarnation."""
    monkeypatch.setattr(logs, "_END_SECONDS", 0.2)
    start = dt.datetime(2026, 11, 21, 8, tzinfo=dt.UTC)

    def goes_on():
        for pause in pauses:
            stamp = (start + (dt.datetime.now(dt.UTC) - began)).isoformat().replace("+00:00", "Z")
            yield f"{stamp} second life\n".encode()
            yield pause

    def script(asked):
        if asked.query.get("previous"):
            return lives(ended=None)(asked)
        return Answer(parts=goes_on())

    began = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=5)
    with reading(script) as (_, read, log):
        until(lambda: read.texts)
        log.tell(1, ended=False)
        until(lambda: b"its last word" in read.texts)
        assert [text for text in read.texts if text != b"second life"] == [b"first life", b"its last word"]


def test_the_end_of_the_stream_is_not_the_end_of_the_container():
    parts = [Answer(parts=[line(1, "one")]), Answer(parts=[line(1, "one"), line(2, "two")])]
    with reading(parts) as (_, read, log):
        until(lambda: len(read.texts) == 2)
        assert not read.closed
        log.tell(0, ended=True)
        until(lambda: read.closed)


def test_a_container_that_is_not_ready_is_asked_again():
    with reading([refusal(400, "BadRequest", "waiting to start"), Answer(parts=[line(1, "one")])]) as (_, read, _log):
        until(lambda: read.texts == [b"one"])


DELETED = "the pod was deleted before its log could be read"
END_MISSING = "its end may be missing: the pod was deleted before it was read again"


@pytest.mark.parametrize(
    ("answers", "lost"),
    [
        ([refusal(404)], DELETED),
        ([Answer(parts=[line(1, "one")]), refusal(404)], ""),
        ([Answer(parts=[line(1, "one")]), refusal(400), refusal(404)], ""),
        ([Answer(parts=[line(1, "one"), "reset"]), refusal(404)], END_MISSING),
        ([Answer(parts=[line(1, "one")]), refusal(502), refusal(404)], END_MISSING),
        (["reset"], DELETED),
        ([Answer(body=b""), refusal(404)], ""),
        ([Answer(body=b""), refusal(502), refusal(404)], END_MISSING),
    ],
)
def test_lines_lost_with_a_deleted_pod_are_reported_once(answers, lost):
    with reading(answers) as (server, read, log):
        until(lambda: len(server.asked) > len(answers))
        log.gone()
        until(lambda: read.closed)
        assert read.closed == [lost]


@pytest.mark.parametrize("refused", [refusal(429), refusal(500), "reset"])
def test_a_log_that_was_read_to_its_end_lacks_nothing_if_the_last_check_is_refused(refused):
    def script(asked):
        return refused if "tailLines" in asked.query else Answer(parts=[line(1, "one")])

    with reading(script) as (server, read, log):
        until(lambda: read.texts)
        log.tell(0, ended=True)
        until(lambda: "tailLines" in server.asked[-1].query)
        log.gone()
        until(lambda: read.closed)
        assert (read.texts, read.closed) == ([b"one"], [""])


@pytest.mark.parametrize("message", logs._NO_LOG)
def test_the_kubelets_message_about_a_lost_log_says_nothing_of_its_lines(message):
    def script(asked):
        return Answer(body=message) if asked.query["follow"] == "false" else Answer(parts=[line(1, "one")])

    with reading(script) as (server, read, log):
        until(lambda: read.texts)
        log.tell(0, ended=True)
        until(lambda: "tailLines" in server.asked[-1].query and log.failing)
        log.gone()
        until(lambda: read.closed)
        assert (read.texts, read.closed) == ([b"one"], [""])


def test_lines_that_came_but_were_not_placed_are_reported_when_the_pod_is_gone():
    answers = [Answer(parts=[line(1, "one")]), Answer(parts=[line(5, "five")])]
    with reading(lambda _asked: answers.pop(0) if answers else refusal(404)) as (server, read, log):
        until(lambda: len(server.asked) > 2)
        log.gone()
        until(lambda: read.closed)
        assert (read.texts, read.closed) == ([b"one"], [END_MISSING])


def test_a_log_that_is_known_to_have_more_is_not_called_whole():
    def script(asked):
        if asked.query["follow"] == "true":
            return Answer(parts=[line(1, "one")])
        if "tailLines" in asked.query:
            return Answer(parts=[line(9, "nine")])
        return answers.pop(0) if answers else refusal(404)

    whole = [line(1, "one"), line(2, "two")]
    answers = [Answer(parts=whole), Answer(parts=[*whole, line(3, "three"), "reset"])]
    with reading(script) as (server, read, log):
        until(lambda: read.texts)
        log.tell(0, ended=True)
        until(lambda: not answers and server.asked[-1].query.get("follow") == "false" and read.texts[2:])
        log.gone()
        until(lambda: read.closed)
        assert (read.texts, read.closed) == ([b"one", b"two", b"three"], [END_MISSING])


def test_a_run_that_printed_nothing_does_not_deny_what_the_run_before_printed():
    def script(asked):
        return Answer(parts=[line(1, "one")]) if asked.query.get("previous") == "true" else Answer(body=b"")

    with reading(script, restarts=1) as (server, read, log):
        until(lambda: len(server.asked) > 3)
        log.gone()
        until(lambda: read.closed)
        assert (read.texts, read.closed) == ([b"one"], [""])


def test_the_log_from_before_a_restart_that_could_not_be_read_is_reported():
    def script(asked):
        return refusal(404) if asked.query.get("previous") == "true" else Answer(parts=[line(1, "one")])

    with reading(script) as (server, read, log):
        until(lambda: read.texts)
        log.tell(1, ended=False)
        until(lambda: any(asked.query.get("previous") == "true" for asked in server.asked))
        log.gone()
        until(lambda: read.closed)
        assert read.closed == [END_MISSING]


def test_the_pod_that_gets_the_name_of_a_deleted_one_is_not_read_for_it():
    with reading([Answer(parts=[line(1, "one"), "hang"]), Answer(parts=[line(9, "another")])]) as (server, read, log):
        until(lambda: read.texts)
        log.gone()
        server.hanging.set()
        until(lambda: read.closed)
        assert read.texts == [b"one"]
        assert len(server.asked) == 1


@pytest.mark.parametrize("answer", [refusal(404), refusal(403, "Forbidden", "not now")])
def test_a_server_that_was_started_again_may_not_know_the_pod_or_us_for_a_moment(answer):
    with reading([Answer(parts=[line(1, "one")]), answer, answer, Answer(parts=WHOLE)]) as (_, read, log):
        until(lambda: len(read.texts) == 3)
        assert not read.closed
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two", b"three"]


@pytest.mark.parametrize("status", [403, 404])
def test_a_lasting_refusal_ends_the_log_and_is_reported(status, monkeypatch):
    monkeypatch.setattr(logs, "_REFUSED_SECONDS", 0.5)
    with reading([refusal(status, "", "never")]) as (_, read, _log):
        until(lambda: read.closed)
        assert read.closed == ["never"]


def test_a_refusal_after_the_end_of_the_container_is_reported_at_once():
    with reading([Answer(parts=[line(1, "one")]), refusal(403, "Forbidden", "you may not read logs")]) as (
        _,
        read,
        log,
    ):
        until(lambda: read.texts)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.closed == ["you may not read logs"]


def test_an_earlier_incarnation_whose_log_is_gone_does_not_keep_us_from_the_next_one():
    def script(asked):
        gone = "previous" in asked.query
        return refusal(400, "BadRequest", "previous terminated container not found") if gone else Answer(parts=WHOLE)

    with reading(script, restarts=1) as (_, read, log):
        log.tell(1, ended=True)
        until(lambda: read.closed)
    gone = b"(log incomplete: what the container printed before it was started again is gone from its node)"
    assert read.texts == [gone, b"one", b"two", b"three"]
    assert read.incomplete


def test_an_unreported_restart_yields_the_rest_of_the_earlier_incarnation_first():
    ended = threading.Event()
    ended.set()
    with reading(lives(ended=ended)) as (_, read, log):
        until(lambda: len(read.texts) == 3)
        log.tell(1, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"first life", b"its last word", b"second life"]
        assert not read.incomplete


# --- what a node does to a log


def test_lines_that_share_a_time_come_once_though_others_are_between_them():
    same = [line(1, "a"), line(1, "b"), line(2, "c"), line(1, "d"), line(1, "b"), line(2, "c"), line(1, "e")]
    with reading(node(same, cuts=[4, 5, 6])) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"a", b"b", b"c", b"d", b"b", b"c", b"e"]


def test_lines_after_a_clock_that_was_set_back_are_read():
    lines = [line(50, "one"), line(51, "two"), line(10, "three"), line(11, "four")]
    with reading(node(lines, cuts=[2])) as (_, read, log):
        until(lambda: len(read.texts) == 2)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two", b"three", b"four"]


@pytest.mark.parametrize("time", ["2026-13-01T00:00:00.0Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.9-01:00"])
def test_a_line_with_an_impossible_time_comes_with_the_others(time):
    lines = [WHOLE[0], f"{time} odd\n".encode(), *WHOLE[1:]]
    with reading([Answer(parts=lines)]) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"odd", b"two", b"three"]
        assert read.lines == sorted(read.lines, key=lambda pair: pair[0])


def test_a_line_of_the_kubelet_itself_is_shown_once_and_the_log_goes_on():
    message = b"failed to create fsnotify watcher: too many open files"
    answers = [Answer(parts=[WHOLE[0], message]), Answer(parts=[WHOLE[0], message + b"\n"]), Answer(parts=WHOLE)]
    with reading(answers) as (_, read, log):
        until(lambda: len(read.texts) == 5)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert [text for text in read.texts if not text.startswith(b"(")] == [b"one", message, b"two", b"three"]
        assert read.incomplete


@pytest.mark.parametrize("message", logs._NO_LOG)
def test_the_kubelets_message_about_a_lost_log_is_no_line(message):
    with reading([Answer(parts=[*WHOLE, message + b"of this pod"])]) as (_, read, log):
        until(lambda: len(read.texts) == 3)
        log.gone()
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two", b"three"]
        assert read.closed == [""]


def test_lines_that_the_node_dropped_are_reported_at_their_place():
    lines = [line(i, f"line {i}") for i in range(40)]
    with reading(node(lines, cuts=[20], lost=25)) as (_, read, log):
        until(lambda: len(read.texts) == 36)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        gap = f"(log incomplete: {logs._GAP})".encode()
        numbers = [*range(20), *range(25, 40)]
        expected = [b"line %d" % i for i in numbers]
        assert read.texts == [*expected[:20], gap, *expected[20:]]
        assert read.incomplete


def test_a_search_answer_that_was_cut_does_not_say_that_a_line_is_gone():
    def script(asked):
        if asked.query.get("previous") == "true":
            return refusal(400, "BadRequest", "previous terminated container not found")
        if asked.query["follow"] == "true":
            return Answer(parts=followed.pop(0) if len(followed) > 1 else followed[0])
        searches.append(asked)
        return Answer(body=b"") if len(searches) == 1 else Answer(parts=lines)

    searches, lines = [], [line(i, f"line {i}") for i in range(4)]
    followed = [lines[:2], lines[2:], lines]  # the second lacks what was read
    with reading(script) as (_, read, log):
        until(lambda: len(read.texts) >= 4)
        log.tell(0, ended=True)
        until(lambda: read.closed)
    assert read.texts == [b"line 0", b"line 1", b"line 2", b"line 3"]


def test_an_end_that_is_told_while_the_place_is_searched_is_known_to_the_next_request():
    def script(asked):
        if asked.query["follow"] == "true":
            return Answer(parts=followed.pop(0) if followed else [*lines, "hang"])
        if "tailLines" not in asked.query:
            log.tell(0, ended=True)
        return Answer(parts=lines)

    lines = [line(i, f"line {i}") for i in range(3)]
    followed = [lines[:1], lines[1:]]  # the second lacks what was read
    with reading(script) as (server, read, log):
        until(lambda: read.closed)
        assert [asked.query["follow"] for asked in server.asked[:4]] == ["true", "true", "false", "false"]
    assert read.texts == [b"line 0", b"line 1", b"line 2"]


def test_a_gap_is_reported_although_the_earlier_incarnation_was_missing():
    answers = [Answer(parts=[line(1, "one")])]

    def script(asked):
        if asked.query.get("previous") == "true":
            return refusal(400, "BadRequest", "previous terminated container not found")
        return answers.pop() if answers else Answer(parts=[line(9, "later")])

    with reading(script, restarts=1) as (_, read, log):
        until(lambda: b"later" in read.texts)
        log.tell(1, ended=True)
        until(lambda: read.closed)
    notes = [f"(log incomplete: {why})".encode() for why in (logs._NO_PREVIOUS, logs._GAP)]
    assert read.texts == [notes[0], b"one", notes[1], b"later"]


def test_a_rotated_log_of_the_earlier_incarnation_comes_once_though_its_answer_broke_off():
    earlier = [line(3, "third"), line(4, "fourth")]
    previous = [earlier, earlier, [earlier[0], "reset"]]  # the first two tell that the last line read is gone

    def script(asked):
        if asked.query.get("previous") != "true":
            return Answer(parts=[line(1, "first")] if asked.query["follow"] == "true" else [line(5, "fifth")])
        return Answer(parts=earlier[-1:] if "tailLines" in asked.query else previous.pop(0) if previous else earlier)

    with reading(script) as (_, read, log):
        until(lambda: read.texts)
        log.tell(1, ended=True)
        until(lambda: read.closed)
    assert read.texts == [b"first", f"(log incomplete: {logs._GAP})".encode(), b"third", b"fourth", b"fifth"]


def test_a_rotated_log_whose_last_line_is_still_there_lacks_nothing():
    lines = [line(i // 20, f"line {i}", f"{i % 20:09d}") for i in range(40)]
    with reading(node(lines, cuts=[30], lost=27)) as (_, read, log):
        until(lambda: len(read.texts) == 40)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"line %d" % i for i in range(40)]
        assert not read.incomplete


def test_bytes_of_a_line_that_does_not_end_are_progress(monkeypatch):
    monkeypatch.setattr(log_lines, "_PARTIAL_SECONDS", 0.2)
    bar = itertools.chain([line(1, "one"), line(2, "")[:-1]], *(([0.1, b"10%\r"]) for _ in range(40)), [b"\n"])
    with reading([Answer(parts=bar)]) as (_, read, log):
        until(lambda: len(read.texts) == 2)
        log.tell(0, ended=True)
        assert 3 <= len(read.partials) <= 25


def test_any_bytes_and_any_length():
    odd, long = b"\xff\xfe\x00 odd", b"x" * (3 << 20)
    stamp = b"2026-11-21T08:00:01.5+02:00 "
    with reading([Answer(parts=[stamp + odd + b"\n" + stamp + long + b"\n"])]) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts[0] == odd
        assert b"".join(read.texts[1:]) == long
        assert max(len(text) for text in read.texts) <= (1 << 20) + (1 << 17)


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
    with reading(rest) as (server, read, log):
        until(lambda: server.asked)
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two", b"three"]
        assert read.closed == [""]


def test_a_log_in_page_is_not_taken_for_a_log():
    page = Answer(body=b"<html>\nlog in\n</html>\n", headers={"Content-Type": "text/html; charset=utf-8"})
    with reading([page, page, Answer(parts=[b"".join(WHOLE)])]) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two", b"three"]
        assert read.closed == [""]


def test_a_last_line_without_an_end():
    with reading([Answer(parts=[line(1, "one"), line(2, "two")[:-1]])]) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two"]


def test_a_last_line_without_an_end_that_is_too_long_for_one():
    long = line(2, "x" * (3 << 20))[:-1]
    with reading(lambda _asked: Answer(parts=[line(1, "one"), long])) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts[0] == b"one"
        assert b"".join(read.texts[1:]) == b"x" * (3 << 20)
        assert not read.incomplete


def test_the_beginning_of_a_line_that_was_read_whole_later_is_no_line_when_the_pod_is_gone():
    whole = [line(1, "one"), line(2, "two three")]
    answers = [Answer(parts=[whole[0], whole[1][:-7]]), Answer(parts=[*whole, line(3, "four")[:12], "reset"])]
    gone = refusal(404, "NotFound")
    with reading(lambda _asked: answers.pop(0) if answers else gone) as (_, read, log):
        until(lambda: read.texts[1:])
        until(lambda: log.failing)
        log.gone()
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two three"]
        assert read.closed == [END_MISSING]


def test_a_message_of_the_node_is_no_line_when_the_pod_is_gone():
    message = b"unable to retrieve container logs for containerd://1"
    answers = [Answer(parts=[line(1, "one")[:-1]]), Answer(parts=[message])]
    gone = refusal(404, "NotFound")
    with reading(lambda _asked: answers.pop(0) if answers else gone) as (_, read, log):
        until(lambda: log.failing)
        log.gone()
        until(lambda: read.closed)
        assert read.texts == [b"one"]


def test_the_beginning_of_the_first_line_is_one_line_if_the_container_was_started_again():
    def script(asked):
        if asked.query.get("previous"):
            return Answer(parts=[line(1, "one")[:-1]])
        return Answer(parts=[line(1, "one")[:-1]]) if len(answered) < 1 else gone

    answered, gone = [], refusal(404, "NotFound")
    with reading(script) as (server, read, log):
        until(lambda: server.asked)
        time.sleep(0.2)
        answered.append(True)
        log.tell(1, ended=False)
        until(lambda: log.failing and read.texts)
        log.gone()
        until(lambda: read.closed)
        assert read.texts == [b"one"]


def test_an_answer_that_is_cut_within_what_was_read_is_not_the_end():
    def script(asked):
        if asked.query["follow"] == "true":
            return Answer(parts=[line(1, "one"), line(2, "two")])
        if "tailLines" in asked.query:
            return Answer(parts=[line(2, "two"), line(3, "three")])
        cut = [] if seen else [line(1, "one"), line(2, "two")[:-3]]
        seen.append(True)
        return Answer(parts=cut or [line(1, "one"), line(2, "two"), line(3, "three")])

    seen = []
    with reading(script) as (_, read, log):
        until(lambda: read.texts[1:])
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"one", b"two", b"three"]


def test_the_beginning_of_a_line_is_kept_when_another_pod_gets_the_name():
    other = Answer(body={"metadata": {"uid": "u2"}})
    logs_of = [Answer(parts=[line(1, "one"), line(2, "tw")[:-1]]), Answer(parts=[line(4, "other pod")])]
    with reading(lambda asked: logs_of.pop(0) if asked.path.endswith("/log") else other, uid="u1") as (_, read, _log):
        until(lambda: read.closed)
        assert read.texts == [b"one", b"tw"]
        assert read.closed == [""]


def test_a_last_line_without_an_end_before_a_restart():
    def script(asked):
        if asked.query.get("previous"):
            return Answer(parts=[line(1, "one")[:-1]])
        return Answer(parts=[line(2, "two")])

    with reading(script, restarts=1) as (_, read, log):
        log.tell(1, ended=True)
        until(lambda: read.closed)
    assert read.texts == [b"one", b"two"]


def test_a_log_is_read_since_a_time_and_then_from_its_position():
    whole = [line(1, "one"), line(4, "two")]
    position = log_lines.Position()
    with serve(node(whole)) as server:
        api = Api(server.access())
        since = seconds(b"2026-11-21T08:00:02Z") + 0.9
        first, again = ([*logs.read_log(api, "ns", "p", "c", position, since=since)] for _ in range(2))
    assert [lines.texts for lines in first] == [[b"two"]]
    assert again == []
    asked = [item.query["sinceTime"] for item in server.asked]
    assert asked == ["2026-11-21T08:00:02Z", "2026-11-21T08:00:03Z"]


def test_a_line_that_is_unfinished_when_the_log_is_read_comes_whole_when_it_is_followed():
    answers, position = [[line(1, "one"), line(2, "tw")[:-1]], [line(1, "one"), line(2, "two")]], log_lines.Position()
    with serve(lambda _asked: Answer(parts=answers.pop(0) if len(answers) > 1 else answers[0])) as server:
        before = [*logs.read_log(Api(server.access()), "ns", "p", "c", position, rest=False)]
    assert [lines.texts for lines in before] == [[b"one"]]
    with reading([Answer(parts=answers[0])], position=position) as (_, read, log):
        log.tell(0, ended=True)
        until(lambda: read.closed)
        assert read.texts == [b"two"]
