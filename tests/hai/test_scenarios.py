"""What happens to a task of HAI, or to its launcher, on the way."""

import contextlib
import itertools
import json
import pathlib
import re
import signal
import statistics
import time
import types

import pytest

from tests.conformance.verdicts import sh, standin
from tests.hai import pods
from tests.hai.environment import HaiEnvironment
from tests.hai.platform import HOOK_RESTART, INTERRUPT
from tests.support.waiting import until
from tfsteps import spec
from tfsteps.answer import NO, YES, known, unknown
from tfsteps.kube.credentials import Access
from tfsteps.launcher import lifecycle
from tfsteps.platforms import hai
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.runs.events import JobChanged, ReplicaState, State
from tfsteps.runs.identity import Identity
from tfsteps.systems.base import Cause, JobNote, LaunchError

pytestmark = [pytest.mark.skipif(not pods.may_isolate(), reason="ranks need namespaces, which root may make")]

_WORKER = {"roles": {"worker": {}}}
_WORKERS = {"roles": {"worker": {"replicas": 2}}}
_LONG = sh("echo up; exec sleep 600")
_SHORT = sh("echo up; sleep 4; echo end")
# The first run goes on until it is interrupted, the next one ends by itself.
_ONCE_MORE = sh(
    "ran=$TFSTEPS_OUTPUT_DIR/$RANK; [ -e $ran ] && exec printf 'up\\nend\\n'; mkdir -p $ran; echo up; exec sleep 600"
)
_WSUM = "done wsum 6.147475360"


@pytest.fixture
def environment(tmp_path):
    with HaiEnvironment(tmp_path) as environment:
        yield environment


@pytest.fixture
def system(environment, monkeypatch):
    """Return the job system as commands use it."""
    for name, value in environment.env.items():
        monkeypatch.setenv(name, value)
    return hai.system()


@pytest.fixture
def gate(tmp_path):
    """Return a file, not there yet, and a program that runs until it is there."""
    file = tmp_path / "gate"
    return file, sh(f"echo up; until [ -e {file} ]; do sleep 0.1; done; echo end")


def texts(launcher, replica=""):
    return [line for _, line in launcher.lines(replica)]


# --- pre-empted, suspended, paused


def test_a_preempted_task_goes_on_from_its_checkpoint_with_the_same_result(environment):
    slow_at_first = "[ -e $TFSTEPS_OUTPUT_DIR/ckpt.json ] || export STEP_SLEEP=0.5; exec python standin.py"
    launcher = environment.launch({**_WORKERS, **sh(slow_at_first), "env": {"EPOCHS": 30, "STEPS": 2, "RESUME": 1}})
    launcher.until_said("epoch 2 ")
    environment.platform.nodes = 1  # another user's task takes the rest
    launcher.until(State.QUEUED)
    assert launcher.status.reason == "Interrupted"
    environment.platform.nodes = 8
    launcher.ends(0, State.SUCCEEDED)
    first, second = environment.tasks()
    assert (first.stop_code & INTERRUPT, second.restart_count, first.chain_id) == (INTERRUPT, 1, second.chain_id)
    assert re.search(r"replicas 2 from step [1-9]", "\n".join(texts(launcher, "worker-1")))
    assert any(_WSUM in line for line in texts(launcher, "worker-0"))
    assert [incarnation.state for incarnation in launcher.status.replicas[1].incarnations] == [
        ReplicaState.STOPPED,
        ReplicaState.SUCCEEDED,
    ]
    assert sum(replica.restarts for replica in launcher.status.replicas) == 0


def test_every_rank_gets_sigterm_and_a_file_at_a_suspension(environment):
    script = (
        "import signal, sys, time, tfsteps_suspend\n"
        "def leave(*_):\n  print('saved', tfsteps_suspend.suspended(), flush=True); tfsteps_suspend.leave()\n"
        "signal.signal(signal.SIGTERM, leave)\nprint('up', flush=True)\ntime.sleep(600)"
    )
    environment.platform.received = environment.platform.final = 50.0
    launcher = environment.launch({**_WORKERS, "command": ["python", "-c", script]})
    until(lambda: launcher.started() and texts(launcher).count("up") == 2)
    began = time.monotonic()
    environment.platform.stop(environment.newest(), "suspend")
    until(lambda: len(environment.tasks()) == 2)
    assert time.monotonic() - began < 50.0  # they did not have to be ended
    assert environment.tasks()[0].suspend_code == 3
    until(lambda: texts(launcher).count("saved True") == 2)
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)


def test_a_rank_that_does_not_answer_a_suspension_is_ended(environment):
    launcher = environment.launch({**_WORKER, **standin(HANG=1, IGNORE_SIGTERM=1, PRINT_LINES=1)})
    launcher.until_said("line 0")
    environment.platform.stop(environment.newest(), "suspend")
    until(lambda: len(environment.tasks()) == 2)
    assert environment.tasks()[0].suspend_code == 2  # received, and no more
    until(lambda: len(launcher.status.replicas[0].incarnations) == 2)
    assert launcher.status.replicas[0].incarnations[0].state is ReplicaState.STOPPED
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)


@pytest.mark.shows("priority", "hai")
def test_a_task_of_higher_priority_takes_the_nodes_and_gives_them_back(environment, gate):
    environment.platform.nodes = 2
    file, until_then = gate
    low = environment.launch({**_WORKERS, **_ONCE_MORE, "priority": 10}, run="low")
    until(lambda: low.started() and texts(low).count("up") == 2)
    high = environment.launch({**_WORKERS, **until_then, "priority": 90}, run="high", task="high")
    low.until(State.QUEUED)
    high.until(State.RUNNING)
    file.touch()
    high.ends(0, State.SUCCEEDED)
    low.ends(0, State.SUCCEEDED)
    taken, taker, given_back = sorted(environment.tasks(), key=lambda task: task.begin_at)
    assert (taken.name, taker.name, given_back.name) == (low.status.job, high.status.job, low.status.job)
    assert taken.end_at <= taker.begin_at < taker.end_at <= given_back.begin_at


def test_a_number_is_remembered_over_interruptions(environment):
    script = (
        "import time, tfsteps_suspend as s\n"
        "knows = s.remembered()\nprint('knows', knows, flush=True)\n"
        "while True:\n"
        "  try: s.remember(knows + 7)\n"
        "  except OSError: continue\n"  # the manager stands still
        "  break\n"
        "time.sleep(0 if knows else 600)"
    )
    launcher = environment.launch({**_WORKER, "command": ["python", "-c", script]})
    launcher.until_said("knows 0")
    until(lambda: environment.newest().whole_life_state == 7)
    environment.platform.stop(environment.newest(), "suspend")
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher) == ["knows 0", "knows 7"]


def test_a_failed_check_of_the_hardware_queues_it_again(environment):
    launcher = environment.launch({**_WORKER, **_ONCE_MORE})
    launcher.until_said("up")
    environment.platform.hook_restart(environment.newest())
    launcher.ends(0, State.SUCCEEDED)
    assert environment.tasks()[0].stop_code == HOOK_RESTART
    assert State.RESTARTING in launcher.states or len(launcher.status.replicas[0].incarnations) == 2
    assert texts(launcher) == ["up", "up", "end"]


def test_an_interruption_shorter_than_a_poll_is_reported(environment, gate):
    file, until_then = gate
    launcher = environment.launch({**_WORKERS, **until_then})
    until(lambda: launcher.started() and texts(launcher).count("up") == 2)
    environment.platform.interrupt_at_once(environment.newest())
    until(lambda: texts(launcher).count("up") == 4)
    launcher.until(State.RUNNING)
    file.touch()
    launcher.ends(0, State.SUCCEEDED)
    transitions = [(item.state, item.reason) for item in launcher.status.transitions if item.state is not State.QUEUED]
    assert transitions == [
        (State.PENDING, ""),
        (State.RUNNING, ""),
        (State.RESTARTING, "Interrupted"),
        (State.RUNNING, ""),
        (State.SUCCEEDED, ""),
    ]


def test_it_is_pending_until_the_programs_have_started(environment):
    environment.platform.building = 4.0
    launcher = environment.launch({**_WORKERS, **_LONG})
    until(lambda: environment.tasks() and environment.newest().worker_status == "building")
    launcher.until(State.PENDING)
    launcher.until_said("up")
    launcher.until(State.RUNNING)
    environment.platform.interrupt_at_once(environment.newest())
    launcher.until(State.RESTARTING)
    assert {replica.state for replica in launcher.status.replicas} == {ReplicaState.PENDING}
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)


def test_pods_that_never_start_are_queued_again_until_the_deadline(environment):
    environment.platform.image_missing, environment.platform.unschedulable_after = True, 1.0
    launcher = environment.launch(
        {**_WORKERS, **_LONG, "image": "reg.local/own/missing", "deadlines": {"pending": "15s"}}
    )
    launcher.ends(11, State.FAILED, "DeadlineExceeded")
    assert State.RUNNING not in launcher.states
    assert re.search(r"times in a row.* can pull the image reg.local/own/missing", launcher.status.message)
    until(environment.gone)


@pytest.mark.shows("pause", "hai")
def test_paused_and_resumed(environment, system):
    launcher = environment.launch({**_WORKER, **_ONCE_MORE})
    launcher.until_said("up")
    assert system.pause("run") == [launcher.status.job]
    assert environment.gone()
    assert system.pause("run") == []
    launcher.until(State.SUSPENDED)
    assert system.resume("run") == [launcher.status.job]
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher) == ["up", "up", "end"]
    assert [incarnation.state for incarnation in launcher.status.replicas[0].incarnations] == [
        ReplicaState.STOPPED,
        ReplicaState.SUCCEEDED,
    ]
    assert system.resume("run") == []


def test_resumed_while_its_ranks_are_being_ended(environment, system, capsys):
    environment.platform.received = environment.platform.final = 2.0
    launcher = environment.launch({**_WORKER, **standin(HANG=1, IGNORE_SIGTERM=1, PRINT_LINES=1)})
    launcher.until_said("line 0")
    chain = environment.newest().chain_id
    environment.platform.tags[chain].append(schema.PAUSED)  # as of a `pause` that was killed
    environment.platform.stop(environment.newest(), "stop")
    assert system.resume("run") == [launcher.status.job]
    assert "waiting until HAI has ended" in capsys.readouterr().err
    assert len(environment.tasks()) == 2
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)


def test_a_pause_that_takes_too_long_is_reported(environment, system, monkeypatch):
    monkeypatch.setattr("tfsteps.platforms.hai.job_system._PAUSE_SECONDS", 1.0)
    launcher = environment.launch({**_WORKER, **standin(HANG=1, IGNORE_SIGTERM=1, PRINT_LINES=1)})
    launcher.until_said("line 0")
    with pytest.raises(LaunchError, match=r"has not ended .* within 1 s") as error:
        system.pause("run")
    assert error.value.retryable
    launcher.until(State.SUSPENDED)
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)


def test_paused_too_late(environment, system):
    launcher = environment.launch({**_WORKER, **sh("trap 'echo done; exit 0' TERM; echo up; sleep 600 & wait")})
    launcher.until_said("up")
    task = environment.newest()
    environment.platform.tags[task.chain_id].append(schema.PAUSED)
    environment.platform.stop(task, "succeed")
    launcher.ends(0, State.SUCCEEDED)
    assert system.resume("run") == []


@pytest.mark.shows("created_suspended", "hai")
def test_created_stopped_and_resumed(environment, system):
    launcher = environment.launch({**_WORKER, **_SHORT, "systems": {"hai": {"suspend": True}}})
    launcher.until(State.SUSPENDED)
    until(environment.gone)
    system.resume("run")
    launcher.ends(0, State.SUCCEEDED)


def test_stopped_while_paused(environment, system):
    launcher = environment.launch({**_WORKER, **_LONG})
    launcher.until_said("up")
    system.pause("run")
    launcher.until(State.SUSPENDED)
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)
    assert system.resume("run") == []


# --- stopped


@pytest.mark.parametrize(
    ("op", "code", "state", "reason"),
    [
        ("stop", 12, State.CANCELLED, "Stopped"),
        ("succeed", 0, State.SUCCEEDED, "MarkedSucceeded"),
        ("fail", 10, State.FAILED, "MarkedFailed"),
    ],
)
def test_ended_from_outside(environment, op, code, state, reason):
    launcher = environment.launch({**_WORKERS, **_LONG})
    launcher.until(State.RUNNING)
    environment.platform.stop(environment.newest(), op)
    launcher.ends(code, state, reason)
    until(environment.gone)


def test_stopped_while_queued(environment):
    environment.platform.nodes = 0
    launcher = environment.launch({**_WORKER, **_LONG})
    launcher.until(State.QUEUED)
    environment.platform.stop(environment.newest(), "stop")
    launcher.ends(12, State.CANCELLED)


def test_stopped_by_the_launcher_while_a_rank_ignores_it(environment):
    launcher = environment.launch({**_WORKERS, **standin(HANG=1, IGNORE_SIGTERM=1, PRINT_LINES=1)})
    launcher.until_said("line 0")
    launcher.signal(signal.SIGINT)
    launcher.ends(12, State.CANCELLED)
    until(environment.gone)


def test_parameter_servers_and_workers_that_never_end_are_ended_with_the_chief_at_once(environment):
    roles = {"chief": {}, "ps": {}, "worker": {}}
    script = sh("[ $TFSTEPS_ROLE = chief ] || exec sleep 600; sleep 1")
    launcher = environment.launch({"roles": roles, **script, "systems": {"hai": {"finish": "100s"}}})
    launcher.ends(0, State.SUCCEEDED)
    assert environment.newest().end_at - environment.newest().begin_at < 60
    assert [replica.state for replica in launcher.status.replicas[1:]] == [ReplicaState.STOPPED] * 2


def test_the_timeout_of_the_platform_is_a_deadline_of_the_job(environment):
    launcher = environment.launch({**_WORKER, **_LONG, "systems": {"hai": {"timeout": "3s"}}})
    launcher.ends(11, State.FAILED, "DeadlineExceeded")
    assert "its timeout of 3s (`systems.hai.timeout`" in launcher.status.message


# --- ended by the platform


def test_a_deleted_pod_is_the_platform_s_fault(environment):
    launcher = environment.launch({**_WORKERS, **_LONG})
    launcher.until(State.RUNNING)
    environment.platform.delete_pod(environment.newest(), 1)
    launcher.ends(13, State.LOST, "PodDeleted")
    assert (environment.newest().stop_code, environment.newest().worker_status) == (1, "stopped")
    assert launcher.failure.fault == "platform"


def test_a_manager_that_cannot_be_made_is_the_platform_s_fault(environment):
    environment.platform.manager_fault = True
    launcher = environment.launch({**_WORKERS, **_LONG})
    launcher.ends(13, State.LOST, "StartFailed")
    assert launcher.failure.fault == "platform"


def test_a_program_that_fails_before_the_manager_is_there_is_blamed(environment):
    environment.platform.manager_delay = 8.0
    launcher = environment.launch({**_WORKERS, **sh("[ $TFSTEPS_INDEX = 0 ] && exec sleep 600; echo bad; exit 3")})
    launcher.ends(10, State.FAILED, "ReplicaFailed")
    assert environment.newest().stop_code == 256
    assert (launcher.failure.replica, launcher.failure.exit_code) == ("worker-1", 3)


def test_what_the_platform_recorded_of_a_failure_is_shown(environment):
    launcher = environment.launch({**_WORKERS, **_LONG})
    launcher.until(State.RUNNING)
    environment.platform.watchdog(environment.newest(), "有任务容器遇到错误\nlog of rank 1 is silent")
    launcher.ends(10, State.FAILED, "Watchdog")
    assert "printed nothing" in launcher.failure.summary
    shown = " ".join(launcher.status.warnings)
    assert "a pod could not be started (有任务容器遇到错误); log of rank 1 is silent" in shown


def test_another_priority_than_asked_for_is_a_warning(environment):
    environment.platform.external = True
    launcher = environment.launch({**_WORKER, **sh("echo up"), "priority": 50})
    launcher.ends(0, State.SUCCEEDED)
    assert any("priority -1 in place of 20" in warning for warning in launcher.status.warnings)


def test_the_finalizer_stops_what_is_left_and_nothing_twice(environment, system):
    one = environment.launch({**_WORKER, **_LONG}, task="steps/one")
    other = environment.launch({**_WORKER, **_LONG}, task="other/two", home="there")
    for launcher in (one, other):
        launcher.until(State.RUNNING)
    assert system.clean_up(Identity(run="run", task="steps/end"), "siblings", None) == [one.status.job]
    one.ends(12, State.CANCELLED)
    assert system.clean_up(Identity(run="run", task="steps/end"), "run", None) == [other.status.job]
    assert system.clean_up(Identity(run="run", task="steps/end"), "run", None) == []
    other.ends(12, State.CANCELLED)


# --- refused, or never to start


@pytest.mark.shows("gang", "hai")
def test_no_node_is_free(environment):
    environment.platform.nodes = 1
    launcher = environment.launch({**_WORKERS, **_LONG, "deadlines": {"queue": "3s"}})
    launcher.ends(11, State.FAILED, "DeadlineExceeded")
    assert State.RUNNING not in launcher.states
    until(environment.gone)


@pytest.mark.parametrize(
    ("job", "words"),
    [({"image": "registry.local/own/image:1", "queue": "v100"}, ""), ({}, "超过 0")],
    ids=["image", "quota"],
)
def test_a_refusal_is_reported_with_the_platforms_message(environment, job, words):
    environment.platform.quota = 0
    launcher = environment.launch({**_WORKER, **_LONG, **job})
    assert launcher.wait() == 2
    assert words in launcher.text()
    assert "HAI did not take the task" in launcher.text()
    assert not environment.tasks()


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"MARSV2_USER_TOKEN": "wrong-token"}, "check the token in MARSV2_USER_TOKEN"),
        ({"MARSV2_USER_TOKEN": "old-token"}, "token 已过期"),
        (
            {"MARSV2_USER_TOKEN": "", "HFAI_CLIENT_CONFIG": "/nowhere"},
            "there is no token for HAI; set MARSV2_USER_TOKEN",
        ),
        ({"TFSTEPS_HAI_TOKEN_FILE": "/nowhere"}, "mount the Secret"),
        ({"MARSV2_SERVER": "", "HFAI_CLIENT_CONFIG": "/nowhere"}, "there is no address of HAI; set MARSV2_SERVER"),
        ({"MARSV2_SERVER": "ftp://hai"}, "is no address"),
    ],
)
def test_without_a_token_or_address_it_ends_at_once_with_what_to_do(environment, env, words):
    environment.platform.tokens["old-token"] = None
    environment.env.update(env)
    launcher = environment.launch({**_WORKER, **_LONG})
    assert launcher.wait() == 2
    assert words in launcher.text()
    assert "wrong-token" not in launcher.text()
    assert not environment.tasks()


def test_the_token_is_read_from_a_mounted_secret_and_from_the_clients_own_file(environment, tmp_path):
    secret, config = tmp_path / "token", tmp_path / "conf.yml"
    secret.write_text("secret-token\n")
    config.write_text(f"url: {environment.server.url}\ntoken: secret-token\nbff_url: http://nowhere\n")
    environment.env = {"TFSTEPS_HAI_TOKEN_FILE": str(secret), "MARSV2_SERVER": environment.server.url}
    environment.launch({**_WORKER, **sh("echo mounted")}, run="a").ends(0, State.SUCCEEDED)
    environment.env = {"HFAI_CLIENT_CONFIG": str(config)}
    environment.launch({**_WORKER, **sh("echo own")}, run="b").ends(0, State.SUCCEEDED)


def test_a_token_is_written_nowhere(environment, tmp_path):
    launcher = environment.launch({**_WORKER, **sh("echo done")})
    launcher.ends(0, State.SUCCEEDED)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and b"secret-token" in path.read_bytes()]
    assert written == []


# --- several launchers


def test_two_launchers_at_once_for_one_task(environment):
    both = [environment.launch({**_WORKER, **_SHORT}, home=home) for home in ("here", "there")]
    for launcher in both:
        launcher.ends(0, State.SUCCEEDED)
        assert texts(launcher) == ["up", "end"]
    assert len(environment.tasks()) == 1
    assert {launcher.status.uid for launcher in both} == {environment.newest().chain_id}


@pytest.mark.shows("adopt", "hai")
def test_the_task_of_a_killed_launcher_is_adopted(environment, system, gate):
    file, until_then = gate
    job = {**_WORKERS, **until_then, "success": "all_workers"}
    first = environment.launch(job, home="here")
    first.until_said("up")
    first.signal(signal.SIGKILL)
    assert system.attempt("run", "task") == 0
    second = environment.launch(job, home="there")
    second.until(State.RUNNING)
    file.touch()
    second.ends(0, State.SUCCEEDED)
    assert sorted(second.lines()) == sorted((f"worker-{i}", word) for i in range(2) for word in ("up", "end"))
    assert len(environment.tasks()) == 1
    assert second.status.created == first.status.created
    assert system.attempt("run", "task") == 0, "no step has reported its end"
    system.note(case(), second.status.job, second.status.uid, JobNote.REPORTED)
    assert system.attempt("run", "task") == 1


@pytest.mark.shows("labels", "hai")
def test_the_same_task_retried(environment):
    job = {**_WORKER, **sh("echo attempt $TFSTEPS_ATTEMPT; [ $TFSTEPS_ATTEMPT = 1 ]")}
    first = environment.launch(job)
    first.ends(10, State.FAILED)
    second = environment.launch(job, attempt=1)
    second.ends(0, State.SUCCEEDED)
    assert (texts(first), texts(second)) == (["attempt 0"], ["attempt 1"])


def test_another_job_under_the_name_of_this_one(environment):
    environment.launch({**_WORKER, **sh("echo mine")}, home="here").ends(0, State.SUCCEEDED)
    other = environment.launch({**_WORKER, **sh("echo other")}, home="there")
    assert other.wait() == 2
    assert "was made from another job" in other.text()
    assert len(environment.tasks()) == 1


def test_names_of_200_characters(environment):
    run, task = "r" * 100 + " ü/" + "r" * 97, "t" * 200
    launcher = environment.launch(
        {**_WORKERS, **sh("echo up"), "success": "all_workers", "name": "n" * 63}, run=run, task=task
    )
    launcher.ends(0, State.SUCCEEDED)
    assert sorted(launcher.lines()) == [("worker-0", "up"), ("worker-1", "up")]


# --- much to print, and what stands in it


def test_a_long_line_is_cut_by_the_platform_and_nothing_is_lost_around_it(environment):
    script = "import sys; print('before'); print('x' * (1 << 20)); print('after', end='')"
    launcher = environment.launch({**_WORKER, "command": ["python", "-c", script]})
    launcher.ends(0, State.SUCCEEDED)
    before, long, after = texts(launcher)
    assert (before, after) == ("before", "after")
    assert re.fullmatch(r"x{4067}\.\.\..*", long)  # 4096 with the time before it


def test_twenty_thousand_lines_come_once_and_in_order(environment):
    launcher = environment.launch({**_WORKER, **standin(PRINT_LINES=20_000, EPOCHS=1, STEP_SLEEP=0.1)})
    launcher.ends(0, State.SUCCEEDED)
    numbered = [line for line in texts(launcher) if line.startswith("line ")]
    assert numbered == [f"line {number}" for number in range(20_000)]


def test_bars_images_and_odd_bytes(environment):
    script = r"printf 'a 1%%\ra 2%%\r\n\n[HFAI_PRINT:TQDM]b 3%%\n[HFAI_PRINT:IMAGE]abcdef\n\377\n[2020-01-01] old\n'"
    launcher = environment.launch({**_WORKER, **sh(script)})
    launcher.ends(0, State.SUCCEEDED)
    expected = ["a 1%\ra 2%", "", "b 3%", "(an image of 6 characters)", "\ufffd", "[2020-01-01] old"]
    assert texts(launcher) == expected


def test_values_of_variables_come_as_they_are(environment):
    values = {"A": "two words", "B": 'it\'s $HOME `id` \\ "x"', "C": "line\n  and line", "D": "", "E": "ü; rm -rf"}
    script = "import json, os; print(json.dumps([os.environ[name] for name in 'ABCDE']))"
    launcher = environment.launch({**_WORKER, "env": values, "command": ["python", "-c", script]})
    launcher.ends(0, State.SUCCEEDED)
    assert json.loads(texts(launcher)[0]) == list(values.values())


# --- the platform is away


def test_the_platform_is_away_for_a_while(environment, gate):
    file, until_then = gate
    launcher = environment.launch({**_WORKER, **until_then})
    launcher.until_said("up")
    environment.server.away = True
    file.touch()
    time.sleep(5)
    assert launcher.process.poll() is None
    environment.server.away = False
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher) == ["up", "end"]


def test_the_platform_is_away_at_the_start_and_busy_then(environment):
    environment.server.away = True
    launcher = environment.launch({**_WORKER, **sh("echo up")})
    until(lambda: len(environment.server.requests) > 1)
    environment.server.busy = 2
    environment.server.away = False
    launcher.ends(0, State.SUCCEEDED)
    assert len(environment.tasks()) == 1


def test_a_stop_during_a_start_that_is_not_answered(environment):
    environment.server.away = True
    launcher = environment.launch({**_WORKER, **_LONG})
    until(lambda: environment.server.requests)
    launcher.signal(signal.SIGTERM)
    launcher.ends(12, State.CANCELLED)
    assert not environment.tasks()


def test_a_log_that_hai_does_not_know_is_no_end(environment, gate):
    file, until_then = gate
    environment.server.logs = False
    launcher = environment.launch({**_WORKER, **until_then})
    until(lambda: len(asked(environment, "/query/task/log")) > 2)
    environment.server.logs = True
    file.touch()
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher) == ["up", "end"]


def test_a_task_that_hai_does_not_know_for_a_moment_is_not_lost(environment, gate):
    file, until_then = gate
    launcher = environment.launch({**_WORKER, **until_then})
    launcher.until(State.RUNNING)
    with environment.platform.lock:
        known = list(environment.platform.tasks)
        environment.platform.tasks.clear()
    before = len(asked(environment, "/query/task"))
    until(lambda: len(asked(environment, "/query/task")) > before + 1)
    with environment.platform.lock:
        environment.platform.tasks.extend(known)
    file.touch()
    launcher.ends(0, State.SUCCEEDED)


def test_a_task_that_hai_has_forgotten_is_lost(environment):
    launcher = environment.launch({**_WORKER, **_LONG})
    launcher.until(State.RUNNING)
    manager = environment.platform.manager(environment.newest())
    environment.platform.tasks.clear()
    launcher.ends(13, State.LOST, "Deleted")
    manager.end()


@pytest.mark.parametrize("status", [404, 408, 401, 403])
def test_a_proxy_or_a_token_that_fails_for_a_moment(environment, gate, status):
    file, until_then = gate
    launcher = environment.launch({**_WORKER, **until_then})
    launcher.until(State.RUNNING)
    environment.server.statuses = [status] * 3
    until(lambda: not environment.server.statuses)
    file.touch()
    launcher.ends(0, State.SUCCEEDED)
    assert texts(launcher) == ["up", "end"]


@pytest.mark.parametrize("status", [404, 408])
def test_a_proxy_that_fails_while_a_task_is_created(environment, system, status):
    assert system.attempt("run", "task") == 0
    environment.server.statuses = [status]
    begun(system)
    assert len(environment.tasks()) == 1
    system.clean_up(Identity(run="run", task="end"), "run", None)


@pytest.mark.parametrize("status", [404, 401, 403])
def test_a_task_that_can_no_longer_be_followed_goes_on(environment, system, monkeypatch, status):
    monkeypatch.setattr("tfsteps.platforms.hai.job.PATIENCE_SECONDS", 3.0)
    handle = begun(system)
    events = handle.events()
    until(lambda: next(events) and environment.pods())
    environment.server.statuses = [status] * 1000
    with pytest.raises(LaunchError, match="was not stopped") as error:
        list(events)
    assert error.value.retryable
    assert environment.pods() == 1
    environment.server.statuses = []
    system.clean_up(Identity(run="run", task="end"), "run", None)


# --- how often it asks


def asked(environment, path=""):
    """Return when something was asked for, or anything."""
    return [at for request_path, at in environment.server.requests if path in ("", request_path)]


def test_a_quiet_job_is_asked_for_seldom_and_its_end_is_seen_soon(environment):
    launcher = environment.launch({**_WORKERS, **sh("sleep 50")})
    launcher.ends(0, State.SUCCEEDED)
    ended = environment.newest().end_at
    looks = asked(environment, "/query/task")
    assert len([at for at in looks if at > ended]) < 2, "the first look after the end tells of it"
    pauses = [after - before for before, after in itertools.pairwise(looks) if after > ended - 20]
    assert statistics.median(pauses) < 6, "a machine that stands still makes some longer"
    per_hour = len([at for at in asked(environment) if ended - 15 < at < ended]) * 3600 / 15
    print(f"{per_hour:.0f} requests an hour, the end seen after {launcher.status.ended - ended:.1f} s")
    assert per_hour < 1600


def test_launched_by_one_step_and_waited_for_by_another(environment, system, monkeypatch, tmp_path):
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "home"))
    fields = {"name": "case", **_WORKERS, **_SHORT, "working_dir": "/tmp", "deadlines": {"total": "1m"}}
    job = spec.from_plain(fields, "test", {"hai": HaiOptions})
    first = lifecycle.begin(job, Identity(run="run", task="task"), system, base_dir=tmp_path)
    assert (first.job, first.uid) == (environment.newest().name, environment.newest().chain_id)
    last = lifecycle.resume(job, first, hai.system())
    assert last.state is State.SUCCEEDED
    assert [replica.state for replica in last.replicas] == [ReplicaState.SUCCEEDED] * 2


# --- in a pod of a pipeline


@pytest.fixture
def pod(system, monkeypatch):
    """Return the pod that the launcher is in, as its cluster tells of it."""
    owner = {"name": "wf", "uid": "uid"}
    pipeline = types.SimpleNamespace(owner=owner, step="wf.fit", terminating=NO, warnings=[], failure="")
    pod = types.SimpleNamespace(namespace="default", pipeline=pipeline, gone=NO, follows=YES, warnings=[], unread="")
    pod.is_taken_away, pod.followed = lambda _api, _since: pod.gone, lambda: pod.follows
    pod.retry_read, pod.grace_seconds, pod.namespace_uid = lambda _api: None, 25.0, lambda: "uid-of-default"
    pod.watch_deletion = lambda _begins: contextlib.nullcontext()
    system.__dict__["_host"] = pod
    monkeypatch.setattr("tfsteps.kube.access.find", lambda: Access("http://127.0.0.1:1", "", None, str, "nowhere"))
    return pod


def case(command=_LONG):
    return spec.from_plain({"name": "case", **_WORKER, **command, "working_dir": "/tmp"}, "test", {"hai": HaiOptions})


def begun(system, command=_LONG):
    job = case(command)
    identity = Identity(run="run", task="task", attempt=system.attempt("run", "task"))
    return system.start(job, identity, system.output_paths(job, identity, pathlib.Path()))


def test_an_evicted_launcher_leaves_the_task_to_the_next_one(environment, system, pod):
    handle = begun(system)
    pod.gone = YES
    handle.stop(Cause.CANCELLED)
    with pytest.raises(LaunchError, match="the next attempt adopts it") as error:
        list(handle.events())
    assert error.value.retryable
    assert system.attempt("run", "task") == 0
    assert begun(system).uid == handle.uid
    assert len(environment.platform.unfinished()) == 1


def test_an_evicted_launcher_that_no_pod_follows_stops_the_task(environment, system, pod):
    handle = begun(system)
    pod.gone, pod.follows = YES, NO
    handle.stop(Cause.CANCELLED)
    assert [event for event in handle.events() if isinstance(event, JobChanged)][-1].state is State.CANCELLED


def test_a_task_whose_launcher_cannot_find_out_why_it_is_stopped_continues(environment, system, pod):
    handle = begun(system)
    pod.gone, handle._stop._grace_seconds = unknown("HTTP 500"), 1.5
    handle.stop(Cause.CANCELLED)
    with pytest.raises(LaunchError, match=r"is not known \(HTTP 500\): task .* was not stopped") as error:
        list(handle.events())
    assert error.value.retryable
    assert len(environment.platform.unfinished()) == 1


def test_the_end_of_the_workflow_ends_the_task(environment, system, pod):
    handle = begun(system)
    pod.pipeline.terminating = YES
    assert [event for event in handle.events() if isinstance(event, JobChanged)][-1].state is State.CANCELLED
    until(environment.gone)
    assert system.attempt("run", "task") == 1


def test_a_failure_is_reported_once_and_the_next_launcher_makes_a_new_attempt(environment, system, pod):
    handle = begun(system, sh("exit 3"))
    assert [event for event in handle.events() if isinstance(event, JobChanged)][-1].state is State.FAILED
    assert system.attempt("run", "task") == 0, "its launcher may have been killed before"
    system.note(case(), handle.name, handle.uid, JobNote.REPORTED)
    assert system.attempt("run", "task") == 1


def test_a_finalizer_leaves_what_a_wait_step_will_follow(environment, system, pod):
    handle, finalizer = begun(system), Identity(run="run", task="cleanup")
    pod.pipeline.cleans_up_after = lambda step, detached: known(step == "wf.fit" and not detached)
    system.note(case(), handle.name, handle.uid, JobNote.DETACHED)
    assert system.clean_up(finalizer, "siblings", None) == []
    expected, pod.pipeline.cleans_up_after = pod.pipeline.cleans_up_after, lambda *_, **__: unknown("HTTP 403")
    with pytest.raises(LaunchError, match=r"was left: whether its step has ended is not known \(HTTP 403\)"):
        system.clean_up(finalizer, "siblings", None)
    pod.pipeline.cleans_up_after = expected
    pod.pipeline.step = "wf.wait, (0:a)"
    system.note(case(), handle.name, handle.uid, JobNote.FOLLOWED)
    assert system.clean_up(finalizer, "siblings", None) == []
    pod.pipeline.cleans_up_after = lambda step, detached: known(step == pod.pipeline.step and not detached)
    assert system.clean_up(finalizer, "siblings", None) == [handle.name]
