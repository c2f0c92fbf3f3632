"""`runs`, `show`, `logs`, `stop` and `debug` with `--on kubernetes`, over HTTP to a server that has some jobs."""

import copy
import email.utils
import json
import re

import pytest
import yaml

from tests.unit.cli.command import on_terminal, output_lines, refused, tfsteps, unread
from tests.unit.cli.jobs_on_cluster import JOB, START, at, kubeconfig, pod_of, tfjob
from tests.unit.cli.statuses import saved
from tests.wire import scripted
from tests.wire.scripted import refusal
from tests.wire.test_job import events
from tfsteps import spec
from tfsteps.kube.client import Api
from tfsteps.kube.watch import Deleted
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.events import State
from tfsteps.systems.base import Cause
from tfsteps.systems.kubeflow.tfjob import TFJob
from tfsteps.systems.kubernetes.cleanup.retention import LAUNCHER
from tfsteps.systems.kubernetes.follow.job import KubernetesJob
from tfsteps.systems.kubernetes.follow.job_object import STOPPED
from tfsteps.systems.kubernetes.follow.tracker import Tracker

K = ("--on", "kubernetes")
RUNNING = ("Running", "True", 3)
BAD = tfjob("bad1", ("Running", "False", 3), ("Failed", "True", 20), created=5)
ENDED = tfjob("good", ("Succeeded", "True", 30), created=10)
BUSY = tfjob("busy", RUNNING, created=40)
OTHER = tfjob("busy", RUNNING, task="other", created=41)
FAR = tfjob("away", RUNNING, created=50, namespace="other")
PODS = [
    pod_of(BAD, "chief-0", "Running"),
    pod_of(BAD, "worker-0", "Failed", 1, ended=19),
    pod_of(BAD, "worker-1", "Failed", 3, ended=18),
    *(pod_of(BUSY, name, "Running", started=42 + i) for i, name in enumerate(("chief-0", "worker-0", "worker-1"))),
    pod_of(OTHER, "chief-0", "Pending"),
]
LOGS = {
    PODS[2]["metadata"]["name"]: [(17, "Traceback (most recent call last):"), (17, "ValueError: no data")],
    PODS[3]["metadata"]["name"]: [(43, "a"), (45, "c"), (45, "c")],
    PODS[4]["metadata"]["name"]: [(44, "b"), (46, "d")],
}


@pytest.fixture
def server(monkeypatch, tmp_path):
    with kubeconfig(monkeypatch, tmp_path, BAD, ENDED, BUSY, OTHER, FAR, *PODS, logs=LOGS) as (server, there):
        server.there = there
        yield server


# --- runs, show


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (("--state", "failed"), ["bad1"]),
        (("--state", "running", "--state", "pending"), ["busy", "busy"]),
        (("--task", "other"), ["busy"]),
        (("--pipeline", "nightly"), []),
        (("--since", at(10)), ["busy", "busy", "good"]),
        (("--limit", "1"), ["busy"]),
        (("--sort", "task"), ["busy", "good", "bad1", "busy"]),
    ],
)
def test_runs_of_a_cluster_are_filtered_and_sorted(server, options, ids):
    runs = json.loads("".join(output_lines("runs", *K, *options, "--output", "json")))
    assert [run["run"] for run in runs] == ids


def test_runs_are_selected_by_label_on_the_server(server):
    server.there.jobs[0] = copy.deepcopy(BAD)
    server.there.jobs[0]["metadata"]["labels"]["team"] = "vision"
    rows = output_lines("runs", *K, "--label", "team=vision", "--label", "tfsteps.dev/task=mnist")
    assert [line.split()[0] for line in rows] == ["RUN", "bad1"]
    selectors = {asked.query["labelSelector"] for asked in server.asked if asked.path.endswith("/tfjobs")}
    assert [selector.split(",")[1:3] for selector in selectors] == [["team=vision", "tfsteps.dev/task=mnist"]]
    assert output_lines("runs", "bad1", *K, "--label", "tfsteps.dev/run-id=bad1")[1].split()[0] == "bad1"
    tfsteps("runs", "bad1", *K, "--label", "tfsteps.dev/run-id=busy")
    selector = server.asked[-2].query["labelSelector"]
    assert "tfsteps.dev/run-id=bad1,tfsteps.dev/run-id=busy," in selector, "no job has both"


def test_a_task_names_its_newest_run(server):
    assert output_lines("show", "mnist", *K)[0].split() == ["run", "busy"]
    assert output_lines("show", BAD["metadata"]["name"], *K)[0].split() == ["run", "bad1"]


def test_metrics_are_those_that_a_launcher_on_this_machine_recorded(server):
    for run, uid in (("good", ENDED["metadata"]["uid"]), ("bad1", "of another job")):
        saved(run=run, uid=uid, state=State.SUCCEEDED, metrics={"loss": 0.25})
    runs = json.loads("".join(output_lines("runs", *K, "--metric", "loss", "--output", "json")))
    assert {run["run"]: run["metrics"]["loss"] for run in runs} == {"busy": None, "good": 0.25, "bad1": None}


def test_runs_are_those_of_the_namespace_the_newest_first(server):
    rows = [line.split()[:5] for line in output_lines("runs", *K)]
    assert rows == [
        ["RUN", "TASK", "ATTEMPT", "STATE", "SYSTEM"],
        ["busy", "other", "0", "pending", "kubeflow"],
        ["busy", "mnist", "0", "running", "kubeflow"],
        ["good", "mnist", "0", "succeeded", "kubeflow"],
        ["bad1", "mnist", "0", "failed", "kubeflow"],
    ]
    assert server.asked[0].query["labelSelector"].startswith("app.kubernetes.io/managed-by=tfsteps,tfsteps.dev/run-id")


def test_runs_of_all_namespaces_are_distinguished(server):
    rows = [line.split()[:2] for line in output_lines("runs", *K, "--all-namespaces")]
    assert rows[:2] == [["NAMESPACE", "RUN"], ["other", "away"]]
    assert output_lines("runs", *K, "--namespace", "other")[1].split()[0] == "away"
    assert {
        load["namespace"] for load in json.loads("\n".join(output_lines("runs", *K, "-A", "--output", "json")))
    } == {
        "ml",
        "other",
    }


def test_show_has_the_same_terms_and_columns_as_for_a_local_run(server):
    lines = output_lines("show", "bad", *K)
    assert lines[0] == "run          bad1"
    start = lines.index("task         mnist, attempt 0")
    assert lines[start + 1] == f"job          {BAD['metadata']['name']} on kubeflow, namespace ml"
    table = [line.split()[:4] for line in lines if re.match("REPLICA|chief|worker", line)]
    assert table == [
        ["REPLICA", "STATE", "RESTARTS", "EXIT"],
        ["chief-0", "running", "0", "-"],
        ["worker-0", "failed", "0", "1"],
        ["worker-1", "failed", "0", "3"],
    ]
    assert "failed first worker-1" in lines, "it ended before worker-0"
    assert "exception    ValueError: no data" in lines
    assert lines[-1] == "mnist failed after 15s: worker-1 failed with exit code 3: ValueError: no data."
    assert "model        /data/bad1/model" in lines


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        ({"running": {"startedAt": at(15)}}, {" before": [(9, "ValueError: no data")], "": [(16, "starting again")]}),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"": [(9, "ValueError: no data")]}),
    ],
)
def test_show_explains_a_job_whose_replica_was_started_again_and_again(state, lines, monkeypatch, tmp_path):
    """By the lines of the incarnation that failed; one that waits has the log of that one."""
    worker = pod_of(BAD, "worker-1", "Running", restarts=4)
    end = {"exitCode": 3, "reason": "Error", "startedAt": at(8), "finishedAt": at(10)}
    worker["status"]["containerStatuses"][0] |= {"state": state, "lastState": {"terminated": end}}
    logs = {f"{worker['metadata']['name']}{which}": text for which, text in lines.items()}
    with kubeconfig(monkeypatch, tmp_path, BAD, pod_of(BAD, "chief-0", "Running"), worker, logs=logs) as (server, _):
        shown = output_lines("show", "bad", *K)
    assert "  | ValueError: no data" in shown
    assert "  | starting again" not in shown
    asked = [item.query["previous"] for item in server.asked if item.path.endswith("/log")]
    assert asked == ["true" if "running" in state else "false"]


def test_show_json_is_that_of_a_local_run(server):
    shown = json.loads("\n".join(output_lines("show", "latest", *K, "--output", "json")))
    assert shown["run"] == "busy"
    mnist, other = shown["attempts"]
    assert (mnist["state"], mnist["uid"], mnist["log"]) == ("running", BUSY["metadata"]["uid"], "")
    assert [incarnation["place"] for replica in mnist["replicas"] for incarnation in replica["incarnations"]] == [
        f"{pod['metadata']['name']} on node1" for pod in PODS[3:6]
    ]
    assert other["started"] is None


def test_show_follow_continues_with_tasks_that_start_meanwhile(server):
    succeeded = ("Succeeded", "True", 60)
    first, later = (tfjob("both", RUNNING, task=task, created=55) for task in ("first", "later"))
    changes = [
        ("ADDED", later),
        ("MODIFIED", tfjob("both", succeeded, task="first", created=55)),
        1.0,
        ("MODIFIED", tfjob("both", succeeded, task="later", created=55)),
    ]
    server.there.jobs.append(first)

    def answer(asked):
        watched = asked.query.get("watch") and asked.path.startswith("/apis/kubeflow.org/v1/")
        return events(*changes) if watched else server.there.answer(asked)

    server.script = answer
    lines = output_lines("show", "both", "--follow", *K)
    assert [line for line in lines if " succeeded after " in line] == [
        "first succeeded after 5s: Succeeded",
        "later succeeded after 5s: Succeeded",
    ]


# --- a Workflow's name


def of_workflow(name, run, created, **more):
    job = tfjob(run, RUNNING, created=created, **more)
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": name, "uid": f"uid-{name}"}
    job["metadata"]["ownerReferences"] = [owner]
    return job


@pytest.mark.parametrize("command", ["show", "logs", "stop", "debug", "pause", "runs"])
def test_a_workflows_name_stands_for_its_run(server, command, monkeypatch):
    monkeypatch.setattr("tfsteps.backends.kubernetes.backend._HINT_SECONDS", 0)
    server.there.jobs += [of_workflow("nightly-x7k2p", "6d1f3d6e", 60), of_workflow("nightly-b4b4b", "0b9a5a3e", 61)]
    code, out, err = tfsteps(command, "nightly-x7k2p", *K)
    assert code == 0, err
    assert "0b9a5a3e" not in out
    if command in ("show", "debug", "runs"):
        assert "6d1f3d6e" in out
    if command == "stop":
        assert [item["metadata"]["uid"] for item in server.there.jobs][-1] == "uid-0b9a5a3e-mnist-0"


def test_runs_name_the_workflow(server):
    server.there.jobs.append(of_workflow("nightly-x7k2p", "6d1f3d6e", 60))
    rows = [line.split()[:3] for line in output_lines("runs", *K)]
    assert rows[:2] == [["OBJECT", "RUN", "TASK"], ["nightly-x7k2p", "6d1f3d6e", "mnist"]]
    (first, *_) = json.loads("\n".join(output_lines("runs", *K, "--output", "json")))
    assert (first["run"], first["workflow"]) == ("6d1f3d6e", "nightly-x7k2p")


def test_a_task_of_kubeflow_is_called_by_its_name_in_the_pipeline(server):
    job = of_workflow("nightly-x7k2p", "6d1f3d6e", 60)
    job["metadata"]["annotations"] = {**(job["metadata"].get("annotations") or {}), LAUNCHER: "wf.root.train.executor"}
    server.there.jobs.append(job)
    assert [line.split()[2] for line in output_lines("runs", *K)][:2] == ["TASK", "train"]


def test_a_workflow_with_several_runs_or_none_is_an_error(server):
    server.there.jobs += [of_workflow("nightly-x7k2p", run, 60) for run in ("6d1f3d6e", "0b9a5a3e")]
    message = "error: 'nightly-x7k2p' has several runs: 6d1f3d6e, 0b9a5a3e; write the id of one\n"
    assert refused("show", "nightly-x7k2p", *K) == message
    assert "nearest: nightly-x7k2p" in refused("show", "nightly-x7k2q", *K)


@pytest.mark.parametrize("command", ["runs", "show", "logs", "stop", "debug", "pause", "resume", "run", "submit"])
def test_every_command_that_takes_a_namespace_takes_n(command):
    _, out, _ = tfsteps(command, "--help")
    assert "-n, --namespace" in out


# --- logs


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        (
            (),
            ["[mnist/chief-0] a", "[mnist/worker-0] b", "[mnist/chief-0] c", "[mnist/chief-0] c", "[mnist/worker-0] d"],
        ),
        (("--task", "mnist", "--tail", "2"), ["[chief-0] c", "[worker-0] d"]),
        (("--task", "mnist", "--tail", "0"), []),
        (("--task", "mnist", "worker"), ["[worker-0] b", "[worker-0] d"]),
    ],
)
def test_logs_come_in_the_order_of_time(server, args, lines):
    assert output_lines("logs", "busy", *args, *K) == lines


def test_timestamps_are_local_times(server):
    (line,) = output_lines("logs", "busy", "--task", "mnist", "--tail", "1", "--timestamps", *K)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:46\.000[+-]\d\d:\d\d \[worker-0\] d", line)


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("good", "worker-7"), "run good: replica 'worker-7' is unknown; it has chief-0, worker-0, worker-1"),
        (("good", "ps"), "run good: replica 'ps' is unknown; it has chief-0, worker-0, worker-1"),
        (("busy", "worker-0/init"), "run busy: worker-0 has no container 'init' beside its program; there is no other"),
        (
            ("sides", "worker/init"),
            "run sides: worker has no container 'init' beside its program; there is worker-0/proxy",
        ),
    ],
)
def test_names_are_judged_by_the_job_object_also_without_pods(server, args, answer):
    side = JOB.replace("{replicas: 2}", "{pod: {spec: {containers: [{name: proxy, image: a/proxy:1}]}}}")
    server.there.jobs.append(tfjob("sides", ("Succeeded", "True", 30), job=side, created=60))
    assert refused("logs", *args, *K).startswith(f"error: {answer}")


def test_grep_counts_before_tail_and_reads_the_whole_log(server):
    assert output_lines("logs", "busy", "--task", "mnist", "--grep", "^[ab]$", "--tail", "1", *K) == ["[worker-0] b"]
    assert output_lines("logs", "busy", "chief", "--task", "mnist", "--grep", "C", "-i", "--tail", "1", *K) == [
        "[chief-0] c"
    ]


def test_since_is_counted_from_the_clock_of_the_server_and_sent_to_it(server, monkeypatch):
    stopped = email.utils.formatdate(START.timestamp() + 60, usegmt=True)
    monkeypatch.setattr(scripted._Handler, "date_time_string", lambda *_: stopped)
    assert output_lines("logs", "busy", "--task", "mnist", "--since", "16s", *K) == [
        "[chief-0] c",
        "[chief-0] c",
        "[worker-0] d",
    ]
    asked = [item.query for item in server.asked if item.path.endswith("/log")]
    assert {item["sinceTime"] for item in asked} <= {at(44), at(45)}
    code, out, err = tfsteps("logs", "busy", "--since", at(50), *K)
    assert (code, out, err) == (0, "", f"run busy: no log lines since {at(50)}\n")


def test_the_log_from_before_a_restart_is_printed_once_and_marked(monkeypatch, tmp_path):
    """By its container's restarts, and by the pods of its replica."""
    chief = pod_of(BUSY, "chief-0", "Running", started=50, restarts=2)
    old = pod_of(BUSY, "worker-0", "Failed", 1, started=41, ended=44)
    new = pod_of(BUSY, "worker-0", "Running", started=45, number=1)
    new["metadata"]["name"] += "-new"
    name = chief["metadata"]["name"]
    logs = {
        f"{name} before": [(43, "one"), (44, "two")],
        name: [(51, "three")],
        old["metadata"]["name"]: [(42, "a")],
        new["metadata"]["name"]: [(52, "b")],
    }
    with kubeconfig(monkeypatch, tmp_path, BUSY, chief, old, new, logs=logs):
        lines = output_lines("logs", "busy", *K)
        assert output_lines("logs", "busy", "chief", "--grep", "o$", *K) == [
            "--- chief-0, restart 1 ---",
            "[chief-0] two",
        ]
    assert lines == [
        "[worker-0] a",
        "--- chief-0, restart 1 ---",
        "[chief-0] one",
        "[chief-0] two",
        "--- chief-0, restart 2 ---",
        "[chief-0] three",
        "--- worker-0, restart 1 ---",
        "[worker-0] b",
    ]


def test_follow_marks_a_restart_and_prints_what_was_missed_before_it(server):
    """The log has nothing since the time that was asked for, so it is followed from its last line."""
    name = PODS[4]["metadata"]["name"]
    restarted = pod_of(BUSY, "worker-0", "Running", started=70, restarts=1)
    ended = tfjob("busy", ("Succeeded", "True", 80), created=40)
    logs = server.there.logs

    def answer(asked):
        if asked.query.get("watch") and asked.path.endswith("/pods"):
            logs[f"{name} before"] = [*logs[name], (65, "last words")]
            logs[name] = [(71, "again")]
            return events(0.5, ("MODIFIED", restarted))
        if asked.query.get("watch") and asked.path.startswith("/apis/kubeflow.org/v1/"):
            return events(2.5, ("MODIFIED", ended))
        return server.there.answer(asked)

    server.script = answer
    lines = output_lines("logs", "busy", "worker-0", "--task", "mnist", "--since", at(60), "--follow", *K)
    assert lines == ["[worker-0] last words", "--- worker-0, restart 1 ---", "[worker-0] again"]


@pytest.mark.parametrize("options", [(), ("--follow",)])
def test_on_a_terminal_control_characters_of_a_pods_log_are_shown(options, monkeypatch, tmp_path):
    done = tfjob("done", ("Succeeded", "True", 9))
    pod = pod_of(done, "chief-0", "Succeeded", 0, ended=8)
    with kubeconfig(monkeypatch, tmp_path, done, pod, logs={pod["metadata"]["name"]: [(3, "a\x1b[2Jb\x07")]}):
        assert on_terminal("logs", "done", *options, *K) == b"[chief-0] a\\x1b[2Jb\\x07\r\n"


def test_the_log_of_pods_that_are_gone_is_not_just_empty(server):
    code, out, err = tfsteps("logs", "good", *K)
    assert (code, out) == (0, "")
    assert "has no pod of chief-0, worker-0, worker-1 any more, so that lines are missing" in err


# --- stop


def test_stop_deletes_by_uid_what_is_labelled_as_the_runs_own(server):
    last = output_lines("stop", "busy", "--task", "mnist", *K)[-1]
    assert re.fullmatch(r"mnist cancelled after \S+: the job was deleted", last)
    changes = [(item.method, item.path.rpartition("/")[2], item.body) for item in server.asked if item.body]
    (_, patched, note), (method, deleted, body) = changes
    assert method == "DELETE"
    assert patched == deleted == BUSY["metadata"]["name"]
    assert note["metadata"]["uid"] == body["preconditions"]["uid"] == BUSY["metadata"]["uid"]
    assert "tfsteps.dev/stopped" in note["metadata"]["annotations"]
    assert [item["metadata"]["uid"] for item in server.there.jobs].count(OTHER["metadata"]["uid"]) == 1


def test_stop_deletes_all_jobs_though_nobody_reads_what_it_prints(server):
    ended = tfjob("busy", ("Succeeded", "True", 30), task="earlier", created=39)
    server.there.jobs.append(ended)
    assert unread("stop", "busy", *K) == 141
    assert [item["metadata"]["uid"] for item in server.there.jobs if "busy" in item["metadata"]["uid"]] == [
        ended["metadata"]["uid"]
    ]


@pytest.mark.parametrize(("noted", "state"), [(True, State.CANCELLED), (False, State.LOST)])
def test_a_launcher_distinguishes_a_stop_from_a_deletion(noted, state):
    tracker = Tracker(TFJob(), BUSY, [], 0.0)
    note = {"annotations": {STOPPED: "2026-11-21T07:00:00+00:00"}} if noted else {}
    list(tracker.job(Deleted({**BUSY, "metadata": {**BUSY["metadata"], **note}}), 1.0))
    assert tracker.final.state is state


def test_stop_leaves_what_has_ended(server):
    (line,) = output_lines("stop", "bad1", *K)
    assert line.startswith("already ended: mnist failed after 15s: ")
    assert not [item for item in server.asked if item.method != "GET"]


def test_a_second_stop_prints_what_to_do_if_the_first_got_no_answer(server, monkeypatch):
    job = spec.parse("{name: mnist, command: [x], roles: {worker: {}}}")
    monkeypatch.setattr(server, "script", lambda asked: _unless_deleted(server.there, asked))
    handle = KubernetesJob(Api(server.access()), TFJob(), BUSY, job, None)
    handle.stop(Cause.CANCELLED)
    handle.stop(Cause.CANCELLED)
    *_, last = handle.events()
    assert last.state is State.CANCELLED
    assert last.message.endswith(f"kubectl delete tfjobs {BUSY['metadata']['name']} --namespace ml")


def _unless_deleted(there, asked):
    return "reset" if asked.method == "DELETE" else there.answer(asked)


# --- debug


def test_debug_shows_events_conditions_digest_and_where_to_look_further(server):
    name = BAD["metadata"]["name"]
    server.there.events = [
        event(f"{name}-worker-1", 18, "BackOff", "Warning"),
        event(f"{name}-worker-1", 2, "Scheduled"),
        event(name, 19, "TFJobFailed"),
        event(f"{name}x", 19, "NotOurs"),
    ]
    lines = output_lines("debug", "bad1", *K)
    events = lines[lines.index("events") + 1 : lines.index("events") + 4]
    assert [re.search(r"Scheduled|BackOff|TFJobFailed", line)[0] for line in events] == [
        "Scheduled",
        "BackOff",
        "TFJobFailed",
    ]
    assert not [line for line in lines if "NotOurs" in line]
    assert [line.split()[2] for line in lines if re.search(r"=(True|False)  ", line)] == [
        "Running=False",
        "Failed=True",
    ]
    assert "failed first worker-1" in lines
    assert f"  kubectl --namespace ml exec -it {name}-chief-0 -c tensorflow -- sh" in lines
    assert "  tfsteps logs bad1 --on kubernetes" in lines


def event(name, seconds, reason, kind="Normal"):
    about = {"kind": "Pod", "name": name}
    return {
        "metadata": {"creationTimestamp": at(0)},
        "involvedObject": about,
        "lastTimestamp": at(seconds),
        "type": kind,
        "reason": reason,
        "message": "text",
    }


# --- what is not there


@pytest.mark.parametrize("text", ["r-stopped", "r-st"])
def test_a_run_that_was_stopped_is_only_in_the_records_of_this_machine(server, text):
    saved(run="r-stopped", system="kubeflow", namespace="ml", state=State.CANCELLED)
    saved(run="r-local", system="local", state=State.SUCCEEDED)
    error = refused("show", text, *K)
    assert "there is no job in namespace ml of test of run r-stopped" in error
    assert "recorded here as cancelled. `stop` and `clear` delete jobs; `tfsteps show r-stopped` shows" in error
    assert "run 'r-local' is unknown" in refused("show", "r-local", *K)


def test_stop_says_that_the_record_remains(server):
    saved(run="busy", system="kubeflow", namespace="ml", uid=OTHER["metadata"]["uid"], task="other")
    last = output_lines("stop", "busy", "--task", "other", *K)[-1]
    assert last.endswith(": the job was deleted; `tfsteps show busy` shows its record")


@pytest.mark.parametrize("command", ["show", "logs", "stop", "debug"])
def test_what_is_unknown_names_the_nearest(server, command):
    listing = "`tfsteps runs --on kubernetes` lists all\n"
    assert refused(command, "bsy", *K) == f"error: run 'bsy' is unknown; nearest: busy; {listing}"
    assert refused(command, "busy", "--task", "x", *K) == "error: run busy: task 'x' is unknown; it has mnist, other\n"
    assert "there are no runs in namespace empty of test; start one with " in refused(
        command, "busy", *K, "--namespace", "empty"
    )


def test_no_operator_no_kubeconfig_and_no_server_are_distinguished(server, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(server, "script", lambda _: refusal(404, "NotFound"))
        assert refused("runs", *K) == "error: test serves no supported job kind: install an operator\n"
    assert "has no context 'other'" in refused("runs", *K, "--context", "other")
    monkeypatch.setattr("tfsteps.backends.kubernetes.backend.COMMAND_PATIENCE_SECONDS", 0.1)
    file = tmp_path / "kubeconfig"
    file.write_text(re.sub(r"127.0.0.1:\d+", "127.0.0.1:1", file.read_text()))
    code, out, err = tfsteps("runs", *K)
    assert (code, out) == (ExitCode.PLATFORM, "")
    assert err.startswith("error: test cannot be reached: ")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert refused("runs", *K).startswith(f"error: there is no kubeconfig {tmp_path / 'none'}; ")


@pytest.mark.parametrize(
    ("files", "says"), [(["token"], "No such file"), (["token", "namespace", "ca.crt"], "no cert")]
)
def test_a_pods_service_account_that_is_not_whole(tmp_path, monkeypatch, files, says):
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.setattr("tfsteps.kube.access.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    message = refused("runs", *K)
    assert message.startswith(f"error: the pod's service account in {tmp_path} cannot be used: ")
    assert says in message


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("runs", "--namespace", "ml"), "add --on kubernetes"),
        (("stop", "r1", "-A"), "add --on kubernetes"),
        (("runs", *K, "-A", "--namespace", "ml"), "cannot both hold"),
        (("run", "job.yaml", "--system", "local", *K), "--system local is not --on kubernetes"),
        (("run", "job.yaml", "--context", "x"), "add --on kubernetes"),
    ],
)
def test_options_that_contradict_one_another_are_refused(args, answer):
    assert answer in refused(*args)


# --- before anything is created


@pytest.fixture
def job(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("{name: mnist, image: acme/mnist:1, command: [python, train.py], roles: {worker: {}}}")
    return file


@pytest.mark.parametrize("where", [K, ("--system", "kubeflow")])
def test_a_dry_run_needs_no_cluster(job, home, tmp_path, monkeypatch, where):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    code, out, err = tfsteps("run", job, "--dry-run", "--run-id", "r1", *where)
    assert (code, err.count("warning: ")) == (0, 1)
    item = yaml.safe_load(out)
    assert (item["kind"], item["metadata"]["namespace"]) == ("TFJob", "default")
    assert item["metadata"]["labels"]["tfsteps.dev/run-id"] == "r1"
    code, out, _ = tfsteps("run", job, "--dry-run", "--run-id", "r1", *where, "--namespace", "ml", "--output", "json")
    assert (code, json.loads(out)["metadata"]["namespace"]) == (0, "ml")
    assert not home.exists()
    assert output_lines("validate", job, "--system", "kubeflow") == [f"{job}: mnist is fine"]
    assert "no kubeconfig" in refused("run", job, *K, "--dry-run", "--context", "other")
    assert "no kubeconfig" in refused("run", job, *K)


def test_a_task_that_goes_on_somewhere_is_not_started_beside_itself(server, job):
    err = refused("run", job, "--run-id", "busy", "--system", "kubeflow", *K)
    assert (
        "task mnist has a job already, which is running; `tfsteps stop busy --task mnist --on kubernetes` stops it"
        in err
    )
    assert "--adopt goes on with it" in err


def test_a_suspended_job_is_no_running_one_and_who_adopts_it_is_told(server, job):
    suspended = tfjob("busy", ("Suspended", "True", 42), created=40)
    server.there.jobs[:] = [suspended]
    command = ("run", job, "--run-id", "busy", "--system", "kubeflow", *K)
    assert "task mnist has a job already, which is suspended; " in refused(*command)
    _, _, err = tfsteps(*command, "--adopt")
    assert "warning: task mnist is suspended; `tfsteps resume busy --task mnist --on kubernetes` starts" in err


@pytest.mark.parametrize("where", [("--run-id", "r1"), K])
def test_what_cannot_be_adopted(job, where):
    assert "--adopt needs the --run-id of the job, and --on with a cluster or platform" in refused(
        "run", job, "--adopt", *where
    )
