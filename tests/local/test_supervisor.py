"""Local processes of every kind but TensorFlow: ends, restarts, stops, logs, and what must never be left behind."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.support.jobs import PROGRAMS, alive, kill, pid_of, port_of, run_job
from tests.support.waiting import LONGEST, until
from tfsteps import spec
from tfsteps.launcher.lifecycle import launch
from tfsteps.runs.events import ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.runs.store import AttemptFolder
from tfsteps.systems import registry

STANDIN = "name: standin\ncommand: [python, standin.py]\nenv: {RESUME: 1}\n"
WSUM_TWO_REPLICAS = "6.147475360"


def script(code, roles="{worker: {}}", more=""):
    indented = "\n".join(f"      {line}" for line in code.splitlines())
    return f"name: script\nroles: {roles}\ncommand:\n  - sh\n  - -c\n  - |\n{indented}\n{more}\n"


def python(code, more=""):
    indented = "\n".join(f"      {line}" for line in code.splitlines())
    return f"name: script\nroles: {{worker: {{}}}}\ncommand:\n  - python\n  - -c\n  - |\n{indented}\n{more}\n"


@pytest.mark.shows("worker evaluator gang", "local")
def test_two_workers_and_an_evaluator():
    result = run_job(f"{STANDIN}roles: {{worker: {{replicas: 2}}, evaluator: {{}}}}")
    assert result.status.state is State.SUCCEEDED
    assert {r.state for r in result.status.replicas} == {ReplicaState.SUCCEEDED}
    assert result.printed(f"done wsum {WSUM_TWO_REPLICAS}")


@pytest.mark.shows("tf_config", "local")
def test_every_variable_is_there():
    code = 'env | grep -E "^(TF_CONFIG|TFSTEPS_|no_proxy|MINE)" | sort'
    text = script(code, "{worker: {replicas: 2}, evaluator: {}}", "env: {MINE: 1}\nsystems: {local: {started: spawn}}")
    result = run_job(text, run="my-run")
    seen = {line.partition("] ")[2] for line in result.printed(r"\[evaluator-0\]")}
    assert {
        "MINE=1",
        "TFSTEPS_RUN_ID=my-run",
        "TFSTEPS_TASK=script",
        "TFSTEPS_ATTEMPT=0",
        "TFSTEPS_ROLE=evaluator",
        "TFSTEPS_INDEX=0",
        f"TFSTEPS_OUTPUT_DIR={result.status.output}",
        f"TFSTEPS_MODEL_DIR={result.status.output}/model",
        f"TFSTEPS_LOG_DIR={result.status.output}/logs",
    } <= seen
    config = next(line for line in seen if line.startswith("TF_CONFIG"))
    assert '"task": {"type": "evaluator", "index": 0}' in config
    assert '"evaluator":' not in config.partition('"task"')[0]
    assert config.count("127.0.0.1:") == 2
    assert any(line.startswith("no_proxy=") and "127.0.0.1" in line for line in seen)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("[no-such-program]", 127, "not found"),
        ("[python, no_such_script.py]", 2, "No such file"),
        ("[./standin.py]", 126, "ermission denied"),
    ],
)
def test_a_wrong_command_fails_with_its_own_message(command, code, message):
    result = run_job(f"name: wrong\nroles: {{worker: {{}}}}\ncommand: {command}")
    assert result.status.state is State.FAILED
    assert result.status.failure.exit_code == code
    assert message in result.status.failure.tail[-1]


@pytest.mark.parametrize("by_path", [False, True])
def test_a_script_without_an_interpreter_line_does_not_start(tmp_path, by_path):
    """A shell would read it as its own script; the runtime of a container does not start it."""
    program = tmp_path / "train"
    program.write_text("import os\nprint(os.getcwd())\n")
    program.chmod(0o755)
    where = f"env: {{PATH: {tmp_path}}}" if by_path else f"working_dir: {tmp_path}"
    command = "[train]" if by_path else "[./train]"
    result = run_job(f"name: text\nroles: {{worker: {{}}}}\ncommand: {command}\n{where}")
    assert (result.status.state, result.status.reason) == (State.FAILED, "CannotStart")
    assert "is text without a first line such as `#!/usr/bin/env python3`" in result.status.message
    assert result.status.failure.fault == "user"
    program.write_text(f"#!{sys.executable}\nprint('started')\n")
    assert run_job(f"name: text\nroles: {{worker: {{}}}}\ncommand: {command}\n{where}").status.state is State.SUCCEEDED


@pytest.mark.shows("restart_on_failure", "local")
def test_failure_then_success_counts_the_restart(tmp_path):
    text = script(f"test -e {tmp_path}/done && exit 0; touch {tmp_path}/done; exit 7", more="restart: on_failure")
    result = run_job(text)
    assert result.status.state is State.SUCCEEDED
    assert result.ends("worker-0") == [("failed", 7), ("succeeded", 0)]
    assert any("exit code 7; restart 1 of 3" in message for message in result.watcher.messages)


@pytest.mark.shows("backoff_limit", "local")
def test_the_backoff_limit_ends_it():
    result = run_job(script("exit 7", more="restart: on_failure\nbackoff_limit: 2"))
    assert (result.status.state, result.status.reason) == (State.FAILED, "BackoffLimitExceeded")
    assert result.ends("worker-0") == [("failed", 7)] * 3
    assert "after 2 restarts" in result.status.failure.summary


def test_a_killed_worker_of_two_restarts_both_and_counts_once():
    text = f"{STANDIN}roles: {{worker: {{replicas: 2}}}}\nrestart: on_failure\nbackoff_limit: 1\n"
    result = run_job(text.replace("RESUME: 1", "RESUME: 1, FAIL_AT: 30"))
    assert result.status.state is State.SUCCEEDED
    assert [len(replica.incarnations) for replica in result.status.replicas] == [2, 2]
    assert result.printed(f"done wsum {WSUM_TWO_REPLICAS}")


@pytest.mark.shows("success_all_workers", "local")
def test_all_workers_must_succeed_where_asked():
    text = script('test "$TFSTEPS_INDEX" = 0 || { sleep 0.3; exit 3; }', "{worker: {replicas: 2}}")
    assert run_job(text).status.state is State.SUCCEEDED
    result = run_job(f"{text}success: all_workers", attempt=1)
    assert result.status.state is State.FAILED
    assert result.status.failure.replica == "worker-1"


def test_leftovers_are_ended_after_the_finish_time_and_do_not_count():
    text = script('test "$TFSTEPS_ROLE" = chief || exec sleep 600', "{chief: {}, worker: {}, evaluator: {}}")
    start = time.monotonic()
    result = run_job(f"{text}systems: {{local: {{finish: 1s, started: spawn}}}}")
    assert time.monotonic() - start < 30  # it is 30 s where nothing is asked for
    assert result.status.state is State.SUCCEEDED
    assert result.ends("worker-0") == [("stopped", 143)]


def test_grandchildren_in_groups_of_their_own_go_with_their_replica(tmp_path):
    code = f"set -m; sleep 600 & echo $! > {tmp_path}/pid; exit 0"
    assert run_job(script(code)).status.state is State.SUCCEEDED
    gone([int((tmp_path / "pid").read_text())], 5)


def test_a_background_process_that_holds_the_pipe_does_not_hold_the_job():
    start = time.monotonic()
    assert run_job(script("sleep 600 & echo out")).status.state is State.SUCCEEDED
    assert time.monotonic() - start < 60


def test_a_port_is_free_again_after_the_end():
    ports = []
    result = run_job(
        f"{STANDIN}roles: {{worker: {{replicas: 2}}}}",
        ("epoch 1", lambda status: ports.append(port_of(status, "worker-0"))),
    )
    assert result.status.state is State.SUCCEEDED
    socket.create_server(("", ports[0])).close()


# --- logs


def test_long_binary_and_unfinished_lines_are_complete_and_in_order():
    code = (
        "import sys; out = sys.stdout.buffer\n"
        "out.write(b'a' * (1 << 20) + b'\\n' + b'\\xff\\x00\\x1b[31m\\n\\r\\n\\n' + b'b' * (5 << 20) + b'\\nend')\n"
    )
    indented = code.replace("\n", "\n  ")
    text = f"name: long\nroles: {{worker: {{}}}}\ncommand:\n- python\n- -c\n- |\n  {indented}\n"
    result = run_job(text)
    log = AttemptFolder.of(result.status.identity).log.read_bytes().splitlines()
    lines = [line.split(b" ", 2)[2] for line in log]
    assert lines[0] == b"a" * (1 << 20)
    assert lines[1:4] == [b"\xff\x00\x1b[31m", b"", b""]
    assert b"".join(lines[4:-1]) == b"b" * (5 << 20)
    assert lines[-1] == b"end"
    assert max(map(len, lines)) <= 1 << 20


def test_a_hundred_thousand_lines_of_four_replicas_are_all_saved_in_order():
    text = script("seq 1 25000", "{worker: {replicas: 4}}", "success: all_workers\nsystems: {local: {started: spawn}}")
    result = run_job(text)
    for i in range(4):
        seen = [line.split("] ")[1] for line in result.watcher.printed if line.startswith(f"[worker-{i}]")]
        assert seen == [str(n) for n in range(1, 25001)]
    assert len(AttemptFolder.of(result.status.identity).log.read_bytes().splitlines()) == 100_000


# --- stopping


def interrupt(number=signal.SIGINT):
    return lambda _: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_cancel_the_job(number):
    result = run_job(script("echo up; exec sleep 600"), (r"up", interrupt(number)))
    assert (result.status.state, result.ends("worker-0")) == (State.CANCELLED, [("stopped", 143)])
    assert (
        result.status.message
        == {
            signal.SIGINT: "Stopped: Ctrl-C.",
            signal.SIGTERM: "Stopped: SIGTERM.",
            signal.SIGHUP: "Stopped: SIGHUP: its terminal was closed.",
        }[number]
    )


def test_a_second_ctrl_c_kills_at_once():
    text = script("trap 'echo asked' TERM; echo up; while :; do sleep 1; done", more="systems: {local: {grace: 100s}}")
    start = time.monotonic()
    result = run_job(text, (r"up", interrupt()), (r"asked", interrupt()))
    assert time.monotonic() - start < 60
    assert (result.status.state, result.ends("worker-0")) == (State.CANCELLED, [("stopped", 137)])
    assert "Stopping (Ctrl-C); Ctrl-C again kills the replicas." in result.watcher.messages


def test_two_ctrl_c_at_once_kill_as_two_do():
    text = script("trap '' TERM; echo up; while :; do sleep 1; done", more="systems: {local: {grace: 100s}}")
    start = time.monotonic()
    result = run_job(text, (r"up", lambda _: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)]))
    assert time.monotonic() - start < 60
    assert result.ends("worker-0") == [("stopped", 137)]


def test_a_stop_while_a_restart_waits_is_not_followed_by_a_start():
    text = script("exit 1", more="restart: on_failure\nbackoff_limit: 9")
    result = run_job(text, (r"state restarting", lambda _: threading.Timer(0.3, interrupt(), [None]).start()))
    assert result.status.state is State.CANCELLED
    assert result.status.replicas[0].state is not ReplicaState.RUNNING


@pytest.mark.shows("deadlines", "local")
@pytest.mark.parametrize("name", ["running", "total", "no_progress"])
def test_deadlines(name):
    text = script("echo up; exec sleep 600", more=f"deadlines: {{{name}: 1s}}")
    result = run_job(text)
    assert (result.status.state, result.status.reason) == (State.FAILED, "DeadlineExceeded")
    assert f"`{name}` passed after 1s" in result.status.message


TWO_SLEEPERS = "{chief: {}, worker: {}}"


def test_a_job_that_ignores_tf_config_runs_when_its_processes_do():
    result = run_job(script("exec sleep 600", TWO_SLEEPERS, "deadlines: {pending: 1s, running: 3s}"))
    assert result.watcher.states == [State.PENDING, State.RUNNING, State.FAILED]
    assert "`running` passed after 3s" in result.status.message


def test_a_peer_that_a_strategy_waits_for_has_to_join_within_pending():
    more = "strategy: multi_worker_mirrored\ndeadlines: {pending: 3s}"
    code = """import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
if config["task"]["type"] == "chief":
    server = socket.create_server(("127.0.0.1", int(config["cluster"]["chief"][0].split(":")[1])))
time.sleep(600)"""
    result = run_job(python(code, more).replace("{worker: {}}", TWO_SLEEPERS))
    assert result.watcher.states == [State.PENDING, State.RUNNING, State.FAILED]
    pid = result.replica("worker-0").incarnations[-1].place.split()[1]
    message = f"Still pending: worker-0. NotJoined: worker-0 runs (pid {pid}) but does not listen on its TF_CONFIG port"
    assert f"`pending` passed after 3s. {message}" in result.status.message


BAR = """import time
for step in range(60):
    print(f"\\r{step}/60 [=>...]", end="", flush=True)
    time.sleep(0.1)
"""
EVENT_FILES = """import os, pathlib, time
folder = pathlib.Path(os.environ["TFSTEPS_LOG_DIR"], "train")
folder.mkdir(parents=True)
for step in range(60):
    with (folder / "events.out.tfevents.1").open("ab") as file:
        file.write(b"x")
    time.sleep(0.1)
"""


@pytest.mark.parametrize("code", [BAR, EVENT_FILES], ids=["a progress bar", "event files"])
def test_no_progress_sees_more_than_whole_lines(code):
    result = run_job(python(code, "deadlines: {no_progress: 4s}"))
    assert result.status.state is State.SUCCEEDED, result.status.message
    assert (len(result.watcher.partials) >= 2) == (code is BAR)
    assert all(text.endswith(b"/60 [=>...]") and b"\r" not in text for text in result.watcher.partials)


RUN = """
import pathlib, sys
from tests.support.jobs import run_job
sys.exit(0 if run_job(sys.argv[1], run="other").status.state == "succeeded" else 1)
"""


@contextlib.contextmanager
def supervisor(text):
    """Run a job in another process; yield it and its attempt once its state is `running`, or was."""
    root = pathlib.Path(__file__).parents[2]
    name = text.split("name: ")[1].split()[0]
    attempt = AttemptFolder.of(Identity(run="other", task=name))
    with subprocess.Popen([sys.executable, "-c", RUN, text], cwd=root) as process:
        try:
            until(lambda: (attempt.folder / "status.json").exists() and attempt.status().started)
            yield process, attempt
        finally:
            process.kill()


def gone(pids, seconds=LONGEST):
    until(lambda: not any(alive(pid) for pid in pids), seconds)


def test_a_killed_supervisor_leaves_no_replica():
    text = script(
        "trap '' TERM; sleep 600 & sleep 601", "{worker: {replicas: 3}}", "systems: {local: {started: spawn}}"
    )
    with supervisor(text) as (process, attempt):
        pids = [pid_of(attempt.status(), f"worker-{i}") for i in range(3)]
        assert all(alive(pid) for pid in pids)
        process.kill()
        process.wait()
        gone(pids)
        assert attempt.status().state is State.LOST


def test_two_jobs_side_by_side_do_not_disturb_each_other():
    slow = (
        STANDIN.replace("RESUME: 1", "STEP_SLEEP: 0.1").replace("name: standin", "name: slow")
        + "roles: {worker: {replicas: 2}}"
    )
    with supervisor(slow) as (process, attempt):
        result = run_job(
            f"{STANDIN}roles: {{worker: {{replicas: 2}}}}\n".replace("RESUME: 1", "STEP_SLEEP: 0.05, EPOCHS: 999"),
            (r"epoch 1", kill("worker-1")),
        )
        assert result.status.state is State.FAILED
        assert process.wait(60) == 0
        assert attempt.status().state is State.SUCCEEDED


def test_a_closed_output_is_not_the_end_of_a_replica():
    result = run_job(script("exec >&- 2>&-; sleep 0.5; exit 4"))
    assert result.ends("worker-0") == [("failed", 4)]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk takes root")
def test_a_full_disk_loses_log_lines_but_not_the_job(tmp_path, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)], check=True)
    try:
        monkeypatch.setenv("TFSTEPS_HOME", str(disk / "home"))
        result = run_job(script("seq 1 30000; echo last", more="output_dir: out"))
        assert result.status.state is State.SUCCEEDED
        assert result.printed("last")
        assert "log lines could not be saved: No space left on device" in result.status.warnings[0]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_folder_of_programs_is_the_working_directory():
    assert run_job(script("pwd")).printed(str(PROGRAMS))


def test_an_incarnation_is_not_blamed_for_what_an_earlier_one_printed(tmp_path):
    script = f"import pathlib, sys; p = pathlib.Path('{tmp_path}/once'); f = p.exists(); p.touch(); f and sys.exit(7)"
    result = run_job(
        "{name: twice, restart: on_failure, backoff_limit: 1, roles: {worker: {}}, "
        f'command: [python, -c, "{script}; raise ValueError(1)"]}}'
    )
    assert result.printed("ValueError")
    digest = result.status.failure
    assert digest
    assert (digest.exit_code, digest.exception, digest.tail) == (7, "", [])


def test_a_replica_does_not_wait_for_its_lines_to_be_shown(tmp_path):
    done = tmp_path / "done"
    script = f"import pathlib; [print('x' * 99) for _ in range(100_000)]; pathlib.Path('{done}').touch()"
    job = f'{{name: loud, command: [python, -c, "{script}"], roles: {{worker: {{}}}}}}'
    result = run_job(job, ("x{99}", lambda _: until(done.exists)))
    assert result.status.state is State.SUCCEEDED
    assert len(result.printed("x{99}$")) == 100_000
    assert AttemptFolder.of(result.status.identity).log.read_bytes().count(b"x" * 99 + b"\n") == 100_000


STUCK = """import time
def inner():
    time.sleep(600)
print("step 3", flush=True)
inner()"""


def test_a_deadline_names_the_silent_replica_with_its_last_line_and_its_stack():
    result = run_job(python(STUCK, "deadlines: {no_progress: 4s}"))
    assert "it stood at <string>:3 in inner; its last line: step 3." in result.status.message
    assert re.search(r"worker-0 printed nothing for [4-9] s", result.status.message)
    assert "line 3 in inner" in result.status.failure.tail[0]
    assert result.printed(r"\(stack at the deadline\)")


def test_a_deadline_sends_its_signal_to_no_program_without_a_handler(tmp_path):
    code = f"trap 'touch {tmp_path}/term; exit 1' TERM\nsleep 600 & wait"
    result = run_job(script(code, more="deadlines: {no_progress: 3s}"))
    assert result.status.state is State.FAILED
    assert (tmp_path / "term").exists()  # it was alive until SIGTERM
    assert not result.printed("stack at the deadline")


def test_an_import_error_is_not_restarted_a_second_time():
    result = run_job(python("import no_such_module", "restart: on_failure"))
    assert result.status.reason == "SameFailure"
    assert result.replica("worker-0").restarts == 1
    assert any("does not help against ModuleNotFoundError" in message for message in result.watcher.messages)


def test_a_number_of_restarts_that_the_job_names_is_used():
    result = run_job(python("import no_such_module", "restart: on_failure\nbackoff_limit: 2"))
    assert result.replica("worker-0").restarts == 2


def test_a_failure_that_changes_is_restarted_as_often_as_allowed():
    code = "import os, time\nraise RuntimeError(f'{time.time()}')"
    assert run_job(python(code, "restart: on_failure")).replica("worker-0").restarts == 3


def test_a_job_without_ports_has_failed_and_is_not_lost():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        result = run_job("name: a\nroles: {worker: {replicas: 150}}\ncommand: [echo]")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (result.status.state, result.status.reason) == (State.FAILED, "StartFailed")
    assert "of 150 ports were free; raise `ulimit -n`" in result.status.message
    assert result.status.failure.fault == "platform"


def test_arguments_that_are_too_long_are_the_users_fault():
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, hard))  # a quarter of it is for arguments
    try:
        result = run_job("name: a\nroles: {worker: {}}\ncommand: [echo]\nargs: " + str(["x" * 100_000] * 4))
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    assert result.status.reason == "CannotStart"
    assert "its command, arguments and environment have" in result.status.failure.summary
    assert result.status.failure.fault == "user"


@pytest.mark.parametrize(
    ("command", "exception"),
    [
        ("[no-such-program]", "no-such-program: not found"),
        ("[/etc/passwd]", "/etc/passwd: Permission denied"),
        ("[python, no_such_file.py]", "can't open file"),
        ("[python, -m, no_such_module]", "No module named no_such_module"),
    ],
)
def test_what_cannot_be_executed_is_the_users_fault(command, exception):
    failure = run_job(f"name: a\nroles: {{worker: {{}}}}\ncommand: {command}").status.failure
    assert failure.exception.startswith(exception)
    assert failure.fault == "user"


def test_a_working_folder_that_vanished_is_named(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    job = spec.parse(
        f"name: a\nroles: {{worker: {{}}}}\ncommand: [sh, -c, 'rm -r {folder}; exit 1']\nrestart: on_failure"
    )
    status = launch(job, Identity(run="test", task="a"), registry.get("local"), base_dir=folder)
    assert f"its working folder {folder} cannot be entered" in status.message
    assert status.failure.fault == "user"


def test_a_traceback_before_success_is_a_remark():
    code = "python -c 'raise RuntimeError(\"no checkpoint\")'; echo copying"
    status = run_job(script(code)).status
    assert status.state is State.SUCCEEDED
    assert any("a traceback: RuntimeError: no checkpoint" in warning for warning in status.warnings)


def test_the_peak_is_one_number():
    code = "import time; a = bytearray(b'x') * (120 << 20); time.sleep(2); del a; time.sleep(4)"
    status = run_job(python(code, "resources: {memory: 400Mi}")).status
    peak = status.replicas[0].incarnations[0].memory_bytes
    assert peak == status.usage["worker"].memory_peak
    assert peak > 120 << 20


PEERS = """import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
ports = [int(host.split(":")[1]) for host in config["cluster"]["worker"]]
index = config["task"]["index"]
{}
time.sleep(7)"""
LISTEN = "server = socket.create_server(('127.0.0.1', ports[index]))"
OTHER_PORTS = """path = os.environ["TFSTEPS_OUTPUT_DIR"] + "/port"
if index == 0:
    server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    open(path + ".new", "w").write(str(server.getsockname()[1]))
    os.rename(path + ".new", path)
    peer = server.accept()
else:
    while not os.path.exists(path):
        time.sleep(0.1)
    peer = socket.create_connection(("127.0.0.1", int(open(path).read())))"""


@pytest.mark.parametrize(("way", "apart"), [("", True), (LISTEN, False), (OTHER_PORTS, False)])
def test_replicas_that_never_meet_are_a_warning(way, apart):
    result = run_job(python(PEERS.format(way)).replace("{worker: {}}", "{worker: {replicas: 2}}"))
    assert result.status.state is State.SUCCEEDED
    assert any(warning.startswith("Not distributed") for warning in result.status.warnings) is apart
