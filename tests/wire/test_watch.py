"""List-watch at the wire: what a server may do in hours, in a few seconds."""

import contextlib
import itertools
import json
import threading
import time
from typing import Any, TypedDict

import msgspec
import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube import watch
from tfsteps.kube.client import Api
from tfsteps.kube.resource import Resource
from tfsteps.kube.watch import Changed, Deleted, Listed, Refused, Watch

JOBS = Resource("kubeflow.org/v1", "tfjobs", "TFJob")


def item(version, name="a"):
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def listed(version, *items):
    return Answer(body={"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(kind, version):
    return {"type": kind, "object": item(version)}


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


@contextlib.contextmanager
def watching(script, *, patience=600.0, **how):
    """Watch a scripted server; yields (server, what was seen)."""
    seen = []
    with serve(script) as server:
        api = Api(server.access(), patience=patience)
        Watch(api, JOBS, "ns", seen.append, **how, fieldSelector="metadata.name=a")
        try:
            yield server, seen
        finally:
            api.stopping.set()


def by_kind(lists, watches):
    """Answer lists from one row and watches from another; the last of each for ever."""
    rows = {False: list(lists), True: list(watches)}

    def script(asked):
        row = rows["watch" in asked.query]
        return row.pop(0) if len(row) > 1 else row[0]

    return script


def watches(server):
    return [asked for asked in server.asked if "watch" in asked.query]


def lists(server):
    return [asked for asked in server.asked if "watch" not in asked.query]


def test_a_list_and_then_every_change():
    stream = Answer(
        parts=[event("ADDED", 2), 0.1, event("MODIFIED", 3), event("BOOKMARK", 4), event("DELETED", 5), "hang"]
    )
    with watching(by_kind([listed(1, item(1))], [stream])) as (server, seen):
        until(lambda: len(seen) == 4)
        assert [type(entry) for entry in seen] == [Listed, Changed, Changed, Deleted]
        (asked,) = watches(server)
    assert asked.query["resourceVersion"] == "1"
    assert asked.query["fieldSelector"] == "metadata.name=a"
    assert asked.query["allowWatchBookmarks"] == "true"
    assert int(asked.query["timeoutSeconds"]) > 2000


def test_a_kind_with_large_objects_is_listed_in_pages_of_their_needed_fields():
    class Shape(TypedDict, total=False):
        kind: str
        apiVersion: str
        metadata: Any

    names, seen = [f"{number}" for number in range(250)], []

    def script(asked):
        first, size = int(asked.query.get("continue", 0)), int(asked.query["limit"])
        more = {"continue": str(first + size)} if first + size < len(names) else {}
        items = [{**item(1, name), "spec": "x" * 10_000} for name in names[first : first + size]]
        return Answer(body={"metadata": {"resourceVersion": "7", **more}, "items": items})

    after = {**event("MODIFIED", 8), "object": {**item(8), "spec": "x"}}
    with serve(lambda asked: Answer(parts=[after, 0.3]) if "watch" in asked.query else script(asked)) as server:
        api = Api(server.access())
        Watch(api, msgspec.structs.replace(JOBS, shape=Shape), "ns", seen.append)
        until(lambda: len(seen) == 2)
        api.stopping.set()
    assert seen[0] == Listed([item(1, name) for name in names])
    assert seen[1].item.keys() == {"kind", "apiVersion", "metadata"}
    first, *_, watched = [asked.query for asked in server.asked][:3]
    assert (first["limit"], watched["resourceVersion"]) == ("100", "7")


def test_a_watch_that_is_stopped_ends_with_what_comes_next():
    before = set(threading.enumerate())
    stream = Answer(parts=[event("ADDED", 2), *[0.1, event("BOOKMARK", 3)] * 100, "hang"])
    with serve(by_kind([listed(1)], [stream])) as server:
        api, seen = Api(server.access()), []
        Watch(api, JOBS, "ns", seen.append)
        until(lambda: len(seen) == 2)
        [thread] = [entry for entry in threading.enumerate() if entry.name == "watch tfjobs" and entry not in before]
        api.stopping.set()
        until(lambda: not thread.is_alive())
        assert len(watches(server)) == 1


def test_a_clean_end_goes_on_from_the_newest_version():
    ends = [Answer(parts=[event("MODIFIED", 7)]), Answer(parts=[event("BOOKMARK", 9)]), Answer(parts=["hang"])]
    with watching(by_kind([listed(1)], ends)) as (server, _):
        until(lambda: len(watches(server)) == 3)
        assert [asked.query["resourceVersion"] for asked in watches(server)] == ["1", "7", "9"]
        assert len(lists(server)) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        Answer(parts=[GONE]),
        refusal(410, "Expired"),
        refusal(500),
        refusal(503),
        "reset",
        Answer(parts=[event("MODIFIED", 2), "reset"]),
        Answer(parts=[b'{"type": "MODIFIED", "obj']),
        Answer(parts=[b"[]\n"]),
    ],
    ids=["410 in the stream", "410", "500", "503", "reset", "reset later", "cut in an event", "nonsense"],
)
def test_after_trouble_everything_is_listed_again(trouble):
    with watching(by_kind([listed(1), listed(5, item(5))], [trouble, Answer(parts=["hang"])])) as (server, seen):
        until(lambda: len(watches(server)) == 2)
        assert watches(server)[1].query["resourceVersion"] == "5"
        assert isinstance(seen[-1], Listed)


@pytest.mark.parametrize("trouble", [Answer(parts=[GONE]), Answer(parts=[event("MODIFIED", 3)]), "reset"])
def test_a_server_that_always_ends_the_watch_is_not_flooded(trouble):
    with watching(by_kind([listed(1)], [trouble])) as (server, _):
        time.sleep(3)
        assert len([asked for asked in watches(server) if asked.at < server.asked[0].at + 3]) <= 9
        until(lambda: len(watches(server)) >= 3)


def test_silence_means_that_nobody_is_there(monkeypatch):
    monkeypatch.setattr(watch, "_QUIET_SECONDS", 0.4)
    half_open = Answer(parts=[event("BOOKMARK", 2), "hang"])
    with watching(by_kind([listed(1)], [half_open])) as (server, _):
        until(lambda: len(lists(server)) >= 2)


def test_a_server_without_bookmarks_may_be_silent(monkeypatch):
    monkeypatch.setattr(watch, "_QUIET_SECONDS", 1.0)
    monkeypatch.setattr(watch, "_LONGEST_PAUSE", 0.2)
    with watching(by_kind([listed(1)], [Answer(parts=[0.0, "hang"])])) as (server, _):
        until(lambda: len(lists(server)) >= 2)
        until(lambda: time.monotonic() - server.asked[-1].at > 3)  # were it not believed: 1.3 s at the most


def test_at_the_end_of_its_time_everything_is_listed_again(monkeypatch):
    monkeypatch.setattr(watch, "_WATCH_SECONDS", 0.5)
    with watching(by_kind([listed(1), listed(2)], [Answer(parts=[0.7]), Answer(parts=["hang"])])) as (_, seen):
        until(lambda: len(seen) == 2)
        assert [type(entry) for entry in seen] == [Listed, Listed]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_first_refusal_ends_the_watch_if_it_is_certain(status):
    with watching([refusal(status, "No", "you may not look")], believe_first_refusal=True) as (server, seen):
        until(lambda: seen)
        assert seen == [Refused("you may not look", status, retryable=False)]
        before = len(server.asked)
        time.sleep(0.5)
        assert len(server.asked) == before


HTML = Answer(body=b"<html>log in</html>")


@pytest.mark.parametrize("trouble", [refusal(401), refusal(403), refusal(404), HTML], ids=["401", "403", "404", "HTML"])
def test_a_server_that_starts_again_may_refuse_for_a_while(trouble):
    lists = [listed(1), trouble, trouble, trouble, listed(2, item(2))]
    with watching(by_kind(lists, ["reset", Answer(parts=["hang"])]), believe_first_refusal=True) as (_, seen):
        until(lambda: len(seen) == 2)
        assert seen[1].items[0]["metadata"]["resourceVersion"] == "2"


@pytest.mark.parametrize("trouble", [refusal(403, "No", "you may not look"), HTML], ids=["403", "HTML"])
def test_what_is_refused_for_as_long_as_our_patience_lasts_is_the_end(trouble):
    with watching(by_kind([listed(1), trouble], ["reset"]), patience=1.0) as (server, seen):
        until(lambda: len(seen) == 2)
        assert seen[1].retryable
        assert "you may not look" in seen[1].error or "'<html>log in</html>'" in seen[1].error
        assert len(lists(server)) >= 3


def test_an_outage_is_longer_than_our_patience(monkeypatch):
    monkeypatch.setattr(watch, "_LONGEST_PAUSE", 0.2)
    down = [refusal(503)] * 10
    with watching(by_kind([listed(1), *down, listed(2)], ["reset", Answer(parts=["hang"])]), patience=0.5) as (_, seen):
        until(lambda: len(seen) == 2)
        assert [type(entry) for entry in seen] == [Listed, Listed]


def test_if_only_the_watch_is_refused_lists_yield_the_changes():
    with watching(by_kind([listed(1), listed(2, item(2))], [refusal(403)]), patience=0.5) as (server, seen):
        until(lambda: len(watches(server)) > 4)
        assert {type(entry) for entry in seen} == {Listed}


# --- an answer that is not what was asked for

EMPTY_LIST = {"kind": "TFJobList", "apiVersion": JOBS.api, "metadata": {"resourceVersion": "1"}, "items": []}
WRONG = {
    "HTML": b"<html><body>Please log in</body></html>",
    "null": b"null",
    "nothing": b"",
    "a list": b"[]",
    "an object": b"{}",
    "a text": b'"ok"',
    "cut": b'{"kind": "TFJobList", "apiVersion": "kubeflow.org/v1", "metadata": {"resou',
    "no text": b'{"kind": "\xff\xfe"}',
    "very deep": b"[" * 100_000,
    "another kind": {**EMPTY_LIST, "kind": "PodList"},
    "another API": {**EMPTY_LIST, "apiVersion": "v1"},
    "one object": {**EMPTY_LIST, "kind": "TFJob"},
    "a Status": {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {"resourceVersion": "1"}},
    "no items": {key: value for key, value in EMPTY_LIST.items() if key != "items"},
    "items that are a mapping": {**EMPTY_LIST, "items": {}},
    "an item that is none": {**EMPTY_LIST, "items": [7]},
    "an item without a name": {**EMPTY_LIST, "items": [{"metadata": {}}]},
    "an item of another kind": {**EMPTY_LIST, "items": [{**item(1), "kind": "Pod", "apiVersion": "v1"}]},
    "an item whose name is a number": {**EMPTY_LIST, "items": [{"metadata": {**item(1)["metadata"], "name": 1}}]},
    "no version": {**EMPTY_LIST, "metadata": {}},
    "a version that is a number": {**EMPTY_LIST, "metadata": {"resourceVersion": 1}},
    "metadata that is text": {**EMPTY_LIST, "metadata": "x"},
}


def as_bytes(body):
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_list_that_is_none_is_not_believed(wrong):
    lists = [Answer(body=as_bytes(wrong)), Answer(body=as_bytes(wrong)), listed(3, item(3))]
    with watching(by_kind(lists, [Answer(parts=["hang"])])) as (_, seen):
        until(lambda: seen)
        assert seen[0].items[0]["metadata"]["resourceVersion"] == "3"


@pytest.mark.parametrize(
    "wrong",
    [
        *(body for body in WRONG.values() if isinstance(body, bytes)),
        {"type": "DELETED"},
        {"type": "DELETED", "object": {}},
        {"type": "DELETED", "object": {**item(2), "kind": "Pod", "apiVersion": "v1"}},
        {"type": "DELETED", "object": {**item(2), "metadata": None}},
        {"type": "MODIFIED", "object": {"kind": "TFJob", "apiVersion": JOBS.api, "metadata": {"name": 1}}},
        {"type": "BOOKMARK", "object": {"kind": "TFJob", "apiVersion": JOBS.api, "metadata": {}}},
        {"type": "ERROR", "object": "gone"},
        {"type": ["ADDED"], "object": item(2)},
        {"type": "ENLARGED", "object": item(2)},
    ],
    ids=lambda wrong: (wrong if isinstance(wrong, bytes) else json.dumps(wrong).encode())[:30].decode(errors="ignore"),
)
def test_an_event_that_is_none_is_not_believed(wrong):
    answers = [Answer(parts=[as_bytes(wrong) + b"\n"]), Answer(parts=["hang"])]
    with watching(by_kind([listed(1), listed(5, item(5))], answers)) as (_, seen):
        until(lambda: len(seen) == 2)
        assert [type(entry) for entry in seen] == [Listed, Listed]


def test_while_watches_return_nothing_lists_yield_the_changes():
    with watching(by_kind([listed(1), listed(2), listed(3, item(3))], [Answer(body=b"")])) as (_, seen):
        until(lambda: len(seen) >= 3)
        assert seen[2].items


def test_a_watch_that_fails_internally_reports_it():
    def put(seen):
        if isinstance(seen, Listed):
            raise KeyError("oops")
        errors.append(seen)

    errors = []
    with serve([listed(1)]) as server:
        api = Api(server.access())
        Watch(api, JOBS, "ns", put)
        until(lambda: errors)
        api.stopping.set()
    assert (errors[0].status, errors[0].retryable) == (0, True)
    assert "KeyError: 'oops'" in errors[0].error


def test_whether_anything_can_be_seen():
    with serve(by_kind([refusal(503, message="wait"), refusal(503), listed(1)], [Answer(parts=["hang"])])) as server:
        api, seen, before = Api(server.access()), [], time.monotonic()
        looking = Watch(api, JOBS, "ns", seen.append)
        until(lambda: looking.failing_since)
        assert before <= looking.failing_since <= time.monotonic()
        until(lambda: seen)
        assert looking.failing_since is None
        api.stopping.set()


def test_pauses_start_again_after_a_good_stretch(monkeypatch):
    """A balancer that cuts every connection after a while must not blind us for half a minute each time."""
    monkeypatch.setattr(watch, "_LONG_SECONDS", 0.3)
    cut = Answer(parts=[event("BOOKMARK", 2), 0.4, "reset"])
    with watching(by_kind([listed(1)], [cut])) as (server, _):
        until(lambda: len(watches(server)) >= 9)
        gaps = [after.at - before.at for before, after in itertools.pairwise(watches(server))]
    assert min(gaps[5:8]) < 2.5  # were they to grow: 3.2 s and more


# --- an object that is sought must not be believed gone


LISTS_IT = listed(1, item(1))
GONE_FOR_CERTAIN = refusal(404, "NotFound", about="a")
NOT_GONE = {
    "it is there": Answer(body=item(2)),
    "404 of a proxy": Answer(404, b"404 page not found"),
    "404 without a reason": refusal(404, about="a"),
    "404 about something else": refusal(404, "NotFound", about="ns"),
    "404 that is no Status": Answer(404, {"reason": "NotFound", "details": {"name": "a"}}),
    "HTML": HTML,
    "nothing": Answer(body=b""),
    "403": refusal(403),
    "503": refusal(503),
}


def seeking(lists, watch_answers, gets):
    """Watch for an object by name and uid, with answers to the GETs that ask for it."""
    rows, gets = by_kind(lists, watch_answers), list(gets)

    def script(asked):
        if asked.path.endswith("/tfjobs/a"):
            return gets.pop(0) if len(gets) > 1 else gets[0]
        return rows(asked)

    return watching(script, sought=("a", "a"))


DELETED = Answer(parts=[event("DELETED", 2), "hang"])
HANG = Answer(parts=["hang"])


@pytest.mark.parametrize("get", NOT_GONE.values(), ids=NOT_GONE)
def test_a_list_without_it_is_not_believed(get):
    with seeking([LISTS_IT, listed(1), LISTS_IT], ["reset", HANG], [get]) as (server, seen):
        until(lambda: len(seen) == 2)
        assert [len(entry.items) for entry in seen] == [1, 1]
        assert len(lists(server)) == 4  # a GET is counted, too


@pytest.mark.parametrize("get", NOT_GONE.values(), ids=NOT_GONE)
def test_a_deletion_is_not_believed(get):
    with seeking([LISTS_IT], [DELETED, HANG], [get]) as (_, seen):
        until(lambda: len(seen) == 2)
        assert [type(entry) for entry in seen] == [Listed, Listed]


@pytest.mark.parametrize("get", [GONE_FOR_CERTAIN, Answer(body={"metadata": {"uid": "b"}})], ids=["404", "another"])
def test_what_is_gone_for_certain_is_gone(get):
    with seeking([LISTS_IT], [DELETED], [get]) as (_, seen):
        until(lambda: len(seen) == 2)
        assert isinstance(seen[1], Deleted)
    with seeking([LISTS_IT, listed(1)], ["reset", HANG], [refusal(503), get]) as (_, seen):
        until(lambda: len(seen) == 2)
        assert seen[1].items == []


def test_an_outage_is_waited_out():
    down = [refusal(503)] * 4
    with watching(by_kind([*down, listed(1)], [Answer(parts=["hang"])])) as (_, seen):
        until(lambda: seen)
