"""`tfsteps submit` as Kubeflow Pipelines' API sees it."""

import json

import msgspec
import pytest

from tests.unit.cli.command import tfsteps, unread
from tests.unit.cli.jobs_on_cluster import write_kubeconfig
from tests.wire.scripted import Answer, refusal, serve
from tfsteps.engines.kfp import submit as kfp

PROGRAM = """
from kfp import dsl

@dsl.container_component
def step(n: int):
    return dsl.ContainerSpec(image="busybox:1.37", command=["true"], args=["--executor_input", "{{$}}"])

@dsl.pipeline(name="nightly")
def nightly(n: int = 1, mode: str = "full"):
    step(n=n)
"""
API = "/apis/v2beta1"
NOW = "2026-11-27T00:00:00Z"
EXPERIMENT = {"experiment_id": "e-1", "display_name": "Default"}


class Backend:
    """Answers as the API server does, and keeps what was created."""

    def __init__(self, states=("SUCCEEDED",)):
        self.created = {}
        self.recurring = []
        self.runs = []
        self.changes = []
        self.states = list(states)
        self.other_submitters = []

    def __call__(self, asked):
        kind, _, name = asked.path.removeprefix(f"{API}/").partition("/")
        if asked.method == "DELETE" or ":" in asked.path:
            self.changes.append(f"{asked.method} {asked.path.removeprefix(API)}")
            name, _, verb = name.partition(":")
            for item in [item for item in self.recurring if item["recurring_run_id"] == name]:
                if asked.method == "DELETE":
                    self.recurring.remove(item)
                else:
                    item["status"] = {"enable": "ENABLED", "disable": "DISABLED"}[verb]
            return Answer(body={})
        if asked.method == "POST":
            self.created[kind] = asked.body
            self.changes.append(kind)
            singular = {"runs": "run_id", "recurringruns": "recurring_run_id", "experiments": "experiment_id"}[kind]
            created = {**asked.body, singular: "id-1"}
            if kind == "recurringruns":
                created |= {"created_at": NOW, "status": f"{asked.body['mode']}D"}
                self.recurring = [created, *self.other_submitters, *self.recurring]
            return Answer(body=created)
        if kind == "recurringruns":
            one = asked.path.endswith("/old")
            return Answer(body=self.recurring[0] if one else {"recurringRuns": self.recurring})
        if asked.path == f"{API}/runs":
            return Answer(body={"runs": self.runs})
        if kind == "runs":
            state = self.states.pop(0)
            return refusal(503, "Unavailable") if state == "away" else Answer(body={"run_id": "id-1", "state": state})
        return Answer(body={"healthz": {"multi_user": False}, "experiments": {"experiments": [EXPERIMENT]}}[kind])


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "nightly.py"
    file.write_text(PROGRAM)
    return file


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kfp, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(kfp, "_SETTLE_SECONDS", 0.0)


def submitted(backend, *args):
    with serve(backend) as server:
        return tfsteps("submit", *args, "--host", f"http://127.0.0.1:{server.server_port}")


def test_a_recurring_run_with_seconds_first(program):
    backend = Backend()
    options = ["--cron", "30 3 * * 1-5", "--timezone", "Asia/Kolkata", "-p", "n=3", "--name", "every night"]
    code, out, err = submitted(backend, program, *options)
    assert (code, "recurring run every night created: id-1" in out) == (0, True), err
    recurring_run = backend.created["recurringruns"]
    assert recurring_run["trigger"] == {"cron_schedule": {"cron": "0 0 22 * * 0-4"}}
    assert recurring_run["runtime_config"]["parameters"] == {"n": 3}
    assert (recurring_run["max_concurrency"], recurring_run["no_catchup"], recurring_run["mode"]) == (
        1,
        True,
        "DISABLE",
    )
    assert backend.changes == ["recurringruns", "POST /recurringruns/id-1:enable"]
    assert recurring_run["experiment_id"] == "e-1"
    assert recurring_run["pipeline_spec"]["pipelineInfo"]["name"] == "nightly"
    assert err.count("IST") == 10


def test_an_interval_with_start_and_end(program, tmp_path):
    file = tmp_path / "often.yaml"
    file.write_text("interval: 6h\nstart: 2098-12-01\nend: 2099-01-01\nconcurrency: allow\n")
    backend = Backend()
    code, _, err = submitted(backend, program, "--schedule", file)
    assert (code, "runs at most 10 runs of a schedule at once" in err) == (0, True)
    assert backend.created["recurringruns"]["trigger"] == {
        "periodic_schedule": {
            "start_time": "2098-12-01T00:00:00Z",
            "end_time": "2098-12-31T23:59:59Z",
            "interval_second": 21600,
        }
    }


ENDS = {"SUCCEEDED": 0, "FAILED": 10, "CANCELED": 12}


@pytest.mark.parametrize("state", ENDS)
def test_a_run_that_is_waited_for(program, state):
    backend = Backend(["PENDING", "away", "RUNNING", state])
    code, out, err = submitted(backend, program, "--wait", "--service-account", "trainer")
    assert (code, out.splitlines()[-1]) == (ENDS[state], f"run id-1 {state}"), err
    assert backend.created["runs"]["service_account"] == "trainer"
    assert backend.created["runs"]["display_name"].startswith("nightly 20")


def test_a_refusal_of_the_server_is_reported(program):
    def script(asked):
        return refusal(403, "Forbidden") if asked.method == "POST" else Backend()(asked)

    code, _, err = submitted(script, program)
    assert (code, "error: Kubeflow Pipelines refused: 403" in err) == (2, True), err


def recurring(backend, status):
    """Return the recurring run that was created, as the API has it later."""
    created = json.dumps(backend.created["recurringruns"])
    recurring_run = json.loads(created, parse_float=lambda text: int(n) if (n := float(text)).is_integer() else n)
    return {**recurring_run, "recurring_run_id": "old", "status": status, "created_at": "2026-11-20T00:00:00Z"}


@pytest.mark.parametrize(("status", "changes"), [("ENABLED", ["/old:disable", "/id-1:enable"]), ("DISABLED", [])])
def test_a_changed_recurring_run_is_replaced_and_no_date_is_run_twice(program, status, changes):
    first, second = Backend(), Backend()
    assert submitted(first, program, "--every", "1h")[0] == 0
    second.recurring = [recurring(first, status)]
    code, out, err = submitted(second, program, "--every", "1h")
    assert (code, second.changes, out.partition(";")[0].strip()) == (0, [], "recurring run nightly already exists: old")
    assert ("it is paused: `tfsteps schedules resume old`" in out) == (status == "DISABLED"), err
    code, out, err = submitted(second, program, "--every", "2h", "-p", "n=3")
    assert (code, second.changes, out) == (2, [], ""), "not without consent"
    assert "-interval_second: 3600\n+interval_second: 7200" in err
    changed = [line for line in err.splitlines() if line.startswith(("-", "+"))]
    assert not [line for line in changed if line.endswith((": 1", ": 1.0"))], "1.0 was compiled, the server answers 1"
    assert "+  n: 3" in err.replace("'", "")  # quoted once another test has loaded a library of YAML 1.1
    code, out, err = submitted(second, program, "--every", "2h", "-p", "n=3", "--yes")
    assert (code, second.created["recurringruns"]["mode"]) == (0, "DISABLE"), err
    assert second.changes == ["recurringruns", *(f"POST /recurringruns{change}" for change in changes)]
    assert "`tfsteps schedules delete old`" in out


def test_a_changed_recurring_run_does_not_catch_up_what_the_one_before_ran(program, tmp_path):
    file = tmp_path / "past.yaml"
    file.write_text("cron: 0 2 * * *\nstart: 2026-01-01\ncatch_up: true\n")
    first, second = Backend(), Backend()
    assert submitted(first, program, "--schedule", file)[0] == 0
    second.recurring = [recurring(first, "ENABLED")]
    assert submitted(second, program, "--schedule", file, "-p", "n=3", "--yes")[0] == 0
    starts = [item.created["recurringruns"]["trigger"]["cron_schedule"]["start_time"] for item in (first, second)]
    assert starts[0] < "2026-01-02" < starts[1]


def test_recurring_runs_are_listed_paused_run_and_deleted(program):
    first, backend = Backend(), Backend()
    assert submitted(first, program, "--cron", "30 2 * * *", "-p", "n=3")[0] == 0
    backend.recurring = [recurring(first, "ENABLED")]
    scheduled = {"recurring_run_id": "old", "scheduled_at": "2026-11-21T02:30:00Z"}
    common = {"created_at": "2026-11-21T02:30:08Z", "display_name": "x"}
    backend.runs = [
        {**common, "run_id": "of-another", "recurring_run_id": "another", "state": "FAILED"},
        {**common, "run_id": "r-1", **scheduled, "state": "SUCCEEDED"},
        {**common, "run_id": "r-2", "description": "tfsteps schedules run-now: old", "state": "RUNNING"},
    ]

    def schedules(*args):
        backend.changes.clear()
        with serve(backend) as server:
            code, out, err = tfsteps("schedules", *args, "--host", f"http://127.0.0.1:{server.server_port}")
        assert code == 0, err
        return out

    row = schedules().splitlines()[1]
    assert row.startswith("nightly  recurring run  -          0 30 2 * * * UTC  active")
    assert row.endswith("2026-11-21 02:30:00Z  succeeded")
    shown = schedules("show", "nightly")
    assert "manual                2026-11-21 02:30:08Z  r-2  running" in shown
    assert "2026-11-21 02:30:00Z  2026-11-21 02:30:08Z  r-1  succeeded" in shown
    assert "of-another" not in shown
    schedules("pause", "nightly")
    assert backend.changes == ["POST /recurringruns/old:disable"]
    schedules("resume", "old")
    assert backend.changes == ["POST /recurringruns/old:enable"]
    assert "manual run id-1 of nightly created" in schedules("run-now", "nightly")
    assert backend.created["runs"]["runtime_config"]["parameters"] == {"n": 3}
    schedules("delete", "nightly", "--yes")
    assert backend.changes == ["DELETE /recurringruns/old"]


def test_an_interrupted_replacement_is_finished(program):
    first, second = Backend(), Backend()
    assert submitted(first, program, "--every", "1h")[0] == 0
    before = {**recurring(first, "ENABLED"), "recurring_run_id": "before", "description": "another"}
    second.recurring = [recurring(first, "DISABLED"), before]
    assert submitted(second, program, "--every", "1h")[0] == 0
    assert second.changes == ["POST /recurringruns/before:disable", "POST /recurringruns/old:enable"]


def another(first, identifier, **changes):
    """Return the recurring run that another submitter has just created, paused."""
    return {**recurring(first, "DISABLED"), "created_at": NOW, "recurring_run_id": identifier, **changes}


@pytest.mark.parametrize(("identifier", "enabled"), [("id-0", []), ("id-2", ["POST /recurringruns/id-1:enable"])])
@pytest.mark.parametrize("same", [True, False])
def test_of_two_submitters_at_once_one_starts_its_recurring_run(program, identifier, enabled, same):
    """The other one, which was created in the same second, is not started by this one, and not deleted."""
    first, second = Backend(), Backend()
    assert submitted(first, program, "--every", "1h")[0] == 0
    second.other_submitters = [another(first, identifier, **({} if same else {"description": "x"}))]
    code, out, err = submitted(second, program, "--every", "1h")
    removed = [] if enabled else ["DELETE /recurringruns/id-1"]
    assert second.changes == ["recurringruns", *removed, *enabled], err
    assert code == (0 if enabled or same else 2), err
    started = "id-1" if enabled else "id-0"
    assert (f"created: {started}" in out) == (code == 0), out
    assert bool(enabled) or "another submitter created recurring run id-0 of this name at the same time" in err


def test_a_change_that_another_submitter_has_begun_is_not_overtaken(program, monkeypatch):
    first, second = Backend(), Backend()
    assert submitted(first, program, "--every", "1h")[0] == 0
    second.recurring = [another(first, "new", description="x"), {**recurring(first, "ENABLED"), "description": "y"}]
    monkeypatch.setattr("time.time", lambda: 1795737620.0)  # 20 s after NOW
    code, _, err = submitted(second, program, "--every", "2h", "--yes")
    assert (code, second.changes) == (2, []), err
    assert "recurring run new of this name was created 20 s ago and is not started yet" in err


def test_what_another_submitter_has_started_is_not_started_again(program):
    """It has a paused one of the same content beside it, which its submitter is about to delete."""
    first, second = Backend(), Backend()
    assert submitted(first, program, "--every", "1h")[0] == 0
    second.recurring = [another(first, "loser"), another(first, "id-0", status="ENABLED")]
    code, out, err = submitted(second, program, "--every", "1h")
    assert (code, second.changes, out) == (0, [], "recurring run nightly already exists: id-0\n"), err


def test_dates_that_a_recurring_run_has_yet_to_catch_up_wait(program):
    """Those before its creation, too; a date between two runs was not sent, and is not said to wait."""
    first, backend = Backend(), Backend()
    assert submitted(first, program, "--cron", "30 2 * * *")[0] == 0
    trigger = {"cron_schedule": {"cron": "0 30 2 * * *", "start_time": "2026-11-20T00:00:00Z"}}
    created = {"created_at": "2026-11-24T00:00:00Z", "trigger": trigger}
    backend.recurring = [{**recurring(first, "ENABLED"), **created, "no_catchup": False}]
    common = {"created_at": "2026-11-24T00:00:08Z", "recurring_run_id": "old", "state": "SUCCEEDED"}
    backend.runs = [{**common, "run_id": f"r-{day}", "scheduled_at": f"2026-11-{day}T02:30:00Z"} for day in (22, 20)]
    with serve(backend) as server:
        shown = tfsteps("schedules", "show", "nightly", "--host", f"http://127.0.0.1:{server.server_port}")[1]
    rows = [line.split() for line in shown.splitlines() if line.startswith("2026-11-2")]
    outcome = {row[0]: row[-1] for row in rows if row[0] <= "2026-11-24"}
    assert outcome == {
        "2026-11-24": "waiting",
        "2026-11-23": "waiting",
        "2026-11-22": "succeeded",
        "2026-11-21": "known",
        "2026-11-20": "succeeded",
    }


def test_earlier_manual_runs_are_removed_first_and_none_of_a_schedule(program):
    first, second = Backend(), Backend(["CANCELING", "CANCELED"])
    assert submitted(first, program)[0] == 0
    mine = first.created["runs"]["description"]
    second.runs = [
        {"run_id": "running", "description": mine, "state": "RUNNING"},
        {"run_id": "ended", "description": mine, "state": "FAILED"},
        {"run_id": "scheduled", "description": mine, "state": "RUNNING", "recurring_run_id": "r"},
        {"run_id": "of-a-page", "state": "RUNNING"},
        {"run_id": "another", "description": mine.replace("nightly", "other"), "state": "RUNNING"},
    ]
    code, _, err = submitted(second, program, "--replace")
    assert code == 0, err
    assert second.changes == ["POST /runs/running:terminate", "DELETE /runs/running", "DELETE /runs/ended", "runs"]


def test_a_dry_run_of_replace_says_which_runs_it_would_remove(program):
    first, second = Backend(), Backend()
    assert submitted(first, program)[0] == 0
    mine = {"run_id": "running", "display_name": "x", "description": first.created["runs"]["description"]}
    second.runs = [{**mine, "state": "RUNNING"}, {"run_id": "of-a-page", "state": "RUNNING"}]
    code, out, err = submitted(second, program, "--replace", "--dry-run")
    assert (code, second.changes, "job_name: nightly" in out) == (0, [], True), err
    assert err.splitlines()[-1] == "would remove the manual run running (x, RUNNING)"


def test_a_demo_has_its_mark_on_the_pods_of_its_steps_and_is_not_replaced(program):
    first, second = Backend(), Backend()
    assert submitted(first, program, "--demo", "--picture", "https://example.com/a.png")[0] == 0
    created_run = first.created["runs"]
    marks = {
        "labels": {"tfsteps.dev/demo": "true"},
        "annotations": {"tfsteps.dev/picture": "https://example.com/a.png"},
    }
    executors = created_run["pipeline_spec"]["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert executors == {"exec-step": {"podMetadata": marks}}
    second.runs = [
        {"run_id": "plain", "description": created_run["description"].splitlines()[0], "state": "FAILED"},
        {"run_id": "demo", "description": created_run["description"], "state": "SUCCEEDED"},
    ]
    for options in ([], ["--dry-run"]):
        code, _, err = submitted(second, program, "--replace", *options)
        assert (code, second.changes) == (2, []), err
        assert "run demo" in err
        assert "is a demo, and demos are read-only" in err


def test_a_schedule_is_no_demo(program):
    backend = Backend()
    code, _, err = submitted(backend, program, "--demo", "--every", "1h")
    assert (code, backend.changes, "--demo is for a run" in err) == (2, [], True)


def test_nothing_is_asked_for_what_cannot_be(program, tmp_path):
    file = tmp_path / "berlin.yaml"
    file.write_text("cron: 0 6 * * 1\ntimezone: Europe/Berlin\nconcurrency: replace\n")
    with serve(Backend()) as server:
        code, out, err = tfsteps(
            "submit", program, "--schedule", file, "--host", f"http://127.0.0.1:{server.server_port}"
        )
        assert server.asked == []
    assert (code, out) == (2, "")
    assert [line.split(": ")[1] for line in err.splitlines()] == ["timezone", "concurrency"]


def test_dry_runs_ask_nobody_and_print_the_arguments(program):
    code, out, _ = tfsteps("submit", program, "--dry-run", "--every", "1h", "-p", "mode=quick")
    assert code == 0
    assert "interval_second: 3600\n" in out
    assert "params:\n  mode: quick\n" in out


def test_a_server_that_is_not_there(program, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    code, _, err = tfsteps("submit", program, "--host", "http://127.0.0.1:9")
    assert (code, "Kubeflow Pipelines cannot be reached" in err, "--host" in err) == (13, True, True), err


def test_what_is_written_is_what_was_compiled(program, tmp_path):
    file = tmp_path / "nightly.yaml"
    assert tfsteps("compile", program, "-o", file)[0] == 0
    one, other = Backend(), Backend()
    submitted(one, program, "--name", "n")
    submitted(other, file, "--name", "n")
    assert msgspec.to_builtins(one.created) == msgspec.to_builtins(other.created)


@pytest.mark.parametrize(("options", "namespace"), [((), "kubeflow"), (("--namespace", "team"), "team")])
def test_the_command_that_is_printed_leads_to_the_runs_jobs(program, options, namespace):
    code, out, err = submitted(Backend(), program, *options)
    assert (code, out.splitlines()[-1]) == (
        0,
        f"Its jobs: tfsteps show id-1 --on kubernetes --namespace {namespace}",
    ), err


def test_closed_output_does_not_stop_the_creation(program):
    backend = Backend()
    with serve(backend) as server:
        code = unread("submit", program, "--every", "1h", "--host", f"http://127.0.0.1:{server.server_port}")
    assert ("recurringruns" in backend.created, code) == (True, 141)


CLAIMS = """
from kfp import dsl, kubernetes

@dsl.container_component
def step():
    return dsl.ContainerSpec(image="busybox:1.37", command=["true"])

@dsl.pipeline(name="claims")
def claims(claim: str = "from-default", other: str = "unused"):
    for name in ("constant", claim):
        kubernetes.mount_pvc(step(), pvc_name=name, mount_path="/data")
"""


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ((), []),
        (("--context", "test"), ["constant", "from-default"]),
        (("--context", "test", "-p", "claim=here"), ["constant"]),
    ],
)
def test_missing_claims_are_reported_where_the_cluster_is_known(tmp_path, monkeypatch, options, missing):
    def cluster(asked):
        name = asked.path.rpartition("/")[2]
        assert asked.path == f"/api/v1/namespaces/kubeflow/persistentvolumeclaims/{name}"
        return Answer(body={}) if name == "here" else refusal(404, "NotFound")

    file = tmp_path / "claims.py"
    file.write_text(CLAIMS)
    with serve(cluster) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        backend = Backend()
        code, _, err = submitted(backend, file, *options)
    claims = [line.split()[2] for line in err.splitlines() if line.startswith("warning: PersistentVolumeClaim ")]
    assert (code, sorted(claims), "runs" in backend.created) == (0, [f"kubeflow/{name}" for name in missing], True), err


NAMED = """
from kfp import dsl, kubernetes

@dsl.container_component
def step():
    return dsl.ContainerSpec(image="busybox:1.37", command=["true"])

@dsl.pipeline(name="named")
def named(secret: str = "files"):
    task = step()
    kubernetes.use_secret_as_env(task, secret_name="token", secret_key_to_env={"a": "A"})
    kubernetes.use_secret_as_volume(task, secret_name=secret, mount_path="/s")
    kubernetes.use_secret_as_volume(task, secret_name="optional", mount_path="/o", optional=True)
    kubernetes.use_config_map_as_env(task, config_map_name="settings", config_map_key_to_env={"a": "B"})
    kubernetes.use_config_map_as_volume(task, config_map_name="here", mount_path="/c")
"""


@pytest.mark.parametrize("command", ["submit", "lint"])
def test_whatever_pods_name_and_is_missing_is_reported(tmp_path, monkeypatch, command):
    def cluster(asked):
        name = asked.path.rpartition("/")[2]
        return (
            Answer(body={"kind": "ConfigMap", "metadata": {"name": name}})
            if name == "here"
            else refusal(404, "NotFound")
        )

    file = tmp_path / "named.py"
    file.write_text(NAMED)
    compiled = tmp_path / "named.yaml"
    assert tfsteps("compile", file, "-o", compiled)[0] == 0
    with serve(cluster) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server, monkeypatch)
        if command == "submit":
            _, _, err = submitted(Backend(), compiled, "--context", "test", "--service-account", "runner", "-n", "team")
        else:
            _, _, err = tfsteps("lint", compiled, "--on", "kubernetes", "-n", "team")
    expected = ["ConfigMap team/settings", "Secret team/files", "Secret team/token"]
    expected += ["ServiceAccount team/runner"] if command == "submit" else []
    missing = [
        line.partition(" is missing on test: ")[0].rpartition("warning: ")[2]
        for line in err.splitlines()
        if "is missing" in line
    ]
    assert sorted(item.rpartition(": ")[2] for item in missing) == expected, err


ARGUED = """
from kfp import dsl
from tfsteps.kfp import train

@dsl.pipeline(name="nightly")
def nightly(workers: int = 1):
    train(name="mnist", image="mnist:1", command=["train"], workers=workers)
"""


def test_arguments_that_a_step_refuses_are_found_before_anything_is_created(tmp_path, monkeypatch):
    monkeypatch.setattr("tfsteps.image.REGISTRY", "docker.io")  # the image is on the nodes
    file = tmp_path / "nightly.py"
    file.write_text(ARGUED)
    assert tfsteps("submit", "--dry-run", file)[0] == 0
    for engine in ([], ["--engine", "local"]):
        code, out, err = tfsteps("submit", *engine, file, "-p", "workers=-1")
        assert (code, out) == (2, "")
        assert f"{file}: task train: workers: -1 is out of range" in err
