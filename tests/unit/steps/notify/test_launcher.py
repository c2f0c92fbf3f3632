"""The end of a run, as each engine passes it to the step."""

import json

import pytest

from tests.support.webhook_receiver import PATH, receiver
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.argo import pipeline
from tfsteps.engines.argo.task import ArgoTask
from tfsteps.kube import access, http_client
from tfsteps.launcher.notify.notification import FORMATS
from tfsteps.spec.types import NotificationFormat
from tfsteps.steps.notify import launcher

TOKEN = PATH.rpartition("/")[2]
RUN, TASK = "6d1f3d6e-8d5f-4c53-8b0e-3f6f5a1c2b7d", "0b9a5a3e-7f3b-4b53-9d47-1a2b3c4d5e6f"


@pytest.fixture
def server(monkeypatch):
    with receiver() as server:
        monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", server.url)
        yield server


def notify(tmp_path, capfd, **inputs):
    """Run the step as Kubeflow Pipelines does; return the exit code, `delivered` and what was printed."""
    file = tmp_path / "nightly" / RUN / "notify" / TASK / "output.json"
    task = {"inputs": {"parameterValues": inputs}, "outputs": {"outputFile": str(file)}}
    code = launcher.main(["--executor_input", json.dumps(task)])
    printed = "".join(capfd.readouterr())
    assert TOKEN not in printed
    written = json.loads(file.read_text())["parameterValues"]["delivered"] if file.exists() else None
    return code, written, printed


def status(state):
    """Return the status as the back end passes it."""
    return {"state": state, "error": {}, "pipelineTaskName": "exit-handler-1", "pipelineJobResourceName": "p"}


def test_a_run_of_kubeflow_pipelines_that_failed(server, tmp_path, capfd):
    chosen = {"events": ["failed"], "format": "json"}
    assert notify(tmp_path, capfd, status=status("FAILED"), **chosen)[:2] == (0, True)
    (request,) = server.requests
    assert (request.body["event"], request.body["scope"]) == ("failed", "run")
    assert (request.body["run"], request.body["pipeline"], request.body["state"]) == (RUN, "nightly", "FAILED")


def test_a_state_that_is_not_known(server, tmp_path, capfd):
    assert notify(tmp_path, capfd, status=status("RUNNING"), events=["failed"], format="slack")[:2] == (0, True)
    text = "nightly may have failed: The state is RUNNING, and this step runs in no pod."
    assert text in server.requests[0].body["text"]


def test_a_state_that_no_engine_declares(server, tmp_path, capfd):
    exit_code, delivered, sentence = notify(tmp_path, capfd, status=status("Skipped"), events=["failed"], format="json")
    assert (exit_code, delivered) == (0, True)
    assert "`unknown` was delivered" in sentence
    body = server.requests[0].body
    assert (body["event"], body["state"]) == ("unknown", "Skipped")
    assert body["message"] == "It is not known what the state Skipped of Kubeflow Pipelines means."


def test_a_try_that_knows_more_sends_the_same_event(server, tmp_path, capfd):
    for state in ("Skipped", "FAILED"):
        notify(tmp_path, capfd, status=status(state), events=["failed"], format="json")
    unknown, failed = (request.body for request in server.requests)
    assert (unknown["event"], failed["event"]) == ("unknown", "failed")
    assert unknown["id"] == failed["id"]


def test_an_end_that_is_not_known_is_not_sent_to_who_asks_for_no_failures(server, tmp_path, capfd):
    chosen = {"events": ["succeeded", "cancelled"], "format": "json"}
    assert notify(tmp_path, capfd, status=status("Skipped"), **chosen)[:2] == (0, False)
    assert not server.requests


SUCCEEDED = ("succeeded", "Succeeded", "")
NOT_KNOWN = ("unknown", "RUNNING", "The state is RUNNING, and")


@pytest.mark.parametrize(
    "case",
    [
        ({"ok(0).root(0).exit-handler-1": "Succeeded"}, *SUCCEEDED),
        ({"ok(0).root(0).exit-handler-1": "Failed"}, "failed", "Failed", "A step failed, its launcher was killed"),
        ({"ok(0).root(0).exit-handler-1": "Running"}, *NOT_KNOWN),
        ({"ok(0)": "Succeeded"}, "unknown", "RUNNING", "does not say how ok(0).root(0).exit-handler-1 has ended"),
        ({"ok(1).root(0).exit-handler-1": "Failed", "ok(0).root(0).exit-handler-1": "Succeeded"}, *SUCCEEDED),
        ({"ok(1).root(0).exit-handler-1": "Failed", "ok(2).root(0).exit-handler-1": "Succeeded"}, *NOT_KNOWN),
        ({}, "unknown", "RUNNING", "The state is RUNNING, and "),
        (refusal(403), *NOT_KNOWN),
    ],
)
def test_the_workflow_tells_the_state_that_the_back_end_does_not(case, server, tmp_path, capfd, monkeypatch):
    """Kubeflow Pipelines 2.15 and 2.17 report RUNNING of a run that has succeeded if a condition skipped a step."""
    nodes, event, state, sentence = case
    step = "ok(0).root(0).exit-handler-1.onExit(0).notify(0).executor(0)"
    noted = {"workflows.argoproj.io/node-name": step, "pipelines.kubeflow.org/v2_component": "true"}
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "ok", "uid": "w", "controller": True}
    meta = {"name": "step", "namespace": "ns", "uid": "p", "annotations": noted, "ownerReferences": [owner]}

    def script(asked):
        if asked.path.endswith("/pods/step"):
            return Answer(body={"metadata": meta})
        if isinstance(nodes, Answer):
            return nodes
        states = {name: {"id": name, "name": name, "phase": phase} for name, phase in nodes.items()}
        flow = {"metadata": {"name": "ok", "uid": "w"}, "spec": {}, "status": {"nodes": states}}
        return Answer(body={"metadata": {}, "items": [flow]})

    monkeypatch.setattr(pipeline, "Watch", lambda *_, **__: None)
    monkeypatch.setenv("POD_NAME", "step")
    monkeypatch.setattr(access, "in_cluster", lambda: True)
    monkeypatch.setattr(http_client, "SETTLE_SECONDS", 0.2)
    with serve(script) as cluster:
        monkeypatch.setattr(access, "find", lambda _context="": cluster.access())
        chosen = {"events": ["succeeded", "failed"], "format": "json"}
        assert notify(tmp_path, capfd, status=status("RUNNING"), **chosen)[:2] == (0, True)
    body = server.requests[0].body
    assert (body["event"], body["state"]) == (event, state)
    assert sentence in body["message"]
    assert bool(body["message"]) == bool(sentence)


def test_a_workflow_of_argo(server, tmp_path):
    def run(*failures):
        nodes = [{"displayName": name, "message": "Error", "finishedAt": at} for name, at in failures]
        arguments = [
            "--argo",
            "notify",
            "state=Failed",
            f"failures={json.dumps(json.dumps(nodes))}",
            "format=",
            "run_id=w1",
        ]
        assert launcher._notify(ArgoTask.from_arguments(arguments, {}, tmp_path), arguments).code == 0
        assert (tmp_path / "outputs" / "delivered").read_text() == "true"
        return server.requests[-1].body

    body = run(("main", "02"), ("fit", "01"))
    assert body["tasks"] == [{"name": "fit", "message": "Error"}, {"name": "main", "message": "Error"}]
    assert body["run"] == "w1"
    assert run(("notify(0)", "03"), ("fit", "01"), ("main", "02"))["id"] == body["id"], "a retry of this step"
    assert run(("main", "12"), ("fit", "11"))["id"] != body["id"], "a retry of the run, which failed again"


def test_a_success_that_nobody_wants_to_know(server, tmp_path, capfd):
    code, delivered, printed = notify(tmp_path, capfd, status=status("COMPLETE"), events=["failed"])
    assert (code, delivered, server.requests) == (0, False, [])
    assert "`succeeded` is not among those to send: failed" in printed


def test_a_receiver_that_refuses_does_not_fail_the_step(server, tmp_path, capfd):
    server.answers = [(404, {})]
    code, delivered, printed = notify(tmp_path, capfd, status=status("FAILED"), events=["failed"])
    assert (code, delivered) == (0, False)
    assert "warning: The notification `failed` was not delivered to http://127.0.0.1:" in printed


def test_without_a_url_nothing_is_sent(tmp_path, capfd):
    code, delivered, printed = notify(tmp_path, capfd, status=status("FAILED"), events=["failed"])
    assert (code, delivered) == (0, False)
    assert "the variable TFSTEPS_WEBHOOK_URL is not set" in printed


@pytest.mark.parametrize(
    ("inputs", "wrong"),
    [
        ({}, "state: is not the state of a run"),
        ({"state": "{{workflow.status}}"}, "state: {{workflow.status}} is not the state of a run"),
        ({"state": "Failed", "format": "teams"}, "format: 'teams' is not one of the choices. Allowed: json, slack"),
        ({"state": "Failed", "events": ["deadline"]}, "events: 'deadline' is not one of the choices"),
        ({"state": "Failed", "events": []}, "events: is empty"),
        ({"state": "Failed", "variable": f"https://host/{TOKEN}"}, "variable: is not the name of a variable"),
        ({"state": "Failed", "variable": "HOME"}, "variable: is not the name of a variable"),
    ],
)
def test_wrong_inputs_are_an_error(server, tmp_path, capfd, inputs, wrong):
    code, delivered, printed = notify(tmp_path, capfd, **{"events": ["failed"], **inputs})
    assert (code, delivered, server.requests) == (2, None, [])
    assert wrong in printed


def test_a_wrong_url_is_an_error_that_does_not_show_it(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("TFSTEPS_WEBHOOK_URL", f"ftp://host/{TOKEN}")
    code, _, printed = notify(tmp_path, capfd, status=status("FAILED"), events=["failed"])
    assert code == 2
    assert "variable: the URL in TFSTEPS_WEBHOOK_URL does not begin with https:// or http://" in printed


def test_each_format_of_a_job_file_is_one_of_the_step():
    assert set(FORMATS) == set(NotificationFormat.__args__)
