"""`tfsteps logs`: every line once, in order, of the replicas that were asked for."""

import datetime as dt
import signal
import subprocess
import threading
import time

import pytest

from tests.support.log_lines import log_line
from tests.support.processes import started
from tests.unit.cli.command import COMMAND, on_terminal, output_lines, refused, tfsteps
from tests.unit.cli.statuses import append, saved, status
from tfsteps.runs.events import State
from tfsteps.runs.status import Incarnation, ReplicaStatus

LINES = [("worker-0", b"a"), ("worker-1", b"b"), ("worker-10", b"c"), ("ps-0", b"d"), ("worker-1", b"e")]
ELEVEN = [ReplicaStatus(role=role, index=i) for role, i in [*(("worker", i) for i in range(11)), ("ps", 0)]]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ["[worker-0] a", "[worker-1] b", "[worker-10] c", "[ps-0] d", "[worker-1] e"]),
        (("worker",), ["[worker-0] a", "[worker-1] b", "[worker-10] c", "[worker-1] e"]),
        (("worker-1",), ["[worker-1] b", "[worker-1] e"]),
        (("--tail", 2), ["[ps-0] d", "[worker-1] e"]),
        (("--tail", 1, "ps"), ["[ps-0] d"]),
        (("--tail", 0), []),
        (("ps", "--tail", 99), ["[ps-0] d"]),
        (("ps", "--tail", 10**9), ["[ps-0] d"]),
    ],
)
def test_lines_are_chosen(options, shown):
    saved(*LINES, state=State.SUCCEEDED, replicas=ELEVEN)
    assert output_lines("logs", "latest", *options) == shown


def test_more_lines_than_can_be_counted_are_refused():
    saved(*LINES, state=State.SUCCEEDED, replicas=ELEVEN)
    assert f"'--tail': '{10**20}' is not a whole number from 0 to 1000000000; write one" in refused(
        "logs", "latest", "--tail", 10**20
    )


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("worker-9",), "run r1: replica 'worker-9' is unknown; it has worker-0, worker-1"),
        (("worker", "chief"), "run r1: replica 'chief' is unknown; it has worker-0, worker-1"),
        (("",), "run r1: replica '' is unknown; it has worker-0, worker-1"),
        (("worker-1/",), "run r1: worker-1 has no container '' beside its program; there is worker-1/proxy"),
        (("worker/init",), "run r1: worker has no container 'init' beside its program; there is worker-1/proxy"),
        (
            ("worker-0/proxy",),
            "run r1: worker-0 has no container 'proxy' beside its program; there is no other container",
        ),
        (("--task", "mnist", "--task", "trian"), "run r1: task 'trian' is unknown; it has mnist"),
        (
            ("--grep", "a(b"),
            r"--grep 'a(b' is not a regular expression: missing ), unterminated subpattern at character 2",
        ),
        (
            ("--grep", "a{9999999999}"),
            "--grep 'a{9999999999}' is not a regular expression: the repetition number is too",
        ),
        (("-i",), "--ignore-case is about --grep; add --grep, or leave it out"),
        (
            ("--since", "soon"),
            "--since 'soon' is not a time: write a duration, 2h or 1d12h, or a time, 2026-11-21T07:30",
        ),
    ],
)
def test_a_choice_that_means_nothing_is_refused(options, answer):
    saved(("worker-0", b"a"), ("worker-1/proxy", b"b"), state=State.SUCCEEDED)
    assert refused("logs", "latest", *options).startswith(f"error: {answer}")


def test_replicas_roles_and_containers_are_chosen_together():
    saved(*LINES, ("worker-1/proxy", b"f"), ("worker-0/proxy", b"g"), state=State.SUCCEEDED, replicas=ELEVEN)
    assert output_lines("logs", "r1", "ps", "worker-10") == ["[worker-10] c", "[ps-0] d"]
    assert output_lines("logs", "r1", "worker-1") == ["[worker-1] b", "[worker-1] e", "[worker-1/proxy] f"]
    assert output_lines("logs", "r1", "worker/proxy") == ["[worker-1/proxy] f", "[worker-0/proxy] g"]
    assert output_lines("logs", "r1", "worker-0/proxy", "ps-0") == ["[ps-0] d", "[worker-0/proxy] g"]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--grep", "LOSS"), ["[worker-0] LOSS nan"]),
        (("--grep", "loss", "-i", "--tail", 2), ["[worker-0] LOSS nan", "[worker-1] \x1b[32mloss\x1b[0m 0.1 ä"]),
        (("--grep", "^loss .* ä$"), ["[worker-1] \x1b[32mloss\x1b[0m 0.1 ä"]),
        (("--grep", "^step 2$"), ["[worker-1] step 1\rstep 2"]),
        (("worker-0", "--grep", "loss|step", "-i"), ["[worker-0] loss 0.5", "[worker-0] LOSS nan"]),
    ],
)
def test_grep_finds_what_a_terminal_shows(options, shown):
    lines = [("worker-0", b"loss 0.5"), ("worker-0", b"LOSS nan"), ("worker-0", b"saved")]
    colour = "\x1b[32mloss\x1b[0m 0.1 ä".encode()
    saved(*lines, ("worker-1", b"step 1\rstep 2"), ("worker-1", colour), state=State.SUCCEEDED)
    code, out, err = tfsteps("logs", "r1", *options)
    assert (code, out.split("\n")[:-1], err) == (0, shown, "")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("-C", 1), ["0 b", "0 FOUND", "0 c", "0 e", "0 FOUND again", "0 FOUND", "0 f"]),
        (("-C", 2), ["0 a", "0 b", "0 FOUND", "0 c", "0 d", "0 e", "0 FOUND again", "0 FOUND", "0 f", "0 g"]),
        (("-C", 1, "worker-0", "--tail", 2), ["0 FOUND", "0 f"]),
        (("-C", 0), ["0 FOUND", "0 FOUND again", "0 FOUND"]),
    ],
)
def test_the_lines_around_one_are_those_of_its_replica(options, shown):
    texts = [
        "0 a",
        "1 x",
        "0 b",
        "1 y",
        "0 FOUND",
        "1 z",
        "0 c",
        "0 d",
        "0 e",
        "0 FOUND again",
        "0 FOUND",
        "0 f",
        "0 g",
    ]
    saved(*((f"worker-{text[0]}", text[2:].encode()) for text in texts), state=State.SUCCEEDED)
    assert output_lines("logs", "r1", "--grep", "FOUND", *options) == [
        f"[worker-{line[0]}] {line[2:]}" for line in shown
    ]


@pytest.mark.parametrize(("since", "shown"), [("30s", ["b", "c"]), ("90s", ["a", "b", "c"]), ("now", ["b", "c"])])
def test_since_leaves_out_earlier_lines(since, shown):
    now = time.time()
    attempt = saved(state=State.SUCCEEDED)
    with attempt.log.open("ab") as file:
        file.writelines(log_line(at, "worker-0", text) for at, text in ((now - 60, b"a"), (now, b"b"), (now + 9, b"c")))
    since = dt.datetime.fromtimestamp(now, dt.UTC).isoformat() if since == "now" else since
    assert output_lines("logs", "r1", "--since", since) == [f"[worker-0] {text}" for text in shown]


@pytest.mark.parametrize(
    ("options", "note"),
    [
        (("--since", "5m", "worker-1"), "run r1: no log lines of worker-1 since 5m\n"),
        (("--grep", "x\x1b"), "run r1: no log lines that match x\n"),
        (("--tail", 0), ""),
    ],
)
def test_an_empty_answer_is_explained(options, note):
    old = log_line(time.time() - 600, "worker-1", b"old")
    saved(state=State.SUCCEEDED).log.write_bytes(old)
    assert tfsteps("logs", "r1", *options) == (0, "", note)


def restarted(*spans):
    """Return a worker whose incarnations started and ended then."""
    incarnations = [
        Incarnation(started=start, ended=end, number=number, place="pid 7 port 5000")
        for number, (start, end) in enumerate(spans)
    ]
    return ReplicaStatus(role="worker", index=0, incarnations=incarnations)


def test_each_incarnation_of_a_replica_is_marked_where_it_begins():
    attempt = saved(state=State.SUCCEEDED, system="local", replicas=[restarted((1, 3), (4, 6), (6.5, 9)), *ELEVEN[1:2]])
    lines = [(2, b"a"), (3, b"b"), (5, b"c"), (5.5, b"d"), (7, b"e")]
    with attempt.log.open("ab") as file:
        file.writelines(log_line(at, "worker-0", text) for at, text in lines)
        file.write(log_line(8, "worker-1", b"other"))
    first, second = "--- worker-0, restart 1 ---", "--- worker-0, restart 2 ---"
    all_lines = ["[worker-0] a", "[worker-0] b", first, "[worker-0] c", "[worker-0] d", second, "[worker-0] e"]
    assert output_lines("logs", "r1") == [*all_lines, "[worker-1] other"]
    assert output_lines("logs", "r1", "--grep", "a|^e") == ["[worker-0] a", second, "[worker-0] e"]
    assert output_lines("logs", "r1", "--tail", 2) == [second, "[worker-0] e", "[worker-1] other"]
    mark, line = output_lines("logs", "r1", "worker-0", "--tail", 1, "--timestamps")
    assert mark.split(" ", 1) == [line.split(" ", 1)[0], second]


def test_follow_marks_an_incarnation_that_begins_meanwhile():
    now = time.time()
    attempt, lock = saved(system="local", replicas=[restarted((now - 9, None))], hold=True)

    def restart():
        begun = time.time()
        attempt.write(status(system="local", replicas=[restarted((now - 9, begun - 0.2), (begun - 0.1, None))]))
        with attempt.log.open("ab") as file:
            file.write(log_line(begun, "worker-0", b"again"))
        lock.close()

    with attempt.log.open("ab") as file:
        file.write(log_line(now - 5, "worker-0", b"first"))
    thread = threading.Timer(0.5, restart)
    thread.start()
    assert output_lines("logs", "r1", "--follow") == [
        "[worker-0] first",
        "--- worker-0, restart 1 ---",
        "[worker-0] again",
    ]
    thread.join()


def test_timestamps_are_local_and_name_their_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        saved(("worker-0", b"a"), state=State.SUCCEEDED)
        (line,) = output_lines("logs", "latest", "--timestamps")
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
    assert output_lines("logs", "latest") == ["[prepare/worker-0] a", "[train/worker-0] b"]
    assert output_lines("logs", "latest", "--task", "train") == ["[worker-0] b"]
    saved(("worker-0", b"c"), task="score", state=State.SUCCEEDED, created=3.0)
    assert output_lines("logs", "latest", "--task", "score", "--task", "prepare") == [
        "[prepare/worker-0] a",
        "[score/worker-0] c",
    ]


def test_an_older_attempt_can_be_read():
    saved(("worker-0", b"first try"), attempt=0, state=State.FAILED)
    saved(("worker-0", b"second try"), attempt=1, state=State.SUCCEEDED)
    assert output_lines("logs", "latest") == ["[worker-0] second try"]
    assert output_lines("logs", "latest", "--attempt", 0) == ["[worker-0] first try"]


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
    lines = output_lines("logs", "latest", "--follow")
    thread.join()
    assert lines == ["[worker-0] one", "[worker-0] two parts", "[worker-0] last"]
    assert time.monotonic() - begun > 0.7


def test_without_follow_a_line_that_is_still_being_written_is_not_shown():
    attempt, lock = saved(("worker-0", b"one"), hold=True)
    with attempt.log.open("ab") as file:
        file.write(log_line(1.0, "worker-0", b"half")[:-1])
    with lock:
        assert output_lines("logs", "latest") == ["[worker-0] one"]


def test_follow_of_an_ended_job_ends_at_once():
    saved(*LINES, state=State.FAILED)
    assert len(output_lines("logs", "latest", "--follow")) == len(LINES)


@pytest.mark.parametrize(("options", "count"), [((), 200_000), (("--tail", "3"), 3)])
def test_a_long_log_streams_in_little_memory(options, count):
    attempt = saved(state=State.SUCCEEDED)
    line = log_line(1_795_000_000.5, "worker-0", b"x" * 500)
    with attempt.log.open("wb") as file:
        for _ in range(20):
            file.write(line * 10_000)
    limited = 'ulimit -v 100000; exec "$0" "$@"'  # KiB: less than the log, more than the command needs
    with started(["sh", "-c", limited, COMMAND, "logs", "latest", *options], stdout=subprocess.PIPE) as process:
        assert sum(1 for _ in process.stdout) == count
    assert process.returncode == 0


def test_a_line_of_any_bytes_comes_out_as_it_was():
    foreign = bytes(range(32, 256))
    saved(("worker-0", foreign), ("worker-0", b""), state=State.SUCCEEDED)
    shown = subprocess.run([COMMAND, "logs", "latest"], capture_output=True, check=True).stdout
    assert shown == b"[worker-0] " + foreign + b"\n[worker-0] \n"


def test_on_a_terminal_control_characters_are_shown_and_not_executed():
    title, bar = b"\x1b]0;owned\x07\x1b[2Jx\ty", b"10%\r20%\r"
    saved(("worker-0", title), ("worker-0", bar), ("worker-1", b"\x1b[31mred\x9b5m\xff"), state=State.SUCCEEDED)
    assert on_terminal("logs", "r1").replace(b"\r\n", b"\n").decode() == (
        "[worker-0] \\x1b]0;owned\\x07\\x1b[2Jx\ty\n[worker-0] 20%\n[worker-1] \x1b[31mred\\x9b5m\\xff\x1b[0m\n"
    )
    assert b"\x1b" not in on_terminal("logs", "r1", "--grep", "owned", "--timestamps")


def test_a_reader_that_has_seen_enough_ends_it_quietly():
    saved(*[("worker-0", b"y" * 100)] * 100_000, state=State.SUCCEEDED)
    with started([COMMAND, "logs", "latest"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"[worker-0] y")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_ctrl_c_ends_follow_quietly():
    _, lock = saved(("worker-0", b"one"), hold=True)
    command = [COMMAND, "logs", "latest", "--follow"]
    with lock, started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGINT
