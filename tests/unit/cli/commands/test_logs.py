"""`tfsteps logs`: every line once, in order, of the replicas that were asked for."""

import datetime as dt
import signal
import subprocess
import threading
import time

import pytest

from tests.support.log_lines import log_line
from tests.unit.cli.command import COMMAND, refused, said
from tests.unit.cli.statuses import append, saved, status
from tfsteps.runs.events import State
from tfsteps.runs.status import ReplicaStatus

LINES = [("worker-0", b"a"), ("worker-1", b"b"), ("worker-10", b"c"), ("ps-0", b"d"), ("worker-1", b"e")]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ["[worker-0] a", "[worker-1] b", "[worker-10] c", "[ps-0] d", "[worker-1] e"]),
        (("--role", "worker"), ["[worker-0] a", "[worker-1] b", "[worker-10] c", "[worker-1] e"]),
        (("--role", "worker", "--index", 1), ["[worker-1] b", "[worker-1] e"]),
        (("--tail", 2), ["[ps-0] d", "[worker-1] e"]),
        (("--tail", 1, "--role", "ps"), ["[ps-0] d"]),
        (("--tail", 0), []),
        (("--tail", 99, "--role", "ps"), ["[ps-0] d"]),
    ],
)
def test_lines_are_chosen(options, shown):
    listed = [ReplicaStatus(role=role, index=i) for role, i in [*(("worker", i) for i in range(11)), ("ps", 0)]]
    saved(*LINES, state=State.SUCCEEDED, replicas=listed)
    assert said("logs", "latest", *options) == shown


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--index", 1), "--index 1 needs the role that it counts in; add --role worker, for example"),
        (
            ("--role", "worker", "--index", 9),
            "--role worker --index 9: there is no such replica; the run has worker-0, worker-1",
        ),
        (("--role", "chief"), "--role chief: there is no such replica; the run has worker-0, worker-1"),
        (("--role", "wroker"), "--role 'wroker' is unknown: use one of chief, worker, ps, evaluator"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(options, answer):
    saved(*LINES, state=State.SUCCEEDED)
    assert refused("logs", "latest", *options) == f"error: {answer}\n"


def test_timestamps_are_local_and_name_their_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        saved(("worker-0", b"a"), state=State.SUCCEEDED)
        (line,) = said("logs", "latest", "--timestamps")
    finally:
        monkeypatch.undo()
        time.tzset()
    stamp, rest = line.split(" ", 1)
    assert rest == "[worker-0] a"
    assert stamp.endswith(".500+05:30")
    assert dt.datetime.fromisoformat(stamp).timestamp() == 1_795_000_000.5


def test_lines_of_several_tasks_name_their_task():
    saved(("worker-0", b"a"), task="prepare", state=State.SUCCEEDED, created=1.0)
    saved(("worker-0", b"b"), task="train", state=State.SUCCEEDED, created=2.0)
    assert said("logs", "latest") == ["[prepare/worker-0] a", "[train/worker-0] b"]
    assert said("logs", "latest", "--task", "train") == ["[worker-0] b"]


def test_an_older_attempt_can_be_read():
    saved(("worker-0", b"first try"), attempt=0, state=State.FAILED)
    saved(("worker-0", b"second try"), attempt=1, state=State.SUCCEEDED)
    assert said("logs", "latest") == ["[worker-0] second try"]
    assert said("logs", "latest", "--attempt", 0) == ["[worker-0] first try"]


def test_follow_waits_for_the_rest_of_a_line_and_for_the_end():
    attempt, lock = saved(("worker-0", b"one"), hold=True)
    whole = log_line(1_795_000_000.5, "worker-0", b"two parts")

    def go_on():
        with attempt.log.open("ab", buffering=0) as file:
            file.write(whole[:-5])
            time.sleep(0.5)
            file.write(whole[-5:])
        append(attempt, ("worker-0", b"last"))
        attempt.write(status(state=State.SUCCEEDED))
        lock.close()

    thread = threading.Timer(0.3, go_on)
    begun = time.monotonic()
    thread.start()
    lines = said("logs", "latest", "--follow")
    thread.join()
    assert lines == ["[worker-0] one", "[worker-0] two parts", "[worker-0] last"]
    assert time.monotonic() - begun > 0.7


def test_without_follow_a_line_that_is_still_being_written_is_not_shown():
    attempt, lock = saved(("worker-0", b"one"), hold=True)
    with attempt.log.open("ab") as file:
        file.write(log_line(1.0, "worker-0", b"half")[:-1])
    with lock:
        assert said("logs", "latest") == ["[worker-0] one"]


def test_follow_of_an_ended_job_ends_at_once():
    saved(*LINES, state=State.FAILED)
    assert len(said("logs", "latest", "--follow")) == len(LINES)


@pytest.mark.parametrize(("options", "count"), [((), 200_000), (("--tail", "3"), 3)])
def test_a_long_log_streams_in_little_memory(options, count):
    attempt = saved(state=State.SUCCEEDED)
    line = log_line(1_795_000_000.5, "worker-0", b"x" * 500)
    with attempt.log.open("wb") as file:
        for _ in range(20):
            file.write(line * 10_000)
    limited = 'ulimit -v 100000; exec "$0" "$@"'  # KiB: less than the log, more than the command needs
    with subprocess.Popen(
        ["sh", "-c", limited, COMMAND, "logs", "latest", *options], stdout=subprocess.PIPE
    ) as process:
        assert sum(1 for _ in process.stdout) == count
    assert process.returncode == 0


def test_a_line_of_any_bytes_comes_out_as_it_was():
    foreign = bytes(range(32, 256))
    saved(("worker-0", foreign), ("worker-0", b""), state=State.SUCCEEDED)
    shown = subprocess.run([COMMAND, "logs", "latest"], capture_output=True, check=True).stdout
    assert shown == b"[worker-0] " + foreign + b"\n[worker-0] \n"


def test_a_reader_that_has_seen_enough_ends_it_quietly():
    saved(*[("worker-0", b"y" * 100)] * 100_000, state=State.SUCCEEDED)
    with subprocess.Popen([COMMAND, "logs", "latest"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"[worker-0] y")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_ctrl_c_ends_follow_quietly():
    _, lock = saved(("worker-0", b"one"), hold=True)
    command = [COMMAND, "logs", "latest", "--follow"]
    with lock, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGINT
