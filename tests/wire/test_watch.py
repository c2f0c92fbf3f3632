"""List-watch at the wire: what a server may do in hours, in a few seconds."""

import contextlib
import threading
import time

import pytest

from tests.support.waiting import until
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.cluster import watch
from tfsteps.cluster.api import Api, Resource
from tfsteps.cluster.watch import Changed, Deleted, Listed, Refused, Watch

JOBS = Resource("kubeflow.org/v1", "tfjobs", "TFJob")


def item(version, name="a"):
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def listed(version, *items):
    return Answer(body={"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def event(kind, version):
    return {"type": kind, "object": item(version)}


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


@contextlib.contextmanager
def watching(script):
    """Watch a scripted server; yields (server, what was seen)."""
    seen = []
    with serve(script) as server:
        api = Api(server.access())
        Watch(api, JOBS, "ns", seen.append, fieldSelector="metadata.name=a")
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
        assert [type(each) for each in seen] == [Listed, Changed, Changed, Deleted]
        (asked,) = watches(server)
    assert asked.query["resourceVersion"] == "1"
    assert asked.query["fieldSelector"] == "metadata.name=a"
    assert asked.query["allowWatchBookmarks"] == "true"
    assert int(asked.query["timeoutSeconds"]) > 2000


def test_a_watch_that_is_stopped_ends_with_what_comes_next():
    before = set(threading.enumerate())
    stream = Answer(parts=[event("ADDED", 2), *[0.1, event("BOOKMARK", 3)] * 100, "hang"])
    with serve(by_kind([listed(1)], [stream])) as server:
        api, seen = Api(server.access()), []
        Watch(api, JOBS, "ns", seen.append)
        until(lambda: len(seen) == 2)
        [thread] = [each for each in threading.enumerate() if each.name == "watch tfjobs" and each not in before]
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
        assert [type(each) for each in seen] == [Listed, Listed]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_the_last_word(status):
    with watching([refusal(status, "No", "you may not look")]) as (server, seen):
        until(lambda: seen)
        assert seen == [Refused("you may not look", status)]
        before = len(server.asked)
        time.sleep(0.5)
        assert len(server.asked) == before


def test_an_outage_is_waited_out():
    down = [refusal(503)] * 4
    with watching(by_kind([*down, listed(1)], [Answer(parts=["hang"])])) as (_, seen):
        until(lambda: seen)
