"""The `tfsteps` program and TFJobs on a real cluster: what it prints, how it ends, and what it leaves."""

import datetime as dt
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.conformance.systems import SYSTEMS
from tests.kubernetes_cli.conftest import IMAGE
from tests.preflight.conftest import HELD
from tests.support.shell import printing
from tests.support.waiting import read_until, until
from tfsteps.kube.resource import PODS
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs.identity import PREFIX

pytestmark = pytest.mark.cluster
ROOT = pathlib.Path(__file__).parents[2]
BUSY = "trap '' TERM; echo ready; while sleep 0.1; do echo busy; done"


def kubectl(*args, text):
    """Run the kubectl of the test cluster's tool, on whichever cluster is used."""
    tool = [sys.executable, "-m", "tests.cluster", "kubectl", "--kubeconfig", os.environ["KUBECONFIG"]]
    return subprocess.run([*tool, *args], input=text, capture_output=True, text=True, check=False, cwd=ROOT)


def another_machine(monkeypatch, tmp_path):
    """Forget all that the launchers have recorded."""
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "elsewhere"))


# --- run


def test_a_run_that_succeeds_prints_what_it_prints_locally(terminal, home, tmp_path, monkeypatch):
    both = "success: all_workers"  # else worker 1 may be taken away before it says anything
    job = terminal.job(printing("echo hello"), both, roles="{worker: {replicas: 2}}")
    done = terminal.tfsteps("run", job, "--run-id", "good")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr.count("warning: ")) == (ExitCode.SUCCEEDED, 1)
    assert lines[0] == "run good"
    assert sorted(line for line in lines if "hello" in line) == ["[worker-0] hello", "[worker-1] hello"]
    assert f"log          {home}/runs/good/quick/0/log" in lines
    assert re.match(r"quick succeeded after \S+", lines[-1])

    until(lambda: not terminal.api.list(PODS, terminal.namespace, labelSelector=f"{PREFIX}run-id=good")["items"])
    another_machine(monkeypatch, tmp_path)
    shown = terminal.tfsteps("show", "good").stdout
    assert len(re.findall(r"^worker-\d +succeeded", shown, re.MULTILINE)) == 2, f"their pods are gone: {shown}"


def test_a_failed_run_and_its_retry_seen_from_another_machine(terminal, tmp_path, monkeypatch):
    job = terminal.job(printing("echo oops; test $TFSTEPS_ATTEMPT = 1 || exit 3"), more="on_end: keep")
    first = terminal.tfsteps("run", job, "--run-id", "again", "--output", "json")
    outputs = json.loads(first.stdout)
    assert (first.returncode, outputs["job"]["state"]) == (ExitCode.FAILED, "failed")
    assert outputs["failure"]["exit_code"] == 3
    assert "[worker-0] oops" in first.stderr.splitlines()

    another_machine(monkeypatch, tmp_path)
    shown = terminal.tfsteps("show", "agai")
    assert (shown.returncode, shown.stderr) == (0, "")
    for expected in ("failed first worker-0", "  | oops", "exit code    3: the program ended with an error"):
        assert expected in shown.stdout.splitlines()
    assert terminal.tfsteps("logs", "again").stdout == "[worker-0] oops\n"

    assert terminal.tfsteps("run", job, "--run-id", "again").returncode == ExitCode.SUCCEEDED
    listed = json.loads(terminal.tfsteps("runs", "--output", "json").stdout)
    assert [(item["attempt"], item["state"]) for item in listed if item["run"] == "again"] == [
        (1, "succeeded"),
        (0, "failed"),
    ]


def test_a_failed_init_container_is_named_and_its_log_read_from_another_machine(terminal, tmp_path, monkeypatch):
    script = "echo no such bucket >&2; sleep 1; exit 3"
    init = {"name": "init-data", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    more = yaml.safe_dump({"on_end": "keep", "restart": "never", "pod": {"spec": {"initContainers": [init]}}})
    job = terminal.job("echo never", more)
    assert terminal.tfsteps("run", job, "--run-id", "bad-init").returncode == ExitCode.FAILED

    another_machine(monkeypatch, tmp_path)
    assert terminal.tfsteps("logs", "bad-init").stdout == "[worker-0/init-data] no such bucket\n"
    shown = terminal.tfsteps("show", "bad-init").stdout
    assert "worker-0's container init-data failed with exit code 3" in shown
    assert "  | no such bucket" in shown.splitlines()


def test_a_dry_run_is_what_kubectl_takes_and_creates_nothing(terminal, home):
    done = terminal.tfsteps("run", terminal.job("true"), "--dry-run", "--run-id", "dry")
    assert done.returncode == 0
    for text in (done.stdout, terminal.tfsteps("run", "job.yaml", "--dry-run", "--output", "json").stdout):
        taken = kubectl("apply", "--dry-run=server", "-f", "-", text=text)
        assert (taken.returncode, taken.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["metadata"]["namespace"] == terminal.namespace
    assert not terminal.jobs("dry")
    assert not home.exists()


# --- from another terminal


def test_a_running_job_is_seen_followed_and_stopped_from_another_machine(terminal, tmp_path, monkeypatch):
    job = terminal.job("echo ready; i=0; while sleep 0.2; do i=$((i+1)); echo $i; done")
    with terminal.started("run", job, "--run-id", "busy") as launcher:
        read_until(launcher, "ready")
        another_machine(monkeypatch, tmp_path)
        assert re.search(r"busy +quick +0 +(pending|running) ", terminal.tfsteps("runs").stdout)
        refused = terminal.tfsteps("run", job, "--run-id", "busy")
        assert refused.returncode == ExitCode.USAGE
        stop = f"`tfsteps stop busy --task quick --on kubernetes --namespace {terminal.namespace}` stops it"
        assert stop in refused.stderr
        until(lambda: "Started" in terminal.reasons("busy"))  # a kubelet may tell late
        debug = terminal.tfsteps("debug", "busy")
        with terminal.started("logs", "busy", "--follow", "--tail", "1") as logs:
            first = int(logs.stdout.readline().removeprefix("[worker-0] "))
            assert [int(logs.stdout.readline().removeprefix("[worker-0] ")) for _ in range(5)] == [
                first + i for i in range(1, 6)
            ]
            stopped = terminal.tfsteps("stop", "busy", "--now")
            out, _ = logs.communicate(timeout=60)
            assert logs.returncode == 0
        output, _ = launcher.communicate(timeout=60)
        assert launcher.returncode == ExitCode.CANCELLED
    end = r"quick cancelled after \S+: the job was deleted\n"
    assert re.fullmatch(rf"(stopping quick: waiting for worker-0\n)?{end}", stopped.stdout)
    assert "`tfsteps stop` ended it" in output
    assert out
    for expected in (
        r"^events$",
        r"Started container tensorflow|Container started",  # up to Kubernetes 1.34, and 1.37
        r"^conditions$",
        rf"kubectl --namespace {terminal.namespace} exec -it \S+-worker-0 -c tensorflow -- sh$",
    ):
        assert re.search(expected, debug.stdout, re.MULTILINE), expected
    gone = terminal.tfsteps("show", "busy")
    assert (gone.returncode, gone.stdout) == (ExitCode.USAGE, "")
    assert gone.stderr.startswith("error: run 'busy' is unknown")


def test_adopt_continues_a_job_whose_launcher_was_killed(terminal, home):
    job = terminal.job(code := f"echo ready; {HELD}; echo end")
    with terminal.started("run", job, "--run-id", "left") as launcher:
        read_until(launcher, "ready")
        launcher.kill()
        launcher.communicate()
    assert "--adopt goes on with it" in terminal.tfsteps("run", job, "--run-id", "left").stderr
    other = terminal.job("echo another")
    assert "was made from another job" in terminal.tfsteps("run", other, "--run-id", "left", "--adopt").stderr
    with terminal.started("run", terminal.job(code), "--run-id", "left", "--adopt") as launcher:
        read_until(launcher, "up")
        terminal.release("left")
        _, err = launcher.communicate(timeout=60)
    assert launcher.returncode == ExitCode.SUCCEEDED, err
    assert len(terminal.jobs("left")) == 1
    lines = (home / "runs/left/quick/0/log").read_text().splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == ["ready", "up", "end"], "each line once"


def test_a_job_is_paused_and_resumed(terminal):
    job = terminal.job(f"echo ready; {HELD}; echo end")
    with terminal.started("run", job, "--run-id", "calm") as launcher:
        read_until(launcher, "ready")
        paused = terminal.tfsteps("pause", "calm")
        back = f"`tfsteps resume calm --task quick --on kubernetes --namespace {terminal.namespace}` starts it again"
        assert (paused.returncode, paused.stderr) == (0, "")
        assert paused.stdout.splitlines()[-1] == f"quick is paused; {back}"
        read_until(launcher, "quick: suspended")
        assert "is paused already" in terminal.tfsteps("pause", "calm").stderr
        resumed = terminal.tfsteps("resume", "calm", "--task", "quick")
        assert (resumed.returncode, resumed.stdout.startswith("quick is resumed; ")) == (0, True)
        output = read_until(launcher, "up")
        terminal.release("calm")
        output += launcher.communicate(timeout=60)[0]
    assert launcher.returncode == ExitCode.SUCCEEDED
    assert [line for line in output.splitlines() if line.startswith("[")] == [
        f"[worker-0] {item}" for item in ("ready", "up", "end")
    ]
    assert "has ended: quick succeeded" in terminal.tfsteps("pause", "calm").stderr


@pytest.mark.shows("hold", "kubeflow jobset jobs trainjob tfjob-v1alpha1")
@pytest.mark.parametrize("system", ["kubeflow", "jobset", "jobs", "trainjob", "tfjob-v1alpha1"])
def test_held_replicas_are_there_to_look_around_in(terminal, versioned, system):
    next(item for item in SYSTEMS if item.name == system).install()
    limits, roles = "deadlines: {running: 1s, no_progress: 1s}", "{worker: {}}"
    job = terminal.job("exit 3", limits, roles, versioned)
    with terminal.started("debug", job, "--hold", "worker", "--system", system) as held:
        output = read_until(held, "all that is held is up")
        shells = re.findall(r"(\S+) is held; a shell beside it:  kubectl (.*)", output)
        ((name, command),) = shells
        typed = kubectl(
            *shlex.split(command.replace("-it", "-i")), text='echo "$TFSTEPS_ROLE-$TFSTEPS_INDEX $TF_CONFIG"'
        )
        replica, _, config = typed.stdout.partition(" ")
        task = json.loads(config)["task"]
        assert replica == f"{task['type']}-{task['index']}" == name == "worker-0", typed.stderr
        time.sleep(2)  # longer than the deadlines that do not hold
        assert held.poll() is None
        held.send_signal(signal.SIGINT)
        held.communicate(timeout=60)
    assert held.returncode == ExitCode.CANCELLED
    assert "worker: its program is  sh -c 'exit 3'" in output


def test_show_follow_ends_with_the_job(terminal):
    with terminal.started(
        "run", terminal.job("echo ready; sleep 3; exit 4", more="on_end: keep"), "--run-id", "seen"
    ) as it:
        read_until(it, "ready")
        shown = terminal.tfsteps("show", "seen", "--follow")
        assert it.wait(60) == ExitCode.FAILED
    assert shown.returncode == 0
    assert re.search(r"^quick failed after \S+: worker-0 failed with exit code 4", shown.stdout, re.MULTILINE)


# --- signals


@pytest.mark.parametrize("signals", [1, 2])
def test_ctrl_c_deletes_the_job_and_a_second_one_does_not_wait(terminal, home, signals):
    run = f"ctrl-c-{signals}"
    with terminal.started("run", terminal.job(BUSY), "--run-id", run) as process:
        read_until(process, "ready")
        process.send_signal(signal.SIGINT)
        if signals == 2:
            until(lambda: not terminal.jobs(run))  # the first is heard: two at once may be one
            process.send_signal(signal.SIGINT)
        sent = time.time()
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.CANCELLED
    assert "Traceback" not in err
    assert not terminal.jobs(run)
    assert re.match(r"quick cancelled after ", out.splitlines()[-1])
    last = (home / f"runs/{run}/quick/0/log").read_text().splitlines()[-1].split()[0]
    printed = dt.datetime.fromisoformat(last).timestamp()
    assert printed < sent + 1 or signals == 1, "the last lines are waited for only once"


# --- what is not there


def test_an_unknown_run_names_the_nearest(terminal):
    for command in ("show", "logs", "stop", "debug"):
        done = terminal.tfsteps(command, "nobody")
        assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
        assert re.match(r"error: run 'nobody' is unknown", done.stderr)
