"""Agents and coordinator as processes, with the platform's environment and no platform."""

import contextlib
import itertools
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time
import types

import pytest

from tests.hai import pods
from tests.hai.platform import free_port
from tfsteps import spec
from tfsteps.platforms.hai import schema
from tfsteps.platforms.hai.options import HaiOptions
from tfsteps.platforms.hai.ranks.wire import _GREETING_SECONDS, MARK
from tfsteps.runs.identity import Identity
from tfsteps.runs.output_paths import OutputPaths

_TASK = {"CHAIN_ID": "chain", "MARSV2_TASK_ID": "7"}
_NOTHING = types.MappingProxyType({})
_IPC = ["unshare", "--ipc"] if pods.may_isolate() else []


@pytest.fixture
def start():
    """Return a function that starts all ranks of a job, and gives their processes."""
    started = []

    def start(ranks=None, more=_NOTHING, shell="", **fields):
        options = {"grace": "1s", "finish": "1s", "watchdog_time": "3s"}
        plain = {"name": "case", **fields, "systems": {"hai": options}}
        job = spec.from_plain(plain, "test", {"hai": HaiOptions})
        paths = OutputPaths(output="out", model="model", logs="logs", base_dir=pathlib.Path())
        body = schema.render(job, Identity(run="run", task="task"), paths, "")
        variables = {name: shlex.split(value)[0] for name, value in body["spec"]["environments"].items()}
        start.secret = variables["TFSTEPS_SECRET"]
        command = ["bash", "-c", f"{shell}exec {sys.executable} {body['spec']['parameters']}"]
        port = str(free_port())
        env = {"PATH": os.environ["PATH"], "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **_TASK, **variables}
        started.extend(
            subprocess.Popen(
                [*_IPC, *command],
                env={**env, "RANK": str(rank), **more},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in (ranks or range(body["resource"]["node_count"]))
        )
        return started, int(port)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def ends(processes):
    """Return the exit codes of all ranks and what they printed for the launcher."""
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    reports = [[json.loads(line.partition(MARK)[2]) for line in text.splitlines() if MARK in line] for text in outputs]
    return [process.returncode for process in processes], outputs, reports


def until_said(process, event, times=1):
    """Read what a rank tells the launcher until it has told of an event so many times; return all that it told."""
    reports = []
    while [item["event"] for item in reports].count(event) < times:
        line = process.stdout.readline()
        assert line, f"it ended, and told {reports}"
        reports += [json.loads(line.partition(MARK)[2])] if MARK in line else []
    return reports


def test_every_rank_gets_the_same_cluster_and_a_place_of_its_own(start):
    roles = {"chief": {}, "worker": {"replicas": 2}, "ps": {}, "evaluator": {}}
    done = {"success": "all_workers", "command": ["sh", "-c", "sleep 1; echo $TF_CONFIG"]}
    codes, outputs, _ = ends(start(roles=roles, **done)[0])
    assert codes == [0] * 5
    configs = [json.loads(next(line for line in text.splitlines() if line.startswith("{"))) for text in outputs[:3]]
    assert len({json.dumps(config["cluster"]) for config in configs}) == 1
    assert {role: len(hosts) for role, hosts in configs[0]["cluster"].items()} == {"chief": 1, "worker": 2, "ps": 1}
    ports = [host for hosts in configs[0]["cluster"].values() for host in hosts]
    assert len(set(ports)) == 4
    tasks = [config["task"] for config in configs]
    assert tasks == [{"type": "chief", "index": 0}, {"type": "worker", "index": 0}, {"type": "worker", "index": 1}]
    assert {config["environment"] for config in configs} == {"cloud"}


def test_references_are_expanded_as_on_kubernetes(start):
    env = {"BASE": "/$(TFSTEPS_TASK)", "MODEL": "$(BASE)/m"}
    worker = {"env": {"OF_ROLE": "$(MODEL)/$(TFSTEPS_ROLE)"}}
    command = ["sh", "-c", 'echo "$@ $OF_ROLE"', "x", "$(OF_ROLE)", "$(TFSTEPS_INDEX)", "$$5", "$(PATH)"]
    codes, outputs, _ = ends(start(env=env, roles={"worker": worker}, command=command)[0])
    assert codes == [0]
    assert "/task/m/worker 0 $5 $(PATH) /task/m/worker" in outputs[0].splitlines()


@pytest.fixture
def rank_0(start):
    """Return rank 0 of two, a function that connects to it, and a greeting that it takes."""
    (process,), port = start(ranks=[0], roles={"worker": {"replicas": 2}}, command=["sleep", "60"])
    until_said(process, "begun")
    time.sleep(1)  # in which it joins itself
    good = {"rank": 1, "secret": start.secret, "task": ["chain", "7"], "address": "127.0.0.1:1"}
    return process, lambda: socket.create_connection(("127.0.0.1", port), 60), good


def lines(connection, count):
    """Return the next messages of a connection; fewer if it is closed."""
    with connection.makefile() as file:
        return [json.loads(line) for line in itertools.islice(file, count)]


def greeted(connect, greeting):
    connection = connect()
    connection.sendall(json.dumps(greeting).encode() + b"\n")
    return connection


def closed(connection):
    """Tell whether the other side closes a connection without sending anything."""
    with connection, contextlib.suppress(ConnectionError):
        return connection.recv(100) == b""
    return True


def is_taken_in(connect, greeting):
    """Tell whether the rank that is missing is welcomed, and started with all others."""
    with greeted(connect, greeting) as connection:
        welcome, start = lines(connection, 2)
    return welcome == {"welcome": True} and len(start["start"]["worker"]) == 2


_WRONG = [
    {"task": ["chain", "6"]},
    {"secret": "guessed"},
    {"secret": None},
    {"secret": "\ud800é"},
    {"rank": 2},
    {"rank": -1},
    {"rank": True},
    {"rank": [1]},
    {"rank": 1e999},
    {"address": None},
    {"address": ["127.0.0.1:1"]},
]
_GARBAGE = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"[1]\n",
    b"{}\n",
    b"\n",
    b"\xff\xfe\x00\n",
    b"[" * 60_000 + b"\n",
    b"[" * 4000 + b"\n",
    b"x" * 20_000_000,
    b'{"ended": "no", "stopped": 1}\n',
    b'{"ended": 0}\n',
    b'{"rank": 1}\n',
]


def test_who_greets_wrongly_is_not_let_in(rank_0):
    process, connect, good = rank_0
    for wrong in _WRONG:
        assert closed(greeted(connect, {**good, **wrong})), wrong
    assert is_taken_in(connect, good)
    assert process.poll() is None


@pytest.mark.parametrize("member", [False, True], ids=["stranger", "rank"])
def test_garbage_closes_its_connection_and_nothing_else(rank_0, member):
    process, connect, good = rank_0
    began = time.monotonic()
    for garbage in _GARBAGE:
        with greeted(connect, good) if member else connect() as connection, contextlib.suppress(ConnectionError):
            if member:
                assert len(lines(connection, 2)) == 2
            connection.sendall(garbage)
            assert connection.recv(100) == b"", garbage[:20]
    assert time.monotonic() - began < _GREETING_SECONDS, "each was closed because of what it sent"
    assert is_taken_in(connect, good), "a rank whose connection broke joins again"
    assert process.poll() is None


def test_a_rank_whose_connection_broke_for_itself_alone_joins_again(rank_0):
    _, connect, good = rank_0
    with greeted(connect, good) as half_open:
        assert len(lines(half_open, 2)) == 2
        assert is_taken_in(connect, good)
        assert closed(half_open)


def test_idle_connections_neither_end_the_coordinator_nor_keep_ranks_out(rank_0):
    process, connect, good = rank_0
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect()) for _ in range(1100)]
        assert is_taken_in(connect, good)
        assert closed(idle[0])
        assert time.monotonic() - began < _GREETING_SECONDS, "it was closed because there are too many"
        assert closed(idle[-1])
        assert time.monotonic() - began < 4 * _GREETING_SECONDS
    assert process.poll() is None


def test_the_coordinator_goes_on_where_file_descriptors_are_few(start):
    ranks = 60
    (process,), port = start(
        ranks=[0], shell="ulimit -n 64; ", roles={"worker": {"replicas": ranks}}, command=["sleep", "60"]
    )
    until_said(process, "begun")
    time.sleep(1)

    def connect():
        return socket.create_connection(("127.0.0.1", port), 60)

    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connect())
        others = []
        for rank in range(1, ranks):
            good = {"rank": rank, "secret": start.secret, "task": ["chain", "7"], "address": "127.0.0.1:1"}
            others.append(stack.enter_context(greeted(connect, good)))
        assert lines(others[0], 1) == [{"welcome": True}]
        time.sleep(1)  # in which it can accept no more
        for other in others[: ranks // 2]:
            other.close()
        assert lines(others[-1], 1) == [{"welcome": True}]
        assert process.poll() is None


def test_a_rank_tries_again_until_it_has_found_the_coordinator(start):
    """Another program may have the address of rank 0, or a connection may break before the welcome."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        elsewhere = {"MASTER_PORT": str(server.getsockname()[1])}
        (process,), _ = start(ranks=[1], more=elsewhere, roles={"worker": {"replicas": 2}}, command=["true"])
        greetings = []
        for answer in (b"", b"HTTP/1.1 400\r\n\r\n", b"[" * 60_000 + b"\n", b"x" * 2_000_000, b'{"exit": 0}\n'):
            with server.accept()[0] as connection, contextlib.suppress(ConnectionError):
                greetings += lines(connection, 1)
                connection.sendall(answer)
        with server.accept()[0] as connection:
            greetings += lines(connection, 1)
            assert len({json.dumps(greeting) for greeting in greetings}) == 1, "its address is the same"
            cluster = {"worker": [greetings[0]["address"]] * 2}
            connection.sendall(b'{"welcome": true}\n' + json.dumps({"start": cluster}).encode() + b"\n")
            assert lines(connection, 1) == [{"ended": 0, "stopped": False}]
            connection.sendall(b"[" * 60_000 + b"\n")
            assert process.wait(60) == 143, "what comes after that is the end of the coordinator"


def test_a_failed_rank_exits_with_its_code_and_rank_0_names_the_rank(start):
    script = "[ $TFSTEPS_INDEX = 1 ] && exit 9; exec sleep 60"
    processes, _ = start(roles={"worker": {"replicas": 2}}, command=["sh", "-c", script])
    assert processes[1].wait(60) == 9
    first = until_said(processes[0], "stopped")  # its program would hold the pipe
    processes[0].kill()  # as the platform does
    (failed,) = [item for item in first if item["event"] == "failed"]
    assert (failed["replica"], failed["reason"]) == ("worker-1", "ReplicaFailed")
    _, _, (second,) = ends(processes[1:])
    assert [item["event"] for item in second] == ["begun", "started", "ended"]


def test_a_missing_program_is_reported(start):
    codes, outputs, _ = ends(start(roles={"worker": {}}, command=["no-such-program"])[0])
    assert codes == [127]
    assert "no-such-program could not be started" in outputs[0]


def test_ranks_end_when_rank_0_is_gone(start):
    processes, _ = start(roles={"worker": {"replicas": 2}}, command=["sleep", "60"])
    until_said(processes[1], "started")
    processes[0].kill()
    assert processes[1].wait(60) == 143


def test_parameter_servers_show_life_before_the_watchdog_takes_them_for_hung(start, tmp_path):
    script = f"[ $TFSTEPS_ROLE = ps ] && exec sleep 60; until [ -e {tmp_path}/end ]; do sleep 0.1; done"
    roles = {"chief": {}, "worker": {}, "ps": {}}
    processes, _ = start(roles=roles, command=["sh", "-c", script])
    until_said(processes[2], "alive", times=2)
    (tmp_path / "end").touch()
    _, _, reports = ends(processes)
    assert not [word for words in reports[:2] for word in words if word["event"] == "alive"]
