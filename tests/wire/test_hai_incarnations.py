"""Which incarnation of a rank printed a line, as its agent tells between the lines."""

import itertools
import json

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube.credentials import Access
from tfsteps.platforms.hai.client import Client
from tfsteps.platforms.hai.job import HaiJob
from tfsteps.platforms.hai.ranks.wire import MARK
from tfsteps.runs.events import JobChanged, LogLines, ReplicaChanged, replicas_of

JOB = spec.from_plain({"name": "job", "image": "trainer:1", "roles": {"worker": {}}})
ENDED = {"chain_id": "c", "nb_name": "job", "chain_status": "finished", "worker_status": "failed", "stop_code": 129}


def printed(*lines):
    """Return a rank's log: text that the program printed, and mappings that its agent told."""
    texts = [line if isinstance(line, str) else MARK + json.dumps(line) for line in lines]
    return "".join(f"[2026-01-01 00:00:00.000000] {text}\n" for text in texts)


def follow(log, last_seen=None, before=(), refuse=()):
    answers, tasks, refusals = iter([log] if isinstance(log, str) else log), iter(before), iter(refuse)

    def script(asked):
        if asked.path.endswith("/log"):
            answer = Answer(body={"success": 1, "data": "", "last_seen": last_seen})
            if not (refused := next(refusals, None)):
                answer.body["data"] = next(answers, "")
            return refused or answer
        return Answer(body={"success": 1, "result": {"task": next(tasks, ENDED)}})

    with serve(script) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        client = Client(Access(server=url, namespace="", tls=None, token=lambda _: "t", name="HAI"))
        return list(
            HaiJob(client, replicas_of(JOB.roles.items()), name="job", chain_id="c", created=0.0, host=None).events()
        )


def test_lines_belong_to_the_program_that_was_started_last_also_on_another_node():
    crashed = {"event": "ended", "code": 3}
    seen = follow(
        printed(
            {"event": "begun"},
            {"event": "started"},
            "of the first",
            crashed,
            {"event": "started"},
            "of the second",
            {"event": "begun"},  # HAI took the node away
            {"event": "started"},
            "of the third",
            crashed,
        )
    )
    lines = {text: event.incarnation for event in seen if isinstance(event, LogLines) for text in event.texts}
    assert lines == {b"of the first": 0, b"of the second": 1, b"of the third": 2}
    failed = [event for event in seen if isinstance(event, ReplicaChanged) and event.state == "failed"]
    assert [(event.incarnation, event.restarts, event.exit_code) for event in failed] == [(0, 0, 3), (2, 1, 3)]


def test_a_late_launcher_reports_the_times_of_the_ranks_lines_and_ends():
    log = printed({"event": "begun"}, {"event": "started"}, "a line", {"event": "ended", "code": 3})
    utc = 1767225600.0 - 8 * 3600  # of the lines, on a platform whose clock is eight hours ahead
    seen = {"id": 1, "timestamp": "2026-01-01T00:00:00", "offset": 0, "mtime": utc + 3}
    events = follow(log, seen, [{**ENDED, "chain_status": "running", "worker_status": "running"}])
    lines = [event for event in events if isinstance(event, LogLines)]
    assert [stamp for event in lines for stamp in event.stamps] == [b"2025-12-31T16:00:00.000000Z"]
    assert {event.at for event in events if isinstance(event, ReplicaChanged)} == {utc}
    ends = [event.at for event in events if isinstance(event, JobChanged)]
    assert ends == sorted(ends)
    assert min(ends) > utc + 3600  # when it was seen


def texts(events):
    return [text.decode() for event in events if isinstance(event, LogLines) for text in event.texts]


BUSY = {"503": refusal(503), "reset": "reset", "429": refusal(429, **{"Retry-After": "1"})}


@pytest.mark.parametrize("answer", BUSY.values(), ids=BUSY)
def test_the_last_lines_are_asked_for_again_if_the_platform_is_unavailable(answer):
    assert texts(follow(printed({"event": "begun"}, "bye"), refuse=[answer])) == ["bye"]


def test_a_log_that_has_always_more_is_not_read_for_ever():
    seen = texts(follow(printed(f"line {number}") for number in itertools.count()))
    assert seen[-1] == "(log incomplete: there was more after 20 answers of HAI since the end of the task)"


@pytest.mark.parametrize(
    ("task", "states"), [(1, ["pending", "running", "failed"]), (0, ["pending", "failed"])], ids=["newest", "earlier"]
)
def test_a_program_runs_if_its_task_s_log_is_read_and_the_beginning_was_overwritten(task, states):
    seen = {"id": task, "timestamp": "2026-01-01T00:00:00", "offset": 0, "mtime": 1767225600.0}
    ended = {**ENDED, "id": 1, "id_list": [0, 1]}
    runs = {**ended, "chain_status": "running", "worker_status": "running"}
    before = itertools.chain([runs, runs], itertools.repeat(ended))
    events = follow("the rest of a line\n" + printed("a line"), seen, before)
    assert [event.state for event in events if isinstance(event, JobChanged)] == states
    assert "(log incomplete: its beginning is missing: HAI overwrote it before the log was read)" in texts(events)
