"""The `tfsteps` program and real jobs: exit codes, what goes where, signals, and other terminals."""

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import yaml

from tests.support.jobs import alive, pid_of
from tests.support.waiting import read_until, until
from tests.unit.cli.command import COMMAND
from tests.unit.cli.statuses import saved
from tests.unit.console.terminal import Terminal
from tfsteps.launcher.exit_codes import ExitCode
from tfsteps.runs import store
from tfsteps.runs.events import State
from tfsteps.runs.store import AttemptFolder

SWALLOW = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An own folder to type the commands in."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def script(code, more="", roles="{worker: {replicas: 2}}"):
    """Write job.yaml: a shell script in two workers, neither of which listens on its port."""
    job = {"name": "script", "command": ["sh", "-c", code], "systems": {"local": {"started": "spawn", "grace": "100s"}}}
    pathlib.Path("job.yaml").write_text(f"{yaml.safe_dump(job)}roles: {roles}\n{more}\n")
    return "job.yaml"


def tfsteps(*args, **options):
    return subprocess.run([COMMAND, *args], capture_output=True, text=True, check=False, timeout=150, **options)


@contextlib.contextmanager
def started(*args):
    """Start `tfsteps` in the background; it is killed if it outlives the block."""
    with subprocess.Popen([COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def until_all_are_ready(process):
    """Read standard output until both workers have said so."""
    first = re.search(r"worker-\d", read_until(process, "ready").splitlines()[-1])[0]
    read_until(process, rf"worker-[^{first[-1]}]\] ready")


def replicas(run):
    """Return the process ids of a run's replicas."""
    status = store.attempts(run)[0].status()
    return [pid_of(status, replica.name) for replica in status.replicas]


# --- what a run prints, and how it ends


def test_a_run_that_succeeds(home):
    done = tfsteps("run", script("echo hello"), "--run-id", "r1")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (ExitCode.SUCCEEDED, "")
    assert lines[0] == "run r1"
    assert sorted(line for line in lines if "hello" in line) == ["[worker-0] hello", "[worker-1] hello"]
    assert f"log          {home}/runs/r1/script/0/log" in lines
    assert f"report       {home}/runs/r1/script/0/report.html" in lines
    assert re.fullmatch(r"script succeeded after \S+\.", lines[-1])
    assert "</html>" in AttemptFolder(home / "runs/r1/script/0").report.read_text()


@pytest.mark.parametrize(
    ("code", "more", "exit_code", "last"),
    [
        ("echo oops; exit 3", "", ExitCode.FAILED, r"script failed after \S+: worker-0 .*exit code 3"),
        (
            "exec sleep 600",
            "deadlines: {running: 1s}",
            ExitCode.DEADLINE,
            r"script failed after .*`running` passed after 1s",
        ),
        ("kill -TERM $PPID; exec sleep 600", "", ExitCode.CANCELLED, r"script cancelled after "),
    ],
)
def test_a_run_that_does_not_succeed_is_never_green(code, more, exit_code, last):
    done = tfsteps("run", script(code, more, "{worker: {}}"))
    assert done.returncode == exit_code
    assert re.match(last, done.stdout.splitlines()[-1])
    assert tfsteps("runs").stdout.splitlines()[1].split()[3] == re.match(r"script (\w+)", last)[1]


@pytest.mark.parametrize(("replicas", "repeated"), [(1, False), (5, True)])
def test_a_failed_run_says_what_its_log_has_once_unless_other_replicas_print_much(replicas, repeated):
    # the first failure ends the others, so none fails before all have printed
    printed = (
        f'echo oops; mktemp -q printed-XXXXXX; until [ "$(ls printed-* | wc -l)" = {replicas} ]; do sleep 0.1; done'
    )
    done = tfsteps("run", script(f"{printed}; exit 3", roles=f"{{worker: {{replicas: {replicas}}}}}"))
    lines = done.stdout.splitlines()
    assert "[worker-0] oops" in lines
    assert [line.startswith("failed first worker-") for line in lines].count(True) == 1
    assert ("  | oops" in lines) is repeated
    assert any(line.startswith("exit code ") for line in lines) is repeated
    assert "failed with exit code 3" in lines[-1]


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("none.yaml",), "error: job file 'none.yaml' does not exist; `tfsteps init` writes one to start from"),
        ((".",), "error: job file '.' cannot be read"),
        (("job.yaml", "--system", "lcoal"), "error: job system 'lcoal' is unknown: use one of local"),
        (("job.yaml", "--run-id", ""), "error: --run-id '' cannot be used"),
        (("job.yaml", "--run-id", "latest"), "error: --run-id 'latest' cannot be used"),
        (("job.yaml", "--run-id", "-x"), "error: --run-id '-x' cannot be used: commands read it as an option"),
        (("job.yaml", "--task", "a\nb"), "error: --task 'a\\nb' cannot be used"),
    ],
)
def test_a_wrong_command_line_exits_2_and_creates_nothing(home, args, answer):
    script("true")
    done = tfsteps("run", *args)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.startswith(answer)
    assert not home.exists()


def test_a_bad_job_exits_2_with_every_problem_and_creates_nothing(home, folder):
    (folder / "bad.yaml").write_text("name: x\nrolles: {}\ncommand: 3\n")
    done = tfsteps("run", "bad.yaml")
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert [line.split(": ")[:2] for line in done.stderr.splitlines()] == [
        ["bad.yaml:2", "rolles"],
        ["bad.yaml:3", "command"],
    ]
    assert not home.exists()


def test_a_state_folder_that_cannot_be_written_is_the_platforms_fault(home):
    home.touch()
    done = tfsteps("run", script("true"))
    assert done.returncode == ExitCode.PLATFORM
    assert "set TFSTEPS_HOME" in done.stderr


def test_a_job_from_standard_input():
    text = pathlib.Path(script("pwd", roles="{worker: {}}")).read_text()
    done = tfsteps("run", "-", input=text)
    assert done.returncode == ExitCode.SUCCEEDED
    assert f"[worker-0] {pathlib.Path.cwd()}" in done.stdout.splitlines()
    bad = tfsteps("run", "-", input="name: x")
    assert bad.returncode == ExitCode.USAGE
    assert bad.stderr.startswith("stdin:1: ")


def test_what_is_not_used_is_warned_of_once():
    done = tfsteps("run", script("true", "image: acme/x:1"))
    assert done.returncode == ExitCode.SUCCEEDED
    assert done.stderr.count("image") == 1
    assert done.stderr.startswith("warning: ")


def test_a_dry_run_prints_yaml_and_creates_nothing(home, folder):
    done = tfsteps("run", script("true"), "--dry-run", "--run-id", "r1", "--task", "t")
    plan = yaml.safe_load(done.stdout)
    assert (done.returncode, done.stderr) == (ExitCode.SUCCEEDED, "")
    assert (plan["run"], plan["task"], plan["attempt"], plan["system"]) == ("r1", "t", 0, "local")
    assert [item["replica"] for item in plan["objects"]] == ["worker-0", "worker-1"]
    assert plan["objects"][1]["env"]["TFSTEPS_INDEX"] == "1"
    assert json.loads(tfsteps("run", "job.yaml", "--dry-run", "--output", "json").stdout)["system"] == "local"
    assert not home.exists()
    assert [path.name for path in folder.iterdir()] == ["job.yaml"]


@pytest.mark.parametrize(("code", "exit_code", "state"), [("true", 0, "succeeded"), ("exit 1", 10, "failed")])
def test_json_is_one_object_on_standard_output_and_the_log_is_on_the_other(code, exit_code, state):
    done = tfsteps("run", script(f"echo hello; {code}", roles="{worker: {}}"), "--output", "json", "--run-id", "r1")
    outputs = json.loads(done.stdout)
    assert done.returncode == exit_code
    files = ("model", "logs", "report")
    assert set(outputs) == {
        *("run", "task", "attempt", "job", "metrics", "metric_notes", "tensorboard_url", "failure"),
        *files,
    }
    assert set(outputs["job"]) >= {"name", "uid", "system", "namespace", "state", "started", "ended"}
    assert (outputs["run"], outputs["job"]["state"]) == ("r1", state)
    assert (outputs["failure"] is None) == (exit_code == 0)
    assert done.stderr.splitlines()[0] == "run r1"
    assert "[worker-0] hello" in done.stderr.splitlines()


def test_the_same_run_again_is_another_attempt():
    job = script("echo attempt $TFSTEPS_ATTEMPT; test $TFSTEPS_ATTEMPT = 1", roles="{worker: {}}")
    assert tfsteps("run", job, "--run-id", "r1").returncode == ExitCode.FAILED
    again = tfsteps("run", job, "--run-id", "r1")
    assert again.returncode == ExitCode.SUCCEEDED
    assert "[worker-0] attempt 1" in again.stdout
    assert [row.split()[2:4] for row in tfsteps("runs").stdout.splitlines()[1:]] == [
        ["1", "succeeded"],
        ["0", "failed"],
    ]


def test_a_reader_that_goes_away_does_not_end_the_job():
    job = script("echo begun; sleep 0.5; seq 10000; exit 3", roles="{worker: {}}")
    with started("run", job, "--run-id", "r1") as process:
        read_until(process, "begun")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == ExitCode.FAILED
    assert tfsteps("logs", "r1", "--tail", "1").stdout == "[worker-0] 10000\n"


def test_every_line_of_a_loud_job_is_printed_once_and_in_order():
    done = tfsteps("run", script("seq 20000", roles="{worker: {}}"))
    assert re.findall(r"^\[worker-0\] (\d+)$", done.stdout, re.MULTILINE) == [str(i) for i in range(1, 20001)]


def test_timestamps_come_before_each_line():
    done = tfsteps("run", script("echo hello", roles="{worker: {}}"), "--timestamps")
    assert re.search(
        r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d \[worker-0\] hello$", done.stdout, re.MULTILINE
    )


@pytest.mark.parametrize("command", [("runs",), ("show", "latest"), ("logs", "latest"), ("schema",)])
def test_output_that_cannot_be_written_is_an_error(command):
    assert tfsteps("run", script("seq 10000", roles="{worker: {}}")).returncode == ExitCode.SUCCEEDED
    with open("/dev/full", "w") as full:  # noqa: PTH123  a device
        done = subprocess.run([COMMAND, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitCode.PLATFORM
    assert done.stderr == ("error: standard output cannot be written: No space left on device; free some space there\n")


# --- another terminal


def test_a_running_job_is_seen_and_stopped_from_another_terminal():
    with started("run", script("echo ready; exec sleep 600"), "--run-id", "r1") as process:
        read_until(process, "ready")
        pids = replicas("r1")
        assert tfsteps("runs").stdout.splitlines()[1].split()[3] in ("pending", "running")
        refused = tfsteps("run", "job.yaml", "--run-id", "r1")
        assert refused.returncode == ExitCode.USAGE
        assert "`tfsteps stop r1 --task script` stops it" in refused.stderr
        stopped = tfsteps("stop", "r1")
        assert process.wait(60) == ExitCode.CANCELLED
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.startswith("stopping script: waiting for ")
    assert re.match(r"script cancelled after ", stopped.stdout.splitlines()[-1])
    assert not any(map(alive, pids))
    again = tfsteps("stop", "r1")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith("already ended: script cancelled after ")


def test_stop_now_needs_no_patience():
    with started("run", script(SWALLOW), "--run-id", "r1") as process:
        until_all_are_ready(process)
        begun = time.monotonic()
        assert tfsteps("stop", "r1", "--now").returncode == 0
        assert time.monotonic() - begun < 60
        assert process.wait(60) == ExitCode.CANCELLED


def test_stop_waits_and_a_second_stop_kills():
    with started("run", script(SWALLOW), "--run-id", "r1") as process:
        until_all_are_ready(process)
        pids = replicas("r1")
        with started("stop", "r1") as patient:
            read_until(patient, "stopping script: waiting for worker-0, worker-1")
            time.sleep(0.5)
            assert patient.poll() is None
            assert all(map(alive, pids))
            begun = time.monotonic()
            assert tfsteps("stop", "r1", "--now").returncode == 0
            assert time.monotonic() - begun < 60
            assert patient.wait(60) == 0
        assert process.wait(60) == ExitCode.CANCELLED
    assert not any(map(alive, pids))


def test_stop_after_the_launcher_was_killed_reports_the_job_as_lost():
    with started("run", script("echo ready; exec sleep 600"), "--run-id", "r1") as process:
        read_until(process, "ready")
        pids = replicas("r1")
        process.kill()
    until(lambda: not any(map(alive, pids)))
    stopped = tfsteps("stop", "r1")
    assert stopped.returncode == 0
    assert re.match(r"already ended: script lost after \S+: The launcher was killed", stopped.stdout)
    first = replica_rows("r1")
    assert "stopped" in first[0]
    time.sleep(1.1)
    assert replica_rows("r1") == first, "no clock goes on"


def replica_rows(run):
    return [line for line in tfsteps("show", run).stdout.splitlines() if line.startswith(("chief-", "worker-"))]


@pytest.mark.shows("live_logs", "local")
def test_logs_and_show_follow_until_the_job_has_ended():
    with started(
        "run", script("for i in 1 2 3 4 5; do echo $i; sleep 0.2; done; exit 1", roles="{worker: {}}")
    ) as process:
        read_until(process, r"\] 1$")
        with started("logs", "latest", "--follow") as logs, started("show", "latest", "--follow") as show:
            assert logs.stdout.read() == "".join(f"[worker-0] {i}\n" for i in range(1, 6))
            shown = show.stdout.read()
            assert (logs.wait(60), show.wait(60)) == (0, 0)
        assert process.wait(60) == ExitCode.FAILED
    assert re.search(r"^script failed after .*exit code 1", shown, re.MULTILINE)


# --- signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_signal_cancels_the_job_and_is_reported(number, output):
    with started("run", script("echo ready; exec sleep 600"), "--run-id", "r1", "--output", output) as process:
        until(lambda: store.attempts("r1") and b"ready" in store.attempts("r1")[0].log.read_bytes())
        pids = replicas("r1")
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.CANCELLED
    assert not any(map(alive, pids))
    assert "Traceback" not in err
    if output == "json":
        assert json.loads(out)["job"]["state"] == State.CANCELLED
    else:
        assert re.match(r"script cancelled after ", out.splitlines()[-1])


def test_ctrl_c_on_a_terminal_ends_the_live_view_and_gives_the_terminal_back():
    job = script("echo '[bold]ready[/bold]'; exec sleep 600")
    pid, terminal = pty.fork()
    if not pid:
        os.execv(COMMAND, [COMMAND, "run", job, "--run-id", "r1"])
    shown = b""
    while b"[worker-1] [bold]ready" not in (plain := re.sub(rb"\x1b\[[0-9;]*m", b"", shown)) or (
        b"worker-1  running" not in plain
    ):
        shown += read_terminal(terminal)
    os.write(terminal, b"\x03")
    while more := read_terminal(terminal):
        shown += more
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == ExitCode.CANCELLED
    screen = Terminal(80).feed(shown.decode()).text()
    assert screen.startswith("run r1\n")
    assert "[worker-1] [bold]ready[/bold]" in screen.splitlines()
    assert screen.count("REPLICA") == 1, "the table of the ended job, and nothing of those before"
    assert re.match(r"script cancelled after ", screen.splitlines()[-1])
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l"), "the cursor is back"


def test_a_closed_terminal_ends_the_job_and_is_recorded():
    pid, terminal = pty.fork()
    if not pid:
        os.execv(COMMAND, [COMMAND, "run", script("echo ready; exec sleep 600"), "--run-id", "r1"])
    until(lambda: store.attempts("r1") and b"ready" in store.attempts("r1")[0].log.read_bytes())
    os.close(terminal)
    os.waitpid(pid, 0)
    status = store.attempts("r1")[0].status()
    assert (status.state, status.message) == (State.CANCELLED, "Stopped: SIGHUP: its terminal was closed.")


def read_terminal(terminal):
    """Return what comes from a terminal next; empty at its end."""
    assert select.select([terminal], [], [], 30)[0], "the terminal stays silent"
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # how Linux reports the end of a pseudo-terminal
        return b""


# --- TensorBoard


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}data/environment", timeout=60) as answer:
            return bool(json.load(answer)["data_location"])
    except urllib.error.URLError:
        return False


@pytest.mark.shows("tensorboard", "local")
def test_tensorboard_is_up_while_the_job_runs():
    with started("run", script("echo ready; exec sleep 600"), "--tensorboard", "--run-id", "r1") as process:
        url = process.stderr.readline().removeprefix("tensorboard ").strip()
        read_until(process, "ready")
        until(lambda: answers(url))  # the job does not wait for it
        assert store.attempts("r1")[0].status().tensorboard_url == url
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == ExitCode.CANCELLED
    assert not answers(url)
    (attempt,) = store.attempts("r1")
    assert attempt.status().tensorboard_url == ""
    assert url not in attempt.report.read_text()


def test_tensorboard_is_kept_until_ctrl_c_and_the_exit_code_is_the_jobs():
    job = script("exit 3", roles="{worker: {}}")
    with started("run", job, "--keep-tensorboard", "--run-id", "r1") as process:
        url = process.stderr.readline().removeprefix("tensorboard ").strip()
        read_until(process, "script failed after")
        assert "stays up until Ctrl-C: http" in process.stderr.readline()
        until(lambda: answers(url))
        assert url in tfsteps("show", "r1").stdout
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == ExitCode.FAILED
    assert not answers(url)
    assert url not in tfsteps("show", "r1").stdout


# --- the first job


@pytest.mark.tensorflow
def test_the_starter_job_trains_and_goes_on_where_it_stopped():
    assert tfsteps("init", "first").returncode == 0
    done = tfsteps("run", "first/job.yaml", "--run-id", "r1", "--output", "json")
    outputs = json.loads(done.stdout)
    assert (done.returncode, outputs["job"]["state"]) == (ExitCode.SUCCEEDED, State.SUCCEEDED), done.stderr
    assert outputs["metrics"]["accuracy"] > 0.9
    assert (pathlib.Path(outputs["model"]) / "saved_model.pb").exists()
    job = pathlib.Path("first/job.yaml")
    job.write_text(job.read_text().replace('[--epochs, "5"]', '[--epochs, "6"]'))
    again = tfsteps("run", str(job), "--run-id", "r1")
    assert again.returncode == ExitCode.SUCCEEDED
    assert "[worker-1] resumes from step 100" in again.stdout
    assert "[worker-0] step 120 loss" in again.stdout
    assert "step 80 " not in again.stdout


# --- cost of the start


def modules_after(*args):
    """Return the names of what a command imports, without what the interpreter starts with."""
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom tfsteps.cli.app import app\n"
        "try: app(sys.argv[1:])\nexcept SystemExit as end: code = end.code\n"
        "print(code, *sys.modules.keys() - before, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True, timeout=60)
    exit_code, *names = done.stderr.splitlines()[-1].split()
    assert exit_code == "0", done.stderr
    return {name.partition(".")[0] for name in names}


def test_a_run_imports_no_engine_no_client_and_no_tensorflow():
    imported = modules_after("run", script("true"))
    assert "typer" in imported
    assert not imported & {
        *("kfp", "hera", "kubernetes", "urllib3"),
        *("tensorflow", "tensorboard", "numpy", "rich", "psutil"),
    }


@pytest.mark.parametrize("command", ["runs", "show", "logs", "stop", "debug"])
def test_commands_about_local_runs_import_no_client(command):
    saved(run="r1", state=State.SUCCEEDED)
    imported = modules_after(command, *(["r1"] if command != "runs" else []))
    assert not imported & {"urllib3", "http", "ssl", "psutil", "rich"}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_list_of_commands_imports_none_of_them(option):
    """What typer takes beside itself is small; how long it takes depends on the machine."""
    small = {"annotated_doc", "shellingham", "typing_extensions", "cython_runtime"}
    imported = {name for name in modules_after(option) if not name.startswith("_")}
    assert imported - sys.stdlib_module_names - small == {"tfsteps", "typer"}


@pytest.mark.parametrize("option", ["--run-id", "--task"])
def test_no_id_leads_out_of_the_output_folder(option, tmp_path):
    job = script("true", more="output_dir: runs/{run_id}/{task}")
    done = tfsteps("run", job, option, "../../x")
    assert done.returncode == ExitCode.USAGE
    assert f"error: {option} '../../x' leads to another folder: write a name without `.`, `..`" in done.stderr


def test_a_run_that_could_not_start_has_failed_and_says_why(folder):
    (folder / "file").touch()
    done = tfsteps("run", script("true", "output_dir: file/below"), "--on", "local")
    assert done.returncode == ExitCode.USAGE
    wrong = f"output_dir: the folder {folder}/file/below cannot be made: Not a directory. Correct that, or set "
    assert wrong in done.stderr
    (recorded,) = json.loads(tfsteps("runs", "--output", "json").stdout)
    assert (recorded["state"], recorded["reason"]) == ("failed", "NotStarted")
