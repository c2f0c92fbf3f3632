"""Objects that belong to a job object: created after it, started when all exist, removed with it."""

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.kube.resource import Resource
from tfsteps.systems.base import LaunchError
from tfsteps.systems.kubernetes import dependents
from tfsteps.systems.kubernetes.dependents import UNFINISHED, apply, complete
from tfsteps.systems.kubernetes.job_kind import ObjectPatch, RenderedJob

JOBS = Resource("batch/v1", "jobs", "Job")
PATH = "/apis/batch/v1/namespaces/ns/jobs"
SERVICES = "/api/v1/namespaces/ns/services"
ITEM = {"metadata": {"name": "a", "namespace": "ns", "uid": "u"}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
WORKERS = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a-worker"}}
RENDERED = RenderedJob(ITEM, [SERVICE, WORKERS], {"spec": {"suspend": False}})
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u"}
DONE = Answer(body={})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(dependents, "_PAUSE_SECONDS", 0.1)


def owned(by="u", name="a"):
    return Answer(body={"metadata": {"name": name, "uid": f"{name}-uid", "ownerReferences": [{"uid": by}]}})


def asked(script, act):
    """Return the error of what is done against a server, if there is one, and (method, path, body) of each request."""
    error = None
    with serve(script) as server:
        try:
            act(Api(server.access(), patience=0))
        except (ApiError, LaunchError) as raised:
            error = raised
        return error, [(item.method, item.path, item.body) for item in server.asked]


def completed(script):
    return asked(script, lambda api: complete(api, JOBS, ITEM, RENDERED))


def test_all_are_made_and_then_the_job_is_let_start():
    error, requests = completed([DONE])
    assert error is None
    assert [(method, path) for method, path, _ in requests] == [
        ("POST", SERVICES),
        ("POST", PATH),
        ("PATCH", f"{PATH}/a"),
    ]
    assert [body["metadata"]["ownerReferences"] for _, _, body in requests[:2]] == [[OWNER], [OWNER]]
    assert requests[2][2] == {"metadata": {"uid": "u", "annotations": {UNFINISHED: None}}, "spec": {"suspend": False}}


def test_a_refused_part_takes_the_job_with_it():
    error, requests = completed([DONE, refusal(403, "Forbidden", "exceeded quota"), refusal(404, "NotFound"), DONE])
    assert "exceeded quota" in str(error)
    method, path, body = requests[-1]
    assert (method, path, body["preconditions"]) == ("DELETE", f"{PATH}/a", {"uid": "u"})
    assert body["propagationPolicy"] == "Background"


def test_a_part_for_which_a_quota_refuses_a_second_request_is_there():
    error, requests = completed([refusal(403, "Forbidden", "exceeded quota"), owned(), DONE])
    assert error is None
    assert [method for method, _, _ in requests] == ["POST", "GET", "POST", "PATCH"]


def test_what_an_earlier_launcher_made_is_left_alone():
    error, requests = completed([refusal(409, "AlreadyExists"), owned(), DONE])
    assert error is None
    assert [method for method, _, _ in requests] == ["POST", "GET", "POST", "PATCH"]


def test_garbage_of_a_job_of_this_name_is_waited_for():
    conflict = refusal(409, "AlreadyExists")
    error, requests = completed([conflict, owned(by="old"), conflict, refusal(404, "NotFound"), DONE])
    assert error is None
    assert [method for method, _, _ in requests] == ["POST", "GET", "POST", "GET", "POST", "POST", "PATCH"]


def test_a_stop_ends_the_wait_for_garbage():
    def stopped(api):
        api.stopping.set()
        complete(api, JOBS, ITEM, RENDERED)

    with pytest.raises(Stopped):
        asked([refusal(409, "AlreadyExists"), owned(by="old")], stopped)


def test_what_stays_anothers_is_not_touched(monkeypatch):
    monkeypatch.setattr(dependents, "_GARBAGE_SECONDS", 0.5)

    def script(script_of_owner):
        return {"POST": refusal(409, "AlreadyExists"), "GET": owned(by="other"), "DELETE": DONE}[script_of_owner.method]

    error, requests = completed(script)
    assert "Service ns/a exists and is not this job's" in str(error)
    assert [path for method, path, _ in requests if method == "DELETE"] == [f"{PATH}/a"]


PAUSE = {"spec": {"suspend": True}}


@pytest.mark.parametrize(
    ("answer", "changed"),
    [
        (Answer(body=ITEM), [("PATCH", f"{PATH}/a", {**PAUSE, "metadata": {"uid": "u"}})]),
        (owned(), [("PATCH", f"{PATH}/a", {**PAUSE, "metadata": {"uid": "a-uid"}})]),
        (owned(by="another"), []),
        (refusal(404, "NotFound"), []),
    ],
)
def test_a_change_is_made_to_the_jobs_own_objects_alone(answer, changed):
    change = ObjectPatch(resource=JOBS, name="a", patch=PAUSE)
    error, requests = asked([answer, DONE], lambda api: apply(api, [change], "ns", "u"))
    assert error is None
    assert requests[1:] == changed


def test_objects_found_by_label_are_deleted_if_they_are_the_jobs_own():
    items = [owned(name="a").body, owned(by="another", name="b").body]
    change = ObjectPatch(resource=JOBS, selector="job=a")
    answer = Answer(body={"metadata": {}, "items": items})
    error, requests = asked([answer, DONE], lambda api: apply(api, [change], "ns", "u"))
    assert error is None
    assert [(method, path) for method, path, _ in requests] == [("GET", PATH), ("DELETE", f"{PATH}/a")]
