import pytest

from tests.support.webhook_receiver import receiver
from tfsteps import spec
from tfsteps.launcher.lifecycle import launch
from tfsteps.launcher.notify.notifier import Notifier, event_of, webhook_problems
from tfsteps.launcher.printer import Printer
from tfsteps.runs.events import State
from tfsteps.runs.identity import Identity
from tfsteps.runs.status import FailureSummary, Status
from tfsteps.systems import registry

ALL = "[succeeded, failed, deadline, cancelled, paused, resumed, restarting]"


def job(notify):
    return spec.parse(f"name: mnist\nroles: {{worker: {{}}}}\nnotify: {notify}")


def status(state, reason=""):
    identity = Identity(run="r1", task="fit", attempt=2, pipeline="nightly")
    return Status(identity=identity, job="mnist-abc", system="jobs", state=state, reason=reason, created=1.0)


@pytest.mark.parametrize(
    ("before", "state", "reason", "event"),
    [
        (State.RUNNING, State.SUCCEEDED, "", "succeeded"),
        (State.RUNNING, State.FAILED, "", "failed"),
        (State.RUNNING, State.FAILED, "DeadlineExceeded", "deadline"),
        (State.RUNNING, State.LOST, "", "failed"),
        (State.RUNNING, State.CANCELLED, "", "cancelled"),
        (State.RUNNING, State.RESTARTING, "", "restarting"),
        (State.RESTARTING, State.RUNNING, "", ""),
        (State.RUNNING, State.SUSPENDED, "", "paused"),
        (State.SUSPENDED, State.PENDING, "", "resumed"),
        (State.SUSPENDED, State.CANCELLED, "", "cancelled"),
        (State.PENDING, State.RUNNING, "", ""),
        (None, State.QUEUED, "", ""),
    ],
)
def test_the_event_of_a_change(before, state, reason, event):
    assert event_of(before, state, reason) == event


def test_each_pause_is_an_event_of_its_own_and_an_outage_is_none():
    with receiver() as server:
        notifier = Notifier(job(f"[{{events: {ALL}}}]"), {"TFSTEPS_WEBHOOK_URL": server.url})
        for state in ("running", "suspended", "suspended", "unknown", "suspended", "running", "suspended", "succeeded"):
            notifier.changed(status(State(state)))
        assert notifier.close(lambda: 60) == []
        assert server.events() == ["paused", "resumed", "paused", "succeeded"]
        assert len({request.body["id"] for request in server.requests}) == 4


def test_a_restarted_launcher_sends_the_same_id():
    with receiver() as server:
        for _ in range(2):
            notifier = Notifier(job("[{}]"), {"TFSTEPS_WEBHOOK_URL": server.url})
            notifier.changed(status(State.FAILED))
            notifier.close(lambda: 60)
        first, second = server.requests
        assert first.body["id"] == second.body["id"] == second.headers["Idempotency-Key"]


def test_only_the_chosen_events_are_sent():
    with receiver() as server:
        notifier = Notifier(job("[{events: [resumed]}]"), {"TFSTEPS_WEBHOOK_URL": server.url})
        for state in (State.SUSPENDED, State.RUNNING, State.FAILED):
            notifier.changed(status(state))
        notifier.close(lambda: 60)
        assert server.events() == ["resumed"]


def test_a_webhook_without_a_variable_is_a_warning_that_is_given_once():
    notifier = Notifier(job("[{url: {env: TFSTEPS_WEBHOOK_OPS}}, {url: {env: TFSTEPS_WEBHOOK_OPS}}]"), {})
    assert notifier.warnings == ["A webhook is not called: the launcher's variable TFSTEPS_WEBHOOK_OPS is not set."]
    notifier.changed(status(State.FAILED))
    assert notifier.close(lambda: 60) == []


def test_a_receiver_that_hangs_does_not_hold_another_one_back():
    with receiver() as server, receiver() as hanging:
        hanging.before_answer = server.wait
        two = job("[{}, {url: {env: TFSTEPS_WEBHOOK_B}}]")
        notifier = Notifier(two, {"TFSTEPS_WEBHOOK_URL": hanging.url, "TFSTEPS_WEBHOOK_B": server.url})
        notifier.changed(status(State.FAILED))
        assert notifier.close(lambda: 60) == []  # the first one answers once the second one has its notification
        assert server.events() == hanging.events() == ["failed"]


class FullDisk(Printer):
    """Cannot print that the job runs again."""

    def changed(self, status):
        if status.state is State.RUNNING and len(status.transitions) > 3:
            raise OSError("disk full")


def test_after_an_error_of_the_launcher_too_what_is_queued_is_delivered(monkeypatch, tmp_path):
    with receiver() as server:
        monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", server.url)
        failing = spec.parse(
            "{name: j, command: ['false'], restart: on_failure, roles: {worker: {}}, notify: [{events: [restarting]}]}"
        )
        with pytest.raises(OSError, match="disk full"):
            launch(
                failing, Identity(run="r", task="t"), registry.get("local"), base_dir=tmp_path, observers=[FullDisk()]
            )
        assert server.events() == ["restarting"]


def test_a_full_queue_loses_the_oldest_and_keeps_the_end():
    with receiver() as server:
        server.hold()
        notifier = Notifier(job(f"[{{events: {ALL}}}]"), {"TFSTEPS_WEBHOOK_URL": server.url})
        for _ in range(150):
            notifier.changed(status(State.RESTARTING))
            notifier.changed(status(State.RUNNING))
        notifier.changed(status(State.SUCCEEDED))
        server.release()
        (warning,) = notifier.close(lambda: 60)
        assert "slower than the events" in warning
        assert server.events()[-1] == "succeeded"
        assert len(server.requests) <= 102


def test_what_cannot_be_sent_is_a_warning_and_no_error(monkeypatch):
    monkeypatch.setattr("tfsteps.launcher.notify.notification.FORMATS", {})
    with receiver() as server:
        notifier = Notifier(job("[{}]"), {"TFSTEPS_WEBHOOK_URL": server.url})
        notifier.changed(status(State.FAILED))
        (warning,) = notifier.close(lambda: 60)
        assert "error of tfsteps (KeyError)" in warning


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("ftp://host/secret", "does not begin with https"),
        ("hooks.example/secret", "does not begin with https"),
        ("https:///secret", "has no host"),
        ("https://host:99999/secret", "is not a URL"),
        ("https://[::1/secret", "is not a URL"),
        ("https://host/secret\r\nX-Admin: 1", "contains a space, a line break"),
        ("https://host/sec ret", "contains a space"),
        ("https://hôst/secret", "contains a space, a line break or another character"),
        ("https://user:password@host/secret", "contains a user name"),
        (f"https://host/{'secret' * 500}", "is longer than 2048"),
    ],
)
def test_a_wrong_url_is_a_problem_that_does_not_show_it(text, wrong, monkeypatch):
    monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", text)
    (problem,) = webhook_problems(job("[{}]"))
    assert wrong in str(problem)
    assert str(problem).startswith("notify[0].url.env: the URL in TFSTEPS_WEBHOOK_URL ")
    assert not any(word in str(problem) for word in ("secret", "password", "sec ret"))
    (warning,) = Notifier(job("[{}]")).warnings  # of a job that exists
    assert wrong in warning


def test_the_newline_at_the_end_of_a_secrets_file_does_not_matter(monkeypatch):
    monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", "https://host/path\n")
    assert webhook_problems(job("[{}]")) == []


def test_a_failure_without_the_lines_of_its_log():
    failed = status(State.FAILED)
    failed.failure = FailureSummary(summary="worker-0 failed.", replica="worker-0", exit_code=1, tail=["password=x"])
    failed.metrics = {"loss": float("nan"), "accuracy": 0.5}
    failed.tensorboard_url, failed.message = "http://127.0.0.1:6006", "half a pair: \udc80"
    with receiver() as server:
        notifier = Notifier(job("[{}]"), {"TFSTEPS_WEBHOOK_URL": server.url})
        notifier.changed(failed)
        assert notifier.close(lambda: 60) == []
    body = server.requests[0].body
    assert body["failure"] == {
        "summary": "worker-0 failed.",
        "replica": "worker-0",
        "exit_code": 1,
        "meaning": "",
        "fault": "user",
    }
    assert body["metrics"] == {"loss": None, "accuracy": 0.5}
    assert body["tensorboard_url"] == ""  # of this machine only
    assert (body["run"], body["task"], body["attempt"], body["pipeline"]) == ("r1", "fit", 2, "nightly")
