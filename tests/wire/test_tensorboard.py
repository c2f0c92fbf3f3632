"""The TensorBoard of a run: created once, adopted, replaced after its end, and a warning where it cannot be."""

import datetime as dt
import threading
import time

import msgspec
import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.kube.errors import ApiError, Stopped
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.follow import tensorboard
from tfsteps.systems.kubernetes.follow.tensorboard import JobTensorBoard
from tfsteps.systems.kubernetes.tensorboard.request import SETTINGS, URL, TensorBoardRequest, TensorBoardSettings
from tfsteps.tensorboard.address import PUBLIC_URL

JOBS = "/apis/batch/v1/namespaces/ns/jobs"
SERVICES = "/api/v1/namespaces/ns/services"
REQUEST = TensorBoardRequest(
    namespace="ns",
    labels={"tfsteps.dev/run-id": "r"},
    settings=TensorBoardSettings(log_dirs={"": "s3://bucket/r"}, total=1000.0),
)
NAME = REQUEST.name
CONFLICT = refusal(409, "AlreadyExists")
NOW = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@pytest.fixture(autouse=True)
def defaults(monkeypatch):
    monkeypatch.setattr("tfsteps.image.REGISTRY", "docker.io")  # the image is on the nodes
    monkeypatch.setattr(tensorboard, "_PAUSE_SECONDS", 0.05)
    monkeypatch.delenv(PUBLIC_URL, raising=False)


def board(uid="b", state=None, created=NOW, deadline=10**9, **meta):
    conditions = [{"type": state, "status": "True"}] if state else []
    return Answer(
        body={
            "metadata": {"name": NAME, "namespace": "ns", "uid": uid, "creationTimestamp": created, **meta},
            "spec": {"activeDeadlineSeconds": deadline},
            "status": {"conditions": conditions},
        }
    )


def service(owner="b"):
    return Answer(body={"metadata": {"name": NAME, "namespace": "ns", "uid": "s", "ownerReferences": [{"uid": owner}]}})


def started(script, patience=0, request=REQUEST, **options):
    """Return the address or the error, and (method, path, body) of each request."""
    with serve(script) as server:
        try:
            result = tensorboard.start(Api(server.access(), patience=patience), request, **options)
        except (ApiError, ValueError) as error:
            result = error
        return result, [(item.method, item.path, item.body) for item in server.asked]


def methods(requests):
    return [f"{method} {path.rsplit('/', 1)[-1]}" for method, path, _ in requests]


def test_it_is_created_and_owns_its_service():
    address, requests = started([board(), service()], remaining=60.0)
    assert methods(requests) == ["POST jobs", "POST services"]
    assert address.endswith(f"{SERVICES}/{NAME}:http/proxy/")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": "b"}
    assert requests[1][2]["metadata"]["ownerReferences"] == [owner]


def test_that_of_another_task_is_adopted():
    _, requests = started([CONFLICT, board(), CONFLICT, service()])
    assert methods(requests) == ["POST jobs", f"GET {NAME}", "POST services", f"GET {NAME}"]


@pytest.mark.parametrize(
    "answers", [[refusal(403, "Forbidden", "exceeded quota"), refusal(404, "NotFound")], [CONFLICT, refusal(403)]]
)
def test_that_of_another_task_is_not_deleted_if_its_service_is_refused(answers):
    error, requests = started([CONFLICT, board(), *answers])
    assert error.status == 403
    assert not [path for method, path, _ in requests if method == "DELETE"]


def test_a_later_task_extends_its_deadline():
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(hours=2)).isoformat(timespec="seconds").replace("+00:00", "Z")
    _, requests = started([CONFLICT, board(created=old, deadline=3600), board(), CONFLICT, service()], remaining=60.0)
    method, _, body = requests[2]
    assert method == "PATCH"
    assert body["metadata"] == {"uid": "b"}
    assert body["spec"]["activeDeadlineSeconds"] == pytest.approx(7200 + 60 + 3600 + 86400, abs=5)


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_one_that_has_ended_is_replaced(state):
    gone = refusal(404, "NotFound")
    script = [CONFLICT, board("old", state), Answer(body={}), CONFLICT, board("old", state, deletionTimestamp=NOW)]
    address, requests = started([*script, CONFLICT, gone, board("new"), service("new")])
    assert isinstance(address, str), address
    assert methods(requests)[:3] == ["POST jobs", f"GET {NAME}", f"DELETE {NAME}"]
    assert requests[2][2]["preconditions"] == {"uid": "old"}
    assert [method for method, _, _ in requests].count("DELETE") == 1
    assert requests[-1][2]["metadata"]["ownerReferences"][0]["uid"] == "new"


def test_without_its_service_nothing_is_left():
    error, requests = started([board(), refusal(403, "Forbidden", "exceeded quota"), Answer(body={})])
    assert "exceeded quota" in str(error)
    assert (requests[-1][0], requests[-1][2]["preconditions"]) == ("DELETE", {"uid": "b"})


KUBEFLOW = msgspec.structs.replace(REQUEST, settings=msgspec.structs.replace(REQUEST.settings, via="kubeflow"))


def test_the_resource_of_kubeflow_takes_the_place_of_the_service():
    created = Answer(body={"kind": "Tensorboard", "metadata": {"name": KUBEFLOW.name, "namespace": "ns", "uid": "k"}})
    address, requests = started([board(name=KUBEFLOW.name), created], request=KUBEFLOW)
    assert methods(requests) == ["POST jobs", "POST tensorboards"]
    resource = requests[1][2]
    assert resource["spec"] == {"logspath": "s3://bucket/r"}
    assert resource["metadata"]["ownerReferences"][0]["uid"] == "b"
    container = requests[0][2]["spec"]["template"]["spec"]["containers"][0]
    assert "--no-server" in container["args"]
    assert "readinessProbe" not in container
    assert address.endswith(f"/services/{KUBEFLOW.name}:http-{KUBEFLOW.name}/proxy/")
    assert KUBEFLOW.name != NAME


def test_without_kubeflows_controller_nothing_is_left():
    error, requests = started([board(name=KUBEFLOW.name), refusal(404, "NotFound"), Answer(body={})], request=KUBEFLOW)
    assert "the cluster serves no Tensorboard (tensorboard.kubeflow.org/v1alpha1); remove `via`" in str(error)
    assert requests[-1][0] == "DELETE"


def test_an_image_without_a_registry_is_not_created(monkeypatch):
    monkeypatch.setattr("tfsteps.image.REGISTRY", "")
    error, requests = started([])
    assert str(error).startswith("image tfsteps/tensorboard:")
    assert str(error).endswith("; or set tensorboard.image")
    assert requests == []


def test_a_refused_job_is_the_only_request():
    error, requests = started([refusal(403, "Forbidden", "cannot create resource")])
    assert "cannot create resource" in str(error)
    assert len(requests) == 1


# --- beside a job

(KIND,) = registry.kinds_of("jobs")


def job(**annotations):
    fields = {"volumes": [{"pvc": "c", "mount": "/data"}], "output_dir": "/data/{run_id}"}
    described = spec.from_plain({"name": "fit", "image": "i:1", "roles": {"worker": {}}, **fields}, "test", {})
    identity, paths = Identity(run="r", task="fit"), OutputPaths(output="", model="", logs="", base_dir=None)
    manifest = KIND.render(described, identity, paths, "ns").manifest
    manifest["metadata"] |= {"name": "fit", "uid": "u", "annotations": annotations}
    return manifest


def beside(script, item, *, required=True):
    """Return the TensorBoard of a job that has just ended, and the requests."""
    with serve(script) as server:
        tensorboard = JobTensorBoard(
            Api(server.access(), patience=0), KIND, lambda: item, lambda: 5.0, required=required
        )
        tensorboard.start()
        tensorboard.end()
        return tensorboard, methods([(entry.method, entry.path, entry.body) for entry in server.asked])


def test_the_job_is_annotated_with_the_address():
    script = [Answer(body={}), Answer(body={}), Answer(body={})]
    tensorboard, requests = beside(script, job(**{SETTINGS: '{"logDirs":{"":"/data/r"}}'}))
    assert tensorboard.warning == ""
    assert "/proxy/" in tensorboard.url
    assert requests == ["POST jobs", "POST services", "PATCH fit"]


def test_a_job_that_asks_for_none_sends_no_request():
    tensorboard, requests = beside([], job(), required=False)
    assert "tensorboard" not in [thread.name for thread in threading.enumerate()]
    assert (tensorboard.url, tensorboard.warning, requests) == ("", "", [])


@pytest.mark.parametrize(
    ("settings", "script", "warning"),
    [
        ('{"logDirs":{"":"/data/r"}}', [refusal(403, "Forbidden", "exceeded quota")], "exceeded quota"),
        ('{"logDirs":{"":"/other/r"}}', [], "/other/r is on no claim"),
        ("not json", [], "annotation tfsteps.dev/tensorboard is not valid: JSON"),
        ('{"logDirs":{"":"/data/r"}}', [Answer(body={"kind": "Status"})], "There is no TensorBoard"),
    ],
)
def test_a_failure_is_one_warning(settings, script, warning):
    tensorboard, _ = beside(script, job(**{SETTINGS: settings}))
    assert warning in tensorboard.warning
    assert tensorboard.warning.startswith("There is no TensorBoard: ")
    assert tensorboard.url == ""


def test_a_public_address_that_is_not_usable_is_a_warning(monkeypatch):
    monkeypatch.setenv(PUBLIC_URL, "nonsense")
    tensorboard, requests = beside([], job(**{SETTINGS: '{"logDirs":{"":"/data/r"}}'}))
    assert f"{PUBLIC_URL}='nonsense' is not usable" in tensorboard.warning
    assert requests == []


def test_a_server_that_does_not_answer_delays_the_end_of_a_job_by_two_seconds_at_most():
    began = time.monotonic()
    beside([Answer(parts=["hang"])], job(**{SETTINGS: '{"logDirs":{"":"/data/r"}}'}))
    assert time.monotonic() - began < 8


def test_a_stop_ends_the_wait_for_a_deletion():
    with serve([CONFLICT, board(deletionTimestamp=NOW)]) as server:
        api = Api(server.access(), patience=0)
        api.stopping.set()
        with pytest.raises(Stopped):
            tensorboard.start(api, REQUEST)


def test_the_annotation_of_the_address_is_read_by_other_commands():
    assert URL.startswith("tfsteps.dev/")
