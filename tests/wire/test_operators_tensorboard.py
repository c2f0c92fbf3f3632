"""`tfsteps tensorboard` of a job whose operator runs a TensorBoard: that one is shown, and none is created."""

import urllib.request

import pytest

from tests.wire.scripted import Answer, refusal, serve
from tfsteps import spec
from tfsteps.backends.backend_location import BackendLocation
from tfsteps.backends.base import NO_LABELS
from tfsteps.backends.kubernetes import tensorboard
from tfsteps.backends.kubernetes.backend import ClusterBackend
from tfsteps.console.errors import CommandError
from tfsteps.kube.client import Api
from tfsteps.platforms.t9k.trainingjob import BOARDS
from tfsteps.runs.identity import Identity
from tfsteps.runs.location import Location
from tfsteps.runs.output_paths import OutputPaths
from tfsteps.systems import registry
from tfsteps.systems.kubernetes.job_kind import TensorBoardLink
from tfsteps.systems.kubernetes.query.runs import ClusterJob, ClusterRuns
from tfsteps.systems.kubernetes.query.status import status
from tfsteps.systems.pipeline import Origin

PATH = "/api/v1/namespaces/ns/services/fit-tensorboard-ab12:80/proxy/"
SERVICE, OBJECT = TensorBoardLink(path=PATH), TensorBoardLink(resource=BOARDS, name="fit", note="Warning: no image")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(tensorboard, "_POLL_SECONDS", 0.02)


def test_a_service_is_forwarded_once_it_answers():
    page = Answer(body={"page": "curves"})
    with serve([refusal(503, "ServiceUnavailable"), page, page]) as server:
        with tensorboard.opened_link(Api(server.access(), patience=0), SERVICE, "ns", 0) as url:
            assert b"curves" in urllib.request.urlopen(url).read()
        assert [(request.method, request.path) for request in server.asked] == [("GET", PATH)] * 3


def test_the_address_in_a_status_is_shown():
    board = Answer(body={"metadata": {"name": "fit"}, "status": {"url": "https://t9k.example.org/board/fit"}})
    with serve([Answer(body={"metadata": {"name": "fit"}}), board]) as server:
        with tensorboard.opened_link(Api(server.access(), patience=0), OBJECT, "ns", 0) as url:
            assert url == "https://t9k.example.org/board/fit"
        assert {request.method for request in server.asked} == {"GET"}


@pytest.mark.parametrize(
    ("link", "answers", "reason"),
    [
        (SERVICE, [refusal(404, "NotFound")] * 9, "its Service does not answer"),
        (OBJECT, [refusal(403, "Forbidden")] * 9, "Warning: no image"),
    ],
)
def test_one_that_is_not_ready_is_an_error_with_the_reason(monkeypatch, link, answers, reason):
    monkeypatch.setattr(tensorboard, "START_SECONDS", 0.1)
    with serve(answers) as server:
        shown = tensorboard.opened_link(Api(server.access(), patience=0), link, "ns", 0)
        with pytest.raises(CommandError, match="--log-dir FOLDER") as error, shown:
            pass
    assert reason in str(error.value)


JOB = {
    "name": "fit",
    "image": "i:1",
    "command": ["t"],
    "roles": {"chief": {}},
    "output_dir": "gs://b/r",
    "tensorboard": {},
}


class Backend(ClusterBackend):
    def jobs(self, run="", labels=NO_LABELS):
        """Return one job, which no request is needed for."""
        return [self.job]


def backend(api):
    (kind, _) = registry.kinds_of("tfjob-v1alpha1")
    paths = OutputPaths(output="", model="", logs="gs://b/r", base_dir=None)
    described = spec.from_plain(JOB, "test", registry.options())
    item = kind.render(described, Identity(run="r", task="fit"), paths, "ns").manifest
    item["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    cluster_backend = Backend(
        ClusterRuns(api, [kind], "ns", lambda *_: Origin("fit", "")), BackendLocation(Location.KUBERNETES)
    )
    cluster_backend.job = ClusterJob(kind, item, [], status(kind, item, [], 0.0, "fit"), "")
    return cluster_backend


def test_the_command_shows_that_of_the_operator():
    page = Answer(body={})
    with serve([page]) as server:
        cluster_backend = backend(Api(server.access(), patience=0))
        with cluster_backend.tensorboard(cluster_backend.jobs(), 0):
            pass
        assert [request.method for request in server.asked] == ["GET"]
        assert "-tensorboard-" in server.asked[0].path


def test_a_runtime_id_names_the_run():
    with serve([Answer(body={"kind": "PodList", "items": []})]) as server:  # runs without a job are looked for, too
        cluster_backend = backend(Api(server.access(), patience=0))
        assert cluster_backend.find(cluster_backend.job.item["spec"]["RuntimeId"]).id == "r"
